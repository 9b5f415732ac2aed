//! The first packet that was refused for each reason that standards want auditable:
//! RFC 4301 section 5.2, RFC 4302 section 3.4, RFC 4303 sections 3.3.3 and 3.4, and
//! 802.1AE clause 10.7.
//!
//! One for each reason until they are taken: a flood costs a comparison a packet. Beside
//! them, the first packet of each entry of an access list that is to be logged.

use crate::classify::Direction;
use ferrule_base::{DropReason, Instant, PortId};
use ferrule_pipeline::Packet;

/// Octets that are kept of a packet: its headers.
const HEAD: usize = 96;

const FIRST: u8 = DropReason::MacsecUntagged as u8;
const LAST: u8 = DropReason::AhSequenceExhausted as u8;
/// Reasons from the first to the last, and fragments that come to IPsec.
const COUNT: usize = (LAST - FIRST) as usize + 2;
const _: () = assert!(COUNT <= 64, "a bit for each reason");

/// A packet that was refused.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Time of the drop.
    pub time: Instant,
    /// Reason of the drop.
    pub reason: DropReason,
    /// Port of arrival.
    pub port: PortId,
    /// The number of the outbound SA that it was for, where it was for one.
    pub sa: u32,
    /// First octets: an IP header, or Ethernet's where MACsec refused the packet.
    pub head: [u8; HEAD],
    /// Octets of it that are there.
    pub len: usize,
}

/// Entries of access lists that are logged at a time.
const LOGGED_MAX: usize = 16;

/// Packets that an entry of an access list had.
#[derive(Clone, Debug)]
pub struct Logged {
    /// The entry's counter.
    pub counter: u32,
    /// Direction of the packets.
    pub way: Direction,
    /// Number of packets.
    pub count: u64,
    /// Port at which the first of them arrived.
    pub port: PortId,
    /// First octets of that packet.
    pub head: [u8; HEAD],
    /// Octets of it that are there.
    pub len: usize,
}

/// Samples that were not taken yet.
#[derive(Clone, Debug)]
pub struct Audit {
    seen: u64,
    samples: Vec<Sample>,
    logged: Vec<Logged>,
}

impl Default for Audit {
    fn default() -> Self {
        let (samples, logged) = (Vec::with_capacity(COUNT), Vec::with_capacity(LOGGED_MAX));
        Self { seen: 0, samples, logged }
    }
}

/// First octets of a packet, from an offset on, and their number.
fn head(packet: &Packet, at: usize) -> ([u8; HEAD], usize) {
    let data = packet.data().get(at..).unwrap_or_default();
    let len = data.len().min(HEAD);
    let mut head = [0; HEAD];
    head[..len].copy_from_slice(&data[..len]);
    (head, len)
}

impl Audit {
    /// True if packets that are dropped for this reason are to be audited.
    pub const fn wants(reason: DropReason) -> bool {
        Self::bit(reason) != 0
    }

    /// Of a reason that is audited; zero for any other.
    #[inline]
    const fn bit(reason: DropReason) -> u64 {
        match reason {
            DropReason::EspDummy => 0,
            DropReason::FragmentNotSupported => 1 << (COUNT - 1),
            _ if FIRST <= reason as u8 && reason as u8 <= LAST => 1 << (reason as u8 - FIRST),
            _ => 0,
        }
    }

    /// Looks at a packet that is dropped.
    #[inline]
    pub fn note(&mut self, time: Instant, reason: DropReason, packet: &Packet) {
        let bit = Self::bit(reason);
        if bit & !self.seen != 0 {
            self.seen |= bit;
            self.keep(time, reason, packet);
        }
    }

    #[cold]
    fn keep(&mut self, time: Instant, reason: DropReason, packet: &Packet) {
        let (head, len) = head(packet, 0);
        let (port, sa) = (packet.meta().port, packet.meta().sa);
        self.samples.push(Sample { time, reason, port, sa, head, len });
    }

    /// Notes a packet of an entry that is logged, whose IP header is at `at`. Of more than 16 entries at a time the
    /// others are not.
    #[cold]
    pub fn log(&mut self, counter: u32, way: Direction, packet: &Packet, at: usize) {
        let same = |logged: &&mut Logged| logged.counter == counter && logged.way == way;
        if let Some(logged) = self.logged.iter_mut().find(same) {
            logged.count += 1;
        } else if self.logged.len() < LOGGED_MAX {
            let (port, (head, len)) = (packet.meta().port, head(packet, at));
            self.logged.push(Logged { counter, way, count: 1, port, head, len });
        }
    }

    /// Takes them: the next of each reason is kept again.
    pub fn take(&mut self, samples: &mut Vec<Sample>) {
        self.seen = 0;
        samples.append(&mut self.samples);
    }

    /// Takes the logged packets: the next packet of each entry is kept again.
    pub fn take_logged(&mut self) -> Vec<Logged> {
        self.logged.drain(..).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_pipeline::Pool;

    #[test]
    fn audit_keeps_the_first_of_each_reason_until_it_is_taken() {
        let mut cache = Pool::heap(4, 2048).cache();
        let mut packet = cache.packet().expect("a chunk");
        packet.append(300).expect("room").fill(7);
        let mut audit = Audit::default();
        use DropReason::{EspBadIcv, EspDummy, EspReplay, FragmentNotSupported};
        let reasons = [EspBadIcv, EspReplay, FragmentNotSupported, EspDummy];
        for second in 0..100 {
            for reason in reasons.into_iter().chain([DropReason::NoRoute, DropReason::CardDown]) {
                audit.note(Instant::from_secs(second), reason, &packet);
            }
        }
        for _ in 0..2 {
            let mut taken = Vec::new();
            audit.take(&mut taken);
            let found: Vec<_> = taken.iter().map(|s| s.reason).collect();
            assert_eq!(found, reasons[..3]);
            assert!(taken.iter().all(|s| s.len == HEAD && s.head == [7; HEAD]));
            reasons[..3].iter().for_each(|&reason| audit.note(Instant::ZERO, reason, &packet));
        }
    }
}
