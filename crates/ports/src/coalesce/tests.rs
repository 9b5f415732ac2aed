//! Frames that are joined and cut again must be unchanged.

use super::*;
use crate::checksum::finish;
use crate::offload::Segmenter;
use ferrule_pipeline::{Batch, Pool, PoolCache};
use proptest::prelude::*;
use std::collections::HashSet;

/// One segment, with everything that may differ.
#[derive(Clone, Debug)]
struct Tcp {
    v6: bool,
    /// Of the flow: the source port.
    port: u16,
    sequence: u32,
    ack: u32,
    id: u16,
    dont_fragment: bool,
    class: u8,
    ttl: u8,
    flags: u8,
    window: u16,
    urgent: u16,
    /// Of TCP, a multiple of four octets.
    options: Vec<u8>,
    payload: Vec<u8>,
}

fn tcp(sequence: u32, id: u16, len: usize) -> Tcp {
    Tcp {
        v6: false,
        port: 4000,
        sequence,
        ack: 77,
        id,
        dont_fragment: true,
        class: 0,
        ttl: 64,
        flags: ACK,
        window: 500,
        urgent: 0,
        options: vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2],
        payload: (0..len).map(|i| sequence.wrapping_add(i as u32) as u8).collect(),
    }
}

impl Tcp {
    fn frame(&self) -> Vec<u8> {
        let tcp = 20 + self.options.len() + self.payload.len();
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        if self.v6 {
            frame.extend([0x86, 0xdd, 0x60 | self.class >> 4, self.class << 4, 0, 9]);
            frame.extend((tcp as u16).to_be_bytes());
            frame.extend([TCP, self.ttl]);
            frame.extend([0xfd; 16]);
            frame.extend([0xfc; 16]);
        } else {
            frame.extend([8, 0, 0x45, self.class]);
            frame.extend((20 + tcp as u16).to_be_bytes());
            frame.extend(self.id.to_be_bytes());
            frame.extend([if self.dont_fragment { 0x40 } else { 0 }, 0, self.ttl, TCP, 0, 0]);
            frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
            let sum = checksum(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        let at = frame.len();
        frame.extend(self.port.to_be_bytes());
        frame.extend([0, 80]);
        frame.extend(self.sequence.to_be_bytes());
        frame.extend(self.ack.to_be_bytes());
        frame.extend([((20 + self.options.len()) as u8 / 4) << 4, self.flags]);
        frame.extend(self.window.to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(self.urgent.to_be_bytes());
        frame.extend(&self.options);
        frame.extend(&self.payload);
        let pseudo = !Transport::find(&frame).expect("IP").pseudo(&frame, tcp).finish();
        frame[at + 16..at + 18].copy_from_slice(&pseudo.to_be_bytes());
        assert!(finish(&mut frame, at, 16));
        frame
    }
}

fn batch(cache: &mut PoolCache, frames: &[Vec<u8>]) -> Batch {
    frames.iter().map(|frame| cache.packet_from(frame).expect("a chunk")).collect()
}

/// Output of the port: descriptions and frames.
fn written(frames: &[Vec<u8>]) -> Vec<(VnetHeader, Vec<u8>)> {
    let pool = Pool::heap(BATCH, 2048);
    let mut batch = batch(&mut pool.cache(), frames);
    let mut coalescer = Coalescer::new();
    coalescer.arrange(&batch);
    let mut all = Vec::new();
    for group in coalescer.groups() {
        let first = { group }.next().expect("a frame");
        if group.count() == 1 {
            all.push((VnetHeader::default(), batch[first].data().to_vec()));
            continue;
        }
        let (headers, vnet) = join(&mut batch, group).expect("segments");
        let mut frame = batch[first].data().to_vec();
        group.skip(1).for_each(|at| frame.extend(&batch[at].data()[headers..]));
        all.push((vnet, frame));
    }
    all
}

/// Number of frames in each frame written.
fn counts(frames: &[Vec<u8>]) -> Vec<usize> {
    let pool = Pool::heap(BATCH, 2048);
    let mut coalescer = Coalescer::new();
    coalescer.arrange(&batch(&mut pool.cache(), frames));
    coalescer.groups().map(Iterator::count).collect()
}

/// Cuts a super-frame as the port does with frames that it reads.
fn cut((vnet, frame): &(VnetHeader, Vec<u8>)) -> Vec<Vec<u8>> {
    if !vnet.is_super_frame() {
        return vec![frame.clone()];
    }
    let (pool, mut segmenter) = (Pool::heap(BATCH, 2048), Segmenter::new());
    segmenter.frame[..frame.len()].copy_from_slice(frame);
    assert!(segmenter.start(frame.len(), *vnet, None), "what we made can be cut");
    let mut cache = pool.cache();
    let all = std::iter::from_fn(|| segmenter.next(&mut cache));
    all.map(|made| made.unwrap_or_else(|_| panic!("too large")).data().to_vec()).collect()
}

/// A train of segments of one flow.
fn train(count: u32, len: usize, edit: impl Fn(&mut Tcp)) -> Vec<Vec<u8>> {
    let one = |i: u32| {
        let mut segment = tcp(1000 + i * len as u32, 10 + i as u16, len);
        edit(&mut segment);
        segment.frame()
    };
    (0..count).map(one).collect()
}

#[test]
fn segments_are_coalesced_on_write() {
    for v6 in [false, true] {
        let mut frames = train(9, 1000, |t| t.v6 = v6);
        let mut last = tcp(10_000, 19, 300);
        (last.v6, last.flags) = (v6, ACK | PSH);
        frames.push(last.frame());
        let made = written(&frames);
        assert_eq!(made.len(), 1);
        let (vnet, frame) = &made[0];
        assert_eq!(vnet.gso_size, 1000);
        let headers = if v6 { 54 } else { 34 } + 32;
        assert_eq!(usize::from(vnet.header_len), headers);
        assert_eq!(frame.len(), headers + 9300);
        assert_eq!(usize::from(vnet.csum_start), headers - 32);
        // As a stack reads it: finished, the checksum is right.
        let mut finished = frame.clone();
        assert!(vnet.finish(&mut finished));
        let at = Transport::find(&finished).expect("IP");
        assert_eq!(at.end, finished.len());
        assert!(verifies(&finished, &at));
        assert_eq!(cut(&made[0]), frames);
    }
}

#[test]
fn segments_of_several_flows_are_coalesced_side_by_side_in_order() {
    let [a, b] = [1, 2].map(|port| train(4, 500, |t| t.port = port));
    let other = crate::checksum::tests::unfinished_udp(b"anything");
    let mixed: Vec<_> = [&a[0], &b[0], &other, &a[1], &a[2], &b[1], &b[2], &a[3], &b[3]]
        .into_iter()
        .cloned()
        .collect();
    let made = written(&mixed);
    assert_eq!(made.len(), 3);
    assert_eq!((cut(&made[0]), cut(&made[1])), (a, b));
    assert_eq!(made[2].1, other);
    // More flows than are looked after at a time: nothing is lost, nothing overtakes.
    let many: Vec<_> = (0..64).map(|i| tcp(1000, 1, 10 + i).frame()).collect();
    assert_eq!(counts(&many).iter().sum::<usize>(), 64);
    let flows: Vec<_> = (0..64u16)
        .map(|i| Tcp { port: i % 32, ..tcp(u32::from(i / 32) * 10, i / 32, 10) }.frame())
        .collect();
    assert_eq!(written(&flows).len(), 64, "too far apart");
}

type Edit = fn(&mut Tcp);

/// True if a second segment, changed, still joins the first.
fn joins(edit: impl Fn(&mut Tcp)) -> bool {
    let mut second = tcp(2000, 11, 1000);
    edit(&mut second);
    counts(&[tcp(1000, 10, 1000).frame(), second.frame()]) == [2]
}

#[test]
fn segments_that_differ_are_not_coalesced() {
    assert!(joins(|_| {}) && joins(|t| t.flags |= PSH) && joins(|t| t.payload.truncate(1)));
    assert!(joins(|t| t.id = 10), "with DF it may stay");
    let edits: [(&str, Edit); 19] = [
        ("a gap", |t| t.sequence += 1),
        ("again the same", |t| t.sequence -= 1000),
        ("longer than the first", |t| t.payload.push(1)),
        ("nothing in it", |t| t.payload.clear()),
        ("another port", |t| t.port += 1),
        ("another acknowledgement", |t| t.ack += 1),
        ("another identification", |t| t.id += 1),
        ("may be fragmented", |t| t.dont_fragment = false),
        ("another class", |t| t.class = 0x10),
        ("congestion seen", |t| t.class = 3),
        ("another TTL", |t| t.ttl -= 1),
        ("FIN", |t| t.flags |= 1),
        ("RST", |t| t.flags |= 4),
        ("SYN", |t| t.flags |= 2),
        ("URG", |t| (t.flags, t.urgent) = (t.flags | 0x20, 1)),
        ("ECE", |t| t.flags |= 0x40),
        ("CWR", |t| t.flags |= 0x80),
        ("another window", |t| t.window += 1),
        ("another option", |t| t.options[7] ^= 1),
    ];
    for (what, edit) in edits {
        assert!(!joins(edit), "{what}");
    }
    assert!(!joins(|t| t.options.extend([1; 4])), "more options");
    assert!(!joins(|t| t.v6 = true), "another protocol");
}

#[test]
fn a_short_segment_or_a_push_ends_a_super_frame() {
    let short = [tcp(1000, 10, 1000), tcp(2000, 11, 999), tcp(2999, 12, 1000)];
    assert_eq!(counts(&short.map(|t| t.frame())), [2, 1]);
    let mut pushed = [tcp(1000, 10, 1000), tcp(2000, 11, 1000), tcp(3000, 12, 1000)];
    pushed[1].flags |= PSH;
    assert_eq!(counts(&pushed.clone().map(|t| t.frame())), [2, 1]);
    // A frame that is not joined is not overtaken by the next one.
    pushed[1].flags = ACK | 1;
    assert_eq!(counts(&pushed.map(|t| t.frame())), [1, 1, 1]);
    // 64 KiB and no more: 65,535 less 52 octets of headers are 46 segments of 1,400.
    assert_eq!(counts(&train(64, 1400, |_| {})), [46, 18]);
}

#[test]
fn a_wrong_checksum_is_never_hidden_in_a_super_frame() {
    let good = train(4, 700, |_| {});
    for (wrong, at) in (0..4).flat_map(|wrong| [20, 24, 51, 80, 765].map(|at| (wrong, at))) {
        let mut frames = good.clone();
        frames[wrong][at] ^= 1;
        let made = written(&frames);
        let alone = made.iter().filter(|(vnet, _)| !vnet.is_super_frame());
        assert!(alone.map(|(_, frame)| frame).any(|frame| *frame == frames[wrong]), "{wrong} {at}");
        for (vnet, frame) in made.iter().filter(|(vnet, _)| vnet.is_super_frame()) {
            for segment in cut(&(*vnet, frame.clone())) {
                assert!(good.contains(&segment));
            }
        }
    }
}

#[test]
fn what_no_group_may_hide_ends_all_groups() {
    let train = train(2, 600, |_| {});
    let mut fragment = train[0].clone();
    fragment[20] = 0x20;
    assert_eq!(counts(&[train[0].clone(), fragment, train[1].clone()]), [1, 1, 1]);
    assert_eq!(counts(&[train[0].clone(), vec![0; 20], train[1].clone()]), [1, 1, 1]);
    let arp = [vec![2; 12], vec![8, 6], vec![0; 28]].concat();
    assert_eq!(counts(&[train[0].clone(), arp, train[1].clone()]), [2, 1]);
}

/// A few flows whose segments mostly follow one another, and sometimes do not.
fn any_batch() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let step = (0u16..4, 0usize..12, 1usize..1300, any::<u8>());
    let sizes = prop::collection::vec((1usize..1300, any::<bool>(), any::<bool>()), 4);
    (sizes, prop::collection::vec(step, 0..BATCH)).prop_map(|(flows, steps)| {
        let mut at: Vec<_> = flows.iter().map(|_| (1u32.wrapping_neg() - 3000, 65530u16)).collect();
        let mut frames = Vec::new();
        for (flow, what, len, noise) in steps {
            let (size, v6, dont_fragment) = flows[usize::from(flow)];
            let (sequence, id) = &mut at[usize::from(flow)];
            let len = if what == 0 { len } else { size };
            let mut segment = tcp(*sequence, *id, len);
            (segment.v6, segment.dont_fragment, segment.port) = (v6, dont_fragment, flow);
            *sequence = sequence.wrapping_add(len as u32);
            *id = id.wrapping_add(1);
            match what {
                1 => segment.flags = noise,
                2 => segment.window = u16::from(noise),
                3 => segment.sequence = segment.sequence.wrapping_add(u32::from(noise)),
                _ => {}
            }
            let mut frame = segment.frame();
            match what {
                4 => frame.truncate(usize::from(noise).min(frame.len())),
                5 => {
                    let octet = usize::from(noise) % frame.len();
                    frame[octet] ^= 1 << (noise & 7);
                }
                6 => frame.push(noise),
                _ => {}
            }
            frames.push(frame);
        }
        frames
    })
}

/// Protocol, addresses and ports: an octet that was changed may make it another flow.
fn flow(frame: &[u8]) -> Option<(u8, Vec<u8>, Vec<u8>)> {
    let at = Transport::find(frame)?;
    let addresses = if at.v6 { at.ip + 8..at.ip + 40 } else { at.ip + 12..at.ip + 20 };
    let ports = frame.get(at.at..at.at + 4)?;
    Some((at.protocol, frame.get(addresses)?.to_vec(), ports.to_vec()))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_batch_coalesced_as_the_rules_say_and_cut_again_is_the_same(frames in any_batch()) {
        let made = written(&frames);
        for (vnet, frame) in &made {
            prop_assert!(!vnet.is_super_frame() || frame.len() <= 14 + IP_MAX);
        }
        let again: Vec<Vec<u8>> = made.iter().flat_map(cut).collect();
        let sorted = |frames: &[Vec<u8>]| {
            let mut all = frames.to_vec();
            all.sort();
            all
        };
        prop_assert_eq!(sorted(&again), sorted(&frames), "the same frames");
        let flows: HashSet<_> = frames.iter().filter_map(|f| flow(f)).collect();
        for one in flows {
            let of = |frames: &[Vec<u8>]| -> Vec<Vec<u8>> {
                frames.iter().filter(|f| flow(f).as_ref() == Some(&one)).cloned().collect()
            };
            prop_assert_eq!(of(&again), of(&frames), "in the same order within a flow");
        }
    }

    #[test]
    fn any_octets_are_arranged_without_harm(frames in prop::collection::vec(
        prop::collection::vec(any::<u8>(), 0..200), 0..BATCH)) {
        let made = written(&frames);
        prop_assert_eq!(made.len(), frames.len(), "nothing that could be joined");
    }
}
