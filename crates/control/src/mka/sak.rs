//! SAKs in use: the latest and the one before (the CP machine, 802.1X-2020 clause 12.4).
//!
//! ```text
//!   distributed ─▶ install ─▶ done: receives ─▶ transmit ─▶ done: transmits ─▶ old one retired
//!                             "rx" is said      key server: all peers receive, or LIFE is over
//!                                               others: the key server transmits
//! ```

use super::config::{BOUNDED_HELLO, Confidentiality, Suite};
use super::xpn::Sscis;
use ferrule_base::Instant;
use ferrule_wire::Sci;
use ferrule_wire::mkpdu::{Ckn, KeyId, KeyUse, Mi};
use std::collections::BTreeSet;

/// A SAK that was made here, to be distributed.
#[derive(Clone, Debug)]
pub struct Made {
    /// Live peers for which it was made.
    pub members: BTreeSet<Mi>,
    /// The key, wrapped under the KEK.
    pub wrapped: Vec<u8>,
    pub confidentiality: Confidentiality,
}

/// A SAK that is installed, or on the way to it.
#[derive(Clone, Debug)]
pub struct Sak {
    pub key: KeyId,
    /// CAK under which it was distributed.
    pub ckn: Ckn,
    pub an: u8,
    pub suite: Suite,
    /// SSCIs of the members, with XPN suites.
    pub sscis: Option<Sscis>,
    /// Channels from which the SecY receives with it.
    pub channels: BTreeSet<Sci>,
    /// Made by this participant.
    pub made: Option<Made>,
    /// Time of its distribution.
    pub since: Instant,
    /// The SecY was told to install it; to transmit with it.
    pub receives: bool,
    pub transmit_asked: bool,
    /// Time before which the SecY is not asked again, as it refused.
    pub transmit_after: Instant,
    pub transmits: bool,
    /// Packet number that is sent next, as the SecY last said.
    pub next_pn: u64,
    /// The lowest that peers are to accept: an older one, and since when it is said.
    pub lowest_pn: u64,
    pub aged: (u64, Instant),
}

impl Sak {
    /// Its use, as the participant announces it.
    pub const fn used(&self) -> KeyUse {
        KeyUse {
            an: self.an,
            transmits: self.transmits,
            receives: self.receives,
            key: self.key,
            lowest_pn: self.lowest_pn as u32,
        }
    }

    /// High half of the lowest packet number.
    pub const fn lowest_pn_high(&self) -> u32 {
        (self.lowest_pn >> 32) as u32
    }

    /// The SecY says which packet number it sends next.
    pub fn set_next_pn(&mut self, pn: u64) {
        self.next_pn = if self.suite.is_xpn() { pn } else { pn.min(u32::MAX.into()) };
    }

    /// A message gives the number of a bounded hello time ago: frames sent since may still be
    /// under way.
    pub fn age(&mut self, now: Instant) {
        let (pn, at) = self.aged;
        if now.since(at) >= BOUNDED_HELLO {
            (self.lowest_pn, self.aged) = (pn, (self.next_pn, now));
        }
    }
}

/// The latest and the one before.
#[derive(Clone, Debug, Default)]
pub struct Saks {
    pub latest: Option<Sak>,
    pub old: Option<Sak>,
    /// Time at which the old SAK is retired.
    pub retire: Option<Instant>,
}

impl Saks {
    /// A peer was lost: if it is live again it has to have another SAK.
    pub fn lost(&mut self, mi: Mi) {
        let made = self.latest.iter_mut().chain(&mut self.old).filter_map(|sak| sak.made.as_mut());
        made.for_each(|made| {
            made.members.remove(&mi);
        });
    }

    /// Both of them.
    pub fn all(&self) -> impl Iterator<Item = &Sak> {
        self.latest.iter().chain(&self.old)
    }

    /// The SAK with this identity.
    pub fn get_mut(&mut self, key: KeyId) -> Option<&mut Sak> {
        self.latest.iter_mut().chain(&mut self.old).find(|sak| sak.key == key)
    }

    /// An association number that neither SAK has, nor any of `others`.
    pub fn free_an(&self, others: impl Iterator<Item = u8> + Clone) -> u8 {
        let last = self.latest.as_ref().map_or(3, |sak| sak.an);
        let used = |an: &u8| self.all().any(|sak| sak.an == *an);
        let mut all = (1..=4).map(|next| (last + next) & 3);
        let free = all.clone().find(|an| !used(an) && !others.clone().any(|other| other == *an));
        free.or_else(|| all.find(|an| !used(an))).unwrap_or((last + 1) & 3)
    }
}
