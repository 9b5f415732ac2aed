//! Configurations that are being read: beside the main thread, which meanwhile serves
//! neighbours, counters and clients. A list of 100,000 entries takes a second.
//!
//! ```text
//!   client, signal ─▶ ask ─▶ │ up to 4 wait │ ─▶ thread: text ─▶ Config, lists ─▶ read ─▶ apply
//!                                                      └─▶ lists compiled whole ─▶ replace
//! ```
//!
//! A list in which a few entries changed does not wait for new trees: it is in force with the
//! old ones and an edit beside them, until the thread has compiled it.

use crate::credentials::Credentials;
use crate::fault::Fault;
use crate::load::{self, Loaded};
use crate::runtime::Board;
use ferrule_base::Secret;
use ferrule_node::ReadyLists;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{
    Receiver, Sender, SyncSender, TryRecvError, TrySendError, channel, sync_channel,
};

/// Configurations that wait at most: each may have 12 MiB.
const WAITING_MAX: usize = 4;

/// Source of a configuration that is asked for.
pub(crate) enum Text {
    /// From a client, with its keys.
    Sent { file: String, text: String, keys: BTreeMap<String, Secret> },
    /// The file that the node was started with.
    File(PathBuf),
}

/// Purpose of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Put in force; keys that are new may begin counters.
    Apply { new_keys: bool },
    /// Compared with the one in force.
    Compare { new_keys: bool },
}

/// The client that asked, by number; nothing for a signal.
pub(crate) type Asker = Option<u64>;

struct Job {
    asker: Asker,
    purpose: Purpose,
    text: Text,
    /// Lists that need not be compiled again.
    lists: ReadyLists,
}

/// A configuration that was read.
pub(crate) struct Read {
    pub asker: Asker,
    pub purpose: Purpose,
    pub loaded: Result<(Loaded, ReadyLists), Fault>,
}

/// Results of the thread.
enum Done {
    Read(Box<Read>),
    /// The lists of the configuration that was read last, none of them an edit.
    Compiled(ReadyLists),
}

/// The thread that reads configurations; it begins with the first.
pub(crate) struct Reading {
    credentials: Credentials,
    thread: Option<(SyncSender<Job>, Receiver<Done>)>,
    /// Lists that take the place of edited ones.
    compiled: Option<ReadyLists>,
    /// Clients and signals that wait, in the order in which they asked.
    waiting: VecDeque<(Asker, Purpose)>,
}

impl Reading {
    pub const fn new(credentials: Credentials) -> Self {
        Self { credentials, thread: None, compiled: None, waiting: VecDeque::new() }
    }

    /// Has a configuration read. An error if too many wait already.
    pub fn ask(
        &mut self,
        (asker, purpose): (Asker, Purpose),
        text: Text,
        lists: ReadyLists,
        board: &Arc<Board>,
    ) -> Result<(), Fault> {
        let (jobs, _) = match &mut self.thread {
            Some(thread) => thread,
            None => self.thread.insert(begin(board.clone(), self.credentials.clone())?),
        };
        jobs.try_send(Job { asker, purpose, text, lists }).map_err(|e| match e {
            TrySendError::Full(_) => Fault::environment(
                format!("{WAITING_MAX} configurations are waiting to be read"),
                "wait until they are in force",
            ),
            TrySendError::Disconnected(_) => ended(),
        })?;
        self.waiting.push_back((asker, purpose));
        Ok(())
    }

    /// The next configuration that was read, in the order of the requests. If the thread ended,
    /// each request gets an error.
    pub fn read(&mut self) -> Option<Read> {
        match self.thread.as_ref()?.1.try_recv() {
            Ok(Done::Read(read)) => {
                self.waiting.pop_front();
                self.compiled = None;
                Some(*read)
            }
            Ok(Done::Compiled(lists)) => {
                self.compiled = Some(lists);
                None
            }
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                let Some((asker, purpose)) = self.waiting.pop_front() else {
                    // Another one begins with who comes next.
                    self.thread = None;
                    return None;
                };
                Some(Read { asker, purpose, loaded: Err(ended()) })
            }
        }
    }

    /// Lists that were compiled for the configuration that was read last.
    pub fn compiled(&mut self) -> Option<ReadyLists> {
        self.compiled.take()
    }
}

fn ended() -> Fault {
    Fault::environment(
        "the thread that reads configurations ended",
        "this is a defect: what it said helps to find it",
    )
}

fn begin(
    board: Arc<Board>,
    credentials: Credentials,
) -> Result<(SyncSender<Job>, Receiver<Done>), Fault> {
    let (jobs, wanted) = sync_channel(WAITING_MAX);
    let (done, read) = channel();
    let thread = std::thread::Builder::new().name("configuration".into());
    thread.spawn(move || all(&wanted, &done, &board, &credentials)).map_err(|e| {
        Fault::environment(format!("a thread for configurations: {e}"), "see `ulimit -u`")
    })?;
    Ok((jobs, read))
}

fn all(wanted: &Receiver<Job>, done: &Sender<Done>, board: &Board, credentials: &Credentials) {
    let say = |what: Done| {
        let heard = done.send(what).is_ok();
        board.control.wake().wake();
        heard
    };
    while let Ok(Job { asker, purpose, text, lists }) = wanted.recv() {
        let mut edited = None;
        let loaded = load(text, credentials).map(|loaded| {
            let ready = match purpose {
                Purpose::Apply { .. } => lists.edited_for(&loaded.config),
                Purpose::Compare { .. } => ReadyLists::default(),
            };
            edited = ready.has_edits().then(|| (loaded.config.clone(), ready.clone()));
            (loaded, ready)
        });
        let mut heard = say(Done::Read(Box::new(Read { asker, purpose, loaded })));
        if let Some((config, lists)) = edited {
            heard &= say(Done::Compiled(lists.whole_for(&config)));
        }
        if !heard {
            return;
        }
    }
}

fn load(text: Text, credentials: &Credentials) -> Result<Loaded, Fault> {
    match text {
        Text::Sent { file, text, keys } => load::from_parts(&file, &text, &keys, credentials),
        Text::File(path) => load::load_again(&path, credentials),
    }
}
