//! The tree against its own rules, and each rule against a small bad example.

use std::{fs, path::PathBuf};
use xtask::{Finding, Source, drops, layers, shape, source};

/// Functions that were longer than 70 lines when the rule came: `(path, function,
/// lines)`. The list only shrinks.
const LONG_FUNCTIONS: &[(&str, &str, usize)] = &[];

fn top() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the tree")
}

fn tree() -> Vec<Source> {
    let sources = source::tree(&top()).expect("readable sources");
    assert!(sources.len() > 10, "the walk found {} files", sources.len());
    sources
}

fn none(findings: Vec<Finding>) {
    let lines: Vec<_> = findings.iter().map(Finding::to_string).collect();
    assert!(lines.is_empty(), "{} findings\n{}", lines.len(), lines.join("\n"));
}

#[test]
fn tidy_files_are_short_or_say_why() {
    none(tree().iter().filter_map(shape::file_length).collect());
}

#[test]
fn tidy_functions_fit_a_screen() {
    none(shape::function_length(&tree(), LONG_FUNCTIONS));
}

#[test]
fn tidy_no_drawer_is_called_utils() {
    none(tree().iter().filter_map(shape::drawers).collect());
}

#[test]
fn tidy_nothing_is_left_for_later_in_the_code() {
    none(tree().iter().flat_map(shape::left_behind).collect());
}

#[test]
fn tidy_doc_comments_open_with_their_subject() {
    none(tree().iter().flat_map(shape::openings).collect());
}

#[test]
fn tidy_unsafe_stays_in_its_rooms() {
    let tree = tree();
    none(tree.iter().flat_map(layers::unsafe_rooms).collect());
    none(tree.iter().filter_map(layers::forbids_unsafe).collect());
}

#[test]
fn tidy_crates_use_only_what_stands_below_them() {
    let mut findings = Vec::new();
    for entry in fs::read_dir(top().join("crates")).expect("crates") {
        let folder = entry.expect("entry").path();
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
        findings.extend(layers::dependencies(&name, &manifest));
    }
    none(findings);
}

#[test]
fn tidy_pure_crates_do_not_touch_the_system() {
    none(tree().iter().flat_map(layers::purity).collect());
}

/// `make test` runs what is executable: a script that is not would be left out without a word.
#[test]
fn tidy_scripts_that_are_tests_are_run() {
    use std::os::unix::fs::PermissionsExt;
    for folder in ["tests/peers", "tests/live"] {
        for entry in fs::read_dir(top().join(folder)).expect("scripts") {
            let path = entry.expect("entry").path();
            if path.extension().is_none_or(|e| e != "py") {
                continue;
            }
            let begins = fs::read_to_string(&path).expect("a script").starts_with("#!");
            let mode = fs::metadata(&path).expect("its mode").permissions().mode();
            assert_eq!(begins, mode & 0o100 != 0, "{}: chmod +x, or no #! line", path.display());
        }
    }
}

// ---- each rule can fail ------------------------------------------------------

#[test]
fn rule_file_length_finds_a_long_file() {
    let long = "// x\n".repeat(shape::FILE_LINES_MAX + 1);
    assert!(shape::file_length(&Source::new("crates/a/src/b.rs", &long)).is_some());
    let explained = format!("//! Long because it is a table.\n{long}");
    assert_eq!(shape::file_length(&Source::new("crates/a/src/b.rs", &explained)), None);
}

#[test]
fn rule_function_length_finds_a_long_function_and_a_loose_ratchet() {
    let body = "    let _ = \"}\"; // }\n".repeat(70);
    let text =
        format!("fn short() {{}}\nfn long<'a>(x: &'a [u8; 4]) -> char {{\n{body}    '}}'\n}}\n");
    let source = [Source::new("a.rs", &text)];
    assert_eq!(shape::functions(&source[0]).len(), 2);
    let found = shape::function_length(&source, &[]);
    assert_eq!((found.len(), found[0].line), (1, 2), "{found:?}");
    assert_eq!(shape::function_length(&source, &[("a.rs", "long", 73)]), []);
    assert_eq!(shape::function_length(&source, &[("a.rs", "long", 74)]).len(), 1);
    assert_eq!(shape::function_length(&source, &[("a.rs", "gone", 74)]).len(), 2);
}

#[test]
fn rule_drawers_finds_utils() {
    for path in ["crates/a/src/utils.rs", "crates/common/src/lib.rs", "crates/a/src/helpers/x.rs"] {
        assert!(shape::drawers(&Source::new(path, "")).is_some(), "{path}");
    }
    assert_eq!(shape::drawers(&Source::new("crates/a/src/commons.rs", "")), None);
}

#[test]
fn rule_left_behind_finds_notes_and_macros_but_not_strings() {
    let note = format!("// {}: later\n", concat!("TO", "DO"));
    let found = shape::left_behind(&Source::new("a.rs", &format!("{note}fn f() {{ todo!() }}\n")));
    assert_eq!(found.iter().map(|f| f.line).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(shape::left_behind(&Source::new("a.rs", "let s = \"dbg!(x)\";")), []);
}

#[test]
fn rule_openings_finds_paragraphs_without_a_subject() {
    let bad =
        "//! What a file has.\n\n    /// A port.\n    ///\n    /// It is up.\n/// That of a\n";
    let found = shape::openings(&Source::new("a.rs", &format!("{bad}fn a() {{}}\n/// Which\n")));
    assert_eq!(found.iter().map(|f| f.line).collect::<Vec<_>>(), [1, 5, 8]);
    let good =
        "/// Items, if any.\n/// It is up.\nfn a() {}\n// What for\n/// Whose\n/// That SA\n";
    assert_eq!(shape::openings(&Source::new("a.rs", good)), []);
}

#[test]
fn rule_unsafe_rooms_finds_a_block_elsewhere() {
    let text = "// unsafe\nfn f() { unsafe { g() } }\n";
    let found = layers::unsafe_rooms(&Source::new("crates/wire/src/ip.rs", text));
    assert_eq!(found.iter().map(|f| f.line).collect::<Vec<_>>(), [2]);
    assert_eq!(layers::unsafe_rooms(&Source::new("crates/ports/src/xdp.rs", text)), []);
    assert!(layers::forbids_unsafe(&Source::new("crates/wire/src/lib.rs", "")).is_some());
    assert_eq!(layers::forbids_unsafe(&Source::new("crates/ports/src/lib.rs", "")), None);
}

#[test]
fn rule_dependencies_finds_a_wrong_direction_and_the_system() {
    let found = layers::dependencies(
        "wire",
        "[dependencies]\nferrule-base.workspace = true\nferrule-node.workspace = true\n\
         libc = \"0.2\"\n[dev-dependencies]\nferrule-crypto.workspace = true\n",
    );
    assert_eq!(found.iter().map(|f| f.line).collect::<Vec<_>>(), [3, 4], "{found:?}");
    let native = "[target.'cfg(not(target_arch = \"wasm32\"))'.dependencies]\naws-lc-rs = \"1\"\n";
    assert_eq!(layers::dependencies("crypto", native), []);
    assert_eq!(layers::dependencies("crypto", "[dependencies]\naws-lc-rs = \"1\"\n").len(), 1);
    assert_eq!(layers::dependencies("unheard-of", "").len(), 1);
}

#[test]
fn rule_purity_finds_clocks_files_and_threads() {
    let bad = "use std::{collections::BTreeMap, fs};\nfn f() { std::thread::yield_now(); }\n\
               fn g() -> u64 { Instant::now().into() }\n";
    let found = layers::purity(&Source::new("crates/node/src/a.rs", bad));
    assert_eq!(found.len(), 3, "{found:?}");
    let test = format!("fn pure() {{}}\n#[cfg(test)]\nmod tests {{\n{bad}}}\n");
    assert_eq!(layers::purity(&Source::new("crates/node/src/a.rs", &test)), []);
    assert_eq!(layers::purity(&Source::new("crates/ports/src/a.rs", bad)), []);
    let words = "use std::net::Ipv4Addr;\n/// std::fs\nconst A: &str = \"std::fs\";\n";
    assert_eq!(layers::purity(&Source::new("crates/node/src/a.rs", words)), []);
}

#[test]
fn rule_drops_finds_a_reason_that_nothing_uses() {
    let list = Source::new(drops::LIST, "reasons! {\n    A = \"a\",\n    B = \"b\",\n}\n");
    let user = Source::new("crates/dataplane/src/x.rs", "fn f() { DropReason::A }");
    let found = drops::unused(&[list.clone(), user]);
    assert_eq!(found.iter().map(|f| f.line).collect::<Vec<_>>(), [3]);
    let only_a_test = Source::new("crates/dataplane/tests/x.rs", "fn f() { DropReason::B }");
    assert_eq!(drops::unused(&[list, only_a_test]).len(), 2);
}

#[test]
fn source_blanks_comments_and_literals_and_keeps_lines() {
    let text = "let z = (\"\", \"{\"); let a = r#\"x \"y\" {\"#; /* { /* { */ */ let b = '{'; let c = '\\''; // {\nlet d: &'static str = \"\\\"{\"; let e = b'\"'; f()\n";
    let s = Source::new("a.rs", text);
    assert_eq!(s.code.len(), text.len());
    assert!(!s.code.contains('{'), "{}", s.code);
    assert!(s.code.contains("let b =") && s.code.contains("&'static str"), "{}", s.code);
    assert!(s.code.contains("f()"), "{}", s.code);
    assert_eq!(s.line_of(text.find("let d").expect("there")), 2);
}

#[test]
fn tidy_every_drop_reason_is_given_somewhere() {
    none(drops::unused(&tree()));
}
