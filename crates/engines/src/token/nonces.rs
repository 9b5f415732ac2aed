//! Prediction of nonces, by which AES-GCM's key stream can be made ahead.
//!
//! ```text
//!   MACsec                     │      SCI, 8         │ PN, 4 │
//!   MACsec XPN                 │ SSCI, 4 │    PN, 8          │  XOR salt
//!   ESP, implicit IV, or ours  │ salt, 4 │  number, 8        │
//!   ESP of Linux               │ salt, 4 │  number XOR constant, 8 │
//! ```
//!
//! Each nonce is a fixed *base* with the number XORed into the last eight octets. Where the
//! sender chooses IVs the base is learned from the first authentic packet.

use ferrule_crypto::Ad;

/// The constant part of an SA's nonces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Base {
    head: [u8; 4],
    tail: u64,
}

/// A nonce in two parts.
fn parts(nonce: &[u8; 12]) -> ([u8; 4], u64) {
    let [a, b, c, d, tail @ ..] = *nonce;
    ([a, b, c, d], u64::from_be_bytes(tail))
}

impl Base {
    /// The nonce of number 0.
    pub fn new(nonce: &[u8; 12]) -> Self {
        let (head, tail) = parts(nonce);
        Self { head, tail }
    }

    /// The base from the nonce of a number.
    pub fn learned(nonce: &[u8; 12], number: u64) -> Self {
        let (head, tail) = parts(nonce);
        Self { head, tail: tail ^ number }
    }

    /// The nonce of a number.
    pub fn nonce(&self, number: u64) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&self.head);
        nonce[4..].copy_from_slice(&(self.tail ^ number).to_be_bytes());
        nonce
    }

    /// The number of a nonce, if it is one of these.
    pub fn number(&self, nonce: &[u8; 12]) -> Option<u64> {
        let (head, tail) = parts(nonce);
        (head == self.head).then_some(tail ^ self.tail)
    }
}

/// The number of an ESP packet, from its additional data (RFC 4106 section 5):
/// SPI and 32 bits in the packet, or SPI and 64 bits.
pub(super) fn esp_number(ad: &Ad, buf: &[u8]) -> Option<u64> {
    match ad {
        Ad::Inline(octets) => octets.last_chunk().map(|n| u64::from_be_bytes(*n)),
        Ad::Span(span) if span.len == 8 => {
            let low = buf.get(span.range())?.last_chunk()?;
            Some(u32::from_be_bytes(*low).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_crypto::Span;

    #[test]
    fn every_kind_of_nonce_is_a_base_and_a_number() {
        let macsec = [2, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0];
        let base = Base::new(&macsec);
        let nonce = [2, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0x12, 0x34];
        assert_eq!((base.nonce(0x1234), base.number(&nonce)), (nonce, Some(0x1234)));
        let mut other = nonce;
        other[0] ^= 1;
        assert_eq!(base.number(&other), None);
        // An IV of Linux: a constant XOR the number.
        let linux = [9, 9, 9, 9, 0x5a, 1, 2, 3, 4, 5, 6, 7 ^ 41];
        let base = Base::learned(&linux, 41);
        assert_eq!(base.nonce(0), [9, 9, 9, 9, 0x5a, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(base.number(&linux), Some(41));
    }

    #[test]
    fn the_number_of_an_esp_packet_stands_in_its_additional_data() {
        let packet = [0xaa, 0, 0, 1, 0, 0, 0, 0, 7, 0xbb];
        assert_eq!(esp_number(&Ad::Span(Span::new(1, 8)), &packet), Some(7));
        assert_eq!(esp_number(&Ad::Span(Span::new(4, 8)), &packet), None, "outside");
        let mut inline = [0; 12];
        inline[4..].copy_from_slice(&(5u64 << 32 | 6).to_be_bytes());
        assert_eq!(esp_number(&Ad::Inline(inline), &[]), Some(5 << 32 | 6));
        assert_eq!(esp_number(&Ad::SpanThen(Span::new(0, 8), [0; 4]), &packet), None);
    }
}
