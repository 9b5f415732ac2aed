//! Patterns of senders and receivers through a bridge of several ports (RFC 2889 sections 5.1 to
//! 5.4).
//!
//! ```text
//!   full          one to many     many to one     devices           one way
//!   a ⇄ b         a ─▶ b          b ─▶ a          a ⇄ b             a ─▶ b
//!   a ⇄ c  b ⇄ c  a ─▶ c          c ─▶ a          a ⇄ d  c ⇄ b …    a ─▶ d  c ─▶ b …
//!                                              near [dev]══[dev] far
//! ```
//!
//! A port that sends to several takes turns: its streams are apart by an even part
//! of the time between two frames, so that it never sends two at once.

use crate::layers::Layers;
use crate::stream::{Plan, Stream};
use ferrule_base::MacAddr;
use std::fmt;

/// Ports at most.
pub const PORTS_MAX: usize = 64;

/// The two groups of ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sides {
    /// Senders where traffic has one direction, and ports of the first of two devices.
    pub near: Vec<usize>,
    /// Receivers where traffic has one direction, and ports of the second device.
    pub far: Vec<usize>,
}

impl Sides {
    fn all(&self) -> Vec<usize> {
        let mut all = [self.near.clone(), self.far.clone()].concat();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Pattern of senders and receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Every port to every other (section 5.1).
    Full,
    /// The first near port to all others (section 5.2).
    OneToMany,
    /// Every other port to the first near port (section 5.2).
    ManyToOne,
    /// Both at once (section 5.2).
    OneAndMany,
    /// Each near port to each far port, and back, across the line between two
    /// devices (section 5.3).
    Devices {
        /// Also to the ports of the same device.
        local: bool,
    },
    /// Each near port to each far port (section 5.4).
    OneWay,
}

impl Pattern {
    /// Every pattern.
    pub const ALL: [Self; 7] = [
        Self::Full,
        Self::OneToMany,
        Self::ManyToOne,
        Self::OneAndMany,
        Self::Devices { local: false },
        Self::Devices { local: true },
        Self::OneWay,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::OneToMany => "one-to-many",
            Self::ManyToOne => "many-to-one",
            Self::OneAndMany => "one-and-many",
            Self::Devices { local: false } => "devices",
            Self::Devices { local: true } => "devices-local",
            Self::OneWay => "one-way",
        }
    }

    /// The section of RFC 2889.
    pub const fn section(self) -> &'static str {
        match self {
            Self::Full => "5.1",
            Self::OneToMany | Self::ManyToOne | Self::OneAndMany => "5.2",
            Self::Devices { .. } => "5.3",
            Self::OneWay => "5.4",
        }
    }

    /// Pairs of sender and receiver. Each sender's receivers follow it in turn
    /// (section 5.1.3: round robin, beginning behind itself).
    fn pairs(self, sides: &Sides) -> Vec<(usize, usize)> {
        let all = sides.all();
        let others = |tx: usize| {
            let behind = all.iter().filter(move |&&p| p > tx);
            behind.chain(all.iter().filter(move |&&p| p < tx)).copied()
        };
        let one = sides.near.first().copied().unwrap_or(0);
        let is_near = |port: usize| sides.near.contains(&port);
        let among = |keep: &dyn Fn(usize, usize) -> bool| {
            let each = |&tx: &usize| others(tx).map(move |rx| (tx, rx)).collect::<Vec<_>>();
            let mut pairs: Vec<_> = all.iter().flat_map(each).collect();
            pairs.retain(|&(tx, rx)| keep(tx, rx));
            pairs
        };
        match self {
            Self::Full => among(&|_, _| true),
            Self::OneToMany => among(&|tx, _| tx == one),
            Self::ManyToOne => among(&|_, rx| rx == one),
            Self::OneAndMany => among(&|tx, rx| tx == one || rx == one),
            Self::Devices { local } => among(&|tx, rx| local || is_near(tx) != is_near(rx)),
            Self::OneWay => among(&|tx, rx| is_near(tx) && !is_near(rx)),
        }
    }

    /// Streams as `stream` is, from and to the ports of these addresses. Nothing if
    /// there are too few or too many ports for it to differ from a pair.
    pub fn plan(
        self,
        stream: &Stream,
        macs: &[MacAddr],
        sides: &Sides,
        line: Option<u64>,
    ) -> Option<Plan> {
        let (near, far) = (sides.near.len(), sides.far.len());
        let enough = match self {
            Self::Full => near + far >= 2,
            Self::OneToMany | Self::ManyToOne | Self::OneAndMany => near + far >= 3,
            Self::Devices { local: false } | Self::OneWay => near >= 1 && far >= 1,
            Self::Devices { local: true } => near >= 2 || far >= 2,
        };
        if !enough || macs.len() > PORTS_MAX || sides.all().iter().any(|&p| p >= macs.len()) {
            return None;
        }
        let pairs = self.pairs(sides);
        let mut streams: Vec<Stream> = Vec::with_capacity(pairs.len());
        for &(tx, rx) in &pairs {
            let of = pairs.iter().filter(|p| p.0 == tx).count() as u16;
            let place = streams.iter().filter(|s| s.tx == tx).count() as u16;
            streams.push(between(stream, macs, (tx, rx), (place, of)));
        }
        Some(Plan { streams, line })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A stream as another, from port to port.
pub fn between(
    stream: &Stream,
    macs: &[MacAddr],
    (tx, rx): (usize, usize),
    phase: (u16, u16),
) -> Stream {
    let other = if tx == stream.tx { stream.clone() } else { stream.reversed() };
    let mac = |port: usize, or: MacAddr| macs.get(port).copied().unwrap_or(or);
    let (src, dst) = (mac(tx, stream.layers.src), mac(rx, stream.layers.dst));
    let layers = Layers { src, dst, ..other.layers };
    Stream { name: format!("{tx} to {rx}"), tx, rx, layers, phase, ..stream.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::Rate;

    fn pairs(pattern: Pattern, near: &[usize], far: &[usize]) -> Option<Vec<(usize, usize)>> {
        let macs: Vec<_> = (0..6).map(|i| MacAddr([2, 0, 0, 0, 0, i])).collect();
        let stream = Stream::new("a", Layers::new(macs[0], macs[1]), 64, Rate::frames(1));
        let sides = Sides { near: near.into(), far: far.into() };
        let plan = pattern.plan(&stream, &macs, &sides, None)?;
        for stream in &plan.streams {
            assert_eq!((stream.layers.src, stream.layers.dst), (macs[stream.tx], macs[stream.rx]));
            let own: Vec<_> = plan.streams.iter().filter(|s| s.tx == stream.tx).collect();
            let phases: Vec<_> = own.iter().map(|s| s.phase).collect();
            let n = own.len() as u16;
            assert_eq!(phases, (0..n).map(|i| (i, n)).collect::<Vec<_>>(), "they take turns");
        }
        Some(plan.streams.iter().map(|s| (s.tx, s.rx)).collect())
    }

    #[test]
    fn rfc2889_patterns_have_the_pairs_of_their_sections() {
        let (near, far): (&[_], &[_]) = (&[0, 2], &[1, 3]);
        let all = |pattern| pairs(pattern, near, far).unwrap();
        let full = all(Pattern::Full);
        assert_eq!(full.len(), 12);
        assert_eq!(full[3..6], [(1, 2), (1, 3), (1, 0)], "round robin, behind itself first");
        assert_eq!(all(Pattern::OneToMany), [(0, 1), (0, 2), (0, 3)]);
        assert_eq!(all(Pattern::ManyToOne), [(1, 0), (2, 0), (3, 0)]);
        assert_eq!(all(Pattern::OneAndMany).len(), 6);
        assert_eq!(all(Pattern::OneWay), [(0, 1), (0, 3), (2, 3), (2, 1)]);
        let across = all(Pattern::Devices { local: false });
        assert_eq!(across.len(), 8);
        assert!(across.iter().all(|p| (p.0 % 2) != (p.1 % 2)));
        assert_eq!(all(Pattern::Devices { local: true }), full);
    }

    #[test]
    fn rfc2889_patterns_that_need_more_ports_are_none() {
        for pattern in Pattern::ALL {
            let two = pairs(pattern, &[0], &[1]);
            let needs_more =
                matches!(pattern.section(), "5.2") || pattern == Pattern::Devices { local: true };
            assert_eq!(two.is_none(), needs_more, "{pattern}");
            assert!(pairs(pattern, &[0, 9], &[1, 2]).is_none(), "there is no port 9");
        }
    }
}
