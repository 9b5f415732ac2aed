//! node

pub mod overhead;
