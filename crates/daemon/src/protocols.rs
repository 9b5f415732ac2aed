//! The thread of the control protocols: neighbours and MKA go on while the main thread compiles
//! tables, reads or writes.
//!
//! ```text
//!   turn ─ something done ─▶ PACE ─▶ turn …       messages of a flood wait, and go together
//!     │ nothing
//!     ▼
//!   say "asleep" ─ turn once more ─ nothing ─▶ ppoll(wake, timer)
//! ```

use crate::clock::Clock;
use crate::runtime::Board;
use ferrule_base::{Duration, Instant};
use ferrule_node::{ProtocolTurn, Protocols};
use ferrule_ports::os::PollSet;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Time from a turn that found something to the next: what a flood of messages may cost.
const PACE: Duration = Duration::from_millis(1);
/// The thread sleeps so long at most.
const SLEEP_MAX: Duration = Duration::from_millis(250);

/// Starts the thread. It ends when the board says so.
pub fn spawn(protocols: Protocols, clock: Clock, board: &Arc<Board>) -> io::Result<JoinHandle<()>> {
    let board = board.clone();
    std::thread::Builder::new()
        .name("protocols".into())
        .spawn(move || drive(&protocols, clock, &board))
}

fn drive(protocols: &Protocols, clock: Clock, board: &Board) {
    let mut set = PollSet::new();
    let myself = &board.protocols;
    while !board.is_stopped() {
        if turn(protocols, clock.now(), board).done > 0 {
            std::thread::sleep(PACE);
            continue;
        }
        myself.doze();
        let now = clock.now();
        let turned = turn(protocols, now, board);
        if turned.done == 0 && !board.is_stopped() {
            set.clear();
            set.add(myself.wake().as_raw_fd(), false);
            let due = turned.due.map_or(SLEEP_MAX, |at| at.since(now)).min(SLEEP_MAX);
            // The list is valid; a failure could only be lack of memory: then look again.
            let _ = set.wait(Some(due));
        }
        myself.rise();
    }
}

/// Turns the protocols, and wakes those that have something to do from it.
fn turn(protocols: &Protocols, now: Instant, board: &Board) -> ProtocolTurn {
    let turned = protocols.turn(now);
    if turned.done > 0 {
        board.rouse_workers();
    }
    if turned.has_news {
        board.control.rouse();
    }
    turned
}
