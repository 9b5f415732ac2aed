//! An attacker on the wire between two nodes that MKA keys, who says a thousand messages for each
//! millisecond in the name of the other node.

use crate::net::{Host, Net};
use ferrule_base::{DropReason, Duration, MacAddr, Secret};
use ferrule_control::mka::{Keys, PortState};
use ferrule_wire::eapol::PAE_GROUP;
use ferrule_wire::mkpdu::{AGILITY, Ckn, Member, Mi, Repr};
use ferrule_wire::{EtherType, Sci, ethernet};

/// Messages in a millisecond.
const FLOOD: usize = 1000;
/// Milliseconds of a flood: more than two lives of a peer that is not heard.
const LONG: u32 = 15_000;
const EAPOL: [u8; 2] = [0x88, 0x8e];
/// Place of the message number in a frame.
const NUMBER: usize = 18 + 4 + 8 + 12;

/// Frames to each node.
type Frames = [Vec<Vec<u8>>; 2];

/// Two nodes that MKA keys, and the ends of the wires to them.
struct Wire {
    net: Net,
    ends: [Host; 2],
    /// The last message of each node, which the other has heard a millisecond later.
    said: [Option<Vec<u8>>; 2],
    /// Messages on their way.
    under_way: Frames,
}

impl Wire {
    fn new() -> Self {
        let mut net = Net::new();
        for (name, priority) in [("a", 16), ("b", 32)] {
            net.node(&format!(
                "[node]\nname = \"{name}\"\nlab = true\n\
                 [[port]]\nname = \"wan\"\ndriver = \"wire\"\nmtu = 1600\n\
                 [[interface]]\nname = \"wan\"\nport = \"wan\"\n\
                 [[macsec]]\nport = \"wan\"\n\
                 [macsec.mka]\npriority = {priority}\n\
                 cak = [{{ ckn = \"0011\", key = \"cak:1\" }}]\n"
            ));
        }
        let ends = [net.host(0, "wan"), net.host(1, "wan")];
        Self { net, ends, said: [None, None], under_way: Frames::default() }
    }

    /// A millisecond: each node gets this flood, and behind it what the other said before.
    fn go_on(&mut self, flood: &Frames) {
        self.net.now += Duration::from_millis(1);
        let now = self.net.now;
        for (node, flood) in flood.iter().enumerate() {
            let end = &mut self.ends[node];
            flood.iter().cycle().take(FLOOD).for_each(|frame| end.send(frame));
            self.under_way[1 - node].drain(..).for_each(|frame| end.send(&frame));
            let member = &mut self.net.members[node];
            while member.workers[0].turn(now) > 0 {}
            member.control.turn(now);
            while member.workers[0].turn(now) > 0 {}
            self.under_way[node] = self.ends[node].received();
            let mut messages = self.under_way[node].iter().filter(|frame| frame[12..14] == EAPOL);
            self.said[node] = messages.next_back().cloned().or(self.said[node].take());
        }
    }

    fn is_secured(&self) -> bool {
        self.net.members.iter().all(|member| {
            let (_, view) = member.control.mka().pop().expect("a keyed port");
            view.port == PortState::Secured
        })
    }

    /// The last message of the other node, for each, by another number or as it is.
    fn last(&self, number: Option<u32>) -> Frames {
        [1, 0].map(|other| {
            let mut frame = self.said[other].clone().expect("it said something");
            if let Some(number) = number {
                frame[NUMBER..NUMBER + 4].copy_from_slice(&number.to_be_bytes());
            }
            vec![frame]
        })
    }

    /// So many milliseconds of a flood. Both are secured after as many as this says, and stay so;
    /// nearly all of the flood is dropped by the first node for the reason.
    fn endure(&mut self, long: u32, flood: impl Fn(&Self, u32) -> Frames, by: DropReason) -> u32 {
        let mut secured = None;
        for time in 0..long {
            let flood = flood(self, time);
            self.go_on(&flood);
            secured = secured.or(self.is_secured().then_some(time));
            assert!(secured.is_none() || self.is_secured(), "{time} ms");
        }
        let all = FLOOD as u64 * u64::from(long);
        let dropped = self.net.dropped(0, by);
        assert!((all - all / 100..all).contains(&dropped), "{dropped} of {all}");
        self.net.assert_conserved();
        secured.expect("both are secured")
    }
}

/// For the first node alone.
fn to_one([first, _]: Frames) -> Frames {
    [first, Vec::new()]
}

/// Two nodes that have a session.
fn session() -> Wire {
    let mut wire = Wire::new();
    while !wire.is_secured() {
        wire.go_on(&Frames::default());
    }
    wire
}

#[test]
fn a_flood_of_forged_messages_of_a_live_peer_costs_no_session() {
    let flood = |wire: &Wire, time| to_one(wire.last(Some(u32::MAX - time)));
    assert_eq!(session().endure(LONG, flood, DropReason::MkaForged), 0);
}

#[test]
fn a_flood_of_recorded_messages_of_a_live_peer_costs_no_session() {
    let mut wire = session();
    let recorded = to_one(wire.last(None));
    let flood = |_: &Wire, _| recorded.clone();
    assert_eq!(wire.endure(LONG, flood, DropReason::MkaReplay), 0);
}

/// As of an attacker who has recorded many of their lives.
#[test]
fn a_flood_of_messages_of_other_members_costs_no_session() {
    let ckn = Ckn::new(&[0, 0x11]).unwrap();
    let keys = Keys::new(Secret::new(vec![1; 16]), &ckn).unwrap();
    let sci = Sci(0x0200_0000_0009_0001);
    let (dst, src, ethertype) = (MacAddr(PAE_GROUP), sci.system(), EtherType::EAPOL);
    let said = |number: usize| {
        let mut mi = Mi([9; 12]);
        mi.0[..8].copy_from_slice(&number.to_be_bytes());
        let repr = Repr {
            version: 3,
            priority: 64,
            key_server: true,
            desired: true,
            capability: 3,
            sci,
            actor: Member { mi, mn: 1 },
            agility: AGILITY,
            ckn,
            sets: Vec::new(),
        };
        keys.frame(ethernet::Repr { dst, src, ethertype }, &repr)
    };
    let all: Vec<_> = (0..FLOOD).map(said).collect();
    let flood = |_: &Wire, _| [all.clone(), Vec::new()];
    assert_eq!(session().endure(LONG, flood, DropReason::ControlQueueFull), 0);
}

#[test]
fn a_flood_of_messages_before_there_is_a_session_keeps_none_from_coming_up() {
    for (number, by) in [(Some(1 << 30), DropReason::MkaForged), (None, DropReason::MkaReplay)] {
        let mut wire = Wire::new();
        // The first messages reach only the attacker.
        while wire.said.iter().any(Option::is_none) {
            wire.go_on(&Frames::default());
            wire.under_way = Frames::default();
        }
        let flood = wire.last(number);
        let took = wire.endure(LONG / 3, |_, _| flood.clone(), by);
        assert!(took < 3000, "{took} ms");
    }
}
