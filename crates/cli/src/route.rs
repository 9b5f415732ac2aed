//! `ferrule route`: addresses, routes and labels given to a running node, beside its file.

use crate::live::{ClientArgs, finish, unexpected};
use clap::{ArgGroup, Args, Subcommand};
use ferrule_daemon::api::{Reply, Request};
use ferrule_daemon::{Blame, Fault};
use ferrule_node::{
    Delta, DynamicLabel, DynamicRoute, InterfaceAddress, IpPrefix, NextHop, RouteName,
};
use serde_json::json;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

/// Give a running node routes, labels and addresses, beside those of its file.
///
/// A routing protocol, a DHCP client or an operator changes them while the node runs, without a
/// packet lost and without the file. What the file says comes first: a route to the same prefix
/// waits until the file has none. So does one whose next hop is on no network of the node. They
/// die with the node; `ferrule apply` keeps them.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ferrule route add 10.9.0.0/24 --via 192.0.2.9
  sudo ferrule route add 10.9.0.0/24 --vrf red --via 192.0.2.9 --labels 100,200
  sudo ferrule route add 10.9.0.0/24 --via 192.0.2.9 --via 198.51.100.9   each flow takes one
  sudo ferrule route drop 10.9.0.0/24
  sudo ferrule route add-label 300 --to-vrf red
  sudo ferrule route add-label 500 --via 192.0.2.9 --labels 101           swap; without: pop
  sudo ferrule route add-address wan 192.0.2.7/24
  sudo ferrule route batch changes.json          many at once, all of them or none
  ferrule show path                              routes in force; labels: show mpls

docs/howto/routes.md has the lines of a batch.

Exit: 0 done, 2 the node refused it and nothing changed, 3 the machine lacks something.")]
pub struct RouteArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Add a route, or give it other next hops.
    #[command(group = ArgGroup::new("where").required(true).multiple(true)
        .args(["via", "interface", "discard"]))]
    Add {
        /// Network, as 10.9.0.0/24.
        prefix: IpPrefix,
        /// Routing table. Default: the global one.
        #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
        vrf: String,
        #[command(flatten)]
        hops: NextHops,
        /// Packets are dropped.
        #[arg(long, conflicts_with_all = ["via", "interface", "labels"])]
        discard: bool,
        /// An entropy label goes below the outermost.
        #[arg(long, requires = "labels")]
        entropy_label: bool,
        #[command(flatten)]
        node: ClientArgs,
    },
    /// Drop a route.
    Drop {
        /// Network.
        prefix: IpPrefix,
        /// Routing table. Default: the global one.
        #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
        vrf: String,
        #[command(flatten)]
        node: ClientArgs,
    },
    /// Say what becomes of packets with an incoming label.
    #[command(group = ArgGroup::new("where").required(true).multiple(true)
        .args(["via", "interface", "to_vrf"]))]
    AddLabel {
        /// Incoming label: 16 to 1048575, or 0 and 2 for explicit null.
        label: u32,
        /// Taken off; the IP packet below it is routed in this table; an empty name: the global one.
        #[arg(long, value_name = "NAME", conflicts_with_all = ["via", "interface", "labels"])]
        to_vrf: Option<String>,
        #[command(flatten)]
        hops: NextHops,
        #[command(flatten)]
        node: ClientArgs,
    },
    /// Drop an incoming label.
    DropLabel {
        /// Incoming label.
        label: u32,
        #[command(flatten)]
        node: ClientArgs,
    },
    /// Add an address to an interface.
    AddAddress {
        /// The interface.
        interface: String,
        /// Address with the length of its network's prefix.
        address: IpPrefix,
        #[command(flatten)]
        node: ClientArgs,
    },
    /// Drop an address of an interface.
    DropAddress {
        /// The interface.
        interface: String,
        /// Address with the length of its network's prefix.
        address: IpPrefix,
        #[command(flatten)]
        node: ClientArgs,
    },
    /// Change many at once: lines of JSON, all of them or none.
    Batch {
        /// File; `-` is standard input.
        file: PathBuf,
        #[command(flatten)]
        node: ClientArgs,
    },
}

/// Next hops; each flow takes one.
#[derive(Args)]
struct NextHops {
    /// Address of a next hop; several: each flow takes one.
    #[arg(long, value_name = "ADDRESS")]
    via: Vec<IpAddr>,
    /// Interface that it leaves by. Default: the one whose network has the next hop.
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Labels to push, the outermost first, for every --via.
    #[arg(long, value_name = "LABEL,…", value_delimiter = ',')]
    labels: Vec<u32>,
    /// TTL of labels is their own (pipe), not the packet's (uniform).
    #[arg(long)]
    pipe: bool,
}

impl NextHops {
    fn paths(&self) -> Vec<NextHop> {
        let hop =
            |via| NextHop { via, interface: self.interface.clone(), labels: self.labels.clone() };
        match (self.via.as_slice(), &self.interface) {
            ([], None) => Vec::new(),
            ([], Some(_)) => vec![hop(None)],
            (all, _) => all.iter().map(|&via| hop(Some(via))).collect(),
        }
    }
}

impl RouteArgs {
    /// Runs the command.
    pub fn run(self) -> ExitCode {
        finish(self.go())
    }

    fn go(self) -> Result<(), Fault> {
        match self.what {
            What::Add { prefix, vrf, hops, discard: _, entropy_label, node } => {
                let (paths, pipe) = (hops.paths(), hops.pipe);
                let route = DynamicRoute { vrf, prefix, paths, pipe, entropy_label };
                ask(&node, vec![Delta::SetRoute(route)])
            }
            What::Drop { prefix, vrf, node } => {
                ask(&node, vec![Delta::DropRoute(RouteName { vrf, prefix })])
            }
            What::AddLabel { label, to_vrf, hops, node } => {
                let (paths, pipe) = (hops.paths(), hops.pipe);
                ask(&node, vec![Delta::SetLabel(DynamicLabel { label, vrf: to_vrf, paths, pipe })])
            }
            What::DropLabel { label, node } => ask(&node, vec![Delta::DropLabel { label }]),
            What::AddAddress { interface, address, node } => {
                ask(&node, vec![Delta::AddAddress(InterfaceAddress { interface, address })])
            }
            What::DropAddress { interface, address, node } => {
                ask(&node, vec![Delta::DropAddress(InterfaceAddress { interface, address })])
            }
            What::Batch { file, node } => ask(&node, batch(&file)?),
        }
    }
}

/// The deltas of a file.
fn batch(file: &Path) -> Result<Vec<Delta>, Fault> {
    let text = match file.to_str() {
        Some("-") => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map(|_| text)
        }
        _ => fs::read_to_string(file),
    };
    let name = file.display();
    let text = text.map_err(|e| {
        Fault::new(Blame::Environment, format!("{name}: {e}"), "see `ferrule route --help`")
    })?;
    deltas(&text).map_err(|(line, e)| {
        let what = format!("{name}, line {line}: {e}");
        Fault::new(Blame::Configuration, what, "docs/howto/routes.md has examples")
    })
}

/// The deltas of a text, a line each; empty lines are none. Or the first line that is wrong.
fn deltas(text: &str) -> Result<Vec<Delta>, (usize, serde_json::Error)> {
    let lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
    lines.map(|(line, n)| serde_json::from_str(line).map_err(|e| (n, e))).collect()
}

fn ask(node: &ClientArgs, deltas: Vec<Delta>) -> Result<(), Fault> {
    let count = deltas.len();
    match node.which.connect()?.ask(&Request::Dynamic(deltas))? {
        Reply::Done {} => node.form.give(json!({ "changes": count }), || {
            format!("{count} done; `ferrule show path` and `show mpls` have what is in force\n")
        }),
        reply => return Err(unexpected(reply)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of docs/howto/routes.md.
    #[test]
    fn lines_of_a_batch_are_deltas_and_a_wrong_one_is_told_by_its_number() {
        let page = include_str!("../../../docs/howto/routes.md");
        let lines = page.split("```json\n").nth(1).and_then(|rest| rest.split("```").next());
        let all = deltas(lines.unwrap()).unwrap();
        assert_eq!(all.len(), lines.unwrap().lines().count());
        assert!(all.contains(&Delta::Clear {}));
        let wrong = "{\"clear\":{}}\n\n{\"drop-label\":{\"label\":3,\"vrf\":\"\"}}\n";
        let (line, _) = deltas(wrong).unwrap_err();
        assert_eq!(line, 3);
    }
}
