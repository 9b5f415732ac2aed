//! Data from the kernel about frames: the description of a super-frame, and the entries of AF_XDP's
//! rings.

use crate::input::Input;
use crate::seeds;
use ferrule_base::Rng;
use ferrule_pipeline::{HEAD_ROOM, Packet, Pool};
use ferrule_ports::offload::{SEGMENTS_MAX, Segmenter, VnetHeader};
use ferrule_ports::xdp::Lent;
use std::cell::RefCell;

/// Chunks of a pool, which all come back.
const CHUNKS: usize = 32;
const CHUNK: usize = 2048;
/// Operations of one input.
const STEPS_MAX: usize = 256;

thread_local! {
    static SEGMENTER: RefCell<Segmenter> = RefCell::default();
}

/// Super-frames whose description may lie: segments are bounded in number and size, their
/// payloads are the frame's, in order and once, and no buffer is lost.
pub fn super_frames(data: &[u8]) {
    SEGMENTER.with_borrow_mut(|segmenter| cut(data, segmenter));
}

fn cut(data: &[u8], segmenter: &mut Segmenter) {
    let mut input = Input::new(data);
    let vnet = VnetHeader {
        flags: input.u8(),
        gso_type: input.u8(),
        header_len: input.u16(),
        gso_size: input.u16(),
        csum_start: input.u16(),
        csum_offset: input.u16(),
    };
    let (tagged, longer) = (input.u8(), usize::from(input.u16()));
    let tag = (tagged & 1 == 1).then_some([0x81, 0, 0, 7]);
    let frame = input.take(usize::MAX);
    let room = segmenter.frame.len();
    let given = frame.len().min(room);
    segmenter.frame[..given].copy_from_slice(&frame[..given]);
    let filled = (given + longer).min(room);
    for (at, octet) in segmenter.frame[given..filled].iter_mut().enumerate() {
        *octet = at as u8;
    }
    // Now and then it says that the frame is longer than all room.
    let len = if tagged & 0xf0 == 0xf0 { room + longer } else { filled };
    if !segmenter.start(len, vnet, tag) {
        return;
    }
    assert!(vnet.gso_size > 0 && len <= room);
    let (pool, mut payload, mut number) = (Pool::heap(2, CHUNK), Vec::new(), 0);
    let mut cache = pool.cache();
    let mut whole = true;
    while let Some(segment) = segmenter.next(&mut cache) {
        number += 1;
        assert!(number <= SEGMENTS_MAX);
        match segment {
            Ok(packet) => {
                let size = packet.len().min(vnet.gso_size.into());
                assert!(packet.len() <= CHUNK);
                payload.extend_from_slice(&packet.data()[packet.len() - size..]);
                cache.recycle(packet);
            }
            Err(_) => whole = false,
        }
    }
    // The last segment may be shorter: its headers were taken along, in front of it.
    let all = &segmenter.frame[..filled];
    if let (true, Some(first)) = (whole && number > 1, payload.get(..vnet.gso_size.into())) {
        assert!(all.windows(first.len()).any(|part| part == first), "payload is the frame's");
    }
    drop(cache);
    assert_eq!(pool.free(), pool.chunks());
}

/// Descriptions as the kernel makes them, in front of frames of `vectors/`.
pub fn described_frames() -> Vec<Vec<u8>> {
    let mut rng = Rng::new(6);
    let mut seed = |frame: Vec<u8>| {
        let v6 = frame.get(12..14) == Some(&[0x86, 0xdd]);
        let gso_type = [if v6 { 4 } else { 1 }, 5, rng.below(256) as u8][rng.below(3) as usize];
        let gso_size = 48 + rng.below(1400) as u16;
        let start: u16 = if v6 { 54 } else { 34 };
        let offset: u16 = if gso_type == 5 { 6 } else { 16 };
        let mut octets = vec![rng.below(2) as u8, gso_type, 0, start as u8 + 20];
        for word in [gso_size, start, offset] {
            octets.extend(word.to_be_bytes());
        }
        octets.push(rng.below(2) as u8);
        octets.extend((rng.below(4000) as u16).to_be_bytes());
        [octets, frame].concat()
    };
    seeds::frames().into_iter().map(&mut seed).chain([large()]).collect()
}

/// TCP over IPv4 with 3,000 octets, which are counted up behind it.
fn large() -> Vec<u8> {
    let mut seed = vec![0, 1, 0, 54, 5, 120, 0, 34, 0, 16, 0, 0x0b, 0xb8];
    seed.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0]);
    seed.extend(3040_u16.to_be_bytes());
    seed.extend([0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    seed.extend([0, 80, 0, 90, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
    seed
}

/// Entries of the receive and completion rings of a kernel that errs or lies: a chunk
/// comes back once, for what it was lent, and a frame lies in its chunk, behind its head
/// room.
pub fn xdp_descriptors(data: &[u8]) {
    let mut input = Input::new(data);
    let pool = Pool::heap(CHUNKS, CHUNK);
    let (mut lent, mut cache) = (Lent::new(&pool), pool.cache());
    let mut known = Vec::new();
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        let how = input.u8();
        let (filling, sending) = (lent.filling(), lent.sending());
        match how % 4 {
            0 => known.extend(cache.packet().and_then(|packet| lent.fill(packet))),
            1 => known.extend(cache.packet().and_then(|packet| send(packet, &mut lent))),
            2 => {
                let (address, len) = (address(&mut input, &known, how), input.u16());
                let len = if how & 0x80 == 0 { len.into() } else { u32::from(len) << 16 };
                let options = u32::from(how & 0x40 != 0);
                let frame = lent.received(address, len, options);
                assert!(lent.filling() + 1 >= filling && lent.sending() == sending);
                if let Some(frame) = frame {
                    assert_eq!((lent.filling() + 1, options), (filling, 0));
                    let at = frame.region_offset();
                    assert_eq!((at as u64, frame.len()), (address, len as usize));
                    let head = at % pool.chunk_size();
                    assert!(head >= HEAD_ROOM && head + frame.len() <= pool.chunk_size());
                    cache.recycle(frame);
                }
            }
            _ => {
                let chunk = lent.sent(address(&mut input, &known, how));
                assert_eq!(lent.sending() + usize::from(chunk.is_some()), sending);
                assert_eq!(lent.filling(), filling);
                chunk.into_iter().for_each(|packet| cache.recycle(packet));
            }
        }
        assert!(lent.filling() + lent.sending() <= CHUNKS);
    }
    lent.take_all(&mut cache);
    assert_eq!((lent.filling(), lent.sending()), (0, 0));
    drop(cache);
    assert_eq!(pool.free(), CHUNKS, "every chunk came back, once");
}

fn send(mut packet: Packet, lent: &mut Lent) -> Option<u64> {
    packet.append(60)?;
    lent.send(packet)
}

/// An address that was lent at some time, near it, or any.
fn address(input: &mut Input<'_>, known: &[u64], how: u8) -> u64 {
    let offset = u64::from(input.u16());
    match (how & 0x30, known.is_empty()) {
        (0, _) | (_, true) => offset << (how >> 2),
        (0x10, _) => *input.pick(known),
        (0x20, _) => input.pick(known).wrapping_add(HEAD_ROOM as u64),
        _ => input.pick(known).wrapping_add(offset % 4096),
    }
}

/// Sequences of operations.
pub fn sequences() -> Vec<Vec<u8>> {
    let mut rng = Rng::new(12);
    let seed = |_| {
        let mut octets = vec![0; 16 + rng.below(500) as usize];
        rng.fill(&mut octets);
        octets
    };
    (0..32).map(seed).collect()
}
