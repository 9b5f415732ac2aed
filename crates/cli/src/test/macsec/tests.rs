//! A device that keeps all rules, and one for each rule that breaks it.

use super::desk::{Desk, Ends, Side};
use super::frames::{Draft, How, MACS, Sa, Sent, TAG_AT, Talker};
use super::probes::Told;
use super::tested;
use super::watched::Watched;
use crate::test::clauses::{Check, Found};
use ferrule_base::{Duration, Instant, MacAddr, Secret};
use ferrule_crypto::Aes;
use ferrule_daemon::Fault;
use ferrule_dataplane::macsec::state::recover;
use ferrule_dataplane::macsec::{Cipher, Xpn};
use ferrule_wire::sectag::{Channel, Header, ICV_LEN, Protection};
use ferrule_wire::{EtherType, FromBytes, Sci};
use std::collections::VecDeque;

const STATION: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const HOST: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
const OWN: Sci = Sci::new(STATION, 1);
const DEVICE: Sci = Sci::new(MacAddr([2, 0, 0, 0, 0, 2]), 1);

/// A rule that a device does not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Breaks {
    None,
    Flags,
    Reserved,
    ShortLength,
    UnknownSci,
    UnknownAn,
    Icv,
    Untagged,
    Zero,
    Replay,
    WindowMoves,
    WindowIsShort,
    UpperHalf,
    LeavesPadding,
    SendsInClear,
    SendsFlags,
    SendsTci,
    SendsReserved,
    SendsShortLength,
    SendsSci,
    SendsNumber,
    SendsIcv,
    SendsAltered,
    /// No rule, but one's patience: now and then it stands still for seconds.
    Patience,
}

/// A bridge with a SecY on one port.
struct Bridge {
    breaks: Breaks,
    receive: Sa,
    next: u64,
    window: u64,
    send: Talker,
    out: VecDeque<(Side, Vec<u8>)>,
    now: Instant,
    frames: u32,
    /// The end of its standing still.
    still: Instant,
}

fn sa(octet: u8, xpn: bool, ssci: u32) -> Sa {
    let suite = ferrule_crypto::Suite::AesGcm(Aes::Aes128);
    let cipher = Cipher { suite, xpn, encrypt: true, offset: 0 };
    let key = Secret::new(vec![octet; 16]);
    Sa::new(cipher, 1, &key, xpn.then_some(Xpn { salt: [3; 12], ssci })).expect("a key")
}

fn talker(sa: Sa, sci: Sci) -> Talker {
    let protection = Protection::Confidentiality;
    Talker { sa, sci, dst: HOST, src: STATION, protection, next: 1, count: 0 }
}

impl Bridge {
    fn new(breaks: Breaks, window: u64, xpn: bool) -> Self {
        Self {
            breaks,
            receive: sa(1, xpn, 1),
            next: 1,
            window,
            send: talker(sa(2, xpn, 2), DEVICE),
            out: VecDeque::new(),
            now: Instant::ZERO,
            frames: 0,
            still: Instant::ZERO,
        }
    }

    fn is(&self, breaks: Breaks) -> bool {
        self.breaks == breaks
    }

    /// A frame of the MACsec port; the clear one.
    fn validate(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        if frame.get(MACS..TAG_AT)? != EtherType::MACSEC.0.to_be_bytes() {
            return self.is(Breaks::Untagged).then(|| frame.to_vec());
        }
        let (&tag, rest) = Header::ref_from_prefix(frame.get(TAG_AT..)?).ok()?;
        let at = TAG_AT + tag.tag_len();
        let behind = frame.len().checked_sub(at)?;
        let mut read = tag;
        if self.is(Breaks::Reserved) {
            read.short_len &= 0x3f;
        }
        let user = match self.is(Breaks::ShortLength) && read.short_len == 0 {
            true => behind.checked_sub(ICV_LEN)?,
            false => read.secured_len(behind)?,
        };
        let source = MacAddr(*frame[6..].first_chunk()?);
        let sci = match tag.has_sci() {
            true => Some(Sci::from_bytes(*rest.first_chunk()?)),
            false => tag.implied_sci(source),
        };
        let sci = sci.unwrap_or(OWN);
        let known = [
            tag.is_legal() || self.is(Breaks::Flags),
            sci == OWN || self.is(Breaks::UnknownSci),
            tag.an() == self.receive.an || self.is(Breaks::UnknownAn),
        ];
        let pn = self.number(tag.pn.get())?;
        let lowest = match self.is(Breaks::WindowIsShort) {
            true => self.next,
            false => self.next.saturating_sub(self.window),
        };
        let fresh = pn >= lowest || self.is(Breaks::Replay) || pn == 0;
        if known.contains(&false) || !fresh {
            return None;
        }
        let how = How { sci, pn, encrypted: tag.is_encrypted() };
        if self.is(Breaks::WindowMoves) {
            self.next = self.next.max(pn + 1);
        }
        let Some(mut clear) = self.receive.open(frame, &tag, user, how) else {
            return self.is(Breaks::Icv).then(|| [&frame[..MACS], &frame[at..]].concat());
        };
        self.next = self.next.max(pn + 1);
        if self.is(Breaks::LeavesPadding) {
            clear.extend(&frame[at + user + ICV_LEN..]);
        }
        Some(clear)
    }

    fn number(&self, low: u32) -> Option<u64> {
        match (self.receive.xpn.is_some(), low) {
            (true, _) if self.is(Breaks::UpperHalf) => Some(self.next >> 32 << 32 | u64::from(low)),
            (true, _) => recover(self.next, low),
            (false, 0) if !self.is(Breaks::Zero) => None,
            (false, low) => Some(low.into()),
        }
    }

    fn protect(&mut self, clear: &[u8]) -> Vec<u8> {
        let talker = &mut self.send;
        let breaks = self.breaks;
        talker.dst = MacAddr(*clear[..6].first_chunk().expect("an address"));
        talker.src = MacAddr(*clear[6..].first_chunk().expect("an address"));
        let odd = talker.next % 2 == 1;
        let tag = |draft: &mut Draft| {
            draft.data = clear[MACS..].to_vec();
            match breaks {
                Breaks::SendsSci if odd => draft.tag.channel = Channel::Explicit(OWN),
                Breaks::SendsTci if odd => draft.tag.protection = Protection::Integrity,
                Breaks::SendsNumber if draft.pn > 9 => draft.pn = 9,
                Breaks::SendsAltered => draft.data.iter_mut().skip(6).for_each(|o| *o ^= 1),
                _ => {}
            }
        };
        let octets = |frame: &mut [u8]| match breaks {
            Breaks::SendsFlags => frame[TAG_AT] |= 0x40,
            Breaks::SendsReserved => frame[TAG_AT + 1] |= 0x40,
            Breaks::SendsShortLength => frame[TAG_AT + 1] = 0,
            _ => {}
        };
        let Sent { mut wire, .. } = talker.forged(6, tag, octets);
        if breaks == Breaks::SendsIcv && odd {
            *wire.last_mut().expect("an octet") ^= 1;
        }
        wire
    }
}

impl Ends for Bridge {
    fn now(&self) -> Instant {
        self.now
    }

    fn send(&mut self, side: Side, frame: &[u8]) {
        self.frames += 1;
        if self.is(Breaks::Patience) && self.frames.is_multiple_of(5) {
            self.still = self.now + Duration::from_secs(3);
        }
        match side {
            Side::Secure => {
                let clear = self.validate(frame);
                self.out.extend(clear.map(|clear| (Side::Clear, clear)));
            }
            Side::Clear => {
                if self.is(Breaks::SendsInClear) {
                    self.out.push_back((Side::Secure, frame.to_vec()));
                }
                let sealed = self.protect(frame);
                self.out.push_back((Side::Secure, sealed));
            }
        }
    }

    fn receive(&mut self, limit: Duration, take: &mut dyn FnMut(Side, &[u8])) -> Result<(), Fault> {
        match self.out.pop_front() {
            Some((side, frame)) if self.now >= self.still => take(side, &frame),
            Some(kept) => {
                self.out.push_front(kept);
                self.now += self.still.since(self.now).min(limit);
            }
            None => self.now += limit,
        }
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        false
    }
}

fn checks(breaks: Breaks, window: u64, xpn: bool) -> Vec<Check> {
    let ends = Bridge::new(breaks, window, xpn);
    let watched = Watched::new(sa(2, xpn, 2), None);
    let mut desk = Desk::new(ends, talker(sa(1, xpn, 1), OWN), watched);
    let told = Told { window: Some(window), largest: 1502, vlan: 10 };
    tested(&mut desk, told, Duration::from_secs(1), |_| {}).expect("a report")
}

fn broken(checks: &[Check]) -> Vec<&'static str> {
    checks.iter().filter(|check| check.is_broken()).map(|check| check.rule).collect()
}

#[test]
fn macsec_device_that_keeps_all_rules_is_found_to() {
    for (window, xpn) in [(0, false), (1, false), (64, false), (0, true), (64, true)] {
        let checks = checks(Breaks::None, window, xpn);
        let odd = |check: &&Check| !matches!(check.found, Found::Holds(_));
        let odd: Vec<_> = checks.iter().filter(odd).collect();
        assert_eq!(broken(&checks), [""; 0], "window {window}, XPN {xpn}: {odd:?}");
        // With a window of 0 nothing is inside it, nor with a small one of the upper half before.
        assert_eq!(
            odd.len(),
            if window == 64 { 0 } else { usize::from(window == 0) + usize::from(xpn) },
            "{odd:?}"
        );
    }
}

#[test]
fn macsec_checks_find_each_rule_that_is_broken() {
    let flags: &[&str] = &[
        "a version other than 0 is dropped",
        "SC with ES is dropped",
        "SC with SCB is dropped",
        "E without C is not for the controlled port",
    ];
    let icv: &[&str] = &[
        "an SL below what was sealed is dropped",
        "a wrong ICV is dropped, and moves no window",
        "altered user data are dropped",
        "altered addresses are dropped",
        "an altered packet number is dropped",
    ];
    let unknown = "ES with SCB is the channel of port 0, and unknown";
    let late: &[&str] = &[
        "a frame that comes again, behind the window, is dropped",
        "a late number below the window is dropped",
    ];
    let wrongs: [(Breaks, &[&str]); 19] = [
        (Breaks::Flags, flags),
        (Breaks::Reserved, &["reserved bits beside SL are dropped"]),
        (Breaks::ShortLength, &["an SL of 0 with fewer than 48 octets is dropped"]),
        (Breaks::UnknownSci, &["an unknown SCI is dropped", unknown]),
        (Breaks::UnknownAn, &["an unknown association number is dropped"]),
        (Breaks::Icv, icv),
        (Breaks::Untagged, &["a frame without SecTAG is dropped"]),
        (Breaks::Zero, &["packet number 0 is dropped"]),
        (Breaks::Replay, late),
        (Breaks::WindowIsShort, &["a late number inside the window passes"]),
        (Breaks::LeavesPadding, &["what a MAC pads behind the ICV is left out"]),
        (Breaks::SendsInClear, &["sent: no frame of the controlled port in clear"]),
        (Breaks::SendsFlags, &["sent: version 0, flags that go together"]),
        (Breaks::SendsTci, &["sent: one TCI for all frames"]),
        (Breaks::SendsReserved, &["sent: reserved bits beside SL are 0"]),
        (Breaks::SendsShortLength, &["sent: SL is that of short frames, else 0"]),
        (Breaks::SendsSci, &["sent: the device's SCI"]),
        (Breaks::SendsNumber, &["sent: packet numbers rise"]),
        (Breaks::SendsIcv, &["sent: the ICV verifies"]),
    ];
    for (breaks, rules) in wrongs {
        let broken = broken(&checks(breaks, 64, false));
        for rule in rules {
            assert!(broken.contains(rule), "{breaks:?}: {rule}: {broken:?}");
        }
    }
    assert_eq!(broken(&checks(Breaks::Patience, 64, true)), [""; 0], "none is broken by a stall");
    let altered = broken(&checks(Breaks::SendsAltered, 64, false));
    assert_eq!(altered, ["sent: frames of all lengths, as they came in"]);
    let moved = broken(&checks(Breaks::WindowMoves, 0, false));
    assert!(moved.contains(&"a wrong ICV is dropped, and moves no window"), "{moved:?}");
    let halves = broken(&checks(Breaks::UpperHalf, 64, true));
    assert!(halves.contains(&"the upper half goes on by one"), "{halves:?}");
}

#[test]
fn macsec_frames_open_as_they_were_sealed_at_every_length_and_offset() {
    for (offset, octets) in [0, 30, 50].into_iter().flat_map(|o| (6..=70).map(move |n| (o, n))) {
        let with_offset = |mut sa: Sa| {
            sa.cipher.offset = offset;
            sa
        };
        let mut talker = talker(with_offset(sa(1, false, 0)), OWN);
        let sent = talker.good(octets);
        let (tag, _) = Header::ref_from_prefix(&sent.wire[TAG_AT..]).expect("a tag");
        let behind = sent.wire.len() - TAG_AT - tag.tag_len();
        assert_eq!(tag.secured_len(behind), Some(octets));
        let how = How { sci: OWN, pn: 1, encrypted: true };
        let opened = with_offset(sa(1, false, 0)).open(&sent.wire, tag, octets, how);
        assert_eq!(opened.as_deref(), Some(&sent.clear[..]));
        let readable = &sent.wire[TAG_AT + tag.tag_len()..][..octets.min(offset.into())];
        assert_eq!(readable, &sent.clear[MACS..][..readable.len()]);
    }
}
