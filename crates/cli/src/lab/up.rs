//! `ferrule lab up`: a topology in network namespaces, one process per node.
//!
//! ```text
//!   folder, keys ─▶ namespaces ─▶ veth pairs ─▶ hosts' addresses ─▶ nodes ─▶ ready
//!        └── each step is written down before it is done, so that `down` finds it
//! ```
//!
//! Everything stays until `ferrule lab down`; a step that fails takes back those
//! before it.

use super::keys::{Fresh, NodeToken};
use super::source::{Source, Wrong};
use super::standing::{Standing, StandingLink, StandingNode, StandingPlace};
use super::wire::{self, Carried};
use crate::answer;
use crate::desk;
use crate::netns::{self, Veth, VethEnd};
use crate::output::print;
use crate::paint::Paint;
use crate::process::{Fault, Runner, USED_KEYS, is_installed, write};
use clap::Args;
use ferrule_lab::topology::live::LiveSetting;
use ferrule_lab::topology::{HostPlan, LinkEnd, Node, Topology};
use ferrule_node::made_mac;
use serde_json::json;
use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

/// Programs, and the Debian packages that have them.
const TOOLS: [(&str, &str); 3] =
    [("ip", "iproute2"), ("ethtool", "ethtool"), ("setsid", "util-linux")];
/// The device of a host.
const HOST_DEVICE: &str = "eth0";
/// Characters of a device's name at most.
const DEVICE_MAX: usize = 15;
/// The place of the wires, unless a node or host is called so.
const WIRES: &str = "wires";
/// A node is ready within this time.
const READY: Duration = Duration::from_secs(15);
/// Commands of our own that must end within this time.
const OWN: Duration = Duration::from_secs(20);

/// Put a topology into network namespaces, one process per node (root)
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ferrule lab up two-gateways
  ip netns exec lab-two-gateways-h1 ping 10.2.0.2
  ferrule lab status
  ferrule lab down

Exit: 0 up, 1 it failed, 2 the topology is wrong, 3 the machine lacks something.")]
pub struct UpArgs {
    #[command(flatten)]
    source: Source,
    /// Driver of the nodes' ports
    #[arg(long, default_value = "af-packet", value_parser = ["af-packet", "af-xdp"])]
    driver: String,
    /// Links that a process carries with their rate, delay, impairments and disturbances
    #[arg(long, value_enum, default_value_t = Carried::None)]
    wires: Carried,
    /// The seed of what wires lose
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Serve a dashboard there until ctrl-C; the network stays
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1,
          default_missing_value = "127.0.0.1:8080")]
    web: Option<SocketAddr>,
}

impl UpArgs {
    /// Runs the command.
    pub fn run(self) -> ExitCode {
        let topology = match self.source.read().and_then(usable) {
            Ok(topology) => topology,
            Err(wrong) => return wrong.exit(),
        };
        match self.go(&topology) {
            Ok(standing) => {
                let text = match self.json {
                    true => format!("{:#}\n", json!(standing)),
                    false => told(&topology, &standing, &self.wires.links(&topology)),
                };
                print(&text);
                match self.web.map(|address| self.serve(address, &topology, &standing)) {
                    Some(Err(fault)) => failed(&fault),
                    _ => ExitCode::SUCCESS,
                }
            }
            Err(fault) => failed(&fault),
        }
    }

    /// Shows the network to browsers until it is told to stop.
    fn serve(
        &self,
        address: SocketAddr,
        topology: &Topology,
        standing: &Standing,
    ) -> Result<(), Fault> {
        let folder = standing.folder();
        let setting = LiveSetting { folder: &folder, driver: &self.driver };
        let site = desk::standing::Site {
            topology,
            sockets: topology.nodes.iter().map(|node| setting.socket(&node.name)).collect(),
            cables: standing.links.iter().map(|link| link.ends.clone()).collect(),
        };
        let listener =
            crate::live::listen(address).map_err(|e| Fault::failed("the dashboard", e))?;
        let say = |address: &str| {
            let text = format!("dashboard: {address}\nctrl-C ends it, the network stays\n");
            print(&text);
        };
        desk::standing::watch(site, listener, say).map_err(|e| Fault::failed("the dashboard", e))
    }

    fn go(&self, topology: &Topology) -> Result<Standing, Fault> {
        let runner = Runner::new().map_err(|e| Fault::failed("signals", e))?;
        let missing: Vec<_> = TOOLS.iter().filter(|(tool, _)| !is_installed(tool)).collect();
        if let Some((tool, package)) = missing.first() {
            let remedy = format!("apt-get install {package}");
            return Err(Fault::Missing(format!("{tool} is not installed"), remedy));
        }
        let mut standing = Standing::new(topology)?;
        let wires = self.wires.links(topology);
        let (source, seed) = (self.source.args(), self.seed);
        let site = Site { runner: &runner, topology, driver: &self.driver, wires, source, seed };
        match site.make(&mut standing) {
            Ok(()) => Ok(standing),
            Err(fault) => {
                standing.remove();
                Err(fault)
            }
        }
    }
}

/// Says what went wrong; 3 if the machine lacks something.
pub fn failed(fault: &Fault) -> ExitCode {
    answer::wrong(&fault.to_string(), if matches!(fault, Fault::Missing(..)) { 3 } else { 1 })
}

/// Devices are named after ports, namespaces after the topology.
fn usable(topology: Topology) -> Result<Topology, Wrong> {
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if topology.name.is_empty() || topology.name.len() > 40 || !topology.name.chars().all(fine) {
        let remedy = "use 1 to 40 letters, digits, - and _: namespaces are named after it";
        return Err(Wrong::new(format!("`{}` is no name to bring up\n  {remedy}", topology.name)));
    }
    for node in &topology.nodes {
        for port in &node.config.ports {
            if port.name.is_empty() || port.name.len() > DEVICE_MAX || !port.name.chars().all(fine)
            {
                return Err(Wrong::new(format!(
                    "port `{}` of {} cannot be a device\n  use 1 to {DEVICE_MAX} letters and digits",
                    port.name, node.name
                )));
            }
        }
    }
    Ok(topology)
}

struct Site<'a> {
    runner: &'a Runner,
    topology: &'a Topology,
    driver: &'a str,
    /// Links that a process carries, by place.
    wires: Vec<usize>,
    source: Vec<String>,
    seed: u64,
}

impl Site<'_> {
    fn make(&self, standing: &mut Standing) -> Result<(), Fault> {
        let topology = self.topology;
        let folder = standing.folder();
        let setting = LiveSetting { folder: &folder, driver: self.driver };
        let mut keys = Fresh::write(topology, &setting)?;
        let nodes = topology.nodes.iter().map(|node| (node.name.as_str(), false));
        let with_ipv6 = |host: &HostPlan| host.addresses.iter().any(|(a, _)| a.is_ipv6());
        let hosts = topology.hosts.iter().map(|host| (host.name.as_str(), with_ipv6(host)));
        let wires = (!self.wires.is_empty()).then(|| (self.cabling(), false));
        let wires = wires.iter().map(|(place, ipv6)| (place.as_str(), *ipv6));
        for (place, ipv6) in nodes.chain(hosts).chain(wires) {
            let space = standing.space(place);
            if netns::exists(&space) {
                let remedy = format!("`ip netns del {space}` if it is nobody's any more");
                return Err(Fault::failed(format!("there is a namespace {space} already"), remedy));
            }
            standing.spaces.push(StandingPlace { place: place.to_owned(), space: space.clone() });
            standing.save()?;
            netns::add(self.runner, &space, ipv6)?;
        }
        self.cables(standing)?;
        for host in &topology.hosts {
            self.host(standing, host)?;
        }
        let mut children = Vec::new();
        if !self.wires.is_empty() {
            self.carry(standing)?;
        }
        for node in &topology.nodes {
            children.push(self.node(standing, &setting, &mut keys, node)?);
        }
        self.ready(&setting, &mut children)
    }

    fn cables(&self, standing: &mut Standing) -> Result<(), Fault> {
        for (at, link) in self.topology.links.iter().enumerate() {
            let ends = [0, 1].map(|at| self.end(standing, &link.ends[at]));
            let mtu = wire::mtu(self.topology, at);
            let names = ends.clone().map(|end| (end.space, end.device));
            if self.wires.contains(&at) {
                let space = standing.space(&self.cabling());
                for (end, device) in ends.into_iter().zip(wire::devices(at)) {
                    let mac = made_mac(&space, &device).to_string();
                    let inner = VethEnd { space: space.clone(), device, mac };
                    netns::join(self.runner, &Veth { ends: [end, inner], mtu })?;
                }
            } else {
                netns::join(self.runner, &Veth { ends, mtu })?;
            }
            standing.links.push(StandingLink { name: link.name.clone(), ends: names });
            standing.save()?;
        }
        Ok(())
    }

    fn end(&self, standing: &Standing, end: &LinkEnd) -> VethEnd {
        match end {
            LinkEnd::Host(host) => {
                let host = &self.topology.hosts[*host];
                VethEnd {
                    space: standing.space(&host.name),
                    device: HOST_DEVICE.into(),
                    mac: host.mac.to_string(),
                }
            }
            LinkEnd::Node(node, port) => {
                let node = &self.topology.nodes[*node];
                let own = node.config.ports.iter().find(|p| p.name == *port).and_then(|p| p.mac);
                let mac = own.unwrap_or(made_mac(&node.name, port));
                VethEnd {
                    space: standing.space(&node.name),
                    device: port.clone(),
                    mac: mac.to_string(),
                }
            }
        }
    }

    /// Namespace of the wires: a name that no node or host has.
    fn cabling(&self) -> String {
        let mut name = WIRES.to_owned();
        let topology = self.topology;
        let taken = |name: &str| {
            topology.nodes.iter().any(|n| n.name == name)
                || topology.hosts.iter().any(|h| h.name == name)
        };
        while taken(&name) {
            name.push('_');
        }
        name
    }

    /// Starts the process that carries links, and waits until it does.
    fn carry(&self, standing: &mut Standing) -> Result<(), Fault> {
        let (place, folder) = (self.cabling(), standing.folder());
        let (ready, log) = (folder.join("wires.ready"), folder.join(format!("{place}.log")));
        let program = std::env::current_exe().map_err(|e| Fault::failed("our own path", e))?;
        let out = OpenOptions::new().create(true).append(true).open(&log);
        let out = out.map_err(|e| Fault::failed(log.display().to_string(), e))?;
        let copy = out.try_clone().map_err(|e| Fault::failed(log.display().to_string(), e))?;
        let mut command = Command::new("setsid");
        command.args(["ip", "netns", "exec", &standing.space(&place)]).arg(&program);
        command.args(["lab", "wire"]).args(&self.source).arg("--ready").arg(&ready);
        command.args(["--seed", &self.seed.to_string()]);
        for link in &self.wires {
            command.args(["--link", &link.to_string()]);
        }
        command.stdin(Stdio::null()).stdout(out).stderr(copy);
        let mut child = command.spawn().map_err(|e| Fault::failed(place.clone(), e))?;
        standing.wires = Some(StandingNode::of(&place, child.id(), &log));
        standing.save()?;
        self.runner.wait_for("the wires are not ready", READY, || match child.try_wait() {
            Ok(Some(status)) => {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                Err(Fault::failed(format!("the wires ended: {status}"), said))
            }
            _ => Ok(ready.exists()),
        })
    }

    fn host(&self, standing: &Standing, host: &HostPlan) -> Result<(), Fault> {
        let space = standing.space(&host.name);
        netns::without_offloads(self.runner, &space, HOST_DEVICE)?;
        let mut batch = format!("-n {space} link set dev {HOST_DEVICE} mtu {}\n", host.mtu);
        for (address, len) in &host.addresses {
            let nodad = if address.is_ipv6() { " nodad" } else { "" };
            batch += &format!("-n {space} addr add {address}/{len} dev {HOST_DEVICE}{nodad}\n");
        }
        for gateway in &host.gateways {
            batch += &format!("-n {space} route add default via {gateway} dev {HOST_DEVICE}\n");
        }
        netns::ip(self.runner, &batch)
    }

    /// Writes a node's configuration and starts it.
    fn node(
        &self,
        standing: &mut Standing,
        setting: &LiveSetting<'_>,
        keys: &mut Fresh,
        node: &Node,
    ) -> Result<(String, Child), Fault> {
        let file = setting.folder.join(format!("{}.toml", node.name));
        let token = NodeToken::of(self.runner, node, setting.folder)?;
        let told = token.as_ref().map(NodeToken::told);
        write(&file, node.live(setting, told.as_ref()).as_bytes())?;
        if let Some(token) = &token {
            keys.bring(self.runner, token, node, &file)?;
        }
        let program = std::env::current_exe().map_err(|e| Fault::failed("our own path", e))?;
        let space = standing.space(&node.name);
        let used = setting.folder.join("used-keys");
        if node.has_counters() {
            // The keys are fresh: their counters begin.
            let mut create = netns::inside(&space);
            create.env(USED_KEYS, &used).arg(&program).args(["state", "create"]).arg(&file);
            token.iter().for_each(|token| token.known_to(&mut create));
            self.runner.done(&mut create, OWN)?;
        }
        let log = setting.folder.join(format!("{}.log", node.name));
        let open = OpenOptions::new().create(true).append(true).open(&log);
        let out = open.map_err(|e| Fault::failed(log.display().to_string(), e))?;
        let copy = out.try_clone().map_err(|e| Fault::failed(log.display().to_string(), e))?;
        // A session of its own: the node stays when this terminal goes.
        let mut command = Command::new("setsid");
        command.env(USED_KEYS, &used).args(["ip", "netns", "exec", &space]);
        command.arg(&program).arg("run").arg(&file);
        token.iter().for_each(|token| token.known_to(&mut command));
        command.stdin(Stdio::null()).stdout(out).stderr(copy);
        let child = command.spawn().map_err(|e| Fault::failed(node.name.clone(), e))?;
        standing.nodes.push(StandingNode::of(&node.name, child.id(), &log));
        standing.save()?;
        Ok((node.name.clone(), child))
    }

    /// Waits until every node has its management socket.
    fn ready(
        &self,
        setting: &LiveSetting<'_>,
        children: &mut [(String, Child)],
    ) -> Result<(), Fault> {
        self.runner.wait_for("not every node is ready", READY, || {
            for (name, child) in children.iter_mut() {
                if let Ok(Some(status)) = child.try_wait() {
                    let log = setting.folder.join(format!("{name}.log"));
                    let said = std::fs::read_to_string(log).unwrap_or_default();
                    return Err(Fault::failed(format!("{name} ended: {status}"), said));
                }
            }
            Ok(children.iter().all(|(name, _)| Path::new(&setting.socket(name)).exists()))
        })
    }
}

/// Message for a person: the lab that is up, and the next commands.
fn told(topology: &Topology, standing: &Standing, carried: &[usize]) -> String {
    let paint = Paint::for_stream(&std::io::stdout());
    let counts = format!(
        "{} is up: {} nodes, {} hosts, {} links",
        topology.name,
        topology.nodes.len(),
        topology.hosts.len(),
        topology.links.len()
    );
    let mut text = format!("{}\n", paint.bold(counts));
    if !carried.is_empty() {
        let names: Vec<&str> =
            carried.iter().filter_map(|&at| Some(topology.links.get(at)?.name.as_str())).collect();
        let names = names.join(", ");
        text += &paint.faint(format!("with rate, delay and impairments: {names}\n"));
    }
    for note in topology.only_virtual(carried) {
        text += &paint.faint(format!("not on real interfaces: {note}\n"));
    }
    text += "\nTry next:\n";
    let pair = topology.traffic.first().map(|entry| (entry.from, entry.address));
    if let Some((from, to)) = pair {
        let space = standing.space(&topology.hosts[from].name);
        text += &format!("  ip netns exec {space} ping {to}\n");
    }
    let program = std::env::args().next().unwrap_or_else(|| "ferrule".into());
    if let Some(node) = topology.nodes.first() {
        let socket = standing.folder().join(format!("{}.socket", node.name));
        text += &format!("  {program} show drops --socket {}\n", socket.display());
    }
    text += &format!("  {program} lab status\n  {program} lab down {}\n", topology.name);
    text
}
