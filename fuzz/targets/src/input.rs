//! Octets taken from the front of an input; past its end there are zeros, so
//! every input means something.

/// Rest of an input.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// The whole of it.
    pub const fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    /// Nothing is left.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// An octet.
    pub fn u8(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// Two octets, the high one first.
    pub fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }

    /// Up to `count` octets.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// One of `choices`, which must not be empty.
    pub fn pick<'b, T>(&mut self, choices: &'b [T]) -> &'b T {
        &choices[usize::from(self.u8()) % choices.len()]
    }

    /// A few changes to `octets`: octets replaced, the end cut off, some added.
    pub fn alter(&mut self, octets: &mut Vec<u8>) {
        let how = self.u8();
        for _ in 0..how & 3 {
            let (at, value) = (usize::from(self.u16()), self.u8());
            if !octets.is_empty() {
                let at = at % octets.len();
                octets[at] = if how & 4 == 0 { value } else { octets[at] ^ 1 << (value & 7) };
            }
        }
        match how >> 4 {
            0 => octets.truncate(usize::from(self.u16()) % (octets.len() + 1)),
            1 => octets.extend_from_slice(self.take(usize::from(how & 0x0c) * 8)),
            _ => {}
        }
    }
}
