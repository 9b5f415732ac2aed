//! A hundred thousand SAs in each direction: installed, found by SPI, used, and at most
//! 2 KiB each. (A process of its own, for its memory is measured.)

use ferrule_base::{Instant, Rng, Secret};
use ferrule_crypto::{Aes, KeySpec, Software, Suite};
use ferrule_dataplane::graph::{Ctx, Next, Outputs, Tally};
use ferrule_dataplane::ipsec::{
    EspIn, EspOut, InboundConfig, InboundPlace, OutboundConfig, SaDirectory, Selector,
};
use ferrule_dataplane::{Sequence, Tables};
use ferrule_pipeline::{Batch, Meta, Pool, PoolCache};
use std::net::{IpAddr, Ipv4Addr};

const SAS: u32 = 100_000;
/// Octets of one SA at most.
const SA_MAX: f64 = 2048.0;
/// SAs that carry a packet.
const USED: u64 = 2000;

const SUITE: Suite = Suite::AesGcm(Aes::Aes128);

/// As an IKE daemon would choose them: any number but the reserved ones.
fn spi(n: u32) -> u32 {
    0x100 + n.wrapping_mul(0x9e37_79b1) % (u32::MAX - 0x100)
}

fn keys(n: u32) -> (KeySpec, Secret) {
    let mut key = vec![0; SUITE.key_len()];
    key[..4].copy_from_slice(&n.to_be_bytes());
    let salt = vec![7; SUITE.esp_salt_len()];
    (KeySpec::new(SUITE, Secret::new(key), Secret::new(Vec::new())), Secret::new(salt))
}

fn ends(n: u32) -> (IpAddr, IpAddr) {
    (Ipv4Addr::new(192, 0, 2, 1).into(), Ipv4Addr::from(20 << 24 | n).into())
}

/// Behind the other end of each there is a network of its own.
fn selector(n: u32) -> Selector {
    let net = |first: u32, len| (IpAddr::from(Ipv4Addr::from(first)), len);
    Selector::between(net(11 << 24 | n << 4, 28), net(10 << 24, 8))
}

fn inner(n: u32) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1];
    ip.extend((11 << 24 | n << 4 | 3).to_be_bytes());
    ip.extend([0, 7, 0, 9, 0, 20, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    ip
}

/// Octets of memory that this process has in use; nothing if the system does not tell.
fn resident() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? * 1024.0)
}

struct Node {
    tables: Tables,
    engine: Software,
    out: EspOut,
    inn: EspIn,
    cache: PoolCache,
    tally: Tally,
    outputs: Outputs,
}

impl Node {
    /// Sends one packet through a stage; returns its next place and its octets.
    fn pass(&mut self, octets: &[u8], meta: Meta, inbound: bool) -> (Next, Vec<u8>) {
        let mut packet = self.cache.packet_from(octets).expect("the pool has room");
        *packet.meta_mut() = meta;
        let mut batch = Box::new(Batch::new());
        batch.push(packet);
        let mut ctx = Ctx {
            now: Instant::ZERO,
            worker: 0,
            tables: &self.tables,
            cache: &mut self.cache,
            tally: &mut self.tally,
            out: &mut self.outputs,
        };
        if inbound {
            self.inn.push(&mut ctx, &mut self.engine, &mut batch);
        } else {
            self.out.push(&mut ctx, &mut self.engine, &mut batch);
        }
        let dropped: Vec<_> = self.outputs.dropped().iter().map(|(_, reason)| *reason).collect();
        assert!(dropped.is_empty(), "{dropped:?}");
        for next in Next::ALL {
            if let Some(packet) = self.outputs.queue(next).pop() {
                let octets = packet.data().to_vec();
                self.cache.recycle(packet);
                return (next, octets);
            }
        }
        panic!("nothing came out");
    }
}

fn installed() -> Node {
    let mut engine = Software::default();
    let (mut out, mut inn) = (EspOut::default(), EspIn::default());
    let before = resident();
    for n in 0..SAS {
        let (keys, salt) = keys(n);
        let config = OutboundConfig::tunnel(spi(n), ends(n), keys, salt);
        let numbers = Sequence::unlimited(1, u64::MAX - 1);
        out.install_at(&mut engine, n, &config, numbers).expect("installs");
    }
    let middle = resident();
    let mut places = Vec::new();
    for n in 0..SAS {
        let (keys, salt) = keys(n);
        let config = InboundConfig {
            // The other end of the same SA, in one process.
            selectors: vec![Selector { local: selector(n).local, ..selector(n) }],
            ..InboundConfig::tunnel(spi(n), ends(n), keys, salt)
        };
        inn.install_at(&mut engine, n, &config, 0).expect("installs");
        places.push(InboundPlace { spi: spi(n), worker: 0, index: n });
    }
    let owners = vec![Some(0); SAS as usize];
    let sas = SaDirectory::new(&owners, &places).expect("SPIs differ");
    drop((owners, places));
    if let (Some(before), Some(middle), Some(after)) = (before, middle, resident()) {
        let each = |from: f64, to: f64| (to - from) / f64::from(SAS);
        let (out, inn) = (each(before, middle), each(middle, after));
        println!("octets an SA, key and all: outbound {out:.0}, inbound {inn:.0}");
        assert!(out < SA_MAX && inn < SA_MAX, "outbound {out:.0}, inbound {inn:.0}");
    }
    let tables = Tables { workers: 1, sas: sas.into(), ..Tables::default() };
    let (cache, tally, outputs) = (Pool::heap(64, 2048).cache(), Tally::default(), Outputs::new());
    Node { tables, engine, out, inn, cache, tally, outputs }
}

#[test]
fn sad_of_100_000_sas_is_found_by_spi_and_takes_2_kib_each() {
    let mut node = installed();
    for n in 0..SAS {
        let found = node.tables.sas.inbound(spi(n)).map(|place| place.index);
        assert_eq!(found, Some(n));
    }
    let mut rng = Rng::new(4301);
    for _ in 0..USED {
        let n = rng.below(SAS.into()) as u32;
        let meta = Meta { sa: n, ..Meta::default() };
        let (next, sealed) = node.pass(&inner(n), meta, false);
        assert_eq!(next, Next::Output);
        assert_eq!(sealed[20..24], spi(n).to_be_bytes());
        let (next, opened) = node.pass(&sealed, Meta { offset: 20, ..Meta::default() }, true);
        assert_eq!((next, opened), (Next::Ip, inner(n)));
    }
    for n in [0, SAS / 2, SAS - 1] {
        assert!(node.inn.retire(&mut node.engine, n) && node.out.retire(&mut node.engine, n));
    }
    assert_eq!(node.inn.show().count(), SAS as usize - 3);
}
