//! A device that is a thread: the crypto service on another core.
//!
//! ```text
//!   host   │ commands ─▶ │ work ─▶ │ ◀─ done │      three rings of one producer
//!   thread │ obey          run a batch    push │
//!          └ nothing for a while: says "asleep", looks again, parks
//! ```
//!
//! The thread burns its core only while there is work, and leaves the core to its host
//! where they share one ([`super::wait`]). The doorbell is a load while the thread is
//! awake, and a system call when it sleeps, once for a batch.
//!
//! If the cipher panics, the thread gives back its requests: those begun as failed, the
//! others unchanged. A thread that hangs cannot be ended; it keeps its requests, and at
//! most [`HUNG_MAX`] such threads are left behind. As each has rings of its own, nothing
//! that it still does reaches the host.

use super::device::{Cipher, Command, Device, Request, Requests};
use super::wait::Patience;
use ferrule_base::{Duration, Instant};
use ferrule_crypto::engine::BATCH;
use ferrule_crypto::key::InstallError;
use ferrule_crypto::{KeySpec, Verdict};
use rtrb::{Consumer, Producer, PushError, RingBuffer};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::{JoinHandle, Thread};

/// Longest sleep of the thread, after which it checks that its host is still there.
const SLEEP_MAX: Duration = Duration::from_millis(500);

/// Commands that wait at most.
const COMMANDS: usize = 1024;

/// Hung threads that are left behind at most. After that the device stays down.
pub const HUNG_MAX: usize = 4;

/// Longest wait for the thread to wipe its keys at the end.
const END_WAIT: Duration = Duration::from_millis(50);

/// Interval at which a host that sleeps looks for completions.
const LOOK_EVERY: Duration = Duration::from_micros(50);

/// Makes the thread's cipher, for each of its lives.
pub type MakeCipher<B> = Box<dyn FnMut() -> Box<dyn Cipher<B>> + Send>;

/// Says where the thread runs: called in it when it begins.
pub type Pin = Arc<dyn Fn() + Send + Sync>;

/// A thread, seen from its host.
pub struct Service<B> {
    make: MakeCipher<B>,
    pin: Pin,
    depth: usize,
    life: Option<Life<B>>,
    hung: Vec<JoinHandle<Rest<B>>>,
    looked: Instant,
}

/// Ends of the rings of a thread that panicked, with its requests and those that wait for
/// it, which the host may have put there after it stopped to look.
type Rest<B> = Option<Far<B>>;

/// The host's ends of one life.
struct Life<B> {
    commands: Producer<Command>,
    work: Producer<Request<B>>,
    done: Consumer<Request<B>>,
    bell: Arc<Bell>,
    handle: JoinHandle<Rest<B>>,
}

/// Flags shared by host and thread.
#[derive(Default)]
struct Bell {
    asleep: AtomicBool,
    stop: AtomicBool,
}

impl Bell {
    /// Wakes the thread if it sleeps. Costs a fence and a load if it does not.
    ///
    /// The entry in the ring must be visible before the flag is read, as the thread sets
    /// the flag before it reads the rings: a fence on both sides. Without it both may read
    /// the old state, and the request lies there until the thread wakes by itself.
    fn ring(&self, thread: &Thread) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            thread.unpark();
        }
    }
}

/// The thread's ends.
struct Far<B> {
    commands: Consumer<Command>,
    work: Consumer<Request<B>>,
    done: Producer<Request<B>>,
    bell: Arc<Bell>,
    /// Taken from the ring and not given back yet.
    hand: Requests<B>,
}

impl<B: AsMut<[u8]> + Send + 'static> Service<B> {
    /// Starts a thread with room for `depth` requests.
    pub fn start(depth: usize, make: MakeCipher<B>, pin: Pin) -> std::io::Result<Self> {
        let hung = Vec::new();
        let mut service = Self { make, pin, depth, life: None, hung, looked: Instant::ZERO };
        service.spawn()?;
        Ok(service)
    }

    fn spawn(&mut self) -> std::io::Result<()> {
        let (commands, commands_out) = RingBuffer::new(COMMANDS);
        let (work, work_out) = RingBuffer::new(self.depth);
        let (done_in, done) = RingBuffer::new(self.depth);
        let bell = Arc::new(Bell::default());
        let (cipher, pin) = ((self.make)(), self.pin.clone());
        let far = Far {
            commands: commands_out,
            work: work_out,
            done: done_in,
            bell: bell.clone(),
            hand: Requests::new(),
        };
        let name = "look-aside".to_owned();
        let handle = std::thread::Builder::new().name(name).spawn(move || {
            pin();
            far.live(cipher)
        })?;
        self.life = Some(Life { commands, work, done, bell, handle });
        Ok(())
    }
}

impl<B: AsMut<[u8]>> Far<B> {
    /// Works until the host is gone. If the cipher panics, the rest of the thread's
    /// requests.
    fn live(mut self, mut cipher: Box<dyn Cipher<B>>) -> Rest<B> {
        // After a panic nothing is used but requests, of which those in hand are
        // told apart.
        let ended = catch_unwind(AssertUnwindSafe(|| self.serve(&mut *cipher)));
        ended.is_err().then_some(self)
    }

    fn serve(&mut self, cipher: &mut dyn Cipher<B>) {
        let mut patience = Patience::default();
        loop {
            // A request is only taken after the commands that came before it.
            let count = self.work.slots().min(BATCH);
            while let Ok(command) = self.commands.pop() {
                cipher.obey(command);
            }
            if count > 0 {
                self.round(cipher, count);
                patience.worked();
                continue;
            }
            if self.is_over() {
                return;
            }
            if !patience.looks_again() {
                let begin = std::time::Instant::now();
                self.sleep();
                patience.slept(begin.elapsed());
            }
        }
    }

    /// Takes requests, works through them and gives them back.
    fn round(&mut self, cipher: &mut dyn Cipher<B>, count: usize) {
        if let Ok(chunk) = self.work.read_chunk(count) {
            self.hand.extend(chunk);
        }
        cipher.run(&mut self.hand);
        for request in self.hand.drain(..) {
            // There is room for as many as the host can have under way.
            if let Err(PushError::Full(_)) = self.done.push(request) {
                debug_assert!(self.done.is_abandoned(), "the ring of completions is full");
            }
        }
    }

    fn is_over(&self) -> bool {
        self.bell.stop.load(Ordering::SeqCst) || self.work.is_abandoned()
    }

    /// Sets the flag of sleep before it looks once more; a host with new work reads the
    /// flag afterwards.
    fn sleep(&self) {
        self.bell.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.work.is_empty() && self.commands.is_empty() && !self.is_over() {
            std::thread::park_timeout(SLEEP_MAX);
        }
        self.bell.asleep.store(false, Ordering::SeqCst);
    }
}

impl<B: AsMut<[u8]> + Send + 'static> Device<B> for Service<B> {
    fn accepts(&self, spec: &KeySpec) -> Result<(), InstallError> {
        spec.check()
    }

    fn command(&mut self, command: Command) -> Result<(), Command> {
        let Some(life) = &mut self.life else { return Err(command) };
        life.commands.push(command).map_err(|PushError::Full(command)| command)?;
        life.bell.ring(life.handle.thread());
        Ok(())
    }

    fn push(&mut self, _now: Instant, requests: &mut Requests<B>) {
        let Some(life) = &mut self.life else { return };
        let count = life.work.slots().min(requests.len());
        if let Ok(chunk) = life.work.write_chunk_uninit(count) {
            chunk.fill_from_iter(requests.drain(..count));
        }
    }

    fn ring(&mut self, _now: Instant) {
        if let Some(life) = &self.life {
            life.bell.ring(life.handle.thread());
        }
    }

    fn pop(&mut self, now: Instant, done: &mut Requests<B>) {
        self.looked = now;
        let Some(life) = &mut self.life else { return };
        let count = life.done.slots().min(done.remaining_capacity());
        if let Ok(chunk) = life.done.read_chunk(count) {
            done.extend(chunk);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.looked + LOOK_EVERY)
    }

    fn is_alive(&self) -> bool {
        self.life.as_ref().is_some_and(|life| !life.handle.is_finished())
    }

    fn abandon(&mut self, _now: Instant, salvaged: &mut Vec<Request<B>>) {
        let Some(life) = self.life.take() else { return };
        life.bell.stop.store(true, Ordering::SeqCst);
        life.handle.thread().unpark();
        if !life.handle.is_finished() {
            self.hung.push(life.handle);
            return;
        }
        // Completed requests were taken before; others may have come before the panic.
        let mut done = life.done;
        while let Ok(request) = done.pop() {
            salvaged.push(request);
        }
        if let Ok(Some(mut rest)) = life.handle.join() {
            salvaged.extend(rest.hand.drain(..).map(|mut request| {
                request.verdict = Verdict::Failed;
                request
            }));
            salvaged.extend(std::iter::from_fn(|| rest.work.pop().ok()));
        }
    }

    fn start(&mut self, _now: Instant) -> bool {
        self.hung.retain(|handle| !handle.is_finished());
        self.hung.len() < HUNG_MAX && self.spawn().is_ok()
    }
}

impl<B> Drop for Service<B> {
    fn drop(&mut self) {
        let Some(life) = self.life.take() else { return };
        life.bell.stop.store(true, Ordering::SeqCst);
        life.handle.thread().unpark();
        // Until its keys are wiped; one that hangs is left behind.
        let begin = std::time::Instant::now();
        while !life.handle.is_finished() && begin.elapsed() < END_WAIT {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}
