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

use crate::Mode;
use crate::ah::{AH_HEADER, Ah};
use crate::error::StackError;
use crate::frame::{FRAME_LEN_MAX, Layer, UserFrame};
use crate::segment::{Protection, Segment, SegmentKind};
use crate::suite::EspSuite;
use crate::transform::{
    ETHERNET, Esp, IpVersion, L2tpv3, Macsec, Pseudowire, ServiceTag, TagKind, Transform,
};

const ETHERNET_KIND: SegmentKind = SegmentKind::Layer(Layer::Ethernet);

/// What one transformation does to the frame's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageCost {
    /// Octets put on.
    pub added: usize,
    /// Octets taken off.
    pub removed: usize,
    /// How many of those were VLAN tags: the user loses them.
    pub removed_tags: usize,
    /// Octets of the frame afterwards, without FCS.
    pub len: usize,
}

impl StageCost {
    /// What the frame grew by.
    pub fn net(&self) -> isize {
        self.added.cast_signed() - self.removed.cast_signed()
    }

    /// What the frame would have grown by if it had kept its VLAN tags: the like-for-like figure.
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

    /// What all transformations together add to the user's frame.
    pub fn overhead(&self) -> isize {
        self.wire_len().cast_signed() - self.user_len.cast_signed()
    }

    /// Octets that count against a line's MTU: what follows the Ethernet header and the VLAN
    /// tags directly behind it, which 802.3 clause 3.2.7 lets a frame have on top.
    pub fn mtu_len(&self) -> usize {
        let tags = self.segments.iter().skip(1).take_while(|segment| segment.kind.is_tag());
        self.wire_len() - ETHERNET - tags.map(|tag| tag.bytes).sum::<usize>()
    }

    /// Applies `transforms` to `frame`; the error names the stage at fault.
    pub(crate) fn build(frame: &UserFrame, transforms: &[Transform]) -> Result<Self, StackError> {
        let mut builder = Builder::new(frame);
        let mut stages = Vec::with_capacity(transforms.len());
        for (at, transform) in transforms.iter().enumerate() {
            let cost = builder.apply(at + 1, transform).map_err(|error| error.in_stage(at + 1))?;
            stages.push(cost);
        }
        Ok(Self { user_len: frame.len(), segments: builder.segments, stages })
    }
}

fn total(segments: &[Segment]) -> usize {
    segments.iter().map(|segment| segment.bytes).sum()
}

/// The frame while transformations are applied to it.
struct Builder {
    segments: Vec<Segment>,
    stage: usize,
    removed: usize,
    removed_tags: usize,
}

impl Builder {
    fn new(frame: &UserFrame) -> Self {
        let mut builder = Self { segments: Vec::new(), stage: 0, removed: 0, removed_tags: 0 };
        let headers: Vec<_> = frame.layers().iter().map(|&layer| header(layer)).collect();
        builder.append(&headers);
        builder.append(&[(SegmentKind::Payload, frame.payload())]);
        builder
    }

    fn apply(&mut self, stage: usize, transform: &Transform) -> Result<StageCost, StackError> {
        (self.stage, self.removed, self.removed_tags) = (stage, 0, 0);
        let before = total(&self.segments);
        match transform {
            Transform::Esp(esp) if esp.mode == Mode::Tunnel => self.esp_tunnel(esp)?,
            Transform::Esp(esp) => self.esp_transport(esp)?,
            Transform::Ah(ah) => self.ah(ah)?,
            Transform::Macsec(macsec) => self.macsec(macsec)?,
            Transform::Pseudowire(wire) => self.pseudowire(wire)?,
            Transform::L3vpn { labels } => {
                self.strip_to_ip("an L3VPN")?;
                self.push_labels(*labels, false);
            }
            Transform::PushTag(kind) => self.push_tag(*kind),
            Transform::PopTag => self.pop_tag()?,
            Transform::L2tpv3(l2tp) => self.l2tpv3(l2tp),
            Transform::Vxlan { outer } => {
                let vxlan = (SegmentKind::VxlanHeader, 8);
                self.prepend(&[header(Layer::Ethernet), ip(*outer), header(Layer::Udp), vxlan]);
            }
        }
        self.check_len()?;
        let len = total(&self.segments);
        let added = len + self.removed - before;
        Ok(StageCost { added, removed: self.removed, removed_tags: self.removed_tags, len })
    }

    fn esp_tunnel(&mut self, esp: &Esp) -> Result<(), StackError> {
        self.strip_to_ip("ESP")?;
        self.protect_by_esp(0, &esp.suite);
        let mut front = vec![header(Layer::Ethernet), ip(esp.outer)];
        front.extend(esp_front(esp));
        self.prepend(&front);
        self.authenticate_esp_header(2 + usize::from(esp.udp_encap));
        Ok(())
    }

    fn esp_transport(&mut self, esp: &Esp) -> Result<(), StackError> {
        let behind_ip = self.ip_position("ESP")? + 1;
        self.protect_by_esp(behind_ip, &esp.suite);
        self.insert(behind_ip, &esp_front(esp));
        self.authenticate_esp_header(behind_ip + usize::from(esp.udp_encap));
        Ok(())
    }

    /// All of the packet is under the check value, but for what routers change in the headers
    /// in front (RFC 4302 section 3.3.3); in a header that is covered in part a change is
    /// noticed or does not matter.
    fn ah(&mut self, ah: &Ah) -> Result<(), StackError> {
        let mut at = self.ip_position("AH")?;
        let mut own = match self.segments.get(at) {
            Some(segment) if segment.kind == SegmentKind::Layer(Layer::Ipv6) => IpVersion::V6,
            _ => IpVersion::V4,
        };
        if ah.mode == Mode::Tunnel {
            self.strip_to_ip("AH")?;
            self.prepend(&[header(Layer::Ethernet), ip(ah.outer)]);
            (at, own) = (1, ah.outer);
        }
        let suite = &ah.suite;
        self.insert(
            at + 1,
            &[
                (SegmentKind::AhHeader, AH_HEADER),
                (SegmentKind::AhIv(suite.rule), suite.iv),
                (SegmentKind::AhIcv(suite.rule), suite.icv),
                (SegmentKind::AhPadding, ah.padding(own)),
            ],
        );
        let stage = self.stage;
        let icv = |segment: &Segment| {
            segment.stage == stage && matches!(segment.kind, SegmentKind::AhIcv(_))
        };
        let covered = self.segments.iter_mut().skip(at).filter(|segment| !icv(segment));
        covered.for_each(|segment| raise(segment, Protection::Authenticated));
        Ok(())
    }

    /// Appends padding, trailer and check value, and marks what lies between `from` and the last.
    fn protect_by_esp(&mut self, from: usize, suite: &EspSuite) {
        let content: usize = self.segments.iter().skip(from).map(|segment| segment.bytes).sum();
        let padding = suite.padding(content);
        self.append(&[(SegmentKind::EspPadding, padding), (SegmentKind::EspTrailer, 2)]);
        let hides = suite.cipher().hides;
        let mark = if hides { Protection::Encrypted } else { Protection::Authenticated };
        self.segments.iter_mut().skip(from).for_each(|segment| raise(segment, mark));
        self.append(&[(SegmentKind::EspIcv(suite.icv_rule()), suite.icv_len())]);
    }

    /// SPI, sequence number and IV are covered by the check value (RFC 4303 section 2.8).
    fn authenticate_esp_header(&mut self, at: usize) {
        let header = self.segments.iter_mut().skip(at).take_while(|segment| {
            matches!(segment.kind, SegmentKind::EspHeader | SegmentKind::EspIv(_))
        });
        header.for_each(|segment| raise(segment, Protection::Authenticated));
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
        let mut ether_type = self.segment(SegmentKind::EtherType, 2);
        if let Some(first) = self.segments.first_mut() {
            (first.kind, first.bytes) = (SegmentKind::MacAddresses, 12);
            ether_type.stage = first.stage;
        }
        self.segments.insert(kept_front, ether_type);
        let secure: usize =
            self.segments.iter().skip(kept_front).map(|segment| segment.bytes).sum();
        self.mark_secure_data(kept_front, macsec);
        let short_length = if secure < 48 { u8::try_from(secure).unwrap_or(0) } else { 0 };
        let sci = if macsec.sci { 8 } else { 0 };
        let tag = [(SegmentKind::SecTag { short_length }, 8), (SegmentKind::Sci, sci)];
        self.insert(kept_front, &tag);
        // Addresses and SecTAG are additional authenticated data; a tag in the clear is not.
        for segment in self.segments.iter_mut().take(kept_front + 2) {
            if matches!(
                segment.kind,
                SegmentKind::MacAddresses | SegmentKind::SecTag { .. } | SegmentKind::Sci
            ) {
                raise(segment, Protection::Authenticated);
            }
        }
        self.append(&[(SegmentKind::MacsecIcv, 16)]);
        Ok(())
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
            ServiceTag::Add => self.push_tag(TagKind::Service),
        }
        self.push_labels(wire.labels, wire.control_word);
        Ok(())
    }

    fn push_labels(&mut self, labels: usize, control_word: bool) {
        let mut front = vec![header(Layer::Ethernet)];
        front.extend(std::iter::repeat_n((SegmentKind::Label, 4), labels));
        front.push((SegmentKind::ControlWord, if control_word { 4 } else { 0 }));
        self.prepend(&front);
    }

    fn l2tpv3(&mut self, l2tp: &L2tpv3) {
        self.prepend(&[
            header(Layer::Ethernet),
            ip(l2tp.outer),
            udp(l2tp.udp),
            (SegmentKind::L2tpSession, l2tp.session_len()),
            (SegmentKind::L2tpCookie, l2tp.cookie),
            (SegmentKind::L2tpSublayer, if l2tp.sublayer { 4 } else { 0 }),
        ]);
    }

    fn push_tag(&mut self, kind: TagKind) {
        let kind = match kind {
            TagKind::Customer => Layer::Vlan,
            TagKind::Service => Layer::Svlan,
        };
        self.insert(1, &[header(kind)]);
    }

    fn pop_tag(&mut self) -> Result<(), StackError> {
        if !self.segments.get(1).is_some_and(|segment| segment.kind.is_tag()) {
            return Err(StackError::new("there is no VLAN tag to take off")
                .with_help("add `vlan` to the frame"));
        }
        let tag = self.segments.remove(1);
        self.removed += tag.bytes;
        self.removed_tags += tag.bytes;
        Ok(())
    }

    /// Where the IP header stands: behind Ethernet and its tags, or the frame carries none.
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
        for segment in self.segments.drain(..at) {
            self.removed += segment.bytes;
            if segment.kind.is_tag() {
                self.removed_tags += segment.bytes;
            }
        }
        Ok(())
    }

    fn require_unsealed(&self) -> Result<(), StackError> {
        match self.segments.first() {
            Some(segment) if segment.kind == ETHERNET_KIND => Ok(()),
            _ => Err(StackError::new("MACsec cannot go onto a MACsec frame")
                .with_help("put another encapsulation between the two, for example `mpls cw`")),
        }
    }

    /// Every IP packet must fit its own length field, whoever made it.
    fn check_len(&self) -> Result<(), StackError> {
        let len = total(&self.segments);
        if len > FRAME_LEN_MAX {
            return Err(StackError::new(format!(
                "the frame grows to {len} octets, over the largest, {FRAME_LEN_MAX}"
            ))
            .with_help("make the payload smaller"));
        }
        Ok(())
    }

    fn segment(&self, kind: SegmentKind, bytes: usize) -> Segment {
        Segment { kind, bytes, protection: Protection::Clear, stage: self.stage }
    }

    fn prepend(&mut self, parts: &[(SegmentKind, usize)]) {
        self.insert(0, parts);
    }

    fn append(&mut self, parts: &[(SegmentKind, usize)]) {
        self.insert(self.segments.len(), parts);
    }

    /// Parts of no octets are left out.
    fn insert(&mut self, at: usize, parts: &[(SegmentKind, usize)]) {
        let parts = parts.iter().filter(|(_, bytes)| *bytes > 0);
        let made: Vec<Segment> = parts.map(|(kind, bytes)| self.segment(*kind, *bytes)).collect();
        self.segments.splice(at..at, made);
    }
}

fn raise(segment: &mut Segment, mark: Protection) {
    if mark.rank() > segment.protection.rank() {
        segment.protection = mark;
    }
}

fn header(layer: Layer) -> (SegmentKind, usize) {
    (SegmentKind::Layer(layer), layer.header_len())
}

/// UDP, if it is there.
fn udp(there: bool) -> (SegmentKind, usize) {
    (SegmentKind::Layer(Layer::Udp), if there { Layer::Udp.header_len() } else { 0 })
}

fn ip(version: IpVersion) -> (SegmentKind, usize) {
    header(match version {
        IpVersion::V4 => Layer::Ipv4,
        IpVersion::V6 => Layer::Ipv6,
    })
}

fn esp_front(esp: &Esp) -> Vec<(SegmentKind, usize)> {
    let iv = SegmentKind::EspIv(esp.suite.cipher().iv_rule);
    vec![udp(esp.udp_encap), (SegmentKind::EspHeader, 8), (iv, esp.suite.iv_len())]
}
