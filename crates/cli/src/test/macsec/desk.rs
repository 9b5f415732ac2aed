//! Both sides of the device, and frames that go from one to the other.

use super::frames::{LEAST, Sent, Talker, data, data_in_vlan, is_same, number};
use super::watched::Watched;
use crate::test::clauses::{Check, Found};
use ferrule_base::{Duration, Instant};
use ferrule_daemon::Fault;

/// Time for a frame to come through.
const PATIENCE: Duration = Duration::from_millis(1000);
/// Time for one that should not, behind one that should.
const STRAGGLER: Duration = Duration::from_millis(20);
/// Time for a device that stands still, as a virtual machine may, to go on.
const STILLNESS: Duration = Duration::from_secs(10);

/// Words for a test that was stopped.
pub const STOPPED: &str = "the test was stopped";

/// A side of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// With the SecY.
    Secure,
    Clear,
}

/// The interfaces to both sides.
pub trait Ends {
    fn now(&self) -> Instant;
    fn send(&mut self, side: Side, frame: &[u8]);
    /// Frames that come, once some do, or for so long at most.
    fn receive(&mut self, limit: Duration, take: &mut dyn FnMut(Side, &[u8])) -> Result<(), Fault>;
    /// True if the test was stopped.
    fn is_stopped(&self) -> bool;
}

/// The device between its ends.
pub struct Desk<E> {
    pub ends: E,
    pub talker: Talker,
    pub watched: Watched,
    /// True if the device was seen to send.
    sends: bool,
}

impl<E: Ends> Desk<E> {
    pub fn new(ends: E, talker: Talker, watched: Watched) -> Self {
        Self { ends, talker, watched, sends: false }
    }

    /// Takes what comes, until something is so or for so long.
    fn until(
        &mut self,
        limit: Duration,
        is_so: impl Fn(&[Vec<u8>], &Watched) -> bool,
    ) -> Result<Vec<Vec<u8>>, Fault> {
        let end = self.ends.now() + limit;
        let mut heard = Vec::new();
        let (watched, source) = (&mut self.watched, self.talker.src.0);
        while !is_so(&heard, watched) && !self.ends.is_stopped() {
            let now = self.ends.now();
            if now >= end {
                break;
            }
            self.ends.receive(end.since(now), &mut |side, frame| match side {
                Side::Secure => watched.note(frame),
                // Own frames, as they came out.
                Side::Clear => {
                    if frame.get(6..12) == Some(&source) || number(frame).is_some() {
                        heard.push(frame.to_vec());
                    }
                }
            })?;
        }
        Ok(heard)
    }

    /// Sends frames to the MACsec port; what comes out at the clear one, up to the last of
    /// them and a moment longer. A frame that does not come was dropped only if the device is
    /// seen to forward after it; one of an earlier exchange, come late, tells nothing of this.
    fn exchange(&mut self, frames: &[&Sent], last: &Sent) -> Result<Vec<Vec<u8>>, Fault> {
        for sent in frames.iter().copied().chain([last]) {
            self.ends.send(Side::Secure, &sent.wire);
        }
        let first = frames.iter().copied().chain([last]).filter_map(|s| number(&s.clear)).min();
        let is_last = |frame: &Vec<u8>| is_same(frame, &last.clear);
        let came = |heard: &[Vec<u8>], _: &Watched| heard.iter().any(is_last);
        let mut heard = self.until(PATIENCE, came)?;
        if self.sends && !heard.iter().any(is_last) {
            heard.extend(self.is_awake()?);
        }
        heard.extend(self.until(STRAGGLER, |_, _| false)?);
        heard.retain(|frame| number(frame).is_none_or(|number| Some(number) >= first));
        Ok(heard)
    }

    /// Waits until a frame passes from the clear side; frames that come out of it meanwhile.
    fn is_awake(&mut self) -> Result<Vec<Vec<u8>>, Fault> {
        self.talker.count += 1;
        let data = data(self.talker.count, 64);
        self.inward(&data, STILLNESS)
    }

    /// None of these comes through, and the one after them does.
    pub fn dropped(
        &mut self,
        clause: &'static str,
        rule: &'static str,
        frames: &[Sent],
    ) -> Result<Check, Fault> {
        let after = self.talker.good(64);
        let sent: Vec<&Sent> = frames.iter().collect();
        let heard = self.exchange(&sent, &after)?;
        let (goes_on, through): (Vec<_>, Vec<_>) =
            heard.iter().partition(|frame| is_same(frame, &after.clear));
        let all = frames.len();
        let found = match (through.len(), goes_on.is_empty()) {
            _ if self.ends.is_stopped() => Found::NotSeen(STOPPED.into()),
            (0, false) if all == 1 => Found::Holds("dropped; the next one came through".into()),
            (0, false) => Found::Holds(format!("{all} dropped; the next one came through")),
            (0, true) => Found::Broken("the frame after it did not come through".into()),
            (through, _) => Found::Broken(format!("{through} of {all} came through")),
        };
        Ok(Check::new(clause, rule, found))
    }

    /// Checks that all of these frames come through unchanged. Where a device need not let them,
    /// `need_not` says why.
    pub fn passed(
        &mut self,
        clause: &'static str,
        rule: &'static str,
        frames: &[Sent],
        need_not: Option<&str>,
    ) -> Result<Check, Fault> {
        let (mut came, mut altered) = (0, 0);
        for sent in frames {
            let heard = self.exchange(&[], sent)?;
            let right = heard.iter().filter(|frame| is_same(frame, &sent.clear)).count();
            came += usize::from(right > 0);
            altered += heard.len() - right;
        }
        let all = frames.len();
        let found = match (came, altered, need_not) {
            _ if self.ends.is_stopped() => Found::NotSeen(STOPPED.into()),
            (_, 1.., _) => Found::Broken(format!("{altered} of {all} came through altered")),
            (0, _, Some(why)) => Found::NotSeen(why.into()),
            (came, _, _) if came < all => Found::Broken(format!("{came} of {all} came through")),
            _ if all == 1 => Found::Holds("it came through".into()),
            _ => Found::Holds(format!("{all} came through")),
        };
        Ok(Check::new(clause, rule, found))
    }

    /// Gives a frame to the clear side, and waits until it comes out of the MACsec port; frames
    /// of the clear side meanwhile.
    fn inward(&mut self, data: &[u8], patience: Duration) -> Result<Vec<Vec<u8>>, Fault> {
        let (station, host) = (self.talker.src, self.talker.dst);
        let clear = [&station.0[..], &host.0, data].concat();
        self.watched.expect(&clear);
        self.ends.send(Side::Clear, &clear);
        let heard = self.until(patience, |_, watched| watched.has(&clear))?;
        if self.ends.is_stopped() {
            self.watched.give_up(&clear);
        }
        self.sends = self.watched.has(&clear);
        Ok(heard)
    }

    /// Waits until frames pass in both directions, for so long at most. The result says for each
    /// direction, to the device and from it, if they do.
    pub fn begins(&mut self, limit: Duration) -> Result<(bool, bool), Fault> {
        let end = self.ends.now() + limit;
        let patience = Duration::from_millis(200);
        let mut passes = false;
        loop {
            self.watched.forget();
            let sent = self.talker.good(64);
            self.ends.send(Side::Secure, &sent.wire);
            let came =
                |heard: &[Vec<u8>], _: &Watched| heard.iter().any(|f| is_same(f, &sent.clear));
            passes |= came(&self.until(patience, came)?, &self.watched);
            self.talker.count += 1;
            self.inward(&data(self.talker.count, 64), patience)?;
            let is_sent = self.sends;
            let is_over = self.ends.now() >= end || self.ends.is_stopped();
            if (passes && is_sent) || is_over {
                return Ok((passes, is_sent));
            }
        }
    }

    /// Frames of all lengths to the clear side, one of them in a VLAN.
    pub fn frames_inward(&mut self, largest: usize, vlan: u16) -> Result<(), Fault> {
        let sizes = (LEAST..=80).chain([128, 256, 512, 1024, largest]);
        for octets in sizes {
            self.talker.count += 1;
            self.inward(&data(self.talker.count, octets), PATIENCE)?;
        }
        self.talker.count += 1;
        let in_vlan = data_in_vlan(vlan, &data(self.talker.count, 64));
        self.inward(&in_vlan, PATIENCE)?;
        // Frames that are still on their way come before the one of this.
        self.is_awake().map(drop)
    }
}
