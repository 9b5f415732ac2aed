//! The protocol of counters (`state/mod.rs`, docs/state.md) as a model, checked in every
//! order of its steps and of what may go wrong: kills, full disks, power losses with any
//! of what was not synced, backups and clones by copy and by hard link, a folder that is
//! lost and begun anew, a second process.
//!
//! ```text
//!   claim ─ sync ─ is it ours, does it stand ─ undo .new ─ .new ─ sync ─ sync of the folder
//!     ─ void what has the name ─ sync ─ rename ─ sync of the folder ─▶ numbers may be sent
//! ```
//!
//! One key, ranges of two numbers. The code itself runs on a disk that fails in
//! `state/tests/power.rs`.

use stateright::{Checker, HasDiscoveries, Model, Property};
use std::collections::BTreeSet;
use std::time::Duration;

/// Numbers in a range.
const RANGE: u8 = 2;
/// Numbers that are looked at.
const LIMIT_MAX: u8 = 4;
/// Files that are ever made.
const FILES_MAX: usize = 7;
/// For a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(100);

type Inode = u8;

/// Content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Content {
    Empty,
    /// Cut short, or half of two things.
    Garbage,
    Identity {
        id: u8,
        place: Inode,
    },
    Record {
        state: u8,
        limit: u8,
        place: Inode,
        after: Inode,
    },
    Void {
        next: Inode,
    },
}

/// A part of the disk: as processes see it, and every way in which it may be found after
/// power was lost.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Stored<T: Ord> {
    now: T,
    may: BTreeSet<T>,
}

impl<T: Ord + Clone> Stored<T> {
    fn synced(now: T) -> Self {
        Self { may: [now.clone()].into(), now }
    }

    fn sync(&mut self) {
        *self = Self::synced(self.now.clone());
    }
}

/// The names in a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Names {
    state: Option<Inode>,
    counter: Option<Inode>,
    new: Option<Inode>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Folder {
    names: Stored<Names>,
    /// Another folder of the same path has another one.
    inode: u8,
}

impl Folder {
    /// Renames and the like: some, all or none of them are there without a sync.
    fn change(&mut self, change: impl Fn(&mut Names)) {
        let changed = |names: &Names| {
            let mut names = *names;
            change(&mut names);
            names
        };
        let more: Vec<_> = self.names.may.iter().map(changed).collect();
        self.names.may.extend(more);
        self.names.now = changed(&self.names.now);
    }
}

/// Steps of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Op {
    Claim,
    SyncList,
    Check,
    UndoVoid,
    UndoSync,
    UndoRemove,
    Create,
    Append,
    SyncNew,
    SyncCreated,
    Void,
    Mark,
    SyncVoid,
    Rename,
    SyncRenamed,
    /// The write counts.
    Done,
    SyncFound,
    Load,
    /// The record is known.
    Found,
}

/// A limit that rises: what [`Op`]s there are, in order.
const WRITE: &[Op] = &[
    Op::Claim,
    Op::SyncList,
    Op::Check,
    Op::UndoVoid,
    Op::UndoSync,
    Op::UndoRemove,
    Op::Create,
    Op::Append,
    Op::SyncNew,
    Op::SyncCreated,
    Op::Void,
    Op::Mark,
    Op::SyncVoid,
    Op::Rename,
    Op::SyncRenamed,
    Op::Done,
];
/// A folder that is opened, and one of which a write failed.
const READ: &[Op] = &[Op::SyncFound, Op::Load];
/// After a whole record was found: a write that was cut is undone.
const WHOLE: &[Op] = &[Op::UndoVoid, Op::UndoSync, Op::UndoRemove, Op::Found];
/// After a later write was found that was cut: it is finished.
const CUT: &[Op] = &[Op::Void, Op::Mark, Op::SyncVoid, Op::Rename, Op::SyncRenamed, Op::Found];

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    /// Its folder's place, and the folder and identity that it locked there.
    at: usize,
    folder: u8,
    identity: Inode,
    id: u8,
    program: &'static [Op],
    /// The record as it was last known to be on the disk.
    file: Inode,
    limit: u8,
    /// A write failed: it is read again first.
    unsure: bool,
    /// The limit that is written, the new file and the one that becomes void.
    target: u8,
    fresh: Inode,
    old: Option<Inode>,
    /// Numbers that it may send.
    next: u8,
    leased: u8,
    /// Nothing is sent any more: the write says how far the range was used.
    stopping: bool,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    files: Vec<Stored<Content>>,
    folders: [Folder; 2],
    /// The state of the key in the list of used keys.
    list: Stored<Option<u8>>,
    processes: [Option<Process>; 2],
    /// Hard links, and copies, of the first folder at some time.
    links: Option<Names>,
    copies: Option<[Option<Content>; 3]>,
    sent: u8,
    ids: u8,
    inodes: u8,
    accidents: u8,
    recovered: bool,
    twice: bool,
    /// True if files were put back or taken away.
    meddled: bool,
    /// True if the record cannot be read although no file was put back or taken away.
    lost: bool,
}

/// Possible next steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Start(usize, usize),
    Anew,
    Raise(usize),
    Step(usize),
    Send(usize),
    Stop(usize),
    Kill(usize),
    Fail(usize),
    Power(usize),
    Backup,
    PutLinks(usize),
    PutCopies(usize, bool),
    Lose,
}

/// A part of the protocol that is left out, to see that its lack is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lack {
    Nothing,
    Sync(Op),
    Voiding,
    Places,
    Locks,
    List,
    /// Files are told by their names in the middle of a write.
    Handles,
}

struct Protocol {
    lack: Lack,
    accidents: u8,
}

impl State {
    fn new() -> Self {
        let identity = Content::Identity { id: 0, place: 0 };
        let record = Content::Record { state: 0, limit: 0, place: 1, after: 1 };
        let names = Names { state: Some(0), counter: Some(1), new: None };
        let folder = |names, inode| Folder { names: Stored::synced(names), inode };
        Self {
            files: [identity, record].map(Stored::synced).to_vec(),
            folders: [folder(names, 0), folder(Names::default(), 1)],
            list: Stored::synced(None),
            processes: [None, None],
            links: None,
            copies: None,
            sent: 0,
            ids: 1,
            inodes: 2,
            accidents: 0,
            recovered: false,
            twice: false,
            meddled: false,
            lost: false,
        }
    }

    fn create(&mut self) -> Option<Inode> {
        let inode = self.files.len();
        (inode < FILES_MAX).then(|| self.files.push(Stored::synced(Content::Empty)))?;
        Some(inode as Inode)
    }

    fn content(&self, inode: Inode) -> Content {
        self.files[usize::from(inode)].now
    }

    /// A change of a file that may be there without a sync, in half, or not at all.
    fn put(&mut self, inode: Inode, content: Content) {
        let file = &mut self.files[usize::from(inode)];
        file.now = content;
        file.may.extend([content, Content::Garbage]);
    }

    /// Another one than the process with the folder, or the identity, has it.
    fn is_locked(&self, at: usize, identity: Inode) -> bool {
        self.processes
            .iter()
            .flatten()
            .any(|process| process.folder == self.folders[at].inode || process.identity == identity)
    }
}

/// A file as the reader understands it.
enum Says {
    Record { limit: u8, after: Inode },
    Void(Inode),
    Garbage,
    Refused,
}

impl Protocol {
    fn says(&self, state: &State, inode: Inode, id: u8) -> Says {
        match state.content(inode) {
            Content::Record { state: of, limit, place, after } => {
                let moved = place != inode && self.lack != Lack::Places;
                if moved || of != id { Says::Refused } else { Says::Record { limit, after } }
            }
            Content::Void { next } => Says::Void(next),
            _ => Says::Garbage,
        }
    }

    fn start(&self, state: &mut State, process: usize, at: usize) -> Option<()> {
        let identity = state.folders[at].names.now.state?;
        if self.lack != Lack::Locks && state.is_locked(at, identity) {
            return None;
        }
        let Content::Identity { id, place } = state.content(identity) else { return None };
        (place == identity || self.lack == Lack::Places).then_some(())?;
        state.processes[process] = Some(Process {
            at,
            folder: state.folders[at].inode,
            identity,
            id,
            program: READ,
            file: 0,
            limit: 0,
            unsure: true,
            target: 0,
            fresh: 0,
            old: None,
            next: 1,
            leased: 0,
            stopping: false,
        });
        Some(())
    }

    /// `state create` after a loss: for a key that is not used, as far as the list says.
    fn anew(&self, state: &mut State) -> Option<()> {
        let names = state.folders[0].names.now;
        (names == Names::default() && !state.is_locked(0, Inode::MAX)).then_some(())?;
        (state.list.now.is_none() || self.lack == Lack::List).then_some(())?;
        let (identity, counter) = (state.create()?, state.create()?);
        let id = state.ids;
        state.ids += 1;
        let record = Content::Record { state: id, limit: 0, place: counter, after: counter };
        state.files[usize::from(identity)] =
            Stored::synced(Content::Identity { id, place: identity });
        state.files[usize::from(counter)] = Stored::synced(record);
        let names = Names { state: Some(identity), counter: Some(counter), new: None };
        state.folders[0].names = Stored::synced(names);
        Some(())
    }

    fn raise(state: &mut State, process: usize, stopping: bool) -> Option<()> {
        let process = state.processes[process].as_mut()?;
        let is_due = process.next >= process.leased || process.unsure;
        (process.program.is_empty() && !process.stopping && (is_due || stopping)).then_some(())?;
        if process.unsure {
            (!stopping).then_some(())?;
            process.program = READ;
            return Some(());
        }
        process.stopping = stopping;
        process.target = if stopping { process.next - 1 } else { process.limit + RANGE };
        (process.target <= LIMIT_MAX && process.target != process.limit).then_some(())?;
        process.program = if stopping { &WRITE[2..] } else { WRITE };
        Some(())
    }

    /// A step; one that fails leaves the process unsure.
    fn step(&self, state: &mut State, number: usize) -> Option<()> {
        let mut process = state.processes[number].clone()?;
        let (&op, rest) = process.program.split_first()?;
        process.program = rest;
        let left_out = self.lack == Lack::Sync(op);
        if !left_out && self.operate(state, &mut process, op).is_none() {
            state.lost |= op == Op::Load && !state.meddled;
            // One that cannot open its folder does not run.
            if process.file == 0 || process.stopping {
                state.processes[number] = None;
                return Some(());
            }
            (process.unsure, process.program) = (true, &[]);
        }
        let ended = process.stopping && process.program.is_empty();
        state.processes[number] = (!ended).then_some(process);
        Some(())
    }

    fn operate(&self, state: &mut State, process: &mut Process, op: Op) -> Option<()> {
        // Names are looked up in the folder that was locked, wherever that is now.
        let there = state.folders[process.at].inode == process.folder;
        let names = if there { state.folders[process.at].names.now } else { Names::default() };
        match op {
            Op::Claim => self.claim(state, process.id)?,
            Op::SyncList => state.list.sync(),
            Op::Check => {
                (there && names.state == Some(process.identity)).then_some(())?;
                let counter = names.counter.filter(|&inode| inode == process.file)?;
                let Says::Record { limit, .. } = self.says(state, counter, process.id) else {
                    return None;
                };
                (limit == process.limit).then_some(())?;
            }
            Op::UndoVoid | Op::UndoSync | Op::UndoRemove => {
                names.new.into_iter().for_each(|new| Self::undo(state, process.at, new, op));
            }
            Op::Create => {
                (there && names.new.is_none()).then_some(())?;
                process.fresh = state.create()?;
                state.folders[process.at].change(|names| names.new = Some(process.fresh));
            }
            Op::Append => {
                let Process { id, target: limit, fresh: place, file: after, .. } = *process;
                state.put(place, Content::Record { state: id, limit, place, after });
            }
            Op::SyncNew => state.files[usize::from(process.fresh)].sync(),
            Op::SyncCreated | Op::SyncRenamed | Op::SyncFound if there => {
                state.folders[process.at].names.sync();
            }
            Op::SyncCreated | Op::SyncRenamed | Op::SyncFound => {}
            Op::Void | Op::Mark | Op::SyncVoid => self.supersede(state, process, names, op)?,
            Op::Rename => {
                let new = names.new?;
                state.folders[process.at].change(|names| {
                    if names.new == Some(new) {
                        (names.new, names.counter) = (None, Some(new));
                    }
                });
            }
            Op::Done => {
                let named = names.counter == Some(process.fresh);
                (named || self.lack == Lack::Handles).then_some(())?;
                (process.file, process.limit) = (process.fresh, process.target);
                process.leased = if process.stopping { process.leased } else { process.limit };
            }
            Op::Load => self.load(state, process, names)?,
            Op::Found => {
                if process.leased == 0 && process.next == 1 {
                    (process.next, process.leased) = (process.limit + 1, process.limit);
                }
                process.unsure = false;
            }
        }
        Some(())
    }

    fn claim(&self, state: &mut State, id: u8) -> Option<()> {
        match state.list.now {
            Some(other) => (other == id || self.lack == Lack::List).then_some(()),
            None => {
                state.list.now = Some(id);
                state.list.may.insert(Some(id));
                Some(())
            }
        }
    }

    fn undo(state: &mut State, at: usize, new: Inode, op: Op) {
        match op {
            Op::UndoVoid => state.put(new, Content::Empty),
            Op::UndoSync => state.files[usize::from(new)].sync(),
            _ => state.folders[at].change(|names| names.new = None),
        }
    }

    /// Makes the file that has the name void, by its handle, if it is the file that was read.
    fn supersede(
        &self,
        state: &mut State,
        process: &mut Process,
        names: Names,
        op: Op,
    ) -> Option<()> {
        if op == Op::Void {
            let known = process.unsure || names.counter == Some(process.file);
            (known || self.lack == Lack::Handles).then_some(())?;
            process.old = names.counter;
        }
        let Some(old) = process.old.filter(|_| self.lack != Lack::Voiding) else { return Some(()) };
        match op {
            Op::Void => state.put(old, Content::Empty),
            Op::Mark => state.put(old, Content::Void { next: process.fresh }),
            _ => state.files[usize::from(old)].sync(),
        }
        Some(())
    }

    /// Reads what is kept, as the reader does: whole, or a write that was cut.
    fn load(&self, state: &State, process: &mut Process, names: Names) -> Option<()> {
        let counter = names.counter?;
        let new = names.new.map(|new| (new, self.says(state, new, process.id)));
        let next = match self.says(state, counter, process.id) {
            Says::Record { limit, .. } => {
                (process.file, process.limit, process.program) = (counter, limit, WHOLE);
                return Some(());
            }
            Says::Void(next) => Some(next),
            Says::Garbage => None,
            Says::Refused => return None,
        };
        let (new, Says::Record { limit, after }) = new? else { return None };
        (after == counter && next.is_none_or(|next| next == new)).then_some(())?;
        (process.file, process.limit, process.fresh, process.program) = (new, limit, new, CUT);
        Some(())
    }

    fn send(state: &mut State, number: usize) -> Option<()> {
        let process = state.processes[number].as_mut()?;
        (process.next <= process.leased && !process.stopping).then_some(())?;
        state.twice |= process.next <= state.sent;
        state.sent = state.sent.max(process.next);
        process.next += 1;
        Some(())
    }

    /// The disk in one of the ways in which it may be found: `way` counts them through.
    fn power(state: &mut State, mut way: usize) -> Option<()> {
        fn settle<T: Ord + Clone>(stored: &mut Stored<T>, way: &mut usize) {
            let choices = stored.may.len();
            let chosen = stored.may.iter().nth(*way % choices).expect("one of them").clone();
            *way /= choices;
            *stored = Stored::synced(chosen);
        }
        state.files.iter_mut().for_each(|file| settle(file, &mut way));
        state.folders.iter_mut().for_each(|folder| settle(&mut folder.names, &mut way));
        settle(&mut state.list, &mut way);
        (state.processes, state.recovered) = ([None, None], true);
        (way == 0).then_some(())
    }

    /// Copies in files of their own, or written into those that are there and are not void.
    fn put_copies(state: &mut State, at: usize, into: bool) -> Option<()> {
        let copies = state.copies?;
        let names = state.folders[at].names.now;
        let mut put = |there: Option<Inode>, content: Option<Content>| {
            let Some(content) = content else { return Some(None) };
            let is_void = |inode: &Inode| {
                matches!(state.content(*inode), Content::Void { .. } | Content::Empty)
            };
            let inode = match there.filter(|inode| into && !is_void(inode)) {
                Some(inode) => inode,
                None => state.create()?,
            };
            state.files[usize::from(inode)] = Stored::synced(content);
            Some(Some(inode))
        };
        let names = Names {
            state: put(names.state, copies[0])?,
            counter: put(names.counter, copies[1])?,
            new: put(names.new, copies[2])?,
        };
        state.folders[at].names = Stored::synced(names);
        Some(())
    }

    fn accident(state: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Kill(number) => state.processes[number].take().map(drop),
            Action::Fail(number) => {
                let process = state.processes[number].as_mut()?;
                (!process.program.is_empty() && process.file != 0).then_some(())?;
                (process.unsure, process.program) = (true, &[]);
                if process.stopping {
                    state.processes[number] = None;
                }
                Some(())
            }
            Action::Power(way) => Self::power(state, way),
            Action::Backup => {
                let names = state.folders[0].names.now;
                let content = |inode: Option<Inode>| inode.map(|inode| state.content(inode));
                state.copies = Some([names.state, names.counter, names.new].map(content));
                state.links = Some(names);
                Some(())
            }
            Action::PutLinks(at) => {
                state.folders[at].names = Stored::synced(state.links?);
                Some(())
            }
            Action::PutCopies(at, into) => Self::put_copies(state, at, into),
            Action::Lose => {
                let inode = state.inodes;
                state.inodes += 1;
                state.folders[0] = Folder { names: Stored::synced(Names::default()), inode };
                Some(())
            }
            _ => None,
        }
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for number in 0..2 {
            match &state.processes[number] {
                // The first one is the folder's; another one comes to it, or has a clone.
                None if number == 0 => actions.push(Action::Start(0, 0)),
                None => {
                    actions.extend(state.processes[0].is_some().then_some(Action::Start(1, 0)));
                    actions.push(Action::Start(1, 1));
                }
                Some(_) => actions.extend([
                    Action::Raise(number),
                    Action::Step(number),
                    Action::Send(number),
                    Action::Stop(number),
                ]),
            }
        }
        actions.push(Action::Anew);
        if state.accidents == self.accidents {
            return;
        }
        actions.extend([0, 1].into_iter().flat_map(|n| [Action::Kill(n), Action::Fail(n)]));
        actions.extend([Action::Backup, Action::Lose]);
        for at in [0, 1] {
            actions.push(Action::PutLinks(at));
            actions.extend([true, false].map(|into| Action::PutCopies(at, into)));
        }
        let files = state.files.iter().map(|file| file.may.len()).product::<usize>();
        let folders = state.folders.iter().map(|folder| folder.names.may.len()).product::<usize>();
        actions.extend((0..files * folders * state.list.may.len()).map(Action::Power));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Start(number, at) => self.start(&mut state, number, at)?,
            Action::Anew => self.anew(&mut state)?,
            Action::Raise(number) => Self::raise(&mut state, number, false)?,
            Action::Stop(number) => Self::raise(&mut state, number, true)?,
            Action::Step(number) => self.step(&mut state, number)?,
            Action::Send(number) => Self::send(&mut state, number)?,
            accident => {
                state.accidents += 1;
                use Action::{Lose, PutCopies, PutLinks};
                state.meddled |= matches!(accident, Lose | PutCopies(..) | PutLinks(_));
                Self::accident(&mut state, accident)?;
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONCE, |_, state: &State| !state.twice),
            Property::always(KEPT, |_, state: &State| !state.lost),
            Property::sometimes("it goes on after a power loss", |_, state: &State| {
                state.recovered && state.sent > RANGE
            }),
        ]
    }
}

const ONCE: &str = "no number is sent twice";
const KEPT: &str = "kills, full disks and power losses lose no state";

/// Looks at all that can happen, or until one of the properties does not hold.
fn checked(lack: Lack, accidents: u8, properties: &[&'static str]) -> impl Checker<Protocol> {
    let enough = HasDiscoveries::AnyOf(properties.iter().copied().collect());
    let checker = Protocol { lack, accidents }.checker().threads(2).timeout(PATIENCE);
    checker.finish_when(enough).spawn_bfs().join()
}

#[test]
fn no_order_of_steps_and_accidents_sends_a_number_twice() {
    let found = checked(Lack::Nothing, 2, &[ONCE, KEPT]);
    for property in [ONCE, KEPT] {
        if let Some(path) = found.discovery(property) {
            panic!("not so that {property}: {:?}", path.into_actions());
        }
    }
    assert!(found.is_done(), "not all was looked at");
    found.assert_properties();
    assert!(found.unique_state_count() > 100_000, "{}", found.unique_state_count());
}

#[test]
fn every_part_of_the_protocol_is_needed() {
    // The property that is broken without a part, after how many accidents.
    for (lack, accidents, property) in [
        (Lack::Sync(Op::SyncNew), 1, KEPT),
        (Lack::Sync(Op::SyncList), 2, ONCE),
        (Lack::Sync(Op::SyncCreated), 1, KEPT),
        (Lack::Sync(Op::SyncVoid), 3, ONCE),
        (Lack::Voiding, 2, ONCE),
        (Lack::Places, 2, ONCE),
        (Lack::Locks, 0, ONCE),
        (Lack::List, 1, ONCE),
        (Lack::Handles, 2, ONCE),
    ] {
        let found = checked(lack, accidents, &[property]).discovery(property);
        assert!(found.is_some(), "without {lack:?} it is still so that {property}");
    }
}
