//! The phone and its gateway as nodes of their own, for the study of key stream made
//! ahead: what the tester sees at both ends.
//!
//! ```text
//!   tester ── [ phone: [token] microsd ] ══ ESP ══ [ gateway: [token] none ] ── tester
//!                       └───────── both keys in one SoftHSM ──────────┘
//! ```
//!
//! The gateway has its keys on the token too, without the card's delay: a key that was
//! born in a token cannot leave it. The suite is the study's, which a node takes in a
//! laboratory alone.

use super::rig::{Between, Protect, Rig, Side};
use super::trials::{Became, Load, Trial};
use crate::process::{Background, Fault, Folder, Runner, stop_all, write};
use ferrule_studies::prebuffered_ctr::live::{CROWDED, Trial as Shown};
use ferrule_studies::prebuffered_ctr::published::Study;
use ferrule_studies::prebuffered_ctr::token::blocks;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

/// Blocks of each ring: full within seconds at the card's speed.
const BLOCKS: usize = 8192;
/// Blocks that the card makes in a second for one of two directions.
const FILLED: f64 = 3937.0;
/// Octets of the largest packets: the study's 1520 do not pass an Ethernet link sealed.
const LARGE: usize = 1400;
/// Octets of packets on a bad wire.
const MIDDLE: usize = 512;
/// Times the study's rate of blocks would empty the ring: without delays a call suffers,
/// with delays the ring lasts.
const CROWDING: f64 = 1.8;
/// A wire that loses packets and lets others pass.
const BAD: &str = "loss = \"2%\"\nreorder = \"5%\"\nreorder-by = \"3 frames\"";
/// The suite.
const SUITE: &str = "aes-ctr-128-study hmac-sha1-96";

/// The token's module and configuration, and the keys on it.
pub struct Keys {
    /// The module.
    pub module: String,
    /// Its settings.
    pub config: PathBuf,
    /// The token's label.
    pub token: String,
    /// The file with its PIN.
    pub pin: PathBuf,
    /// The keys' labels, from the phone and to it.
    pub labels: [&'static str; 2],
}

/// Everything, from nothing to nothing.
pub fn run(
    runner: &Runner,
    keys: &Keys,
    quick: bool,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<Shown>, Fault> {
    let study = Study::read();
    let stand = Stand { runner, keys, study: &study, quick };
    let mut shown = Vec::new();
    say("live: a phone and its gateway, with and without a full ring");
    shown.extend(stand.phone(Between::Cable, "", |pair| pair.loads())?);
    let mut delays = String::from("delay = [");
    let each = study.drain.delay_ms.iter().filter(|delay| delay.delay > 0.0);
    for delay in each.clone() {
        let (octets, time) = (delay.min_bytes, delay.delay);
        let _ = write!(delays, "{{ octets = {octets}, milliseconds = {time} }}, ");
    }
    delays += "]\n";
    say("live: a call beside large packets that are delayed");
    let longest = each.map(|delay| delay.delay).fold(0.0, f64::max);
    shown.extend(
        stand.phone(Between::Cable, &delays, |pair| pair.crowded(CROWDED[1], Some(longest)))?,
    );
    say("live: a wire that loses packets");
    shown.extend(stand.phone(Between::Wire, "", |pair| pair.disturbed())?);
    Ok(shown)
}

struct Stand<'a> {
    runner: &'a Runner,
    keys: &'a Keys,
    study: &'a Study,
    quick: bool,
}

/// Phone and gateway, joined.
struct Pair<'a> {
    rig: &'a Rig<'a>,
    stand: &'a Stand<'a>,
}

impl Stand<'_> {
    /// Both nodes with this in the phone's table `[token]`, and what is done there.
    fn phone(
        &self,
        between: Between,
        more: &str,
        work: impl FnOnce(&Pair<'_>) -> Result<Vec<Shown>, Fault>,
    ) -> Result<Vec<Shown>, Fault> {
        let out = std::env::temp_dir().join(format!("ferrule-study-{}", std::process::id()));
        let folder = Folder::new(out, false)?;
        let path = folder.path();
        let integrity = [0x51, 0x52].map(|octet: u8| format!("{octet:02x}").repeat(20));
        for (name, integrity) in ["out", "back"].into_iter().zip(integrity) {
            let text = format!("integrity {integrity}\nsalt 01020304\n");
            write(&path.join(format!("{name}.rest")), text.as_bytes())?;
        }
        let rig = Rig::build(self.runner, path, between)?;
        let rig = rig.with("SOFTHSM2_CONF", self.keys.config.clone());
        let wire = match between {
            Between::Wire => Some(rig.wire(BAD)?),
            Between::Cable => None,
        };
        let mut nodes =
            vec![rig.node(&self.side(0, "microsd", more))?, rig.node(&self.side(1, "none", ""))?];
        if wire.is_none() {
            rig.join(&mut nodes)?;
        }
        let shown = work(&Pair { rig: &rig, stand: self })?;
        nodes.iter_mut().try_for_each(Background::check)?;
        stop_all(nodes.into_iter().chain(wire).collect());
        Ok(shown)
    }

    fn side(&self, number: usize, profile: &str, more: &str) -> Side<'_> {
        let Keys { module, token, labels, pin, .. } = self.keys;
        let key =
            |label: &str, rest: &str| format!("key = \"token:{label}\"\nrest = \"{rest}.rest\"");
        let [out, back] = *labels;
        Side {
            name: ["phone", "gateway"][number],
            number,
            tables: format!(
                "[token]\nmodule = \"{module}\"\ntoken = \"{token}\"\npin-file = {pin:?}\n\
                 profile = \"{profile}\"\nblocks = {}\n{more}",
                BLOCKS
            ),
            protect: Some(Protect {
                placement: "token",
                suite: SUITE,
                keys: [key(out, "out"), key(back, "back")],
            }),
        }
    }

    /// Until both rings are full.
    fn fill(&self) -> Result<(), Fault> {
        let seconds = BLOCKS as f64 / FILLED + 0.5;
        self.runner.pause(Duration::from_secs_f64(seconds))
    }
}

impl Pair<'_> {
    fn one(&self, what: &str, octets: usize, trial: Trial) -> Result<Shown, Fault> {
        let became = self.rig.trials(None, std::slice::from_ref(&trial))?;
        let became = became.first().ok_or_else(|| Fault::failed("the tester's result", "none"))?;
        Ok(view(what, octets, &trial, became))
    }

    /// Large and small packets while the ring lasts and afterwards, and a call.
    fn loads(&self) -> Result<Vec<Shown>, Fault> {
        let study = self.stand.study;
        let kbps = ferrule_studies::prebuffered_ctr::model::network_kbps(study);
        let mut shown = Vec::new();
        for row in &study.throughput {
            let octets = row.packet_bytes;
            let pps = kbps * 1000.0 / (octets * 8) as f64;
            // Most of a full ring.
            let seconds = 0.8 * BLOCKS as f64 / (pps * blocks(octets) as f64);
            let load = Load { from: 0, octets, pps };
            self.stand.fill()?;
            let trial = Trial { loads: vec![load], seconds, warm_up: 0.0, drain: 0.5 };
            shown.push(self.one("while the ring lasts", octets, trial)?);
            shown.push(self.empty(octets)?);
        }
        self.stand.fill()?;
        let seconds = if self.stand.quick { 2.0 } else { 5.0 };
        let loads = self.call().to_vec();
        let trial = Trial { loads, seconds, warm_up: 0.0, drain: 0.5 };
        shown.push(self.one("a call, both ways", study.voip.ip_packet_bytes, trial)?);
        shown.extend(self.crowded(CROWDED[0], None)?);
        Ok(shown)
    }

    /// Twice as many packets as the token makes key stream for, once the ring is empty.
    fn empty(&self, octets: usize) -> Result<Shown, Fault> {
        let pps = 2.0 * 2.0 * FILLED / blocks(octets) as f64;
        let load = |seconds, drain| Trial {
            loads: vec![Load { from: 0, octets, pps }],
            seconds,
            warm_up: 0.0,
            drain,
        };
        // What the ring still has.
        let rest = 0.4 * BLOCKS as f64 / (2.0 * FILLED);
        let seconds = if self.stand.quick { 1.0 } else { 2.0 };
        // All that waits arrives.
        let trial = load(seconds, 2.0 * seconds + 1.0);
        let became = self.rig.trials(None, &[load(rest, 0.0), trial.clone()])?;
        let became = became.last().ok_or_else(|| Fault::failed("the tester's result", "none"))?;
        Ok(view("when it is empty", octets, &trial, became))
    }

    /// A call both ways.
    fn call(&self) -> [Load; 2] {
        let voip = &self.stand.study.voip;
        [0, 1].map(|from| Load { from, octets: voip.ip_packet_bytes, pps: voip.packets_per_second })
    }

    /// A call, and large packets at the study's rate of blocks, or one each so many
    /// milliseconds, until the ring has been empty for a while without delays.
    fn crowded(&self, what: &str, delay_ms: Option<f64>) -> Result<Vec<Shown>, Fault> {
        self.stand.fill()?;
        let study = self.stand.study;
        let network = study.drain.network_blocks_per_second;
        let pps = network / blocks(LARGE) as f64;
        let pps = delay_ms.map_or(pps, |delay| pps.min(1000.0 / delay));
        let large = Load { from: 0, octets: LARGE, pps };
        let loads = self.call().into_iter().chain([large]).collect();
        let seconds = CROWDING * BLOCKS as f64 / network;
        let trial = Trial { loads, seconds, warm_up: 0.0, drain: 2.0 };
        Ok(vec![self.one(what, study.voip.ip_packet_bytes, trial)?])
    }

    /// Packets of a middle size over a bad wire, both ways.
    fn disturbed(&self) -> Result<Vec<Shown>, Fault> {
        self.stand.fill()?;
        let load = |from| Load { from, octets: MIDDLE, pps: 50.0 };
        let seconds = if self.stand.quick { 2.0 } else { 5.0 };
        let trial = Trial { loads: vec![load(0), load(1)], seconds, warm_up: 0.5, drain: 1.0 };
        let what = "2 % lost and 5 % late on the way, both ways";
        Ok(vec![self.one(what, MIDDLE, trial)?])
    }
}

/// A trial as the report shows it: the streams of the given packet size.
fn view(what: &str, octets: usize, trial: &Trial, became: &Became) -> Shown {
    let streams: Vec<_> =
        trial.loads.iter().zip(&became.got).filter(|(load, _)| load.octets == octets).collect();
    let sum =
        |of: fn(&super::trials::Got) -> u64| streams.iter().map(|(_, got)| of(got)).sum::<u64>();
    let (offered, received) = (sum(|got| got.offered), sum(|got| got.received));
    let delay: f64 = streams.iter().map(|(_, got)| got.mean_us * got.received as f64).sum();
    let longest = streams.iter().map(|(_, got)| got.max_us).fold(0.0, f64::max);
    Shown {
        what: what.into(),
        packet_bytes: octets,
        offered_pps: streams.iter().map(|(load, _)| load.pps).sum(),
        offered,
        received,
        corrupted: sum(|got| got.corrupted),
        received_pps: streams
            .iter()
            .filter(|(_, got)| got.span_s > 0.0)
            .map(|(_, got)| got.received.saturating_sub(1) as f64 / got.span_s)
            .sum(),
        in_time: 100.0 * sum(|got| got.in_time) as f64 / offered.max(1) as f64,
        mean_ms: delay / received.max(1) as f64 / 1000.0,
        max_ms: longest / 1000.0,
    }
}
