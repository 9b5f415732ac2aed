//! MACsec and ESP tunnels.

use super::keys::{KeyFile, LAB_KEY};
use super::links::port_index;
use super::raw::{self, Text};
use super::read::Reader;
use super::token::Named;
use super::{Config, MacsecConfig, MacsecSaConfig, Placement, Replay, SaConfig, TunnelConfig, Via};
use crate::overhead;
use ferrule_base::{MacAddr, Secret};
use ferrule_crypto::{Aes, KeySpec, Suite};
use ferrule_dataplane::route::TtlModel;
use std::net::IpAddr;
use toml::Spanned;

/// Octets of an XPN suite's salt.
const XPN_SALT: usize = 12;

impl Reader<'_> {
    /// The keys of a file, with the lengths that are needed.
    pub(super) fn key_file(&mut self, t: &Text, lengths: [(&str, usize); 3]) -> Option<KeyFile> {
        let path = t.get_ref();
        let read = match self.keys.derive(path, lengths) {
            Some(text) => Ok(text),
            None if path.starts_with(LAB_KEY) => Err(format!(
                "key `{path}` exists in the laboratory alone: everybody can compute it\n\
                 name a key file; `ferrule init key --help` shows how to make one"
            )),
            None => self.keys.read(path),
        };
        let read = read
            .and_then(|text| KeyFile::parse(&text).map_err(|e| format!("key file `{path}`: {e}")));
        let file = match read {
            Ok(file) => file,
            Err(e) => {
                let make = "`ferrule init key --help` shows how to make one";
                let (what, remedy) = e.split_once('\n').unwrap_or((&e, make));
                self.problems.add(t.span(), what, remedy);
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
    for secy in file.macsec.iter().map(Spanned::get_ref) {
        let Some(port) = port_index(r, &secy.port, config) else { continue };
        if config.secys.iter().any(|s| s.port == port) {
            let what = format!("port `{}` has two SecYs", secy.port.get_ref());
            r.problems.add(secy.port.span(), what, "keep one [[macsec]] for it");
        }
        let cipher = secy.cipher.as_ref().and_then(|t| r.choice(t, "cipher", &ciphers));
        let (suite, xpn) = cipher.unwrap_or(ciphers[0].1);
        let offset = r.number(secy.offset.as_ref(), 0, 0..=50, "offset");
        if !matches!(offset, 0 | 30 | 50) || (xpn && offset != 0) {
            let span = secy.offset.as_ref().map_or(secy.port.span(), Spanned::span);
            let remedy = "use 0, 30 or 50; with an XPN cipher 0";
            r.problems.add(span, format!("offset cannot be {offset} here"), remedy);
        }
        let end_station = secy.end_station.unwrap_or(false);
        let send_sci = secy.send_sci.unwrap_or(!end_station);
        if end_station && send_sci {
            let remedy = "set send-sci = false: the end-station bit stands in its place";
            r.problems.add(secy.port.span(), "end-station together with send-sci", remedy);
        }
        if let Some(t) = &secy.validate {
            r.choice(t, "way to validate", &[("strict", ())]);
        }
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
        config.secys.push(MacsecConfig {
            port,
            suite,
            xpn,
            sci: secy.sci.as_ref().and_then(|t| r.sci(t)),
            send_sci,
            end_station,
            encrypt: secy.encrypt.unwrap_or(true),
            offset: offset as u8,
            clear_tags: r.number(secy.clear_tags.as_ref(), 0, 0..=2, "clear-tags") as u8,
            replay: replay.unwrap_or(Replay::Strict),
            window: r.number(secy.window.as_ref(), 64, 0..=4096, "window") as u32,
            placement,
            transmit,
            receive,
        });
    }
}

/// What a SAK is for.
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

pub(super) fn tunnels(r: &mut Reader<'_>, file: &raw::File, config: &mut Config) {
    for spanned in &file.tunnel {
        let tunnel = spanned.get_ref();
        r.unique(&tunnel.name, "tunnel", config.tunnels.iter().map(|t| t.name.as_str()));
        let ends = (r.address(&tunnel.local), r.address(&tunnel.remote));
        let (Some(local), Some(remote)) = ends else { continue };
        if local.is_ipv4() != remote.is_ipv4() {
            let remedy = "give both ends of one address family";
            r.problems.add(tunnel.remote.span(), "the ends are of different families", remedy);
            continue;
        }
        let suites = Suite::software().chain(Suite::STUDY).map(|s| (s.name(), s));
        let suites: Vec<_> = suites.collect();
        let Some(suite) = r.choice(&tunnel.suite, "suite", &suites) else { continue };
        let Some(way) = way_to(r, config, &tunnel.local, local, remote) else { continue };
        let fits = inner_mtu(suite, local, config.interfaces[way.interface].mtu);
        let mtu = r.number(tunnel.mtu.as_ref(), fits as i64, 68..=65_535, "mtu") as usize;
        if mtu > fits {
            let span = tunnel.mtu.as_ref().map_or(spanned.span(), Spanned::span);
            let what = format!("inner packets of {mtu} octets do not fit the path with {suite}");
            r.problems.add(span, what, format!("use at most {fits}, or leave mtu out"));
        }
        let workers = config.cores.len();
        let worker = config.tunnels.len() % workers.max(1);
        let placement = r.placement(tunnel.placement.as_ref(), config);
        r.suite_at(&tunnel.suite, suite, placement, config.lab);
        let mut sa = |s: &Spanned<raw::Sa>| sa(r, config, s.get_ref(), suite, placement, worker);
        let (outbound, inbound) = (sa(&tunnel.outbound), sa(&tunnel.inbound));
        let (Some(outbound), Some(inbound)) = (outbound, inbound) else { continue };
        let vrf = tunnel.vrf.as_ref().map(|t| config.vrfs.iter().position(|v| v == t.get_ref()));
        if let (Some(None), Some(t)) = (vrf, &tunnel.vrf) {
            let remedy = "give an interface or route that vrf";
            r.problems.add(t.span(), format!("there is no vrf `{}`", t.get_ref()), remedy);
        }
        config.tunnels.push(TunnelConfig {
            name: tunnel.name.get_ref().clone(),
            local,
            remote,
            suite,
            esn: tunnel.esn.unwrap_or(true),
            window: r.number(tunnel.window.as_ref(), 1024, 0..=4096, "window") as u32,
            mtu,
            copy_df: tunnel.copy_df.unwrap_or(true),
            vrf: vrf.flatten().unwrap_or(0),
            placement,
            via: way,
            outbound,
            inbound,
        });
    }
}

/// How sealed packets reach the other gateway: on a connected network, or by
/// the route that matches best.
fn way_to(
    r: &mut Reader<'_>,
    config: &Config,
    text: &Text,
    local: IpAddr,
    remote: IpAddr,
) -> Option<Via> {
    let own = config.interfaces.iter().any(|i| i.addresses.iter().any(|a| a.0 == local));
    if !own {
        let what = format!("no interface has the tunnel's local address {local}");
        r.problems.add(text.span(), what, "use an address of the interface to the other gateway");
        return None;
    }
    let connected = config.interfaces.iter().enumerate().flat_map(|(index, i)| {
        let via = Via {
            interface: index,
            next_hop: Some(remote),
            labels: Vec::new(),
            ttl: TtlModel::Uniform,
        };
        i.addresses.iter().map(move |&a| (i.vrf, a, via.clone()))
    });
    let routed = config.routes.iter().filter_map(|route| {
        let mut via = route.via.clone()?;
        via.next_hop = via.next_hop.or(Some(remote));
        Some((route.vrf, route.prefix, via))
    });
    let best = connected
        .chain(routed)
        .filter(|&(vrf, net, _)| vrf == 0 && super::links::contains(net, remote))
        .max_by_key(|&(_, (_, len), _)| len);
    if best.is_none() {
        let remedy = "add a [[route]] to it, before the tunnel is of use";
        r.problems.add(text.span(), format!("no way to the other gateway {remote}"), remedy);
    }
    best.map(|(_, _, via)| via)
}

/// The largest inner packet whose sealed form fits `mtu`.
fn inner_mtu(suite: Suite, outer: IpAddr, mtu: usize) -> usize {
    (68..=mtu).rev().find(|&inner| sealed_len(suite, outer, inner) <= mtu).unwrap_or(68)
}

/// Octets of the outer packet around an inner one.
fn sealed_len(suite: Suite, outer: IpAddr, inner: usize) -> usize {
    let (cipher, integrity) = match suite.name().split_once(' ') {
        Some((cipher, integrity)) => (cipher, Some(integrity)),
        None => (suite.name(), None),
    };
    let suite = overhead::EspSuite::by_name(cipher, integrity).expect("the calculator knows it");
    let outer = if outer.is_ipv4() { overhead::IpVersion::V4 } else { overhead::IpVersion::V6 };
    overhead::esp_len(&suite, overhead::EspMode::Tunnel, outer, inner)
}

fn sa(
    r: &mut Reader<'_>,
    config: &Config,
    sa: &raw::Sa,
    suite: Suite,
    placement: Placement,
    worker: usize,
) -> Option<SaConfig> {
    let spi = r.number(Some(&sa.spi), 256, 256..=i64::from(u32::MAX), "an SPI") as u32;
    let lengths = [
        ("cipher", suite.key_len()),
        ("integrity", suite.mac_key_len()),
        ("salt", suite.esp_salt_len()),
    ];
    let named = Named { key: &sa.key, rest: sa.rest.as_ref() };
    let file = r.keys_of(named, placement, config, lengths)?;
    let last = config.cores.len() as i64 - 1;
    let worker = r.number(sa.worker.as_ref(), worker as i64, 0..=last, "worker") as usize;
    let keys =
        KeySpec::new(suite, file.cipher, file.integrity).at(placement.place(file.label.as_deref()));
    Some(SaConfig { spi, keys, salt: file.salt, worker })
}

/// Whether two keys are one.
pub(super) fn same_key(a: (&Secret, &Secret), b: (&Secret, &Secret)) -> bool {
    a.0.same_as(b.0) && a.1.same_as(b.1)
}
