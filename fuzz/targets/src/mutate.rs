//! The mutator of the stable driver: it knows nothing of formats, only that
//! lengths, flags and ends of things are where mistakes live.

use ferrule_base::Rng;

/// Octets of the longest input that is made.
pub const INPUT_MAX: usize = 4096;

/// Numbers at which something changes.
const INTERESTING: [u32; 20] =
    [0, 1, 2, 4, 5, 7, 8, 15, 16, 20, 40, 47, 48, 0x7f, 0x80, 0xff, 1500, 0x7fff, 0xffff, u32::MAX];

/// A new input made from `corpus`, which must not be empty.
pub fn mutant(rng: &mut Rng, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut input = pick(rng, corpus).clone();
    // Now and then nothing of a seed is left.
    if rng.one_in(16) {
        input = vec![0; rng.below(128) as usize];
        rng.fill(&mut input);
    }
    for _ in 0..1 + rng.below(6) {
        change(rng, &mut input, corpus);
    }
    input.truncate(INPUT_MAX);
    input
}

fn pick<'a>(rng: &mut Rng, corpus: &'a [Vec<u8>]) -> &'a Vec<u8> {
    &corpus[rng.below(corpus.len() as u64) as usize]
}

/// A place in `input`; most are near its front, where headers are.
fn place(rng: &mut Rng, input: &[u8]) -> usize {
    let len = input.len().max(1) as u64;
    let near = if rng.one_in(2) { len } else { len.min(64) };
    rng.below(near) as usize
}

fn change(rng: &mut Rng, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
    let at = place(rng, input);
    match rng.below(9) {
        0 | 1 => {
            if let Some(octet) = input.get_mut(at) {
                *octet ^= 1 << rng.below(8);
            }
        }
        2 => {
            if let Some(octet) = input.get_mut(at) {
                *octet = rng.next_u64() as u8;
            }
        }
        3 => number(rng, input, at),
        4 => input.truncate(at),
        5 => {
            let count = rng.below(32) as usize;
            let end = (at + count).min(input.len());
            input.drain(at.min(end)..end);
        }
        6 => {
            let mut octets = vec![0; rng.below(16) as usize];
            rng.fill(&mut octets);
            input.splice(at.min(input.len())..at.min(input.len()), octets);
        }
        7 => {
            // The rest is another's.
            let other = pick(rng, corpus);
            let from = rng.below(other.len() as u64 + 1) as usize;
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        _ => input.extend_from_slice(pick(rng, corpus)),
    }
}

/// Writes a number at which something changes, in one, two or four octets.
fn number(rng: &mut Rng, input: &mut [u8], at: usize) {
    let value = INTERESTING[rng.below(INTERESTING.len() as u64) as usize];
    let width = [1, 2, 4][rng.below(3) as usize];
    let octets = if rng.one_in(4) { value.to_le_bytes() } else { value.to_be_bytes() };
    let octets = if octets[0] == 0 { &octets[4 - width..] } else { &octets[..width] };
    if let Some(place) = input.get_mut(at..at + width) {
        place.copy_from_slice(octets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn mutants_differ_stay_bounded_and_come_again_with_the_seed() {
        let corpus = [vec![1; 60], vec![2; INPUT_MAX], Vec::new()];
        let make = |seed| {
            let mut rng = Rng::new(seed);
            (0..500).map(|_| mutant(&mut rng, &corpus)).collect::<Vec<_>>()
        };
        let all = make(1);
        assert!(all.iter().all(|m| m.len() <= INPUT_MAX));
        assert!(all.iter().collect::<HashSet<_>>().len() > 400);
        assert_eq!(all, make(1));
        assert_ne!(all, make(2));
    }
}
