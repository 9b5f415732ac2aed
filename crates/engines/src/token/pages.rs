//! Locked memory in pages of a few blocks, for key stream that comes in pieces.
//!
//! ```text
//!   chain of a packet   [ E(J0) 1 2 … 7 ] ─▶ [ 8 … 15 ] ─▶ [ 16 … ]
//!   free pages          [ 0 … 0 ] ─▶ [ 0 … 0 ] ─▶ …       all zeros
//! ```
//!
//! A packet's key stream grows page by page, and goes back at once when it is used: free
//! pages are zeros.

use super::vault::{Block, Vault};
use zeroize::Zeroize;

/// Blocks of a page.
const PAGE: usize = 8;

/// No page.
const NONE: u32 = u32::MAX;

/// The pages of one packet, from the first on.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    first: u32,
    last: u32,
    pages: u16,
}

impl Default for Chain {
    fn default() -> Self {
        Self { first: NONE, last: NONE, pages: 0 }
    }
}

/// A vault cut into pages.
#[derive(Debug)]
pub struct Pages {
    blocks: Vault,
    /// Successor of each page: in its chain, or among the free ones.
    next: Box<[u32]>,
    free: u32,
    spare: usize,
}

/// Pages for so many blocks.
const fn pages_of(blocks: u16) -> usize {
    (blocks as usize).div_ceil(PAGE)
}

impl Pages {
    /// This memory in pages, all free. A vault has zeros when it is new.
    pub fn new(blocks: Vault) -> Self {
        let count = blocks.len() / PAGE;
        let mut pages = Self { blocks, next: vec![NONE; count].into(), free: NONE, spare: 0 };
        pages.link();
        pages
    }

    /// Puts every page into the list of free ones, in order.
    fn link(&mut self) {
        let count = self.next.len();
        for (page, next) in self.next.iter_mut().enumerate() {
            *next = if page + 1 < count { page as u32 + 1 } else { NONE };
        }
        self.free = if count == 0 { NONE } else { 0 };
        self.spare = count;
    }

    /// Blocks that it can hold.
    pub const fn size(&self) -> u64 {
        (self.next.len() * PAGE) as u64
    }

    /// Blocks of free pages.
    pub const fn empty(&self) -> u64 {
        (self.spare * PAGE) as u64
    }

    /// True if the free pages suffice for a chain of so many blocks.
    pub const fn fits(&self, chain: &Chain, blocks: u16) -> bool {
        pages_of(blocks).saturating_sub(chain.pages as usize) <= self.spare
    }

    /// Makes a chain as long as so many blocks need, if there are pages.
    pub fn grow(&mut self, chain: &mut Chain, blocks: u16) -> bool {
        if !self.fits(chain, blocks) {
            return false;
        }
        while usize::from(chain.pages) < pages_of(blocks) {
            let page = self.free;
            let Some(next) = self.next.get_mut(page as usize) else { return false };
            self.free = std::mem::replace(next, NONE);
            self.spare -= 1;
            match self.next.get_mut(chain.last as usize) {
                Some(link) => *link = page,
                None => chain.first = page,
            }
            (chain.last, chain.pages) = (page, chain.pages + 1);
        }
        true
    }

    /// Wipes a chain's pages, and has them back.
    pub fn release(&mut self, chain: &mut Chain) {
        let mut page = chain.first;
        for _ in 0..chain.pages {
            let Some(next) = self.next.get_mut(page as usize) else { break };
            let after = std::mem::replace(next, self.free);
            self.free = page;
            self.spare += 1;
            let at = page as usize * PAGE;
            if let Some(blocks) = self.blocks.get_mut(at..at + PAGE) {
                blocks.as_flattened_mut().zeroize();
            }
            page = after;
        }
        *chain = Chain::default();
    }

    /// Wipes everything.
    pub fn clear(&mut self) {
        self.blocks.as_flattened_mut().zeroize();
        self.link();
    }

    /// The blocks of a chain from one index to another.
    pub fn stream(&self, chain: Chain, from: u16, to: u16) -> impl Iterator<Item = &Block> {
        let mut page = self.seek(chain, from);
        (from..to).map_while(move |index| {
            let slot = page as usize * PAGE + usize::from(index) % PAGE;
            let block = self.blocks.get(slot)?;
            if usize::from(index) % PAGE == PAGE - 1 {
                page = self.after(page);
            }
            Some(block)
        })
    }

    /// Blocks into a chain, from an index on; it has room for them.
    pub fn put(&mut self, chain: Chain, from: u16, stream: &[Block]) {
        let mut page = self.seek(chain, from);
        for (index, block) in (usize::from(from)..).zip(stream) {
            if let Some(slot) = self.blocks.get_mut(page as usize * PAGE + index % PAGE) {
                *slot = *block;
            }
            if index % PAGE == PAGE - 1 {
                page = self.after(page);
            }
        }
    }

    fn seek(&self, chain: Chain, index: u16) -> u32 {
        (0..usize::from(index) / PAGE).fold(chain.first, |page, _| self.after(page))
    }

    fn after(&self, page: u32) -> u32 {
        self.next.get(page as usize).copied().unwrap_or(NONE)
    }

    /// The memory as it is, for the test that it is wiped.
    #[cfg(test)]
    pub fn raw(&self) -> &[Block] {
        &self.blocks
    }
}
