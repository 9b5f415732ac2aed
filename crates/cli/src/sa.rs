//! `ferrule sa`: SAs of tunnels with `keying = "external"`, given to a running node.

use crate::live::{ClientArgs, end_on_interrupt, finish, unexpected};
use crate::output::print;
use clap::{Args, Subcommand, ValueEnum};
use ferrule_base::Secret;
use ferrule_daemon::api::{self, Notice, Reply, Request, SaBound, SaRequest, SaVerb, SecretText};
use ferrule_daemon::{Blame, Fault};
use serde_json::json;
use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// Give SAs to tunnels whose keys come from a keying program.
///
/// A tunnel with `keying = "external"` has no SA in the file: a program agrees on keys with the
/// other end and gives them to the node while it runs. Receive first: add the inbound SA at both
/// ends, then the outbound ones, then use them. They die with the node.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ferrule sa add site in --spi 0x2001 --key in.key
  sudo ferrule sa add site out --spi 0x2002 --key out.key --hard-seconds 3600
  sudo ferrule sa use site --spi 0x2002
  sudo ferrule sa move site out --spi 0x2002 --local 192.0.2.1 --remote 203.0.113.7
  sudo ferrule sa drop site out --spi 0x1002
  sudo ferrule sa watch                      what a keying program has to do, line by line

docs/howto/keying.md has the requests as a program sends them.

Exit: 0 done, 2 the node refused it, 3 the machine lacks something.")]
pub struct SaArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Add an SA. An outbound one seals nothing before it is used.
    Add {
        #[command(flatten)]
        of: Of,
        /// Key file of the tunnel's suite: `ferrule init key` makes one.
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
        /// Worker that has it.
        #[arg(long, value_name = "N", default_value_t = 0)]
        worker: usize,
        #[command(flatten)]
        bounds: Bounds,
        #[command(flatten)]
        node: ClientArgs,
    },
    /// Seal by an outbound SA from now on.
    Use {
        /// The tunnel.
        tunnel: String,
        /// SPI of the outbound SA.
        #[arg(long, value_parser = number)]
        spi: u32,
        /// Only what this worker has for the tunnel. Default: all workers.
        #[arg(long, value_name = "N")]
        worker: Option<usize>,
        #[command(flatten)]
        node: ClientArgs,
    },
    /// Give an SA other ends: key, numbers and window stay.
    Move {
        #[command(flatten)]
        of: Of,
        /// This end, an address of the node.
        #[arg(long)]
        local: IpAddr,
        /// The other end.
        #[arg(long)]
        remote: IpAddr,
        /// ESP in UDP: own port and that of the other end.
        #[arg(long, value_name = "OURS,THEIRS", value_delimiter = ',', num_args = 2)]
        ports: Option<Vec<u16>>,
        #[command(flatten)]
        node: ClientArgs,
    },
    /// Let go of an SA, once nothing is under way to it.
    Drop {
        #[command(flatten)]
        of: Of,
        #[command(flatten)]
        node: ClientArgs,
    },
    /// Print what a keying program needs to know, until ctrl-C.
    Watch {
        #[command(flatten)]
        node: ClientArgs,
    },
}

/// The SA that is meant.
#[derive(Args)]
struct Of {
    /// The tunnel.
    tunnel: String,
    /// Direction.
    way: Way,
    /// SPI, decimal or 0x….
    #[arg(long, value_parser = number)]
    spi: u32,
}

#[derive(Clone, Copy, ValueEnum)]
enum Way {
    /// From the other end.
    In,
    /// To the other end.
    Out,
}

/// Bounds of an SA's life.
#[derive(Args)]
struct Bounds {
    /// Seconds after which a notice is given.
    #[arg(long, value_name = "N")]
    soft_seconds: Option<u64>,
    /// Packets after which a notice is given.
    #[arg(long, value_name = "N")]
    soft_packets: Option<u64>,
    /// Octets after which a notice is given.
    #[arg(long, value_name = "N")]
    soft_octets: Option<u64>,
    /// Seconds after which it ends.
    #[arg(long, value_name = "N")]
    hard_seconds: Option<u64>,
    /// Packets after which it ends.
    #[arg(long, value_name = "N")]
    hard_packets: Option<u64>,
    /// Octets after which it ends.
    #[arg(long, value_name = "N")]
    hard_octets: Option<u64>,
}

/// A number, decimal or with `0x`.
fn number(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|e| e.to_string())
}

impl SaArgs {
    /// Runs the command.
    pub fn run(self) -> ExitCode {
        finish(self.go())
    }

    fn go(self) -> Result<(), Fault> {
        match self.what {
            What::Add { of, key, worker, bounds, node } => {
                let text = fs::read(&key).map_err(|e| {
                    let what = format!("key file {}: {e}", key.display());
                    Fault::new(Blame::Environment, what, "`ferrule init key --help`")
                })?;
                let (key, (soft, hard)) = (SecretText(Secret::new(text)), bounds.both());
                ask(&node, of, SaVerb::Add { key, worker, soft, hard }, "is there")
            }
            What::Use { tunnel, spi, worker, node } => {
                let of = Of { tunnel, way: Way::Out, spi };
                ask(&node, of, SaVerb::Use { worker }, "seals from now on")
            }
            What::Move { of, local, remote, ports, node } => {
                let ports = ports.and_then(|ports| Some((*ports.first()?, *ports.get(1)?)));
                ask(&node, of, SaVerb::Move { local, remote, ports }, "has other ends")
            }
            What::Drop { of, node } => ask(&node, of, SaVerb::Drop {}, "is gone"),
            What::Watch { node } => watch(&node),
        }
    }
}

impl Bounds {
    const fn both(&self) -> (SaBound, SaBound) {
        let Self { soft_seconds, soft_packets, soft_octets, .. } = *self;
        let Self { hard_seconds, hard_packets, hard_octets, .. } = *self;
        (
            SaBound { packets: soft_packets, octets: soft_octets, seconds: soft_seconds },
            SaBound { packets: hard_packets, octets: hard_octets, seconds: hard_seconds },
        )
    }
}

fn ask(node: &ClientArgs, of: Of, verb: SaVerb, done: &str) -> Result<(), Fault> {
    let Of { tunnel, way, spi } = of;
    let way = match way {
        Way::In => api::Way::In,
        Way::Out => api::Way::Out,
    };
    let text = format!("tunnel {tunnel} {way}, SPI {spi:#x} {done}\n");
    let object = json!({ "tunnel": tunnel, "way": way, "spi": spi, "done": verb.name() });
    let request = Request::Sa(SaRequest { tunnel, way, spi, verb });
    match node.which.connect()?.ask(&request)? {
        Reply::Done {} => node.form.give(object, || text),
        reply => return Err(unexpected(reply)),
    }
    Ok(())
}

/// Prints notices as they come, each a line.
fn watch(node: &ClientArgs) -> Result<(), Fault> {
    let mut client = node.which.connect()?;
    match client.ask(&Request::Notices {})? {
        Reply::Done {} => {}
        reply => return Err(unexpected(reply)),
    }
    end_on_interrupt(&client)?;
    while let Some(reply) = client.receive()? {
        let notice = match reply {
            Reply::Notice(notice) => notice,
            Reply::End { .. } => break,
            reply => return Err(unexpected(reply)),
        };
        let line = match node.form.json {
            true => serde_json::to_string(&notice).unwrap_or_else(|e| e.to_string()),
            false => sentence(&notice),
        };
        print(&(line + "\n"));
    }
    Ok(())
}

/// A notice in a line for people.
fn sentence(notice: &Notice) -> String {
    match notice {
        Notice::Acquire { tunnel, .. } => format!("tunnel {tunnel} has packets and no SA"),
        Notice::Expires { tunnel, way, spi, cause } => {
            format!("tunnel {tunnel} {way}, SPI {spi:#x}: its soft lifetime is over, by {cause}")
        }
        Notice::Expired { tunnel, way, spi, cause } => {
            format!("tunnel {tunnel} {way}, SPI {spi:#x}: its hard lifetime is over, by {cause}")
        }
        Notice::PeerMoved { tunnel, address } => {
            format!("the other end of tunnel {tunnel} is at {address} now")
        }
        Notice::Gone { tunnel, way, spi } => {
            format!("tunnel {tunnel} {way}, SPI {spi:#x} is gone with its tunnel")
        }
        Notice::Datagram { local, remote, payload } => {
            format!("{} octets from {remote} at {local}", payload.len() / 2)
        }
        Notice::Lost { count } => format!("{count} notices found no room"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spis_are_decimal_or_hexadecimal() {
        assert_eq!((number("256"), number("0x100")), (Ok(256), Ok(256)));
        assert!(number("0x1_00").is_err() && number("4294967296").is_err() && number("").is_err());
    }
}
