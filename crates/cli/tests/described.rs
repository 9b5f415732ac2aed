//! The configuration's description: the copies in docs/ are those of the program, and every
//! configuration that it ships or writes fits its schema.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn said(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrule"));
    let said = command.args(arguments).output().expect("it runs");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8(said.stdout).expect("text")
}

#[test]
fn docs_have_the_schema_and_the_reference_of_the_program() {
    for (file, arguments) in [
        ("docs/ferrule.schema.json", ["config", "schema"]),
        ("docs/configuration.md", ["config", "reference"]),
    ] {
        let kept = std::fs::read_to_string(top().join(file)).unwrap_or_default();
        let same = kept == said(&arguments);
        assert!(same, "{file} is old: ferrule {} > {file}", arguments.join(" "));
    }
}

/// Places of a file that do not fit the schema.
fn misfits(name: &str, table: &toml::Table) -> Vec<String> {
    let schema: Value = serde_json::from_str(&said(&["config", "schema"])).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a JSON Schema");
    let object = serde_json::to_value(table).expect("JSON");
    let each = validator.iter_errors(&object);
    each.map(|e| format!("{name}: {}: {e}", e.instance_path())).collect()
}

fn read(path: &Path) -> toml::Table {
    let text = std::fs::read_to_string(path).expect("a file");
    text.parse().unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn tomls(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect()
}

#[test]
fn examples_fit_the_schema() {
    let all = tomls(&top().join("examples"));
    assert!(all.len() >= 4, "{all:?}");
    let wrong: Vec<_> =
        all.iter().flat_map(|path| misfits(&path.display().to_string(), &read(path))).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn nodes_of_topologies_fit_the_schema() {
    let (mut count, mut wrong) = (0, Vec::new());
    for path in tomls(&top().join("topologies")) {
        let file = read(&path);
        for (name, node) in file.get("node").and_then(|n| n.as_table()).into_iter().flatten() {
            let mut node = node.as_table().expect("a table").clone();
            // The laboratory's own words for a node.
            ["config", "profile", "x", "y"].into_iter().for_each(|key| drop(node.remove(key)));
            wrong.extend(misfits(&format!("{}: {name}", path.display()), &node));
            count += 1;
        }
    }
    assert!(wrong.is_empty() && count > 20, "{count}: {wrong:#?}");
}

#[test]
fn configurations_that_init_writes_fit_the_schema() {
    let folder = std::env::temp_dir().join(format!("ferrule-described-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    for kind in ["gateway", "host", "ce", "pe"] {
        let place = folder.join(kind);
        let mut command = Command::new(env!("CARGO_BIN_EXE_ferrule"));
        command.args(["init", kind, "--pair", "--dir"]).arg(&place);
        command.env("FERRULE_USED_KEYS", folder.join("used-keys"));
        let done = command.output().expect("it runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let files = tomls(&place);
        assert_eq!(files.len(), 2, "{kind}");
        for path in files {
            let wrong = misfits(&path.display().to_string(), &read(&path));
            assert!(wrong.is_empty(), "{wrong:#?}");
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
}
