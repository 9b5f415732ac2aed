//! AES-CBC with HMAC, and HMAC alone, many packets at a time (RFC 3602, RFC 2404,
//! RFC 4868).
//!
//! CBC encrypts the blocks of a packet one after the other, and a hash takes
//! them one after the other: a packet alone leaves most of the machine idle. So
//! sixteen packets go side by side, each in a lane with its own key, and a lane
//! that is done takes the next packet. Longest first, so that the last ones are
//! short and few lanes wait for them.
//!
//! ```text
//!   lane  0   ████████████████│██████│███
//!         1   ████████████│████████│████        a vector instruction works
//!         …                                     on one block of every lane
//!        15   ███████████│███████│███│██
//!
//!   1  seal   CBC        lanes of one key size            encrypt
//!   2  all    HMAC       lanes of one hash                hmac, sha1, sha256
//!   3  open   compare the ICV; only then CBC backwards    decrypt
//! ```
//!
//! Decryption is parallel within a packet and needs no lanes.
//!
//! Nothing here depends on a secret but the values in vectors: the choice of lanes, the
//! number of blocks and their addresses follow from the packets' lengths. The octets that a
//! lane leaves on the stack (round keys, hash states) are wiped.

mod decrypt;
mod encrypt;
mod hmac;
mod key;
mod sha1;
mod sha256;
#[cfg(all(test, unix))]
mod tests;

pub use key::{Form, Key};

use crate::backend::parts::Hashed;
use crate::engine::BATCH;
use crate::job::{Op, Verdict};
use crate::suite::{self, Suite};
use arrayvec::ArrayVec;

/// The key lengths that the kernels have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aes {
    Aes128,
    Aes256,
}

/// The keyed hashes that they have: those with blocks of 64 octets and instructions
/// of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mac {
    HmacSha1_96,
    HmacSha256_128,
}

impl Aes {
    const fn of(aes: suite::Aes) -> Option<Self> {
        match aes {
            suite::Aes::Aes128 => Some(Self::Aes128),
            suite::Aes::Aes192 => None,
            suite::Aes::Aes256 => Some(Self::Aes256),
        }
    }

    const fn key_len(self) -> usize {
        match self {
            Self::Aes128 => 16,
            Self::Aes256 => 32,
        }
    }
}

impl Mac {
    const fn of(mac: suite::Mac) -> Option<Self> {
        match mac {
            suite::Mac::HmacSha1_96 => Some(Self::HmacSha1_96),
            suite::Mac::HmacSha256_128 => Some(Self::HmacSha256_128),
            _ => None,
        }
    }

    const fn icv_len(self) -> usize {
        match self {
            Self::HmacSha1_96 => 12,
            Self::HmacSha256_128 => 16,
        }
    }
}

/// True if the kernels implement this suite.
pub const fn has(suite: Suite) -> bool {
    match suite {
        Suite::AesCbc(aes, mac) => Aes::of(aes).is_some() && Mac::of(mac).is_some(),
        Suite::Null(mac) => Mac::of(mac).is_some(),
        _ => false,
    }
}

/// Packets side by side.
const LANES: usize = 16;

/// Blocks left of a lane that has no packet.
const IDLE: u32 = u32::MAX;

/// One packet to seal or open.
pub struct Packet<'a> {
    /// Its two keys.
    pub key: &'a Key,
    /// Seal or open.
    pub op: Op,
    /// Input of the IV.
    pub nonce: &'a [u8; 12],
    /// Positions of the text and of the octets hashed; with a cipher the text is a whole
    /// number of blocks.
    pub parts: Hashed<'a>,
    /// Result, written by the kernel.
    pub verdict: &'a mut Verdict,
}

/// Up to a batch of packets.
pub type Packets<'a> = ArrayVec<Packet<'a>, BATCH>;

/// The packets that one kernel works on, longest first.
type Order = ArrayVec<u8, BATCH>;

/// Seals and opens in place, and gives each packet its verdict.
pub fn run(packets: &mut Packets<'_>) {
    let Some(form) = packets.first().map(|packet| packet.key.form()) else { return };
    let Work { encrypt, hash } = Work::of(packets);
    for (order, aes) in encrypt.iter().zip([Aes::Aes128, Aes::Aes256]) {
        encrypt::run(form, aes, packets, order);
    }
    for (order, mac) in hash.iter().zip([Mac::HmacSha1_96, Mac::HmacSha256_128]) {
        hmac::run(form, mac, packets, order);
    }
    for packet in packets.iter_mut() {
        if packet.op == Op::Open
            && *packet.verdict == Verdict::Done
            && let Some(aes) = packet.key.aes()
        {
            decrypt::run(aes, packet.key, &mut packet.parts);
        }
    }
}

/// Packets of a batch, sorted by kernel.
#[derive(Default)]
struct Work {
    encrypt: [Order; 2],
    hash: [Order; 2],
}

impl Work {
    fn of(packets: &Packets<'_>) -> Self {
        let mut longest_first: ArrayVec<u32, BATCH> = packets
            .iter()
            .enumerate()
            .map(|(at, packet)| !(packet.parts.body.len() as u32) << 8 | at as u32)
            .collect();
        longest_first.sort_unstable();
        let mut work = Self::default();
        for at in longest_first.into_iter().map(|key| key as u8) {
            let packet = &packets[at as usize];
            if packet.op == Op::Seal
                && let Some(aes) = packet.key.aes()
            {
                work.encrypt[usize::from(aes == Aes::Aes256)].push(at);
            }
            work.hash[usize::from(packet.key.mac() == Mac::HmacSha256_128)].push(at);
        }
        work
    }
}
