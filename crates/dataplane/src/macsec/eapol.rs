//! EAPOL on its way to the MKA entity of a port: classes of senders, and their rates.
//!
//! An MKPDU shows by its ICV that a member of the CAK made it, and by its number that it is new:
//! higher than every number heard of that member. Both are checked for every one, with any
//! addresses: an attacker on the wire can copy all else. That costs an ICV, as a forged frame of
//! data does, though AES-CMAC, which is serial, takes some five times as long as GCM does for as
//! short a frame. Then each takes a token of its kind:
//!
//! * *Of a live peer*, as the MKA entity has found it to be. Without the CAK
//!   it cannot be made anew, so no flood from outside reaches these tokens.
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

/// Octets of an MKPDU at most: no ICV is computed over more.
const MKPDU_MAX: usize = 1500 - (BODY_AT - ethernet::Header::LEN);

/// Longest MKPDU without its lists of peers, in octets.
const SETS_LEN: usize = 256;
/// Octets of a peer in these lists.
const PEER_LEN: usize = 16;
/// Peers in these lists, at most, that are no live peers here yet.
const NEWCOMERS: usize = 8;

/// Members of a CAK that are not live peers and whose last number is known. Of more the first goes,
/// and recorded messages of it are new again.
const OTHERS_MAX: usize = 64;

/// A participant of the port's MKA entity, with the key of its members' messages.
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
struct HeardMember {
    last: Member,
    is_live: bool,
}

/// A participant.
struct HeardParticipant {
    ckn: Ckn,
    ick: Secret,
    mac: AesCmac,
    /// Members, each once. Their number is bounded, and the room for them made at once.
    members: Vec<HeardMember>,
}

/// The participants of one port, and how much they are given.
pub(super) struct EapolFilter {
    participants: Vec<HeardParticipant>,
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

impl Default for EapolFilter {
    fn default() -> Self {
        Self { participants: Vec::new(), of_live: Bucket::new(LIVE_RATE, LIVE_BURST) }
    }
}

/// Sender of an MKPDU, the octets under its ICV, and the ICV; nothing if it is no MKPDU, or longer
/// than one that every link carries.
fn read(frame: &[u8]) -> Option<(Basic, &[u8], &[u8])> {
    let (eapol, body) = eapol::Repr::parse(frame.get(ethernet::Header::LEN..)?).ok()?;
    let is_mkpdu = eapol.kind == Kind::MKA && body.len() <= MKPDU_MAX;
    let basic = Basic::parse(body).ok().filter(|_| is_mkpdu)?;
    // (Octets behind the body are the MAC's padding.)
    let (covered, icv) = frame.get(..BODY_AT + body.len())?.split_last_chunk::<ICV_LEN>()?;
    Some((basic, covered, icv))
}

impl HeardParticipant {
    /// A participant that may have heard some members before; nothing if the key has a wrong length.
    fn new(config: &ParticipantConfig, mut before: Vec<HeardMember>) -> Option<Self> {
        let mut members = Vec::with_capacity(config.live.len() + OTHERS_MAX);
        for &last in &config.live {
            let known = before.iter().position(|member| member.last.mi == last.mi);
            let known = known.map_or(0, |at| before.remove(at).last.mn);
            let last = Member { mn: last.mn.max(known), ..last };
            members.push(HeardMember { last, is_live: true });
        }
        // Peers that were live until now have spoken last.
        before.sort_by_key(|member| member.is_live);
        let too_many = before.len().saturating_sub(OTHERS_MAX);
        let others = before.into_iter().skip(too_many);
        members.extend(others.map(|member| HeardMember { is_live: false, ..member }));
        let mac = AesCmac::new(&config.ick)?;
        Some(Self { ckn: config.ckn, ick: config.ick.clone(), mac, members })
    }

    /// Longest message that a member is expected to send, in octets.
    fn longest(&self) -> usize {
        let live = self.members.iter().filter(|member| member.is_live).count();
        SETS_LEN + PEER_LEN * (live + NEWCOMERS)
    }

    /// True if nothing as late was heard of the sender.
    fn is_new(&self, from: Member) -> bool {
        let known = self.members.iter().find(|member| member.last.mi == from.mi);
        from.mn > known.map_or(0, |member| member.last.mn)
    }

    /// Notes an authentic message; true if it is of a live peer.
    fn note(&mut self, from: Member) -> bool {
        if let Some(at) = self.members.iter().position(|known| known.last.mi == from.mi) {
            self.members[at].last = from;
            let is_live = self.members[at].is_live;
            if !is_live {
                // The members that were silent for longest are forgotten first.
                self.members[at..].rotate_left(1);
            }
            return is_live;
        }
        let others = || self.members.iter().enumerate().filter(|(_, member)| !member.is_live);
        if others().count() >= OTHERS_MAX
            && let Some((first, _)) = others().next()
        {
            self.members.remove(first);
        }
        self.members.push(HeardMember { last: from, is_live: false });
        false
    }
}

impl EapolFilter {
    /// Other participants, or other live peers of them. Numbers that were heard by the same key
    /// stay.
    pub fn follow(&mut self, configs: &[ParticipantConfig]) {
        let mut old = std::mem::take(&mut self.participants);
        let follow = |config: &ParticipantConfig| {
            let is_same =
                |had: &HeardParticipant| had.ckn == config.ckn && had.ick.same_as(&config.ick);
            let known = old.iter().position(is_same);
            let known = known.map(|at| old.swap_remove(at).members);
            HeardParticipant::new(config, known.unwrap_or_default())
        };
        self.participants = configs.iter().filter_map(follow).collect();
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

    /// True for a new message of a live peer, false for one of another member; else the reason to
    /// drop it. Cheap checks come first. A message longer than those of members takes a token
    /// before its ICV is computed.
    fn judge(
        &mut self,
        own: u64,
        frame: &[u8],
        pays: impl FnOnce() -> bool,
    ) -> Result<bool, DropReason> {
        let (basic, covered, icv) = read(frame).ok_or(DropReason::ControlQueueFull)?;
        let participant =
            self.participants.iter_mut().find(|participant| participant.ckn == basic.ckn);
        let participant = participant.ok_or(DropReason::ControlQueueFull)?;
        if basic.sci.0 == own || !participant.is_new(basic.actor) {
            return Err(DropReason::MkaReplay);
        }
        if covered.len() > participant.longest() && !pays() {
            return Err(DropReason::ControlQueueFull);
        }
        if !participant.mac.is_tag(covered, icv) {
            return Err(DropReason::MkaForged);
        }
        Ok(participant.note(basic.actor))
    }
}
