//! The other side of a node, which has the keys: it seals whatever octets it is
//! given, with numbers that go on, stay or jump as the input says.

use super::configs::{CONFIGS, Kind};
use super::frames::{ETHERNET, ethernet, ipv4};
use crate::input::Input;
use ferrule_base::{Instant, MacAddr, Secret};
use ferrule_crypto::{
    Ad, Aes, Engine, Job, Jobs, KeyId, KeySpec, Mac, Op, Software, Span, Suite, Verdict,
};
use ferrule_node::config::named_key;
use ferrule_wire::{EtherType, Protocol, esp};

/// The channel of the other side.
pub const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const SCI: [u8; 8] = [2, 0, 0, 0, 0, 2, 0, 1];
const SPI: u32 = 0x1001;
const ICV_GCM: usize = 16;
const ICV_SHA1: usize = 12;

/// The other side.
pub struct Peer {
    kind: Kind,
    engine: Software,
    key: KeyId,
    number: u64,
}

/// The octets behind a word of a key file.
fn part(path: &str, word: &str) -> Secret {
    let text = named_key(path).expect("a key file with a name");
    let text = std::str::from_utf8(text.expose()).expect("text");
    let line = text.lines().find_map(|l| l.strip_prefix(word));
    line.map_or_else(
        || Secret::new(Vec::new()),
        |hex| Secret::from_hex(hex.trim()).expect("hexadecimal digits"),
    )
}

impl Peer {
    /// The other side of a node.
    pub fn new(kind: Kind) -> Self {
        let (path, suite) = match kind {
            Kind::EspGcm => ("gcm:7", Suite::AesGcm(Aes::Aes128)),
            Kind::EspCbc => ("cbc-sha1:7", Suite::AesCbc(Aes::Aes128, Mac::HmacSha1_96)),
            Kind::Macsec | Kind::Provider => ("sak:9", Suite::AesGcm(Aes::Aes128)),
            Kind::MacsecXpn => ("xpn:9", Suite::AesGcm(Aes::Aes128)),
        };
        debug_assert!(CONFIGS.iter().any(|(text, k)| *k == kind && text.contains(path)));
        let (key, mac_key) = (part(path, "cipher"), part(path, "integrity"));
        let mut engine = Software::default();
        let spec = KeySpec::new(suite, key, mac_key);
        let key = Engine::<Vec<u8>>::install(&mut engine, &spec).expect("a key of this suite");
        Self { kind, engine, key, number: 0 }
    }

    /// The number of the next frame.
    fn next(&mut self, input: &mut Input<'_>) -> u64 {
        match input.u8() {
            0 => {}
            1 => self.number = self.number.saturating_sub(input.u8().into()),
            2 => self.number += u64::from(input.u16()),
            3 => self.number = self.number & !0xffff_ffff | 0xffff_ff00,
            _ => self.number += 1,
        }
        self.number
    }

    fn seal(&mut self, buf: Vec<u8>, ad: Ad, text: Span, nonce: [u8; 12]) -> Vec<u8> {
        let (key, op, verdict) = (self.key, Op::Seal, Verdict::Pending);
        let mut jobs = Jobs::new();
        jobs.push(Job { buf, key, ticket: 0, number: 0, nonce, op, verdict, ad, text });
        self.engine.submit(Instant::ZERO, &mut jobs);
        let job = jobs.pop().expect("the software engine gives it back");
        assert_eq!(job.verdict, Verdict::Done);
        job.buf
    }

    /// A frame to the node with `inner` under its ICV: an IP packet in ESP, or
    /// all of a frame behind its addresses in MACsec.
    pub fn protect(&mut self, to: MacAddr, inner: &[u8], input: &mut Input<'_>) -> Vec<u8> {
        match self.kind {
            Kind::EspGcm | Kind::EspCbc => self.esp(to, inner, input),
            Kind::Macsec | Kind::MacsecXpn | Kind::Provider => self.macsec(inner, input),
        }
    }

    fn esp(&mut self, to: MacAddr, inner: &[u8], input: &mut Input<'_>) -> Vec<u8> {
        let number = self.next(input);
        let cbc = self.kind == Kind::EspCbc;
        let mut packet = [SPI.to_be_bytes(), (number as u32).to_be_bytes()].concat();
        let iv = number.to_be_bytes();
        if cbc {
            packet.extend([0; 16])
        } else {
            packet.extend(iv)
        }
        let start = packet.len();
        packet.extend_from_slice(inner);
        // The trailer is right, but for an input that wants it otherwise.
        let how = input.u8();
        let block = if cbc { 16 } else { 4 };
        let pad = esp::pad_len(inner.len(), block);
        let next = match inner.first().map(|b| b >> 4) {
            Some(6) => Protocol(41),
            _ => Protocol(4),
        };
        let trailer = packet.len();
        packet.resize(trailer + pad + esp::TRAILER_LEN, 0);
        esp::emit_trailer(&mut packet[trailer..], next);
        if how < 32
            && let Some(last) = packet.last_mut()
        {
            *last = input.u8();
        }
        if how & 0xf0 == 0x20 {
            let at = packet.len() - 1 - usize::from(how & 15).min(packet.len() - 1 - start);
            packet[at] = input.u8();
        }
        let end = packet.len();
        packet.resize(end + if cbc { ICV_SHA1 } else { ICV_GCM }, 0);
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&iv);
        let (ad, text) = if cbc {
            let text = Span::new(esp::Header::LEN, end - esp::Header::LEN);
            (Ad::Span(Span::new(0, esp::Header::LEN)), text)
        } else {
            nonce[..4].copy_from_slice(part("gcm:7", "salt").expose());
            // RFC 4106 section 5: SPI and the whole number.
            let mut ad = [0; 12];
            ad[..4].copy_from_slice(&SPI.to_be_bytes());
            ad[4..].copy_from_slice(&iv);
            (Ad::Inline(ad), Span::new(start, end - start))
        };
        let packet = self.seal(packet, ad, text, nonce);
        let packet = ipv4([192, 0, 2, 2], [192, 0, 2, 1], Protocol::ESP.0, &packet);
        ethernet(to, PEER, EtherType::IPV4, &packet)
    }

    fn macsec(&mut self, inner: &[u8], input: &mut Input<'_>) -> Vec<u8> {
        let number = self.next(input);
        let xpn = self.kind == Kind::MacsecXpn;
        let mut addresses = [0; 12];
        let head = inner.len().min(12);
        addresses[..head].copy_from_slice(&inner[..head]);
        let secure = &inner[head..];
        let an = u8::from(xpn);
        let mut short = if secure.len() < 48 { secure.len() as u8 } else { 0 };
        let how = input.u8();
        if how == 0 {
            short = input.u8();
        }
        let integrity = how & 0xf0 == 0x10;
        let tci = 0x20 | if integrity { 0 } else { 0x0c } | an;
        let mut frame = addresses.to_vec();
        frame.extend(EtherType::MACSEC.0.to_be_bytes());
        frame.extend([tci, short]);
        frame.extend((number as u32).to_be_bytes());
        frame.extend(SCI);
        let start = frame.len();
        frame.extend_from_slice(secure);
        let end = frame.len();
        frame.resize(end + ICV_GCM, 0);
        let mut nonce = [0; 12];
        if xpn {
            // 802.1AE clause 10.5: the salt, with SSCI and number added.
            nonce.copy_from_slice(part("xpn:9", "salt").expose());
            let mask = [&2_u32.to_be_bytes()[..], &number.to_be_bytes()].concat();
            nonce.iter_mut().zip(mask).for_each(|(n, m)| *n ^= m);
        } else {
            nonce[..8].copy_from_slice(&SCI);
            nonce[8..].copy_from_slice(&(number as u32).to_be_bytes());
        }
        let clear = if integrity { end } else { start };
        let (ad, text) = (Ad::Span(Span::new(0, clear)), Span::new(clear, end - clear));
        self.seal(frame, ad, text, nonce)
    }
}

/// Octets that a sealed frame has around its inner ones at most.
pub const AROUND: usize = ETHERNET + 20 + 8 + 16 + 16 + 16 + 32;
