//! The node asks for the link address of a host behind a TUN, where there are none: the
//! port answers in the host's name.

use super::TunAddresses;
use ferrule_wire::checksum::Sum;

const ARP: [u8; 2] = [0x08, 0x06];
const IPV6: [u8; 2] = [0x86, 0xdd];
const ICMPV6: u8 = 58;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;

/// Turns a question into its answer. False, and nothing done, for all else.
pub(super) fn turn(tun: TunAddresses, frame: &mut [u8]) -> bool {
    match frame.get(12..14) {
        Some(kind) if kind == ARP => arp(tun, frame),
        Some(kind) if kind == IPV6 => solicitation(tun, frame),
        _ => false,
    }
}

/// A request of ARP (RFC 826).
fn arp(tun: TunAddresses, frame: &mut [u8]) -> bool {
    let Some(arp) = frame.first_chunk_mut::<42>() else { return false };
    // Ethernet, IPv4, lengths 6 and 4, request; not for one's own address.
    if arp[14..22] != [0, 1, 8, 0, 6, 4, 0, 1] || arp[28..32] == arp[38..42] {
        return false;
    }
    let mut asker = [0; 4];
    asker.copy_from_slice(&arp[28..32]);
    arp[..6].copy_from_slice(&tun.node.0);
    arp[6..12].copy_from_slice(&tun.host.0);
    arp[21] = 2;
    arp[22..28].copy_from_slice(&tun.host.0);
    arp.copy_within(38..42, 28);
    arp[32..38].copy_from_slice(&tun.node.0);
    arp[38..42].copy_from_slice(&asker);
    true
}

/// A neighbour solicitation (RFC 4861 section 4.3) with the asker's link address, as
/// the node's resolver writes it: 24 octets and one option of 8.
fn solicitation(tun: TunAddresses, frame: &mut [u8]) -> bool {
    let Some(frame) = frame.first_chunk_mut::<86>() else { return false };
    let asks = frame[18..22] == [0, 32, ICMPV6, 255]
        && frame[54..56] == [SOLICITATION, 0]
        && frame[78..80] == [1, 1];
    // A host without an address looks for duplicates (RFC 4862 section 5.4): there are
    // none.
    if !asks || frame[22..38] == [0; 16] || frame[22..38] == frame[62..78] {
        return false;
    }
    let mut asker = [0; 16];
    asker.copy_from_slice(&frame[22..38]);
    frame[..6].copy_from_slice(&tun.node.0);
    frame[6..12].copy_from_slice(&tun.host.0);
    frame.copy_within(62..78, 22);
    frame[38..54].copy_from_slice(&asker);
    // Solicited, and replaces the cached address.
    frame[54..62].copy_from_slice(&[ADVERTISEMENT, 0, 0, 0, 0x60, 0, 0, 0]);
    frame[78..80].copy_from_slice(&[2, 1]);
    frame[80..86].copy_from_slice(&tun.host.0);
    let sum = Sum::new().with(&frame[22..54]).with_u32(32).with_u32(ICMPV6.into());
    let sum = sum.with(&frame[54..86]).finish();
    frame[56..58].copy_from_slice(&sum.to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_base::MacAddr;

    const TUN: TunAddresses =
        TunAddresses { node: MacAddr([2, 0, 0, 0, 0, 1]), host: MacAddr([2, 0, 0, 0, 0, 2]) };

    #[test]
    fn a_neighbour_solicitation_is_answered_for_whoever_is_behind() {
        let (node, host) = ([0xfd; 16], [0xfe; 16]);
        let mut frame = vec![0x33, 0x33, 0xff, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd];
        frame.extend([0x60, 0, 0, 0, 0, 32, ICMPV6, 255]);
        frame.extend(node);
        frame.extend([0xff; 16]);
        frame.extend([SOLICITATION, 0, 0, 0, 0, 0, 0, 0]);
        frame.extend(host);
        frame.extend([1, 1, 2, 0, 0, 0, 0, 1]);
        let asked = frame.clone();
        assert!(turn(TUN, &mut frame));
        assert_eq!(frame[..12], [TUN.node.0, TUN.host.0].concat());
        assert_eq!((&frame[22..38], &frame[38..54]), (&host[..], &node[..]));
        assert_eq!(frame[54..56], [ADVERTISEMENT, 0]);
        assert_eq!(frame[78..86], [2, 1, 2, 0, 0, 0, 0, 2]);
        let sum = Sum::new().with(&frame[22..86]).with_u32(32).with_u32(58);
        assert!(sum.is_good());
        for (at, octet) in [(21, 64), (55, 1), (78, 14), (20, 17)] {
            let mut other = asked.clone();
            other[at] = octet;
            let before = other.clone();
            assert!(!turn(TUN, &mut other) && other == before, "{at}");
        }
        for cut in 0..asked.len() {
            assert!(!turn(TUN, &mut asked[..cut].to_vec()));
        }
    }
}
