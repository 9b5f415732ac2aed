//! Standard output: what cannot be written there is said, and is no success.

use crate::paint::{Paint, emit};
use std::io::{self, ErrorKind, Write, stderr, stdout};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit: the machine did not take what was to be printed.
const ENVIRONMENT: u8 = 3;

static LOST: AtomicBool = AtomicBool::new(false);

/// Writes a finished text to standard output; a reader that went away (`| head`) is no failure.
pub fn print(text: &str) {
    let mut stdout = stdout().lock();
    note(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
}

/// Takes the result of writing to standard output: a failure is said, once.
pub fn note(written: io::Result<()>) {
    let Err(e) = written else { return };
    if e.kind() == ErrorKind::BrokenPipe || LOST.swap(true, Ordering::Relaxed) {
        return;
    }
    let error = Paint::for_stream(&stderr()).fault("error:");
    emit(&mut stderr(), &format!("{error} standard output: {e}\n  = write it to another place\n"));
}

/// The exit code of the process: that of the machine if something could not be printed.
pub fn settled(code: ExitCode) -> ExitCode {
    if LOST.load(Ordering::Relaxed) { ExitCode::from(ENVIRONMENT) } else { code }
}
