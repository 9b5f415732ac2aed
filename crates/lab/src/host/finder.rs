//! Finds the neighbours that a host will send to, before it does, and refreshes
//! them while it runs.
//!
//! The stack has ARP and ND of its own, but asks for one neighbour in a second
//! at most and forgets one after a minute without a packet from it; a source
//! that sends one way would pause each time. The answers to what is asked here
//! go to the stack as all frames do, and fill its table.

use ferrule_base::{Duration, Instant, MacAddr};
use ferrule_wire::{Ends, EtherType, Protocol, arp, ethernet, icmpv6, ipv6, ndp};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Neighbours that are looked for at most.
const NEIGHBOURS_MAX: usize = 64;
/// Time of a host's first request: nodes have announced themselves by then.
const FIRST: Instant = Instant::from_millis(1);
/// From an unanswered question to the next.
const RETRY: Duration = Duration::from_millis(20);
/// From an answer to the next question.
const REFRESH: Duration = Duration::from_secs(20);

/// Neighbour that is looked for.
struct Wanted {
    /// The pair of own address and neighbour to be found.
    pair: Pair,
    ask_at: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pair {
    V4(Ipv4Addr, Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
}

/// The list of a host.
#[derive(Default)]
pub(super) struct Finder {
    wanted: Vec<Wanted>,
}

impl Finder {
    /// Looks for `neighbour` from now on, on behalf of `own`.
    pub fn want(&mut self, neighbour: IpAddr, own: IpAddr) {
        let pair = match (neighbour, own) {
            (IpAddr::V4(neighbour), IpAddr::V4(own)) => Pair::V4(neighbour, own),
            (IpAddr::V6(neighbour), IpAddr::V6(own)) => Pair::V6(neighbour, own),
            _ => return,
        };
        if self.wanted.len() < NEIGHBOURS_MAX && self.wanted.iter().all(|w| w.pair != pair) {
            self.wanted.push(Wanted { pair, ask_at: FIRST });
        }
    }

    pub fn due(&self) -> Option<Instant> {
        self.wanted.iter().map(|wanted| wanted.ask_at).min()
    }

    /// The questions that are due, as frames.
    pub fn ask(&mut self, now: Instant, mac: MacAddr, mut send: impl FnMut(&[u8])) {
        for wanted in self.wanted.iter_mut().filter(|wanted| wanted.ask_at <= now) {
            wanted.ask_at = now + RETRY;
            send(&match wanted.pair {
                Pair::V4(neighbour, own) => request(mac, own, neighbour),
                Pair::V6(neighbour, own) => solicitation(mac, own, neighbour),
            });
        }
    }

    /// Looks at a frame that arrived, for an answer.
    pub fn hear(&mut self, now: Instant, frame: &[u8]) {
        let Some((_, rest)) = frame.split_at_checked(12) else { return };
        let heard = match rest {
            [0x08, 0x06, rest @ ..] => {
                // The stack learns from what is said to it, and so do we.
                let Ok((message, _)) = arp::Repr::parse(rest) else { return };
                let to_us =
                    |w: &&Wanted| matches!(w.pair, Pair::V4(_, o) if o == message.target_ip);
                if !self.wanted.iter().any(|wanted| to_us(&wanted)) {
                    return;
                }
                IpAddr::V4(message.sender_ip)
            }
            [0x86, 0xdd, rest @ ..] if rest.get(6) == Some(&Protocol::ICMPV6.0) => {
                // An advertisement: type 136 behind a header of 40 octets.
                let Some((header, [136, ..])) = rest.split_at_checked(40) else { return };
                let Some(from) = header.get(8..).and_then(|h| h.first_chunk::<16>()) else {
                    return;
                };
                IpAddr::V6((*from).into())
            }
            _ => return,
        };
        for wanted in &mut self.wanted {
            let found = match wanted.pair {
                Pair::V4(neighbour, _) => IpAddr::V4(neighbour) == heard,
                Pair::V6(neighbour, _) => IpAddr::V6(neighbour) == heard,
            };
            if found {
                wanted.ask_at = now + REFRESH;
            }
        }
    }
}

fn framed(dst: MacAddr, src: MacAddr, ethertype: EtherType, len: usize) -> Vec<u8> {
    let mut frame = vec![0; ethernet::Header::LEN + len];
    ethernet::Repr { dst, src, ethertype }.emit(&mut frame);
    frame
}

fn request(mac: MacAddr, own: Ipv4Addr, neighbour: Ipv4Addr) -> Vec<u8> {
    let message = arp::Repr {
        operation: arp::Operation::Request,
        sender_mac: mac,
        sender_ip: own,
        target_mac: MacAddr::ZERO,
        target_ip: neighbour,
    };
    let mut frame = framed(MacAddr::BROADCAST, mac, EtherType::ARP, message.len());
    message.emit(&mut frame[ethernet::Header::LEN..]);
    frame
}

fn solicitation(mac: MacAddr, own: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
    let message = ndp::Repr::NeighbourSolicitation { target, source_link: Some(mac) };
    let group = ndp::solicited_node(target);
    let mut header = ipv6::Repr::new(Protocol::ICMPV6, own, group, message.len() as u16);
    header.hop_limit = ndp::HOP_LIMIT;
    let header_len = header.len();
    let len = header_len + message.len();
    let mut frame = framed(ndp::group_mac(group), mac, EtherType::IPV6, len);
    let packet = &mut frame[ethernet::Header::LEN..];
    header.emit(packet);
    message.emit(&mut packet[header_len..]);
    icmpv6::fill_checksum(&Ends::V6(own, group), &mut packet[header_len..]);
    frame
}
