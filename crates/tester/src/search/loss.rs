//! Frame loss rate (RFC 1242 section 3.6, RFC 2544 section 26.3): from the highest
//! load down by steps of at most a tenth of it, until two loads in a row lose
//! nothing.

use super::{Measured, Range, Work, check, so_far};
use crate::bench::BenchError;
use crate::stream::Plan;
use crate::trial::Timing;

/// Loads from the highest down, each with what became of its frames.
pub fn loss(
    work: &mut Work<'_>,
    name: &str,
    plan: &Plan,
    timing: Timing,
    range: &Range,
    steps: u32,
) -> Result<Vec<Measured>, BenchError> {
    check(plan)?;
    let Some(top) = range.top(plan) else {
        let what = "the highest load is not known: give the line's rate (--line) or --max";
        return Err(BenchError::Broken(what.into()));
    };
    // RFC 2544: no coarser than a tenth.
    let steps = steps.clamp(10, 1000);
    let (mut curve, mut whole) = (Vec::new(), 0);
    for step in (1..=steps).rev() {
        let load = (u128::from(top) * u128::from(step) / u128::from(steps)) as u64;
        let trial = work.at(name, plan, timing, load.max(range.min).min(top));
        let Some((measured, _)) = so_far(trial, !curve.is_empty())? else { break };
        whole = if measured.passes() { whole + 1 } else { 0 };
        curve.push(measured);
        if whole == 2 {
            break;
        }
    }
    Ok(curve)
}
