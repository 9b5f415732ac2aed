//! The report's parts: tables and figures.

mod costs;
mod counts;
mod factors;
mod parts;
mod places;
mod slowdowns;
mod transfers;

pub use costs::{costs, crossover as crypto_crossover};
pub use counts::counts;
pub use factors::factors;
pub use parts::parts;
pub use places::places;
pub use slowdowns::{machines, slowdowns};
pub use transfers::transfers;

/// Octets of a transfer, for people.
fn bytes(octets: u64) -> String {
    match octets {
        1 => "1 byte".into(),
        n if n >= 1_000_000 && n % 1_000_000 == 0 => format!("{} MB", n / 1_000_000),
        n if n >= 1_000 && n % 1_000 == 0 => format!("{} kB", n / 1_000),
        n => format!("{n} bytes"),
    }
}
