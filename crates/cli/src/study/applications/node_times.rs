//! Work of a lane's nodes during a transfer: by their own account, queried before and after.

use super::clients::Way;
use crate::study::trials::worker_ns;
use ferrule_daemon::api::{Client, Reply, Request};
use ferrule_daemon::report::TimesView;
use serde::{Deserialize, Serialize};
use std::fs;

/// Stages that look for a policy or a way.
const LOOKUP: [&str; 1] = ["policy"];
/// Stages that cut what is too long, with headers and tags of what is not, and that put
/// pieces together.
const PIECES: [&str; 2] = ["output", "reassemble"];

/// Work of both nodes of a lane: their workers' time by the stages' own stopwatches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// Asking the policy.
    pub lookup_ns: u64,
    /// Cutting, and putting together.
    pub pieces_ns: u64,
    /// Engines: cipher and hash.
    pub crypto_ns: u64,
    /// Receiving and transmitting: the system's calls, and its copies.
    pub ports_ns: u64,
    /// The other stages, of which ESP and AH without their engine are one.
    pub other_ns: u64,
    /// Turns in which nothing moved.
    pub idle_ns: u64,
    /// Their workers on a core, by the kernel's account, idle turns included.
    pub on_core_ns: u64,
    /// Frames on the wire, both ways.
    pub frames: u64,
    /// Their octets.
    pub octets: u64,
}

impl Spent {
    /// From one reading to another; nothing without nodes.
    pub fn between(before: Option<Self>, after: Option<Self>) -> Option<Self> {
        let (before, after) = (before?, after?);
        let since = |of: fn(&Self) -> u64| of(&after).saturating_sub(of(&before));
        Some(Self {
            lookup_ns: since(|s| s.lookup_ns),
            pieces_ns: since(|s| s.pieces_ns),
            crypto_ns: since(|s| s.crypto_ns),
            ports_ns: since(|s| s.ports_ns),
            other_ns: since(|s| s.other_ns),
            idle_ns: since(|s| s.idle_ns),
            on_core_ns: since(|s| s.on_core_ns),
            frames: since(|s| s.frames),
            octets: since(|s| s.octets),
        })
    }

    /// Adds what one node's stopwatch says.
    fn add(&mut self, times: &TimesView) {
        let of = |names: &[&str]| -> u64 {
            times
                .stages
                .iter()
                .filter(|(name, _)| names.contains(&name.as_str()))
                .map(|(_, t)| t)
                .sum()
        };
        let (lookup, pieces) = (of(&LOOKUP), of(&PIECES));
        let transmit = of(&["transmit"]);
        let stages: u64 = times.stages.values().sum();
        self.lookup_ns += lookup;
        self.pieces_ns += pieces;
        self.crypto_ns += times.engines;
        self.ports_ns += times.ports + transmit;
        self.other_ns += stages.saturating_sub(lookup + pieces + transmit + times.engines);
        self.idle_ns += times.idle;
    }
}

/// The nodes of a lane, for who reads what they did.
pub struct NodeTimes {
    clients: Vec<Client>,
    processes: Vec<u32>,
    wire: String,
}

impl NodeTimes {
    /// Of a lane.
    pub fn open(way: &Way) -> Result<Self, String> {
        let clients = way.sockets.iter().map(|socket| Client::connect(socket));
        let clients = clients.collect::<Result<_, _>>().map_err(|fault| fault.to_string())?;
        Ok(Self { clients, processes: way.processes.clone(), wire: way.wire.clone() })
    }

    /// Now; nothing without nodes.
    pub fn read(&mut self) -> Result<Option<Spent>, String> {
        let Some(first) = self.processes.first() else { return Ok(None) };
        let table = fs::read_to_string(format!("/proc/{first}/net/dev"));
        let table = table.map_err(|e| format!("the wire's counters: {e}"))?;
        let (frames, octets) = counters(&table, &self.wire).ok_or("the wire has no counters")?;
        let on_core_ns = self.processes.iter().map(|process| worker_ns(*process)).sum();
        let mut spent = Spent { on_core_ns, frames, octets, ..Spent::default() };
        for client in &mut self.clients {
            let reply = client.ask(&Request::Show {}).map_err(|fault| fault.to_string())?;
            if let Reply::Report(report) = reply {
                report.times.iter().for_each(|times| spent.add(times));
            }
        }
        Ok(Some(spent))
    }
}

/// Frames and octets of a device, both ways, in the kernel's table.
fn counters(table: &str, device: &str) -> Option<(u64, u64)> {
    let line =
        table.lines().find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'))?;
    let fields: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    Some((fields.get(1)? + fields.get(9)?, fields.first()? + fields.get(8)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_a_wire_are_those_of_both_ways() {
        let table = "Inter-|   Receive  |  Transmit\n face |bytes packets errs\n\
                       w1: 1000 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0\n\
                      w11: 7 1 0 0 0 0 0 0 8 1 0 0 0 0 0 0\n";
        assert_eq!(counters(table, "w1"), Some((30, 3000)));
        assert_eq!(counters(table, "w11"), Some((2, 15)));
        assert_eq!(counters(table, "w"), None);
    }
}
