//! The steps at two nodes that run here.

use super::STEPS;
use super::edit::Section;
use super::plan::{End, Plan, Side};
use crate::init::files::give_owner_of;
use crate::live::{load, unexpected};
use ferrule_daemon::Fault;
use ferrule_daemon::api::{Client, Reply, Request, socket_path};
use ferrule_daemon::load::to_send;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Old SAs are silent within this time, or they stay.
const PATIENCE: Duration = Duration::from_secs(30);
/// They are looked at this often.
const LOOK: Duration = Duration::from_millis(200);

/// Takes every step, each at both ends before the next.
pub fn apply(
    sides: &[Side; 2],
    plan: &Plan,
    texts: &[[String; 2]; 3],
    silent: u64,
) -> Result<(), Fault> {
    let mut clients = [connect(&sides[0])?, connect(&sides[1])?];
    let mut before = sides.each_ref().map(|side| side.loaded.source.text.as_str());
    for (number, texts) in texts.iter().enumerate() {
        if number == 2 {
            wait_for_silence(&mut clients, &plan.ends, Duration::from_secs(silent))?;
        }
        for (at, side) in sides.iter().enumerate() {
            put_in_force(side, &mut clients[at], before[at], &texts[at]).map_err(|fault| {
                let node = &side.loaded.config.name;
                let step = STEPS[number].0;
                let remedy = "both ends go on with what they have: mend it and say it again";
                Fault::environment(format!("step `{step}` at {node}:\n{fault}"), remedy)
            })?;
            before[at] = &texts[at];
        }
    }
    Ok(())
}

fn connect(side: &Side) -> Result<Client, Fault> {
    let config = &side.loaded.config;
    Client::connect(&socket_path(config.control.as_deref(), &config.name))
}

/// The file first, then the node; if the node refuses, the file as it was.
fn put_in_force(side: &Side, client: &mut Client, before: &str, text: &str) -> Result<(), Fault> {
    replace(&side.path, before, text)?;
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
        replace(&side.path, text, before)?;
    }
    asked
}

/// Another text in a file, whole or not at all, if it has the text that it should have. The
/// new one is made beside it, where nothing may be yet: so one process at a time does this.
/// A symbolic link stays one; owner, group and mode are kept.
fn replace(path: &Path, before: &str, text: &str) -> Result<(), Fault> {
    let path = &fs::canonicalize(path).map_err(|e| {
        Fault::environment(format!("{}: {e}", path.display()), "see whether it is still there")
    })?;
    let fresh = path.with_extension("toml.new");
    let mut file = File::create_new(&fresh).map_err(|e| {
        let remedy = match e.kind() {
            ErrorKind::AlreadyExists => "remove it, unless keys are being changed right now",
            _ => "see whether the folder may be written",
        };
        Fault::environment(format!("{}: {e}", fresh.display()), remedy)
    })?;
    let done = (|| {
        if fs::read_to_string(path)? != before {
            return Err(std::io::Error::other("was changed by somebody else meanwhile"));
        }
        let old = fs::metadata(path)?;
        give_owner_of(&old, &file)?;
        file.set_permissions(old.permissions())?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, path)
    })();
    done.map_err(|e| {
        // The file is our own, and of no use.
        let _ = fs::remove_file(&fresh);
        let remedy = "see what it says now, and whether the folder may be written";
        Fault::environment(format!("{}: {e}", path.display()), remedy)
    })
}

/// Waits until neither node has received by an old SA for some time.
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
        let is_old = |number: u32| end.old_in.iter().any(|sa| sa.number == number);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_somebody_else_changed_is_left_alone() {
        let folder = std::env::temp_dir().join(format!("ferrule-replace-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let (file, fresh) = (folder.join("a.toml"), folder.join("a.toml.new"));
        fs::write(&file, "one").expect("a file");
        replace(&file, "one", "two").expect("it is as it was");
        let refused = replace(&file, "one", "three").expect_err("it is not");
        assert!(refused.to_string().contains("by somebody else"), "{refused}");
        assert!(!fresh.exists());
        fs::write(&fresh, "whose?").expect("a file");
        let refused = replace(&file, "two", "three").expect_err("another is at it");
        assert!(refused.to_string().contains("a.toml.new"), "{refused}");
        let left = [&file, &fresh].map(|path| fs::read_to_string(path).expect("a file"));
        assert_eq!(left, ["two", "whose?"]);
        fs::remove_dir_all(&folder).expect("ours");
    }

    #[test]
    fn a_link_to_a_configuration_stays_a_link() {
        let folder = std::env::temp_dir().join(format!("ferrule-link-{}", std::process::id()));
        fs::create_dir_all(folder.join("there")).expect("a folder");
        let (link, file) = (folder.join("a.toml"), folder.join("there/b.toml"));
        fs::write(&file, "one").expect("a file");
        std::os::unix::fs::symlink("there/b.toml", &link).expect("a link");
        replace(&link, "one", "two").expect("it is as it was");
        assert!(link.symlink_metadata().expect("it is there").is_symlink());
        assert_eq!(fs::read_to_string(&file).expect("a file"), "two");
        fs::remove_dir_all(&folder).expect("ours");
    }
}
