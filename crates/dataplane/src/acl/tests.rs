//! Lists, compiled, against a walk through their entries line by line, over packets that
//! are built and read field by field.

mod edits;
mod families;
mod frames;

use super::{AccessList, AclEntry, AclOutcome, Match, Scratch, TcpFlags, Unread, Verdict};
use crate::classify::hits::UNCOUNTED;
use crate::classify::selector::{Addresses, Field, Selector};
use ferrule_base::DropReason;
use ferrule_pipeline::{BATCH, Packet, Pool};
use ferrule_wire::{Protocol, ipv4, ipv6};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use std::net::IpAddr;

/// A packet by its fields.
#[derive(Clone, Debug)]
struct Fields {
    src: IpAddr,
    dst: IpAddr,
    protocol: u8,
    ports: (u16, u16),
    flags: u8,
    dscp: u8,
    /// Offset in units of eight octets; a later fragment if it is not zero.
    fragment: u16,
    /// Octets behind the IP header.
    len: usize,
    /// An option in the IPv4 header.
    option: bool,
}

impl Fields {
    fn octets(&self) -> Vec<u8> {
        let protocol = Protocol(self.protocol);
        let mut upper = [&self.ports.0.to_be_bytes()[..], &self.ports.1.to_be_bytes()].concat();
        upper.resize(20, 0);
        upper[13] = self.flags;
        upper.resize(self.len, 0);
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let mut packet = vec![0; 20];
                ipv4::Repr::new(protocol, src, dst, self.len as u16).emit(&mut packet);
                packet[1] = self.dscp << 2 | 1;
                packet[6..8].copy_from_slice(&self.fragment.to_be_bytes());
                if self.option {
                    packet[0] = 0x46;
                    packet.extend([1; 4]);
                }
                packet.extend(upper);
                packet
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let mut packet = vec![0; 40];
                let next = if self.fragment > 0 { Protocol::FRAGMENT } else { protocol };
                ipv6::Repr::new(next, src, dst, self.len as u16 + 8).emit(&mut packet);
                let class = self.dscp << 2 | 1;
                (packet[0], packet[1]) = (0x60 | class >> 4, class << 4);
                if self.fragment > 0 {
                    let [high, low] = (self.fragment << 3).to_be_bytes();
                    packet.extend([self.protocol, 0, high, low, 0, 0, 0, 1]);
                }
                packet.extend(upper);
                packet
            }
            _ => unreachable!("one family"),
        }
    }

    fn shows(&self, octets: usize) -> bool {
        self.fragment == 0 && self.len >= octets
    }

    /// As an entry asks, field by field.
    fn is(&self, m: &Match) -> bool {
        let s = &m.selector;
        let within = |all: &Addresses, a: IpAddr| all.is_ipv4() == a.is_ipv4() && all.contains(a);
        // The protocol in a later fragment of IPv6 cannot be trusted.
        let protocol = (self.src.is_ipv4() || self.fragment == 0).then_some(self.protocol);
        let has_ports = matches!(self.protocol, 6 | 17) && self.shows(4);
        let port = |port| has_ports.then_some(port);
        let [high, low] = self.ports.0.to_be_bytes();
        let message = matches!(self.protocol, 1 | 58) && self.shows(2);
        let message = message.then_some(u16::from_be_bytes([high, low]));
        let flags = (self.protocol == 6 && self.shows(14)).then_some(self.flags);
        within(&s.local, self.src)
            && within(&s.remote, self.dst)
            && asks(s.protocol, protocol)
            && asks(s.local_ports, port(self.ports.0))
            && asks(s.remote_ports, port(self.ports.1))
            && asks(s.message, message)
            && m.dscp.is_none_or(|dscp| dscp == self.dscp)
            && m.tcp.is_none_or(|tcp| {
                flags.is_some_and(|flags| flags & tcp.set == tcp.set && flags & tcp.clear == 0)
            })
            && (!m.fragments || self.fragment > 0)
    }
}

fn asks<T: PartialOrd>(field: Field<T>, seen: Option<T>) -> bool {
    match (field, seen) {
        (Field::Any, _) => true,
        (Field::Range(first, last), Some(value)) => first <= value && value <= last,
        (Field::Range(..), None) => false,
        (Field::Opaque, seen) => seen.is_none(),
    }
}

/// Few values, so that packets meet entries often.
fn address(v4: bool) -> BoxedStrategy<IpAddr> {
    let octet = || select(vec![0_u8, 1, 2, 127, 128, 255]);
    match v4 {
        true => (octet(), octet()).prop_map(|(a, b)| IpAddr::from([10, a, 0, b])).boxed(),
        false => (octet(), octet())
            .prop_map(|(a, b)| IpAddr::from([0x2001, a.into(), 0, 0, 0, 0, 0, u16::from(b) << 8]))
            .boxed(),
    }
}

fn addresses(v4: bool) -> BoxedStrategy<Addresses> {
    let all = if v4 { Addresses::V4 } else { Addresses::V6 };
    let lens = if v4 { vec![8, 12, 16, 24, 31, 32] } else { vec![16, 24, 32, 64, 120, 128] };
    let network = (address(v4), select(lens)).prop_map(Addresses::from);
    let range =
        (address(v4), address(v4)).prop_map(|(a, b)| Addresses { first: a.min(b), last: a.max(b) });
    prop_oneof![2 => Just(all), 4 => network, 1 => range].boxed()
}

fn port() -> impl Strategy<Value = u16> + Clone {
    select(vec![0_u16, 1, 79, 80, 0x0800, 0x0301, u16::MAX])
}

fn ports() -> BoxedStrategy<Field<u16>> {
    let range = (port(), port()).prop_map(|(a, b)| Field::Range(a.min(b), a.max(b)));
    prop_oneof![2 => Just(Field::Any), 2 => range].boxed()
}

fn matches() -> impl Strategy<Value = Match> {
    let flags =
        (any::<u8>(), any::<u8>()).prop_map(|(a, b)| TcpFlags { set: a & b, clear: a & !b });
    let dscp = proptest::option::weighted(0.2, select(vec![0_u8, 1, 46, 63]));
    let upper = (select(vec![0_u8, 1, 6, 17, 58]), ports(), ports(), ports(), flags);
    (any::<bool>(), upper, dscp, 0..10).prop_flat_map(|(v4, upper, dscp, more)| {
        (addresses(v4), addresses(v4)).prop_map(move |(local, remote)| {
            let (protocol, local_ports, remote_ports, message, flags) = upper;
            let any = Selector::between(local, remote);
            let selector = match protocol {
                0 => any,
                6 | 17 => Selector { local_ports, remote_ports, ..any.of(Protocol(protocol)) },
                _ => Selector { message, ..any.of(Protocol(protocol)) },
            };
            let tcp = (protocol == 6 && more < 5).then_some(flags);
            Match { selector, dscp, tcp, fragments: protocol == 0 && more == 9 }
        })
    })
}

fn list(size: std::ops::Range<usize>) -> impl Strategy<Value = Vec<AclEntry>> {
    let entry = (matches(), any::<bool>()).prop_map(|(matches, permits)| AclEntry {
        matches,
        verdict: if permits { Verdict::Permit } else { Verdict::Deny },
        logs: false,
        counter: 0,
    });
    vec(entry, size).prop_map(|mut list| {
        list.iter_mut().zip(0..).for_each(|(entry, number)| entry.counter = number);
        list
    })
}

fn fields() -> impl Strategy<Value = Fields> {
    let upper = (select(vec![1_u8, 6, 17, 47, 58]), (port(), port()), any::<u8>());
    let rest = (select(vec![0_u8, 1, 46, 63]), select(vec![0_u16, 0, 0, 2, 185]));
    let shape = (select(vec![0_usize, 3, 4, 13, 14, 20, 40]), any::<bool>());
    (any::<bool>(), upper, rest, shape).prop_flat_map(|(v4, upper, rest, shape)| {
        (address(v4), address(v4)).prop_map(move |(src, dst)| {
            let (protocol, ports, flags) = upper;
            let ((dscp, fragment), (len, option)) = (rest, shape);
            Fields { src, dst, protocol, ports, flags, dscp, fragment, len, option }
        })
    })
}

/// The first entry that has the packet.
fn walk(list: &[AclEntry], fields: &Fields) -> AclOutcome {
    let first = list.iter().find(|entry| fields.is(&entry.matches));
    first.map_or(AclOutcome::new(Verdict::Deny, list.len() as u32), |entry| {
        AclOutcome::new(entry.verdict, entry.counter)
    })
}

fn agrees(list: &[AclEntry], packets: &[Fields]) -> Result<(), TestCaseError> {
    agrees_with(&AccessList::new(list, list.len() as u32).unwrap(), list, packets)
}

fn agrees_with(
    compiled: &AccessList,
    list: &[AclEntry],
    packets: &[Fields],
) -> Result<(), TestCaseError> {
    let (mut cache, mut scratch) = (Pool::heap(BATCH, 512).cache(), Scratch::default());
    for packets in packets.chunks(BATCH) {
        let batch: Vec<Packet> =
            packets.iter().map(|f| cache.packet_from(&f.octets()).unwrap()).collect();
        let mut outcomes = vec![AclOutcome::PASSED; batch.len()];
        let mut unread = Unread::new();
        compiled.judge_all(&batch, &mut outcomes, (&mut unread, 0), &mut scratch, |_| ());
        prop_assert!(unread.is_empty(), "{:?}", unread);
        for ((fields, packet), outcome) in packets.iter().zip(&batch).zip(outcomes) {
            prop_assert_eq!(outcome, walk(list, fields), "{:?}", fields);
            prop_assert_eq!(compiled.judge(packet.data()), Ok(outcome), "{:?}", fields);
        }
        batch.into_iter().for_each(|packet| cache.recycle(packet));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 200, ..Default::default() })]

    #[test]
    fn acl_says_what_a_linear_walk_says_of_few_entries(
        list in list(0..12), packets in vec(fields(), 100),
    ) {
        agrees(&list, &packets)?;
    }

    #[test]
    fn acl_says_what_a_linear_walk_says_of_many_entries(
        list in list(100..600), packets in vec(fields(), 200),
    ) {
        agrees(&list, &packets)?;
    }
}

#[test]
fn acl_refuses_what_it_cannot_read_and_says_why() {
    let all = Match {
        selector: Selector::between(Addresses::V4, Addresses::V4),
        dscp: None,
        tcp: None,
        fragments: false,
    };
    let entry = AclEntry { matches: all, verdict: Verdict::Permit, logs: false, counter: 0 };
    let list = AccessList::new(&[entry], 1).unwrap();
    let mut cache = Pool::heap(4, 512).cache();
    let batch = [&[0x45, 0, 0][..], &[0x60; 12], &[0x11; 40]];
    let batch = batch.map(|octets| cache.packet_from(octets).unwrap());
    let (mut outcomes, mut unread) = ([AclOutcome::PASSED; 3], Unread::new());
    let mut scratch = Scratch::default();
    list.judge_all(&batch, &mut outcomes, (&mut unread, 5), &mut scratch, |_| ());
    assert!(outcomes.iter().all(|o| !o.permits() && o.counter() == UNCOUNTED));
    assert_eq!(unread[..], [5, 6, 7].map(|at| (at, DropReason::Malformed)));
}

/// RFC 1858: a first fragment that shows no TCP flags, and a second one that would write
/// them, pass no list, even if it permits everything.
#[test]
fn acl_refuses_fragments_that_hide_or_rewrite_tcp_flags() {
    for v4 in [true, false] {
        let all = if v4 { Addresses::V4 } else { Addresses::V6 };
        let matches = Match {
            selector: Selector::between(all, all),
            dscp: None,
            tcp: None,
            fragments: false,
        };
        let entry = AclEntry { matches, verdict: Verdict::Permit, logs: false, counter: 0 };
        let list = AccessList::new(&[entry], 1).unwrap();
        let packet = |protocol, fragment: u16, len, more: bool| {
            let ends: [IpAddr; 2] = match v4 {
                true => [[10, 1, 0, 1].into(), [10, 2, 0, 1].into()],
                false => ["2001:db8::1", "2001:db8::2"].map(|end| end.parse().unwrap()),
            };
            let fields = Fields {
                src: ends[0],
                dst: ends[1],
                protocol,
                ports: (1, 2),
                flags: 2,
                dscp: 0,
                // So that IPv6 has the header; its offset is written below.
                fragment: if v4 { fragment } else { 9 },
                len,
                option: false,
            };
            let mut octets = fields.octets();
            if v4 {
                octets[6] |= u8::from(more) << 5;
            } else {
                octets[42..44].copy_from_slice(&(fragment << 3 | u16::from(more)).to_be_bytes());
            }
            list.judge(&octets).map(AclOutcome::permits)
        };
        let tiny = Err(DropReason::FragmentTiny);
        assert_eq!(packet(6, 0, 8, true), tiny, "the first shows no flags");
        assert_eq!(packet(6, 1, 40, false), tiny, "the second would write them");
        assert_eq!(packet(6, 0, 24, true), Ok(true));
        assert_eq!(packet(6, 2, 40, false), Ok(true));
        assert_eq!(packet(17, 0, 8, true), Ok(true));
        assert_eq!(packet(17, 1, 40, false), Ok(true));
    }
}

/// 100,000 entries. Their time is for the bench; their memory is counted here.
#[test]
fn acl_of_many_entries_takes_bounded_memory() {
    let mut rng = ferrule_base::Rng::new(9);
    let entry = |counter: u32| {
        let mut address =
            |len| Addresses::from((IpAddr::from((rng.next_u64() as u32).to_be_bytes()), len));
        let selector = Selector::between(address(24), address(20));
        let selector = Selector {
            remote_ports: Field::Range(counter as u16, counter as u16),
            ..selector.of(Protocol::TCP)
        };
        let matches = Match { selector, dscp: None, tcp: None, fragments: false };
        AclEntry { matches, verdict: Verdict::Permit, logs: false, counter }
    };
    let entries: Vec<AclEntry> = (0..20_000).map(entry).collect();
    let list = AccessList::new(&entries, 0).unwrap();
    assert!(list.octets() <= 200 * entries.len(), "{} an entry", list.octets() / entries.len());
}
