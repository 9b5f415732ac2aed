//! EAPOL on its way to the MKA entity of a port: of whom, and how much.
//!
//! An MKPDU shows by its ICV that a member of the CAK made it, and by its number that it is new:
//! higher than all that were heard of that member. Both are asked of every one, whatever its
//! addresses say: an attacker on the wire can copy all else. That costs an ICV, as a forged frame
//! of data does, though AES-CMAC, which is serial, takes some five times as long as GCM does for as
//! short a frame. Then each takes a token of its kind:
//!
//! * *Of a live peer*, as the MKA entity has found it to be. Nobody without the CAK can make a
//!   new one, so no flood from outside reaches these tokens.
//! * *Of another member*, before a session. Recordings of its former lives, each new once, may be
//!   in its way, and end no session.
//! * *All else*: forged, heard before, other EAPOL. The entity is shown some of it, to tell people
//!   what is wrong.
//!
//! Tokens of the latter two are for all ports of the worker together, and at once half of what the
//! queue to the entities has room for; the rest is for live peers, as long as the control part turns
//! within a fifth of a second.

use crate::route::limit::Bucket;
use ferrule_base::{DropReason, Instant, Secret};
use ferrule_crypto::AesCmac;
use ferrule_wire::eapol::{self, BODY_AT, Kind};
use ferrule_wire::ethernet;
use ferrule_wire::mkpdu::{Basic, Ckn, ICV_LEN, Member};

/// MKPDUs of live peers that an MKA entity is given, in a second and at once: more than all of its
/// CAKs say.
const LIVE_RATE: u64 = 1024;
/// See [`LIVE_RATE`].
const LIVE_BURST: u64 = 64;

/// MKPDUs of other members that all MKA entities of a worker are given, in a second and at once,
/// and as much of other EAPOL.
const OTHER_RATE: u64 = 256;
/// See [`OTHER_RATE`].
const OTHER_BURST: u64 = 64;

/// Octets of an MKPDU at most: an ICV over more is asked of nobody.
const BODY_MAX: usize = 1500 - (BODY_AT - ethernet::Header::LEN);

/// Octets of an MKPDU without lists of peers at most, 16 for a peer, and peers that are to come.
const SETS_LEN: usize = 256;
/// See [`SETS_LEN`].
const PEER_LEN: usize = 16;
/// See [`SETS_LEN`].
const NEWCOMERS: usize = 8;

/// Members of a CAK that are not live peers and whose last number is known. Of more the first goes,
/// and what was recorded of it is new again.
const VOICES_MAX: usize = 64;

/// A participant of the port's MKA entity: what its members' messages are known by.
#[derive(Clone, Debug)]
pub struct ParticipantConfig {
    /// Name of the CAK.
    pub ckn: Ckn,
    /// Key of the ICVs.
    pub ick: Secret,
    /// Its live peers, with the last message of each.
    pub live: Vec<Member>,
}

/// A member, and its last authentic message.
struct Voice {
    last: Member,
    is_live: bool,
}

/// A participant.
struct Listener {
    ckn: Ckn,
    ick: Secret,
    mac: AesCmac,
    /// Each once. Room for all that may come is there from the beginning.
    voices: Vec<Voice>,
}

/// The participants of one port, and how much they are given.
pub(super) struct Hearing {
    listeners: Vec<Listener>,
    of_live: Bucket,
}

/// Tokens of a worker for EAPOL that is of no live peer.
pub(super) struct OtherEapol {
    of_members: Bucket,
    unproven: Bucket,
}

impl Default for OtherEapol {
    fn default() -> Self {
        let bucket = Bucket::new(OTHER_RATE, OTHER_BURST);
        Self { of_members: bucket, unproven: bucket }
    }
}

impl Default for Hearing {
    fn default() -> Self {
        Self { listeners: Vec::new(), of_live: Bucket::new(LIVE_RATE, LIVE_BURST) }
    }
}

/// Sender of an MKPDU, the octets under its ICV, and the ICV; nothing if it is no MKPDU, or longer
/// than one that every link carries.
fn read(frame: &[u8]) -> Option<(Basic, &[u8], &[u8])> {
    let (eapol, body) = eapol::Repr::parse(frame.get(ethernet::Header::LEN..)?).ok()?;
    let is_mkpdu = eapol.kind == Kind::MKA && body.len() <= BODY_MAX;
    let basic = Basic::parse(body).ok().filter(|_| is_mkpdu)?;
    // (Octets behind the body are the MAC's padding.)
    let (covered, icv) = frame.get(..BODY_AT + body.len())?.split_last_chunk::<ICV_LEN>()?;
    Some((basic, covered, icv))
}

impl Listener {
    /// A participant that may have heard some before; nothing with a key of no known length.
    fn new(config: &ParticipantConfig, mut before: Vec<Voice>) -> Option<Self> {
        let mut voices = Vec::with_capacity(config.live.len() + VOICES_MAX);
        for &last in &config.live {
            let known = before.iter().position(|voice| voice.last.mi == last.mi);
            let known = known.map_or(0, |at| before.remove(at).last.mn);
            let last = Member { mn: last.mn.max(known), ..last };
            voices.push(Voice { last, is_live: true });
        }
        // Peers that were live until now have spoken last.
        before.sort_by_key(|voice| voice.is_live);
        let too_many = before.len().saturating_sub(VOICES_MAX);
        let others = before.into_iter().skip(too_many);
        voices.extend(others.map(|voice| Voice { is_live: false, ..voice }));
        let mac = AesCmac::new(&config.ick)?;
        Some(Self { ckn: config.ckn, ick: config.ick.clone(), mac, voices })
    }

    /// Octets of a member's message as things stand.
    fn longest(&self) -> usize {
        let live = self.voices.iter().filter(|voice| voice.is_live).count();
        SETS_LEN + PEER_LEN * (live + NEWCOMERS)
    }

    /// True if nothing as late was heard of the sender.
    fn is_new(&self, from: Member) -> bool {
        let known = self.voices.iter().find(|voice| voice.last.mi == from.mi);
        from.mn > known.map_or(0, |voice| voice.last.mn)
    }

    /// Notes an authentic message; true if it is of a live peer.
    fn note(&mut self, from: Member) -> bool {
        if let Some(at) = self.voices.iter().position(|known| known.last.mi == from.mi) {
            self.voices[at].last = from;
            let is_live = self.voices[at].is_live;
            if !is_live {
                // Those that were silent for longest are forgotten first.
                self.voices[at..].rotate_left(1);
            }
            return is_live;
        }
        let others = || self.voices.iter().enumerate().filter(|(_, voice)| !voice.is_live);
        if others().count() >= VOICES_MAX
            && let Some((first, _)) = others().next()
        {
            self.voices.remove(first);
        }
        self.voices.push(Voice { last: from, is_live: false });
        false
    }
}

impl Hearing {
    /// Other participants, or other live peers of them. Numbers that were heard by the same key
    /// stay.
    pub fn follow(&mut self, configs: &[ParticipantConfig]) {
        let mut old = std::mem::take(&mut self.listeners);
        let follow = |config: &ParticipantConfig| {
            let is_same = |had: &Listener| had.ckn == config.ckn && had.ick.same_as(&config.ick);
            let known = old.iter().position(is_same);
            let known = known.map(|at| old.swap_remove(at).voices);
            Listener::new(config, known.unwrap_or_default())
        };
        self.listeners = configs.iter().filter_map(follow).collect();
    }

    /// Fate of a frame that came to the port with this SCI.
    pub fn admit(
        &mut self,
        now: Instant,
        own: u64,
        frame: &[u8],
        other: &mut OtherEapol,
    ) -> Result<(), DropReason> {
        let judged = self.judge(own, frame, || other.unproven.take(now));
        let (bucket, reason) = match judged {
            Ok(true) => (&mut self.of_live, DropReason::ControlQueueFull),
            Ok(false) => (&mut other.of_members, DropReason::ControlQueueFull),
            Err(reason) => (&mut other.unproven, reason),
        };
        if bucket.take(now) { Ok(()) } else { Err(reason) }
    }

    /// True for a new message of a live peer, false for one of another member; else why it is
    /// neither. Cheap questions come first; the ICV of a message that is longer than any is to be
    /// has its price in tokens.
    fn judge(
        &mut self,
        own: u64,
        frame: &[u8],
        pays: impl FnOnce() -> bool,
    ) -> Result<bool, DropReason> {
        let (basic, covered, icv) = read(frame).ok_or(DropReason::ControlQueueFull)?;
        let listener = self.listeners.iter_mut().find(|listener| listener.ckn == basic.ckn);
        let listener = listener.ok_or(DropReason::ControlQueueFull)?;
        if basic.sci.0 == own || !listener.is_new(basic.actor) {
            return Err(DropReason::MkaReplay);
        }
        if covered.len() > listener.longest() && !pays() {
            return Err(DropReason::ControlQueueFull);
        }
        if !listener.mac.is_tag(covered, icv) {
            return Err(DropReason::MkaForged);
        }
        Ok(listener.note(basic.actor))
    }
}
