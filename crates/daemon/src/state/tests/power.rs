//! Power that fails at every operation, and every way in which what was not synced may be
//! there afterwards: as far as a number may have been sent, none is given out again.

use super::simulated::{Fate, Simulated, Sync};
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

/// How far a life came: whether the state was made, and the highest limit that was said
/// to be kept.
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

/// What a restart gives out first.
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

/// What is wrong with what is left, if anything.
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
/// What happens in them.
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

fn scenario(seed: u64, tally: &mut BTreeMap<&'static str, usize>) {
    let mut rng = Rng::new(seed);
    let mut disk = blank();
    created(&disk).and_then(|mut store| store.find_all(&key())).unwrap();
    let mut sent = 0;
    let mut links = vec![disk.links(STATE_AT).unwrap()];
    let mut copies = vec![disk.copies(STATE_AT)];
    let mut tell = |what| {
        if seed == 134 {
            eprintln!("{what}");
        }
        *tally.entry(what).or_insert(0) += 1;
    };
    for _ in 0..20 {
        // A process runs for a while, and something happens to it.
        let fault = rng.below(4);
        if fault > 0 {
            let failing = if fault == 1 { 1 } else { usize::MAX };
            disk.fail_after(rng.below(24) as usize, failing);
        }
        let mut life = || -> Result<(), StateError> {
            let mut store = opened(&disk)?;
            let mut at = store.find(ID, KEY)?.next;
            for _ in 0..rng.below(4) + 1 {
                let limit = at + rng.below(5);
                // A full disk does not end a process: it asks again.
                if store.raise(KEY, limit).or_else(|_| store.raise(KEY, limit)).is_err() {
                    return Ok(());
                }
                assert!(at > sent, "seed {seed}: {at} after {sent}");
                if seed == 134 {
                    eprintln!("{at}..{limit}");
                }
                (sent, at) = (limit, limit + 1);
                tell("sent");
                links.extend(disk.links(STATE_AT));
                copies.push(disk.copies(STATE_AT));
            }
            if rng.below(3) == 0 {
                store.settle(KEY, sent)?;
                tell("clean stop");
            }
            Ok(())
        };
        match life().inspect_err(|e| {
            if seed == 134 {
                eprintln!("{e}")
            }
        }) {
            Err(_) => tell("refused"),
            Ok(()) if disk.has_failed() => tell(if fault == 1 { "full disk" } else { "killed" }),
            Ok(()) => {}
        }
        disk.fail_after(usize::MAX, 0);
        links.extend(disk.links(STATE_AT));
        if seed == 134 {
            eprintln!(
                "{:?} {:?}",
                disk.links(STATE_AT),
                disk.copies(STATE_AT)
                    .iter()
                    .map(|(n, v)| (
                        n.clone(),
                        v.len(),
                        String::from_utf8_lossy(v)
                            .lines()
                            .filter(|l| l.starts_with("limit") || l.starts_with("place"))
                            .map(String::from)
                            .collect::<Vec<_>>()
                    ))
                    .collect::<Vec<_>>()
            );
        }
        match rng.below(9) {
            0..=3 => {
                let unsynced = disk.unsynced();
                let way = ways(&unsynced, &mut rng);
                disk = disk.after(&way[rng.below(way.len() as u64) as usize]);
                tell("power lost");
            }
            4 => {
                disk.put_links(STATE_AT, &links[rng.below(links.len() as u64) as usize]);
                if seed == 134 {
                    eprintln!(
                        "back: {:?} {:?}",
                        disk.links(STATE_AT),
                        disk.copies(STATE_AT)
                            .iter()
                            .map(|(n, v)| (
                                n.clone(),
                                v.len(),
                                String::from_utf8_lossy(v)
                                    .lines()
                                    .filter(|l| l.starts_with("limit") || l.starts_with("place"))
                                    .map(String::from)
                                    .collect::<Vec<_>>()
                            ))
                            .collect::<Vec<_>>()
                    );
                }
                tell("links put back");
            }
            5 => {
                let old = &copies[rng.below(copies.len() as u64) as usize];
                disk.put_copies(STATE_AT, old, rng.below(2) == 0);
                tell("copies put back");
            }
            6 if rng.below(3) == 0 => {
                disk.lose(STATE_AT);
                let made = created(&disk).and_then(|mut store| store.find_all(&key()));
                assert!(made.is_err() || sent == 0, "seed {seed}: made anew after {sent}");
                tell("made anew");
            }
            _ => {}
        }
    }
}
