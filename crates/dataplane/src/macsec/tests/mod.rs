//! A pair of SecYs with nothing between them, on any engine.

mod eapol;
mod laws;
mod model;
mod rekey;
mod rules;
mod uncontrolled;
mod vectors;

use super::{RxSaConfig, SecyConfig, SecyIn, SecyOut, Stats, TxSaConfig, Xpn};
use crate::graph::{Ctx, Next, Outputs, Tally};
use crate::sequence::Sequence;
use crate::tables::{Attach, PortEntry, Tables};
use ferrule_base::{DropReason, Duration, Instant, MacAddr, Secret};
use ferrule_crypto::{Aes, Engine, Jobs, Late, Place, Software, Suite};
use ferrule_pipeline::{Batch, Packet, Pool, PoolCache};

pub const GCM128: Suite = Suite::AesGcm(Aes::Aes128);
pub const GCM256: Suite = Suite::AesGcm(Aes::Aes256);
pub const SCI: u64 = 0x0200_0000_0001_0001;
pub const ADDRESSES: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];

/// The engine that every test runs on, and the one that is late.
pub fn engines() -> (Software, Late<Packet>) {
    let late = Late::new(Software::default(), 1, Duration::from_micros(50), 256);
    (Software::default(), late)
}

/// Result for a frame: sent on, or dropped.
pub type Fate = Result<Vec<u8>, DropReason>;

/// Both stages of one port, and what a worker has around them.
pub struct Rig<E> {
    pub engine: E,
    pub secy_out: SecyOut,
    pub secy_in: SecyIn,
    pub tables: Tables,
    pub tally: Tally,
    now: Instant,
    cache: PoolCache,
    out: Outputs,
}

impl<E: Engine<Packet>> Rig<E> {
    pub fn new(engine: E, config: &SecyConfig) -> Self {
        let port = PortEntry {
            name: "wan".into(),
            mac: MacAddr::ZERO,
            frame_max: 1600,
            owner: 0,
            everywhere: false,
            secy: Some(0),
            attach: Attach::default(),
        };
        let mut rig = Self {
            engine,
            secy_out: SecyOut::default(),
            secy_in: SecyIn::default(),
            tables: Tables { ports: vec![port], ..Tables::default() },
            tally: Tally::default(),
            now: Instant::ZERO,
            cache: Pool::heap(1024, 2048).cache(),
            out: Outputs::new(),
        };
        rig.secy_out.install(&mut rig.engine, 0, config).unwrap();
        rig.secy_in.install(&mut rig.engine, 0, config).unwrap();
        rig
    }

    /// With one association of number 0 each way, under the same key.
    pub fn keyed(engine: E, config: &SecyConfig) -> Self {
        let mut rig = Self::new(engine, config);
        rig.key(config, 0, 1);
        rig
    }

    /// Installs association `an` on both sides and lets it encode.
    pub fn key(&mut self, config: &SecyConfig, an: u8, first: u64) {
        let pn = Sequence::unlimited(first, config.pn_max());
        self.rekey(&tx_sa(config, an), pn);
        self.secy_in.install_rx_sa(&mut self.engine, 0, &rx_sa(config, an, first)).unwrap();
    }

    /// Installs a transmit association and lets it encode.
    pub fn rekey(&mut self, sa: &TxSaConfig, pn: Sequence) {
        self.secy_out.install_tx_sa(&mut self.engine, 0, sa, pn).unwrap();
        self.secy_out.encode(0, sa.an).unwrap();
    }

    fn ctx(&mut self) -> (Ctx<'_>, &mut SecyOut, &mut SecyIn, &mut E) {
        self.tables.compile();
        let ctx = Ctx {
            now: self.now,
            worker: 0,
            tables: &self.tables,
            cache: &mut self.cache,
            tally: &mut self.tally,
            out: &mut self.out,
        };
        (ctx, &mut self.secy_out, &mut self.secy_in, &mut self.engine)
    }

    /// Gives frames to a stage, and does not wait.
    pub fn push(&mut self, next: Next, frames: &[Vec<u8>]) {
        let (mut ctx, secy_out, secy_in, engine) = self.ctx();
        for frames in frames.chunks(64) {
            let packets = frames.iter().map(|f| ctx.cache.packet_from(f).unwrap());
            let mut batch = Box::new(packets.collect::<Batch>());
            match next {
                Next::SecyOut => secy_out.push(&mut ctx, engine, &mut batch),
                _ => secy_in.push(&mut ctx, engine, &mut batch),
            }
            assert!(batch.is_empty());
        }
    }

    /// Waits for the engine; then what arrived at `to`, in order, and what was
    /// dropped.
    pub fn drain(&mut self, to: Next) -> Vec<Fate> {
        while let Some(due) = self.engine.poll_timeout() {
            self.now = due;
            let (mut ctx, secy_out, secy_in, engine) = self.ctx();
            let mut jobs = Jobs::new();
            engine.collect(due, &mut jobs);
            secy_out.finish(&mut ctx, &mut jobs);
            secy_in.finish(&mut ctx, &mut jobs);
            assert!(jobs.is_empty(), "every job belongs to a stage");
        }
        let sent = self.out.queue(to).drain(..).map(|p| Ok(p.data().to_vec()));
        let mut fates: Vec<Fate> = sent.collect();
        for (_, reason) in self.out.dropped().drain(..) {
            self.tally.drops.count(reason);
            fates.push(Err(reason));
        }
        assert_eq!((self.out.held(), self.secy_out.held(), self.secy_in.held()), (0, 0, 0));
        fates
    }

    fn turn(&mut self, next: Next, frames: &[Vec<u8>]) -> Vec<Fate> {
        self.push(next, frames);
        let to = if next == Next::SecyOut { Next::Transmit } else { Next::Attach };
        let fates = self.drain(to);
        assert_eq!(fates.len(), frames.len(), "every frame goes somewhere");
        fates
    }

    /// Clear frames out; sent ones in order, then the dropped ones.
    pub fn protect_all(&mut self, frames: &[Vec<u8>]) -> Vec<Fate> {
        self.turn(Next::SecyOut, frames)
    }

    /// Frames from the wire in; delivered ones in order, then the dropped ones.
    pub fn validate_all(&mut self, frames: &[Vec<u8>]) -> Vec<Fate> {
        self.turn(Next::SecyIn, frames)
    }

    pub fn protect(&mut self, frame: &[u8]) -> Fate {
        self.protect_all(&[frame.to_vec()]).remove(0)
    }

    pub fn validate(&mut self, frame: &[u8]) -> Fate {
        self.validate_all(&[frame.to_vec()]).remove(0)
    }

    /// Counters of the receive side.
    pub fn received(&self) -> Stats {
        self.secy_in.report()[0].1.stats
    }

    /// Counters of the transmit side.
    pub fn sent(&self) -> Stats {
        self.secy_out.report()[0].1.stats
    }

    /// Next and lowest acceptable number of the first receive association.
    pub fn edges(&self) -> (u64, u64) {
        let sa = self.secy_in.report()[0].1.sas[0];
        (sa.next_pn, sa.lowest_pn)
    }
}

pub fn config(suite: Suite) -> SecyConfig {
    SecyConfig::new(SCI, suite)
}

/// Every suite with every option that goes with it.
pub fn every_config() -> Vec<(String, SecyConfig)> {
    let mut configs = Vec::new();
    for (suite, xpn) in [(GCM128, false), (GCM256, false), (GCM128, true), (GCM256, true)] {
        for (encrypt, offset) in [(false, 0), (true, 0), (true, 30), (true, 50)] {
            for identity in ["sci", "es", "peer", "es-scb", "scb"] {
                for clear_tags in 0..=2 {
                    let port = if identity.ends_with("scb") { 0 } else { 1 };
                    let config = SecyConfig {
                        sci: SCI & !0xffff | port,
                        xpn,
                        encrypt,
                        offset,
                        send_sci: identity == "sci",
                        end_station: identity.starts_with("es"),
                        broadcast: identity.ends_with("scb"),
                        clear_tags,
                        ..config(suite)
                    };
                    // XPN has no confidentiality offset.
                    if !xpn || offset == 0 {
                        configs.push((format!("{identity}: {config:?}"), config));
                    }
                }
            }
        }
    }
    configs
}

fn key(config: &SecyConfig, an: u8) -> Secret {
    Secret::new((0..config.suite.key_len()).map(|i| i as u8 ^ an << 6).collect())
}

fn xpn(config: &SecyConfig) -> Option<Xpn> {
    config.xpn.then_some(Xpn { salt: *b"twelve octet", ssci: 0x0102_0304 })
}

pub fn tx_sa(config: &SecyConfig, an: u8) -> TxSaConfig {
    TxSaConfig { an, key: key(config, an), cipher: None, xpn: xpn(config), place: Place::Software }
}

pub fn rx_sa(config: &SecyConfig, an: u8, lowest_pn: u64) -> RxSaConfig {
    let (key, xpn, place) = (key(config, an), xpn(config), Place::Software);
    RxSaConfig { sci: config.sci, an, key, cipher: None, xpn, lowest_pn, record: [0; 16], place }
}

/// A frame with so many octets of user data, the EtherType included.
pub fn frame(user: usize) -> Vec<u8> {
    let mut frame = ADDRESSES.to_vec();
    frame.extend([0x88, 0xb5].into_iter().chain((0..).map(|i: u32| (i * 7) as u8)).take(user));
    frame
}

/// A frame with two VLAN tags in front of the user data.
pub fn tagged_frame(user: usize) -> Vec<u8> {
    let mut tagged = frame(user);
    tagged.splice(12..12, [0x88, 0xa8, 0x01, 0x23, 0x81, 0x00, 0x04, 0x56]);
    tagged
}
