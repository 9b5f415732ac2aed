//! A host with a service thread whose cipher can be told to fail, and the same
//! jobs done in software to compare with.

use ferrule_base::{Duration, Instant, Secret};
use ferrule_crypto::{
    Ad, Aes, Engine, Job, Jobs, KeyId, KeySpec, Mac, Op, Software, Span, Suite, Verdict,
};
use ferrule_engines::LookAside;
use ferrule_engines::look_aside::{Cipher, Command, Options, Own, Pin, Request, Service, Spares};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub type Buffer = Vec<u8>;
pub type Host = LookAside<Buffer, Service<Buffer>>;

/// Nothing is late unless a test says so.
pub const PATIENT: Options = Options {
    depth: 256,
    batch: 8,
    wait: Duration::ZERO,
    copies: 0,
    deadline: Duration::from_secs(60),
    on_failure: ferrule_engines::look_aside::Otherwise::Software,
    on_full: ferrule_engines::look_aside::Otherwise::Drop,
};

pub const GCM: Suite = Suite::AesGcm(Aes::Aes128);
pub const SUITES: [Suite; 3] =
    [GCM, Suite::ChaCha20Poly1305, Suite::AesCbc(Aes::Aes128, Mac::HmacSha1_96)];

/// Controls of the far end, for the test.
#[derive(Default)]
pub struct Hand {
    /// Requests that it works through before it fails; 0: it does not.
    pub fails_after: AtomicUsize,
    /// The far end hangs instead of dying, until `let_go`.
    pub hangs: AtomicBool,
    pub let_go: AtomicBool,
    /// Requests done, keys installed and wiped, in all lives.
    pub done: AtomicUsize,
    pub installed: AtomicUsize,
    pub retired: AtomicUsize,
    pub hung: AtomicUsize,
}

/// Our own cipher, with a hand on it.
struct Held(Own, Arc<Hand>);

impl Cipher<Buffer> for Held {
    fn obey(&mut self, command: Command) {
        match &command {
            Command::Install(..) => self.1.installed.fetch_add(1, Ordering::SeqCst),
            Command::Retire(_) => self.1.retired.fetch_add(1, Ordering::SeqCst),
        };
        Cipher::<Buffer>::obey(&mut self.0, command);
    }

    fn run(&mut self, requests: &mut [Request<Buffer>]) {
        let hand = &self.1;
        for request in requests {
            if hand.fails_after.load(Ordering::SeqCst) == 1 {
                // In the middle of a packet: some of it is written over.
                let octets = request.buf.as_mut();
                octets.iter_mut().step_by(2).for_each(|octet| *octet ^= 0xff);
                if !hand.hangs.load(Ordering::SeqCst) {
                    hand.fails_after.store(0, Ordering::SeqCst);
                    panic!("told to");
                }
                hand.hung.fetch_add(1, Ordering::SeqCst);
                while !hand.let_go.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                hand.hung.fetch_sub(1, Ordering::SeqCst);
            }
            let left = hand.fails_after.load(Ordering::SeqCst);
            hand.fails_after.store(left.saturating_sub(1), Ordering::SeqCst);
            Cipher::<Buffer>::run(&mut self.0, std::slice::from_mut(request));
            hand.done.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// A host, the controls of its far end, and the time that it is given.
pub struct Rig {
    pub host: Host,
    pub hand: Arc<Hand>,
    pub now: Instant,
    pub software: Software,
}

pub fn rig(options: Options) -> Rig {
    rig_with(options, Box::new(|| Some(Vec::new())))
}

pub fn rig_with(options: Options, spares: Spares<Buffer>) -> Rig {
    rig_at(options, spares, Arc::new(|| {}))
}

/// With a thread that is told where it runs.
pub fn rig_at(options: Options, spares: Spares<Buffer>, pin: Pin) -> Rig {
    let hand = Arc::new(Hand::default());
    let theirs = hand.clone();
    let make = move || Box::new(Held(Own::new(Software::default()), theirs.clone())) as _;
    let service = Service::start(options.depth, Box::new(make), pin).expect("a thread");
    let host = LookAside::new(service, options, Software::default(), spares);
    Rig { host, hand, now: Instant::from_secs(1), software: Software::default() }
}

pub fn spec(suite: Suite, octet: u8) -> KeySpec {
    let secret = |len| Secret::new(vec![octet; len]);
    KeySpec::new(suite, secret(suite.key_len()), secret(suite.mac_key_len()))
}

/// A packet to seal: 24 octets in front, the text, room for the ICV.
pub fn seal(suite: Suite, key: KeyId, ticket: u64, len: usize) -> Job<Buffer> {
    let text = Span::new(24, 16 + len.next_multiple_of(16));
    let mut buf: Vec<u8> = (0..text.end() + suite.icv_len()).map(|i| i as u8 ^ 0x5a).collect();
    buf[..8].copy_from_slice(&ticket.to_be_bytes());
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&ticket.to_be_bytes());
    let ad = Ad::Span(Span::new(0, 24));
    Job { buf, key, ticket, number: 0, nonce, op: Op::Seal, verdict: Verdict::Pending, ad, text }
}

impl Rig {
    /// Installs a key at both; the look-aside's and the software's.
    pub fn key(&mut self, suite: Suite, octet: u8) -> (KeyId, KeyId) {
        let spec = spec(suite, octet);
        let here = Engine::<Buffer>::install(&mut self.software, &spec).unwrap();
        (self.host.install(&spec).unwrap(), here)
    }

    /// The result of software with its own key.
    pub fn expected(&self, mut job: Job<Buffer>, key: KeyId) -> Buffer {
        job.key = key;
        self.software.run(std::slice::from_mut(&mut job));
        assert_eq!(job.verdict, Verdict::Done);
        job.buf
    }

    /// Collects until so many jobs are back, or nothing comes for five seconds.
    /// Virtual time goes on by `step` with each look.
    pub fn collect(&mut self, count: usize, step: Duration) -> Vec<Job<Buffer>> {
        let (mut back, mut since) = (Vec::new(), std::time::Instant::now());
        while back.len() < count {
            let mut done = Jobs::new();
            self.host.collect(self.now, &mut done);
            if !done.is_empty() {
                since = std::time::Instant::now();
            }
            back.extend(done);
            self.now += step;
            assert!(since.elapsed() < Duration::from_secs(5), "{} of {count} are back", back.len());
            std::thread::sleep(Duration::from_micros(20));
        }
        assert_eq!(back.len(), count);
        back
    }

    pub fn counter(&self, name: &str) -> u64 {
        let report = Engine::report(&self.host);
        let found = report[0].counters.iter().find(|(n, _)| *n == name);
        found.expect("a counter of that name").1
    }

    /// Waits until something is so.
    pub fn until(&self, what: &str, mut is: impl FnMut() -> bool) {
        let since = std::time::Instant::now();
        while !is() {
            assert!(since.elapsed() < Duration::from_secs(5), "{what}");
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}
