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

mod ah;
mod engine;
mod esp;
mod macsec;
mod mka;
mod mpls;
mod oracle;
mod report;
mod rig;
mod sidecar;

use engine::Kind;
use ferrule_crypto::backend::Backend;
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
fn run(set: &Set, kind: Kind) -> Row {
    let mut row = Row::new(set);
    let done = match set.topic.as_str() {
        "ah" => ah::run(set, kind, &mut row),
        "esp" => esp::run(set, kind, &mut row),
        "macsec" => macsec::run(set, kind, &mut row),
        "mka" => mka::run(set, kind, &mut row),
        "mpls" => mpls::run(set, kind, &mut row),
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

/// Protocol of a topic that Ferrule does not carry yet.
fn not_carried(topic: &str) -> &str {
    match topic {
        "ike" => "IKEv2",
        other => other,
    }
}

/// Runs every set below `folder`.
fn run_all(folder: &Path, kind: Kind) -> Report {
    let mut report = Report::default();
    for path in sidecar::find(folder) {
        match Set::read(folder, &path) {
            Ok(set) => report.rows.push(run(&set, kind)),
            Err(why) => report.rows.push(Row::unreadable(folder, &path, &why)),
        }
    }
    report
}

fn best() -> Kind {
    Kind::AtOnce(Backend::best())
}

#[test]
fn vectors_of_other_implementations_pass_in_both_directions() {
    let report = run_all(&folder(), best());
    // Not print!, which is shown for a failed test alone.
    let _ = writeln!(std::io::stderr(), "{report}");
    assert!(!report.rows.is_empty(), "no set under {}", folder().display());
    assert_eq!(report.failed(), 0, "{}", report.failures());
}

#[test]
fn vectors_pass_on_every_backend_and_on_an_engine_that_completes_late() {
    let backends = Backend::all().iter().map(|&backend| Kind::AtOnce(backend));
    for kind in backends.chain([Kind::Late(1), Kind::Late(2)]) {
        let report = run_all(&folder(), kind);
        assert_eq!(report.failed(), 0, "{kind:?}: {}", report.failures());
        let reference = run_all(&folder(), best());
        assert_eq!(report.passed(), reference.passed(), "{kind:?}");
    }
}

/// A set of the tree, for the tests of this runner itself.
fn own_set(name: &str) -> Set {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors");
    Set::read(&folder, &folder.join(name).with_extension("json")).expect("a set of the tree")
}

#[test]
fn vectors_runner_fails_on_a_capture_with_one_bit_changed() {
    for name in [
        "esp/tun4-gcm128",
        "esp/tun4-cbc128-sha1",
        "ah/tun4-sha256",
        "macsec/gcm128-enc",
        "mka/psk128-rekey",
        "mpls/l3vpn-swap",
    ] {
        let mut set = own_set(name);
        assert!(run(&set, best()).passed(), "{name}");
        // Frames 21 to 30, at the end: ICV, payload. (Some are outer fragments.)
        for frame in &mut set.capture[20..30] {
            *frame.octets.last_mut().expect("octets") ^= 1;
        }
        let row = run(&set, best());
        assert!(row.take.failed + row.make.failed >= 8, "{name}: {row:?}");
    }
}

#[test]
fn vectors_runner_fails_on_a_wrong_key_and_on_other_plaintext() {
    for (name, member) in [
        ("esp/tun4-gcm256", "enc_key"),
        ("esp/tun6-cbc256-sha256", "auth_key"),
        ("ah/tun4-sha1", "auth_key"),
        ("macsec/xpn256-wrap", "salt"),
        ("macsec/gcm128-integ", "key"),
    ] {
        let mut set = own_set(name);
        let key = &mut set.json["sas"][0][member];
        let turned: String = key.as_str().expect("digits").chars().rev().collect();
        *key = turned.into();
        let row = run(&set, best());
        assert!(row.failed() && row.make.failed > 20 && row.take.failed > 20, "{name}: {row:?}");
    }
    let mut set = own_set("macsec/gcm128-enc");
    set.json["frames"][5]["plain"] = set.json["frames"][6]["plain"].clone();
    let row = run(&set, best());
    assert_eq!((row.make.failed, row.take.failed), (1, 1), "{:?}", row.failures);
}

#[test]
fn vectors_runner_reports_what_it_does_not_know_and_what_is_broken() {
    let mut set = own_set("esp/tun4-gcm128");
    set.topic = "geneve".into();
    let row = run(&set, best());
    assert!(!row.failed() && !row.passed() && row.reasons.contains_key("geneve"));
    let mut set = own_set("esp/tun4-gcm128");
    set.json["frames"] = serde_json::Value::Null;
    assert!(run(&set, best()).failed(), "a sidecar without frames is no success");
    let missing = run_all(Path::new("/nonexistent"), best());
    assert!(missing.rows.is_empty());
}
