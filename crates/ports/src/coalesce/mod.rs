//! Segments of one TCP flow that go to the host's stack become one super-frame.
//!
//! The stack then looks at one header instead of dozens. The rules are those of the
//! kernel's own generic receive offload: frames that are joined and cut again are the same
//! as before, and no error of a frame is hidden.
//!
//! ```text
//!   batch   a1 b1 a2 u a3 a4 b2        a, b: flows of TCP; u: anything else
//!   groups  [a1 a2 a3 a4] [b1 b2] [u]  in the order in which they were begun
//! ```
//!
//! A segment goes behind another one if it follows it by sequence number and IPv4
//! identification and is the same in every other field; only the last may be shorter
//! or have PSH, and it ends the group. Flags other than ACK and PSH, options of IPv4,
//! extension headers and a checksum that is wrong leave a frame as it is. A frame
//! joins the newest group of its flow alone, so order within a flow stays.
//!
//! With DF set the identification has no meaning (RFC 6864 section 4.1) and may also stay
//! the same; cut again it counts.

use crate::checksum::Transport;
use crate::offload::VnetHeader;
use ferrule_pipeline::{BATCH, Packet};
use ferrule_wire::checksum::checksum;

/// Flows that are joined at the same time, at most.
const OPEN_MAX: usize = 16;
/// Octets of an IP packet at most.
const IP_MAX: usize = 65535;

const TCP: u8 = 6;
const ACK: u8 = 0x10;
const PSH: u8 = 0x08;
const DONT_FRAGMENT: u16 = 0x4000;
/// No further one.
const END: u8 = u8::MAX;
const _: () = assert!(BATCH < END as usize);

/// Order in which a batch is written: groups of frames, each a list.
pub(crate) struct Coalescer {
    /// The frame behind each in its group.
    next: [u8; BATCH],
    /// The first frame of each group.
    heads: [u8; BATCH],
    groups: usize,
    open: [Open; OPEN_MAX],
    opened: usize,
}

/// A group that may grow.
#[derive(Clone, Copy)]
struct Open {
    head: u8,
    tail: u8,
    /// Position of the headers, which is the same in every frame.
    at: Transport,
    /// Octets of payload in the first segment.
    payload: usize,
    /// Octets of the IP packet so far.
    octets: usize,
    /// Sequence number that the next segment must have.
    sequence: u32,
    id: u16,
    step: Step,
    /// True if the first segment's checksums are right; not verified before a second
    /// segment arrives.
    good: Option<bool>,
    closed: bool,
}

/// Sequence of the IPv4 identification in a group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Not determined yet; with DF.
    Either,
    Counts,
    Stays,
}

const NONE: Open = Open {
    head: END,
    tail: END,
    at: Transport { ip: 0, at: 0, end: 0, protocol: 0, v6: false },
    payload: 0,
    octets: 0,
    sequence: 0,
    id: 0,
    step: Step::Either,
    good: None,
    closed: true,
};

/// A frame that could be part of a super-frame.
struct Segment<'a> {
    frame: &'a [u8],
    at: Transport,
    /// Octets in front of the payload.
    headers: usize,
    sequence: u32,
    id: u16,
    flags: u8,
}

/// Class of a frame, as far as order among frames depends on it.
enum Kind<'a> {
    Segment(Segment<'a>),
    /// TCP that is left alone: the frames of its flow stay behind it.
    Alone(Transport),
    /// Another protocol, or none.
    Other,
    /// A frame whose flow cannot be seen.
    Hidden,
}

impl Coalescer {
    pub(crate) const fn new() -> Self {
        Self {
            next: [END; BATCH],
            heads: [END; BATCH],
            groups: 0,
            open: [NONE; OPEN_MAX],
            opened: 0,
        }
    }

    /// Puts the frames of a batch into groups.
    pub(crate) fn arrange(&mut self, batch: &[Packet]) {
        (self.groups, self.opened) = (0, 0);
        for (i, packet) in batch.iter().enumerate().take(BATCH) {
            match Kind::of(packet.data()) {
                Kind::Segment(segment) => self.place(batch, i as u8, &segment),
                kind => {
                    match kind {
                        Kind::Alone(at) => self.close(batch, packet.data(), &at),
                        Kind::Hidden => self.opened = 0,
                        _ => {}
                    }
                    self.begin(i as u8);
                }
            }
        }
    }

    /// The same without joining anything.
    pub(crate) fn line_up(&mut self, batch: &[Packet]) {
        self.groups = 0;
        (0..batch.len().min(BATCH)).for_each(|i| self.begin(i as u8));
    }

    /// The groups: the numbers of their frames.
    pub(crate) fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        self.heads.iter().take(self.groups).map(|&at| Group { next: &self.next, at })
    }

    fn begin(&mut self, frame: u8) {
        self.heads[self.groups] = frame;
        self.next[usize::from(frame)] = END;
        self.groups += 1;
    }

    /// The newest group of a flow.
    fn find(&self, batch: &[Packet], frame: &[u8], at: &Transport) -> Option<usize> {
        let same = |open: &Open| {
            let first = batch.get(usize::from(open.head)).map(Packet::data);
            first.is_some_and(|first| same_flow(first, &open.at, frame, at))
        };
        self.open[..self.opened].iter().position(same)
    }

    fn close(&mut self, batch: &[Packet], frame: &[u8], at: &Transport) {
        if let Some(found) = self.find(batch, frame, at) {
            self.open[found].closed = true;
        }
    }

    fn place(&mut self, batch: &[Packet], frame: u8, segment: &Segment<'_>) {
        let found = self.find(batch, segment.frame, &segment.at);
        if let Some(found) = found
            && let Some(first) = batch.get(usize::from(self.open[found].head))
            && self.open[found].takes(first.data(), segment)
        {
            self.next[usize::from(self.open[found].tail)] = frame;
            self.next[usize::from(frame)] = END;
            self.open[found].tail = frame;
            return;
        }
        self.begin(frame);
        let at = found.unwrap_or_else(|| {
            // The oldest makes room: later frames of its flow begin a new group.
            if self.opened == OPEN_MAX {
                self.open.rotate_left(1);
            } else {
                self.opened += 1;
            }
            self.opened - 1
        });
        self.open[at] = Open::new(frame, segment);
    }
}

/// One group: the numbers of its frames, in order.
#[derive(Clone, Copy)]
pub(crate) struct Group<'a> {
    next: &'a [u8; BATCH],
    at: u8,
}

impl Iterator for Group<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let at = (self.at != END).then_some(usize::from(self.at))?;
        self.at = self.next[at];
        Some(at)
    }
}

impl Open {
    fn new(frame: u8, first: &Segment<'_>) -> Self {
        let fragment = first.fragment_field();
        Self {
            head: frame,
            tail: frame,
            at: first.at,
            payload: first.payload(),
            octets: first.frame.len() - first.at.ip,
            sequence: first.sequence.wrapping_add(first.payload() as u32),
            id: first.id,
            step: if fragment & DONT_FRAGMENT == 0 { Step::Counts } else { Step::Either },
            good: None,
            closed: first.flags & PSH != 0,
        }
    }

    /// True if the segment continues this group; it is then counted in.
    fn takes(&mut self, first: &[u8], segment: &Segment<'_>) -> bool {
        let payload = segment.payload();
        let follows = !self.closed
            && segment.sequence == self.sequence
            && payload <= self.payload
            && self.octets + payload <= IP_MAX
            && segment.is_like(first);
        let Some(step) = self.step(segment).filter(|_| follows) else { return false };
        if !*self.good.get_or_insert_with(|| verifies(first, &segment.at))
            || !verifies(segment.frame, &segment.at)
        {
            return false;
        }
        self.step = step;
        self.id = segment.id;
        self.octets += payload;
        self.sequence = self.sequence.wrapping_add(payload as u32);
        self.closed = payload < self.payload || segment.flags & PSH != 0;
        true
    }

    /// Step of the identification, if the segment fits the group.
    fn step(&self, segment: &Segment<'_>) -> Option<Step> {
        if segment.at.v6 {
            return Some(self.step);
        }
        let counts = segment.id == self.id.wrapping_add(1) && self.step != Step::Stays;
        let stays = segment.id == self.id && self.step != Step::Counts;
        match (counts, stays) {
            (true, _) => Some(Step::Counts),
            (_, true) => Some(Step::Stays),
            _ => None,
        }
    }
}

impl<'a> Kind<'a> {
    fn of(frame: &'a [u8]) -> Self {
        let Some(at) = Transport::find(frame) else {
            // Not IP, or IP whose ports cannot be seen.
            let ip = frame.get(12..14).is_some_and(|t| t != [0x08, 0x06]);
            return if ip { Self::Hidden } else { Self::Other };
        };
        if at.protocol != TCP {
            return Self::Other;
        }
        let Some(header) = frame.get(at.at..at.end).and_then(|tcp| tcp.first_chunk::<20>()) else {
            return Self::Hidden;
        };
        let (flags, urgent) = (header[13], [header[18], header[19]]);
        let headers = at.at + usize::from(header[12] >> 4) * 4;
        let plain = if at.v6 { at.at == at.ip + 40 } else { at.at == at.ip + 20 };
        let sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        if !plain
            || headers < at.at + 20
            || headers >= at.end
            || at.end != frame.len()
            || flags & !PSH != ACK
            || urgent != [0; 2]
            // A reserved bit of the flags.
            || header[12] & 0x0f != 0
        {
            return Self::Alone(at);
        }
        let id = if at.v6 { 0 } else { u16::from_be_bytes([frame[at.ip + 4], frame[at.ip + 5]]) };
        Self::Segment(Segment { frame, at, headers, sequence, id, flags })
    }
}

impl Segment<'_> {
    fn payload(&self) -> usize {
        self.frame.len() - self.headers
    }

    /// Flags and offset of IPv4; IPv6 is never cut on the way.
    fn fragment_field(&self) -> u16 {
        let ip = self.at.ip;
        if self.at.v6 { 0 } else { u16::from_be_bytes([self.frame[ip + 6], self.frame[ip + 7]]) }
    }

    /// The same as `first` in all that a super-frame says once.
    fn is_like(&self, first: &[u8]) -> bool {
        let (ip, at, frame) = (self.at.ip, self.at.at, self.frame);
        let same = |range: std::ops::Range<usize>| {
            first.get(range.clone()).is_some_and(|f| Some(f) == frame.get(range))
        };
        let network = if self.at.v6 {
            // Every field but the length.
            same(ip..ip + 4) && same(ip + 6..ip + 40)
        } else {
            // Every field but length, identification and checksum.
            same(ip..ip + 2) && same(ip + 6..ip + 10) && same(ip + 12..ip + 20)
        };
        // Every field but sequence number, flags and checksum.
        same(0..ip)
            && network
            && same(at..at + 4)
            && same(at + 8..at + 13)
            && same(at + 14..at + 16)
            && same(at + 18..self.headers)
    }
}

/// True if two frames of TCP have the same addresses and ports.
fn same_flow(first: &[u8], other: &Transport, frame: &[u8], at: &Transport) -> bool {
    let addresses = |t: &Transport| if t.v6 { t.ip + 8..t.ip + 40 } else { t.ip + 12..t.ip + 20 };
    other.v6 == at.v6
        && first.get(other.at..other.at + 4) == frame.get(at.at..at.at + 4)
        && first.get(addresses(other)) == frame.get(addresses(at))
}

/// True if the checksums of a segment are right.
fn verifies(frame: &[u8], at: &Transport) -> bool {
    let Some(packet) = frame.get(at.at..) else { return false };
    let header = frame.get(at.ip..at.at).is_some_and(|ip| at.v6 || checksum(ip) == 0);
    header && at.pseudo(frame, packet.len()).with(packet).is_good()
}

/// Makes the first frame of a group the head of a super-frame, which the payloads of the
/// others follow. Returns the offset of those, and the description. Nothing for a frame
/// that is no segment.
pub(crate) fn join(batch: &mut [Packet], group: Group<'_>) -> Option<(usize, VnetHeader)> {
    let (mut payloads, mut pushes) = (0, false);
    for at in group {
        let Kind::Segment(segment) = Kind::of(batch.get(at)?.data()) else { return None };
        payloads += segment.payload();
        pushes = segment.flags & PSH != 0;
    }
    let first = batch.get_mut({ group }.next()?)?.data_mut();
    let Kind::Segment(segment) = Kind::of(first) else { return None };
    let (at, headers, size) = (segment.at, segment.headers, segment.payload());
    let ip = headers - at.ip + payloads;
    if at.v6 {
        let len = u16::try_from(ip.checked_sub(40)?).ok()?;
        first[at.ip + 4..at.ip + 6].copy_from_slice(&len.to_be_bytes());
    } else {
        let len = u16::try_from(ip).ok()?;
        let header = first.get_mut(at.ip..at.at)?;
        header[2..4].copy_from_slice(&len.to_be_bytes());
        header[10..12].fill(0);
        let sum = checksum(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    first[at.at + 13] |= if pushes { PSH } else { 0 };
    let pseudo = !at.pseudo(first, headers - at.at + payloads).finish();
    first[at.at + 16..at.at + 18].copy_from_slice(&pseudo.to_be_bytes());
    Some((headers, VnetHeader::of_segments(at.v6, headers, size, at.at)?))
}

#[cfg(test)]
mod tests;
