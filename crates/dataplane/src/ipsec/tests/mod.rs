//! Shared parts of the tests of this folder: a gateway made of the three stages, on
//! either engine, and packets to put through it.

mod laws;
mod life;
mod lifetime;
mod model;
mod path;
mod policy;
mod replay;
mod spd;
mod suites;
mod transport;
mod vectors;

use super::*;
use crate::graph::{Ctx, Next, Outputs, Stage, Tally};
use crate::sequence::Sequence;
use crate::tables::Tables;
use ferrule_base::{DropReason, Duration, Instant, Secret, VrfId};
use ferrule_crypto::{Engine, Jobs, KeySpec, Late, Software, Suite};
use ferrule_pipeline::{Batch, Meta, Packet, Pool, PoolCache};
use ferrule_wire::{Protocol, ipv4, ipv6};
use std::net::IpAddr;

pub fn hex(text: &str) -> Vec<u8> {
    Secret::from_hex(text).unwrap().expose().to_vec()
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub fn between(local: &str, remote: &str) -> Selector {
    let prefix = |text: &str| -> (IpAddr, u8) {
        let (address, len) = text.split_once('/').unwrap();
        (ip(address), len.parse().unwrap())
    };
    Selector::between(prefix(local), prefix(remote))
}

pub fn keys(suite: Suite) -> KeySpec {
    let octets = |from: u8, len: usize| Secret::new((from..).take(len).collect());
    KeySpec::new(suite, octets(1, suite.key_len()), octets(90, suite.mac_key_len()))
}

fn salt(suite: Suite) -> Secret {
    Secret::new(vec![0xa5; suite.esp_salt_len()])
}

pub const MTU: u16 = 1400;
pub const SPI: u32 = 0x1234;

/// From `10.1/16` and `2001:db8:1::/48` through a tunnel of family 4 or 6.
pub fn outbound(suite: Suite, tunnel: u8, esn: bool) -> OutboundConfig {
    let ends = ["192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"];
    let at = if tunnel == 4 { 0 } else { 2 };
    OutboundConfig {
        name: "out".into(),
        esn,
        adjacency: 7,
        mtu: MTU,
        ..OutboundConfig::tunnel(SPI, (ip(ends[at]), ip(ends[at + 1])), keys(suite), salt(suite))
    }
}

/// The other end of [`outbound`].
pub fn inbound(suite: Suite, tunnel: u8, esn: bool) -> InboundConfig {
    let out = outbound(suite, tunnel, esn);
    InboundConfig {
        name: "in".into(),
        esn,
        selectors: vec![
            between("10.2.0.0/16", "10.1.0.0/16"),
            between("2001:db8:2::/48", "2001:db8:1::/48"),
        ],
        vrf: VrfId(3),
        ..InboundConfig::tunnel(out.spi, (out.source, out.destination), out.keys, out.salt)
    }
}

/// A UDP packet of `len` octets (as far as the headers allow) from site 1 to
/// site 2.
pub fn inner(version: u8, len: usize, class: u8) -> Vec<u8> {
    let mut packet: Vec<u8> = (0..len).map(|i| i as u8).collect();
    if version == 4 {
        let (src, dst) = ([10, 1, 0, 9].into(), [10, 2, 0, 9].into());
        let mut repr = ipv4::Repr::new(Protocol::UDP, src, dst, (len - 20) as u16);
        (repr.dscp, repr.ecn) = (ferrule_wire::Dscp::masked(class >> 2), ecn(class));
        repr.emit(&mut packet);
    } else {
        let (src, dst) = ("2001:db8:1::9".parse().unwrap(), "2001:db8:2::9".parse().unwrap());
        let mut repr = ipv6::Repr::new(Protocol::UDP, src, dst, (len - 40) as u16);
        (repr.dscp, repr.ecn) = (ferrule_wire::Dscp::masked(class >> 2), ecn(class));
        repr.emit(&mut packet);
    }
    packet
}

pub fn ecn(class: u8) -> ferrule_wire::Ecn {
    ferrule_wire::Ecn::from_bits(class)
}

/// An engine that a test makes anew.
pub trait Make: Engine<Packet> {
    fn make(seed: u64) -> Self;
}

impl Make for Software {
    fn make(_: u64) -> Self {
        Self::default()
    }
}

impl Make for Late<Packet> {
    fn make(seed: u64) -> Self {
        Self::new(Software::default(), seed, Duration::from_micros(50), 1000)
    }
}

/// Runs a generic test on both engines.
macro_rules! on_both_engines {
    ($($(#[$meta:meta])* $name:ident;)+) => {
        mod software { $($(#[$meta])* #[test] fn $name() { super::$name::<ferrule_crypto::Software>() })+ }
        mod late { $($(#[$meta])* #[test] fn $name() {
            super::$name::<ferrule_crypto::Late<ferrule_pipeline::Packet>>()
        })+ }
    };
}
pub(super) use on_both_engines;

/// Fate of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Sent(Next, Vec<u8>),
    Handed(u8, Next),
    Dropped(DropReason),
}

/// Packets with their metadata, by the place where they ended.
pub type Told = std::collections::BTreeMap<String, Vec<String>>;

/// Adds where packets ended; what is known is known of those that travel on.
pub fn tell(ends: Vec<End>, metas: &[Meta], told: &mut Told) {
    let metas = metas.iter().map(Some).chain(std::iter::repeat(None));
    for (end, meta) in ends.into_iter().zip(metas) {
        let place = match &end {
            End::Sent(next, _) => next.name().to_owned(),
            end => format!("{end:?}"),
        };
        told.entry(place).or_default().push(format!("{end:?} {meta:?}"));
    }
}

/// The three stages, and what they are given.
pub struct Gateway<E> {
    pub policy: Policy,
    pub out: EspOut,
    pub inn: EspIn,
    pub engine: E,
    pub tables: Tables,
    pub now: Instant,
    pub tally: Tally,
    pub outputs: Outputs,
    pub cache: PoolCache,
    pub metas: Vec<Meta>,
}

/// Borrows a gateway's parts as a [`Ctx`], with its tables as they are now.
macro_rules! ctx {
    ($g:expr) => {
        &mut Ctx {
            now: $g.now,
            worker: 0,
            tables: {
                $g.tables.compile();
                &$g.tables
            },
            cache: &mut $g.cache,
            tally: &mut $g.tally,
            out: &mut $g.outputs,
        }
    };
}

use ctx;

impl<E: Make> Gateway<E> {
    pub fn new(seed: u64) -> Self {
        let mut tables = Tables::default();
        let place = InboundPlace { spi: SPI, worker: 0, index: 0 };
        tables.sas = SaDirectory::new(&[Some(0)], &[place]).unwrap().into();
        Self {
            policy: Policy,
            out: EspOut::default(),
            inn: EspIn::default(),
            engine: E::make(seed),
            tables,
            now: Instant::default(),
            tally: Tally::default(),
            outputs: Outputs::new(),
            cache: Pool::heap(1024, 2048).cache(),
            metas: Vec::new(),
        }
    }

    /// Both ends of one SA, at index 0 of each stage.
    pub fn pair(seed: u64, suite: Suite, tunnel: u8, esn: bool) -> Self {
        let mut this = Self::new(seed);
        let max = if esn { u64::MAX - 1 } else { u32::MAX.into() };
        let (sa, numbers) = (outbound(suite, tunnel, esn), Sequence::unlimited(1, max));
        this.out.install_at(&mut this.engine, 0, &sa, numbers).unwrap();
        this.inn.install_at(&mut this.engine, 0, &inbound(suite, tunnel, esn), 0).unwrap();
        this
    }

    pub fn packet(&mut self, octets: &[u8], meta: Meta) -> Packet {
        let mut packet = self.cache.packet_from(octets).unwrap();
        *packet.meta_mut() = meta;
        packet
    }

    fn batch<'a>(&mut self, octets: impl IntoIterator<Item = &'a [u8]>, meta: Meta) -> Box<Batch> {
        Box::new(octets.into_iter().map(|o| self.packet(o, meta)).collect())
    }

    /// Lets time pass until the engine has nothing more.
    pub fn settle(&mut self) {
        while let Some(due) = self.engine.poll_timeout() {
            self.now = due;
            let mut done = Jobs::new();
            self.engine.collect(self.now, &mut done);
            self.inn.finish(ctx!(self), &mut done);
            self.out.finish(ctx!(self), &mut done);
            assert!(done.is_empty(), "every job belongs to a stage");
        }
    }

    /// Where everything ended; what travels on first, in order.
    pub fn ends(&mut self) -> Vec<End> {
        let mut ends = Vec::new();
        self.metas.clear();
        for next in Next::ALL {
            for packet in self.outputs.queue(next).drain(..) {
                self.metas.push(*packet.meta());
                ends.push(End::Sent(next, packet.data().to_vec()));
            }
        }
        let handed = self.outputs.all_handoffs().into_iter();
        ends.extend(handed.map(|(worker, next, _)| End::Handed(worker, next)));
        ends.extend(self.outputs.dropped().drain(..).map(|(_, reason)| End::Dropped(reason)));
        ends
    }

    /// Pushes into EspOut for SA `index` without waiting for the engine.
    pub fn push_out<'a>(&mut self, index: u32, octets: impl IntoIterator<Item = &'a [u8]>) {
        let mut batch = self.batch(octets, Meta { sa: index, ..Meta::default() });
        self.out.push(ctx!(self), &mut self.engine, &mut batch);
        assert!(batch.is_empty());
    }

    /// Pushes into EspIn without waiting for the engine.
    pub fn push_in<'a>(&mut self, octets: impl IntoIterator<Item = &'a [u8]>) {
        let mut batch = Box::new(Batch::new());
        for octets in octets {
            let offset = if octets.first().is_some_and(|b| b >> 4 == 6) { 40 } else { 20 };
            batch.push(self.packet(octets, Meta { offset, ..Meta::default() }));
        }
        self.inn.push(ctx!(self), &mut self.engine, &mut batch);
        assert!(batch.is_empty());
    }

    /// The same with an offset that may be wrong.
    pub fn push_in_at<'a>(&mut self, offset: u16, octets: impl IntoIterator<Item = &'a [u8]>) {
        let mut batch = self.batch(octets, Meta { offset, ..Meta::default() });
        self.inn.push(ctx!(self), &mut self.engine, &mut batch);
        assert!(batch.is_empty());
    }

    pub fn push_policy<'a>(&mut self, octets: impl IntoIterator<Item = &'a [u8]>) -> Vec<End> {
        let mut batch = self.batch(octets, Meta::default());
        self.policy.push(ctx!(self), &mut batch);
        self.ends()
    }

    /// One packet through EspOut.
    pub fn seal(&mut self, octets: &[u8]) -> End {
        self.push_out(0, [octets]);
        self.settle();
        self.only()
    }

    /// One packet through EspOut that must be sealed.
    pub fn sealed(&mut self, octets: &[u8]) -> Vec<u8> {
        match self.seal(octets) {
            End::Sent(Next::Output, sealed) => sealed,
            end => panic!("{end:?}"),
        }
    }

    /// One packet through EspIn.
    pub fn open(&mut self, octets: &[u8]) -> End {
        self.push_in([octets]);
        self.settle();
        self.only()
    }

    fn only(&mut self) -> End {
        let mut ends = self.ends();
        assert_eq!((ends.len(), self.out.held() + self.inn.held()), (1, 0));
        ends.remove(0)
    }

    /// The edge of the inbound SA's window.
    pub fn edge(&self) -> u64 {
        self.inn.show().next().unwrap().number
    }
}
