//! Links between the pages: each leads to a file, and to a heading of it; the book has every
//! page.

use std::fs;
use std::path::{Path, PathBuf};
use xtask::pages::below;

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text without its code, in which brackets are no links.
fn prose(text: &str) -> String {
    let blocks = text.split("```").step_by(2).collect::<String>();
    let lines = blocks.lines().map(|line| {
        let kept: Vec<&str> = line.split('`').collect();
        // The text of a link may be code: `[`a`](b)` has its target outside.
        kept.iter().step_by(2).copied().collect::<Vec<_>>().join("")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Targets of links.
fn targets(text: &str) -> Vec<String> {
    let parts = text.split("](").skip(1);
    parts.filter_map(|part| part.split_once(')')).map(|(target, _)| target.to_owned()).collect()
}

/// A heading as links name it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn headings(text: &str) -> Vec<String> {
    let outside = text.split("```").step_by(2).collect::<String>();
    let lines = outside.lines().filter(|line| line.starts_with('#'));
    lines.map(|line| anchor(line.trim_start_matches('#'))).collect()
}

/// Links of a page that lead nowhere.
fn broken(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).expect("a page");
    let folder = page.parent().expect("a folder");
    let mut wrong = Vec::new();
    for target in targets(&prose(&text)) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (file, heading) = target.split_once('#').unwrap_or((&target, ""));
        let path = if file.is_empty() { page.to_owned() } else { folder.join(file) };
        if !path.exists() {
            wrong.push(format!("{}: {target}: no such file", page.display()));
        } else if !heading.is_empty() {
            let text = fs::read_to_string(&path).unwrap_or_default();
            if !headings(&text).iter().any(|known| known == heading) {
                wrong.push(format!("{}: {target}: no such heading", page.display()));
            }
        }
    }
    wrong
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut all = below(&top().join("docs")).expect("a folder");
    let beside = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];
    all.extend(beside.map(|name| top().join(name)));
    let count: usize =
        all.iter().map(|p| targets(&prose(&fs::read_to_string(p).expect("a page"))).len()).sum();
    let wrong: Vec<String> = all.iter().flat_map(|page| broken(page)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 60, "{count} links");
}

#[test]
fn the_book_has_every_page_once() {
    let folder = top().join("docs");
    let summary = fs::read_to_string(folder.join("SUMMARY.md")).expect("the book's order");
    let listed = targets(&summary);
    for page in below(&folder).expect("a folder") {
        let name = page.strip_prefix(&folder).expect("below it").display().to_string();
        let times = listed.iter().filter(|target| **target == name).count();
        assert_eq!(times, usize::from(name != "SUMMARY.md"), "{name}");
    }
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let folder = std::env::temp_dir().join(format!("ferrule-links-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let page = folder.join("page.md");
    let text = "# One `two`\n[a](#one-two) [b](#three) [c](no.md) `[d](e.md)` [`f`](page.md)\n";
    fs::write(&page, text).expect("written");
    let wrong = broken(&page);
    fs::remove_dir_all(&folder).expect("removed");
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    assert!(wrong[0].ends_with("#three: no such heading"), "{wrong:?}");
    assert!(wrong[1].ends_with("no.md: no such file"), "{wrong:?}");
}
