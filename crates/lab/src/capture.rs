//! Taps: the frames of a link as a capture file (pcapng, times in nanoseconds),
//! byte for byte the same for the same seed.

use crate::link::Direction;
use ferrule_base::Instant;
use ferrule_wire::capture::{self, Interface, Writer};

/// Octets that a tap keeps at most; frames after that are counted alone.
pub const TAP_OCTETS_MAX: usize = 1 << 30;

/// A capture that grows.
pub(crate) struct Tap {
    writer: Writer<Vec<u8>>,
    interfaces: [u32; 2],
    ends: [String; 2],
    octets: usize,
    missed: u64,
}

impl Tap {
    /// A capture of a link whose ends have these names.
    pub fn new(first: &str, second: &str) -> Self {
        const MEMORY: &str = "writing to memory does not fail";
        let mut writer = Writer::new(Vec::new(), "ferrule lab").expect(MEMORY);
        let mut interface = |from: &str, to: &str| {
            writer.interface(&Interface::ethernet(&format!("{from} > {to}")))
        };
        let interfaces =
            [interface(first, second).expect(MEMORY), interface(second, first).expect(MEMORY)];
        Self { writer, interfaces, ends: [first.into(), second.into()], octets: 0, missed: 0 }
    }

    /// Adds a frame.
    pub fn record(&mut self, now: Instant, direction: Direction, frame: &[u8]) {
        let interface = self.interfaces[usize::from(direction == Direction::Reverse)];
        let len = frame.len();
        if self.octets + len > TAP_OCTETS_MAX || len > capture::MAX_PACKET {
            self.missed += 1;
            return;
        }
        match self.writer.write(interface, now.as_nanos(), None, len as u32, frame, &[]) {
            Ok(()) => self.octets += len + 32,
            Err(_) => self.missed += 1,
        }
    }

    /// Frames captured since the last call, as a pcapng file of their own.
    pub fn take(&mut self) -> Vec<u8> {
        let fresh = Self::new(&self.ends[0], &self.ends[1]);
        std::mem::replace(self, fresh).writer.into_inner()
    }
}
