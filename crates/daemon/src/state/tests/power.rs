//! Power that fails at every operation, and every way in which what was not synced may be
//! there afterwards: as far as a number may have been sent, none is given out again.

use super::simulated::{Fate, Names, Simulated, Sync};
use super::*;

const STATE_AT: &str = "/var/gw.state";
const USED_AT: &str = "/lib/ferrule/used-keys";

/// Ways of one cut that are looked at, at most.
const WAYS_MAX: usize = 800;

fn key() -> [CounterId; 1] {
    [CounterId { id: ID.into(), fingerprint: KEY, sends: true }]
}

/// A disk as an installation leaves it.
fn blank() -> Simulated {
    let disk = Simulated::new();
    for above in ["/var", "/lib"] {
        disk.make_folder(Path::new(above)).unwrap();
    }
    disk.synced()
}

fn opened(disk: &Simulated) -> Result<FileStore<Simulated>, StateError> {
    FileStore::open_on(disk.clone(), Path::new(STATE_AT), Path::new(USED_AT))
}

fn created(disk: &Simulated) -> Result<FileStore<Simulated>, StateError> {
    FileStore::create_on(disk.clone(), Path::new(STATE_AT), Path::new(USED_AT))
}

/// Progress of a life: true once the state was made, and the highest limit that was reported as
/// kept.
#[derive(Clone, Copy, Debug, Default)]
struct Reached {
    made: bool,
    limit: u64,
}

/// A state is made; two processes after each other send, and one of them ends cleanly.
fn live(disk: &Simulated, reached: &mut Reached) -> Result<(), StateError> {
    created(disk)?.find_all(&key())?;
    reached.made = true;
    disk.watch(STATE_AT);
    for first in [10, 30] {
        let mut store = opened(disk)?;
        store.find(ID, KEY)?;
        for limit in [first, first + 10] {
            store.raise(KEY, limit)?;
            reached.limit = limit;
        }
        if first == 10 {
            // Nothing above was sent.
            reached.limit = 15;
            store.settle(KEY, 15)?;
        }
    }
    Ok(())
}

/// First number that a restart gives out.
fn next(disk: &Simulated) -> Result<u64, StateError> {
    Ok(opened(disk)?.find(ID, KEY)?.next)
}

/// Every choice for what was not synced; a part of them where there are too many.
fn ways(unsynced: &[bool], rng: &mut Rng) -> Vec<Vec<Fate>> {
    let fates = |torn: bool| if torn { 3 } else { 2 };
    let all = [Fate::Dropped, Fate::Kept, Fate::Torn];
    let count = unsynced.iter().try_fold(1_usize, |n, &torn| n.checked_mul(fates(torn)));
    match count.filter(|&count| count <= WAYS_MAX) {
        Some(count) => (0..count)
            .map(|mut way| {
                let digit = |&torn: &bool| {
                    let fate = all[way % fates(torn)];
                    way /= fates(torn);
                    fate
                };
                unsynced.iter().map(digit).collect()
            })
            .collect(),
        None => (0..WAYS_MAX)
            .map(|_| {
                let fate = |&torn: &bool| all[rng.below(fates(torn) as u64) as usize];
                unsynced.iter().map(fate).collect()
            })
            .collect(),
    }
}

/// Error in the state that is left, if there is one.
fn wrong(left: &Simulated, reached: Reached, backups: &[simulated::Names]) -> Option<String> {
    let again = left.synced();
    match next(&again) {
        Ok(next) if next <= reached.limit => return Some(format!("{next} again")),
        Err(e) if reached.made => return Some(format!("the state is lost: {e}")),
        _ => {}
    }
    // A hard link to every file that ever had a name, whether or not a node ran in between.
    for after in [left, &again] {
        for links in backups {
            let restored = after.synced();
            restored.put_links(STATE_AT, links);
            if let Some(next) = next(&restored).ok().filter(|&next| next <= reached.limit) {
                return Some(format!("{next} again, by hard links"));
            }
        }
    }
    let lost = left.synced();
    lost.lose(STATE_AT);
    let anew = created(&lost).and_then(|mut store| store.find_all(&key()));
    match anew {
        Ok(()) if reached.limit > 0 => Some("the lost state was made anew".into()),
        _ => None,
    }
}

/// Cuts a life at every operation. The first thing that goes wrong, and how many ends
/// were looked at.
fn search(blind: Option<Sync>) -> (Option<String>, usize) {
    let (mut rng, mut ends) = (Rng::new(3), 0);
    for cut in 0.. {
        let disk = blank();
        disk.blind(blind);
        disk.fail_after(cut, usize::MAX);
        let mut reached = Reached::default();
        let lived = live(&disk, &mut reached);
        let backups = disk.backups();
        for way in ways(&disk.unsynced(), &mut rng) {
            ends += 1;
            if let Some(what) = wrong(&disk.after(&way), reached, &backups) {
                return (Some(format!("cut {cut}, {way:?}, {reached:?}: {what}")), ends);
            }
        }
        if lived.is_ok() {
            return (None, ends);
        }
    }
    unreachable!("a life has an end")
}

#[test]
fn power_lost_at_any_operation_brings_no_number_again() {
    let (wrong, ends) = search(None);
    assert_eq!(wrong, None);
    assert!(ends > 100, "{ends}");
}

#[test]
fn every_kind_of_sync_is_needed() {
    let all = [Sync::New, Sync::Void, Sync::List, Sync::Created, Sync::Renamed, Sync::Folders];
    for kind in all {
        let (wrong, _) = search(Some(kind));
        assert!(wrong.is_some(), "nothing goes wrong without the sync of {kind:?}");
    }
}

/// Hard links of any moment are put back in the middle of a write, under the process.
#[test]
fn links_put_back_within_a_write_bring_no_number_again() {
    let (mut refused, mut done) = (0, 0);
    for operation in 0..24 {
        for moment in 0.. {
            let disk = blank();
            created(&disk).and_then(|mut store| store.find_all(&key())).unwrap();
            disk.watch(STATE_AT);
            let mut store = opened(&disk).unwrap();
            store.find(ID, KEY).unwrap();
            store.raise(KEY, 10).unwrap();
            let backups = disk.backups();
            let Some(links) = backups.get(moment) else { break };
            disk.meddle(operation, STATE_AT, links);
            let sent = if store.raise(KEY, 20).is_ok() { 20 } else { 10 };
            drop(store);
            disk.fail_after(usize::MAX, 0);
            match next(&disk) {
                Ok(next) => assert!(next > sent, "{next} again, {operation} {links:?}"),
                Err(_) => refused += 1,
            }
            done += 1;
        }
    }
    assert!(done > 50 && refused < done, "{refused} of {done} refused");
}

/// Lives of many seeds: kills and failures at any operation, full disks, power losses,
/// hard links and copies put back, losses and clones.
#[test]
fn scenarios_of_every_kind_bring_no_number_again() {
    let mut tally = BTreeMap::new();
    for seed in 0..SCENARIOS {
        scenario(seed, &mut tally);
    }
    for what in WHAT {
        assert!(tally.get(what).is_some_and(|&n| n > SCENARIOS as usize / 20), "{what}: {tally:?}");
    }
}

/// Scenarios of the test above.
const SCENARIOS: u64 = 600;
/// Events in the scenarios.
const WHAT: [&str; 9] = [
    "sent",
    "killed",
    "full disk",
    "power lost",
    "links put back",
    "copies put back",
    "made anew",
    "clean stop",
    "refused",
];

/// A state that processes use one after the other, and what was kept of it in between.
struct Scenario<'a> {
    seed: u64,
    rng: Rng,
    disk: Simulated,
    /// The highest number that was sent.
    sent: u64,
    links: Vec<Names>,
    copies: Vec<BTreeMap<String, Vec<u8>>>,
    tally: &'a mut BTreeMap<&'static str, usize>,
}

fn scenario(seed: u64, tally: &mut BTreeMap<&'static str, usize>) {
    let disk = blank();
    created(&disk).and_then(|mut store| store.find_all(&key())).unwrap();
    let (links, copies) = (vec![disk.links(STATE_AT).unwrap()], vec![disk.copies(STATE_AT)]);
    let mut this = Scenario { seed, rng: Rng::new(seed), disk, sent: 0, links, copies, tally };
    for _ in 0..20 {
        this.process();
        this.accident();
    }
}

impl Scenario<'_> {
    fn tell(&mut self, what: &'static str) {
        *self.tally.entry(what).or_insert(0) += 1;
    }

    /// A process runs for a while, and perhaps the disk fails it.
    fn process(&mut self) {
        let fault = self.rng.below(4);
        if fault > 0 {
            let failing = if fault == 1 { 1 } else { usize::MAX };
            self.disk.fail_after(self.rng.below(24) as usize, failing);
        }
        match self.life() {
            Err(_) => self.tell("refused"),
            Ok(()) if self.disk.has_failed() => {
                self.tell(if fault == 1 { "full disk" } else { "killed" });
            }
            Ok(()) => {}
        }
        self.disk.fail_after(usize::MAX, 0);
        self.links.extend(self.disk.links(STATE_AT));
    }

    fn life(&mut self) -> Result<(), StateError> {
        let mut store = opened(&self.disk)?;
        let mut at = store.find(ID, KEY)?.next;
        for _ in 0..self.rng.below(4) + 1 {
            let limit = at + self.rng.below(5);
            // A full disk does not end a process: it asks again.
            if store.raise(KEY, limit).or_else(|_| store.raise(KEY, limit)).is_err() {
                return Ok(());
            }
            assert!(at > self.sent, "seed {}: {at} after {}", self.seed, self.sent);
            (self.sent, at) = (limit, limit + 1);
            self.tell("sent");
            self.links.extend(self.disk.links(STATE_AT));
            self.copies.push(self.disk.copies(STATE_AT));
        }
        if self.rng.below(3) == 0 {
            store.settle(KEY, self.sent)?;
            self.tell("clean stop");
        }
        Ok(())
    }

    /// Event between two processes.
    fn accident(&mut self) {
        match self.rng.below(9) {
            0..=3 => {
                let ways = ways(&self.disk.unsynced(), &mut self.rng);
                self.disk = self.disk.after(&ways[self.rng.below(ways.len() as u64) as usize]);
                self.tell("power lost");
            }
            4 => {
                let old = self.rng.below(self.links.len() as u64) as usize;
                self.disk.put_links(STATE_AT, &self.links[old]);
                self.tell("links put back");
            }
            5 => {
                let old = self.rng.below(self.copies.len() as u64) as usize;
                let into = self.rng.below(2) == 0;
                self.disk.put_copies(STATE_AT, &self.copies[old], into);
                self.tell("copies put back");
            }
            6 if self.rng.below(3) == 0 => {
                self.disk.lose(STATE_AT);
                let made = created(&self.disk).and_then(|mut store| store.find_all(&key()));
                let (seed, sent) = (self.seed, self.sent);
                assert!(made.is_err() || sent == 0, "seed {seed}: made anew after {sent}");
                self.tell("made anew");
            }
            _ => {}
        }
    }
}
