//! Fields of IP headers as the receiver will see them, computed by the sender: the octets
//! that AH covers (RFC 4302 section 3.3.3 and appendix A).
//!
//! ```text
//!   header       immutable      as it is
//!                mutable        zero: class, TTL, flags, fragment offset, checksum,
//!                               flow label; options that routers change
//!                foretold       as it will arrive: the destination where a source
//!                               route or routing header changes it on the way
//! ```
//! A sender calls `arrived_*` first, then both ends `muted_*`; each changes the
//! header in place, so its caller keeps a copy.

use crate::Malformed;
use crate::ip::Protocol;
use crate::{ipv4, ipv6};

/// IPv4 options that no router changes: security, extended security, commercial
/// security, router alert, sender-directed delivery (RFC 4302 appendix A1).
const IMMUTABLE: [u8; 5] = [130, 133, 134, 148, 149];

/// Loose and strict source routes.
const SOURCE_ROUTES: [u8; 2] = [131, 137];

/// Set in the type of an IPv6 option whose data may change on the way (RFC 8200
/// section 4.2).
const MAY_CHANGE: u8 = 0x20;

/// Routing headers whose effect on the destination is known: RFC 8200's first, and
/// that of mobile nodes.
const ROUTING_KINDS: [u8; 2] = [0, 2];

/// One IPv4 option that has a length: its type, and where it stands in the header.
struct Option4 {
    kind: u8,
    start: usize,
    end: usize,
}

/// The option at `at` or the first behind the padding there.
fn option4(header: &[u8], mut at: usize) -> Result<Option<Option4>, Malformed> {
    loop {
        match header.get(at) {
            None | Some(0) => return Ok(None),
            Some(1) => at += 1,
            Some(&kind) => {
                let len = header.get(at + 1).map_or(0, |&len| usize::from(len));
                let end = at + len;
                if len < 2 || end > header.len() {
                    return Err(Malformed::Length);
                }
                return Ok(Some(Option4 { kind, start: at, end }));
            }
        }
    }
}

/// Puts the last hop of a source route that is not at its end into the destination
/// (RFC 791 section 3.1). `header` is a whole IPv4 header.
pub fn arrived_v4(header: &mut [u8]) -> Result<(), Malformed> {
    let mut at = ipv4::Header::LEN;
    while let Some(option) = option4(header, at)? {
        at = option.end;
        if !SOURCE_ROUTES.contains(&option.kind) {
            continue;
        }
        let data = header.get(option.start..option.end).unwrap_or_default();
        // The pointer counts from one and names the next hop.
        let &[_, len, pointer, ..] = data else { return Err(Malformed::Length) };
        if len < 3 || len % 4 != 3 || pointer < 4 {
            return Err(Malformed::Length);
        }
        if pointer < len {
            let last = *data.last_chunk::<4>().ok_or(Malformed::Length)?;
            let to = header.get_mut(16..20).ok_or(Malformed::Truncated)?;
            to.copy_from_slice(&last);
        }
    }
    Ok(())
}

/// Zeroes the fields that routers may change in a whole IPv4 header.
pub fn muted_v4(header: &mut [u8]) -> Result<(), Malformed> {
    let fixed: &mut [u8; ipv4::Header::LEN] =
        header.first_chunk_mut().ok_or(Malformed::Truncated)?;
    // TOS; flags and offset, TTL; checksum.
    fixed[1] = 0;
    fixed[6..9].fill(0);
    fixed[10..12].fill(0);
    let mut at = ipv4::Header::LEN;
    while let Some(option) = option4(header, at)? {
        at = option.end;
        if !IMMUTABLE.contains(&option.kind) {
            header.get_mut(option.start..option.end).unwrap_or_default().fill(0);
        }
    }
    Ok(())
}

/// Calls `each` with the extension headers in `headers`, which start with the IPv6
/// header and end in front of AH.
fn each_extension(
    headers: &mut [u8],
    mut each: impl FnMut(Protocol, &mut [u8], &mut [u8]) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let (fixed, mut rest) =
        headers.split_at_mut_checked(ipv6::Header::LEN).ok_or(Malformed::Truncated)?;
    let mut next = Protocol(fixed[6]);
    while let &mut [following, len, ..] = rest {
        let len = (usize::from(len) + 1) * 8;
        let (this, behind) = rest.split_at_mut_checked(len).ok_or(Malformed::Truncated)?;
        each(next, fixed, this)?;
        (next, rest) = (Protocol(following), behind);
    }
    if rest.is_empty() { Ok(()) } else { Err(Malformed::Truncated) }
}

/// Goes the rest of the way of every routing header. `headers` are an IPv6 header
/// and the extension headers in front of AH.
pub fn arrived_v6(headers: &mut [u8]) -> Result<(), Malformed> {
    each_extension(headers, |protocol, fixed, this| {
        if protocol != Protocol::ROUTING {
            return Ok(());
        }
        let &mut [_, len, kind, left, ..] = this else { return Err(Malformed::Truncated) };
        if left == 0 {
            return Ok(());
        }
        if !ROUTING_KINDS.contains(&kind) {
            return Err(Malformed::HeaderChain);
        }
        // Two units of eight octets for each address.
        let (count, left) = (usize::from(len) / 2, usize::from(left));
        if len % 2 != 0 || left > count {
            return Err(Malformed::Length);
        }
        this[3] = 0;
        let to = fixed.get_mut(24..40).ok_or(Malformed::Truncated)?;
        for hop in count - left..count {
            let at = this.get_mut(8 + 16 * hop..24 + 16 * hop).ok_or(Malformed::Length)?;
            to.swap_with_slice(at);
        }
        Ok(())
    })
}

/// Zeroes the fields that routers may change in an IPv6 header and the extension headers in
/// front of AH.
pub fn muted_v6(headers: &mut [u8]) -> Result<(), Malformed> {
    let fixed: &mut [u8; ipv6::Header::LEN] =
        headers.first_chunk_mut().ok_or(Malformed::Truncated)?;
    // Class and flow label; hop limit.
    fixed[..4].copy_from_slice(&[0x60, 0, 0, 0]);
    fixed[7] = 0;
    each_extension(headers, |protocol, _, this| match protocol {
        Protocol::HOP_BY_HOP | Protocol::DESTINATION => muted_options(this),
        Protocol::ROUTING => Ok(()),
        _ => Err(Malformed::HeaderChain),
    })
}

/// Zeroes the data of options that may change. Type and length stay.
fn muted_options(header: &mut [u8]) -> Result<(), Malformed> {
    let mut at = 2;
    while let Some(&kind) = header.get(at) {
        // Pad1 alone has no length.
        if kind == 0 {
            at += 1;
            continue;
        }
        let len = header.get(at + 1).ok_or(Malformed::Length)?;
        let data = at + 2..at + 2 + usize::from(*len);
        at = data.end;
        let data = header.get_mut(data).ok_or(Malformed::Length)?;
        if kind & MAY_CHANGE != 0 {
            data.fill(0);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::hex;
    use proptest::prelude::*;

    fn muted4(text: &str) -> Vec<u8> {
        let mut header = hex(text);
        muted_v4(&mut header).unwrap();
        header
    }

    #[test]
    fn ipv4_fields_that_routers_change_are_zeroed_and_no_others() {
        let muted = muted4("45b90054 1234e005 3f33abcd 0a010009 0a020009");
        assert_eq!(muted, hex("45000054 12340000 00330000 0a010009 0a020009"));
    }

    #[test]
    fn ipv4_options_that_may_change_are_zeroed_whole() {
        // No operation, record route, router alert, end; then padding that stays.
        let muted = muted4(
            "4a000054 12340000 4033abcd 0a010009 0a020009 01 070704 0a000001 94040000 00 aa bb cc 0102 0304",
        );
        let want = hex(
            "4a000054 12340000 00330000 0a010009 0a020009 01 000000 00000000 94040000 00 aa bb cc 0102 0304",
        );
        assert_eq!(muted, want);
        for bad in ["0701", "0700", "0709", "07"] {
            let mut header =
                [hex("46000054 12340000 4033abcd 0a010009 0a020009"), hex(bad)].concat();
            assert_eq!(muted_v4(&mut header), Err(Malformed::Length), "{bad}");
        }
    }

    #[test]
    fn ipv4_source_routes_foretell_the_last_hop() {
        let front = "48000054 12340000 4033abcd 0a010009 0a0000fe";
        let arrived = |option: &str| {
            let mut header = [hex(front), hex(option)].concat();
            arrived_v4(&mut header).map(|()| header[16..20].to_vec())
        };
        assert_eq!(arrived("830b04 0a000001 0a020009 00"), Ok(hex("0a020009")));
        assert_eq!(arrived("01890b08 0a000001 0a020009"), Ok(hex("0a020009")));
        // At its end: the destination is where it is.
        assert_eq!(arrived("830b0c 0a000001 0a020009 00"), Ok(hex("0a0000fe")));
        assert_eq!(arrived("830a04 0a000001 0a0200 0000"), Err(Malformed::Length));
        assert_eq!(arrived("830b00 0a000001 0a020009 00"), Err(Malformed::Length));
    }

    /// An IPv6 header with this next header, and these extension headers behind it.
    fn v6(next: &str, extensions: &str) -> Vec<u8> {
        let front = format!("6fb12345 0040 {next} 3f 20010db8000000000000000000000001");
        hex(&format!("{front} 20010db80000000000000000000000fe {extensions}"))
    }

    #[test]
    fn ipv6_fields_and_options_that_routers_change_are_zeroed() {
        // Hop-by-hop: an option that changes, one that does not, Pad1, PadN.
        let mut headers = v6("00", "3c01 3e02aabb 0502ccdd 00 0100 00 0000");
        let mut want = headers.clone();
        want[..4].copy_from_slice(&hex("60000000"));
        want[7] = 0;
        want[44..46].fill(0);
        muted_v6(&mut headers).unwrap();
        assert_eq!(headers, want);
        for bad in ["3c00 3e05aabbccdd", "3c00 0000000000 3e", "3c01 3e02aabb 0502", "3c"] {
            assert!(muted_v6(&mut v6("3c", bad)).is_err(), "{bad}");
        }
        assert_eq!(muted_v6(&mut v6("2c", "3300000012345678")), Err(Malformed::HeaderChain));
    }

    #[test]
    fn ipv6_routing_headers_foretell_where_the_packet_arrives() {
        let (a, b) = ("20010db8 00000000 00000000 0000000a", "20010db8 00000000 00000000 0000000b");
        let via = "20010db8 00000000 00000000 000000fe";
        let mut headers = v6("2b", &format!("33040002 00000000 {a} {b}"));
        arrived_v6(&mut headers).unwrap();
        assert_eq!(headers[24..40], hex(b));
        assert_eq!(headers[40..], hex(&format!("33040000 00000000 {via} {a}")));
        // One hop was gone before.
        let mut headers = v6("2b", &format!("33040001 00000000 {a} {b}"));
        arrived_v6(&mut headers).unwrap();
        assert_eq!(headers[24..40], hex(b));
        assert_eq!(headers[40..], hex(&format!("33040000 00000000 {a} {via}")));
        for (bad, why) in [
            ("33040003 00000000", Malformed::Length),
            ("33030001 00000000", Malformed::Length),
            ("33040401 00000000", Malformed::HeaderChain),
        ] {
            let mut headers = v6("2b", &format!("{bad} {a} {b}"));
            if bad.starts_with("3303") {
                headers.truncate(40 + 32);
            }
            assert_eq!(arrived_v6(&mut headers), Err(why), "{bad}");
        }
    }

    /// One hop of the path, as in RFC 8200 section 4.4. A sender's prediction must equal
    /// the receiver's view after any number of hops.
    fn one_hop(headers: &mut [u8]) {
        let left = usize::from(headers[43]);
        let count = usize::from(headers[41]) / 2;
        let hop = 48 + 16 * (count - left);
        for i in 0..16 {
            headers.swap(24 + i, hop + i);
        }
        headers[43] -= 1;
        headers[7] -= 1;
        headers[1] ^= 0x30;
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn what_is_foretold_of_a_routing_header_arrives(
            count in 1usize..6, gone in 0usize..6, octets in proptest::collection::vec(any::<u8>(), 96),
        ) {
            let gone = gone.min(count);
            let mut sent = v6("2b", "");
            sent.extend([51, (2 * count) as u8, 0, (count - gone) as u8, 0, 0, 0, 0]);
            sent.extend(&octets[..16 * count]);
            let mut arriving = sent.clone();
            for _ in gone..count {
                one_hop(&mut arriving);
            }
            arrived_v6(&mut sent).unwrap();
            muted_v6(&mut sent).unwrap();
            muted_v6(&mut arriving).unwrap();
            prop_assert_eq!(sent, arriving);
        }

        #[test]
        fn any_headers_are_muted_within_their_octets_or_refused(
            octets in proptest::collection::vec(prop_oneof![0u8..8, 40u8..62, 128u8..150, any::<u8>()], 0..120),
        ) {
            let mut once = octets.clone();
            if arrived_v4(&mut once).is_ok() && muted_v4(&mut once).is_ok() {
                // Fields that are zero already stay; no length changes.
                prop_assert_eq!(once.len(), octets.len());
            }
            let mut once = octets.clone();
            if arrived_v6(&mut once).is_ok() && muted_v6(&mut once).is_ok() {
                let mut again = once.clone();
                prop_assert!(arrived_v6(&mut again).is_ok() && muted_v6(&mut again).is_ok());
                prop_assert_eq!(once, again);
            }
        }
    }
}
