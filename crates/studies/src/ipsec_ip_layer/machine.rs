//! A machine of 2001: what its work costs, as a file, and as a profile of the laboratory.
//!
//! ```text
//!   profiles/studies/ipsec-2001-plausible.toml   what such machines are known to cost
//!   profiles/studies/ipsec-2001-fitted.toml      what the printed slowdowns ask for
//!                  └── for a protection, and the parts that are to count ──▶ Profile
//! ```
//!
//! Costs are of kinds that the node reports as work: frames taken, look-ups, packets and
//! octets sealed, opened and copied. The blocks of a hash or of DES follow from octets.

use super::cases::Protection;
use super::cost;
use super::fit::Row;
use super::network::Run;
use ferrule_formulas::blocks::Blocks;
use ferrule_lab::Profile;
use ferrule_lab::profile::{Price, Source};
use serde::{Deserialize, Serialize};

const PLAUSIBLE: &str = include_str!("../../../../profiles/studies/ipsec-2001-plausible.toml");
const FITTED: &str = include_str!("../../../../profiles/studies/ipsec-2001-fitted.toml");

/// Compressions of an HMAC for a packet of any size: two keys, the inner digest, and on
/// average half a block that is not full, and MD5's own 9 octets.
const HMAC_FIXED: f64 = 3.0 + 0.5 + 9.0 / 64.0;
/// Octets of ESP's header and IV, which an ICV covers and DES does not.
const ESP_HEAD: f64 = 16.0;
/// Frames that wait in a machine at most: Linux 2.0's backlog.
const BACKLOG: usize = 300;
/// The same where none is to be lost.
const UNBOUNDED: usize = 1 << 14;

/// Costs of a machine's work, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Costs {
    /// Each frame in or out: card, driver, stack.
    pub frame: f64,
    /// Each octet of it.
    pub octet: f64,
    /// Each look-up that the module makes.
    pub lookup: f64,
    /// Each packet protected or opened: its SA and header.
    pub sa: f64,
    /// Each new buffer for one.
    pub buffer: f64,
    /// Each octet copied to it.
    pub copy: f64,
    /// Each fragment made or taken in.
    pub fragment: f64,
    /// Each of its octets.
    pub fragment_octet: f64,
    /// A compression of MD5.
    pub md5_block: f64,
    /// A compression of SHA-1.
    pub sha1_block: f64,
    /// A block of DES.
    pub des_block: f64,
    /// A packet of AES-GCM.
    pub gcm_packet: f64,
    /// An octet of it.
    pub gcm_octet: f64,
}

/// Quality of the costs' fit to the printed results: errors are ratios of the greater to the smaller
/// value, less one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Quality {
    pub points: usize,
    pub error_percent: f64,
    pub leave_one_out_percent: f64,
}

/// A file of costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Machine {
    pub name: String,
    pub about: String,
    pub source: String,
    /// Costs that were fitted.
    pub free: Vec<String>,
    pub cost: Costs,
    pub fit: Quality,
    /// The free costs by fits without one of the values each, in the values' order.
    #[serde(default, rename = "left-out", skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

/// The free costs by a fit without one of the values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    /// In the order of their names.
    pub free: Row,
}

impl Machine {
    /// The machine with its components' known costs.
    pub fn plausible() -> Self {
        toml::from_str(PLAUSIBLE).expect("the shipped file is as its test has it")
    }

    /// The machine with costs fitted to the printed results.
    pub fn fitted() -> Self {
        toml::from_str(FITTED).expect("the shipped file is as its test has it")
    }
}

/// Integration of IPsec into the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processing {
    /// Headers are made in their order, in the packet's own buffer.
    InStack,
    /// The study's: a new buffer, and the packet is copied.
    NewBuffer,
}

/// Parts of a machine's work that take time.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Parts {
    pub stack: bool,
    pub lookup: bool,
    pub copy: bool,
    pub crypto: bool,
    pub fragments: bool,
    /// Queues in a machine are bounded, and packets beyond the bound are lost.
    pub bounded: bool,
}

impl Parts {
    /// No part takes time.
    pub const NONE: Self = Self {
        stack: false,
        lookup: false,
        copy: false,
        crypto: false,
        fragments: false,
        bounded: false,
    };
    /// Every part takes time.
    pub const ALL: Self = Self {
        stack: true,
        lookup: true,
        copy: true,
        crypto: true,
        fragments: true,
        bounded: true,
    };
}

/// Time inside a machine by kind of work, in microseconds, both machines together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Inside {
    /// Card, driver, stack: there without IPsec too.
    pub stack_us: f64,
    /// Policies and SAs.
    pub lookup_us: f64,
    /// New buffers.
    pub copy_us: f64,
    /// Hash and cipher.
    pub crypto_us: f64,
    /// Fragments made, and put together.
    pub fragments_us: f64,
}

impl Inside {
    /// Inside the IPsec module: all but the stack.
    pub fn module_us(&self) -> f64 {
        self.lookup_us + self.copy_us + self.crypto_us + self.fragments_us
    }
}

impl Costs {
    /// Cost of the hash or the cipher, for each packet and for each octet under its ICV.
    pub fn crypto(&self, protection: Protection) -> Price {
        let hash = |block: f64| Price { packet_ns: HMAC_FIXED * block, octet_ns: block / 64.0 };
        match protection {
            Protection::None | Protection::Bypass => Price::default(),
            Protection::AhMd5 => hash(self.md5_block),
            Protection::AhSha1 => hash(self.sha1_block),
            Protection::EspDes => Price {
                packet_ns: -ESP_HEAD / 8.0 * self.des_block,
                octet_ns: self.des_block / 8.0,
            },
            Protection::AesGcm => Price { packet_ns: self.gcm_packet, octet_ns: self.gcm_octet },
        }
    }

    /// The same by blocks: what goes through hash or cipher of a TCP segment, transport mode.
    pub fn blocks(&self, protection: Protection) -> Blocks {
        let hash = |block_ns| Blocks {
            block_ns,
            octets: 64.0,
            beside: cost::ah_octets(0) as f64,
            multiple: 1.0,
            fixed: HMAC_FIXED,
        };
        // TCP's header, padding length and next header.
        let esp = Blocks { block_ns: 0.0, octets: 1.0, beside: 22.0, multiple: 4.0, fixed: 0.0 };
        match protection {
            Protection::None | Protection::Bypass => esp,
            Protection::AhMd5 => hash(self.md5_block),
            Protection::AhSha1 => hash(self.sha1_block),
            Protection::EspDes => {
                Blocks { block_ns: self.des_block, octets: 8.0, multiple: 8.0, ..esp }
            }
            // ESP's header is authenticated, too.
            Protection::AesGcm => Blocks {
                block_ns: self.gcm_octet,
                beside: esp.beside + 8.0,
                fixed: self.gcm_packet / self.gcm_octet,
                ..esp
            },
        }
    }

    /// All of it times a number: a slower processor, or a share of one. What the card
    /// costs stays, for a bus is no faster.
    pub fn times(&self, factor: f64) -> Self {
        let all = |value: f64| value * factor;
        Self {
            frame: all(self.frame),
            octet: self.octet,
            lookup: all(self.lookup),
            sa: all(self.sa),
            buffer: all(self.buffer),
            copy: all(self.copy),
            fragment: all(self.fragment),
            fragment_octet: all(self.fragment_octet),
            md5_block: all(self.md5_block),
            sha1_block: all(self.sha1_block),
            des_block: all(self.des_block),
            gcm_packet: all(self.gcm_packet),
            gcm_octet: all(self.gcm_octet),
        }
    }

    /// The same with a share of a core: what another program takes, card and all.
    pub fn share(&self, share: f64) -> Self {
        Self { octet: self.octet / share, ..self.times(1.0 / share) }
    }

    /// As a profile of the laboratory.
    pub fn profile(&self, protection: Protection, processing: Processing, parts: Parts) -> Profile {
        let mut profile = Profile {
            name: "ipsec-2001".into(),
            about: "a machine of the study ipsec-ip-layer".into(),
            source: Source::Fitted,
            queue: if parts.bounded { BACKLOG } else { UNBOUNDED },
            ..Profile::ideal()
        };
        if parts.stack {
            profile.plain = Price { packet_ns: self.frame, octet_ns: self.octet };
        }
        if parts.fragments {
            profile.copied = Price { packet_ns: self.fragment, octet_ns: self.fragment_octet };
        }
        // Without the module nobody looks up more than the stack does.
        if protection == Protection::None {
            return profile;
        }
        let mut packet = Price::default();
        if parts.lookup {
            profile.lookup_ns = self.lookup;
            packet.packet_ns += self.sa;
        }
        if parts.copy && processing == Processing::NewBuffer {
            packet.packet_ns += self.buffer;
            packet.octet_ns += self.copy;
        }
        if parts.crypto {
            let crypto = self.crypto(protection);
            packet.packet_ns += crypto.packet_ns;
            packet.octet_ns += crypto.octet_ns;
        }
        (profile.sealed, profile.opened) = (packet, packet);
        profile
    }

    /// Time of a run inside the machines, by parts.
    pub fn inside(&self, run: &Run, protection: Protection, processing: Processing) -> Inside {
        let packets = (run.work.sealed.packets + run.work.opened.packets) as f64;
        let octets = (run.work.sealed.octets + run.work.opened.octets) as f64;
        let micros = |ns: f64| ns / 1000.0;
        let (module, copies) = (
            protection != Protection::None,
            protection.suite().is_some() && processing == Processing::NewBuffer,
        );
        let crypto = self.crypto(protection);
        let copied = run.work.copied;
        Inside {
            stack_us: micros(self.frame * run.frames as f64 + self.octet * run.octets as f64),
            lookup_us: match module {
                true => micros(self.lookup * run.work.lookups as f64 + self.sa * packets),
                false => 0.0,
            },
            copy_us: match copies {
                true => micros(self.buffer * packets + self.copy * octets),
                false => 0.0,
            },
            crypto_us: micros(crypto.packet_ns * packets + crypto.octet_ns * octets),
            fragments_us: micros(
                self.fragment * copied.packets as f64 + self.fragment_octet * copied.octets as f64,
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_costs_read_and_say_what_was_fitted() {
        let (plausible, fitted) = (Machine::plausible(), Machine::fitted());
        assert!(plausible.free.is_empty() && plausible.fit.points == 0, "nothing is fitted");
        assert!(fitted.free.len() < fitted.fit.points, "{:?}", fitted.fit);
        // What was not fitted is the same in both.
        assert_eq!(plausible.cost.frame, fitted.cost.frame);
        assert_eq!(plausible.cost.octet, fitted.cost.octet);
    }

    #[test]
    fn a_packet_costs_hash_blocks_with_a_fixed_part_and_des_blocks_without() {
        let costs = Machine::plausible().cost;
        let of = |protection, octets: f64| {
            let price = costs.crypto(protection);
            price.packet_ns + price.octet_ns * octets
        };
        let hash = of(Protection::AhMd5, 1524.0) / costs.md5_block;
        assert!((27.0..28.5).contains(&hash), "{hash}: 24 blocks and three");
        let des = of(Protection::EspDes, 16.0 + 1488.0) / costs.des_block;
        assert!((des - 186.0).abs() < 0.001, "{des}");
        assert!(of(Protection::AhMd5, 64.0) > of(Protection::EspDes, 40.0));
    }

    #[test]
    fn parts_that_do_not_count_take_no_time() {
        let costs = Machine::plausible().cost;
        let none = costs.profile(Protection::EspDes, Processing::NewBuffer, Parts::NONE);
        assert!(none.is_free());
        let all = costs.profile(Protection::Bypass, Processing::NewBuffer, Parts::ALL);
        assert!(all.lookup_ns > 0.0 && all.plain.packet_ns > 0.0);
        assert_eq!(costs.profile(Protection::None, Processing::InStack, Parts::ALL).lookup_ns, 0.0);
    }
}
