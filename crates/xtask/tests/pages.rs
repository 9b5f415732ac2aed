//! Paths that pages name are there: `crates/…/file.rs`, and `crates/…/file.rs:name` with the
//! function, type or constant that is named.

use std::fs;
use std::path::{Path, PathBuf};
use xtask::pages::below;

/// Folders in which a path of a page begins.
const ROOMS: &[&str] = &[
    "benches",
    "crates",
    "docs",
    "examples",
    "fuzz",
    "packaging",
    "peers",
    "profiles",
    "scripts",
    "specs",
    "studies",
    "tests",
    "topologies",
    "vectors",
    "web",
];

/// Words in front of the name of an item.
const KINDS: &[&str] =
    &["fn", "struct", "enum", "trait", "type", "const", "static", "mod", "macro_rules!", "def"];

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Paths in the code of a page's prose; a pattern or a placeholder is none.
fn paths(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    let code = prose.flat_map(|block| block.split('`').skip(1).step_by(2));
    code.filter(|code| {
        let begins = ROOMS.iter().any(|room| code.strip_prefix(room).is_some_and(is_below));
        begins && !code.contains(['*', '<', '{', ' ', '…', '$']) && !code.contains("NAME")
    })
    .collect()
}

fn is_below(rest: &str) -> bool {
    rest.starts_with('/')
}

/// A path as a page writes it leads nowhere; why.
fn broken(top: &Path, path: &str) -> Option<String> {
    let (file, name) = path.split_once(':').unwrap_or((path, ""));
    if !top.join(file).exists() {
        return Some(format!("{path}: no such file"));
    }
    let named = |text: String| {
        KINDS.iter().any(|kind| {
            let item = format!("{kind} {name}");
            text.match_indices(&item).any(|(at, _)| {
                let after = text[at + item.len()..].chars().next();
                after.is_none_or(|c| !c.is_alphanumeric() && c != '_')
            })
        })
    };
    let found = name.is_empty() || fs::read_to_string(top.join(file)).is_ok_and(named);
    (!found).then(|| format!("{path}: no such item"))
}

#[test]
fn paths_that_pages_name_are_there() {
    let top = top();
    let mut all = below(&top.join("docs")).expect("a folder");
    let beside = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"];
    all.extend(beside.map(|name| top.join(name)));
    let (mut wrong, mut count) = (Vec::new(), 0);
    for page in all {
        let text = fs::read_to_string(&page).expect("a page");
        for path in paths(&text) {
            count += 1;
            wrong.extend(broken(&top, path).map(|why| format!("{}: {why}", page.display())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 100, "{count} paths");
}

#[test]
fn a_path_that_leads_nowhere_is_found() {
    let text = "`crates/xtask` `crates/no/src/lib.rs` `crates/*/tests` `target/x`\n\
                ```sh\n`docs/no.md`\n```\n`crates/xtask/src/lib.rs:Finding` \
                `crates/xtask/src/lib.rs:Find` `profiles/token/NAME.toml`";
    let found: Vec<_> = paths(text).iter().filter_map(|path| broken(&top(), path)).collect();
    assert_eq!(
        found,
        ["crates/no/src/lib.rs: no such file", "crates/xtask/src/lib.rs:Find: no such item"]
    );
}
