//! What a store may never do, tried: forget, go back, believe a stranger.

use super::*;
use ferrule_base::Rng;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const KEY: [u8; 16] = [7; 16];
const ID: &str = "esp-out berlin 0x1001";

/// A folder of a test's own, gone when the test is.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("ferrule-state-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn file(&self, kind: &str) -> PathBuf {
        self.0.join(format!("{}.{kind}", hex(&KEY)))
    }

    fn found(&self) -> Result<Found, StateError> {
        FileStore::open(&self.0)?.find(ID, KEY)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn with_limit(folder: &Folder, limit: u64) {
    let mut store = FileStore::create(&folder.0).unwrap();
    store.find(ID, KEY).unwrap();
    store.raise(KEY, limit).unwrap();
}

/// Keys that are written together: more than are synced one by one.
fn keys() -> Vec<CounterId> {
    let key = |n| CounterId { id: format!("esp-out {n}"), fingerprint: [n; 16] };
    (0..20).map(key).collect()
}

/// The same limit for all of them.
fn up_to(limit: u64) -> Vec<([u8; 16], u64)> {
    keys().iter().map(|key| (key.fingerprint, limit)).collect()
}

#[test]
fn counter_states_of_many_keys_are_raised_together() {
    let folder = Folder::new("many");
    let mut store = FileStore::create(&folder.0).unwrap();
    store.find_all(&keys()).unwrap();
    store.find_all(&keys()).unwrap();
    assert_eq!(store.made(), keys().len());
    store.raise_all(&up_to(100)).unwrap();
    // A key twice, and one that was further before.
    let [a, b] = [[0; 16], [1; 16]];
    store.raise_all(&[(a, 300), (b, 50), (a, 200)]).unwrap();
    assert!(matches!(store.raise_all(&[(a, 900), ([99; 16], 1)]), Err(StateError::Missing(..))));
    drop(store);
    let mut store = FileStore::open(&folder.0).unwrap();
    for CounterId { id, fingerprint } in keys() {
        let next = if fingerprint == a { 301 } else { 101 };
        assert_eq!(store.find(&id, fingerprint).unwrap().next, next, "{id}");
    }
}

/// Every file in turn cannot be written, or cannot have its name: there writing ends, as
/// it does when the power fails.
#[test]
fn counter_states_written_together_and_cut_anywhere_lower_no_limit() {
    let folder = Folder::new("cut-many");
    let mut store = FileStore::create(&folder.0).unwrap();
    store.find_all(&keys()).unwrap();
    store.raise_all(&up_to(10)).unwrap();
    drop(store);
    let aside = folder.0.join("aside");
    let (mut limit, mut cut) = (10, [0; 3]);
    for key in keys() {
        let way = KINDS.map(|kind| path(&folder.0, key.fingerprint, kind));
        for (path, is_name) in way.iter().flat_map(|path| [(path, false), (path, true)]) {
            let mut store = FileStore::open(&folder.0).unwrap();
            store.find_all(&keys()).unwrap();
            let kind = path.extension().unwrap().display();
            let fresh = path.with_extension(format!("{kind}.new"));
            let block = if is_name { path } else { &fresh };
            if is_name {
                fs::rename(path, &aside).unwrap();
            }
            fs::create_dir(block).unwrap();
            assert!(store.raise_all(&up_to(limit + 10)).is_err());
            for CounterId { id, fingerprint } in keys() {
                let next = store.find(&id, fingerprint).unwrap().next;
                assert_eq!(next, limit + 1, "{id}: it counts as not written");
            }
            drop(store);
            fs::remove_dir(block).unwrap();
            if is_name {
                fs::rename(&aside, path).unwrap();
            }
            // All anchors come before any counter, so both files explain each other.
            let mut store = FileStore::open(&folder.0).unwrap();
            for CounterId { id, fingerprint } in keys() {
                let next = store.find(&id, fingerprint).unwrap().next;
                assert!([limit + 1, limit + 11].contains(&next), "{id}: {next} after {limit}");
                cut[usize::from(next > limit + 1)] += 1;
            }
            store.raise_all(&up_to(limit + 20)).unwrap();
            limit += 20;
            cut[2] += 1;
        }
    }
    assert!(cut.iter().all(|&times| times >= 4 * keys().len()), "{cut:?}");
}

#[test]
fn counter_state_goes_on_above_what_was_reserved() {
    let folder = Folder::new("reserve");
    with_limit(&folder, 1000);
    let mut store = FileStore::open(&folder.0).unwrap();
    assert_eq!(store.find(ID, KEY).unwrap(), Found { next: 1001, edge: 0 });
    store.raise(KEY, 5).unwrap();
    assert_eq!(store.find(ID, KEY).unwrap().next, 1001, "a limit never falls");
    store.raise_edge(KEY, 77).unwrap();
    store.settle(KEY, 900).unwrap();
    drop(store);
    assert_eq!(folder.found().unwrap(), Found { next: 901, edge: 77 });
    let mut store = FileStore::open(&folder.0).unwrap();
    assert_eq!(store.find("esp-out renamed 0x1001", KEY).unwrap().next, 901);
}

#[test]
fn counter_state_is_a_keys_and_no_name_moves_it() {
    const OTHER: [u8; 16] = [8; 16];
    let folder = Folder::new("names");
    with_limit(&folder, 1000);
    let mut store = FileStore::create(&folder.0).unwrap();
    store.find("esp-out u 0x1002", OTHER).unwrap();
    // An apply that is refused in the end has asked for both under each other's name.
    store.find(ID, OTHER).unwrap();
    store.find("esp-out u 0x1002", KEY).unwrap();
    store.raise(KEY, 5000).unwrap();
    store.raise(OTHER, 70).unwrap();
    store.raise_edge(OTHER, 66).unwrap();
    store.settle(OTHER, 65).unwrap();
    drop(store);
    let mut store = FileStore::open(&folder.0).unwrap();
    assert_eq!(store.find(ID, KEY).unwrap(), Found { next: 5001, edge: 0 });
    assert_eq!(store.find(ID, OTHER).unwrap(), Found { next: 66, edge: 66 });
}

#[test]
fn counter_state_that_could_not_be_written_is_written_the_next_time() {
    let folder = Folder::new("full");
    with_limit(&folder, 10);
    let mut store = FileStore::open(&folder.0).unwrap();
    store.find(ID, KEY).unwrap();
    // Something is in the way of either file in turn, as a full disk would be.
    for (kind, limit) in [("anchor", 20), ("counter", 30)] {
        let way = folder.0.join(format!("{}.{kind}.new", hex(&KEY)));
        fs::create_dir(&way).unwrap();
        assert!(matches!(store.raise(KEY, limit), Err(StateError::Os(..))), "{kind}");
        assert_eq!(store.find(ID, KEY).unwrap().next, limit - 9, "it counts as not written");
        fs::remove_dir(&way).unwrap();
        store.raise(KEY, limit).unwrap();
    }
    drop(store);
    assert_eq!(folder.found().unwrap().next, 31);
}

#[test]
fn counter_state_of_new_keys_is_made_only_while_that_is_said() {
    const OTHER: [u8; 16] = [8; 16];
    let folder = Folder::new("new-keys");
    with_limit(&folder, 1000);
    let mut store = FileStore::open(&folder.0).unwrap();
    let missing = |r: Result<Found, StateError>| matches!(r, Err(StateError::Missing(..)));
    assert!(missing(store.find("tx 1", OTHER)));
    store.make_missing(true);
    assert_eq!(store.find("tx 1", OTHER).unwrap(), Found { next: 1, edge: 0 });
    assert_eq!(store.find(ID, KEY).unwrap().next, 1001, "what is there stays");
    store.make_missing(false);
    assert!(missing(store.find("tx 2", [9; 16])));
}

#[test]
fn counter_state_that_is_missing_refuses_with_the_remedy() {
    let folder = Folder::new("missing");
    assert!(matches!(folder.found(), Err(StateError::NoFolder(_))));
    FileStore::create(&folder.0).unwrap();
    let error = folder.found().unwrap_err();
    assert!(matches!(error, StateError::Missing(..)));
    assert!(error.to_string().contains(ID) && error.remedy().contains("ferrule state create"));
    with_limit(&folder, 9);
    let other = FileStore::open(&folder.0).unwrap().find(ID, [8; 16]);
    assert!(matches!(other, Err(StateError::Missing(..))), "another key under the same name");
    fs::remove_file(folder.file("counter")).unwrap();
    assert!(matches!(folder.found(), Err(StateError::Damaged(..))));
    assert!(FileStore::create(&folder.0).unwrap().find(ID, KEY).is_err(), "nor made anew");
}

#[test]
fn counter_state_cut_at_any_octet_never_lowers_a_limit() {
    let folder = Folder::new("cut");
    with_limit(&folder, 4711);
    for kind in ["anchor", "counter"] {
        let whole = fs::read(folder.file(kind)).unwrap();
        for cut in (0..whole.len()).rev() {
            let file = OpenOptions::new().write(true).open(folder.file(kind)).unwrap();
            file.set_len(cut as u64).unwrap();
            assert!(matches!(folder.found(), Err(StateError::Damaged(..))), "{kind} at {cut}");
            assert!(FileStore::create(&folder.0).unwrap().find(ID, KEY).is_err());
        }
        fs::write(folder.file(kind), whole).unwrap();
        assert_eq!(folder.found().unwrap().next, 4712);
    }
}

#[test]
fn counter_state_from_a_backup_is_refused() {
    let folder = Folder::new("backup");
    with_limit(&folder, 10);
    let old = ["anchor", "counter"].map(|kind| fs::read(folder.file(kind)).unwrap());
    with_limit(&folder, 1_000_000);
    for (kind, octets) in ["anchor", "counter"].into_iter().zip(&old) {
        let current = folder.file(kind);
        let aside = folder.0.join("aside");
        fs::rename(&current, &aside).unwrap();
        fs::write(&current, octets).unwrap();
        let error = folder.found().unwrap_err();
        assert!(error.to_string().contains("backup"), "{error}");
        fs::rename(&aside, &current).unwrap();
        assert_eq!(folder.found().unwrap().next, 1_000_001);
    }
    for (kind, octets) in ["anchor", "counter"].into_iter().zip(&old) {
        fs::remove_file(folder.file(kind)).unwrap();
        fs::write(folder.file(kind), octets).unwrap();
    }
    assert!(folder.found().is_err(), "both of them together, too");
}

#[test]
fn counter_state_older_than_its_anchor_is_refused() {
    let folder = Folder::new("older");
    with_limit(&folder, 10);
    let aside = folder.0.join("aside");
    fs::rename(folder.file("counter"), &aside).unwrap();
    fs::copy(&aside, folder.file("counter")).unwrap();
    fs::rename(&aside, folder.file("counter")).unwrap();
    fs::hard_link(folder.file("counter"), &aside).unwrap();
    for limit in [20, 30, 40] {
        with_limit(&folder, limit);
    }
    // The very file of then, inode and all.
    fs::rename(&aside, folder.file("counter")).unwrap();
    let error = folder.found().unwrap_err();
    assert!(error.to_string().contains("older"), "{error}");
}

#[test]
fn counter_state_belongs_to_one_process_and_to_its_user_alone() {
    let folder = Folder::new("lock");
    let first = FileStore::create(&folder.0).unwrap();
    assert!(matches!(FileStore::open(&folder.0), Err(StateError::Locked(_))));
    drop(first);
    fs::set_permissions(&folder.0, Permissions::from_mode(0o755)).unwrap();
    let error = FileStore::open(&folder.0).unwrap_err();
    assert!(error.to_string().contains("0755") && error.remedy().starts_with("chmod 700"));
}

const CHILD: &str = "FERRULE_TEST_STATE_FOLDER";

/// Not a test by itself: what the next one kills. Prints each limit that it was
/// promised, and goes on.
#[test]
fn counter_state_writer_that_is_killed() {
    let Some(folder) = std::env::var_os(CHILD) else { return };
    let mut store = FileStore::open(Path::new(&folder)).unwrap();
    store.find_all(&keys()).unwrap();
    let found = keys().into_iter().map(|key| store.find(&key.id, key.fingerprint).unwrap().next);
    for limit in found.min().unwrap().. {
        store.raise_all(&up_to(limit)).unwrap();
        println!("promised {limit}");
        io::stdout().flush().unwrap();
    }
}

/// Rounds of killing, and every so many a child may be killed before it writes.
const ROUNDS: u64 = 60;
const EARLY_ONE_IN: u64 = 4;

/// Starts a writer, kills it at some moment, and tells what it had said by then.
/// Unless it is killed early, that moment comes only after it wrote once: however
/// slow the machine is, rounds have something to show.
fn killed(folder: &Folder, rng: &mut Rng, early: bool) -> String {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["state::tests::counter_state_writer_that_is_killed", "--exact", "--nocapture"])
        .env(CHILD, &folder.0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    while !early && !text.contains("promised") {
        let octets = said.read_line(&mut text).unwrap();
        assert!(octets > 0, "the child ended by itself: {text}");
    }
    std::thread::sleep(std::time::Duration::from_micros(rng.below(10_000)));
    child.kill().unwrap();
    said.read_to_string(&mut text).unwrap();
    child.wait().unwrap();
    text
}

#[test]
fn counter_state_survives_kill_9_during_writes() {
    let folder = Folder::new("kill");
    let mut store = FileStore::create(&folder.0).unwrap();
    store.find_all(&keys()).unwrap();
    store.raise_all(&up_to(1)).unwrap();
    drop(store);
    let (mut rng, mut reached, mut wrote) = (Rng::new(1), 1, 0);
    for round in 0..ROUNDS {
        let text = killed(&folder, &mut rng, round % EARLY_ONE_IN == 0);
        let promised = text.lines().filter_map(|l| l.split_once("promised ")?.1.parse().ok());
        let before = reached;
        reached = promised.fold(reached, u64::max);
        wrote += u64::from(reached > before);
        let mut store = FileStore::open(&folder.0).unwrap();
        let next = keys().into_iter().map(|key| store.find(&key.id, key.fingerprint).unwrap().next);
        let next: Vec<u64> = next.collect();
        let [least, most] = [next.iter().min(), next.iter().max()].map(|n| *n.unwrap());
        assert!(least > reached, "round {round}: {least} after {reached} was promised");
        assert!(most <= reached + 2, "round {round}: no more than one write is skipped");
        reached = least - 1;
    }
    let least = ROUNDS - ROUNDS / EARLY_ONE_IN;
    assert!(wrote >= least, "{wrote} rounds wrote, at least {least} were to");
}
