//! Frames of a channel, sealed and opened one by one.
//!
//! ```text
//!   DA SA │ SecTAG │ user data: 88b5, the frame's number, filler │ ICV
//! ```
//!
//! Frames need not be right: one is drafted, its octets are changed, then it is sealed
//! as it stands, so that its ICV is good.

use ferrule_base::{MacAddr, Secret};
use ferrule_crypto::key::InstallError;
use ferrule_crypto::{Ad, Engine, Job, KeyId, KeySpec, Op, Software, Span, Verdict};
use ferrule_dataplane::macsec::state::Nonces;
use ferrule_dataplane::macsec::{Cipher, Xpn};
use ferrule_wire::sectag::{Channel, Header, ICV_LEN, Protection, Repr};
use ferrule_wire::{EtherType, Sci};

/// Octets of the addresses.
pub const MACS: usize = 12;
/// Octets in front of the SecTAG, with its EtherType.
pub const TAG_AT: usize = MACS + 2;
/// The EtherType of frames of the test: local experimental 1 of IEEE 802.
const TEST: [u8; 2] = [0x88, 0xb5];
/// Fewest octets of user data: EtherType and number.
pub const LEAST: usize = 6;

/// A key, and how it is used.
#[derive(Debug)]
pub struct Sa {
    engine: Software,
    key: KeyId,
    pub cipher: Cipher,
    pub xpn: Option<Xpn>,
    pub an: u8,
}

impl Sa {
    pub fn new(
        cipher: Cipher,
        an: u8,
        key: &Secret,
        xpn: Option<Xpn>,
    ) -> Result<Self, InstallError> {
        let mut engine = Software::default();
        let spec = KeySpec::new(cipher.suite, key.clone(), Secret::new(Vec::new()));
        let key = Engine::<Vec<u8>>::install(&mut engine, &spec)?;
        Ok(Self { engine, key, cipher, xpn, an })
    }

    /// Seals or opens `user` octets behind a SecTAG that ends at `at`; the ICV stands behind them.
    fn run(&self, op: Op, frame: Vec<u8>, (at, user): (usize, usize), how: How) -> Option<Vec<u8>> {
        let clear = if how.encrypted { user.min(self.cipher.offset.into()) } else { user };
        let mut jobs = [Job {
            buf: frame,
            key: self.key,
            ticket: 0,
            number: how.pn,
            nonce: Nonces::new(how.sci.0, self.xpn).nonce(how.pn),
            op,
            verdict: Verdict::Pending,
            ad: Ad::Span(Span::new(0, at + clear)),
            text: Span::new(at + clear, user - clear),
        }];
        self.engine.run(&mut jobs);
        let [job] = jobs;
        (job.verdict == Verdict::Done).then_some(job.buf)
    }

    /// The clear frame of one with a legal SecTAG and so much user data, if its ICV is good.
    pub fn open(&self, frame: &[u8], tag: &Header, user: usize, how: How) -> Option<Vec<u8>> {
        let at = TAG_AT + tag.tag_len();
        let opened = self.run(Op::Open, frame.to_vec(), (at, user), how)?;
        Some([opened.get(..MACS)?, opened.get(at..at + user)?].concat())
    }
}

/// Parts of a nonce, and whether the user data are encrypted.
#[derive(Clone, Copy, Debug)]
pub struct How {
    pub sci: Sci,
    pub pn: u64,
    pub encrypted: bool,
}

/// User data of a frame of the test.
pub fn data(number: u32, octets: usize) -> Vec<u8> {
    let filler = (0..octets.saturating_sub(LEAST)).map(|at| (at as u8) ^ 0x5a);
    TEST.into_iter().chain(number.to_be_bytes()).chain(filler).collect()
}

/// User data behind a VLAN tag.
pub fn data_in_vlan(vlan: u16, data: &[u8]) -> Vec<u8> {
    [&EtherType::VLAN.0.to_be_bytes()[..], &vlan.to_be_bytes(), data].concat()
}

/// The number of a clear frame of the test.
pub fn number(frame: &[u8]) -> Option<u32> {
    let data = frame.get(MACS..)?;
    let data = match data.strip_prefix(&EtherType::VLAN.0.to_be_bytes()) {
        Some(behind) => behind.get(2..)?,
        None => data,
    };
    Some(u32::from_be_bytes(*data.strip_prefix(&TEST)?.first_chunk()?))
}

/// True if a frame is this one; the MAC may have padded it.
pub fn is_same(frame: &[u8], clear: &[u8]) -> bool {
    frame.strip_prefix(clear).is_some_and(|rest| rest.iter().all(|octet| *octet == 0))
}

/// A frame that is not sealed yet.
pub struct Draft {
    pub tag: Repr,
    pub pn: u64,
    pub data: Vec<u8>,
}

/// A frame as it is sent, and as it has to come out.
#[derive(Clone, Debug)]
pub struct Sent {
    pub wire: Vec<u8>,
    pub clear: Vec<u8>,
}

impl Sent {
    /// With octets changed that are sealed.
    pub fn with(mut self, change: impl FnOnce(&mut Vec<u8>)) -> Self {
        change(&mut self.wire);
        self
    }
}

/// The station as a sender of frames.
pub struct Talker {
    pub sa: Sa,
    pub sci: Sci,
    pub dst: MacAddr,
    pub src: MacAddr,
    pub protection: Protection,
    /// The next packet number.
    pub next: u64,
    /// The last frame's number.
    pub count: u32,
}

impl Talker {
    /// A frame that keeps all rules.
    pub fn draft(&mut self, octets: usize) -> Draft {
        self.count += 1;
        self.next += 1;
        let channel = Channel::Explicit(self.sci);
        let (protection, an) = (self.protection, self.sa.an);
        let tag = Repr { channel, protection, an, short_len: 0, pn: 0 };
        Draft { tag, pn: self.next - 1, data: data(self.count, octets) }
    }

    /// A draft, sealed after a change of its octets.
    pub fn seal(&self, draft: Draft, change: impl FnOnce(&mut [u8])) -> Sent {
        let Draft { mut tag, pn, data } = draft;
        (tag.pn, tag.short_len) = (pn as u32, Repr::short_len(data.len()));
        let macs = [self.dst.0, self.src.0].concat();
        let mut wire = [&macs[..], &EtherType::MACSEC.0.to_be_bytes()].concat();
        wire.resize(TAG_AT + tag.len(), 0);
        tag.emit(&mut wire[TAG_AT..]);
        wire.extend(&data);
        wire.resize(wire.len() + ICV_LEN, 0);
        change(&mut wire);
        let how = How {
            sci: tag.channel.sci(self.src).unwrap_or(self.sci),
            pn,
            encrypted: tag.protection == Protection::Confidentiality,
        };
        let at = TAG_AT + tag.len();
        let wire = self.sa.run(Op::Seal, wire, (at, data.len()), how).unwrap_or_default();
        Sent { wire, clear: [macs, data].concat() }
    }

    /// A frame that keeps all rules, sealed.
    pub fn good(&mut self, octets: usize) -> Sent {
        self.forged(octets, |_| {}, |_| {})
    }

    /// A frame with something else in its tag, its octets changed before it is sealed.
    pub fn forged(
        &mut self,
        octets: usize,
        tag: impl FnOnce(&mut Draft),
        change: impl FnOnce(&mut [u8]),
    ) -> Sent {
        let mut draft = self.draft(octets);
        tag(&mut draft);
        self.seal(draft, change)
    }
}
