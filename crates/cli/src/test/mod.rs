//! `ferrule test`: the instrument, on real ports or in virtual time.
//!
//! | file | what |
//! | --- | --- |
//! | `args.rs` | what one can say |
//! | `bench.rs` | ports, threads, clock |
//! | `virtual_time.rs` | a topology with the tester in it |
//! | `watched.rs`, `outlook.rs` | what is seen of trials, and how much longer they take |
//! | `device.rs` | what stands between the ports |
//! | `desk.rs` | a bench, its streams, the pieces of the work |
//! | `part.rs` | a shard's results in a file |
//! | `searches.rs` | each test from its arguments to its answer |
//! | `several.rs` | bridges of several ports: patterns, congestion |
//! | `mka`, `macsec` | a station beside a MACsec device: keys, frames |
//! | `clauses.rs`, `line.rs` | rules of a standard and what was seen of them; interfaces, frame by frame |
//! | `upset.rs` | recovery from overload, and reset |
//! | `document.rs`, `tables.rs` | answers as a report |
//! | `undecided.rs` | tests: what is refused, and answers where nothing was measured |

mod args;
pub mod bench;
mod clauses;
mod desk;
mod device;
mod document;
mod line;
mod macsec;
mod mka;
mod outlook;
mod part;
mod searches;
mod several;
mod tables;
#[cfg(test)]
mod undecided;
mod upset;
mod virtual_time;
mod watched;

pub use outlook::about;
pub use part::{Part, SCHEMA as PART};

use crate::interrupt::PARTIAL;
use crate::{answer, results};
use args::{Frames, Loads, Operations, Ports, Results, Times};
use args::{duration, load, pattern, ratio, span, span_or_none};
use clap::{Args, Subcommand};
use ferrule_daemon::{Blame, Fault};
use ferrule_report::Report;
use ferrule_tester::search::mesh::Pattern;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Measure a device between two ports: throughput, latency, loss, bridges, MPLS, soak.
///
/// One port sends, the other receives, the device under test stands between.
/// Every frame carries its stream, its number and the time at which it should
/// have left, so that loss, order, copies, damage and latency are told apart and
/// a sender that falls behind hides nothing. Where the tester cannot send more,
/// it says so.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ferrule test throughput --tx af-xdp:veth0 --rx af-xdp:veth1 --size 64
  sudo ferrule test latency --tx af-packet:a --rx af-packet:b --at 10kpps --report latency.html
  sudo ferrule test throughput --tx af-packet:a --rx af-packet:b \\
      --src 10.0.1.2 --dst 10.0.2.2 --gateway 10.0.1.1       through a router
  sudo ferrule test mlrsearch --tx af-xdp:a --rx af-xdp:b --max 5Mpps --goal 0 --goal 0.5%
  sudo ferrule test stream --tx af-xdp:a --rx af-xdp:b --plan streams.toml --duration 10s
  ferrule test throughput --lab two-gateways --size 1000     in virtual time, without root
  ferrule test throughput --lab two-gateways --quick         a first look, in seconds
  ferrule test latency --lab campus --size rfc2544 --json --shard 0/2 > 0.json
  ferrule merge 0.json 1.json                                 the report of both parts

Control-C ends a test early: what was found is printed, marked as partial, with exit status 3.

Exit: 0 done, 1 a finding (frames lost in a soak, no load without loss, none sent, wrong labels),
2 the command line or the plan is wrong, 3 the machine lacks something, or it was stopped.")]
pub struct TestArgs {
    #[command(subcommand)]
    test: Test,
}

#[derive(Subcommand)]
enum Test {
    #[command(flatten)]
    Traffic(Box<What>),
    /// A MACsec device by its key agreement (MKA, 802.1X-2020): a station beside it that keeps the rules, or breaks them.
    Mka(mka::MkaArgs),
    /// A MACsec device by its frames (802.1AE): right and wrong ones through it, and what it sends.
    Macsec(Box<macsec::MacsecArgs>),
}

/// Ports, frames, times and results: what every test has.
#[derive(Args)]
struct Setup {
    #[command(flatten)]
    ports: Ports,
    #[command(flatten)]
    frames: Frames,
    #[command(flatten)]
    times: Times,
    #[command(flatten)]
    results: Results,
}

/// Help on plans, with an example.
const STREAM_HELP: &str = r#"A plan:
  line = "10Gbit/s"
  [[stream]]
  name = "voice"
  from = 0                       # ports in the order of the command line
  to = 1
  vlan = [10]
  label = [100, 200]             # top first
  src = "10.1.0.2"
  dst = "10.2.0.2"
  size = "64-1518/8"             # 64, imix, 80:7,570:4,1518:1 or a sweep, with FCS
  rate = "10kpps"                # or 900Mbit/s, or 80% of the line
  burst = { frames = 32, rate = "line" }
  vary = [{ field = "dst", count = 256 }, { field = "udp_src", random = 1000, seed = 1 }]
  after = "500ms"                # begins so long after the measurement does
  until = "1s"                   # and ends then
  phase = "0/2"                  # takes turns with another: the first of two
Ports are counted from 0: the first --tx, the first --rx, --monitor if there is one, the
other --tx, the other --rx.
Also: src_mac, dst_mac, priority, label_ttl, udp_src, udp_dst, ttl, dscp, frames,
ethernet_only, filler (zeros, count, random), expect_label."#;

/// Ports of a mesh.
const MESH_HELP: &str = "Ports: --tx and --rx, each as often as there are ports.
  full            everybody to everybody                        section 5.1
  one-to-many     the first --tx to all others                  section 5.2, from 3 ports on
  many-to-one     all others to the first --tx                  section 5.2
  one-and-many    both at once                                  section 5.2
  devices         --tx are ports of one device, --rx of another section 5.3
  devices-local   and to the ports of the same device as well   section 5.3, from 3 ports on
  one-way         each --tx to each --rx                        section 5.4
A port that sends to several takes turns. Loads are of each stream.
  sudo ferrule test mesh --tx af-packet:a --tx af-packet:c --rx af-packet:b --rx af-packet:d \\
      --pattern many-to-one --size 64 --max 100kpps";

/// Ports of a congestion.
const CONGESTION_HELP: &str = "Ports: --tx SOURCE --tx SOURCE --rx CONGESTED --rx UNCONGESTED.
The first source sends half to each, the second all to the congested one, both at the highest
load (--max, or the line's). Exit 1 if frames for the uncongested port were lost.";

/// Help on resets.
const RESET_HELP: &str = "On real ports --command resets the device, or somebody does (--by-hand); in the lab --node
ends as after kill -9 and starts again after --down. The trial (--duration) must be longer than the
reset. Frames have the smallest --size.
  sudo ferrule test reset --tx af-packet:a --rx af-packet:b --at 10kpps --duration 20s \\
      --command 'ip netns exec dut ip link set br0 down; sleep 1; ip netns exec dut ip link set br0 up'
  ferrule test reset --lab two-gateways --node gw1 --at 10kpps --duration 1s";

#[derive(Subcommand)]
enum What {
    /// The highest load without loss (RFC 2544 section 26.1).
    Throughput {
        #[command(flatten)]
        setup: Setup,
        #[command(flatten)]
        loads: Loads,
        /// Length of one more trial at the result; 0s: none [default: 5s; 0s with --quick].
        #[arg(long, value_name = "TIME", value_parser = span_or_none)]
        confirm: Option<Duration>,
        /// Searches, for a median with its confidence.
        #[arg(long, value_name = "N", default_value_t = 1,
              value_parser = clap::value_parser!(u16).range(1..=1000))]
        repeats: u16,
    },
    /// How long frames take at a load (RFC 2544 section 26.2).
    Latency {
        #[command(flatten)]
        setup: Setup,
        #[command(flatten)]
        loads: Loads,
        /// The load [default: the throughput, which is searched first].
        #[arg(long, value_name = "PPS", value_parser = load)]
        at: Option<u64>,
        /// Trials (RFC 2544: 20) [default: 5; 2 with --quick].
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
        repeats: Option<u16>,
    },
    /// How much is lost at each load (RFC 2544 section 26.3).
    Loss {
        #[command(flatten)]
        setup: Setup,
        #[command(flatten)]
        loads: Loads,
        /// Steps from the highest load down, 10 at least.
        #[arg(long, value_name = "N", default_value_t = 10,
              value_parser = clap::value_parser!(u32).range(10..=1000))]
        steps: u32,
    },
    /// The longest burst without loss (RFC 2544 section 26.4, RFC 9004).
    BackToBack {
        #[command(flatten)]
        setup: Setup,
        /// The longest burst that is tried (RFC 2544: 2 s) [default: 2s; 250ms with --quick].
        #[arg(long, value_name = "TIME", value_parser = span)]
        longest: Option<Duration>,
        /// Searches (RFC 2544: 50) [default: 10; 2 with --quick].
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
        repeats: Option<u16>,
        /// The throughput, if it is known, to correct the time that frames are held.
        #[arg(long, value_name = "PPS", value_parser = load)]
        throughput: Option<u64>,
    },
    /// The load for each of several loss ratios, in one search (RFC 9971).
    Mlrsearch {
        #[command(flatten)]
        setup: Setup,
        #[command(flatten)]
        loads: Loads,
        /// A loss ratio, such as 0 or 0.5%; may be repeated.
        #[arg(long = "goal", value_name = "SHARE", value_parser = ratio,
              default_values = ["0", "0.5%"])]
        goals: Vec<f64>,
        /// Time of full trials at each load that counts [default: three trials].
        #[arg(long, value_name = "TIME", value_parser = span)]
        sum: Option<Duration>,
    },
    /// A bridge: forwarding, broadcast, errored frames, addresses (RFC 2889).
    Bridge {
        #[command(flatten)]
        setup: Setup,
        #[command(flatten)]
        loads: Loads,
        /// Addresses to try at most, with --monitor.
        #[arg(long, value_name = "N", default_value_t = 1024,
              value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        addresses: u64,
        /// How long the bridge remembers an address.
        #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0s")]
        ageing: Duration,
        /// Loads up to the highest for the forwarding rate.
        #[arg(long, value_name = "N", default_value_t = 5,
              value_parser = clap::value_parser!(u32).range(2..=1000))]
        steps: u32,
    },
    /// A label switching router: push, swap and pop (RFC 5695).
    Mpls {
        #[command(flatten)]
        setup: Setup,
        #[command(flatten)]
        loads: Loads,
        #[command(flatten)]
        operations: Operations,
    },
    /// A bridge of several ports: who sends to whom (RFC 2889 sections 5.1 to 5.4).
    #[command(after_help = MESH_HELP)]
    Mesh {
        #[command(flatten)]
        setup: Setup,
        #[command(flatten)]
        loads: Loads,
        /// full, one-to-many, many-to-one, one-and-many, devices, devices-local or one-way; may be repeated [default: all for which there are ports].
        #[arg(long = "pattern", value_name = "NAME", value_parser = pattern)]
        patterns: Vec<Pattern>,
        /// Loads up to the highest for the forwarding rate.
        #[arg(long, value_name = "N", default_value_t = 5,
              value_parser = clap::value_parser!(u32).range(2..=1000))]
        steps: u32,
    },
    /// Congestion control: effect of a congested port on another (RFC 2889 section 5.5).
    #[command(after_help = CONGESTION_HELP)]
    Congestion {
        #[command(flatten)]
        setup: Setup,
        #[command(flatten)]
        loads: Loads,
    },
    /// How long frames are lost after an overload (RFC 2544 section 26.5, RFC 5695 section 6.4).
    Recovery {
        #[command(flatten)]
        setup: Setup,
        #[command(flatten)]
        loads: Loads,
        #[command(flatten)]
        operations: Operations,
        /// The throughput [default: it is searched first].
        #[arg(long, value_name = "PPS", value_parser = load)]
        throughput: Option<u64>,
        /// How long the device is overloaded (RFC 2544: 60 s) [default: 5s; 1s with --quick].
        #[arg(long, value_name = "TIME", value_parser = span)]
        overload: Option<Duration>,
        /// How long it may take to recover [default: 5s; 1s with --quick].
        #[arg(long, value_name = "TIME", value_parser = span)]
        after: Option<Duration>,
        /// Trials [default: 3; 1 with --quick].
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
        repeats: Option<u16>,
    },
    /// How long a reset takes (RFC 6201, RFC 5695 section 6.5).
    #[command(after_help = RESET_HELP)]
    Reset {
        #[command(flatten)]
        setup: Setup,
        #[command(flatten)]
        loads: Loads,
        #[command(flatten)]
        operations: Operations,
        /// The load [default: the throughput, which is searched first].
        #[arg(long, value_name = "PPS", value_parser = load)]
        at: Option<u64>,
        /// The command that resets the device.
        #[arg(long, value_name = "COMMAND", conflicts_with_all = ["lab", "by_hand"])]
        command: Option<String>,
        /// Somebody resets it by hand while frames are sent.
        #[arg(long, conflicts_with = "lab")]
        by_hand: bool,
        /// In the lab: the node that ends and starts again.
        #[arg(long, value_name = "NAME", requires = "lab")]
        node: Option<String>,
        /// In the lab: how long it is down.
        #[arg(long, value_name = "TIME", value_parser = duration, default_value = "100ms")]
        down: Duration,
    },
    /// One load for a long time, looked at in parts.
    Soak {
        #[command(flatten)]
        setup: Setup,
        /// The load of each stream.
        #[arg(long, value_name = "PPS", value_parser = load)]
        at: u64,
        /// Length of a part.
        #[arg(long, value_name = "TIME", value_parser = span, default_value = "1s")]
        interval: Duration,
    },
    /// Streams as they stand in a file, once.
    #[command(after_help = STREAM_HELP)]
    Stream {
        #[command(flatten)]
        setup: Setup,
        /// The streams (see `ferrule test stream --help`).
        #[arg(long, value_name = "FILE.toml")]
        plan: PathBuf,
    },
}

/// An answer, and whether it is a finding.
struct Answer {
    report: Report,
    finding: bool,
    /// Measurements of a shard, for the report of all.
    part: Option<Part>,
}

impl TestArgs {
    /// Tests.
    pub fn run(self) -> ExitCode {
        let done = match self.test {
            Test::Traffic(what) => {
                let results = &what.setup().results;
                what.answer().and_then(|answer| results.give(answer))
            }
            Test::Mka(args) => args.run(),
            Test::Macsec(args) => args.run(),
        };
        done.unwrap_or_else(|fault| answer::fault(&fault))
    }

    /// The report of trials that were run already: of all parts, as though in one run.
    pub fn again(self, parts: &[Part]) -> Result<(Report, ExitCode), Fault> {
        let Test::Traffic(mut what) = self.test else {
            return Err(Fault::new(
                Blame::Configuration,
                "no trials",
                "parts are those of trials with frames",
            ));
        };
        what.setup_mut().results.again = Some(Part::join(parts)?);
        let mut answer = what.answer()?;
        Part::name(parts, &mut answer.report);
        Ok((answer.report.clone(), answer.code()))
    }
}

impl Answer {
    /// An answer that is a report alone.
    fn code(&self) -> ExitCode {
        match (self.report.partial, self.finding) {
            (true, _) => ExitCode::from(PARTIAL),
            (false, true) => ExitCode::FAILURE,
            (false, false) => ExitCode::SUCCESS,
        }
    }
}

impl Results {
    /// Prints and writes an answer.
    fn give(&self, answer: Answer) -> Result<ExitCode, Fault> {
        if let Some(part) = &answer.part {
            part.print();
            return Ok(answer.code());
        }
        let files = results::Files {
            report: self.report.as_deref(),
            folder: self.out.as_deref(),
            index: None,
        };
        files.give(&answer.report, self.json)?;
        Ok(answer.code())
    }
}

/// The setup of whichever test.
macro_rules! setup_of {
    ($what:expr) => {
        match $what {
            What::Throughput { setup, .. }
            | What::Latency { setup, .. }
            | What::Loss { setup, .. }
            | What::BackToBack { setup, .. }
            | What::Mlrsearch { setup, .. }
            | What::Bridge { setup, .. }
            | What::Mpls { setup, .. }
            | What::Mesh { setup, .. }
            | What::Congestion { setup, .. }
            | What::Recovery { setup, .. }
            | What::Reset { setup, .. }
            | What::Soak { setup, .. }
            | What::Stream { setup, .. } => setup,
        }
    };
}

impl What {
    const fn setup(&self) -> &Setup {
        setup_of!(self)
    }

    const fn setup_mut(&mut self) -> &mut Setup {
        setup_of!(self)
    }

    fn answer(&self) -> Result<Answer, Fault> {
        match self {
            Self::Throughput { setup, loads, confirm, repeats } => {
                searches::throughput(setup, loads, *confirm, *repeats)
            }
            Self::Latency { setup, loads, at, repeats } => {
                searches::latency(setup, loads, *at, *repeats)
            }
            Self::Loss { setup, loads, steps } => searches::loss(setup, loads, *steps),
            Self::BackToBack { setup, longest, repeats, throughput } => {
                searches::back_to_back(setup, *longest, *repeats, *throughput)
            }
            Self::Mlrsearch { setup, loads, goals, sum } => {
                searches::mlrsearch(setup, loads, goals, *sum)
            }
            Self::Bridge { setup, loads, addresses, ageing, steps } => {
                searches::bridge(setup, loads, *addresses, *ageing, *steps)
            }
            Self::Mpls { setup, loads, operations } => searches::mpls(setup, loads, operations),
            Self::Mesh { setup, loads, patterns, steps } => {
                several::mesh(setup, loads, patterns, *steps)
            }
            Self::Congestion { setup, loads } => several::congestion(setup, loads),
            Self::Recovery { setup, loads, operations, throughput, overload, after, repeats } => {
                let times = upset::Times::of(&setup.times, *overload, *after);
                upset::recovery(setup, loads, operations, *throughput, times, *repeats)
            }
            Self::Reset { setup, loads, operations, at, command, by_hand, node, down } => {
                let by = upset::by(command.as_ref(), *by_hand, node.as_ref(), *down)?;
                upset::reset(setup, loads, operations, *at, by.as_ref())
            }
            Self::Soak { setup, at, interval } => searches::soak(setup, *at, *interval),
            Self::Stream { setup, plan } => searches::stream(setup, plan),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use ferrule_report::Kind;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        test: TestArgs,
    }

    /// The test that a command line asks for, or the words that refuse it.
    pub(super) fn read(words: &str) -> Result<Box<What>, String> {
        let line = Line::try_parse_from(["test"].into_iter().chain(words.split_whitespace()));
        match line.map_err(|e| e.to_string())?.test.test {
            Test::Traffic(what) => Ok(what),
            _ => panic!("a test with frames: {words}"),
        }
    }

    pub(super) fn answer(words: &str) -> Result<Answer, Fault> {
        read(words).unwrap_or_else(|e| panic!("{e}")).answer()
    }

    fn cell(report: &Report, table: &str, head: &str) -> f64 {
        let table = report.tables().find(|t| t.id == table).expect("the table");
        let column = table.columns().iter().find(|c| c.head() == head).expect("the column");
        column.cells()[0].measure().expect("a number").value
    }

    #[test]
    fn test_in_the_lab_finds_what_a_tunnel_leaves_of_its_line() {
        let words = "throughput --lab two-gateways --size 1000 --duration 200ms --confirm 0s \
                     --drain 50ms --resolution 0.1% --quiet";
        let answer = answer(words).unwrap_or_else(|e| panic!("{e}"));
        assert!(!answer.finding);
        assert!(answer.report.kinds().contains(&Kind::Model));
        assert!(!answer.report.kinds().contains(&Kind::Live), "nothing here is live");
        // 982 octets of IP become 20 + 8 + 8 + 982 + 2 + 16 (RFC 4303, RFC 4106), with
        // Ethernet, preamble, FCS and gap 1074 on a line of 1 Gbit/s.
        // The line's queue takes a thousand frames more in the time of a trial.
        let truth = 1e9 / (1074.0 * 8.0) + 1000.0 / 0.22;
        let found = cell(&answer.report, "throughput", "throughput");
        assert!((found / truth - 1.0).abs() < 0.005, "{found} for {truth}");
    }

    #[test]
    fn test_in_the_lab_has_latency_loss_soak_and_mlrsearch_under_one_roof() {
        let common = "--lab two-gateways --size 512 --drain 50ms --quiet";
        let latency = answer(&format!("latency {common} --duration 20ms --at 10kpps --repeats 2"));
        let latency = latency.unwrap_or_else(|e| panic!("{e}")).report;
        // Virtual time: every frame takes as long as the first.
        assert_eq!(cell(&latency, "latency", "min"), cell(&latency, "latency", "max"));
        assert_eq!(cell(&latency, "variation", "left late, max"), 0.0);
        let loss = answer(&format!("loss {common} --duration 200ms --max 300kpps"));
        let loss = loss.unwrap_or_else(|e| panic!("{e}")).report;
        assert!(cell(&loss, "loss", "loss") > 1.0, "the sealed line is full before the clear one");
        let soak = answer(&format!("soak {common} --duration 20ms --at 10kpps --both-ways"));
        assert!(!soak.unwrap_or_else(|e| panic!("{e}")).finding);
        let goals = "--duration 20ms --goal 0 --goal 5% --resolution 2%";
        let found = answer(&format!("mlrsearch {common} {goals}"));
        let found = found.unwrap_or_else(|e| panic!("{e}")).report;
        let lines = serde_json::to_value(&found).expect("JSON").to_string();
        assert!(lines.contains("conditional throughput"), "{lines}");
        assert!(cell(&found, "mlrsearch", "lower bound") > 100_000.0);
    }

    fn said(words: &str) -> (Report, bool) {
        let answer = answer(words).unwrap_or_else(|e| panic!("{words}: {e}"));
        (answer.report, answer.finding)
    }

    #[test]
    fn test_mesh_in_the_lab_has_every_pattern_of_rfc2889_over_four_ports() {
        let ports = "--lab campus --tx h1 --tx h2 --rx h5 --rx h6";
        let times = "--duration 20ms --drain 50ms --max 50kpps --resolution 5% --steps 2";
        let short = "--duration 10ms --drain 50ms --max 20kpps --resolution 20% --steps 2";
        let (report, finding) = said(&format!("mesh {ports} {short} --size 512 --quiet"));
        assert!(!finding, "{}", report.answer);
        let table = report.tables().find(|t| t.id == "mesh").expect("the table");
        assert_eq!(table.rows(), Pattern::ALL.len());
        // Four streams cross in each direction: 1 Gbit/s for them, sealed by MACsec
        // (32 octets), and what the line's queue takes: more than is asked for here.
        let (report, _) =
            said(&format!("mesh {ports} {times} --size 512 --pattern one-way --quiet"));
        let truth: f64 = (1e9 / ((512.0 + 32.0 + 20.0) * 8.0) + 1000.0 / 0.022) / 4.0;
        let found = cell(&report, "mesh", "each stream");
        assert!((found / truth.min(50_000.0) - 1.0).abs() < 0.06, "{found} for {truth}");
        assert_eq!(cell(&report, "mesh", "throughput"), 4.0 * found);
    }

    #[test]
    fn test_congestion_in_the_lab_finds_no_blocking_across_bridges() {
        // The first source's other half crosses one line alone.
        let ports = "--lab campus --tx h1 --tx h5 --rx h2 --rx h3";
        let words = format!("congestion {ports} --size 512 --duration 40ms --drain 50ms --quiet");
        let (report, finding) = said(&words);
        assert!(!finding && report.answer.contains("no blocking"), "{}", report.answer);
        assert!(report.answer.contains("drops what the port cannot send"), "{}", report.answer);
        let table = report.tables().find(|t| t.id == "congestion").expect("the table");
        let lost = table.columns().iter().find(|c| c.head() == "lost").expect("the column");
        let lost: Vec<f64> = lost.cells().iter().map(|c| c.measure().unwrap().value).collect();
        assert!(lost[0] == 0.0 && lost[1] > 1000.0, "{lost:?}");
    }

    #[test]
    fn test_recovery_and_reset_in_the_lab_are_those_of_the_gateway() {
        let lab = "--lab two-gateways --quiet --drain 50ms";
        let words = "--size 512 --throughput 210kpps --overload 150ms --after 50ms --repeats 1";
        let (report, finding) = said(&format!("recovery {lab} {words}"));
        assert!(!finding, "{}", report.answer);
        assert!(cell(&report, "recovery", "lost overloaded") > 500.0, "{}", report.answer);
        // A queue that drops what it has no room for is over it at once.
        assert_eq!(cell(&report, "recovery", "recovery"), 0.0);
        let words = "--size 128 --at 10kpps --duration 300ms --node gw1 --down 40ms";
        let (report, finding) = said(&format!("reset {lab} {words}"));
        assert!(!finding, "{}", report.answer);
        // The node asks for its neighbours anew, 2 ms away; frames wait for that.
        for (head, most) in [("by time stamps", 43.0), ("by loss", 40.6)] {
            let millis = cell(&report, "reset", head);
            assert!((40.0..most).contains(&millis), "{head}: {millis}");
        }
    }

    #[test]
    fn test_of_a_first_look_is_short_and_says_that_it_is_none_of_the_standard() {
        let words = "throughput --lab two-gateways --size 512 --drain 50ms --quiet";
        let (report, _) = said(&format!("{words} --quick"));
        assert!(report.answer.contains("A first look (`--quick`)"), "{}", report.answer);
        assert_eq!(report.title, "Throughput, a first look");
        let page = ferrule_report::html::render(&report);
        assert!(page.contains("no measurement in the sense of RFC 2544"), "the page says it");
        assert!(page.contains("Trials of 250ms"), "short ones");
        let (report, _) = said(&format!("{words} --quick --duration 20ms --resolution 10%"));
        let page = ferrule_report::html::render(&report);
        assert!(page.contains("Trials of 20ms"), "what is given beside it holds");
        let (report, _) = said(&format!("{words} --duration 20ms --confirm 0s"));
        assert!(!ferrule_report::json::render(&report).contains("first look"));
    }

    #[test]
    fn test_says_what_was_measured_and_what_the_line_would_carry() {
        let words = "throughput --lab two-gateways --size 1000 --duration 20ms --confirm 0s \
                     --drain 50ms --resolution 5% --quiet";
        let (report, _) = said(words);
        assert_eq!(report.device, "network two-gateways: gw1, gw2 in virtual time");
        assert_eq!(report.program, format!("ferrule {}", env!("CARGO_PKG_VERSION")));
        // With preamble and gap 1020 octets on a line of 1 Gbit/s.
        let most = cell(&report, "throughput", "theoretical");
        assert!((most - 1e9 / (1020.0 * 8.0)).abs() < 1.0, "{most}");
        let (report, _) = said(&format!("{words} --both-ways"));
        assert!((cell(&report, "throughput", "theoretical") - 2.0 * most).abs() < 1.0);
        let line = Line::try_parse_from(format!("{words} --device x").split(' ')).err();
        assert!(line.is_some(), "a test has a name first");
        let words = words.replace("--quiet", "--quiet --device bridge-7");
        assert_eq!(said(&words).0.device, "bridge-7");
    }

    #[test]
    fn test_notes_frames_that_had_to_be_fragmented() {
        let topology = include_str!("../../../../topologies/two-gateways.toml");
        let narrow = topology.replace("mtu = 1600", "mtu = 1500");
        assert_ne!(narrow, topology);
        let file = std::env::temp_dir().join(format!("ferrule-narrow-{}.toml", std::process::id()));
        std::fs::write(&file, narrow).expect("a file");
        let words = format!(
            "soak --lab {} --size 512 --size 1518 --duration 20ms --drain 50ms --at 1kpps --quiet",
            file.display()
        );
        let (report, _) = said(&words);
        std::fs::remove_file(&file).expect("the file");
        let text = ferrule_report::json::render(&report);
        assert!(report.answer.contains("Frames had to be fragmented"), "{}", report.answer);
        assert!(text.contains("Frames of 1518 octets had to be fragmented: "), "{text}");
        assert!(!text.contains("Frames of 512 octets had to be"), "they fit");
        let (report, _) =
            said("soak --lab two-gateways --duration 20ms --drain 50ms --at 1kpps --quiet");
        assert!(!report.answer.contains("fragmented"), "{}", report.answer);
    }

    #[test]
    fn test_draws_a_latency_that_is_always_the_same() {
        let words = "latency --lab two-gateways --size 512 --duration 20ms --drain 50ms \
                     --at 10kpps --repeats 1 --quiet";
        let (report, _) = said(words);
        assert_eq!(cell(&report, "latency", "min"), cell(&report, "latency", "max"));
        let figure = report.figures().find(|f| f.id == "latency").expect("the figure");
        let drawn = ferrule_report::svg::render(figure);
        let path = drawn.split("<path d=\"M").nth(1).and_then(|rest| rest.split('"').next());
        let path = path.expect("a path");
        assert!(path.contains('V'), "a place alone shows nothing: {path}");
    }

    #[test]
    fn test_says_what_is_wrong_with_its_command_line() {
        for (words, said) in [
            ("throughput --lab nowhere", "nowhere"),
            ("throughput --lab two-gateways --tx h9", "no host h9"),
            ("throughput --lab two-gateways --tx h1 --rx h1", "named twice"),
            ("throughput --lab two-gateways --size 40", "at least 64"),
            ("throughput --tx dpdk:a --rx af-packet:b", "is no port"),
            ("mpls --lab two-gateways", "no operation"),
            ("mesh --lab two-gateways --pattern many-to-one", "other ports than these 2"),
            ("congestion --lab campus --tx h1 --rx h2", "two ports that send"),
            ("reset --lab two-gateways --at 1kpps", "what resets the device"),
            ("reset --lab two-gateways --at 1kpps --node gw9", "no node gw9"),
            ("loss --tx af-packet:a --rx af-packet:b", "highest load"),
        ] {
            let fault = answer(words).err().unwrap_or_else(|| panic!("{words}: no fault"));
            assert!(fault.to_string().contains(said), "{words}: {fault}");
            assert_eq!(fault.exit_code(), 2, "{words}");
        }
    }
}
