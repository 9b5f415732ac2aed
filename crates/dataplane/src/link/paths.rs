//! Paths of equal cost, and the choice of one for each flow (RFC 2992).
//!
//! ```text
//!   adjacency ─▶ Exit: 3 paths from place 7 ─▶ │ … │ a │ b │ c │ … ─▶ adjacency b
//!                                                  hash of the flow, this node's own
//! ```
//!
//! A path whose neighbour does not answer is passed over as long as another's does; flows of
//! the other paths stay where they are.

use super::exit::Exit;
use crate::tables::Tables;

/// The paths of all adjacencies that stand for some.
#[derive(Default)]
pub struct NextHopGroups {
    members: Vec<u32>,
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
            members.extend(paths);
        }
        Self { members, seed: tables.seed }
    }

    #[inline]
    fn members(&self, group: &Exit) -> Option<&[u32]> {
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
    pub(crate) fn paths_of(&self, adjacency: u32) -> &[u32] {
        let exit = self.hot.exits.get(adjacency as usize);
        exit.and_then(|group| self.hot.groups.members(group)).unwrap_or_default()
    }

    #[inline]
    fn path_of(&self, group: &Exit, hash: u32) -> Option<(u32, &Exit)> {
        let members = self.hot.groups.members(group)?;
        let at = pick(members.len(), hash, |at| self.answers(members[at]));
        let member = *members.get(at)?;
        Some((member, self.hot.exits.get(member as usize)?))
    }

    /// True if the neighbour of an adjacency is known, or the destination is its own.
    #[inline]
    pub(crate) fn answers(&self, adjacency: u32) -> bool {
        let exit = self.hot.exits.get(adjacency as usize);
        exit.is_some_and(|exit| exit.neighbour().is_none_or(|at| self.neighbours.link(at) != 0))
    }
}

/// Chooses one of `count` paths by the hash, or the next one whose neighbour answers if
/// that one's does not.
#[inline]
pub(crate) fn pick(count: usize, hash: u32, answers: impl Fn(usize) -> bool) -> usize {
    let first = ((u64::from(hash) * count as u64) >> 32) as usize;
    let mut in_turn = (first..count).chain(0..first);
    in_turn.find(|&at| answers(at)).unwrap_or(first)
}
