//! Traffic: many flows, lengths that follow one another at random, random payload.
//!
//! A length is that of the clear Ethernet frame without its FCS; labels, ESP and
//! SecTAGs come beside it. Frames lie one behind the other and are handed out in this
//! order, round and round.

use crate::{NODE, PEER};
use ferrule_base::{MacAddr, Rng};
use std::net::Ipv4Addr;

/// Octets of an Ethernet header.
pub const ETHERNET: usize = 14;

/// Frame lengths.
#[derive(Clone, Copy)]
pub enum Size {
    /// The same length for each frame.
    Of(usize),
    /// 64, 570 and 1420 octets as 7:4:1, in random order.
    Imix,
}

impl Size {
    /// The length of the next one.
    pub fn pick(self, rng: &mut Rng) -> usize {
        match self {
            Self::Of(len) => len,
            Self::Imix => match rng.below(12) {
                0..7 => 64,
                7..11 => 570,
                _ => 1420,
            },
        }
    }
}

/// A flow of UDP over IPv4.
#[derive(Clone, Copy)]
pub struct Flow {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Source port.
    pub port: u16,
    /// Destination port.
    pub to: u16,
}

/// The port that flows go to, unless it is said.
pub const TO: u16 = 4789;

/// `count` flows from 10.0.0.0/8 to 20.0.0.0/8, each from and to hosts of its own.
pub fn flows<P>(count: usize) -> impl Fn(usize, &mut P) -> Flow {
    move |i, _| {
        let n = (i % count) as u32;
        Flow {
            src: (10 << 24 | n).into(),
            dst: (20 << 24 | n).into(),
            port: 1024_u16.wrapping_add(n as u16),
            to: TO,
        }
    }
}

/// The same flows in the other direction.
pub fn backwards<P>(flows: impl Fn(usize, &mut P) -> Flow) -> impl Fn(usize, &mut P) -> Flow {
    move |i, state| {
        let flow = flows(i, state);
        Flow { src: flow.dst, dst: flow.src, ..flow }
    }
}

/// Frames one behind the other.
#[derive(Clone, Default)]
pub struct Frames {
    octets: Vec<u8>,
    /// Offset of each frame.
    starts: Vec<usize>,
}

impl Frames {
    /// `count` frames, each made by `make`.
    pub fn new<F: AsRef<[u8]>>(count: usize, mut make: impl FnMut(usize, &mut Rng) -> F) -> Self {
        let (mut frames, mut rng) = (Self::default(), Rng::new(count as u64 + 7));
        for i in 0..count {
            frames.push(make(i, &mut rng).as_ref());
        }
        frames
    }

    /// `count` IPv4 frames of these flows.
    pub fn ipv4(count: usize, size: Size, flow: impl Fn(usize, &mut Rng) -> Flow) -> Self {
        Self::new(count, |i, rng| {
            let (flow, len) = (flow(i, rng), size.pick(rng));
            ipv4(rng, flow, len)
        })
    }

    /// One more.
    pub fn push(&mut self, frame: &[u8]) {
        self.starts.push(self.octets.len());
        self.octets.extend(frame);
    }

    /// Number of frames.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// None at all.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// One of them; behind the last comes the first.
    pub fn at(&self, index: usize) -> &[u8] {
        let index = index % self.len();
        let end = self.starts.get(index + 1).copied().unwrap_or(self.octets.len());
        &self.octets[self.starts[index]..end]
    }

    /// Every frame.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.at(index))
    }
}

/// The checksum of an IPv4 header in which it is zero.
pub fn checksum(header: &[u8]) -> u16 {
    let sum: u32 = header.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// A frame for the node with an IPv4 UDP packet in it, `len` octets in all.
pub fn ipv4(rng: &mut Rng, flow: Flow, len: usize) -> Vec<u8> {
    let ip = (len - ETHERNET) as u16;
    let mut f = [&NODE.0[..], &PEER.0, &[8, 0, 0x45, 0], &ip.to_be_bytes()].concat();
    f.extend((rng.next_u64() as u16).to_be_bytes());
    f.extend([0, 0, 64, 17, 0, 0]);
    f.extend(flow.src.octets().into_iter().chain(flow.dst.octets()));
    let sum = checksum(&f[ETHERNET..]);
    f[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&sum.to_be_bytes());
    f.extend(flow.port.to_be_bytes().into_iter().chain(flow.to.to_be_bytes()));
    f.extend((ip - 20).to_be_bytes());
    f.extend([0, 0]);
    let front = f.len();
    f.resize(len, 0);
    rng.fill(&mut f[front..]);
    f
}

/// The frame with labels, outermost first, and what is behind them in front of its
/// packet.
pub fn labelled(frame: &[u8], labels: &[u32]) -> Vec<u8> {
    let mut out = [&frame[..12], &[0x88, 0x47]].concat();
    stack(&mut out, labels);
    out.extend(&frame[ETHERNET..]);
    out
}

/// A whole frame behind a pseudowire's label and an empty control word.
pub fn in_pseudowire(frame: &[u8], label: u32) -> Vec<u8> {
    let mut out = [&NODE.0[..], &PEER.0, &[0x88, 0x47]].concat();
    stack(&mut out, &[label]);
    out.extend([0; 4]);
    out.extend(frame);
    out
}

fn stack(out: &mut Vec<u8>, labels: &[u32]) {
    for (n, label) in labels.iter().enumerate() {
        let bottom = u32::from(n + 1 == labels.len());
        out.extend((label << 12 | bottom << 8 | 64).to_be_bytes());
    }
}

/// A station of a bridged network: `n` of those behind port a or b.
pub const fn station(behind: u8, n: u32) -> MacAddr {
    let [_, _, high, low] = n.to_be_bytes();
    MacAddr([2, 0xb, 0, behind, high, low])
}

/// The frame from one station to another.
pub fn bridged(mut frame: Vec<u8>, from: MacAddr, to: MacAddr) -> Vec<u8> {
    frame[..6].copy_from_slice(&to.0);
    frame[6..12].copy_from_slice(&from.0);
    frame
}

/// Makes a frame one that is not like the others, in one of five ways.
pub fn odd(rng: &mut Rng, frame: Vec<u8>) -> Vec<u8> {
    let mut frame = frame;
    match rng.below(5) {
        // Options: four of its octets are no operation.
        0 => {
            frame[ETHERNET] = 0x46;
            frame[ETHERNET + 20..ETHERNET + 24].fill(1);
        }
        // The last hop that it may go.
        1 => frame[ETHERNET + 8] = 1,
        // To where no route goes.
        2 => frame[ETHERNET + 16] = 30,
        // For another station.
        3 => frame[5] ^= 0x80,
        // A sum that is wrong.
        _ => {
            frame[ETHERNET + 10] ^= 0x55;
            return frame;
        }
    }
    let header = ETHERNET..ETHERNET + usize::from(frame[ETHERNET] & 15) * 4;
    frame[ETHERNET + 10..ETHERNET + 12].fill(0);
    let sum = checksum(&frame[header]);
    frame[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&sum.to_be_bytes());
    frame
}
