//! The formats of packets: nothing panics, and what was read means the same
//! after it was written and read again.

use ferrule_wire::{
    Malformed, ah as ah_format, arp as arp_format, checksum::Ends, eapol as eapol_format,
    esp as esp_format, ethernet as ethernet_format, flow, foretell, icmpv4 as icmpv4_format,
    icmpv6 as icmpv6_format, ipv4 as ipv4_format, ipv6 as ipv6_format, ipv6ext as ipv6ext_format,
    mkpdu as mkpdu_format, mld as mld_format, mpls as mpls_format, ndp as ndp_format, print,
    pw as pw_format, sectag as sectag_format, tcp as tcp_format, udp as udp_format,
    vlan as vlan_format,
};
use std::fmt::{Debug, Display};
use std::net::{Ipv4Addr, Ipv6Addr};

type Parse<R> = for<'a> fn(&'a [u8]) -> Result<(R, &'a [u8]), Malformed>;

/// Checks that whatever parses means the same after a round trip; `repair` makes checksums good.
fn round_trip<R: PartialEq + Debug + Display>(
    data: &[u8],
    parse: Parse<R>,
    len: fn(&R) -> usize,
    emit: fn(&R, &mut [u8]),
    repair: fn(&mut [u8]),
) {
    // As it came, and with checksums that are right.
    let _ = parse(data);
    let mut bytes = data.to_vec();
    repair(&mut bytes);
    let Ok((repr, payload)) = parse(&bytes) else { return };
    assert!(!repr.to_string().contains('\n'));
    let mut again = vec![0xa5; len(&repr)];
    emit(&repr, &mut again);
    again.extend_from_slice(payload);
    repair(&mut again);
    let (reread, rest) = parse(&again).expect("what was written is valid");
    assert_eq!((reread, rest), (repr, payload));
}

macro_rules! formats {
    ($($(#[$about:meta])* $name:ident $module:ident $repair:expr, $more:expr;)*) => {
        $($(#[$about])*
        pub fn $name(data: &[u8]) {
            use $module::Repr;
            round_trip(data, Repr::parse, Repr::len, Repr::emit, $repair);
            $more(data);
        })*
    };
}

formats! {
    /// Ethernet headers.
    ethernet ethernet_format |_| {}, |_| {};
    /// VLAN tags.
    vlan vlan_format |_| {}, |_| {};
    /// ARP.
    arp arp_format |_| {}, |_| {};
    /// IPv4 headers.
    ipv4 ipv4_format repair_ipv4, ipv4_views;
    /// IPv6 headers.
    ipv6 ipv6_format |_| {}, ipv6_views;
    /// IPv6 extension headers.
    ipv6ext ipv6ext_format |_| {}, walks;
    /// ICMP.
    icmpv4 icmpv4_format repair_icmpv4, quoted;
    /// ICMP for IPv6.
    icmpv6 icmpv6_format |_| {}, icmpv6_sums;
    /// Neighbour discovery.
    ndp ndp_format |_| {}, |_| {};
    /// Listener discovery.
    mld mld_format |_| {}, |_| {};
    /// UDP headers.
    udp udp_format |_| {}, udp_sums;
    /// TCP headers.
    tcp tcp_format |_| {}, tcp_sums;
    /// Label stack entries and stacks.
    mpls mpls_format |_| {}, stacks;
    /// Pseudowire control words.
    pw pw_format |_| {}, channels;
    /// SecTAGs.
    sectag sectag_format |_| {}, |_| {};
    /// EAPOL headers.
    eapol eapol_format |_| {}, |_| {};
    /// MKPDUs.
    mkpdu mkpdu_format |_| {}, |_| {};
    /// ESP headers and trailers.
    esp esp_format |_| {}, trailers;
    /// Authentication headers, and headers of which it covers a part.
    ah ah_format |_| {}, covered;
}

fn repair_ipv4(packet: &mut [u8]) {
    let len = packet.first().map_or(0, |b| usize::from(b & 15) * 4);
    if len >= 20 && len <= packet.len() {
        ipv4_format::fill_checksum(packet);
    }
}

fn ipv4_views(data: &[u8]) {
    let mut packet = data.to_vec();
    repair_ipv4(&mut packet);
    let _ = ipv4_format::is_fragment(&packet);
    let Ok((header, header_len, total)) = ipv4_format::validate(&packet) else {
        assert!(ipv4_format::Repr::parse(&packet).is_err());
        return;
    };
    assert!(header_len <= total && total <= packet.len());
    // One hop less keeps the checksum right.
    let mut next = *header;
    if next.decrement_ttl() {
        next.set_dscp(ferrule_wire::Dscp::masked(46));
        let octets = ferrule_wire::IntoBytes::as_bytes(&next).len();
        packet[..octets].copy_from_slice(ferrule_wire::IntoBytes::as_bytes(&next));
        ipv4_format::validate(&packet).expect("the checksum was kept up");
    }
}

fn ipv6_views(data: &[u8]) {
    let Ok((header, total)) = ipv6_format::validate(data) else { return };
    assert!(total <= data.len());
    let next = header.next();
    walk(next.0, &data[40..total]);
}

fn walk(next: u8, payload: &[u8]) {
    if let Ok(upper) = ipv6ext_format::walk(ferrule_wire::Protocol(next), payload) {
        assert!(upper.offset <= payload.len() && upper.fragment_at <= upper.offset);
    }
}

fn walks(data: &[u8]) {
    let Some((&next, payload)) = data.split_first() else { return };
    walk(next, payload);
}

fn repair_icmpv4(message: &mut [u8]) {
    if message.len() >= icmpv4_format::Header::LEN {
        icmpv4_format::fill_checksum(message);
    }
}

fn quoted(data: &[u8]) {
    if let Ok((repr, _)) = icmpv4_format::Repr::parse_quoted(data) {
        let _ = (repr.is_error(), repr.to_string());
    }
}

const V4: Ends = Ends::V4(Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));
const V6: Ends = Ends::V6(Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);

/// A checksum that was filled in is right, at both kinds of ends.
fn sums(data: &[u8], least: usize, fill: fn(&Ends, &mut [u8]), is_ok: fn(&Ends, &[u8]) -> bool) {
    for ends in [V4, V6] {
        let _ = is_ok(&ends, data);
        if data.len() >= least {
            let mut message = data.to_vec();
            fill(&ends, &mut message);
            assert!(is_ok(&ends, &message));
        }
    }
}

fn icmpv6_sums(data: &[u8]) {
    let least = icmpv6_format::Header::LEN;
    sums(data, least, icmpv6_format::fill_checksum, icmpv6_format::checksum_ok);
}

fn udp_sums(data: &[u8]) {
    sums(data, udp_format::Header::LEN, udp_format::fill_checksum, udp_format::checksum_ok);
}

fn tcp_sums(data: &[u8]) {
    sums(data, tcp_format::Header::LEN, tcp_format::fill_checksum, tcp_format::checksum_ok);
}

fn stacks(data: &[u8]) {
    let Ok((stack, payload)) = mpls_format::Stack::parse(data) else { return };
    let entries = stack.entries();
    assert_eq!(entries.len() * 4 + payload.len(), data.len());
    let (last, above) = entries.split_last().expect("a stack has a bottom");
    assert!(last.bottom && above.iter().all(|e| !e.bottom));
    let octets: Vec<u8> = entries.iter().flat_map(|e| e.encoded()).collect();
    assert!(data.starts_with(&octets));
}

fn channels(data: &[u8]) {
    let channel = pw_format::is_associated_channel(data);
    assert!(!channel || pw_format::Repr::parse(data).is_err());
}

fn trailers(data: &[u8]) {
    if let Ok((len, next)) = esp_format::parse_trailer(data) {
        let mut again = data.to_vec();
        esp_format::emit_trailer(&mut again[len..], next);
        assert_eq!(again, data);
    }
}

/// Headers in front of AH are muted within their octets, or refused; source and
/// protocol stay, and what is muted once stays as it is.
fn covered(data: &[u8]) {
    let mut headers = data.to_vec();
    if foretell::arrived_v4(&mut headers).and_then(|()| foretell::muted_v4(&mut headers)).is_ok() {
        assert_eq!((headers[9], &headers[12..16]), (data[9], &data[12..16]));
    }
    let mut headers = data.to_vec();
    if foretell::arrived_v6(&mut headers).and_then(|()| foretell::muted_v6(&mut headers)).is_ok() {
        assert_eq!((headers[6], &headers[8..24]), (data[6], &data[8..24]));
        let once = headers.clone();
        assert_eq!(foretell::muted_v6(&mut headers), Ok(()));
        assert_eq!(once, headers);
    }
}

/// The description of a frame: one line for any octets.
pub fn describe(data: &[u8]) {
    let line = print::describe(data);
    assert!(!line.contains('\n') && line.len() < 8192, "{line}");
}

/// The flow of a frame: what routers change on the way does not change it.
pub fn flow_hash(data: &[u8]) {
    let hash = flow::flow_hash(data);
    let mut hop = data.to_vec();
    if let Some([0x08, 0x00]) = data.get(12..14)
        && hop.len() >= 34
        && (0x45..=0x4f).contains(&hop[14])
    {
        hop[15] ^= 0xff;
        hop[22] ^= 0xff;
        hop[24] ^= 0xff;
        assert_eq!(hash, flow::flow_hash(&hop), "TOS, TTL and checksum are no part of a flow");
    }
    if let Some([0x86, 0xdd]) = data.get(12..14)
        && hop.len() >= 54
    {
        hop[21] ^= 0xff;
        assert_eq!(hash, flow::flow_hash(&hop), "the hop limit is no part of a flow");
    }
}
