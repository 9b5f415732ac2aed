//! Plan of the demo: places, wires, addresses, variants.
//!
//! ```text
//!   host1 ── ce1 ── pe1 ══ p ══ pe2 ── ce2 ── host2
//!    10.x   lan wan ac  left right  ac  wan lan  10.x
//! ```

use crate::init::key::KeyFor;
use ferrule_overhead::{Stack, StackError};

/// The study's frame: Ethernet, VLAN, IPv4, UDP.
pub const STUDY_FRAME: &str = "eth vlan ipv4 udp 954";
/// Its octets, without FCS.
pub const STUDY_LEN: usize = 1000;
/// Its UDP payload.
pub const STUDY_PAYLOAD: usize = 954;
/// The VLAN of both sites.
pub const VLAN: u16 = 10;

/// MTU of the sites, as anywhere.
pub const SITE_MTU: usize = 1500;
/// MTU between CE and PE: a full frame of a site with VLAN tag fits sealed in
/// any of the ways, so that all variants carry the same packets.
pub const ACCESS_MTU: usize = 1600;
/// MTU in the provider's network: the same with labels and control word.
pub const CORE_MTU: usize = 1650;

/// The seven places, each a network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The host behind the first CE.
    Host1,
    /// Customer edge.
    Ce1,
    /// Provider edge.
    Pe1,
    /// The provider's router.
    P,
    /// Provider edge.
    Pe2,
    /// Customer edge.
    Ce2,
    /// The host behind the second CE.
    Host2,
}

impl Place {
    /// Places in the order of the wire.
    pub const ALL: [Self; 7] =
        [Self::Host1, Self::Ce1, Self::Pe1, Self::P, Self::Pe2, Self::Ce2, Self::Host2];

    /// Places that run `ferrule`.
    #[cfg(test)]
    pub const NODES: [Self; 5] = [Self::Pe1, Self::P, Self::Pe2, Self::Ce1, Self::Ce2];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host1 => "host1",
            Self::Ce1 => "ce1",
            Self::Pe1 => "pe1",
            Self::P => "p",
            Self::Pe2 => "pe2",
            Self::Ce2 => "ce2",
            Self::Host2 => "host2",
        }
    }
}

/// One end of a wire.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// Its place.
    pub place: Place,
    /// The device there.
    pub device: &'static str,
    /// Its address. Octets 4 to 6 are not zero: tshark takes such an inner
    /// address for a pseudowire without control word.
    pub mac: &'static str,
}

/// A wire.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    /// Both ends.
    pub ends: [End; 2],
    /// MTU of both devices.
    pub mtu: usize,
}

const fn wire(mtu: usize, ends: [(Place, &'static str, &'static str); 2]) -> Wire {
    let [(place, device, mac), (other, far_device, far_mac)] = ends;
    Wire {
        ends: [End { place, device, mac }, End { place: other, device: far_device, mac: far_mac }],
        mtu,
    }
}

/// The wires, from one host to the other.
pub const WIRES: [Wire; 6] = [
    wire(
        SITE_MTU,
        [(Place::Host1, "eth0", "02:0f:e1:11:01:01"), (Place::Ce1, "lan", "02:0f:e1:c1:01:01")],
    ),
    wire(
        ACCESS_MTU,
        [(Place::Ce1, "wan", "02:0f:e1:c1:02:01"), (Place::Pe1, "ac", "02:0f:e1:a1:01:01")],
    ),
    wire(
        CORE_MTU,
        [(Place::Pe1, "core", "02:0f:e1:a1:02:01"), (Place::P, "left", "02:0f:e1:b0:01:01")],
    ),
    wire(
        CORE_MTU,
        [(Place::P, "right", "02:0f:e1:b0:02:01"), (Place::Pe2, "core", "02:0f:e1:a2:02:01")],
    ),
    wire(
        ACCESS_MTU,
        [(Place::Pe2, "ac", "02:0f:e1:a2:01:01"), (Place::Ce2, "wan", "02:0f:e1:c2:02:01")],
    ),
    wire(
        SITE_MTU,
        [(Place::Ce2, "lan", "02:0f:e1:c2:01:01"), (Place::Host2, "eth0", "02:0f:e1:22:01:01")],
    ),
];

/// The device's end of a wire.
pub fn end(place: Place, device: &str) -> &'static End {
    let mut ends = WIRES.iter().flat_map(|wire| &wire.ends);
    ends.find(|end| end.place == place && end.device == device).expect("a device of the plan")
}

/// Labels: transport to each PE, and the pseudowire's at each.
pub const TO_PE1: u32 = 16001;
/// Transport to PE2.
pub const TO_PE2: u32 = 16002;
/// The pseudowire's label at PE1.
pub const PW_PE1: u32 = 17001;
/// The pseudowire's label at PE2.
pub const PW_PE2: u32 = 17002;

/// The provider's addresses.
pub const PE1_CORE: &str = "192.0.2.1";
/// P towards PE1.
pub const P_LEFT: &str = "192.0.2.2";
/// P towards PE2.
pub const P_RIGHT: &str = "192.0.2.6";
/// PE2.
pub const PE2_CORE: &str = "192.0.2.5";
/// The gateways' addresses on the pseudowire.
pub const WAN: [&str; 2] = ["198.51.100.1", "198.51.100.2"];
/// The gateways' addresses in their sites.
pub const LAN: [&str; 2] = ["10.0.1.1", "10.0.2.1"];
/// The sites' networks.
pub const SITE: [&str; 2] = ["10.0.1.0/24", "10.0.2.0/24"];

/// The port of a flow that PE1's access list refuses: no dissector of tshark's claims it, and
/// in the laboratory it is that of the sixth flow.
pub const REFUSED_PORT: u16 = 40_005;
/// Packets of that flow.
pub const REFUSED_COUNT: u32 = 20;
/// The list of PE1's attachment circuit, and its name.
pub const LIST: &str = "site";

/// The list as it is written.
pub fn list() -> String {
    format!(
        "\n# What the provider does not carry for this site: it can tell as long as nothing is\n\
         # sealed before it comes here.\n\
         [[access-list]]\nname = \"{LIST}\"\nentry = [\n  \
         {{ action = \"deny\", protocol = \"udp\", to-ports = {REFUSED_PORT}, \
         name = \"refused\" }},\n  {{ action = \"permit\" }},\n]\n"
    )
}

/// Connection of the two sites, with its protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// For files and `--json`.
    pub key: &'static str,
    /// For people.
    pub name: &'static str,
    /// For a line that has little room.
    pub short: &'static str,
    /// Transformation that the CEs apply to a frame, in the grammar of `ferrule overhead`.
    pub transform: &'static str,
    /// Protection between the CEs.
    pub protect: Protect,
}

/// Protection between the CEs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protect {
    /// Nothing.
    Nothing,
    /// MACsec between the CEs' uplinks, with this cipher, keyed by MKA.
    Macsec(&'static str),
    /// ESP between the CEs as gateways, with this suite.
    Esp(&'static str),
}

/// The four variants, in turn.
pub const VARIANTS: [Variant; 4] = [
    Variant {
        key: "plain",
        name: "plain",
        short: "plain",
        transform: "",
        protect: Protect::Nothing,
    },
    Variant {
        key: "macsec",
        name: "MACsec GCM-AES-128",
        short: "MACsec",
        transform: "macsec sci gcm-aes-128",
        protect: Protect::Macsec("gcm-aes-128"),
    },
    Variant {
        key: "esp-cbc-sha1",
        name: "ESP AES-128-CBC SHA1-96",
        short: "ESP-CBC-SHA1",
        transform: "esp aes-cbc-128 hmac-sha1-96 tunnel",
        protect: Protect::Esp("aes-cbc-128 hmac-sha1-96"),
    },
    Variant {
        key: "esp-gcm",
        name: "ESP AES-128-GCM",
        short: "ESP-GCM",
        transform: "esp aes-gcm-128 tunnel",
        protect: Protect::Esp("aes-gcm-128"),
    },
];

impl Variant {
    /// The CEs are gateways, and each host is in a network of its own.
    pub fn is_routed(&self) -> bool {
        matches!(self.protect, Protect::Esp(_))
    }

    /// The variant of the topology `two-sites`.
    pub fn topology(&self) -> &'static str {
        if matches!(self.protect, Protect::Macsec(_)) { "macsec-mka" } else { self.key }
    }

    /// The hosts' addresses.
    pub fn hosts(&self) -> [&'static str; 2] {
        if self.is_routed() { ["10.0.1.10", "10.0.2.10"] } else { ["10.0.0.1", "10.0.0.2"] }
    }

    /// Key files that the variant needs.
    pub fn key_for(&self) -> Option<(KeyFor, &'static str)> {
        let name = match self.protect {
            Protect::Nothing => return None,
            Protect::Macsec(_) => "mka-128",
            Protect::Esp(name) => name,
        };
        Some((KeyFor::from_name(name).expect("a suite of the plan"), name))
    }

    /// The study's frame on a link with so many labels.
    pub fn stack(&self, labels: usize) -> Result<Stack, StackError> {
        let bar = if self.transform.is_empty() { "" } else { " | " };
        let core = if labels == 1 { "mpls cw".into() } else { format!("mpls {labels} cw") };
        Stack::parse(&format!("{STUDY_FRAME}{bar}{} | {core}", self.transform))
    }

    /// The highest load without loss, in percent of a customer's line as fast as
    /// the provider's (one label): the calculator's word.
    pub fn load_percent(&self) -> Result<f64, StackError> {
        const GIGABIT: u64 = 1_000_000_000;
        Ok(self.stack(1)?.ceiling(GIGABIT, GIGABIT)?.share * 100.0)
    }

    /// Octets of the study's frame there: the calculator's word.
    pub fn expected(&self, labels: usize) -> Result<usize, StackError> {
        self.stack(labels)?.wire_len(STUDY_LEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demo_variants_cost_what_the_study_says() {
        let one = VARIANTS.map(|v| v.expected(1).expect("a stack"));
        let two = VARIANTS.map(|v| v.expected(2).expect("a stack"));
        assert_eq!(one, [1022, 1054, 1084, 1072]);
        assert_eq!(two, one.map(|bytes| bytes + 4));
        let loads = VARIANTS.map(|v| v.load_percent().expect("a stack"));
        assert_eq!(loads.map(|load| format!("{load:.1}"))[..3], ["97.9", "95.0", "92.4"]);
    }

    #[test]
    fn demo_addresses_of_hosts_do_not_look_like_a_missing_control_word() {
        for end in WIRES.iter().flat_map(|wire| &wire.ends) {
            let mac: ferrule_base::MacAddr = end.mac.parse().expect("an address");
            assert_ne!(mac.0[3..], [0, 0, 0], "{end:?}");
            assert!(!mac.is_group());
        }
    }
}
