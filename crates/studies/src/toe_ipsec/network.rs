//! The study's network, as configurations of Ferrule's nodes.
//!
//! ```text
//!   tester ── gw1 ══ ESP ══ gw2 ── tester      all lines 1 Gbit/s
//!   or host    │                    or host
//!              └ the system under test; gw2 takes no time
//! ```
//!
//! The study's IPsec ends in the sending host. Here it ends in a gateway beside it:
//! the same work for each packet, and a tester or a TCP host can stand on either side.

use crate::options::Seed;
use ferrule_base::MacAddr;
use ferrule_lab::topology::LabKeys;
use ferrule_lab::{DeviceId, LinkSpec, Network, Profile};
use ferrule_node::Config;
use ferrule_node::config::Written;
use std::fmt::Write;

/// Placement of the crypto.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum System {
    /// In the host's loop.
    Software,
    /// In a chip beyond the host's bus.
    LookAside,
    /// Between MAC and PHY: the host never sees it.
    Inline,
}

impl System {
    /// Every system, in the order of the study's tables.
    pub const ALL: [Self; 3] = [Self::Software, Self::LookAside, Self::Inline];

    /// As the study's file calls it.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Software => "software",
            Self::LookAside => "look-aside",
            Self::Inline => "inline",
        }
    }

    /// The file of its device, under `profiles/`.
    pub const fn profile(self) -> &'static str {
        match self {
            Self::Software => "toe-software",
            Self::LookAside => "toe-look-aside",
            Self::Inline => "toe-inline",
        }
    }

    /// The device.
    pub fn device(self) -> Profile {
        let name = self.profile();
        Profile::named(name).unwrap_or_else(|| panic!("profiles/{name}.toml is shipped"))
    }
}

/// Rate of every line, in bits per second.
pub const RATE: u64 = 1_000_000_000;
/// Frames that wait for a line at most.
const QUEUE: usize = 256;
/// The gateways' addresses in their sites.
pub const LAN_MAC: [MacAddr; 2] = [MacAddr([2, 15, 226, 1, 1, 1]), MacAddr([2, 15, 226, 2, 1, 1])];
/// The addresses of who stands there.
pub const END_MAC: [MacAddr; 2] = [MacAddr([2, 15, 226, 1, 2, 1]), MacAddr([2, 15, 226, 2, 2, 1])];

const SPIS: [u32; 2] = [0x2000_0102, 0x2000_0201];
const SEED: u64 = 2006;
const BUFFERS: usize = 8192;
/// Jobs under way in the queue pair at most: as many as wait for the other systems.
const DEPTH: usize = 64;

/// A network that was built.
pub struct Built {
    /// The network.
    pub network: Network,
    /// The system under test.
    pub device: DeviceId,
    /// Both gateways.
    pub gateways: [DeviceId; 2],
}

/// One of its lines.
pub fn line() -> LinkSpec {
    LinkSpec { rate: Some(RATE), queue: QUEUE, ..LinkSpec::default() }
}

/// The network; who stands in the sites is the caller's to add.
pub fn build(system: System, device: Profile, seed: Seed) -> Built {
    let mut network = Network::with_buffers(seed.of(SEED), BUFFERS);
    let mut node = |name: &str, side, placement, device| {
        let config = config(name, &gateway(side, placement));
        network.node(name, config, device).expect("a node that builds")
    };
    let first = node("gw1", 0, system, device);
    let gateways = [first, node("gw2", 1, System::Software, Profile::ideal())];
    let ends = gateways.map(|gateway| ferrule_lab::End::Device(gateway, "wan"));
    network.link(line(), ends[0], ends[1]).expect("free ports");
    Built { network, device: first, gateways }
}

fn config(name: &str, text: &str) -> Config {
    let problem = |problems: Vec<_>| -> Config { panic!("{name}: {problems:#?}\n{text}") };
    let written = match Written::parse(text) {
        Ok(written) => written,
        Err(problems) => return problem(problems),
    };
    Config::of_lab(name, &written, &mut LabKeys::default()).unwrap_or_else(problem)
}

fn gateway(side: usize, placement: System) -> String {
    let (own, far) = (side + 1, 2 - side);
    let mut text = String::new();
    if placement == System::LookAside {
        // A packet goes as it comes. What the bus costs is in the profile.
        let _ = writeln!(text, "[look-aside]\ndepth = {DEPTH}\nbatch = 1\nwait-us = 0");
    }
    let _ = write!(
        text,
        "[[port]]\nname = \"lan\"\nmac = \"{}\"\n[[port]]\nname = \"wan\"\nmtu = 1600\n\
         [[interface]]\nname = \"lan\"\nport = \"lan\"\naddress = [\"10.0.{own}.1/24\"]\n\
         [[interface]]\nname = \"wan\"\nport = \"wan\"\naddress = [\"198.51.100.{own}/24\"]\n\
         [[route]]\nprefix = \"10.0.{far}.0/24\"\nvia = \"198.51.100.{far}\"\n\
         [[tunnel]]\nname = \"site\"\nlocal = \"198.51.100.{own}\"\nremote = \"198.51.100.{far}\"\n\
         suite = \"aes-cbc-128 hmac-sha1-96\"\nplacement = \"{}\"\n\
         [tunnel.out]\nspi = {}\nkey = \"lab:toe-{own}-{far}\"\n\
         [tunnel.in]\nspi = {}\nkey = \"lab:toe-{far}-{own}\"\n\
         [[policy]]\ninterface = \"wan\"\naction = \"protect\"\ntunnel = \"site\"\n\
         local = \"10.0.{own}.0/24\"\nremote = \"10.0.{far}.0/24\"\n",
        LAN_MAC[side],
        placement.key(),
        SPIS[side],
        SPIS[1 - side]
    );
    text
}
