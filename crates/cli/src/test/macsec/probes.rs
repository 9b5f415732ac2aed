//! Frames that a device has to take, and those that it has to drop, clause by clause of
//! 802.1AE-2018.

use super::desk::{Desk, Ends};
use super::frames::{Draft, LEAST, Sent, TAG_AT, Talker, data_in_vlan};
use crate::test::clauses::{Check, Found};
use ferrule_daemon::Fault;
use ferrule_wire::Sci;
use ferrule_wire::sectag::{Channel, ICV_LEN, Protection};

/// Octets of user data, if nothing else is said.
const USER: usize = 64;
/// Octets of user data of a short frame.
const FEW: usize = 20;
/// Octets of the shortest frame of a MAC, without FCS.
const SHORTEST: usize = 60;
/// Padding behind an ICV. (Not zeros: what a device left of those would look like its own.)
const PADDING: u8 = 0xa5;
/// Distance to a number that no other run comes to, and that XPN finds the upper half of.
const FAR: u64 = 3 << 29;
/// The farthest that a number may be ahead for its upper half to be found.
const HALF_RANGE: u64 = (1 << 31) - 1;

/// Places in a frame.
const TCI: usize = TAG_AT;
const SL: usize = TAG_AT + 1;
const PN: usize = TAG_AT + 2;
const SCI: usize = TAG_AT + 6;

/// Frames that have to be dropped, and why.
struct Wrong {
    clause: &'static str,
    rule: &'static str,
    frames: fn(&mut Talker) -> Vec<Sent>,
}

impl Wrong {
    const fn new(
        clause: &'static str,
        rule: &'static str,
        frames: fn(&mut Talker) -> Vec<Sent>,
    ) -> Self {
        Self { clause, rule, frames }
    }
}

fn no_draft(_: &mut Draft) {}

/// Changed before it is sealed: its ICV is good.
fn sealed(talker: &mut Talker, octets: usize, change: impl FnOnce(&mut [u8])) -> Vec<Sent> {
    vec![talker.forged(octets, no_draft, change)]
}

/// Changed after it was sealed.
fn spoiled(talker: &mut Talker, ahead: u64, at: impl Fn(usize) -> usize) -> Vec<Sent> {
    let flip = |frame: &mut Vec<u8>| {
        let at = at(frame.len());
        frame.get_mut(at).into_iter().for_each(|octet| *octet ^= 1);
    };
    vec![talker.forged(USER, |draft| draft.pn += ahead, |_| {}).with(flip)]
}

const WRONG: &[Wrong] = &[
    Wrong::new("9.12", "a version other than 0 is dropped", |t| {
        sealed(t, USER, |frame| frame[TCI] |= 0x80)
    }),
    Wrong::new("9.12", "SC with ES is dropped", |t| sealed(t, USER, |frame| frame[TCI] |= 0x40)),
    Wrong::new("9.12", "SC with SCB is dropped", |t| sealed(t, USER, |frame| frame[TCI] |= 0x10)),
    Wrong::new("9.5", "E without C is not for the controlled port", |t| {
        let encrypted = |draft: &mut Draft| draft.tag.protection = Protection::Confidentiality;
        vec![t.forged(USER, encrypted, |frame| frame[TCI] &= !0x04)]
    }),
    Wrong::new("9.12", "reserved bits beside SL are dropped", |t| {
        [0x40, 0x80].into_iter().flat_map(|bit| sealed(t, FEW, |f| f[SL] |= bit)).collect()
    }),
    Wrong::new("9.12", "an SL of 48 or more is dropped", |t| {
        [48, 63].into_iter().flat_map(|sl| sealed(t, sl, |f| f[SL] = sl as u8)).collect()
    }),
    Wrong::new("9.12", "an SL of 0 with fewer than 48 octets is dropped", |t| {
        [LEAST, FEW, 47].into_iter().flat_map(|few| sealed(t, few, |f| f[SL] = 0)).collect()
    }),
    Wrong::new("9.12", "an SL beyond the frame is dropped", |t| {
        sealed(t, FEW, |frame| frame[SL] = FEW as u8 + 20)
    }),
    Wrong::new("9.12", "an SL below what was sealed is dropped", |t| {
        [40, USER].into_iter().flat_map(|many| sealed(t, many, |f| f[SL] = FEW as u8)).collect()
    }),
    Wrong::new("9.12", "a frame that was cut is dropped", |t| {
        let ends = [TAG_AT, PN + 2, SCI + 3, SCI + 8, SCI + 8 + ICV_LEN];
        let mut cut: Vec<_> = ends.map(|end| t.good(USER).with(|f| f.truncate(end))).into();
        cut.push(t.good(USER).with(|frame| frame.truncate(frame.len() - 1)));
        cut
    }),
    Wrong::new("10.6.1", "an unknown SCI is dropped", |t| {
        let other = Sci::new(t.sci.system(), t.sci.port() ^ 0x7700);
        vec![t.forged(USER, |draft| draft.tag.channel = Channel::Explicit(other), |_| {})]
    }),
    Wrong::new("10.6.1", "an unknown association number is dropped", |t| {
        vec![t.forged(USER, |draft| draft.tag.an = (draft.tag.an + 2) & 3, |_| {})]
    }),
    Wrong::new("10.6.3", "a wrong ICV is dropped, and moves no window", |t| {
        spoiled(t, FAR, |len| len - 1)
    }),
    Wrong::new("10.6.3", "altered user data are dropped", |t| spoiled(t, 0, |len| len - 20)),
    Wrong::new("10.6.3", "altered addresses are dropped", |t| {
        [1, 7].into_iter().flat_map(|at| spoiled(t, 0, |_| at)).collect()
    }),
    Wrong::new("10.6.3", "an altered packet number is dropped", |t| spoiled(t, 0, |_| PN + 1)),
    Wrong::new("10.6", "a frame without SecTAG is dropped", |t| {
        let sent = t.good(USER);
        vec![Sent { wire: sent.clear.clone(), clear: sent.clear }]
    }),
];

/// Settings of the device.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// Its replay window; nothing if it has no replay protection.
    pub window: Option<u64>,
    /// Octets of user data of the largest frame, each way.
    pub largest: usize,
    pub vlan: u16,
}

impl<E: Ends> Desk<E> {
    /// Checks the frames that must pass and those that must be dropped.
    pub fn probe(&mut self, told: Told) -> Result<Vec<Check>, Fault> {
        let mut checks = self.right(told)?;
        for Wrong { clause, rule, frames } in WRONG {
            let frames = frames(&mut self.talker);
            checks.push(self.dropped(clause, rule, &frames)?);
        }
        checks.push(self.broadcast()?);
        checks.extend(self.replayed(told.window)?);
        match self.talker.sa.cipher.xpn {
            true => checks.extend(self.extended(told.window)?),
            false => {
                let rule = "packet number 0 is dropped";
                let zero = self.talker.forged(USER, |draft| draft.pn = 0, |_| {});
                checks.push(self.dropped("9.12", rule, &[zero])?);
            }
        }
        Ok(checks)
    }

    fn right(&mut self, told: Told) -> Result<Vec<Check>, Fault> {
        let t = &mut self.talker;
        let lengths = [LEAST, FEW, 46, 47, 48, 49, 50, 63, 64, 65, 128, 512, 1024];
        let lengths = lengths.map(|octets| t.good(octets));
        let padded =
            [LEAST, 12].map(|few| t.good(few).with(|frame| frame.resize(SHORTEST, PADDING)));
        let largest = t.good(told.largest);
        let vlan = told.vlan;
        let tagged = t.forged(USER, |draft| draft.data = data_in_vlan(vlan, &draft.data), |_| {});
        let ahead = t.forged(USER, |draft| draft.pn += 99, |_| {});
        t.next += 99;
        let mut checks = vec![
            self.passed("9.7", "frames of all lengths pass, with their SL", &lengths, None)?,
            self.passed("9.7", "what a MAC pads behind the ICV is left out", &padded, None)?,
            self.passed("10.6", "the largest frame passes", &[largest], None)?,
            self.passed(
                "10.6",
                "a VLAN tag under MACsec passes",
                &[tagged],
                Some("it did not come through: a bridge may not have the VLAN (--vlan)"),
            )?,
            self.passed("10.6.2", "a gap in the packet numbers passes", &[ahead], None)?,
        ];
        checks.extend(self.channels()?);
        Ok(checks)
    }

    /// Other ways to say whose channel it is, and integrity alone.
    fn channels(&mut self) -> Result<Vec<Check>, Fault> {
        let rule = "ES without SCI: the channel is the source address and port 1";
        let own = Sci::new(self.talker.src, Sci::PORT_END_STATION);
        let station = Channel::EndStation { broadcast: false };
        let frame = self.talker.forged(USER, |draft| draft.tag.channel = station, |_| {});
        let by_station = match own == self.talker.sci {
            true => self.passed("9.9", rule, &[frame], None)?,
            false => {
                let why = format!("this station's SCI is not {own}");
                Check::new("9.9", rule, Found::NotSeen(why))
            }
        };
        let peer = self.talker.forged(USER, |draft| draft.tag.channel = Channel::Peer, |_| {});
        let alone = |draft: &mut Draft| draft.tag.protection = Protection::Integrity;
        let alone = self.talker.forged(USER, alone, |_| {});
        Ok(vec![
            by_station,
            self.passed(
                "9.9",
                "no SCI at all: the one channel there is",
                &[peer],
                Some("it did not come through: right, unless the port is point to point"),
            )?,
            self.passed(
                "10.6.3",
                "integrity without encryption passes",
                &[alone],
                Some("it did not come through: a device may want encryption"),
            )?,
        ])
    }

    /// ES with SCB: a channel that no station has, unless this station's port is 0.
    fn broadcast(&mut self) -> Result<Check, Fault> {
        let (clause, rule) = ("9.5", "ES with SCB is the channel of port 0, and unknown");
        if self.talker.sci.port() == Sci::PORT_BROADCAST {
            return Ok(Check::new(clause, rule, Found::NotSeen("it is this station's".into())));
        }
        let channel = Channel::EndStation { broadcast: true };
        let frame = self.talker.forged(USER, |draft| draft.tag.channel = channel, |_| {});
        self.dropped(clause, rule, &[frame])
    }

    /// Packet numbers that come again, or late.
    fn replayed(&mut self, window: Option<u64>) -> Result<Vec<Check>, Fault> {
        let again = ("10.6.2", "a frame that comes again, behind the window, is dropped");
        let below = ("10.6.2", "a late number below the window is dropped");
        let inside = ("10.6.2", "a late number inside the window passes");
        let Some(window) = window else {
            let off = |(clause, rule)| {
                Check::new(clause, rule, Found::NotSeen("replay protection is off".into()))
            };
            return Ok([again, below, inside].map(off).into());
        };
        let first = self.talker.good(USER);
        self.talker.next += window;
        let second = self.talker.good(USER);
        let mut checks =
            vec![self.passed("10.6.4", "the window moves", &[first.clone(), second], None)?];
        checks.push(self.dropped(again.0, again.1, &[first])?);
        // Numbers that are left out now are late then.
        self.talker.next += window + 2;
        let highest = self.talker.next;
        let last = self.talker.good(USER);
        checks.push(self.passed("10.6.4", "the window moves on", &[last], None)?);
        let late = |t: &mut Talker, pn| {
            let next = t.next;
            let frame = t.forged(USER, |draft| draft.pn = pn, |_| {});
            t.next = next;
            frame
        };
        match window {
            0 => checks.push(Check::new(
                inside.0,
                inside.1,
                Found::NotSeen("the window is 0 (--window)".into()),
            )),
            _ => {
                let frame = late(&mut self.talker, highest + 1 - window);
                checks.push(self.passed(inside.0, inside.1, &[frame], None)?);
            }
        }
        let frame = late(&mut self.talker, highest - window.max(1));
        checks.push(self.dropped(below.0, below.1, &[frame])?);
        Ok(checks)
    }

    /// Numbers of 64 bits, of which 32 travel: across half the range, and the end of it.
    fn extended(&mut self, window: Option<u64>) -> Result<Vec<Check>, Fault> {
        let end = ((self.talker.next >> 32) + 1) << 32;
        let mut jumps = Vec::new();
        while end - self.talker.next > HALF_RANGE {
            self.talker.next += HALF_RANGE - 1;
            jumps.push(self.talker.good(USER));
        }
        self.talker.next = end - 3;
        let before = self.talker.good(USER);
        let left_out = self.talker.next;
        self.talker.next = end;
        let at = self.talker.good(USER);
        let behind = self.talker.good(USER);
        let far = "a number less than half the range ahead passes";
        let zero = "a number whose lower half is 0 passes";
        let mut checks = vec![
            self.passed("10.6.2", far, &jumps, None)?,
            self.passed("10.6.2", "the last numbers of a lower half pass", &[before], None)?,
            self.passed("9.8", zero, &[at], None)?,
            self.passed("10.6.2", "the upper half goes on by one", &[behind], None)?,
        ];
        let rule = "a late number of the upper half before, inside the window, passes";
        let found = match window {
            Some(window) if window >= 8 => {
                let next = self.talker.next;
                let frame = self.talker.forged(USER, |draft| draft.pn = left_out, |_| {});
                self.talker.next = next;
                self.passed("10.6.2", rule, &[frame], None)?
            }
            _ => {
                let why = "the window is smaller than 8 (--window)";
                Check::new("10.6.2", rule, Found::NotSeen(why.into()))
            }
        };
        checks.push(found);
        Ok(checks)
    }
}
