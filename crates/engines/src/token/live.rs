//! The line to a token in real time: a thread of its own, which waits for the
//! token so that no worker does.
//!
//! ```text
//!   worker ── rtrb: open, close, exchange ──▶ thread ─▶ Provider (shared, one
//!          ◀─ rtrb: exchange ───────────────            exchange at a time)
//! ```
//!
//! A profile slows the token down: the time of an exchange is the profile's, or the token's
//! own where that is longer.

use super::line::{Exchange, Line};
use super::profile::TokenProfile;
use super::provider::Provider;
use ferrule_base::{Duration, Instant};
use ferrule_crypto::Aes;
use rtrb::{Consumer, Producer, RingBuffer};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread};

/// Requests in the ring to the thread at most; more wait in front of it.
const REQUESTS: usize = 64;

/// Interval of looking for the end of an exchange that is overdue.
const LOOK_EVERY: Duration = Duration::from_micros(50);

/// A token that several workers share: one exchange at a time.
pub type Shared = Arc<Mutex<dyn Provider>>;

enum Request {
    Open(u32, Box<str>, Aes),
    Close(u32),
    Run(Box<Exchange>),
}

/// The line of one worker.
pub struct Live {
    to: Option<Producer<Request>>,
    from: Consumer<Box<Exchange>>,
    /// Requests that found no room in the ring: opening and closing of keys. No more than
    /// two for each key: a key that was not opened yet need not be closed.
    backlog: VecDeque<Request>,
    thread: Thread,
    handle: Option<JoinHandle<()>>,
    profile: TokenProfile,
    /// Expected end of the exchange under way.
    due: Option<Instant>,
    seen: Instant,
}

impl Live {
    /// Starts a thread for this token. `worker` tells the keys of several workers
    /// apart.
    pub fn start(token: Shared, profile: TokenProfile, worker: u8) -> std::io::Result<Self> {
        let (to, requests) = RingBuffer::new(REQUESTS);
        let (answers, from) = RingBuffer::new(2);
        let price = profile.clone();
        let serve = move || serve(&token, &price, worker, requests, answers);
        let handle = std::thread::Builder::new().name(format!("token-{worker}")).spawn(serve)?;
        Ok(Self {
            to: Some(to),
            from,
            backlog: VecDeque::new(),
            thread: handle.thread().clone(),
            handle: Some(handle),
            profile,
            due: None,
            seen: Instant::ZERO,
        })
    }

    fn send(&mut self, request: Request) {
        self.backlog.push_back(request);
        self.flush();
    }

    fn flush(&mut self) {
        let Some(to) = &mut self.to else { return };
        while let Some(request) = self.backlog.pop_front() {
            if let Err(rtrb::PushError::Full(request)) = to.push(request) {
                self.backlog.push_front(request);
                break;
            }
        }
        self.thread.unpark();
    }
}

impl Line for Live {
    fn open(&mut self, key: u32, label: &str, aes: Aes) {
        self.send(Request::Open(key, label.into(), aes));
    }

    fn close(&mut self, key: u32) {
        let unsent = |request: &Request| matches!(request, Request::Open(k, ..) if *k == key);
        match self.backlog.iter().rposition(unsent) {
            Some(at) => drop(self.backlog.remove(at)),
            None => self.send(Request::Close(key)),
        }
    }

    fn begin(&mut self, now: Instant, exchange: Box<Exchange>) -> Result<(), Box<Exchange>> {
        if self.due.is_some() {
            return Err(exchange);
        }
        self.seen = now;
        self.due = Some(now + self.profile.time(exchange.used));
        self.send(Request::Run(exchange));
        Ok(())
    }

    fn end(&mut self, now: Instant) -> Option<Box<Exchange>> {
        self.seen = now;
        if !self.backlog.is_empty() {
            self.flush();
        }
        let done = self.from.pop().ok()?;
        self.due = None;
        Some(done)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.due.map(|due| due.max(self.seen + LOOK_EVERY))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.to = None;
        self.thread.unpark();
        if let Some(handle) = self.handle.take() {
            let _ = handle.join();
        }
    }
}

/// The thread: until the line is dropped.
fn serve(
    token: &Mutex<dyn Provider>,
    profile: &TokenProfile,
    worker: u8,
    mut requests: Consumer<Request>,
    mut answers: Producer<Box<Exchange>>,
) {
    let number = |key: u32| u32::from(worker) << 16 | key;
    let lock = || token.lock().unwrap_or_else(PoisonError::into_inner);
    // Keys that could not be opened, which is tried again when they are asked for.
    let mut closed: HashMap<u32, (Box<str>, Aes)> = HashMap::new();
    let mut open: Vec<u32> = Vec::new();
    loop {
        match requests.pop() {
            Ok(Request::Open(key, label, aes)) => match lock().open(number(key), &label, aes) {
                Ok(()) => open.push(key),
                Err(_) => drop(closed.insert(key, (label, aes))),
            },
            Ok(Request::Close(key)) => {
                closed.remove(&key);
                open.retain(|k| *k != key);
                lock().close(number(key));
            }
            Ok(Request::Run(mut exchange)) => {
                let key = exchange.key;
                let opened = match closed.get(&key) {
                    Some((label, aes)) => lock().open(number(key), label, *aes),
                    None => Ok(()),
                };
                match opened {
                    Err(e) => exchange.result = Err(e),
                    Ok(()) => {
                        if closed.remove(&key).is_some() {
                            open.push(key);
                        }
                        let mut token = lock();
                        let begun = std::time::Instant::now();
                        exchange.key = number(key);
                        exchange.run(&mut *token);
                        exchange.key = key;
                        // The token is busy for as long as the profile says.
                        let rest = profile.time(exchange.used).saturating_sub(begun.elapsed());
                        if !rest.is_zero() {
                            std::thread::sleep(rest);
                        }
                    }
                }
                let _ = answers.push(exchange);
            }
            Err(_) if requests.is_abandoned() => break,
            Err(_) => std::thread::park(),
        }
    }
    for key in open {
        lock().close(number(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::provider::TokenError;
    use crate::token::vault::Block;
    use std::sync::mpsc;

    /// Answers nothing until it may.
    struct Stuck(mpsc::Receiver<()>);

    impl Provider for Stuck {
        fn open(&mut self, _: u32, _: &str, _: Aes) -> Result<(), TokenError> {
            let _ = self.0.recv();
            Ok(())
        }
        fn close(&mut self, _: u32) {}
        fn ecb(&mut self, _: u32, _: &mut [Block]) -> Result<(), TokenError> {
            Ok(())
        }
    }

    #[test]
    fn requests_to_a_token_that_is_stuck_are_bounded_however_often_keys_change() {
        let (go, stuck) = mpsc::channel();
        let token = Arc::new(Mutex::new(Stuck(stuck)));
        let mut line = Live::start(token, TokenProfile::none(), 0).unwrap();
        for _ in 0..1000 {
            for key in 0..100 {
                line.open(key, "label", Aes::Aes128);
                line.close(key);
            }
        }
        assert!(line.backlog.len() <= 2 * 100, "{} wait", line.backlog.len());
        drop(go);
    }
}
