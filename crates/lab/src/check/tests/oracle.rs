//! The oracle between two gateways, of which only the wire exists: whatever
//! arrives, it expects what the rule says over the whole history, and it notices
//! a node that counted one packet otherwise.

use super::*;
use ferrule_base::{Drops, Ledger, Secret, Work};
use ferrule_crypto::{Aes, Suite};
use ferrule_dataplane::ipsec::{SaProtocol, SaStats};
use ferrule_node::message::SaReport;
use ferrule_node::{Volatile, made_mac};
use ferrule_wire::ipv4;
use proptest::prelude::*;

const SPI: u32 = 0x1002;

fn gateway(name: &str, own: u8, other: u8, window: u64) -> Config {
    let text = format!(
        r#"
        [node]
        name = "{name}"
        lab = true
        [[port]]
        name = "wan"
        driver = "wire"
        [[interface]]
        port = "wan"
        address = ["192.0.2.{own}/24"]
        [[tunnel]]
        name = "t"
        local = "192.0.2.{own}"
        remote = "192.0.2.{other}"
        suite = "aes-gcm-128"
        esn = false
        window = {window}
        out = {{ spi = {}, key = "{own}" }}
        in = {{ spi = {}, key = "{other}" }}
        "#,
        0x1000 + u32::from(other),
        0x1000 + u32::from(own),
    );
    let mut keys = |n: &str| -> Result<Secret, String> {
        Ok(Secret::new(format!("cipher {}\nsalt 0000000{n}", format!("0{n}").repeat(16)).into()))
    };
    Config::parse("test.toml", &text, &mut keys).unwrap_or_else(|e| panic!("{e}"))
}

/// An ESP packet from gateway a to gateway b.
fn frame(number: u32) -> Vec<u8> {
    let mut f = [&made_mac("b", "wan").0[..], &made_mac("a", "wan").0, &[8, 0]].concat();
    let header = [0x45, 0, 0, 60, 0, 0, 0, 0, 64, 50, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    f.extend(header);
    ipv4::fill_checksum(&mut f[14..]);
    f.extend(SPI.to_be_bytes());
    f.extend(number.to_be_bytes());
    f.extend([number as u8 ^ 0x5a; 32]);
    f
}

/// Report of a worker of gateway b with these counters.
fn report(accepted: u64, replays: u64, bad_icv: u64) -> WorkerReport {
    let stats = SaStats { packets: accepted, replays, bad_icv, ..SaStats::default() };
    let (name, suite) = ("t".to_owned(), Suite::AesGcm(Aes::Aes128));
    let protocol = SaProtocol::Esp;
    WorkerReport {
        worker: 0,
        now: Instant::ZERO,
        drops: Drops::default(),
        answers: Default::default(),
        work: Work::default(),
        ledger: Ledger::default(),
        handed_out: 0,
        handed_in: 0,
        ports: Vec::new(),
        esp_out: Vec::new(),
        hits: Vec::new(),
        list_hits: Vec::new(),
        esp_in: vec![SaReport {
            index: 0,
            name,
            spi: SPI,
            protocol,
            suite,
            number: 0,
            lease: ferrule_dataplane::Lease::default(),
            mtu: None,
            stats,
            life: None,
        }],
        secy_out: Vec::new(),
        secy_in: Vec::new(),
        times: None,
        engines: Vec::new(),
        cards: Vec::new(),
    }
}

/// Outcome for one copy of a packet on its way.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Arrives,
    Altered,
    TurnedAway,
    Misaddressed,
}

/// Arrivals: near the front, copies and stragglers among them.
fn arrivals() -> impl Strategy<Value = Vec<(u32, Way)>> {
    let way = prop_oneof![
        12 => Just(Way::Arrives),
        1 => Just(Way::Altered),
        1 => Just(Way::TurnedAway),
        1 => Just(Way::Misaddressed),
    ];
    prop::collection::vec((0_i64..40, way), 1..120).prop_map(|steps| {
        let mut front = 1_i64;
        let walk = steps.into_iter().map(|(back, way)| {
            front += i64::from(back % 3 == 0) * 2;
            ((front - back).max(1) as u32, way)
        });
        walk.collect()
    })
}

/// Two gateways, and one hundred and more packets that the first has sent.
fn oracle(window: u64) -> (Oracle, Findings) {
    let findings = Findings::default();
    let mut oracle = Oracle::new(&findings);
    for (place, (name, own, other)) in [("a", 1, 2), ("b", 2, 1)].into_iter().enumerate() {
        let config = gateway(name, own, other, window);
        oracle.device(place, &config, &[made_mac(name, "wan")]);
        oracle.restarted(place, &mut Volatile::default());
    }
    for number in 1..=300 {
        oracle.sent(Instant::ZERO, 0, 0, &frame(number));
    }
    (oracle, findings)
}

proptest! {
    #[test]
    fn oracle_expects_what_the_rule_says_and_notices_one_packet(
        window in 1_u64..64, arrivals in arrivals(),
    ) {
        let (mut oracle, findings) = oracle(window);
        let (mut accepted, mut replays, mut altered) = (Vec::<u64>::new(), 0, 0);
        for &(number, way) in &arrivals {
            let mut frame = frame(number);
            match way {
                Way::Altered => *frame.last_mut().unwrap() ^= 4,
                Way::Misaddressed => frame[5] ^= 1,
                _ => {}
            }
            oracle.arrived(1, 0, &frame);
            match way {
                Way::TurnedAway => oracle.turned_away(),
                Way::Misaddressed => {}
                Way::Altered => altered += 1,
                Way::Arrives => {
                    let number = u64::from(number);
                    let highest = accepted.iter().copied().max().unwrap_or(0);
                    let late = number + window <= highest;
                    if late || accepted.contains(&number) {
                        replays += 1;
                    } else {
                        accepted.push(number);
                    }
                }
            }
        }
        let accepted = accepted.len() as u64;
        oracle.compare(Instant::ZERO, 1, &[report(accepted, replays, altered)]);
        prop_assert_eq!(findings.all(), []);
        let tally = oracle.tally();
        prop_assert_eq!((tally.compared, tally.left_out), (1, 0));
        prop_assert_eq!((tally.accepted, tally.rejected), (accepted, replays));
        // One more accepted, one more or fewer dropped: each is noticed.
        oracle.compare(Instant::ZERO, 1, &[report(accepted + 1, replays, altered)]);
        prop_assert_eq!(findings.count(), 1);
        oracle.compare(Instant::ZERO, 1, &[report(accepted, replays + altered + 1, 0)]);
        prop_assert_eq!(findings.count(), 2);
        if replays > 0 {
            oracle.compare(Instant::ZERO, 1, &[report(accepted, replays - 1, altered + 1)]);
            prop_assert_eq!(findings.count(), 3, "taken for another fault");
        }
    }
}

#[test]
fn oracle_leaves_out_what_it_cannot_know() {
    let (mut oracle, findings) = oracle(32);
    oracle.arrived(1, 0, &frame(1));
    let mut lossy = report(0, 0, 0);
    lossy.drops.count(ferrule_base::DropReason::EngineFull);
    oracle.compare(Instant::ZERO, 1, &[lossy]);
    assert_eq!((oracle.tally().left_out, findings.count()), (1, 0), "lost before the window");
    let mut group = frame(2);
    group[0] |= 1;
    oracle.arrived(1, 0, &group);
    oracle.compare(Instant::ZERO, 1, &[report(1, 0, 0)]);
    assert_eq!((oracle.tally().left_out, findings.count()), (2, 0), "a group address");
    oracle.restarted(1, &mut Volatile::default());
    oracle.arrived(1, 0, &frame(1));
    oracle.compare(Instant::ZERO, 1, &[report(1, 0, 0)]);
    assert_eq!((oracle.tally().compared, findings.count()), (1, 0), "another life");
}
