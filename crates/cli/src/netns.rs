//! Network namespaces and veth pairs, by the `ip` command: what the demo and
//! `ferrule lab up` stand on.
//!
//! The kernel has no addresses in a node's namespace, so it answers nothing
//! there; where no host wants IPv6 it is off, so that no frame appears that
//! nobody sent.

use crate::process::{Fault, Runner};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Setting up takes this long at most, each command.
const LIMIT: Duration = Duration::from_secs(20);
/// So often what still runs in a namespace is ended, and so long it has each time.
const CLEAR_ATTEMPTS: usize = 20;
const CLEAR_PAUSE: Duration = Duration::from_millis(20);
/// Where `ip netns` keeps its names.
pub const NAMES: &str = "/run/netns";

/// One end of a veth pair.
#[derive(Clone, Debug)]
pub struct VethEnd {
    /// The namespace that it is in.
    pub space: String,
    /// The device there.
    pub device: String,
    /// Its address.
    pub mac: String,
}

/// A veth pair.
#[derive(Clone, Debug)]
pub struct Veth {
    /// Both ends.
    pub ends: [VethEnd; 2],
    /// MTU of both devices.
    pub mtu: usize,
}

/// True if there is a namespace of this name.
pub fn exists(space: &str) -> bool {
    Path::new(NAMES).join(space).exists()
}

/// Makes a namespace, with or without IPv6.
pub fn add(runner: &Runner, space: &str, ipv6: bool) -> Result<(), Fault> {
    let mut add = Command::new("ip");
    let said = runner.output(add.args(["netns", "add", space]), LIMIT)?;
    if !said.status.success() {
        let what = "network namespaces cannot be made here";
        return Err(Fault::Missing(what.into(), said.err));
    }
    if !ipv6 {
        let off = "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; \
                   echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6";
        // A kernel without IPv6 has nothing to switch off.
        let _ = runner.output(inside(space).args(["sh", "-c", off]), LIMIT);
    }
    ip(runner, &format!("-n {space} link set dev lo up"))
}

/// Makes a veth pair between two namespaces, both ends up.
pub fn join(runner: &Runner, veth: &Veth) -> Result<(), Fault> {
    let [a, b] = &veth.ends;
    let mtu = veth.mtu;
    let batch = format!(
        "link add name {} netns {} address {} mtu {mtu} type veth \
         peer name {} netns {} address {} mtu {mtu}\n\
         -n {} link set dev {} up\n-n {} link set dev {} up",
        a.device, a.space, a.mac, b.device, b.space, b.mac, a.space, a.device, b.space, b.device,
    );
    ip(runner, &batch)
}

/// Frames leave a host whole and with finished checksums, as from a wire.
pub fn without_offloads(runner: &Runner, space: &str, device: &str) -> Result<(), Fault> {
    let mut ethtool = inside(space);
    ethtool.args(["ethtool", "-K", device]);
    ethtool.args("tx off rx off tso off gso off gro off".split(' '));
    runner.done(&mut ethtool, LIMIT).map(|_| ())
}

/// A command that runs there; the program and its arguments follow.
pub fn inside(space: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", space]);
    command
}

/// Commands of `ip`, one a line; `-n NAMESPACE` may stand in front.
pub fn ip(runner: &Runner, batch: &str) -> Result<(), Fault> {
    for line in batch.lines() {
        runner.done(Command::new("ip").args(line.split_whitespace()), LIMIT)?;
    }
    Ok(())
}

/// Ends what still runs in a namespace, by number, and deletes it: a daemon's children are
/// nobody's but the namespace's.
pub fn clear_away(space: &str) {
    for _ in 0..CLEAR_ATTEMPTS {
        let mut pids = Command::new("ip");
        pids.args(["netns", "pids", space]).stdin(Stdio::null()).stderr(Stdio::null());
        let said = pids.output().map(|said| said.stdout).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        if said.trim().is_empty() {
            break;
        }
        let mut kill = Command::new("sh");
        kill.args(["-c", "kill -KILL \"$@\"", "kill"]).args(said.split_whitespace());
        kill.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let _ = kill.status();
        std::thread::sleep(CLEAR_PAUSE);
    }
    delete(space);
}

/// Deletes a namespace, and with it the devices in it.
pub fn delete(space: &str) {
    let mut command = Command::new("ip");
    command.args(["netns", "del", space]).stdin(Stdio::null());
    let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
}
