//! The policy, compiled, against a model that goes through it line by line; its size,
//! and the time that it takes to compile.

mod model;
mod scale;

use crate::ipsec::spd::{Direction, Key, Outcome, Refused, Rules};
use crate::ipsec::{Action, Decision, PolicyEntry, SelectorError, Spd};
use ferrule_base::DropReason;
use ferrule_pipeline::Packet;
use model::{Traffic, admits, decide, entries, selector, traffic};
use proptest::collection::vec;
use proptest::prelude::*;
use std::net::IpAddr;

fn agrees(spd: &Spd, entries: &[PolicyEntry], t: &Traffic) -> Result<(), TestCaseError> {
    let (place, action) = decide(entries, t);
    let out = spd.outbound(&t.outbound()).map_err(|e| TestCaseError::fail(e.name()))?;
    let counter = place.map_or(crate::ipsec::UNCOUNTED, |place| entries[place].counter);
    prop_assert_eq!((out.action, out.counter), (action, counter), "out: {:?}", t);
    let inn = spd.inbound(&t.inbound()).map_err(|e| TestCaseError::fail(e.name()))?;
    prop_assert_eq!((inn.action, inn.counter), (action, counter), "in: {:?}", t);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 200, ..Default::default() })]

    #[test]
    fn spd_says_what_a_linear_walk_says_of_few_entries(
        entries in entries(0..12), packets in vec(traffic(), 60),
    ) {
        let spd = Spd::new(&entries).unwrap();
        for t in &packets {
            agrees(&spd, &entries, t)?;
        }
    }

    #[test]
    fn spd_opened_packets_are_checked_against_all_selectors_of_an_sa(
        selectors in vec(selector(), 1..40), packets in vec(traffic(), 60),
    ) {
        let rules = Rules::new(selectors.iter().map(|s| (s, ()))).unwrap();
        for t in &packets {
            prop_assert_eq!(rules.admit(&t.inbound()), Ok(admits(&selectors, t)), "{:?}", t);
        }
    }

    #[test]
    fn spd_batch_says_what_each_packet_by_itself_is_told(
        entries in entries(0..60), packets in vec(traffic(), 0..64),
    ) {
        let spd = Spd::new(&entries).unwrap().counting_rest(77);
        let mut cache = ferrule_pipeline::Pool::heap(64, 512).cache();
        let packet = |(n, octets): (usize, Vec<u8>)| {
            // Of some there is not enough to be read.
            let len = if n % 9 == 4 { 3 } else { octets.len() };
            cache.packet_from(&octets[..len]).unwrap()
        };
        let octets = packets.iter().map(Traffic::outbound).enumerate();
        let packets: Vec<Packet> = octets.map(packet).collect();
        let (mut outcomes, mut refused) = (vec![Outcome::default(); packets.len()], Refused::new());
        let first = 64 - packets.len();
        spd.decide_outbound(&packets, &mut outcomes, &mut refused, first);
        let told = |n: usize| match refused.iter().find(|refused| refused.0 == first + n) {
            Some(&(_, reason)) => Err((reason, outcomes[n])),
            None => Ok(Decision::from(outcomes[n])),
        };
        for (n, packet) in packets.iter().enumerate() {
            let alone = spd.outbound(packet.data());
            prop_assert_eq!(told(n), alone.map_err(|reason| (reason, Outcome::CLOSED)));
        }
    }

    #[test]
    fn spd_column_of_keys_is_told_what_each_packet_by_itself_is_told(
        entries in entries(0..60), packets in vec(traffic(), 0..300),
    ) {
        let spd = Spd::new(&entries).unwrap();
        let (mut v4, mut v6, mut told) = (Vec::new(), Vec::new(), [Vec::new(), Vec::new()]);
        for t in &packets {
            // Less than four octets are read from the packet.
            let first = (t.fragment == 0 && t.len >= 4).then_some(t.first);
            if t.fragment == 0 && t.len < 4 {
                continue;
            }
            let seen = t.fragment == 0 || t.local.is_ipv4();
            let protocol = seen.then_some(t.protocol);
            let out = Direction::Outbound;
            match (t.local, t.remote) {
                (IpAddr::V4(a), IpAddr::V4(b)) => {
                    v4.push(Key::new(out, (a.to_bits(), b.to_bits()), protocol, first));
                }
                (IpAddr::V6(a), IpAddr::V6(b)) => {
                    v6.push(Key::new(out, (a.to_bits(), b.to_bits()), protocol, first));
                }
                _ => {}
            }
            told[usize::from(t.local.is_ipv6())].push(spd.outbound(&t.outbound()).unwrap());
        }
        let mut outcomes = [vec![Outcome::default(); v4.len()], vec![Outcome::default(); v6.len()]];
        spd.decide_v4(&v4, &mut outcomes[0]);
        spd.decide_v6(&v6, &mut outcomes[1]);
        let decisions = outcomes.map(|all| all.into_iter().map(Decision::from).collect::<Vec<_>>());
        prop_assert_eq!(decisions, told);
    }

    #[test]
    fn spd_never_panics_on_any_octets(
        octets in vec(any::<u8>(), 0..90), version in 4_u8..7, entries in entries(0..9),
    ) {
        let site = Spd::new(&entries).unwrap();
        let mut octets = octets;
        if let Some(first) = octets.first_mut() {
            *first = *first & 15 | version << 4;
        }
        let _ = (site.outbound(&octets), site.inbound(&octets));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 24, ..Default::default() })]

    #[test]
    fn spd_says_what_a_linear_walk_says_of_many_entries(
        entries in entries(200..900), packets in vec(traffic(), 300),
    ) {
        let spd = Spd::new(&entries).unwrap();
        for t in &packets {
            agrees(&spd, &entries, t)?;
        }
    }
}

#[test]
fn spd_fragment_passes_in_clear_only_if_no_entry_before_may_mean_it() {
    let site = || super::between("10.1.0.0/16", "10.2.0.0/16").of(ferrule_wire::Protocol::TCP);
    let port =
        |port| crate::ipsec::Selector { remote_ports: crate::ipsec::Field::is(port), ..site() };
    // The first entry that may mean it lets it pass, the second does not.
    let entries = [
        PolicyEntry::new(port(22), Action::Bypass),
        PolicyEntry::new(port(23), Action::Protect(1)),
        PolicyEntry::new(site(), Action::Bypass),
    ];
    let spd = Spd::new(&entries).unwrap();
    let mut later = super::inner(4, 60, 0);
    (later[9], later[7]) = (6, 100);
    assert_eq!(spd.outbound(&later).map(|d| d.action), Ok(Action::Discard));
    let spd = Spd::new(&[entries[0].clone(), entries[2].clone()]).unwrap();
    assert_eq!(spd.outbound(&later).map(|d| d.action), Ok(Action::Bypass));
    assert_eq!(spd.outbound(&[]), Err(DropReason::Malformed));
    let wrong = super::between("10.0.0.0/8", "::/0");
    let wrong = [entries[0].clone(), PolicyEntry::new(wrong, Action::Bypass)];
    assert_eq!(Spd::new(&wrong).err(), Some((1, SelectorError::Families)));
}
