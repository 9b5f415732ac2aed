//! Conservation of a whole network.
//!
//! Every part counts for itself, and what is under way is found by looking
//! (into the agenda, the queues, the nodes), not by subtraction. So a packet
//! that vanishes, or appears from nowhere, shows.

use crate::agenda::Event;
use crate::device::Device;
use crate::network::Network;
use ferrule_base::Ledger;
use std::fmt;

/// `sent + made = received + consumed + dropped + lost + in flight`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkLedger {
    /// Frames that stations sent.
    pub sent: u64,
    /// Packets that nodes made, and second copies that links made.
    pub made: u64,
    /// Frames that stations received.
    pub received: u64,
    /// Packets that ended in a node as intended.
    pub consumed: u64,
    /// Packets that nodes dropped, each with a reason.
    pub dropped: u64,
    /// Frames lost on links and in front of nodes, and in devices that crashed.
    pub lost: u64,
    /// Packets on links, in queues and held in nodes.
    pub in_flight: u64,
}

impl NetworkLedger {
    /// True if every packet is accounted for.
    pub const fn balances(&self) -> bool {
        self.sent + self.made
            == self.received + self.consumed + self.dropped + self.lost + self.in_flight
    }
}

/// Place where packets are not accounted for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unbalanced {
    /// The link, device or station; or the network.
    pub place: String,
    /// The sum that does not add up, in a sentence.
    pub what: String,
}

impl fmt::Display for Unbalanced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "packets are not conserved: {}: {}", self.place, self.what)
    }
}

impl std::error::Error for Unbalanced {}

impl Network {
    /// Checks that every packet is accounted for: on each link, in each device
    /// and station, and in the whole.
    pub fn audit(&self) -> Result<NetworkLedger, Unbalanced> {
        let mut whole = NetworkLedger::default();
        self.audit_links(&mut whole)?;
        for device in &self.devices {
            audit_device(device, &mut whole)?;
        }
        self.audit_stations(&mut whole)?;
        if whole.balances() {
            Ok(whole)
        } else {
            Err(unbalanced("the network", format!("{whole:?}")))
        }
    }

    fn audit_links(&self, whole: &mut NetworkLedger) -> Result<(), Unbalanced> {
        let mut flying = vec![0u64; self.world.lanes.len()];
        for event in self.world.agenda.events() {
            if let Event::Arrive { lane, .. } = event {
                flying[*lane as usize] += 1;
            }
        }
        for (i, (lane, &flying)) in self.world.lanes.iter().zip(&flying).enumerate() {
            let (stats, found) = (&lane.stats, flying + lane.held() as u64);
            if stats.in_flight() != found {
                let what = format!("{found} frames are under way, but {stats:?}");
                return Err(unbalanced(&self.links[i / 2].name, what));
            }
            whole.made += stats.duplicated;
            whole.lost += stats.lost + stats.queue_full + stats.down;
            whole.in_flight += found;
        }
        Ok(())
    }

    fn audit_stations(&self, whole: &mut NetworkLedger) -> Result<(), Unbalanced> {
        for post in &self.posts {
            let own = post.station.ledger();
            if (own.received, own.sent) != (post.received, post.sent) || !own.balances() {
                let what = format!(
                    "it was given {} frames and gave {}, but says {own:?}",
                    post.received, post.sent
                );
                return Err(unbalanced(&post.name, what));
            }
            whole.sent += post.sent;
            whole.received += post.received;
            whole.lost += post.unlinked;
        }
        Ok(())
    }
}

fn audit_device(device: &Device, whole: &mut NetworkLedger) -> Result<(), Unbalanced> {
    let (stats, node) = (device.stats(), device.ledger());
    let inside = device.crashed_inside();
    let Ledger { received, made, sent, consumed, dropped, held } = node;
    if received + made != sent + consumed + dropped + held + inside {
        let what = format!("{node:?}, and {inside} lost by crashes");
        return Err(unbalanced(device.name(), what));
    }
    // In front of the node and behind it.
    let lost = stats.input_full + stats.capped + stats.crashed + stats.unattached;
    let waiting = device.waiting() as u64;
    if stats.arrived.packets + sent != received + stats.sent.packets + lost + waiting {
        let what = format!("{waiting} frames wait, the node has {node:?}, around it {stats:?}");
        return Err(unbalanced(device.name(), what));
    }
    whole.made += made;
    whole.consumed += consumed;
    whole.dropped += dropped;
    whole.lost += lost + inside;
    whole.in_flight += held + waiting;
    Ok(())
}

fn unbalanced(place: &str, what: String) -> Unbalanced {
    Unbalanced { place: place.into(), what }
}
