//! What a bridge is configured with.

use super::table::MacTable;
use std::sync::Arc;

/// A bridge: its interfaces, and a table of addresses that outlives
/// configurations and is shared by all workers.
pub struct Bridge {
    /// The name in the configuration.
    pub name: Box<str>,
    /// Its interfaces.
    pub members: Vec<u16>,
    /// What it learned.
    pub table: Arc<MacTable>,
}
