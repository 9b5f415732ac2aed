//! Sidecars and captures, as `vectors/README.md` describes them.

use ferrule_wire::capture::Reader;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// One set: a capture and what is known about it.
#[derive(Debug)]
pub struct Set {
    /// `topic/name`.
    pub label: String,
    pub topic: String,
    /// The sidecar.
    pub json: serde_json::Value,
    /// Every frame of the capture: its interface's name and its octets.
    pub capture: Vec<Captured>,
}

/// A captured frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    pub port: String,
    pub octets: Vec<u8>,
}

/// Octets in hexadecimal.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hex(pub Vec<u8>);

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        let digits = text.strip_prefix("0x").unwrap_or(&text).as_bytes();
        let (pairs, rest) = digits.as_chunks::<2>();
        let octet = |p: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(p).ok()?, 16).ok();
        let octets: Option<Vec<u8>> = pairs.iter().map(octet).collect();
        match octets {
            Some(octets) if rest.is_empty() => Ok(Self(octets)),
            _ => Err(serde::de::Error::custom("not octets in hexadecimal")),
        }
    }
}

/// SecY configuration of the capture's maker.
#[derive(Debug, Deserialize)]
pub struct Secy {
    pub cipher: String,
    pub encrypt: bool,
    pub send_sci: bool,
    pub end_station: bool,
    pub scb: bool,
    pub replay: bool,
    pub window: u32,
}

/// A MACsec association.
#[derive(Debug, Deserialize)]
pub struct MacsecSa {
    pub id: String,
    pub sci: Hex,
    pub an: u8,
    pub key: Hex,
    pub salt: Option<Hex>,
    pub ssci: Option<u32>,
}

/// An ESP or AH association.
#[derive(Debug, Deserialize)]
pub struct EspSa {
    pub id: String,
    pub mode: String,
    pub src: std::net::IpAddr,
    pub dst: std::net::IpAddr,
    pub spi: Hex,
    #[serde(default)]
    pub enc: String,
    #[serde(default)]
    pub enc_key: Hex,
    #[serde(default)]
    pub salt: Hex,
    pub auth: String,
    #[serde(default)]
    pub auth_key: Hex,
    pub icv_len: usize,
    pub esn: bool,
    pub window: u32,
    pub encap: Option<[u16; 2]>,
    #[serde(default)]
    pub flags: Vec<String>,
}

/// A protected packet: its frames in the capture, its number, its plaintext.
#[derive(Debug, Deserialize)]
pub struct Frame {
    pub n: Vec<usize>,
    pub sa: String,
    #[serde(alias = "pn", alias = "seq")]
    pub number: u64,
    pub plain: Hex,
}

impl Set {
    /// Reads a sidecar and its capture.
    pub fn read(folder: &Path, path: &Path) -> Result<Self, String> {
        let text = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let json: serde_json::Value =
            serde_json::from_slice(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        let member = |name: &str| {
            let value = json.get(name).and_then(|v| v.as_str());
            value.map(str::to_owned).ok_or(format!("{}: no `{name}`", path.display()))
        };
        let topic = member("topic")?;
        let file = path.with_file_name(member("capture")?);
        let capture = read_capture(&file)?;
        let label = path.strip_prefix(folder).unwrap_or(path).with_extension("");
        let label = label.display().to_string().replace('\\', "/");
        Ok(Self { label, topic, json, capture })
    }

    /// A member of the sidecar.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Result<T, String> {
        let value = self.json.get(name).cloned().unwrap_or(serde_json::Value::Null);
        serde_json::from_value(value).map_err(|e| format!("{}: `{name}`: {e}", self.label))
    }

    /// Protected packets in the set.
    pub fn frame_count(&self) -> usize {
        self.json.get("frames").and_then(|f| f.as_array()).map_or(0, Vec::len)
    }

    /// Frame `n`, counted from 1.
    pub fn frame(&self, n: usize) -> Result<&Captured, String> {
        let frame = n.checked_sub(1).and_then(|i| self.capture.get(i));
        frame.ok_or_else(|| format!("{}: no frame {n} in the capture", self.label))
    }
}

/// Every sidecar below `folder`, in order.
pub fn find(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for path in entries.flatten().map(|e| e.path()) {
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                Some(e) if e == "json" => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

/// Every frame of a capture, with the name of its interface.
fn read_capture(path: &Path) -> Result<Vec<Captured>, String> {
    let why = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let file = fs::File::open(path).map_err(|e| why(&e))?;
    let mut reader = Reader::new(BufReader::new(file)).map_err(|e| why(&e))?;
    let mut frames = Vec::new();
    while let Some(packet) = reader.next().transpose().map_err(|e| why(&e))? {
        if packet.data.len() != packet.original_len as usize {
            return Err(why(&"a frame was cut short by its capture"));
        }
        let name = reader.interfaces().get(packet.interface as usize).map(|i| i.name.clone());
        frames.push(Captured { port: name.unwrap_or_default(), octets: packet.data });
    }
    Ok(frames)
}
