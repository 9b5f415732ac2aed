//! Shared parts of the tests of this folder: a gateway made of the two stages, on either
//! engine, and packets with options and extension headers to put through it.

mod fields;
mod laws;
mod life;
mod path;

use super::{AhIn, AhOut};
use crate::graph::{Ctx, Next, Outputs, Tally};
use crate::ipsec::tests::{End, MTU, Make, SPI, Told, between, hex, inner, ip, keys, tell};
use crate::ipsec::*;
use crate::sequence::Sequence;
use crate::tables::Tables;
use ferrule_base::{DropReason, Instant, Secret, VrfId};
use ferrule_crypto::{Aes, Jobs, Software, Suite, suite::Mac};
use ferrule_pipeline::{Batch, Meta, Packet, Pool, PoolCache};
use ferrule_wire::{Protocol, ah, ipv4};

/// Everything that AH can have.
const SUITES: [Suite; 7] = [
    Suite::Null(Mac::HmacSha1_96),
    Suite::Null(Mac::HmacSha256_128),
    Suite::Null(Mac::HmacSha384_192),
    Suite::Null(Mac::HmacSha512_256),
    Suite::Null(Mac::HmacMd5_96),
    Suite::AesGmac(Aes::Aes128),
    Suite::AesGmac(Aes::Aes256),
];

const SHA1: Suite = SUITES[0];

/// Where the two ends are: a tunnel of this family, or both in transport mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Tunnel(u8),
    Transport(u8),
}

const KINDS: [Kind; 4] = [Kind::Tunnel(4), Kind::Tunnel(6), Kind::Transport(4), Kind::Transport(6)];

impl Kind {
    /// Octets of a plain header in front of AH.
    const fn head(self) -> usize {
        match self {
            Self::Tunnel(4) | Self::Transport(4) => 20,
            _ => 40,
        }
    }

    fn ends(self) -> [std::net::IpAddr; 2] {
        match self {
            Self::Tunnel(4) => [ip("192.0.2.1"), ip("192.0.2.2")],
            Self::Tunnel(_) => [ip("2001:db8::1"), ip("2001:db8::2")],
            // As in `inner`.
            Self::Transport(4) => [ip("10.1.0.9"), ip("10.2.0.9")],
            Self::Transport(_) => [ip("2001:db8:1::9"), ip("2001:db8:2::9")],
        }
    }
}

fn outbound(suite: Suite, kind: Kind, esn: bool) -> OutboundConfig {
    let [source, destination] = kind.ends();
    let salt = Secret::new(vec![0xa5; suite.esp_salt_len()]);
    OutboundConfig {
        name: "out".into(),
        protocol: SaProtocol::Ah,
        mode: if matches!(kind, Kind::Tunnel(_)) { Mode::Tunnel } else { Mode::Transport },
        esn,
        adjacency: 7,
        mtu: MTU,
        ..OutboundConfig::tunnel(SPI, (source, destination), keys(suite), salt)
    }
}

fn inbound(suite: Suite, kind: Kind, esn: bool) -> InboundConfig {
    let out = outbound(suite, kind, esn);
    InboundConfig {
        name: "in".into(),
        protocol: SaProtocol::Ah,
        mode: out.mode,
        esn,
        selectors: vec![
            between("10.2.0.0/16", "10.1.0.0/16"),
            between("2001:db8:2::/48", "2001:db8:1::/48"),
        ],
        vrf: VrfId(3),
        ..InboundConfig::tunnel(out.spi, (out.source, out.destination), out.keys, out.salt)
    }
}

/// The two stages, and what they are given.
struct Gateway<E> {
    out: AhOut,
    inn: AhIn,
    engine: E,
    tables: Tables,
    now: Instant,
    tally: Tally,
    outputs: Outputs,
    cache: PoolCache,
    metas: Vec<Meta>,
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

pub(super) use ctx;

impl<E: Make> Gateway<E> {
    fn new(seed: u64) -> Self {
        let mut tables = Tables::default();
        let place = InboundPlace { spi: SPI, worker: 0, index: 0 };
        tables.sas = SaDirectory::new(&[], &[place]).unwrap().into();
        Self {
            out: AhOut::default(),
            inn: AhIn::default(),
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
    fn pair(seed: u64, suite: Suite, kind: Kind, esn: bool) -> Self {
        Self::of(seed, &outbound(suite, kind, esn), &inbound(suite, kind, esn), 1)
    }

    fn of(seed: u64, out: &OutboundConfig, inn: &InboundConfig, first: u64) -> Self {
        let mut this = Self::new(seed);
        let max = if out.esn { u64::MAX - 1 } else { u32::MAX.into() };
        let numbers = Sequence::unlimited(first, max);
        this.out.install_at(&mut this.engine, 0, out, numbers).unwrap();
        this.inn.install_at(&mut this.engine, 0, inn, first - 1).unwrap();
        this
    }

    fn batch<'a>(&mut self, octets: impl IntoIterator<Item = (&'a [u8], Meta)>) -> Box<Batch> {
        let packets = octets.into_iter().map(|(octets, meta)| {
            let mut packet = self.cache.packet_from(octets).unwrap();
            *packet.meta_mut() = meta;
            packet
        });
        Box::new(packets.collect())
    }

    /// Lets time pass until the engine has nothing more.
    fn settle(&mut self) {
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
    fn ends(&mut self) -> Vec<End> {
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

    fn push_out<'a>(&mut self, octets: impl IntoIterator<Item = &'a [u8]>) {
        let mut batch = self.batch(octets.into_iter().map(|o| (o, Meta::default())));
        self.out.push(ctx!(self), &mut self.engine, &mut batch);
        assert!(batch.is_empty());
    }

    fn push_in<'a>(&mut self, octets: impl IntoIterator<Item = &'a [u8]>) {
        let at = |o: &[u8]| Meta { offset: ah_at(o) as u16, ..Meta::default() };
        let mut batch = self.batch(octets.into_iter().map(|o| (o, at(o))));
        self.inn.push(ctx!(self), &mut self.engine, &mut batch);
        assert!(batch.is_empty());
    }

    fn seal(&mut self, octets: &[u8]) -> End {
        self.push_out([octets]);
        self.settle();
        self.only()
    }

    fn sealed(&mut self, octets: &[u8]) -> Vec<u8> {
        match self.seal(octets) {
            End::Sent(Next::Output, sealed) => sealed,
            end => panic!("{end:?}"),
        }
    }

    fn open(&mut self, octets: &[u8]) -> End {
        self.push_in([octets]);
        self.settle();
        self.only()
    }

    fn only(&mut self) -> End {
        let mut ends = self.ends();
        assert_eq!((ends.len(), self.out.held() + self.inn.held()), (1, 0));
        ends.remove(0)
    }

    fn edge(&self) -> u64 {
        self.inn.show().next().unwrap().number
    }
}

/// Where the IP stage finds AH, as far as headers can be walked.
fn ah_at(packet: &[u8]) -> usize {
    match packet.first().map(|b| b >> 4) {
        Some(6) => {
            let next = Protocol(*packet.get(6).unwrap_or(&59));
            let payload = packet.get(40..).unwrap_or_default();
            40 + ferrule_wire::ipv6ext::walk(next, payload).map_or(0, |upper| upper.offset)
        }
        _ => packet.first().map_or(20, |b| usize::from(b & 15) * 4),
    }
}

/// A packet of `inner` with these IPv4 options behind its header.
fn with_options(options: &str, len: usize) -> Vec<u8> {
    let (plain, options) = (inner(4, len, 0), hex(options));
    let mut packet = [&plain[..20], &options, &plain[20..]].concat();
    packet[0] += (options.len() / 4) as u8;
    let total = packet.len() as u16;
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    ipv4::fill_checksum(&mut packet);
    packet
}

/// A packet of `inner` with these extension headers, of which `first` is the first
/// and the last names UDP.
fn with_extensions(first: Protocol, extensions: &str, len: usize) -> Vec<u8> {
    let (plain, extensions) = (inner(6, len, 0), hex(extensions));
    let mut packet = [&plain[..40], &extensions, &plain[40..]].concat();
    packet[6] = first.0;
    let payload = (packet.len() - 40) as u16;
    packet[4..6].copy_from_slice(&payload.to_be_bytes());
    packet
}
