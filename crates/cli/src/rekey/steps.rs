//! The steps at two nodes that run here.

use super::STEPS;
use super::edit::Section;
use super::plan::{End, Plan, Side};
use crate::live::{load, unexpected};
use ferrule_daemon::Fault;
use ferrule_daemon::api::{Client, Reply, Request, socket_path};
use ferrule_daemon::load::to_send;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Old SAs are silent within this time, or they stay.
const PATIENCE: Duration = Duration::from_secs(30);
/// They are looked at this often.
const LOOK: Duration = Duration::from_millis(200);

/// Does all steps; each at both ends before the next.
pub fn apply(
    sides: &[Side; 2],
    plan: &Plan,
    texts: &[[String; 2]; 3],
    silent: u64,
) -> Result<(), Fault> {
    let mut clients = [connect(&sides[0])?, connect(&sides[1])?];
    for (number, texts) in texts.iter().enumerate() {
        if number == 2 {
            wait_for_silence(&mut clients, &plan.ends, Duration::from_secs(silent))?;
        }
        for ((side, client), text) in sides.iter().zip(&mut clients).zip(texts) {
            put_in_force(side, client, text).map_err(|fault| {
                let node = &side.loaded.config.name;
                let step = STEPS[number].0;
                let remedy = "both ends go on with what they have: mend it and say it again";
                Fault::environment(format!("step `{step}` at {node}:\n{fault}"), remedy)
            })?;
        }
    }
    Ok(())
}

fn connect(side: &Side) -> Result<Client, Fault> {
    let config = &side.loaded.config;
    Client::connect(&socket_path(config.control.as_deref(), &config.name))
}

/// The file first, then the node; if the node refuses, the file as it was.
fn put_in_force(side: &Side, client: &mut Client, text: &str) -> Result<(), Fault> {
    let before = replace(&side.path, text)?;
    let asked = load(&side.path).and_then(|loaded| {
        let file = std::path::absolute(&side.path).unwrap_or_else(|_| side.path.clone());
        let request = Request::Apply {
            file: file.display().to_string(),
            text: loaded.source.text,
            keys: to_send(&loaded.keys),
            new_keys: true,
        };
        match client.ask(&request)? {
            Reply::Applied { .. } => Ok(()),
            reply => Err(unexpected(reply)),
        }
    });
    if asked.is_err() {
        replace(&side.path, &before)?;
    }
    asked
}

/// Another text in a file, whole or not at all; the text before.
fn replace(path: &Path, text: &str) -> Result<String, Fault> {
    let fresh = path.with_extension("toml.new");
    let done = fs::read_to_string(path).and_then(|before| {
        let mode = fs::metadata(path)?.permissions();
        fs::write(&fresh, text)?;
        fs::set_permissions(&fresh, mode)?;
        fs::File::open(&fresh)?.sync_all()?;
        fs::rename(&fresh, path)?;
        Ok(before)
    });
    done.map_err(|e| {
        let what = format!("{}: {e}", path.display());
        Fault::environment(what, "see whether the folder may be written")
    })
}

/// Until neither node has received by an old SA for some time.
fn wait_for_silence(
    clients: &mut [Client; 2],
    ends: &[End; 2],
    silent: Duration,
) -> Result<(), Fault> {
    let begun = Instant::now();
    let (mut last, mut since) = (counted(clients, ends)?, Instant::now());
    while since.elapsed() < silent {
        if begun.elapsed() > PATIENCE + silent {
            let what = "the old SAs still receive packets";
            let remedy = "see `ferrule show sa`: who seals with them? Both ends open with both";
            return Err(Fault::environment(what, remedy));
        }
        sleep(LOOK);
        let now = counted(clients, ends)?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    Ok(())
}

/// Packets that came by old SAs, at both ends.
fn counted(clients: &mut [Client; 2], ends: &[End; 2]) -> Result<u64, Fault> {
    let mut packets = 0;
    for (client, end) in clients.iter_mut().zip(ends) {
        let report = match client.ask(&Request::Show {})? {
            Reply::Report(report) => report,
            reply => return Err(unexpected(reply)),
        };
        let is_old = |number: u32| end.stale_in().any(|sa| sa.number == number);
        if end.section == Section::Macsec {
            let received = report.macsec.iter().filter(|sa| sa.way == "rx" && sa.port == end.name);
            let old = received.filter(|sa| is_old(sa.an.into()));
            packets += old.flat_map(|sa| sa.counters.values()).sum::<u64>();
        } else {
            let spi = |spi: &str| u32::from_str_radix(spi.trim_start_matches("0x"), 16);
            let received = report.sas.iter().filter(|sa| sa.way == "in");
            let old = received.filter(|sa| spi(&sa.spi).is_ok_and(is_old));
            packets += old.map(|sa| sa.packets).sum::<u64>();
        }
    }
    Ok(packets)
}
