//! The files of `specs/` against the tree, their page against them, and each rule against a
//! small bad example.

use std::{fs, path::PathBuf};
use xtask::{Finding, Source, source, specs};

fn top() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the tree")
}

fn lines(findings: &[Finding]) -> String {
    findings.iter().map(|f| format!("{f}\n")).collect()
}

#[test]
fn specs_point_to_code_and_tests_that_are_there() {
    let tree = source::tree(&top()).expect("readable sources");
    let mut findings = Vec::new();
    let texts = specs::read(&top()).expect("specs");
    assert!(!texts.is_empty(), "no standard");
    for (path, text) in &texts {
        match specs::parse(path, text) {
            Ok(standard) => findings.extend(specs::check(path, &standard, &tree)),
            Err(finding) => findings.push(finding),
        }
    }
    assert!(findings.is_empty(), "{} findings\n{}", findings.len(), lines(&findings));
}

#[test]
fn specs_are_what_their_page_shows() {
    let texts = specs::read(&top()).expect("specs");
    let read = texts.iter().map(|(path, text)| specs::parse(path, text));
    let standards: Vec<_> = read.collect::<Result<_, _>>().expect("readable specs");
    let kept = fs::read_to_string(top().join(specs::PAGE)).unwrap_or_default();
    let same = kept == specs::page(&standards);
    assert!(same, "{0} is old: cargo run -q -p xtask -- standards > {0}", specs::PAGE);
}

/// A standard of one requirement with `keys`.
fn one(keys: &str) -> String {
    format!(
        "standard = \"RFC 1\"\ntitle = \"A title\"\nscope = \"All of it.\"\n\
         [[requirement]]\nsection = \"2\"\nlevel = \"MUST\"\nsays = \"do it\"\n{keys}"
    )
}

/// Findings of a standard in a small tree.
fn found(text: &str) -> Vec<String> {
    let tree = [
        Source::new("crates/a/src/b.rs", "// fn absent\npub fn prompt() {}\nconst X: u8 = 1;\n"),
        Source::new(
            "crates/a/tests/c.rs",
            "fn help() {}\n/// Said; and done.\n#[test]\nfn shown() { help() }\n\
             fn twice() {}\non_both_engines! {\n    once;\n    twice;\n}\n",
        ),
    ];
    match specs::parse("specs/x.toml", text) {
        Ok(standard) => {
            specs::check("specs/x.toml", &standard, &tree).into_iter().map(|f| f.what).collect()
        }
        Err(finding) => vec![finding.what],
    }
}

#[test]
fn rule_specs_finds_pointers_that_lead_nowhere() {
    let met = |file: &str, item: &str, test: &str| {
        found(&one(&format!("file = \"{file}\"\nitem = \"{item}\"\ntest = \"{test}\"\n")))
    };
    let (file, test) = ("crates/a/src/b.rs", "crates/a/tests/c.rs::shown");
    assert_eq!(met(file, "prompt", test), [""; 0]);
    assert_eq!(met(file, "X", test), [""; 0]);
    assert_eq!(met(file, "X", "crates/a/tests/c.rs::twice"), [""; 0]);
    assert_eq!(met("crates/a/src/z.rs", "prompt", test).len(), 1);
    for item in ["absent", "promp", "u8", ""] {
        assert_eq!(met(file, item, test).len(), 1, "{item:?}");
    }
    for test in ["crates/a/tests/c.rs::help", "crates/a/tests/c.rs", "crates/a/tests/d.rs::shown"] {
        assert_eq!(met(file, "prompt", test).len(), 1, "{test}");
    }
}

#[test]
fn rule_specs_finds_keys_levels_and_reasons_that_are_none() {
    assert_eq!(found(&one("exception = \"a reason\"\n")), [""; 0]);
    assert_eq!(found(&one("todo = \"a test\"\n")), [""; 0]);
    let code = "todo = \"a test\"\nfile = \"crates/a/src/b.rs\"\nitem = ";
    assert_eq!(found(&one(&format!("{code}\"prompt\"\n"))), [""; 0]);
    assert_eq!(found(&one(&format!("{code}\"absent\"\n"))).len(), 1);
    for bad in [
        "",
        "exception = \" \"\n",
        "todo = \"\"\n",
        "exception = \"a\"\ntodo = \"b\"\n",
        "todo = \"a test\"\nfile = \"crates/a/src/b.rs\"\n",
        "todo = \"a test\"\nreason = \"b\"\n",
    ] {
        assert_eq!(found(&one(bad)).len(), 1, "{bad:?}");
    }
    let todo = one("todo = \"a test\"\n");
    assert_eq!(found(&todo.replace("\"MUST\"", "\"MAY\"")).len(), 1);
    assert_eq!(found(&todo.replace("do it", " ")).len(), 1);
    assert_eq!(found(&todo.replace("All of it.", "")).len(), 1);
}

#[test]
fn rule_specs_finds_sections_out_of_order() {
    let sections = |order: &[&str]| {
        let mut text = one("todo = \"a test\"\n").replace("\"2\"", &format!("{:?}", order[0]));
        for section in &order[1..] {
            text += &format!(
                "[[requirement]]\nsection = {section:?}\nlevel = \"MUST\"\nsays = \"x\"\ntodo = \"y\"\n"
            );
        }
        found(&text).len()
    };
    assert_eq!(sections(&["2", "2.1", "2.9", "2.10", "10", "A", "A2.1", "B1"]), 0);
    assert_eq!(sections(&["2.10", "2.9"]), 1);
    assert_eq!(sections(&["A1", "9"]), 1);
    assert_eq!(sections(&["2.x"]), 1);
    assert_eq!(sections(&[""]), 1);
}

#[test]
fn specs_page_counts_what_is_met_and_what_is_not() {
    let text = one("file = \"f\"\nitem = \"i\"\ntest = \"f::t\"\n")
        + "[[requirement]]\nsection = \"3\"\nlevel = \"SHOULD\"\nsays = \"x\"\nexception = \"y\"\n";
    let page = specs::page(&[specs::parse("specs/x.toml", &text).expect("a standard")]);
    assert!(page.contains("| RFC 1 | A title | 1 | 1 | 0 |\n"), "{page}");
    assert!(page.contains("- 2, MUST: do it. `i` in `f`; `t`.\n"), "{page}");
    assert!(page.contains("- 3, SHOULD: x. *y*\n"), "{page}");
    assert!(!page.contains("**To do**"), "{page}");
}
