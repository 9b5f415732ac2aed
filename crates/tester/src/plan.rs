//! Plans as files: streams in TOML.
//!
//! ```toml
//! line = "10Gbit/s"
//!
//! [[stream]]
//! name = "voice"
//! from = 0                       # ports in the order of the command line
//! to = 1
//! src_mac = "02:00:00:00:00:01"  # default: that of the port
//! vlan = [10]
//! label = [100, 200]             # top first
//! src = "10.1.0.2"
//! dst = "10.2.0.2"
//! size = "imix"                  # 64, imix, 64:7,570:4,1518:1 or 64-1518/8, with FCS
//! rate = "10kpps"                # or 900Mbit/s, or 80% of the line
//! burst = { frames = 32, rate = "line" }
//! after = "500ms"                # begins so long after the measurement does
//! until = "1s"                   # and ends then
//! phase = "1/2"                  # takes turns with another of its port: second of two
//! vary = [{ field = "dst", count = 256 }, { field = "udp_src", random = 1000, seed = 1 }]
//! ```

use crate::layers::{Datagram, Field, LABELS_MAX, LabelEntry, Layers, VLANS_MAX, VlanTag};
use crate::rate::{Rate, bits_per_second};
use crate::schedule::Burst;
use crate::sizes::Sizes;
use crate::stream::{Filler, Plan, Stream};
use crate::vary::{Change, Vary};
use ferrule_base::{Duration, MacAddr};
use ferrule_wire::vlan::Vid;
use ferrule_wire::{Label, TrafficClass};
use serde::Deserialize;
use std::net::IpAddr;
use std::str::FromStr;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPlan {
    line: Option<String>,
    #[serde(default)]
    stream: Vec<RawStream>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStream {
    name: Option<String>,
    #[serde(default)]
    from: usize,
    #[serde(default = "one")]
    to: usize,
    src_mac: Option<String>,
    dst_mac: Option<String>,
    #[serde(default)]
    vlan: Vec<u16>,
    #[serde(default)]
    priority: u8,
    #[serde(default)]
    label: Vec<u32>,
    label_ttl: Option<u8>,
    src: Option<IpAddr>,
    dst: Option<IpAddr>,
    udp_src: Option<u16>,
    udp_dst: Option<u16>,
    ttl: Option<u8>,
    dscp: Option<u8>,
    /// No IP: an experimental Ethernet type.
    #[serde(default)]
    ethernet_only: bool,
    size: RawSize,
    rate: String,
    burst: Option<RawBurst>,
    frames: Option<u64>,
    #[serde(default)]
    vary: Vec<RawVary>,
    filler: Option<String>,
    after: Option<String>,
    until: Option<String>,
    phase: Option<String>,
    expect_label: Option<Vec<u32>>,
}

const fn one() -> usize {
    1
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawSize {
    Number(usize),
    Text(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBurst {
    frames: u64,
    rate: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawVary {
    field: String,
    /// Index of the tag or label, from outside.
    #[serde(default)]
    index: usize,
    count: Option<u64>,
    #[serde(default = "step")]
    step: u64,
    random: Option<u64>,
    #[serde(default)]
    seed: u64,
}

const fn step() -> u64 {
    1
}

/// Reads a plan. `macs` are the addresses of the ports, which streams have where
/// the file says nothing else.
pub fn read(text: &str, macs: &[MacAddr]) -> Result<Plan, String> {
    let raw: RawPlan = toml::from_str(text).map_err(|e| e.to_string())?;
    let line = match raw.line {
        None => None,
        Some(line) => Some(
            bits_per_second(&line)
                .ok_or_else(|| format!("line: `{line}` is no rate of a line such as 10Gbit/s"))?,
        ),
    };
    if raw.stream.is_empty() {
        return Err("the plan has no [[stream]]".into());
    }
    let streams = raw.stream.into_iter().enumerate().map(|(i, raw)| {
        let name = raw.name.clone().unwrap_or_else(|| format!("{i}"));
        stream(raw, name.clone(), macs).map_err(|e| format!("stream {name}: {e}"))
    });
    let plan = Plan { streams: streams.collect::<Result<_, _>>()?, line };
    Ok(plan)
}

fn stream(raw: RawStream, name: String, macs: &[MacAddr]) -> Result<Stream, String> {
    let layers = layers(&raw, macs)?;
    let sizes = match &raw.size {
        RawSize::Number(size) => Sizes::Fixed(*size),
        RawSize::Text(text) => text.parse()?,
    };
    let burst = match &raw.burst {
        None => None,
        Some(burst) => Some(Burst { frames: burst.frames, rate: burst.rate.parse()? }),
    };
    let filler = match raw.filler.as_deref() {
        None | Some("zeros") => Filler::Zeros,
        Some("count") => Filler::Count,
        Some("random") => Filler::Random(1),
        Some(other) => return Err(format!("`{other}` is no filler: zeros, count or random")),
    };
    let expect = match raw.expect_label {
        None => None,
        Some(labels) => Some(labels.into_iter().map(label).collect::<Result<_, _>>()?),
    };
    Ok(Stream {
        name,
        tx: raw.from,
        rx: raw.to,
        layers,
        sizes,
        rate: Rate::from_str(&raw.rate)?,
        burst,
        frames: raw.frames,
        vary: raw.vary.iter().map(vary).collect::<Result<_, _>>()?,
        filler,
        expect,
        runts: false,
        after: raw.after.as_deref().map_or(Ok(Duration::ZERO), |t| time("after", t))?,
        until: raw.until.as_deref().map(|t| time("until", t)).transpose()?,
        phase: raw.phase.as_deref().map_or(Ok((0, 1)), phase)?,
    })
}

/// A length of time: `2s`, `500ms`, `20us`.
fn time(key: &str, text: &str) -> Result<Duration, String> {
    let wrong = || format!("{key}: `{text}` is no time: write 2s, 500ms or 20us");
    let scales = [("ms", 1_000_000), ("us", 1000), ("ns", 1), ("s", 1_000_000_000)];
    let found = scales.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)));
    let (number, scale) = found.ok_or_else(wrong)?;
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    let nanos = number * f64::from(scale);
    if (0.0..=1e16).contains(&nanos) {
        Ok(Duration::from_nanos(nanos as u64))
    } else {
        Err(wrong())
    }
}

/// A place among streams that take turns: `1/2`.
fn phase(text: &str) -> Result<(u16, u16), String> {
    let parts = text
        .split_once('/')
        .and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
    parts.filter(|(place, of)| place < of).ok_or_else(|| {
        format!("phase: `{text}` is no place in a round: write 0/2 for the first of two")
    })
}

fn label(number: u32) -> Result<Label, String> {
    Label::new(number).ok_or_else(|| format!("{number} is no label: 0 to 1048575"))
}

fn layers(raw: &RawStream, macs: &[MacAddr]) -> Result<Layers, String> {
    let mac = |text: &Option<String>, port: usize| match text {
        Some(text) => text.parse(),
        None => macs.get(port).copied().ok_or_else(|| format!("there is no port {port}")),
    };
    let mut layers = Layers::new(mac(&raw.src_mac, raw.from)?, mac(&raw.dst_mac, raw.to)?);
    if raw.vlan.len() > VLANS_MAX || raw.label.len() > LABELS_MAX {
        return Err(format!("at most {VLANS_MAX} tags and {LABELS_MAX} labels"));
    }
    let tags = raw.vlan.len();
    for (i, &vid) in raw.vlan.iter().enumerate() {
        let vid = Vid::new(vid).ok_or_else(|| format!("{vid} is no VLAN: 0 to 4094"))?;
        let priority = TrafficClass::new(raw.priority).ok_or("priority is 0 to 7")?;
        layers.vlans.push(VlanTag { vid, priority, service: tags == 2 && i == 0 });
    }
    for &number in &raw.label {
        let (class, ttl) = (TrafficClass::masked(0), raw.label_ttl.unwrap_or(64));
        layers.labels.push(LabelEntry { label: label(number)?, class, ttl });
    }
    let datagram = match (raw.src, raw.dst) {
        (None, None) => layers.datagram,
        (Some(src), Some(dst)) => Datagram::between(src, dst),
        _ => return Err("src and dst come together".into()),
    };
    let mut datagram = datagram.ok_or("src and dst are of two families")?;
    datagram.src_port = raw.udp_src.unwrap_or(datagram.src_port);
    datagram.dst_port = raw.udp_dst.unwrap_or(datagram.dst_port);
    datagram.ttl = raw.ttl.unwrap_or(datagram.ttl);
    datagram.dscp = raw.dscp.unwrap_or(0);
    layers.datagram = (!raw.ethernet_only).then_some(datagram);
    Ok(layers)
}

fn vary(raw: &RawVary) -> Result<Vary, String> {
    let field = match raw.field.as_str() {
        "src_mac" => Field::EthSrc,
        "dst_mac" => Field::EthDst,
        "vlan" => Field::Vlan(raw.index),
        "label" => Field::Label(raw.index),
        "src" => Field::IpSrc,
        "dst" => Field::IpDst,
        "udp_src" => Field::UdpSrc,
        "udp_dst" => Field::UdpDst,
        other => {
            return Err(format!(
                "`{other}` cannot vary: src_mac, dst_mac, vlan, label, src, dst, udp_src, udp_dst"
            ));
        }
    };
    let change = match (raw.count, raw.random) {
        (Some(count), None) if count > 0 => Change::Increment { step: raw.step, count },
        (None, Some(count)) if count > 0 => Change::Random { count, seed: raw.seed },
        _ => return Err(format!("{}: give count or random, above 0", raw.field)),
    };
    Ok(Vary { field, change })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_wire::Ends;

    const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];

    #[test]
    fn a_plan_is_read_with_everything_a_stream_has() {
        let text = r#"
line = "10Gbit/s"
[[stream]]
name = "voice"
vlan = [5, 10]
priority = 5
label = [100, 200]
src = "10.1.0.2"
dst = "10.2.0.2"
udp_dst = 5004
size = "80:7,570:4,1518:1"
rate = "10kpps"
burst = { frames = 32, rate = "line" }
vary = [{ field = "dst", count = 256 }, { field = "udp_src", random = 1000, seed = 1 }]
expect_label = [200]
[[stream]]
from = 1
to = 0
src = "2001:db8::1"
dst = "2001:db8::2"
size = 128
rate = "2.5%"
filler = "random"
frames = 5
after = "1.5ms"
until = "2s"
phase = "1/3"
"#;
        let plan = read(text, &MACS).unwrap();
        assert_eq!((plan.line, plan.streams.len()), (Some(10_000_000_000), 2));
        let [voice, back] = &plan.streams[..] else { panic!() };
        assert_eq!((voice.layers.src, voice.layers.dst), (MACS[0], MACS[1]));
        assert!(voice.layers.vlans[0].service && !voice.layers.vlans[1].service);
        assert_eq!(voice.layers.labels[1].label.get(), 200);
        assert_eq!(voice.layers.datagram.unwrap().dst_port, 5004);
        assert_eq!(voice.burst, Some(Burst { frames: 32, rate: Rate::LINE }));
        assert_eq!(voice.vary[1].change, Change::Random { count: 1000, seed: 1 });
        assert_eq!((back.tx, back.rx, back.frames), (1, 0, Some(5)));
        assert_eq!(
            (back.after, back.until),
            (Duration::from_micros(1500), Some(Duration::from_secs(2)))
        );
        assert_eq!((back.phase, voice.phase), ((1, 3), (0, 1)));
        assert!(matches!(back.layers.datagram.unwrap().ends, Ends::V6(..)));
        plan.check().unwrap();
    }

    #[test]
    fn what_is_wrong_in_a_plan_is_said_with_its_stream() {
        for (lines, said) in [
            ("size = 64\nrate = \"10\"", "is not a rate"),
            ("size = \"big\"\nrate = \"1pps\"", "frame size"),
            ("size = 64\nrate = \"1pps\"\nsizes = 3", "unknown field"),
            ("size = 64\nrate = \"1pps\"\nsrc = \"10.0.0.1\"", "come together"),
            ("size = 64\nrate = \"1pps\"\nlabel = [1048576]", "no label"),
            (
                "size = 64\nrate = \"1pps\"\nvary = [{ field = \"colour\", count = 1 }]",
                "cannot vary",
            ),
            ("size = 64\nrate = \"1pps\"\nfrom = 2", "no port 2"),
            ("size = 64\nrate = \"1pps\"\nafter = \"5\"", "no time"),
            ("size = 64\nrate = \"1pps\"\nphase = \"2/2\"", "no place in a round"),
        ] {
            let error = read(&format!("[[stream]]\n{lines}\n"), &MACS).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        assert!(read("", &MACS).unwrap_err().contains("no [[stream]]"));
        // A field that the frames do not have shows when the plan is checked.
        let text =
            "[[stream]]\nsize = 64\nrate = \"1pps\"\nvary = [{ field = \"vlan\", count = 2 }]";
        assert!(read(text, &MACS).unwrap().check().unwrap_err().what.contains("no such field"));
    }
}
