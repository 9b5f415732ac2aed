//! Loss and reordering: whether each packet finds its own key stream, and what happens
//! where it is gone.

use super::token::{self, Maker, Returned, Settings, is_right, received};
use crate::options::Seed;
use ferrule_base::{Duration, Rng};
use ferrule_crypto::{Op, Verdict};
use serde::{Deserialize, Serialize};

/// The study's own seed.
const SEED: u64 = 2015;
/// Packets that are sent.
pub const PACKETS: usize = 4000;
/// The same where somebody waits.
pub const PACKETS_QUICK: usize = 1000;
/// Octets of each: every size that the study names.
const OCTETS: [usize; 4] = [60, 128, 512, 1024];
/// From one packet to the next: slow enough for the token to keep up.
const GAP: Duration = Duration::from_millis(10);

/// Disturbances on the way, and their results at the receiver.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Disturbed {
    /// The disturbance, in words.
    pub what: String,
    /// Blocks of the ring.
    pub ring: usize,
    /// Packets that arrived.
    pub arrived: u64,
    /// Opened, and exactly what was sent.
    pub right: u64,
    /// Opened, and something else.
    pub wrong: u64,
    /// Dropped: key stream gone.
    pub gone: u64,
    /// For how many packets the token was asked for exactly their blocks.
    pub asked: u64,
}

/// Disturbances on the way, and the size of the receiver's ring.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    what: &'static str,
    ring: usize,
    behind: u64,
    /// One in so many is lost; 0: none.
    loss: u64,
    /// Packets come up to so many places late.
    late: usize,
}

const fn case(what: &'static str, ring: usize, behind: u64, loss: u64, late: usize) -> Case {
    Case { what, ring, behind, loss, late }
}

/// Every case.
pub const CASES: [Case; 5] = [
    case("as sent", 1 << 14, 1024, 0, 0),
    case("1 % lost", 1 << 14, 1024, 100, 0),
    case("up to 5 places late", 1 << 14, 1024, 0, 5),
    case("10 % lost, up to 20 places late", 1 << 14, 2048, 10, 20),
    case("a ring too small, up to 20 places late", 320, 0, 0, 20),
];

/// One of them, with so many packets.
pub fn run(
    maker: &mut dyn Maker,
    case: &Case,
    packets: usize,
    seed: Seed,
) -> Result<Disturbed, String> {
    let mut dice = Rng::new(seed.of(SEED));
    let mut peer = maker.phone("none", token::settings(1 << 14))?;
    let from = peer.install(Op::Seal)?;
    let settings = Settings { behind: case.behind, ..token::settings(case.ring) };
    let mut phone = maker.phone(token::TOKEN, settings)?;
    let key = phone.install(Op::Open)?;
    let mut way = Vec::new();
    for number in 0..packets {
        peer.fill();
        let packet = peer.packet(from, OCTETS[number % OCTETS.len()]);
        let sealed = peer.submit(packet).ok_or("the peer's ring is empty")?.job;
        let lost = case.loss > 0 && number > 0 && dice.one_in(case.loss);
        let place =
            number + if case.late > 0 { dice.below(case.late as u64 + 1) as usize } else { 0 };
        if !lost {
            // The first packet tells where the counters begin.
            way.push((if number == 0 { 0 } else { place.max(1) }, sealed));
        }
    }
    way.sort_by_key(|(place, _)| *place);
    let arrived = way.len() as u64;
    let mut back: Vec<Returned> = Vec::new();
    for (_, sealed) in way {
        back.extend(phone.submit(received(sealed, key)));
        let until = phone.now + GAP;
        phone.run_until(until, &mut back);
    }
    phone.settle(&mut back);
    let count =
        |wanted: &dyn Fn(&Returned) -> bool| back.iter().filter(|b| wanted(b)).count() as u64;
    let done = |b: &Returned| b.job.verdict == Verdict::Done;
    Ok(Disturbed {
        what: case.what.into(),
        ring: case.ring,
        arrived,
        right: count(&|b| done(b) && is_right(&b.job)),
        wrong: count(&|b| done(b) && !is_right(&b.job)),
        gone: count(&|b| b.job.verdict == Verdict::Gone),
        asked: phone.stats().asked,
    })
}
