//! Circumstances of a report: the machine, the date, the command.

use crate::shard::unsharded;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// Seconds of a day.
const DAY: u64 = 86_400;

/// Processor, how many of them, kernel.
pub fn describe() -> String {
    let about = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = about.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("a processor without a name", |(_, name)| name.trim());
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let processors = if count == 1 { "processor" } else { "processors" };
    format!("{model}, {count} {processors}, {os} {} {arch}", kernel.trim()).replace("  ", " ")
}

/// This program, with its version.
pub fn program() -> String {
    format!("ferrule {}", env!("CARGO_PKG_VERSION"))
}

/// The commit that it is built from.
pub fn commit() -> &'static str {
    env!("FERRULE_COMMIT")
}

/// How busy the machine is, over 1, 5 and 15 minutes.
pub fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().take(3).collect();
    if words.is_empty() { "unknown".into() } else { words.join(", ") }
}

/// Memory, all of it and what was free for programs.
pub fn memory() -> String {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let gib = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: f64 = line.trim_start_matches(':').split_whitespace().next()?.parse().ok()?;
        Some(kib / f64::from(1 << 20))
    };
    match (gib("MemTotal"), gib("MemAvailable")) {
        (Some(all), Some(free)) => format!("{all:.1} GiB, {free:.1} GiB available"),
        _ => "unknown".into(),
    }
}

/// The clock that the kernel tells time by.
pub fn clock() -> String {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let name = fs::read_to_string(path).unwrap_or_default();
    if name.trim().is_empty() { "unknown".into() } else { name.trim().to_owned() }
}

/// Now, to the minute.
pub fn date() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    date_of(since.map_or(0, |since| since.as_secs()))
}

/// The date of a time in seconds since 1970 (proleptic Gregorian calendar).
fn date_of(seconds: u64) -> String {
    let (days, rest) = (seconds / DAY, seconds % DAY);
    // Years that begin in March end with the leap day.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute) = (rest / 3600, rest % 3600 / 60);
    format!("{year:04}-{month:02}-{of_month:02} {hour:02}:{minute:02} UTC")
}

/// The command that is running, as one types it again; of a shard, that of the whole.
pub fn command() -> String {
    let here = std::env::current_dir().unwrap_or_default();
    typed(portable(unsharded(std::env::args()), &here))
}

/// The program by its name, and paths below the current folder as seen from there: the words
/// mean the same on another machine.
fn portable(words: Vec<String>, here: &Path) -> Vec<String> {
    let relative = |word: String| match Path::new(&word).strip_prefix(here) {
        Ok(path) if path.as_os_str().is_empty() => ".".to_owned(),
        Ok(path) => path.display().to_string(),
        Err(_) => word,
    };
    let mut words = words.into_iter();
    let program = words.next().map(|word| match Path::new(&word).file_name() {
        Some(name) => name.to_string_lossy().into_owned(),
        None => word,
    });
    program.into_iter().chain(words.map(relative)).collect()
}

/// Words as one types them.
pub fn typed(words: impl IntoIterator<Item = String>) -> String {
    words.into_iter().map(|word| quoted(&word)).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_at_the_edges_of_years_and_leap_days() {
        let cases = [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (951_868_800, "2000-03-01 00:00 UTC"),
            (1_735_689_599, "2024-12-31 23:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ];
        for (seconds, date) in cases {
            assert_eq!(date_of(seconds), date);
        }
    }

    #[test]
    fn command_has_no_path_of_this_machine_that_lies_below_its_folder() {
        let words = ["/home/ann/bin/ferrule", "study", "all", "--out", "/home/ann/results"];
        let words = words.map(str::to_owned).to_vec();
        let found = portable(words, Path::new("/home/ann"));
        assert_eq!(found, ["ferrule", "study", "all", "--out", "results"]);
        let words = vec!["./ferrule".to_owned(), "/elsewhere/a".to_owned()];
        assert_eq!(portable(words, Path::new("/home/ann")), ["ferrule", "/elsewhere/a"]);
    }

    #[test]
    fn words_of_a_command_are_quoted_where_a_shell_would_split_them() {
        assert_eq!(quoted("a-b"), "a-b");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
