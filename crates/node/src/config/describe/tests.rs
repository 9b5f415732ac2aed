//! The schema says what the readers do: ranges, words and defaults are held against
//! them, key by key.

use super::*;
use crate::config::{Config, named_key};
use toml::Table;

/// A file with every table, in which each key can be tried.
const FULL: &str = r#"
[node]
name = "n"
lab = true
state = "s"
buffer-size = 4096

[[port]]
name = "wan"
driver = "af-xdp"
device = "eth0"
mtu = 3776

[[port]]
name = "host"
driver = "tun"
device = "tun0"

[[port]]
name = "attached"
driver = "wire"

[[port]]
name = "bridged"
driver = "wire"

[[port]]
name = "keyed"
driver = "wire"

[[port]]
name = "secured"
driver = "wire"

[[interface]]
port = "wan"
address = ["192.0.2.1/24"]
mpls = true

[[interface]]
name = "vpn"
port = "wan"
vlan = 10
address = ["203.0.113.1/24"]
vrf = "red"

[[bridge]]
name = "br"
member = [{ port = "bridged", vlan = 10 }]

[[route]]
prefix = "10.2.0.0/16"
via = "192.0.2.2"

[[lsp]]
name = "core"
via = "192.0.2.2"

[[label]]
label = 16001
pop = true
via = "192.0.2.2"

[[pseudowire]]
name = "pw"
port = "attached"
lsp = "core"
label-in = 17001
label-out = 17002

[[macsec]]
port = "secured"
transmit = [{ key = "sak:1", ssci = 1 }]
receive = [{ key = "sak:2", sci = "02:00:00:00:00:02/1", ssci = 2 }]

[[macsec]]
port = "keyed"
mka = { cak = [{ ckn = "00", key = "cak:1" }] }

[[tunnel]]
name = "t"
local = "192.0.2.1"
remote = "192.0.2.2"
suite = "aes-gcm-128"
out = { spi = 0x1001, key = "gcm:1" }
in = { spi = 0x1002, key = "gcm:2" }

[[transport]]
name = "p"
local = "192.0.2.1"
remote = "192.0.2.3"
suite = "aes-gcm-128"
out = { spi = 0x2001, key = "gcm:3" }
in = { spi = 0x2002, key = "gcm:4" }

[[policy]]
interface = "wan"
action = "protect"
tunnel = "t"
remote = "10.2.0.0/16"

[[access-list]]
name = "l"

[[access-list.entry]]
action = "deny"
protocol = "tcp"

[[vrf]]
name = "red"

[look-aside]
depth = 64

[token]
module = "/m.so"
token = "label"
pin-file = "pin"
"#;

/// Keys that cannot be tried by themselves: what else they need, or what they depend on.
const BESIDE: [(&str, &str, &str); 10] = [
    ("port", "worker", "the number of workers"),
    ("sa", "worker", "the number of workers"),
    ("interface", "service-vlan", "takes the place of `vlan`"),
    ("interface", "mtu", "what the port carries"),
    ("interface", "untagged", "whether there is a tag"),
    ("tunnel", "mtu", "what the path carries"),
    ("tunnel", "peer-window", "`every-worker`"),
    ("node", "cores", "takes the place of `workers`"),
    ("tunnel", "ports", "two numbers of their own"),
    ("tunnel", "ah-align", "AH, with keys of its own"),
];

/// Keys that transport mode refuses.
const ONLY_TUNNELS: [&str; 6] = ["copy-df", "df", "dscp", "ecn", "fragment", "ttl"];

/// Other keys without which a key is not looked at.
fn companions(table: &str, key: &str) -> Vec<(&'static str, toml::Value)> {
    match (table, key) {
        ("tunnel" | "transport", "keepalive-seconds") => vec![("encapsulation", "udp".into())],
        _ => Vec::new(),
    }
}

fn full() -> Table {
    FULL.parse().expect("TOML")
}

/// The table of a file that a key is tried in.
fn place<'a>(file: &'a mut Table, table: &str) -> &'a mut Table {
    match file.get_mut(table).expect("the table is there") {
        toml::Value::Table(table) => table,
        list => list[0].as_table_mut().expect("a list of tables"),
    }
}

/// The configuration with some values in a table, or all that is wrong with it.
fn with(table: &str, values: &[(&str, toml::Value)]) -> Result<String, String> {
    let mut file = full();
    for (key, value) in values {
        place(&mut file, table).insert((*key).to_owned(), value.clone());
    }
    let text = toml::to_string(&file).expect("TOML");
    let read = Config::parse("n.toml", &text, &mut named_key);
    read.map(|config| format!("{config:?}")).map_err(|e| e.to_string())
}

fn is_beside(table: &str, key: &str) -> bool {
    let table = if table == "transport" { "tunnel" } else { table };
    BESIDE.iter().any(|(t, k, _)| (*t, *k) == (table, key))
}

/// Every key of every table at the top, with its schema.
fn keys() -> Vec<(String, String, Value)> {
    let schema = schema();
    let pages = Pages { root: &schema };
    let sections = properties(&schema);
    let each = sections.iter().flat_map(|(name, section)| {
        let table = pages.table(section).expect("a table");
        properties(table).into_iter().map(move |(key, value)| (name.clone(), key, value))
    });
    each.collect()
}

#[test]
fn schema_ranges_are_those_of_the_readers() {
    assert!(with("node", &[]).is_ok(), "{:?}", with("node", &[]));
    let mut tried = 0;
    for (table, key, schema) in keys() {
        let bound = |word| schema.get(word).and_then(Value::as_i64);
        let (Some(least), Some(most)) = (bound("minimum"), bound("maximum")) else { continue };
        let refused = table == "transport" && ONLY_TUNNELS.contains(&&*key);
        if is_beside(&table, &key) || refused || key.starts_with("label") {
            continue;
        }
        let mut values = companions(&table, &key);
        values.push((&key, toml::Value::Integer(i64::MAX)));
        let wrong = with(&table, &values).expect_err("out of range");
        let range = format!("use a number from {least} to {most}");
        assert!(wrong.contains(&range), "{table}.{key}: {range}\n{wrong}");
        tried += 1;
    }
    assert!(tried >= 30, "{tried} ranges");
}

#[test]
fn schema_words_are_those_of_the_readers() {
    let mut tried = 0;
    for (table, key, schema) in keys() {
        let Some(Value::Array(words)) = schema.get("enum") else { continue };
        let refused = table == "transport" && ONLY_TUNNELS.contains(&&*key);
        if !words[0].is_string() || refused {
            continue;
        }
        let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
        let wrong = with(&table, &[(&key, "no-such-word".into())]).expect_err("no such word");
        let remedy = wrong.lines().find_map(|line| line.trim().strip_prefix("there are "));
        let known: Vec<&str> = remedy.unwrap_or_default().split(", ").collect();
        if key == "suite" {
            assert!(known.iter().all(|word| words.contains(word)), "{table}.{key}: {known:?}");
        } else {
            assert_eq!(words, known, "{table}.{key}: {wrong}");
        }
        tried += 1;
    }
    assert!(tried > 20, "{tried} lists of words");
}

#[test]
fn schema_defaults_are_those_of_the_readers() {
    let mut tried = 0;
    for (table, key, schema) in keys() {
        let Some(default) = schema.get("default").filter(|value| !value.is_array()) else {
            continue;
        };
        if is_beside(&table, &key) {
            continue;
        }
        let default = toml::Value::try_from(default).expect("a value of TOML");
        let only_hosts = ["offload", "every-worker"];
        if table == "transport" && ONLY_TUNNELS.contains(&&*key) {
            continue;
        }
        let companions = companions(&table, &key);
        let mut file = full();
        let said = if table == "port" && only_hosts.contains(&&*key) {
            // Of the port that has a host behind it.
            file["port"][1].as_table_mut().expect("a port").insert(key.clone(), default);
            let text = toml::to_string(&file).expect("TOML");
            let read = Config::parse("n.toml", &text, &mut named_key);
            read.map(|config| format!("{config:?}")).map_err(|e| e.to_string())
        } else {
            let mut values = companions.clone();
            // `df` and `copy-df` say the same thing; `driver` and others stand there already.
            values.push((&key, default));
            let taken = place(&mut file, &table).contains_key(&key);
            if taken {
                continue;
            }
            with(&table, &values)
        };
        let unsaid = with(&table, &companions);
        assert!(unsaid.is_ok(), "{table}.{key}: {unsaid:?}");
        assert_eq!(said, unsaid, "{table}.{key}");
        tried += 1;
    }
    assert!(tried > 40, "{tried} defaults");
}

#[test]
fn schema_accepts_the_full_file_and_refuses_what_the_readers_refuse() {
    let validator = jsonschema::validator_for(&schema()).expect("a JSON Schema");
    let object = |file: &Table| serde_json::to_value(file).expect("JSON");
    let problems: Vec<String> =
        validator.iter_errors(&object(&full())).map(|e| e.to_string()).collect();
    assert!(problems.is_empty(), "{problems:#?}");
    for (table, key, value) in [
        ("node", "nmae", toml::Value::from("x")),
        ("node", "workers", 0.into()),
        ("node", "workers", "two".into()),
        ("port", "driver", "wifi".into()),
        ("tunnel", "ttl", toml::Value::from(vec![1])),
        ("policy", "protocol", true.into()),
    ] {
        let mut file = full();
        place(&mut file, table).insert(key.into(), value);
        assert!(!validator.is_valid(&object(&file)), "{table}.{key} passes");
    }
    let mut file = full();
    place(&mut file, "tunnel").remove("suite");
    assert!(!validator.is_valid(&object(&file)), "a tunnel without suite passes");
}

#[test]
fn every_key_is_described_and_stands_in_the_reference() {
    let text = reference(None).expect("the whole reference");
    for (table, key, schema) in keys() {
        let about = super::text(&schema, "description");
        assert!(about.ends_with('.') && about.len() > 3, "{table}.{key}: `{about}`");
        assert!(text.contains(&format!("| `{key}` |")), "{table}.{key}");
    }
    assert_eq!(reference(Some("tunel")), None);
    let tunnel = reference(Some("tunnel")).expect("a table");
    assert!(tunnel.starts_with("## `[[tunnel]]`\n"), "{tunnel}");
    assert!(tunnel.contains("Keys of `also-in`, `also-out`, `in`, `out`"), "{tunnel}");
    let schema = super::schema();
    let sections: Vec<String> = properties(&schema).keys().cloned().collect();
    assert!(sections.iter().all(|name| ORDER.contains(&&**name)), "{sections:?}");
    assert!(tunnel.contains("| `spi` | 256 to 4294967295 | **needed** |"), "{tunnel}");
}
