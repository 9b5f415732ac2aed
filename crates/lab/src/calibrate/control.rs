//! Cost of a message in the control part: questions of a LAN's stations for the node's address,
//! each heard and answered.

use crate::memory::Stand;
use ferrule_base::{Duration, Instant, MacAddr};
use ferrule_node::Config;
use ferrule_pipeline::{Packet, Pool, PoolCache};
use ferrule_wire::{EtherType, arp, ethernet};
use std::net::Ipv4Addr;

const NODE: &str = "[node]\nname = \"node\"\nlab = true\n\
                    [[port]]\nname = \"lan\"\ndriver = \"wire\"\n\
                    [[interface]]\nport = \"lan\"\naddress = [\"10.0.0.1/16\"]\n";
const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// Stations, each of which asks once a round.
const STATIONS: usize = 64;
/// A station asks so often, which is within its rate.
const INTERVAL: Duration = Duration::from_secs(1);

/// A node with its stations.
pub(super) struct Lan {
    node: Stand,
    cache: PoolCache,
    now: Instant,
}

impl Lan {
    /// With a node that knows nobody yet.
    pub fn new() -> Self {
        let mut no_key = |_: &str| Err("there is no key here".to_owned());
        let config = Config::parse("calibration", NODE, &mut no_key);
        let config = config.unwrap_or_else(|e| panic!("a configuration of ours is wrong: {e}"));
        let pool = Pool::heap(8 * STATIONS, 2048);
        let node = Stand::new(config, &|_| {}, &pool);
        Self { node, cache: pool.cache(), now: Instant::from_secs(1) }
    }

    /// Every station asks. Nanoseconds of the clock for each message, heard or made.
    pub fn round(&mut self, clock: &mut dyn FnMut() -> u64) -> f64 {
        self.now += INTERVAL;
        let questions: Vec<Packet> = (0..STATIONS).filter_map(|n| self.question(n)).collect();
        self.node.load(questions, self.now);
        self.node.turn(self.now);
        let before = self.node.control.work();
        let begin = clock();
        self.node.control.turn(self.now);
        let took = clock().saturating_sub(begin);
        let messages = (self.node.control.work() - before).messages;
        self.node.turn(self.now);
        let answers: Vec<Packet> = self.node.take().collect();
        answers.into_iter().for_each(|packet| self.cache.recycle(packet));
        took as f64 / messages.max(1) as f64
    }

    fn question(&mut self, station: usize) -> Option<Packet> {
        let sender_mac = MacAddr([2, 0, 0, 1, (station >> 8) as u8, station as u8]);
        let message = arp::Repr {
            operation: arp::Operation::Request,
            sender_mac,
            sender_ip: Ipv4Addr::from(u32::from(OWN) + 256 + station as u32),
            target_mac: MacAddr::default(),
            target_ip: OWN,
        };
        let link =
            ethernet::Repr { dst: MacAddr::BROADCAST, src: sender_mac, ethertype: EtherType::ARP };
        let mut frame = vec![0; ethernet::Header::LEN + arp::Header::LEN];
        link.emit(&mut frame);
        message.emit(&mut frame[ethernet::Header::LEN..]);
        self.cache.packet_from(&frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_station_is_heard_and_answered_and_that_is_what_is_timed() {
        let mut lan = Lan::new();
        for _ in 0..3 {
            lan.round(&mut || 0);
        }
        // A clock that is read twice a round.
        let mut now = 0;
        let mut clock = || {
            now += 12_800;
            now
        };
        let before = lan.node.control.work().messages;
        assert_eq!(lan.round(&mut clock), 12_800.0 / (2 * STATIONS) as f64);
        assert_eq!(lan.node.control.work().messages - before, 2 * STATIONS as u64);
    }
}
