//! Sources of the models that pages carry as wasm32: the sum of them stands beside what was built,
//! so that a change of one without the other is seen.

use std::{fs, io, path::Path};

/// The file with the sum of the sources that `web/report/models.wasm` was built of.
pub const SUM: &str = "web/report/models.sum";
/// Folders of the sources.
const SOURCES: [&str; 2] = ["crates/formulas/src", "web/models/src"];

/// The sum of the sources as they are: FNV-1a over names and text, in order.
pub fn sum(top: &Path) -> io::Result<String> {
    let mut files = Vec::new();
    for folder in SOURCES {
        for entry in fs::read_dir(top.join(folder))? {
            files.push(entry?.path());
        }
    }
    files.sort();
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    for file in files {
        let name = file.strip_prefix(top).unwrap_or(&file).to_string_lossy().into_owned();
        let text = fs::read(&file)?;
        for octet in name.bytes().chain([0]).chain(text) {
            sum = (sum ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    Ok(format!("{sum:016x}"))
}
