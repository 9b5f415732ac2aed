//! The frame as it stands on the wire: every header, in order, with who may read it.
//!
//! A stack is applied to a list of segments as the real data path is applied to bytes: each
//! transformation takes segments off the front, puts others on, marks what it protects.
//!
//! ```text
//! Ethernet 14 │ 802.1Q 4 │ IPv4 20 │ UDP 8 │ payload 954                    macsec sci
//! addresses 12 │ SecTAG 8 │ SCI 8 │ type 2 │ 802.1Q 4 │ IPv4 20 │ … │ ICV 16
//! ```
//!
//! Offsets are those of the wire: an Ethernet header of 14 octets ends with a type, so the four
//! octets of a VLAN tag behind it are tag control information and the type that follows.

use crate::error::StackError;
use crate::frame::{ETHERNET, Layer, PACKET_LEN_MAX, UserFrame};
use crate::front::{ESP_TRAILER, MACSEC_ICV, Part, header, labels, tag, vxlan};
use crate::line::FRAME_LEN_MIN;
use crate::segment::{Protection, Segment, SegmentKind};
use crate::suite::rules;
use crate::transform::{
    Ah, Esp, IpVersion, Macsec, Mode, Pseudowire, ServiceTag, TagKind, Transform,
};
use std::ops::Range;

const ETHERNET_KIND: SegmentKind = SegmentKind::Layer(Layer::Ethernet);

/// Effect of one transformation on the frame's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageCost {
    /// Octets put on.
    pub added: usize,
    /// Octets taken off.
    pub removed: usize,
    /// Octets of VLAN tags among those: the user loses the tags.
    pub removed_tags: usize,
    /// Octets of the frame afterwards, without FCS.
    pub len: usize,
}

impl StageCost {
    /// Growth of the frame.
    pub fn net(&self) -> isize {
        self.added.cast_signed() - self.removed.cast_signed()
    }

    /// Growth of the frame if it had kept its VLAN tags: the like-for-like figure.
    pub fn net_with_tags(&self) -> isize {
        self.net() + self.removed_tags.cast_signed()
    }
}

/// The frame behind the last transformation, and how it came about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Octets of the user's frame, without FCS.
    pub user_len: usize,
    /// Every run of octets, first on the wire first.
    pub segments: Vec<Segment>,
    /// One for each transformation.
    pub stages: Vec<StageCost>,
}

impl Layout {
    /// Octets on the wire, without FCS.
    pub fn wire_len(&self) -> usize {
        total(&self.segments)
    }

    /// Growth of the user's frame by all transformations together.
    pub fn overhead(&self) -> isize {
        self.wire_len().cast_signed() - self.user_len.cast_signed()
    }

    /// Octets that count against a line's MTU: what follows the Ethernet header and the VLAN
    /// tags directly behind it, which 802.3 clause 3.2.7 lets a frame have on top.
    pub fn mtu_len(&self) -> usize {
        packet_len(&self.segments)
    }

    /// Applies `transforms` to `frame`; the error names the stage at fault.
    pub(crate) fn build(frame: &UserFrame, transforms: &[Transform]) -> Result<Self, StackError> {
        Self::between_lines(frame, transforms, |_| false)
    }

    /// As [`Layout::build`], where a frame goes by an Ethernet line before each transformation
    /// that `by_line` names by its place: the line pads a short frame, and the padding stays in
    /// whatever takes the frame whole.
    pub(crate) fn between_lines(
        frame: &UserFrame,
        transforms: &[Transform],
        by_line: impl Fn(usize) -> bool,
    ) -> Result<Self, StackError> {
        let mut builder = Builder::new(frame);
        let mut stages = Vec::with_capacity(transforms.len());
        for (at, transform) in transforms.iter().enumerate() {
            if by_line(at) {
                builder.pad();
            }
            let cost = builder.apply(at + 1, transform).map_err(|error| error.in_stage(at + 1))?;
            stages.push(cost);
        }
        Ok(Self { user_len: frame.len(), segments: builder.segments, stages })
    }
}

fn total(segments: &[Segment]) -> usize {
    segments.iter().map(|segment| segment.bytes).sum()
}

/// Octets behind the Ethernet header and its tags.
fn packet_len(segments: &[Segment]) -> usize {
    let tags = segments.iter().skip(1).take_while(|segment| segment.kind.is_tag());
    total(segments) - ETHERNET - tags.map(|tag| tag.bytes).sum::<usize>()
}

/// The frame while transformations are applied to it.
struct Builder {
    segments: Vec<Segment>,
    stage: usize,
    removed: usize,
    removed_tags: usize,
    /// Padding ends the frame, and nothing has taken the frame whole since.
    padded: bool,
}

impl Builder {
    fn new(frame: &UserFrame) -> Self {
        let (segments, padded) = (Vec::new(), false);
        let mut builder = Self { segments, stage: 0, removed: 0, removed_tags: 0, padded };
        let headers: Vec<_> = frame.layers().iter().map(|&layer| header(layer)).collect();
        builder.append(&headers);
        builder.append(&[(SegmentKind::Payload, frame.payload())]);
        builder
    }

    /// Pads a short frame, as the line does that it goes by.
    fn pad(&mut self) {
        let missing = FRAME_LEN_MIN.saturating_sub(total(&self.segments));
        if missing > 0 {
            self.append(&[(SegmentKind::Padding, missing)]);
            self.padded = true;
        }
    }

    /// Takes padding off before an IP packet is taken by its own length, and leaves it in a frame
    /// that is taken whole (RFC 4448 section 4): a type says nothing of the payload's length, and
    /// so no receiver strips it (802.3 clause 4.2.9).
    fn settle_padding(&mut self, transform: &Transform) {
        if self.padded && transform.takes_packet() {
            let padding = |segment: &Segment| segment.kind == SegmentKind::Padding;
            let kept = self.segments.iter().rposition(|segment| !padding(segment));
            self.remove(kept.map_or(0, |at| at + 1)..self.segments.len());
        }
        self.padded &= matches!(transform, Transform::PushTag(_) | Transform::PopTag);
    }

    fn apply(&mut self, stage: usize, transform: &Transform) -> Result<StageCost, StackError> {
        (self.stage, self.removed, self.removed_tags) = (stage, 0, 0);
        let before = total(&self.segments);
        self.settle_padding(transform);
        match transform {
            Transform::Esp(esp) => self.esp(esp)?,
            Transform::Ah(ah) => self.ah(ah)?,
            Transform::Macsec(macsec) => self.macsec(macsec)?,
            Transform::Pseudowire(wire) => self.pseudowire(wire)?,
            Transform::L3vpn { labels: count } => {
                self.strip_to_ip("an L3VPN")?;
                self.insert(0, &labels(*count));
            }
            Transform::PushTag(kind) => self.insert(1, &[tag(*kind)]),
            Transform::PopTag => self.pop_tag()?,
            Transform::L2tpv3(l2tp) => self.insert(0, &l2tp.front()),
            Transform::Vxlan { outer } => self.insert(0, &vxlan(*outer)),
        }
        self.check_len()?;
        let len = total(&self.segments);
        let added = len + self.removed - before;
        Ok(StageCost { added, removed: self.removed, removed_tags: self.removed_tags, len })
    }

    fn esp(&mut self, esp: &Esp) -> Result<(), StackError> {
        let at = match esp.mode {
            Mode::Tunnel => self.strip_to_ip("ESP").map(|()| 0)?,
            Mode::Transport => self.ip_position("ESP")? + 1,
        };
        let text = total(&self.segments[at..]) + ESP_TRAILER;
        let padding = text.next_multiple_of(esp.suite.esp_align()) - text;
        self.append(&[(SegmentKind::EspPadding, padding), (SegmentKind::EspTrailer, ESP_TRAILER)]);
        let hides = !esp.suite.is_integrity();
        let mark = if hides { Protection::Encrypted } else { Protection::Authenticated };
        self.segments[at..].iter_mut().for_each(|segment| raise(segment, mark));
        let (_, icv_rule) = rules(esp.suite);
        self.append(&[(SegmentKind::EspIcv(icv_rule), esp.suite.icv_len())]);
        self.insert(at, &esp.front());
        // SPI, sequence number and IV are covered by the check value (RFC 4303 section 2.8).
        self.authenticate(at, |segment| {
            matches!(segment.kind, SegmentKind::EspHeader | SegmentKind::EspIv(_))
        });
        Ok(())
    }

    /// Adds AH. The check value covers the whole packet, except for the fields that routers change
    /// in the headers in front (RFC 4302 section 3.3.3); in a header that is covered in part a
    /// change is noticed or does not matter.
    fn ah(&mut self, ah: &Ah) -> Result<(), StackError> {
        if !ah.suite.is_integrity() {
            return Err(StackError::new(format!("AH hides nothing, so it has no `{}`", ah.suite)));
        }
        let ip = self.ip_position("AH")?;
        let v6 = self.segments[ip].kind == SegmentKind::Layer(Layer::Ipv6);
        let (at, behind) = match ah.mode {
            Mode::Tunnel => {
                self.strip_to_ip("AH")?;
                (0, ah.outer)
            }
            Mode::Transport => (ip + 1, if v6 { IpVersion::V6 } else { IpVersion::V4 }),
        };
        self.insert(at, &ah.front(behind));
        let (from, stage) = (self.ip_position("AH")?, self.stage);
        let icv = |kind| matches!(kind, SegmentKind::AhIcv(_));
        self.authenticate(from, |segment| segment.stage != stage || !icv(segment.kind));
        Ok(())
    }

    fn macsec(&mut self, macsec: &Macsec) -> Result<(), StackError> {
        self.require_unsealed()?;
        let tagged = self.segments.get(1).is_some_and(|segment| segment.kind.is_tag());
        if macsec.clear_vlan && !tagged {
            return Err(StackError::new("`clear-vlan` needs a VLAN tag and this frame has none")
                .with_help("add `vlan` to the frame, or leave `clear-vlan` out"));
        }
        // The type that ended the Ethernet header is user data now: behind the tag.
        let kept_front = 1 + usize::from(macsec.clear_vlan);
        let addresses = &mut self.segments[0];
        (addresses.kind, addresses.bytes) = (SegmentKind::MacAddresses, 12);
        let ether_type = Segment { kind: SegmentKind::EtherType, bytes: 2, ..*addresses };
        self.segments.insert(kept_front, ether_type);
        let secure = total(&self.segments[kept_front..]);
        self.mark_secure_data(kept_front, macsec);
        let short_length = u8::try_from(secure).ok().filter(|&octets| octets < 48).unwrap_or(0);
        self.insert(kept_front, &macsec.front(short_length));
        // Addresses and SecTAG are additional authenticated data; a tag in the clear is not.
        self.authenticate(0, |segment| {
            use SegmentKind::{MacAddresses, Sci, SecTag};
            matches!(segment.kind, MacAddresses | SecTag { .. } | Sci)
        });
        self.append(&[(SegmentKind::MacsecIcv, MACSEC_ICV)]);
        Ok(())
    }

    /// Marks what is under a check value, from a place on.
    fn authenticate(&mut self, from: usize, covered: impl Fn(&Segment) -> bool) {
        let covered = self.segments[from..].iter_mut().filter(|segment| covered(segment));
        covered.for_each(|segment| raise(segment, Protection::Authenticated));
    }

    fn mark_secure_data(&mut self, from: usize, macsec: &Macsec) {
        let mut readable = if macsec.integrity_only { usize::MAX } else { macsec.offset };
        for segment in self.segments.iter_mut().skip(from) {
            let mark = match readable {
                0 => Protection::Encrypted,
                octets if octets >= segment.bytes => Protection::Authenticated,
                octets => Protection::EncryptedFrom(octets),
            };
            raise(segment, mark);
            readable = readable.saturating_sub(segment.bytes);
        }
    }

    fn pseudowire(&mut self, wire: &Pseudowire) -> Result<(), StackError> {
        match wire.tag {
            ServiceTag::Keep => {}
            ServiceTag::Strip => self.pop_tag()?,
            ServiceTag::Add => self.insert(1, &[tag(TagKind::Service)]),
        }
        self.insert(0, &wire.front());
        Ok(())
    }

    fn pop_tag(&mut self) -> Result<(), StackError> {
        if !self.segments.get(1).is_some_and(|segment| segment.kind.is_tag()) {
            return Err(StackError::new("there is no VLAN tag to take off")
                .with_help("add `vlan` to the frame"));
        }
        self.remove(1..2);
        Ok(())
    }

    /// Position of the IP header: behind Ethernet and its tags. An error if the frame carries none.
    fn ip_position(&self, who: &str) -> Result<usize, StackError> {
        let link = |segment: &Segment| segment.kind == ETHERNET_KIND || segment.kind.is_tag();
        let at = self.segments.iter().take_while(|segment| link(segment)).count();
        match self.segments.get(at) {
            Some(segment) if segment.kind.is_ip() => Ok(at),
            found => {
                let what = match found.map(|segment| segment.kind) {
                    Some(SegmentKind::MacAddresses) => "a MACsec frame".to_owned(),
                    Some(kind) => format!("Ethernet with {}", kind.name()),
                    None => "nothing".to_owned(),
                };
                Err(StackError::new(format!("{who} carries IP packets, and here comes {what}"))
                    .with_help(
                        "put it where the frame still begins with `eth … ipv4` or `eth … ipv6`",
                    ))
            }
        }
    }

    fn strip_to_ip(&mut self, who: &str) -> Result<(), StackError> {
        let at = self.ip_position(who)?;
        self.remove(0..at);
        Ok(())
    }

    fn remove(&mut self, range: Range<usize>) {
        for segment in self.segments.drain(range) {
            self.removed += segment.bytes;
            if segment.kind.is_tag() {
                self.removed_tags += segment.bytes;
            }
        }
    }

    fn require_unsealed(&self) -> Result<(), StackError> {
        match self.segments.first() {
            Some(segment) if segment.kind == ETHERNET_KIND => Ok(()),
            _ => Err(StackError::new("MACsec cannot go onto a MACsec frame")
                .with_help("put another encapsulation between the two, for example `mpls cw`")),
        }
    }

    /// Every IP packet must fit its own length field, also those that a transformation makes.
    fn check_len(&self) -> Result<(), StackError> {
        let len = packet_len(&self.segments);
        if len > PACKET_LEN_MAX {
            return Err(StackError::new(format!(
                "the frame grows to {len} octets behind Ethernet and its tags, over the largest, \
                 {PACKET_LEN_MAX}"
            ))
            .with_help("make the payload smaller"));
        }
        Ok(())
    }

    fn append(&mut self, parts: &[Part]) {
        self.insert(self.segments.len(), parts);
    }

    /// Parts of no octets are left out.
    fn insert(&mut self, at: usize, parts: &[Part]) {
        let parts = parts.iter().filter(|&&(_, bytes)| bytes > 0);
        let stage = self.stage;
        let made = parts.map(|&(kind, bytes)| {
            let checks = kind.is_check_value();
            let protection = if checks { Protection::CheckValue } else { Protection::Clear };
            Segment { kind, bytes, protection, stage }
        });
        self.segments.splice(at..at, made);
    }
}

fn raise(segment: &mut Segment, mark: Protection) {
    if mark.rank() > segment.protection.rank() {
        segment.protection = mark;
    }
}
