//! Observations of a network for the dashboard: sizes of frames on each link, and changes.

use ferrule_base::Instant;
use ferrule_dashboard::histogram::{Classes, FRAME_OCTETS};
use ferrule_dashboard::state::{Event, Histogram};
use ferrule_lab::topology::Topology;
use ferrule_lab::{Direction, Observer, Sighting};
use std::any::Any;
use std::collections::VecDeque;

/// Events that are kept at most.
const EVENTS_MAX: usize = 100;

type Sizes = Classes<{ FRAME_OCTETS.len() }>;

/// Looks on.
pub struct Seen {
    links: Vec<String>,
    ends: Vec<[String; 2]>,
    devices: Vec<String>,
    sizes: Vec<[Sizes; 2]>,
    events: VecDeque<Event>,
    number: u64,
}

impl Seen {
    /// Observer of a network of this topology.
    pub fn new(topology: &Topology) -> Self {
        let fresh = |_| [Classes::new(&FRAME_OCTETS), Classes::new(&FRAME_OCTETS)];
        Self {
            links: topology.links.iter().map(|l| l.name.clone()).collect(),
            ends: topology.links.iter().map(|l| topology.end_names(l)).collect(),
            devices: topology.nodes.iter().map(|n| n.name.clone()).collect(),
            sizes: topology.links.iter().map(fresh).collect(),
            events: VecDeque::new(),
            number: 0,
        }
    }

    /// Sizes of frames, by link and direction, where there were any.
    pub fn histograms(&self) -> Vec<Histogram> {
        let mut all = Vec::new();
        for ((name, ends), sizes) in self.links.iter().zip(&self.ends).zip(&self.sizes) {
            for (to, sizes) in [&ends[1], &ends[0]].into_iter().zip(sizes) {
                let view = sizes.view("frame sizes", &format!("{name} to {to}"), "octets");
                if view.counts.iter().any(|&n| n > 0) {
                    all.push(view);
                }
            }
        }
        all
    }

    /// Recent events.
    pub fn events(&self) -> Vec<Event> {
        self.events.iter().cloned().collect()
    }

    fn note(&mut self, at: Instant, text: String) {
        self.number += 1;
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(Event { number: self.number, at_ns: Some(at.as_nanos()), text });
    }
}

/// Names instead of numbers: `link 3 goes down` is `link gw1-gw2 goes down`.
fn named(text: &str, links: &[String], devices: &[String]) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let mut out: Vec<String> = Vec::new();
    for (i, word) in words.iter().enumerate() {
        let before = i.checked_sub(1).and_then(|at| words.get(at)).copied();
        let of = |names: &[String]| names.get(word.parse::<usize>().ok()?).cloned();
        let name = match before {
            Some("link") => of(links),
            Some("device") => of(devices),
            _ => None,
        };
        out.push(name.unwrap_or_else(|| (*word).to_owned()));
    }
    out.join(" ")
}

impl Observer for Seen {
    fn sent(&mut self, seen: &Sighting, frame: &[u8]) {
        let way = usize::from(seen.direction == Direction::Reverse);
        if let Some(sizes) = self.sizes.get(seen.link.0) {
            sizes[way].add(frame.len() as u64);
        }
    }

    fn changed(&mut self, now: Instant, what: &str) {
        let text = named(what, &self.links, &self.devices);
        self.note(now, text);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashboard_events_name_links_and_nodes() {
        let (links, devices) = (vec!["a-b".into(), "b-c".into()], vec!["gw1".into()]);
        let named = |text: &str| named(text, &links, &devices);
        assert_eq!(named("link 1 goes down"), "link b-c goes down");
        assert_eq!(named("device 0 restarts after 50ms"), "device gw1 restarts after 50ms");
        assert_eq!(
            named("the clock of device 0 jumps by 2s"),
            "the clock of device gw1 jumps by 2s"
        );
        assert_eq!(named("link 7 has 10 bit/s"), "link 7 has 10 bit/s");
    }
}
