//! Ways of the same cost as they are written, and what is wrong with them.

use crate::config::{Config, LabelAction, Via, named_key};

const NODE: &str = r#"
[node]
name = "pe"
lab = true
[[port]]
name = "core"
driver = "wire"
[[port]]
name = "site"
driver = "wire"
mtu = 1470
[[interface]]
port = "core"
address = ["10.0.1.2/24", "10.0.2.2/24"]
mpls = true
"#;

fn config(more: &str) -> Config {
    let text = format!("{NODE}{more}");
    Config::parse("pe.toml", &text, &mut named_key).unwrap_or_else(|e| panic!("{e}"))
}

fn wrong(more: &str) -> String {
    let error = Config::parse("pe.toml", &format!("{NODE}{more}"), &mut named_key);
    error.err().unwrap_or_else(|| panic!("{more} is taken")).to_string()
}

/// Next hop, labels and entropy label of each path.
fn told(via: &Via) -> Vec<(String, Vec<u32>, bool)> {
    let hop = |path: &Via| path.next_hop.expect("an address").to_string();
    via.paths().map(|path| (hop(&path), path.labels.clone(), path.entropy)).collect()
}

const TWO: &str =
    "paths = [{ via = \"10.0.1.1\", labels = [100] }, { via = \"10.0.2.1\", labels = [200] }]";

#[test]
fn paths_of_routes_lsps_and_labels_are_ways_of_one_cost() {
    let config = config(&format!(
        "[[route]]\nprefix = \"10.9.0.0/16\"\nvrf = \"red\"\nentropy-label = true\n{TWO}\n\
         [[lsp]]\nname = \"far\"\n{TWO}\n\
         [[pseudowire]]\nname = \"x\"\nport = \"site\"\nlsp = \"far\"\n\
         label-in = 800\nlabel-out = 900\n\
         [[label]]\nlabel = 300\npaths = [{{ via = \"10.0.1.1\", swap = [101] }}, \
         {{ via = \"10.0.2.1\", pop = true }}]\n"
    ));
    let paths = |entropy| {
        [("10.0.1.1", vec![100]), ("10.0.2.1", vec![200])]
            .map(|(hop, labels)| (hop.to_owned(), labels, entropy))
            .to_vec()
    };
    let route = config.routes[0].via.as_ref().expect("a way");
    assert_eq!(told(route), paths(true));
    assert_eq!(route.stack(), [100, 7]);
    assert_eq!(told(&config.pseudowires[0].via), paths(false));
    let LabelAction::Forward(label) = &config.labels[0].action else { panic!("forwarded") };
    let labels: Vec<_> = told(label).into_iter().map(|(_, labels, _)| labels).collect();
    assert_eq!(labels, [vec![101], vec![]]);
}

#[test]
fn paths_that_are_wrong_are_refused_with_place_and_remedy() {
    let route = "[[route]]\nprefix = \"10.9.0.0/16\"\n";
    let many = vec!["{ via = \"10.0.1.1\" }"; 65].join(", ");
    for (more, parts) in [
        (format!("{route}via = \"10.0.1.1\"\n{TWO}"), ["beside a way", "write all ways in paths"]),
        (format!("{route}discard = true\n{TWO}"), ["beside a way", "write all ways in paths"]),
        (format!("{route}paths = []"), ["leads nowhere", "paths"]),
        (format!("{route}paths = [{{ labels = [100] }}]"), ["leads nowhere", "add via"]),
        (format!("{route}paths = [{many}]"), ["65 ways", "at most 64"]),
        (format!("{route}paths = [{{ via = \"192.0.2.9\" }}]"), ["no interface has", "interface"]),
        (
            format!("{route}via = \"10.0.1.1\"\nentropy-label = true"),
            ["without a label above it", "leave entropy-label out"],
        ),
        (
            format!("{route}via = \"10.0.1.1\"\n{route}via = \"10.0.2.1\""),
            ["a second route", "paths has several ways"],
        ),
        (
            "[[lsp]]\nname = \"far\"\n[[pseudowire]]\nname = \"x\"\nport = \"site\"\n\
             lsp = \"far\"\nlabel-in = 800\nlabel-out = 900\n"
                .into(),
            ["leads nowhere", "add via"],
        ),
        (
            "[[label]]\nlabel = 300\npaths = [{ via = \"10.0.1.1\" }]\n".into(),
            ["what to do with it is not clear", "pop = true or swap"],
        ),
        (
            "[[label]]\nlabel = 300\nvrf = \"red\"\npaths = [{ via = \"10.0.1.1\", pop = true }]\n"
                .into(),
            ["beside a way", "write all ways in paths"],
        ),
    ] {
        let said = wrong(&more);
        assert!(parts.iter().all(|part| said.contains(part)), "{more}: {said}");
        assert!(said.contains("pe.toml:"), "{said}");
    }
}

/// A frame of 1484 octets and 4 of its label, on a link of 1500.
#[test]
fn paths_with_more_labels_than_fit_are_named() {
    let lsp = |paths: &str| {
        format!(
            "[[lsp]]\nname = \"far\"\npaths = [{paths}]\n\
             [[pseudowire]]\nname = \"x\"\nport = \"site\"\nlsp = \"far\"\n\
             label-in = 800\nlabel-out = 900\ncontrol-word = false\n"
        )
    };
    let one = "{ via = \"10.0.1.1\", labels = [100] }";
    config(&lsp(&format!("{one}, {one}")));
    let three = "{ via = \"10.0.2.1\", labels = [100, 101, 102, 103] }";
    let said = wrong(&lsp(&format!("{one}, {three}")));
    assert!(said.contains("needs an mtu of 1504"), "{said}");
}
