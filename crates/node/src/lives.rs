//! Lives of SAs that have bounds (RFC 4301 section 4.4.2.1): time, and who is told.
//!
//! ```text
//!   installed ─▶ time runs ─ soft ─▶ told ─ hard ─▶ told, and its workers end it
//!   a worker: so many packets or octets are used ─▶ told; the hard bound ends it in all workers
//! ```
//!
//! Packets and octets are counted on an account of the key, in the workers. It is told once that
//! a bound is reached, whatever that is one of.

use crate::incident::{Incident, SaName};
use crate::sas::Sa;
use ferrule_base::Instant;
use ferrule_dataplane::ipsec::{Allowance, Expiry, InboundConfig, LifeCause, OutboundConfig};
use std::collections::{BTreeSet, HashMap};

/// An SA that has bounds.
struct Living {
    name: SaName,
    by: Allowance,
}

impl Living {
    /// When a bound of time is reached.
    fn due(&self, expiry: Expiry) -> Option<Instant> {
        let bounds = match expiry {
            Expiry::Soft => self.by.lifetimes.soft,
            Expiry::Hard => self.by.lifetimes.hard,
        };
        Some(self.by.account.since()? + bounds.time?)
    }
}

/// All of them.
#[derive(Default)]
pub(crate) struct Lives {
    sas: HashMap<Sa, Living>,
    due: BTreeSet<(Instant, Sa, Expiry)>,
    /// Installed since the last turn.
    fresh: Vec<Sa>,
    /// The last turn.
    now: Instant,
}

impl Lives {
    /// An SA that is ordered.
    pub fn add(&mut self, sa: Sa, name: SaName, by: Allowance) {
        self.sas.insert(sa, Living { name, by });
    }

    /// The SA is installed: its time runs from the next turn on.
    pub fn installed(&mut self, sa: Sa) {
        if self.sas.contains_key(&sa) {
            self.fresh.push(sa);
        }
    }

    /// Bounds of an SA that is there already; none: it lives on. True if its time is over.
    pub fn set(&mut self, sa: Sa, name: SaName, by: Option<Allowance>) -> bool {
        self.forget(sa);
        let Some(by) = by else { return false };
        let living = Living { name, by };
        let by = &living.by;
        let over = |expiry| living.due(expiry).is_some_and(|due| due <= self.now);
        let counted = by.reached().map(|(expiry, _)| expiry);
        let timed = [Expiry::Hard, Expiry::Soft].into_iter().find(|&expiry| over(expiry));
        by.account.keep_told(counted.max(timed));
        self.sas.insert(sa, living);
        self.fresh.push(sa);
        timed == Some(Expiry::Hard)
    }

    /// Removes an SA that is gone.
    pub fn forget(&mut self, sa: Sa) {
        let Some(living) = self.sas.remove(&sa) else { return };
        for expiry in [Expiry::Soft, Expiry::Hard] {
            if let Some(due) = living.due(expiry) {
                self.due.remove(&(due, sa, expiry));
            }
        }
    }

    /// When [`turn`](Self::turn) has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let first = self.due.first().map(|&(at, ..)| at);
        if self.fresh.is_empty() { first } else { Some(self.now) }
    }

    /// SAs whose time is over, and the events to report, as of `now`.
    pub fn turn(&mut self, now: Instant) -> (Vec<Sa>, Vec<Incident>) {
        self.now = now;
        for sa in std::mem::take(&mut self.fresh) {
            let Some(living) = self.sas.get(&sa) else { continue };
            living.by.account.start(now);
            let due = [Expiry::Soft, Expiry::Hard].map(|expiry| (living.due(expiry), expiry));
            self.due.extend(due.into_iter().filter_map(|(at, expiry)| Some((at?, sa, expiry))));
        }
        let (mut over, mut news) = (Vec::new(), Vec::new());
        while let Some(&(at, sa, expiry)) = self.due.first()
            && at <= now
        {
            self.due.pop_first();
            let Some(Living { name, by }) = self.sas.get(&sa) else { continue };
            over.extend((expiry == Expiry::Hard).then_some(sa));
            if by.account.tell(expiry) {
                news.push(Incident::SaLife(name.clone(), expiry, LifeCause::Time));
            }
        }
        (over, news)
    }

    /// A worker says that a bound is reached. Nothing if it is not, by the bounds of now.
    pub fn heard(&self, sa: Sa, expiry: Expiry, cause: LifeCause) -> Option<Incident> {
        let Living { name, by } = self.sas.get(&sa)?;
        let reached = by.reached().map(|(reached, _)| reached);
        if reached < Some(expiry) {
            by.account.keep_told(reached);
            return None;
        }
        Some(Incident::SaLife(name.clone(), expiry, cause))
    }
}

/// Names of SAs as people know them.
pub(crate) fn name_out(config: &OutboundConfig) -> SaName {
    SaName {
        tunnel: config.name.to_string(),
        way: "out",
        spi: config.spi,
        destination: config.destination,
        peer: Some(config.destination),
    }
}

/// See [`name_out`].
pub(crate) fn name_in(config: &InboundConfig) -> SaName {
    SaName {
        tunnel: config.name.to_string(),
        way: "in",
        spi: config.spi,
        destination: config.destination,
        peer: config.source,
    }
}
