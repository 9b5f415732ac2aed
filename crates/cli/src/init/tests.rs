//! Output of `init`, which the node's own parser takes, for every suite.

use super::files::Written;
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
    set.write().unwrap_or_else(|(_, e)| panic!("{e}"));
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
        for (out, inn) in
            [(&ours.outbound[0], &theirs.inbound[0]), (&theirs.outbound[0], &ours.inbound[0])]
        {
            assert_eq!(out.spi, inn.spi);
            assert!(out.keys.key.same_as(&inn.keys.key) && out.salt.same_as(&inn.salt));
            assert!(out.keys.mac_key.same_as(&inn.keys.mac_key));
        }
        let [out, inn] = [&ours.outbound[0], &ours.inbound[0]].map(|sa| sa.keys.identity());
        assert!(!out.same_as(inn), "a key for each way");
        let (p, q) = (&a.policies[0].traffic, &b.policies[0].traffic);
        assert_eq!((&p.local, &p.remote), (&q.remote, &q.local));
        assert_eq!(a.policies[0].action, PolicyAction::Protect(0));
        assert!(a.state.is_some() && b.state.is_some());
        assert_eq!((a.reserve, b.reserve), (1 << 20, 1 << 20));
    }
}

#[test]
fn init_gateway_for_a_keying_program_has_no_key_and_fits_what_may_be_keyed_so() {
    for suite in ferrule_crypto::Suite::ALL {
        let folder = Folder::new();
        let words = ["gateway", "--pair", "--keying", "external", "--suite", suite.name()];
        let written = set(&folder, &words).unwrap_or_else(|(_, e)| panic!("{e}")).write();
        if let Err((_, told)) = &written {
            assert!(told.contains("whose IVs are the numbers"), "{suite}: {told}");
            assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0, "{suite}: nothing is left");
            continue;
        }
        for file in ["gw-a.toml", "gw-b.toml"] {
            let tunnel = &parse(&folder.0, file).tunnels[0];
            assert!(tunnel.external && tunnel.outbound.is_empty() && tunnel.inbound.is_empty());
        }
        let keys = fs::read_dir(&folder.0)
            .unwrap()
            .filter(|f| f.as_ref().unwrap().path().extension().is_some_and(|e| e == "key"));
        assert_eq!(keys.count(), 0, "{suite}");
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
            (ours.outbound[0].spi, ours.inbound[0].spi),
            (theirs.inbound[0].spi, theirs.outbound[0].spi)
        );
        assert!(ours.outbound[0].keys.key.same_as(&theirs.inbound[0].keys.key));
        let (p, q) = (&a.policies[0].traffic, &b.policies[0].traffic);
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
            assert!(ours.entity.send_sci);
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
    for suite in suites
        .into_iter()
        .chain(key::MACSEC_CIPHERS.map(|(word, ..)| word))
        .chain(["mka-128", "mka-256"])
    {
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
fn init_ce_pair_of_mka_has_one_cak_and_no_counters() {
    let folder = Folder::new();
    init(&folder, &["ce", "--pair", "--mka", "--cipher", "gcm-aes-xpn-256"]);
    let [a, b] = ["ce-a.toml", "ce-b.toml"].map(|file| parse(&folder.0, file));
    let mka = |config: &Config| config.secys[0].mka.clone().expect("key agreement");
    let (a_mka, b_mka) = (mka(&a), mka(&b));
    assert_eq!(a_mka.caks[0].ckn, b_mka.caks[0].ckn);
    assert_eq!(a_mka.caks[0].key.expose(), b_mka.caks[0].key.expose());
    assert!(a_mka.priority < b_mka.priority && a.secys[0].sci != b.secys[0].sci);
    assert_eq!((&a.state, a.secys[0].transmit.len()), (&None, 0));
    assert!(folder.0.join("ce-a-ce-b.cak").exists());
    let set =
        set(&folder, &["ce", "--pair", "--mka", "--force"]).unwrap_or_else(|(_, e)| panic!("{e}"));
    let said = set.render(Paint::plain(80));
    assert!(!said.contains("counters") && !said.contains("state create"), "{said}");
    assert!(said.contains("at the other side, with the key files"), "{said}");
}

#[test]
fn init_gateway_of_a_keying_program_has_a_folder_for_its_counters() {
    let folder = Folder::new();
    let args = ["gateway", "--pair", "--keying", "external"];
    let set = set(&folder, &args).unwrap_or_else(|(_, e)| panic!("{e}"));
    set.write().unwrap_or_else(|(_, e)| panic!("{e}"));
    let config = parse(&folder.0, "gw-a.toml");
    let state = folder.0.join(config.state.expect("a folder"));
    ferrule_daemon::state::look_at_folder(&state).expect("it is there");
    assert!(set.render(Paint::plain(80)).contains("state create"));
}

#[test]
fn init_never_writes_over_a_file_unless_forced() {
    let folder = Folder::new();
    init(&folder, &["ce"]);
    let before = fs::read(folder.0.join("ce-a-to-ce-b.key")).expect("a key");
    fs::remove_file(folder.0.join("ce-a.toml")).expect("removed");
    let again = set(&folder, &["ce"]).unwrap_or_else(|(_, e)| panic!("{e}"));
    let (_, error) = again.write().expect_err("the keys are there");
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
fn init_pairs_have_both_next_hops_and_a_pseudowires_transport_labels() {
    let folder = Folder::new();
    let words = "gateway --pair --wan-address 192.0.2.1/24 --next-hop 192.0.2.254 \
                 --peer 198.51.100.1 --peer-next-hop 198.51.100.254";
    init(&folder, &words.split_whitespace().collect::<Vec<_>>());
    for (file, hop) in [("gw-a.toml", "192.0.2.254"), ("gw-b.toml", "198.51.100.254")] {
        let config = parse(&folder.0, file);
        assert_eq!(config.tunnels[0].via.next_hop, Some(hop.parse().expect("an address")));
        assert_eq!(config.routes.len(), 2, "to the other gateway, and to its site");
    }
    let folder = Folder::new();
    let words = "host --pair --uplink-address 192.0.2.1/24 --next-hop 192.0.2.254 \
                 --peer 198.51.100.1 --peer-next-hop 198.51.100.254";
    init(&folder, &words.split_whitespace().collect::<Vec<_>>());
    let theirs = parse(&folder.0, "gw-b.toml");
    assert_eq!(theirs.tunnels[0].via.next_hop, Some("198.51.100.254".parse().expect("address")));
    // One without the other is no pair.
    for words in ["gateway --pair --next-hop 198.51.100.254", "pe --pair --transport-label 16001"] {
        let words: Vec<_> = words.split_whitespace().collect();
        let (code, error) = set(&folder, &words).err().expect("refused");
        assert!(code == USAGE && error.contains("--peer-"), "{error}");
    }
}

#[test]
fn init_p_switches_labels_between_the_edges_that_init_pe_writes() {
    use ferrule_node::config::LabelAction;
    let folder = Folder::new();
    init(&folder, &["p"]);
    let words = "pe --pair --core-address 192.0.2.1/24 --via 192.0.2.2 --transport-label 16002 \
                 --peer-core-address 198.51.100.1/24 --peer-via 198.51.100.2 \
                 --peer-transport-label 16001";
    init(&folder, &words.split_whitespace().collect::<Vec<_>>());
    let p = parse(&folder.0, "p.toml");
    let edges = ["pe-a.toml", "pe-b.toml"].map(|file| parse(&folder.0, file));
    let address = |config: &Config| config.interfaces[0].addresses[0].0;
    for (from, to) in [(&edges[0], &edges[1]), (&edges[1], &edges[0])] {
        let way = &from.pseudowires[0].via;
        let ours = p.interfaces.iter().flat_map(|i| &i.addresses).map(|(address, _)| *address);
        assert!(ours.into_iter().any(|ours| way.next_hop == Some(ours)), "{way:?}");
        let label = p.labels.iter().find(|l| way.labels == [l.label]).expect("a label of p");
        let LabelAction::Forward(onward) = &label.action else { panic!("{label:?}") };
        assert_eq!((onward.next_hop, &onward.labels[..]), (Some(address(to)), &[][..]));
    }
    // Three links, of which one leads to another router.
    let folder = Folder::new();
    let words = "p --name core --first-label 100 --link a,192.0.2.2/24,192.0.2.1 \
                 --link b,2001:db8::1/64,2001:db8::2 --link c,203.0.113.1/24,203.0.113.2,17001";
    init(&folder, &words.split_whitespace().collect::<Vec<_>>());
    let core = parse(&folder.0, "core.toml");
    assert_eq!(core.labels.iter().map(|l| l.label).collect::<Vec<_>>(), [100, 101, 102]);
    let LabelAction::Forward(onward) = &core.labels[2].action else { panic!("swapped") };
    assert_eq!(onward.labels, [17001]);
    assert!(set(&folder, &["p", "--link", "a,192.0.2.2/24,192.0.2.1"]).is_err(), "one link");
    for bad in ["a,192.0.2.2/24", "a,192.0.2.2,192.0.2.1", "a,192.0.2.2/24,192.0.2.1,3", ",,"] {
        assert!(Line::try_parse_from(["init", "p", "--link", bad]).is_err(), "{bad}");
    }
}

/// Everything in a folder, with contents.
fn all_of(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path());
    let mut all: Vec<_> =
        entries.map(|path| (path.clone(), fs::read(&path).unwrap_or_default())).collect();
    all.sort();
    all
}

#[test]
fn init_writes_nothing_before_all_is_valid_and_all_can_be_written() {
    // A next hop that no interface reaches.
    let folder = Folder::new();
    let bad = set(
        &folder,
        &["gateway", "--pair", "--next-hop", "203.0.113.1", "--peer-next-hop", "198.51.100.254"],
    );
    let (code, error) = bad.unwrap_or_else(|(_, e)| panic!("{e}")).write().expect_err("wrong");
    assert!(code == USAGE && error.contains("nothing was written"), "{error}");
    assert_eq!(all_of(&folder.0), []);
    // The last file cannot be written: a folder has its name, and is not empty.
    let folder = Folder::new();
    init(&folder, &["ce"]);
    fs::create_dir_all(folder.0.join("ce-b.toml/x")).expect("a folder");
    let before = all_of(&folder.0);
    let again = set(&folder, &["ce", "--pair"]).unwrap_or_else(|(_, e)| panic!("{e}"));
    again.write().expect_err("files are there");
    assert_eq!(all_of(&folder.0), before);
    // The state of the counters cannot be made: the old files are back.
    let folder = Folder::new();
    init(&folder, &["gateway"]);
    fs::remove_dir_all(folder.0.join("gw-a.state")).expect("removed");
    fs::write(folder.0.join("gw-a.state"), "no folder").expect("written");
    let before = all_of(&folder.0);
    let again = set(&folder, &["gateway", "--force"]).unwrap_or_else(|(_, e)| panic!("{e}"));
    let (code, error) = again.write().expect_err("no place for counters");
    assert_eq!(code, ENVIRONMENT, "{error}");
    assert_eq!(all_of(&folder.0), before);
    // A new folder that cannot be filled goes again.
    let folder = Folder::new();
    let new = folder.0.join("a/b");
    let mut files = Files::default();
    files.text(new.join("one"), "1".into());
    files.text(new.join("one/two"), "2".into());
    files.write(false).map(Written::keep).expect_err("a file is no folder");
    assert_eq!(all_of(&folder.0), []);
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
