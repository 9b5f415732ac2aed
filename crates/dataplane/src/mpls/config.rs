//! Incoming labels and pseudowires.

use crate::route::{Labels, TtlModel};
use ferrule_base::VrfId;
use ferrule_wire::mpls::special;
use ferrule_wire::{mpls, pw};

/// Handling of packets with one incoming label.
#[derive(Clone, Debug)]
pub struct Ilm {
    /// Action on the label.
    pub action: IlmAction,
    /// TTL model of the label that is taken off, and of the labels put on above its
    /// replacement.
    pub ttl: TtlModel,
}

/// Action on a label.
#[derive(Clone, Debug)]
pub enum IlmAction {
    /// Take it off, push these instead (none: penultimate-hop popping), send
    /// by the adjacency.
    Forward(Labels, u32),
    /// The same by paths of equal cost, of which each flow takes one.
    Balance(Box<[(Labels, u32)]>),
    /// Take it off; an IP packet of this table follows. In the global table
    /// also: take it off; the next label is for this node too.
    Ip(VrfId),
    /// Take it off; a frame of this pseudowire follows.
    Pw(u16),
}

/// No label: wider than 20 bits.
const NONE: u32 = u32::MAX;

/// An entry, as it is found: with its label 36 octets, so that a thousand are in the nearest
/// cache.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    label: u32,
    /// Octets of the longest packet that fits the link by which the entry forwards, with
    /// labels below the top one.
    pub longest: u16,
    pub ttl: TtlModel,
    pub operation: Operation,
}

/// The operation on the label stack and the way (RFC 3031 section 3.10); several paths stand
/// apart, by number.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    Forward(Labels, u32),
    Balance(u32),
    Ip(VrfId),
    Pw(u16),
}

const _: () = assert!(size_of::<Slot>() == 36);

/// Incoming label map, by label.
///
/// A hash table at most half full, so that it is as large as its content and a look-up
/// reads one or two places. The node assigns the labels: an attacker cannot choose them so
/// that they collide.
pub struct Lfib {
    slots: Box<[Slot]>,
    /// The paths of those that have several.
    paths: Vec<Box<[(Labels, u32)]>>,
}

impl Lfib {
    /// A table of these labels; of two entries for one label the later one
    /// holds.
    ///
    /// The explicit nulls (0 and 2) are there without being named, in the
    /// uniform model; an entry of that label replaces them. The other special
    /// labels are not for tables: an entry for one of them is left out, and
    /// implicit null (3) in what an entry pushes stands for no label.
    pub fn new(entries: impl IntoIterator<Item = (u32, Ilm)>) -> Self {
        let nulls = [special::EXPLICIT_NULL_V4, special::EXPLICIT_NULL_V6];
        let null = || Ilm { action: IlmAction::Ip(VrfId::GLOBAL), ttl: TtlModel::Uniform };
        let given = entries.into_iter().filter(|&(label, _)| {
            let ordinary = special::FIRST_ORDINARY.get()..1 << 20;
            ordinary.contains(&label) || nulls.iter().any(|null| null.get() == label)
        });
        let all: Vec<_> = nulls.iter().map(|label| (label.get(), null())).chain(given).collect();
        let mut lfib = Self {
            slots: vec![Slot::FREE; (2 * all.len()).next_power_of_two()].into(),
            paths: Vec::new(),
        };
        let real = |label: &mut u32| *label != special::IMPLICIT_NULL.get();
        for (label, Ilm { action, ttl }) in all {
            let operation = match action {
                IlmAction::Forward(mut labels, adjacency) => {
                    labels.retain(real);
                    Operation::Forward(labels, adjacency)
                }
                IlmAction::Balance(mut paths) => {
                    paths.iter_mut().for_each(|(labels, _)| labels.retain(real));
                    lfib.paths.push(paths);
                    Operation::Balance(lfib.paths.len() as u32 - 1)
                }
                IlmAction::Ip(vrf) => Operation::Ip(vrf),
                IlmAction::Pw(pw) => Operation::Pw(pw),
            };
            let place = lfib.place(label);
            lfib.slots[place] = Slot { label, longest: u16::MAX, ttl, operation };
        }
        lfib
    }

    /// Entry of a label.
    #[inline]
    pub(super) fn get(&self, label: u32) -> Option<&Slot> {
        let slot = &self.slots[self.place(label)];
        (slot.label == label).then_some(slot)
    }

    /// Paths of the same cost, by number.
    #[inline]
    pub(super) fn paths(&self, number: u32) -> &[(Labels, u32)] {
        self.paths.get(number as usize).map_or(&[], |paths| paths)
    }

    /// Learns the longest packets, labels included, of the links behind adjacencies.
    pub(crate) fn fit(&mut self, longest: impl Fn(u32) -> Option<u16>) {
        for slot in &mut self.slots {
            if let Operation::Forward(labels, adjacency) = &slot.operation {
                let fits = |longest| longest_in(longest, labels);
                slot.longest = longest(*adjacency).map_or(u16::MAX, fits);
            }
        }
    }

    /// Index of the label, or of the free place for it. Half of the places are free, so the
    /// search ends.
    #[inline]
    fn place(&self, label: u32) -> usize {
        let mask = self.slots.len() - 1;
        let mut place = (u64::from(label).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
        loop {
            place &= mask;
            let at = self.slots[place].label;
            if at == label || at == NONE {
                return place;
            }
            place += 1;
        }
    }
}

/// Octets of a packet that still fits a link of so many when labels replaced its top one.
pub(super) const fn longest_in(link: u16, labels: &Labels) -> u16 {
    const ENTRY: u16 = mpls::Header::LEN as u16;
    link.saturating_add(ENTRY).saturating_sub(labels.len() as u16 * ENTRY)
}

impl Slot {
    const FREE: Self = Self {
        label: NONE,
        longest: u16::MAX,
        ttl: TtlModel::Uniform,
        operation: Operation::Ip(VrfId::GLOBAL),
    };
}

impl Default for Lfib {
    fn default() -> Self {
        Self::new([])
    }
}

/// Raw or tagged mode (RFC 4448 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PwMode {
    /// Frames as they are: the service delimiting tag, if any, is not carried.
    Raw,
    /// Every frame carries a service delimiting tag, with this VLAN ID.
    Tagged(u16),
}

/// An Ethernet pseudowire between an interface here and one at another PE.
#[derive(Clone, Debug)]
pub struct Pseudowire {
    /// The name in the configuration.
    pub name: Box<str>,
    /// The attachment circuit here.
    pub iface: u16,
    /// The label that the other PE expects.
    pub label_out: u32,
    /// The way to the other PE; its labels are the transport labels.
    pub adjacency: u32,
    /// A control word stands in front of the frame.
    pub control_word: bool,
    /// Sequence numbers are sent and checked; they travel in the control word.
    pub sequencing: bool,
    /// Raw or tagged.
    pub mode: PwMode,
    /// TTL of the pseudowire label.
    pub ttl: u8,
    /// The flows in it matter to its way: there are several, or an entropy label tells them
    /// to those who choose.
    pub spreads: bool,
}

impl Pseudowire {
    /// Octets in front of a frame: the pseudowire's label, and a control word.
    pub const fn overhead(control_word: bool) -> usize {
        mpls::Header::LEN + if control_word { pw::Header::LEN } else { 0 }
    }
}
