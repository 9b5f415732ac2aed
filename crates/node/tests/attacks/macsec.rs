//! MACsec under attack (802.1AE clauses 9 and 10.6): a bridge whose outer port has a
//! SecY, and frames that a real SecY made, with a change.

use crate::craft::with;
use crate::net::{Net, ethernet, mac};
use crate::rig::{FAR, HOST, Rig, each};
use ferrule_base::{DropReason, MacAddr};

/// A bridge between a port and one with a SecY.
fn bridge(own: u8, options: &str) -> String {
    let peer = 3 - own;
    let sci = |n: u8| format!("{}/1", mac(&format!("n{n}"), "wan"));
    format!(
        r#"
        [node]
        name = "n{own}"
        lab = true
        [[port]]
        name = "lan"
        driver = "wire"
        [[port]]
        name = "wan"
        driver = "wire"
        mtu = 1532
        [[bridge]]
        name = "br"
        member = [{{ port = "lan" }}, {{ port = "wan" }}]
        [[macsec]]
        port = "wan"
        sci = "{}"
        {options}
        transmit = [{{ key = "sak:{own}", an = 0 }}]
        receive = [{{ sci = "{}", key = "sak:{peer}", an = 0 }}]
        "#,
        sci(own),
        sci(peer),
    )
}

fn secys(options: &'static str) -> impl Fn(Net) -> Rig {
    move |net| Rig::two(net, [1, 2].map(|own| bridge(own, options)))
}

fn clear(len: usize) -> Vec<u8> {
    ethernet(HOST, FAR, 0x88b5, &vec![7; len])
}

/// Offsets of the SecTAG's fields in a frame with an SCI.
const TCI: usize = 14;
const SL: usize = 15;
const PN: usize = 16;
const SCI: usize = 20;

/// The peer's frame with so many octets of data is refused with this change, and passes
/// without.
fn altered_of(
    len: usize,
    options: &'static str,
    reason: DropReason,
    change: impl Fn(&mut Vec<u8>),
) {
    each(secys(options), |rig| {
        let secured = rig.peer_sends_frame(&clear(len));
        assert_eq!(secured[12..14], [0x88, 0xe5]);
        rig.refused("wan", &[with(&secured, &change)], reason);
        rig.passes_frame("wan", &secured, "lan", &clear(len));
        let next = rig.peer_sends_frame(&clear(60));
        rig.passes_frame("wan", &next, "lan", &clear(60));
    });
}

fn altered(reason: DropReason, change: impl Fn(&mut Vec<u8>)) {
    altered_of(100, "", reason, change);
}

#[test]
fn a_clear_frame_at_a_port_with_a_secy_is_refused() {
    each(secys(""), |rig| {
        let tagged = ethernet(HOST, FAR, 0x8100, &[0, 5, 0x88, 0xb5, 7, 7]);
        let arp = ethernet(MacAddr::BROADCAST, FAR, 0x0806, &[0; 28]);
        let eapol = ethernet(MacAddr([1, 0x80, 0xc2, 0, 0, 3]), FAR, 0x888e, &[3, 0, 0, 0]);
        rig.refused("wan", &[clear(100), tagged, arp, eapol], DropReason::MacsecUntagged);
        let secured = rig.peer_sends_frame(&clear(100));
        rig.passes_frame("wan", &secured, "lan", &clear(100));
    });
}

#[test]
fn a_secured_frame_behind_a_vlan_tag_is_taken_for_clear() {
    altered(DropReason::MacsecUntagged, |frame| {
        frame.splice(12..12, [0x81, 0, 0, 5]);
    });
}

#[test]
fn a_sectag_of_another_version_is_bad() {
    altered(DropReason::MacsecBadTag, |frame| frame[TCI] |= 0x80);
}

#[test]
fn a_sectag_that_is_end_station_and_has_an_sci_is_bad() {
    altered(DropReason::MacsecBadTag, |frame| frame[TCI] |= 0x40);
}

#[test]
fn a_sectag_of_broadcast_that_has_an_sci_is_bad() {
    altered(DropReason::MacsecBadTag, |frame| frame[TCI] |= 0x10);
}

#[test]
fn a_sectag_that_is_encrypted_and_not_changed_is_bad() {
    altered(DropReason::MacsecBadTag, |frame| frame[TCI] &= !0x04);
}

#[test]
fn a_sectag_that_is_changed_and_not_encrypted_is_bad() {
    altered(DropReason::MacsecBadTag, |frame| frame[TCI] &= !0x08);
}

#[test]
fn a_short_length_that_lies_is_a_bad_tag() {
    // Of long data: any but zero. Of short data: another one, zero, or above 47.
    altered(DropReason::MacsecBadTag, |frame| frame[SL] = 48);
    altered(DropReason::MacsecBadTag, |frame| frame[SL] = 0x80);
    for sl in [0, 1, 43, 47, 63] {
        altered_of(40, "", DropReason::MacsecBadTag, |frame| frame[SL] = sl);
    }
}

#[test]
fn a_short_length_that_cuts_into_the_data_fails_the_icv() {
    altered(DropReason::MacsecBadIcv, |frame| frame[SL] = 20);
    altered_of(40, "", DropReason::MacsecBadIcv, |frame| frame[SL] -= 1);
}

#[test]
fn a_secured_frame_without_room_for_its_icv_is_a_bad_tag() {
    for len in [14, 15, 19, 27, 28, 43, 44, 45] {
        altered(DropReason::MacsecBadTag, |frame| frame.truncate(len));
    }
}

#[test]
fn packet_number_zero_is_a_bad_tag() {
    altered(DropReason::MacsecBadTag, |frame| frame[PN..PN + 4].fill(0));
}

#[test]
fn an_sci_that_nobody_has_is_unknown() {
    altered(DropReason::MacsecUnknownSci, |frame| frame[SCI + 7] ^= 2);
    altered(DropReason::MacsecUnknownSci, |frame| frame[SCI] ^= 4);
}

#[test]
fn our_own_secured_frames_sent_back_to_us_are_of_an_unknown_sci() {
    each(secys(""), |rig| {
        rig.send("lan", &[ethernet(FAR, HOST, 0x88b5, &[7; 100])]);
        let heard = rig.heard();
        let [("wan", ours)] = &heard[..] else { panic!("{heard:02x?}") };
        rig.refused("wan", std::slice::from_ref(ours), DropReason::MacsecUnknownSci);
        let secured = rig.peer_sends_frame(&clear(100));
        rig.passes_frame("wan", &secured, "lan", &clear(100));
    });
}

#[test]
fn an_association_that_is_not_in_use_is_refused() {
    for an in 1..4 {
        altered(DropReason::MacsecUnusedSa, |frame| frame[TCI] |= an);
    }
}

#[test]
fn a_secured_frame_that_is_sent_again_is_a_replay() {
    for options in ["", "replay = \"standard\"\nwindow = 0"] {
        each(secys(options), |rig| {
            let secured = rig.peer_sends_frame(&clear(100));
            rig.passes_frame("wan", &secured, "lan", &clear(100));
            rig.refused("wan", &vec![secured; 20], DropReason::MacsecReplay);
            let next = rig.peer_sends_frame(&clear(60));
            rig.passes_frame("wan", &next, "lan", &clear(60));
        });
    }
}

#[test]
fn a_forged_packet_number_far_ahead_does_not_move_the_window() {
    for number in [1000_u32, 1 << 31, u32::MAX] {
        altered(DropReason::MacsecBadIcv, |frame| {
            frame[PN..PN + 4].copy_from_slice(&number.to_be_bytes());
        });
    }
}

#[test]
fn a_secured_frame_with_another_address_fails_its_icv() {
    altered(DropReason::MacsecBadIcv, |frame| frame[5] ^= 1);
    altered(DropReason::MacsecBadIcv, |frame| frame[11] ^= 1);
}

#[test]
fn a_secured_frame_with_one_bit_of_data_or_icv_turned_fails_it() {
    altered(DropReason::MacsecBadIcv, |frame| frame[40] ^= 1);
    altered(DropReason::MacsecBadIcv, |frame| *frame.last_mut().unwrap() ^= 1);
    // The data of a frame that is not encrypted can be read, and not changed.
    altered_of(100, "encrypt = false", DropReason::MacsecBadIcv, |frame| frame[40] ^= 1);
}
