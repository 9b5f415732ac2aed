//! Topologies that come with Ferrule, by name.

use super::{NoFiles, Topology, TopologyError};

/// A topology that needs no file.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// Its name.
    pub name: &'static str,
    /// Its file, as it is shown in errors.
    pub file: &'static str,
    /// Text of the file.
    pub text: &'static str,
}

macro_rules! shipped {
    ($($name:literal),+ $(,)?) => {
        &[$(Shipped {
            name: $name,
            file: concat!("topologies/", $name, ".toml"),
            text: include_str!(concat!("../../../../topologies/", $name, ".toml")),
        }),+]
    };
}

/// Every one, the simplest first.
pub const SHIPPED: &[Shipped] = shipped![
    "two-gateways",
    "two-sites",
    "token-gateway",
    "campus",
    "vpn-line",
    "vpn-router-firewall",
    "vpn-firewall",
    "vpn-wan-box",
    "vpn-host",
    "ten-nodes",
];

impl Shipped {
    /// The one of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        SHIPPED.iter().find(|shipped| shipped.name == name)
    }

    /// Reads it.
    pub fn topology(&self, variant: Option<&str>) -> Result<Topology, Box<TopologyError>> {
        Topology::parse(self.file, self.text, &mut NoFiles, variant)
    }
}
