//! What `init` writes is what the node's own parser takes, for every suite.

use super::*;
use clap::Parser;
use ferrule_base::Secret;
use ferrule_node::config::{Config, Driver, PolicyAction};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    init: InitArgs,
}

/// A folder that goes when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("ferrule-init-{}-{number}", std::process::id()));
        fs::create_dir(&path).expect("a new folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn set(folder: &Folder, words: &[&str]) -> Result<Set, (u8, String)> {
    let dir = folder.0.to_str().expect("text");
    let line = ["init"].iter().chain(words).copied();
    let line: Vec<&str> =
        if words[0] == "key" { line.collect() } else { line.chain(["--dir", dir]).collect() };
    Line::try_parse_from(line).expect("a good command line").init.set()
}

fn init(folder: &Folder, words: &[&str]) {
    let set = set(folder, words).unwrap_or_else(|(_, e)| panic!("{e}"));
    set.files.write(set.force).unwrap_or_else(|e| panic!("{e}"));
    set.begin_counters().unwrap_or_else(|e| panic!("{e}"));
}

fn parse(folder: &Path, file: &str) -> Config {
    let text = fs::read_to_string(folder.join(file)).expect("the file is there");
    let mut keys = |path: &str| {
        fs::read(folder.join(path)).map(Secret::new).map_err(|e| format!("`{path}`: {e}"))
    };
    Config::parse(file, &text, &mut keys).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

#[test]
fn init_gateway_writes_a_pair_that_fits_for_every_suite() {
    for suite in ferrule_crypto::Suite::ALL {
        let folder = Folder::new();
        init(&folder, &["gateway", "--pair", "--suite", suite.name()]);
        let [a, b] = ["gw-a.toml", "gw-b.toml"].map(|file| parse(&folder.0, file));
        let (ours, theirs) = (&a.tunnels[0], &b.tunnels[0]);
        assert_eq!(ours.suite, suite);
        assert_eq!((ours.local, ours.remote), (theirs.remote, theirs.local));
        for (out, inn) in [(&ours.outbound, &theirs.inbound), (&theirs.outbound, &ours.inbound)] {
            assert_eq!(out.spi, inn.spi);
            assert!(out.keys.key.same_as(&inn.keys.key) && out.salt.same_as(&inn.salt));
            assert!(out.keys.mac_key.same_as(&inn.keys.mac_key));
        }
        let [out, inn] = [&ours.outbound, &ours.inbound].map(|sa| sa.keys.identity());
        assert!(!out.same_as(inn), "a key for each way");
        let (p, q) = (&a.policies[0], &b.policies[0]);
        assert_eq!((&p.local, &p.remote), (&q.remote, &q.local));
        assert_eq!(p.action, PolicyAction::Protect(0));
        assert!(a.state.is_some() && b.state.is_some());
        assert_eq!((a.reserve, b.reserve), (1 << 20, 1 << 20));
    }
}

#[test]
fn init_host_writes_a_pair_that_fits_for_every_suite_and_mode() {
    for (suite, mode) in
        ferrule_crypto::Suite::ALL.into_iter().flat_map(|s| ["tunnel", "transport"].map(|m| (s, m)))
    {
        let folder = Folder::new();
        init(&folder, &["host", "--pair", "--suite", suite.name(), "--mode", mode]);
        let [a, b] = ["host-a.toml", "gw-b.toml"].map(|file| parse(&folder.0, file));
        let Driver::Tun(tun) = &a.ports[0].driver else { panic!("a TUN") };
        assert!(tun.offload && tun.device == "ferrule0");
        assert_eq!(tun.addresses, [("10.8.0.2".parse().expect("an address"), 24)]);
        assert_eq!(tun.routes.len(), 1);
        let (ours, theirs) = (&a.tunnels[0], &b.tunnels[0]);
        assert_eq!((ours.local, ours.remote), (theirs.remote, theirs.local));
        assert_eq!(
            (ours.outbound.spi, ours.inbound.spi),
            (theirs.inbound.spi, theirs.outbound.spi)
        );
        assert!(ours.outbound.keys.key.same_as(&theirs.inbound.keys.key));
        let (p, q) = (&a.policies[0], &b.policies[0]);
        assert_eq!((&p.local, &p.remote), (&q.remote, &q.local));
        let mtu = a.ports[0].mtu;
        assert!((1360..1490).contains(&mtu), "{} {mode}: {mtu}", suite.name());
    }
}

#[test]
fn init_gateway_takes_addresses_of_both_families_and_a_router_on_the_way() {
    let folder = Folder::new();
    let words = "gateway --lan-address 2001:db8:1::1/64 --peer-lan-address 2001:db8:2::1/64 \
                 --wan-address 2001:db8::1/64 --peer 2001:db8:ff::2 --next-hop 2001:db8::fe \
                 --driver af-packet --lan veth0";
    init(&folder, &words.split_whitespace().collect::<Vec<_>>());
    let config = parse(&folder.0, "gw-a.toml");
    assert_eq!(config.ports[0].driver, Driver::Packet { device: "veth0".into() });
    assert_eq!(config.tunnels[0].via.next_hop, Some("2001:db8::fe".parse().expect("address")));
    assert!(!folder.0.join("gw-b.toml").exists(), "only with --pair");
}

#[test]
fn init_ce_writes_a_pair_that_fits_for_every_cipher() {
    for (cipher, ..) in key::MACSEC_CIPHERS {
        let folder = Folder::new();
        init(&folder, &["ce", "--pair", "--cipher", cipher, "--access", "10"]);
        let [a, b] = ["ce-a.toml", "ce-b.toml"].map(|file| parse(&folder.0, file));
        assert_eq!(a.bridges[0].members[0].access, Some(10));
        for (ours, theirs) in [(&a.secys[0], &b.secys[0]), (&b.secys[0], &a.secys[0])] {
            assert!(ours.send_sci);
            let (transmit, receive) = (&ours.transmit[0], &theirs.receive[0]);
            assert_eq!(ours.sci, receive.sci);
            assert!(transmit.key.same_as(&receive.key) && transmit.salt.same_as(&receive.salt));
            assert_eq!(transmit.ssci, receive.ssci);
        }
        assert_ne!(a.secys[0].sci, b.secys[0].sci);
    }
}

#[test]
fn init_pe_writes_a_pair_that_fits() {
    let folder = Folder::new();
    init(&folder, &["pe", "--pair"]);
    let [a, b] = ["pe-a.toml", "pe-b.toml"].map(|file| parse(&folder.0, file));
    let (ours, theirs) = (&a.pseudowires[0], &b.pseudowires[0]);
    assert_eq!((ours.label_in, ours.label_out), (theirs.label_out, theirs.label_in));
    assert!(ours.control_word && ours.via.labels.is_empty());
    let address = b.interfaces[0].addresses[0].0;
    assert_eq!(ours.via.next_hop, Some(address));
    let folder = Folder::new();
    init(&folder, &["pe", "--transport-label", "16001"]);
    assert_eq!(parse(&folder.0, "pe-a.toml").pseudowires[0].via.labels, [16001]);
}

#[test]
fn init_key_files_are_fresh_private_and_fit_their_suite() {
    let folder = Folder::new();
    let suites = ferrule_crypto::Suite::ALL.map(ferrule_crypto::Suite::name);
    let mut seen = Vec::new();
    for suite in suites.into_iter().chain(key::MACSEC_CIPHERS.map(|(word, ..)| word)) {
        let path = folder.0.join(suite.replace(' ', "-"));
        init(&folder, &["key", suite, path.to_str().expect("text")]);
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{suite}");
        let text = fs::read_to_string(&path).expect("text");
        let words = key::KeyFor::from_name(suite).expect("a suite").words();
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(lines.len(), words.len(), "{text}");
        for (line, (word, len)) in lines.iter().zip(words) {
            let (have, hex) = line.split_once(char::is_whitespace).expect("word and digits");
            assert_eq!((have, hex.trim().len()), (word, 2 * len));
            assert!(!seen.contains(&hex.trim().to_owned()), "twice the same");
            seen.push(hex.trim().to_owned());
        }
    }
    let (code, error) = set(&folder, &["key", "aes-gcm-129", "x"]).err().expect("no such suite");
    assert!(code == 2 && error.contains("aes-gcm-128"), "{error}");
}

#[test]
fn init_never_writes_over_a_file_unless_forced() {
    let folder = Folder::new();
    init(&folder, &["ce"]);
    let before = fs::read(folder.0.join("ce-a-to-ce-b.key")).expect("a key");
    fs::remove_file(folder.0.join("ce-a.toml")).expect("removed");
    let again = set(&folder, &["ce"]).unwrap_or_else(|(_, e)| panic!("{e}"));
    let error = again.files.write(false).expect_err("the keys are there").to_string();
    assert!(error.contains(".key") && error.contains("--force"), "{error}");
    assert!(!folder.0.join("ce-a.toml").exists(), "nothing was written");
    init(&folder, &["ce", "--force"]);
    assert_ne!(before, fs::read(folder.0.join("ce-a-to-ce-b.key")).expect("a key"));
    parse(&folder.0, "ce-a.toml");
}

#[test]
fn init_begins_the_counters_that_a_run_looks_for() {
    for (kind, name) in [("gateway", "gw-a"), ("ce", "ce-a")] {
        let folder = Folder::new();
        init(&folder, &[kind]);
        let config = parse(&folder.0, &format!("{name}.toml"));
        let used = folder.0.join("used-keys");
        let store = FileStore::open(&folder.0.join(format!("{name}.state")), &used);
        let mut store = store.expect("made");
        let counters = ferrule_node::counters(&config, &vec![MacAddr::ZERO; config.ports.len()]);
        assert_eq!(counters.len(), 2);
        for counter in counters {
            let found = store.find(&counter.id, counter.fingerprint).expect("a counter");
            assert_eq!(found.next, 1, "{}", counter.id);
        }
    }
}

#[test]
fn init_refuses_names_that_would_leave_the_folder() {
    for bad in ["../x", "", "-x", "a/b", ".hidden", "a b"] {
        assert!(Line::try_parse_from(["init", "ce", "--name", bad]).is_err(), "{bad}");
    }
}

#[test]
fn init_in_the_folder_of_services_says_how_to_start_them() {
    for folder in ["/etc/ferrule", "/etc/ferrule/."] {
        let line = ["init", "gateway", "--pair", "--dir", folder];
        let set = Line::try_parse_from(line).expect("a good command line").init.set();
        let set = set.unwrap_or_else(|(_, e)| panic!("{e}"));
        let said = set.next.iter().map(|(_, command)| command.as_str());
        let starts: Vec<_> = said.filter(|command| command.contains("systemctl")).collect();
        let starts_of = |name| format!("systemctl enable --now ferrule@{name}");
        assert_eq!(starts, [starts_of("gw-a"), starts_of("gw-b")]);
    }
}
