//! The nodes: a gateway with ESP, an edge with MACsec, a provider edge with a
//! pseudowire, labels and a VRF. What their keys are, a path says.

use ferrule_base::Instant;
use ferrule_crypto::Software;
use ferrule_node::config::named_key;
use ferrule_node::{Config, Environment, Volatile, build, made_mac};
use ferrule_pipeline::Pool;

/// Kind of node, with the parameters that the other side needs to seal frames for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ESP with AES-GCM and extended numbers to 192.0.2.1.
    EspGcm,
    /// ESP with AES-CBC and HMAC-SHA1-96 to 192.0.2.1.
    EspCbc,
    /// MACsec on the WAN.
    Macsec,
    /// MACsec with extended packet numbers on the WAN.
    MacsecXpn,
    /// Labels and a pseudowire; MACsec on the core link.
    Provider,
}

/// Text of a configuration, and what node that is.
pub const CONFIGS: [(&str, Kind); 5] = [
    (GATEWAY_GCM, Kind::EspGcm),
    (GATEWAY_CBC, Kind::EspCbc),
    (EDGE, Kind::Macsec),
    (EDGE_XPN, Kind::MacsecXpn),
    (PROVIDER, Kind::Provider),
];

const GATEWAY_GCM: &str = r#"
[node]
name = "n"
lab = true
buffers = 512
buffer-size = 4096
[[port]]
name = "lan"
driver = "wire"
[[port]]
name = "wan"
driver = "wire"
mtu = 1600
[[interface]]
port = "lan"
address = ["10.1.0.1/24", "2001:db8:1::1/64"]
[[interface]]
port = "lan"
vlan = 10
address = ["10.11.0.1/24"]
mtu = 1300
[[interface]]
port = "wan"
address = ["192.0.2.1/24", "2001:db8:ff::1/64"]
[[route]]
prefix = "10.2.0.0/24"
via = "192.0.2.2"
[[route]]
prefix = "2001:db8:2::/64"
interface = "wan"
[[route]]
prefix = "203.0.113.0/24"
discard = true
[[tunnel]]
name = "t"
local = "192.0.2.1"
remote = "192.0.2.2"
suite = "aes-gcm-128"
mtu = 1400
out = { spi = 0x1002, key = "gcm:1" }
in = { spi = 0x1001, key = "gcm:7" }
[[policy]]
interface = "wan"
action = "protect"
tunnel = "t"
local = "10.1.0.0/24"
remote = "10.2.0.0/24"
[[policy]]
interface = "wan"
action = "protect"
tunnel = "t"
local = "2001:db8:1::/64"
remote = "2001:db8:2::/64"
[[policy]]
interface = "wan"
action = "bypass"
local = "10.11.0.0/24"
"#;

const GATEWAY_CBC: &str = r#"
[node]
name = "n"
lab = true
workers = 2
buffers = 512
buffer-size = 4096
[[port]]
name = "lan"
driver = "wire"
[[port]]
name = "wan"
driver = "wire"
mtu = 1600
worker = 1
[[interface]]
port = "lan"
address = ["10.1.0.1/24", "2001:db8:1::1/64"]
[[interface]]
port = "wan"
address = ["192.0.2.1/24"]
[[route]]
prefix = "10.2.0.0/24"
via = "192.0.2.2"
[[tunnel]]
name = "t"
local = "192.0.2.1"
remote = "192.0.2.2"
suite = "aes-cbc-128 hmac-sha1-96"
esn = false
mtu = 1400
out = { spi = 0x1002, key = "cbc-sha1:1" }
in = { spi = 0x1001, key = "cbc-sha1:7" }
[[policy]]
interface = "wan"
action = "protect"
tunnel = "t"
local = "10.1.0.0/24"
remote = "10.2.0.0/24"
"#;

const EDGE: &str = r#"
[node]
name = "n"
lab = true
buffers = 512
buffer-size = 4096
[[port]]
name = "lan"
driver = "wire"
[[port]]
name = "wan"
driver = "wire"
mtu = 1532
[[bridge]]
name = "br"
member = [{ port = "lan" }, { port = "wan" }]
addresses = 64
[[macsec]]
port = "wan"
sci = "02:00:00:00:00:01/1"
replay = "standard"
window = 32
transmit = [{ key = "sak:1", an = 0 }]
receive = [{ sci = "02:00:00:00:00:02/1", key = "sak:9", an = 0 }]
"#;

const EDGE_XPN: &str = r#"
[node]
name = "n"
lab = true
workers = 2
buffers = 512
buffer-size = 4096
[[port]]
name = "lan"
driver = "wire"
[[port]]
name = "wan"
driver = "wire"
mtu = 1532
[[bridge]]
name = "br"
member = [{ port = "lan", access = 20 }, { port = "wan", vlan = 20 }]
[[macsec]]
port = "wan"
sci = "02:00:00:00:00:01/1"
cipher = "gcm-aes-xpn-128"
transmit = [{ key = "xpn:1", an = 1, ssci = 1 }]
receive = [{ sci = "02:00:00:00:00:02/1", key = "xpn:9", an = 1, ssci = 2 }]
"#;

const PROVIDER: &str = r#"
[node]
name = "n"
lab = true
buffers = 512
buffer-size = 4096
[[port]]
name = "lan"
driver = "wire"
mtu = 1540
[[port]]
name = "wan"
driver = "wire"
mtu = 1600
[[port]]
name = "red"
driver = "wire"
[[interface]]
port = "wan"
address = ["198.51.100.1/30", "fe80::1/64"]
mpls = true
[[interface]]
port = "red"
address = ["10.9.0.1/24", "2001:db8:9::1/64"]
vrf = "red"
[[lsp]]
name = "far"
via = "198.51.100.2"
labels = [16002]
[[pseudowire]]
name = "pw"
port = "lan"
lsp = "far"
label-in = 800000
label-out = 800257
[[label]]
label = 900
vrf = "red"
[[label]]
label = 901
swap = [902, 16002]
via = "198.51.100.2"
[[label]]
label = 903
pop = true
ttl = "pipe"
via = "198.51.100.2"
[[route]]
prefix = "10.2.0.0/24"
vrf = "red"
via = "198.51.100.2"
interface = "wan"
labels = [16002, 1001]
[[macsec]]
port = "wan"
sci = "02:00:00:00:00:01/1"
transmit = [{ key = "sak:1", an = 0 }]
receive = [{ sci = "02:00:00:00:00:02/1", key = "sak:9", an = 0 }]
"#;

/// A configuration of [`CONFIGS`].
pub fn parsed(text: &str) -> Config {
    Config::parse("node.toml", text, &mut named_key).unwrap_or_else(|e| panic!("{e}"))
}

/// Environment that a node is built in, beside its configuration.
pub fn environment(config: &Config, pool: &Pool, now: Instant) -> Environment {
    let macs = config.ports.iter().map(|p| p.mac.unwrap_or(made_mac(&config.name, &p.name)));
    let store = Box::new(Volatile::default());
    let entropy = Box::new(ferrule_base::Rng::new(1));
    Environment { macs: macs.collect(), pool: pool.clone(), store, now, secret: [0; 2], entropy }
}

/// Whatever is a configuration builds a node, or says why not.
pub fn builds(config: Config) {
    // Its packet memory is not what this is about.
    let pool = Pool::heap(16, 2048);
    let environment = environment(&config, &pool, Instant::from_secs(1));
    match build(config, environment, |_| Software::default()) {
        Ok((mut control, mut workers)) => {
            let now = Instant::from_secs(2);
            for worker in &mut workers {
                worker.turn(now);
            }
            control.turn(now);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
