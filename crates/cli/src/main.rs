//! `ferrule`: the command.
fn main() {}
