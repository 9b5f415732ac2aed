//! Arguments of `ferrule test`.

use super::desk::wrong as refused;
use super::watched::Again;
use crate::shard::Shard;
use clap::{Args, ValueEnum};
use ferrule_base::MacAddr;
use ferrule_daemon::Fault;
use ferrule_tester::rate::{FRAMES_MAX, bits_per_second};
use ferrule_tester::search::Range;
use ferrule_tester::search::mesh::{Pattern, Sides};
use ferrule_tester::search::mpls::Operation;
use ferrule_tester::{Filler, Rate, Sizes, Timing};
use ferrule_wire::Label;
use ferrule_wire::vlan::Vid;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A trial of a first look.
const QUICK: Duration = Duration::from_millis(250);
/// The shortest time in which anything is measured: in less, queues of the device hold what it does
/// not carry, and every load seems to pass.
const SHORTEST: Duration = Duration::from_millis(10);

/// A length of time: `2s`, `500ms`, `3m`, or seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no time: write 2s, 500ms or 3m");
    let scales = [("ms", 1e-3), ("us", 1e-6), ("m", 60.0), ("h", 3600.0), ("s", 1.0)];
    let found = scales.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)));
    let (number, scale) = found.unwrap_or((text, 1.0));
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    let secs = number * scale;
    if !(0.0..=1e7).contains(&secs) {
        return Err(wrong());
    }
    Ok(Duration::from_secs_f64(secs))
}

/// A length of time in which something is measured.
pub fn span(text: &str) -> Result<Duration, String> {
    let least =
        || format!("`{text}` is too short to measure in: 10ms at least, such as 250ms or 2s");
    duration(text).and_then(|time| Some(time).filter(|t| *t >= SHORTEST).ok_or_else(least))
}

/// A length of time as [`span`], or none: 0s.
pub fn span_or_none(text: &str) -> Result<Duration, String> {
    duration(text).and_then(|time| if time.is_zero() { Ok(time) } else { span(text) })
}

fn line(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no rate of a line: write 10Gbit/s");
    bits_per_second(text).filter(|r| *r > 0).ok_or_else(wrong)
}

fn percent(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is no share: write 0.5%");
    let number = text.trim().strip_suffix('%').ok_or_else(wrong)?;
    let share: f64 = number.trim().parse().map_err(|_| wrong())?;
    if (0.0..=100.0).contains(&share) { Ok(share / 100.0) } else { Err(wrong()) }
}

fn pps(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(Rate::MilliFrames(rate)) if rate / 1000 > FRAMES_MAX => {
            Err(format!("`{text}` is more than any line carries: 2Gpps at most"))
        }
        Ok(Rate::MilliFrames(rate)) => Ok(rate),
        _ => Err(format!("`{text}` is no load: write frames a second, such as 10kpps or 2.5Mpps")),
    }
}

fn label(text: &str) -> Result<Label, String> {
    let number = text.trim().parse().ok().and_then(Label::new);
    number.ok_or_else(|| format!("`{text}` is no label: 0 to 1048575"))
}

/// Labels joined by commas, top first.
#[derive(Clone, Debug)]
pub struct Labels(pub Vec<Label>);

impl std::str::FromStr for Labels {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',').map(label).collect::<Result<_, _>>().map(Self)
    }
}

/// Labels as sent, and the top label that comes out: `100:200`.
#[derive(Clone, Debug)]
pub struct Swap {
    /// As sent, top first.
    pub labels: Vec<Label>,
    /// The top label that comes out.
    pub out: Label,
}

impl std::str::FromStr for Swap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no swap: write IN:OUT, such as 100:200");
        let (labels, out) = text.split_once(':').ok_or_else(wrong)?;
        Ok(Self { labels: labels.parse::<Labels>()?.0, out: label(out)? })
    }
}

fn sizes(text: &str) -> Result<Vec<Sizes>, String> {
    if text == "rfc2544" {
        return Ok(ferrule_tester::sizes::RFC_2544.map(Sizes::Fixed).into());
    }
    text.parse().map(|s| vec![s])
}

fn vlan(text: &str) -> Result<Vid, String> {
    let number = text.parse().ok().and_then(Vid::new);
    number.ok_or_else(|| format!("`{text}` is no VLAN: 0 to 4094"))
}

/// Content of a payload.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Fill {
    /// Zeros.
    Zeros,
    /// 0 to 255 and again.
    Count,
    /// Random octets, the same in every frame.
    Random,
}

impl From<Fill> for Filler {
    fn from(fill: Fill) -> Self {
        match fill {
            Fill::Zeros => Self::Zeros,
            Fill::Count => Self::Count,
            Fill::Random => Self::Random(1),
        }
    }
}

/// Ports, and where results go.
#[derive(Args, Debug)]
#[command(next_help_heading = "Ports")]
pub struct Ports {
    /// Sends: af-xdp:NAME, af-xdp:NAME:QUEUE or af-packet:NAME; in the lab, a host. Several: repeat it.
    #[arg(long, value_name = "PORT", required_unless_present = "lab")]
    pub tx: Vec<String>,
    /// Receives; the device under test stands between. Several: repeat it.
    #[arg(long, value_name = "PORT", required_unless_present = "lab")]
    pub rx: Vec<String>,
    /// A third port, for addresses that a bridge learns.
    #[arg(long, value_name = "PORT")]
    pub monitor: Option<String>,
    /// In virtual time: a topology by name or file, the tester in place of two hosts.
    #[arg(long, value_name = "TOPOLOGY")]
    pub lab: Option<String>,
    /// A variant of the topology.
    #[arg(long, value_name = "NAME", requires = "lab")]
    pub variant: Option<String>,
    /// The seed of everything random in virtual time.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "lab")]
    pub seed: u64,
    /// Device between the ports, for the report, as 'Linux bridge br0' [default: what this machine
    /// can see of it].
    #[arg(long, value_name = "WORDS")]
    pub device: Option<String>,
    /// The rate of the lines, for shares of it and as the highest load.
    #[arg(long, value_name = "RATE", value_parser = line)]
    pub line: Option<u64>,
    /// One thread for all ports, or one for each.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..=2))]
    pub threads: u8,
}

impl Ports {
    /// Ports in the order of their numbers: the first that sends, the first that receives, the one
    /// for addresses, then the others. In the lab, nothing for a host that was not named.
    pub fn all(&self) -> Vec<Option<&String>> {
        let first = [self.tx.first(), self.rx.first()].into_iter();
        let monitor = self.monitor.as_ref().map(Some).into_iter();
        let others = self.tx.iter().skip(1).chain(self.rx.iter().skip(1)).map(Some);
        first.chain(monitor).chain(others).collect()
    }

    /// The numbers of those that send and of those that receive.
    pub fn sides(&self) -> Sides {
        let begin = 2 + usize::from(self.monitor.is_some());
        let senders = self.tx.len().saturating_sub(1);
        let receivers = self.rx.len().saturating_sub(1);
        let near = std::iter::once(0).chain(begin..begin + senders).collect();
        let far = std::iter::once(1).chain(begin + senders..begin + senders + receivers);
        Sides { near, far: far.collect() }
    }
}

/// Where results go.
#[derive(Args, Debug)]
#[command(next_help_heading = "Results")]
pub struct Results {
    /// Print JSON (schema ferrule-report/1) instead of the table.
    #[arg(long)]
    pub json: bool,
    /// Write one HTML page with table and figures.
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Write page, JSON, a CSV file for each table and an SVG file for each figure here.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Say nothing of single trials.
    #[arg(short, long)]
    pub quiet: bool,
    /// Do a part of the frame sizes, such as 0/4, the first of four; the parts' JSON goes to `ferrule merge`.
    #[arg(long, value_name = "I/N", requires = "json", conflicts_with_all = ["report", "out"])]
    pub shard: Option<Shard>,
    /// Trials that were run already.
    #[arg(skip)]
    pub again: Option<Again>,
}

/// Frames.
#[derive(Args, Debug)]
#[command(next_help_heading = "Frames")]
pub struct Frames {
    /// Length with FCS: 64, imix, 64:7,570:4,1518:1, 64-1518/8, or rfc2544 for its seven; may be repeated.
    #[arg(long = "size", value_name = "SIZE", value_parser = sizes,
          default_values = ["64", "512", "1518"])]
    pub sizes: Vec<Vec<Sizes>>,
    /// Ethernet source [default: that of the interface that sends].
    #[arg(long, value_name = "MAC")]
    pub src_mac: Option<MacAddr>,
    /// Ethernet destination [default: that of the interface that receives, or of the gateway].
    #[arg(long, value_name = "MAC")]
    pub dst_mac: Option<MacAddr>,
    /// IP source, IPv4 or IPv6; the port answers for it [default: 198.18.0.2].
    #[arg(long, value_name = "IP", requires = "dst")]
    pub src: Option<IpAddr>,
    /// IP destination; the port that receives answers for it [default: 198.19.0.2].
    #[arg(long, value_name = "IP", requires = "src")]
    pub dst: Option<IpAddr>,
    /// The router's address at the port that sends; given twice, at the one that receives too.
    #[arg(long, value_name = "IP", requires = "src")]
    pub gateway: Vec<IpAddr>,
    /// A VLAN tag.
    #[arg(long, value_name = "VID", value_parser = vlan)]
    pub vlan: Option<Vid>,
    /// Labels, top first, joined by commas.
    #[arg(long, value_name = "LABELS")]
    pub label: Option<Labels>,
    /// Flows: so many UDP source ports in turn.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub flows: u64,
    /// Payload.
    #[arg(long, value_enum, default_value_t = Fill::Zeros)]
    pub filler: Fill,
    /// The same stream the other way as well.
    #[arg(long)]
    pub both_ways: bool,
}

impl Frames {
    /// Every size in order.
    pub fn sizes(&self) -> Vec<Sizes> {
        self.sizes.concat()
    }
}

/// Loads of a search.
#[derive(Args, Debug)]
#[command(next_help_heading = "Loads")]
pub struct Loads {
    /// The lowest load that is tried, for each stream.
    #[arg(long, value_name = "PPS", value_parser = pps, default_value = "1pps")]
    pub min: u64,
    /// The highest [default: the line's, or what doubling finds].
    #[arg(long, value_name = "PPS", value_parser = pps)]
    pub max: Option<u64>,
    /// Bounds are this close when a search ends [default: 0.5%; 5% with --quick].
    #[arg(long, value_name = "SHARE", value_parser = percent)]
    pub resolution: Option<f64>,
}

impl Loads {
    /// Bounds and resolution for the searches.
    pub fn range(&self, times: &Times) -> Result<Range, Fault> {
        if let Some(max) = self.max.filter(|max| *max < self.min) {
            let (min, max) = (Rate::MilliFrames(self.min), Rate::MilliFrames(max));
            let what = format!("--min {min} is above --max {max}");
            return Err(refused(what, "give the lower load first: --min 10kpps --max 100kpps"));
        }
        let resolution = times.preset(self.resolution, 0.005, 0.05).max(1e-9);
        Ok(Range { min: self.min, max: self.max, resolution })
    }
}

/// Lengths of time.
#[derive(Args, Debug)]
#[command(next_help_heading = "Times")]
pub struct Times {
    /// A first look: short trials, few repeats, coarse bounds; what is given beside it holds. The report says so.
    #[arg(long)]
    pub quick: bool,
    /// A trial of a search, or the measurement itself, 10ms at least (RFC 2544 wants 60 s in the end) [default: 2s; 250ms with --quick].
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub duration: Option<Duration>,
    /// Sent before it is counted [default: a tenth of the trial, 1 s at most].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub warm_up: Option<Duration>,
    /// Waited for late frames at most; less when all are accounted for [default: 2s; 250ms with --quick].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub drain: Option<Duration>,
}

impl Times {
    /// The value given, or else the usual one, or with `--quick` one that is enough for a first
    /// look.
    pub fn preset<T>(&self, given: Option<T>, usual: T, quick: T) -> T {
        given.unwrap_or(if self.quick { quick } else { usual })
    }

    /// Time for which a trial measures.
    pub fn duration(&self) -> Duration {
        self.preset(self.duration, Duration::from_secs(2), QUICK)
    }

    /// Time for which a trial waits for late frames.
    pub fn drain(&self) -> Duration {
        self.preset(self.drain, Duration::from_secs(2), QUICK)
    }

    /// A trial that measures for `duration`.
    pub fn of(&self, duration: Duration) -> Timing {
        let timing = Timing { drain: self.drain(), ..Timing::new(duration) };
        Timing { warm_up: self.warm_up.unwrap_or(timing.warm_up), ..timing }
    }

    /// A trial of the usual length.
    pub fn timing(&self) -> Timing {
        self.of(self.duration())
    }
}

/// Operations of a label switching router on frames.
#[derive(Args, Debug)]
#[command(next_help_heading = "Operations (RFC 5695)")]
pub struct Operations {
    /// IP is sent and must arrive with these labels.
    #[arg(long, value_name = "LABELS")]
    pub push: Option<Labels>,
    /// Sent with labels IN, must arrive with the top one OUT.
    #[arg(long, value_name = "IN:OUT")]
    pub swap: Option<Swap>,
    /// Sent with these labels, must arrive without the top one.
    #[arg(long, value_name = "LABELS")]
    pub pop: Option<Labels>,
}

impl Operations {
    /// Operations that were asked for.
    pub fn all(&self) -> Vec<Operation> {
        let push = self.push.as_ref().map(|l| Operation::Push { out: l.0.clone() });
        let swap = self.swap.as_ref();
        let swap = swap.map(|s| Operation::Swap { labels: s.labels.clone(), out: s.out });
        let pop = self.pop.as_ref().map(|l| Operation::Pop { labels: l.0.clone() });
        [push, swap, pop].into_iter().flatten().collect()
    }
}

/// A pattern of traffic by its name.
pub fn pattern(text: &str) -> Result<Pattern, String> {
    Pattern::ALL.into_iter().find(|p| p.name() == text).ok_or_else(|| {
        let names = Pattern::ALL.map(Pattern::name);
        format!("`{text}` is no pattern: {}", names.join(", "))
    })
}

/// A share as it is written, for goals.
pub fn ratio(text: &str) -> Result<f64, String> {
    if text == "0" { Ok(0.0) } else { percent(text) }
}

/// Frames a second, for one load.
pub fn load(text: &str) -> Result<u64, String> {
    pps(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_written_in_frames_a_second_that_a_line_could_carry() {
        assert_eq!((load("10kpps"), load("2Gpps")), (Ok(10_000_000), Ok(2_000_000_000_000)));
        for (text, said) in [
            ("150%", "such as 10kpps"),
            ("80%", "such as 10kpps"),
            ("x", "such as 10kpps"),
            ("1Mbit/s", "such as 10kpps"),
            ("1000Gpps", "2Gpps at most"),
        ] {
            let fault = load(text).unwrap_err();
            assert!(fault.contains(text) && fault.contains(said), "{fault}");
        }
    }

    #[test]
    fn times_shares_and_labels_are_written_with_their_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("3m"), Ok(Duration::from_secs(180)));
        assert_eq!(duration("2"), Ok(Duration::from_secs(2)));
        assert!(duration("-1s").is_err() && duration("x").is_err() && duration("1e9s").is_err());
        assert_eq!((span("10ms"), span_or_none("0s")), (Ok(SHORTEST), Ok(Duration::ZERO)));
        for short in ["0s", "0", "1us", "9.9ms"] {
            let said = span(short).unwrap_err();
            assert!(said.contains("10ms at least, such as 250ms"), "{said}");
        }
        assert!(span_or_none("1us").is_err() && span("x").unwrap_err().contains("is no time"));
        assert_eq!((ratio("0.5%"), ratio("0")), (Ok(0.005), Ok(0.0)));
        assert!(ratio("0.5").is_err() && ratio("101%").is_err());
        let swap: Swap = "100,7:200".parse().unwrap();
        assert_eq!((swap.labels.len(), swap.out.get()), (2, 200));
        assert!("100".parse::<Swap>().is_err() && "x:1".parse::<Swap>().is_err());
    }
}
