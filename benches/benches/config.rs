//! Cost of a large configuration: 100,000 routes and 10,000 tunnels in one file, from
//! its text to a node that forwards, a change of one entry in it, and memory; and of an access
//! list of 100,000 entries, with edits of it.
//!
//! Keys come from their names, and counters are kept in memory: what the files of keys
//! and counters cost is the disk's to say.

use ferrule_base::{Duration, Instant, MacAddr};
use ferrule_benches::median;
use ferrule_benches::networks::{Listed, listed_router};
use ferrule_crypto::Software;
use ferrule_dataplane::acl::{AccessList, AclEntry, Edit};
use ferrule_dataplane::ipsec::UNCOUNTED;
use ferrule_node::config::{Written, named_key};
use ferrule_node::{Config, Control, Environment, ReadyLists, Volatile, Worker, build, made_mac};
use ferrule_pipeline::Pool;
use ferrule_tester::Large;

/// Times each is done; the median is shown.
const ROUNDS: usize = 7;

/// Seconds in which such a configuration is to be loaded.
const REACH: f64 = 1.0;

/// Seconds of each phase, in the order in which they come.
const PHASES: [&str; 6] = [
    "text to entries (TOML)",
    "keys, references, contradictions",
    "tables, counters, plan (build)",
    "SAs installed by the worker",
    "one tunnel and route changed: apply",
    "one tunnel and route changed: in force",
];

/// Phases in which a node is loaded; the others change it.
const LOADING: usize = 4;

struct Node {
    control: Control,
    workers: Vec<Worker<Software>>,
    now: Instant,
}

impl Node {
    fn build(config: Config) -> Self {
        let pool = Pool::heap(1024, 2048);
        let (macs, store) = (macs(&config), Box::new(Volatile::default()));
        let now = Instant::ZERO;
        let environment = Environment {
            macs,
            pool,
            store,
            now,
            secret: [0; 2],
            entropy: Box::new(ferrule_base::Rng::new(1)),
        };
        let built = build(config, environment, |_| Software::default());
        let (control, workers) = built.expect("it builds");
        Self { control, workers, now }
    }

    /// Turns until nothing is left to do.
    fn settle(&mut self) {
        loop {
            self.now += Duration::from_micros(1);
            let of_workers: usize = self.workers.iter_mut().map(|w| w.turn(self.now)).sum();
            let moved = of_workers + self.control.turn(self.now);
            if moved == 0 && !self.control.is_changing() {
                return;
            }
        }
    }
}

fn macs(config: &Config) -> Vec<MacAddr> {
    config.ports.iter().map(|port| made_mac(&config.name, &port.name)).collect()
}

/// Seconds that something takes.
fn timed<T>(run: impl FnOnce() -> T) -> (f64, T) {
    let begin = std::time::Instant::now();
    let done = run();
    (begin.elapsed().as_secs_f64(), done)
}

fn understood(text: &str) -> Config {
    Config::parse("large.toml", text, &mut named_key).unwrap_or_else(|e| panic!("{e}"))
}

/// The configuration without its last tunnel and its last route.
fn changed(large: Large) -> Config {
    let less = |n: usize| n.saturating_sub(1);
    understood(&Large { routes: less(large.routes), tunnels: less(large.tunnels), ..large }.text())
}

fn round(large: Large, text: &str) -> [f64; PHASES.len()] {
    let (entries, written) = timed(|| Written::parse(text));
    assert!(written.is_ok());
    drop(written);
    let (whole, config) = timed(|| understood(text));
    let (building, mut node) = timed(|| Node::build(config));
    let (installing, ()) = timed(|| node.settle());
    let next = changed(large);
    let macs = macs(&next);
    let (applying, applied) = timed(|| node.control.apply(node.now, next, &macs));
    applied.expect("it applies");
    let (changing, ()) = timed(|| node.settle());
    assert_eq!(node.control.take_failures(), [""; 0]);
    [entries, whole - entries, building, installing, applying, changing]
}

/// Time to apply all SAs at once: to a node without any, and all with other keys.
fn all_applied(large: Large) {
    let (none, text) = (Large { tunnels: 0, ..large }.text(), large.text());
    let rekeyed = text.replace("gcm:", "gcm256:").replace("aes-gcm-128", "aes-gcm-256");
    let mut phases: [Vec<f64>; 2] = Default::default();
    for _ in 0..ROUNDS {
        let mut node = Node::build(understood(&none));
        node.settle();
        for (text, phase) in [&text, &rekeyed].into_iter().zip(&mut phases) {
            let next = understood(text);
            let macs = macs(&next);
            let (took, ()) = timed(|| {
                node.control.apply(node.now, next, &macs).expect("it applies");
                node.settle();
            });
            phase.push(took);
        }
        assert_eq!(node.control.take_failures(), [""; 0]);
    }
    println!("\n{} SAs applied at once, until they are in force", 2 * large.tunnels);
    line("to a node without any", &phases[0], "  (reach 2000)");
    line("in the place of as many, with other keys", &phases[1], "  (reach 2000)");
}

fn line(name: &str, each: &[f64], reach: &str) {
    let (least, most) = each.iter().fold((f64::MAX, 0_f64), |(l, m), &s| (l.min(s), m.max(s)));
    let [middle, least, most] = [median(each), least, most].map(|s| s * 1e3);
    println!("  {name:<40} {middle:>9.2} ms   {least:>8.2} to {most:>8.2}{reach}");
}

fn measure(title: &str, large: Large) {
    let text = large.text();
    let rounds: Vec<_> = (0..ROUNDS).map(|_| round(large, &text)).collect();
    println!("\n{title}, {:.1} MiB of text", text.len() as f64 / f64::from(1 << 20));
    for (at, name) in PHASES.into_iter().enumerate() {
        line(name, &rounds.iter().map(|round| round[at]).collect::<Vec<_>>(), "");
    }
    let whole: Vec<f64> = rounds.iter().map(|round| round[..LOADING].iter().sum()).collect();
    line("loaded in all", &whole, &format!("  (reach {:.0})", REACH * 1e3));
}

/// An edit of a list: one entry in the middle goes, and so many come in its place.
fn edit(entries: &[AclEntry], come: u32) -> Edit {
    let (middle, rest) = (entries.len() as u32 / 2, entries.len() as u32);
    let counter = |old: u32| match old.cmp(&middle) {
        std::cmp::Ordering::Less => old,
        std::cmp::Ordering::Equal => UNCOUNTED,
        std::cmp::Ordering::Greater => old - 1 + come,
    };
    let new = entries.iter().cycle().step_by(7).take(come as usize).zip(middle..);
    Edit {
        counters: (0..=rest).map(counter).collect(),
        packets: new
            .map(|(entry, counter)| (middle, AclEntry { counter, ..entry.clone() }))
            .collect(),
        frames: Vec::new(),
    }
}

/// An access list from its text to its trees, and edits of it.
fn lists(count: usize) {
    let text = listed_router(&Listed::all(count));
    let mut phases: [Vec<f64>; 6] = Default::default();
    let mut octets = 0;
    for _ in 0..ROUNDS {
        let (reading, config) = timed(|| understood(&text));
        let matches = config.lists[0].entries.iter().flat_map(|entry| entry.matches());
        let entry = |(counter, matches)| {
            let verdict = ferrule_dataplane::acl::Verdict::Permit;
            AclEntry { matches, verdict, logs: false, counter }
        };
        let entries: Vec<AclEntry> = (0..).zip(matches).map(entry).collect();
        let (compiling, list) = timed(|| AccessList::new(&entries, entries.len() as u32));
        let list = list.expect("the entries are good");
        octets = list.octets();
        let times = [1, 100, 1_000].map(|come| {
            let edit = edit(&entries, come);
            let (editing, edited) = timed(|| list.edited(&edit));
            assert!(edited.is_some());
            editing
        });
        let ready = ReadyLists::default().ready_for(&config);
        let mut other = config.clone();
        other.lists[0].entries.remove(count / 2);
        let (finding, edited) = timed(|| ready.edited_for(&other));
        assert!(edited.has_edits());
        let times = [reading, compiling].into_iter().chain(times).chain([finding]);
        phases.iter_mut().zip(times).for_each(|(phase, time)| phase.push(time));
    }
    println!(
        "\nAccess list of {count} entries, {:.1} MiB of text",
        text.len() as f64 / f64::from(1 << 20)
    );
    let names = [
        ("text to entries", ""),
        ("trees", "  (reach 1000)"),
        ("edit: one goes, one comes", "  (reach 1)"),
        ("edit: one goes, 100 come", ""),
        ("edit: one goes, 1,000 come", ""),
        ("another text: what changed, and the edit", ""),
    ];
    for ((name, reach), times) in names.into_iter().zip(&phases) {
        line(name, times, reach);
    }
    println!("  {:.0} octets an entry (reach 200)", octets as f64 / count as f64);
}

/// Octets that the process has in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let kib = line.trim().split(' ').next().and_then(|kib| kib.parse::<u64>().ok());
    kib.unwrap_or_default() << 10
}

/// Memory of one more entry, by a node beside others: what reading has left free is
/// used up by the first ones.
fn memory(what: &str, count: usize, large: Large) {
    const EACH: usize = 2;
    let config = understood(&large.text());
    let node = |_| {
        let mut node = Node::build(config.clone());
        node.settle();
        node
    };
    let first: Vec<Node> = (0..EACH).map(node).collect();
    let before = resident();
    let others: Vec<Node> = (0..EACH).map(node).collect();
    let octets = resident().saturating_sub(before) as f64 / (count * EACH) as f64;
    println!("  {what:<24} {octets:>6.0} octets each");
    drop((first, others));
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|a| a == "--test") {
        return;
    }
    let memory_of = |name: &str| arguments.iter().any(|a| a == name);
    let none = Large { routes: 0, tunnels: 0, ..Large::default() };
    // Each in a process of its own, whose memory nothing else has used.
    if memory_of("--memory-of-routes") {
        return memory("route", 100_000, Large { routes: 100_000, ..none });
    }
    if memory_of("--memory-of-sas") {
        return memory("SA, two to a tunnel", 20_000, Large { tunnels: 10_000, ..none });
    }
    println!("One configuration, from its text to a node that forwards; one core.");
    println!("Median of {ROUNDS} rounds, the least and the most.");
    let large = Large::default();
    measure("100,000 routes by 4 next hops, 10,000 tunnels", large);
    measure(
        "100,000 routes by 1,000 next hops, 10,000 tunnels",
        Large { next_hops: 1000, ..large },
    );
    measure("10,000 tunnels to neighbours", Large { routes: 0, near: true, ..large });
    measure("50,000 tunnels, 100,000 SAs", Large { routes: 0, tunnels: 50_000, ..large });
    all_applied(Large { routes: 0, tunnels: 50_000, ..large });
    for count in [120, 10_000, 100_000] {
        lists(count);
    }
    println!("\nResident memory of a node, beside its packet memory");
    for which in ["--memory-of-routes", "--memory-of-sas"] {
        let own = std::env::current_exe().expect("a program has a path");
        let status = std::process::Command::new(own).arg(which).status();
        assert!(status.is_ok_and(|status| status.success()), "{which} failed");
    }
}
