//! Record of what `ferrule lab up` made, in a folder of its own, so that `status` and `down` find
//! it, also after a crash, and touch nothing else.

use crate::netns;
use crate::process::Fault;
use ferrule_lab::topology::Topology;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Folder of the labs' folders.
const RUN: &str = "/run/ferrule-lab";
/// Name of the record's file.
const FILE: &str = "lab.json";
/// Namespaces begin so; the topology's name and the place follow.
const PREFIX: &str = "lab-";
/// A process that was asked to end has this long to do so.
const GRACE: Duration = Duration::from_secs(4);
/// Interval at which a process is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// A lab that stands, or did when its maker crashed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Standing {
    /// The topology's name.
    pub name: String,
    /// Its variant.
    pub variant: Option<String>,
    /// Namespaces, each written down before it was made.
    pub spaces: Vec<StandingPlace>,
    /// veth pairs.
    pub links: Vec<StandingLink>,
    /// Processes.
    pub nodes: Vec<StandingNode>,
    /// The process that carries links, if there is one.
    #[serde(default)]
    pub wires: Option<StandingNode>,
}

/// A namespace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StandingPlace {
    /// The node or host in it.
    pub place: String,
    /// Its name.
    pub space: String,
}

/// A veth pair.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StandingLink {
    /// The link's name.
    pub name: String,
    /// Namespace and device of both ends.
    pub ends: [(String, String); 2],
}

/// A node's process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StandingNode {
    /// The node.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// When that started, in the kernel's ticks: another process of the same
    /// number has another time.
    pub started: Option<u64>,
    /// File with its output.
    pub log: PathBuf,
}

impl StandingNode {
    /// A process that was just started.
    pub fn of(name: &str, pid: u32, log: &Path) -> Self {
        Self { name: name.into(), pid, started: started(pid), log: log.into() }
    }

    /// True if this very process still runs.
    pub fn is_alive(&self) -> bool {
        self.started.is_some() && started(self.pid) == self.started
    }
}

/// Time at which a process started; nothing if it is gone, or has ended and was not waited for.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may have anything in it.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

impl Standing {
    /// A folder for a topology; an error if it stands already.
    pub fn new(topology: &Topology) -> Result<Self, Fault> {
        let standing = Self {
            name: topology.name.clone(),
            variant: topology.variant.clone(),
            spaces: Vec::new(),
            links: Vec::new(),
            nodes: Vec::new(),
            wires: None,
        };
        let run = DirBuilder::new().mode(0o755).recursive(true).create(RUN);
        let made = run.and_then(|()| DirBuilder::new().mode(0o700).create(standing.folder()));
        let name = &topology.name;
        made.map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => {
                Fault::failed(format!("{name} is up already"), format!("`ferrule lab down {name}`"))
            }
            ErrorKind::PermissionDenied => Fault::Missing(
                format!("{RUN} cannot be written: network namespaces need root"),
                format!("`sudo ferrule lab up`, or `ferrule lab run {name}` in virtual time"),
            ),
            _ => Fault::failed(standing.folder().display().to_string(), e),
        })?;
        standing.save()?;
        Ok(standing)
    }

    /// Its folder: configurations, keys, counters, sockets, logs.
    pub fn folder(&self) -> PathBuf {
        Path::new(RUN).join(&self.name)
    }

    /// The namespace of a node or host.
    pub fn space(&self, place: &str) -> String {
        format!("{PREFIX}{}-{place}", self.name)
    }

    /// Writes it down, whole or not at all.
    pub fn save(&self) -> Result<(), Fault> {
        let (file, fresh) = (self.folder().join(FILE), self.folder().join("lab.json.new"));
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        let written = fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, &file));
        written.map_err(|e| Fault::failed(file.display().to_string(), e))
    }

    /// The labs that stand; one that cannot be read by its name alone.
    pub fn all() -> Vec<Self> {
        let entries = fs::read_dir(RUN).into_iter().flatten().flatten();
        let mut all: Vec<Self> = entries.filter_map(|entry| Self::read(&entry.path())).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    fn read(folder: &Path) -> Option<Self> {
        let name = folder.file_name()?.to_str()?.to_owned();
        let text = fs::read_to_string(folder.join(FILE)).unwrap_or_default();
        let read: Option<Self> = serde_json::from_str(&text).ok();
        // A folder names itself, whatever is written in it.
        let nothing = Self {
            name: name.clone(),
            variant: None,
            spaces: Vec::new(),
            links: Vec::new(),
            nodes: Vec::new(),
            wires: None,
        };
        Some(Self { name, ..read.unwrap_or(nothing) })
    }

    /// Ends the nodes and whatever runs in the namespaces, deletes those, and the
    /// folder. What was not made here stays.
    pub fn remove(&self) {
        let all = self.nodes.iter().chain(&self.wires);
        let nodes = all.filter(|node| node.is_alive()).map(|node| node.pid);
        let mut pids: Vec<u32> = nodes.collect();
        let own = |place: &&StandingPlace| place.space == self.space(&place.place);
        let spaces: Vec<&str> =
            self.spaces.iter().filter(own).map(|place| place.space.as_str()).collect();
        pids.extend(spaces.iter().flat_map(|space| pids_in(space)));
        pids.sort_unstable();
        pids.dedup();
        end(&pids);
        spaces.iter().for_each(|space| netns::delete(space));
        let _ = fs::remove_dir_all(self.folder());
        // Gone with the last one.
        let _ = fs::remove_dir(RUN);
    }
}

/// The processes in a namespace.
fn pids_in(space: &str) -> Vec<u32> {
    if !netns::exists(space) {
        return Vec::new();
    }
    let mut command = Command::new("ip");
    let said = command.args(["netns", "pids", space]).stdin(Stdio::null()).output();
    let text = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
    text.unwrap_or_default().split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Asks processes to end, and ends those by force that do not.
fn end(pids: &[u32]) {
    let known: Vec<(u32, Option<u64>)> = pids.iter().map(|&pid| (pid, started(pid))).collect();
    let alive = || known.iter().filter(|(pid, when)| when.is_some() && started(*pid) == *when);
    for signal in ["-TERM", "-KILL"] {
        for (pid, _) in alive() {
            let mut kill = Command::new("kill");
            let _ = kill.args([signal, &pid.to_string()]).stderr(Stdio::null()).status();
        }
        let until = Instant::now() + GRACE;
        while alive().next().is_some() && Instant::now() < until {
            thread::sleep(LOOK);
        }
    }
}
