//! Verdicts on what section 4.2.1 and the conclusion say of table 1, with the buffer empty.

use super::claims::Given;
use super::closed::Drained;
use super::model::Row;
use super::published::Throughput;
use crate::words::{self, why_not};
use ferrule_report::{Claim, Evidence, Kind};

/// Octets of table 1's packets, small and large.
const SIZES: [usize; 2] = [128, 1024];

/// Rates of a size with the buffer empty, in kbit/s of one direction.
#[derive(Clone, Copy)]
struct Rates {
    after: f64,
    /// The same while the other direction is as busy; the print does not tell the two apart.
    shared: Option<f64>,
    plain: f64,
    plain_pps: f64,
}

impl Rates {
    fn printed(row: &Throughput) -> Self {
        Self {
            after: row.prebuffered_after_empty_kbps,
            shared: None,
            plain: row.aes_ctr_kbps,
            plain_pps: row.aes_ctr_pps,
        }
    }

    fn ran(row: &Row) -> Self {
        let kbps = |pps| Drained::kbps(pps, row.packet_bytes);
        Self {
            after: kbps(row.after_pps),
            shared: Some(kbps(row.shared_pps)),
            plain: kbps(row.plain_pps),
            plain_pps: row.plain_pps,
        }
    }

    fn gain(&self) -> f64 {
        self.after / self.plain
    }
}

/// Rates of both sizes, the small one first; `None` if one was not run.
fn sizes(rows: &[Row]) -> Option<[Rates; 2]> {
    let of = |bytes| rows.iter().find(|row| row.packet_bytes == bytes).map(Rates::ran);
    Some([of(SIZES[0])?, of(SIZES[1])?])
}

/// Judges a claim by the print's rates, the model's and the measured ones.
fn by_rates(
    said: &words::Claim,
    (study, model, live): &Given<'_>,
    judge: impl Fn(Claim, Kind, [Rates; 2]) -> Claim,
) -> Claim {
    let printed = SIZES.map(|bytes| Rates::printed(study.throughput_of(bytes)));
    let claim = judge(said.open(), Kind::Published, printed);
    let claim = match sizes(&model.rows) {
        Some(rates) => judge(claim, Kind::Model, rates),
        None => claim.not_run(Kind::Model, "no packets of these sizes"),
    };
    match live.as_ref().ok().and_then(|live| sizes(&live.measured.rows)) {
        Some(rates) => judge(claim, Kind::Live, rates),
        None => claim.not_run(Kind::Live, why_not(live)),
    }
}

/// Section 4.2.1: about six times at 128 bytes, whatever the other direction does.
pub fn six_times(said: &words::Claim, given: &Given<'_>) -> Claim {
    by_rates(said, given, |claim, kind, [small, _]| {
        let evidence = |metric: &str, times: f64| {
            let evidence = Evidence::computed(metric, times, said.asked(""));
            evidence.unit("times").against("the plain token")
        };
        let rates = format!("{:.0} by {:.1} kbit/s", small.after, small.plain);
        let Some(shared) = small.shared else {
            return claim.judged(kind, evidence("with the buffer empty", small.gain()), rates);
        };
        let alone = evidence("with the buffer empty, one direction", small.gain());
        let note = format!(
            "{rates}; an exchange brings key stream for fourteen packets in 16 ms instead of one \
             in 12"
        );
        let both = evidence("with the buffer empty, both ways busy", shared / small.plain);
        let plain = format!(
            "{shared:.0} by {:.1} kbit/s: one of two directions by the plain token with one",
            small.plain
        );
        claim.judged(kind, alone, note).judged(kind, both, plain)
    })
}

/// The conclusion: up to six times or more, so the greatest counts.
pub fn six_or_more(said: &words::Claim, given: &Given<'_>) -> Claim {
    by_rates(said, given, |claim, kind, rates| {
        let [small, large] = rates.map(|rates| rates.gain());
        let evidence =
            Evidence::computed("most with the buffer empty", small.max(large), said.asked(""));
        let mut note =
            format!("{small:.1} times at {} bytes, {large:.1} at {}", SIZES[0], SIZES[1]);
        let shared = rates.iter().filter_map(|rates| Some(rates.shared? / rates.plain));
        if let Some(most) = shared.reduce(f64::max) {
            note += &format!(
                "; {most:.1} at most if the other direction is as busy, which \"up to\" does not \
                 ask for"
            );
        }
        claim.judged(kind, evidence.unit("times").against("the plain token"), note)
    })
}

/// Section 4.2.1: what size makes of the rates, with key stream ahead and without.
pub fn size_matters(said: &words::Claim, given: &Given<'_>) -> Claim {
    by_rates(said, given, |claim, kind, [small, large]| {
        let evidence = |metric: &str, times: f64, of: &str| {
            let evidence = Evidence::computed(metric, times, said.asked(of));
            evidence.unit("times").against("128-byte packets")
        };
        let buffered = evidence("1024 bytes, buffer empty", large.after / small.after, "buffered");
        let plain = evidence("1024 bytes, plain token", large.plain / small.plain, "plain");
        let mut note = format!("{:.0} by {:.0} kbit/s", large.after, small.after);
        if let (Some(large), Some(small)) = (large.shared, small.shared) {
            note += &format!("; {:.2} times while the other direction is as busy", large / small);
        }
        claim.judged(kind, buffered, note).judged(
            kind,
            plain,
            format!("{:.0} by {:.1} kbit/s", large.plain, small.plain),
        )
    })
}

/// Section 4.2.1: the gain of small packets by that of large ones.
pub fn small_packets(said: &words::Claim, given: &Given<'_>) -> Claim {
    by_rates(said, given, |claim, kind, rates| {
        let [small, large] = rates.map(|rates| rates.gain());
        let evidence = Evidence::computed("gain at 128 bytes", small / large, said.asked(""));
        let note = format!("{small:.1} by {large:.1} times the plain token");
        claim.judged(kind, evidence.unit("times").against("the gain at 1024 bytes"), note)
    })
}

/// Section 4.2.1: packets a second of the plain token by size.
pub fn plain_rises(said: &words::Claim, given: &Given<'_>) -> Claim {
    by_rates(said, given, |claim, kind, [small, large]| {
        let (small, large) = (small.plain_pps, large.plain_pps);
        let evidence = Evidence::computed("plain token, 128 bytes", small / large, said.asked(""));
        let why = match kind {
            Kind::Published => "the study expected them to be equal",
            _ => "by the printed 12 and 16 ms of the token's exchanges alone",
        };
        let note = format!("{small:.1} by {large:.1} packets a second; {why}");
        claim.judged(kind, evidence.unit("times").against("1024 bytes"), note)
    })
}
