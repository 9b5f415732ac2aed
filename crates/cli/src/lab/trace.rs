//! `--trace`: packets' ways through the stages of every node, in virtual time.
//!
//! ```text
//!   0.200005576  gw1  w0 received lan           98  IPv4 10.1.0.2 > 10.2.0.2 ICMP … | …
//!   0.200005576  gw1  w0 policy                 84  IPv4 …
//!   0.200005576  gw1  w0 esp-out                84  IPv4 …
//! ```

use crate::trace::layers_at;
use ferrule_base::Instant;
use ferrule_lab::topology::{Lab, Topology};
use ferrule_node::probe::{Filter, Point, Records};

/// Octets of a packet that are kept: all of it.
const SNAP: usize = 9216;

/// Records of each node.
pub struct Traces(Vec<(usize, Vec<Records>)>);

/// When traffic first starts: before it there are neighbours' messages alone.
pub fn first_start(topology: &Topology) -> Instant {
    topology.traffic.iter().map(|entry| entry.start).min().unwrap_or(Instant::ZERO)
}

/// Begins to follow the next `count` packets that each node receives.
pub fn begin(lab: &mut Lab, count: u64) -> Traces {
    let filter = Filter { stages: true, port: None, count, snap: SNAP };
    let mut all = Vec::new();
    for (at, id) in lab.devices.clone().into_iter().enumerate() {
        // A node that is down has nothing to follow.
        let Some(control) = lab.network.device_mut(id).control_mut() else { continue };
        if let Ok(records) = control.record(&filter) {
            all.push((at, records));
        }
    }
    Traces(all)
}

impl Traces {
    /// Text of all records, in the order of time.
    pub fn text(mut self, topology: &Topology, lab: &Lab) -> String {
        let mut lines = Vec::new();
        let width = topology.nodes.iter().map(|node| node.name.len()).max().unwrap_or(0);
        for (at, rings) in &mut self.0 {
            let name = topology.nodes.get(*at).map_or("?", |node| node.name.as_str());
            let Some(id) = lab.devices.get(*at) else { continue };
            let Some(control) = lab.network.device(*id).control() else { continue };
            for ring in rings {
                while let Some(record) = ring.pop() {
                    let (point, place) = match record.point {
                        Point::Received => {
                            ("received", format!("received {}", control.port_name(record.port)))
                        }
                        Point::At(next) => (next.name(), next.name().to_owned()),
                        Point::Dropped(why) => ("dropped", format!("dropped: {}", why.name())),
                    };
                    let what = layers_at(point, &record.data);
                    let (worker, len, nanos) = (record.worker, record.len, record.time.as_nanos());
                    let (seconds, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
                    let text = format!(
                        "{seconds:>3}.{nanos:09}  {name:<width$}  w{worker} {place:<20} {len:>5}  {what}\n"
                    );
                    lines.push((record.time, text));
                }
            }
        }
        // Records of one node are in order already; the sort keeps that.
        lines.sort_by_key(|(time, _)| *time);
        lines.into_iter().map(|(_, text)| text).collect()
    }
}
