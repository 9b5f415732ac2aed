//! Lists as they are found in networks, and packets that come near their entries.
//!
//! Three families (Taylor and Turner, *ClassBench: a packet classification benchmark*, 2007):
//! lists of routers name hosts and services; those of firewalls have wildcards on one side
//! and ranges of ports; IP chains are between them. Networks lie within one another, so that
//! entries overlap and shadow one another.

use super::{Fields, agrees};
use crate::acl::{AclEntry, Match, TcpFlags, Verdict};
use crate::classify::selector::{Addresses, Field, Selector};
use ferrule_base::Rng;
use ferrule_pipeline::NEAR_MAX;
use ferrule_wire::Protocol;
use proptest::prelude::*;
use std::net::IpAddr;

#[derive(Clone, Copy, Debug)]
pub enum Family {
    Acl,
    Firewall,
    IpChain,
}

pub const FAMILIES: [Family; 3] = [Family::Acl, Family::Firewall, Family::IpChain];

/// In a hundred.
type Share = u64;

/// Ports: any, above 1023, below 1024, a range, one.
type Ports = [Share; 5];

struct Habits {
    /// Sides without a network: of the source, of the destination.
    any: [Share; 2],
    /// Prefix lengths of IPv4, of which each is as frequent.
    lens: [&'static [u8]; 2],
    ports: [Ports; 2],
    /// TCP, UDP, ICMP; the rest is of any protocol.
    protocols: [Share; 3],
}

impl Family {
    const fn habits(self) -> Habits {
        match self {
            Self::Acl => Habits {
                any: [8, 2],
                lens: [
                    &[16, 21, 23, 24, 24, 27, 28, 30, 32, 32, 32],
                    &[19, 24, 24, 28, 32, 32, 32],
                ],
                ports: [[98, 1, 0, 1, 0], [15, 3, 2, 20, 60]],
                protocols: [75, 15, 5],
            },
            Self::Firewall => Habits {
                any: [45, 30],
                lens: [&[0, 8, 12, 16, 16, 24, 32], &[16, 22, 24, 26, 32, 32]],
                ports: [[60, 15, 0, 10, 15], [25, 15, 5, 20, 35]],
                protocols: [60, 20, 5],
            },
            Self::IpChain => Habits {
                any: [20, 15],
                lens: [&[8, 14, 16, 20, 24, 26, 29, 32, 32], &[10, 16, 20, 24, 28, 32, 32]],
                ports: [[75, 10, 0, 5, 10], [40, 10, 0, 10, 40]],
                protocols: [55, 25, 8],
            },
        }
    }
}

/// The place in which a draw of a hundred falls; behind the last if in none.
fn drawn(rng: &mut Rng, shares: &[Share]) -> usize {
    let draw = rng.below(100);
    let mut sum = 0;
    let within = |share: &Share| {
        sum += share;
        draw < sum
    };
    shares.iter().position(within).unwrap_or(shares.len())
}

fn one<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.below(all.len() as u64) as usize]
}

/// Addresses from which networks are cut: they agree in many of their first bits.
fn bases(rng: &mut Rng, v4: bool) -> Vec<u128> {
    let bits = if v4 { 32 } else { 128 };
    let mut all = vec![u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64())];
    for _ in 0..40 {
        let near = one(rng, &all);
        let kept = rng.below(bits) as u32 + 128 - bits as u32;
        let other = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
        let mask = u128::MAX.checked_shr(kept).unwrap_or(0);
        all.push(near & !mask | other & mask);
    }
    all.into_iter().map(|base| if v4 { base & u128::from(u32::MAX) } else { base }).collect()
}

fn ip(v4: bool, number: u128) -> IpAddr {
    if v4 {
        IpAddr::from((number as u32).to_be_bytes())
    } else {
        IpAddr::from(number.to_be_bytes())
    }
}

fn addresses(rng: &mut Rng, v4: bool, bases: &[u128], any: Share, lens: &[u8]) -> Addresses {
    if drawn(rng, &[any]) == 0 {
        return if v4 { Addresses::V4 } else { Addresses::V6 };
    }
    let len = one(rng, lens) * if v4 { 1 } else { 4 };
    Addresses::from((ip(v4, one(rng, bases)), len))
}

fn ports(rng: &mut Rng, shares: &Ports) -> Field<u16> {
    /// Services that many entries name.
    const KNOWN: [u16; 12] = [20, 21, 22, 23, 25, 53, 80, 110, 123, 443, 1433, 8080];
    match drawn(rng, shares) {
        1 => Field::Range(1024, u16::MAX),
        2 => Field::Range(0, 1023),
        3 => {
            let (a, b) = (rng.next_u64() as u16, rng.next_u64() as u16);
            Field::Range(a.min(b), a.max(b))
        }
        4 => {
            let port = if rng.one_in(3) { rng.next_u64() as u16 } else { one(rng, &KNOWN) };
            Field::Range(port, port)
        }
        _ => Field::Any,
    }
}

/// A list of a family, IPv4 and IPv6 by turns.
pub fn list(family: Family, count: usize, rng: &mut Rng) -> Vec<AclEntry> {
    let habits = family.habits();
    let pools = [true, false].map(|v4| [bases(rng, v4), bases(rng, v4)]);
    let entry = |counter: u32| {
        let v4 = !rng.one_in(3);
        let pool = &pools[usize::from(!v4)];
        let [local, remote] =
            [0, 1].map(|side| addresses(rng, v4, &pool[side], habits.any[side], habits.lens[side]));
        let between = Selector::between(local, remote);
        let mut tcp = None;
        let selector = match drawn(rng, &habits.protocols) {
            protocol @ (0 | 1) => {
                let flags = one(rng, &[(2, 16), (16, 0), (4, 0), (1, 2)]);
                let (set, clear) = flags;
                tcp = (protocol == 0 && rng.one_in(8)).then_some(TcpFlags { set, clear });
                let [local_ports, remote_ports] =
                    [0, 1].map(|side| ports(rng, &habits.ports[side]));
                let protocol = [Protocol::TCP, Protocol::UDP][protocol];
                Selector { local_ports, remote_ports, ..between.of(protocol) }
            }
            2 => {
                let kind = one(rng, &[0_u16, 3, 8, 11]) << 8;
                let message = one(rng, &[Field::Any, Field::Range(kind, kind | 255)]);
                let protocol = if v4 { Protocol::ICMP } else { Protocol::ICMPV6 };
                Selector { message, ..between.of(protocol) }
            }
            _ => between,
        };
        let dscp = rng.one_in(20).then(|| one(rng, &[0, 10, 46]));
        let fragments = selector.protocol == Field::Any && rng.one_in(10);
        let verdict = if rng.one_in(3) { Verdict::Deny } else { Verdict::Permit };
        let matches = Match { selector, dscp, tcp, fragments };
        AclEntry { matches, verdict, logs: false, counter }
    };
    (0..count as u32).map(entry).collect()
}

/// Of a range its ends, their neighbours, or anything in it.
fn near(rng: &mut Rng, (first, last): (u128, u128)) -> u128 {
    match rng.below(8) {
        0 => first.wrapping_sub(1),
        1 => last.wrapping_add(1),
        2 => first,
        3 => last,
        _ => {
            let any = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
            match (last - first).checked_add(1) {
                Some(count) => first + any % count,
                None => any,
            }
        }
    }
}

fn near_port(rng: &mut Rng, field: Field<u16>) -> u16 {
    match field {
        Field::Range(first, last) => near(rng, (first.into(), last.into())) as u16,
        _ => rng.next_u64() as u16,
    }
}

/// A packet that one of the entries has, or nearly.
pub fn packet(entries: &[AclEntry], rng: &mut Rng) -> Fields {
    let some = rng.below(entries.len().max(1) as u64) as usize;
    let v4 = rng.one_in(2);
    let any = Selector::between(
        if v4 { Addresses::V4 } else { Addresses::V6 },
        if v4 { Addresses::V4 } else { Addresses::V6 },
    );
    let asked = Match { selector: any, dscp: None, tcp: None, fragments: false };
    let entry = entries.get(some).map_or(&asked, |entry| &entry.matches);
    let s = &entry.selector;
    let v4 = s.local.is_ipv4();
    let number = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => u128::from(ip.to_bits()),
        IpAddr::V6(ip) => ip.to_bits(),
    };
    let mut end = |all: &Addresses| {
        let near = near(rng, (number(all.first), number(all.last)));
        ip(v4, if v4 { near & u128::from(u32::MAX) } else { near })
    };
    let (src, dst) = (end(&s.local), end(&s.remote));
    let protocol = match s.protocol {
        Field::Range(first, _) if !rng.one_in(10) => first,
        _ => one(rng, &[1, 6, 17, 47, 58]),
    };
    let ports = match s.message {
        Field::Range(first, last) => (near(rng, (first.into(), last.into())) as u16, 0),
        _ => (near_port(rng, s.local_ports), near_port(rng, s.remote_ports)),
    };
    let flags = match entry.tcp {
        Some(tcp) if !rng.one_in(4) => rng.next_u64() as u8 & !tcp.clear | tcp.set,
        _ => rng.next_u64() as u8,
    };
    let dscp = match entry.dscp {
        Some(dscp) if !rng.one_in(4) => dscp,
        _ => rng.below(64) as u8,
    };
    let later = if entry.fragments { !rng.one_in(4) } else { rng.one_in(30) };
    // The second eight octets of TCP are refused by every list.
    let fragment = if later { 2 + rng.below(100) as u16 } else { 0 };
    let len = if rng.one_in(20) { rng.below(20) as usize } else { 20 };
    Fields { src, dst, protocol, ports, flags, dscp, fragment, len, option: rng.one_in(50) }
}

pub fn packets(entries: &[AclEntry], count: usize, rng: &mut Rng) -> Vec<Fields> {
    (0..count).map(|_| packet(entries, rng)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 60, ..Default::default() })]

    /// Shrinks to the shortest beginning of a list, and the fewest packets, that disagree.
    #[test]
    fn acl_families_agree_with_a_linear_walk(
        family in prop::sample::select(&FAMILIES[..]), seed: u64,
        entries in 1_usize..400, count in 1_usize..500,
    ) {
        let mut rng = Rng::new(seed);
        let mut list = list(family, 400, &mut rng);
        list.truncate(entries);
        let packets = packets(&list, count, &mut rng);
        agrees(&list, &packets)?;
    }
}

#[test]
fn acl_families_have_entries_that_decide_and_some_that_never_do() {
    for (family, seed) in FAMILIES.into_iter().zip(1..) {
        let mut rng = Rng::new(seed);
        let list = list(family, 120, &mut rng);
        let packets = packets(&list, 10_000, &mut rng);
        let first = |fields: &Fields| list.iter().position(|entry| fields.is(&entry.matches));
        let decided: Vec<usize> = packets.iter().filter_map(first).collect();
        let entries: std::collections::BTreeSet<_> = decided.iter().collect();
        assert!((4_000..9_900).contains(&decided.len()), "{family:?}: {}", decided.len());
        assert!((60..120).contains(&entries.len()), "{family:?}: {}", entries.len());
    }
}

/// Ten million packets: 9 lists of 120 entries and 9 of 1,000, of every family.
#[test]
fn acl_families_agree_with_a_linear_walk_on_ten_million_packets() {
    let run = |family, seed| {
        let (mut rng, mut tried) = (Rng::new(seed), 0);
        for (entries, share) in [(120, 1_000_000), (1000, 112_000)] {
            for _ in 0..3 {
                let list = list(family, entries, &mut rng);
                for _ in 0..share / 8_000 {
                    agrees(&list, &packets(&list, 8_000, &mut rng)).expect("the same");
                    tried += 8_000;
                }
            }
        }
        tried
    };
    let tried: u64 = std::thread::scope(|scope| {
        let runs = FAMILIES.into_iter().zip(1..);
        let runs: Vec<_> =
            runs.map(|(family, seed)| scope.spawn(move || run(family, seed))).collect();
        runs.into_iter().map(|run| run.join().expect("a run")).sum()
    });
    assert!(tried >= 10_000_000, "{tried}");
}

/// Lists of which entries are asked for ahead.
#[test]
fn acl_families_agree_with_a_linear_walk_where_lists_are_far_from_the_cache() {
    for (family, seed) in FAMILIES.into_iter().zip(50..) {
        let mut rng = Rng::new(seed);
        let list = list(family, 4 * NEAR_MAX, &mut rng);
        agrees(&list, &packets(&list, 4_000, &mut rng)).expect("the same");
    }
}
