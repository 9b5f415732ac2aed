//! The node above a card is told what is left of the MTU.

use crate::net::{Net, config, ethernet, mac, udp4, udp6};
use crate::site::{HOST, MARK, Site, gateway, gateway_with, secy};
use ferrule_base::DropReason;
use ferrule_overhead::Stack;

const SUITES: [(&str, &str); 4] = [
    ("aes-gcm-128", "gcm"),
    ("chacha20-poly1305", "chacha"),
    ("aes-cbc-128 hmac-sha1-96", "cbc-sha1"),
    ("aes-cbc-128 hmac-sha256-128", "cbc-sha256"),
];

fn calculated(suite: &str, inner: usize) -> usize {
    let stack = Stack::parse(&format!("eth ipv4 0 | esp {suite} tunnel")).unwrap();
    stack.wire_len(14 + inner).unwrap() - 14
}

#[test]
fn inline_tells_the_stack_an_mtu_on_which_icmp_and_overhead_agree() {
    for (suite, key) in SUITES {
        let told = {
            let config = config(&gateway(1, "inline", suite, key));
            let wan = config.interfaces.iter().find(|i| i.name == "wan").unwrap();
            assert_eq!(config.ports[1].mtu, 1500, "the wire is as it was");
            wan.mtu
        };
        assert!(calculated(suite, told) <= 1500, "{suite}: what is told fits");
        assert!(calculated(suite, told + 1) > 1500, "{suite}: and no more would");
        let mut site = Site::new(Net::new(), &gateway(1, "inline", suite, key));
        let packet = |len| {
            let mut packet = udp4([10, 1, 0, 9], [10, 2, 0, 9], (7, 9), len, MARK);
            packet[6] = 0x40; // DF
            packet[10] = packet[10].wrapping_sub(0x40);
            packet
        };
        let largest = site.send(1, &packet(told));
        assert_eq!(largest.len(), 1, "{suite}");
        assert_eq!(largest[0].len(), 14 + calculated(suite, told), "{suite}");
        assert!(site.send(1, &packet(told + 1)).is_empty());
        let errors = site.on_lan();
        let error = errors.iter().find(|f| f[12..14] == [8, 0] && f[34..36] == [3, 4]);
        let error = error.unwrap_or_else(|| panic!("{suite}: fragmentation needed"));
        assert_eq!(u16::from_be_bytes([error[40], error[41]]), told as u16, "{suite}");
        assert!(
            site.send(1, &udp6("2001:db8:1::9", "2001:db8:2::9", (1, 2), told + 1, 1)).is_empty()
        );
        let errors = site.on_lan();
        let error = errors.iter().find(|f| f[12..14] == [0x86, 0xdd] && f[20] == 58 && f[54] == 2);
        let error = error.unwrap_or_else(|| panic!("{suite}: packet too big"));
        assert_eq!(error[58..62], (told as u32).to_be_bytes(), "{suite}");
        // Without DF the stack cuts the packet before the card sees it.
        let pieces = site.send(1, &udp4([10, 1, 0, 9], [10, 2, 0, 9], (7, 9), told + 1, MARK));
        assert_eq!(pieces.len(), 2, "{suite}");
        assert!(pieces.iter().all(|f| f.len() <= 1514), "{suite}");
        assert_eq!(site.net.refused(site.node, DropReason::TooBig), 0, "the card met none");
        site.net.assert_conserved();
    }
}

#[test]
fn inline_and_software_tell_hosts_the_same_mtu() {
    for (suite, key) in SUITES {
        let mut answers = Vec::new();
        for placement in ["software", "inline"] {
            let mut site = Site::new(Net::new(), &gateway(1, placement, suite, key));
            let mut packet = udp4([10, 1, 0, 9], [10, 2, 0, 9], (7, 9), 1499, MARK);
            packet[6] = 0x40;
            packet[10] = packet[10].wrapping_sub(0x40);
            site.lan.send(&ethernet(mac("g1", "lan"), HOST, 0x0800, &packet));
            site.net.settle();
            let _ = site.on_wire();
            site.lan.send(&ethernet(mac("g1", "lan"), HOST, 0x0800, &packet));
            site.net.settle();
            let errors = site.on_lan();
            let error = errors.iter().find(|f| f[12..14] == [8, 0] && f[34..36] == [3, 4]);
            answers.push(error.map(|f| f[40..42].to_vec()));
        }
        assert!(answers[0].is_some(), "{suite}");
        assert_eq!(answers[0], answers[1], "{suite}");
    }
}

#[test]
fn inline_macsec_takes_its_overhead_from_the_mtu_of_the_stack() {
    let secy = secy("g1", crate::site::PEER, "inline", ("sak:1", "sak:2"));
    let config = config(&gateway_with(1, "inline", "aes-gcm-128", "gcm", "", &secy));
    let wan = config.interfaces.iter().find(|i| i.name == "wan").unwrap();
    // SecTAG with SCI and ICV outside of ESP.
    assert!(calculated("aes-gcm-128", wan.mtu) + 32 <= 1500);
    assert!(calculated("aes-gcm-128", wan.mtu + 1) + 32 > 1500);
}
