//! `docs/attacks.md` lists these attacks, all of them, with the reasons that their tests
//! show.

use ferrule_base::DropReason;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Every test of this folder but these here, with its text.
fn tests() -> BTreeMap<String, String> {
    let folder = root().join("crates/node/tests/attacks");
    let listed = read(&folder.join("main.rs"));
    let mut tests = BTreeMap::new();
    for file in std::fs::read_dir(&folder).expect("the folder") {
        let path = file.expect("a file").path();
        let stem = path.file_stem().and_then(|s| s.to_str()).expect("a name").to_owned();
        if stem == "main" || stem == "page" {
            continue;
        }
        assert!(listed.contains(&format!("mod {stem};")), "main.rs leaves {stem} out");
        let text = read(&path);
        for test in text.split("#[test]\nfn ").skip(1) {
            let (name, rest) = test.split_once('(').expect("a function");
            let body = rest.split("\n}\n").next().expect("a body");
            tests.insert(name.to_owned(), body.to_owned());
        }
    }
    tests
}

/// Rows of the page: test, and the drop reasons that stand in the column for them.
fn rows(page: &str) -> BTreeMap<String, Vec<String>> {
    let words = |cell: &str| -> Vec<String> {
        cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let mut rows = BTreeMap::new();
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [attack, reasons, test, source] = cells[..] else { panic!("four columns: {line}") };
        let [test] = &words(test)[..] else { continue };
        assert!(![attack, reasons, source].contains(&""), "{line}");
        assert!(rows.insert(test.clone(), words(reasons)).is_none(), "{test} twice");
    }
    rows
}

#[test]
fn the_page_of_attacks_lists_every_test_and_the_reasons_that_it_shows() {
    let (tests, rows) = (tests(), rows(&read(&root().join("docs/attacks.md"))));
    let names = |map: Vec<&String>| map.into_iter().cloned().collect::<Vec<_>>();
    assert_eq!(names(rows.keys().collect()), names(tests.keys().collect()));
    for (test, reasons) in &rows {
        let body = &tests[test];
        for name in reasons {
            let reason = DropReason::ALL.iter().find(|r| r.name() == name);
            let reason = reason.unwrap_or_else(|| panic!("{test}: there is no reason {name}"));
            let shown = format!("DropReason::{reason:?}");
            assert!(body.contains(&shown), "{test} does not show {name}");
        }
        let any = body.contains("DropReason::");
        assert_eq!(any, !reasons.is_empty(), "{test} shows reasons that are not here");
    }
}
