//! One number per flow, by which workers and equal-cost paths share traffic.
//!
//! ```text
//! Ethernet ─▶ VLAN tags ─▶ IP:   addresses, protocol, ports (whole datagrams)
//!                        ─▶ MPLS: labels, and the IP header that follows;
//!                                 an entropy label in place of both (RFC 6790)
//!                        ─▶ else: both MAC addresses
//! ```
//! Packets of one flow give one number, always and everywhere; nothing is
//! promised about the other direction. VLAN tags count as well.
//!
//! Below an MPLS stack no field names the payload. Routers that look at the first nibble
//! alone take a pseudowire without control word, whose destination address begins with 4 or
//! 6, for IP, and frames of one flow part ways and overtake one another (RFC 4928 section
//! 3). Here it is IP if its lengths say so, too, and the checksum if there is one.

use crate::ip::Protocol;
use crate::{EtherType, ethernet, ipv4, ipv6, ipv6ext, mpls, vlan};
use zerocopy::FromBytes;

/// VLAN tags that are looked behind.
const MAX_TAGS: usize = 2;

/// A running hash: cheap, mixing every bit into every other, and keyless, so
/// that it is equal on every machine. It resists accidents, not attackers.
#[derive(Clone, Copy)]
struct Mix(u64);

impl Mix {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

    #[inline]
    const fn with(self, value: u64) -> Self {
        let wide = (self.0 ^ value ^ Self::ODD) as u128 * 0xd6e8_feb8_6659_fd93;
        Self(wide as u64 ^ (wide >> 64) as u64)
    }

    #[inline]
    fn with_octets(self, octets: &[u8; 16]) -> Self {
        let wide = u128::from_be_bytes(*octets);
        self.with(wide as u64).with((wide >> 64) as u64)
    }

    #[inline]
    const fn finish(self) -> u32 {
        self.with(1).folded()
    }

    #[inline]
    const fn folded(self) -> u32 {
        self.0 as u32 ^ (self.0 >> 32) as u32
    }
}

/// The number by which a node distributes flows, of IP or a label stack, over paths of
/// equal cost. Nodes of different seeds share differently: or behind the first one that
/// halves traffic the second would find all of it on one side.
#[inline]
pub fn path_hash(seed: u64, ethertype: EtherType, packet: &[u8]) -> u32 {
    let mix = Mix(seed);
    let flow = match ethertype {
        EtherType::IPV4 => ip_v4(mix, packet),
        EtherType::IPV6 => ip_v6(mix, packet),
        EtherType::MPLS => labels(mix, packet),
        _ => None,
    };
    flow.unwrap_or(mix).finish()
}

/// The number by which a node shares the frames of a flow, which has this number.
#[inline]
pub const fn path_of_flow(seed: u64, flow: u32) -> u32 {
    Mix(seed).with(flow as u64).folded()
}

/// The number of the flow that an Ethernet frame belongs to.
#[inline]
pub fn flow_hash(frame: &[u8]) -> u32 {
    let Ok((ether, mut rest)) = ethernet::Header::ref_from_prefix(frame) else {
        return 0;
    };
    let mut ethertype = ether.ethertype();
    let mut mix = Mix(0);
    for _ in 0..MAX_TAGS {
        if !ethertype.is_vlan() {
            break;
        }
        let Ok((tag, after)) = vlan::Header::ref_from_prefix(rest) else { break };
        mix = mix.with(u64::from(tag.vid()) | 1 << 32);
        (ethertype, rest) = (tag.ethertype(), after);
    }
    let inner = match ethertype {
        EtherType::IPV4 => ip_v4(mix, rest),
        EtherType::IPV6 => ip_v6(mix, rest),
        EtherType::MPLS | EtherType::MPLS_UPSTREAM => labels(mix, rest),
        _ => None,
    };
    inner.unwrap_or_else(|| macs(mix, ether)).finish()
}

fn macs(mix: Mix, ether: &ethernet::Header) -> Mix {
    let number = |m: [u8; 6]| u64::from_be_bytes([0, 0, m[0], m[1], m[2], m[3], m[4], m[5]]);
    mix.with(number(ether.dst)).with(number(ether.src))
}

/// Source and destination port, where whole datagrams of `protocol` have them.
#[inline]
fn ports(protocol: Protocol, payload: Option<&[u8]>) -> u64 {
    match payload.and_then(<[u8]>::first_chunk::<4>) {
        Some(&ports) if protocol.has_ports() => u64::from(u32::from_be_bytes(ports)),
        _ => 0,
    }
}

#[inline(always)]
fn ip_v4(mix: Mix, packet: &[u8]) -> Option<Mix> {
    match packet.first_chunk() {
        Some(front) if front[0] == PLAIN_V4 => Some(plain_v4(mix, front)),
        _ => any_v4(mix, packet),
    }
}

/// Version and length of a header without options.
const PLAIN_V4: u8 = 0x45;
/// A header without options, and the four octets behind it.
type Front = [u8; ipv4::Header::LEN + 4];

/// The flow of a packet without IPv4 options: most packets.
#[inline(always)]
fn plain_v4(mix: Mix, front: &Front) -> Mix {
    // The first fragment has ports and the others not: none of them may count.
    let (words, _) = front.as_chunks::<4>();
    let [src, dst, ports] = [3, 4, 5].map(|at| u32::from_be_bytes(words[at]));
    let protocol = Protocol(front[9]);
    let fragment = ipv4::has_fragment_bits(u16::from_be_bytes([front[6], front[7]]));
    let ports = if protocol.has_ports() && !fragment { ports } else { 0 };
    mix.with(u64::from(src) << 32 | u64::from(dst))
        .with(u64::from(ports) | u64::from(protocol.0) << 32)
}

#[inline(never)]
fn any_v4(mix: Mix, packet: &[u8]) -> Option<Mix> {
    let (h, _) = ipv4::Header::ref_from_prefix(packet).ok()?;
    if h.version_ihl >> 4 != 4 {
        return None;
    }
    // The first fragment has ports and the others not: none of them may count.
    let payload = if h.is_fragment() { None } else { packet.get(h.header_len()..) };
    let addresses =
        u64::from(u32::from_be_bytes(h.src)) << 32 | u64::from(u32::from_be_bytes(h.dst));
    let protocol = h.protocol();
    Some(mix.with(addresses).with(ports(protocol, payload) | u64::from(protocol.0) << 32))
}

#[inline]
fn ip_v6(mix: Mix, packet: &[u8]) -> Option<Mix> {
    let (h, rest) = ipv6::Header::ref_from_prefix(packet).ok()?;
    if h.version_class_flow.get() >> 28 != 6 {
        return None;
    }
    let mix = mix.with_octets(&h.src).with_octets(&h.dst);
    let (protocol, ports) = match ipv6ext::walk(h.next(), rest) {
        Ok(upper) if upper.fragment.is_some_and(|f| !f.is_atomic()) => (Protocol::FRAGMENT, 0),
        Ok(upper) => (upper.protocol, ports(upper.protocol, rest.get(upper.offset..))),
        Err(_) => (h.next(), 0),
    };
    Some(mix.with(ports | u64::from(protocol.0) << 32))
}

fn labels(mut mix: Mix, packet: &[u8]) -> Option<Mix> {
    let mut rest = packet;
    for _ in 0..mpls::MAX_DEPTH {
        let (&entry, after) = rest.split_first_chunk()?;
        let (label, _, bottom, _) = mpls::decode(entry);
        // Traffic class and TTL differ within a flow; special labels say
        // nothing about it (RFC 6790 section 4.3).
        if label >= mpls::special::FIRST_ORDINARY.get() {
            mix = mix.with(label.into());
        }
        rest = after;
        if bottom {
            let inner = match rest.first_chunk() {
                Some(front) if front[0] == PLAIN_V4 => {
                    is_plain_v4(front, rest).then(|| plain_v4(mix, front))
                }
                _ => any_below(mix, rest),
            };
            return Some(inner.unwrap_or(mix));
        }
        if label == mpls::special::ENTROPY_INDICATOR.get()
            && let Ok((entropy, _)) = mpls::Header::ref_from_prefix(rest)
        {
            return Some(mix.with(u64::from(entropy.label().get())));
        }
    }
    Some(mix)
}

/// The flow of the packet below a label stack, if it is IP.
#[inline(never)]
fn any_below(mix: Mix, octets: &[u8]) -> Option<Mix> {
    match octets.first().map(|b| b >> 4) {
        Some(4) if is_ip_v4(octets) => any_v4(mix, octets),
        Some(6) if is_ip_v6(octets) => ip_v6(mix, octets),
        _ => None,
    }
}

/// True for octets that begin like a header without options and have an IPv4 packet's lengths
/// and checksum.
#[inline(always)]
fn is_plain_v4(front: &Front, octets: &[u8]) -> bool {
    let len = usize::from(u16::from_be_bytes([front[2], front[3]]));
    let good = front.first_chunk().is_some_and(ipv4::is_plain_sum_good);
    good & (len >= ipv4::Header::LEN) & (len <= octets.len()) && fills(len, octets)
}

/// True for octets with an IPv4 packet's lengths and checksum.
fn is_ip_v4(octets: &[u8]) -> bool {
    ipv4::validate(octets).is_ok_and(|(_, _, len)| fills(len, octets))
}

/// True for octets with an IPv6 packet's length.
fn is_ip_v6(octets: &[u8]) -> bool {
    ipv6::validate(octets).is_ok_and(|(_, len)| fills(len, octets))
}

/// True if a packet of this length fills its frame, padding of a short one aside.
const fn fills(len: usize, octets: &[u8]) -> bool {
    len == octets.len() || octets.len() < ethernet::PAYLOAD_MIN
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::hex;
    use proptest::prelude::*;

    const MACS: &str = "020000000201 020000000101";
    const UDP: &str = "45b80024 00080000 3e1167f5 0a010009 0a020009 00070008 0010b986 56";
    const UDP6: &str = "60000000 0010113e 20010db8000100000000000000000009
                        20010db8000200000000000000000009 0007000800107114";

    fn hash(parts: &[&str]) -> u32 {
        flow_hash(&hex(&parts.concat()))
    }

    #[test]
    fn flows_differ_by_addresses_protocol_and_ports() {
        for packet in
            [("0800", UDP, [12, 15, 16, 19, 20, 23, 9]), ("86dd", UDP6, [8, 23, 24, 39, 40, 43, 6])]
        {
            let (kind, packet, fields) = packet;
            let frame = hex(&[MACS, kind, packet].concat());
            for at in fields {
                let mut other = frame.clone();
                // Another address, port, or TCP in place of UDP.
                other[14 + at] ^= if at == 6 || at == 9 { 17 ^ 6 } else { 1 };
                assert_ne!(flow_hash(&other), flow_hash(&frame), "octet {at}");
            }
        }
    }

    #[test]
    fn a_flow_stays_one_whatever_else_changes() {
        let frame = hex(&[MACS, "0800", UDP].concat());
        for at in [0, 6, 14 + 1, 14 + 5, 14 + 8, 14 + 24, 14 + 28] {
            let mut other = frame.clone();
            other[at] ^= 0x13;
            assert_eq!(flow_hash(&other), flow_hash(&frame), "octet {at}");
        }
    }

    #[test]
    fn fragments_of_a_datagram_stay_together() {
        let first = "45000024 00082000 3e110000 0a010009 0a020009 0007000800100000";
        let later = "45000024 00080001 3e110000 0a010009 0a020009 99887766";
        assert_eq!(hash(&[MACS, "0800", first]), hash(&[MACS, "0800", later]));
        let head = "60000000 00102c3e 20010db8000100000000000000000009
                    20010db8000200000000000000000009";
        let first = hash(&[MACS, "86dd", head, "1100000100000007 0007000800000000"]);
        let later = hash(&[MACS, "86dd", head, "1100000800000007 9988776655443322"]);
        assert_eq!(first, later);
    }

    #[test]
    fn labels_make_a_flow_and_ip_below_them_counts() {
        let labels = "0006503f 003e913f";
        let whole = [UDP, &"00".repeat(7)].concat();
        let udp = hash(&[MACS, "8847", labels, &whole]);
        assert_ne!(udp, hash(&[MACS, "8847", "0006603f 003e913f", &whole]));
        assert_eq!(udp, hash(&[MACS, "8847", "00065e11 003e9f11", &whole]), "class and TTL");
        let other = whole.replace("00070008", "00070009");
        assert_ne!(udp, hash(&[MACS, "8847", labels, &other]));
    }

    #[test]
    fn a_pseudowire_stays_together_with_a_control_word_and_without() {
        let labels = "0006513f";
        // The customer's address begins as an IPv4 or IPv6 packet does.
        for first in ["45b800000002", "600000000002"] {
            let frame =
                |data: &str| [first, "020000000001 88e5 2c00", data, &"00".repeat(30)].concat();
            let bare = |data| hash(&[MACS, "8847", labels, &frame(data)]);
            assert_eq!(bare("00000001"), bare("00000002"));
            let safe = |data| hash(&[MACS, "8847", labels, "00000000", &frame(data)]);
            assert_eq!(safe("00000001"), safe("00000002"));
        }
    }

    #[test]
    fn an_entropy_label_is_a_flow_whatever_follows_it() {
        let with = |entropy: &str, packet: &str| {
            hash(&[MACS, "8847", "0006503f", "0000703f", entropy, "003e913f", packet])
        };
        let other = UDP.replace("00070008", "00070009");
        assert_eq!(with("00abc000", UDP), with("00abc000", &other));
        assert_ne!(with("00abc000", UDP), with("00abd000", UDP));
    }

    #[test]
    fn paths_are_shared_evenly_and_by_each_node_in_its_own_way() {
        let mut packet = hex(UDP);
        let mut both = [[0u32; 4]; 4];
        for port in 0..8000u16 {
            packet[20..22].copy_from_slice(&port.to_be_bytes());
            let of = |seed| path_hash(seed, EtherType::IPV4, &packet) as usize % 4;
            both[of(1)][of(2)] += 1;
        }
        assert!(both.iter().flatten().all(|n| (400..600).contains(n)), "{both:?}");
    }

    #[test]
    fn flows_spread_evenly_over_workers() {
        let mut frame = hex(&[MACS, "0800", UDP].concat());
        let mut workers = [0u32; 8];
        for port in 0..8000u16 {
            frame[34..36].copy_from_slice(&port.to_be_bytes());
            workers[flow_hash(&frame) as usize % 8] += 1;
        }
        assert!(workers.iter().all(|n| (850..1150).contains(n)), "{workers:?}");
    }

    #[test]
    fn flows_of_neighbouring_ports_take_all_paths_alike() {
        let labelled = hex(&["003e8140", UDP, "00000000000000"].concat());
        let kinds = [
            (EtherType::IPV4, hex(UDP), 20),
            (EtherType::IPV6, hex(UDP6), 40),
            (EtherType::MPLS, labelled, 24),
        ];
        for (kind, mut packet, at) in kinds {
            // Of 64 flows in turn, 32 take one of two paths and 16 one of four, give or take.
            for (paths, off) in [(2_u64, 4.0), (4, 3.5)] {
                let mut apart = 0.0;
                for first in (1024..1024 + 64 * 64).step_by(64) {
                    let of = |port: u16| {
                        packet[at..at + 2].copy_from_slice(&port.to_be_bytes());
                        (u64::from(path_hash(7, kind, &packet)) * paths) >> 32 == 0
                    };
                    let count = (first..first + 64).map(of).filter(|&is_first| is_first).count();
                    apart += (count as f64 - 64.0 / paths as f64).abs() / 64.0;
                }
                assert!(apart < off, "{kind:?} by {paths}: {apart:.1} off on average");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_frame_has_a_flow(
            kind in prop_oneof![Just([0x08, 0]), Just([0x86, 0xdd]), Just([0x88, 0x47]), any::<[u8; 2]>()],
            first in prop_oneof![Just(0x45u8), Just(0x60), any::<u8>()],
            mut rest in proptest::collection::vec(any::<u8>(), 0..120),
        ) {
            let mut frame = vec![2; 12];
            frame.extend(kind);
            if let Some(b) = rest.first_mut() { *b = first; }
            frame.extend(rest);
            for n in 0..frame.len() {
                flow_hash(&frame[..n]);
            }
            prop_assert_eq!(flow_hash(&frame), flow_hash(&frame.clone()));
        }

        #[test]
        fn plain_headers_give_the_flow_of_any_header(
            mut packet in proptest::collection::vec(any::<u8>(), 24..80),
            len in prop_oneof![Just(None), (0..90u16).prop_map(Some)],
            whole in any::<bool>(),
            protocol in prop_oneof![Just(6), Just(17), Just(132), any::<u8>()],
        ) {
            (packet[0], packet[9]) = (PLAIN_V4, protocol);
            let len = len.unwrap_or(packet.len() as u16);
            packet[2..4].copy_from_slice(&len.to_be_bytes());
            if whole {
                (packet[6], packet[7]) = (0x40, 0);
            }
            let number = |mix: Option<Mix>| mix.map(Mix::finish);
            prop_assert_eq!(number(ip_v4(Mix(7), &packet)), number(any_v4(Mix(7), &packet)));
            for good in [false, true] {
                if good {
                    ipv4::fill_checksum(&mut packet);
                }
                let front = packet.first_chunk().unwrap();
                prop_assert_eq!(is_plain_v4(front, &packet), is_ip_v4(&packet));
            }
        }
    }
}
