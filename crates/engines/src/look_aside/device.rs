//! Interface to the far end of a queue pair: a thread, a card, a GPU, a model.
//!
//! ```text
//!   host                                     device
//!   command ─▶ │ install 3 │ retire 1 │ ─▶    its own key table
//!   push ────▶ │ request │ request │ … ─▶     works, many at a time
//!   ring ────▶   doorbell
//!   pop ◀───── │ request │ request │ … ◀─     any order
//! ```
//!
//! A request owns the memory that the device works in ([`Memory`]). So memory that a device
//! may still write has no other owner, by type: if the device hangs, it keeps the memory
//! until it lets go.

use arrayvec::ArrayVec;
use ferrule_base::Instant;
use ferrule_crypto::engine::BATCH;
use ferrule_crypto::key::InstallError;
use ferrule_crypto::{Job, KeyId, KeySpec, Software};

/// Memory that a device can reach.
#[derive(Debug)]
pub enum Memory<B> {
    /// The packet's own: host and device share it.
    Shared(B),
    /// The device's: the packet was copied there, and stays with the host.
    Copied(Vec<u8>),
}

impl<B: AsMut<[u8]>> AsMut<[u8]> for Memory<B> {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Shared(buf) => buf.as_mut(),
            Self::Copied(octets) => octets,
        }
    }
}

/// A job as a device gets it. Its ticket is the host's; its key's slot is that of
/// the [`Command`] that installed it.
pub type Request<B> = Job<Memory<B>>;

/// Up to a batch of requests.
pub type Requests<B> = ArrayVec<Request<B>, BATCH>;

/// Key commands of the host. Commands and requests are two rings: a device carries out the
/// commands that it finds before it takes a request.
#[derive(Debug)]
pub enum Command {
    /// Keep this key, in this slot.
    Install(u32, Box<KeySpec>),
    /// Wipe the key in this slot. Its last request is back.
    Retire(u32),
}

/// An engine elsewhere, as its host sees it. Nothing here waits.
pub trait Device<B>: Send {
    /// Checks that the device has this suite and that the key fits it.
    fn accepts(&self, spec: &KeySpec) -> Result<(), InstallError>;

    /// Tells it about a key. Gives the command back if there is no room now.
    fn command(&mut self, command: Command) -> Result<(), Command>;

    /// Puts requests into its queue as far as there is room; the others stay.
    fn push(&mut self, now: Instant, requests: &mut Requests<B>);

    /// The doorbell: there is something in the queues.
    fn ring(&mut self, now: Instant);

    /// Appends requests that are done, in any order, as far as there is room.
    fn pop(&mut self, now: Instant, done: &mut Requests<B>);

    /// Time of the next poll while requests are under way; nothing if any time will do.
    fn poll_timeout(&self) -> Option<Instant>;

    /// False once it is certain that nothing will come any more.
    fn is_alive(&self) -> bool;

    /// Gives it up. Requests that it certainly does not touch any more are handed back:
    /// [pending](ferrule_crypto::Verdict::Pending) those that it never began, failed those
    /// that it did, with their verdict those that it completed last. Requests that it may
    /// still touch stay with it.
    fn abandon(&mut self, now: Instant, salvaged: &mut Vec<Request<B>>);

    /// Starts it afresh, without keys. False: not now.
    fn start(&mut self, now: Instant) -> bool;
}

/// Executor of requests at the far end: keys by slot, and slices of requests.
pub trait Cipher<B>: Send {
    /// Obeys a command.
    fn obey(&mut self, command: Command);

    /// Works through requests.
    fn run(&mut self, requests: &mut [Request<B>]);
}

/// The cipher of a device that is a processor: our own backends.
pub struct Own {
    software: Software,
    keys: Vec<Option<KeyId>>,
}

impl Own {
    /// Without keys.
    pub const fn new(software: Software) -> Self {
        Self { software, keys: Vec::new() }
    }

    /// The same without keys.
    #[must_use]
    pub fn without_keys(&self) -> Self {
        Self::new(Software::new(self.software.backend()))
    }

    /// Keys that it has.
    pub fn keys(&self) -> usize {
        self.software.keys()
    }

    fn wipe(&mut self, slot: usize) {
        if let Some(key) = self.keys.get_mut(slot).and_then(Option::take) {
            ferrule_crypto::Engine::<Vec<u8>>::retire(&mut self.software, key);
        }
    }
}

impl<B: AsMut<[u8]>> Cipher<B> for Own {
    fn obey(&mut self, command: Command) {
        match command {
            Command::Install(slot, spec) => {
                let slot = slot as usize;
                self.wipe(slot);
                if self.keys.len() <= slot {
                    self.keys.resize(slot + 1, None);
                }
                // The host asked before. Without key the slot's requests fail.
                let key = ferrule_crypto::Engine::<Vec<u8>>::install(&mut self.software, &spec);
                self.keys[slot] = key.ok();
            }
            Command::Retire(slot) => self.wipe(slot as usize),
        }
    }

    fn run(&mut self, requests: &mut [Request<B>]) {
        const NONE: KeyId = KeyId { slot: u32::MAX, generation: u32::MAX };
        for request in requests.iter_mut() {
            let key = self.keys.get(request.key.slot as usize).copied().flatten();
            request.key = key.unwrap_or(NONE);
        }
        self.software.run(requests);
    }
}
