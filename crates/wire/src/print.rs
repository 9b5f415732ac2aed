//! A whole Ethernet frame in one line, layer after layer, for `trace`.
//!
//! ```text
//! 02:..:01 > 02:..:02, MPLS | MPLS 101 tc 0 ttl 63 S | IPv4 10.1.0.9 > ... | UDP 7 > 8
//! ```
//! Ambiguous formats are guessed as Wireshark does: below a label stack the
//! first nibble tells IP, control word and channel header apart.

use crate::checksum::Ends;
use crate::{
    EtherType, Malformed, Protocol, ah, arp, eapol, esp, ethernet, icmpv4, icmpv6, ipv4, ipv6,
    ipv6ext, mkpdu, mpls, pw, sectag, tcp, udp, vlan,
};
use std::fmt::{Display, Write};

/// Layers that are written before the rest counts as data.
pub const MAX_LAYERS: usize = 24;

/// Format of the next octets.
#[derive(Clone, Copy)]
enum Next {
    Ethernet,
    Type(EtherType),
    Labels,
    BelowLabels,
    Ip { protocol: Protocol, ends: Ends, quoted: bool },
    Quoted(EtherType),
    EspInUdp,
    Data,
}

/// The layers of an Ethernet frame. Never panics, never longer than its
/// layers make it.
pub fn describe(frame: &[u8]) -> String {
    let mut out = String::new();
    let (mut next, mut rest) = (Next::Ethernet, frame);
    for _ in 0..MAX_LAYERS {
        if matches!(next, Next::Data) {
            break;
        }
        match layer(&mut out, next, rest) {
            Ok(found) => (next, rest) = found,
            Err(why) => {
                write(&mut out, format_args!("[{why}]"));
                break;
            }
        }
    }
    if !rest.is_empty() {
        write(&mut out, format_args!("{} octets", rest.len()));
    }
    out
}

fn write(out: &mut String, layer: impl Display) {
    let bar = if out.is_empty() { "" } else { " | " };
    // Writing to a String cannot fail.
    let _ = write!(out, "{bar}{layer}");
}

type Found<'a> = Result<(Next, &'a [u8]), Malformed>;

fn layer<'a>(out: &mut String, next: Next, bytes: &'a [u8]) -> Found<'a> {
    match next {
        Next::Ethernet => {
            let (repr, payload) = ethernet::Repr::parse(bytes)?;
            write(out, repr);
            Ok((Next::Type(repr.ethertype), payload))
        }
        Next::Type(ethertype) => by_type(out, ethertype, bytes),
        Next::Labels => {
            let (repr, payload) = mpls::Repr::parse(bytes)?;
            write(out, repr);
            Ok((if repr.bottom { Next::BelowLabels } else { Next::Labels }, payload))
        }
        Next::BelowLabels => below_labels(out, bytes),
        Next::Ip { protocol, ends, quoted } => by_protocol(out, protocol, ends, quoted, bytes),
        Next::Quoted(ethertype) => Ok(quoted(out, ethertype, bytes)),
        Next::EspInUdp => {
            // Four zero octets mark IKE, one octet a keep-alive (RFC 3948).
            match bytes.first_chunk::<4>() {
                Some([0, 0, 0, 0]) => write(out, "IKE"),
                None => write(out, "NAT keep-alive"),
                Some(_) => return ip_esp(out, bytes),
            }
            Ok((Next::Data, bytes))
        }
        Next::Data => Ok((Next::Data, bytes)),
    }
}

fn by_type<'a>(out: &mut String, ethertype: EtherType, bytes: &'a [u8]) -> Found<'a> {
    match ethertype {
        EtherType::VLAN | EtherType::SERVICE_VLAN => {
            let (repr, payload) = vlan::Repr::parse(bytes)?;
            write(out, repr);
            Ok((Next::Type(repr.ethertype), payload))
        }
        EtherType::EAPOL => {
            let (repr, body) = eapol::Repr::parse(bytes)?;
            if repr.kind != eapol::Kind::MKA {
                write(out, repr);
                return Ok((Next::Data, body));
            }
            write(out, mkpdu::Repr::parse(body)?.0);
            Ok((Next::Data, &[]))
        }
        EtherType::ARP => {
            let (repr, payload) = arp::Repr::parse(bytes)?;
            write(out, repr);
            Ok((Next::Data, payload))
        }
        EtherType::IPV4 => {
            let (repr, payload) = ipv4::Repr::parse(bytes)?;
            write(out, repr);
            if repr.fragment_offset != 0 {
                return Ok((Next::Data, payload));
            }
            // A fragment lacks its end, as a quoted packet does.
            let quoted = repr.is_fragment();
            Ok((Next::Ip { protocol: repr.protocol, ends: repr.ends(), quoted }, payload))
        }
        EtherType::IPV6 => {
            let (repr, payload) = ipv6::Repr::parse(bytes)?;
            write(out, repr);
            upper_v6(out, repr, payload, false)
        }
        EtherType::MPLS | EtherType::MPLS_UPSTREAM => Ok((Next::Labels, bytes)),
        EtherType::MACSEC => {
            let (repr, payload) = sectag::Repr::parse(bytes)?;
            write(out, repr);
            if repr.protection != sectag::Protection::Integrity {
                return Ok((Next::Data, payload));
            }
            // In clear, and with its ICV at the end.
            let clear = payload.len().saturating_sub(sectag::ICV_LEN);
            let clear = payload.get(..clear).unwrap_or_default();
            let Some((&[a, b], inner)) = clear.split_first_chunk::<2>() else {
                return Ok((Next::Data, payload));
            };
            let ethertype = EtherType(u16::from_be_bytes([a, b]));
            write(out, ethertype);
            Ok((Next::Type(ethertype), inner))
        }
        _ => Ok((Next::Data, bytes)),
    }
}

fn upper_v6<'a>(out: &mut String, repr: ipv6::Repr, payload: &'a [u8], quoted: bool) -> Found<'a> {
    let upper = ipv6ext::walk(repr.next, payload)?;
    let rest = payload.get(upper.offset..).ok_or(Malformed::Truncated)?;
    let mut partial = false;
    if let Some(fragment) = upper.fragment {
        write(out, fragment);
        if fragment.offset != 0 {
            return Ok((Next::Data, rest));
        }
        partial = fragment.more;
    }
    let (protocol, quoted) = (upper.protocol, quoted || partial);
    Ok((Next::Ip { protocol, ends: repr.ends(), quoted }, rest))
}

fn below_labels<'a>(out: &mut String, bytes: &'a [u8]) -> Found<'a> {
    match bytes.first().map(|b| b >> 4) {
        None => Ok((Next::Data, bytes)),
        Some(4) => Ok((Next::Type(EtherType::IPV4), bytes)),
        Some(6) => Ok((Next::Type(EtherType::IPV6), bytes)),
        Some(1) => {
            write(out, "PW associated channel");
            Ok((Next::Data, bytes))
        }
        // Taken for a control word unless the octets after it cannot be a
        // frame but these can.
        Some(0) => {
            let with = pw::Repr::parse(bytes)
                .and_then(|(repr, rest)| ethernet::Repr::parse(rest).map(|_| (repr, rest)));
            if let Ok((repr, rest)) = with {
                write(out, repr);
                return Ok((Next::Ethernet, rest));
            }
            if ethernet::Repr::parse(bytes).is_ok() {
                return Ok((Next::Ethernet, bytes));
            }
            let (repr, rest) = pw::Repr::parse(bytes)?;
            write(out, repr);
            Ok((Next::Data, rest))
        }
        Some(_) => Ok((Next::Ethernet, bytes)),
    }
}

fn ip_esp<'a>(out: &mut String, bytes: &'a [u8]) -> Found<'a> {
    let (repr, payload) = esp::Repr::parse(bytes)?;
    write(out, repr);
    Ok((Next::Data, payload))
}

fn by_protocol<'a>(
    out: &mut String,
    protocol: Protocol,
    ends: Ends,
    quoted: bool,
    bytes: &'a [u8],
) -> Found<'a> {
    let verdict = |ok: bool| if quoted || ok { "" } else { " [wrong checksum]" };
    match protocol {
        Protocol::UDP if quoted => {
            if let Some(&[a, b, c, d]) = bytes.first_chunk::<4>() {
                let (src, dst) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
                write(out, format_args!("UDP {src} > {dst}"));
            }
            Ok((Next::Data, bytes))
        }
        Protocol::UDP => {
            let (repr, payload) = udp::Repr::parse(bytes)?;
            let datagram = bytes.get(..repr.len() + payload.len()).unwrap_or(bytes);
            write(out, format_args!("{repr}{}", verdict(udp::checksum_ok(&ends, datagram))));
            let next = match repr.dst {
                udp::PORT_ESP => Next::EspInUdp,
                udp::PORT_MPLS => Next::Labels,
                _ if repr.src == udp::PORT_ESP => Next::EspInUdp,
                _ => Next::Data,
            };
            Ok((next, payload))
        }
        Protocol::TCP => {
            let (repr, payload) = tcp::Repr::parse(bytes)?;
            write(out, format_args!("{repr}{}", verdict(tcp::checksum_ok(&ends, bytes))));
            Ok((Next::Data, payload))
        }
        Protocol::ICMP => {
            let (repr, payload) = icmpv4::Repr::parse_quoted(bytes)?;
            write(out, format_args!("{repr}{}", verdict(icmpv4::checksum_ok(bytes))));
            let next = if repr.is_error() { Next::Quoted(EtherType::IPV4) } else { Next::Data };
            Ok((next, payload))
        }
        Protocol::ICMPV6 => {
            let (repr, payload) = icmpv6::Repr::parse(bytes)?;
            write(out, format_args!("{repr}{}", verdict(icmpv6::checksum_ok(&ends, bytes))));
            let next = if repr.is_error() { Next::Quoted(EtherType::IPV6) } else { Next::Data };
            Ok((next, payload))
        }
        Protocol::ESP => ip_esp(out, bytes),
        Protocol::AH => {
            let (repr, rest) = ah::Repr::parse(bytes)?;
            write(out, repr);
            let payload = rest.get(repr.icv_len.into()..).unwrap_or_default();
            Ok((Next::Ip { protocol: repr.next, ends, quoted }, payload))
        }
        Protocol::IPV4 => Ok((Next::Type(EtherType::IPV4), bytes)),
        Protocol::IPV6 => Ok((Next::Type(EtherType::IPV6), bytes)),
        Protocol::MPLS => Ok((Next::Labels, bytes)),
        Protocol::ETHERNET => Ok((Next::Ethernet, bytes)),
        _ => Ok((Next::Data, bytes)),
    }
}

/// The packet that an ICMP error is about: cut short, so only its addresses
/// and protocol are written.
fn quoted<'a>(out: &mut String, ethertype: EtherType, bytes: &'a [u8]) -> (Next, &'a [u8]) {
    use zerocopy::FromBytes;
    if ethertype == EtherType::IPV4
        && let Ok((h, _)) = ipv4::Header::ref_from_prefix(bytes)
        && let Ends::V4(src, dst) = h.ends()
    {
        write(out, format_args!("about IPv4 {src} > {dst} {}", h.protocol()));
    } else if ethertype == EtherType::IPV6
        && let Ok((h, _)) = ipv6::Header::ref_from_prefix(bytes)
        && let Ends::V6(src, dst) = h.ends()
    {
        write(out, format_args!("about IPv6 {src} > {dst} {}", h.next()));
    }
    (Next::Data, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::hex;
    use proptest::prelude::*;

    const LABELS: &str = "02 00 00 00 02 01 02 00 00 00 01 01 88 47 00 06
        50 3f 00 3e 91 3f 45 b8 00 24 00 08 00 00 3f 11 66 f5 0a 01 00 09 0a 02 00 09
        00 07 00 08 00 10 f9 86 56 00 00 00 41 a5 5a 7e";
    const INTEGRITY: &str = "02 00 00 00 00 02 02 00 00 00 00 01 88 e5 20 02
        00 00 00 01 02 00 00 00 00 01 00 01 88 b5 64 da
        f2 89 fe 49 e6 5d b0 ff cc 81 89 3d ee f7";
    const ENCRYPTED: &str = "02 00 00 00 00 02 02 00 00 00 00 01 88 e5 2c 02
        00 00 00 01 02 00 00 00 00 01 00 01 30 96 0b 7e
        f6 50 c2 72 c7 e9 79 b8 02 16 de 40 f0 00";
    const MKA: &str = "0180c2000003 020000000001 888e 03050050
        0110e03c 0200000000010001 f0449ec772194e816b35e0cf 00000001 0080c201
        9a995c7343d6688a835e53f532559d34298775700f56a122c939635020a11f7a
        e78b012a4c63b4357515b5e0c13ac05c";
    const ESP_IN_UDP: &str = "02 00 00 00 00 02 02 00 00 00 00 01 08 00 45 00
        00 50 02 59 00 00 40 11 23 da c6 33 64 01 c6 33
        64 02 11 94 11 94 00 3c 00 00 74 26 f7 90 00 00
        00 01 b2 4c ae b2 99 dd bb 1e cc 4a 71 4e 83 46
        ae 49 76 63 c9 2e 58 eb aa c0 af 50 67 91 83 1a
        6c 07 19 61 6e 17 29 f1 86 a5 f2 9d 74 e9";
    const ESP6: &str = "02 00 00 00 00 02 02 00 00 00 00 01 86 dd 60 00
        00 00 00 2c 32 40 20 01 0d b8 00 0b 00 00 00 00
        00 00 00 00 00 01 20 01 0d b8 00 0b 00 00 00 00
        00 00 00 00 00 02 15 51 3c 4b 00 00 00 01 fb aa
        04 4a cd b2 8d 20 4f b5 04 25 93 12 9e 69 a2 3b
        2d 7b 38 99 d6 2d 63 4c bf f7 b5 48 45 86 68 e6 8b 74";
    /// Ethernet in a pseudowire with control word, a VLAN tag and MACsec in it.
    const PSEUDOWIRE: &str = "020000000201 020000000101 8847 0006503f 0006613f 00000005
        020000000002 020000000001 8100 0064 88e5 0d02 00000007 30960b7ef650c272c7e979b80216de40f000";

    fn line(text: &str) -> String {
        describe(&hex(text))
    }

    #[test]
    fn captured_frames_are_described_layer_by_layer() {
        assert_eq!(
            line(LABELS),
            "02:00:00:00:01:01 > 02:00:00:00:02:01, MPLS | MPLS 101 tc 0 ttl 63 | \
             MPLS 1001 tc 0 ttl 63 S | IPv4 10.1.0.9 > 10.2.0.9 UDP ttl 63 tos 0xb8 length 36 | \
             UDP 7 > 8 length 8 | 8 octets"
        );
        assert_eq!(
            line(ENCRYPTED),
            "02:00:00:00:00:01 > 02:00:00:00:00:02, MACsec | \
             MACsec an 0 pn 1 sci 02:00:00:00:00:01/1 encrypted sl 2 | 18 octets"
        );
        assert_eq!(
            line(INTEGRITY),
            "02:00:00:00:00:01 > 02:00:00:00:00:02, MACsec | \
             MACsec an 0 pn 1 sci 02:00:00:00:00:01/1 integrity sl 2 | type 0x88b5"
        );
        assert_eq!(
            line(MKA),
            "02:00:00:00:00:01 > 01:80:c2:00:00:03, EAPOL | \
             MKA 02:00:00:00:00:01/1 mn 1 priority 16 server"
        );
        assert!(
            line(ESP_IN_UDP)
                .ends_with("UDP 4500 > 4500 length 52 | ESP spi 0x7426f790 seq 1 | 44 octets")
        );
        assert!(line(ESP6).ends_with(
            "IPv6 2001:db8:b::1 > 2001:db8:b::2 ESP hlim 64 length 84 | \
             ESP spi 0x15513c4b seq 1 | 36 octets"
        ));
        assert_eq!(
            line(PSEUDOWIRE),
            "02:00:00:00:01:01 > 02:00:00:00:02:01, MPLS | MPLS 101 tc 0 ttl 63 | \
             MPLS 102 tc 0 ttl 63 S | PW cw seq 5 | \
             02:00:00:00:00:01 > 02:00:00:00:00:02, 802.1Q | vlan 100 p 0, MACsec | \
             MACsec an 1 pn 7 encrypted sl 2 | 18 octets"
        );
    }

    #[test]
    fn what_is_wrong_with_a_frame_is_said() {
        assert!(line("0200").ends_with("[truncated] | 2 octets"));
        let mut frame = hex(LABELS);
        frame[30] ^= 1;
        assert!(describe(&frame).contains("[wrong checksum]"));
        let mut frame = hex(LABELS);
        *frame.last_mut().unwrap() ^= 1;
        assert!(describe(&frame).contains("UDP 7 > 8 length 8 [wrong checksum]"));
    }

    #[test]
    fn icmp_errors_say_what_they_are_about() {
        let mut message = hex("0b00 0000 00000000 4500001c 00000000 01110000 0a010009 0a020009");
        icmpv4::fill_checksum(&mut message);
        let ip = ipv4::Repr::new(
            Protocol::ICMP,
            [10, 0, 0, 1].into(),
            [10, 1, 0, 9].into(),
            message.len() as u16,
        );
        let mut frame = hex("020000000201 020000000101 0800");
        frame.resize(34, 0);
        ip.emit(&mut frame[14..]);
        frame.extend(message);
        assert!(
            describe(&frame)
                .contains("ICMP time exceeded code 0 | about IPv4 10.1.0.9 > 10.2.0.9 UDP"),
            "{}",
            describe(&frame)
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_frame_is_described_in_one_line(
            which in 0usize..6,
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5),
            cut in any::<prop::sample::Index>(),
            noise in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let mut frame =
                hex([LABELS, INTEGRITY, ENCRYPTED, ESP_IN_UDP, ESP6, PSEUDOWIRE][which]);
            for (at, value) in changes {
                let at = at.index(frame.len());
                frame[at] = value;
            }
            for bytes in [&frame[..], &frame[..cut.index(frame.len())], &noise] {
                let line = describe(bytes);
                prop_assert!(!line.contains('\n') && line.len() < 200 * (MAX_LAYERS + 2));
            }
        }
    }
}
