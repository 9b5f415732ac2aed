//! `ferrule lab down` and `ferrule lab status`.

use super::standing::Standing;
use crate::answer::{self, Form};
use crate::output::print;
use crate::paint::Paint;
use crate::process::Fault;
use clap::Args;
use serde_json::{Value, json};
use std::process::{Command, ExitCode, Stdio};

/// Take a lab down again: processes, namespaces, keys and all
#[derive(Debug, Args)]
#[command(after_help = "Only what `ferrule lab up` made is removed; also after a crash.")]
pub struct DownArgs {
    /// The topology's name; not needed where one lab is up
    name: Option<String>,
    /// Every lab that is up
    #[arg(long, conflicts_with = "name")]
    all: bool,
    #[command(flatten)]
    form: Form,
}

/// State of a lab: nodes, processes, links
#[derive(Debug, Args)]
#[command(after_help = "Exit: 0 all is well, 1 a node has ended or a link is missing.")]
pub struct StatusArgs {
    /// The topology's name [default: all]
    name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The lab of a name; the only one, without a name.
fn chosen(name: Option<&str>) -> Result<Vec<Standing>, Fault> {
    let all = Standing::all();
    let names: Vec<&str> = all.iter().map(|lab| lab.name.as_str()).collect();
    let Some(name) = name else { return Ok(all) };
    match all.iter().find(|lab| lab.name == name) {
        Some(lab) => Ok(vec![lab.clone()]),
        None if all.is_empty() => Err(Fault::failed(format!("{name} is not up"), "no lab is")),
        None => {
            Err(Fault::failed(format!("{name} is not up"), format!("up: {}", names.join(", "))))
        }
    }
}

impl DownArgs {
    /// Runs the command.
    pub fn run(self) -> ExitCode {
        let labs = match chosen(self.name.as_deref()) {
            Ok(labs) => labs,
            Err(fault) => return super::up::failed(&fault),
        };
        if labs.len() > 1 && !self.all {
            let names: Vec<&str> = labs.iter().map(|lab| lab.name.as_str()).collect();
            let fault = Fault::failed(
                "several labs are up",
                format!("name one of {}, or --all", names.join(", ")),
            );
            return answer::wrong(&fault.to_string(), 2);
        }
        let mut text = String::new();
        for lab in &labs {
            lab.remove();
            text += &format!("{} is down\n", lab.name);
        }
        if labs.is_empty() {
            text += "no lab is up\n";
        }
        let names: Vec<&str> = labs.iter().map(|lab| lab.name.as_str()).collect();
        self.form.give(json!({ "down": names }), || text);
        ExitCode::SUCCESS
    }
}

/// True if a device is there and up.
fn is_up((space, device): &(String, String)) -> bool {
    let mut command = Command::new("ip");
    command.args(["-n", space, "-o", "link", "show", "dev", device]).stdin(Stdio::null());
    let said = command.output().map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
    said.is_ok_and(|text| text.contains("state UP"))
}

impl StatusArgs {
    /// Says it.
    pub fn run(self) -> ExitCode {
        let labs = match chosen(self.name.as_deref()) {
            Ok(labs) => labs,
            Err(fault) => return super::up::failed(&fault),
        };
        let paint = Paint::for_stream(&std::io::stdout());
        let (mut text, mut entries, mut well) = (String::new(), Vec::new(), true);
        for lab in &labs {
            let (lines, entry, fine) = describe(lab, paint);
            text += &lines;
            entries.push(entry);
            well &= fine;
        }
        if labs.is_empty() {
            text += "no lab is up; `ferrule lab up TOPOLOGY` puts one up\n";
        }
        if self.json {
            text = format!("{:#}\n", json!({ "labs": entries }));
        }
        print(&text);
        if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// A lab in lines, as JSON, and whether all is well.
fn describe(lab: &Standing, paint: Paint) -> (String, Value, bool) {
    let name = match &lab.variant {
        Some(variant) => format!("{}, {variant}", lab.name),
        None => lab.name.clone(),
    };
    let mut text = format!("{}  {}\n", paint.bold(name), lab.folder().display());
    let (mut well, mut carrier) = (true, Value::Null);
    let (mut nodes, mut hosts, mut links) = (Vec::new(), Vec::new(), Vec::new());
    for place in &lab.spaces {
        let node = lab.nodes.iter().find(|node| node.name == place.place);
        let wires = lab.wires.as_ref().filter(|wires| wires.name == place.place);
        let Some(node) = node.or(wires) else {
            text += &format!("  host {:<16} {}\n", place.place, place.space);
            hosts.push(json!({ "name": place.place, "namespace": place.space }));
            continue;
        };
        let alive = node.is_alive();
        let state = match alive {
            true => format!("process {}", node.pid),
            false => paint.fault(format!("ended; see {}", node.log.display())),
        };
        let kind = if wires.is_some() { "with" } else { "node" };
        text += &format!("  {kind} {:<16} {:<32} {state}\n", place.place, place.space);
        well &= alive;
        let entry = json!({ "name": node.name, "namespace": place.space, "pid": node.pid,
                            "alive": alive, "log": node.log });
        match wires {
            Some(_) => carrier = entry,
            None => nodes.push(entry),
        }
    }
    for link in &lab.links {
        let up = link.ends.iter().all(is_up);
        let state = if up { "up".to_owned() } else { paint.fault("down") };
        text += &format!("  link {:<16} {state}\n", link.name);
        well &= up;
        links.push(json!({ "name": link.name, "up": up, "ends": link.ends }));
    }
    let json = json!({ "name": lab.name, "variant": lab.variant, "folder": lab.folder(),
                       "nodes": nodes, "hosts": hosts, "links": links, "wires": carrier,
                       "well": well });
    (text, json, well)
}
