//! The stacks that a person asks for first, for the study's frame.

/// A stack with a name.
#[derive(Debug, Clone, Copy)]
pub struct GalleryEntry {
    /// Question that the entry answers; entries of one group stand together.
    pub group: &'static str,
    /// Name for people.
    pub name: &'static str,
    /// Its transformations, in the grammar's words.
    pub stack: &'static str,
}

const fn entry(group: &'static str, name: &'static str, stack: &'static str) -> GalleryEntry {
    GalleryEntry { group, name, stack }
}

const STUDY: &str = "the study's frames from PE to P, one label";
const TWO_LABELS: &str = "the same on the link before, with a transport label";
const SUITES: &str = "other suites and outer headers";
const OTHER: &str = "other ways to carry it";
const CALCULATED: &str = "for comparison, by calculation only";

/// Every stack with a name, in the order to show them.
pub static GALLERY: &[GalleryEntry] = &[
    entry(STUDY, "plain", "mpls cw"),
    entry(STUDY, "MACsec", "macsec sci gcm-aes-128 | mpls cw"),
    entry(STUDY, "ESP, CBC with SHA-1", "esp aes-cbc-128 hmac-sha1-96 tunnel | mpls cw"),
    entry(STUDY, "ESP, GCM", "esp aes-gcm-128 tunnel | mpls cw"),
    entry(STUDY, "ESP, GCM, implicit IV", "esp aes-gcm-128-iiv tunnel | mpls cw"),
    entry(TWO_LABELS, "plain", "mpls 2 cw"),
    entry(TWO_LABELS, "MACsec", "macsec sci gcm-aes-128 | mpls 2 cw"),
    entry(TWO_LABELS, "ESP, CBC with SHA-1", "esp aes-cbc-128 hmac-sha1-96 tunnel | mpls 2 cw"),
    entry(TWO_LABELS, "ESP, GCM", "esp aes-gcm-128 tunnel | mpls 2 cw"),
    entry(SUITES, "MACsec without SCI", "macsec gcm-aes-128 | mpls cw"),
    entry(SUITES, "MACsec, tag in the clear", "macsec sci gcm-aes-256 clear-vlan | mpls cw"),
    entry(SUITES, "ESP, ChaCha20", "esp chacha20-poly1305 tunnel | mpls cw"),
    entry(SUITES, "ESP, CBC with SHA-256", "esp aes-cbc-256 hmac-sha256-128 tunnel | mpls cw"),
    entry(SUITES, "ESP over IPv6", "esp aes-gcm-256 tunnel ipv6 | mpls cw"),
    entry(SUITES, "ESP in UDP (NAT)", "esp aes-gcm-128 tunnel udp-encap | mpls cw"),
    entry(OTHER, "L3VPN, plain", "l3vpn 2"),
    entry(OTHER, "L3VPN, ESP inside", "esp aes-gcm-128 tunnel | l3vpn 2"),
    entry(OTHER, "MACsec on each hop", "mpls 2 cw | macsec sci gcm-aes-128"),
    entry(CALCULATED, "L2TPv3 over UDP", "l2tpv3 udp"),
    entry(CALCULATED, "L2TPv3 with ESP", "l2tpv3 udp | esp aes-cbc-128 hmac-sha1-96 transport"),
    entry(CALCULATED, "MACsec over VXLAN", "macsec sci gcm-aes-128 | vxlan"),
];
