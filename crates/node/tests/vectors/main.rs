//! Every set of captures under a folder, through the real data plane.
//!
//! ```text
//!   vectors/TOPIC/NAME.json    keys, numbers, plaintext  ─┐ make: must give the capture's bytes
//!   vectors/TOPIC/NAME.pcapng  what was on the wire      ─┘ take: must give the plaintext
//! ```
//!
//! `FERRULE_VECTORS` names another folder. A set whose topic, suite or function
//! Ferrule does not have is reported as not yet supported, with the reason, and
//! so is a single frame of a set; nothing is left out in silence. One failed
//! frame fails the test.
#![forbid(unsafe_code)]

mod esp;
mod macsec;
mod oracle;
mod report;
mod rig;
mod sidecar;

use report::{Report, Row};
use sidecar::Set;
use std::io::Write;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    match std::env::var_os("FERRULE_VECTORS") {
        Some(folder) => folder.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors"),
    }
}

/// One set through the stages of its topic.
fn run(set: &Set) -> Row {
    let mut row = Row::new(set);
    let done = match set.topic.as_str() {
        "esp" => esp::run(set, &mut row),
        "macsec" => macsec::run(set, &mut row),
        other => {
            row.not_yet(not_carried(other));
            Ok(())
        }
    };
    if let Err(why) = done {
        row.broken(&why);
    }
    row
}

/// What a topic is that Ferrule does not carry yet.
fn not_carried(topic: &str) -> &str {
    match topic {
        "ah" => "AH",
        "ike" => "IKEv2",
        "mka" => "MKA",
        other => other,
    }
}

/// All sets below `folder`.
fn run_all(folder: &Path) -> Report {
    let mut report = Report::default();
    for path in sidecar::find(folder) {
        match Set::read(folder, &path) {
            Ok(set) => report.rows.push(run(&set)),
            Err(why) => report.rows.push(Row::unreadable(folder, &path, &why)),
        }
    }
    report
}

#[test]
fn vectors_of_other_implementations_pass_in_both_directions() {
    let report = run_all(&folder());
    // Not print!, which is shown for a failed test alone.
    let _ = writeln!(std::io::stderr(), "{report}");
    assert!(!report.rows.is_empty(), "no set under {}", folder().display());
    assert_eq!(report.failed(), 0, "{}", report.failures());
}
