//! Fragments that do not want to be put together (RFC 791, RFC 8200 section 4.5, RFC
//! 5722, RFC 3128, RFC 7112), with ESP in them.

use crate::craft::{self, ESP, TCP, halves, v4_with, with};
use crate::rig::{
    NODE4, Rig, T4, T6, at_wan, each, hops_later, inner4, inner6, outer4, outer6, sealer, site,
};
use ferrule_base::{DropReason, Duration};

/// Sealed packets of this number over IPv4 and IPv6, in two pieces each, and the packet
/// that comes out.
fn pieces(number: u64) -> [([Vec<u8>; 2], Vec<u8>); 2] {
    let four = outer4(ESP, &sealer(T4).tunnel(number, &inner4(1)));
    let six = outer6(ESP, &sealer(T6).tunnel(number, &inner6(2)));
    let named = |packet: Vec<u8>| match packet[0] >> 4 {
        4 => v4_with(&packet, |p| p[5] = number as u8),
        _ => packet,
    };
    [
        (halves(&named(four), 64), hops_later(&inner4(1), 1)),
        (halves_of(&six, number), hops_later(&inner6(2), 1)),
    ]
}

fn halves_of(packet: &[u8], number: u64) -> [Vec<u8>; 2] {
    // The identification stands at the end of the fragment header.
    halves(packet, 64).map(|piece| with(&piece, |p| p[47] = number as u8))
}

/// Both pieces in either order make one packet.
fn whole_passes(rig: &mut Rig, number: u64) {
    for ([one, two], inner) in pieces(number) {
        rig.send("wan", &[at_wan(&two)]);
        assert_eq!(rig.heard(), [], "it waits");
        rig.passes("wan", &at_wan(&one), "lan", &inner);
    }
    rig.honest_traffic_passes();
}

#[test]
fn overlapping_fragments_of_esp_end_the_datagram() {
    each(site(""), |rig| {
        for ([one, two], _) in pieces(9) {
            let at = if one[0] >> 4 == 4 { 20 } else { 48 };
            // The second piece again, one unit earlier, with other octets.
            let overlapping = craft::moved(&two, -8, &[&[0xee; 8][..], &two[at..]].concat());
            rig.send("wan", &[at_wan(&one)]);
            // Both go: the one that waited and the one that came.
            rig.given_up("wan", &[at_wan(&overlapping)], &[(DropReason::FragmentOverlap, 2)]);
            rig.refused("wan", &[at_wan(&two)], DropReason::FragmentOverlap);
        }
        whole_passes(rig, 10);
    });
}

#[test]
fn a_fragment_inside_another_with_other_octets_ends_the_datagram() {
    each(site(""), |rig| {
        for ([one, _], _) in pieces(9) {
            let at = if one[0] >> 4 == 4 { 20 } else { 48 };
            let inside = craft::moved(&one, 16, &[0xee; 16]);
            assert!(inside.len() < one.len() && at > 0);
            rig.send("wan", &[at_wan(&one)]);
            rig.given_up("wan", &[at_wan(&inside)], &[(DropReason::FragmentOverlap, 2)]);
        }
        whole_passes(rig, 10);
    });
}

#[test]
fn a_datagram_with_two_ends_is_an_overlap() {
    each(site(""), |rig| {
        for ([_, two], _) in pieces(9) {
            let at = if two[0] >> 4 == 4 { 20 } else { 48 };
            let farther = craft::moved(&two, 64, &two[at..]);
            rig.send("wan", &[at_wan(&two)]);
            rig.given_up("wan", &[at_wan(&farther)], &[(DropReason::FragmentOverlap, 2)]);
        }
        whole_passes(rig, 10);
    });
}

#[test]
fn a_fragment_that_is_sent_twice_is_a_duplicate() {
    each(site(""), |rig| {
        for ([one, two], inner) in pieces(9) {
            rig.send("wan", &[at_wan(&one)]);
            rig.refused("wan", &vec![at_wan(&one); 5], DropReason::FragmentDuplicate);
            rig.passes("wan", &at_wan(&two), "lan", &inner);
        }
        rig.honest_traffic_passes();
    });
}

#[test]
fn a_fragment_without_data_is_malformed() {
    each(site(""), |rig| {
        for ([one, _], _) in pieces(9) {
            let empty = craft::moved(&one, 8, &[]);
            rig.refused("wan", &[at_wan(&empty)], DropReason::Malformed);
        }
        whole_passes(rig, 10);
    });
}

#[test]
fn an_ipv4_fragment_of_odd_length_with_more_to_come_is_malformed() {
    each(site(""), |rig| {
        let [([one, _], _), _] = pieces(9);
        let odd = craft::moved(&one, 0, &one[20..one.len() - 3]);
        rig.refused("wan", &[at_wan(&odd)], DropReason::Malformed);
        whole_passes(rig, 10);
    });
}

#[test]
fn a_fragment_beyond_65535_octets_is_malformed() {
    // The ping of death.
    each(site(""), |rig| {
        let [([_, two], _), _] = pieces(9);
        let death = v4_with(&two, |p| p[6..8].copy_from_slice(&0x1fff_u16.to_be_bytes()));
        rig.refused("wan", &[at_wan(&death)], DropReason::Malformed);
        whole_passes(rig, 10);
    });
}

#[test]
fn a_tiny_first_fragment_of_tcp_hides_no_flags() {
    each(site(""), |rig| {
        let syn = craft::ip(TCP, "198.51.100.7", NODE4, &[1; 40]);
        let [tiny, _] = halves(&syn, 8);
        rig.refused("wan", &[at_wan(&tiny)], DropReason::FragmentTiny);
        // The same flags said anew by a piece at offset 8.
        let [_, anew] = halves(&syn, 8);
        rig.refused("wan", &[at_wan(&anew)], DropReason::FragmentTiny);
        whole_passes(rig, 10);
    });
}

#[test]
fn an_ipv6_first_fragment_without_its_whole_chain_of_headers_is_refused() {
    each(site(""), |rig| {
        let esp = sealer(T6).tunnel(9, &inner6(1));
        let chain = craft::behind_options(4, ESP, &esp);
        let packet = outer6(craft::DESTINATION, &chain);
        // Cut behind the chain, and within it.
        let [cut, _] = halves(&packet, 32);
        rig.refused("wan", &[at_wan(&cut)], DropReason::FragmentTiny);
        let [cut, _] = halves(&packet, 24);
        rig.refused("wan", &[at_wan(&cut)], DropReason::Malformed);
        let [one, two] = halves(&packet, 64);
        rig.send("wan", &[at_wan(&one)]);
        rig.passes("wan", &at_wan(&two), "lan", &hops_later(&inner6(1), 1));
        whole_passes(rig, 10);
    });
}

#[test]
fn pieces_of_pieces_that_claim_one_place_are_an_overlap() {
    each(site(""), |rig| {
        let good = outer6(ESP, &sealer(T6).tunnel(9, &inner6(1)));
        let [one, two] = halves(&good, 64);
        // A second fragment header in front: the first piece of a datagram of pieces.
        let again = |piece: &[u8]| {
            let front = [craft::FRAGMENT, 0, 0, 1, 0, 0, 0, 77];
            let data = &piece[40..40 + (piece.len() - 40) / 8 * 8];
            at_wan(&outer6(craft::FRAGMENT, &[&front, data].concat()))
        };
        rig.send("wan", &[again(&one)]);
        rig.given_up("wan", &[again(&two)], &[(DropReason::FragmentOverlap, 2)]);
        rig.send("wan", &[at_wan(&one)]);
        rig.passes("wan", &at_wan(&two), "lan", &hops_later(&inner6(1), 1));
        whole_passes(rig, 10);
    });
}

#[test]
fn pieces_of_two_senders_never_meet() {
    each(site(""), |rig| {
        for ([one, two], inner) in pieces(9) {
            let at = if one[0] >> 4 == 4 { 15 } else { 23 };
            let forged = with(&two, |p| p[at] = 77);
            let forged = if at == 15 { v4_with(&forged, |_| ()) } else { forged };
            rig.send("wan", &[at_wan(&one), at_wan(&forged)]);
            assert_eq!(rig.heard(), []);
            rig.passes("wan", &at_wan(&two), "lan", &inner);
        }
        // Pieces that wait for others that never come are dropped in the end, and counted.
        let drops = rig.net.drops(0);
        rig.net.wait(Duration::from_secs(61));
        let gone = rig.net.dropped(0, DropReason::ReassemblyTimeout);
        assert_eq!(gone - drops.get(DropReason::ReassemblyTimeout), 2);
    });
}

#[test]
fn a_bomb_of_first_fragments_takes_a_bounded_part_of_the_buffers() {
    each(site(""), |rig| {
        let [([one, _], _), ([six, _], _)] = pieces(9);
        let bomb = (0..1000_u16).flat_map(|n| {
            let id = n.to_be_bytes();
            let four = v4_with(&one, |p| {
                p[4..6].copy_from_slice(&id);
                // From a few hundred sources.
                p[12..15].copy_from_slice(&[203, 0, 113]);
                p[15] = n as u8;
            });
            let six = with(&six, |p| {
                p[46..48].copy_from_slice(&id);
                p[13] = n as u8;
            });
            [at_wan(&four), at_wan(&six)]
        });
        let frames: Vec<_> = bomb.collect();
        let pool = rig.net.members[0].pool.clone();
        let most = pool.chunks() / 8;
        let full = rig.net.dropped(0, DropReason::ReassemblyFull);
        for some in frames.chunks(500) {
            rig.send("wan", some);
        }
        assert_eq!(rig.heard(), []);
        let held = rig.net.ledger(0).held as usize;
        assert!(held <= most.min(256), "{held} of {}", pool.chunks());
        let full = rig.net.dropped(0, DropReason::ReassemblyFull) - full;
        assert_eq!(full as usize + held, frames.len());
        rig.net.assert_conserved();
        // The bomb makes no room for itself at others' cost for long.
        whole_passes(rig, 10);
        rig.net.wait(Duration::from_secs(62));
        assert_eq!(rig.net.ledger(0).held, 0);
        rig.heard();
    });
}

#[test]
fn one_source_cannot_take_the_place_of_others_fragments() {
    each(site(""), |rig| {
        let [([one, two], inner), _] = pieces(9);
        rig.send("wan", &[at_wan(&one)]);
        let bomb = (0..1000_u16).map(|n| {
            at_wan(&v4_with(&one, |p| {
                p[4..6].copy_from_slice(&n.to_be_bytes());
                p[12..16].copy_from_slice(&[203, 0, 113, 7]);
            }))
        });
        let frames: Vec<_> = bomb.collect();
        let full = rig.net.dropped(0, DropReason::ReassemblyFull);
        rig.send("wan", &frames);
        let full = rig.net.dropped(0, DropReason::ReassemblyFull) - full;
        assert_eq!(full, 1000 - 64, "64 of one source");
        assert_eq!(rig.heard(), []);
        rig.passes("wan", &at_wan(&two), "lan", &inner);
        rig.honest_traffic_passes();
    });
}

#[test]
fn a_datagram_too_long_for_one_buffer_is_given_up() {
    each(site(""), |rig| {
        let [([one, _], _), _] = pieces(9);
        let far = craft::moved(&one, 4096, &[7; 64]);
        rig.refused("wan", &[at_wan(&far)], DropReason::ReassemblyTooBig);
        rig.refused("wan", &[at_wan(&one)], DropReason::ReassemblyTooBig);
        whole_passes(rig, 10);
    });
}
