//! Control-C: what runs ends soon and says what it has; a second one ends it at once.

use ferrule_daemon::Fault;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Exit: stopped before the end; what was printed is not all.
pub const PARTIAL: u8 = 3;
/// Exit of what is ended at once, as shells have it: 128 and the signal's number.
const AT_ONCE: i32 = 128;

static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Flag that is set by a signal that asks for an end; from the first call on, signals do that.
pub fn flag() -> Result<Arc<AtomicBool>, Fault> {
    if let Some(stop) = STOP.get() {
        return Ok(Arc::clone(stop));
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag down and raises it.
        let again = flag::register_conditional_shutdown(signal, AT_ONCE + signal, stop.clone());
        again
            .and_then(|_| flag::register(signal, stop.clone()))
            .map_err(|e| Fault::environment(format!("signals: {e}"), "see what the system said"))?;
    }
    Ok(Arc::clone(STOP.get_or_init(|| stop)))
}

/// True once an end was asked for, by a signal; never before [`flag`] was called.
pub fn wanted() -> bool {
    STOP.get().is_some_and(|stop| stop.load(Ordering::Relaxed))
}
