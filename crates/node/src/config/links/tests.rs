//! Routes, labels and ways of the same cost as they are written, and what is wrong with them.

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
[[interface]]
name = "customer"
port = "core"
vlan = 9
address = ["10.3.0.1/24"]
vrf = "red"
"#;

fn config(more: &str) -> Config {
    let text = format!("{NODE}{more}");
    Config::parse("pe.toml", &text, &mut named_key).unwrap_or_else(|e| panic!("{e}"))
}

fn wrong(more: &str) -> String {
    let error = Config::parse("pe.toml", &format!("{NODE}{more}"), &mut named_key);
    error.err().unwrap_or_else(|| panic!("{more} is taken")).to_string()
}

/// All that is wrong, each as the fault and the remedy.
fn faults(more: &str) -> Vec<(String, String)> {
    let error = Config::parse("pe.toml", &format!("{NODE}{more}"), &mut named_key);
    let error = error.err().unwrap_or_else(|| panic!("{more} is taken"));
    error.problems.into_iter().map(|problem| (problem.what, problem.remedy)).collect()
}

/// Asserts that one thing is wrong, which has these parts.
fn assert_fault(more: &str, fault: &str, remedy: &str) {
    let said = faults(more);
    let is = |(what, how): &(String, String)| what.contains(fault) && how.contains(remedy);
    assert!(said.len() == 1 && is(&said[0]), "{more}: {said:?}");
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

#[test]
fn tables_that_nothing_puts_packets_into_are_refused() {
    let route = |vrf: &str, how: &str| {
        format!("[[route]]\nprefix = \"10.9.0.0/16\"\nvrf = \"{vrf}\"\n{how}\n")
    };
    let labels = "via = \"10.0.1.1\"\nlabels = [100, 200]";
    let label = |vrf: &str| format!("[[label]]\nlabel = 300\nvrf = \"{vrf}\"\n");
    let no = |name: &str| format!("no interface is in the routing table `{name}`");
    for how in [labels, "discard = true", "interface = \"customer\"", "via = \"10.3.0.9\"", TWO] {
        assert_fault(&route("rde", how), &no("rde"), "did you mean `red`?");
    }
    assert_fault(&label("Red"), &no("Red"), "did you mean `red`?");
    assert_fault(&label("customer-7"), &no("customer-7"), "interfaces have as vrf: red");
    assert_fault("[[vrf]]\nname = \"rd\"\n", &no("rd"), "did you mean `red`?");
    let twice = faults(&format!("{}{}", route("rde", labels), label("rde")));
    assert_eq!(twice.len(), 2, "{twice:?}");
    let said = wrong(&format!("\n{}", label("Red")));
    let line = NODE.lines().count() + 4;
    assert!(said.starts_with(&format!("pe.toml:{line}:7: no interface")), "{said}");
    for vrf in ["", "red"] {
        config(&format!("{}{}", route(vrf, labels), label(vrf)));
    }
}

/// Packets that a tunnel opens may leave by any interface.
#[test]
fn tables_that_tunnels_put_packets_into_need_no_interface() {
    let tunnel = "[[tunnel]]\nname = \"t\"\nlocal = \"10.0.1.2\"\nremote = \"10.0.1.1\"\n\
                  vrf = \"blue\"\nsuite = \"aes-gcm-128\"\n\
                  out = { spi = 0x1001, key = \"gcm:1\" }\nin = { spi = 0x1002, key = \"gcm:2\" }\n";
    let route = "[[route]]\nprefix = \"10.9.0.0/16\"\nvrf = \"blue\"\ninterface = \"customer\"\n";
    let label = "[[label]]\nlabel = 300\nvrf = \"blue\"\n";
    let taken = config(&format!("{tunnel}{route}{label}"));
    assert_eq!(taken.vrfs, ["", "red", "blue"]);
    assert_eq!(taken.tunnels[0].vrf, 2);
    let said = faults(&format!("{tunnel}{route}{}", label.replace("blue", "blu")));
    assert!(said.len() == 1 && said[0].1 == "did you mean `blue`?", "{said:?}");
}

#[test]
fn labels_of_pseudowires_are_those_of_the_reference() {
    let pseudowire = |label_in: u32, label_out: u32| {
        format!(
            "[[lsp]]\nname = \"far\"\nvia = \"10.0.1.1\"\n\
             [[pseudowire]]\nname = \"x\"\nport = \"site\"\nlsp = \"far\"\n\
             label-in = {label_in}\nlabel-out = {label_out}\n"
        )
    };
    for label in [16, 1_048_575] {
        config(&pseudowire(label, label));
    }
    for label in [0, 2, 3, 15, 1_048_576] {
        let remedy = "use a number from 16 to 1048575";
        assert_fault(&pseudowire(label, 800), &format!("label-in cannot be {label}"), remedy);
        assert_fault(&pseudowire(800, label), &format!("label-out cannot be {label}"), remedy);
    }
}

#[test]
fn next_hops_that_no_neighbour_can_be_are_refused() {
    for (hop, is) in [
        ("10.0.1.2", "an address of the node itself"),
        ("10.0.2.2", "an address of the node itself"),
        ("10.0.1.0", "the network's"),
        ("10.0.1.255", "the broadcast"),
        ("224.0.0.5", "no address of a host"),
        ("127.0.0.1", "no address of a host"),
        ("0.0.0.0", "no address of a host"),
    ] {
        let fault = format!("{hop} is no next hop: it is {is}");
        let hop = format!("via = \"{hop}\"\ninterface = \"core\"");
        let path = hop.replace('\n', ", ");
        for entry in [
            format!("[[route]]\nprefix = \"10.9.0.0/16\"\n{hop}"),
            format!("[[route]]\nprefix = \"10.9.0.0/16\"\nvrf = \"red\"\nlabels = [100]\n{hop}"),
            format!("[[route]]\nprefix = \"10.9.0.0/16\"\npaths = [{{ {path} }}]"),
            format!("[[label]]\nlabel = 300\npop = true\n{hop}"),
        ] {
            assert_fault(&entry, &fault, "name a neighbour's address");
        }
    }
    let route = "[[route]]\nprefix = \"10.9.0.0/16\"\nvia =";
    assert_fault(&format!("{route} \"10.0.1.2\""), "no next hop", "neighbour");
    // Another table's address may be a neighbour's, as may the ends of a network of two.
    config(&format!("{route} \"10.3.0.1\"\ninterface = \"core\"\n"));
    let two =
        "[[interface]]\nname = \"two\"\nport = \"core\"\nvlan = 7\naddress = [\"10.7.0.1/31\"]\n";
    config(&format!("{two}{route} \"10.7.0.0\"\n"));
    // Addresses of a link are each interface's own.
    let links = two.replace("10.7.0.1/31", "fe80::1/64");
    config(&format!("{links}{route} \"fe80::1\"\ninterface = \"core\"\n"));
    let own = format!("{links}{route} \"fe80::1\"\ninterface = \"two\"\n");
    assert_fault(&own, "fe80::1 is no next hop", "neighbour");
}

#[test]
fn true_faults_bring_no_false_ones() {
    let red = "[[route]]\nprefix = \"10.9.0.0/16\"\nvrf = \"red\"\n";
    let via = "via = \"10.0.1.1\"\n";
    for label in ["3", "1048576", "-5"] {
        for entropy in ["", "entropy-label = true\n"] {
            let fault = format!("{label} is no label");
            assert_fault(&format!("{red}{entropy}{via}labels = [{label}]"), &fault, "use 16");
            let paths = format!("paths = [{{ via = \"10.0.1.1\", labels = [{label}] }}]");
            assert_fault(&format!("{red}{entropy}{paths}"), &fault, "use 16");
        }
        let swap = format!("[[label]]\nlabel = 300\n{via}swap = [{label}]");
        assert_fault(&swap, &format!("{label} is no label"), "use 16");
    }
    let both = format!("{red}{via}paths = [{{ via = \"10.0.2.1\" }}]");
    assert_fault(&both, "paths beside a way", "write all ways in paths");
    for more in ["", "entropy-label = true", "ttl = \"pipe\"", "discard = true"] {
        assert_fault(
            &format!("{red}{via}{more}"),
            "10.0.1.1 is in the global table, and a route without labels stays in table `red`",
            "add labels = [LABEL], or interface = \"core\"",
        );
    }
    let global = "[[route]]\nprefix = \"10.9.0.0/16\"\nvia = \"10.3.0.9\"\n";
    assert_fault(global, "10.3.0.9 is in table `red`", "interface = \"customer\"");
    assert_fault(&format!("{red}via = \"9.9.9.9\""), "no interface has a network", "correct it");
    assert_fault(&format!("{red}paths = [{{ via = \"9.9.9.9\" }}]"), "no interface", "correct");
    let pop = "[[label]]\nlabel = 300\npop = true\nvia = \"9.9.9.9\"\n";
    assert_fault(pop, "no interface has a network with 9.9.9.9", "correct it");
}

#[test]
fn addresses_of_interfaces_are_hosts_and_one_interfaces() {
    let more = |vlan: u16, address: &str, vrf: &str| {
        format!(
            "[[interface]]\nname = \"i{vlan}\"\nport = \"core\"\nvlan = {vlan}\n\
             address = [\"{address}\"]\n{vrf}\n"
        )
    };
    for (address, remedy) in [
        ("10.77.0.0/24", "10.77.0.1/24"),
        ("10.77.0.255/24", "broadcast"),
        ("224.0.0.1/24", "unicast"),
        ("127.0.0.1/8", "unicast"),
        ("0.0.0.0/0", "unicast"),
        ("ff02::1/64", "unicast"),
    ] {
        assert_fault(&more(7, address, ""), "no address of a host in its network", remedy);
    }
    for address in ["10.77.0.0/31", "10.77.0.255/32", "2001:db8::/64"] {
        config(&more(7, address, ""));
    }
    let twice = "interface `core` has 10.0.1.2 already";
    assert_fault(&more(7, "10.0.1.2/24", ""), twice, "addresses of its own");
    assert_fault(&more(7, "10.0.1.2/32", ""), twice, "addresses of its own");
    config(&more(7, "10.0.1.2/24", "vrf = \"red\""));
    config(&(more(7, "fe80::1/64", "") + &more(8, "fe80::1/64", "")));
}

#[test]
fn each_port_has_a_device_of_its_own_or_a_queue_of_one() {
    let port = |name: &str, driver: &str, more: &str| {
        format!("[[port]]\nname = \"{name}\"\ndriver = \"{driver}\"\ndevice = \"eth7\"\n{more}")
    };
    let first = port("a", "af-packet", "");
    let fault = "port `a` has the device eth7 already";
    assert_fault(&format!("{first}{}", port("b", "af-packet", "")), fault, "of its own");
    assert_fault(&format!("{first}{}", port("b", "af-xdp", "queue = 1\n")), fault, "of its own");
    let first = port("a", "af-xdp", "");
    assert_fault(&format!("{first}{}", port("b", "af-xdp", "")), fault, "of its own");
    config(&format!("{first}{}", port("b", "af-xdp", "queue = 1\n")));
}

#[test]
fn what_a_port_cannot_have_is_found_in_the_file() {
    let xdp = "[[port]]\nname = \"x\"\ndriver = \"af-xdp\"\ndevice = \"eth7\"\n";
    let large = NODE.replace("lab = true", "lab = true\nbuffer-size = 16384");
    let error = Config::parse("pe.toml", &format!("{large}{xdp}"), &mut named_key);
    let error = error.expect_err("no such buffers").to_string();
    assert!(error.contains("not of 16384") && error.contains("af-packet"), "{error}");
    let host = "[[port]]\nname = \"host\"\ndriver = \"tun\"\ndevice = \"f0\"\n\
                host-address = [\"10.8.0.2/24\"]\n[[interface]]\nport = \"host\"\n";
    let own = format!("{host}address = [\"10.8.0.2/24\"]\n");
    assert_fault(&own, "10.8.0.2 is the host's own", "another, or none");
    config(&format!("{host}address = [\"10.8.0.1/24\"]\n"));
    let tunnel = "[[tunnel]]\nname = \"t\"\nlocal = \"10.0.1.2\"\nremote = \"10.0.1.2\"\n\
                  suite = \"aes-gcm-128\"\nkeying = \"external\"\n";
    assert_fault(tunnel, "both ends are 10.0.1.2", "the other gateway's address");
}
