//! Every way in which `[token]` and keys on it can be wrong: file and line, what it
//! is, what would be right.

use super::*;
use crate::config::named_key;
use ferrule_base::Secret;
use ferrule_crypto::Place;

/// Key files by name, and a token that has the keys `out` and `in`.
struct Keys;

impl crate::config::KeySource for Keys {
    fn read(&mut self, path: &str) -> Result<Secret, String> {
        match path {
            "salt" => Ok(Secret::new(b"salt 01020304".to_vec())),
            "mac" => Ok(Secret::new(
                format!("integrity {}\nsalt 01020304", "07".repeat(20)).into_bytes(),
            )),
            "short" => Ok(Secret::new(b"salt 0102".to_vec())),
            _ => named_key(path),
        }
    }

    fn token(&mut self, table: &TokenConfig, label: &str, len: usize) -> Result<Secret, String> {
        assert_eq!(table.token, "gateway", "the table is read by now");
        match label {
            "out" | "in" => Ok(Secret::new(vec![label.len() as u8; len])),
            _ => Err(format!("the token has no AES key `{label}` of this length")),
        }
    }
}

/// A node with a tunnel and a SecY on the token. Each line stands where `BAD` says.
const GOOD: &str = r#"[token]
module = "/usr/lib/softhsm/libsofthsm2.so"
token = "gateway"
pin-file = "token.pin"
profile = "microsd"
blocks = 4096
reach = 1024
behind = 32
on-gone = "drop"
keep-seconds = 60
[node]
name = "g"
state = "state"
[[port]]
name = "wan"
driver = "wire"
[[port]]
name = "lan"
driver = "wire"
[[interface]]
port = "wan"
address = ["192.0.2.1/24"]
[[tunnel]]
name = "t"
local = "192.0.2.1"
remote = "192.0.2.2"
suite = "aes-gcm-128"
mtu = 1400
placement = "token"
out = { spi = 4097, key = "token:out", rest = "salt" }
in = { spi = 4098, key = "token:in", rest = "salt" }
[[macsec]]
port = "lan"
placement = "token"
transmit = [{ key = "token:out" }]
receive = [{ sci = "02:00:00:00:00:02/1", key = "token:in" }]
"#;

fn parse(text: &str) -> Result<Config, String> {
    Config::parse("g.toml", text, &mut Keys).map_err(|e| e.to_string())
}

/// Faults: text of [`GOOD`], its replacement, the line of the message, and parts of what the
/// message says is wrong and of its remedy.
const BAD: &[(&str, &str, usize, &str, &str)] = &[
    // The table.
    (
        "module = \"/usr/lib/softhsm/libsofthsm2.so\"\n",
        "",
        1,
        "[token] has no module",
        "add module = \"/usr/lib/softhsm/libsofthsm2.so\"",
    ),
    ("token = \"gateway\"\n", "", 1, "[token] has no token", "add token = \"LABEL\""),
    (
        "pin-file = \"token.pin\"\n",
        "",
        1,
        "[token] has no pin-file",
        "add pin-file = \"token.pin\"",
    ),
    (
        "\"/usr/lib/softhsm/libsofthsm2.so\"",
        "\"\"",
        2,
        "module is empty",
        "write module = \"/usr/lib/softhsm/libsofthsm2.so\"",
    ),
    ("\"gateway\"", "\"\"", 3, "token is empty", "write token = \"LABEL\""),
    ("\"token.pin\"", "\"\"", 4, "pin-file is empty", "write pin-file = \"token.pin\""),
    (
        "\"microsd\"",
        "\"micro-sd\"",
        5,
        "there is no token profile `micro-sd`",
        "there are none, microsd, tpm, usb-hsm",
    ),
    ("4096", "511", 6, "blocks cannot be 511", "use a number from 512 to 16777216"),
    ("4096", "16777217", 6, "blocks cannot be 16777217", "use a number from 512 to 16777216"),
    ("reach = 1024", "reach = 15", 7, "reach cannot be 15", "use a number from 16 to 65536"),
    ("reach = 1024", "reach = 65537", 7, "reach cannot be", "use a number from 16 to 65536"),
    ("behind = 32", "behind = -1", 8, "behind cannot be -1", "use a number from 0 to 4096"),
    ("behind = 32", "behind = 4097", 8, "behind cannot be 4097", "use a number from 0 to 4096"),
    ("\"drop\"", "\"wait\"", 9, "there is no way out `wait`", "there are fetch, drop"),
    ("= 60\n", "= 86401\n", 10, "keep-seconds cannot be 86401", "use a number from 0 to 86400"),
    (
        "keep-seconds = 60",
        "delay = [{ octets = 512, milliseconds = 5 }]",
        1,
        "packets that are delayed by their size",
        "leave delay out: it is a study's, for a laboratory",
    ),
    (
        "keep-seconds = 60",
        "delay = [{ octets = 65536, milliseconds = 5 }]",
        10,
        "octets cannot be 65536",
        "use a number from 0 to 65535",
    ),
    (
        "keep-seconds = 60",
        "delay = [{ octets = 512, milliseconds = 1001 }]",
        10,
        "milliseconds cannot be 1001",
        "use a number from 0 to 1000",
    ),
    ("keep-seconds = 60", "delay = [{ octets = 9 }]", 10, "missing field `milliseconds`", ""),
    ("pin-file", "pin", 4, "unknown field `pin`", "expected one of `module`, `token`, `pin-file`"),
    ("= 4096", "= \"many\"", 6, "invalid type: string \"many\"", "expected i64"),
    ("\"gateway\"", "7", 3, "invalid type: integer `7`", "expected a string"),
    ("[token]\nmod", "[[token]]\nmod", 1, "invalid type", "expected"),
    // Keys on it.
    (
        "key = \"token:out\", rest",
        "key = \"token:nowhere\", rest",
        30,
        "the token has no AES key `nowhere`",
        "`ferrule token --help` shows how a key comes to a token",
    ),
    (
        "key = \"token:out\", rest",
        "key = \"token:\", rest",
        30,
        "a key on the token without a label",
        "write key = \"token:LABEL\"",
    ),
    (
        "key = \"token:in\", rest = \"salt\"",
        "key = \"gcm:1\"",
        31,
        "key `gcm:1` is not on the token",
        "write key = \"token:LABEL\", or another placement",
    ),
    (
        "key = \"token:in\", rest = \"salt\"",
        "key = \"token:in\"",
        31,
        "a key on the token, and no salt or integrity key",
        "add rest = \"FILE\": a key file with all but the cipher key",
    ),
    (
        "key = \"token:in\", rest = \"salt\"",
        "key = \"token:in\", rest = \"short\"",
        31,
        "key file `short`: `salt` has 2 octets, 4 are needed",
        "give `salt` 8 hexadecimal digits",
    ),
    (
        "key = \"token:in\", rest = \"salt\"",
        "key = \"token:in\", rest = \"gcm:3\"",
        31,
        "key file `gcm:3`: `cipher` has 16 octets, 0 are needed",
        "take `cipher` out",
    ),
    (
        "[{ key = \"token:out\" }]",
        "[{ key = \"sak:5\" }]",
        35,
        "is not on the token",
        "token:LABEL",
    ),
    // Suites.
    (
        "aes-gcm-128",
        "chacha20-poly1305",
        27,
        "a token does not have chacha20-poly1305",
        "use aes-gcm-128, aes-gcm-256, or their -iiv",
    ),
    (
        "aes-gcm-128",
        "aes-gcm-192",
        27,
        "a token does not have aes-gcm-192",
        "use aes-gcm-128, aes-gcm-256, or their -iiv",
    ),
    (
        "aes-gcm-128",
        "aes-ctr-128-study hmac-sha1-96",
        27,
        "aes-ctr-128-study hmac-sha1-96 is a study's suite",
        "use it with placement = \"token\" in a laboratory, or aes-gcm-128",
    ),
];

#[test]
fn token_configuration_errors_name_file_line_what_is_wrong_and_what_would_be_right() {
    parse(GOOD).unwrap_or_else(|e| panic!("{e}"));
    for (good, bad, line, what, remedy) in BAD {
        assert!(GOOD.contains(good), "{good}");
        let said = parse(&GOOD.replacen(good, bad, 1)).expect_err(bad);
        let lines: Vec<&str> = said.lines().collect();
        let at = format!("g.toml:{line}:");
        let found = lines.windows(2).any(|pair| {
            pair[0].starts_with(&at) && pair[0].contains(what) && pair[1].trim().contains(remedy)
        });
        assert!(found, "{bad:?}: not `{what}`, `{remedy}` at line {line}, but\n{said}");
    }
}

#[test]
fn all_token_configuration_errors_are_said_at_once() {
    let changes = [("\"microsd\"", "\"x\""), ("= 4096", "= 1"), ("= 1024", "= 1")];
    let changes = changes.into_iter().chain([("\"drop\"", "\"y\""), ("token:in", "token:z")]);
    let text = changes.fold(GOOD.to_owned(), |text, (from, to)| text.replacen(from, to, 1));
    let said = parse(&text).unwrap_err();
    for line in [5, 6, 7, 9, 31] {
        assert!(said.lines().any(|l| l.starts_with(&format!("g.toml:{line}:"))), "{line}: {said}");
    }
}

#[test]
fn a_placement_on_a_token_needs_the_table_and_a_key_on_it_the_placement() {
    let table = GOOD.find("[node]").unwrap();
    let said = parse(&GOOD[table..]).unwrap_err();
    assert!(said.contains("there is no token") && said.contains("add a table [token]"), "{said}");
    let said = parse(&GOOD.replace("placement = \"token\"\n", "")).unwrap_err();
    for line in [29, 30, 33, 34] {
        let at = format!("g.toml:{line}:");
        let found = said.lines().zip(said.lines().skip(1)).any(|(what, remedy)| {
            what.starts_with(&at)
                && what.contains("is on the token")
                && remedy.contains("add placement = \"token\"")
        });
        assert!(found, "{line}: {said}");
    }
    let beside = GOOD.replace("placement = \"token\"\n", "").replace("token:out", "gcm:1");
    let said = parse(&beside).unwrap_err();
    assert!(
        said.contains("`rest` beside a key file") && said.contains("take `rest` out"),
        "{said}"
    );
}

#[test]
fn a_study_ring_too_small_for_what_it_keeps_is_a_configuration_error() {
    let study = GOOD
        .replacen("name = \"g\"", "name = \"g\"\nlab = true", 1)
        .replacen("aes-gcm-128", "aes-ctr-128-study hmac-sha1-96", 1)
        .replace("rest = \"salt\"", "rest = \"mac\"")
        .replacen("mtu = 1400", "mtu = 1200", 1);
    parse(&study).unwrap_or_else(|e| panic!("{e}"));
    let said = parse(&study.replacen("= 4096", "= 512", 1)).unwrap_err();
    assert!(said.starts_with("g.toml:28:"), "{said}");
    assert!(said.contains("no room for 32 behind") && said.contains("blocks = 544"), "{said}");
}

#[test]
fn what_the_token_table_says_reaches_the_engine_and_the_keys() {
    let config = parse(GOOD).unwrap();
    let table = config.token.as_ref().unwrap();
    assert_eq!((table.blocks, table.reach, table.behind), (4096, 1024, 32));
    assert!(table.drop_gone && table.keep == Some(Duration::from_secs(60)));
    let tunnel = &config.tunnels[0];
    let Place::Token(key) = &tunnel.outbound[0].keys.place else { panic!("on the token") };
    assert_eq!(key.label, "out");
    let least = Config::parse(
        "g.toml",
        "[token]\nmodule = \"m\"\ntoken = \"t\"\npin-file = \"p\"\n[node]\nname = \"g\"\n\
         [[port]]\nname = \"wan\"\ndriver = \"wire\"\n",
        &mut Keys,
    );
    let least = least.unwrap_or_else(|e| panic!("{e}")).token.unwrap();
    let usual = (1 << 14, 4096, 64, false, Some(Duration::from_secs(600)));
    let found = (least.blocks, least.reach, least.behind, least.drop_gone, least.keep);
    assert_eq!((found, least.profile.as_str()), (usual, "none"));
}
