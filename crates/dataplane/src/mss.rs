//! TCP's maximum segment size, held to what a path carries (RFC 9293 section 3.7.1): a host
//! that does not receive "packet too big" then sends no segment that is.
//!
//! ```text
//!   SYN │ ports seq ack … checksum │ 2 4 MSS │ 1 │ 3 3 7 │ …
//!                                        └─ the smaller of this and the MTU less
//!                                           headers: 40 octets, in IPv6 60
//! ```
//!
//! The option is changed in place, and the checksum by the difference (RFC 1624): a wrong
//! checksum stays as wrong as it was. A SYN without the option means 536 octets (IPv6:
//! 1220), which fit; none is added. A header that is cut short, spread over fragments or
//! contradicts itself stays as it is.
//!
//! A tunnel does it where it seals and opens, to the inner packet; an interface in a stage
//! of its own ([`Clamp`]), through which go packets to it and from it.

use crate::graph::{Ctx, Next, Stage};
use crate::tables::{IfaceKind, RoutedIface, Tables};
use ferrule_pipeline::Batch;
use ferrule_wire::{FromBytes, Protocol, checksum, ipv4, ipv6, ipv6ext, tcp};

/// The option's kind and length.
const MSS: [u8; 2] = [2, 4];
/// Offset of the checksum in a TCP header.
const CHECKSUM_AT: usize = 16;

/// The stage at [`Next::Clamp`].
#[derive(Default)]
pub struct Clamp;

impl Stage for Clamp {
    /// Holds connections to the smaller MSS of the interfaces of arrival and departure, and
    /// sends packets on as without this stage.
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        ctx.forward(batch, |ctx, packet| {
            let meta = packet.meta();
            let adjacency = ctx.tables.adjacencies.get(meta.adjacency as usize);
            let to = adjacency.and_then(|a| routed(ctx.tables, a.iface));
            let ends = [routed(ctx.tables, meta.iface), to];
            let mtu = ends.into_iter().flatten().filter_map(|iface| iface.clamp).min();
            if let Some(mtu) = mtu {
                clamp(packet.data_mut(), mtu.into());
            }
            // Of an interface that is not there the policy is asked, which refuses.
            let policy = to.is_none_or(|iface| iface.policy.is_some());
            Ok(if policy { Next::Policy } else { Next::Output })
        });
    }
}

fn routed(tables: &Tables, iface: u16) -> Option<&RoutedIface> {
    match &tables.ifaces.get(usize::from(iface))?.kind {
        IfaceKind::Routed(routed) => Some(routed),
        _ => None,
    }
}

/// Lowers the MSS of a SYN in the IP packet at the front of `data` to the largest that fits
/// `mtu`; true if it was higher.
pub fn clamp(data: &mut [u8], mtu: usize) -> bool {
    let Some((at, headers)) = tcp_at(data) else { return false };
    let most = u16::try_from(mtu.saturating_sub(headers)).unwrap_or(u16::MAX);
    match data.get_mut(at..) {
        Some(segment) => clamp_segment(segment, most),
        None => false,
    }
}

/// Offset of the TCP header, and the octets of IP and TCP header without options.
fn tcp_at(data: &[u8]) -> Option<(usize, usize)> {
    match data.first()? >> 4 {
        4 => {
            let (h, _) = ipv4::Header::ref_from_prefix(data).ok()?;
            let first = h.fragment.get() & 0x1fff == 0;
            let at = h.header_len();
            let tcp = h.protocol() == Protocol::TCP && first && at >= ipv4::Header::LEN;
            tcp.then_some((at, ipv4::Header::LEN + tcp::Header::LEN))
        }
        6 => {
            let (h, payload) = ipv6::Header::ref_from_prefix(data).ok()?;
            let upper = ipv6ext::walk(h.next(), payload).ok()?;
            let first = upper.fragment.is_none_or(|f| f.offset == 0);
            let tcp = upper.protocol == Protocol::TCP && first;
            tcp.then_some((ipv6::Header::LEN + upper.offset, ipv6::Header::LEN + tcp::Header::LEN))
        }
        _ => None,
    }
}

fn clamp_segment(segment: &mut [u8], most: u16) -> bool {
    let Ok((header, _)) = tcp::Header::ref_from_prefix(segment) else { return false };
    if !header.flags().contains(tcp::Flags::SYN) {
        return false;
    }
    let end = header.header_len().min(segment.len());
    let (mut at, mut lowered) = (tcp::Header::LEN, false);
    // Each step is at least one octet of at most 40.
    while at < end {
        let len = match segment.get(at..end).unwrap_or_default() {
            [0, ..] => break,
            [1, ..] => 1,
            &[kind, len, high, low, ..] if [kind, len] == MSS => {
                lowered |= lower(segment, at + 2, u16::from_be_bytes([high, low]), most);
                4
            }
            &[_, len, ..] if len >= 2 => usize::from(len),
            _ => break,
        };
        at += len;
    }
    lowered
}

/// Writes `most` at `at`, if it is less than the old value.
fn lower(segment: &mut [u8], at: usize, old: u16, most: u16) -> bool {
    if old <= most {
        return false;
    }
    let [high, low] = most.to_be_bytes();
    // At an odd place the two octets belong to two words, the wrong way round.
    let (was, is) =
        if at.is_multiple_of(2) { (old, most) } else { (old.swap_bytes(), most.swap_bytes()) };
    if let Some([a, b]) = segment.get_mut(at..at + 2) {
        (*a, *b) = (high, low);
    }
    if let Some([a, b]) = segment.get_mut(CHECKSUM_AT..CHECKSUM_AT + 2) {
        [*a, *b] = checksum::update(u16::from_be_bytes([*a, *b]), was, is).to_be_bytes();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_wire::checksum::Ends;
    use proptest::prelude::*;

    const V4: Ends =
        Ends::V4(std::net::Ipv4Addr::new(10, 1, 0, 9), std::net::Ipv4Addr::new(10, 2, 0, 9));
    const V6: Ends = Ends::V6(
        std::net::Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 9),
        std::net::Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 9),
    );

    /// A TCP segment with these options, its checksum right.
    fn segment(ends: Ends, flags: u16, options: &[u8]) -> Vec<u8> {
        assert!(options.len().is_multiple_of(4));
        let mut out = vec![0x12, 0x34, 0, 80, 1, 2, 3, 4, 0, 0, 0, 0];
        let words = (5 + options.len() / 4) as u16;
        out.extend((words << 12 | flags).to_be_bytes());
        out.extend([0xff, 0xff, 0, 0, 0, 0]);
        out.extend(options);
        out.extend(b"data");
        let sum = ends.pseudo(Protocol::TCP, out.len()).with(&out).finish();
        out[16..18].copy_from_slice(&sum.to_be_bytes());
        out
    }

    fn packet(ends: Ends, segment: &[u8]) -> Vec<u8> {
        let mut out = match ends {
            Ends::V4(src, dst) => {
                let repr = ipv4::Repr::new(Protocol::TCP, src, dst, segment.len() as u16);
                let mut out = vec![0; repr.len()];
                repr.emit(&mut out);
                out
            }
            Ends::V6(src, dst) => {
                let repr = ipv6::Repr::new(Protocol::TCP, src, dst, segment.len() as u16);
                let mut out = vec![0; repr.len()];
                repr.emit(&mut out);
                out
            }
        };
        out.extend(segment);
        out
    }

    fn checksum_ok(ends: Ends, segment: &[u8]) -> bool {
        ends.pseudo(Protocol::TCP, segment.len()).with(segment).is_good()
    }

    const SYN: u16 = 0x002;

    #[test]
    fn mss_clamping_of_ipv4_and_ipv6_keeps_the_checksum_right() {
        for (ends, header, fits) in [(V4, 20, 1360), (V6, 40, 1340)] {
            let mut data = packet(ends, &segment(ends, SYN, &[2, 4, 5, 0xb4]));
            assert!(clamp(&mut data, 1400));
            let tcp = &data[header..];
            assert_eq!(u16::from_be_bytes([tcp[22], tcp[23]]), fits);
            assert!(checksum_ok(ends, tcp));
            let before = data.clone();
            assert!(!clamp(&mut data, 1400) && !clamp(&mut data, 9000));
            assert_eq!(data, before, "what fits is not made larger");
        }
    }

    #[test]
    fn mss_clamping_leaves_all_but_syn_alone() {
        for flags in [0x010, 0x018, 0x001, 0x004] {
            let mut data = packet(V4, &segment(V4, flags, &[2, 4, 5, 0xb4]));
            assert!(!clamp(&mut data, 600));
        }
        let mut data = packet(V4, &segment(V4, 0x012, &[2, 4, 5, 0xb4]));
        assert!(clamp(&mut data, 600), "SYN with ACK is one");
        let mut udp = data.clone();
        udp[9] = 17;
        assert!(!clamp(&mut udp, 500));
        let mut later = data.clone();
        later[7] = 1;
        assert!(!clamp(&mut later, 500), "a later fragment has no header");
        assert!(clamp(&mut data, 500));
    }

    #[test]
    fn mss_clamping_finds_the_option_behind_odd_ones() {
        let odd: [(&[u8], bool); 8] = [
            (&[1, 2, 4, 5, 0xb4, 1, 1, 1], true),
            (&[1, 1, 1, 2, 4, 0xff, 0xff, 0], true),
            (&[3, 3, 7, 2, 4, 5, 0xb4, 0], true),
            (&[8, 10, 0, 0, 0, 0, 0, 0, 0, 0, 2, 4, 5, 0xb4, 0, 0], true),
            // Behind the end, of a wrong length, without an end, cut short.
            (&[0, 2, 4, 5, 0xb4, 0, 0, 0], false),
            (&[2, 3, 5, 0xb4], false),
            (&[8, 0, 2, 4, 5, 0xb4, 1, 1], false),
            (&[1, 1, 2, 4], false),
        ];
        for (options, found) in odd {
            for ends in [V4, V6] {
                let mut data = packet(ends, &segment(ends, SYN, options));
                let at = if ends == V4 { 20 } else { 40 };
                assert_eq!(clamp(&mut data, 700), found, "{options:?}");
                assert!(checksum_ok(ends, &data[at..]), "{options:?}");
            }
        }
        let mut two = packet(V4, &segment(V4, SYN, &[2, 4, 5, 0xb4, 2, 4, 9, 9]));
        assert!(clamp(&mut two, 1000));
        assert_eq!(
            (&two[42..44], &two[46..48]),
            (&960u16.to_be_bytes()[..], &960u16.to_be_bytes()[..])
        );
    }

    #[test]
    fn mss_clamping_looks_behind_ipv6_extension_headers_and_ipv4_options() {
        let tcp = segment(V6, SYN, &[2, 4, 5, 0xb4]);
        let mut data = packet(V6, &tcp);
        data[6] = 60;
        data[4..6].copy_from_slice(&(tcp.len() as u16 + 8).to_be_bytes());
        data.splice(40..40, [6, 0, 1, 4, 0, 0, 0, 0]);
        assert!(clamp(&mut data, 1300) && checksum_ok(V6, &data[48..]));
        let mut data = packet(V4, &segment(V4, SYN, &[2, 4, 5, 0xb4]));
        data.splice(20..20, [1, 1, 1, 0]);
        data[0] = 0x46;
        assert!(clamp(&mut data, 1300) && checksum_ok(V4, &data[24..]));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn mss_clamping_never_breaks_a_checksum_that_was_right(
            v6: bool,
            options in proptest::collection::vec(prop_oneof![0u8..6, any::<u8>()], 0..40),
            mtu in 0usize..2000,
        ) {
            let ends = if v6 { V6 } else { V4 };
            let whole = options.len() & !3;
            let mut data = packet(ends, &segment(ends, SYN, &options[..whole]));
            clamp(&mut data, mtu);
            let at = if v6 { 40 } else { 20 };
            prop_assert!(checksum_ok(ends, &data[at..]));
        }

        #[test]
        fn mss_clamping_of_any_octets_stays_within_them(
            mut data in proptest::collection::vec(any::<u8>(), 0..120), version in 4u8..7,
        ) {
            if let Some(first) = data.first_mut() {
                *first = version << 4 | 5;
            }
            clamp(&mut data, 100);
        }
    }
}
