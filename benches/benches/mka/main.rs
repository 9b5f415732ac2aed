//! Cost of key agreement (MKA) for 10,000 participants in one process, in pairs and in groups of
//! three: the part of a core that their hellos take, and the memory of each.
//!
//! Time is virtual, and orders are carried out at once: sockets and SecYs are not in it.

mod fleet;
mod heap;

use ferrule_base::Duration;
use ferrule_benches::{median, on_core, settle};
use ferrule_control::mka::config::HELLO;
use fleet::{Fleet, Tally};

#[global_allocator]
static HEAP: heap::Counted = heap::Counted;

/// Participants; with groups of three two more.
const PARTICIPANTS: usize = 10_000;

/// Windows each of which is measured; the median is shown.
const WINDOWS: usize = 7;

/// Virtual time of a window.
const WINDOW: Duration = Duration::from_secs(60);

/// Time in which all are secured, or have another SAK.
const SOON: Duration = Duration::from_secs(1);

/// Time in which the one before is gone everywhere.
const SETTLED: Duration = Duration::from_secs(20);

/// Percent of a core that all of them may take.
const REACH_CORE: f64 = 20.0;

/// Octets that each may take.
const REACH_OCTETS: f64 = 4096.0;

/// A row: the median, the least and the most.
fn row(name: &str, unit: &str, each: &[f64], reach: &str) {
    let (least, most) = each.iter().fold((f64::MAX, 0_f64), |(l, m), &v| (l.min(v), m.max(v)));
    let middle = median(each);
    println!("  {name:<44} {middle:>8.2} {unit:<7} {least:>7.2} to {most:>7.2}{reach}");
}

/// Seconds on a core that something takes.
fn timed(run: impl FnOnce()) -> f64 {
    let start = std::time::Instant::now();
    let begin = on_core(&start);
    run();
    (on_core(&start) - begin) / 1e9
}

/// Microseconds and blocks a message.
fn each(tally: Tally) -> [f64; 2] {
    let messages = tally.messages as f64;
    [tally.nanos as f64 / 1e3 / messages, tally.blocks as f64 / messages]
}

/// Octets and blocks of the heap, the participants' and all else.
struct Memory {
    secured: usize,
    rekeyed: usize,
    peak: usize,
    blocks: usize,
}

impl Memory {
    /// Prints the memory of each participant: the memory that is free again once all are gone.
    fn print(&self, fleet: Fleet) {
        let count = fleet.len() as f64;
        let rest = fleet.into_rest();
        let (octets, blocks) = (heap::octets(), heap::blocks());
        let reach = format!("  (reach {REACH_OCTETS:.0})");
        for (name, all, reach) in [
            ("heap of each, secured", self.secured, &*reach),
            ("once each has had another SAK", self.rekeyed, &reach),
            ("at the most, while all are rekeyed at once", self.peak, ""),
        ] {
            println!("  {name:<44} {:>8.0} octets{reach}", (all - octets) as f64 / count);
        }
        let blocks = (self.blocks - blocks) as f64 / count;
        println!("  {:<44} {blocks:>8.1}", "blocks of it, secured");
        drop(rest);
    }
}

/// Secures a fleet, measures windows of its hellos, has it make other SAKs.
fn measure(title: &str, group: usize) {
    let count = PARTICIPANTS.next_multiple_of(group);
    let mut fleet = Fleet::new(count, group);
    println!("\n{title}: {count} participants");
    let secured = timed(|| {
        fleet.join();
        fleet.run(SOON);
    });
    assert_eq!(fleet.secured, count, "all are secured");
    fleet.run(SETTLED);
    let (octets, blocks) = (heap::octets(), heap::blocks());
    let hellos = WINDOW.as_secs() / HELLO.as_secs() * count as u64;
    let window = |fleet: &mut Fleet| {
        let before = fleet.sent.messages;
        let seconds = timed(|| fleet.run(WINDOW));
        assert_eq!(fleet.sent.messages - before, hellos);
        seconds * 100.0 / WINDOW.as_secs() as f64
    };
    let cores: Vec<f64> = (0..WINDOWS).map(|_| window(&mut fleet)).collect();
    fleet.is_timed = true;
    let messages: Vec<[[f64; 2]; 2]> = (0..WINDOWS)
        .map(|_| {
            (fleet.sent, fleet.received) = Default::default();
            window(&mut fleet);
            [fleet.sent, fleet.received].map(each)
        })
        .collect();
    fleet.is_timed = false;
    heap::take_peak();
    fleet.in_use = 0;
    let rekeyed = timed(|| {
        fleet.rekey();
        fleet.run(SOON);
    });
    assert_eq!(fleet.in_use, count, "all have another SAK");
    fleet.run(SETTLED);
    let memory =
        Memory { secured: octets, rekeyed: heap::octets(), peak: heap::take_peak(), blocks };
    row("hellos of 2 s", "% core", &cores, &format!("  (reach {REACH_CORE:.0})"));
    for (at, name) in ["a message sent", "a message received"].into_iter().enumerate() {
        let of = |what: usize| messages.iter().map(|m| m[at][what]).collect::<Vec<_>>();
        row(name, "us", &of(0), "");
        row("  blocks taken from the heap", "", &of(1), "");
    }
    for (name, seconds) in [("from a CAK to secured", secured), ("another SAK", rekeyed)] {
        println!("  {name:<44} {:>8.2} us each", seconds * 1e6 / count as f64);
    }
    memory.print(fleet);
}

/// The processor's name.
fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("model name"));
    line.unwrap_or_default().trim_start_matches(['\t', ' ', ':']).into()
}

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    println!("MKA participants in one thread, virtual time; {}.", machine());
    println!(
        "Median of {WINDOWS} windows of {} virtual seconds, the least and the most.",
        WINDOW.as_secs()
    );
    settle();
    measure("In pairs", 2);
    measure("In groups of three", 3);
}
