//! Configurations of any size, for tests and benchmarks: a gateway between a network of
//! hosts and a provider, with many routes and many tunnels.
//!
//! ```text
//!   10.0.0.0/8 ── lan [ gateway ] wan 172.16.0.1/12 ── next hops 172.16.1.0 and on
//!                                                       ├─ routes 20.0.0.0/20, /24 and on
//!                                                       └─ gateways 198.0.0.0 and on,
//!                                                          before 30.0.0.0/24 and on
//! ```

use std::fmt::Write;
use std::net::Ipv4Addr;

/// Size of a generated configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Large {
    /// Routes, beside the two to the other gateways and what is behind them.
    pub routes: usize,
    /// Neighbours that they lead to.
    pub next_hops: usize,
    /// Tunnels, each with keys, a gateway and a policy entry of its own.
    pub tunnels: usize,
    /// The other gateways are neighbours, not behind one.
    pub near: bool,
}

impl Default for Large {
    fn default() -> Self {
        Self { routes: 100_000, next_hops: 4, tunnels: 10_000, near: false }
    }
}

impl Large {
    /// The gateway's own address.
    pub const LOCAL: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 1);

    /// The network of a route, and the length of its prefix.
    pub fn network(self, route: usize) -> (Ipv4Addr, u8) {
        let len = if route.is_multiple_of(16) { 20 } else { 24 };
        (Ipv4Addr::from_bits((20 << 24) + ((route as u32) << 8)), len)
    }

    /// The neighbour that a route leads to.
    pub fn next_hop(self, route: usize) -> Ipv4Addr {
        let hop = (route % self.next_hops.max(1)) as u32;
        Ipv4Addr::from_bits(Ipv4Addr::new(172, 16, 1, 0).to_bits() + hop)
    }

    /// The gateway at the other end of a tunnel.
    pub fn gateway(self, tunnel: usize) -> Ipv4Addr {
        let first = if self.near { [172, 24, 0, 0] } else { [198, 0, 0, 0] };
        Ipv4Addr::from_bits(u32::from_be_bytes(first) + tunnel as u32)
    }

    /// The network behind that, of 24 bits.
    pub fn behind(self, tunnel: usize) -> Ipv4Addr {
        Ipv4Addr::from_bits((30 << 24) + ((tunnel as u32) << 8))
    }

    /// SPI and key of a tunnel to the other gateway, and from it.
    pub fn sas(self, tunnel: usize) -> [(usize, String); 2] {
        let key = |n: usize| format!("gcm:{n}");
        [(0x10_0000 + tunnel, key(256 + 2 * tunnel)), (0x20_0000 + tunnel, key(257 + 2 * tunnel))]
    }

    /// The text of the configuration; its keys are those of the node's `named_key`.
    pub fn text(self) -> String {
        let mut text = format!(
            "[node]\nname = \"large\"\nlab = true\n\
             [[port]]\nname = \"lan\"\ndriver = \"wire\"\n\
             [[port]]\nname = \"wan\"\ndriver = \"wire\"\n\
             [[interface]]\nport = \"lan\"\naddress = [\"10.0.0.1/8\"]\n\
             [[interface]]\nport = \"wan\"\naddress = [\"{}/12\"]\n",
            Self::LOCAL
        );
        let far = [(Ipv4Addr::new(198, 0, 0, 0), 8), (Ipv4Addr::new(30, 0, 0, 0), 8)];
        let own = (0..self.routes).map(|route| self.network(route));
        for (number, (network, len)) in far.into_iter().chain(own).enumerate() {
            let hop = self.next_hop(number.saturating_sub(far.len()));
            let _ = writeln!(text, "[[route]]\nprefix = \"{network}/{len}\"\nvia = \"{hop}\"");
        }
        for tunnel in 0..self.tunnels {
            self.write_tunnel(&mut text, tunnel);
        }
        text
    }

    fn write_tunnel(self, text: &mut String, tunnel: usize) {
        let [(out, out_key), (back, in_key)] = self.sas(tunnel);
        let _ = write!(
            text,
            "[[tunnel]]\nname = \"t{tunnel}\"\nlocal = \"{}\"\nremote = \"{}\"\n\
             suite = \"aes-gcm-128\"\nout = {{ spi = {out}, key = \"{out_key}\" }}\n\
             in = {{ spi = {back}, key = \"{in_key}\" }}\n\
             [[policy]]\ninterface = \"wan\"\naction = \"protect\"\ntunnel = \"t{tunnel}\"\n\
             local = \"10.0.0.0/8\"\nremote = \"{}/24\"\n",
            Self::LOCAL,
            self.gateway(tunnel),
            self.behind(tunnel)
        );
    }
}
