//! Running other programs: never longer than allowed, never on after a signal,
//! and none left behind.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which a running program is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// A program that was asked to end has this long to do so.
const GRACE: Duration = Duration::from_secs(4);
/// Octets of a log that a message shows at most.
const TAIL: usize = 1200;
/// Names the list of used keys: the fresh keys of a laboratory are nothing to the host's.
pub const USED_KEYS: &str = "FERRULE_USED_KEYS";
/// Octets of output that are kept of a program.
const OUTPUT_MAX: u64 = 64 << 20;

/// Reason for which a step did not complete.
#[derive(Debug)]
pub enum Fault {
    /// A signal.
    Interrupted,
    /// The machine lacks something: what, and what would help.
    Missing(String, String),
    /// A step failed: what, and what was said.
    Failed(String, String),
}

impl Fault {
    /// A step that failed.
    pub fn failed(what: impl Into<String>, said: impl fmt::Display) -> Self {
        Self::Failed(what.into(), said.to_string())
    }
}

impl Fault {
    /// In a line of so many letters at most, for a table: what was said of an error, or
    /// what was said last.
    pub fn reason(&self, letters: usize) -> String {
        let said = self.to_string();
        let error = said.lines().find_map(|line| line.split_once("error: ").map(|(_, what)| what));
        let line = error.or(said.lines().last()).unwrap_or_default();
        line.trim().chars().take(letters).collect()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, said) = match self {
            Self::Interrupted => return f.write_str("interrupted"),
            Self::Missing(what, said) | Self::Failed(what, said) => (what, said.trim()),
        };
        f.write_str(what)?;
        if said.is_empty() {
            return Ok(());
        }
        said.lines().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// Flag that every step is given: set once a signal came.
#[derive(Clone, Debug)]
pub struct Runner {
    stop: Arc<AtomicBool>,
}

/// Exit status and output of a program.
pub struct Said {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

impl Runner {
    /// From now on a signal is a wish to stop.
    pub fn new() -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&stop))?;
        }
        Ok(Self { stop })
    }

    /// Runner that no signal stops.
    #[cfg(test)]
    pub fn unheeding() -> Self {
        Self { stop: Arc::default() }
    }

    /// An error once a signal has come.
    pub fn check(&self) -> Result<(), Fault> {
        if self.stop.load(Ordering::Relaxed) { Err(Fault::Interrupted) } else { Ok(()) }
    }

    /// Sleeps, unless a signal comes.
    pub fn pause(&self, time: Duration) -> Result<(), Fault> {
        let end = Instant::now() + time;
        loop {
            self.check()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(LOOK));
        }
    }

    /// Runs a program to its end.
    pub fn output(&self, command: &mut Command, limit: Duration) -> Result<Said, Fault> {
        let name = shown(command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Guarded::spawn(command).map_err(|e| Fault::failed(name.clone(), e))?;
        let out = child.0.stdout.take().map(|pipe| thread::spawn(move || read(pipe)));
        let err = child.0.stderr.take().map(|pipe| thread::spawn(move || read(pipe)));
        let end = Instant::now() + limit;
        let status = loop {
            if let Some(status) = child.0.try_wait().map_err(|e| Fault::failed(name.clone(), e))? {
                break status;
            }
            if Instant::now() >= end {
                return Err(Fault::failed(name, format!("still ran after {limit:?}")));
            }
            self.pause(LOOK)?;
        };
        let text = |reader: Option<thread::JoinHandle<String>>| {
            reader.and_then(|thread| thread.join().ok()).unwrap_or_default()
        };
        Ok(Said { status, out: text(out), err: text(err) })
    }

    /// Runs a program that must succeed, and returns its standard output.
    pub fn done(&self, command: &mut Command, limit: Duration) -> Result<String, Fault> {
        let said = self.output(command, limit)?;
        if said.status.success() {
            return Ok(said.out);
        }
        let text = if said.err.trim().is_empty() { said.out } else { said.err };
        Err(Fault::failed(format!("{}: {}", shown(command), said.status), tail(&text)))
    }

    /// Waits until `ready` says so.
    pub fn wait_for(
        &self,
        what: &str,
        limit: Duration,
        mut ready: impl FnMut() -> Result<bool, Fault>,
    ) -> Result<(), Fault> {
        let end = Instant::now() + limit;
        while !ready()? {
            if Instant::now() >= end {
                return Err(Fault::failed(what, format!("not within {limit:?}")));
            }
            self.pause(LOOK * 4)?;
        }
        Ok(())
    }
}

/// A child that does not outlive us.
struct Guarded(Child);

impl Guarded {
    /// Starts a program in a process group of its own: a signal from the terminal reaches this
    /// process alone, which ends the others in order.
    fn spawn(command: &mut Command) -> io::Result<Self> {
        command.process_group(0).spawn().map(Self)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// A program in the background, with its output in a file; ended when dropped.
pub struct Background {
    name: String,
    child: Guarded,
    log: PathBuf,
}

impl Background {
    /// Starts it.
    pub fn start(name: &str, command: &mut Command, log: &Path) -> Result<Self, Fault> {
        let file = OpenOptions::new().create(true).append(true).open(log);
        let file = file.map_err(|e| Fault::failed(log.display().to_string(), e))?;
        let copy = file.try_clone().map_err(|e| Fault::failed(log.display().to_string(), e))?;
        command.stdin(Stdio::null()).stdout(file).stderr(copy);
        let child = Guarded::spawn(command).map_err(|e| Fault::failed(name, e))?;
        Ok(Self { name: name.to_owned(), child, log: log.to_owned() })
    }

    /// Its output so far.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its process number.
    pub fn process(&self) -> u32 {
        self.child.0.id()
    }

    /// An error if it has ended.
    pub fn check(&mut self) -> Result<(), Fault> {
        match self.child.0.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(Fault::failed(
                format!("{} ended by itself: {status}", self.name),
                tail(&self.said()),
            )),
            Err(e) => Err(Fault::failed(self.name.clone(), e)),
        }
    }

    /// Asks it to end; by force if it does not.
    pub fn stop(&mut self) -> Option<ExitStatus> {
        if let Ok(Some(status)) = self.child.0.try_wait() {
            return Some(status);
        }
        self.ask();
        let end = Instant::now() + GRACE;
        while Instant::now() < end {
            if let Ok(Some(status)) = self.child.0.try_wait() {
                return Some(status);
            }
            thread::sleep(LOOK);
        }
        let _ = self.child.0.kill();
        self.child.0.wait().ok()
    }

    /// SIGTERM.
    pub fn ask(&self) {
        let number = self.child.0.id().to_string();
        let _ = Command::new("sh").args(["-c", "kill -TERM \"$0\"", &number]).status();
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Ends several at once: all are asked before any is waited for.
pub fn stop_all(mut all: Vec<Background>) {
    all.iter().for_each(Background::ask);
    all.iter_mut().for_each(|one| {
        one.stop();
    });
}

/// True if a program is in the path.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// A command line for people, without the way into the namespace.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    let inside = words.starts_with(&["ip".into(), "netns".into(), "exec".into()]);
    let words = if inside { words.get(4..).unwrap_or_default() } else { &words };
    let leash = words.first().is_some_and(|word| word == "setpriv");
    let words = if leash { words.get(3..).unwrap_or_default() } else { words };
    words.join(" ")
}

fn read(pipe: impl Read) -> String {
    let mut octets = Vec::new();
    let _ = pipe.take(OUTPUT_MAX).read_to_end(&mut octets);
    String::from_utf8_lossy(&octets).into_owned()
}

/// The end of a text.
fn tail(text: &str) -> &str {
    let mut from = text.len().saturating_sub(TAIL);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    &text[from..]
}

/// A folder that goes when dropped, unless it is kept.
pub struct Folder {
    path: PathBuf,
    keep: bool,
}

impl Folder {
    /// A new folder, for its owner alone.
    pub fn new(path: PathBuf, keep: bool) -> Result<Self, Fault> {
        use std::os::unix::fs::DirBuilderExt;
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|e| Fault::failed(format!("making {}", path.display()), e))?;
        Ok(Self { path, keep })
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Writes a file, with its name in the error.
pub fn write(path: &Path, octets: &[u8]) -> Result<(), Fault> {
    use std::os::unix::fs::OpenOptionsExt;
    let open = || -> io::Result<File> {
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
    };
    let written = open().and_then(|mut file| io::Write::write_all(&mut file, octets));
    written.map_err(|e| Fault::failed(format!("writing {}", path.display()), e))
}
