//! Recordings on disk: written when something broke, and repeated.

use super::{FOUND, USAGE, names, quietly, text};
use crate::answer;
use crate::output::print;
use crate::paint::Paint;
use ferrule_base::Duration;
use ferrule_lab::check::shrink::Shrunk;
use ferrule_lab::check::{Recording, Source, campaign};
use ferrule_lab::topology::{Topology, TopologySubject};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Files that were written.
pub struct Written {
    /// The recording.
    pub recording: PathBuf,
    /// Captures beside it.
    pub captures: usize,
}

/// Writes a recording and a capture of each link into a folder. The error says
/// what to do.
pub fn write(
    folder: &Path,
    subject: &TopologySubject,
    source: &Source,
    small: &Shrunk,
) -> Result<Written, String> {
    let no = |e: std::io::Error| {
        format!("{}: {e}; choose a folder with --record FOLDER", folder.display())
    };
    fs::create_dir_all(folder).map_err(no)?;
    let recording = folder.join("recording.toml");
    let text = Recording::new(source, small.case.clone(), &small.finding).text()?;
    fs::write(&recording, text).map_err(no)?;
    let (outcome, _) = quietly(|| campaign::repeat(subject, &small.case));
    for (link, octets) in &outcome.captures {
        fs::write(folder.join(file_name(link)), octets).map_err(no)?;
    }
    Ok(Written { recording, captures: outcome.captures.len() })
}

/// The capture of a link: its name, with what a file system might not like
/// replaced.
fn file_name(link: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    format!("{}.pcapng", link.chars().map(plain).collect::<String>())
}

/// Repeats a recording: 1 if the same broke again, 0 if nothing did.
pub fn repeat(path: &Path, text: &str) -> ExitCode {
    let stdout = &mut std::io::stdout();
    let paint = Paint::for_stream(stdout);
    let (recording, subject) = match read(text) {
        Ok(read) => read,
        Err(e) => {
            return answer::wrong(&format!("{}: {e}", path.display()), USAGE);
        }
    };
    let (outcome, _) = quietly(|| campaign::repeat(&subject, &recording.case));
    print(&text::repeated(paint, &recording, &names(&subject), &outcome));
    if outcome.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FOUND) }
}

fn read(text: &str) -> Result<(Recording, TopologySubject), String> {
    let recording = Recording::parse(text)?;
    let source = recording.source();
    let mut files = |name: &str| {
        source.files.get(name).cloned().ok_or_else(|| format!("`{name}` is not in the recording"))
    };
    let variant = source.variant.as_deref();
    let topology = Topology::parse(&source.file, &source.text, &mut files, variant)
        .map_err(|e| e.to_string())?;
    let length = Duration::from_nanos(recording.case.length_ns);
    Ok((recording, TopologySubject::new(topology, length)))
}
