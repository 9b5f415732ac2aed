//! Entries as they are written: what they stand for, and what is wrong with them.

use crate::config::{Config, PolicyAction, named_key};
use crate::{Control, Environment, Volatile, build};
use ferrule_base::{Instant, MacAddr, Rng, Secret};
use ferrule_crypto::Software;
use ferrule_dataplane::ipsec::{Field, UNCOUNTED};
use ferrule_pipeline::Pool;

fn text(policies: &str) -> String {
    let node = r#"
[node]
name = "gw"
lab = true
[[port]]
name = "a"
driver = "wire"
[[interface]]
port = "a"
address = ["192.0.2.1/24", "2001:db8::1/64"]
[[tunnel]]
name = "t"
local = "192.0.2.1"
remote = "192.0.2.2"
suite = "aes-gcm-128"
out = { spi = 4097, key = "gcm:1" }
in = { spi = 4098, key = "gcm:3" }
"#;
    let entry = |e: &str| format!("[[policy]]\ninterface = \"a\"\n{}\n", e.replace("; ", "\n"));
    node.to_owned() + &policies.lines().map(entry).collect::<String>()
}

fn config(policies: &str) -> Config {
    Config::parse("gw.toml", &text(policies), &mut named_key).unwrap_or_else(|e| panic!("{e}"))
}

fn wrong(policy: &str) -> String {
    let error = Config::parse("gw.toml", &text(policy), &mut named_key);
    error.err().unwrap_or_else(|| panic!("{policy} is taken")).to_string()
}

#[test]
fn policy_entry_stands_for_all_combinations_of_its_lists() {
    let config = config(
        "action = \"protect\"; tunnel = \"t\"; local = [\"10.1.0.0/16\", \"10.9.0.1-10.9.0.3\"]; \
         remote = \"10.2.0.7\"; protocol = [\"tcp\", 17]; remote-ports = [443, \"8000-8999\"]",
    );
    let policy = &config.policies[0];
    assert_eq!(policy.action, PolicyAction::Protect(0));
    let selectors = policy.traffic.selectors();
    let words: Vec<String> = selectors
        .iter()
        .map(|s| format!("{} {} {} {}", s.local, s.remote, s.protocol, s.remote_ports))
        .collect();
    assert_eq!(
        words,
        [
            "10.1.0.0/16 10.2.0.7 6 443",
            "10.1.0.0/16 10.2.0.7 6 8000-8999",
            "10.1.0.0/16 10.2.0.7 17 443",
            "10.1.0.0/16 10.2.0.7 17 8000-8999",
            "10.9.0.1-10.9.0.3 10.2.0.7 6 443",
            "10.9.0.1-10.9.0.3 10.2.0.7 6 8000-8999",
            "10.9.0.1-10.9.0.3 10.2.0.7 17 443",
            "10.9.0.1-10.9.0.3 10.2.0.7 17 8000-8999",
        ]
    );
    assert!(selectors.iter().all(|s| s.local_ports == Field::Any && s.message == Field::Any));
    assert_eq!(policy.traffic.upper(["local", "remote"]), "tcp, udp, remote ports 443, 8000-8999");
}

#[test]
fn policy_entry_without_addresses_is_of_both_families() {
    let config = config(
        "action = \"bypass\"\n\
         action = \"bypass\"; remote = [\"10.0.0.0/8\", \"2001:db8::/32\"]\n\
         action = \"discard\"; remote = \"2001:db8::/32\"; protocol = \"opaque\"\n\
         action = \"discard\"; local = \"any\"; protocol = \"any\"; remote-ports = \"any\"\n\
         action = \"discard\"; remote-ports = \"opaque\"; local-ports = \"opaque\"",
    );
    let pairs = |n: usize| -> Vec<String> {
        let selectors = config.policies[n].traffic.selectors();
        selectors.iter().map(|s| format!("{} {} {}", s.local, s.remote, s.protocol)).collect()
    };
    assert_eq!(pairs(0), ["any IPv4 any IPv4 any", "any IPv6 any IPv6 any"]);
    assert_eq!(pairs(1), ["any IPv4 10.0.0.0/8 any", "any IPv6 2001:db8::/32 any"]);
    assert_eq!(pairs(2), ["any IPv6 2001:db8::/32 opaque"]);
    assert_eq!(pairs(3), pairs(0));
    assert_eq!(config.policies[3].traffic.upper(["local", "remote"]), "");
    assert!(config.policies[4].traffic.selectors().iter().all(|s| s.remote_ports == Field::Opaque));
}

#[test]
fn policy_messages_are_types_with_codes() {
    let config = config(
        "action = \"bypass\"; protocol = \"icmp\"; icmp = [8, \"3/0-15\", \"13-14\", \"3/4\"]\n\
         action = \"bypass\"; protocol = \"mobility\"; mobility = \"5-6\"",
    );
    let message = |n: usize| config.policies[n].traffic.message.clone();
    let range = |a: [u8; 2], b: [u8; 2]| Field::Range(u16::from_be_bytes(a), u16::from_be_bytes(b));
    let icmp = [
        range([8, 0], [8, 255]),
        range([3, 0], [3, 15]),
        range([13, 0], [14, 255]),
        range([3, 4], [3, 4]),
    ];
    assert_eq!(message(0), icmp);
    assert_eq!(message(1), [range([5, 0], [6, 255])]);
    assert_eq!(
        config.policies[0].traffic.upper(["local", "remote"]),
        "icmp, type 8, 3/0-15, 13-14, 3/4"
    );
    assert_eq!(config.policies[1].traffic.upper(["local", "remote"]), "mobility, type 5-6");
}

#[test]
fn policy_errors_say_what_is_wrong_and_what_would_be_right() {
    let many: Vec<String> = (0..80).map(|n| n.to_string()).collect();
    let ports = many.join(", ");
    let lists = format!(
        "action = \"bypass\"; protocol = \"tcp\"; local-ports = [{ports}]; remote-ports = [{ports}]"
    );
    let cases = [
        ("action = \"bypass\"; local = \"10.1.0.1/16\"", "write 10.1.0.0/16"),
        ("action = \"bypass\"; local = \"10.1.0.0/33\"", "names no addresses"),
        ("action = \"bypass\"; local = \"10.1.0.9-10.1.0.1\"", "lower end first"),
        ("action = \"bypass\"; local = \"10.1.0.9-2001:db8::\"", "both of one family"),
        ("action = \"bypass\"; local = true", "boolean where a word"),
        ("action = \"bypass\"; local = []", "an empty list"),
        ("action = \"bypass\"; remote-ports = 443", "add protocol = \"tcp\""),
        ("action = \"bypass\"; protocol = \"gre\"; remote-ports = 443", "ports need a protocol"),
        ("action = \"bypass\"; protocol = \"tcp\"; remote-ports = 65536", "`65536` is no port"),
        ("action = \"bypass\"; protocol = \"tcp\"; remote-ports = \"9-8\"", "a range like"),
        ("action = \"bypass\"; protocol = \"tpc\"", "icmpv6"),
        ("action = \"bypass\"; protocol = 256", "`256` is no protocol"),
        ("action = \"bypass\"; icmp = 8", "add protocol = \"icmp\""),
        ("action = \"bypass\"; protocol = \"icmp\"; icmp = \"8/x\"", "is no ICMP message"),
        (
            "action = \"bypass\"; protocol = \"mobility\"; icmp = 8; mobility = 5",
            "write two entries",
        ),
        ("action = \"bypass\"; local = \"10.0.0.0/8\"; remote = \"2001:db8::/32\"", "families"),
        ("action = \"bypass\"; local = \"10.0.0.0/8\"; protocol = \"opaque\"", "never opaque"),
        ("action = \"protect\"", "add tunnel"),
        ("action = \"protect\"; tunnel = \"u\"", "there is no tunnel `u`"),
        ("action = \"drop\"", "there is no action `drop`"),
        (&lists, "6400 combinations"),
    ];
    for (policy, expected) in cases {
        let said = wrong(policy);
        // IPv4 and IPv6: each list of ports twice.
        let expected = expected.replace("6400", "12800");
        assert!(said.contains(&expected), "{policy}\n{said}");
        assert!(said.starts_with("gw.toml:"), "{said}");
    }
}

#[test]
fn policy_counters_stay_with_their_entries_when_a_configuration_is_applied() {
    let net = |n: u8| format!("action = \"bypass\"; remote = \"10.{n}.0.0/16\"");
    let of = |list: &[u8]| config(&list.iter().map(|&n| net(n)).collect::<Vec<_>>().join("\n"));
    let environment = environment();
    let macs = environment.macs.clone();
    let (mut control, _workers) =
        build(of(&[1, 2, 2, 3]), environment, |_| Software::default()).unwrap();
    let first = control.tables().hits.clone();
    assert_eq!(&*first.carried, [UNCOUNTED; 5], "four entries, and the rest");
    control.apply(Instant::ZERO, of(&[3, 2, 4, 2, 2]), &macs).unwrap();
    let second = control.tables().hits.clone();
    assert_eq!(second.generation, first.generation + 1);
    assert_eq!(&*second.carried, [3, 1, UNCOUNTED, 2, UNCOUNTED, 4]);
}

fn environment() -> Environment {
    Environment {
        secret: [0; 2],
        entropy: Box::new(Rng::new(1)),
        macs: vec![MacAddr([2, 0, 0, 0, 0, 1])],
        pool: Pool::heap(64, 2048),
        store: Box::new(Volatile::default()),
        now: Instant::ZERO,
    }
}

/// Until a change is done, or that takes longer than it ever should.
fn carry_out(control: &mut Control, workers: &mut [crate::Worker]) {
    for _ in 0..1000 {
        workers.iter_mut().for_each(|worker| while worker.turn(Instant::ZERO) > 0 {});
        control.turn(Instant::ZERO);
        if !control.is_changing() {
            return;
        }
    }
    panic!("a change comes to no end");
}

#[test]
fn policy_of_ten_thousand_entries_is_read_and_applied_as_a_few_steps() {
    let entry = |n: u32| {
        let [_, a, b, _] = (n << 8).to_be_bytes();
        format!(
            "action = \"protect\"; tunnel = \"t\"; local = \"10.0.0.0/8\"; \
             remote = \"20.{a}.{b}.0/24\"; protocol = \"tcp\"; remote-ports = [443, \"8000-8999\"]"
        )
    };
    let many: Vec<String> = (0..10_000).map(entry).collect();
    let start = std::time::Instant::now();
    let many = config(&many.join("\n"));
    println!("read in {:?}", start.elapsed());
    let environment = environment();
    let macs = environment.macs.clone();
    let few = config("action = \"bypass\"");
    let (mut control, mut workers) = build(few, environment, |_| Software::default()).unwrap();
    let start = std::time::Instant::now();
    control.apply(Instant::ZERO, many, &macs).unwrap();
    println!("applied in {:?}", start.elapsed());
    carry_out(&mut control, &mut workers);
    let tables = control.tables();
    let (depth, rules) = tables.policies[0].worst();
    assert!(depth <= 4 && rules <= 4, "{depth} steps, {rules} rules");
    assert!(tables.policies[0].octets() < 20_000 * 200, "{} octets", tables.policies[0].octets());
    assert_eq!(workers[0].report(Instant::ZERO).hits.len(), 10_001);
}

#[test]
fn sad_takes_more_sas_in_one_change_than_a_ring_has_places() {
    let tunnels = |count: u32| {
        let mut all = text("action = \"bypass\"");
        for n in 0..count {
            let (a, b) = (10_000 + 2 * n, 10_001 + 2 * n);
            all += &format!(
                "[[tunnel]]\nname = \"n{n}\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n\
                 suite = \"aes-gcm-128\"\nout = {{ spi = {a}, key = \"gcm:{a}\" }}\n\
                 in = {{ spi = {b}, key = \"gcm:{b}\" }}\n"
            );
        }
        // More keys than the named ones.
        let mut keys = |path: &str| {
            let n: u32 = path.rsplit(':').next().and_then(|n| n.parse().ok()).unwrap_or(0);
            let text = format!("cipher {n:032x}\nsalt 01020304");
            Ok::<_, String>(Secret::new(text.into_bytes()))
        };
        Config::parse("gw.toml", &all, &mut keys).unwrap_or_else(|e| panic!("{e}"))
    };
    const MANY: u32 = 1500;
    let environment = environment();
    let macs = environment.macs.clone();
    let (mut control, mut workers) =
        build(tunnels(MANY), environment, |_| Software::default()).unwrap();
    let count = |worker: &crate::Worker| {
        let report = worker.report(Instant::ZERO);
        (report.esp_out.len(), report.esp_in.len())
    };
    carry_out(&mut control, &mut workers);
    assert_eq!(count(&workers[0]), (MANY as usize + 1, MANY as usize + 1));
    control.apply(Instant::ZERO, tunnels(1), &macs).unwrap();
    carry_out(&mut control, &mut workers);
    assert_eq!(count(&workers[0]), (2, 2));
    assert!(control.take_failures().is_empty());
}
