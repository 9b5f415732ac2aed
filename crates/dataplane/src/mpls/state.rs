//! The sequence numbers of pseudowires (RFC 4385 section 4).
//!
//! They belong to one worker for each pseudowire and direction; frames that
//! others receive are handed to it.

use super::config::Pseudowire;
use crate::graph::{Aside, Ctx, Next};
use ferrule_base::DropReason;
use ferrule_wire::pw;

/// One pseudowire's count, and the identity by which it is recognized when a configuration
/// gives its number to another.
#[derive(Clone, Copy)]
struct Count {
    label_out: u32,
    iface: u16,
    next: u16,
}

/// The next numbers of pseudowires: to send, or expected. Each begins with 1.
#[derive(Default)]
pub struct Counts {
    /// By pseudowire number: no more than there are in the configuration.
    counts: Vec<Option<Count>>,
}

impl Counts {
    /// A pseudowire, and its next number if it has such: a packet of that goes to the
    /// worker that counts, at the same stage.
    #[inline]
    pub fn of<'a>(
        &mut self,
        ctx: &Ctx<'a>,
        number: u16,
        here: Next,
    ) -> Result<(&'a Pseudowire, Option<&mut u16>), Aside> {
        let pw = ctx.tables.pws.get(usize::from(number)).ok_or(DropReason::NotAttached)?;
        if !pw.sequencing || !pw.control_word {
            return Ok((pw, None));
        }
        // Less than the number of workers, which is an octet.
        let owner = (number % u16::from(ctx.tables.workers.max(1))) as u8;
        if owner != ctx.worker {
            return Err(Aside::HandOff(owner, here));
        }
        Ok((pw, Some(self.next(number, pw))))
    }

    /// The next number of a pseudowire that is in the tables.
    #[inline]
    fn next(&mut self, number: u16, pw: &Pseudowire) -> &mut u16 {
        let number = usize::from(number);
        if number >= self.counts.len() {
            self.counts.resize(number + 1, None);
        }
        let fresh = Count { label_out: pw.label_out, iface: pw.iface, next: 1 };
        let count = self.counts[number].get_or_insert(fresh);
        if (count.label_out, count.iface) != (fresh.label_out, fresh.iface) {
            *count = fresh;
        }
        &mut count.next
    }
}

/// Gives the number to send (RFC 4385 section 4.1).
#[inline]
pub const fn take(next: &mut u16) -> u16 {
    let number = *next;
    *next = pw::next_sequence(number);
    number
}

/// True if a received number is in order; `expected` becomes its successor then (RFC 4385
/// section 4.2). Zero says nothing about the order and changes nothing.
#[inline]
pub const fn accept(expected: &mut u16, number: u16) -> bool {
    if number == 0 {
        return true;
    }
    let in_order = if number >= *expected {
        number - *expected < 32_768
    } else {
        *expected - number >= 32_768
    };
    if in_order {
        *expected = pw::next_sequence(number);
    }
    in_order
}
