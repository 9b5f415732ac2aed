//! Configurations in `examples/` are what `ferrule check` accepts.

use std::path::Path;
use std::process::Command;

#[test]
fn examples_are_accepted() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("examples") {
        let path = entry.expect("an entry").path();
        // How to run parts on a cluster is tried in tests/live/cluster.py.
        if path.extension().is_none_or(|end| end != "toml") {
            continue;
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_ferrule"));
        let said = command.args(["check", "--only-file"]).arg(&path).output().expect("it runs");
        let fault = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success(), "{}: {fault}", path.display());
        count += 1;
    }
    assert!(count >= 3, "{count} examples");
}
