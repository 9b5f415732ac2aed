//! The main thread: the control part's turns, clients, metrics, signals.

use crate::api::{Action, Recording, Reply, Request};
use crate::daemon::{self, Daemon};
use crate::events;
use crate::fault::{Blame, Fault};
use crate::load::{self, Loaded};
use crate::opening;
use crate::reading::{Asker, Purpose, Read, Text};
use crate::recording::{self, LOOK_EVERY, Tap};
use crate::report::Outside;
use crate::reporting::Facts;
use ferrule_base::{Duration, Instant};
use ferrule_dashboard::{Command, Refusal};
use ferrule_node::ReadyLists;
use ferrule_node::config::{PortConfig, differences};
use ferrule_ports::os::PollSet;
use std::io::Read as _;
use std::os::fd::AsRawFd;
use std::thread::JoinHandle;

/// While packets pass, the control part looks this often.
const TICK: Duration = Duration::from_millis(1);
/// Without any, this often.
const IDLE: Duration = Duration::from_millis(250);
/// How long a change of configuration may take until people are told.
const CHANGE_WAIT: Duration = Duration::from_secs(5);
/// How often it is looked at meanwhile.
const LOOK_AGAIN: Duration = Duration::from_micros(100);
/// Sentences about failures that are kept at most.
const FAILURES_MAX: usize = 32;

impl Daemon {
    /// Runs until a signal or a client ends it, then stops in order.
    pub fn run(mut self) -> Result<(), Fault> {
        let mut set = PollSet::new();
        let mut tap: Option<Tap> = None;
        let (mut busy, mut recording) = (true, false);
        events::started(self.control.config());
        self.ready();
        loop {
            busy = self.sleep(&mut set, busy, recording)?;
            if self.signals.read(&mut [0; 16]).is_ok_and(|n| n > 0) {
                break;
            }
            if self.reloads.read(&mut [0; 16]).is_ok_and(|n| n > 0) {
                self.reload();
            }
            let now = self.clock.now();
            if self.control.turn(now) > 0 {
                self.board.rouse_all();
            }
            self.supervisor.turn(now, &self.board);
            self.mind_devices(now);
            self.events.turn(now, &mut self.control, &self.devices);
            self.go_on();
            self.answer_orders();
            self.pass_datagrams();
            let actions = self.server.turn(&set);
            let stop = actions.into_iter().any(|action| self.act(action, &mut tap));
            // Those of this turn's changes, too: the next may be long in coming.
            self.note_failures();
            self.serve_reports();
            tap.take_if(|t| t.turn(&self.control, &mut self.server, self.clock));
            if recording && tap.is_none() {
                self.control.stop_recording();
                self.board.rouse_all();
            }
            recording = tap.is_some();
            self.server.flush();
            if let Some(broken) = self.broken() {
                self.stop(broken);
                let what = format!("{broken}: the node stopped");
                let remedy = "this is a defect: what it said above helps to find it";
                return Err(Fault::environment(what, remedy));
            }
            if stop {
                self.stop("a client asked for it");
                return Ok(());
            }
        }
        self.stop("a signal");
        Ok(())
    }

    /// A thread that ended although nobody told it to, if there is one: it panicked, and the node
    /// does not go on as half of itself.
    fn broken(&self) -> Option<&'static str> {
        let worker = self.threads.iter().any(JoinHandle::is_finished);
        let worker = worker.then_some("a worker ended by itself");
        let protocols = self.protocols.is_finished();
        worker.or(protocols.then_some("the thread of the protocols ended by itself"))
    }

    /// SIGHUP: the file that the node was started with, as it is now.
    fn reload(&mut self) {
        let purpose = Purpose::Apply { new_keys: false };
        if let Err(fault) = self.read((None, purpose), Text::File(self.file.clone())) {
            self.conclude(None, purpose, Err(fault));
        }
    }

    /// Has a configuration read.
    fn read(&mut self, why: (Asker, Purpose), text: Text) -> Result<(), Fault> {
        let lists = self.control.ready_lists();
        self.reading.ask(why, text, lists, &self.board)?;
        why.0.into_iter().for_each(|client| self.server.keep_waiting(client));
        Ok(())
    }

    /// Goes on with configurations that were read.
    fn go_on(&mut self) {
        while let Some(Read { asker, purpose, loaded }) = self.reading.read() {
            let done = loaded.and_then(|(loaded, lists)| {
                // Changes of programs that are under way end first.
                self.see_through(self.clock.now())?;
                match purpose {
                    Purpose::Apply { new_keys } => {
                        self.supervisor.reloading();
                        self.control.expect_lists(lists);
                        let applied = self.change_to(loaded, new_keys);
                        self.ready();
                        applied
                    }
                    Purpose::Compare { new_keys } => self.compare(loaded, new_keys),
                }
            });
            self.conclude(asker, purpose, done);
        }
        if let Some(lists) = self.reading.compiled() {
            self.replace_lists(lists);
        }
    }

    /// Lists that are in force as edits of older ones get trees of their own. If the node cannot
    /// change now, they go on as they are.
    fn replace_lists(&mut self, whole: ReadyLists) {
        let now = self.clock.now();
        let done = self.see_through(now).map_err(|e| e.to_string());
        let done =
            done.and_then(|()| self.control.replace_lists(now, whole).map_err(|e| e.to_string()));
        self.board.rouse_all();
        let done = done.and_then(|()| self.see_through(now).map_err(|e| e.to_string()));
        if let Err(why) = done {
            events::failed(&format!("access lists keep their edits: {why}"));
        }
    }

    /// Reports the outcome of a request for a configuration to its client, or logs it.
    fn conclude(&mut self, asker: Asker, purpose: Purpose, done: Result<Reply, Fault>) {
        let Some(client) = asker else {
            match &done {
                Ok(_) => events::asked(None, "SIGHUP", Ok("applied")),
                Err(fault) => {
                    events::asked(None, "SIGHUP", Err(&fault.to_string()));
                    eprint!("{fault}");
                }
            }
            return;
        };
        let reply = done.unwrap_or_else(|fault| Reply::refused(&fault));
        let name = match purpose {
            Purpose::Apply { .. } => "apply",
            Purpose::Compare { .. } => "compare",
        };
        self.answer(client, name, &reply);
    }

    /// An answer, which is an event, too.
    pub(crate) fn answer(&mut self, client: u64, name: &str, reply: &Reply) {
        let peer = self.server.peer(client);
        match reply {
            Reply::Refused { text, .. } => events::asked(peer, name, Err(text)),
            Reply::Applied { opened, closed } => {
                let did = format!("{} ports opened, {} closed", opened.len(), closed.len());
                events::asked(peer, name, Ok(&did));
            }
            _ => events::asked(peer, name, Ok("done")),
        }
        self.server.say(client, reply);
    }

    fn ready(&self) {
        let config = self.control.config();
        self.supervisor.ready(&format!("{} runs, {} ports", config.name, config.ports.len()));
    }

    /// Sleeps until there is something to do. Returns whether workers are at
    /// work: then they are not asked to wake us for each batch.
    fn sleep(&mut self, set: &mut PollSet, busy: bool, recording: bool) -> Result<bool, Fault> {
        let failed = |e| Fault::environment(format!("waiting: {e}"), "see `ulimit -n`");
        set.clear();
        set.add(self.signals.as_raw_fd(), false);
        set.add(self.reloads.as_raw_fd(), false);
        let woken = set.add(self.board.control.wake().as_raw_fd(), false);
        self.server.add_to(set);
        if let Some(fd) = self.devices.wait_fd() {
            set.add(fd, false);
        }
        let busy = busy || self.server.has_more();
        if busy {
            // Look again soon, without being asked.
            set.wait(Some(if recording { LOOK_EVERY } else { TICK })).map_err(failed)?;
            self.board.control.rise();
            return Ok(set.is_ready(woken) || recording);
        }
        self.board.control.doze();
        let now = self.clock.now();
        let work = self.control.turn(now);
        let due = self.control.poll_timeout().map_or(IDLE, |at| at.since(now)).min(IDLE);
        let due = if work > 0 { Duration::ZERO } else { due };
        if work > 0 {
            self.board.rouse_all();
        }
        set.wait(Some(due)).map_err(failed)?;
        let woken = set.is_ready(woken);
        self.board.control.rise();
        Ok(woken || recording)
    }

    fn note_failures(&mut self) {
        for incident in self.control.take_incidents() {
            self.notify(&incident);
            if incident.is_of_keying() {
                events::happened(&incident);
                continue;
            }
            let sentence = incident.to_string();
            if self.failures.last() != Some(&sentence) {
                events::happened(&incident);
                self.keep_failure(sentence);
            }
        }
    }

    /// Something that has a sentence, and no name of its own.
    pub(crate) fn note(&mut self, what: String) {
        events::failed(&what);
        self.keep_failure(what);
    }

    fn keep_failure(&mut self, sentence: String) {
        self.failures.push(sentence);
        let surplus = self.failures.len().saturating_sub(FAILURES_MAX);
        self.failures.drain(..surplus);
    }

    /// Reports that were made go to their readers, and the next one begins.
    fn serve_reports(&mut self) {
        while let Some(made) = self.reporting.made() {
            for client in made.clients {
                match &made.reply {
                    Some(Ok(line)) => _ = self.server.say_line(client, line.clone()),
                    Some(Err(fault)) => self.answer(client, "show", &Reply::refused(fault)),
                    None => {}
                }
            }
            if let (Some(metrics), Some(text)) = (&self.metrics, made.metrics) {
                metrics.answer(text);
            }
            if let (Some(dashboard), Some(state)) = (&mut self.dashboard, made.state) {
                dashboard.show(state);
            }
        }
        if self.metrics.as_ref().is_some_and(|metrics| metrics.is_asked()) {
            self.reporting.ask_for_metrics();
        }
        let refused = |_: Command| {
            let why = "a live node is only looked at from here: change it by `ferrule apply`";
            Err(Refusal(why.into()))
        };
        if self.dashboard.as_mut().is_some_and(|dashboard| dashboard.hear(refused)) {
            self.reporting.ask_for_dashboard();
        }
        let has_room = self.server.has_room();
        if self.reporting.can_begin(has_room) {
            let facts = self.facts();
            self.reporting.begin(facts, has_room, &self.board);
        }
    }

    /// Facts for a report of now.
    fn facts(&mut self) -> Facts {
        let workers = self.control.request_reports();
        self.board.rouse_all();
        let ports = self.control.config().ports.iter().map(|port| &port.name);
        let gone = ports.filter(|port| self.devices.is_gone(port)).cloned().collect();
        let (now, macs) = (self.clock.now(), self.macs.clone());
        let outside = Outside { now, macs, failures: self.failures.clone(), gone };
        Facts { control: self.control.view(), workers, outside }
    }

    /// Does what a client asked. True: the node is to stop.
    fn act(&mut self, action: Action, tap: &mut Option<Tap>) -> bool {
        let (client, request) = match action {
            Action::Asked(client, request) => (client, request),
            Action::Gone(client) => {
                self.reporting.forget(client);
                self.end_listening(client);
                tap.take_if(|t| t.client == client);
                return false;
            }
        };
        let name = request.name();
        let wanted = |purpose| (Some(client), purpose);
        let reply = match request {
            Request::Show {} => {
                self.server.keep_waiting(client);
                self.reporting.ask_for_client(client);
                return false;
            }
            Request::Apply { file, text, keys, new_keys } => {
                let keys = load::received(keys);
                let text = keys.map(|keys| Text::Sent { file, text, keys });
                match text.and_then(|t| self.read(wanted(Purpose::Apply { new_keys }), t)) {
                    Ok(()) => return false,
                    Err(fault) => Reply::refused(&fault),
                }
            }
            Request::Compare { file, text, keys, new_keys } => {
                let keys = load::received(keys);
                let text = keys.map(|keys| Text::Sent { file, text, keys });
                match text.and_then(|t| self.read(wanted(Purpose::Compare { new_keys }), t)) {
                    Ok(()) => return false,
                    Err(fault) => Reply::refused(&fault),
                }
            }
            Request::Trace(wanted) => return self.record(client, &wanted, true, false, tap),
            Request::Capture { recording, key_log } => {
                return self.record(client, &recording, false, key_log, tap);
            }
            Request::Enough {} => {
                if let Some(tap) = tap.take_if(|t| t.client == client) {
                    tap.end(&self.control, &mut self.server, self.clock);
                }
                if let Some(lost) = self.end_listening(client) {
                    self.server.say(client, &Reply::End { lost });
                }
                return false;
            }
            Request::Sa(request) => match self.order(client, request) {
                Some(reply) => reply,
                None => return false,
            },
            Request::Dynamic(deltas) => return self.change_entries(client, deltas),
            Request::Notices {} => {
                self.listen(client);
                return false;
            }
            Request::Datagram { local, remote, payload } => {
                self.send_datagram((local, remote), &payload)
            }
            Request::ResetCard { port } => self.reset_card(&port),
            Request::Stop {} => {
                events::asked(self.server.peer(client), name, Ok("the node goes down"));
                self.server.say(client, &Reply::Stopping {});
                return true;
            }
        };
        self.answer(client, name, &reply);
        false
    }

    fn reset_card(&mut self, name: &str) -> Reply {
        let ports = &self.control.config().ports;
        let index = ports.iter().position(|p| p.name == name);
        let reply = match index.map(|index| self.control.reset_card(index)) {
            Some(Ok(true)) => Reply::Done {},
            Some(Err(e)) => {
                Reply::refused(&Fault::environment(e, "see `ferrule show cards` for its state"))
            }
            _ => {
                let what = format!("port `{name}` has no card");
                let remedy = "see `ferrule show cards`";
                Reply::refused(&Fault::new(Blame::Configuration, what, remedy))
            }
        };
        self.board.rouse_all();
        reply
    }

    fn record(
        &mut self,
        client: u64,
        wanted: &Recording,
        trace: bool,
        key_log: bool,
        tap: &mut Option<Tap>,
    ) -> bool {
        let begun = if tap.is_some() {
            Err(("a trace or capture is running already".to_owned(), "wait for its end"))
        } else if key_log && !self.control.config().key_log {
            let what = "this node gives its keys to nobody".to_owned();
            Err((what, "key-log = true in [node] allows it"))
        } else {
            let begun = Tap::begin(&mut self.control, client, wanted, trace);
            begun.map_err(|what| (what, "see `ferrule show ports`"))
        };
        let reply = match begun {
            Err((what, remedy)) => Reply::refused(&Fault::new(Blame::Configuration, what, remedy)),
            Ok(begun) => {
                *tap = Some(begun);
                let config = self.control.config();
                let names = config.ports.iter().map(|p| p.name.clone()).collect();
                let key_log = if key_log { recording::key_log(config) } else { Vec::new() };
                Reply::Ports { names, key_log }
            }
        };
        self.board.rouse_all();
        let peer = self.server.peer(client);
        let name = if key_log {
            "capture with keys"
        } else if trace {
            "trace"
        } else {
            "capture"
        };
        match &reply {
            Reply::Refused { text, .. } => events::asked(peer, name, Err(text)),
            _ => events::asked(peer, name, Ok("begins")),
        }
        self.server.say(client, &reply);
        false
    }

    /// Waits until a change is done everywhere: only then it is said to be in force.
    fn see_through(&mut self, since: Instant) -> Result<(), Fault> {
        while self.control.is_changing() {
            let now = self.clock.now();
            if now.since(since) > CHANGE_WAIT {
                let what = "the change is under way, and a worker has not said that it is done";
                return Err(Fault::environment(what, "see `ferrule show` for what holds it up"));
            }
            std::thread::sleep(LOOK_AGAIN);
            self.control.turn(now);
            self.board.rouse_all();
        }
        Ok(())
    }

    /// The changes that a configuration would make, if it would be accepted. Its ports are looked
    /// for, and not opened.
    fn compare(&self, loaded: Loaded, new_keys: bool) -> Result<Reply, Fault> {
        let Loaded { mut config, source, .. } = loaded;
        let macs = opening::macs_of(&config).map_err(|(i, e)| source.port_fault(&config, i, &e))?;
        for (index, port) in config.ports.iter().enumerate() {
            opening::check_mtu(port).map_err(|e| source.port_fault(&config, index, &e))?;
        }
        let accepted = self.control.would_apply(&mut config);
        accepted.map_err(|e| source.build_fault(&config, &e))?;
        let old = self.control.config();
        daemon::look_for_counters(&source, (old, &self.macs), (&config, &macs), new_keys)?;
        Ok(Reply::Differences { differences: differences(old, &config) })
    }

    /// Changes to another configuration. On a fault nothing has changed: what may fail, opening
    /// ports and counters, comes first.
    fn change_to(&mut self, loaded: Loaded, new_keys: bool) -> Result<Reply, Fault> {
        let Loaded { config, source, .. } = loaded;
        let old = self.control.config();
        let same = |a: &PortConfig, b: &PortConfig| {
            (&a.name, &a.driver, a.worker) == (&b.name, &b.driver, b.worker)
        };
        // A port that stays keeps its address while its device is gone.
        let known = |port: &PortConfig| {
            let at = old.ports.iter().position(|o| same(o, port))?;
            self.devices.is_gone(&port.name).then(|| self.macs[at])
        };
        let macs = config.ports.iter().enumerate().map(|(index, port)| {
            let asked = opening::mac_of(&config, port);
            asked.or_else(|e| known(port).ok_or_else(|| source.port_fault(&config, index, &e)))
        });
        let macs = macs.collect::<Result<Vec<_>, Fault>>()?;
        let is_new = |p: &PortConfig| !old.ports.iter().any(|o| same(o, p));
        let fresh: Vec<usize> =
            (0..config.ports.len()).filter(|&i| is_new(&config.ports[i])).collect();
        let mut opened = Vec::new();
        for index in fresh {
            let port = &config.ports[index];
            let fault = |e| source.port_fault(&config, index, &e);
            opening::check_mtu(port).map_err(fault)?;
            let (mut on, mut queues) = (None, Vec::new());
            for queue in 0..self.control.queues(port) {
                let ready = self.openings.open(port, queue, macs[index]).map_err(fault)?;
                on = on.or_else(|| ready.netdev());
                queues.push(ready.start(&self.umem).map_err(fault)?);
            }
            opened.push((index, on, queues));
        }
        let now = self.clock.now();
        let before = old.clone();
        let make_missing = |yes| {
            if let Some(store) = &self.store {
                store.lock().make_missing(yes);
            }
        };
        make_missing(new_keys);
        let applied = self.control.apply(now, config.clone(), &macs);
        make_missing(false);
        let applied = applied.map_err(|e| source.build_fault(&config, &e))?;
        let names: Vec<String> =
            opened.iter().map(|(i, ..)| config.ports[*i].name.clone()).collect();
        self.devices.keep(&config);
        for ((index, on, queues), name) in opened.into_iter().zip(&names) {
            if let (Some(on), Some(device)) = (on, config.ports[index].driver.device()) {
                self.devices.opened(name, device, on);
            }
            let gate = self.board.gate(name);
            for (queue, port) in queues.into_iter().enumerate() {
                let attached = self.control.attach_queue(index, queue, gate.before(port));
                attached.map_err(|e| source.build_fault(&config, &e))?;
            }
        }
        self.macs = macs;
        self.events.changed(&before, self.control.config());
        self.board.rouse_all();
        self.see_through(now)?;
        Ok(Reply::Applied { opened: names, closed: applied.closed })
    }
}
