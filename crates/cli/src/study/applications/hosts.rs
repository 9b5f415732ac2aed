//! Two hosts whose programs reach each other through a pair of nodes for each kind of
//! protection, all at once, so that they can be measured in turn.
//!
//! ```text
//!   host a                node a            node b                host b
//!   clients ── p1 (TUN) ──[ 1 ]── w1 ══════ w1 ──[ 1 ]── p1 (TUN) ── servers
//!           ── p2 (TUN) ──[ 2 ]── w2 ══════ w2 ──[ 2 ]── p2 (TUN) ──
//!           ── k0 ─────────────── veth ───────────────── k0 ────────   no node at all
//! ```
//!
//! Each of the four is a network namespace of the study's own. A node opens its TUN
//! device in its own namespace; the device is given to the host then, as the node's
//! kernel must not take packets for its own.

use super::lanes::Lane;
use crate::init::key::KeyFor;
use crate::netns::{self, Veth, VethEnd};
use crate::process::{Background, Fault, Runner, USED_KEYS, is_installed, write};
use crate::study::rig::{PREFIX, READY, program, remove_orphans};
use ferrule_crypto::Suite;
use ferrule_studies::ipsec_ip_layer::cases::{Mode, Protection};
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

/// Namespaces: the client's host, its node, the server's node, its host.
const SPACES: [&str; 4] = ["ha", "na", "nb", "hb"];
/// Of every device.
const MTU: usize = 1500;
/// SPIs of a pair, from the client's node and from the server's.
const SPIS: [u32; 2] = [0x2000_0102, 0x2000_0201];

/// A host, or the node in front of it; by its namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Where the clients are.
    Client = 0,
    /// Where the servers are.
    Server = 3,
}

/// The namespaces; they go when this is dropped, with all that runs in them.
pub struct Hosts<'a> {
    runner: &'a Runner,
    folder: &'a Path,
    leash: bool,
}

/// The nodes that join the hosts for a kind of protection, and the server's address behind them.
pub struct Joined {
    /// Both nodes; none: the hosts' kernels alone.
    pub nodes: Vec<Background>,
    /// The server's address there.
    pub server: Ipv4Addr,
    /// The nodes' device on the wire.
    pub wire: String,
}

fn space(at: usize) -> String {
    format!("{PREFIX}{}-{}", std::process::id(), SPACES[at])
}

/// The address of a host.
fn address(lane: usize, side: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, lane as u8, side as u8 + 1, 2)
}

impl<'a> Hosts<'a> {
    /// Makes the namespaces. What was made goes again if a step fails.
    pub fn build(runner: &'a Runner, folder: &'a Path) -> Result<Self, Fault> {
        for (tool, package) in [("ip", "iproute2"), ("ethtool", "ethtool")] {
            if !is_installed(tool) {
                return Err(Fault::Missing(format!("not installed: {tool}"), package.into()));
            }
        }
        remove_orphans();
        let hosts = Self { runner, folder, leash: is_installed("setpriv") };
        for at in 0..SPACES.len() {
            netns::add(runner, &space(at), false)?;
        }
        Ok(hosts)
    }

    /// A command that runs on a host; the program and its arguments follow.
    pub fn on(&self, place: Place) -> Command {
        self.inside(place as usize)
    }

    fn inside(&self, at: usize) -> Command {
        let mut command = netns::inside(&space(at));
        command.env(USED_KEYS, self.folder.join("used-keys"));
        if self.leash {
            command.args(["setpriv", "--pdeathsig", "TERM"]);
        }
        command
    }

    fn veth(&self, devices: [(usize, &str); 2], lane: usize) -> Result<(), Fault> {
        let ends = [0, 1].map(|side| VethEnd {
            space: space(devices[side].0),
            device: devices[side].1.to_owned(),
            mac: format!("02:0f:e2:04:{lane:02x}:0{}", side + 1),
        });
        netns::join(self.runner, &Veth { ends, mtu: MTU })
    }

    /// Joins the hosts by this lane, whose number is at least one for a lane with nodes.
    pub fn join(&self, number: usize, lane: &Lane) -> Result<Joined, Fault> {
        let Some(protection) = lane.protection else { return self.join_kernels(number) };
        let wire = format!("w{number}");
        self.veth([(1, &wire), (2, &wire)], number)?;
        if let Some(suite) = protection.suite() {
            keys(self.folder, number, suite)?;
        }
        let mut nodes = Vec::new();
        for side in 0..2 {
            nodes.push(self.node(number, lane, side)?);
        }
        Ok(Joined { nodes, server: address(number, 1), wire })
    }

    /// No node: what the hosts' own kernels need for the same transfer, one frame at a time.
    fn join_kernels(&self, number: usize) -> Result<Joined, Fault> {
        let wire = format!("k{number}");
        let (client, server) = (Place::Client as usize, Place::Server as usize);
        self.veth([(client, &wire), (server, &wire)], number)?;
        for (side, at) in [client, server].into_iter().enumerate() {
            netns::without_offloads(self.runner, &space(at), &wire)?;
            let far = address(number, 1 - side);
            let (own, space) = (address(number, side), space(at));
            let batch = format!("-n {space} addr add {own} peer {far} dev {wire}");
            netns::ip(self.runner, &batch)?;
        }
        Ok(Joined { nodes: Vec::new(), server: address(number, 1), wire })
    }

    /// Writes a node's configuration, starts it, and gives the host its device.
    fn node(&self, number: usize, lane: &Lane, side: usize) -> Result<Background, Fault> {
        let name = format!("{}{number}", ["a", "b"][side]);
        let path = |end: &str| self.folder.join(format!("{name}.{end}"));
        let (file, socket) = (path("toml"), path("socket"));
        let text = toml(&name, &socket, number, lane, side);
        write(&file, text.as_bytes())?;
        if text.contains("\nstate = ") {
            // The keys are fresh: their counters begin.
            let mut create = self.inside(side + 1);
            create.arg(program()?).args(["state", "create"]).arg(&file);
            self.runner.done(&mut create, READY)?;
        }
        let mut command = self.inside(side + 1);
        command.arg(program()?).arg("run").arg(&file);
        let mut node = Background::start(&name, &mut command, &path("log"))?;
        self.runner.wait_for(&format!("node {name} does not start"), READY, || {
            node.check()?;
            Ok(socket.exists())
        })?;
        let (from, host) = (space(side + 1), space(side * 3));
        let (own, far) = (address(number, side), address(number, 1 - side));
        // Without path MTU discovery the host's segments fill the link, as in the study.
        let lock = if lane.fills { format!(" mtu lock {MTU}") } else { String::new() };
        let batch = format!(
            "-n {from} link set dev p{number} netns {host}\n\
             -n {host} addr add {own}/32 dev p{number}\n\
             -n {host} link set dev p{number} mtu {MTU} up\n\
             -n {host} route add {far}/32 dev p{number} src {own}{lock}"
        );
        netns::ip(self.runner, &batch)?;
        Ok(node)
    }
}

impl Drop for Hosts<'_> {
    fn drop(&mut self) {
        (0..SPACES.len()).map(space).for_each(|space| netns::clear_away(&space));
    }
}

/// Keys that nobody else has for as long as the nodes run.
fn keys(folder: &Path, number: usize, suite: Suite) -> Result<(), Fault> {
    for side in 0..2 {
        let key = KeyFor::Esp(suite).fresh(suite.name());
        let key = key.map_err(|e| Fault::failed("a key", e))?;
        let file = folder.join(format!("{number}-{side}.key"));
        let _ = fs::remove_file(&file);
        write(&file, key.expose())?;
    }
    Ok(())
}

/// A node between its host and the wire.
fn toml(name: &str, socket: &Path, number: usize, lane: &Lane, side: usize) -> String {
    let (own, far) = (side + 1, 2 - side);
    let mut text = format!(
        "[node]\nname = \"{name}\"\nlab = true\ntimes = true\ncontrol = {socket:?}\n\
         [[port]]\nname = \"host\"\ndriver = \"tun\"\ndevice = \"p{number}\"\nmtu = {MTU}\n\
         [[port]]\nname = \"wan\"\ndriver = \"af-packet\"\ndevice = \"w{number}\"\nmtu = {MTU}\n\
         [[interface]]\nname = \"host\"\nport = \"host\"\naddress = [\"10.{number}.{own}.1/24\"]\n\
         [[interface]]\nname = \"wan\"\nport = \"wan\"\naddress = [\"198.51.100.{own}/24\"]\n\
         [[route]]\nprefix = \"10.{number}.{far}.0/24\"\nvia = \"198.51.100.{far}\"\n",
    );
    let hosts = [side, 1 - side].map(|side| address(number, side));
    let ends = format!("local = \"{}\"\nremote = \"{}\"\n", hosts[0], hosts[1]);
    if lane.protection == Some(Protection::Bypass) {
        text += &format!("[[policy]]\ninterface = \"wan\"\naction = \"bypass\"\n{ends}");
    }
    let sealed = lane.protection.and_then(|protection| Some((protection, protection.suite()?)));
    let Some((protection, suite)) = sealed else { return text };
    let state = socket.with_extension("state");
    text = text.replacen("[node]\n", &format!("[node]\nstate = {state:?}\n"), 1);
    let (protocol, suite) = match protection.is_ah() {
        true => ("protocol = \"ah\"\n", suite.ah_name().unwrap_or_default()),
        false => ("", suite.name()),
    };
    let (word, pair, selectors) = match lane.mode {
        Mode::Transport => ("transport", ends, String::new()),
        Mode::Tunnel => {
            // As the study does in a tunnel; AH is cut behind its sealing alone.
            let first = if protection.is_ah() { "" } else { "fragment = \"before\"\n" };
            let pair =
                format!("local = \"198.51.100.{own}\"\nremote = \"198.51.100.{far}\"\n{first}");
            ("tunnel", pair, ends)
        }
    };
    text += &format!(
        "[[{word}]]\nname = \"peer\"\nsuite = \"{suite}\"\n{pair}{protocol}\
         [{word}.out]\nspi = {}\nkey = \"{number}-{side}.key\"\n\
         [{word}.in]\nspi = {}\nkey = \"{number}-{}.key\"\n\
         [[policy]]\ninterface = \"wan\"\naction = \"protect\"\n{word} = \"peer\"\n{selectors}",
        SPIS[side],
        SPIS[1 - side],
        1 - side,
    );
    text
}

#[cfg(test)]
mod tests {
    use super::super::lanes::LANES;
    use super::*;
    use ferrule_base::Secret;
    use ferrule_node::Config;

    #[test]
    fn nodes_of_every_lane_have_a_configuration_that_is_accepted() {
        for (number, lane) in LANES.iter().enumerate().filter(|(_, lane)| lane.protection.is_some())
        {
            let suite = lane.protection.and_then(Protection::suite);
            for side in 0..2 {
                let text = toml("a1", Path::new("/tmp/a1.socket"), number, lane, side);
                let mut fresh = 0_u8;
                let mut keys = |_: &str| -> Result<Secret, String> {
                    fresh += 1;
                    let suite = suite.ok_or("no keys are needed")?;
                    let line = |word: &str, len: usize| match len {
                        0 => String::new(),
                        len => format!("{word} {}\n", format!("{fresh:02x}").repeat(len)),
                    };
                    let text = line("cipher", suite.key_len())
                        + &line("integrity", suite.mac_key_len())
                        + &line("salt", suite.esp_salt_len());
                    Ok(Secret::new(text.into_bytes()))
                };
                let config = Config::parse("a1.toml", &text, &mut keys);
                let config = config.unwrap_or_else(|e| panic!("{lane:?}: {e}"));
                assert_eq!(config.tunnels.len(), usize::from(suite.is_some()), "{lane:?}");
                assert!(config.times);
            }
        }
    }
}
