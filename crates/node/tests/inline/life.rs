//! Resets, failures, changes and crashes of a card: no plaintext, no nonce twice, no
//! packet lost without a count.

use crate::net::{Host, Kept, Net, ethernet, mac, udp4};
use crate::site::{HOST, MARK, PEER, Site, gateway, gateway_with, is_clear, secy};
use ferrule_base::{DropReason, Duration, Instant};
use ferrule_pipeline::BATCH;
use std::collections::HashSet;

fn small_ranges(text: &str) -> String {
    text.replace("lab = true", "lab = true\nreserve = 256")
}

fn text(placement: &str) -> String {
    small_ranges(&gateway(1, placement, "aes-gcm-128", "gcm"))
}

fn packet(len: usize) -> Vec<u8> {
    udp4([10, 1, 0, 9], [10, 2, 0, 9], (7, 9), len, MARK)
}

/// Everything that was on the wire: nothing in clear, no number twice.
#[derive(Default)]
struct Watch {
    numbers: HashSet<(Vec<u8>, [u8; 8])>,
    frames: usize,
    highest: u64,
}

impl Watch {
    fn look(&mut self, frames: &[Vec<u8>]) {
        for frame in frames {
            assert!(!is_clear(frame), "clear on the wire: {frame:02x?}");
            assert_eq!(frame[23], 50, "ESP and nothing else");
            let number: [u8; 8] = frame[42..50].try_into().unwrap();
            self.highest = self.highest.max(u64::from_be_bytes(number));
            let fresh = self.numbers.insert((frame[34..38].to_vec(), number));
            assert!(fresh, "number {number:?} twice");
            self.frames += 1;
        }
    }
}

fn lan_frame(len: usize) -> Vec<u8> {
    ethernet(mac("g1", "lan"), HOST, 0x0800, &packet(len))
}

/// One worker's turn without the control part's.
fn turn(site: &mut Site) {
    site.net.now += Duration::from_micros(50);
    let now = site.net.now;
    site.net.members[site.node].workers[0].turn(now);
}

#[test]
fn inline_card_reset_under_traffic_leaks_nothing_and_repeats_no_number() {
    for late in [false, true] {
        let net = if late { Net::late() } else { Net::new() };
        let mut site = Site::new(net, &text("inline"));
        let mut watch = Watch::default();
        watch.look(&site.send(1, &packet(60)));
        for round in 0..5 {
            for _ in 0..300 {
                site.lan.send(&lan_frame(100));
            }
            turn(&mut site);
            assert_eq!(site.net.members[site.node].control.reset_card(1), Ok(true));
            for _ in 0..10 {
                site.lan.send(&lan_frame(200));
                turn(&mut site);
            }
            let card = site.net.card(site.node);
            assert_eq!((card.state, card.resets), ("empty", round + 1));
            assert!(card.esp_out.is_empty() && card.esp_in.is_empty(), "it forgot its keys");
            watch.look(&site.wan.received());
            site.net.settle();
            watch.look(&site.send(1, &packet(300)));
            assert_eq!(site.net.card(site.node).state, "up", "filled again");
        }
        let refused = site.net.refused(site.node, DropReason::CardDown);
        assert!(refused >= 50, "{refused} dropped while it was empty");
        assert_eq!(watch.frames as u64 + refused, 1 + 5 * 311, "late {late}");
        assert!(watch.highest > 5 * 256, "each time behind what was reserved");
        site.net.assert_conserved();
    }
}

#[test]
fn inline_control_channel_has_reset_tables_and_statistics() {
    let mut site = Site::new(Net::new(), &text("inline"));
    for len in [60, 100, 200] {
        assert_eq!(site.send(1, &packet(len)).len(), 1);
    }
    let clear = ethernet(mac("g1", "wan"), PEER, 0x0800, &packet(70));
    assert!(site.arrive(&clear).is_empty());
    let before = site.net.card(site.node);
    assert_eq!((before.state, before.resets, before.held), ("up", 0, 0));
    assert_eq!((before.esp_out.len(), before.esp_in.len()), (1, 1), "its associations");
    let out = &before.esp_out[0];
    assert_eq!((out.name.as_str(), out.stats.packets, before.work.sealed.packets), ("t", 3, 3));
    assert_eq!(before.drops.total(), 1, "{:?}", before.drops);
    let (node, wire) = (before.crossed.from_node.packets, before.crossed.to_wire.packets);
    assert!(node >= 3 && node == wire, "{:?}", before.crossed);
    // A reset takes tables and keys; the card's counters stay.
    assert_eq!(site.net.members[site.node].control.reset_card(1), Ok(true));
    turn(&mut site);
    let empty = site.net.card(site.node);
    assert_eq!((empty.state, empty.resets), ("empty", 1));
    assert!(empty.esp_out.is_empty() && empty.esp_in.is_empty());
    assert_eq!((empty.work.sealed.packets, empty.drops.total()), (3, 1));
    // And the control part fills it again: tables and associations.
    site.net.settle();
    assert_eq!(site.send(1, &packet(80)).len(), 1);
    let after = site.net.card(site.node);
    assert_eq!((after.state, after.esp_out.len(), after.esp_in.len()), ("up", 1, 1));
    assert_eq!((after.esp_out[0].stats.packets, after.work.sealed.packets), (1, 4));
}

#[test]
fn inline_card_keeps_its_replay_window_across_a_reset() {
    let mut far = Site::new(Net::new(), &gateway(2, "software", "aes-gcm-128", "gcm"));
    let mut sealed = far.send(2, &udp4([10, 2, 0, 9], [10, 1, 0, 9], (7, 9), 90, MARK)).remove(0);
    sealed[..6].copy_from_slice(&mac("g1", "wan").0);
    let mut site = Site::new(Net::new(), &text("inline"));
    assert_eq!(site.arrive(&sealed).len(), 1);
    assert_eq!(site.net.members[site.node].control.reset_card(1), Ok(true));
    site.net.settle();
    assert!(site.arrive(&sealed).is_empty(), "an old packet stays old");
    assert_eq!(site.net.refused(site.node, DropReason::EspReplay), 1);
    site.net.assert_conserved();
}

#[test]
fn inline_card_that_fails_drops_everything_until_it_is_reset_by_itself() {
    let mut site = Site::new(Net::new(), &text("inline"));
    let mut watch = Watch::default();
    watch.look(&site.send(1, &packet(60)));
    assert_eq!(site.net.members[site.node].control.halt_card(1), Ok(true));
    assert!(site.send(1, &packet(70)).is_empty());
    assert_eq!(site.net.card(site.node).state, "halted");
    let clear = ethernet(mac("g1", "wan"), PEER, 0x0800, &packet(70));
    assert!(site.arrive(&clear).is_empty(), "in neither direction");
    site.net.wait(Duration::from_secs(6));
    let said = site.net.members[site.node].control.take_failures();
    assert_eq!(said, ["the card of port wan does not answer: it is reset"]);
    watch.look(&site.send(1, &packet(80)));
    assert_eq!(watch.frames, 2);
    let card = site.net.card(site.node);
    assert_eq!((card.state, card.resets), ("up", 1));
    assert!(card.drops.get(DropReason::CardDown) >= 2);
    site.net.assert_conserved();
}

#[test]
fn inline_numbers_go_on_behind_the_reserved_ones_after_a_crash() {
    let disk = Kept::default();
    let mut watch = Watch::default();
    for _life in 0..3 {
        let mut net = Net::new();
        let node = net.node_on(&text("inline"), Box::new(disk.clone()));
        let mut site = Site::of(net, node);
        for _ in 0..3 {
            let frames = site.send(1, &packet(100));
            watch.look(&frames);
        }
        // Killed: nothing is settled, nothing is said to the store.
    }
    assert_eq!(watch.frames, 9);
    assert!(watch.highest > 512, "{}", watch.highest);
}

#[test]
fn inline_and_software_take_turns_on_one_key_without_a_number_twice() {
    let mut site = Site::new(Net::new(), &text("software"));
    let mut watch = Watch::default();
    for placement in ["software", "inline", "software", "inline"] {
        site.net.apply(site.node, &text(placement));
        // Clear packets of hosts are in every queue while it changes.
        for _ in 0..100 {
            site.lan.send(&lan_frame(150));
        }
        turn(&mut site);
        site.net.settle();
        watch.look(&site.on_wire());
        let frames = site.send(1, &packet(90));
        assert_eq!(frames.len(), 1, "{placement}: {:?}", site.net.card(site.node).drops);
        watch.look(&frames);
    }
    site.net.assert_conserved();
}

const SECOND: &str = r#"
    [[tunnel]]
    name = "second"
    local = "192.0.2.1"
    remote = "192.0.2.2"
    suite = "aes-gcm-128"
    placement = "inline"
    out = { spi = 0x2002, key = "gcm:20" }
    in = { spi = 0x2001, key = "gcm:27" }
    [[policy]]
    interface = "wan"
    action = "protect"
    tunnel = "second"
    local = "10.1.0.0/24"
    remote = "10.2.8.0/24"
"#;

#[test]
fn inline_tables_change_without_loss_of_other_traffic() {
    let more = small_ranges(&gateway_with(1, "inline", "aes-gcm-128", "gcm", "", SECOND));
    let mut site = Site::new(Net::new(), &text("inline"));
    let mut watch = Watch::default();
    watch.look(&site.send(1, &packet(60)));
    let mut sent = 1;
    for change in [&more, &text("inline"), &more, &text("inline")] {
        for _ in 0..50 {
            site.lan.send(&lan_frame(100));
            sent += 1;
        }
        site.net.apply(site.node, change);
        for _ in 0..50 {
            site.lan.send(&lan_frame(100));
            sent += 1;
            turn(&mut site);
        }
        site.net.settle();
        watch.look(&site.on_wire());
        let to_second = udp4([10, 1, 0, 9], [10, 2, 8, 9], (7, 9), 100, MARK);
        let frames = site.send(1, &to_second);
        assert_eq!(frames.len(), usize::from(change == &more), "installed, and removed again");
        let ours = frames.iter().filter(|f| f[34..38] == [0, 0, 0x20, 2]).count();
        assert_eq!(ours, frames.len());
    }
    assert_eq!(watch.frames, sent, "none of the other tunnel's packets was lost");
    assert_eq!(site.net.card(site.node).esp_out.len(), 1);
    site.net.assert_conserved();
}

#[test]
fn inline_card_holds_what_a_full_wire_does_not_take_and_counts_it() {
    let net = Net::new();
    let mut site = Site::new(net, &text("inline"));
    let mut watch = Watch::default();
    watch.look(&site.send(1, &packet(60)));
    // A wire of eight frames that is not emptied.
    let mut wan = site.net.narrow_host(site.node, "wan", 8);
    for _ in 0..200 {
        site.lan.send(&lan_frame(100));
    }
    for _ in 0..20 {
        turn(&mut site);
    }
    let card = site.net.card(site.node);
    assert!((1..=BATCH as u64).contains(&card.held), "a batch at most: {}", card.held);
    let ledger = site.net.ledger(site.node);
    assert!(ledger.balances(), "{ledger:?}");
    assert_eq!(ledger.held, 200 - 8, "{ledger:?}");
    for _ in 0..200 {
        watch.look(&wan.received());
        turn(&mut site);
    }
    watch.look(&wan.received());
    assert_eq!(watch.frames, 201);
    site.net.assert_conserved();
}

#[test]
fn inline_card_goes_with_its_port_and_its_counts_stay() {
    let mut site = Site::new(Net::new(), &text("inline"));
    assert_eq!(site.send(1, &packet(60)).len(), 1);
    assert!(site.send(1, &udp4([10, 1, 0, 9], [10, 2, 9, 9], (7, 9), 100, MARK)).is_empty());
    assert_eq!(site.net.refused(site.node, DropReason::PolicyDiscard), 1);
    let bare = r#"
        [node]
        name = "g1"
        lab = true
        reserve = 256
        [[port]]
        name = "lan"
        driver = "wire"
        [[interface]]
        port = "lan"
        address = ["10.1.0.1/24"]
    "#;
    site.net.apply(site.node, bare);
    site.net.settle();
    assert!(site.net.reports(site.node)[0].cards.is_empty());
    assert_eq!(site.net.dropped(site.node, DropReason::PolicyDiscard), 1, "now the node's");
    site.net.assert_conserved();
    // And comes back with another one, whose numbers are new.
    site.net.apply(site.node, &text("inline"));
    site.wan = site.net.host(site.node, "wan");
    site.net.settle();
    let frames = site.send(1, &packet(60));
    assert_eq!(frames.len(), 1);
    assert!(u64::from_be_bytes(frames[0][42..50].try_into().unwrap()) > 256);
    site.net.assert_conserved();
}

#[test]
fn inline_macsec_card_reset_passes_nothing_in_clear() {
    let secy = secy("ce", PEER, "inline", ("sak:1", "sak:2"));
    let text = format!(
        r#"
        [node]
        name = "ce"
        lab = true
        reserve = 256
        [[port]]
        name = "lan"
        driver = "wire"
        [[port]]
        name = "wan"
        driver = "wire"
        [[bridge]]
        name = "br"
        member = [{{ port = "lan" }}, {{ port = "wan" }}]
        {secy}
        "#
    )
    .replacen("name = \"lan\"\n", "name = \"lan\"\n        mtu = 1468\n", 1);
    let mut site = Site::new(Net::new(), &text);
    let frame = ethernet(PEER, HOST, 0x0800, &packet(100));
    let mut numbers = HashSet::new();
    let mut look = |wan: &mut Host| {
        let frames = wan.received();
        for frame in &frames {
            assert!(frame[12..14] == [0x88, 0xe5] && !is_clear(frame));
            assert!(numbers.insert(frame[16..20].to_vec()), "a packet number twice");
        }
        frames.len()
    };
    for _ in 0..4 {
        site.lan.send(&frame);
        turn(&mut site);
        assert_eq!(site.net.members[site.node].control.reset_card(1), Ok(true));
        site.lan.send(&frame);
        turn(&mut site);
        assert_eq!(look(&mut site.wan), 1);
        site.net.settle();
        site.lan.send(&frame);
        site.net.settle();
        assert_eq!(look(&mut site.wan), 1);
    }
    assert_eq!(site.net.refused(site.node, DropReason::CardDown), 4);
    let clear = ethernet(HOST, PEER, 0x0800, &packet(100));
    assert!(site.arrive(&clear).is_empty());
    assert_eq!(site.net.refused(site.node, DropReason::MacsecUntagged), 1);
    let _ = Instant::ZERO;
    site.net.assert_conserved();
}
