//! The demo's seven namespaces and six veth pairs; gone when dropped.

use super::plan::{Place, Variant, WIRES};
use crate::netns::{self, Veth, VethEnd};
use crate::process::{Fault, Runner, is_installed};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

/// Namespaces of every demo begin so; the process follows.
const PREFIX: &str = "ferrule-";

/// The namespaces of this demo.
pub struct Network {
    prefix: String,
    /// Should we be killed without a word, the kernel tells what we started.
    leash: bool,
}

impl Network {
    /// Makes namespaces and wires, all devices up. What was made goes again if a
    /// step fails.
    pub fn build(runner: &Runner) -> Result<Self, Fault> {
        let prefix = format!("{PREFIX}{}-", std::process::id());
        let network = Self { prefix, leash: is_installed("setpriv") };
        for place in Place::ALL {
            netns::add(runner, &network.namespace(place), false)?;
        }
        for wire in &WIRES {
            let end = |at: usize| VethEnd {
                space: network.namespace(wire.ends[at].place),
                device: wire.ends[at].device.to_owned(),
                mac: wire.ends[at].mac.to_owned(),
            };
            netns::join(runner, &Veth { ends: [end(0), end(1)], mtu: wire.mtu })?;
        }
        for place in [Place::Host1, Place::Host2] {
            netns::without_offloads(runner, &network.namespace(place), "eth0")?;
        }
        Ok(network)
    }

    /// Gives the hosts the addresses of a variant.
    pub fn address(&self, runner: &Runner, variant: &Variant) -> Result<(), Fault> {
        let mut batch = String::new();
        let hosts = variant.hosts();
        for (side, place) in [Place::Host1, Place::Host2].into_iter().enumerate() {
            let ns = self.namespace(place);
            batch += &format!("-n {ns} addr flush dev eth0\n");
            batch += &format!("-n {ns} neigh flush dev eth0\n");
            batch += &format!("-n {ns} addr add {}/24 dev eth0\n", hosts[side]);
            if variant.is_routed() {
                let gateway = super::plan::LAN[side];
                batch += &format!("-n {ns} route add default via {gateway}\n");
            }
        }
        netns::ip(runner, &batch)
    }

    /// The namespace of a place.
    pub fn namespace(&self, place: Place) -> String {
        format!("{}{}", self.prefix, place.name())
    }

    /// A command that runs there; the program and its arguments follow.
    pub fn inside(&self, place: Place) -> Command {
        let mut command = netns::inside(&self.namespace(place));
        if self.leash {
            command.args(["setpriv", "--pdeathsig", "TERM"]);
        }
        command
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for place in Place::ALL {
            netns::delete(&self.namespace(place));
        }
    }
}

/// Removes namespaces that a demo left behind which was killed without a word.
pub fn remove_orphans() -> usize {
    let Ok(entries) = fs::read_dir(netns::NAMES) else { return 0 };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let orphans: Vec<String> = names.filter(|name| is_orphan(name)).collect();
    for name in &orphans {
        netns::delete(name);
        let process = name.strip_prefix(PREFIX).and_then(|name| name.split('-').next());
        process.into_iter().for_each(remove_files);
    }
    orphans.len()
}

/// Removes the keys and logs of a killed demo from where they lie by default. Others may write
/// there, too: a link, or a folder of another user, is left alone.
fn remove_files(process: &str) {
    let folder = std::env::temp_dir().join(format!("ferrule-demo-{process}"));
    let owner = |path: &Path| fs::symlink_metadata(path).ok().map(|m| (m.is_dir(), m.uid()));
    let own = owner(Path::new("/proc/self")).map(|(_, uid)| (true, uid));
    if own.is_some() && owner(&folder) == own {
        let _ = fs::remove_dir_all(folder.join("files"));
        // Without a report in it the folder goes, too.
        let _ = fs::remove_dir(&folder);
    }
}

/// `ferrule-PROCESS-PLACE`, and the process is no more.
fn is_orphan(name: &str) -> bool {
    let Some((process, place)) = name.strip_prefix(PREFIX).and_then(|n| n.split_once('-')) else {
        return false;
    };
    Place::ALL.iter().any(|p| p.name() == place)
        && process.parse::<u32>().is_ok()
        && !Path::new("/proc").join(process).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demo_takes_only_namespaces_of_dead_demos_for_orphans() {
        let own = std::process::id();
        assert!(!is_orphan(&format!("ferrule-{own}-pe1")));
        // Above the largest process number that Linux gives.
        assert!(is_orphan("ferrule-4194305-pe1"));
        for other in ["ferrule-4194305-x", "ferrule-x-pe1", "pe1", "other-4194305-pe1"] {
            assert!(!is_orphan(other), "{other}");
        }
    }
}
