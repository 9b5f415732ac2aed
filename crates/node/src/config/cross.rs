//! Faults that no single entry shows: two that contradict each other, a frame that one
//! port takes and another cannot send, a nonce that two would make.

use super::ipsec::pairs;
use super::links::usable_mtus;
use super::raw::{self, Spanned};
use super::read::Reader;
use super::{Config, MemberConfig, TunnelConfig};
use ferrule_crypto::fingerprint;
use ferrule_dataplane::mpls::Pseudowire;
use ferrule_wire::{ethernet, vlan};
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

pub(super) fn check(r: &mut Reader<'_>, file: &raw::File, config: &Config) {
    attachments(r, file, config);
    shared_ports(r, file, config);
    bridged_frames(r, file, config);
    pseudowire_frames(r, file, config);
    spis(r, file, config);
    tunnel_nonces(r, file, config);
    macsec_nonces(r, file, config);
    counters(r, file, config);
}

/// Every tag of a port belongs to one interface.
fn attachments(r: &mut Reader<'_>, file: &raw::File, config: &Config) {
    let mut taken = HashSet::new();
    let mut claims = Vec::new();
    for (raw, i) in file.interface.iter().zip(&config.interfaces) {
        claims.push((raw.span(), i.port, i.tag, None));
        if i.untagged && i.tag.is_some() {
            claims.push((raw.span(), i.port, None, None));
        }
    }
    for (raw, bridge) in file.bridge.iter().zip(&config.bridges) {
        for (raw, m) in raw.get_ref().member.iter().zip(&bridge.members) {
            claims.push((raw.span(), m.port, m.tag, None));
        }
    }
    for (raw, pw) in file.pseudowire.iter().zip(&config.pseudowires) {
        claims.push((raw.span(), pw.port, pw.tag, pw.inner));
    }
    for (span, port, tag, inner) in claims {
        if taken.insert((port, tag, inner)) {
            continue;
        }
        let port = &config.ports[port].name;
        let which = match (tag, inner) {
            (Some((_, vid)), Some((_, inner))) => format!("VLAN {inner} in VLAN {vid}"),
            (Some((_, vid)), None) => format!("VLAN {vid}"),
            (None, _) => "untagged frames".into(),
        };
        let what = format!("{which} of port `{port}` belong to something else already");
        r.problems.add(
            span,
            what,
            "give each interface, bridge and pseudowire its own VLAN or port",
        );
    }
}

/// Reports ports of every worker under a SecY or with a card: one worker has those, so the port
/// must be that worker's alone.
fn shared_ports(r: &mut Reader<'_>, file: &raw::File, config: &Config) {
    for (index, port) in config.ports.iter().enumerate().filter(|(_, p)| p.driver.is_everywhere()) {
        let secured = config.secys.iter().any(|secy| secy.port == index);
        if secured || config.has_card(index) {
            let what =
                format!("port `{}` is every worker's, and what protects in it is one's", port.name);
            let span = file.port.get(index).map_or(0..0, |p| p.get_ref().name.span());
            r.problems.add(span, what, "take every-worker out");
        }
    }
}

/// A secured member of a bridge must be able to send what the others take. (A
/// bridge of links with unequal MTUs is otherwise nobody's mistake: what is too
/// big for one is dropped there, with a reason.)
fn bridged_frames(r: &mut Reader<'_>, file: &raw::File, config: &Config) {
    let usable = usable_mtus(file, config);
    let usable = |m: &MemberConfig| usable[m.port];
    let secured: HashSet<usize> = config.secys.iter().map(|secy| secy.port).collect();
    for (raw, bridge) in file.bridge.iter().zip(&config.bridges) {
        for member in &bridge.members {
            for (raw, other) in raw.get_ref().member.iter().zip(&bridge.members) {
                let (from, to) = (usable(member), usable(other));
                if member.port == other.port || !secured.contains(&other.port) || from <= to {
                    continue;
                }
                let (a, b) = (&config.ports[member.port], &config.ports[other.port]);
                let what = format!(
                    "frames of mtu {from} from port `{}` do not fit port `{}`, which carries {to}",
                    a.name, b.name
                );
                let need = b.mtu + from - to;
                let remedy =
                    format!("set mtu = {need} at `{}` or at most {to} at `{}`", b.name, a.name);
                r.problems.add(raw.span(), what, remedy);
                return;
            }
        }
    }
}

/// A pseudowire's frame with its labels fits the provider's link.
fn pseudowire_frames(r: &mut Reader<'_>, file: &raw::File, config: &Config) {
    let usable = usable_mtus(file, config);
    for (raw, pw) in file.pseudowire.iter().zip(&config.pseudowires) {
        let tag = if pw.tagged_mode.is_some() { vlan::Header::LEN } else { 0 };
        let frame = ethernet::Header::LEN + tag + usable[pw.port];
        for path in pw.via.paths() {
            let whole = path.labels_len() + Pseudowire::overhead(pw.control_word) + frame;
            let core = &config.interfaces[path.interface];
            if whole <= core.mtu {
                continue;
            }
            let what = format!(
                "pseudowire `{}` needs an mtu of {whole} at interface `{}`, which has {}",
                pw.name, core.name, core.mtu
            );
            let least = whole - core.mtu;
            let remedy = format!(
                "raise the mtu there, or lower the mtu of port `{}` by {least}",
                config.ports[pw.port].name
            );
            r.problems.add(raw.span(), what, remedy);
        }
    }
}

fn spis(r: &mut Reader<'_>, file: &raw::File, config: &Config) {
    // The first pair that has each.
    let mut inbound: HashMap<u32, &TunnelConfig> = HashMap::new();
    let mut outbound: HashMap<(u32, IpAddr), &TunnelConfig> = HashMap::new();
    for ((raw, _), tunnel) in pairs(file).zip(&config.tunnels) {
        let raw = raw.get_ref();
        let mut own = HashSet::new();
        for (raw, sa) in raw.all_in().zip(&tunnel.inbound) {
            let twice = !own.insert(sa.spi);
            let other = if twice { Some(&tunnel) } else { inbound.get(&sa.spi) };
            if let Some(other) = other {
                let what = format!(
                    "SPI {:#x} of tunnel `{}` is tunnel `{}`'s already",
                    sa.spi, tunnel.name, other.name
                );
                let span = raw.get_ref().spi.span();
                r.problems.add(span, what, "give every inbound SA an SPI of its own");
            }
        }
        for spi in own {
            inbound.entry(spi).or_insert(tunnel);
        }
        for (raw, sa) in raw.all_out().zip(&tunnel.outbound) {
            match outbound.entry((sa.spi, tunnel.remote)) {
                Entry::Vacant(free) => {
                    free.insert(tunnel);
                }
                Entry::Occupied(other) => {
                    let what = format!(
                        "SPI {:#x} to {} is tunnel `{}`'s already",
                        sa.spi,
                        tunnel.remote,
                        other.get().name
                    );
                    let span = raw.get_ref().spi.span();
                    let remedy = "use the SPI that the other gateway has for this tunnel";
                    r.problems.add(span, what, remedy);
                }
            }
        }
    }
}

/// One key with one salt makes the same nonces twice, whichever the direction.
fn tunnel_nonces(r: &mut Reader<'_>, file: &raw::File, config: &Config) {
    // The pairs that have each, by their numbers.
    let mut having: HashMap<[u8; 16], Vec<usize>> = HashMap::new();
    for (number, ((raw, _), tunnel)) in pairs(file).zip(&config.tunnels).enumerate() {
        let sas = tunnel.outbound.iter().chain(&tunnel.inbound);
        let keys: Vec<_> = sas.map(|sa| fingerprint(&sa.keys.key, sa.salt.expose())).collect();
        if tunnel.suite.is_counter_mode() {
            let raws = raw.get_ref().all_out().chain(raw.get_ref().all_in());
            let out = |at| at < tunnel.outbound.len();
            for (at, (raw, own)) in raws.zip(&keys).enumerate() {
                if let Some(first) = keys[..at].iter().position(|other| other == own) {
                    let both = out(first) && !out(at);
                    let which = if both { "both directions" } else { "two SAs" };
                    let what = format!(
                        "tunnel `{}` has one key for {which}: every nonce would be used twice",
                        tunnel.name
                    );
                    let remedy = "make a second key: `ferrule init key`";
                    r.problems.add(raw.get_ref().key.span(), what, remedy);
                }
            }
            let others = keys.iter().filter_map(|key| having.get(key)).flatten();
            for other in others.copied().collect::<BTreeSet<usize>>() {
                let what = format!(
                    "tunnels `{}` and `{}` share a key: nonces would be used twice",
                    config.tunnels[other].name, tunnel.name
                );
                let first = raw.get_ref().all_out().next();
                let span = first.map_or(raw.span(), |sa| sa.get_ref().key.span());
                r.problems.add(span, what, "make a key for each: `ferrule init key`");
            }
        }
        for key in keys {
            having.entry(key).or_default().push(number);
        }
    }
}

/// One SAK with one SCI makes the same nonces twice.
fn macsec_nonces(r: &mut Reader<'_>, file: &raw::File, config: &Config) {
    let mut seen: HashSet<(Option<u64>, [u8; 16])> = HashSet::new();
    for (raw, secy) in file.macsec.iter().zip(&config.secys) {
        let raw = raw.get_ref();
        let span = raw.port.span();
        for (at, sa) in secy.transmit.iter().enumerate() {
            if secy.transmit[..at].iter().any(|other| other.key.same_as(&sa.key)) {
                let remedy = "give each association a SAK of its own: `ferrule init key`";
                r.problems.add(span.clone(), "two associations with one SCI and one SAK", remedy);
                continue;
            }
            let twice = !seen.insert((secy.sci, fingerprint(&sa.key, &[])));
            if twice && secy.sci.is_some() {
                let remedy = "give each SecY an SCI of its own, or each association a SAK";
                r.problems.add(span.clone(), "two associations with one SCI and one SAK", remedy);
            }
            let own = |o: &&super::MacsecSaConfig| {
                o.key.same_as(&sa.key)
                    && (o.sci == secy.sci
                        || o.salt.same_as(&sa.salt) && secy.entity.xpn && o.ssci == sa.ssci)
            };
            if secy.receive.iter().find(own).is_some() {
                let what = "a receive association has our own SCI and SAK: nonces twice";
                r.problems.add(span.clone(), what, "check whose SCI stands where");
            }
        }
        for (list, rawlist) in [(&secy.transmit, &raw.transmit), (&secy.receive, &raw.receive)] {
            let mut taken = HashSet::new();
            for (sa, raw) in list.iter().zip(rawlist) {
                if !taken.insert((sa.sci, sa.an)) {
                    let what = format!("AN {} is defined twice", sa.an);
                    r.problems.add(raw.span(), what, "use another an, 0 to 3");
                }
            }
        }
    }
}

/// SAs, of the file or of keying programs, need a place where their counters survive a restart.
fn counters(r: &mut Reader<'_>, file: &raw::File, config: &Config) {
    let transmits = config.secys.iter().any(|s| !s.transmit.is_empty());
    if config.lab || config.state.is_some() || (config.tunnels.is_empty() && !transmits) {
        return;
    }
    let name = file.node.as_ref().and_then(|node| node.get_ref().name.as_ref());
    r.problems.add(
        name.map_or(0..0, Spanned::span),
        "SAs, and no place to keep their counters",
        "add state = \"FOLDER\" to [node]: without it a restart would use nonces twice",
    );
}
