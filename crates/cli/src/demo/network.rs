//! Network namespaces and veth pairs, by the `ip` command; gone when dropped.
//!
//! The kernel has no addresses in the nodes' namespaces, so it answers nothing
//! there; IPv6 is off everywhere, so that no frame appears that nobody sent.

use super::plan::{Place, Variant, WIRES};
use super::run::{Fault, Runner, is_installed};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Namespaces of every demo begin so; the process follows.
const PREFIX: &str = "ferrule-";
/// Setting up takes this long at most, each command.
const LIMIT: Duration = Duration::from_secs(20);

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
            let mut add = Command::new("ip");
            let said =
                runner.output(add.args(["netns", "add", &network.namespace(place)]), LIMIT)?;
            if !said.status.success() {
                let what = "network namespaces cannot be made here";
                return Err(Fault::Missing(what.into(), said.err));
            }
        }
        for place in Place::ALL {
            let off = "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; \
                       echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6";
            // A kernel without IPv6 has nothing to switch off.
            let _ = runner.output(network.inside(place).args(["sh", "-c", off]), LIMIT);
        }
        network.ip(runner, &network.wires())?;
        for place in [Place::Host1, Place::Host2] {
            // Frames leave a host whole and with finished checksums, as from a wire.
            let mut ethtool = network.inside(place);
            ethtool.args("ethtool -K eth0 tx off rx off tso off gso off gro off".split(' '));
            runner.done(&mut ethtool, LIMIT)?;
        }
        Ok(network)
    }

    fn wires(&self) -> String {
        let mut batch = String::new();
        for wire in &WIRES {
            let [a, b] = &wire.ends;
            batch += &format!(
                "link add {} netns {} address {} mtu {} type veth \
                 peer name {} netns {} address {} mtu {}\n",
                a.device,
                self.namespace(a.place),
                a.mac,
                wire.mtu,
                b.device,
                self.namespace(b.place),
                b.mac,
                wire.mtu,
            );
        }
        for end in WIRES.iter().flat_map(|wire| &wire.ends) {
            let namespace = self.namespace(end.place);
            batch += &format!("-n {namespace} link set {} up\n", end.device);
        }
        for place in Place::ALL {
            batch += &format!("-n {} link set lo up\n", self.namespace(place));
        }
        batch
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
        self.ip(runner, &batch)
    }

    /// The namespace of a place.
    pub fn namespace(&self, place: Place) -> String {
        format!("{}{}", self.prefix, place.name())
    }

    /// A command that runs there; the program and its arguments follow.
    pub fn inside(&self, place: Place) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(place)]);
        if self.leash {
            command.args(["setpriv", "--pdeathsig", "TERM"]);
        }
        command
    }

    /// Commands of `ip`, one a line; `-n NAMESPACE` may stand in front.
    fn ip(&self, runner: &Runner, batch: &str) -> Result<(), Fault> {
        for line in batch.lines() {
            runner.done(Command::new("ip").args(line.split_whitespace()), LIMIT)?;
        }
        Ok(())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for place in Place::ALL {
            delete(&self.namespace(place));
        }
    }
}

/// Deletes a namespace, and with it the devices in it.
fn delete(namespace: &str) {
    let mut command = Command::new("ip");
    command.args(["netns", "del", namespace]).stdin(Stdio::null());
    let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// Removes namespaces that a demo left behind which was killed without a word.
pub fn remove_orphans() -> usize {
    let Ok(entries) = fs::read_dir("/run/netns") else { return 0 };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let orphans: Vec<String> = names.filter(|name| is_orphan(name)).collect();
    for name in &orphans {
        delete(name);
        let process = name.strip_prefix(PREFIX).and_then(|name| name.split('-').next());
        process.into_iter().for_each(remove_files);
    }
    orphans.len()
}

/// Removes the keys and logs of a killed demo from where they lie by default.
/// Others may write there, too: a link, or somebody else's folder, is left alone.
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
