//! Payloads of hosts: the receiver knows every octet, and a mark shows wherever one of them stands
//! in clear.
//!
//! ```text
//!  datagram, echo │ mark 8 │ flow 4 │ number 8 │ time 8 │ mark mark mark …
//!  stream         │ mark 8 │ 56 octets by flow and block │ mark 8 │ …
//! ```

use ferrule_base::{Instant, Rng};

/// Stands at the front of every payload and again and again in it. A frame on an
/// untrusted link that has it was not encrypted.
pub const MARK: [u8; 8] = *b"\xf3FErRuLe";

/// Octets in front of the fill.
pub const HEAD: usize = 28;

/// Octets of a block of a stream.
const BLOCK: u64 = 64;
/// Half of 2^64 divided by the golden ratio, made odd: it spreads block numbers.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Fields at the front of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The traffic entry.
    pub flow: u32,
    /// Counted from 0.
    pub number: u64,
    /// When the schedule wanted it to leave.
    pub due: Instant,
}

impl Head {
    /// Writes a payload; `out` has [`HEAD`] octets at least, or nothing is written.
    pub fn fill(&self, out: &mut [u8]) {
        let Some((head, rest)) = out.split_first_chunk_mut::<HEAD>() else { return };
        let due = self.due.as_nanos().to_be_bytes();
        let parts = [&MARK[..], &self.flow.to_be_bytes(), &self.number.to_be_bytes(), &due];
        head.iter_mut().zip(parts.into_iter().flatten()).for_each(|(to, from)| *to = *from);
        for chunk in rest.chunks_mut(MARK.len()) {
            chunk.copy_from_slice(&MARK[..chunk.len()]);
        }
    }

    /// Reads a payload of this lab; nothing if an octet of it is not as it was.
    pub fn read(octets: &[u8]) -> Option<Self> {
        let (mark, rest) = octets.split_first_chunk::<8>()?;
        let (flow, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (due, fill) = rest.split_first_chunk()?;
        let whole = fill.chunks(MARK.len()).all(|chunk| MARK.starts_with(chunk));
        (*mark == MARK && whole).then_some(Self {
            flow: u32::from_be_bytes(*flow),
            number: u64::from_be_bytes(*number),
            due: Instant::from_nanos(u64::from_be_bytes(*due)),
        })
    }
}

/// Writes the octets of a flow's stream from `offset` on.
pub fn stream(flow: u32, offset: u64, out: &mut [u8]) {
    let mut block = [0; BLOCK as usize];
    let (mut at, mut rest) = (offset, out);
    while !rest.is_empty() {
        make_block(flow, at / BLOCK, &mut block);
        let from = &block[(at % BLOCK) as usize..];
        let len = from.len().min(rest.len());
        let (now, later) = rest.split_at_mut(len);
        now.copy_from_slice(&from[..len]);
        at += len as u64;
        rest = later;
    }
}

/// True if `octets` are those of a flow's stream from `offset` on.
pub fn is_stream(flow: u32, offset: u64, octets: &[u8]) -> bool {
    let mut block = [0; BLOCK as usize];
    let (mut at, mut rest) = (offset, octets);
    while !rest.is_empty() {
        make_block(flow, at / BLOCK, &mut block);
        let want = &block[(at % BLOCK) as usize..];
        let len = want.len().min(rest.len());
        let (now, later) = rest.split_at(len);
        if now != &want[..len] {
            return false;
        }
        at += len as u64;
        rest = later;
    }
    true
}

fn make_block(flow: u32, number: u64, out: &mut [u8; BLOCK as usize]) {
    let (mark, rest) = out.split_at_mut(MARK.len());
    mark.copy_from_slice(&MARK);
    Rng::new(number.wrapping_mul(SPREAD) ^ u64::from(flow)).fill(rest);
}

/// True if a host's payload can be read in a frame.
pub fn shows(frame: &[u8]) -> bool {
    let mut rest = frame;
    while let Some(at) = rest.iter().position(|&octet| octet == MARK[0]) {
        rest = &rest[at..];
        if rest.starts_with(&MARK) {
            return true;
        }
        rest = &rest[1..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lab_payload_reads_back_and_one_changed_bit_is_noticed() {
        let head = Head { flow: 7, number: 9, due: Instant::from_nanos(12_345) };
        for len in [HEAD, HEAD + 1, 954] {
            let mut octets = vec![0; len];
            head.fill(&mut octets);
            assert_eq!(Head::read(&octets), Some(head));
            assert_eq!(Head::read(&octets[..HEAD - 1]), None);
            assert!(shows(&octets));
            for bit in (HEAD * 8..len * 8).chain(0..8) {
                octets[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Head::read(&octets), None, "bit {bit}");
                octets[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn lab_stream_is_the_same_in_any_pieces_and_shows_in_any_long_one() {
        let mut whole = vec![0; 1000];
        stream(3, 0, &mut whole);
        for (from, len) in [(0, 10), (5, 100), (63, 2), (64, 64), (130, 870)] {
            let mut piece = vec![0; len];
            stream(3, from as u64, &mut piece);
            assert_eq!(piece, whole[from..from + len]);
            assert!(is_stream(3, from as u64, &piece));
            assert!(len < 16 || !is_stream(4, from as u64, &piece));
        }
        for piece in whole.windows(64 + 7) {
            assert!(shows(piece));
        }
        assert!(!shows(&[0xf3; 100]) && !shows(b"") && !shows(&MARK[..7]));
    }
}
