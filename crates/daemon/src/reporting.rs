//! Reports of the node, made beside the main thread: that of 100,000 SAs takes a second, and
//! timers of keying and neighbours do not wait for it.
//!
//! ```text
//!   client, scraper, page ─▶ ask ─▶ state of the control part ─▶ thread: workers' counts
//!           ◀────────────────────── made ◀────────────────────── └▶ Report ─▶ JSON, text
//! ```
//!
//! One is made at a time. Whoever asks meanwhile gets the next one, which all of them share, so
//! that a storm of questions costs no more than one thread.

use crate::api::Reply;
use crate::fault::Fault;
use crate::metrics;
use crate::report::{Outside, Report};
use crate::runtime::Board;
use crate::watch;
use ferrule_node::ControlView;
use ferrule_node::message::WorkerReport;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::time::{Duration, Instant};

/// Time that workers may take to say what they counted.
const WORKERS_WAIT: Duration = Duration::from_millis(300);

/// Receivers of a report.
#[derive(Default)]
struct Readers {
    /// Clients of the management socket, by number.
    clients: Vec<u64>,
    metrics: bool,
    dashboard: bool,
}

/// Facts of which a report is made.
pub(crate) struct Facts {
    pub control: ControlView,
    /// Counts of the workers, as they come.
    pub workers: Receiver<Box<WorkerReport>>,
    pub outside: Outside,
}

/// A report, in the form of each of its readers.
#[derive(Default)]
pub(crate) struct Made {
    pub clients: Vec<u64>,
    /// Reply to the clients, a line; or the fault that they are told of.
    pub reply: Option<Result<Arc<[u8]>, Fault>>,
    pub metrics: Option<String>,
    pub state: Option<Arc<[u8]>>,
}

/// Both ends of the queues to the thread: reports that are wanted, and those that were made.
type Thread = (SyncSender<(Readers, Facts)>, Receiver<Made>);

/// The thread that makes reports; it begins with the first.
#[derive(Default)]
pub(crate) struct Reporting {
    thread: Option<Thread>,
    /// Readers of the next one.
    next: Readers,
    /// Clients of the one that is being made.
    current: Option<Vec<u64>>,
}

impl Reporting {
    /// A client wants a report of what is counted from now on.
    pub fn ask_for_client(&mut self, client: u64) {
        self.next.clients.push(client);
    }

    /// A scraper wants one.
    pub const fn ask_for_metrics(&mut self) {
        self.next.metrics = true;
    }

    /// The dashboard wants one.
    pub const fn ask_for_dashboard(&mut self) {
        self.next.dashboard = true;
    }

    /// A client is gone.
    pub fn forget(&mut self, client: u64) {
        self.next.clients.retain(|&waiting| waiting != client);
    }

    /// True if the next report can begin: it has a reader, and none is being made. Without room
    /// for replies clients wait, but not scrapers and pages.
    pub const fn can_begin(&self, has_room: bool) -> bool {
        let Readers { clients, metrics, dashboard } = &self.next;
        let is_wanted = *metrics || *dashboard || (has_room && !clients.is_empty());
        is_wanted && self.current.is_none()
    }

    /// Makes the next report of these facts, for clients if there is room.
    pub fn begin(&mut self, facts: Facts, has_room: bool, board: &Arc<Board>) {
        let mut readers = std::mem::take(&mut self.next);
        if !has_room {
            self.next.clients = std::mem::take(&mut readers.clients);
        }
        self.current = Some(readers.clients.clone());
        if self.thread.is_none() {
            self.thread = start(board.clone()).ok();
        }
        if let Some((wanted, _)) = &self.thread {
            // A thread that ended is seen when its report is asked for.
            let _ = wanted.send((readers, facts));
        }
    }

    /// A report that was made since the last call. Clients of a thread that ended are told so.
    pub fn made(&mut self) -> Option<Made> {
        let made = match &self.thread {
            Some((_, made)) => match made.try_recv() {
                Ok(made) => made,
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => ended(self.current.take()?),
            },
            None => ended(self.current.take()?),
        };
        if matches!(made.reply, Some(Err(_))) {
            self.thread = None;
        }
        self.current = None;
        Some(made)
    }
}

fn ended(clients: Vec<u64>) -> Made {
    let fault = Fault::environment(
        "there is no thread that makes reports",
        "see `ulimit -u`; if it began and ended, what it said helps to find the defect",
    );
    Made { clients, reply: Some(Err(fault)), ..Made::default() }
}

fn start(board: Arc<Board>) -> std::io::Result<Thread> {
    let (wanted, jobs) = sync_channel(1);
    let (done, made) = channel();
    let thread = std::thread::Builder::new().name("reports".into());
    thread.spawn(move || make_all(&jobs, &done, &board))?;
    Ok((wanted, made))
}

fn make_all(jobs: &Receiver<(Readers, Facts)>, done: &Sender<Made>, board: &Board) {
    while let Ok((readers, facts)) = jobs.recv() {
        if done.send(make(readers, facts, board)).is_err() {
            return;
        }
        board.control.wake().wake();
    }
}

fn make(readers: Readers, facts: Facts, board: &Board) -> Made {
    let Facts { control, workers, outside } = facts;
    let mut counts: Vec<Box<WorkerReport>> = Vec::new();
    let end = Instant::now() + WORKERS_WAIT;
    while counts.len() < control.workers()
        && let Ok(count) = workers.recv_timeout(end.saturating_duration_since(Instant::now()))
    {
        counts.push(count);
    }
    let report = Report::of(&control, &counts, &outside);
    let metrics = readers.metrics.then(|| metrics::text(&report));
    let state = readers.dashboard.then(|| {
        let config = control.config();
        let mut state = watch::live(&report, config);
        if let Some(measures) = &board.measures {
            state.histograms = measures.view(|name| config.ports.iter().any(|p| p.name == name));
        }
        serde_json::to_vec(&state).unwrap_or_default().into()
    });
    let reply = (!readers.clients.is_empty()).then(|| {
        let mut line = serde_json::to_vec(&Reply::Report(Box::new(report))).unwrap_or_default();
        line.push(b'\n');
        Ok(line.into())
    });
    Made { clients: readers.clients, reply, metrics, state }
}
