//! Two nodes and the tester at both ends of them, on veth pairs in a network namespace
//! of the study's own, which goes with it.
//!
//! ```text
//!   t0 ── lan [ near ] wan ══ ESP ══ wan [ far ] lan ── t1      each node a process
//!                         ( wire )
//! ```
//!
//! No device has an address that the kernel knows of, so one namespace holds them all.
//! Where a wire is asked for, `ferrule lab wire` carries the frames between the nodes
//! and loses some.

use super::trials::{Became, ENDS, LANS, Trial};
use crate::netns::{self, Veth, VethEnd};
use crate::process::{Background, Fault, Runner, USED_KEYS, is_installed, write};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Namespaces of every study begin so; the process follows, and where a study has several
/// a word behind it.
pub const PREFIX: &str = "ferrule-study-";
/// A companion ends within this time.
const LIMIT: Duration = Duration::from_secs(120);
/// A node, or the wire, is ready within this time.
pub const READY: Duration = Duration::from_secs(10);
/// Of the sites, and of the path between the nodes.
const MTU: [usize; 2] = [1500, 1600];
/// The suite's keys have these SPIs, from the first node and from the second.
const SPIS: [u32; 2] = [0x2000_0102, 0x2000_0201];
/// The tester's devices.
const PORTS: &str = "t0,t1";

/// How the first node and the second are joined to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// By a cable.
    Cable,
    /// By a process that loses packets and holds others back.
    Wire,
}

/// One of both nodes.
#[derive(Clone, Debug)]
pub struct Side<'a> {
    /// `near` or `far`.
    pub name: &'a str,
    /// 0 or 1.
    pub number: usize,
    /// Tables in front.
    pub tables: String,
    /// Where its crypto is, and what the suite is; nothing: packets go in clear.
    pub protect: Option<Protect<'a>>,
}

/// Placement, suite and keys with which packets are sealed.
#[derive(Clone, Debug)]
pub struct Protect<'a> {
    /// In the configuration's word.
    pub placement: &'a str,
    /// In the configuration's words.
    pub suite: &'a str,
    /// Table lines that name the key, for either node.
    pub keys: [String; 2],
}

/// The namespace and its cables.
pub struct Rig<'a> {
    runner: &'a Runner,
    folder: &'a Path,
    space: String,
    leash: bool,
    environment: Vec<(String, PathBuf)>,
}

impl<'a> Rig<'a> {
    /// Makes the namespace and its cables. What was made goes again if a step fails.
    pub fn build(runner: &'a Runner, folder: &'a Path, path: Between) -> Result<Self, Fault> {
        for (tool, package) in [("ip", "iproute2"), ("ethtool", "ethtool")] {
            if !is_installed(tool) {
                return Err(Fault::Missing(format!("not installed: {tool}"), package.into()));
            }
        }
        remove_orphans();
        let space = format!("{PREFIX}{}", std::process::id());
        let leash = is_installed("setpriv");
        let rig = Self { runner, folder, space, leash, environment: Vec::new() };
        netns::add(runner, &rig.space, false)?;
        let wan = |side: usize| format!("02:0f:e2:0{}:03:01", side + 1);
        let [near, far] = [0, 1].map(|side| (if side == 0 { "nw" } else { "fw" }, wan(side)));
        let [first, second] = [0, 1].map(|side| (ENDS[side].to_string(), LANS[side].to_string()));
        let mut cables = vec![
            ([("t0", first.0), ("nl", first.1)], MTU[0]),
            ([("t1", second.0), ("fl", second.1)], MTU[0]),
        ];
        match path {
            Between::Cable => cables.push(([near, far], MTU[1])),
            Between::Wire => {
                cables.push(([near, ("w0a", "02:0f:e2:03:00:01".into())], MTU[1]));
                cables.push(([far, ("w0b", "02:0f:e2:03:00:02".into())], MTU[1]));
            }
        }
        for (ends, mtu) in cables {
            let space = &rig.space;
            let ends = ends.map(|(device, mac)| VethEnd {
                space: space.clone(),
                device: device.to_owned(),
                mac,
            });
            netns::join(runner, &Veth { ends, mtu })?;
        }
        for port in PORTS.split(',') {
            netns::without_offloads(runner, &rig.space, port)?;
        }
        Ok(rig)
    }

    /// Adds a variable to the nodes' environment.
    pub fn with(mut self, name: &str, value: PathBuf) -> Self {
        self.environment.push((name.to_owned(), value));
        self
    }

    /// A command that runs there; the program and its arguments follow.
    fn inside(&self) -> Command {
        let mut command = netns::inside(&self.space);
        command.env(USED_KEYS, self.folder.join("used-keys"));
        for (name, value) in &self.environment {
            command.env(name, value);
        }
        if self.leash {
            command.args(["setpriv", "--pdeathsig", "TERM"]);
        }
        command
    }

    /// Writes a node's configuration and starts it.
    pub fn node(&self, side: &Side<'_>) -> Result<Background, Fault> {
        let (name, folder) = (side.name, self.folder);
        let file = folder.join(format!("{name}.toml"));
        let _ = fs::remove_file(&file);
        write(&file, self.toml(side).as_bytes())?;
        if side.protect.is_some() {
            // The keys are the study's own, and its nodes go on with their counters.
            let mut create = self.inside();
            create.arg(program()?).args(["state", "create"]).arg(&file);
            self.runner.done(&mut create, LIMIT)?;
        }
        let mut command = self.inside();
        command.arg(program()?).arg("run").arg(&file);
        let mut node = Background::start(name, &mut command, &folder.join(format!("{name}.log")))?;
        // One at a time: a token's files are not opened by two at once.
        let socket = folder.join(format!("{name}.socket"));
        self.runner.wait_for(&format!("{name} does not start"), READY, || {
            node.check()?;
            Ok(socket.exists())
        })?;
        Ok(node)
    }

    /// A gateway whose site is behind the far one.
    fn toml(&self, side: &Side<'_>) -> String {
        let (own, far) = (side.number + 1, 2 - side.number);
        let [lan, wan] = [["nl", "nw"], ["fl", "fw"]][side.number.min(1)];
        let socket = self.folder.join(format!("{}.socket", side.name));
        let mut text = format!(
            "[node]\nname = \"{}\"\nlab = true\ncontrol = {socket:?}\n{}\
             [[port]]\nname = \"lan\"\ndriver = \"af-packet\"\ndevice = \"{lan}\"\nmtu = {}\n\
             [[port]]\nname = \"wan\"\ndriver = \"af-packet\"\ndevice = \"{wan}\"\nmtu = {}\n\
             [[interface]]\nname = \"lan\"\nport = \"lan\"\naddress = [\"10.0.{own}.1/24\"]\n\
             [[interface]]\nname = \"wan\"\nport = \"wan\"\naddress = [\"198.51.100.{own}/24\"]\n\
             [[route]]\nprefix = \"10.0.{far}.0/24\"\nvia = \"198.51.100.{far}\"\n",
            side.name, side.tables, MTU[0], MTU[1]
        );
        if let Some(protect) = &side.protect {
            let [out, inward] = [side.number, 1 - side.number];
            let state = self.folder.join(format!("side-{}.state", side.number));
            text = text.replacen("[node]\n", &format!("[node]\nstate = {state:?}\n"), 1);
            text += &format!(
                "[[tunnel]]\nname = \"site\"\nlocal = \"198.51.100.{own}\"\n\
                 remote = \"198.51.100.{far}\"\nsuite = \"{}\"\nplacement = \"{}\"\n\
                 [tunnel.out]\nspi = {}\n{}\n[tunnel.in]\nspi = {}\n{}\n\
                 [[policy]]\ninterface = \"wan\"\naction = \"protect\"\ntunnel = \"site\"\n\
                 local = \"10.0.{own}.0/24\"\nremote = \"10.0.{far}.0/24\"\n",
                protect.suite,
                protect.placement,
                SPIS[out],
                protect.keys[out],
                SPIS[inward],
                protect.keys[inward],
            );
        }
        text
    }

    /// Starts the process between the nodes, with a link of the laboratory's words.
    pub fn wire(&self, link: &str) -> Result<Background, Fault> {
        let (file, ready) = (self.folder.join("wire.toml"), self.folder.join("wire.ready"));
        let text = format!(
            "name = \"wire\"\nfor = \"1s\"\n\
             [host.a]\naddress = [\"10.9.0.1/24\"]\nmtu = {0}\n\
             [host.b]\naddress = [\"10.9.0.2/24\"]\nmtu = {0}\n\
             [[link]]\nends = [\"a\", \"b\"]\n{link}\n",
            MTU[1]
        );
        write(&file, text.as_bytes())?;
        let mut command = self.inside();
        command.arg(program()?).args(["lab", "wire", "--link", "0"]);
        command.arg("--ready").arg(&ready).arg(&file);
        let log = self.folder.join("wire.log");
        let mut wire = Background::start("the wire", &mut command, &log)?;
        self.runner.wait_for("the wire is not ready", READY, || {
            wire.check()?;
            Ok(ready.exists())
        })?;
        Ok(wire)
    }

    /// Waits until packets pass.
    pub fn join(&self, nodes: &mut [Background]) -> Result<(), Fault> {
        let joined = self.companion(None, &[]);
        nodes.iter_mut().try_for_each(Background::check)?;
        joined.map(drop)
    }

    /// Runs trials; takes the time of a node's worker, if one is named.
    pub fn trials(
        &self,
        watch: Option<&Background>,
        trials: &[Trial],
    ) -> Result<Vec<Became>, Fault> {
        self.companion(watch, trials)
    }

    fn companion(
        &self,
        watch: Option<&Background>,
        trials: &[Trial],
    ) -> Result<Vec<Became>, Fault> {
        let failed = |e: serde_json::Error| Fault::failed("the tester's words", e);
        let text = serde_json::to_string(trials).map_err(failed)?;
        let mut command = self.inside();
        command.arg(program()?).args(["study-bench", "--ports", PORTS, "--trials", &text]);
        if let Some(node) = watch {
            command.args(["--watch", &node.process().to_string()]);
        }
        let said = self.runner.done(&mut command, LIMIT)?;
        serde_json::from_str(&said).map_err(failed)
    }
}

impl Drop for Rig<'_> {
    fn drop(&mut self) {
        netns::delete(&self.space);
    }
}

pub fn program() -> Result<PathBuf, Fault> {
    std::env::current_exe().map_err(|e| Fault::failed("our own path", e))
}

/// Removes namespaces of studies that were killed without a word, what runs in them, and
/// their folders, in which there are keys.
pub fn remove_orphans() {
    let orphans = |folder: &Path| -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten();
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter(|name| is_orphan(name)).collect()
    };
    orphans(Path::new(netns::NAMES)).iter().for_each(|name| netns::clear_away(name));
    let temporary = std::env::temp_dir();
    for name in orphans(&temporary) {
        let _ = fs::remove_dir_all(temporary.join(name));
    }
}

/// `ferrule-study-PROCESS` or `ferrule-study-PROCESS-WORD`, and the process is no more.
fn is_orphan(name: &str) -> bool {
    let rest = name.strip_prefix(PREFIX);
    let process = rest.map(|rest| rest.split_once('-').map_or(rest, |(process, _)| process));
    let process = process.and_then(|process| process.parse::<u32>().ok());
    process.is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn studies_take_only_namespaces_of_dead_studies_for_orphans() {
        assert!(!is_orphan(&format!("{PREFIX}{}", std::process::id())));
        // Above the largest process number that Linux gives.
        assert!(is_orphan("ferrule-study-4194305"));
        assert!(is_orphan("ferrule-study-4194305-ha"));
        assert!(!is_orphan(&format!("{PREFIX}{}-ha", std::process::id())));
        for other in ["ferrule-study-x", "ferrule-4194305-ce1", "study-4194305"] {
            assert!(!is_orphan(other), "{other}");
        }
    }
}
