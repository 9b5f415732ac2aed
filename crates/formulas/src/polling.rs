//! Two servers in a row that look at their ports at fixed times.
//!
//! ```text
//!   looks    |         |         |         |
//!   seldom    x          x         x            one each: half a period + work
//!   often     x      x      x      x      x     pairs now and then: + work for both
//! ```

/// Frames that are followed.
const FRAMES: usize = 1024;
/// Frames of these before measuring begins.
const SETTLING: usize = 64;

/// The clocks of two servers never agree: the second one's runs slower by this share, so that
/// in a long run every phase between the two occurs.
pub const CLOCKS_APART: f64 = 1.0 / 64.0;

/// A server that looks at fixed times, takes a few frames and works on one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Poller {
    /// From one look to the next, in microseconds.
    pub poll_us: f64,
    /// Frames that it takes at a look at most.
    pub budget: usize,
    /// Work on one frame, in microseconds.
    pub work_us: f64,
    /// From one frame of a burst to the next on the line behind it, in microseconds.
    pub spacing_us: f64,
}

/// The mean delay of two in a row, in microseconds, where frames come so far apart.
pub fn waiting_us(poller: &Poller, apart_us: f64) -> f64 {
    waiting_from_us(poller, apart_us, 0.0)
}

/// The same with a first frame so long after a look.
fn waiting_from_us(poller: &Poller, apart_us: f64, begin_us: f64) -> f64 {
    let sent = |n: usize| begin_us + n as f64 * apart_us;
    let mut times: Vec<f64> = (0..FRAMES).map(sent).collect();
    for period in [poller.poll_us, poller.poll_us * (1.0 + CLOCKS_APART)] {
        pass(&mut times, period, poller);
    }
    let measured = times.iter().enumerate().skip(SETTLING);
    let sum: f64 = measured.map(|(n, out)| out - sent(n)).sum();
    sum / (FRAMES - SETTLING) as f64
}

/// The same with the path around both, in microseconds, whatever the first frame's time: frames
/// that come as often as a server looks always meet it at the same place. No number where frames
/// fill a server.
pub fn delay_us(poller: &Poller, apart_us: f64, path_us: f64) -> f64 {
    const BEGINS: usize = 8;
    if apart_us * full_per_us(poller) <= 1.0 {
        return f64::NAN;
    }
    let each = (0..BEGINS).map(|n| (n as f64 + 0.5) / BEGINS as f64 * poller.poll_us);
    path_us
        + each.map(|begin| waiting_from_us(poller, apart_us, begin)).sum::<f64>() / BEGINS as f64
}

/// Arrivals become departures.
fn pass(times: &mut [f64], period: f64, poller: &Poller) {
    let (mut next, mut free, mut line) = (0, 0.0_f64, f64::NEG_INFINITY);
    let mut last_look = f64::NEG_INFINITY;
    while let Some(&first) = times.get(next) {
        // The first look at which the frame is there and the server is not at work.
        let at = first.max(last_look + period * 1e-9);
        let look = (at / period).ceil() * period;
        let look = look.max(free);
        let there = times[next..].iter().take(poller.budget).take_while(|t| **t <= look).count();
        let done = look + there as f64 * poller.work_us;
        for time in &mut times[next..next + there] {
            line = done.max(line + poller.spacing_us);
            *time = line;
        }
        (free, last_look) = (done, look);
        next += there;
    }
}

/// Frames a microsecond that fill it.
pub fn full_per_us(poller: &Poller) -> f64 {
    (poller.budget as f64 / poller.poll_us).min(1.0 / poller.work_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_that_is_alone_waits_half_a_period_at_each_of_two() {
        let poller = Poller { poll_us: 100.0, budget: 4, work_us: 10.0, spacing_us: 1.0 };
        let found = waiting_us(&poller, 1_234.5);
        assert!((found - 120.0).abs() < 6.0, "{found}");
        assert!((full_per_us(&poller) - 0.04).abs() < 1e-12);
        // Frames that fill it have no delay of theirs.
        assert!(delay_us(&poller, 24.9, 5.0).is_nan());
        assert!((delay_us(&poller, 1_234.5, 5.0) - found - 5.0).abs() < 2.0);
        // In step with the looks of the first, too.
        let in_step = delay_us(&poller, 1_200.0, 5.0);
        assert!((in_step - 125.0).abs() < 6.0, "{in_step}");
        // As often as it looks, with frames in pairs and more: each waits for the others' work.
        assert!(waiting_us(&poller, 30.0) > found);
    }
}
