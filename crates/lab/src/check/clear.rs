//! Clear text: nothing that a host sends shows on an untrusted link.
//!
//! Every payload of a host carries a *mark*, octets that stand nowhere else. A
//! frame with the mark on a link that is marked `outside` left some node
//! unprotected: eight octets of cipher text are the mark by chance once in 2^64.

use memchr::memmem::Finder;

/// Looks for a mark in frames.
pub struct ClearText {
    finder: Finder<'static>,
    /// Frames looked at.
    pub looked_at: u64,
}

impl ClearText {
    /// For the frames of hosts that use this mark.
    pub fn new(mark: &[u8]) -> Self {
        Self { finder: Finder::new(mark).into_owned(), looked_at: 0 }
    }

    /// Position of the mark in a frame on an untrusted link.
    pub fn find(&mut self, frame: &[u8]) -> Option<usize> {
        self.looked_at += 1;
        self.finder.find(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_base::Rng;

    #[test]
    fn the_mark_is_found_wherever_it_stands_and_one_bit_hides_it() {
        let mark = *b"\xf3mark me";
        let mut check = ClearText::new(&mark);
        let mut frame = vec![0xaa; 1500];
        Rng::new(1).fill(&mut frame);
        assert_eq!(check.find(&frame), None);
        for at in [0, 14, 42, 733, 1500 - mark.len()] {
            let mut frame = frame.clone();
            frame[at..at + mark.len()].copy_from_slice(&mark);
            assert_eq!(check.find(&frame), Some(at));
            frame[at] ^= 1;
            assert_eq!(check.find(&frame), None);
        }
        assert_eq!(check.looked_at, 11);
    }
}
