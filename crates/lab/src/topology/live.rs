//! Configuration of a node on real interfaces: the same, but its ports use devices, its keys are
//! files or on a token of its own, and its counters survive.

use super::{Node, Topology, Upset};
use crate::impair::Impairments;
use ferrule_node::config::LAB_KEY;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Folder of a node's files, and the driver of its ports.
#[derive(Clone, Debug)]
pub struct LiveSetting<'a> {
    /// Folder of all files.
    pub folder: &'a Path,
    /// Driver of every port: af-packet or af-xdp.
    pub driver: &'a str,
}

impl LiveSetting<'_> {
    /// The management socket of a node.
    pub fn socket(&self, node: &str) -> PathBuf {
        self.folder.join(format!("{node}.socket"))
    }

    /// The file of a key.
    pub fn key(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{}.key", file_name(name)))
    }

    /// The file with what else belongs to a key that is on a token.
    pub fn rest(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{}.rest", file_name(name)))
    }
}

fn file_name(name: &str) -> String {
    name.trim_start_matches(LAB_KEY).replace('/', "_")
}

/// A token on real interfaces.
#[derive(Clone, Debug)]
pub struct LiveToken<'a> {
    /// Its PKCS#11 module.
    pub module: &'a str,
    /// Its label.
    pub label: &'a str,
    /// The file with its PIN.
    pub pin_file: &'a Path,
}

/// A key file of the laboratory that a live node reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPlan {
    /// The key: `lab:WORD`.
    pub name: String,
    /// Its words and the octets of each.
    pub words: Vec<(String, usize)>,
    /// True for the remaining part of a key whose cipher key is on a token.
    pub rest: bool,
}

impl Node {
    /// The configuration for `ferrule run`; with this token, if it has one.
    pub fn live(&self, setting: &LiveSetting<'_>, token: Option<&LiveToken<'_>>) -> String {
        let mut table = self.written.clone();
        let text = |path: PathBuf| Value::String(path.display().to_string());
        let node = table.entry("node").or_insert_with(|| Value::Table(Table::new()));
        if let Value::Table(node) = node {
            node.insert("name".into(), Value::String(self.name.clone()));
            node.insert("control".into(), text(setting.socket(&self.name)));
            if self.has_counters() {
                let state = setting.folder.join(format!("{}.state", self.name));
                node.insert("state".into(), text(state));
            }
            node.retain(|key, _| !["lab", "metrics", "user"].contains(&key));
        }
        let ports = table.get_mut("port").and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten().filter_map(Value::as_table_mut) {
            let name = port.get("name").cloned();
            port.insert("driver".into(), Value::String(setting.driver.into()));
            port.extend(name.map(|name| ("device".into(), name)));
        }
        if let (Some(token), Some(Value::Table(entry))) = (token, table.get_mut("token")) {
            entry.insert("module".into(), Value::String(token.module.into()));
            entry.insert("token".into(), Value::String(token.label.into()));
            entry.insert("pin-file".into(), text(token.pin_file.into()));
        }
        for value in table.iter_mut().map(|(_, value)| value) {
            name_keys(value, setting);
        }
        table.to_string()
    }

    /// True if a key's file holds only the part of a key that is not on a token.
    fn has_rest(&self, name: &str) -> bool {
        fn stands(value: &Value, name: &str) -> bool {
            match value {
                Value::Array(list) => list.iter().any(|value| stands(value, name)),
                Value::Table(table) => table.iter().any(|(key, value)| match value {
                    Value::String(text) => key == "rest" && text == name,
                    other => stands(other, name),
                }),
                _ => false,
            }
        }
        self.written.iter().any(|(_, value)| stands(value, name))
    }

    /// True if the node has static keys whose counters must survive.
    pub fn has_counters(&self) -> bool {
        let transmits = |secy: &ferrule_node::config::MacsecConfig| !secy.transmit.is_empty();
        !self.config.tunnels.is_empty() || self.config.secys.iter().any(transmits)
    }
}

/// Every key of the laboratory becomes a file.
fn name_keys(value: &mut Value, setting: &LiveSetting<'_>) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(|value| name_keys(value, setting)),
        Value::Table(table) => {
            for (key, value) in table.iter_mut() {
                match value {
                    Value::String(name) if key == "key" && name.starts_with(LAB_KEY) => {
                        *name = setting.key(name).display().to_string();
                    }
                    Value::String(name) if key == "rest" && name.starts_with(LAB_KEY) => {
                        *name = setting.rest(name).display().to_string();
                    }
                    other => name_keys(other, setting),
                }
            }
        }
        _ => {}
    }
}

impl Topology {
    /// The key files that its nodes read, each once.
    pub fn keys(&self) -> Vec<KeyPlan> {
        let mut all: Vec<KeyPlan> = Vec::new();
        for node in &self.nodes {
            for (name, words) in &node.keys {
                let rest = node.has_rest(name);
                if all.iter().all(|known| (&known.name, known.rest) != (name, rest)) {
                    all.push(KeyPlan { name: name.clone(), words: words.clone(), rest });
                }
            }
        }
        all
    }

    /// Features of the topology that real interfaces cannot provide, if the links at these places
    /// are carried by [`crate::wires`].
    pub fn only_virtual(&self, carried: &[usize]) -> Vec<String> {
        let mut notes = Vec::new();
        for (at, link) in self.links.iter().enumerate() {
            if carried.contains(&at) {
                continue;
            }
            let mut what = Vec::new();
            let spec = &link.spec;
            if spec.rate.is_some() {
                what.push("rate");
            }
            if !spec.delay.is_zero() {
                what.push("delay");
            }
            let impaired = |rules: &Impairments| !rules.is_none();
            if impaired(&spec.impairments) || spec.back.as_ref().is_some_and(impaired) {
                what.push("impairments");
            }
            if !what.is_empty() {
                notes.push(format!("link {}: no {}", link.name, what.join(", ")));
            }
        }
        for node in self.nodes.iter().filter(|node| node.profile.name != "ideal") {
            notes.push(format!("node {}: no profile {}", node.name, node.profile.name));
        }
        let happens = |what: &Upset| match what {
            Upset::Down(link) | Upset::Up(link) | Upset::Impair(link, _) => carried.contains(link),
            Upset::Restart(..) | Upset::ClockJump(..) => false,
        };
        let left = self.disturbances.iter().filter(|d| !happens(&d.what)).count();
        if left > 0 {
            notes.push(format!("{left} of its {} disturbances", self.disturbances.len()));
        }
        notes
    }
}
