//! Lists for whole frames against a walk through their entries, over frames that are built
//! field by field.

use super::{Fields, fields, matches};
use crate::acl::frame::{FrameEntry, FrameMatch, MacNet};
use crate::acl::{AccessList, AclOutcome, Unread, Verdict};
use crate::classify::Search;
use ferrule_base::{DropReason, MacAddr};
use ferrule_pipeline::{BATCH, Packet, Pool};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// A frame by its fields.
#[derive(Clone, Debug)]
pub struct Frame {
    dst: MacAddr,
    src: MacAddr,
    /// Tags, the outer first.
    tags: Vec<(u16, u16)>,
    /// Contents: an IP packet, or octets of another EtherType.
    ip: Option<Fields>,
    ethertype: u16,
    /// Traffic class of a label there.
    class: u8,
}

impl Frame {
    fn ethertype(&self) -> u16 {
        match &self.ip {
            Some(fields) if fields.src.is_ipv4() => 0x0800,
            Some(_) => 0x86dd,
            None => self.ethertype,
        }
    }

    fn octets(&self) -> Vec<u8> {
        let mut out = [self.dst.0, self.src.0].concat();
        for (tpid, vid) in &self.tags {
            out.extend(tpid.to_be_bytes());
            out.extend((0xa000 | vid).to_be_bytes());
        }
        out.extend(self.ethertype().to_be_bytes());
        match &self.ip {
            Some(fields) => out.extend(fields.octets()),
            None => out.extend([self.class << 1; 46]),
        }
        out
    }

    /// As an entry asks, field by field; so many tags are the circuit's.
    fn is(&self, m: &FrameMatch, own: usize) -> bool {
        let net = |net: Option<MacNet>, mac: MacAddr| {
            let differ = |net: MacNet| (net.address.to_u64() ^ mac.to_u64()) >> (48 - net.len);
            net.is_none_or(|net| net.len == 0 || differ(net) == 0)
        };
        let vlan = self.tags.get(own).map_or(0, |(_, vid)| *vid);
        net(m.src, self.src)
            && net(m.dst, self.dst)
            && m.ethertype.is_none_or(|ethertype| ethertype == self.ethertype())
            && m.vlan.is_none_or(|asked| asked == vlan)
            && m.exp.is_none_or(|asked| {
                matches!(self.ethertype(), 0x8847 | 0x8848) && asked == self.class
            })
            && m.ip.as_ref().is_none_or(|asked| self.ip.as_ref().is_some_and(|ip| ip.is(asked)))
    }
}

fn mac() -> impl Strategy<Value = MacAddr> {
    select(vec![[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], [2, 0, 0x5e, 0, 0, 1], [0xff; 6]])
        .prop_map(MacAddr)
}

pub fn frames() -> impl Strategy<Value = Frame> {
    let tag = (select(vec![0x8100_u16, 0x88a8]), select(vec![0_u16, 1, 10, 4094]));
    let ip = proptest::option::weighted(0.8, fields());
    let other = (select(vec![0x0806_u16, 0x8847, 0x8848]), 0_u8..3);
    (mac(), mac(), vec(tag, 0..3), ip, other).prop_map(
        |(dst, src, tags, ip, (ethertype, class))| Frame { dst, src, tags, ip, ethertype, class },
    )
}

pub fn entry() -> impl Strategy<Value = FrameEntry> {
    let net = || {
        let net = (mac(), select(vec![0_u8, 1, 24, 47, 48]));
        proptest::option::weighted(0.3, net.prop_map(|(address, len)| MacNet { address, len }))
    };
    let ethertype = select(vec![0x0800_u16, 0x86dd, 0x0806, 0x88e5]);
    let ethertype = proptest::option::weighted(0.3, ethertype);
    let vlan = proptest::option::weighted(0.3, select(vec![0_u16, 1, 10]));
    let exp = proptest::option::weighted(0.3, 0_u8..3);
    let ip = proptest::option::weighted(0.6, matches());
    (net(), net(), ethertype, vlan, exp, ip, any::<bool>()).prop_map(
        |(src, dst, ethertype, vlan, exp, ip, permits)| FrameEntry {
            matches: FrameMatch { src, dst, ethertype, vlan, exp, ip },
            verdict: if permits { Verdict::Permit } else { Verdict::Deny },
            logs: false,
            counter: 0,
        },
    )
}

fn agrees(list: &[FrameEntry], frames: &[Frame], own: usize) -> Result<(), TestCaseError> {
    let compiled = AccessList::new(&[], list.len() as u32).unwrap().with_frames(list).unwrap();
    agrees_with(&compiled, list, frames, own)
}

pub fn agrees_with(
    compiled: &AccessList,
    list: &[FrameEntry],
    frames: &[Frame],
    own: usize,
) -> Result<(), TestCaseError> {
    let rest = list.len() as u32;
    let (mut cache, mut search) = (Pool::heap(BATCH, 512).cache(), Search::default());
    for frames in frames.chunks(BATCH) {
        let batch: Vec<Packet> =
            frames.iter().map(|f| cache.packet_from(&f.octets()).unwrap()).collect();
        let mut outcomes = vec![AclOutcome::PASSED; batch.len()];
        let mut unread = Unread::new();
        compiled.judge_frames(&batch, |_| own, &mut outcomes, (&mut unread, 0), &mut search);
        prop_assert!(unread.is_empty(), "{:?}", unread);
        for ((frame, packet), outcome) in frames.iter().zip(&batch).zip(outcomes) {
            let first = list.iter().find(|entry| frame.is(&entry.matches, own));
            let walked = first.map_or(AclOutcome::new(Verdict::Deny, rest), |entry| {
                AclOutcome::new(entry.verdict, entry.counter)
            });
            prop_assert_eq!(outcome, walked, "{:?}", frame);
            prop_assert_eq!(compiled.judge_frame(packet.data(), own), Ok(outcome));
        }
        batch.into_iter().for_each(|packet| cache.recycle(packet));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 200, ..Default::default() })]

    #[test]
    fn acl_of_frames_says_what_a_linear_walk_says(
        mut list in vec(entry(), 0..300), frames in vec(frames(), 200), own in 0_usize..3,
    ) {
        list.iter_mut().zip(0..).for_each(|(entry, number)| entry.counter = number);
        agrees(&list, &frames, own)?;
    }

    #[test]
    fn acl_of_frames_takes_any_octets(octets: Vec<u8>, own in 0_usize..3) {
        let list = AccessList::new(&[], 0).unwrap();
        let _ = list.judge_frame(&octets, own);
    }

    /// An entry that covers another one has every frame of the other; an entry with fewer
    /// conditions covers.
    #[test]
    fn acl_of_frames_covers_what_it_says(
        a in entry(), b in entry(), frames in vec(frames(), 50), own in 0_usize..3,
    ) {
        let (a, b) = (a.matches, b.matches);
        let narrower = FrameMatch {
            src: a.src.or(b.src),
            dst: a.dst.or(b.dst),
            ethertype: a.ethertype.or(b.ethertype),
            vlan: a.vlan.or(b.vlan),
            exp: a.exp.or(b.exp),
            ip: a.ip.clone().or(b.ip.clone()),
        };
        prop_assert!(a.covers(&narrower));
        for (wide, narrow) in [(&a, &b), (&a, &narrower), (&b, &narrower)] {
            let has = |m: &FrameMatch| frames.iter().map(|f| f.is(m, own)).collect::<Vec<_>>();
            let all = has(narrow).iter().zip(has(wide)).all(|(narrow, wide)| !narrow | wide);
            prop_assert!(!wide.covers(narrow) || all);
        }
    }
}

#[test]
fn acl_of_frames_refuses_ip_that_it_cannot_read() {
    let all = FrameEntry {
        matches: FrameMatch::default(),
        verdict: Verdict::Permit,
        logs: false,
        counter: 0,
    };
    let list = AccessList::new(&[], 1).unwrap().with_frames(&[all]).unwrap();
    let frame = |ethertype: [u8; 2], payload: &[u8]| {
        list.judge_frame(&[&[2; 12][..], &ethertype, payload].concat(), 0)
    };
    let refused = Err(DropReason::Malformed);
    assert_eq!(frame([8, 0], &[0x45, 0]), refused, "cut short");
    assert_eq!(frame([8, 0], &[0x60; 60]), refused, "another version");
    assert_eq!(frame([0x81, 0], &[0]), refused, "half a tag");
    assert_eq!(frame([0x88, 0x47], &[0, 1, 2]), refused, "half a label");
    assert_eq!(list.judge_frame(&[2; 13], 0), refused, "no header");
    assert!(frame([8, 6], &[0x45, 0]).is_ok_and(AclOutcome::permits));
}
