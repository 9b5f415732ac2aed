//! Where the workers' time went.

use super::draw;
use ferrule_daemon::report::{Report, TimesView};

/// A line for each place, with its part of the time that packets took.
pub fn text(report: &Report) -> String {
    let Some(times) = &report.times else {
        return "the node does not keep time: set `times = true` in [node]\n".into();
    };
    let mut text = draw(&["PLACE", "ms#", "%#"], &rows(times));
    let idle = milliseconds(times.idle);
    text += &format!("\n{idle} ms looking for packets where there were none\n");
    text
}

fn milliseconds(nanos: u64) -> String {
    format!("{:.3}", nanos as f64 / 1e6)
}

fn rows(times: &TimesView) -> Vec<Vec<String>> {
    let all = times.ports + times.stages.values().sum::<u64>();
    let row = |place: &str, nanos: u64| {
        let part = 100.0 * nanos as f64 / all.max(1) as f64;
        vec![place.to_owned(), milliseconds(nanos), format!("{part:.1}")]
    };
    let mut stages: Vec<_> = times.stages.iter().collect();
    stages.sort_by_key(|(_, time)| std::cmp::Reverse(**time));
    let mut rows = vec![row("ports: receive", times.ports)];
    rows.extend(stages.into_iter().map(|(name, time)| row(name, *time)));
    if times.engines > 0 {
        rows.push(row("of that: cipher and hash", times.engines));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn show_times_gives_parts_of_the_time_that_packets_took() {
        assert!(text(&Report::default()).contains("times = true"));
        let stages = [("esp-out".to_owned(), 6_000_000), ("policy".to_owned(), 1_000_000)];
        let (ports, engines, idle) = (3_000_000, 4_000_000, 9_000_000);
        let times = TimesView { ports, stages: stages.into(), engines, idle };
        let shown = text(&Report { times: Some(times), ..Report::default() });
        let lines: Vec<Vec<&str>> =
            shown.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["ports:", "receive", "3.000", "30.0"]);
        assert_eq!(lines[2], ["esp-out", "6.000", "60.0"]);
        assert_eq!(lines[3], ["policy", "1.000", "10.0"]);
        assert_eq!(lines[4], ["of", "that:", "cipher", "and", "hash", "4.000", "40.0"]);
        assert!(shown.ends_with("9.000 ms looking for packets where there were none\n"));
    }
}
