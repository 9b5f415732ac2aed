//! ESP as an attacker makes it who has no key: headers that lie, numbers out of the
//! window, text that was altered (RFC 4303 sections 2 and 3.4).

use crate::craft::{self, ESP, with};
use crate::net::mac;
use crate::rig::{
    NODE4, NODE6, PEER4, PEER6, Rig, T4, T6, at_wan, each, hops_later, inner4, inner6, outer4,
    outer6, sealer, site,
};
use ferrule_base::DropReason;

/// Offset of ESP in a packet over IPv4, and over IPv6.
const AT4: usize = 20;
const AT6: usize = 40;

/// Good ESP over IPv4 and over IPv6 of this number, where it begins in the packet, and
/// what comes out of it.
pub fn good(number: u64) -> [(Vec<u8>, usize, Vec<u8>); 2] {
    let four = outer4(ESP, &sealer(T4).tunnel(number, &inner4(1)));
    let six = outer6(ESP, &sealer(T6).tunnel(number, &inner6(2)));
    [(four, AT4, hops_later(&inner4(1), 1)), (six, AT6, hops_later(&inner6(2), 1))]
}

/// Each good packet is refused with this change to it, which is told where ESP begins,
/// and passes without.
fn altered(rig: &mut Rig, reason: DropReason, change: impl Fn(&mut Vec<u8>, usize)) {
    for (good, at, inner) in good(9) {
        let bad = with(&good, |packet| change(packet, at));
        rig.refused("wan", &[at_wan(&bad)], reason);
        rig.passes("wan", &at_wan(&good), "lan", &inner);
    }
    rig.honest_traffic_passes();
}

/// The length that a packet's header says is that of its octets again.
fn measured(packet: &mut Vec<u8>) {
    if packet[0] >> 4 == 4 {
        *packet = craft::v4(packet.clone());
    } else {
        let len = packet.len() as u16 - 40;
        packet[4..6].copy_from_slice(&len.to_be_bytes());
    }
}

#[test]
fn esp_with_spi_zero_has_no_sa() {
    each(site(""), |rig| {
        altered(rig, DropReason::EspUnknownSpi, |packet, at| packet[at..at + 4].fill(0));
    });
}

#[test]
fn esp_with_a_reserved_spi_has_no_sa() {
    each(site(""), |rig| {
        altered(rig, DropReason::EspUnknownSpi, |packet, at| {
            packet[at..at + 4].copy_from_slice(&[0, 0, 0, 255]);
        });
    });
}

#[test]
fn esp_with_an_spi_that_nobody_agreed_on_has_no_sa() {
    each(site(""), |rig| {
        altered(rig, DropReason::EspUnknownSpi, |packet, at| packet[at + 3] ^= 0x40);
    });
}

#[test]
fn esp_with_the_spi_of_our_own_outbound_sa_has_no_sa() {
    // A packet of ours that is sent back to us.
    each(site(""), |rig| {
        altered(rig, DropReason::EspUnknownSpi, |packet, at| packet[at + 3] -= 1);
    });
}

#[test]
fn esp_of_one_tunnel_with_the_spi_of_another_has_no_sa_between_these_addresses() {
    each(site(""), |rig| {
        for (good, at, inner) in good(9) {
            let other = if at == AT4 { T6 } else { T4 } + 2;
            let bad = with(&good, |p| p[at..at + 4].copy_from_slice(&other.to_be_bytes()));
            rig.refused("wan", &[at_wan(&bad)], DropReason::EspUnknownSpi);
            rig.passes("wan", &at_wan(&good), "lan", &inner);
        }
        rig.honest_traffic_passes();
    });
}

#[test]
fn esp_from_an_address_that_is_not_the_peers_has_no_sa() {
    each(site(""), |rig| {
        let [(four, _, out4), (six, _, out6)] = good(9);
        let bad = craft::ip(ESP, "192.0.2.3", NODE4, &four[AT4..]);
        rig.refused("wan", &[at_wan(&bad)], DropReason::EspUnknownSpi);
        let bad = craft::ip(ESP, "2001:db8::3", NODE6, &six[AT6..]);
        rig.refused("wan", &[at_wan(&bad)], DropReason::EspUnknownSpi);
        rig.passes("wan", &at_wan(&four), "lan", &out4);
        rig.passes("wan", &at_wan(&six), "lan", &out6);
        rig.honest_traffic_passes();
    });
}

#[test]
fn esp_to_another_address_of_the_node_has_no_sa() {
    each(site(""), |rig| {
        let [(four, _, out4), (six, _, out6)] = good(9);
        let bad = craft::ip(ESP, PEER4, "10.1.0.1", &four[AT4..]);
        rig.refused("wan", &[at_wan(&bad)], DropReason::EspUnknownSpi);
        let bad = craft::ip(ESP, PEER6, "2001:db8:1::1", &six[AT6..]);
        rig.refused("wan", &[at_wan(&bad)], DropReason::EspUnknownSpi);
        rig.passes("wan", &at_wan(&four), "lan", &out4);
        rig.passes("wan", &at_wan(&six), "lan", &out6);
        rig.honest_traffic_passes();
    });
}

#[test]
fn esp_without_room_for_its_header_is_malformed() {
    each(site(""), |rig| {
        for len in [0, 1, 4, 7] {
            for (good, at, _) in good(9) {
                let bad = with(&good, |packet| {
                    packet.truncate(at + len);
                    measured(packet);
                });
                rig.refused("wan", &[at_wan(&bad)], DropReason::Malformed);
            }
        }
        altered(rig, DropReason::Malformed, |packet, at| {
            packet.truncate(at + 7);
            measured(packet);
        });
    });
}

#[test]
fn esp_shorter_than_iv_icv_and_trailer_is_malformed() {
    each(site(""), |rig| {
        // SPI and number, then less than IV, two octets of trailer and ICV.
        for len in [8, 15, 16, 31, 32, 33] {
            for (good, at, _) in good(9) {
                let bad = with(&good, |packet| {
                    packet.truncate(at + len);
                    measured(packet);
                });
                rig.refused("wan", &[at_wan(&bad)], DropReason::Malformed);
            }
        }
        altered(rig, DropReason::Malformed, |packet, at| {
            packet.truncate(at + 8 + 8 + 16 + 1);
            measured(packet);
        });
    });
}

#[test]
fn esp_with_an_odd_octet_more_is_malformed() {
    each(site(""), |rig| {
        altered(rig, DropReason::Malformed, |packet, _| {
            packet.push(0);
            measured(packet);
        });
    });
}

#[test]
fn esp_that_was_cut_short_on_its_way_fails_its_icv() {
    each(site(""), |rig| {
        altered(rig, DropReason::EspBadIcv, |packet, _| {
            packet.truncate(packet.len() - 4);
            measured(packet);
        });
    });
}

#[test]
fn esp_with_one_bit_of_its_text_turned_fails_its_icv() {
    each(site(""), |rig| {
        altered(rig, DropReason::EspBadIcv, |packet, at| packet[at + 30] ^= 1);
    });
}

#[test]
fn esp_with_one_bit_of_its_iv_turned_fails_its_icv() {
    each(site(""), |rig| {
        altered(rig, DropReason::EspBadIcv, |packet, at| packet[at + 8] ^= 0x80);
    });
}

#[test]
fn esp_with_one_bit_of_its_icv_turned_fails_it() {
    each(site(""), |rig| {
        altered(rig, DropReason::EspBadIcv, |packet, _| *packet.last_mut().unwrap() ^= 1);
    });
}

#[test]
fn esp_with_an_icv_of_zeros_fails_it() {
    each(site(""), |rig| {
        altered(rig, DropReason::EspBadIcv, |packet, _| {
            let len = packet.len();
            packet[len - 16..].fill(0);
        });
    });
}

#[test]
fn esp_with_number_zero_is_a_replay() {
    each(site(""), |rig| {
        altered(rig, DropReason::EspReplay, |packet, at| packet[at + 4..at + 8].fill(0));
    });
}

#[test]
fn esp_that_was_recorded_and_sent_again_is_a_replay() {
    each(site(""), |rig| {
        for (good, _, inner) in good(9) {
            rig.passes("wan", &at_wan(&good), "lan", &inner);
            let copies: Vec<_> = (0..20).map(|_| at_wan(&good)).collect();
            rig.refused("wan", &copies, DropReason::EspReplay);
        }
        for (good, _, inner) in good(10) {
            rig.passes("wan", &at_wan(&good), "lan", &inner);
        }
        rig.honest_traffic_passes();
    });
}

#[test]
fn esp_older_than_the_window_is_a_replay() {
    each(site("window = 64"), |rig| {
        for (late, _, inner) in good(1000) {
            rig.passes("wan", &at_wan(&late), "lan", &inner);
        }
        for (old, _, _) in good(936) {
            rig.refused("wan", &[at_wan(&old)], DropReason::EspReplay);
        }
        for (just_inside, _, inner) in good(937) {
            rig.passes("wan", &at_wan(&just_inside), "lan", &inner);
        }
    });
}

#[test]
fn esp_with_a_forged_number_far_ahead_does_not_move_the_window() {
    each(site("window = 64"), |rig| {
        for (good, at, inner) in good(9) {
            let forged = |number: u32| {
                at_wan(&with(&good, |p| p[at + 4..at + 8].copy_from_slice(&number.to_be_bytes())))
            };
            let numbers = [1000, 1 << 20, 1 << 31, u32::MAX - 1, u32::MAX];
            rig.refused("wan", &numbers.map(forged), DropReason::EspBadIcv);
            rig.passes("wan", &at_wan(&good), "lan", &inner);
        }
        rig.honest_traffic_passes();
    });
}

#[test]
fn esp_behind_the_last_number_of_32_bits_does_not_wrap_to_a_new_round() {
    each(site("window = 64"), |rig| {
        for (last, _, inner) in good(u32::MAX.into()) {
            rig.passes("wan", &at_wan(&last), "lan", &inner);
        }
        // The numbers that would come next, sealed with the right key.
        for number in [1, 2, 63, 64] {
            for (again, _, _) in good(number) {
                rig.refused("wan", &[at_wan(&again)], DropReason::EspReplay);
            }
        }
        for (just_inside, _, inner) in good(u64::from(u32::MAX) - 63) {
            rig.passes("wan", &at_wan(&just_inside), "lan", &inner);
        }
    });
}

#[test]
fn esp_that_claims_the_next_round_of_extended_numbers_fails_its_icv() {
    each(site("window = 64\nesn = true"), |rig| {
        for (spi, v6) in [(T4, false), (T6, true)] {
            let sealer = craft::Sealer { esn: true, ..sealer(spi) };
            let packet = |number: u64, inner: &[u8]| match v6 {
                false => at_wan(&outer4(ESP, &sealer.tunnel(number, inner))),
                true => at_wan(&outer6(ESP, &sealer.tunnel(number, inner))),
            };
            let inner = if v6 { inner6(1) } else { inner4(1) };
            let out = hops_later(&inner, 1);
            rig.passes("wan", &packet(1000, &inner), "lan", &out);
            // Below the window: taken for the next round, for which it was not sealed.
            rig.refused("wan", &[packet(900, &inner)], DropReason::EspBadIcv);
            // Two rounds ahead: the number on the wire is the same as of the first.
            rig.refused("wan", &[packet((2 << 32) + 1001, &inner)], DropReason::EspBadIcv);
            rig.passes("wan", &packet(1001, &inner), "lan", &out);
            rig.passes("wan", &packet((1 << 32) + 900, &inner), "lan", &out);
        }
    });
}

#[test]
fn esp_of_an_sa_that_was_replaced_is_refused_after_the_rekey() {
    each(site(""), |rig| {
        let old = good(9);
        for (good, _, inner) in &old {
            rig.passes("wan", &at_wan(good), "lan", inner);
        }
        let text = crate::rig::gateway(1, &crate::rig::tunnels(1, ""));
        let new = text.replace("spi = 4", "spi = 5");
        assert_ne!(text, new, "new SPIs");
        // The same keys would be refused: nonces of two SAs must not meet.
        let new = (0..50).rev().fold(new, |new, key| {
            new.replace(&format!("\"gcm:{key}\""), &format!("\"gcm:{}\"", key + 100))
        });
        rig.net.apply(0, &new);
        rig.net.settle();
        rig.heard();
        for (good, _, _) in good(10).into_iter().chain(old) {
            rig.refused("wan", &[at_wan(&good)], DropReason::EspUnknownSpi);
        }
        let fresh = |spi: u32| {
            let old = sealer(spi);
            craft::Sealer { spi: old.spi + 1000, key: old.key + 100, ..old }
        };
        let packet = outer4(ESP, &fresh(T4).tunnel(1, &inner4(5)));
        rig.passes("wan", &at_wan(&packet), "lan", &hops_later(&inner4(5), 1));
        let packet = outer6(ESP, &fresh(T6).tunnel(1, &inner6(5)));
        rig.passes("wan", &at_wan(&packet), "lan", &hops_later(&inner6(5), 1));
    });
}

#[test]
fn esp_for_somebody_else_on_the_link_is_not_for_us() {
    each(site(""), |rig| {
        for (good, _, inner) in good(9) {
            let other = craft::frame(mac("n2", "wan"), mac("n1", "wan"), &good);
            rig.refused("wan", &[other], DropReason::NotForUs);
            rig.passes("wan", &at_wan(&good), "lan", &inner);
        }
        rig.honest_traffic_passes();
    });
}
