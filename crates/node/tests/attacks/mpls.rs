//! Labels and pseudowires under attack (RFC 3031, RFC 3032, RFC 4385, RFC 4448).

use crate::craft::{self, UDP, with};
use crate::net::{Net, ethernet, mac};
use crate::rig::{HOST, Rig, each, hops_later};
use ferrule_base::{DropReason, MacAddr};

/// A provider's edge: a pseudowire to a customer, labels that go on, one that ends here.
fn edge(more: &str) -> String {
    format!(
        r#"
        [node]
        name = "n1"
        lab = true
        [[port]]
        name = "ac"
        driver = "wire"
        mtu = 1540
        [[port]]
        name = "core"
        driver = "wire"
        mtu = 1600
        [[port]]
        name = "lan"
        driver = "wire"
        [[interface]]
        port = "core"
        address = ["198.51.100.1/24"]
        mpls = true
        [[interface]]
        port = "lan"
        address = ["10.1.0.1/24"]
        [[lsp]]
        name = "far"
        via = "198.51.100.2"
        labels = [16002]
        [[pseudowire]]
        name = "pw"
        port = "ac"
        lsp = "far"
        label-in = 800000
        label-out = 800257
        {more}
        [[label]]
        label = 16001
        swap = [16003]
        via = "198.51.100.3"
        "#
    )
}

fn provider(more: &'static str) -> impl Fn(Net) -> Rig {
    move |net| {
        let mut rig = Rig::alone(net, &edge(more), &["ac", "core", "lan"]);
        rig.know(0, &[("10.1.0.9", HOST), ("198.51.100.2", HOST), ("198.51.100.3", HOST)]);
        rig.heard();
        rig
    }
}

/// A label stack entry.
fn entry(label: u32, bottom: bool, ttl: u8) -> [u8; 4] {
    (label << 12 | u32::from(bottom) << 8 | u32::from(ttl)).to_be_bytes()
}

fn labelled(stack: &[[u8; 4]], payload: &[u8]) -> Vec<u8> {
    ethernet(mac("n1", "core"), HOST, 0x8847, &[&stack.concat(), payload].concat())
}

/// A customer's frame, and the same in the pseudowire with this control word.
fn frame() -> Vec<u8> {
    ethernet(HOST, MacAddr([2, 0, 0, 0, 0, 9]), 0x88b5, &[7; 60])
}

fn in_pw(word: [u8; 4]) -> Vec<u8> {
    labelled(&[entry(800_000, true, 64)], &[&word[..], &frame()].concat())
}

/// Good frames still pass: labels, and the pseudowire.
fn carries(rig: &mut Rig) {
    let packet = craft::ip(UDP, "10.9.0.9", "10.8.0.9", &craft::udp(7, 9, &[1; 60]));
    let swapped = [&entry(16_003, true, 63)[..], &packet].concat();
    let good = labelled(&[entry(16_001, true, 64)], &packet);
    rig.passes("core", &good, "core", &swapped);
    rig.passes_frame("core", &in_pw([0; 4]), "ac", &frame());
}

#[test]
fn a_label_that_nobody_gave_out_is_unknown() {
    each(provider(""), |rig| {
        let labels = [16, 17, 16_000, 16_003, 800_001, 0xf_ffff];
        let frames = labels.map(|label| labelled(&[entry(label, true, 64)], &frame()));
        rig.refused("core", &frames, DropReason::NoLabel);
        carries(rig);
    });
}

#[test]
fn a_reserved_label_is_refused() {
    each(provider(""), |rig| {
        // Router alert, implicit null, entropy, GAL, and those without a meaning.
        let frames: Vec<_> =
            [1, 3, 4, 7, 13, 14, 15].map(|l| labelled(&[entry(l, true, 64)], &frame())).into();
        rig.refused("core", &frames, DropReason::ReservedLabel);
        carries(rig);
    });
}

#[test]
fn labels_to_a_group_and_labels_of_their_sender_are_not_switched() {
    // RFC 5332 section 3: 8847 to a group, 8848 to any receiver.
    each(provider(""), |rig| {
        let packet = craft::ip(UDP, "10.9.0.9", "10.8.0.9", &craft::udp(7, 9, &[1; 60]));
        let good = labelled(&[entry(16_001, true, 64)], &packet);
        let to = |mac: [u8; 6]| with(&good, |f| f[..6].copy_from_slice(&mac));
        let groups = [to([0xff; 6]), to([1, 0, 0x5e, 0x80, 0, 1])];
        rig.refused("core", &groups, DropReason::NotRouted);
        let upstream = [&good, &groups[0]].map(|f| with(f, |f| f[13] = 0x48));
        rig.refused("core", &upstream, DropReason::UnknownProtocol);
        carries(rig);
    });
}

#[test]
fn a_label_without_a_hop_left_ends_here() {
    each(provider(""), |rig| {
        let frames = [0, 1].map(|ttl| labelled(&[entry(16_001, true, ttl)], &frame()));
        rig.refused("core", &frames, DropReason::TtlExpired);
        let word = [0; 4];
        let frames = [0, 1]
            .map(|ttl| labelled(&[entry(800_000, true, ttl)], &[&word[..], &frame()].concat()));
        rig.refused("core", &frames, DropReason::TtlExpired);
        carries(rig);
    });
}

#[test]
fn a_pseudowires_label_that_is_not_the_bottom_is_a_bad_stack() {
    each(provider(""), |rig| {
        let bad = labelled(&[entry(800_000, false, 64), entry(99, true, 64)], &frame());
        rig.refused("core", &[bad], DropReason::LabelStack);
        carries(rig);
    });
}

#[test]
fn a_stack_without_a_bottom_is_refused_after_a_bounded_number_of_labels() {
    each(provider(""), |rig| {
        // Explicit null over and over, and no bottom.
        let endless = vec![entry(0, false, 64); 300];
        rig.refused("core", &[labelled(&endless, &[])], DropReason::LabelStack);
        let short = vec![entry(0, false, 64); 3];
        rig.refused("core", &[labelled(&short, &[])], DropReason::Malformed);
        carries(rig);
    });
}

#[test]
fn a_label_stack_cut_short_is_malformed() {
    each(provider(""), |rig| {
        for len in [0, 1, 3] {
            let bad = labelled(&[entry(16_001, true, 64)], &[])[..14 + len].to_vec();
            rig.refused("core", &[bad], DropReason::Malformed);
        }
        carries(rig);
    });
}

#[test]
fn what_is_neither_ipv4_nor_ipv6_behind_the_last_label_is_unknown() {
    each(provider(""), |rig| {
        for first in [0x00, 0x10, 0x55, 0xff] {
            let bad = labelled(&[entry(0, true, 64)], &[first; 60]);
            rig.refused("core", &[bad], DropReason::UnknownProtocol);
        }
        // The label says IPv4, and IPv6 follows.
        let six = craft::ip(UDP, "2001:db8::9", "2001:db8:1::9", &craft::udp(7, 9, &[1; 60]));
        rig.refused("core", &[labelled(&[entry(0, true, 64)], &six)], DropReason::UnknownProtocol);
        let four = craft::ip(UDP, "10.9.0.9", "10.1.0.9", &craft::udp(7, 9, &[1; 60]));
        let good = labelled(&[entry(0, true, 64)], &four);
        rig.passes("core", &good, "lan", &hops_later(&four, 1));
        carries(rig);
    });
}

#[test]
fn labels_by_an_interface_that_has_none_are_an_unknown_protocol() {
    each(provider(""), |rig| {
        let packet = craft::ip(UDP, "10.1.0.9", "10.8.0.9", &craft::udp(7, 9, &[1; 60]));
        let inner = [&entry(16_001, true, 64)[..], &packet].concat();
        let bad = ethernet(mac("n1", "lan"), HOST, 0x8847, &inner);
        rig.refused("lan", &[bad], DropReason::UnknownProtocol);
        carries(rig);
    });
}

#[test]
fn a_control_word_of_another_kind_is_refused() {
    each(provider(""), |rig| {
        // The associated channel, IPv4, IPv6, anything.
        let frames = [0x10, 0x45, 0x60, 0xf0].map(|first| in_pw([first, 0, 0, 0]));
        rig.refused("core", &frames, DropReason::ControlWord);
        carries(rig);
    });
}

#[test]
fn a_pseudowires_frame_without_room_for_ethernet_is_malformed() {
    each(provider(""), |rig| {
        for len in [0, 3, 4, 17] {
            let bad = labelled(&[entry(800_000, true, 64)], &vec![0; len]);
            rig.refused("core", &[bad], DropReason::Malformed);
        }
        carries(rig);
    });
}

#[test]
fn a_pseudowires_frame_that_is_sent_again_is_out_of_sequence() {
    each(provider("sequencing = true"), |rig| {
        for n in 1..=9 {
            rig.passes_frame("core", &in_pw([0, 0, 0, n]), "ac", &frame());
        }
        let old: Vec<_> = (1..=9).map(|n| in_pw([0, 0, 0, n])).collect();
        rig.refused("core", &old, DropReason::PwSequence);
        rig.passes_frame("core", &in_pw([0, 0, 0, 10]), "ac", &frame());
    });
}

#[test]
fn a_frame_without_a_tag_where_a_pseudowire_is_tagged_is_refused() {
    each(provider("mode = \"tagged\"\ntag = 9"), |rig| {
        rig.refused("core", &[in_pw([0; 4])], DropReason::PwTag);
        let tagged = [&frame()[..12], &[0x81, 0, 0, 9], &frame()[12..]].concat();
        let word = [&[0; 4][..], &tagged].concat();
        let good = labelled(&[entry(800_000, true, 64)], &word);
        rig.passes_frame("core", &good, "ac", &frame());
    });
}

/// The provider's edge with a list at the circuit: from and to it go what is EtherType 88b5 of
/// this customer, and UDP to port 9, in no VLAN but 7.
fn listed(more: &str) -> impl Fn(Net) -> Rig + '_ {
    move |net| {
        let lists = r#"
        acl-in = "circuit"
        acl-out = "circuit"
        [[access-list]]
        name = "circuit"
        entry = [
            { action = "deny", mac-from = "02:00:5e:00:00:00/24" },
            { action = "permit", ethertype = 0x88b5, vlan = 0 },
            { action = "permit", ethertype = 0x88b5, vlan = 7 },
            { action = "permit", protocol = "udp", to-ports = 9 },
        ]
        "#;
        let mut rig = Rig::alone(net, &edge(&format!("{more}{lists}")), &["ac", "core", "lan"]);
        rig.know(0, &[("10.1.0.9", HOST), ("198.51.100.2", HOST), ("198.51.100.3", HOST)]);
        rig.heard();
        rig
    }
}

#[test]
fn frames_that_a_circuits_list_denies_pass_in_neither_direction() {
    let customer = MacAddr([2, 0, 0, 0, 0, 9]);
    let tag = |vid: u8, ethertype: u16, payload: &[u8]| {
        let tagged = [&[0, vid][..], &ethertype.to_be_bytes(), payload].concat();
        ethernet(HOST, customer, 0x8100, &tagged)
    };
    let udp = |to| craft::ip(UDP, "10.9.0.9", "10.8.0.9", &craft::udp(7, to, &[1; 60]));
    let denied = [
        ethernet(HOST, MacAddr([2, 0, 0x5e, 0, 0, 9]), 0x88b5, &[7; 60]),
        ethernet(HOST, customer, 0x0806, &[7; 60]),
        ethernet(HOST, customer, 0x0800, &udp(10)),
        tag(8, 0x88b5, &[7; 60]),
        tag(8, 0x0800, &udp(10)),
    ];
    let permitted = [
        frame(),
        tag(7, 0x88b5, &[7; 60]),
        ethernet(HOST, customer, 0x0800, &udp(9)),
        tag(8, 0x0800, &udp(9)),
    ];
    let within =
        |frame: &Vec<u8>| labelled(&[entry(800_000, true, 64)], &[&[0; 4][..], frame].concat());
    each(listed(""), |rig| {
        rig.refused("ac", &denied, DropReason::AclDenied);
        rig.refused("core", &denied.each_ref().map(within), DropReason::AclDenied);
        for frame in &permitted {
            let out = [entry(16_002, false, 255), entry(800_257, true, 255), [0; 4]].concat();
            rig.passes("ac", frame, "core", &[&out[..], frame].concat());
            rig.passes_frame("core", &within(frame), "ac", frame);
        }
        // Octets that only begin like a packet match no entry.
        let bad = ethernet(HOST, customer, 0x0800, &udp(9)[..12]);
        rig.refused("ac", &[bad], DropReason::Malformed);
        carries(rig);
    });
}

/// In tagged mode, and at a VLAN of the port, the circuit's tag is not the customer's.
#[test]
fn the_tag_of_a_circuit_is_no_vlan_of_its_list() {
    let customer = MacAddr([2, 0, 0, 0, 0, 9]);
    let frame = |tags: &[u8]| {
        let mut out = [HOST.0, customer.0].concat();
        tags.iter().for_each(|&vid| out.extend([0x81, 0, 0, vid]));
        out.extend([0x88, 0xb5]);
        out.extend([7; 60]);
        out
    };
    for mode in ["raw", "tagged"] {
        each(listed(&format!("vlan = 8\nmode = \"{mode}\"\n")), |rig| {
            let word = [0; 4];
            let sent = |tags: &[u8]| {
                let carried = if mode == "raw" { frame(&tags[1..]) } else { frame(tags) };
                let stack = [entry(16_002, false, 255), entry(800_257, true, 255), word].concat();
                [stack, carried].concat()
            };
            let back = |tags: &[u8]| {
                let carried = if mode == "raw" { frame(&tags[1..]) } else { frame(tags) };
                labelled(&[entry(800_000, true, 64)], &[&word[..], &carried].concat())
            };
            for good in [&[8][..], &[8, 7]] {
                rig.passes("ac", &frame(good), "core", &sent(good));
                rig.passes_frame("core", &back(good), "ac", &frame(good));
            }
            rig.refused("ac", &[frame(&[8, 9])], DropReason::AclDenied);
            rig.refused("core", &[back(&[8, 9])], DropReason::AclDenied);
        });
    }
}

/// 802.1ad: a circuit of both tags. In raw mode the pseudowire carries neither, in tagged mode
/// the inner one, with the VLAN ID that is agreed.
#[test]
fn frames_of_another_inner_vlan_belong_to_no_circuit() {
    let customer = MacAddr([2, 0, 0, 0, 0, 9]);
    let frame = |tags: &[(u16, u8)]| {
        let mut out = [HOST.0, customer.0].concat();
        tags.iter().for_each(|&(tpid, vid)| {
            out.extend(tpid.to_be_bytes());
            out.extend([0, vid]);
        });
        out.extend([0x88, 0xb5]);
        out.extend([7; 60]);
        out
    };
    let (outer, inner) = ((0x88a8, 8), (0x8100, 9));
    for (mode, carried) in [("raw", vec![]), ("tagged", vec![(0x8100, 11)])] {
        let more = format!("service-vlan = 8\nvlan = 9\nmode = \"{mode}\"\ntag = 11\n");
        let rig = |net| {
            let mut rig = Rig::alone(net, &edge(&more), &["ac", "core", "lan"]);
            rig.know(0, &[("198.51.100.2", HOST), ("198.51.100.3", HOST)]);
            rig.heard();
            rig
        };
        each(rig, |rig| {
            let stack = [entry(16_002, false, 255), entry(800_257, true, 255), [0; 4]].concat();
            for more in [&[][..], &[(0x8100, 7)]] {
                let good = frame(&[&[outer, inner], more].concat());
                let in_pw = frame(&[&carried[..], more].concat());
                rig.passes("ac", &good, "core", &[&stack[..], &in_pw].concat());
                let back = [&[0; 4][..], &in_pw].concat();
                let back = labelled(&[entry(800_000, true, 64)], &back);
                rig.passes_frame("core", &back, "ac", &good);
            }
            let others: [&[(u16, u8)]; 5] = [
                &[outer],
                &[outer, (0x8100, 10)],
                &[inner],
                &[(0x88a8, 9), inner],
                &[outer, outer],
            ];
            rig.refused("ac", &others.map(frame), DropReason::UnknownVlan);
        });
    }
}
