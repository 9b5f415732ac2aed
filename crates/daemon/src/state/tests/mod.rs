//! Attempts at what a store must never do: forget, go back, trust a foreign file.

mod power;
mod simulated;

use super::*;
use ferrule_base::Rng;
use ferrule_node::INSTANCES;
use std::collections::BTreeMap;
use std::fs::{OpenOptions, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
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

    /// The folder of the state.
    fn state(&self) -> PathBuf {
        self.0.join("gw.state")
    }

    /// A host's list.
    fn used(&self) -> PathBuf {
        self.0.join("host/used-keys")
    }

    fn file(&self) -> PathBuf {
        self.state().join(name_of(KEY))
    }

    fn open(&self) -> Result<FileStore, StateError> {
        FileStore::open(&self.state(), &self.used())
    }

    fn create(&self) -> Result<FileStore, StateError> {
        FileStore::create(&self.state(), &self.used())
    }

    fn found(&self) -> Result<Found, StateError> {
        self.open()?.find(ID, KEY)
    }

    /// Runs `cp` with these words.
    fn cp(&self, words: &str, from: &str, to: &str) {
        let mut cp = Command::new("cp");
        cp.args(words.split(' ')).arg(self.0.join(from)).arg(self.0.join(to));
        assert!(cp.status().unwrap().success());
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn with_limit(folder: &Folder, limit: u64) {
    let mut store = folder.create().unwrap();
    store.find(ID, KEY).unwrap();
    store.raise(KEY, limit).unwrap();
}

/// Keys that are written together: more than are synced one by one.
fn keys() -> Vec<CounterId> {
    let key = |n| CounterId { id: format!("esp-out {n}"), fingerprint: [n; 16], sends: true };
    (0..20).map(key).collect()
}

/// The same limit for all of them.
fn up_to(limit: u64) -> Vec<([u8; 16], u64)> {
    keys().iter().map(|key| (key.fingerprint, limit)).collect()
}

#[test]
fn counter_states_of_many_keys_are_raised_together() {
    let folder = Folder::new("many");
    let mut store = folder.create().unwrap();
    store.find_all(&keys()).unwrap();
    store.find_all(&keys()).unwrap();
    assert_eq!(store.made(), keys().len());
    store.raise_all(&up_to(100)).unwrap();
    // A key twice, and one that was further before.
    let [a, b] = [[0; 16], [1; 16]];
    store.raise_all(&[(a, 300), (b, 50), (a, 200)]).unwrap();
    assert!(matches!(store.raise_all(&[(a, 900), ([99; 16], 1)]), Err(StateError::Missing(..))));
    drop(store);
    let mut store = folder.open().unwrap();
    for CounterId { id, fingerprint, .. } in keys() {
        let next = if fingerprint == a { 301 } else { 101 };
        assert_eq!(store.find(&id, fingerprint).unwrap().next, next, "{id}");
    }
}

#[test]
fn counter_state_goes_on_above_what_was_reserved() {
    let folder = Folder::new("reserve");
    with_limit(&folder, 1000);
    let mut store = folder.open().unwrap();
    assert_eq!(store.find(ID, KEY).unwrap(), Found { next: 1001, edge: 0 });
    store.raise(KEY, 5).unwrap();
    assert_eq!(store.find(ID, KEY).unwrap().next, 1001, "a limit never falls");
    store.raise_edge(KEY, 77).unwrap();
    store.settle(KEY, 900).unwrap();
    drop(store);
    assert_eq!(folder.found().unwrap(), Found { next: 901, edge: 77 });
    let mut store = folder.open().unwrap();
    assert_eq!(store.find("esp-out renamed 0x1001", KEY).unwrap().next, 901);
}

/// A list that cannot be read is as good as one that takes long.
#[test]
fn counters_that_are_there_are_found_without_the_list_of_used_keys() {
    let folder = Folder::new("unread");
    let mut store = folder.create().unwrap();
    store.find_all(&keys()).unwrap();
    store.raise_all(&up_to(100)).unwrap();
    let list = File::options().write(true).open(folder.used()).unwrap();
    list.set_len(1 << 29).unwrap();
    for CounterId { id, fingerprint, .. } in keys() {
        assert_eq!(store.find(&id, fingerprint).unwrap().next, 101);
    }
    store.raise_all(&up_to(200)).unwrap();
    let new = CounterId { id: "esp-out new".into(), fingerprint: [99; 16], sends: true };
    store.find_all(&[new]).expect_err("a new key is looked for in it");
}

#[test]
fn counter_state_is_a_keys_and_no_name_moves_it() {
    const OTHER: [u8; 16] = [8; 16];
    let folder = Folder::new("names");
    with_limit(&folder, 1000);
    let mut store = folder.create().unwrap();
    store.find("esp-out u 0x1002", OTHER).unwrap();
    // An apply that is refused in the end has asked for both under each other's name.
    store.find(ID, OTHER).unwrap();
    store.find("esp-out u 0x1002", KEY).unwrap();
    store.raise(KEY, 5000).unwrap();
    store.raise(OTHER, 70).unwrap();
    store.raise_edge(OTHER, 66).unwrap();
    store.settle(OTHER, 65).unwrap();
    drop(store);
    let mut store = folder.open().unwrap();
    assert_eq!(store.find(ID, KEY).unwrap(), Found { next: 5001, edge: 0 });
    assert_eq!(store.find(ID, OTHER).unwrap(), Found { next: 66, edge: 66 });
}

#[test]
fn counter_state_that_could_not_be_written_is_written_the_next_time() {
    let folder = Folder::new("full");
    with_limit(&folder, 10);
    let mut store = folder.open().unwrap();
    store.find(ID, KEY).unwrap();
    // Something is in the way, as a full disk would be.
    let way = folder.state().join(new(&name_of(KEY)));
    fs::create_dir(&way).unwrap();
    assert!(matches!(store.raise(KEY, 20), Err(StateError::Os(..))));
    fs::remove_dir(&way).unwrap();
    assert_eq!(store.find(ID, KEY).unwrap().next, 11, "it counts as not written");
    store.raise(KEY, 20).unwrap();
    drop(store);
    assert_eq!(folder.found().unwrap().next, 21);
}

#[test]
fn counter_state_of_new_keys_is_made_only_while_that_is_said() {
    const OTHER: [u8; 16] = [8; 16];
    let folder = Folder::new("new-keys");
    with_limit(&folder, 1000);
    let mut store = folder.open().unwrap();
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
    assert!(matches!(folder.found(), Err(StateError::NoState(_))));
    folder.create().unwrap();
    let error = folder.found().unwrap_err();
    assert!(matches!(error, StateError::Missing(..)));
    assert!(error.to_string().contains(ID) && error.remedy().contains("ferrule state create"));
    with_limit(&folder, 9);
    let other = folder.open().unwrap().find(ID, [8; 16]);
    assert!(matches!(other, Err(StateError::Missing(..))), "another key under the same name");
}

#[test]
fn counter_state_cut_at_any_octet_never_lowers_a_limit() {
    let folder = Folder::new("cut");
    with_limit(&folder, 4711);
    for path in [folder.file(), folder.state().join(STATE)] {
        let whole = fs::read(&path).unwrap();
        for cut in (0..whole.len()).rev() {
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            file.set_len(cut as u64).unwrap();
            let error = folder.found().unwrap_err();
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
            assert!(error.remedy().contains("ferrule init key"), "{}", error.remedy());
            assert!(folder.create().and_then(|mut store| store.find(ID, KEY)).is_err());
        }
        fs::write(path, whole).unwrap();
        assert_eq!(folder.found().unwrap().next, 4712);
    }
}

/// Copies of every kind, put back in every way.
#[test]
fn counter_state_from_a_copy_is_refused() {
    for (n, words) in ["-a", "-a --remove-destination", "-r"].into_iter().enumerate() {
        let folder = Folder::new(&format!("backup-{n}"));
        with_limit(&folder, 10);
        folder.cp("-a", "gw.state", "backup");
        with_limit(&folder, 1_000_000);
        folder.cp(words, "backup/.", "gw.state");
        let error = folder.found().unwrap_err();
        assert!(error.to_string().contains("backup"), "{words}: {error}");
        assert!(folder.create().and_then(|mut store| store.find(ID, KEY)).is_err());
        fs::remove_dir_all(folder.state()).unwrap();
        fs::rename(folder.0.join("backup"), folder.state()).unwrap();
        assert!(folder.found().is_err(), "{words}: the whole folder, too");
    }
}

#[test]
fn counter_state_from_a_backup_by_hard_links_is_void() {
    let folder = Folder::new("links");
    with_limit(&folder, 10);
    folder.cp("-al", "gw.state", "backup");
    with_limit(&folder, 3000);
    for words in ["-al --remove-destination", "-al --force"] {
        folder.cp(words, "backup/.", "gw.state");
        let error = folder.found().unwrap_err();
        assert!(error.to_string().contains("is void"), "{error}");
        assert!(error.remedy().contains("ferrule init key"), "{}", error.remedy());
    }
    fs::remove_dir_all(folder.state()).unwrap();
    fs::rename(folder.0.join("backup"), folder.state()).unwrap();
    assert!(folder.found().is_err(), "the whole folder, too");
}

#[test]
fn counter_state_replaced_under_a_process_gives_out_nothing_more() {
    let folder = Folder::new("under");
    with_limit(&folder, 10);
    folder.cp("-al", "gw.state", "backup");
    let mut store = folder.open().unwrap();
    store.find(ID, KEY).unwrap();
    store.raise(KEY, 20).unwrap();
    // The current file is moved away, to be put back later, and an old one has its name.
    fs::rename(folder.file(), folder.0.join("aside")).unwrap();
    assert!(matches!(store.raise(KEY, 30), Err(StateError::Damaged(..))));
    fs::hard_link(folder.0.join("backup").join(name_of(KEY)), folder.file()).unwrap();
    assert!(matches!(store.raise(KEY, 30), Err(StateError::Damaged(..))));
    fs::rename(folder.0.join("aside"), folder.file()).unwrap();
    drop(store);
    assert_eq!(folder.found().unwrap().next, 21);
}

#[test]
fn counter_state_cannot_be_taken_by_removing_its_lock() {
    let folder = Folder::new("unlinked");
    with_limit(&folder, 10);
    let mut store = folder.open().unwrap();
    store.find(ID, KEY).unwrap();
    fs::remove_file(folder.state().join(STATE)).unwrap();
    assert!(matches!(folder.open(), Err(StateError::Locked(_))));
    assert!(matches!(folder.create(), Err(StateError::Locked(_))));
    assert!(matches!(store.raise(KEY, 20), Err(StateError::Unsound(..))), "nor goes it on");
    // Nor by moving all of it away.
    fs::rename(folder.state(), folder.0.join("aside")).unwrap();
    assert!(matches!(store.raise(KEY, 20), Err(StateError::Unsound(..))));
    let mut second = folder.create().unwrap();
    let key = CounterId { id: ID.into(), fingerprint: KEY, sends: true };
    assert!(matches!(second.find_all(&[key]), Err(StateError::Used(..))));
    assert!(matches!(store.raise(KEY, 20), Err(StateError::Unsound(..))));
    drop(store);
    fs::rename(folder.state(), folder.0.join("second")).unwrap();
    fs::rename(folder.0.join("aside"), folder.state()).unwrap();
    assert!(matches!(folder.open(), Err(StateError::NoState(_))), "and no lock is made anew");
    assert!(matches!(folder.create(), Err(StateError::NotEmpty(_))));
}

#[test]
fn counter_state_cloned_by_hard_links_is_locked_and_by_copies_refused() {
    let folder = Folder::new("clone");
    with_limit(&folder, 10);
    folder.cp("-a", "gw.state", "copy");
    folder.cp("-al", "gw.state", "links");
    let open = |name: &str| FileStore::open(&folder.0.join(name), &folder.used());
    let first = folder.open().unwrap();
    assert!(matches!(open("links"), Err(StateError::Locked(_))));
    assert!(matches!(open("copy"), Err(StateError::Unsound(..))));
    drop(first);
    let mut second = open("links").unwrap();
    second.find(ID, KEY).unwrap();
    second.raise(KEY, 20).unwrap();
    drop(second);
    assert!(matches!(folder.found(), Err(StateError::Damaged(..))), "one of both goes on");
}

#[test]
fn a_key_is_used_with_one_state_alone() {
    let folder = Folder::new("used");
    with_limit(&folder, 10);
    let key = |sends| [CounterId { id: ID.into(), fingerprint: KEY, sends }];
    let elsewhere = folder.0.join("elsewhere");
    let mut other = FileStore::create(&elsewhere, &folder.used()).unwrap();
    let error = other.find_all(&key(true)).unwrap_err();
    assert!(matches!(error, StateError::Used(..)), "{error}");
    assert!(error.to_string().contains(ID) && error.to_string().contains("used-keys"), "{error}");
    assert!(error.remedy().contains("ferrule init key"), "{}", error.remedy());
    // The other end of the tunnel may be on this host: it receives with the key.
    other.find_all(&key(false)).unwrap();
    other.raise_edge(KEY, 5).unwrap();
    assert!(matches!(other.raise(KEY, 1), Err(StateError::Used(..))), "but never sends");
    drop(other);
    // After a loss.
    fs::remove_dir_all(folder.state()).unwrap();
    let error = folder.create().unwrap().find_all(&key(true)).unwrap_err();
    assert!(matches!(error, StateError::Used(..)), "{error}");
    // A state of which nobody used anything may be made again.
    let fresh = [CounterId { id: "esp-out 2".into(), fingerprint: [2; 16], sends: true }];
    folder.create().unwrap().find_all(&fresh).unwrap();
    fs::remove_dir_all(folder.state()).unwrap();
    folder.create().unwrap().find_all(&fresh).unwrap();
}

#[test]
fn instances_of_sas_are_handed_out_once_whatever_states_a_host_has() {
    let folder = Folder::new("instances");
    let elsewhere = folder.0.join("elsewhere");
    let mut taken: Vec<u64> = Vec::new();
    let mut take = |store: &mut FileStore| taken.extend(store.instances().unwrap());
    let mut here = folder.create().unwrap();
    let mut other = FileStore::create(&elsewhere, &folder.used()).unwrap();
    take(&mut here);
    take(&mut other);
    take(&mut here);
    drop(here);
    take(&mut folder.open().unwrap());
    // A state that is lost, and one in its place; a line that was cut short.
    fs::remove_dir_all(folder.state()).unwrap();
    let mut list = OpenOptions::new().append(true).open(folder.used()).unwrap();
    list.write_all(b"696e7374616e6365").unwrap();
    take(&mut folder.create().unwrap());
    take(&mut other);
    assert_eq!(taken, (INSTANCES..7 * INSTANCES).collect::<Vec<_>>(), "each once, and not 0");
    let lines = fs::read_to_string(folder.used()).unwrap();
    assert_eq!(lines.lines().filter(|line| line.len() == 65).count(), 6, "{lines}");
}

#[test]
fn used_keys_that_were_lost_are_entered_again() {
    let folder = Folder::new("list");
    with_limit(&folder, 10);
    let list = fs::read_to_string(folder.used()).unwrap();
    assert_eq!(list.lines().count(), 1, "{list}");
    fs::remove_dir_all(folder.0.join("host")).unwrap();
    with_limit(&folder, 20);
    assert_eq!(fs::read_to_string(folder.used()).unwrap(), list);
    // A line that was cut short is followed by a whole one.
    fs::write(folder.used(), &list[..40]).unwrap();
    with_limit(&folder, 30);
    assert_eq!(fs::read_to_string(folder.used()).unwrap(), format!("{}\n{list}", &list[..40]));
}

#[test]
fn counter_state_belongs_to_one_process_and_to_its_user_alone() {
    let folder = Folder::new("lock");
    let first = folder.create().unwrap();
    assert!(matches!(folder.open(), Err(StateError::Locked(_))));
    drop(first);
    fs::set_permissions(folder.state(), Permissions::from_mode(0o755)).unwrap();
    let error = folder.open().unwrap_err();
    assert!(error.to_string().contains("0755") && error.remedy().starts_with("chmod 700"));
}

const CHILD: &str = "FERRULE_TEST_STATE_FOLDER";

/// Not a test by itself: what the next one kills. Prints each limit that it was
/// promised, and goes on.
#[test]
fn counter_state_writer_that_is_killed() {
    let Some(folder) = std::env::var_os(CHILD) else { return };
    let folder = std::mem::ManuallyDrop::new(Folder(folder.into()));
    let mut store = folder.open().unwrap();
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
    let mut store = folder.create().unwrap();
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
        let mut store = folder.open().unwrap();
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
