//! AES-GCM over several packets at a time (SP 800-38D), with the vector
//! instructions of AES and of carry-less multiplication.
//!
//! ```text
//!   groups of 1 to 4 packets, each with a key, lengths and alignment of its own
//!
//!   four first counter blocks ───────── one vector ──▶ four masks of the ICV
//!   packet   text ▒▒▒▒ ▒▒▒▒ ▒▒▒▒ ▒▒░░   four blocks per vector:
//!              │    counter mode          cipher in place
//!              ▼    ciphertext × H^n      sums, not reduced
//!           lo mi hi                    ─┐
//!           lo mi hi  of four packets    ├▶ one vector each, + additional data,
//!           …                           ─┘   + lengths: one reduction for all
//!                                                       │ xor the masks
//!                                                       ▼
//!                                              four ICVs: written, or compared
//! ```
//!
//! A small packet costs a library that takes one packet at a time little cipher and much
//! waiting: for a chain of ten rounds, then for a chain of products and their reduction.
//! Here four packets share the beginning and the end, and their middles do not depend on
//! each other, so the processor works on all of them.
//!
//! - A text of more than 32 blocks is hashed in sections of 32, reduced after
//!   each: so 35 powers of H are enough for any length, and a key takes 832 octets.
//! - The last section's powers count from its end, so that the block of lengths
//!   always meets H and no text is padded to anything.
//! - Up to 254 blocks only the last octet of the counter differs: a counter block
//!   is one exclusive or. Longer texts (jumbo frames) count in 32 bits.
//! - An opened text is decrypted while it is hashed; if its ICV is wrong, it is
//!   zeros before the call returns. ICVs are compared as one vector. Nothing
//!   branches on, and no address depends on, a key or a text.
//!
//! Two widths: [`vaes512`](self) works on four blocks per instruction and masks the missing
//! part of a vector; [`vaes256`](self) on two, for machines without AVX-512.

mod hand;
mod schedule;
#[cfg(test)]
mod tests;
mod vaes256;
mod vaes512;

use crate::accel::prefetch;
use crate::job::{Op, Verdict};
use crate::suite::Aes;
use hand::Hand;
use schedule::Schedule;
use std::arch::x86_64::__cpuid;
use std::marker::PhantomData;
use std::sync::LazyLock;

pub use hand::{Group, Source};

/// Packets that are worked through together.
const GROUP: usize = 4;

/// Octets of an ICV, and of a block.
const BLOCK: usize = 16;

/// Octets of text that are hashed between two reductions.
const SECTION: usize = 32 * BLOCK;

/// The longest text whose counters differ in their last octet alone: they begin
/// with 2 (1 masks the ICV) and do not pass 255.
const SHORT: usize = 254 * BLOCK;

/// Implementation chosen by the machine's instructions: a value exists only on machines
/// that have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel(Width);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Vaes512(Multiplier),
    Vaes256,
}

/// Cost of a carry-less multiplication relative to a round of AES.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Multiplier {
    /// The same cost: Intel's.
    Fast,
    /// Four times the cost: AMD's, Zen 4 and 5.
    Slow,
}

impl Multiplier {
    /// Multiplier of this machine. CPUID runs once: in a virtual machine it costs as much as
    /// the rest of a key.
    fn of_this_machine() -> Self {
        static OF_THIS_MACHINE: LazyLock<Multiplier> = LazyLock::new(|| {
            let vendor = __cpuid(0);
            let amd = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes);
            if amd.as_flattened() == b"AuthenticAMD" { Multiplier::Slow } else { Multiplier::Fast }
        });
        *OF_THIS_MACHINE
    }
}

/// Names of the instructions that `Kernel::vaes256` needs.
pub const NEEDS_256: &str = "AVX2, VAES and VPCLMULQDQ";
/// Names of the instructions that `Kernel::vaes512` needs.
pub const NEEDS_512: &str = "AVX-512 (F, BW, DQ, VL), VAES and VPCLMULQDQ";

impl Kernel {
    /// Four blocks per instruction, if this machine can.
    pub fn vaes512() -> Option<Self> {
        let has = Self::vaes256().is_some()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        has.then(|| Self(Width::Vaes512(Multiplier::of_this_machine())))
    }

    /// The kernel with two blocks per instruction, if this machine can run it.
    pub fn vaes256() -> Option<Self> {
        let has = is_x86_feature_detected!("aes")
            && is_x86_feature_detected!("pclmulqdq")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("vaes")
            && is_x86_feature_detected!("vpclmulqdq");
        has.then_some(Self(Width::Vaes256))
    }
}

/// A key for a kernel: a handle to its schedule on the heap, which is wiped when it is
/// dropped.
pub struct Key {
    schedule: Box<Schedule>,
    kernel: Kernel,
    aes: Aes,
}

impl Key {
    /// Expands a key; nothing if it has not the cipher's length.
    pub fn new(kernel: Kernel, aes: Aes, key: &[u8]) -> Option<Self> {
        // SAFETY: a kernel is a proof of AES-NI and PCLMULQDQ, which came after SSE4.1.
        let schedule = unsafe { Schedule::new(aes, key) }?;
        Some(Self { schedule, kernel, aes })
    }

    /// Key size.
    #[inline]
    pub fn aes(&self) -> Aes {
        self.aes
    }

    /// Asks for the part of it that a text of so many octets will need.
    #[inline]
    pub fn prefetch(&self, text: usize) {
        prefetch(&*self.schedule, self.schedule.used_by(text));
    }

    /// The octet by which packets are put in order: those that are sealed with one kind of
    /// key, or opened, go to a kernel together, and so do in it those of one class of
    /// lengths.
    #[inline(always)]
    pub fn sort(&self, op: Op, text: u16) -> u8 {
        let kind = 2 * u8::from(op == Op::Open) + u8::from(self.aes != Aes::Aes128);
        kind << KIND | CLASSES[usize::from(text).div_ceil(BLOCK)]
    }

    /// Octets on the heap.
    pub fn heap_len(&self) -> usize {
        size_of::<Schedule>()
    }
}

/// Bit position of the job's kind (the one that a call of [`run`] is for) in a sort octet.
pub const KIND: u32 = 6;

/// The class of lengths of a text of so many blocks, up to the longest that a job can have:
/// packets of one class take about as long. Up to eight blocks it is their number, then that
/// of vectors of four; all that are longer than these are one class.
static CLASSES: [u8; BLOCKS_MAX + 1] = {
    const LAST: usize = (1 << KIND) - 1;
    let (mut classes, mut blocks) = ([LAST as u8; BLOCKS_MAX + 1], 0);
    while blocks < 4 * (LAST - 6) {
        classes[blocks] = (if blocks <= 8 { blocks } else { blocks.div_ceil(4) + 6 }) as u8;
        blocks += 1;
    }
    classes
};

/// Blocks of the longest text.
const BLOCKS_MAX: usize = (u16::MAX as usize).div_ceil(BLOCK);

/// A text, and behind it the ICV. (Two words: a group of packets is written and read
/// again for each four.)
pub struct Sealed<'a> {
    at: *mut u8,
    /// Octets of the text.
    len: usize,
    of: PhantomData<&'a mut [u8]>,
}

impl<'a> Sealed<'a> {
    /// A text and the room for its ICV, which are the last octets; nothing if they are too
    /// few for an ICV.
    #[inline(always)]
    pub fn new(octets: &'a mut [u8]) -> Option<Self> {
        let len = octets.len().checked_sub(BLOCK)?;
        Some(Self { at: octets.as_mut_ptr(), len, of: PhantomData })
    }

    /// Octets of the text.
    #[inline(always)]
    fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    fn as_mut_ptr(&mut self) -> *mut u8 {
        self.at
    }

    #[inline(always)]
    fn text(&mut self) -> &mut [u8] {
        // SAFETY: so many octets were lent, and more.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.len) }
    }

    #[inline(always)]
    fn icv(&mut self) -> &mut [u8; BLOCK] {
        // SAFETY: a block behind the text was lent, too.
        unsafe { &mut *self.at.add(self.len).cast() }
    }
}

/// One packet of a group.
pub struct Lane<'a> {
    /// Key of the packet.
    pub key: &'a Key,
    /// The nonce.
    pub nonce: &'a [u8; 12],
    /// Additional data: under the ICV, not encrypted.
    pub ad: &'a [u8],
    /// Text, encrypted or decrypted in place, with its ICV, written or compared.
    pub sealed: Sealed<'a>,
    /// Result, written by the kernel.
    pub verdict: &'a mut Verdict,
}

/// Seals or opens packets.
#[inline]
pub fn run<'a>(op: Op, source: &mut dyn Source<'a>) {
    let mut hand = Hand::new(source);
    let Some(first) = hand.group().lanes().first() else { return };
    let (kernel, aes) = (first.key.kernel, first.key.aes());
    // A key is for AES-128 or AES-256.
    // SAFETY: a kernel exists only where its instructions do.
    unsafe {
        match (kernel.0, op, aes) {
            (Width::Vaes512(m), Op::Seal, Aes::Aes128) => vaes512::run::<10, true>(&mut hand, m),
            (Width::Vaes512(m), Op::Open, Aes::Aes128) => vaes512::run::<10, false>(&mut hand, m),
            (Width::Vaes512(m), Op::Seal, _) => vaes512::run::<14, true>(&mut hand, m),
            (Width::Vaes512(m), Op::Open, _) => vaes512::run::<14, false>(&mut hand, m),
            (Width::Vaes256, Op::Seal, Aes::Aes128) => vaes256::run::<10, true>(&mut hand),
            (Width::Vaes256, Op::Open, Aes::Aes128) => vaes256::run::<10, false>(&mut hand),
            (Width::Vaes256, Op::Seal, _) => vaes256::run::<14, true>(&mut hand),
            (Width::Vaes256, Op::Open, _) => vaes256::run::<14, false>(&mut hand),
        }
    }
}
