//! A verdict on every claim: by what was printed, by the plausible machine and the fitted
//! one, and by this one.

use super::cases::{Application, FIGURE_10_MOST, Mode, Protection, SIZES, TIMED_MOST, Way};
use super::live::Live;
use super::model::{Model, Slowdown, Which};
use super::published::Study;
use super::sections::crypto_crossover;
use crate::words::{self, ends};
use ferrule_report::{Claim, Condition, Evidence, Kind, Measure, Threshold};

/// Transfers that are small and large on this machine.
pub(super) const SMALL: std::ops::RangeInclusive<u64> = 100..=1_000;
const LARGE: u64 = 1_000_000;
/// Percent within which two responses count as equal, and decide nothing: our reading.
const EQUAL_PERCENT: f64 = 1.0;

/// Sources of the evidence for the claims.
pub(super) struct Given<'a> {
    pub study: &'a Study,
    pub model: &'a Model,
    pub live: &'a Live,
}

/// Judges each of the study's claims, in the study's order.
pub fn judge(study: &Study, model: &Model, live: &Live) -> Vec<Claim> {
    let given = Given { study, model, live };
    let each = study.claim.iter().map(|said| match said.id.as_str() {
        "crossover" => given.crossover(said),
        "size-factor" => given.size_factor(said),
        "bypass-cost" => given.bypass(said),
        "hashes-close" => given.hashes(said),
        "large-transfer" => given.large(said),
        "telnet-little" => given.telnet(said),
        "delay-grows" => given.grows(said),
        _ => given.suits(said),
    });
    each.collect()
}

pub(super) fn transport(protection: Protection) -> Way {
    Way::of(protection, Mode::Transport)
}

/// Origin of a machine's numbers.
pub(super) fn kind(which: Which) -> Kind {
    match which {
        Which::Plausible => Kind::Model,
        Which::Fitted => Kind::Fitted,
    }
}

pub(super) fn times(
    metric: &str,
    value: impl Into<Measure>,
    said: &words::Claim,
    of: &str,
) -> Evidence {
    Evidence::computed(metric, value, said.asked(of)).unit("times")
}

/// A difference that decides only if it is no smaller than the dead band.
fn at_least_unequal(percent: f64) -> Condition {
    Condition {
        metric: format!("equal within {EQUAL_PERCENT} %: the difference is"),
        threshold: Threshold::AtLeast(EQUAL_PERCENT),
        value: percent,
        unit: "%".into(),
    }
}

/// A ratio that decides only if all of it lies outside the dead band around 1.
pub(super) fn unequal(ratio: Evidence) -> Evidence {
    let Measure { value, low, high } = ratio.value;
    let (low, high) = (low.unwrap_or(value), high.unwrap_or(value));
    let nearest = 100.0 * (1.0_f64.clamp(low.min(high), high.max(low)) - 1.0).abs();
    ratio.on([at_least_unequal(nearest)])
}

impl Given<'_> {
    /// The first and the last line of an application, as AH and ESP.
    pub fn ends(&self, application: &str) -> Option<[(f64, f64); 2]> {
        let lines: Vec<_> = self.study.of(application).map(|(_, ah, esp)| (ah, esp)).collect();
        Some([*lines.first()?, *lines.last()?])
    }

    /// FTP's response with a protection by that with another one.
    pub fn response(&self, which: Which, octets: u64, [of, by]: [Protection; 2]) -> f64 {
        let slowdown = |protection| {
            self.model.slowdown(which, Application::Ftp, octets, transport(protection))
        };
        slowdown(of) / slowdown(by)
    }

    fn crossover(&self, said: &words::Claim) -> Claim {
        let mut claim = said.open();
        for application in ["FTP", "SMTP"] {
            let Some(both) = self.ends(application) else { continue };
            for (of, (ah, esp)) in ["small", "large"].into_iter().zip(both) {
                let metric = format!("response, {application}, {of} transfers");
                let evidence = unequal(times(&metric, ah / esp, said, of).against("ESP-DES"));
                claim = claim.judged(Kind::Published, evidence, format!("AH {ah}, ESP {esp}"));
            }
        }
        let pair = [Protection::AhMd5, Protection::EspDes];
        let large = self.model.largest(TIMED_MOST);
        for which in Which::ALL {
            for (of, octets) in [("small", *SMALL.start()), ("large", large)] {
                let found = self.response(which, octets, pair);
                let metric = format!("response of AH-MD5, FTP of {octets} bytes");
                let evidence = unequal(times(&metric, found, said, of).against("ESP-DES"));
                claim = claim.judged(kind(which), evidence, self.inside(which, octets, pair));
            }
        }
        let claim = self.turns(claim, said);
        self.live_crossover(claim, said)
    }

    /// Time inside the module, beside the response.
    fn inside(&self, which: Which, octets: u64, pair: [Protection; 2]) -> String {
        let [hash, cipher] = pair.map(|protection| {
            let way = transport(protection);
            let cell = self.model.cell(which, Application::Ftp, octets, way);
            cell.inside.crypto_us / 1000.0
        });
        format!("{} machine; inside both hosts {hash:.2} ms against {cipher:.2}", which.name())
    }

    /// Judges the size of transfer from which the cipher takes more time than the hash.
    fn turns(&self, mut claim: Claim, said: &words::Claim) -> Claim {
        let pair = [Protection::AhMd5, Protection::EspDes];
        let at = crypto_crossover(self.model.costs(Which::Plausible));
        let at = at.map_or("nowhere".into(), |octets| format!("at {octets} bytes"));
        let found = self.turn(pair);
        let note = format!(
            "from the last size at which the hash takes more by {EQUAL_PERCENT} % (0: there is \
             none) to the next one at which the cipher does. Inside a packet hash and cipher turn \
             {at} of its data"
        );
        for of in ["turn-6.3", "turn-7"] {
            let evidence = Evidence::computed("turn of the response", found, said.asked(of));
            claim = claim.judged(Kind::Model, evidence.unit("bytes"), note.clone());
        }
        claim
    }

    /// Sizes between which the response turns, those aside at which both count as equal.
    fn turn(&self, pair: [Protection; 2]) -> Measure {
        let sizes = self.model.sizes.iter().copied();
        let sizes = sizes.filter(|octets| (*SMALL.start()..=TIMED_MOST).contains(octets));
        let each = sizes.map(|octets| (octets, self.response(Which::Plausible, octets, pair)));
        let each: Vec<(u64, f64)> = each.collect();
        let band = EQUAL_PERCENT / 100.0;
        let last = each.iter().rposition(|(_, ratio)| *ratio >= 1.0 + band);
        let after = &each[last.map_or(0, |last| last + 1)..];
        let next = after.iter().find(|(_, ratio)| *ratio <= 1.0 - band);
        let before = last.map_or(0.0, |last| each[last].0 as f64);
        let until = next.or(each.last()).map_or(before, |(octets, _)| *octets as f64);
        Measure::within(before, before, until)
    }

    /// The factors one by one; an influence that is small refutes nothing.
    fn size_factor(&self, said: &words::Claim) -> Claim {
        let change = |metric: &str, values: &[f64]| {
            let found = ends(values);
            let times = found.high.unwrap_or(f64::NAN) / found.low.unwrap_or(f64::NAN);
            Evidence::computed(metric, 100.0 * (times - 1.0), said.asked("")).unit("%")
        };
        let mut claim = said.open();
        if let Some([small, large]) = self.ends("FTP") {
            let (ah, esp) = ([small.0, large.0], [large.0, large.1]);
            claim = claim.judged(Kind::Published, change("size, FTP with AH", &ah), "").judged(
                Kind::Published,
                change("algorithm, large FTP", &esp),
                "",
            );
        }
        for unmeasured in ["processor: one was measured", "implementation: one was measured"] {
            claim = claim.not_run(Kind::Asserted, unmeasured);
        }
        for which in Which::ALL {
            for of in ["size", "algorithm", "processor", "implementation"] {
                let all = self.model.factors.iter().filter(|f| f.which == which && f.of == of);
                // Size changes the response itself; what it does to the slowdown counts.
                let values = all.map(|f| if of == "size" { f.slowdown } else { f.response_us });
                let evidence = change(of, &values.collect::<Vec<_>>());
                let note = format!("{} machine", which.name());
                let percent = evidence.value.value;
                let (evidence, note) = match of {
                    "implementation" => (
                        evidence.on([at_least_unequal(percent)]),
                        format!("{note}; its two ways hardly differ, says section 6.1.2 itself"),
                    ),
                    _ => (evidence, note),
                };
                claim = claim.judged(kind(which), evidence, note);
            }
        }
        let found = live_sizes(self.live).and_then(|(small, large)| {
            let of = |octets| self.live.ratio(octets, Protection::AhSha1, Protection::None);
            Ok((of(small)?, of(large)?, small, large))
        });
        match found {
            Ok((at_small, at_large, small, large)) => {
                let times: Vec<f64> = at_small
                    .iter()
                    .zip(&at_large)
                    .map(|(s, l)| 100.0 * (s / l - 1.0).abs())
                    .collect();
                let found = words::repeated(&times);
                let metric = format!("size, AH-SHA1, FTP of {small} and {large} bytes");
                let evidence = Evidence::repeated(metric, found, said.asked("")).unit("%");
                claim.judged(Kind::Live, evidence, "")
            }
            Err(why) => claim.not_run(Kind::Live, why),
        }
    }

    fn bypass(&self, said: &words::Claim) -> Claim {
        let mut claim = said.open().not_run(
            Kind::Asserted,
            "3 to 4 times: said in section 7, in no figure; its cause, a module that changed the \
             kernel's routines, was not measured",
        );
        let pair = [Protection::Bypass, Protection::None];
        let each = [100, 1_000].map(|octets| self.response(Which::Plausible, octets, pair));
        let evidence = times("response, small FTP (our reading)", ends(&each), said, "");
        let note = "what a look-up costs; changed routines are not in the model";
        claim = claim.judged(Kind::Model, evidence.against("no IPsec"), note);
        let needed = self.model.fitted.cost.lookup / self.model.plausible.cost.lookup;
        let is_bypass = |line: &&Slowdown| line.target.protection == Protection::Bypass;
        // All that was fitted, not a part of it that came out or did not.
        if let Some(line) = self.model.slowdowns.iter().find(is_bypass) {
            let [least, most] = line.target.octets;
            let metric = format!("response, FTP of {least} to {most} bytes (our reading)");
            let evidence = times(&metric, line.target.stated(&line.fitted), said, "");
            let note = format!(
                "in the fit, so no test: the value is that of the size furthest from the print; \
                 look-ups take {needed:.0} times as long"
            );
            claim = claim.judged(Kind::Fitted, evidence.against("no IPsec"), note);
        }
        let found = live_sizes(self.live)
            .and_then(|(small, _)| Ok((self.live.by_bare(small, Protection::Bypass)?, small)));
        match found {
            Ok((found, small)) => {
                let metric = format!("response, FTP of {small} bytes");
                let found = words::repeated(&found);
                let evidence = Evidence::repeated(metric, found, said.asked("")).unit("times");
                claim.judged(Kind::Live, evidence.against("hosts without any node"), "")
            }
            Err(why) => claim.not_run(Kind::Live, why),
        }
    }

    fn hashes(&self, said: &words::Claim) -> Claim {
        let mut claim =
            said.open().not_run(Kind::Asserted, "read off figure 10, which has no numbers");
        for octets in [*SMALL.start(), self.model.largest(FIGURE_10_MOST)] {
            let pair = [Protection::AhMd5, Protection::AhSha1];
            let metric = format!("response of AH-MD5, FTP of {octets} bytes");
            let found = self.response(Which::Plausible, octets, pair);
            let evidence = times(&metric, found, said, "").against("AH-SHA1");
            claim = claim.judged(Kind::Model, evidence, "");
        }
        let found = live_sizes(self.live).and_then(|(small, _)| {
            let sizes = self.live.sizes(Application::Ftp).into_iter();
            let octets = sizes.filter(|octets| *octets <= FIGURE_10_MOST).max().unwrap_or(small);
            Ok((self.live.ratio(octets, Protection::AhMd5, Protection::AhSha1)?, octets))
        });
        match found {
            Ok((found, octets)) => {
                let found = words::repeated(&found);
                let metric = format!("response of AH-MD5, FTP of {octets} bytes");
                let evidence = Evidence::repeated(metric, found, said.asked(""));
                claim.judged(Kind::Live, evidence.unit("times").against("AH-SHA1"), "")
            }
            Err(why) => claim.not_run(Kind::Live, why),
        }
    }

    fn large(&self, said: &words::Claim) -> Claim {
        let all = ["FTP", "SMTP"].map(|application| self.ends(application));
        let slowdowns = all.into_iter().flatten().flat_map(|[_, (ah, esp)]| [ah, esp]);
        let slowdowns: Vec<f64> = slowdowns.collect();
        let evidence = times("response, large transfers", ends(&slowdowns), said, "");
        let mut claim = said
            .open()
            .judged(Kind::Published, evidence.against("no IPsec"), "FTP and SMTP, AH and ESP")
            .not_run(Kind::Asserted, self.hung());
        let octets = self.model.largest(TIMED_MOST);
        for which in Which::ALL {
            let each = [Protection::AhMd5, Protection::AhSha1, Protection::EspDes]
                .map(|protection| self.response(which, octets, [protection, Protection::None]));
            let metric = format!("response, FTP of {octets} bytes");
            let evidence = times(&metric, ends(&each), said, "").against("no IPsec");
            let busy = self.busy_percent(which, octets);
            let note = format!("{} machine, its processor busy for {busy:.0} %", which.name());
            claim = claim.judged(kind(which), evidence, note);
        }
        let found = live_sizes(self.live).and_then(|(_, large)| {
            Ok((self.live.ratio(large, Protection::AhSha1, Protection::None)?, large))
        });
        match found {
            Ok((found, large)) => {
                let metric = format!("response of AH-SHA1, FTP of {large} bytes");
                let found = words::repeated(&found);
                let evidence = Evidence::repeated(metric, found, said.asked("")).unit("times");
                claim.judged(Kind::Live, evidence.against("a node without IPsec"), "")
            }
            Err(why) => claim.not_run(Kind::Live, why),
        }
    }

    /// Share of FTP's response for which a processor is busy, the greater of hash and cipher.
    fn busy_percent(&self, which: Which, octets: u64) -> f64 {
        let busy = [Protection::AhMd5, Protection::EspDes].map(|protection| {
            let way = transport(protection);
            let run = self.model.cell(which, Application::Ftp, octets, way).run;
            100.0 * run.busy_us / run.response_us
        });
        busy.into_iter().fold(0.0, f64::max)
    }

    /// Remark on the transfer that hung the host, which has no response time.
    fn hung(&self) -> String {
        let said = "that 10 MB hung the host: said in section 6.3, in no figure";
        let octets = SIZES[SIZES.len() - 1];
        match self.model.sizes.contains(&octets) {
            true => {
                let busy = self.busy_percent(Which::Plausible, octets);
                format!("{said}; the plausible machine's processor is busy for {busy:.0} % of it")
            }
            false => said.into(),
        }
    }

    fn live_crossover(&self, mut claim: Claim, said: &words::Claim) -> Claim {
        let (small, large) = match live_sizes(self.live) {
            Ok(sizes) => sizes,
            Err(why) => return claim.not_run(Kind::Live, why),
        };
        for (of, octets) in [("small", small), ("large", large)] {
            let found = self.live.ratio(octets, Protection::AhMd5, Protection::EspDes);
            claim = match found {
                Ok(found) => {
                    let metric = format!("response of AH-MD5, FTP of {octets} bytes");
                    let found = words::repeated(&found);
                    let evidence = Evidence::repeated(metric, found, said.asked(of));
                    let evidence = unequal(evidence.unit("times").against("ESP-DES"));
                    claim.judged(Kind::Live, evidence, "")
                }
                Err(why) => claim.not_run(Kind::Live, why),
            };
        }
        claim
    }
}

/// The measured size that is small, and the largest that the study has too.
pub(super) fn live_sizes(live: &Live) -> Result<(u64, u64), String> {
    if let Err(why) = &live.transfers {
        return Err(why.clone());
    }
    let sizes = live.sizes(Application::Ftp);
    let small = sizes.iter().find(|octets| SMALL.contains(octets));
    let large = sizes.iter().rev().find(|octets| (LARGE..=TIMED_MOST).contains(octets));
    Ok((*small.ok_or("no small transfer")?, *large.ok_or("no large transfer")?))
}
