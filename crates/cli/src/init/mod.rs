//! `ferrule init`: configurations to start from, with fresh keys.
//!
//! ```text
//!   gateway   an ESP tunnel between two sites' gateways
//!   host      an ordinary host's programs, by ESP to a gateway or peer
//!   ce        a customer edge: a bridge with MACsec on its uplink
//!   pe        a provider edge: a pseudowire across an MPLS network
//!   p         a provider router: labels switched between its links
//!   key       one key file
//! ```
//!
//! [`config`] has the words, [`gateway`], [`host`], [`ce`], [`pe`] and [`p`] what stands
//! in the files, [`pairs`] which keys and numbers the two sides share, [`files`] the
//! care with which they are written.

pub mod ce;
pub mod config;
pub mod files;
pub mod gateway;
pub mod host;
pub mod key;
pub mod p;
pub mod pairs;
pub mod pe;
#[cfg(test)]
mod tests;

use crate::answer::{self, Form};
use crate::paint::Paint;
use clap::{Args, Subcommand};
use ferrule_base::MacAddr;
use ferrule_daemon::load::load;
use ferrule_daemon::state::{FileStore, StateError};
use files::Files;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit code of a wrong argument.
const USAGE: u8 = 2;
/// Exit code of a file that cannot be written.
const ENVIRONMENT: u8 = 3;

/// Write a commented configuration with fresh key files
#[derive(Debug, Args)]
pub struct InitArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// A gateway that joins two sites by an ESP tunnel
    Gateway(GatewayArgs),
    /// A host whose own programs are protected, by a TUN device
    Host(HostArgs),
    /// A provider edge with an Ethernet pseudowire over MPLS
    Pe(PeArgs),
    /// A provider router that switches labels between its links
    P(PArgs),
    /// A customer edge that bridges its site under MACsec
    Ce(CeArgs),
    /// One key file for a suite
    Key(KeyArgs),
}

/// Options common to all nodes.
#[derive(Debug, Clone, Args)]
pub struct NodeArgs {
    /// Folder for the files
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Write the other side's configuration, too
    #[arg(long)]
    pub pair: bool,
    /// Replace files that exist, keys included
    #[arg(long)]
    pub force: bool,
    /// Driver of the ports
    #[arg(long, default_value = "af-xdp", value_parser = ["af-xdp", "af-packet", "tap"])]
    pub driver: String,
    #[command(flatten)]
    pub form: Form,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  ferrule init gateway --dir gw --pair
  ferrule init gateway --dir gw --pair --wan-address 192.0.2.1/24 --next-hop 192.0.2.254 \\
      --peer 198.51.100.1 --peer-next-hop 198.51.100.254    with a router at each end
  ferrule init gateway --dir gw --keying external           keys from a program: `ferrule sa`")]
struct GatewayArgs {
    #[command(flatten)]
    node: NodeArgs,
    /// Name of this gateway
    #[arg(long, default_value = "gw-a", value_parser = name)]
    name: String,
    /// Name of the other gateway
    #[arg(long, default_value = "gw-b", value_parser = name)]
    peer_name: String,
    /// Device towards the site
    #[arg(long, value_name = "DEVICE", default_value = "eth0")]
    lan: String,
    /// Device towards the other gateway
    #[arg(long, value_name = "DEVICE", default_value = "eth1")]
    wan: String,
    /// Our address in the site
    #[arg(long, value_name = "ADDRESS/LEN", default_value = "10.0.1.1/24", value_parser = network)]
    lan_address: Net,
    /// Our address on the way to the other gateway
    #[arg(long, value_name = "ADDRESS/LEN", default_value = "198.51.100.1/24", value_parser = network)]
    wan_address: Net,
    /// The other gateway's address
    #[arg(long, value_name = "ADDRESS", default_value = "198.51.100.2")]
    peer: IpAddr,
    /// The other gateway's address in its site
    #[arg(long, value_name = "ADDRESS/LEN", default_value = "10.0.2.1/24", value_parser = network)]
    peer_lan_address: Net,
    /// The router on the way to the other gateway, if it is not on our link
    #[arg(long, value_name = "ADDRESS")]
    next_hop: Option<IpAddr>,
    /// With --pair: the router on the other gateway's way to us
    #[arg(long, value_name = "ADDRESS", requires_all = ["pair", "next_hop"])]
    peer_next_hop: Option<IpAddr>,
    /// Suite of ESP that protects the traffic
    #[arg(long, default_value = "aes-gcm-128", value_parser = esp_suite)]
    suite: String,
    /// SAs in the file with fresh keys, or from a keying program while the node runs
    #[arg(long, default_value = "file", value_parser = ["file", "external"])]
    keying: String,
}

#[derive(Debug, Clone, Args)]
struct HostArgs {
    #[command(flatten)]
    node: NodeArgs,
    /// Name of this host's node
    #[arg(long, default_value = "host-a", value_parser = name)]
    name: String,
    /// Name of the other end's
    #[arg(long, default_value = "gw-b", value_parser = name)]
    peer_name: String,
    /// The TUN device that programs use; it is made
    #[arg(long, value_name = "DEVICE", default_value = "ferrule0")]
    device: String,
    /// The host's address there
    #[arg(long, value_name = "ADDRESS/LEN", default_value = "10.8.0.2/24", value_parser = network)]
    host_address: Net,
    /// The node's own address there
    #[arg(long, value_name = "ADDRESS", default_value = "10.8.0.1")]
    node_address: IpAddr,
    /// Device towards the other end, which the node has for itself
    #[arg(long, value_name = "DEVICE", default_value = "eth1")]
    uplink: String,
    /// Our address on it
    #[arg(long, value_name = "ADDRESS/LEN", default_value = "198.51.100.1/24", value_parser = network)]
    uplink_address: Net,
    /// The other end's address
    #[arg(long, value_name = "ADDRESS", default_value = "198.51.100.2")]
    peer: IpAddr,
    /// The router on the way to it, if it is not on our link
    #[arg(long, value_name = "ADDRESS")]
    next_hop: Option<IpAddr>,
    /// With --pair: the router on its way to us
    #[arg(long, value_name = "ADDRESS", requires_all = ["pair", "next_hop"])]
    peer_next_hop: Option<IpAddr>,
    /// The other end's address in its network
    #[arg(long, value_name = "ADDRESS/LEN", default_value = "10.0.2.1/24", value_parser = network)]
    peer_lan_address: Net,
    /// With --pair: its device there
    #[arg(long, value_name = "DEVICE", default_value = "eth0")]
    peer_lan: String,
    /// Around whole packets, or between the host and one peer behind the other end
    #[arg(long, default_value = "tunnel", value_parser = ["tunnel", "transport"])]
    mode: String,
    /// In transport mode: the peer
    #[arg(long, value_name = "ADDRESS", default_value = "10.0.2.2")]
    peer_host: IpAddr,
    /// Suite of ESP that protects the traffic
    #[arg(long, default_value = "aes-gcm-128", value_parser = esp_suite)]
    suite: String,
}

#[derive(Debug, Clone, Args)]
struct CeArgs {
    #[command(flatten)]
    node: NodeArgs,
    /// Name of this edge
    #[arg(long, default_value = "ce-a", value_parser = name)]
    name: String,
    /// Name of the other site's edge
    #[arg(long, default_value = "ce-b", value_parser = name)]
    peer_name: String,
    /// Device towards the site
    #[arg(long, value_name = "DEVICE", default_value = "eth0")]
    lan: String,
    /// Device towards the provider
    #[arg(long, value_name = "DEVICE", default_value = "eth1")]
    uplink: String,
    /// VLAN of the site's untagged frames
    #[arg(long, value_name = "VID", value_parser = clap::value_parser!(u16).range(1..=4094))]
    access: Option<u16>,
    /// MACsec's cipher suite
    #[arg(long, default_value = "gcm-aes-128", value_parser = macsec_cipher)]
    cipher: String,
    /// Keys by MKA, from one CAK, in place of static ones
    #[arg(long)]
    mka: bool,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  ferrule init pe --dir pe --pair                           the edges on one link
  ferrule init p --dir pe && ferrule init pe --dir pe --pair \\
      --core-address 192.0.2.1/24 --via 192.0.2.2 --transport-label 16002 \\
      --peer-core-address 198.51.100.1/24 --peer-via 198.51.100.2 \\
      --peer-transport-label 16001                          a router between them")]
struct PeArgs {
    #[command(flatten)]
    node: NodeArgs,
    /// Name of this edge
    #[arg(long, default_value = "pe-a", value_parser = name)]
    name: String,
    /// Name of the other edge
    #[arg(long, default_value = "pe-b", value_parser = name)]
    peer_name: String,
    /// Device towards the customer
    #[arg(long, value_name = "DEVICE", default_value = "eth0")]
    attachment: String,
    /// Device towards the provider's network
    #[arg(long, value_name = "DEVICE", default_value = "eth1")]
    core: String,
    /// Our address in the provider's network
    #[arg(long, value_name = "ADDRESS/LEN", default_value = "192.0.2.1/24", value_parser = network)]
    core_address: Net,
    /// The neighbour on the way to the other edge: the edge itself, or a router
    #[arg(long, value_name = "ADDRESS", default_value = "192.0.2.2")]
    via: IpAddr,
    /// Label that the neighbour takes to the other edge, if it is a router
    #[arg(long, value_name = "LABEL", value_parser = label())]
    transport_label: Option<u32>,
    /// With --pair: the other edge's address, if a router is between
    #[arg(long, value_name = "ADDRESS/LEN", value_parser = network,
          requires_all = ["pair", "peer_via"])]
    peer_core_address: Option<Net>,
    /// With --pair: its neighbour on the way to us
    #[arg(long, value_name = "ADDRESS", requires = "peer_core_address")]
    peer_via: Option<IpAddr>,
    /// With --pair: the label that its neighbour takes to us
    #[arg(long, value_name = "LABEL", requires = "peer_core_address", value_parser = label())]
    peer_transport_label: Option<u32>,
    /// Label of the pseudowire here
    #[arg(long, value_name = "LABEL", default_value_t = 17001, value_parser = label())]
    label_in: u32,
    /// Label of the pseudowire at the other edge
    #[arg(long, value_name = "LABEL", default_value_t = 17002, value_parser = label())]
    label_out: u32,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "A label for each link: what arrives with the first label leaves by the
first link, and so on. Without a LABEL of its own the neighbour is an edge, and the label is
taken off before it; with one it is swapped for that.

Examples:
  ferrule init p                                            between two edges
  ferrule init p --link eth0,192.0.2.2/24,192.0.2.1 \\
      --link eth1,198.51.100.2/24,198.51.100.1 \\
      --link eth2,203.0.113.1/24,203.0.113.2,17001          and on to another router")]
struct PArgs {
    /// Folder for the files
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Replace files that exist
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    form: Form,
    /// Driver of the ports
    #[arg(long, default_value = "af-xdp", value_parser = ["af-xdp", "af-packet", "tap"])]
    driver: String,
    /// Name of this router
    #[arg(long, default_value = "p", value_parser = name)]
    name: String,
    /// A link: device, our address, the neighbour's, and the label that it takes; two or more
    #[arg(long = "link", value_name = "DEVICE,ADDRESS/LEN,NEIGHBOUR[,LABEL]", value_parser = p::link,
          default_values = ["eth0,192.0.2.2/24,192.0.2.1", "eth1,198.51.100.2/24,198.51.100.1"])]
    links: Vec<p::LinkPlan>,
    /// Label of the first link here
    #[arg(long, value_name = "LABEL", default_value_t = 16001, value_parser = label())]
    first_label: u32,
}

#[derive(Debug, Clone, Args)]
struct KeyArgs {
    /// A suite of ESP or MACsec, or a CAK: aes-gcm-128, "aes-cbc-128 hmac-sha1-96",
    /// gcm-aes-128, mka-128, …
    suite: String,
    /// The file
    file: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    form: Form,
}

impl InitArgs {
    /// Writes the files and says what to do with them.
    pub fn run(self) -> ExitCode {
        let paint = Paint::for_stream(&std::io::stdout());
        let written = self.set().and_then(|set| set.write().map(|()| set));
        match written {
            Ok(set) => {
                self.form().give(set.object(), || set.render(paint));
                ExitCode::SUCCESS
            }
            Err((code, what)) => answer::wrong(&what, code),
        }
    }

    fn form(&self) -> &Form {
        match &self.what {
            What::Gateway(args) => &args.node.form,
            What::Host(args) => &args.node.form,
            What::P(args) => &args.form,
            What::Pe(args) => &args.node.form,
            What::Ce(args) => &args.node.form,
            What::Key(args) => &args.form,
        }
    }

    fn set(&self) -> Result<Set, (u8, String)> {
        let random = |e: ferrule_crypto::random::Unavailable| (ENVIRONMENT, e.to_string());
        match &self.what {
            What::Gateway(args) => {
                both_ways(args.node.pair, args.next_hop, args.peer_next_hop)?;
                pairs::gateway(args).map_err(random)
            }
            What::Host(args) => {
                both_ways(args.node.pair, args.next_hop, args.peer_next_hop)?;
                pairs::host(args).map_err(random)
            }
            What::Ce(args) => pairs::ce(args).map_err(random),
            What::Pe(args) => {
                let labels = (args.transport_label, args.peer_transport_label);
                if args.node.pair && matches!(labels, (Some(_), None) | (None, Some(_))) {
                    let what = "with --pair a transport label leads each way: say \
                                --transport-label, --peer-transport-label, \
                                --peer-core-address and --peer-via";
                    return Err((USAGE, what.into()));
                }
                Ok(pairs::pe(args))
            }
            What::P(args) if args.links.len() < 2 => {
                Err((USAGE, "a router has two links or more: say --link again".into()))
            }
            What::P(args) => Ok(pairs::p(args)),
            What::Key(args) => {
                let kind = key::KeyFor::from_name(&args.suite).map_err(|e| (USAGE, e))?;
                let mut files = Files::default();
                files.secret(&args.file, kind.fresh(&args.suite).map_err(random)?);
                Ok(Set { files, force: args.force, counters: None, next: Vec::new() })
            }
        }
    }
}

/// With --pair a router on one's way has one at the other end, too.
fn both_ways(pair: bool, ours: Option<IpAddr>, theirs: Option<IpAddr>) -> Result<(), (u8, String)> {
    match (pair, ours, theirs) {
        (true, Some(_), None) => {
            let what = "with --pair both next hops are needed: say --peer-next-hop, the router \
                        on the other end's way to us";
            Err((USAGE, what.into()))
        }
        _ => Ok(()),
    }
}

/// Files to write, and what comes after.
struct Set {
    files: Files,
    force: bool,
    /// The configuration of the node here, if it has a folder for counters.
    counters: Option<PathBuf>,
    /// Remark and command.
    next: Vec<(String, String)>,
}

impl Set {
    /// Writes all of it, or nothing.
    fn write(&self) -> Result<(), (u8, String)> {
        self.files.check().map_err(|e| (USAGE, e))?;
        let written = self.files.write(self.force).map_err(|e| (ENVIRONMENT, e.to_string()))?;
        self.begin_counters().map_err(|e| (ENVIRONMENT, e))?;
        written.keep();
        Ok(())
    }

    /// Begins the counters of this side and of its keys, which are not used yet. They are
    /// bound to this machine's disk: the other side begins its own.
    fn begin_counters(&self) -> Result<(), String> {
        let Some(path) = &self.counters else { return Ok(()) };
        let config = load(path).map_err(|e| e.to_string())?.config;
        let Some(folder) = &config.state else { return Ok(()) };
        let failed = |e: StateError| format!("{e}\n{}", e.remedy());
        let used = ferrule_daemon::state::used_keys().map_err(failed)?;
        let mut store = FileStore::create(Path::new(folder), &used).map_err(failed)?;
        // SPIs and SCIs stand in the file, so addresses of devices do not matter.
        let macs = vec![MacAddr::ZERO; config.ports.len()];
        store.find_all(&ferrule_node::counters(&config, &macs)).map_err(failed)
    }

    fn object(&self) -> Value {
        let steps =
            self.next.iter().map(|(why, command)| json!({ "why": why, "command": command }));
        json!({
            "wrote": self.files.paths().collect::<Vec<_>>(),
            "counters": self.counters.is_some(),
            "next": steps.collect::<Vec<_>>(),
        })
    }

    fn render(&self, paint: Paint) -> String {
        let mut text = String::new();
        for path in self.files.paths() {
            text += &format!("wrote {}\n", paint.bold(path.display()));
        }
        if self.counters.is_some() {
            text += "made the folder of the counters\n";
        }
        if !self.next.is_empty() {
            text += "\nNext:\n";
        }
        let widest = self.next.iter().map(|(_, command)| command.chars().count()).max();
        for (why, command) in &self.next {
            let pad = widest.unwrap_or(0) - command.chars().count();
            text += &format!("  {command}{}  {}\n", " ".repeat(pad), paint.faint(why));
        }
        text
    }
}

/// An address and the length of its network's prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Net {
    address: IpAddr,
    len: u8,
}

impl Net {
    /// Its address alone.
    fn single(address: IpAddr) -> String {
        format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 })
    }

    /// The network, with the host's bits cleared.
    fn prefix(self) -> String {
        let network = match self.address {
            IpAddr::V4(a) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.len)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(a.to_bits() & mask))
            }
            IpAddr::V6(a) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.len)).unwrap_or(0);
                IpAddr::V6((a.to_bits() & mask).into())
            }
        };
        format!("{network}/{}", self.len)
    }
}

impl std::fmt::Display for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

fn network(text: &str) -> Result<Net, String> {
    let parsed = text.split_once('/').and_then(|(address, len)| {
        let net = Net { address: address.parse().ok()?, len: len.parse().ok()? };
        (net.len <= if net.address.is_ipv4() { 32 } else { 128 }).then_some(net)
    });
    parsed.ok_or_else(|| "write it as 192.0.2.1/24 or 2001:db8::1/64".to_owned())
}

/// A name becomes part of file names.
fn name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if text.is_empty() || text.starts_with(['.', '-']) || !text.chars().all(fits) {
        return Err("letters, digits, `-`, `_` and `.` make a name".to_owned());
    }
    Ok(text.to_owned())
}

fn esp_suite(text: &str) -> Result<String, String> {
    match key::KeyFor::from_name(text)? {
        key::KeyFor::Esp(_) => Ok(text.to_owned()),
        key::KeyFor::Macsec { .. } | key::KeyFor::Mka(_) => {
            Err(format!("`{text}` is a suite of MACsec"))
        }
    }
}

fn macsec_cipher(text: &str) -> Result<String, String> {
    match key::KeyFor::from_name(text)? {
        key::KeyFor::Macsec { .. } => Ok(text.to_owned()),
        key::KeyFor::Esp(_) => Err(format!("`{text}` is a suite of ESP")),
        key::KeyFor::Mka(_) => Err(format!("`{text}` is a CAK's, not a cipher suite")),
    }
}

/// The same as part of a word.
fn label_of(text: &str) -> Result<u32, String> {
    let label = text.parse().ok().filter(|label| (16..=0xf_ffff).contains(label));
    label.ok_or_else(|| format!("`{text}` is no label: 16 to 1048575"))
}

/// Labels that are not reserved (RFC 3032 section 2.1).
fn label() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(16..=0xf_ffff)
}
