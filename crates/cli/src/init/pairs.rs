//! The two sides of a connection: each key, SPI, SCI and label stands in both
//! configurations, once as ours and once as the other's.

use super::ce::{CePlan, SakPlan, SecyPlan};
use super::config::{NodePlan, PortPlan};
use super::files::Files;
use super::gateway::{GatewayPlan, SaPlan};
use super::host::HostPlan;
use super::key::{KeyFor, fresh_mac};
use super::p::{LinkPlan, PPlan};
use super::pe::PePlan;
use super::{CeArgs, GatewayArgs, HostArgs, Net, NodeArgs, PArgs, PeArgs, Set};
use ferrule_crypto::random::{self, Unavailable};
use ferrule_overhead::Stack;
use std::path::Path;

/// MTU of a site.
const SITE_MTU: usize = 1500;
/// A site's frame with SecTAG and ICV around it.
const SECURED_MTU: usize = SITE_MTU + 32;
/// The same, and the site's VLAN tag, which is payload under a SecTAG.
const ATTACHMENT_MTU: usize = SECURED_MTU + 4;
/// A secured frame with labels, control word and Ethernet around it.
const CORE_MTU: usize = 1600;

/// The folder of `ferrule@.service`.
const SERVICES: &str = "/etc/ferrule";

/// A gateway and, with `--pair`, the other one.
pub(super) fn gateway(args: &GatewayArgs) -> Result<Set, Unavailable> {
    let (a, b) = (&args.name, &args.peer_name);
    let (a_to_b, b_to_a) = (format!("{a}-to-{b}.key"), format!("{b}-to-{a}.key"));
    let fixed = args.keying == "file";
    let sas = [
        SaPlan { spi: fresh_spi()?, key: a_to_b.clone() },
        SaPlan { spi: fresh_spi()?, key: b_to_a.clone() },
    ];
    let sas = fixed.then_some(sas);
    let port = |name, device: &str| port(&args.node, name, device, SITE_MTU);
    let ours = GatewayPlan {
        node: node(&args.node.dir, a, true),
        lan: port("lan", &args.lan),
        vlan: None,
        wan: port("wan", &args.wan),
        lan_address: args.lan_address.to_string(),
        wan_address: args.wan_address.to_string(),
        local_net: args.lan_address.prefix(),
        remote_net: args.peer_lan_address.prefix(),
        peer: args.peer.to_string(),
        next_hop: args.next_hop.map(|a| a.to_string()),
        suite: args.suite.clone(),
        sas: sas.clone(),
    };
    let theirs = GatewayPlan {
        node: node(&args.node.dir, b, true),
        lan_address: args.peer_lan_address.to_string(),
        wan_address: Net { address: args.peer, ..args.wan_address }.to_string(),
        local_net: ours.remote_net.clone(),
        remote_net: ours.local_net.clone(),
        peer: args.wan_address.address.to_string(),
        next_hop: args.peer_next_hop.map(|a| a.to_string()),
        sas: sas.map(|[out_sa, in_sa]| [in_sa, out_sa]),
        ..ours.clone()
    };
    let kind = KeyFor::from_name(&args.suite).expect("the command line was checked");
    let keys = match fixed {
        true => keys(kind, &args.suite, [(a, b, &a_to_b), (b, a, &b_to_a)])?,
        false => Files::default(),
    };
    Ok(set(&args.node, (a, ours.toml()), (b, theirs.toml()), (keys, true)))
}

/// A host and, with `--pair`, the gateway that it talks to or by.
pub(super) fn host(args: &HostArgs) -> Result<Set, Unavailable> {
    let (a, b) = (&args.name, &args.peer_name);
    let (a_to_b, b_to_a) = (format!("{a}-to-{b}.key"), format!("{b}-to-{a}.key"));
    let (spi_ab, spi_ba) = (fresh_spi()?, fresh_spi()?);
    let transport = args.mode == "transport";
    let (driver, device) = ("tun".to_owned(), args.device.clone());
    let mtu = inner_mtu(&args.suite, &args.mode, args.peer.is_ipv4());
    let ours = HostPlan {
        node: node(&args.node.dir, a, true),
        near: PortPlan { name: "host".into(), driver, device, mac: None, mtu },
        tun: Some(args.host_address.to_string()),
        near_address: Net { address: args.node_address, ..args.host_address }.to_string(),
        uplink: port(&args.node, "uplink", &args.uplink, SITE_MTU),
        uplink_address: args.uplink_address.to_string(),
        peer: args.peer.to_string(),
        next_hop: args.next_hop.map(|a| a.to_string()),
        local: Net::single(args.host_address.address),
        remote: match transport {
            true => Net::single(args.peer_host),
            false => args.peer_lan_address.prefix(),
        },
        transport,
        suite: args.suite.clone(),
        out_sa: SaPlan { spi: spi_ab, key: a_to_b.clone() },
        in_sa: SaPlan { spi: spi_ba, key: b_to_a.clone() },
    };
    let theirs = HostPlan {
        node: node(&args.node.dir, b, true),
        near: port(&args.node, "lan", &args.peer_lan, SITE_MTU),
        tun: None,
        near_address: args.peer_lan_address.to_string(),
        uplink_address: Net { address: args.peer, ..args.uplink_address }.to_string(),
        peer: args.uplink_address.address.to_string(),
        next_hop: args.peer_next_hop.map(|a| a.to_string()),
        local: ours.remote.clone(),
        remote: ours.local.clone(),
        out_sa: ours.in_sa.clone(),
        in_sa: ours.out_sa.clone(),
        ..ours.clone()
    };
    let kind = KeyFor::from_name(&args.suite).expect("the command line was checked");
    let keys = keys(kind, &args.suite, [(a, b, &a_to_b), (b, a, &b_to_a)])?;
    Ok(set(&args.node, (a, ours.toml()), (b, theirs.toml()), (keys, true)))
}

/// MTU that the uplink leaves for the host; where the calculator does not know the suite, less than
/// any suite leaves.
fn inner_mtu(suite: &str, mode: &str, v4: bool) -> usize {
    let (inner, outer) = match (mode, v4) {
        ("tunnel", true) => ("ipv4", " ipv4"),
        ("tunnel", false) => ("ipv4", " ipv6"),
        (_, true) => ("ipv4", ""),
        (_, false) => ("ipv6", ""),
    };
    let stack = Stack::parse(&format!("eth {inner} udp 100 | esp {suite} {mode}{outer}"));
    let left = stack.and_then(|stack| stack.mtu(SITE_MTU)).map(|report| report.user_mtu);
    left.unwrap_or(SITE_MTU - 128)
}

/// A customer edge and, with `--pair`, the other site's.
pub(super) fn ce(args: &CeArgs) -> Result<Set, Unavailable> {
    let (a, b) = (&args.name, &args.peer_name);
    let [sci, other_sci] = [format!("{}/1", fresh_mac()?), format!("{}/1", fresh_mac()?)];
    let secy = |sci: &str, keys| SecyPlan { cipher: args.cipher.clone(), sci: sci.into(), keys };
    let (ours, theirs, keys) = match args.mka {
        true => agreed(a, b)?,
        false => static_saks(&args.cipher, (a, &sci), (b, &other_sci))?,
    };
    let (secy, other) = (secy(&sci, ours), secy(&other_sci, theirs));
    let kept = !args.mka;
    let ours = CePlan {
        node: node(&args.node.dir, a, kept),
        lan: port(&args.node, "lan", &args.lan, SITE_MTU),
        access: args.access,
        uplink: port(&args.node, "uplink", &args.uplink, SECURED_MTU),
        secy: Some(secy),
    };
    let theirs = CePlan { node: node(&args.node.dir, b, kept), secy: Some(other), ..ours.clone() };
    Ok(set(&args.node, (a, ours.toml()), (b, theirs.toml()), (keys, kept)))
}

/// SAKs of both edges, and their key files.
type Saks = (SakPlan, SakPlan, Files);

/// A SAK for each direction.
fn static_saks(
    cipher: &str,
    (a, sci_a): (&str, &str),
    (b, sci_b): (&str, &str),
) -> Result<Saks, Unavailable> {
    let (a_to_b, b_to_a) = (format!("{a}-to-{b}.key"), format!("{b}-to-{a}.key"));
    let kind = KeyFor::from_name(cipher).expect("the command line was checked");
    let xpn = matches!(kind, KeyFor::Macsec { xpn: true, .. });
    let plan = |own: &str, other: &str, sci: &str, ssci| SakPlan::Static {
        transmit: own.into(),
        receive: (sci.into(), other.into()),
        ssci: xpn.then_some(ssci),
    };
    let ours = plan(&a_to_b, &b_to_a, sci_b, (1, 2));
    let theirs = plan(&b_to_a, &a_to_b, sci_a, (2, 1));
    Ok((ours, theirs, keys(kind, cipher, [(a, b, &a_to_b), (b, a, &b_to_a)])?))
}

/// A CAK for both.
fn agreed(a: &str, b: &str) -> Result<Saks, Unavailable> {
    let mut ckn = [0; 16];
    ferrule_crypto::random::fill(&mut ckn)?;
    let ckn = ckn.map(|octet| format!("{octet:02x}")).concat();
    let file = format!("{a}-{b}.cak");
    let plan =
        |priority| SakPlan::Agreed { ckn: ckn.clone(), key: file.clone(), priority, rekey: 3600 };
    let cak = KeyFor::Mka(16).fresh(&format!("CAK of {a} and {b}"))?;
    let mut files = Files::default();
    files.secret(&file, cak);
    Ok((plan(16), plan(32), files))
}

/// A provider edge and, with `--pair`, the other one. There are no keys.
pub(super) fn pe(args: &PeArgs) -> Set {
    let ours = PePlan {
        node: node(&args.node.dir, &args.name, false),
        attachment: port(&args.node, "attachment", &args.attachment, ATTACHMENT_MTU),
        core: port(&args.node, "core", &args.core, CORE_MTU),
        core_address: args.core_address.to_string(),
        via: args.via.to_string(),
        transport: args.transport_label,
        label_in: args.label_in,
        label_out: args.label_out,
    };
    let theirs = PePlan {
        node: node(&args.node.dir, &args.peer_name, false),
        core_address: args
            .peer_core_address
            .unwrap_or(Net { address: args.via, ..args.core_address })
            .to_string(),
        via: args.peer_via.unwrap_or(args.core_address.address).to_string(),
        transport: args.peer_transport_label,
        label_in: args.label_out,
        label_out: args.label_in,
        ..ours.clone()
    };
    let (a, b) = (&args.name, &args.peer_name);
    set(&args.node, (a, ours.toml()), (b, theirs.toml()), (Files::default(), false))
}

/// A provider router.
pub(super) fn p(args: &PArgs) -> Set {
    let port = |number: usize, link: &LinkPlan| PortPlan {
        name: format!("link{number}").into(),
        driver: args.driver.clone(),
        device: link.device.clone(),
        mac: None,
        mtu: CORE_MTU,
    };
    let links = args.links.iter().zip(1..).map(|(link, number)| (port(number, link), link.clone()));
    let plan = PPlan {
        node: node(&args.dir, &args.name, false),
        links: links.collect(),
        first_label: args.first_label,
    };
    let mut files = Files::default();
    let own = args.dir.join(format!("{}.toml", args.name));
    files.text(&own, plan.toml());
    Set { files, force: args.force, counters: None, next: first_steps(&args.dir, &args.name, &own) }
}

fn node(dir: &Path, name: &str, keyed: bool) -> NodePlan {
    NodePlan {
        name: name.to_owned(),
        state: keyed.then(|| format!("{name}.state")),
        control: (!is_for_services(dir)).then(|| format!("{name}.socket")),
    }
}

/// True if the package's unit runs the nodes of a folder. The unit cannot make sockets there: they
/// are in `/run/ferrule`, where nodes have them by default.
fn is_for_services(folder: &Path) -> bool {
    std::path::absolute(folder).is_ok_and(|folder| folder == Path::new(SERVICES))
}

fn port(args: &NodeArgs, name: &'static str, device: &str, mtu: usize) -> PortPlan {
    let (driver, device) = (args.driver.clone(), device.to_owned());
    PortPlan { name: name.into(), driver, device, mac: None, mtu }
}

/// An SPI outside the reserved ones (RFC 4303 section 2.1), and not a small one
/// that people give by hand.
pub fn fresh_spi() -> Result<u32, Unavailable> {
    let mut octets = [0; 4];
    random::fill(&mut octets)?;
    Ok(u32::from_be_bytes(octets) | 0x1000_0000)
}

/// A key for each direction.
fn keys(kind: KeyFor, suite: &str, ways: [(&str, &str, &str); 2]) -> Result<Files, Unavailable> {
    let mut files = Files::default();
    for (from, to, file) in ways {
        files.secret(file, kind.fresh(&format!("{suite}, from {from} to {to}"))?);
    }
    Ok(files)
}

/// Remark and command.
fn command(why: &str, verb: &str, path: &Path) -> (String, String) {
    (why.to_owned(), format!("ferrule {verb} {}", path.display()))
}

/// Starts a node: by its unit, where the package's is for this folder.
fn run(folder: &Path, name: &str, file: &Path) -> String {
    match is_for_services(folder) {
        true => format!("systemctl enable --now ferrule@{name}"),
        false => format!("ferrule run {}", file.display()),
    }
}

fn first_steps(folder: &Path, name: &str, own: &Path) -> Vec<(String, String)> {
    let look = "look it over and correct devices and addresses; this checks it";
    vec![command(look, "check", own), ("as root".to_owned(), run(folder, name, own))]
}

fn set(
    args: &NodeArgs,
    ours: (&str, String),
    theirs: (&str, String),
    (keys, has_state): (Files, bool),
) -> Set {
    let keyed = keys.paths().next().is_some();
    let mut files = keys;
    let own = args.dir.join(format!("{}.toml", ours.0));
    let other = args.dir.join(format!("{}.toml", theirs.0));
    files.text(format!("{}.toml", ours.0), ours.1);
    if args.pair {
        files.text(format!("{}.toml", theirs.0), theirs.1);
    }
    files.under(&args.dir);
    let mut next = first_steps(&args.dir, ours.0, &own);
    if args.pair {
        let why = match keyed {
            true => "at the other side, with the key files: move them safely",
            false => "at the other side",
        };
        if has_state {
            next.push(command(why, "state create", &other));
            next.push(("and then".to_owned(), run(&args.dir, theirs.0, &other)));
        } else {
            next.push((why.to_owned(), run(&args.dir, theirs.0, &other)));
        }
    }
    Set { files, force: args.force, counters: has_state.then_some(own), next }
}
