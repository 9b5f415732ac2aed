//! Cost of the path's look-ups by themselves, for batches of 128: routes, the
//! security policy, and the SAs of SPIs. Every packet is of another flow than the one
//! before, chosen at random, so nothing that remembers a flow would help.

use ferrule_base::Rng;
use ferrule_benches::{Case, ROUNDS, heading, interleave, row};
use ferrule_dataplane::ipsec::spd::{Direction, Key, Outcome};
use ferrule_dataplane::ipsec::{
    Action, Addresses, HitMap, Hits, InboundPlace, PolicyEntry, SaDirectory, Selector, Spd,
    UNCOUNTED,
};
use ferrule_dataplane::route::Route;
use ferrule_dataplane::route::fib::{Cell, Fib};
use ferrule_pipeline::BATCH;
use std::hint::black_box;
use std::net::Ipv4Addr;

/// Look-ups of a round.
const LOOKUPS: usize = 1 << 17;

/// Flows that take turns.
const FLOWS: usize = 8192;

/// A case that walks over `all` in batches.
fn case<'a, T: 'a>(
    name: impl Into<String>,
    all: Vec<T>,
    mut batch: impl FnMut(&[T]) + 'a,
) -> Case<'a> {
    Case::new(name, move |lookups| {
        let mut done = 0;
        for some in all.chunks_exact(BATCH).cycle() {
            if done >= lookups {
                break;
            }
            batch(some);
            done += BATCH;
        }
        done
    })
}

fn routes<'a>(name: &str, flows: usize, table: &[(u32, u8, Route)]) -> Case<'a> {
    let mut rng = Rng::new(1);
    let fib = Fib::new(table.iter().copied());
    let key = |rng: &mut Rng| {
        let (net, len, _) = table[rng.below(table.len() as u64) as usize];
        net | rng.next_u64() as u32 & u32::MAX.checked_shr(len.into()).unwrap_or(0)
    };
    let keys: Vec<u32> = (0..flows).map(|_| key(&mut rng)).collect();
    let mut found = [Cell::NONE; BATCH];
    case(format!("{name}, {} routes", table.len()), keys, move |keys| {
        fib.look_up_all(keys, &mut found);
        black_box(&mut found);
    })
}

fn all_routes() {
    let mut rng = Rng::new(2);
    let via = |n: u32| Route::Via(n % 61);
    let few = [(20 << 24, 8, via(1)), (10 << 24 | 1 << 16, 24, via(2)), (192 << 24, 24, via(3))];
    let next_to: Vec<_> = (0..100_000).map(|n| ((20 << 24) + (n << 8), 24, via(n))).collect();
    let any = |rng: &mut Rng, n| (rng.next_u64() as u32, 16 + rng.below(17) as u8, via(n));
    let apart: Vec<_> = (0..100_000).map(|n| any(&mut rng, n)).collect();
    let mut cases = [
        routes("few", FLOWS, &few),
        routes("networks side by side", FLOWS, &next_to),
        routes("the same, 100,000 flows", 100_000, &next_to),
        routes("any of 16 to 32 bits, 100,000 flows", 100_000, &apart),
    ];
    interleave(&mut cases, LOOKUPS);
    heading("Routes of IPv4 addresses");
    cases.iter().for_each(|case| row(case, None, None));
}

/// Traffic of an entry: addresses, as a hub has it or as pairs of hosts.
fn entry(hosts: bool, rng: &mut Rng, n: u32) -> ((u32, u8), (u32, u8)) {
    if hosts {
        let any = rng.next_u64();
        return ((10 << 24 | any as u32 >> 8, 32), (20 << 24 | (any >> 40) as u32, 32));
    }
    ((10 << 24, 8), (20 << 24 | n << 8, 24))
}

fn policy<'a>(name: &str, hosts: bool, entries: u32) -> [Case<'a>; 2] {
    let mut rng = Rng::new(3);
    let traffic: Vec<_> = (0..entries).map(|n| entry(hosts, &mut rng, n)).collect();
    let network = |(bits, len)| Addresses::from((Ipv4Addr::from_bits(bits).into(), len));
    let compiled = traffic.iter().zip(0..).map(|(&(local, remote), counter)| PolicyEntry {
        selector: Selector::between(network(local), network(remote)),
        action: Action::Protect(counter),
        counter,
    });
    let spd = Spd::new(&compiled.collect::<Vec<_>>()).expect("selectors make sense");
    let within = |rng: &mut Rng, (bits, len): (u32, u8)| {
        bits | rng.next_u64() as u32 & u32::MAX.checked_shr(len.into()).unwrap_or(0)
    };
    let ends = |rng: &mut Rng| {
        let (local, remote) = traffic[rng.below(entries.into()) as usize];
        (within(rng, local), within(rng, remote))
    };
    let key = |rng: &mut Rng| {
        let ports = (rng.next_u64() as u32).to_be_bytes();
        Key::new(Direction::Outbound, ends(rng), Some(17), Some(ports))
    };
    let keys: Vec<Key<u32>> = (0..FLOWS).map(|_| key(&mut rng)).collect();
    let mut outcomes = [Outcome::default(); BATCH];
    let mut hits = Hits::default();
    hits.fit(&HitMap { generation: 1, carried: vec![UNCOUNTED; entries as usize].into() });
    let counted: Vec<Outcome> = keys
        .chunks(BATCH)
        .flat_map(|keys| {
            spd.decide_v4(keys, &mut outcomes);
            outcomes
        })
        .collect();
    let name = format!("{name}, {entries} entries");
    let count = case(format!("{name}: hits"), counted, move |some| {
        hits.count_all(Direction::Outbound, 0, some, |outcome| outcome.counter(), &[64; BATCH]);
        black_box(&mut hits);
    });
    let decide = case(name, keys, move |keys| {
        spd.decide_v4(keys, &mut outcomes);
        black_box(&mut outcomes);
    });
    [decide, count]
}

fn policies() {
    let kinds = [("one", false, 1), ("hub", false, 120), ("hub", false, 10_000)];
    let hosts = [("hosts", true, 120), ("hosts", true, 10_000)];
    let all = kinds.into_iter().chain(hosts);
    let mut cases: Vec<_> = all.flat_map(|(name, hosts, n)| policy(name, hosts, n)).collect();
    interleave(&mut cases, LOOKUPS);
    heading("Decisions of a policy, of keys in a column, and its hits");
    cases.iter().for_each(|case| row(case, None, None));
}

fn directory<'a>(count: u32) -> Case<'a> {
    let mut rng = Rng::new(4);
    let mut spis: Vec<u32> = (0..count).map(|_| rng.next_u64() as u32 | 256).collect();
    spis.sort_unstable();
    spis.dedup();
    let place = |(&spi, index)| InboundPlace { spi, worker: 0, index };
    let places: Vec<_> = spis.iter().zip(0..).map(place).collect();
    let sas = SaDirectory::new(&[], &places).expect("SPIs differ");
    let any = |rng: &mut Rng| spis[rng.below(spis.len() as u64) as usize];
    let asked: Vec<u32> = (0..1 << 16).map(|_| any(&mut rng)).collect();
    case(format!("{count} SAs at random"), asked, move |spis| {
        let spis: &[u32; BATCH] = spis.first_chunk().expect("whole batches");
        black_box(&sas.inbound_all(spis, BATCH));
    })
}

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    println!("Look-ups in batches of {BATCH}, one core. Median of {ROUNDS} interleaved rounds.");
    all_routes();
    policies();
    let mut cases = [directory(1), directory(1000), directory(10_000)];
    interleave(&mut cases, LOOKUPS);
    heading("Inbound SAs by their SPIs");
    cases.iter().for_each(|case| row(case, None, None));
}
