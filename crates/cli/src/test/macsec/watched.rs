//! Frames that the device sends under MACsec, one by one.

use super::frames::{How, MACS, Sa, TAG_AT, is_same, number};
use crate::test::clauses::{Check, Found, Tally};
use ferrule_base::MacAddr;
use ferrule_dataplane::macsec::state::recover;
use ferrule_wire::sectag::Header;
use ferrule_wire::{EtherType, FromBytes, Sci};
use std::collections::{BTreeMap, BTreeSet};

/// Bits of the SecTAG's second octet that are reserved.
const RESERVED: u8 = 0xc0;
/// The bits of the first that are no association number.
const TCI: u8 = 0xfc;

/// The device as a sender.
pub struct Watched {
    sa: Sa,
    /// Its channel: as given, or of its first frame.
    pub sci: Option<Sci>,
    next: u64,
    tags: Tally,
    reserved: Tally,
    lengths: Tally,
    ans: Tally,
    numbers: Tally,
    channels: Tally,
    icvs: Tally,
    tcis: BTreeSet<u8>,
    /// Frames that were given to its clear side, by number.
    expected: BTreeMap<u32, Vec<u8>>,
    came: BTreeSet<u32>,
    altered: u32,
    in_clear: u32,
}

impl Watched {
    pub fn new(sa: Sa, sci: Option<Sci>) -> Self {
        Self {
            sa,
            sci,
            next: 1,
            tags: Tally::default(),
            reserved: Tally::default(),
            lengths: Tally::default(),
            ans: Tally::default(),
            numbers: Tally::default(),
            channels: Tally::default(),
            icvs: Tally::default(),
            tcis: BTreeSet::new(),
            expected: BTreeMap::new(),
            came: BTreeSet::new(),
            altered: 0,
            in_clear: 0,
        }
    }

    /// A frame that its clear side is given.
    pub fn expect(&mut self, clear: &[u8]) {
        self.expected.extend(number(clear).map(|number| (number, clear.to_vec())));
    }

    /// Expects nothing any more.
    pub fn forget(&mut self) {
        self.expected.clear();
        self.came.clear();
    }

    /// Expects a frame no more.
    pub fn give_up(&mut self, clear: &[u8]) {
        number(clear).map(|number| self.expected.remove(&number));
    }

    /// True if that frame came.
    pub fn has(&self, clear: &[u8]) -> bool {
        number(clear).is_some_and(|number| self.came.contains(&number))
    }

    /// A frame that came of the MACsec port.
    pub fn note(&mut self, frame: &[u8]) {
        let ethertype = frame.get(MACS..TAG_AT);
        if ethertype != Some(&EtherType::MACSEC.0.to_be_bytes()) {
            self.in_clear += u32::from(number(frame).is_some());
            return;
        }
        let Some((&tag, _)) = frame.get(TAG_AT..).and_then(|f| Header::ref_from_prefix(f).ok())
        else {
            return self.tags.note(false);
        };
        self.tags.note(tag.is_legal());
        self.reserved.note(tag.short_len & RESERVED == 0);
        let behind = frame.len().checked_sub(TAG_AT + tag.tag_len());
        let user = behind.and_then(|behind| tag.secured_len(behind));
        self.lengths.note(user.is_some());
        self.tcis.insert(tag.tci_an & TCI);
        let (true, Some(user)) = (tag.is_legal(), user) else { return };
        let Some(sci) = self.channel(frame, &tag) else { return self.channels.note(false) };
        self.channels.note(true);
        self.ans.note(tag.an() == self.sa.an);
        let low = tag.pn.get();
        let pn = match self.sa.cipher.xpn {
            true => recover(self.next, low).unwrap_or(0),
            false => low.into(),
        };
        self.numbers.note(pn >= self.next);
        self.next = self.next.max(pn.saturating_add(1));
        let how = How { sci, pn, encrypted: tag.is_encrypted() };
        let opened = self.sa.open(frame, &tag, user, how);
        self.icvs.note(opened.is_some());
        self.opened(opened.as_deref());
    }

    fn opened(&mut self, opened: Option<&[u8]>) {
        let Some((number, opened)) = opened.and_then(|frame| Some((number(frame)?, frame))) else {
            return;
        };
        let Some(expected) = self.expected.get(&number) else { return };
        match is_same(opened, expected) {
            true => {
                self.came.insert(number);
            }
            false => self.altered += 1,
        }
    }

    /// The channel of a frame, if it is the device's.
    fn channel(&mut self, frame: &[u8], tag: &Header) -> Option<Sci> {
        let behind = frame.get(TAG_AT + Header::LEN..)?;
        let source = frame.get(6..MACS)?.first_chunk().map(|mac| MacAddr(*mac))?;
        let said = match tag.has_sci() {
            true => behind.first_chunk().map(|octets| Sci::from_bytes(*octets)),
            false => tag.implied_sci(source),
        };
        // Point to point the tag says nothing: the device's SCI has to be told.
        let sci = *self.sci.get_or_insert(said?);
        said.is_none_or(|said| said == sci).then_some(sci)
    }

    /// The checks that watching gives.
    pub fn checks(&self) -> Vec<Check> {
        let frames = |tally: Tally| tally.found("frame", "");
        let icvs = match self.icvs {
            Tally { good: 0, bad } if bad > 0 => {
                Found::Broken(format!("none of {bad}: another SAK, SCI or SSCI"))
            }
            icvs => frames(icvs),
        };
        let tci = match self.tcis.len() {
            0 => Found::NotSeen("no frame".into()),
            1 => Found::Holds(format!("{:#04x} in all", self.tcis.first().unwrap_or(&0))),
            _ => Found::Broken(format!("{:02x?}", self.tcis)),
        };
        let (came, all) = (self.came.len(), self.expected.len());
        let passed = match (came, self.altered, all) {
            (_, _, 0) => Found::NotSeen("no frame was sent".into()),
            (_, 1.., _) => Found::Broken(format!("{} of {all} altered", self.altered)),
            (came, _, all) if came < all => Found::Broken(format!("{came} of {all}")),
            _ => Found::Holds(format!("{all} frames, octet for octet")),
        };
        let clear = match (self.in_clear, self.tags.good) {
            (0, 0) => Found::NotSeen("no frame".into()),
            (0, _) => Found::Holds("none".into()),
            (frames, _) => Found::Broken(format!("{frames}")),
        };
        vec![
            Check::new("10.5", "sent: no frame of the controlled port in clear", clear),
            Check::new("9.5", "sent: version 0, flags that go together", frames(self.tags)),
            Check::new("9.5", "sent: one TCI for all frames", tci),
            Check::new("9.6", "sent: the association number of the SAK", frames(self.ans)),
            Check::new("9.7", "sent: reserved bits beside SL are 0", frames(self.reserved)),
            Check::new("9.7", "sent: SL is that of short frames, else 0", frames(self.lengths)),
            Check::new("9.9", "sent: the device's SCI", frames(self.channels)),
            Check::new("10.5.2", "sent: packet numbers rise", frames(self.numbers)),
            Check::new("9.11", "sent: the ICV verifies", icvs),
            Check::new("10.5", "sent: frames of all lengths, as they came in", passed),
        ]
    }
}
