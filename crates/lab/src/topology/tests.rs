//! Tests of topologies: their meaning, their errors, and runs of those shipped.

use super::*;
use crate::host::Outcome;

fn shipped(name: &str, variant: Option<&str>) -> Topology {
    let shipped = Shipped::named(name).expect("a shipped topology");
    shipped.topology(variant).unwrap_or_else(|e| panic!("{e}"))
}

fn run(topology: &Topology, seed: u64, millis: u64) -> Lab {
    let setting = Setting { seed, length: Duration::from_millis(millis) };
    let mut lab = topology.build(setting).unwrap_or_else(|e| panic!("{e}"));
    lab.network.advance(Instant::ZERO + setting.length);
    assert!(lab.finish(), "{} does not come to rest", topology.name);
    assert_eq!(lab.findings.all(), [], "{}", topology.name);
    lab
}

const GOOD: &str = r#"
name = "pair"
[node.gw.config]
port = [{ name = "a" }, { name = "b" }]
interface = [
    { port = "a", address = ["10.1.0.1/24"] },
    { port = "b", address = ["10.2.0.1/24"] },
]
[host.h1]
address = ["10.1.0.2/24"]
gateway = ["10.1.0.1"]
[host.h2]
address = ["10.2.0.2/24"]
gateway = ["10.2.0.1"]
[[link]]
ends = ["h1", "gw:a"]
[[link]]
ends = ["h2", "gw:b"]
rate = "1Gbit/s"
[[traffic]]
kind = "ping"
from = "h1"
to = "h2"
"#;

/// A change of the good topology, and what is said about it: line, what, remedy.
const BAD: &[(&str, &str, &str, &str, &str, &str)] = &[
    (
        "unknown node",
        r#"["h2", "gw:b"]"#,
        r#"["h2", "gv:b"]"#,
        r#""gv:b""#,
        "no node or host `gv`",
        "did you mean `gw`?",
    ),
    (
        "port twice",
        r#""gw:b"]"#,
        r#""gw:a"]"#,
        r#"["h2", "gw:a"]"#,
        "`gw:a` has a link already: h1-gw",
        "a port takes one link",
    ),
    (
        "port not linked",
        r#"{ name = "b" }"#,
        r#"{ name = "b" }, { name = "c" }"#,
        "[node.gw.config]",
        "port `c` of node `gw` has no link",
        "add a [[link]] with ends = [\"gw:c\"",
    ),
    (
        "host without address",
        "address = [\"10.1.0.2/24\"]\n",
        "",
        "[host.h1]",
        "host `h1` has no address",
        "add address =",
    ),
    (
        "unknown key",
        "rate = \"1Gbit/s\"",
        "rat = \"1Gbit/s\"",
        "rat =",
        "unknown key `rat` in a link",
        "did you mean `rate`?",
    ),
    ("bad rate", "1Gbit/s", "1Gb", "\"1Gb\"", "`1Gb` is no rate", "write it as 1Gbit/s"),
    (
        "bad delay",
        "rate = \"1Gbit/s\"",
        "delay = \"5m\"",
        "\"5m\"",
        "`5m` is no time",
        "write it as 250us",
    ),
    (
        "no port named",
        "\"gw:b\"",
        "\"gw\"",
        "\"gw\"]",
        "node `gw` without a port",
        "write \"gw:a\"; its ports: a, b",
    ),
    ("unknown port", "\"gw:b\"", "\"gw:x\"", "\"gw:x\"", "no port of gw `x`", "there are a, b"),
    ("unknown host", "to = \"h2\"", "to = \"h3\"", "to = \"h3\"", "no host `h3`", "did you mean"),
    (
        "unknown kind",
        "\"ping\"",
        "\"pong\"",
        "\"pong\"",
        "no kind of traffic `pong`",
        "did you mean `ping`?",
    ),
    (
        "gateway elsewhere",
        "gateway = [\"10.2.0.1\"]",
        "gateway = [\"10.3.0.1\"]",
        "10.3.0.1",
        "cannot reach its gateway",
        "name a router in the network",
    ),
    (
        "a driver",
        "{ name = \"b\" }",
        "{ name = \"b\", driver = \"tap\", device = \"x\" }",
        "\"tap\"",
        "port `b` stands on a link",
        "take driver and device out",
    ),
    (
        "inside a node",
        "{ port = \"b\", address",
        "{ port = \"x\", address",
        "\"x\"",
        "there is no port `x`",
        "there are a, b",
    ),
    (
        "unknown key of a node",
        "{ port = \"b\", address",
        "{ port = \"b\", adress",
        "adress",
        "unknown field `adress`",
        "expected",
    ),
    (
        "no config",
        "[node.gw.config]",
        "[node.gx]\nconfig = \"gx.toml\"\n[node.gw.config]",
        "gx.toml",
        "`gx.toml` cannot be read",
        "name a file beside",
    ),
    (
        "name twice",
        "[host.h2]",
        "[host.gw]",
        "[host.gw]",
        "`gw` is a node, too",
        "give each a name of its own",
    ),
    (
        "a file key",
        "interface = [",
        "tunnel = [{ name = \"t\", local = \"10.1.0.1\", remote = \"10.1.0.9\", suite = \"aes-gcm-128\", out = { spi = 300, key = \"x.key\" }, in = { spi = 301, key = \"lab:y\" } }]\ninterface = [",
        "x.key",
        "`x.key` is no key of the laboratory",
        "name it `lab:WORD`",
    ),
];

#[test]
fn topology_errors_have_file_line_and_remedy() {
    Topology::parse("good.toml", GOOD, &mut NoFiles, None).unwrap_or_else(|e| panic!("{e}"));
    for (case, from, to, place, what, remedy) in BAD {
        assert!(GOOD.contains(from), "{case}");
        let at = GOOD.rfind(from).expect("it is there");
        let text = format!("{}{to}{}", &GOOD[..at], &GOOD[at + from.len()..]);
        let error = Topology::parse("bad.toml", &text, &mut NoFiles, None).err();
        let error = error.unwrap_or_else(|| panic!("{case} is not noticed")).to_string();
        let line = text.lines().position(|line| line.contains(place)).expect(case) + 1;
        assert!(error.contains(&format!("bad.toml:{line}:")), "{case}: line {line}\n{error}");
        assert!(error.contains(what) && error.contains(remedy), "{case}:\n{error}");
    }
}

#[test]
fn topology_errors_come_all_at_once() {
    let text = GOOD
        .replace("rate = \"1Gbit/s\"", "rate = \"fast\"\nquue = 3")
        .replace("[[traffic]]", "[[traffic]]\nsize = 3")
        .replace("10.1.0.2/24", "10.1.0.2")
        .replace("\"h2\"\n", "\"hh\"\n");
    let error = Topology::parse("bad.toml", &text, &mut NoFiles, None).expect_err("four things");
    let whats = ["`fast`", "`quue`", "`10.1.0.2`", "`hh`"];
    let text = error.to_string();
    assert!(whats.iter().all(|what| text.contains(what)), "{text}");
    assert!(error.files[0].problems.len() >= 4);
}

#[test]
fn topology_errors_inside_a_nodes_inline_configuration_come_all_at_once() {
    let text = GOOD
        .replace("{ port = \"b\", address", "{ port = \"b\", adress")
        .replace("{ name = \"b\" }", "{ name = \"b\", colour = 3 }")
        .replace("rate = \"1Gbit/s\"", "rate = \"fast\"");
    let error = Topology::parse("bad.toml", &text, &mut NoFiles, None).expect_err("three things");
    let said = error.to_string();
    for (what, place) in [("`adress`", "adress"), ("`colour`", "colour"), ("`fast`", "fast")] {
        let line = text.lines().position(|line| line.contains(place)).expect(place) + 1;
        let found = said.lines().find(|l| l.contains(what)).unwrap_or_else(|| panic!("{said}"));
        assert!(found.starts_with(&format!("bad.toml:{line}:")), "{found}");
    }
}

#[test]
fn topology_reads_configurations_beside_it_and_says_what_is_wrong_in_them() {
    let text = GOOD.replace("[node.gw.config]\nport", "[node.gw]\nconfig = \"gw.toml\"\n[x]\nport");
    let text = {
        let from = text.find("[x]").expect("there");
        let to = text.find("[host.h1]").expect("there");
        format!("{}{}", &text[..from], &text[to..])
    };
    let inner = "port = [{ name = \"a\" }, { name = \"b\" }]\n\
                 interface = [{ port = \"a\", address = [\"10.1.0.1/24\"] },\n\
                 { port = \"b\", address = [\"10.2.0.1/24\"] }]\n";
    let mut files = |name: &str| match name {
        "gw.toml" => Ok(inner.to_owned()),
        _ => Err(format!("no {name}")),
    };
    let topology =
        Topology::parse("t.toml", &text, &mut files, None).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(topology.nodes[0].config.interfaces.len(), 2);
    let mut files = |_: &str| Ok(inner.replace("10.2.0.1/24", "10.2.0.1"));
    let error =
        Topology::parse("t.toml", &text, &mut files, None).expect_err("a length is missing");
    assert!(error.to_string().starts_with("gw.toml:3:"), "{error}");
}

#[test]
fn shipped_topologies_carry_all_their_traffic_and_keep_every_invariant() {
    for entry in SHIPPED {
        let variants = Topology::variants(entry.file, entry.text).expect("it is read");
        let mut wanted: Vec<Option<String>> = variants.into_iter().map(|(v, _)| Some(v)).collect();
        if wanted.is_empty() {
            wanted.push(None);
        }
        for variant in wanted {
            let topology = shipped(entry.name, variant.as_deref());
            let millis = topology.runs_for.as_millis() as u64;
            let mut lab = run(&topology, 1, millis);
            for (at, outcome) in lab.outcomes().into_iter().enumerate() {
                let name = topology.traffic_name(at);
                let outcome = outcome.unwrap_or_else(|| panic!("{name}: nobody counted"));
                assert!(outcome.is_whole(), "{} {variant:?}: {name}: {outcome:?}", entry.name);
            }
        }
    }
}

#[test]
fn two_gateways_seal_everything_on_the_outside_link() {
    let topology = shipped("two-gateways", None);
    assert!(topology.links[1].outside);
    let mut lab = run(&topology, 3, 400);
    assert!(lab.nonces.noted() > 100, "something was sealed");
    let Some(Outcome::Udp(udp)) = lab.outcomes()[2] else { panic!("datagrams") };
    // 1000 octets at 50 Mbit/s from 200 ms to 400 ms.
    assert_eq!((udp.sent, udp.received), (1250, 1250));
    assert!(udp.latency.min > Duration::from_micros(1010), "{udp:?}");
    let open = Topology {
        nodes: topology
            .nodes
            .iter()
            .cloned()
            .map(|mut node| {
                for policy in &mut node.config.policies {
                    policy.action = ferrule_node::config::PolicyAction::Bypass;
                }
                node
            })
            .collect(),
        ..topology
    };
    let setting = Setting { seed: 3, length: Duration::from_millis(400) };
    let mut lab = open.build(setting).expect("it builds");
    lab.run();
    assert!(lab.findings.first().is_some_and(|f| f.to_string().contains("in clear")));
}

#[test]
fn two_sites_frames_have_the_studys_sizes_on_the_core() {
    let sizes = [("plain", 1022), ("macsec", 1054), ("esp-cbc-sha1", 1084), ("esp-gcm", 1072)];
    for (variant, size) in sizes {
        let topology = shipped("two-sites", Some(variant));
        let link = topology.links.iter().position(|l| l.name == "p-pe2").expect("the core link");
        let only = Topology { traffic: topology.traffic[..1].to_vec(), ..topology };
        let lab = run(&only, 1, 1200);
        let lane = lab.network.link_stats(lab.links[link]).forward.delivered;
        // A thousand frames, and what hosts and gateways ask each other.
        let octets = lane.octets - 1000 * size;
        assert!(lane.packets >= 1000 && octets < 3000, "{variant}: {lane:?}");
    }
}

#[test]
fn pseudowires_whose_ends_differ_are_refused() {
    let text = Shipped::named("two-sites").expect("a shipped topology").text;
    let label = "label-in = 17002, label-out = 17001";
    let cases = [
        (format!("{label}, control-word = false"), "without a control word at node `pe2`"),
        (format!("{label}, mode = \"tagged\""), "in tagged mode at node `pe2`"),
        (label.replace("17001", "17009"), ""),
    ];
    for (pe2, what) in cases {
        let changed = text.replace(label, &pe2);
        let error = Topology::parse("two-sites.toml", &changed, &mut NoFiles, None).err();
        let error = error.map_or(String::new(), |e| e.to_string());
        assert!(error.contains(what), "{error}");
        assert_eq!(error.is_empty(), what.is_empty(), "{pe2}: {error}");
        let line = 1 + text.lines().position(|line| line.starts_with("[node.pe2")).unwrap();
        assert!(
            what.is_empty() || error.starts_with(&format!("two-sites.toml:{line}:")),
            "{error}"
        );
    }
    let narrow = text.replace(
        "[node.pe2.config]\nport = [{ name = \"ac\", mtu = 1600 }",
        "[node.pe2.config]\nport = [{ name = \"ac\", mtu = 1500 }",
    );
    let error = Topology::parse("two-sites.toml", &narrow, &mut NoFiles, None).unwrap_err();
    for part in ["with mtu = 1600 at its port at node `pe1`", "mtu = 1500", "RFC 4447"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn one_seed_gives_the_same_capture_and_the_same_counts_twice() {
    let mut topology = shipped("two-sites", Some("esp-gcm"));
    let rules = &mut topology.links[2].spec.impairments;
    (rules.loss, rules.reorder, rules.duplicate) = (0.02, 0.02, 0.02);
    let once = |seed: u64| {
        let setting = Setting { seed, length: Duration::from_millis(400) };
        let mut lab = topology.build(setting).expect("it builds");
        let tap = lab.network.tap(lab.links[2], None).expect("a link");
        lab.run();
        (lab.network.take_capture(tap), lab.outcomes())
    };
    let (first, again, other) = (once(7), once(7), once(8));
    assert!(first.0.len() > 100_000, "something was captured");
    assert!(first == again, "the same seed");
    assert!(first.0 != other.0, "another seed");
}

#[test]
fn disturbances_happen_when_the_topology_says() {
    let text = format!(
        "{GOOD}\n[[disturb]]\nat = \"500ms\"\nfor = \"100ms\"\nlink = \"h2-gw\"\ndown = true\n"
    );
    let topology = Topology::parse("t.toml", &text, &mut NoFiles, None).expect("it is right");
    let setting = Setting { seed: 1, length: Duration::from_secs(1) };
    let mut lab = topology.build(setting).expect("it builds");
    lab.run();
    let Some(Outcome::Ping(ping)) = lab.outcomes()[0] else { panic!("a ping") };
    // One every 10 ms from 200 ms on; ten of them meet a link that is down.
    assert_eq!((ping.sent, ping.sent - ping.received), (80, 10));
}

#[test]
fn live_configuration_stands_on_devices_and_key_files() {
    let topology = shipped("ten-nodes", None);
    let folder = std::path::Path::new("/run/lab");
    let setting = live::LiveSetting { folder, driver: "af-packet" };
    for node in &topology.nodes {
        let text = node.live(&setting, None);
        assert!(!text.contains("lab:"), "{text}");
        let mut asked = Vec::new();
        let mut keys = |path: &str| {
            asked.push(path.to_owned());
            let known = topology
                .keys()
                .into_iter()
                .find(|key| setting.key(&key.name).display().to_string() == path);
            let words = known.ok_or_else(|| format!("no key {path}"))?.words;
            let words: Vec<_> =
                words.iter().map(|(w, len)| (w.as_str(), vec![asked.len() as u8; *len])).collect();
            Ok(key_file(words.into_iter()))
        };
        let config =
            Config::parse("live.toml", &text, &mut keys).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(config.name, node.name);
        assert_eq!(config.state.is_some(), !asked.is_empty(), "{text}");
        assert!(!config.lab && config.control.is_some());
        let devices = config.ports.iter().map(|p| (p.driver.name(), p.driver.device()));
        assert!(devices.zip(&config.ports).all(|(d, p)| d == ("af-packet", Some(p.name.as_str()))));
    }
    let notes = topology.only_virtual(&[]);
    assert!(notes.iter().any(|note| note.contains("rate, delay")), "{notes:?}");
    let all: Vec<usize> = (0..topology.links.len()).collect();
    assert!(topology.only_virtual(&all).is_empty(), "wires carry them all");
}

#[test]
fn keys_on_a_token_are_no_files_and_have_their_rest_beside_them() {
    let topology = shipped("token-gateway", None);
    let setting = live::LiveSetting { folder: "/run/lab".as_ref(), driver: "af-packet" };
    let token = live::LiveToken { module: "/m.so", label: "t", pin_file: "/run/lab/pin".as_ref() };
    let text = topology.nodes[0].live(&setting, Some(&token));
    for word in ["/m.so", "/run/lab/pin", "token:gw1-to-gw2", "/run/lab/gw1-to-gw2.rest"] {
        assert!(text.contains(&format!("\"{word}\"")), "{word} in {text}");
    }
    assert_eq!(topology.nodes[0].on_token, [("gw1-to-gw2".into(), 16), ("gw2-to-gw1".into(), 16)]);
    let keys = topology.keys();
    for key in &keys {
        let words: Vec<_> = key.words.iter().map(|(word, _)| word.as_str()).collect();
        assert_eq!(words.contains(&"cipher"), !key.rest, "{key:?}");
    }
    assert_eq!(keys.iter().filter(|key| key.rest).count(), 2, "of the node with the token");
    assert_eq!(keys.len(), 4, "and whole files of the other");
}
