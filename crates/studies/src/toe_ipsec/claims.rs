//! A verdict on every claim.

use super::bench::{Point, Way};
use super::live::{Live, Turns};
use super::model::{FIXED, FULL, Model, OCTETS, SIZES, paced_pps};
use super::network::System;
use super::published::Study;
use crate::words::{self, ends, ratios, repeated, why_not};
use ferrule_report::{Claim, Condition, Evidence, Kind};

/// Sources of the evidence for the claims.
struct Given<'a> {
    study: &'a Study,
    model: &'a Model,
    live: &'a Result<Live, String>,
}

/// Judges each of the study's claims, in the study's order.
pub fn judge(study: &Study, model: &Model, live: &Result<Live, String>) -> Vec<Claim> {
    let given = Given { study, model, live };
    let each = study.claim.iter().map(|said| match said.id.as_str() {
        "inline-wins" => given.inline_wins(said),
        "size-hurts-look-aside" => given.size_hurts(said),
        _ => given.inline_flat(said),
    });
    each.collect()
}

/// Systems that inline is compared with.
const OTHERS: [System; 2] = [System::Software, System::LookAside];

fn metric(system: System) -> String {
    format!("throughput of inline, by {}", system.key())
}

impl Given<'_> {
    /// The first system's shares in turn, and those of packets in clear.
    fn turns(&self, system: Option<System>, octets: usize) -> Result<&Turns, String> {
        let live = self.live.as_ref().map_err(|_| why_not(self.live))?;
        live.turns_of(system, octets)
    }

    fn inline_wins(&self, said: &words::Claim) -> Claim {
        let mut claim = said.open();
        let judge = |system: System, share: &dyn Fn(System) -> f64| {
            let times = share(System::Inline) / share(system);
            let asked = said.asked(system.key());
            Evidence::computed(metric(system), times, asked).unit("times").against(system.key())
        };
        for system in OTHERS {
            let printed = judge(system, &|system| self.study.result_of(system).throughput_share);
            claim = claim.judged(Kind::Published, printed, "table 2");
        }
        for way in Way::ALL {
            // The others' shares were fitted to table 2, sending; receiving has the same cost.
            for system in OTHERS {
                let found = judge(system, &|system| self.model.share(system, way));
                claim = claim.judged(Kind::Fitted, found, way.name());
            }
        }
        for system in OTHERS {
            claim = match self.live_times(said, system) {
                Ok(evidence) => claim.judged(
                    Kind::Live,
                    evidence,
                    "sending; card and chip are this machine's own cores",
                ),
                Err(why) => claim.not_run(Kind::Live, why),
            };
        }
        claim
    }

    /// At full speed, in turn.
    fn live_times(&self, said: &words::Claim, system: System) -> Result<Evidence, String> {
        let of = |system| self.turns(system, OCTETS);
        let (inline, other) = (of(Some(System::Inline))?, of(Some(system))?);
        let clear = repeated(&of(None)?.shares).0.value;
        let times: Vec<f64> = inline.shares.iter().zip(&other.shares).map(|(i, o)| i / o).collect();
        let asked = said.asked(system.key());
        let evidence = Evidence::repeated(metric(system), repeated(&times), asked).unit("times");
        Ok(evidence.against(system.key()).on([Condition::carried(100.0 * clear)]))
    }

    fn size_hurts(&self, said: &words::Claim) -> Claim {
        let (first, last) = (SIZES[0], SIZES[SIZES.len() - 1]);
        let mut claim = said.open();
        for system in [System::LookAside, System::Software] {
            let Some(curve) = self.model.curve(system, Way::Out) else { continue };
            let change = |points: &[Point]| {
                let share = |point: Option<&Point>| point.map_or(f64::NAN, |p| 100.0 * p.share);
                share(points.last()) - share(points.first())
            };
            let metric = format!("{}, change from {first} to {last} bytes", system.key());
            for (points, how) in [
                (
                    &curve.paced,
                    format!("\"the same speed\" read as {:.0} frames a second", paced_pps()),
                ),
                (&curve.sizes, format!("read as {FIXED} Mbit/s")),
            ] {
                let evidence = Evidence::computed(&metric, change(points), said.asked(""));
                claim = claim.judged(Kind::Model, evidence.unit("points"), how);
            }
        }
        for system in [System::LookAside, System::Software] {
            claim = match self.live_change(said, system, [first, last]) {
                Ok((evidence, pps)) => {
                    let how = format!("at {pps:.0} frames a second");
                    claim.judged(Kind::Live, evidence, how)
                }
                Err(why) => claim.not_run(Kind::Live, why),
            };
        }
        claim
    }

    /// The change over sizes at one rate of frames, and that rate.
    fn live_change(
        &self,
        said: &words::Claim,
        system: System,
        sizes: [usize; 2],
    ) -> Result<(Evidence, f64), String> {
        let of = |octets| -> Result<Vec<f64>, String> {
            let (sealed, clear) = (self.turns(Some(system), octets)?, self.turns(None, octets)?);
            Ok(sealed.shares.iter().zip(&clear.shares).map(|(s, c)| 100.0 * s / c).collect())
        };
        let [small, large] = [of(sizes[0])?, of(sizes[1])?];
        let change: Vec<f64> = large.iter().zip(&small).map(|(l, s)| l - s).collect();
        let carried = sizes.map(|octets| {
            let clear = self.turns(None, octets).map(|turns| repeated(&turns.shares).0.value);
            Condition::carried(100.0 * clear.unwrap_or(f64::NAN))
        });
        let lowest = repeated(&small).0.value.min(repeated(&large).0.value);
        let conditions = carried.into_iter().chain([Condition::loaded(100.0 - lowest)]);
        let metric = format!("{}, change from {} to {} bytes", system.key(), sizes[0], sizes[1]);
        let evidence = Evidence::repeated(metric, repeated(&change), said.asked(""));
        let evidence = evidence.unit("points").against("packets in clear").on(conditions);
        Ok((evidence, self.turns(Some(system), sizes[1])?.frames_per_second()))
    }

    /// A load under which some system loses packets: a lower one shows nothing about inline.
    fn is_loaded(&self, octets: usize) -> Result<Condition, String> {
        let clear = repeated(&self.turns(None, octets)?.shares).0.value;
        let shares = System::ALL.map(|system| self.turns(Some(system), octets));
        let mut lost = 0.0_f64;
        for turns in shares {
            lost = lost.max(1.0 - repeated(&turns?.shares).0.value / clear);
        }
        Ok(Condition::loaded(100.0 * lost))
    }

    fn inline_flat(&self, said: &words::Claim) -> Claim {
        let mut claim = said.open();
        let of = |points: fn(&super::model::Curve) -> &[Point]| {
            let curves =
                Way::ALL.into_iter().filter_map(|way| self.model.curve(System::Inline, way));
            let shares = curves.flat_map(|c| points(c).iter().map(|p| 100.0 * p.share));
            ends(&shares.collect::<Vec<_>>())
        };
        for (by, found) in [
            (format!("by size at {FIXED} Mbit/s"), of(|curve| &curve.sizes)),
            (format!("by size at {:.0} frames a second", paced_pps()), of(|curve| &curve.paced)),
            (format!("by speed up to {FULL} Mbit/s"), of(|curve| &curve.speeds)),
        ] {
            let evidence =
                Evidence::computed(format!("inline carries, {by}"), found, said.asked(""));
            claim =
                claim.judged(Kind::Model, evidence.unit("%").against("what is sent"), "both ways");
        }
        for octets in [SIZES[0], OCTETS, SIZES[SIZES.len() - 1]] {
            let both = self.turns(Some(System::Inline), octets).and_then(|inline| {
                Ok((inline, self.turns(None, octets)?, self.is_loaded(octets)?))
            });
            claim = match both {
                Ok((inline, clear, loaded)) => {
                    let metric =
                        format!("inline carries of {octets} bytes at {:.0} Mbit/s", inline.mbps);
                    let pair = (inline.shares.as_slice(), clear.shares.as_slice());
                    let evidence = ratios(metric, pair, said.asked(""));
                    let note = "this card is no hardware, but a part of the node's own thread";
                    let evidence = evidence.against("packets in clear").on([loaded]);
                    claim.judged(Kind::Live, evidence, note)
                }
                Err(why) => claim.not_run(Kind::Live, why),
            };
        }
        claim
    }
}
