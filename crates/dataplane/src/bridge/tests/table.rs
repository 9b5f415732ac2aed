//! The table of addresses against a map, under floods and among threads.

use crate::bridge::{Learned, MacTable};
use ferrule_base::{Instant, MacAddr, Rng};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashMap;

const AGEING: u32 = 10;

fn mac(number: u64) -> MacAddr {
    MacAddr::from_u64(0x0200_0000_0000 | number)
}

#[derive(Clone, Debug)]
enum Step {
    Learn(u16, u64, u16),
    Lookup(u16, u64),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let (vlan, number, iface) = (0u16..3, 0u64..20, 0u16..4);
    prop_oneof![
        6 => (vlan.clone(), number.clone(), iface).prop_map(|(v, m, i)| Step::Learn(v, m, i)),
        6 => (vlan, number).prop_map(|(v, m)| Step::Lookup(v, m)),
        2 => (0u64..8).prop_map(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn bridge_table_is_a_map_with_ages(steps in vec(step(), 0..200)) {
        let table = MacTable::new(4096, AGEING, [1, 2]);
        let mut model: HashMap<(u16, u64), (u16, u64)> = HashMap::new();
        let mut now = 5;
        for step in steps {
            let at = Instant::from_secs(now);
            let fresh = |seen: u64| now - seen < u64::from(AGEING);
            match step {
                Step::Learn(vlan, number, iface) => {
                    let before = model.insert((vlan, number), (iface, now));
                    let want = match before {
                        Some((old, seen)) if fresh(seen) && old == iface => Learned::Known,
                        Some((old, seen)) if fresh(seen) => Learned::Moved(old),
                        _ => Learned::New,
                    };
                    prop_assert_eq!(table.learn(vlan, mac(number), iface, at), want);
                }
                Step::Lookup(vlan, number) => {
                    let known = model.get(&(vlan, number)).filter(|(_, seen)| fresh(*seen));
                    prop_assert_eq!(table.lookup(vlan, mac(number), at), known.map(|k| k.0));
                }
                Step::Wait(seconds) => now += seconds,
            }
            let mut seen: Vec<_> = table.entries(Instant::from_secs(now)).collect();
            seen.sort_unstable();
            let mut known: Vec<_> = model
                .iter()
                .filter(|(_, (_, seen))| now - seen < u64::from(AGEING))
                .map(|(&(vlan, number), &(iface, seen))| (vlan, mac(number), iface, (now - seen) as u32))
                .collect();
            known.sort_unstable();
            let seen: Vec<_> = seen.iter().map(|e| (e.vlan, e.mac, e.iface, e.age_seconds)).collect();
            prop_assert_eq!(seen, known);
        }
    }

    /// Too small for all: it may forget, but never errs.
    #[test]
    fn bridge_table_that_is_full_forgets_but_never_errs(
        steps in vec((0u64..100, 0u16..4), 0..300),
    ) {
        let table = MacTable::new(7, AGEING, [1, 2]);
        let mut model = HashMap::new();
        let now = Instant::from_secs(5);
        for (number, iface) in steps {
            table.learn(1, mac(number), iface, now);
            prop_assert_eq!(table.lookup(1, mac(number), now), Some(iface));
            model.insert(number, iface);
            for (&number, &iface) in &model {
                if let Some(found) = table.lookup(1, mac(number), now) {
                    prop_assert_eq!(found, iface);
                }
            }
            prop_assert_eq!(table.entries(now).count(), model.len().min(table.capacity()));
        }
    }
}

#[test]
fn bridge_table_does_not_grow_under_a_flood_of_addresses() {
    let table = MacTable::new(1000, AGEING, [1, 2]);
    let capacity = table.capacity();
    assert!((1000..2048).contains(&capacity));
    let mut rng = Rng::new(1);
    let now = Instant::from_secs(5);
    for _ in 0..100_000 {
        let invented = MacAddr::from_u64(rng.below(1 << 48) & !(1 << 40));
        table.learn(0, invented, 3, now);
    }
    assert!(table.entries(now).count() <= capacity);
    // The address seen later stays, the one seen first goes.
    let later = Instant::from_secs(6);
    assert_eq!(table.learn(0, mac(1), 1, later), Learned::New);
    assert_eq!(table.lookup(0, mac(1), later), Some(1));
    for number in 0..7 {
        table.learn(0, mac(2 + number), 2, later);
    }
    assert_eq!(table.lookup(0, mac(1), later), Some(1));
}

#[test]
fn bridge_table_gives_up_what_was_not_seen_for_longest() {
    let table = MacTable::new(1, AGEING, [1, 2]);
    for number in 0..7 {
        table.learn(0, mac(number), number as u16, Instant::from_secs(number));
    }
    // The first was seen again, so the second goes.
    let now = Instant::from_secs(7);
    table.learn(0, mac(0), 0, now);
    table.learn(0, mac(9), 9, now);
    let known: Vec<_> = (0..10).filter(|&n| table.lookup(0, mac(n), now).is_some()).collect();
    assert_eq!(known, [0, 2, 3, 4, 5, 6, 9]);
}

/// Each address is always at the interface of its number, in one bucket that all compete
/// for: a look-up that finds an address finds that interface.
#[test]
fn bridge_table_among_threads_never_mixes_two_addresses() {
    let table = MacTable::new(7, AGEING, [1, 2]);
    let now = |turn: u64| Instant::from_secs(turn / 1000);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let table = &table;
            scope.spawn(move || {
                let mut rng = Rng::new(seed);
                let mut found = 0;
                for turn in 0..100_000 {
                    let number = rng.below(12);
                    while table.learn(0, mac(number), number as u16, now(turn)) == Learned::Busy {
                        // Perhaps its holder waits for this processor.
                        std::thread::yield_now();
                    }
                    let number = rng.below(12);
                    if let Some(iface) = table.lookup(0, mac(number), now(turn)) {
                        assert_eq!(u64::from(iface), number);
                        found += 1;
                    }
                }
                assert!(found > 1000, "it does find addresses");
            });
        }
    });
    for entry in table.entries(now(100_000)) {
        assert_eq!(entry.mac, mac(u64::from(entry.iface)));
    }
}

/// Addresses that all share one bucket with a victim's, found with the secret at hand.
fn colliding(secret: [u64; 2], victim: MacAddr) -> Vec<MacAddr> {
    let table = MacTable::new(1024, AGEING, secret);
    let meets = |&address: &u64| table.same_bucket(0, victim, MacAddr::from_u64(address));
    (1_u64..)
        .map(|n| 0x0200_0000_0000 | n << 4)
        .filter(meets)
        .take(8)
        .map(MacAddr::from_u64)
        .collect()
}

#[test]
fn bridge_addresses_that_collide_under_one_secret_do_not_under_another() {
    let victim = MacAddr::from_u64(0x0a00_0000_0001);
    let known = colliding([3, 4], victim);
    let table = MacTable::new(1024, AGEING, [5, 6]);
    let met = known.iter().filter(|&&mac| table.same_bucket(0, victim, mac)).count();
    assert!(met <= 2, "{met} of {} meet the victim again", known.len());
}

#[test]
fn bridge_port_that_floods_pushes_out_its_own_addresses() {
    let table = MacTable::new(7, AGEING, [1, 2]);
    let now = Instant::from_secs(1);
    let victims: Vec<_> = (1..=3).map(|n| MacAddr::from_u64(0x0a00_0000_0000 | n)).collect();
    for &mac in &victims {
        assert_eq!(table.learn(0, mac, 1, now), Learned::New);
    }
    let late = Instant::from_secs(2);
    for n in 0..1000 {
        table.learn(0, MacAddr::from_u64(0x0200_0000_0000 | n), 9, late);
        for &victim in &victims {
            assert_eq!(table.lookup(0, victim, late), Some(1), "after {n} invented addresses");
        }
    }
    // A third port finds a place, at the cost of the one that has most.
    let third = MacAddr::from_u64(0x0c00_0000_0001);
    table.learn(0, third, 5, late);
    assert_eq!(table.lookup(0, third, late), Some(5));
    assert!(victims.iter().all(|&mac| table.lookup(0, mac, late) == Some(1)));
}
