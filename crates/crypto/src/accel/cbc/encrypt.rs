//! AES-CBC encryption of sixteen packets side by side (SP 800-38A section 6.2).
//!
//! ```text
//!   round key r      [ lane 0 │ lane 1 │ … │ lane 15 ]   a row for each round
//!   chain            [ C      │ C      │ … │ C       ]
//!                       └ XOR the next block of the lane's text ─▶ rounds ─▶ C
//! ```
//!
//! Four blocks fill a zmm register, two a ymm register; all sixteen are enough
//! chains to keep every AES unit busy while each waits for its own last round.

use super::key::{Form, Schedule, wipe};
use super::{Aes, IDLE, LANES, Order, Packet, Packets};
use crate::backend::parts::{BLOCK, nonce_block};
use std::arch::x86_64::*;

/// Blocks that a lane without a packet may write at a time.
const SPARE_BLOCKS: u32 = 96;

/// Scratch blocks that lanes without a packet read and write.
type Spare = [[u8; BLOCK]; SPARE_BLOCKS as usize];

#[repr(C, align(64))]
struct Lanes {
    keys: [[u128; LANES]; super::key::ROUND_KEYS_MAX],
    chain: [u128; LANES],
    at: [*mut u8; LANES],
    left: [u32; LANES],
    /// Key whose round keys are loaded in the lane.
    key: [*const super::Key; LANES],
}

/// Encrypts the packets named, whose keys are of this size.
pub(super) fn run(form: Form, aes: Aes, packets: &mut Packets<'_>, order: &Order) {
    match order[..] {
        [] => return,
        [at] => return alone(aes, &mut packets[at as usize]),
        _ => {}
    }
    let mut spare: Spare = [[0; BLOCK]; SPARE_BLOCKS as usize];
    let mut lanes = Lanes::new();
    let mut queue = order.iter();
    let mut busy = 0;
    for lane in 0..LANES {
        let Some(&at) = queue.next() else { break };
        lanes.take(lane, aes, packets, at);
        busy += 1;
    }
    let used = busy;
    let width = match used {
        0..=4 => Width::Four,
        5..=8 => Width::Eight,
        _ => Width::Sixteen,
    };
    while busy > 0 {
        let mut blocks = lanes.left.iter().copied().fold(IDLE, u32::min);
        if busy < width as usize {
            blocks = blocks.min(SPARE_BLOCKS);
            lanes.send_idle_to(&mut spare);
        }
        // SAFETY: each lane points to a text with at least so many blocks left, or to the
        // spare place; texts are borrowed for writing, apart from one another. The machine
        // has the form's instructions.
        unsafe { kernel(form, aes, &mut lanes, width, blocks as usize) };
        lanes.advance(blocks);
        for lane in 0..used {
            if lanes.left[lane] == 0 {
                match queue.next() {
                    Some(&at) => lanes.take(lane, aes, packets, at),
                    None => {
                        lanes.left[lane] = IDLE;
                        busy -= 1;
                    }
                }
            }
        }
    }
    wipe(&mut lanes.keys);
}

impl Lanes {
    fn new() -> Self {
        Self {
            keys: [[0; LANES]; super::key::ROUND_KEYS_MAX],
            chain: [0; LANES],
            at: [std::ptr::null_mut(); LANES],
            left: [IDLE; LANES],
            key: [std::ptr::null(); LANES],
        }
    }

    /// Puts a packet into a lane: its IV is the encrypted nonce, from a zero IV (SP 800-38A
    /// appendix C).
    fn take(&mut self, lane: usize, aes: Aes, packets: &mut Packets<'_>, at: u8) {
        let packet = &mut packets[at as usize];
        self.put_key(lane, aes, packet.key);
        let text = text_from_nonce(packet);
        self.chain[lane] = 0;
        self.left[lane] = (text.len() / BLOCK) as u32;
        self.at[lane] = text.as_mut_ptr();
    }

    #[inline(always)]
    fn put_key(&mut self, lane: usize, aes: Aes, key: &super::Key) {
        if std::ptr::eq(self.key[lane], key) {
            return;
        }
        self.key[lane] = key;
        for (row, key) in self.keys.iter_mut().zip(&key.seal()[..=rounds(aes)]) {
            row[lane] = *key;
        }
    }

    fn send_idle_to(&mut self, spare: &mut Spare) {
        let spare = spare.as_mut_ptr().cast();
        for (at, &left) in self.at.iter_mut().zip(&self.left) {
            if left == IDLE {
                *at = spare;
            }
        }
    }

    fn advance(&mut self, blocks: u32) {
        for (at, left) in self.at.iter_mut().zip(&mut self.left) {
            if *left != IDLE {
                *left -= blocks;
                *at = at.wrapping_add(blocks as usize * BLOCK);
            }
        }
    }
}

/// The text, its first block the one that is to become the IV.
#[inline(always)]
fn text_from_nonce<'a>(packet: &'a mut Packet<'_>) -> &'a mut [u8] {
    let text = &mut packet.parts.body[packet.parts.text..];
    if let Some(first) = text.first_chunk_mut() {
        *first = nonce_block(packet.nonce);
    }
    text
}

/// One packet without company: no lanes to fill and to wipe.
fn alone(aes: Aes, packet: &mut Packet<'_>) {
    let keys = packet.key.seal();
    let (blocks, _) = text_from_nonce(packet).as_chunks_mut();
    // SAFETY: a key has a form, and every form has AES.
    unsafe {
        match aes {
            Aes::Aes128 => xmm::<10>(keys, blocks),
            Aes::Aes256 => xmm::<14>(keys, blocks),
        }
    }
}

#[target_feature(enable = "aes")]
fn xmm<const ROUNDS: usize>(keys: &Schedule, blocks: &mut [[u8; BLOCK]]) {
    // SAFETY: each key has 16 octets.
    let key = |round: usize| unsafe { _mm_loadu_si128((&raw const keys[round]).cast()) };
    let mut chain = _mm_setzero_si128();
    for block in blocks {
        let block: *mut __m128i = block.as_mut_ptr().cast();
        // SAFETY: a block has 16 octets.
        let text = _mm_xor_si128(unsafe { _mm_loadu_si128(block) }, key(0));
        chain = _mm_xor_si128(chain, text);
        for round in 1..ROUNDS {
            chain = _mm_aesenc_si128(chain, key(round));
        }
        chain = _mm_aesenclast_si128(chain, key(ROUNDS));
        // SAFETY: as above.
        unsafe { _mm_storeu_si128(block, chain) };
    }
}

const fn rounds(aes: Aes) -> usize {
    match aes {
        Aes::Aes128 => 10,
        Aes::Aes256 => 14,
    }
}

/// Number of lanes the kernel works on.
#[derive(Clone, Copy)]
enum Width {
    Four = 4,
    Eight = 8,
    Sixteen = 16,
}

/// # Safety
///
/// Each of the first `width` lanes points to `blocks` blocks that may be
/// written, apart from those of every other lane, or of no packet.
unsafe fn kernel(form: Form, aes: Aes, lanes: &mut Lanes, width: Width, blocks: usize) {
    // SAFETY: as the caller promises, and by the form.
    unsafe {
        match (form.is_zmm(), aes, width) {
            (true, Aes::Aes128, Width::Four) => zmm::<1, 10>(lanes, blocks),
            (true, Aes::Aes128, Width::Eight) => zmm::<2, 10>(lanes, blocks),
            (true, Aes::Aes128, Width::Sixteen) => zmm::<4, 10>(lanes, blocks),
            (true, Aes::Aes256, Width::Four) => zmm::<1, 14>(lanes, blocks),
            (true, Aes::Aes256, Width::Eight) => zmm::<2, 14>(lanes, blocks),
            (true, Aes::Aes256, Width::Sixteen) => zmm::<4, 14>(lanes, blocks),
            (false, Aes::Aes128, Width::Four) => ymm::<2, 10>(lanes, blocks),
            (false, Aes::Aes128, Width::Eight) => ymm::<4, 10>(lanes, blocks),
            (false, Aes::Aes128, Width::Sixteen) => ymm::<8, 10>(lanes, blocks),
            (false, Aes::Aes256, Width::Four) => ymm::<2, 14>(lanes, blocks),
            (false, Aes::Aes256, Width::Eight) => ymm::<4, 14>(lanes, blocks),
            (false, Aes::Aes256, Width::Sixteen) => ymm::<8, 14>(lanes, blocks),
        }
    }
}

/// `GROUPS` times four lanes.
///
/// # Safety
///
/// As for [`kernel`]; the machine has AVX-512F and VAES.
#[target_feature(enable = "avx512f,vaes")]
unsafe fn zmm<const GROUPS: usize, const ROUNDS: usize>(lanes: &mut Lanes, blocks: usize) {
    let Lanes { keys, chain: chains, at, .. } = lanes;
    let mut chain = [_mm512_setzero_si512(); GROUPS];
    for (group, chain) in chain.iter_mut().enumerate() {
        // SAFETY: four lanes of the row.
        *chain = unsafe { _mm512_loadu_si512(chains[group * 4..].as_ptr().cast()) };
    }
    for block in 0..blocks {
        // SAFETY: the key rows have every group; each lane has this block.
        unsafe {
            for (group, chain) in chain.iter_mut().enumerate() {
                let lane = |i: usize| at[group * 4 + i].add(block * BLOCK).cast();
                let key = _mm512_load_si512(keys[0].as_ptr().add(group * 4).cast());
                let low = _mm256_loadu2_m128i(lane(1), lane(0));
                let high = _mm256_loadu2_m128i(lane(3), lane(2));
                let text = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
                *chain = _mm512_ternarylogic_epi64::<0x96>(*chain, text, key);
            }
            for row in &keys[1..ROUNDS] {
                for (group, chain) in chain.iter_mut().enumerate() {
                    let key = _mm512_load_si512(row.as_ptr().add(group * 4).cast());
                    *chain = _mm512_aesenc_epi128(*chain, key);
                }
            }
            for (group, chain) in chain.iter_mut().enumerate() {
                let lane = |i: usize| at[group * 4 + i].add(block * BLOCK).cast();
                let key = _mm512_load_si512(keys[ROUNDS].as_ptr().add(group * 4).cast());
                *chain = _mm512_aesenclast_epi128(*chain, key);
                _mm_storeu_si128(lane(0), _mm512_castsi512_si128(*chain));
                _mm_storeu_si128(lane(1), _mm512_extracti32x4_epi32::<1>(*chain));
                _mm_storeu_si128(lane(2), _mm512_extracti32x4_epi32::<2>(*chain));
                _mm_storeu_si128(lane(3), _mm512_extracti32x4_epi32::<3>(*chain));
            }
        }
    }
    for (group, chain) in chain.iter().enumerate() {
        // SAFETY: four lanes of the row.
        unsafe { _mm512_storeu_si512(chains[group * 4..].as_mut_ptr().cast(), *chain) };
    }
}

/// `GROUPS` times two lanes.
///
/// # Safety
///
/// As for [`kernel`]; the machine has AVX2 and VAES.
#[target_feature(enable = "avx2,vaes")]
unsafe fn ymm<const GROUPS: usize, const ROUNDS: usize>(lanes: &mut Lanes, blocks: usize) {
    let Lanes { keys, chain: chains, at, .. } = lanes;
    let mut chain = [_mm256_setzero_si256(); GROUPS];
    for (group, chain) in chain.iter_mut().enumerate() {
        // SAFETY: two lanes of the row.
        *chain = unsafe { _mm256_loadu_si256(chains[group * 2..].as_ptr().cast()) };
    }
    for block in 0..blocks {
        // SAFETY: the key rows have every group; each lane has this block.
        unsafe {
            for (group, chain) in chain.iter_mut().enumerate() {
                let lane = |i: usize| at[group * 2 + i].add(block * BLOCK).cast();
                let key = _mm256_load_si256(keys[0].as_ptr().add(group * 2).cast());
                let text = _mm256_loadu2_m128i(lane(1), lane(0));
                *chain = _mm256_xor_si256(*chain, _mm256_xor_si256(text, key));
            }
            for row in &keys[1..ROUNDS] {
                for (group, chain) in chain.iter_mut().enumerate() {
                    let key = _mm256_load_si256(row.as_ptr().add(group * 2).cast());
                    *chain = _mm256_aesenc_epi128(*chain, key);
                }
            }
            for (group, chain) in chain.iter_mut().enumerate() {
                let lane = |i: usize| at[group * 2 + i].add(block * BLOCK).cast();
                let key = _mm256_load_si256(keys[ROUNDS].as_ptr().add(group * 2).cast());
                *chain = _mm256_aesenclast_epi128(*chain, key);
                _mm256_storeu2_m128i(lane(1), lane(0), *chain);
            }
        }
    }
    for (group, chain) in chain.iter().enumerate() {
        // SAFETY: two lanes of the row.
        unsafe { _mm256_storeu_si256(chains[group * 2..].as_mut_ptr().cast(), *chain) };
    }
}

/// Encrypts up to sixteen texts of any length that begin with their IVs.
#[cfg(test)]
pub(super) fn with_ivs(form: Form, aes: Aes, keys: &[Box<super::Key>], texts: &mut [&mut [u8]]) {
    let mut lanes = Lanes::new();
    let mut spare: Spare = [[0; BLOCK]; SPARE_BLOCKS as usize];
    for (lane, (key, text)) in keys.iter().zip(texts.iter_mut()).enumerate() {
        let (iv, text) = text.split_first_chunk_mut().unwrap();
        lanes.put_key(lane, aes, key);
        lanes.chain[lane] = u128::from_ne_bytes(*iv);
        lanes.left[lane] = (text.len() / BLOCK) as u32;
        lanes.at[lane] = text.as_mut_ptr();
    }
    while lanes.left.iter().any(|&left| left != IDLE) {
        lanes.send_idle_to(&mut spare);
        let blocks = lanes.left.iter().copied().fold(SPARE_BLOCKS, u32::min);
        // SAFETY: each lane has as many blocks, or is in the spare place.
        unsafe { kernel(form, aes, &mut lanes, Width::Sixteen, blocks as usize) };
        lanes.advance(blocks);
        lanes.left.iter_mut().filter(|left| **left == 0).for_each(|left| *left = IDLE);
    }
}
