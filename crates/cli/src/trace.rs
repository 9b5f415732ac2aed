//! `ferrule trace`: a packet's way through a running node, stage by stage.

use crate::live::{Which, end_on_interrupt, finish, unexpected};
use crate::output::print;
use clap::Args;
use ferrule_daemon::Fault;
use ferrule_daemon::api::{Recording, Reply, Request, Seen};
use ferrule_wire::EtherType;
use ferrule_wire::print::describe;
use serde_json::json;
use std::process::ExitCode;

/// Follow packets through the stages of a running node.
///
/// One line for each stage that a packet comes to: its time since it was
/// received, the worker, the stage, its length and what it looks like there.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ferrule trace                 the next packet
  sudo ferrule trace -c 5 --port lan the next five that port `lan` receives")]
pub struct TraceArgs {
    /// Packets to follow.
    #[arg(short, long, default_value_t = 1)]
    count: u64,
    /// Only packets that this port receives.
    #[arg(long, value_name = "PORT")]
    port: Option<String>,
    /// Print each record as a line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

impl TraceArgs {
    /// Traces.
    pub fn run(self) -> ExitCode {
        finish(self.go())
    }

    fn go(self) -> Result<(), Fault> {
        let mut client = self.which.connect()?;
        end_on_interrupt(&client)?;
        let wanted = Recording { port: self.port, count: Some(self.count), snap: 0 };
        client.send(&Request::Trace(wanted))?;
        let mut start = std::collections::HashMap::new();
        let mut number = 0;
        while let Some(reply) = client.receive()? {
            match reply {
                Reply::Ports { .. } => {}
                Reply::Record(seen) => {
                    if seen.point == "received" {
                        number += 1;
                        start.insert(seen.id, (seen.time, number));
                    }
                    let (time, number) = start.get(&seen.id).copied().unwrap_or((seen.time, 0));
                    let text = match self.json {
                        true => json!({ "packet": number, "record": seen }).to_string() + "\n",
                        false => line(&seen, time, number),
                    };
                    print(&text);
                }
                Reply::End { lost } => {
                    if self.json {
                        print(&format!("{}\n", json!({ "lost": lost })));
                    } else if lost > 0 {
                        eprintln!("{lost} records were lost");
                    }
                    return Ok(());
                }
                reply => return Err(unexpected(reply)),
            }
        }
        Ok(())
    }
}

/// `#1   +1.2us  worker 0  esp-out     1042  ipv4 …`.
fn line(seen: &Seen, start: u64, number: u64) -> String {
    let micros = seen.time.saturating_sub(start) as f64 / 1000.0;
    let octets = seen.octets();
    let place = match (seen.point.as_str(), &seen.reason) {
        ("dropped", Some(reason)) => format!("dropped: {reason}"),
        ("received" | "transmit" | "transmit-first", _) => format!("{} {}", seen.point, seen.port),
        (point, _) => point.to_owned(),
    };
    let what = layers_at(&seen.point, &octets);
    format!("#{number} +{micros:>8.1}us w{} {place:<20} {:>5}  {what}\n", seen.worker, seen.len)
}

/// Layers of a packet in front of a stage.
pub fn layers_at(point: &str, octets: &[u8]) -> String {
    match point {
        "mpls" => below_ethernet(EtherType::MPLS, octets),
        "output" => below_ethernet(ip(octets).unwrap_or(EtherType::MPLS), octets),
        "pw-in" | "source-check" | "acl-in" | "ip" | "reassemble" | "local" | "esp-in"
        | "ah-in" | "path-error" | "acl-out" | "clamp" | "policy" | "esp-out" | "ah-out"
        | "icmp-error" | "dropped" => match ip(octets) {
            Some(ethertype) => below_ethernet(ethertype, octets),
            None => describe(octets),
        },
        _ => describe(octets),
    }
}

/// The version of an IP packet, by its first octet.
fn ip(octets: &[u8]) -> Option<EtherType> {
    match octets.first()? >> 4 {
        4 => Some(EtherType::IPV4),
        6 => Some(EtherType::IPV6),
        _ => None,
    }
}

/// Layers of a packet without an Ethernet header; the one made up for it is not shown.
fn below_ethernet(ethertype: EtherType, octets: &[u8]) -> String {
    let mut frame = vec![0; 12];
    frame.extend(ethertype.0.to_be_bytes());
    frame.extend(octets);
    let text = describe(&frame);
    text.split_once(" | ").map_or(text.clone(), |(_, rest)| rest.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_wire::{ipv4, mpls};

    #[test]
    fn trace_shows_label_stacks_where_stages_find_them() {
        let mut ip = [0x45, 0, 0, 20, 0, 0, 0, 0, 9, 59, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
        ipv4::fill_checksum(&mut ip);
        let mut labelled = mpls::encode(16012, 0, false, 63).to_vec();
        labelled.extend(mpls::encode(1000, 0, true, 64));
        labelled.extend(ip);
        for place in ["mpls", "output"] {
            let text = layers_at(place, &labelled);
            assert!(text.starts_with("MPLS 16012 ") && text.contains("MPLS 1000 "), "{text}");
        }
        assert!(layers_at("output", &ip).starts_with("IPv4 "), "{}", layers_at("output", &ip));
        // No Ethernet header is made up.
        assert!(!layers_at("ip", &ip).contains(" > 00:"), "{}", layers_at("ip", &ip));
    }
}
