//! For any messages, in any order: no panic, bounded tables, and events that tell the data
//! path exactly the core's beliefs.

use super::rig::*;
use crate::Core;
use crate::neighbour::config::{ENTRIES_MAX, PENDING_MAX, TRANSMITS_MAX};
use crate::neighbour::{Command, Discovery, News, Order, State};
use ferrule_base::{Duration, Instant, MacAddr};
use ferrule_wire::EtherType;
use ferrule_wire::arp::Operation;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub(super) enum Step {
    Hear(Vec<u8>),
    Tell(Command),
    Wait(String),
    Pass(u64),
}

fn address() -> impl Strategy<Value = String> {
    prop_oneof![
        (0u8..6).prop_map(|n| format!("10.0.0.{n}")),
        (0u8..6).prop_map(|n| format!("2001:db8::{n}")),
        (0u8..6).prop_map(|n| format!("fe80::{n}")),
    ]
}

fn message() -> impl Strategy<Value = Vec<u8>> {
    let mac = prop::sample::select(vec![ALICE, MALLORY, OWN, MacAddr::BROADCAST]);
    (address(), address(), mac, any::<[bool; 4]>()).prop_map(|(a, b, mac, [x, y, z, w])| {
        let is_v4 = |s: &str| !s.contains(':');
        let hop_limit = if x && y && z { 64 } else { 255 };
        match (is_v4(&a), is_v4(&b)) {
            (true, true) => {
                let operation = if x { Operation::Request } else { Operation::Reply };
                arp(operation, mac, &a, &b)
            }
            (false, false) if w => nd(&a, &b, hop_limit, &solicitation(&b, x.then_some(mac))),
            (false, false) => nd(&a, &b, hop_limit, &advertisement(&a, [x, y], z.then_some(mac))),
            _ => link(OWN, ALICE, if x { EtherType::ARP } else { EtherType::IPV6 }, a.as_bytes()),
        }
    })
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let place = || address().prop_map(|a| (IFACE, ip(&a)));
    prop_oneof![
        8 => message().prop_map(Step::Hear),
        2 => (message(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(mut m, at, v)| {
            let at = at.index(m.len());
            m[at] = v;
            Step::Hear(m)
        }),
        2 => prop::collection::vec(any::<u8>(), 0..100).prop_map(Step::Hear),
        5 => address().prop_map(Step::Wait),
        1 => place().prop_map(|(iface, ip)| Step::Tell(Command::Keep { iface, ip })),
        1 => place().prop_map(|(iface, ip)| Step::Tell(Command::Release { iface, ip })),
        1 => Just(Step::Tell(Command::Interface(interface()))),
        1 => Just(Step::Tell(Command::Gone(IFACE))),
        5 => (0u64..20_000).prop_map(Step::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn neighbour_core_tells_the_data_path_what_it_believes(
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let mut rig = Rig::new();
        let mut data_path = BTreeMap::new();
        for step in steps {
            match step {
                Step::Hear(frame) => {
                    let _ = rig.hear(&frame);
                }
                Step::Tell(command) => rig.command(command),
                Step::Wait(neighbour) => rig.resolve(&neighbour),
                Step::Pass(millis) => rig.pass(millis),
            }
            rig.sent();
            for event in rig.events() {
                match event {
                    Wish::Order(Order::Set { iface, ip, mac }) => {
                        data_path.insert((iface, ip), mac);
                        prop_assert!(!mac.is_group() && mac != OWN);
                    }
                    Wish::Order(Order::Remove { iface, ip }) => {
                        prop_assert!(data_path.remove(&(iface, ip)).is_some());
                    }
                    Wish::News(News::Unique { iface, ip }) => {
                        prop_assert!(!rig.core.withheld().any(|own| own == (iface, ip)));
                    }
                    Wish::News(News::Unreachable { .. } | News::Duplicate { .. }) => {}
                    Wish::News(News::Refused { .. }) => prop_assert!(false, "nothing is refused"),
                }
            }
            for (&(iface, ip), &mac) in &data_path {
                prop_assert_eq!(rig.core.state(iface, ip).and_then(State::mac), Some(mac));
            }
            prop_assert!(rig.core.len() >= data_path.len());
        }
        // Left alone, everything is forgotten but the neighbours that a configuration
        // names.
        rig.command(Command::Gone(IFACE));
        rig.pass(100_000);
        prop_assert!(rig.core.is_empty() && rig.timer().is_none());
    }
}

/// The core stays within its bounds when its queues are not drained.
#[test]
fn neighbour_core_is_bounded_even_when_nobody_drains_it() {
    let mut core = Discovery::new();
    let mut wide = interface();
    wide.v4[0].1 = 8;
    let mut now = Instant::from_secs(1);
    core.handle_command(now, Command::Interface(wide));
    for n in 0..40_000u32 {
        now += Duration::from_millis(1);
        let sender = format!("10.{}.{}.{}", 1 + n / 40_000, n / 200, 1 + n % 200);
        let _ =
            core.handle_message(now, IFACE, &arp(Operation::Request, ALICE, &sender, "10.0.0.1"));
        if n % 1000 == 0 {
            core.handle_timeout(now);
        }
    }
    assert!(core.len() <= ENTRIES_MAX);
    // Questions and answers.
    let transmits = std::iter::from_fn(|| core.poll_transmit()).count();
    let orders = std::iter::from_fn(|| core.poll_order()).count();
    let events = orders + std::iter::from_fn(|| core.poll_news()).count();
    assert!(transmits <= 2 * TRANSMITS_MAX && events <= PENDING_MAX + 2, "{transmits} {events}");
}
