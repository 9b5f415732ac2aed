//! The house as a whole: arrows between crates and between their folders, and the picture of
//! them. Each rule is shown on a small bad example, too.

use std::{collections::BTreeMap, fs, path::PathBuf};
use xtask::{
    Finding, Source, closure,
    drawing::{self, Room},
    manifest::{self, Lock},
    models, siblings, source,
};

fn top() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the tree")
}

fn manifests() -> BTreeMap<String, String> {
    manifest::crates(&top()).expect("manifests")
}

fn none(findings: Vec<Finding>) {
    let lines: Vec<_> = findings.iter().map(Finding::to_string).collect();
    assert!(lines.is_empty(), "{} findings\n{}", lines.len(), lines.join("\n"));
}

#[test]
fn tidy_folders_beside_one_another_keep_apart() {
    let tree = source::tree(&top()).expect("readable sources");
    assert!(siblings::arrows(&tree).len() > 30, "{:?}", siblings::arrows(&tree));
    none(siblings::siblings(&tree, siblings::EXCEPTIONS));
}

#[test]
fn tidy_pure_crates_depend_on_pure_ones() {
    none(closure::crates(&manifests(), closure::EXCEPTIONS));
}

#[test]
fn tidy_others_packages_bring_no_system_into_pure_crates() {
    let lock = fs::read_to_string(top().join("Cargo.lock")).expect("the lock file");
    none(closure::packages(&manifests(), &Lock::new(&lock)));
}

/// The list in `scripts/test.sh`, which is built for wasm32.
#[test]
fn tidy_crates_without_a_system_are_built_without_one() {
    let script = fs::read_to_string(top().join("scripts/test.sh")).expect("the script");
    let list = script.split_once("pure=(").expect("its list").1;
    let mut built: Vec<&str> = list.split(')').next().expect("its end").split(' ').collect();
    let mut pure = closure::without_system(&manifests());
    built.sort_unstable();
    pure.sort_unstable();
    assert_eq!(built, pure);
}

#[test]
fn tidy_the_drawing_of_the_crates_is_todays() {
    let page = fs::read_to_string(top().join(drawing::PAGE)).expect("the page");
    let rooms = drawing::rooms(&top()).expect("the crates");
    let drawn = drawing::redraw(&page, &rooms).expect("a place for the drawing");
    assert!(drawn == page, "cargo run -q -p xtask -- draw\n{}", drawing::draw(&rooms));
}

#[test]
fn tidy_models_that_pages_carry_are_of_todays_sources() {
    let built = fs::read_to_string(top().join(models::SUM)).expect("the sum");
    let todays = models::sum(&top()).expect("the sources");
    assert_eq!(built.trim(), todays, "scripts/models.sh builds web/report/models.wasm anew");
}

// ---- each rule can fail ------------------------------------------------------

#[test]
fn rule_siblings_finds_protocols_that_import_one_another() {
    let tree = [
        Source::new("crates/dataplane/src/lib.rs", "pub use self::{tables::Tables};\n"),
        Source::new("crates/dataplane/src/acl/mod.rs", "use crate::{classify::Tree, mss};\n"),
        Source::new("crates/dataplane/src/acl/stage.rs", "use super::super::link::Exit;\n"),
        Source::new("crates/dataplane/src/classify/mod.rs", "use super::acl_mpls;\n"),
        Source::new("crates/dataplane/src/link/mod.rs", "// crate::acl\nuse super::link::tests;\n"),
        Source::new("crates/dataplane/src/link/tests/mod.rs", "use crate::acl::Acl;\n"),
    ];
    let found = siblings::siblings(&tree, &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].what.contains("`acl` imports `link`"), "{found:?}");
    assert_eq!(siblings::siblings(&tree, &[("dataplane", "acl", "link")]), []);
    let loose = siblings::siblings(&tree, &[("dataplane", "acl", "link"), ("node", "a", "b")]);
    assert_eq!(loose.len(), 1, "{loose:?}");
}

#[test]
fn rule_siblings_finds_circles_through_names_that_are_handed_on() {
    let tree = [
        Source::new("crates/node/src/lib.rs", "mod a;\npub use a::{One, Two as Second};\n"),
        Source::new("crates/node/src/a.rs", "use crate::b::Three;\n"),
        Source::new("crates/node/src/a/x.rs", ""),
        Source::new("crates/node/src/b/mod.rs", "fn f(_: crate::c::Four) {}\n"),
        Source::new("crates/node/src/c/mod.rs", "use crate::{Second};\n"),
        Source::new("crates/node/src/d/mod.rs", "use crate::One;\n"),
    ];
    let found = siblings::siblings(&tree, &[]);
    let paths: Vec<&str> = found.iter().map(|f| f.path.as_str()).collect();
    assert_eq!(
        paths,
        ["crates/node/src/a.rs", "crates/node/src/b/mod.rs", "crates/node/src/c/mod.rs"]
    );
}

fn manifests_of(of: &[(&str, &str)]) -> BTreeMap<String, String> {
    of.iter().map(|(name, text)| ((*name).into(), format!("[dependencies]\n{text}"))).collect()
}

#[test]
fn rule_closure_finds_a_system_crate_below_a_pure_one() {
    let tree = manifests_of(&[
        ("node", "ferrule-ports.workspace = true\n"),
        ("lab", "ferrule-node.workspace = true\n"),
        ("wire", "zerocopy = \"1\"\n"),
    ]);
    let found = closure::crates(&tree, &[]);
    assert_eq!(found.iter().map(|f| f.line).collect::<Vec<_>>(), [2], "{found:?}");
    assert_eq!(closure::crates(&tree, &[("node", "ports")]), []);
    assert_eq!(closure::crates(&tree, &[("node", "ports"), ("wire", "ports")]).len(), 1);
    let apart = closure::without_system(&tree);
    assert!(apart.contains(&"wire") && !apart.contains(&"node") && !apart.contains(&"lab"));
}

#[test]
fn rule_closure_finds_a_package_that_brings_the_system_along() {
    let package = |name: &str, version: &str, uses: &str| {
        format!(
            "[[package]]\nname = \"{name}\"\nversion = \"{version}\"\ndependencies = [\n{uses}]\n\n"
        )
    };
    let lock = package("ferrule-wire", "0.1.0", " \"zerocopy\",\n \"proptest\",\n")
        + &package("zerocopy", "1.0.0", " \"dice 2.0.0\",\n")
        + &package("proptest", "1.0.0", " \"rand\",\n")
        + &package("dice", "1.0.0", " \"libc\",\n")
        + &package("dice", "2.0.0", " \"getrandom\",\n")
        + &package("getrandom", "0.3.0", "")
        + &package("libc", "0.2.0", "");
    let tree =
        manifests_of(&[("wire", "zerocopy = \"1\"\n[dev-dependencies]\nproptest = \"1\"\n")]);
    let found = closure::packages(&tree, &Lock::new(&lock));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].what.ends_with("zerocopy 1.0.0 -> dice 2.0.0 -> getrandom 0.3.0"),
        "{found:?}"
    );
}

#[test]
fn the_drawing_has_an_arrow_for_each_dependency() {
    let room = |name: &str, uses: &str| {
        let uses: String = uses.split(' ').map(|u| format!("ferrule-{u} = \"1\"\n")).collect();
        Room::new(name, &format!("[dependencies]\n{uses}"), "//! Words:\n//! all.\n")
    };
    let rooms = [room("ground", ""), room("tower", "hall ground"), room("hall", "ground")];
    assert_eq!(drawing::draw(&rooms), "tower──●──○\n    hall──●\n     ground\n");
    assert_eq!(drawing::purposes(&rooms[1..2]), "tower * Words: all\n");
    let long = Room::new("wire", "", &format!("//! {}\n", "many words ".repeat(10)));
    let lines = drawing::purposes(&[long]);
    assert!(lines.lines().count() == 2 && lines.lines().all(|l| l.len() <= 90), "{lines}");
    assert_eq!(drawing::redraw("no place", &rooms), None);
}
