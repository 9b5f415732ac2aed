//! The study's three systems as nodes, and a fourth that protects nothing: what the
//! tester sees, and how long the first node's worker was on a core.
//!
//! ```text
//!   tester ── [ near: software │ look-aside │ inline │ clear ] ══ [ far ] ── tester
//!                 └ its worker's time, by the kernel's account
//! ```
//!
//! The look-aside engine is a thread of its own, whose time is not the worker's; the
//! card between MAC and PHY is a part of the worker's thread, for there is no hardware.

use super::rig::{Between, Protect, Rig, Side};
use super::trials::{Became, ETHERNET, LINE_OVERHEAD, Load as Sent, Trial};
use crate::demo::is_root;
use crate::init::key::KeyFor;
use crate::process::{Background, Fault, Folder, Runner, stop_all, write};
use ferrule_studies::toe_ipsec::bench::Way;
use ferrule_studies::toe_ipsec::live::{FIXED, Load, Sweep, Turns};
use ferrule_studies::toe_ipsec::model::{FULL, OCTETS, SIZES, SPEEDS};
use ferrule_studies::toe_ipsec::network::System;
use std::path::Path;

/// The study's suite.
const SUITE: &str = "aes-cbc-128 hmac-sha1-96";
/// Each load is sent so long.
const SECONDS: f64 = 0.3;
/// The same in a hurry.
const SECONDS_QUICK: f64 = 0.15;
/// So often for a verdict: two more than it needs.
const TURNS: usize = 9;
/// Frames a second in turns, whatever their size: veth pairs carry them in clear.
const TURN_PPS: f64 = 20_000.0;
/// Letters of a reason that stands in a table at most.
const REASON_MAX: usize = 60;
/// Every other speed and size, in a hurry.
const STEP_QUICK: usize = 2;

/// Measures all of them; or why not.
pub fn run(quick: bool, say: &mut dyn FnMut(&str)) -> Result<Vec<Sweep>, String> {
    if !is_root() {
        return Err("not run: needs root".into());
    }
    let runner = Runner::new().map_err(|e| format!("not run: {e}"))?;
    let systems = System::ALL.map(Some).into_iter().chain([None]);
    let mut sweeps = Vec::new();
    for system in systems {
        say(&format!("live: {} as a node", system.map_or("nothing sealed", System::key)));
        let found = one(&runner, system, quick).map_err(|fault| {
            say(&format!("live: {fault}"));
            format!("not run: {}", fault.reason(REASON_MAX))
        });
        sweeps.extend(found?);
    }
    Ok(sweeps)
}

/// Loads that verdicts stand on, each again and again, the systems one after the other in
/// every turn; or why not.
pub fn turns(quick: bool, say: &mut dyn FnMut(&str)) -> Result<Vec<Turns>, String> {
    if quick {
        return Err("not run: verdicts need repeats, for which --quick has no time".into());
    }
    if !is_root() {
        return Err("not run: needs root".into());
    }
    let runner = Runner::new().map_err(|e| format!("not run: {e}"))?;
    let systems: Vec<_> = System::ALL.map(Some).into_iter().chain([None]).collect();
    let loads = [(SIZES[0], TURN_PPS), (SIZES[SIZES.len() - 1], TURN_PPS), (OCTETS, full_pps())];
    let mut all = Vec::new();
    for &system in &systems {
        all.extend(loads.map(|(octets, pps)| {
            let mbps = pps * (8 * (octets + LINE_OVERHEAD - ETHERNET)) as f64 / 1e6;
            Turns { system, octets, mbps, shares: Vec::new() }
        }));
    }
    for turn in 0..TURNS {
        say(&format!("live: every system in turn, {} of {TURNS}", turn + 1));
        for (system, own) in systems.iter().zip(all.chunks_mut(loads.len())) {
            let shares = turn_of(&runner, *system, own).map_err(|fault| {
                say(&format!("live: {fault}"));
                format!("not run: {}", fault.reason(REASON_MAX))
            })?;
            own.iter_mut().zip(shares).for_each(|(turns, share)| turns.shares.push(share));
        }
    }
    Ok(all)
}

/// Frames a second of the study's size that are its full speed.
fn full_pps() -> f64 {
    FULL * 1e6 / (8 * (OCTETS + LINE_OVERHEAD - ETHERNET)) as f64
}

/// One turn of a system: of what was sent, or asked for where the tester was too slow, what
/// arrived.
fn turn_of(runner: &Runner, system: Option<System>, loads: &[Turns]) -> Result<Vec<f64>, Fault> {
    with_nodes(runner, system, |rig, nodes| {
        let trials = loads.iter().map(|turns| {
            let pps = turns.mbps * 1e6 / (8 * (turns.octets + LINE_OVERHEAD - ETHERNET)) as f64;
            let load = Sent { from: 0, octets: turns.octets - ETHERNET, pps };
            Trial { loads: vec![load], seconds: SECONDS, warm_up: 0.05, drain: 0.1 }
        });
        let became = rig.trials(nodes.first(), &trials.collect::<Vec<_>>())?;
        let share = |became: &Became| {
            let got = became.got.first()?;
            Some(got.received as f64 / (got.offered + got.unsent).max(1) as f64)
        };
        Ok(became.iter().map(|became| share(became).unwrap_or(f64::NAN)).collect())
    })
}

/// Both nodes of a system, for as long as `measure` takes.
fn with_nodes<T>(
    runner: &Runner,
    system: Option<System>,
    measure: impl FnOnce(&Rig<'_>, &[Background]) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let out = std::env::temp_dir().join(format!("ferrule-study-{}", std::process::id()));
    let folder = Folder::new(out, false)?;
    keys(folder.path())?;
    let rig = Rig::build(runner, folder.path(), Between::Cable)?;
    let mut nodes = vec![
        rig.node(&side("near", 0, system))?,
        rig.node(&side("far", 1, system.map(|_| System::Software)))?,
    ];
    rig.join(&mut nodes)?;
    let measured = measure(&rig, &nodes)?;
    nodes.iter_mut().try_for_each(Background::check)?;
    stop_all(nodes);
    Ok(measured)
}

fn one(runner: &Runner, system: Option<System>, quick: bool) -> Result<Vec<Sweep>, Fault> {
    with_nodes(runner, system, |rig, nodes| {
        let mut sweeps = Vec::new();
        for way in Way::ALL {
            let trials = loads(way, quick);
            let sent: Vec<Trial> = trials.iter().map(|(.., trial)| trial.clone()).collect();
            let became = rig.trials(nodes.first(), &sent)?;
            let mut sweep = Sweep { system, way, speeds: Vec::new(), sizes: Vec::new() };
            for ((is_speed, octets, mbps, _), became) in trials.into_iter().zip(&became) {
                let load = load(octets, mbps, became);
                if is_speed { &mut sweep.speeds } else { &mut sweep.sizes }.extend(load);
            }
            sweeps.push(sweep);
        }
        Ok(sweeps)
    })
}

/// Keys that nobody else has for as long as the nodes run.
fn keys(folder: &Path) -> Result<(), Fault> {
    let kind = KeyFor::from_name(SUITE).map_err(|e| Fault::failed("a key", e))?;
    for name in ["out", "back"] {
        let key = kind.fresh(&format!("{SUITE}, {name}"));
        let key = key.map_err(|e| Fault::failed("a key", e))?;
        write(&folder.join(format!("{name}.key")), key.expose())?;
    }
    Ok(())
}

fn side(name: &str, number: usize, system: Option<System>) -> Side<'_> {
    // What the study's bus moves is copied.
    let tables = match system {
        Some(System::LookAside) => "[look-aside]\ncopies = 4\n",
        _ => "",
    };
    let protect = system.map(|system| Protect {
        placement: system.key(),
        suite: SUITE,
        keys: ["out", "back"].map(|name| format!("key = \"{name}.key\"")),
    });
    Side { name, number, tables: tables.into(), protect }
}

/// A trial with its place: true if in the sweep over speed, octets of a frame with FCS, Mbit/s.
type Planned = (bool, usize, f64, Trial);

fn loads(way: Way, quick: bool) -> Vec<Planned> {
    let step = if quick { STEP_QUICK } else { 1 };
    let speeds = SPEEDS.into_iter().rev().step_by(step).map(|mbps| (true, OCTETS, mbps));
    let sizes = SIZES.into_iter().rev().step_by(step).map(|octets| (false, octets, FIXED));
    let planned = speeds.chain(sizes).map(|(is_speed, octets, mbps)| {
        let pps = mbps * 1e6 / (8 * (octets + LINE_OVERHEAD - ETHERNET)) as f64;
        let from = if way == Way::Out { 0 } else { 1 };
        let loads = vec![Sent { from, octets: octets - ETHERNET, pps }];
        let seconds = if quick { SECONDS_QUICK } else { SECONDS };
        let trial = Trial { loads, seconds, warm_up: 0.05, drain: 0.1 };
        (is_speed, octets, mbps, trial)
    });
    planned.collect()
}

fn load(octets: usize, offered_mbps: f64, became: &Became) -> Option<Load> {
    let got = became.got.first()?;
    Some(Load {
        offered_mbps,
        octets,
        offered: got.offered,
        unsent: got.unsent,
        received: got.received,
        median_us: got.median_us,
        host_ns: became.worker_ns as f64 / became.carried.max(1) as f64,
    })
}
