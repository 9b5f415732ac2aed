//! Another implementation in a process of its own, measured in the same rounds.
//!
//! A C program in `benches/peers` is compiled where its library is installed, and
//! answers a line that says what to do with a line of packets, nanoseconds and
//! clocks. So the workspace builds without the library, and a bench says that it is
//! missing and goes on.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The process.
pub struct Peer {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// Version that the peer reports.
    pub version: String,
}

impl Peer {
    /// Compiles and starts `benches/peers/NAME.c` with a library; an error says what
    /// is missing.
    pub fn start(name: &str, library: &str) -> Result<Self, String> {
        let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("peers").join(name);
        let program = std::env::current_exe().map_err(|e| e.to_string())?.with_file_name(name);
        let compiled = Command::new("cc")
            .args(["-O2", "-o"])
            .arg(&program)
            .arg(source.with_extension("c"))
            .arg(format!("-l{library}"))
            .output()
            .map_err(|e| format!("cc: {e}"))?;
        if !compiled.status.success() {
            let text = String::from_utf8_lossy(&compiled.stderr);
            return Err(text.lines().next().unwrap_or("cc fails").to_owned());
        }
        let mut child = Command::new(&program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{}: {e}", program.display()))?;
        let (orders, answers) = (child.stdin.take(), child.stdout.take());
        let answers = BufReader::new(answers.ok_or("no answers")?);
        let mut peer = Self { child, orders, answers, version: String::new() };
        peer.version = peer.answer();
        Ok(peer)
    }

    /// Has it do something: packets, nanoseconds and clocks.
    pub fn ask(&mut self, order: &str) -> (usize, f64, f64) {
        let orders = self.orders.as_mut().expect("it runs");
        writeln!(orders, "{order}").expect("it listens");
        let answer = self.answer();
        let numbers: Vec<f64> = answer.split(' ').filter_map(|n| n.parse().ok()).collect();
        match numbers[..] {
            [packets, nanos, clocks] => (packets as usize, nanos, clocks),
            _ => panic!("{order}: {answer}"),
        }
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it answers");
        line.trim().to_owned()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // At the end of its orders it ends.
        self.orders = None;
        let _ = self.child.wait();
    }
}

/// Says that this process is on one core already, and which ones it had.
const PINNED: &str = "FERRULE_BENCH_PINNED";

/// The cores that this program was started with, as `taskset -c` takes them.
pub fn cores() -> Option<String> {
    std::env::var(PINNED).ok().or_else(|| {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some(list.trim().to_owned())
    })
}

/// The numbers of these cores.
pub fn core_numbers() -> Vec<usize> {
    let cores = cores().unwrap_or_default();
    let ranges = cores.split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    ranges.flatten().collect()
}

/// Runs this program again on one core, so that a peer's process, which works while
/// this one waits, has the same.
pub fn pin() {
    let (Some(cores), Ok(own)) = (cores(), std::env::current_exe()) else { return };
    let Some(core) = cores.rsplit([',', '-']).next() else { return };
    if std::env::var_os(PINNED).is_none() {
        let mut again = Command::new("taskset");
        again.args(["-c", core]).arg(own).args(std::env::args().skip(1)).env(PINNED, &cores);
        if let Ok(status) = again.status() {
            std::process::exit(status.code().unwrap_or(1));
        }
    }
}
