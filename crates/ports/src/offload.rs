//! Software in place of the offloads that a sender left to its device: checksums filled in,
//! segments cut, VLAN tags put back.
//!
//! A local stack hands its device frames of up to 64 KiB ("super-frames") and checksums
//! that hold no more than the pseudo header's sum. The kernel describes both in a
//! virtio-net header in front of the frame. None of these may enter a node: a sealed frame
//! cannot be finished later.

use crate::checksum::{self, Transport};
use ferrule_pipeline::{Packet, PoolCache, Supers};

/// `struct virtio_net_hdr`, in the machine's own byte order.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct VnetHeader {
    /// `VIRTIO_NET_HDR_F_NEEDS_CSUM` and others.
    pub flags: u8,
    /// `VIRTIO_NET_HDR_GSO_*`; 0: no super-frame.
    pub gso_type: u8,
    /// Octets of all headers, as the sender has it.
    pub header_len: u16,
    /// Octets of a segment's payload.
    pub gso_size: u16,
    /// Octets in front of those that a checksum is left of.
    pub csum_start: u16,
    /// Octets from there to its field.
    pub csum_offset: u16,
}

/// Octets of a [`VnetHeader`].
pub(crate) const VNET_LEN: usize = 10;
const _: () = assert!(size_of::<VnetHeader>() == VNET_LEN);

const NEEDS_CSUM: u8 = 1;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP: u8 = 5;
const GSO_ECN: u8 = 0x80;

const TCP: u8 = 6;
const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// Segments of a super-frame at most: 64 KiB in the smallest segments that a stack
/// makes. One that asks for more wants to keep us busy.
pub const SEGMENTS_MAX: usize = 65535 / 48 + 1;

/// The largest super-frame that is taken: 64 KiB of IP behind Ethernet with
/// two tags.
pub const SUPER_FRAME_MAX: usize = 65535 + 22;

/// A VLAN tag, as it stands in a frame: TPID and TCI.
pub type Tag = [u8; 4];

impl VnetHeader {
    pub(crate) fn is_super_frame(&self) -> bool {
        self.gso_type != 0
    }

    /// Description of a super-frame of TCP: `headers` octets, the transport header from
    /// `at` on, segments of `size`.
    pub(crate) fn of_segments(v6: bool, headers: usize, size: usize, at: usize) -> Option<Self> {
        Some(Self {
            flags: NEEDS_CSUM,
            gso_type: if v6 { GSO_TCPV6 } else { GSO_TCPV4 },
            header_len: headers.try_into().ok()?,
            gso_size: size.try_into().ok()?,
            csum_start: at.try_into().ok()?,
            csum_offset: 16,
        })
    }

    /// The same for a frame with `octets` more in front.
    #[must_use]
    pub(crate) fn behind(self, octets: usize) -> Self {
        let csum_start = self.csum_start.saturating_add(octets as u16);
        let header_len = self.header_len.saturating_add(octets as u16);
        Self { csum_start, header_len, ..self }
    }

    /// The same for a frame with `octets` less in front.
    #[must_use]
    pub(crate) fn without(self, octets: usize) -> Self {
        let csum_start = self.csum_start.saturating_sub(octets as u16);
        let header_len = self.header_len.saturating_sub(octets as u16);
        Self { csum_start, header_len, ..self }
    }

    /// Fills the checksum in, if it was left.
    #[must_use]
    pub(crate) fn finish(&self, frame: &mut [u8]) -> bool {
        self.flags & NEEDS_CSUM == 0
            || checksum::finish_any(frame, self.csum_start.into(), self.csum_offset.into())
    }
}

/// Puts back a tag that the kernel took out of the frame.
#[must_use]
pub(crate) fn restore_tag(packet: &mut Packet, tag: Option<Tag>) -> bool {
    let Some(tag) = tag else { return true };
    if packet.len() < 12 || packet.prepend(4).is_none() {
        return false;
    }
    let frame = packet.data_mut();
    frame.copy_within(4..16, 0);
    frame[12..16].copy_from_slice(&tag);
    true
}

/// One super-frame on its way to being segments (as TCP and UDP segmentation
/// offload would have cut it).
pub struct Segmenter {
    /// Buffer into which a super-frame is read before `start`.
    pub frame: Box<[u8]>,
    cut: Option<Cut>,
    counted: Supers,
}

struct Cut {
    transport: Transport,
    /// Headers up to and with the transport header.
    headers: usize,
    size: usize,
    /// Offset of the next segment's payload, and the segment's number.
    at: usize,
    number: usize,
    tag: Option<Tag>,
}

impl Default for Segmenter {
    fn default() -> Self {
        Self::new()
    }
}

impl Segmenter {
    /// A segmenter with room for a super-frame, and none in it.
    pub fn new() -> Self {
        Self { frame: vec![0; SUPER_FRAME_MAX].into(), cut: None, counted: Supers::default() }
    }

    /// Super-frames and segments so far.
    pub fn cut_so_far(&self) -> Supers {
        self.counted
    }

    /// Segments are waiting.
    pub(crate) fn is_busy(&self) -> bool {
        self.cut.is_some()
    }

    /// Takes in the first `len` octets of `frame`. False if they cannot be cut.
    #[must_use]
    pub fn start(&mut self, len: usize, vnet: VnetHeader, tag: Option<Tag>) -> bool {
        self.cut = self.plan(len, vnet, tag);
        self.counted.frames += u64::from(self.cut.is_some());
        self.cut.is_some()
    }

    fn plan(&self, len: usize, vnet: VnetHeader, tag: Option<Tag>) -> Option<Cut> {
        let frame = self.frame.get(..len)?;
        let transport = Transport::find(frame)?;
        let headers = match (vnet.gso_type & !GSO_ECN, transport.protocol, transport.v6) {
            (GSO_TCPV4, TCP, false) | (GSO_TCPV6, TCP, true) => {
                let len = (frame.get(transport.at + 12)? >> 4) as usize * 4;
                (len >= 20).then_some(transport.at + len)?
            }
            (GSO_UDP, 17, _) => transport.at + 8,
            _ => return None,
        };
        let size = usize::from(vnet.gso_size);
        // A description of another header's unfinished checksum belongs to a frame whose
        // headers were not understood.
        let told = (usize::from(vnet.csum_start), Some(usize::from(vnet.csum_offset)));
        if vnet.flags & NEEDS_CSUM != 0 && told != (transport.at, transport.field()) {
            return None;
        }
        let payload = transport.end.checked_sub(headers).filter(|&octets| octets > 0)?;
        (size > 0 && payload.div_ceil(size) <= SEGMENTS_MAX).then_some(Cut {
            at: headers,
            headers,
            transport,
            size,
            number: 0,
            tag,
        })
    }

    /// The next segment; nothing without a free chunk (it waits), or when none
    /// is left.
    pub fn next(&mut self, cache: &mut PoolCache) -> Option<Result<Packet, TooLarge>> {
        let cut = self.cut.as_mut()?;
        let mut packet = cache.packet()?;
        let made = cut.segment(&self.frame, &mut packet);
        if cut.at >= cut.transport.end {
            self.cut = None;
        }
        match made {
            Some(()) => {
                self.counted.segments += 1;
                Some(Ok(packet))
            }
            None => {
                cache.recycle(packet);
                Some(Err(TooLarge))
            }
        }
    }
}

/// A segment that no chunk holds.
#[derive(Clone, Copy, Debug)]
pub struct TooLarge;

impl Cut {
    /// Writes one segment and moves on, also when it could not be written.
    fn segment(&mut self, frame: &[u8], packet: &mut Packet) -> Option<()> {
        let (headers, end) = (self.headers, self.transport.end);
        let from = self.at;
        let to = (from + self.size).min(end);
        let number = self.number;
        (self.at, self.number) = (to, number + 1);
        let out = packet.append(headers + to - from)?;
        out[..headers].copy_from_slice(frame.get(..headers)?);
        out[headers..].copy_from_slice(frame.get(from..to)?);
        self.network(out, number)?;
        self.transport(out, number, to == end)?;
        restore_tag(packet, self.tag).then_some(())
    }

    /// IP lengths, identification and header checksum.
    fn network(&self, out: &mut [u8], number: usize) -> Option<()> {
        let Transport { ip, at, v6, .. } = self.transport;
        let len = out.len() - ip;
        let header = out.get_mut(ip..at)?;
        if v6 {
            header[4..6].copy_from_slice(&u16::try_from(len - 40).ok()?.to_be_bytes());
            return Some(());
        }
        header[2..4].copy_from_slice(&u16::try_from(len).ok()?.to_be_bytes());
        let id = u16::from_be_bytes([header[4], header[5]]).wrapping_add(number as u16);
        header[4..6].copy_from_slice(&id.to_be_bytes());
        header[10..12].fill(0);
        let sum = ferrule_wire::checksum::checksum(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        Some(())
    }

    /// Sequence number and flags, or length; then the checksum.
    fn transport(&self, out: &mut [u8], number: usize, last: bool) -> Option<()> {
        let at = self.transport.at;
        let len = out.len() - at;
        let header = out.get_mut(at..self.headers)?;
        if self.transport.protocol == TCP {
            let seq = u32::from_be_bytes(*header.get(4..)?.first_chunk()?);
            let seq = seq.wrapping_add((number * self.size) as u32);
            header[4..8].copy_from_slice(&seq.to_be_bytes());
            header[13] &= if last { 0xff } else { !FIN_PSH };
            header[13] &= if number == 0 { 0xff } else { !CWR };
        } else {
            header[4..6].copy_from_slice(&u16::try_from(len).ok()?.to_be_bytes());
        }
        let field = self.transport.field()?;
        let pseudo = !self.transport.pseudo(out, len).finish();
        out.get_mut(at + field..)?.first_chunk_mut::<2>()?.copy_from_slice(&pseudo.to_be_bytes());
        checksum::finish(out, at, field).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::tests::{unfinished_udp, verifies};
    use ferrule_pipeline::Pool;

    fn tcp(payload: usize) -> Vec<u8> {
        let mut frame = unfinished_udp(&vec![0; 12 + payload]);
        frame[23] = TCP;
        frame[38..42].copy_from_slice(&1000u32.to_be_bytes());
        (frame[46], frame[47]) = (5 << 4, 0x10 | FIN_PSH | CWR);
        for (i, octet) in frame[54..].iter_mut().enumerate() {
            *octet = i as u8;
        }
        frame
    }

    fn cut(frame: &[u8], vnet: VnetHeader) -> Option<Vec<Packet>> {
        let (pool, mut segmenter) = (Pool::heap(64, 2048), Segmenter::new());
        segmenter.frame[..frame.len()].copy_from_slice(frame);
        let tag = Some([0x81, 0, 0, 7]);
        segmenter.start(frame.len(), vnet, tag).then_some(())?;
        let mut cache = pool.cache();
        std::iter::from_fn(|| segmenter.next(&mut cache)).map(Result::ok).collect()
    }

    #[test]
    fn super_frame_of_tcp_is_cut_into_segments_with_their_own_numbers() {
        let vnet = VnetHeader { gso_type: GSO_TCPV4, gso_size: 1400, ..Default::default() };
        let frame = tcp(3000);
        let segments = cut(&frame, vnet).unwrap();
        assert_eq!(segments.len(), 3);
        let mut payload = Vec::<u8>::new();
        for (i, segment) in segments.iter().enumerate() {
            let data = segment.data();
            assert!(verifies(data), "segment {i}");
            assert_eq!(data[12..18], [0x81, 0, 0, 7, 8, 0]);
            assert_eq!(ferrule_wire::checksum::checksum(&data[18..38]), 0);
            assert_eq!(data[42..46], (1000 + 1400 * i as u32).to_be_bytes());
            assert_eq!(data[51] & FIN_PSH != 0, i == 2, "FIN and PSH on the last only");
            assert_eq!(data[51] & CWR != 0, i == 0, "CWR on the first only");
            payload.extend(&data[58..]);
        }
        assert_eq!(payload, frame[54..]);
    }

    #[test]
    fn super_frame_of_udp_is_cut_into_datagrams() {
        let vnet = VnetHeader { gso_type: GSO_UDP, gso_size: 500, ..Default::default() };
        let segments = cut(&unfinished_udp(&[9; 1200]), vnet).unwrap();
        let lens: Vec<_> = segments.iter().map(|s| s.len() - 18 - 28).collect();
        assert_eq!(lens, [500, 500, 200]);
        assert!(segments.iter().all(|s| verifies(s.data())));
    }

    #[test]
    fn super_frame_that_cannot_be_cut_is_refused() {
        let frame = tcp(3000);
        for (gso_type, gso_size) in [(GSO_TCPV4, 0), (GSO_TCPV6, 1400), (GSO_UDP, 1400), (3, 1400)]
        {
            let vnet = VnetHeader { gso_type, gso_size, ..Default::default() };
            assert!(cut(&frame, vnet).is_none(), "{vnet:?}");
        }
        let vnet = VnetHeader { gso_type: GSO_TCPV4, gso_size: 1400, ..Default::default() };
        for len in 0..60 {
            assert!(cut(&frame[..len], vnet).is_none());
        }
        let too_large = VnetHeader { gso_size: 2900, ..vnet };
        assert!(cut(&frame, too_large).is_none(), "no chunk holds such a segment");
    }

    #[test]
    fn hostile_descriptions_of_super_frames_are_refused() {
        let vnet = VnetHeader {
            flags: NEEDS_CSUM,
            gso_type: GSO_TCPV4,
            gso_size: 1400,
            csum_start: 34,
            csum_offset: 16,
            ..Default::default()
        };
        let frame = tcp(3000);
        assert_eq!(cut(&frame, vnet).map(|all| all.len()), Some(3));
        // The checksum of something else: another packet is inside.
        for (csum_start, csum_offset) in [(33, 16), (34, 6), (14, 16), (0, 0), (u16::MAX, 16)] {
            assert!(cut(&frame, VnetHeader { csum_start, csum_offset, ..vnet }).is_none());
        }
        // A segment for every octet: 64 KiB would become 65,000 frames.
        let large = tcp(60_000);
        assert!(cut(&large, VnetHeader { gso_size: 1, ..vnet }).is_none());
        assert!(cut(&large, VnetHeader { gso_size: 43, ..vnet }).is_none());
        // A header that ends behind the packet, or within itself.
        for offset in [0x10, 0x40, 0xf0] {
            let mut wrong = tcp(4);
            wrong[46] = offset;
            assert!(cut(&wrong, vnet).is_none(), "{offset:#x}");
        }
        // Lengths of IP beyond the frame, or none.
        for total in [0u16, 20, 39, 3041, u16::MAX] {
            let mut wrong = frame.clone();
            wrong[16..18].copy_from_slice(&total.to_be_bytes());
            assert!(cut(&wrong, vnet).is_none(), "{total}");
        }
        // A fragment has no header of its own.
        let mut wrong = frame;
        wrong[20] = 0x20;
        assert!(cut(&wrong, vnet).is_none());
    }

    #[test]
    fn super_frame_behind_options_of_ipv6_is_cut() {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd, 0x60, 0, 0, 0];
        frame.extend((8 + 20 + 2500u16).to_be_bytes());
        frame.extend([60, 64]);
        frame.extend([0xfd; 32]);
        frame.extend([TCP, 0, 1, 4, 0, 0, 0, 0]);
        frame.extend([1, 2, 3, 4, 0, 0, 0, 1, 0, 0, 0, 0, 5 << 4, 0x10, 0, 9, 0, 0, 0, 0]);
        frame.extend((0..2500u32).map(|i| i as u8));
        let vnet = VnetHeader { gso_type: GSO_TCPV6, gso_size: 1000, ..Default::default() };
        let segments = cut(&frame, vnet).unwrap();
        assert_eq!(segments.len(), 3);
        for (segment, sequence) in segments.iter().zip([1u32, 1001, 2001]) {
            assert!(verifies(segment.data()));
            assert_eq!(segment.data()[70..74], sequence.to_be_bytes());
        }
    }

    #[test]
    fn descriptions_that_lie_are_survived() {
        let mut rng = ferrule_base::Rng::new(7);
        let frame = tcp(3000);
        let (mut cut_up, mut refused) = (0, 0);
        for _ in 0..5000 {
            let cut_off = if rng.one_in(2) { rng.below(frame.len() as u64) as usize } else { 0 };
            let mut lie = frame[..frame.len() - cut_off].to_vec();
            for _ in 0..rng.below(4) {
                let at = rng.below(lie.len().min(60) as u64) as usize;
                lie[at] = rng.next_u64() as u8;
            }
            let [flags, kind, a, b, c, d, size, _] = rng.next_u64().to_be_bytes();
            let vnet = VnetHeader {
                flags,
                gso_type: if kind & 1 == 0 { GSO_TCPV4 } else { kind % 6 },
                header_len: u16::from(a) << 8,
                gso_size: 300 + u16::from(size) * 8,
                csum_start: u16::from_be_bytes([a & 15, b]),
                csum_offset: u16::from_be_bytes([c & 1, d]),
            };
            let segments = cut(&lie, vnet);
            let _ = vnet.finish(&mut lie);
            match segments {
                Some(segments) => cut_up += usize::from(segments.len() > 1),
                None => refused += 1,
            }
        }
        assert!(cut_up > 100 && refused > 100, "{cut_up} {refused}");
    }
}
