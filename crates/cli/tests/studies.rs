//! `ferrule study list`: what the papers show, reproduced or not, before anything runs.

use std::process::Command;

fn list(words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrule"));
    let done = command.args(["study", "list"]).args(words).output().expect("the program");
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).expect("text")
}

#[test]
fn study_list_shows_what_waits_beside_what_is_there() {
    let text = list(&[]);
    for words in
        ["macsec-mobility", "table 7", "waits: wireless stations", "model, live", "drawing"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn study_list_gives_programs_the_same() {
    let all: serde_json::Value = serde_json::from_str(&list(&["--json"])).expect("JSON");
    let all = all.as_array().expect("a list");
    assert_eq!(all.len(), 5);
    for study in all {
        let items = study["inventory"].as_array().expect("a list");
        assert!(items.len() > 10 && study["missing"].is_array(), "{study}");
        let states = ["reproduced", "waits", "drawing"];
        let known = |state: &serde_json::Value| states.iter().any(|known| state == known);
        assert!(items.iter().all(|item| known(&item["state"])), "{study}");
    }
    let item = |place: &str| {
        let items = all[0]["inventory"].as_array().expect("a list");
        items.iter().find(|item| item["place"] == place).cloned().expect("an item")
    };
    assert_eq!(item("table 1")["state"], "reproduced");
    assert_eq!(item("table 7")["state"], "waits");
}

#[test]
fn study_says_the_seed_that_its_model_drew_from() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ferrule"));
    let words = ["study", "acl-mpls", "--quick", "--json", "--seed", "7"];
    let done = command.args(words).output().expect("the program");
    let read: serde_json::Value = serde_json::from_slice(&done.stdout).expect("a report");
    let report = &read["report"];
    let all = report["circumstances"].as_array().expect("circumstances");
    let seed = all.iter().find(|of| of["name"] == "seed").expect("the seed");
    assert!(seed["value"].as_str().is_some_and(|value| value.starts_with("7, ")), "{seed}");
    assert!(report["command"].as_str().is_some_and(|words| words.ends_with("--seed 7")));
}
