//! Cost of Ferrule's own lists on the machine at hand: one worker, memory to memory.
//!
//! ```text
//!   router    frames ─▶ [ site 1 ▸ list in ▸ route ▸ list out ▸ site 2 ] ─▶
//!   PE1       frames ─▶ [ site 1 ▸ list in ▸ route ▸ label on ▸ core ] ─▶
//!   PE2       frames ─▶ ( PE1, not timed ) ─▶ [ core ▸ label off ▸ list out ▸ site 2 ] ─▶
//! ```

use super::nodes::{Core, END_MAC, Entries, LAN_MAC, List, System, host, nodes};
use super::published::Study;
use ferrule_base::Rng;
use ferrule_lab::memory::{FRAMES, Path};
use ferrule_node::made_mac;
use ferrule_report::Measure;
use ferrule_wire::checksum::checksum;

/// Octets of a frame that a node does not see.
const FCS: usize = ferrule_tester::rate::FCS;
/// The size at which contents of a list are compared.
pub const SMALL: usize = 64;
/// Streams that a list permits.
pub const PERMITTED: [u64; 4] = [1, 30, 60, 90];
/// Streams of which the frames are, without a list.
pub const STREAMS: [u64; 6] = [1, 2, 5, 10, 20, 90];
/// Places of one entry for all streams.
pub const PLACES: [Entries; 4] =
    [Entries::All(1), Entries::All(60), Entries::All(120), Entries::Nobody];
/// Rounds of which the median is taken, after one that does not count.
const ROUNDS: usize = 41;
const ROUNDS_QUICK: usize = 11;
/// Frames that come in turn.
const DRAWN: usize = 16 * FRAMES;
const SEED: u64 = 2001;

/// The node that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// The router of the IP network.
    Router,
    /// The edge at which frames of the VPN come in.
    Pe1,
    /// The edge at which they leave.
    Pe2,
}

/// Nodes that are timed, and where their list is.
pub const TIMED: [(Timed, List); 7] = [
    (Timed::Router, List::None),
    (Timed::Router, List::In),
    (Timed::Router, List::Out),
    (Timed::Pe1, List::None),
    (Timed::Pe1, List::In),
    (Timed::Pe2, List::None),
    (Timed::Pe2, List::Out),
];

/// A case to time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The node.
    pub timed: Timed,
    /// The position of its list.
    pub list: List,
    /// The list's entries for the streams.
    pub entries: Entries,
    /// Octets of a frame, with FCS.
    pub octets: usize,
    /// Streams that the frames are of.
    pub streams: u64,
}

/// Nanoseconds that a frame takes: the median of rounds, and the middle half of them.
#[derive(Clone, Debug, Default)]
pub struct Live {
    cases: Vec<(Case, Measure)>,
    rounds: usize,
}

impl Live {
    /// Time of a frame in a case.
    pub fn of(&self, case: Case) -> Result<Measure, &'static str> {
        let found = self.cases.iter().find(|(known, _)| *known == case);
        found.map(|(_, ns)| *ns).ok_or("not measured")
    }

    /// Rounds of each case.
    pub fn rounds(&self) -> usize {
        self.rounds
    }
}

/// Measures. `clock` is in nanoseconds and never goes back; `say` is told what comes next.
///
/// # Errors
///
/// A node loses frames that it should not, or passes what its list denies.
pub fn run(
    study: &Study,
    quick: bool,
    clock: &mut dyn FnMut() -> u64,
    say: &mut dyn FnMut(&str),
) -> Result<Live, String> {
    let streams = study.setup.streams;
    let sizes = study.setup.frame_bytes.iter().map(|&octets| (octets, Entries::Permit(streams)));
    let permitted = PERMITTED.into_iter().filter(|&p| p != streams).map(Entries::Permit);
    let contents = permitted.chain(PLACES).map(|entries| (SMALL, entries));
    let rounds = if quick { ROUNDS_QUICK } else { ROUNDS };
    let mut live = Live { cases: Vec::new(), rounds };
    for (octets, entries) in sizes.chain(contents) {
        say(&format!("live: frames of {octets} bytes, {}", named(entries)));
        let cases = TIMED.map(|(timed, list)| Case { timed, list, entries, octets, streams });
        // Without a list its contents make no difference.
        let cases = cases
            .into_iter()
            .filter(|case| case.list != List::None || entries == Entries::Permit(streams));
        live.cases.extend(together(cases.collect(), study, rounds, clock)?);
    }
    say("live: frames of few streams");
    let few = STREAMS.into_iter().filter(|&few| few != streams).chain([streams]);
    // Those of all streams once more, in turn with the others.
    live.cases.retain(|(case, _)| *case != Case::few(streams, study));
    let few = few.map(|few| Case::few(few, study)).collect();
    live.cases.extend(together(few, study, rounds, clock)?);
    Ok(live)
}

/// A list's contents in words.
pub fn named(entries: Entries) -> String {
    match entries {
        Entries::Permit(streams) => format!("a list that permits {streams} of 90 streams"),
        Entries::All(place) => format!("entry {place} for all"),
        Entries::Nobody => "no entry for anybody".into(),
    }
}

/// Cases in turn, round by round, so that what else the machine does meets them alike.
fn together(
    cases: Vec<Case>,
    study: &Study,
    rounds: usize,
    clock: &mut dyn FnMut() -> u64,
) -> Result<Vec<(Case, Measure)>, String> {
    let mut paths: Vec<_> = cases.iter().map(|case| case.path(study)).collect();
    let mut times: Vec<Vec<f64>> = cases.iter().map(|_| Vec::with_capacity(rounds)).collect();
    for round in 0..=rounds {
        for ((path, case), times) in paths.iter_mut().zip(&cases).zip(&mut times) {
            let ns = path.round(clock) as f64 / FRAMES as f64;
            if !case.passes(path.sent(), study) {
                return Err(format!("not run: of {case:?} {} frames came out", path.sent()));
            }
            if round > 0 {
                times.push(ns);
            }
        }
    }
    let measure = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        let at = |part: usize| times[part * (times.len() - 1) / 4];
        Measure::within(at(2), at(1), at(3))
    };
    Ok(cases.into_iter().zip(times.into_iter().map(measure)).collect())
}

impl Case {
    /// Small frames of so many streams through the router, without a list.
    pub const fn few(streams: u64, study: &Study) -> Self {
        let entries = Entries::Permit(study.setup.streams);
        Self { timed: Timed::Router, list: List::None, entries, octets: SMALL, streams }
    }

    fn path(&self, study: &Study) -> Path {
        let core = if self.timed == Timed::Router { Core::Ip } else { Core::Mpls };
        let system = System { core, list: self.list, both_ways: false };
        let mut configs = nodes(system, self.entries, study);
        configs.truncate(if self.timed == Timed::Pe2 { 2 } else { 1 });
        let streams = study.setup.streams;
        let hosts = (0..streams).map(|stream| (host(1, stream).into(), END_MAC[1]));
        let edge = ([192, 0, 2, 2].into(), made_mac("pe2", "core"));
        let neighbours: Vec<_> = hosts.chain([edge]).collect();
        let mut rng = Rng::new(SEED);
        let drawn = (0..DRAWN).map(|_| frame(self.octets - FCS, rng.below(self.streams)));
        Path::new(configs, &neighbours, drawn.collect())
    }

    /// True if the list may have let this many frames of a batch pass.
    fn passes(&self, sent: usize, study: &Study) -> bool {
        match (self.list, self.entries) {
            (List::None, _) | (_, Entries::All(_)) => sent == FRAMES,
            (_, Entries::Nobody) => sent == 0,
            (_, Entries::Permit(all)) if all == study.setup.streams => sent == FRAMES,
            (_, Entries::Permit(_)) => sent < FRAMES,
        }
    }
}

/// A frame of a stream as it comes in at site 1.
fn frame(len: usize, stream: u64) -> Vec<u8> {
    let packet = len - 14;
    let mut ip = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, 17, 0, 0];
    ip.extend([host(0, 0), host(1, stream)].map(|address| address.octets()).as_flattened());
    ip[2..4].copy_from_slice(&(packet as u16).to_be_bytes());
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip.extend([0, 7, 0, 9]);
    ip.extend((packet as u16 - 20).to_be_bytes());
    ip.resize(packet, 0);
    [&LAN_MAC[0].0[..], &END_MAC[0].0, &[8, 0], &ip].concat()
}
