//! The tester in the first host's namespace: a hidden command of this program
//! (`demo-bench`), for a namespace is entered by a process. It prints JSON.

use super::plan::{self, Place, Protect, VARIANTS, Variant, end};
use crate::test::bench::{Instrument, LiveBench, Wiring};
use clap::Args;
use ferrule_base::MacAddr;
use ferrule_studies::macsec_mobility::bench::frames_per_second;
use ferrule_tester::responder::Home;
use ferrule_tester::search::throughput::{Throughput, throughput};
use ferrule_tester::search::{Range, Work};
use ferrule_tester::{Bench, Datagram, Layers, Plan, Rate, Stream, Timing, TrialSpec};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Time for which each load is offered.
const SECONDS: f64 = 1.0;
/// The same of a load that is one of many.
const SECONDS_SHORT: f64 = 0.3;
/// The search for a ceiling ends when its bounds are as close as this.
const RESOLUTION: f64 = 0.04;
/// A trial of the search waits so long for late frames.
const DRAIN: Duration = Duration::from_millis(200);
/// The study's frame as a host sends it, with FCS: the CE adds the VLAN tag.
const SENT: usize = plan::STUDY_LEN - 4 + 4;
/// The network carries frames within this time, or something is wrong.
const JOINED: Duration = Duration::from_secs(20);
/// Frames a second while waiting for that, and for captures.
const GENTLE: u64 = 200;
/// Devices have a carrier within this time.
const CARRIER: Duration = Duration::from_secs(5);
/// The access line.
const LINE: u64 = 1_000_000_000;

/// Arguments of the companion.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// The variant's key
    #[arg(long)]
    variant: String,
    /// The two devices
    #[arg(long, value_delimiter = ',')]
    ports: Vec<String>,
    /// Loads in Mbit/s; without, as many frames as show that the network is joined
    #[arg(long, value_delimiter = ',')]
    loads: Vec<f64>,
    /// Offer each for a short time
    #[arg(long)]
    short: bool,
    /// Search for the highest load that loses nothing instead
    #[arg(long)]
    ceiling: bool,
}

/// Output of the companion.
#[derive(Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Offered, in Mbit/s of the line.
    pub load_mbps: f64,
    /// Frames sent.
    pub offered: u64,
    /// Frames that could not be sent.
    pub unsent: u64,
    /// Frames that did not arrive.
    pub lost: u64,
    /// Delay: mean, least, greatest.
    pub us: [f64; 3],
}

impl BenchArgs {
    /// The companion: trials, and what became of them as JSON.
    pub fn run(self) -> ExitCode {
        match self.measure() {
            Ok(measured) => {
                println!("{}", serde_json::to_string(&measured).unwrap_or_default());
                ExitCode::SUCCESS
            }
            Err(what) => {
                eprintln!("{what}");
                ExitCode::FAILURE
            }
        }
    }

    fn measure(&self) -> Result<Vec<Measured>, String> {
        let variant = VARIANTS.iter().find(|variant| variant.key == self.variant);
        let variant = variant.ok_or("no such variant")?;
        let names: Vec<_> = self
            .ports
            .iter()
            .map(|name| format!("af-packet:{name}").parse())
            .collect::<Result<_, _>>()?;
        wait_for_carrier(&self.ports)?;
        let wiring = Wiring { threads: 1, line: Some(LINE), longest: 1518 };
        let stop = Arc::new(AtomicBool::new(false));
        let opened = LiveBench::open(&names, wiring, stop);
        let mut bench = opened.map_err(|fault| fault.to_string())?;
        let [first, second] = variant.hosts().map(|host| host.parse::<IpAddr>());
        let hosts = [first, second].map(|host| host.expect("an address of the plan"));
        let home = |side: usize| vec![Home { first: hosts[side], count: 1, mac: mac(side) }];
        bench.answer_for(vec![home(0), home(1)]);
        if self.ceiling {
            return ceiling(&mut bench, variant, hosts).map(|found| vec![found]);
        }
        if self.loads.is_empty() {
            return join(&mut bench, variant, hosts).map(|()| Vec::new());
        }
        let seconds = if self.short { SECONDS_SHORT } else { SECONDS };
        let each = self.loads.iter().map(|&load| {
            let rate = Rate::MilliFrames((frames_per_second(load) * 1000.0) as u64);
            trial(&mut bench, variant, hosts, rate, seconds)
                .map(|m| Measured { load_mbps: load, ..m })
        });
        each.collect()
    }
}

/// The tester's addresses: those of the hosts' devices.
fn mac(side: usize) -> MacAddr {
    let place = [Place::Host1, Place::Host2][side];
    end(place, "eth0").mac.parse().expect("an address of the plan")
}

/// The kernel says late that a device that was moved has a carrier.
fn wait_for_carrier(ports: &[String]) -> Result<(), String> {
    let begun = std::time::Instant::now();
    let up = |name: &String| {
        let state = std::fs::read_to_string(format!("/sys/class/net/{name}/operstate"));
        state.is_ok_and(|state| state.trim() == "up")
    };
    while !ports.iter().all(up) {
        if begun.elapsed() > CARRIER {
            return Err(format!(
                "no carrier at {} within {} s",
                ports.join(", "),
                CARRIER.as_secs()
            ));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Returns once frames arrive, after a few more of them.
fn join(bench: &mut LiveBench, variant: &Variant, hosts: [IpAddr; 2]) -> Result<(), String> {
    let begun = std::time::Instant::now();
    while begun.elapsed() < JOINED {
        let result = trial(bench, variant, hosts, Rate::frames(GENTLE), 0.5)?;
        if result.lost == 0 {
            return Ok(());
        }
    }
    Err(format!("no frames arrive within {} s", JOINED.as_secs()))
}

/// The study's frames, from the first port to the second.
fn stream(variant: &Variant, hosts: [IpAddr; 2], rate: Rate) -> Plan {
    let to = match variant.protect {
        Protect::Esp(_) => end(Place::Ce1, "lan").mac.parse().expect("an address of the plan"),
        _ => mac(1),
    };
    let mut layers = Layers::new(mac(0), to);
    layers.datagram = Datagram::between(hosts[0], hosts[1]);
    Plan::one(Stream::new("study", layers, SENT, rate), Some(LINE))
}

/// The highest load that loses nothing (RFC 2544 section 26.1), up to the access line's.
fn ceiling(
    bench: &mut LiveBench,
    variant: &Variant,
    hosts: [IpAddr; 2],
) -> Result<Measured, String> {
    let plan = stream(variant, hosts, Rate::frames(1));
    let mut probe = Timing::new(Duration::from_secs_f64(SECONDS_SHORT));
    probe.drain = DRAIN;
    // Loads are those of the study's tagged frame, which fills the line a little sooner
    // than the frame that the host sends.
    let full = frames_per_second(LINE as f64 / 1e6) * 1000.0;
    let range = Range { resolution: RESOLUTION, max: Some(full as u64), ..Range::default() };
    let mut nobody = |_: &str| {};
    let mut work = Work::new(bench, &mut nobody);
    let settings = Throughput { range, probe, confirm: None };
    let found = throughput(&mut work, "ceiling", &plan, &settings).map_err(|e| e.to_string())?;
    let load = found.load.ok_or("frames were lost at every load")?;
    let load_mbps = load as f64 / 1000.0 / frames_per_second(1.0);
    Ok(Measured { load_mbps, offered: 0, unsent: 0, lost: 0, us: [0.0; 3] })
}

fn trial(
    bench: &mut LiveBench,
    variant: &Variant,
    hosts: [IpAddr; 2],
    rate: Rate,
    seconds: f64,
) -> Result<Measured, String> {
    let plan = stream(variant, hosts, rate);
    let mut timing = Timing::new(Duration::from_secs_f64(seconds));
    timing.drain = Duration::from_millis(500);
    let result = bench.trial(&TrialSpec { plan, timing }).map_err(|e| e.to_string())?;
    let latency = result.latency();
    let micros = |nanos: f64| nanos / 1000.0;
    Ok(Measured {
        load_mbps: 0.0,
        offered: result.offered(),
        unsent: result.unsent(),
        lost: result.lost(),
        us: [
            micros(latency.mean().unwrap_or(0.0)),
            micros(latency.min().unwrap_or(0) as f64),
            micros(latency.max().unwrap_or(0) as f64),
        ],
    })
}
