//! HMAC of many packets side by side (RFC 2104, truncated as RFC 2404 and
//! RFC 4868 say).
//!
//! ```text
//!   inner state ─▶ head ─▶ middle ─▶ tail ─▶ digest ─▶ outer state ─▶ last ─▶ ICV
//!                  block   blocks    1 or 2            after the      block
//!                  with    in the    blocks:           outer pad
//!                  what    packet    rest, padding
//!                  is not  itself
//!                  in it
//! ```
//!
//! A lane is somewhere in this row. All lanes go on by as many blocks as the one
//! has that is next to come to an end; that one then takes its next step. Head,
//! tail and last block are put together in the lane's own room. The states after
//! the two pads are ready in the key.

use super::key::{Form, wipe};
use super::sha1::Sha1;
use super::sha256::Sha256;
use super::{IDLE, LANES, Mac, Order, Packet, Packets};
use crate::job::{Op, Verdict};

/// Octets of a hash block.
const BLOCK: usize = 64;

/// Octets at the end of the last block: the length in bits.
const LENGTH: usize = 8;

/// A hash state; SHA-1 uses the first five.
pub(super) type Words = [u32; 8];

/// States of all lanes, word by word.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(super) struct States<const L: usize>(pub [[u32; L]; 8]);

/// A hash function over blocks of 64 octets.
pub(super) trait Hash {
    /// State before the first block.
    const START: Words;
    /// Words of the digest.
    const WORDS: usize;
    /// Number of busy lanes up to which two at a time are faster than sixteen.
    const FEW: usize;

    /// Sixteen lanes go on by `blocks` blocks.
    ///
    /// # Safety
    ///
    /// The machine has AVX-512F and BW; each pointer is good for so many blocks.
    unsafe fn sixteen(states: &mut States<LANES>, at: &[*const u8; LANES], blocks: usize);

    /// One lane, or two, go on by `blocks` blocks.
    ///
    /// # Safety
    ///
    /// The machine has the SHA instructions, SSSE3 and SSE4.1; each pointer is
    /// good for so many blocks.
    unsafe fn few<const M: usize>(
        states: [Words; M],
        at: [*const u8; M],
        blocks: usize,
    ) -> [Words; M];
}

/// Writes the ICVs of the packets to be sealed and compares those of the packets
/// to be opened.
pub(super) fn run(form: Form, mac: Mac, packets: &mut Packets<'_>, order: &Order) {
    // SAFETY: either form has AVX2.
    unsafe {
        match (mac, form.is_zmm() && order.len() > 2) {
            _ if order.is_empty() => {}
            (Mac::HmacSha1_96, true) => run_in::<Sha1, LANES>(packets, order),
            (Mac::HmacSha1_96, false) => run_in::<Sha1, 2>(packets, order),
            (Mac::HmacSha256_128, true) => run_in::<Sha256, LANES>(packets, order),
            (Mac::HmacSha256_128, false) => run_in::<Sha256, 2>(packets, order),
        }
    }
}

/// `L` is `LANES` only where the form is zmm.
#[target_feature(enable = "avx2")]
fn run_in<H: Hash, const L: usize>(packets: &mut Packets<'_>, order: &Order) {
    let mut lanes = Lanes::<L>::new::<H>();
    let mut queue = order.iter();
    for lane in 0..L {
        match queue.next() {
            Some(&at) => lanes.take::<H>(lane, packets, at),
            None => lanes.end(lane),
        }
    }
    while lanes.busy > 0 {
        let blocks = lanes.left.iter().copied().fold(IDLE, u32::min);
        let mut ended = lanes.go_on::<H>(blocks);
        while ended != 0 {
            let lane = ended.trailing_zeros() as usize;
            ended &= ended - 1;
            if lanes.step::<H>(lane, packets) {
                match queue.next() {
                    Some(&at) => lanes.take::<H>(lane, packets, at),
                    None => lanes.end(lane),
                }
            }
        }
    }
    wipe(&mut lanes.states.0);
    wipe(&mut lanes.digests);
}

/// Part of the message that a lane's blocks belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Head,
    Middle,
    Tail,
    Last,
    Idle,
}

#[repr(C, align(64))]
struct Lanes<const L: usize> {
    states: States<L>,
    /// The outer hash's block: an inner digest and its padding.
    digests: [[[u8; 4]; BLOCK / 4]; L],
    /// Scratch space for blocks that are assembled: a margin and two blocks.
    rooms: [[[u8; BLOCK]; 3]; L],
    at: [*const u8; L],
    left: [u32; L],
    stage: [Stage; L],
    packet: [u8; L],
    busy: usize,
}

impl<const L: usize> Lanes<L> {
    fn new<H: Hash>() -> Self {
        let mut padded = [[0; 4]; BLOCK / 4];
        padded[H::WORDS] = [0x80, 0, 0, 0];
        padded[BLOCK / 4 - 1] = ((BLOCK + H::WORDS * 4) as u32 * 8).to_be_bytes();
        Self {
            states: States([[0; L]; 8]),
            digests: [padded; L],
            rooms: [[[0; BLOCK]; 3]; L],
            at: [std::ptr::null(); L],
            left: [IDLE; L],
            stage: [Stage::Idle; L],
            packet: [0; L],
            busy: L,
        }
    }

    /// No packet is left for this lane.
    fn end(&mut self, lane: usize) {
        (self.left[lane], self.stage[lane]) = (IDLE, Stage::Idle);
        self.busy -= 1;
    }

    /// Every busy lane goes on by so many blocks. Returns which have none left,
    /// a bit for each.
    #[inline(always)]
    fn go_on<H: Hash>(&mut self, blocks: u32) -> u32 {
        let count = blocks as usize;
        if let Some((states, at)) = self.sixteen::<H>() {
            // SAFETY: there are sixteen lanes only where the form is zmm. Each
            // points to at least so many blocks of its packet or its room; those
            // without a packet point where a busy one does.
            unsafe { H::sixteen(states, at, count) };
        } else {
            self.by_twos::<H>(count);
        }
        let mut ended = 0;
        for (lane, (at, left)) in self.at.iter_mut().zip(&mut self.left).enumerate() {
            *left = if *left == IDLE { IDLE } else { *left - blocks };
            *at = at.wrapping_add(count * BLOCK);
            ended |= u32::from(*left == 0) << lane;
        }
        ended
    }

    /// The lanes for a vector of sixteen, if there are as many and that is faster.
    #[inline(always)]
    fn sixteen<H: Hash>(&mut self) -> Option<(&mut States<LANES>, &[*const u8; LANES])> {
        if L != LANES || self.busy <= H::FEW {
            return None;
        }
        if self.busy < L {
            let busy = self.left.iter().position(|&left| left != IDLE)?;
            let there = self.at[busy];
            for (at, &left) in self.at.iter_mut().zip(&self.left) {
                if left == IDLE {
                    *at = there;
                }
            }
        }
        // SAFETY: `L` is `LANES`, so it is the same type.
        let states = unsafe { &mut *(&raw mut self.states).cast::<States<LANES>>() };
        Some((states, self.at.as_slice().try_into().ok()?))
    }

    fn by_twos<H: Hash>(&mut self, blocks: usize) {
        let mut first = None;
        for lane in 0..L {
            if self.left[lane] == IDLE {
                continue;
            }
            match first.take() {
                None => first = Some(lane),
                Some(other) => self.few::<H, 2>([other, lane], blocks),
            }
        }
        if let Some(lane) = first {
            self.few::<H, 1>([lane], blocks);
        }
    }

    fn few<H: Hash, const M: usize>(&mut self, lanes: [usize; M], blocks: usize) {
        let (states, at) =
            (lanes.map(|lane| self.words::<H>(lane)), lanes.map(|lane| self.at[lane]));
        // SAFETY: a key exists only where the machine has the SHA instructions;
        // these lanes are busy and have so many blocks.
        let states = unsafe { H::few(states, at, blocks) };
        for (lane, words) in lanes.into_iter().zip(&states) {
            self.put_words::<H>(lane, words);
        }
    }

    #[inline(always)]
    fn words<H: Hash>(&self, lane: usize) -> Words {
        let mut words = [0; 8];
        for (word, row) in words.iter_mut().zip(&self.states.0).take(H::WORDS) {
            *word = row[lane];
        }
        words
    }

    #[inline(always)]
    fn put_words<H: Hash>(&mut self, lane: usize, words: &Words) {
        for (row, word) in self.states.0.iter_mut().zip(words).take(H::WORDS) {
            row[lane] = *word;
        }
    }

    /// Puts a packet into a lane.
    #[inline(always)]
    fn take<H: Hash>(&mut self, lane: usize, packets: &Packets<'_>, at: u8) {
        self.packet[lane] = at;
        let packet = &packets[at as usize];
        self.put_words::<H>(lane, packet.key.inner());
        match head_len(packet) {
            0 => self.middle(lane, packet),
            len => self.head(lane, packet, len),
        }
    }

    /// The lane is at the end of its blocks. True if the packet is done.
    #[inline(always)]
    fn step<H: Hash>(&mut self, lane: usize, packets: &mut Packets<'_>) -> bool {
        let packet = &mut packets[self.packet[lane] as usize];
        match self.stage[lane] {
            Stage::Head => self.middle(lane, packet),
            Stage::Middle => self.tail(lane, packet),
            Stage::Tail => self.last::<H>(lane, packet),
            Stage::Last => {
                judge(&self.words::<H>(lane), packet);
                return true;
            }
            Stage::Idle => {}
        }
        false
    }

    fn set(&mut self, lane: usize, stage: Stage, at: *const u8, blocks: usize) {
        (self.stage[lane], self.at[lane], self.left[lane]) = (stage, at, blocks as u32);
    }

    /// Hashes one block made of the octets that are not in the packet and the first octets
    /// that are.
    #[cold]
    fn head(&mut self, lane: usize, packet: &Packet<'_>, len: usize) {
        let before = packet.parts.before;
        let [room, ..] = &mut self.rooms[lane];
        room[..before.len()].copy_from_slice(before);
        room[before.len()..].copy_from_slice(&packet.parts.body[..len]);
        let at = room.as_ptr();
        self.set(lane, Stage::Head, at, 1);
    }

    /// The blocks that are whole in the packet.
    #[inline(always)]
    fn middle(&mut self, lane: usize, packet: &Packet<'_>) {
        let blocks = &packet.parts.body[head_len(packet)..];
        let count = blocks.len() / BLOCK;
        if count == 0 {
            return self.tail(lane, packet);
        }
        self.set(lane, Stage::Middle, blocks.as_ptr(), count);
    }

    /// Hashes the remaining octets and the padding.
    #[inline(always)]
    fn tail(&mut self, lane: usize, packet: &Packet<'_>) {
        let (before, body, after) = (packet.parts.before, &packet.parts.body, packet.parts.after);
        let room = self.rooms[lane].as_flattened_mut();
        room[BLOCK..].fill(0);
        let mut end = BLOCK;
        match body.last_chunk::<BLOCK>() {
            // The last octets of the body, to where they end; in front of them, in the
            // margin, octets that are hashed already.
            Some(last) => {
                let rest = (body.len() - head_len(packet)) % BLOCK;
                room[rest..rest + BLOCK].copy_from_slice(last);
                end += rest;
            }
            // A short body with a head fills no block, or nothing is left.
            None => {
                let whole = head_len(packet);
                let before = if whole == 0 { before } else { &[] };
                for piece in [before, &body[whole..]] {
                    room[end..end + piece.len()].copy_from_slice(piece);
                    end += piece.len();
                }
            }
        }
        for octet in after {
            room[end] = *octet;
            end += 1;
        }
        room[end] = 0x80;
        let blocks = (end + 1 + LENGTH).div_ceil(BLOCK) - 1;
        let hashed = BLOCK + before.len() + body.len() + after.len();
        let length = &mut room[(blocks + 1) * BLOCK - LENGTH..][..LENGTH];
        length.copy_from_slice(&(hashed as u64 * 8).to_be_bytes());
        let at = room[BLOCK..].as_ptr();
        self.set(lane, Stage::Tail, at, blocks);
    }

    /// The outer hash: of the inner one's digest.
    #[inline(always)]
    fn last<H: Hash>(&mut self, lane: usize, packet: &Packet<'_>) {
        let digest = self.words::<H>(lane);
        let room = &mut self.digests[lane];
        for (to, word) in room.iter_mut().zip(&digest[..H::WORDS]) {
            *to = word.to_be_bytes();
        }
        let at = room.as_ptr().cast();
        self.put_words::<H>(lane, packet.key.outer());
        self.set(lane, Stage::Last, at, 1);
    }
}

/// Octets of the body that share the first block with `before`; none if that is empty, or
/// if all of it does not fill a block.
fn head_len(packet: &Packet<'_>) -> usize {
    let (before, body) = (packet.parts.before.len(), packet.parts.body.len());
    if before == 0 || before + body < BLOCK { 0 } else { BLOCK - before }
}

/// Writes the ICV, or compares it in constant time.
fn judge(digest: &Words, packet: &mut Packet<'_>) {
    let icv = packet.parts.icv.as_chunks_mut::<4>().0;
    *packet.verdict = match packet.op {
        Op::Seal => {
            icv.iter_mut().zip(digest).for_each(|(to, word)| *to = word.to_be_bytes());
            Verdict::Done
        }
        Op::Open => {
            let wrong = icv
                .iter()
                .zip(digest)
                .fold(0, |wrong, (has, word)| wrong | (u32::from_be_bytes(*has) ^ word));
            // Only whether, not where, the ICV is wrong.
            if std::hint::black_box(wrong) == 0 { Verdict::Done } else { Verdict::BadIcv }
        }
    };
}
