//! The demo's network with the tester at both ends instead of hosts: what a study
//! measures as root.
//!
//! ```text
//!        ┌────────────── one namespace: tester ──────────────┐
//!      eth0                                                 eth1
//!        └─ CE1 ── PE1 ══ P ══ PE2 ── CE2 ──────────────────┘
//! ```
//!
//! The second host's device moves to the first host's namespace, where a
//! [companion](super::companion) drives both, so that one clock measures delay.

use super::chain;
use super::companion::Measured;
use super::live::{Site, Wishes, missing_tools};
use super::network::{Network, remove_orphans};
use super::plan::{Place, VARIANTS, Variant, end};
use super::wiretap::{Wiretap, measure};
use crate::process::{Background, Fault, Folder, Runner, stop_all};
use ferrule_studies::macsec_mobility::bench::Point;
use ferrule_studies::macsec_mobility::live::Live;
use ferrule_studies::macsec_mobility::network::System;
use ferrule_studies::macsec_mobility::software;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Loads of the study's tables, in Mbit/s of a line of 1 Gbit/s, that veth pairs and a
/// few processors can be asked for.
const LOADS: [f64; 3] = [100.0, 200.0, 400.0];
/// The same of table 2.
const GATEWAY_LOADS: [f64; 5] = [20.0, 40.0, 60.0, 80.0, 100.0];
/// The companion ends within this time.
const COMPANION: Duration = Duration::from_secs(60);
/// Letters of a reason that stands in a table at most.
const REASON_MAX: usize = 60;
/// The tester's ports in its namespace.
const PORTS: [&str; 2] = ["eth0", "eth1"];

const NOTE: &str = "Live: Ferrule's nodes, one process each, on veth pairs of one machine, and \
    the tester on AF_PACKET beside them. Delay is what this machine's scheduler makes of seven \
    processes, and no delay of the study's devices; bytes are exact.";

/// Measures plain, MACsec and IPsec. Everything that is made goes again.
pub fn run(say: &mut dyn FnMut(&str)) -> Result<Live, String> {
    let runner = Runner::new().map_err(|e| format!("not run: {e}"))?;
    measure_all(&runner, say).map_err(|fault| {
        // The whole fault on the terminal, one line of it for a cell of a table.
        say(&format!("live: {fault}"));
        reason(&fault)
    })
}

/// A fault in a line.
fn reason(fault: &Fault) -> String {
    let said = fault.to_string();
    let last = said.lines().last().unwrap_or_default().trim().chars();
    format!("not run: {}", last.take(REASON_MAX).collect::<String>())
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
    let mut live = Live { note: NOTE.into(), ..Live::default() };
    let systems = [System::Plain, System::Ipsec, System::Macsec];
    for (system, key) in systems.into_iter().zip(["plain", "esp-cbc-sha1", "macsec"]) {
        say(&format!("live: {}", system.name()));
        let variant = VARIANTS.iter().find(|v| v.key == key).expect("a variant of the plan");
        let (points, ceiling) = one(&site, variant, &mut provider)?;
        live.loads.push((system, points));
        live.ceilings.push((system, ceiling));
    }
    stop_all(provider);
    live.hops = chain::run(&site, say).map_err(|fault| {
        say(&format!("live: {fault}"));
        reason(&fault)
    });
    say("live: a switch, memory to memory");
    let begun = Instant::now();
    live.prices = software::measure(&mut || begun.elapsed().as_nanos() as u64);
    Ok(live)
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

/// Measures a variant at every load with the octets on both core links, and gives its ceiling in
/// Mbit/s.
fn one(
    site: &Site<'_>,
    variant: &Variant,
    provider: &mut [Background],
) -> Result<(Vec<Point>, f64), Fault> {
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
    companion(site, variant, PORTS, &[])?;
    let mut octets = Vec::new();
    for (tap, (place, device)) in taps.into_iter().zip([(Place::Pe1, "core"), (Place::P, "right")])
    {
        octets.push(measure(&tap.stop(runner)?, end(place, device), variant)?.bytes);
    }
    let loads = if variant.is_routed() { GATEWAY_LOADS.as_slice() } else { &LOADS };
    let loads: Vec<String> = loads.iter().map(f64::to_string).collect();
    let measured = companion(site, variant, PORTS, &["--loads", &loads.join(",")])?;
    let highest = companion(site, variant, PORTS, &["--ceiling"])?;
    let highest = highest.first().map_or(f64::NAN, |found| found.load_mbps);
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
    Ok((offered.map(point).collect(), highest))
}

/// Runs the companion where the ports are.
pub fn companion(
    site: &Site<'_>,
    variant: &Variant,
    ports: [&str; 2],
    wishes: &[&str],
) -> Result<Vec<Measured>, Fault> {
    let program = std::env::current_exe().map_err(|e| Fault::failed("our own path", e))?;
    let mut command = site.network.inside(Place::Host1);
    command.arg(program).args(["demo-bench", "--variant", variant.key]);
    command.args(["--ports", &ports.join(",")]).args(wishes);
    let said = site.runner.done(&mut command, COMPANION)?;
    serde_json::from_str(&said).map_err(|e| Fault::failed("the tester's result", e))
}
