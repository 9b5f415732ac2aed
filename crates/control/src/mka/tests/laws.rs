//! Many seeds: loss, duplicates, disorder, crashes, clocks that jump.

use super::lan::{Lan, NOTICED, Weather, cak, sci};
use crate::mka::config::LIFE;
use crate::mka::{Command, Config, Suite};
use ferrule_base::{Duration, Rng};

const SECOND: Duration = Duration::from_secs(1);
const SUITES: [Suite; 4] =
    [Suite::GcmAes128, Suite::GcmAes256, Suite::GcmAesXpn128, Suite::GcmAesXpn256];

/// After a time of trouble and as much as it takes to notice, all are secured, and no frame is
/// lost. (That no nonce is used twice, and no key without being installed, the LAN sees to.)
fn troubled(seed: u64) -> Duration {
    let mut rng = Rng::new(seed);
    let weather = Weather {
        lost: rng.below(300),
        twice: rng.below(200),
        delay_us: rng.below(50_000),
        secy_ms: rng.below(20),
    };
    let calm = Weather { lost: 0, ..weather };
    let mut lan = Lan::new(seed, weather);
    lan.hides_ssci = rng.one_in(4);
    let octets = if rng.one_in(2) { 16 } else { 32 };
    for _ in 0..3 + rng.below(6) {
        let sci = sci(lan.stations.len() as u8 + 1);
        let suite = SUITES[rng.below(4) as usize];
        let priority = rng.below(4) as u8 * 16;
        lan.station_of(Config { priority, suite, ..Config::new(sci) }, &[cak(1, octets)]);
        lan.run(Duration::from_millis(rng.below(3000)));
    }
    for _ in 0..4 {
        lan.run(Duration::from_millis(rng.below(8000)));
        let at = rng.below(lan.stations.len() as u64) as usize;
        match rng.below(5) {
            0 => lan.kill(at),
            1 => lan.boot(at),
            4 => {
                let (priority, suite) = (rng.below(4) as u8 * 16, SUITES[rng.below(4) as usize]);
                let config = Config { priority, suite, ..lan.stations[at].config };
                lan.stations[at].config = config;
                lan.command(at, Command::Configure(config));
            }
            2 => lan.jump(at, Duration::from_millis(rng.below(10_000))),
            _ => {
                // The current key server, whichever station it is.
                let server = lan.stations[at].kay.as_ref().and_then(|kay| kay.view().server);
                let server = lan.stations.iter().position(|s| Some(s.config.sci) == server);
                server.into_iter().for_each(|server| lan.kill(server));
            }
        }
    }
    lan.weather = calm;
    for at in 0..lan.stations.len() {
        if lan.stations[at].kay.is_none() {
            lan.boot(at);
        }
    }
    let took = lan.secured_within(3 * LIFE);
    let took = took.unwrap_or_else(|| panic!("seed {seed}: not secured"));
    // Changes that were under way come to rest.
    lan.run(2 * NOTICED);
    assert!(lan.is_secured(), "seed {seed}");
    lan.take_lost();
    lan.run(10 * SECOND);
    assert!(lan.is_secured() && lan.take_lost() == 0, "seed {seed}: lost in peace");
    assert!(lan.stations.iter().all(|s| s.saks() == 1), "seed {seed}: an old SAK stays");
    took
}

#[test]
fn mka_stations_are_secured_after_any_trouble() {
    let seeds = std::env::var("FERRULE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1000);
    let mut took: Vec<Duration> = (0..seeds).map(troubled).collect();
    took.sort_unstable();
    println!(
        "{seeds} seeds, secured after trouble: median {:?}, at most {:?}",
        took[took.len() / 2],
        took[took.len() - 1]
    );
}
