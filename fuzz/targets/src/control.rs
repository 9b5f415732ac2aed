//! The neighbour core, operation by operation: messages, commands and time in
//! any order, and a data path that refuses some of its orders. It stays within its
//! bounds, the data path has exactly what it believes, and it forgets everybody
//! when it is left alone.

use crate::input::Input;
use ferrule_base::{Duration, Instant, MacAddr};
use ferrule_control::neighbour::config::{ENTRIES_MAX, PENDING_MAX, TRANSMITS_MAX};
use ferrule_control::neighbour::{Command, Discovery, Event, Interface, Order, State};
use ferrule_control::{Core, Refused};
use ferrule_wire::arp::{self, Operation};
use ferrule_wire::{EtherType, Protocol, ethernet, icmpv6, ipv6, ndp};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Timers that may be due within one step of time; the table bounds them.
const TIMERS_MAX: usize = 100_000;
/// Operations of one input.
const STEPS_MAX: usize = 512;

const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

fn mac(input: &mut Input<'_>) -> MacAddr {
    match input.u8() {
        0 => OWN,
        1 => MacAddr::BROADCAST,
        2 => MacAddr::ZERO,
        n => MacAddr([2, 0, 0, 0, 1, n]),
    }
}

fn v4(input: &mut Input<'_>) -> Ipv4Addr {
    let n = input.u8();
    if n == 255 { input.u16().into_v4() } else { Ipv4Addr::new(10, 0, 0, n) }
}

fn v6(input: &mut Input<'_>) -> Ipv6Addr {
    match input.u8() {
        n @ 0..=99 => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, n.into()),
        n @ 100..=199 => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(n) - 100),
        200 => ndp::solicited_node(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1)),
        201 => Ipv6Addr::UNSPECIFIED,
        202 => Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1),
        n => Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, n.into()),
    }
}

trait IntoV4 {
    fn into_v4(self) -> Ipv4Addr;
}

impl IntoV4 for u16 {
    fn into_v4(self) -> Ipv4Addr {
        let [high, low] = self.to_be_bytes();
        Ipv4Addr::new(10, high, low, 1)
    }
}

fn address(input: &mut Input<'_>) -> IpAddr {
    if input.u8() & 1 == 0 { v4(input).into() } else { v6(input).into() }
}

fn iface(input: &mut Input<'_>) -> u16 {
    u16::from(input.u8() % 3)
}

fn interface(input: &mut Input<'_>) -> Interface {
    let id = iface(input);
    let prefix = *input.pick(&[24, 8, 32, 31, 0]);
    let (v4, v6) = ((Ipv4Addr::new(10, 0, 0, 1), prefix), v6(input));
    let v6 = [(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1), 64), (v6, prefix * 4)];
    Interface { id, mac: OWN, v4: vec![v4], v6: v6.to_vec() }
}

fn frame(dst: MacAddr, src: MacAddr, ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; ethernet::Header::LEN];
    ethernet::Repr { dst, src, ethertype }.emit(&mut out);
    out.extend(payload);
    out
}

/// A message that is right but for what is altered at the end.
fn message(input: &mut Input<'_>) -> Vec<u8> {
    let kind = input.u8();
    let src = mac(input);
    let mut out = if kind & 1 == 0 {
        let operation = if kind & 2 == 0 { Operation::Request } else { Operation::Reply };
        let message = arp::Repr {
            operation,
            sender_mac: if kind & 4 == 0 { src } else { mac(input) },
            sender_ip: v4(input),
            target_mac: OWN,
            target_ip: v4(input),
        };
        let mut body = vec![0; message.len()];
        message.emit(&mut body);
        frame(OWN, src, EtherType::ARP, &body)
    } else {
        discovery(kind, src, input)
    };
    if kind & 0x80 != 0 {
        input.alter(&mut out);
    }
    out
}

fn discovery(kind: u8, src: MacAddr, input: &mut Input<'_>) -> Vec<u8> {
    let link = (kind & 4 == 0).then_some(src);
    let message = if kind & 2 == 0 {
        ndp::Repr::NeighbourSolicitation { target: v6(input), source_link: link }
    } else {
        ndp::Repr::NeighbourAdvertisement {
            target: v6(input),
            router: kind & 8 != 0,
            solicited: kind & 16 != 0,
            override_cache: kind & 32 != 0,
            target_link: link,
        }
    };
    let (from, to) = (v6(input), v6(input));
    let mut header = ipv6::Repr::new(Protocol::ICMPV6, from, to, message.len() as u16);
    header.hop_limit = if kind & 64 == 0 { ndp::HOP_LIMIT } else { 64 };
    let mut packet = vec![0; header.len() + message.len()];
    header.emit(&mut packet);
    message.emit(&mut packet[header.len()..]);
    icmpv6::fill_checksum(&header.ends(), &mut packet[header.len()..]);
    frame(OWN, src, EtherType::IPV6, &packet)
}

/// A core, the time, and the orders that the data path was given.
#[derive(Default)]
struct Rig {
    core: Discovery,
    now: Instant,
    told: BTreeMap<(u16, IpAddr), MacAddr>,
    /// The data path has no room for more.
    is_full: bool,
}

impl Rig {
    fn step(&mut self, input: &mut Input<'_>) {
        match input.u8() % 16 {
            0..=6 => {
                let message = message(input);
                let _ = self.core.handle_message(self.now, iface(input), &message);
            }
            7 => {
                let len = input.u8().into();
                let _ = self.core.handle_message(self.now, 0, input.take(len));
            }
            8 | 9 => self.waits(iface(input), address(input)),
            10 => self.command(Command::Keep { iface: iface(input), ip: address(input) }),
            11 => self.command(Command::Release { iface: iface(input), ip: address(input) }),
            12 => self.command(Command::Interface(interface(input))),
            13 => self.command(Command::Gone(iface(input))),
            14 => self.pass(u64::from(input.u16())),
            // A burst: more than the bounds would hold.
            _ => {
                let count = input.u8();
                for n in 0..u16::from(count) * 8 {
                    self.waits(0, n.into_v4().into());
                }
                self.is_full = count & 1 == 1;
            }
        }
    }

    fn command(&mut self, command: Command) {
        self.core.handle_command(self.now, command);
    }

    fn waits(&mut self, iface: u16, ip: IpAddr) {
        self.core.handle_event(self.now, Event::Waits { iface, ip });
    }

    fn pass(&mut self, millis: u64) {
        let end = self.now + Duration::from_millis(millis);
        for _ in 0..TIMERS_MAX {
            match self.core.poll_timeout() {
                Some(at) if at <= end => {
                    self.now = self.now.max(at);
                    self.core.handle_timeout(self.now);
                    self.drain();
                }
                _ => {
                    self.now = end;
                    return;
                }
            }
        }
        panic!("timers without end");
    }

    /// Takes everything out of the core, and holds it against what it believes.
    fn drain(&mut self) {
        let mut transmits = 0;
        while let Some((_, frame)) = self.core.poll_transmit() {
            let (link, _) = ethernet::Repr::parse(&frame).expect("a frame");
            assert_eq!(link.src, OWN);
            transmits += 1;
        }
        let mut events = 0;
        while let Some((token, order)) = self.core.poll_order() {
            events += 1;
            let answer = self.obey(order);
            self.core.handle_answer(self.now, token, answer);
        }
        events += std::iter::from_fn(|| self.core.poll_news()).count();
        assert!(transmits <= TRANSMITS_MAX, "{transmits} frames wait");
        // A message or command that is let in may tell of each neighbour.
        assert!(events <= PENDING_MAX + ENTRIES_MAX, "{events} orders and news wait");
        assert!(self.core.len() <= ENTRIES_MAX, "{} neighbours", self.core.len());
        for (&(iface, ip), &mac) in &self.told {
            let believed = self.core.state(iface, ip).and_then(State::mac);
            assert_eq!(believed, Some(mac), "{ip} on {iface}");
        }
    }

    fn obey(&mut self, order: Order) -> Result<(), Refused> {
        match order {
            Order::Set { .. } if self.is_full => return Err(Refused("no room".into())),
            Order::Set { iface, ip, mac } => {
                assert!(!mac.is_group() && mac != OWN && mac != MacAddr::ZERO, "{order:?}");
                self.told.insert((iface, ip), mac);
            }
            Order::Remove { iface, ip } => {
                assert!(self.told.remove(&(iface, ip)).is_some(), "{order:?}");
            }
        }
        Ok(())
    }
}

/// The neighbour core.
pub fn control(data: &[u8]) {
    let mut input = Input::new(data);
    let mut rig = Rig { now: Instant::from_secs(1), ..Rig::default() };
    for id in 0..2 {
        let v6 = [(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1), 64)];
        let v4 = vec![(Ipv4Addr::new(10, 0, 0, 1), 24 - id as u8 * 16)];
        rig.command(Command::Interface(Interface { id, mac: OWN, v4, v6: v6.to_vec() }));
    }
    rig.pass(2000);
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        let drain = input.u8() & 7 != 0;
        rig.step(&mut input);
        // The node may be busy with other things.
        if drain {
            rig.drain();
        }
    }
    rig.drain();
    for iface in 0..3 {
        rig.command(Command::Gone(iface));
    }
    rig.pass(100_000);
    rig.drain();
    assert!(rig.core.is_empty() && rig.told.is_empty() && rig.core.poll_timeout().is_none());
}

/// Operations of every kind.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut rng = ferrule_base::Rng::new(4);
    let seed = |_| {
        let mut octets = vec![0; 64 + rng.below(512) as usize];
        rng.fill(&mut octets);
        octets
    };
    (0..64).map(seed).collect()
}
