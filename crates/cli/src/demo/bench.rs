//! The demo's network with the tester at both ends instead of hosts: what a study
//! measures as root.
//!
//! ```text
//!        ┌────────────── one namespace: tester ──────────────┐
//!      eth0                                                 eth1
//!        └─ CE1 ── PE1 ══ P ══ PE2 ── CE2 ──────────────────┘
//! ```
//!
//! The second host's device moves to the first host's namespace, where a companion of
//! this program (`demo-bench`, hidden) drives both, so that one clock measures delay.

use super::live::{Site, Wishes, missing_tools};
use super::network::{Network, remove_orphans};
use super::plan::{self, Place, Protect, VARIANTS, Variant, end};
use super::wiretap::{Wiretap, measure};
use crate::process::{Background, Fault, Folder, Runner, stop_all};
use crate::test::bench::{Instrument, LiveBench, Wiring};
use clap::Args;
use ferrule_base::MacAddr;
use ferrule_studies::macsec_mobility::bench::{Point, frames_per_second};
use ferrule_studies::macsec_mobility::live::Live;
use ferrule_studies::macsec_mobility::network::System;
use ferrule_tester::responder::Home;
use ferrule_tester::{Bench, Datagram, Layers, Plan, Rate, Stream, Timing, TrialSpec};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Loads of the study's tables, in Mbit/s of a line of 1 Gbit/s, that veth pairs and a
/// few processors can be asked for.
const LOADS: [f64; 3] = [100.0, 200.0, 400.0];
/// The same of table 2.
const GATEWAY_LOADS: [f64; 5] = [20.0, 40.0, 60.0, 80.0, 100.0];
/// How long each is offered.
const SECONDS: f64 = 1.0;
/// The study's frame as a host sends it, with FCS: the CE adds the VLAN tag.
const SENT: usize = plan::STUDY_LEN - 4 + 4;
/// The network carries frames within this time, or something is wrong.
const JOINED: Duration = Duration::from_secs(20);
/// Frames a second while waiting for that, and for captures.
const GENTLE: u64 = 200;
/// The companion ends within this time.
const COMPANION: Duration = Duration::from_secs(60);
/// Letters of a reason that stands in a table at most.
const REASON_MAX: usize = 60;
/// Devices have a carrier within this time.
const CARRIER: Duration = Duration::from_secs(5);
/// The tester's ports in its namespace.
const PORTS: [&str; 2] = ["eth0", "eth1"];

const NOTE: &str = "Live: Ferrule's nodes, one process each, on veth pairs of one machine, and \
    the tester on AF_PACKET beside them. Delay is what this machine's scheduler makes of seven \
    processes, and no delay of the study's devices; bytes are exact.";

/// Arguments of the companion.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// The variant's key
    #[arg(long)]
    variant: String,
    /// Loads in Mbit/s; without, as many frames as show that the network is joined
    #[arg(long, value_delimiter = ',')]
    loads: Vec<f64>,
}

/// What the companion prints.
#[derive(Debug, Serialize, Deserialize)]
struct Measured {
    load_mbps: f64,
    offered: u64,
    unsent: u64,
    lost: u64,
    us: [f64; 3],
}

/// Measures plain, MACsec and IPsec. Everything that is made goes again.
pub fn run(say: &mut dyn FnMut(&str)) -> Result<Live, String> {
    let runner = Runner::new().map_err(|e| format!("not run: {e}"))?;
    measure_all(&runner, say).map_err(|fault| {
        // All of it for who looks on, one line for a cell of a table.
        say(&format!("live: {fault}"));
        let said = fault.to_string();
        let last = said.lines().last().unwrap_or_default().trim().chars();
        format!("not run: {}", last.take(REASON_MAX).collect::<String>())
    })
}

fn measure_all(runner: &Runner, say: &mut dyn FnMut(&str)) -> Result<Live, Fault> {
    missing_tools()?;
    remove_orphans();
    let out = std::env::temp_dir().join(format!("ferrule-study-{}", std::process::id()));
    let folder = Folder::new(out.clone(), false)?;
    let network = Network::build(runner)?;
    move_host(runner, &network)?;
    let wishes = Wishes { out, keep: false, seconds: 1, driver: "af-packet".into() };
    let site = Site { runner, network: &network, folder: folder.path(), wishes: &wishes };
    let setting = site.setting("provider")?;
    let mut provider = Vec::new();
    for place in [Place::Pe1, Place::P, Place::Pe2] {
        provider.push(site.node(place, &VARIANTS[0], &setting)?);
    }
    let mut loads = Vec::new();
    let systems = [System::Plain, System::Ipsec, System::Macsec];
    for (system, key) in systems.into_iter().zip(["plain", "esp-cbc-sha1", "macsec"]) {
        say(&format!("live: {}", system.name()));
        let variant = VARIANTS.iter().find(|v| v.key == key).expect("a variant of the plan");
        loads.push((system, one(&site, variant, &mut provider)?));
    }
    stop_all(provider);
    Ok(Live { note: NOTE.into(), loads })
}

/// The second host's device, beside the first one's.
fn move_host(runner: &Runner, network: &Network) -> Result<(), Fault> {
    let [here, there] = [Place::Host1, Place::Host2].map(|place| network.namespace(place));
    let [_, name] = PORTS;
    for line in [
        format!("-n {there} link set eth0 down"),
        format!("-n {there} link set eth0 netns {here} name {name}"),
        format!("-n {here} link set {name} up"),
    ] {
        runner.done(Command::new("ip").args(line.split_whitespace()), COMPANION)?;
    }
    let mut offloads = network.inside(Place::Host1);
    offloads.args(["ethtool", "-K", name]);
    offloads.args("tx off rx off tso off gso off gro off".split(' '));
    runner.done(&mut offloads, COMPANION).map(drop)
}

/// All loads of a variant, and the octets on both core links.
fn one(
    site: &Site<'_>,
    variant: &Variant,
    provider: &mut [Background],
) -> Result<Vec<Point>, Fault> {
    let (runner, network) = (site.runner, site.network);
    let setting = site.setting(variant.key)?;
    let dir = Path::new(&setting.dir);
    site.keys(variant, dir)?;
    let mut edges = Vec::new();
    for place in [Place::Ce1, Place::Ce2] {
        edges.push(site.node(place, variant, &setting)?);
    }
    let places = [(Place::P, "left", "pe1-p.pcapng"), (Place::Pe2, "core", "p-pe2.pcapng")];
    let mut taps = Vec::new();
    for (place, device, file) in places {
        taps.push(Wiretap::start(network, (place, device), dir.join(file))?);
    }
    taps.iter_mut().try_for_each(|tap| tap.wait(runner))?;
    companion(site, variant, &[])?;
    let mut octets = Vec::new();
    for (tap, (place, device)) in taps.into_iter().zip([(Place::Pe1, "core"), (Place::P, "right")])
    {
        octets.push(measure(&tap.stop(runner)?, end(place, device), variant)?.bytes);
    }
    let loads = if variant.is_routed() { GATEWAY_LOADS.as_slice() } else { &LOADS };
    let measured = companion(site, variant, loads)?;
    edges.iter_mut().chain(provider.iter_mut()).try_for_each(Background::check)?;
    stop_all(edges);
    let point = |m: Measured| {
        let [mean_us, min_us, max_us] = m.us;
        let octets = octets.clone();
        let (load_mbps, offered, lost) = (m.load_mbps, m.offered, m.lost);
        Point { load_mbps, offered, lost, mean_us, min_us, max_us, octets }
    };
    // A load that the tester could not offer is not reported as that load.
    let offered = measured.into_iter().filter(|m| m.unsent * 100 <= m.offered);
    Ok(offered.map(point).collect())
}

/// Runs the companion where the ports are.
fn companion(site: &Site<'_>, variant: &Variant, loads: &[f64]) -> Result<Vec<Measured>, Fault> {
    let program = std::env::current_exe().map_err(|e| Fault::failed("our own path", e))?;
    let mut command = site.network.inside(Place::Host1);
    command.arg(program).args(["demo-bench", "--variant", variant.key]);
    if !loads.is_empty() {
        let loads: Vec<String> = loads.iter().map(f64::to_string).collect();
        command.args(["--loads", &loads.join(",")]);
    }
    let said = site.runner.done(&mut command, COMPANION)?;
    serde_json::from_str(&said).map_err(|e| Fault::failed("the tester's result", e))
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
        let names: Vec<_> = PORTS
            .iter()
            .map(|name| format!("af-packet:{name}").parse())
            .collect::<Result<_, _>>()?;
        wait_for_carrier()?;
        let wiring = Wiring { threads: 1, line: Some(1_000_000_000), longest: 1518 };
        let stop = Arc::new(AtomicBool::new(false));
        let opened = LiveBench::open(&names, wiring, stop);
        let mut bench = opened.map_err(|fault| fault.to_string())?;
        let [first, second] = variant.hosts().map(|host| host.parse::<IpAddr>());
        let hosts = [first, second].map(|host| host.expect("an address of the plan"));
        let home = |side: usize| vec![Home { first: hosts[side], count: 1, mac: mac(side) }];
        bench.answer_for(vec![home(0), home(1)]);
        if self.loads.is_empty() {
            return join(&mut bench, variant, hosts).map(|()| Vec::new());
        }
        let each = self.loads.iter().map(|&load| {
            let rate = Rate::MilliFrames((frames_per_second(load) * 1000.0) as u64);
            trial(&mut bench, variant, hosts, rate, SECONDS)
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
fn wait_for_carrier() -> Result<(), String> {
    let begun = std::time::Instant::now();
    let up = |name: &&str| {
        let state = std::fs::read_to_string(format!("/sys/class/net/{name}/operstate"));
        state.is_ok_and(|state| state.trim() == "up")
    };
    while !PORTS.iter().all(up) {
        if begun.elapsed() > CARRIER {
            return Err(format!(
                "no carrier at {} within {} s",
                PORTS.join(", "),
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

fn trial(
    bench: &mut LiveBench,
    variant: &Variant,
    hosts: [IpAddr; 2],
    rate: Rate,
    seconds: f64,
) -> Result<Measured, String> {
    let to = match variant.protect {
        Protect::Esp(_) => end(Place::Ce1, "lan").mac.parse().expect("an address of the plan"),
        _ => mac(1),
    };
    let mut layers = Layers::new(mac(0), to);
    layers.datagram = Datagram::between(hosts[0], hosts[1]);
    let plan = Plan::one(Stream::new("study", layers, SENT, rate), Some(1_000_000_000));
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
