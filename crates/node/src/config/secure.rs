//! MACsec, and what its keys and those of IPsec have in common.

use super::keys::{KeyFile, LAB_KEY, MAKE};
use super::links::port_index;
use super::raw::{self, Spanned, Text};
use super::read::Reader;
use super::token::Named;
use super::{Config, MacsecConfig, MacsecSaConfig, Placement, Replay, SecyConfig, Validate, mka};
use ferrule_base::{MacAddr, Secret};
use ferrule_crypto::{Aes, Suite};
use ferrule_dataplane::macsec::{BITMAP_MAX, CLEAR_TAGS_MAX};
use ferrule_wire::Sci;
use std::collections::HashSet;
use std::ops::RangeInclusive;

/// Octets of an XPN suite's salt.
const XPN_SALT: usize = 12;
/// VLAN tags in front of the SecTAG.
const CLEAR_TAGS: RangeInclusive<i64> = 0..=CLEAR_TAGS_MAX as i64;
/// Frames of the replay window.
const WINDOW: RangeInclusive<i64> = 0..=BITMAP_MAX as i64;

impl Reader<'_> {
    /// The text of a key file.
    pub(super) fn key_text(&mut self, t: &Text, lengths: [(&str, usize); 3]) -> Option<Secret> {
        let path = t.get_ref();
        let read = match self.keys.derive(path, lengths) {
            Some(text) => Ok(text),
            None if path.starts_with(LAB_KEY) => Err(format!(
                "key `{path}` exists in the laboratory alone: everybody can compute it\n\
                 name a key file; `ferrule init key --help` shows how to make one"
            )),
            None => self.keys.read(path),
        };
        read.inspect_err(|e| {
            let (what, remedy) = e.split_once('\n').unwrap_or((e, MAKE));
            self.problems.add(t.span(), what, remedy);
        })
        .ok()
    }

    /// The keys of a file, with the lengths that are needed.
    pub(super) fn key_file(&mut self, t: &Text, lengths: [(&str, usize); 3]) -> Option<KeyFile> {
        let (path, text) = (t.get_ref(), self.key_text(t, lengths)?);
        let file = match KeyFile::parse(&text) {
            Ok(file) => file,
            Err(e) => {
                self.problems.add(t.span(), format!("key file `{path}`: {e}"), MAKE);
                return None;
            }
        };
        let have = [&file.cipher, &file.integrity, &file.salt];
        for ((word, need), have) in lengths.into_iter().zip(have) {
            if have.len() != need {
                let what = format!(
                    "key file `{path}`: `{word}` has {} octets, {need} are needed",
                    have.len()
                );
                let remedy = match need {
                    0 => format!("take `{word}` out: this suite has none"),
                    _ => format!("give `{word}` {} hexadecimal digits", 2 * need),
                };
                self.problems.add(t.span(), what, remedy);
                return None;
            }
        }
        Some(file)
    }

    /// A secure channel identifier: a MAC address and a port number.
    fn sci(&mut self, t: &Text) -> Option<u64> {
        let parsed = t.get_ref().rsplit_once('/').and_then(|(mac, port)| {
            let mac: MacAddr = mac.parse().ok()?;
            let port: u16 = port.parse().ok()?;
            Some(mac.to_u64() << 16 | u64::from(port))
        });
        if parsed.is_none() {
            let what = format!("`{}` is no SCI", t.get_ref());
            self.problems.add(t.span(), what, "write it as 02:00:00:00:00:01/1: address, port");
        }
        parsed
    }
}

pub(super) fn macsec(r: &mut Reader<'_>, file: &raw::File, config: &mut Config) {
    let ciphers = [
        ("gcm-aes-128", (Suite::AesGcm(Aes::Aes128), false)),
        ("gcm-aes-256", (Suite::AesGcm(Aes::Aes256), false)),
        ("gcm-aes-xpn-128", (Suite::AesGcm(Aes::Aes128), true)),
        ("gcm-aes-xpn-256", (Suite::AesGcm(Aes::Aes256), true)),
    ];
    let modes = [("off", Replay::Off), ("standard", Replay::Standard), ("strict", Replay::Strict)];
    let validates = [
        ("strict", Validate::Strict),
        ("check", Validate::Check),
        ("disabled", Validate::Disabled),
    ];
    let mut taken = HashSet::new();
    for secy in file.macsec.iter().map(Spanned::get_ref) {
        let Some(port) = port_index(r, &secy.port) else { continue };
        if !taken.insert(port) {
            let what = format!("port `{}` has two SecYs", secy.port.get_ref());
            r.problems.add(secy.port.span(), what, "keep one [[macsec]] for it");
        }
        let cipher = secy.cipher.as_ref().and_then(|t| r.choice(t, "cipher", &ciphers));
        let (suite, xpn) = cipher.unwrap_or(ciphers[0].1);
        let (sci, end_station, send_sci) = identity(r, secy);
        let validate = secy.validate.as_ref();
        let validate = validate.and_then(|t| r.choice(t, "way to validate", &validates));
        let replay = secy.replay.as_ref().and_then(|t| r.choice(t, "replay mode", &modes));
        let placement = r.placement(secy.placement.as_ref(), config);
        let mut sa = |list: &[Spanned<raw::MacsecSa>], received: bool| {
            let each = list.iter().filter_map(|sa| {
                let sak = Sak { suite, xpn, received, placement };
                macsec_sa(r, config, sa, sak)
            });
            each.collect::<Vec<_>>()
        };
        let (transmit, receive) = (sa(&secy.transmit, false), sa(&secy.receive, true));
        let mut read = MacsecConfig {
            port,
            sci,
            entity: SecyConfig {
                xpn,
                send_sci,
                end_station,
                encrypt: secy.encrypt.unwrap_or(true),
                offset: offset(r, secy, xpn),
                clear_tags: r.number(secy.clear_tags.as_ref(), 0, CLEAR_TAGS, "clear-tags") as u8,
                replay: replay.unwrap_or(Replay::Strict),
                window: r.number(secy.window.as_ref(), 64, WINDOW, "window") as u32,
                protect: secy.protect.unwrap_or(true),
                validate: validate.unwrap_or_default(),
                uncontrolled: mka::uncontrolled(r, &secy.uncontrolled),
                ..SecyConfig::new(0, suite)
            },
            placement,
            mka: None,
            transmit,
            receive,
        };
        read.mka = mka::read(r, secy, &read);
        read.entity.eapol = read.mka.as_ref().map(|mka| mka.ethertype);
        config.secys.push(read);
    }
}

/// Its SCI, and how frames tell it: by the end-station bit, in the SecTAG.
fn identity(r: &mut Reader<'_>, secy: &raw::Macsec) -> (Option<u64>, bool, bool) {
    let (end_station, send_sci) = (secy.end_station.unwrap_or(false), secy.sends_sci());
    if end_station && send_sci {
        let remedy = "set send-sci = false: the end-station bit stands in its place";
        r.problems.add(secy.port.span(), "end-station together with send-sci", remedy);
    }
    let sci = secy.sci.as_ref().and_then(|t| r.sci(t));
    if let (Some(t), Some(own), true) = (&secy.sci, sci, end_station)
        && Sci(own).port() != Sci::PORT_END_STATION
    {
        let what = format!("end-station with the SCI `{}`", t.get_ref());
        let remedy = "write it with port number 1: that bit stands for no other";
        r.problems.add(t.span(), what, remedy);
    }
    (sci, end_station, send_sci)
}

/// Octets of user data that stay readable.
fn offset(r: &mut Reader<'_>, secy: &raw::Macsec, xpn: bool) -> u8 {
    let offset = r.number(secy.offset.as_ref(), 0, 0..=50, "offset");
    let Some(n) = &secy.offset else { return 0 };
    if !matches!(offset, 0 | 30 | 50) || (xpn && offset != 0) {
        let remedy = "use 0, 30 or 50; with an XPN cipher 0";
        r.problems.add(n.span(), format!("offset cannot be {offset} here"), remedy);
    } else if offset != 0 && secy.encrypt == Some(false) {
        let remedy = "take offset out: without encryption all is readable";
        r.problems.add(n.span(), "an offset without encryption", remedy);
    }
    offset as u8
}

/// Use of a SAK: how its key is checked depends on all of these.
struct Sak {
    suite: Suite,
    xpn: bool,
    received: bool,
    placement: Placement,
}

fn macsec_sa(
    r: &mut Reader<'_>,
    config: &Config,
    spanned: &Spanned<raw::MacsecSa>,
    sak: Sak,
) -> Option<MacsecSaConfig> {
    let Sak { suite, xpn, received, placement } = sak;
    let sa = spanned.get_ref();
    let sci = sa.sci.as_ref().and_then(|t| r.sci(t));
    if received && sa.sci.is_none() {
        let remedy = "add sci = \"ADDRESS/PORT\" of the other side";
        r.problems.add(spanned.span(), "a receive association without SCI", remedy);
    }
    if xpn && sa.ssci.is_none() {
        let remedy = "add ssci = NUMBER; both sides need the same for each SCI";
        r.problems.add(spanned.span(), "an XPN association without SSCI", remedy);
    }
    let salt = if xpn { XPN_SALT } else { 0 };
    let lengths = [("cipher", suite.key_len()), ("integrity", 0), ("salt", salt)];
    let named = Named { key: &sa.key, rest: sa.rest.as_ref() };
    let keys = r.keys_of(named, placement, config, lengths)?;
    Some(MacsecSaConfig {
        label: keys.label,
        sci,
        an: r.number(sa.an.as_ref(), 0, 0..=3, "an") as u8,
        key: keys.cipher,
        salt: keys.salt,
        ssci: r.number(sa.ssci.as_ref(), 0, 0..=i64::from(u32::MAX), "ssci") as u32,
    })
}

#[cfg(test)]
mod tests;
