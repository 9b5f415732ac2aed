//! What AH adds to a packet (RFC 4302 section 2): its fixed part, the ICV, and padding to
//! four octets over IPv4 and eight over IPv6.

use crate::Mode;
use crate::error::StackError;
use crate::suite::{ESP_CIPHERS, ESP_INTEGRITIES};
use crate::transform::IpVersion;
use std::fmt;

/// Next header, length, reserved, SPI, sequence number (RFC 4302 section 2).
pub(crate) const AH_HEADER: usize = 12;

/// An integrity algorithm as AH uses it: a keyed hash, or a combined-mode cipher that hides
/// nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AhSuite {
    /// The word of the grammar.
    pub name: &'static str,
    /// Octets of initialization vector in front of the check value.
    pub iv: usize,
    /// Octets of check value.
    pub icv: usize,
    /// Where they are specified.
    pub rule: &'static str,
}

impl AhSuite {
    /// Every algorithm that AH can have.
    pub fn all() -> impl Iterator<Item = Self> {
        let hashes = ESP_INTEGRITIES.iter().map(|row| Self {
            name: row.name,
            iv: 0,
            icv: row.icv,
            rule: row.rule,
        });
        let combined = ESP_CIPHERS.iter().filter(|row| row.icv > 0 && !row.hides);
        hashes.chain(combined.map(|row| Self {
            name: row.name,
            iv: row.iv,
            icv: row.icv,
            rule: row.icv_rule,
        }))
    }

    /// The algorithm of that name.
    pub fn by_name(name: &str) -> Result<Self, StackError> {
        Self::all().find(|row| row.name == name).ok_or_else(|| {
            let names = Self::all().map(|row| row.name);
            StackError::unknown("integrity algorithm of AH", name, names)
        })
    }
}

/// An AH transformation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ah {
    /// Its integrity algorithm.
    pub suite: AhSuite,
    /// Tunnel or transport, as ESP has them.
    pub mode: Mode,
    /// The outer header of tunnel mode; transport mode keeps the packet's own.
    pub outer: IpVersion,
    /// Padded to eight octets over IPv4 too, as some senders do.
    pub pad8: bool,
    /// Extended sequence numbers: authenticated, never sent, so no octet more on the wire.
    pub esn: bool,
}

impl Ah {
    /// Octets of the IP packet that comes of one of `ip_len` octets and version `own`.
    pub fn ip_len(&self, own: IpVersion, ip_len: usize) -> usize {
        self.outer_len() + self.header_len(own) + ip_len
    }

    /// Octets of the outer header, if there is one.
    fn outer_len(&self) -> usize {
        if self.mode == Mode::Tunnel { self.outer.header_len() } else { 0 }
    }

    /// Octets of AH in a packet whose own version is `own`.
    pub fn header_len(&self, own: IpVersion) -> usize {
        AH_HEADER + self.suite.iv + self.suite.icv + self.padding(own)
    }

    /// Octets of padding behind the check value.
    pub(crate) fn padding(&self, own: IpVersion) -> usize {
        let version = if self.mode == Mode::Tunnel { self.outer } else { own };
        let align = if version == IpVersion::V6 || self.pad8 { 8 } else { 4 };
        let len = AH_HEADER + self.suite.iv + self.suite.icv;
        len.next_multiple_of(align) - len
    }

    /// Octets by which a frame grows at its front at most.
    pub(crate) fn front_growth(&self) -> usize {
        self.outer_len() + self.header_len(IpVersion::V6)
    }
}

impl fmt::Display for Ah {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |on: bool, word: &'static str| if on { word } else { "" };
        let tunnel = self.mode == Mode::Tunnel;
        write!(f, "ah {}", self.suite.name)?;
        f.write_str(if tunnel { " tunnel" } else { " transport" })?;
        f.write_str(word(tunnel && self.outer == IpVersion::V6, " ipv6"))?;
        f.write_str(word(self.pad8, " pad8"))?;
        f.write_str(word(self.esn, " esn"))
    }
}
