//! Switches in a row for the study's figure 2, on veth pairs in the namespace of the
//! tester: what each further switch costs with and without MACsec.
//!
//! ```text
//!   t0 ── [ce1] ── [s1] ── … ── [sn] ── [ce2] ── t1        plain, each node a process
//!   u0 ── [ce1] ── [s1] ── … ── [sn] ── [ce2] ── u1        the same under MACsec
//! ```
//!
//! Both chains stand beside each other and are asked in turn, so that what else the machine
//! does meets both alike; the one that is not asked sleeps. No device has an address, so one
//! namespace holds them all.

use super::bench::companion;
use super::live::Site;
use super::plan::{ACCESS_MTU, Place, SITE_MTU, VARIANTS, Variant, end};
use crate::init::key::KeyFor;
use crate::netns::{self, Veth, VethEnd};
use crate::process::{Background, Fault, stop_all, write};
use ferrule_studies::macsec_mobility::live::LiveHop;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Switches between the edges.
const SWITCHES: [usize; 4] = [1, 2, 4, 8];
/// A load that every chain carries, in Mbit/s: what is asked is delay, not load.
const LOAD: f64 = 20.0;
/// Turns of both chains; a verdict needs seven.
const ROUNDS: usize = 9;
/// Octets of SecTAG and ICV.
const SEALED: usize = 32;
/// Both systems: the variant's key, the letter of its devices, the tester's ports.
const SYSTEMS: [(&str, char, [&str; 2]); 2] =
    [("plain", 'h', ["t0", "t1"]), ("macsec", 'k', ["u0", "u1"])];

/// Delay for each number of switches, plain and with MACsec on every link.
pub fn run(site: &Site<'_>, say: &mut dyn FnMut(&str)) -> Result<Vec<LiveHop>, Fault> {
    let mut hops = Vec::new();
    for switches in SWITCHES {
        say(&format!("live: {switches} in a row"));
        let [plain, macsec] = SYSTEMS.map(|(key, letter, ports)| {
            let variant = VARIANTS.iter().find(|v| v.key == key).expect("a variant of the plan");
            Chain { site, switches, variant, letter, ports }
        });
        let mut chains = [(plain.up()?, Vec::new()), (macsec.up()?, Vec::new())];
        for _ in 0..ROUNDS {
            for ((chain, _), means) in &mut chains {
                means.push(chain.trial()?);
            }
        }
        let mut found = Vec::new();
        for ((_, mut nodes), means) in chains {
            nodes.iter_mut().try_for_each(Background::check)?;
            stop_all(nodes);
            found.push(means);
        }
        hops.push(LiveHop::of(switches, &found[0], &found[1]));
    }
    Ok(hops)
}

/// The cables of one chain; they go when it is dropped.
struct Chain<'a> {
    site: &'a Site<'a>,
    switches: usize,
    variant: &'static Variant,
    letter: char,
    ports: [&'static str; 2],
}

impl Chain<'_> {
    /// Lays the cables, starts the nodes, and waits until they carry frames.
    fn up(self) -> Result<(Self, Vec<Background>), Fault> {
        self.lay()?;
        let dir = self.site.folder.join(format!("chain-{}-{}", self.switches, self.variant.key));
        fs::create_dir(&dir).map_err(|e| Fault::failed(dir.display().to_string(), e))?;
        self.make_keys(&dir)?;
        let mut nodes = Vec::new();
        for node in 0..self.nodes() {
            nodes.push(self.start(node, &dir)?);
        }
        companion(self.site, self.variant, self.ports, &[])?;
        Ok((self, nodes))
    }

    fn lay(&self) -> Result<(), Fault> {
        let (site, last) = (self.site, self.nodes());
        let space = site.network.namespace(Place::Host1);
        for cable in 0..=last {
            // The tester answers for the addresses of the demo's hosts.
            let tester = |port: &str, place| (port.to_owned(), end(place, "eth0").mac.to_owned());
            let own = |far| (self.device(cable, far), address(cable, far));
            let near = if cable == 0 { tester(self.ports[0], Place::Host1) } else { own(false) };
            let far = if cable == last { tester(self.ports[1], Place::Host2) } else { own(true) };
            let ends =
                [near, far].map(|(device, mac)| VethEnd { space: space.clone(), device, mac });
            netns::join(site.runner, &Veth { ends, mtu: ACCESS_MTU })?;
        }
        self.ports.iter().try_for_each(|port| netns::without_offloads(site.runner, &space, port))
    }

    /// The device at a node's end of a cable: cable 0 leads to the tester's first port.
    fn device(&self, cable: usize, far: bool) -> String {
        format!("{}{cable}{}", self.letter, if far { "b" } else { "a" })
    }

    /// The key with which this end of a cable sends.
    fn key_file(&self, dir: &Path, cable: usize, far: bool) -> PathBuf {
        dir.join(format!("{}.key", self.device(cable, far)))
    }

    /// Both edges and what is between them.
    fn nodes(&self) -> usize {
        self.switches + 2
    }

    /// Keys for both ends of every link between nodes, if the variant has some.
    fn make_keys(&self, dir: &Path) -> Result<(), Fault> {
        if self.variant.key_for().is_none() {
            return Ok(());
        }
        let (kind, suite) = (KeyFor::Macsec { sak_len: 16, xpn: false }, "gcm-aes-128");
        for cable in 1..self.nodes() {
            for far in [false, true] {
                let key = kind.fresh(&format!("{suite}, from {}", self.device(cable, far)));
                let key = key.map_err(|e| Fault::failed("a key", e))?;
                write(&self.key_file(dir, cable, far), key.expose())?;
            }
        }
        Ok(())
    }

    /// The mean delay of one trial, in microseconds.
    fn trial(&self) -> Result<f64, Fault> {
        let load = LOAD.to_string();
        let wishes = ["--short", "--loads", &load];
        let trials = companion(self.site, self.variant, self.ports, &wishes)?;
        let trial = trials.first().ok_or_else(|| Fault::failed("the tester's result", "no trial"));
        trial.map(|trial| trial.us[0])
    }

    fn start(&self, node: usize, dir: &Path) -> Result<Background, Fault> {
        let name = format!("s{node}");
        let text = self.toml(node, &name, dir);
        self.site.start((Place::Host1, &name), &text, dir)
    }

    /// A bridge of two ports; towards another node under MACsec, if it is asked for.
    fn toml(&self, node: usize, name: &str, dir: &Path) -> String {
        let keyed = self.variant.key_for().is_some();
        let file = |kind: &str| dir.join(format!("{name}.{kind}"));
        let mut text = format!("[node]\nname = \"{name}\"\ncontrol = {:?}\n", file("socket"));
        if keyed {
            let _ = writeln!(text, "state = {:?}", file("state"));
        }
        // The port towards the first tester is the far end of its cable.
        let ports = [("left", node, true), ("right", node + 1, false)];
        let between = |cable: usize| keyed && cable > 0 && cable < self.nodes();
        for (port, cable, far) in ports {
            // A bridge takes frames that all members can send: MACsec's are longer.
            let mtu = if between(cable) { SITE_MTU + SEALED } else { SITE_MTU };
            let _ = write!(
                text,
                "[[port]]\nname = \"{port}\"\ndriver = \"af-packet\"\ndevice = \"{}\"\nmtu = {mtu}\n",
                self.device(cable, far),
            );
        }
        text += "[[bridge]]\nname = \"site\"\n\
                 [[bridge.member]]\nport = \"left\"\n[[bridge.member]]\nport = \"right\"\n";
        for (port, cable, far) in ports.into_iter().filter(|(_, cable, _)| between(*cable)) {
            let _ = write!(
                text,
                "[[macsec]]\nport = \"{port}\"\ncipher = \"gcm-aes-128\"\nsci = \"{}/1\"\n\
                 send-sci = true\n[[macsec.transmit]]\nkey = {:?}\n\
                 [[macsec.receive]]\nsci = \"{}/1\"\nkey = {:?}\n",
                address(cable, far),
                self.key_file(dir, cable, far),
                address(cable, !far),
                self.key_file(dir, cable, !far),
            );
        }
        text
    }
}

fn address(cable: usize, far: bool) -> String {
    format!("02:0f:e1:5{}:{cable:02x}:01", if far { "b" } else { "a" })
}

impl Drop for Chain<'_> {
    fn drop(&mut self) {
        let space = self.site.network.namespace(Place::Host1);
        for cable in 0..=self.nodes() {
            // One end takes the other with it.
            let name =
                if cable == 0 { self.ports[0].to_owned() } else { self.device(cable, false) };
            let _ = netns::ip(self.site.runner, &format!("-n {space} link del {name}"));
        }
    }
}
