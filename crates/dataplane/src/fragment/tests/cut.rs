//! Cut and put together again.

use super::text;
use crate::graph::{FLAG_CUT, FLAG_LOCAL, Next};
use crate::route::tests::rig::{Fate, Rig, dropped, sent, v4, v6};
use ferrule_base::DropReason;
use ferrule_wire::Protocol;
use proptest::prelude::*;

/// Packets that `Output` makes of a packet from this node, in the order of sending.
fn output(rig: &mut Rig, octets: &[u8], mtu: u16) -> Vec<Vec<u8>> {
    rig.routed(0).mtu = mtu;
    let mut packet = rig.ip_packet(octets);
    (packet.meta_mut().adjacency, packet.meta_mut().flags) = (0, FLAG_LOCAL);
    let fates = rig.put_out(packet);
    let octets = fates.into_iter().map(|fate| match fate {
        Fate::Sent(Next::Emit | Next::Transmit, packet) => packet.data()[14..].to_vec(),
        fate => panic!("{fate:?}"),
    });
    octets.collect()
}

fn together(rig: &mut Rig, pieces: &[Vec<u8>]) -> Vec<u8> {
    let mut fates = Vec::new();
    for piece in pieces {
        let packet = rig.ip_packet(piece);
        fates = rig.run_reassemble(packet);
    }
    sent(fates).1.data().to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, cases: 128, ..Default::default()
    })]

    #[test]
    fn fragments_made_here_are_put_together_to_the_same_packet(
        version in prop_oneof![Just(4u8), Just(6)],
        len in 16usize..3700, mtu in 200u16..1500, chain in 0usize..3, reverse: bool,
    ) {
        let mut rig = Rig::new();
        let mut octets = match version {
            4 => v4("10.0.0.1", "10.0.0.2", Protocol::ESP, &text(len, 3)),
            _ => v6("2001:db8::1", "2001:db8::2", Protocol::ESP, &text(len, 3)),
        };
        if version == 6 && chain > 0 {
            // Hop-by-hop, or a routing header behind destination options.
            let kinds = if chain == 1 { vec![(0, 50)] } else { vec![(60, 43), (43, 50)] };
            let mut headers = Vec::new();
            for &(_, next) in &kinds {
                headers.extend([next, 0, 1, 4, 0, 0, 0, 0]);
            }
            octets[6] = kinds[0].0;
            octets.splice(40..40, headers);
            let len = (octets.len() - 40) as u16;
            octets[4..6].copy_from_slice(&len.to_be_bytes());
        }
        let mut pieces = output(&mut rig, &octets, mtu);
        prop_assert!(pieces.iter().all(|p| p.len() <= mtu.into()));
        prop_assert_eq!(pieces.len() > 1, octets.len() > mtu.into());
        prop_assert_eq!(rig.tally.made as usize, pieces.len() - 1);
        if reverse {
            pieces.reverse();
        }
        if pieces.len() > 1 {
            prop_assert_eq!(together(&mut rig, &pieces), octets);
        }
    }
}

#[test]
fn ipv6_packet_of_others_is_never_cut() {
    let mut rig = Rig::new();
    rig.routed(0).mtu = 1280;
    let packet = rig.ip_packet(&v6("2001:db8:9::1", "2001:db8::2", Protocol::UDP, &[0; 1300]));
    assert_eq!(sent(rig.run_output(packet)).0, Next::IcmpError);
    // Nor one that is a fragment already, made by another node.
    let fragment = [17, 0, 0, 1, 0, 0, 0, 9].into_iter().chain([0; 1300]).collect::<Vec<u8>>();
    let octets = v6("2001:db8::1", "2001:db8::2", Protocol::FRAGMENT, &fragment);
    let mut packet = rig.ip_packet(&octets);
    packet.meta_mut().flags = FLAG_LOCAL;
    assert_eq!(dropped(rig.run_output(packet)), DropReason::TooBig);
}

#[test]
fn packet_made_here_is_cut_for_a_path_narrower_than_the_link() {
    for (version, path, links) in
        [(4, 1000, 1500), (6, 1280, 1500), (4, 1400, 700), (6, 9000, 1280)]
    {
        let mut rig = Rig::new();
        rig.routed(0).mtu = links;
        let octets = match version {
            4 => v4("10.0.0.1", "10.0.0.2", Protocol::ESP, &text(1440, 3)),
            _ => v6("2001:db8::1", "2001:db8::2", Protocol::ESP, &text(1440, 3)),
        };
        let mut packet = rig.ip_packet(&octets);
        let meta = packet.meta_mut();
        (meta.adjacency, meta.flags, meta.limit) = (0, FLAG_LOCAL | FLAG_CUT, path);
        let most = usize::from(links.min(path));
        let mut pieces = Vec::new();
        for fate in rig.run_output(packet) {
            let Fate::Sent(Next::Output, packet) = fate else { panic!("{fate:?}") };
            let meta = packet.meta();
            assert_eq!((meta.adjacency, meta.flags, meta.limit), (0, FLAG_LOCAL, 0));
            assert!(packet.len() <= most);
            pieces.push(packet.data().to_vec());
        }
        assert!(pieces.len() > 1);
        assert_eq!(together(&mut rig, &pieces), octets);
    }
}
