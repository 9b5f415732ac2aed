//! Paths of equal cost, and the choice of one for each flow (RFC 2992).
//!
//! ```text
//!   adjacency ─▶ Exit: 3 paths from place 7 ─▶ │ … │ a │ b │ c │ … ─▶ adjacency b
//!                                                hash of the flow, this node's own
//! ```
//!
//! A path whose neighbour does not answer is passed over as long as another's does; flows of
//! the other paths stay where they are.

use super::exit::Exit;
use crate::route::Adjacency;
use crate::tables::Tables;

/// A path of several: an adjacency, and its neighbour.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathMember {
    pub adjacency: u32,
    /// The place of the neighbour, [`CONNECTED`] or [`NOWHERE`].
    neighbour: u32,
}

/// In place of a neighbour: the destination is the neighbour.
const CONNECTED: u32 = u32::MAX;
/// A place that no neighbour has: of an adjacency that is not there, or not known yet.
const NOWHERE: u32 = u32::MAX - 1;

impl PathMember {
    pub const fn nowhere(adjacency: u32) -> Self {
        Self { adjacency, neighbour: NOWHERE }
    }

    pub fn of(adjacencies: &[Adjacency], adjacency: u32) -> Self {
        let found = adjacencies.get(adjacency as usize);
        let neighbour = found.map_or(NOWHERE, |found| found.neighbour.unwrap_or(CONNECTED));
        Self { adjacency, neighbour }
    }

    /// True if the neighbour is known, or the destination is its own.
    #[inline(always)]
    pub fn answers(self, tables: &Tables) -> bool {
        self.neighbour == CONNECTED || tables.neighbours.link(self.neighbour) != 0
    }
}

/// The paths of all adjacencies that stand for some.
#[derive(Default)]
pub struct NextHopGroups {
    members: Vec<PathMember>,
    /// Seed of this node's hash: other nodes share the same flows differently.
    seed: u64,
}

impl NextHopGroups {
    /// Groups of these tables; writes the place of each into its exit.
    pub(crate) fn of(tables: &Tables, exits: &mut [Exit]) -> Self {
        let mut members = Vec::new();
        for (adjacency, exit) in tables.adjacencies.iter().zip(exits) {
            let paths = &adjacency.paths[..adjacency.paths.len().min(PATHS_MAX)];
            (exit.paths, exit.first_path) = (paths.len() as u8, members.len() as u32);
            members.extend(paths.iter().map(|&path| PathMember::of(&tables.adjacencies, path)));
        }
        Self { members, seed: tables.seed }
    }

    /// True if no adjacency stands for others.
    #[inline(always)]
    pub(crate) const fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    #[inline(always)]
    fn members(&self, group: &Exit) -> Option<&[PathMember]> {
        self.members.get(group.first_path as usize..)?.get(..usize::from(group.paths))
    }

    /// The seed of this node's hash.
    #[inline(always)]
    pub(crate) const fn seed(&self) -> u64 {
        self.seed
    }
}

/// Paths of equal cost at most.
pub const PATHS_MAX: usize = 64;

impl Tables {
    /// The adjacency that a packet takes in place of this one, by the number that `hash`
    /// makes of its flow and the node's seed; nothing if there is no such adjacency.
    #[inline(always)]
    pub(crate) fn path(
        &self,
        adjacency: u32,
        hash: impl FnOnce(u64) -> u32,
    ) -> Option<(u32, &Exit)> {
        let exit = self.hot.exits.get(adjacency as usize)?;
        match exit.paths {
            0 => Some((adjacency, exit)),
            _ => self.path_of(exit, hash(self.hot.groups.seed)),
        }
    }

    /// The paths that an adjacency stands for; none if it is one itself.
    pub(crate) fn paths_of(&self, adjacency: u32) -> impl Iterator<Item = u32> {
        let exit = self.hot.exits.get(adjacency as usize);
        let members = exit.and_then(|group| self.hot.groups.members(group)).unwrap_or_default();
        members.iter().map(|member| member.adjacency)
    }

    #[inline(always)]
    fn path_of(&self, group: &Exit, hash: u32) -> Option<(u32, &Exit)> {
        let members = self.hot.groups.members(group)?;
        let at = pick(members.len(), hash, |at| members[at].answers(self));
        let path = members.get(at)?.adjacency;
        Some((path, self.hot.exits.get(path as usize)?))
    }
}

/// Chooses one of `count` paths by the hash, or the next one whose neighbour answers if
/// that one's does not.
#[inline(always)]
pub(crate) fn pick(count: usize, hash: u32, answers: impl Fn(usize) -> bool) -> usize {
    let first = ((u64::from(hash) * count as u64) >> 32) as usize;
    if first < count && answers(first) { first } else { pick_another(count, first, answers) }
}

#[cold]
#[inline(never)]
fn pick_another(count: usize, first: usize, answers: impl Fn(usize) -> bool) -> usize {
    let mut in_turn = (first..count).chain(0..first);
    in_turn.find(|&at| answers(at)).unwrap_or(first)
}
