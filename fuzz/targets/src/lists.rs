//! Access lists made of octets, asked about an arbitrary frame: a compiled list says what its
//! entries say one by one, and so does one that an edit has made of another. And the extensions of ICMP errors.

use crate::input::Input;
use crate::seeds;
use ferrule_base::MacAddr;
use ferrule_dataplane::acl::frame::{FrameEntry, FrameMatch, MacNet};
use ferrule_dataplane::acl::{AccessList, AclEntry, AclOutcome, Edit, Match, TcpFlags, Verdict};
use ferrule_dataplane::ipsec::{Addresses, Field, Selector, UNCOUNTED};
use ferrule_wire::{Protocol, icmpext, mpls};
use std::net::IpAddr;

/// Entries of a list at most.
const ENTRIES_MAX: u8 = 32;
/// The counter of what no entry has.
const REST: u32 = 1000;

fn addresses(input: &mut Input<'_>, v4: bool) -> Addresses {
    let len = input.u8();
    if v4 {
        let address = [input.u8(), input.u8(), input.u8(), input.u8()];
        Addresses::from((IpAddr::from(address), len % 33))
    } else {
        let mut address = [0_u8; 16];
        input.take(16).iter().zip(&mut address).for_each(|(&from, to)| *to = from);
        Addresses::from((IpAddr::from(address), len % 129))
    }
}

fn range(input: &mut Input<'_>) -> Field<u16> {
    let (a, b) = (input.u16(), input.u16());
    if a == 0 { Field::Any } else { Field::Range(a.min(b), a.max(b)) }
}

/// Conditions of an entry on IP.
fn matches(input: &mut Input<'_>) -> Match {
    let how = input.u8();
    let v4 = how & 1 == 0;
    let between = Selector::between(addresses(input, v4), addresses(input, v4));
    let protocol = *input.pick(&[Protocol::TCP, Protocol::UDP, Protocol::ICMP, Protocol::ICMPV6]);
    let selector = match how >> 1 & 3 {
        0 | 1 => between,
        _ if protocol.has_ports() => Selector {
            local_ports: range(input),
            remote_ports: range(input),
            ..between.of(protocol)
        },
        _ => Selector { message: range(input), ..between.of(protocol) },
    };
    let flags = || TcpFlags { set: how >> 4, clear: !how >> 4 };
    let tcp = (selector.protocol == Field::is(Protocol::TCP.0) && how & 8 != 0).then(flags);
    let dscp = (how & 0xc0 == 0xc0).then_some(how >> 2);
    let fragments = selector.protocol == Field::Any && how & 0x30 == 0x30;
    Match { selector, dscp, tcp, fragments }
}

fn entry(input: &mut Input<'_>, counter: u32) -> FrameEntry {
    let how = input.u8();
    let mut net = |asks: bool| {
        asks.then(|| {
            let address = MacAddr([input.u8(), input.u8(), input.u8(), 0, 0, input.u8()]);
            MacNet { address, len: input.u8() % 49 }
        })
    };
    let (src, dst) = (net(how & 1 != 0), net(how & 2 != 0));
    let ethertype = (how & 4 != 0).then(|| *input.pick(&[0x0800, 0x86dd, 0x0806, 0x8847]));
    let vlan = (how & 8 != 0).then(|| input.u16() & 0xfff);
    let exp = (how & 0x80 != 0).then(|| input.u8() & 7);
    let ip = (how & 0x30 != 0).then(|| matches(input));
    let verdict = if how & 0x40 == 0 { Verdict::Permit } else { Verdict::Deny };
    let matches = FrameMatch { src, dst, ethertype, vlan, exp, ip };
    FrameEntry { matches, verdict, logs: false, counter }
}

/// For the packets that an entry asks for, if it does.
fn packets(entry: &FrameEntry) -> Option<AclEntry> {
    let matches = entry.matches.ip.clone()?;
    let (verdict, counter) = (entry.verdict, entry.counter);
    Some(AclEntry { matches, verdict, logs: false, counter })
}

/// The list of these entries, for frames and for the packets that some of them ask for.
fn list(entries: &[FrameEntry], rest: u32) -> AccessList {
    let of_packets: Vec<AclEntry> = entries.iter().filter_map(packets).collect();
    let list = AccessList::new(&of_packets, rest).and_then(|list| list.with_frames(entries));
    list.expect("the entries were checked")
}

/// The list of some entries, made of a list of some others by an edit.
fn edited(
    entries: &[FrameEntry],
    was: impl Fn(u32) -> bool,
    is: impl Fn(u32) -> bool,
) -> AccessList {
    let (mut old, mut counters, mut edit) = (Vec::new(), Vec::new(), Edit::default());
    for entry in entries {
        let (was, is) = (was(entry.counter), is(entry.counter));
        let place = old.len() as u32;
        if was {
            old.push(FrameEntry { counter: place, ..entry.clone() });
            counters.push(if is { entry.counter } else { UNCOUNTED });
        } else if is {
            edit.packets.extend(packets(entry).map(|entry| (place, entry)));
            edit.frames.push((place, entry.clone()));
        }
    }
    counters.push(REST);
    edit.counters = counters.into();
    list(&old, old.len() as u32).edited(&edit).expect("a small edit")
}

/// A list, and a frame behind it.
pub fn acl(data: &[u8]) {
    let mut input = Input::new(data);
    let count = 1 + u32::from(input.u8() % ENTRIES_MAX);
    let is_good =
        |entry: &FrameEntry| entry.matches.ip.as_ref().is_none_or(|ip| ip.selector.check().is_ok());
    let entries: Vec<FrameEntry> =
        (0..count).map(|counter| entry(&mut input, counter)).filter(is_good).collect();
    let own = usize::from(input.u8() % 3);
    let mut some = || u64::from(input.u16()) << 16 | u64::from(input.u16());
    let (was, is) = (some(), some());
    let frame = input.take(usize::MAX);
    let packet = frame.get(14..).unwrap_or_default();
    let is_in = |set: u64| move |counter: u32| set >> counter & 1 == 1;
    let lists = [
        (list(&entries, REST), u64::MAX),
        (edited(&entries, is_in(was), is_in(is)), is),
        (edited(&entries, is_in(u64::MAX), is_in(is)), is),
    ];
    for (list, has) in lists {
        walks(&entries, |entry| is_in(has)(entry.counter), &list, (frame, own, packet));
    }
}

/// The first of these entries decides.
fn walks(
    entries: &[FrameEntry],
    is: impl Fn(&FrameEntry) -> bool,
    all: &AccessList,
    (frame, own, packet): (&[u8], usize, &[u8]),
) {
    let (mut of_frame, mut of_packet) = (None, None);
    for entry in entries.iter().filter(|entry| is(entry)) {
        let alone = list(std::slice::from_ref(entry), REST);
        let has = |outcome: Result<AclOutcome, _>| {
            outcome.is_ok_and(|outcome| outcome.counter() == entry.counter)
        };
        of_frame = of_frame.or(has(alone.judge_frame(frame, own)).then_some(entry.counter));
        of_packet = of_packet.or(has(alone.judge(packet)).then_some(entry.counter));
    }
    if let Ok(outcome) = all.judge_frame(frame, own) {
        assert_eq!(outcome.counter(), of_frame.unwrap_or(REST), "{entries:?}");
    }
    if let Ok(outcome) = all.judge(packet) {
        assert_eq!(outcome.counter(), of_packet.unwrap_or(REST), "{entries:?}");
    }
}

/// Frames of the recordings behind a few entries.
pub fn lists() -> Vec<Vec<u8>> {
    let entries = |n: usize| -> Vec<u8> {
        let octets = (0..24 * (n % 5)).map(|at| (at * 37 + n * 101) as u8);
        [n as u8 % 5].into_iter().chain(octets).collect()
    };
    let frames = seeds::frames().into_iter().enumerate().take(300);
    frames.map(|(n, frame)| [entries(n), frame].concat()).collect()
}

/// The extension of an ICMP error: a label stack in it reads back as it was written.
pub fn icmp_extension(data: &[u8]) {
    let Some(stack) = icmpext::label_stack(data) else { return };
    let octets: Vec<u8> = stack.entries().iter().flat_map(mpls::Repr::encoded).collect();
    let mut again = vec![0; icmpext::len(octets.len())];
    icmpext::emit(&octets, &mut again);
    assert_eq!(icmpext::label_stack(&again), Some(stack));
}

/// Extensions of stacks of one label to four.
pub fn extensions() -> Vec<Vec<u8>> {
    let extension = |depth: u32| {
        let entry = |at: u32| mpls::encode(16 + at, 0, at + 1 == depth, 1);
        let stack: Vec<u8> = (0..depth).flat_map(entry).collect();
        let mut octets = vec![0; icmpext::len(stack.len())];
        icmpext::emit(&stack, &mut octets);
        octets
    };
    (1..=4).map(extension).collect()
}
