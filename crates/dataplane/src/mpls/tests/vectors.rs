//! Hops of captured VPN packets, made by another implementation: frames that came in over
//! one link, and those that left by the next.
//!
//! The other implementation leaves the TTL below a popped label alone: the pipe model for
//! the transport label. The packets of the captures differ in a number alone, so each goes
//! through the paths of all.

use super::Rig;
use crate::graph::Next;
use crate::mpls::{Ilm, IlmAction, Lfib, Switch};
use crate::route::TtlModel::{self, Pipe, Uniform};
use crate::route::tests::rig::sent;
use crate::tables::Tables;
use ferrule_base::VrfId;
use ferrule_wire::{FromBytes, ipv4, ipv6};

const V4: &str = "1166f50a0100090a020009000700080010";
const V4_ABOVE: &str = "45b80024000800003f";
const V4_OUT: &str = "45b80024000800003e1167f50a0100090a020009000700080010";
const V6: &str = "20010db800010000000000000000000920010db80002000000000000000000090007000800";

fn hex(text: &str) -> Vec<u8> {
    text.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn through(entries: &[(u32, IlmAction, TtlModel)], octets: &str) -> (Next, Vec<u8>) {
    let entries =
        entries.iter().map(|(l, action, ttl)| (*l, Ilm { action: action.clone(), ttl: *ttl }));
    let lfib = Lfib::new(entries);
    let mut rig: Rig<Switch> = Rig::new(Tables { lfib, ..Tables::default() });
    let packet = rig.packet(&hex(octets));
    let (next, mut packet) = sent(rig.run(packet));
    if next == Next::Ip {
        // The next step of the Ip stage.
        assert_eq!(packet.meta().vrf, VrfId(1));
        if packet.data()[0] >> 4 == 4 {
            let (header, _) = ipv4::Header::mut_from_prefix(packet.data_mut()).unwrap();
            assert!(header.decrement_ttl());
        } else {
            let (header, _) = ipv6::Header::mut_from_prefix(packet.data_mut()).unwrap();
            assert!(header.decrement_hop_limit());
        }
    }
    (next, packet.data().to_vec())
}

fn swap(label: u32) -> IlmAction {
    IlmAction::Forward([label].into_iter().collect(), 0)
}

fn php() -> IlmAction {
    IlmAction::Forward(Default::default(), 0)
}

/// Name; transit label and action; the label stack on each link; the transport
/// label at the egress, if it gets there; model of the VPN label.
type Case = (&'static str, u32, fn() -> IlmAction, [&'static str; 2], Option<u32>, TtlModel);

const CASES: [Case; 4] = [
    ("swap", 100, || swap(200), ["0006403f003e913f", "000c803e003e913f"], Some(200), Uniform),
    ("php", 101, php, ["0006503f003e913f", "003e913f"], None, Uniform),
    ("pipe", 103, || swap(203), ["000670ff003e91ff", "000cb0fe003e91ff"], Some(203), Pipe),
    ("explicit null", 102, || swap(0), ["0006603f003e913f", "0000003e003e913f"], Some(0), Uniform),
];

#[test]
fn mpls_captured_l3vpn_hops_come_out_as_captured() {
    let v4 = |tail: &str| (format!("{V4_ABOVE}{V4}{tail}"), format!("{V4_OUT}{tail}"));
    let v6 = |tail: &str| {
        let packet = |hops: &str| format!("60000000001011{hops}{V6}{tail}");
        (packet("3f"), packet("3e"))
    };
    for (inside, outside) in [
        v4("39875600000001a55a7e"),
        v4("f9865600000041a55a7e"),
        v6("10f1145600000002a55a7e"),
        v6("10b1145600000042a55a7e"),
    ] {
        for (name, label, action, [first, second], egress, vpn) in CASES {
            let transit = [(label, action(), Pipe)];
            let (next, out) = through(&transit, &format!("{first}{inside}"));
            assert_eq!((next, out), (Next::Output, hex(&format!("{second}{inside}"))), "{name}");
            let mut entries = vec![(1001, IlmAction::Ip(VrfId(1)), vpn)];
            entries.extend(egress.map(|label| (label, IlmAction::Ip(VrfId::GLOBAL), Pipe)));
            let (next, out) = through(&entries, &format!("{second}{inside}"));
            assert_eq!((next, out), (Next::Ip, hex(&outside)), "{name}");
        }
    }
}
