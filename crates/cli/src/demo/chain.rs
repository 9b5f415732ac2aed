//! Switches in a row for the study's figure 2, on veth pairs in the namespace of the
//! tester: what each further switch costs with and without MACsec.
//!
//! ```text
//!   t0 ── [ce1] ── [s1] ── … ── [sn] ── [ce2] ── t1        each node a process
//! ```
//!
//! No device has an address, so one namespace holds them all.

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

/// Switches between the edges, at most.
const SWITCHES: usize = 3;
/// A load that every chain carries, in Mbit/s: what is asked is delay, not load.
const LOAD: f64 = 20.0;
/// Trials of each chain; the median counts.
const ROUNDS: usize = 5;
/// Octets of SecTAG and ICV.
const SEALED: usize = 32;
/// The tester's ports.
const PORTS: [&str; 2] = ["t0", "t1"];

/// Delay for each number of switches, plain and with MACsec on every link.
pub fn run(site: &Site<'_>, say: &mut dyn FnMut(&str)) -> Result<Vec<LiveHop>, Fault> {
    let mut hops = Vec::new();
    for switches in 1..=SWITCHES {
        say(&format!("live: {switches} in a row"));
        let chain = Chain::build(site, switches)?;
        let measure = |key| {
            let variant = VARIANTS.iter().find(|v| v.key == key).expect("a variant of the plan");
            chain.measure(variant)
        };
        hops.push(LiveHop { switches, plain: measure("plain")?, macsec: measure("macsec")? });
    }
    Ok(hops)
}

/// The cables of one chain; they go when it is dropped.
struct Chain<'a> {
    site: &'a Site<'a>,
    switches: usize,
}

/// The device at a node's end of a cable: cable 0 leads to the tester's first port.
fn device(cable: usize, far: bool) -> String {
    format!("h{cable}{}", if far { "b" } else { "a" })
}

impl<'a> Chain<'a> {
    fn build(site: &'a Site<'a>, switches: usize) -> Result<Self, Fault> {
        let chain = Self { site, switches };
        let space = site.network.namespace(Place::Host1);
        let last = chain.nodes();
        for cable in 0..=last {
            // The tester answers for the addresses of the demo's hosts.
            let tester = |port: &str, place| (port.to_owned(), end(place, "eth0").mac.to_owned());
            let own = |far| (device(cable, far), address(cable, far));
            let near = if cable == 0 { tester(PORTS[0], Place::Host1) } else { own(false) };
            let far = if cable == last { tester(PORTS[1], Place::Host2) } else { own(true) };
            let ends =
                [near, far].map(|(device, mac)| VethEnd { space: space.clone(), device, mac });
            netns::join(site.runner, &Veth { ends, mtu: ACCESS_MTU })?;
        }
        for port in PORTS {
            netns::without_offloads(site.runner, &space, port)?;
        }
        Ok(chain)
    }

    /// Both edges and what is between them.
    fn nodes(&self) -> usize {
        self.switches + 2
    }

    /// Mean delays of some trials in microseconds: the median, the least, the greatest.
    fn measure(&self, variant: &Variant) -> Result<[f64; 3], Fault> {
        let dir = self.site.folder.join(format!("chain-{}-{}", self.switches, variant.key));
        fs::create_dir(&dir).map_err(|e| Fault::failed(dir.display().to_string(), e))?;
        if variant.key_for().is_some() {
            let (kind, suite) = (KeyFor::Macsec { sak_len: 16, xpn: false }, "gcm-aes-128");
            for cable in 1..self.nodes() {
                for far in [false, true] {
                    let key = kind.fresh(&format!("{suite}, from {}", device(cable, far)));
                    let key = key.map_err(|e| Fault::failed("a key", e))?;
                    write(&key_file(&dir, cable, far), key.expose())?;
                }
            }
        }
        let mut nodes = Vec::new();
        for node in 0..self.nodes() {
            nodes.push(self.start(node, variant, &dir)?);
        }
        companion(self.site, variant, PORTS, &[])?;
        let loads = vec![LOAD.to_string(); ROUNDS].join(",");
        let trials = companion(self.site, variant, PORTS, &["--short", "--loads", &loads])?;
        nodes.iter_mut().try_for_each(Background::check)?;
        stop_all(nodes);
        let mut means: Vec<f64> = trials.iter().map(|trial| trial.us[0]).collect();
        means.sort_by(f64::total_cmp);
        match (means.first(), means.last()) {
            (Some(least), Some(greatest)) => Ok([means[means.len() / 2], *least, *greatest]),
            _ => Err(Fault::failed("the tester's result", "no trial")),
        }
    }

    fn start(&self, node: usize, variant: &Variant, dir: &Path) -> Result<Background, Fault> {
        let name = format!("s{node}");
        let text = self.toml(node, &name, variant, dir);
        self.site.start((Place::Host1, &name), &text, dir)
    }

    /// A bridge of two ports; towards another node under MACsec, if it is asked for.
    fn toml(&self, node: usize, name: &str, variant: &Variant, dir: &Path) -> String {
        let keyed = variant.key_for().is_some();
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
                device(cable, far),
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
                key_file(dir, cable, far),
                address(cable, !far),
                key_file(dir, cable, !far),
            );
        }
        text
    }
}

/// The key with which this end of a cable sends.
fn key_file(dir: &Path, cable: usize, far: bool) -> PathBuf {
    dir.join(format!("{}.key", device(cable, far)))
}

fn address(cable: usize, far: bool) -> String {
    format!("02:0f:e1:5{}:{cable:02x}:01", if far { "b" } else { "a" })
}

impl Drop for Chain<'_> {
    fn drop(&mut self) {
        let space = self.site.network.namespace(Place::Host1);
        for cable in 0..=self.nodes() {
            // One end takes the other with it.
            let name = if cable == 0 { PORTS[0].to_owned() } else { device(cable, false) };
            let _ = netns::ip(self.site.runner, &format!("-n {space} link del {name}"));
        }
    }
}
