//! Meaning of a policy in its simplest form: entries one after the other, a packet as
//! fields that are there or not.

use crate::ipsec::{Action, Addresses, Field, PolicyEntry, Selector};
use ferrule_wire::{Protocol, ipv4, ipv6};
use proptest::collection::vec;
use proptest::prelude::*;
use std::net::IpAddr;

/// A packet, from fields to octets.
#[derive(Clone, Debug)]
pub struct Traffic {
    pub local: IpAddr,
    pub remote: IpAddr,
    pub protocol: u8,
    /// Local and remote port, or ICMP type and code, or what stands there.
    pub first: [u8; 4],
    /// In units of 8 octets.
    pub fragment: u16,
    /// Octets behind the IP headers.
    pub len: usize,
    /// IPv6: what a later fragment says that its datagram begins with is an extension
    /// header.
    pub hidden: bool,
}

const PORTS: [u8; 5] = [6, 17, 33, 132, 136];

/// A field of the model: there with a value, not part of such packets, or out of sight.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Seen<T> {
    Value(T),
    Absent,
    Hidden,
}

impl Traffic {
    fn protocol(&self) -> Seen<u8> {
        let hidden = self.fragment > 0 && self.local.is_ipv6();
        if hidden { Seen::Hidden } else { Seen::Value(self.protocol) }
    }

    /// `at`: which half of the first four octets.
    fn port(&self, at: usize) -> Seen<u16> {
        match self.protocol() {
            Seen::Hidden => Seen::Hidden,
            Seen::Value(p) if PORTS.contains(&p) && self.fragment == 0 && self.len >= 4 => {
                Seen::Value(u16::from_be_bytes([self.first[2 * at], self.first[2 * at + 1]]))
            }
            Seen::Value(p) if PORTS.contains(&p) => Seen::Hidden,
            _ => Seen::Absent,
        }
    }

    fn message(&self) -> Seen<u16> {
        let need = match self.protocol() {
            Seen::Hidden => return Seen::Hidden,
            Seen::Value(1 | 58) => 2,
            Seen::Value(135) => 3,
            _ => return Seen::Absent,
        };
        let [a, b, c, _] = self.first;
        if self.fragment > 0 || self.len < need {
            return Seen::Hidden;
        }
        Seen::Value(u16::from_be_bytes(if need == 2 { [a, b] } else { [c, 0] }))
    }

    /// Out of `local`, towards `remote`.
    pub fn outbound(&self) -> Vec<u8> {
        self.octets(self.local, self.remote, false)
    }

    /// The same traffic on its way in.
    pub fn inbound(&self) -> Vec<u8> {
        self.octets(self.remote, self.local, PORTS.contains(&self.protocol))
    }

    fn octets(&self, src: IpAddr, dst: IpAddr, turned: bool) -> Vec<u8> {
        let [a, b, c, d] = self.first;
        let first = if turned { [c, d, a, b] } else { self.first };
        let mut upper = vec![0; self.len];
        upper.iter_mut().zip(first).for_each(|(to, from)| *to = from);
        let protocol = Protocol(self.protocol);
        match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let mut packet = vec![0; 20];
                ipv4::Repr::new(protocol, src, dst, self.len as u16).emit(&mut packet);
                packet[6..8].copy_from_slice(&self.fragment.to_be_bytes());
                packet.extend(upper);
                packet
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let mut packet = vec![0; 40];
                let behind = if self.fragment > 0 { Protocol::FRAGMENT } else { protocol };
                ipv6::Repr::new(behind, src, dst, self.len as u16 + 8).emit(&mut packet);
                if self.fragment > 0 {
                    let next = if self.hidden { Protocol::DESTINATION } else { protocol };
                    let [high, low] = (self.fragment << 3).to_be_bytes();
                    packet.extend([next.0, 0, high, low, 0, 0, 0, 1]);
                }
                packet.extend(upper);
                packet
            }
            _ => panic!("one family"),
        }
    }
}

fn meets<T: PartialOrd>(field: &Field<T>, seen: &Seen<T>) -> bool {
    match (field, seen) {
        (Field::Any, _) => true,
        (Field::Range(first, last), Seen::Value(v)) => first <= v && v <= last,
        (Field::Range(..), _) => false,
        (Field::Opaque, seen) => !matches!(seen, Seen::Value(_)),
    }
}

fn may_meet<T: PartialOrd>(field: &Field<T>, seen: &Seen<T>) -> bool {
    meets(field, seen) || (matches!(seen, Seen::Hidden) && matches!(field, Field::Range(..)))
}

fn within(all: &Addresses, address: IpAddr) -> bool {
    address.is_ipv4() == all.first.is_ipv4() && all.first <= address && address <= all.last
}

fn matches(s: &Selector, t: &Traffic, may: bool) -> bool {
    fn ask<T: PartialOrd>(may: bool, field: &Field<T>, seen: Seen<T>) -> bool {
        if may { may_meet(field, &seen) } else { meets(field, &seen) }
    }
    within(&s.local, t.local)
        && within(&s.remote, t.remote)
        && ask(may, &s.protocol, t.protocol())
        && ask(may, &s.local_ports, t.port(0))
        && ask(may, &s.remote_ports, t.port(1))
        && ask(may, &s.message, t.message())
}

/// Place of the entry that decides, if any, and the action.
pub fn decide(entries: &[PolicyEntry], t: &Traffic) -> (Option<usize>, Action) {
    let first = entries.iter().position(|e| matches(&e.selector, t, false));
    let Some(place) = first else { return (None, Action::Discard) };
    let before = &entries[..place];
    let meant = |e: &PolicyEntry| e.action != Action::Bypass && matches(&e.selector, t, true);
    let action = entries[place].action;
    let slips = action == Action::Bypass && before.iter().any(meant);
    (Some(place), if slips { Action::Discard } else { action })
}

/// True if any of the selectors matches the packet.
pub fn admits(selectors: &[Selector], t: &Traffic) -> bool {
    selectors.iter().any(|s| matches(s, t, false))
}

/// Few values, so that traffic meets selectors often; their edges among them.
fn address(v4: bool) -> BoxedStrategy<IpAddr> {
    let octet = || prop_oneof![Just(0_u8), Just(1), Just(2), Just(127), Just(128), Just(255)];
    if v4 {
        (octet(), octet()).prop_map(|(a, b)| IpAddr::from([10, a, 0, b])).boxed()
    } else {
        let word = |a: u8, b: u8| u16::from_be_bytes([a, b]);
        (octet(), octet(), octet())
            .prop_map(move |(a, b, c)| {
                IpAddr::from([0x2001, word(a, 0), 0, word(0, b), 0, 0, 0, word(0, c)])
            })
            .boxed()
    }
}

fn addresses(v4: bool) -> BoxedStrategy<Addresses> {
    let all = if v4 { Addresses::V4 } else { Addresses::V6 };
    let lens = if v4 { vec![8, 12, 16, 24, 31, 32] } else { vec![16, 24, 32, 64, 120, 128] };
    let network = (address(v4), proptest::sample::select(lens)).prop_map(Addresses::from);
    let range =
        (address(v4), address(v4)).prop_map(|(a, b)| Addresses { first: a.min(b), last: a.max(b) });
    prop_oneof![1 => Just(all), 3 => network, 2 => range].boxed()
}

fn field<T: Copy + PartialOrd + std::fmt::Debug + 'static>(
    value: impl Strategy<Value = T> + Clone + 'static,
) -> BoxedStrategy<Field<T>> {
    let range = (value.clone(), value)
        .prop_map(|(a, b)| if a <= b { Field::Range(a, b) } else { Field::Range(b, a) });
    prop_oneof![3 => Just(Field::Any), 4 => range, 1 => Just(Field::Opaque)].boxed()
}

fn protocol() -> impl Strategy<Value = u8> + Clone {
    proptest::sample::select(vec![1_u8, 6, 17, 47, 58, 135])
}

fn port() -> impl Strategy<Value = u16> + Clone {
    proptest::sample::select(vec![0_u16, 1, 79, 80, 0x0800, 0x0301, 0x0500, 0x8000, u16::MAX])
}

/// Selectors that make sense.
pub fn selector() -> impl Strategy<Value = Selector> {
    let parts = any::<bool>().prop_flat_map(|v4| {
        let protocol = prop_oneof![
            2 => Just(Field::Any),
            5 => protocol().prop_map(Field::is),
            1 => Just(if v4 { Field::Any } else { Field::Opaque }),
        ];
        let ends = (addresses(v4), addresses(v4));
        (ends, protocol, field(port()), field(port()), field(port()))
    });
    parts.prop_map(|((local, remote), protocol, local_ports, remote_ports, message)| {
        let mut s = Selector { local, remote, protocol, local_ports, remote_ports, message };
        let ranges = |field: &mut Field<u16>| {
            if matches!(field, Field::Range(..)) {
                *field = Field::Any;
            }
        };
        if !matches!(protocol, Field::Range(p, _) if PORTS.contains(&p)) {
            ranges(&mut s.local_ports);
            ranges(&mut s.remote_ports);
        }
        if !matches!(protocol, Field::Range(1 | 58 | 135, _)) {
            ranges(&mut s.message);
        }
        s
    })
}

pub fn entries(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<PolicyEntry>> {
    let action = prop_oneof![
        (0..9_u32).prop_map(Action::Protect),
        Just(Action::Bypass),
        Just(Action::Discard)
    ];
    vec((selector(), action), count).prop_map(|all| {
        let numbered = all.into_iter().enumerate();
        numbered
            .map(|(n, (selector, action))| PolicyEntry { selector, action, counter: n as u32 })
            .collect()
    })
}

pub fn traffic() -> impl Strategy<Value = Traffic> {
    let fragment = prop_oneof![4 => Just(0_u16), 1 => Just(1), 1 => Just(185)];
    let len = prop_oneof![6 => Just(8_usize), 1 => 0..4_usize];
    let ends = any::<bool>().prop_flat_map(|v4| (address(v4), address(v4)));
    (ends, protocol(), port(), port(), fragment, len, any::<bool>()).prop_map(
        |((local, remote), protocol, a, b, fragment, len, hidden)| {
            let ([a, b], [c, d]) = (a.to_be_bytes(), b.to_be_bytes());
            // Nobody reads behind what is there.
            let first = [a, b, c, d];
            Traffic { local, remote, protocol, first, fragment, len, hidden }
        },
    )
}
