//! Incoming labels and pseudowires.

use crate::link::{PATHS_MAX, PathMember, pick};
use crate::route::{Labels, TtlModel};
use crate::tables::Tables;
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

/// An entry, as it is found: 32 octets.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// Octets of the longest packet that fits the link by which the entry forwards, with
    /// labels below the top one.
    pub longest: u16,
    pub ttl: TtlModel,
    pub operation: Operation,
}

/// The operation on the label stack and the way (RFC 3031 section 3.10).
#[derive(Clone, Debug)]
pub(super) enum Operation {
    Forward(Labels, u32),
    Balance(Paths),
    Ip(VrfId),
    Pw(u16),
}

/// Paths of the same cost, which stand apart: the place of the first, and how many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paths {
    first: u32,
    count: u8,
}

impl Paths {
    /// Puts paths behind those of other labels.
    fn add(paths: Box<[(Labels, u32)]>, all: &mut Vec<Path>) -> Self {
        let count = paths.len().min(PATHS_MAX);
        let first = all.len() as u32;
        all.extend(paths.into_iter().take(count).map(|(mut labels, adjacency)| {
            labels.retain(is_pushed);
            Path { labels, longest: u16::MAX, member: PathMember::nowhere(adjacency) }
        }));
        Self { first, count: count as u8 }
    }
}

/// True for a label that is pushed: implicit null stands for none.
fn is_pushed(label: &mut u32) -> bool {
    *label != special::IMPLICIT_NULL.get()
}

/// One of several paths.
#[derive(Debug)]
pub(super) struct Path {
    pub labels: Labels,
    /// Octets of the longest packet, as of [`Slot`].
    pub longest: u16,
    pub member: PathMember,
}

const _: () = assert!(size_of::<Slot>() == 32);

/// Incoming label map (RFC 3031 section 3.11).
///
/// ```text
///   label  ─▶ root, by its upper 14 bits ─▶ page, by its lower 6 ─▶ slot
/// ```
/// Three reads without a search, so that no look-up waits for a branch that cannot be
/// predicted. Slots lie in the order of their labels.
pub struct Lfib {
    /// The place of each page's first entry; those without labels share the first page.
    roots: Box<[u32]>,
    /// Places of slots; of no label, that of the first.
    pages: Box<[u32]>,
    /// The first one is that of no label.
    slots: Box<[Slot]>,
    /// The paths of those that have several.
    paths: Vec<Path>,
}

/// Labels of a page.
const PAGE: usize = 64;

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
        let mut all: Vec<_> =
            nulls.iter().map(|label| (label.get(), null())).chain(given).collect();
        // (Stable: of two for one label the later one is last.)
        all.sort_by_key(|(label, _)| *label);
        let count = all.last().map_or(0, |(last, _)| *last as usize / PAGE + 1);
        let (mut roots, mut pages) = (vec![0; count], vec![0; PAGE]);
        let (mut slots, mut paths) = (vec![Slot::FREE], Vec::new());
        for (label, Ilm { action, ttl }) in all {
            let operation = match action {
                IlmAction::Forward(mut labels, adjacency) => {
                    labels.retain(is_pushed);
                    Operation::Forward(labels, adjacency)
                }
                // Without a path there is no such label.
                IlmAction::Balance(found) if found.is_empty() => continue,
                IlmAction::Balance(found) => Operation::Balance(Paths::add(found, &mut paths)),
                IlmAction::Ip(vrf) => Operation::Ip(vrf),
                IlmAction::Pw(pw) => Operation::Pw(pw),
            };
            let root = &mut roots[label as usize / PAGE];
            if *root == 0 {
                *root = pages.len() as u32;
                pages.resize(pages.len() + PAGE, 0);
            }
            pages[*root as usize + label as usize % PAGE] = slots.len() as u32;
            slots.push(Slot { longest: u16::MAX, ttl, operation });
        }
        Self { roots: roots.into(), pages: pages.into(), slots: slots.into(), paths }
    }

    /// The place of a label's entry.
    #[inline(always)]
    pub(super) fn place(&self, label: u32) -> u32 {
        let page = self.roots.get(label as usize / PAGE).copied().unwrap_or(0);
        self.pages.get(page as usize + label as usize % PAGE).copied().unwrap_or(0)
    }

    /// The entry at a place, if there is one.
    #[inline(always)]
    pub(super) fn slot(&self, place: u32) -> Option<&Slot> {
        // The first one has no label.
        self.slots.get(place as usize).filter(|_| place != 0)
    }

    /// The place of the path that a flow takes, of several.
    #[inline(always)]
    pub(super) fn path_of(&self, paths: Paths, flow: u32, tables: &Tables) -> u32 {
        let all = self.paths.get(paths.first as usize..).unwrap_or_default();
        let own = all.get(..usize::from(paths.count)).unwrap_or_default();
        paths.first + pick(own.len(), flow, |at| own[at].member.answers(tables)) as u32
    }

    /// The path at a place.
    #[inline(always)]
    pub(super) fn path(&self, place: u32) -> Option<&Path> {
        self.paths.get(place as usize)
    }

    /// True if some label has several paths.
    #[inline(always)]
    pub(super) const fn has_paths(&self) -> bool {
        !self.paths.is_empty()
    }

    /// Learns the longest packets, labels included, of the links behind adjacencies, and the
    /// neighbours at the ends of paths.
    pub(crate) fn fit(
        &mut self,
        longest: impl Fn(u32) -> Option<u16>,
        member: impl Fn(u32) -> PathMember,
    ) {
        let longest = |adjacency: u32, labels: &Labels| {
            longest(adjacency).map_or(u16::MAX, |longest| longest_in(longest, labels))
        };
        for slot in &mut self.slots {
            if let Operation::Forward(labels, adjacency) = &slot.operation {
                slot.longest = longest(*adjacency, labels);
            }
        }
        for path in &mut self.paths {
            path.longest = longest(path.member.adjacency, &path.labels);
            path.member = member(path.member.adjacency);
        }
    }
}

/// Octets of a packet that still fits a link of so many when labels replaced its top one.
const fn longest_in(link: u16, labels: &Labels) -> u16 {
    const ENTRY: u16 = mpls::Header::LEN as u16;
    link.saturating_add(ENTRY).saturating_sub(labels.len() as u16 * ENTRY)
}

impl Slot {
    const FREE: Self =
        Self { longest: u16::MAX, ttl: TtlModel::Uniform, operation: Operation::Ip(VrfId::GLOBAL) };
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
