//! A laboratory under the eyes and hands of people: who drives virtual time while
//! a dashboard is served.
//!
//! ```text
//!   page ── command ──▶ Desk ── pause, step, speed ──▶ when the next slice is run
//!                        │ └─── link, restart ───────▶ Network::at(now, change)
//!                        └ run a slice, answer, run a slice …     one thread
//! ```
//!
//! A slice is as much virtual time as takes a few milliseconds of the machine's,
//! so that the page is answered at once whatever the network is.

mod seen;
pub mod standing;
mod view;

use ferrule_base::{Duration, Instant};
use ferrule_dashboard::state::Phase;
use ferrule_dashboard::{Command, Dashboard, Pace, Refusal, Source, State, Step};
use ferrule_lab::topology::{Lab, Topology};
use ferrule_lab::{Change, Direction};
use seen::Seen;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::collections::VecDeque;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant as RealTime;

/// Time for which hosts send if none is given: longer than a person looks.
pub const LENGTH: Duration = Duration::from_secs(3600);
/// A node that was killed is back after this time.
const BACK_AFTER: Duration = Duration::from_millis(50);
/// How long a slice may take, in the machine's time.
const SLICE: Duration = Duration::from_millis(4);
/// Slices between two looks at what the page asks.
const WORK: Duration = Duration::from_millis(16);
/// How long it waits for questions while time stands still.
const STILL: Duration = Duration::from_millis(100);
/// Virtual time in a slice, at least and at most.
const SLICES: [Duration; 2] = [Duration::from_nanos(1), Duration::from_secs(1)];
/// A machine that is further behind than this does not try to catch up.
const BEHIND_MAX: Duration = Duration::from_millis(250);
/// From one look at the pace to the next, and how many are kept.
const PACE_EVERY: Duration = Duration::from_millis(100);
const PACE_LOOKS: usize = 10;
/// From one look at conservation to the next while time passes.
const AUDIT_EVERY: Duration = Duration::from_secs(2);

/// A laboratory that is driven from a page.
struct Desk<'a> {
    topology: &'a Topology,
    lab: &'a mut Lab,
    until: Instant,
    phase: Phase,
    /// The run is over, and nothing moves any more.
    rest: bool,
    /// Virtual seconds in a real one; nothing: as fast as can be.
    speed: Option<f64>,
    /// A time of the machine and the virtual time that belongs to it.
    anchor: (RealTime, Instant),
    /// Virtual time of the next slice.
    slice: Duration,
    /// The latest of these, to say how fast time passes.
    looks: VecDeque<(RealTime, Instant)>,
    /// Broken invariant, if any, and the time of the last audit.
    broken: Option<String>,
    audited: Option<(RealTime, Instant)>,
}

/// Serves a dashboard and drives the laboratory as it says, until the process is
/// told to stop. What is under way then is not waited for. True if the run had
/// come to its end by then, and the network to rest.
pub fn drive(
    topology: &Topology,
    lab: &mut Lab,
    listener: TcpListener,
    length: Duration,
    say: impl FnOnce(&str),
) -> io::Result<bool> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let mut dashboard = Dashboard::serve(listener, || ())?;
    say(&dashboard.address());
    lab.network.observe(Box::new(Seen::new(topology)));
    let mut desk = Desk::new(topology, lab, length);
    while !stop.load(Ordering::Relaxed) {
        let wait = desk.work();
        dashboard.turn_within(&mut desk, wait);
    }
    Ok(desk.rest)
}

impl<'a> Desk<'a> {
    fn new(topology: &'a Topology, lab: &'a mut Lab, length: Duration) -> Self {
        let now = lab.network.now();
        let mut desk = Self {
            topology,
            lab,
            until: Instant::ZERO + length,
            phase: Phase::Running,
            rest: false,
            speed: Some(1.0),
            anchor: (RealTime::now(), now),
            slice: Duration::from_micros(100),
            looks: VecDeque::new(),
            broken: None,
            audited: None,
        };
        desk.begin();
        desk
    }

    /// From here on time passes as is wanted, whatever it did before.
    fn begin(&mut self) {
        self.anchor = (RealTime::now(), self.lab.network.now());
        self.looks.clear();
        self.looks.push_back(self.anchor);
    }

    /// Lets time pass for a moment. Returns how long there is nothing to do.
    fn work(&mut self) -> Duration {
        if self.phase != Phase::Running {
            return STILL;
        }
        let begun = RealTime::now();
        while begun.elapsed() < WORK {
            let now = self.lab.network.now();
            if now >= self.until {
                self.end();
                return STILL;
            }
            let wanted = self.wanted().min(self.until);
            if wanted <= now {
                self.look();
                return Duration::from_millis(2);
            }
            self.run((now + self.slice).min(wanted));
        }
        self.look();
        // Questions that are there are answered; none is waited for.
        Duration::ZERO
    }

    /// The virtual time that it should be by now.
    fn wanted(&mut self) -> Instant {
        let Some(speed) = self.speed else { return Instant::FAR_FUTURE };
        let passed = self.anchor.0.elapsed();
        let wanted = self.anchor.1 + passed.mul_f64(speed);
        let behind = wanted.since(self.lab.network.now());
        if behind > BEHIND_MAX.mul_f64(speed) {
            self.anchor = (RealTime::now(), self.lab.network.now());
        }
        wanted
    }

    /// Runs a slice, and learns from it how long the next one should be.
    fn run(&mut self, until: Instant) {
        let begun = RealTime::now();
        self.lab.network.advance(until);
        let took = begun.elapsed();
        let [least, most] = SLICES;
        if took > SLICE {
            self.slice = (self.slice / 2).max(least);
        } else if took < SLICE / 2 {
            self.slice = (self.slice * 2).min(most);
        }
    }

    /// Notes how far time has come.
    fn look(&mut self) {
        let now = (RealTime::now(), self.lab.network.now());
        if self.looks.back().is_none_or(|last| now.0 - last.0 >= PACE_EVERY) {
            self.looks.push_back(now);
        }
        while self.looks.len() > PACE_LOOKS {
            self.looks.pop_front();
        }
    }

    /// Virtual seconds in a real one, lately.
    fn pace(&self) -> f64 {
        let Some(first) = self.looks.front() else { return 0.0 };
        let real = first.0.elapsed().as_secs_f64();
        let passed = self.lab.network.now().since(first.1).as_secs_f64();
        if real > 0.0 { passed / real } else { 0.0 }
    }

    /// The run is over: what is under way arrives.
    fn end(&mut self) {
        self.rest = self.lab.finish();
        self.phase = Phase::Ended;
    }

    /// Looks whether everything that must hold does; not for each question while
    /// time passes, since it looks at all that is under way.
    fn audit(&mut self) {
        let now = self.lab.network.now();
        let known = self.audited.is_some_and(|(real, at)| {
            at == now || (self.phase == Phase::Running && real.elapsed() < AUDIT_EVERY)
        });
        if known {
            return;
        }
        self.audited = Some((RealTime::now(), now));
        if let (Err(e), None) = (self.lab.network.audit(), &self.broken) {
            self.broken = Some(e.to_string());
        }
    }

    fn step(&mut self, by: Step) -> Result<(), Refusal> {
        if self.phase == Phase::Ended {
            return Err(Refusal("the run is over".into()));
        }
        self.phase = Phase::Paused;
        let network = &mut self.lab.network;
        match by {
            Step::Event => {
                if !network.step(self.until) {
                    self.end();
                }
            }
            Step::Millisecond => {
                let until = (network.now() + Duration::from_millis(1)).min(self.until);
                network.advance(until);
                if until == self.until {
                    self.end();
                }
            }
        }
        Ok(())
    }

    /// Carries out the page's command for a link.
    fn disturb(
        &mut self,
        name: &str,
        up: Option<bool>,
        loss: Option<f64>,
        delay_ns: Option<u64>,
    ) -> Result<(), Refusal> {
        let at = self.topology.links.iter().position(|l| l.name == name);
        let id = at.and_then(|at| self.lab.links.get(at).copied());
        let id = id.ok_or_else(|| Refusal(format!("there is no link `{name}`")))?;
        let network = &mut self.lab.network;
        let mut changes = Vec::new();
        if let Some(up) = up {
            changes.push(if up { Change::LinkUp(id) } else { Change::LinkDown(id) });
        }
        for way in Direction::BOTH {
            if let (Some(loss), Some(lane)) = (loss, network.link_now(id, way)) {
                let mut impairments = lane.impairments;
                impairments.loss = loss;
                changes.push(Change::Impair(id, Some(way), impairments));
            }
        }
        changes.extend(delay_ns.map(|ns| Change::Delay(id, Duration::from_nanos(ns))));
        self.change(changes);
        Ok(())
    }

    /// Makes changes now, also while time stands still.
    fn change(&mut self, changes: Vec<Change>) {
        let network = &mut self.lab.network;
        let now = network.now();
        for change in changes {
            network.at(now, change);
        }
        network.advance(now);
    }

    fn restart(&mut self, name: &str) -> Result<(), Refusal> {
        let at = self.topology.nodes.iter().position(|n| n.name == name);
        let id = at.and_then(|at| self.lab.devices.get(at).copied());
        let id = id.ok_or_else(|| Refusal(format!("there is no node `{name}`")))?;
        self.change(vec![Change::Restart(id, BACK_AFTER)]);
        Ok(())
    }
}

impl Source for Desk<'_> {
    fn state(&mut self) -> State {
        self.audit();
        view::state(self)
    }

    fn command(&mut self, command: Command) -> Result<(), Refusal> {
        match command {
            Command::Pause {} | Command::Resume {} if self.phase == Phase::Ended => {
                return Err(Refusal("the run is over".into()));
            }
            Command::Pause {} => self.phase = Phase::Paused,
            Command::Resume {} => {
                self.phase = Phase::Running;
                self.begin();
            }
            Command::Step { by } => self.step(by)?,
            Command::Speed { pace } => {
                self.speed = match pace {
                    Pace::Times(times) => Some(times),
                    Pace::Unbounded => None,
                };
                self.begin();
            }
            Command::Link { link, up, loss, delay_ns } => {
                self.disturb(&link, up, loss, delay_ns)?;
            }
            Command::Restart { node } => self.restart(&node)?,
        }
        Ok(())
    }
}
