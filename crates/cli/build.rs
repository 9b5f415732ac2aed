//! The commit that the program is built from, for what a report says of itself.

use std::path::Path;
use std::process::Command;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let git = |words: &[&str]| {
        let done = Command::new("git").arg("-C").arg(&root).args(words).output().ok()?;
        done.status.success().then(|| String::from_utf8_lossy(&done.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    let is_changed = || git(&["diff", "--quiet", "HEAD", "--", "crates"]).is_none();
    let commit = match commit {
        Some(commit) if is_changed() => format!("{commit}, with changes"),
        Some(commit) => commit,
        None => "not built from a repository".to_owned(),
    };
    println!("cargo::rustc-env=FERRULE_COMMIT={commit}");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src");
    for path in git(&["rev-parse", "--git-path", "HEAD"]).into_iter().chain(git(&[
        "rev-parse",
        "--git-path",
        "logs/HEAD",
    ])) {
        let path = root.join(path);
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
}
