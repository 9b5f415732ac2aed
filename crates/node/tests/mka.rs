//! Nodes whose SecYs are keyed by MKA, on wires and on a LAN.

mod net;

use ferrule_base::{DropReason, Duration, MacAddr};
use ferrule_control::mka::PortState;
use ferrule_control::mka::view::View;
use net::{Host, Net, ethernet, mac};

/// A switch between a host and a protected port.
fn switch(name: &str, cipher: &str, mka: &str) -> String {
    format!(
        "[node]\nname = \"{name}\"\nlab = true\n\
         [[port]]\nname = \"lan\"\ndriver = \"wire\"\n\
         [[port]]\nname = \"wan\"\ndriver = \"wire\"\nmtu = 1600\n\
         [[bridge]]\nname = \"br\"\nmember = [{{ port = \"lan\" }}, {{ port = \"wan\" }}]\n\
         [[macsec]]\nport = \"wan\"\ncipher = \"{cipher}\"\n{mka}\n"
    )
}

fn keyed(name: &str, priority: u8, more: &str, caks: &[(&str, &str)]) -> String {
    let caks: Vec<String> =
        caks.iter().map(|(ckn, key)| format!("{{ ckn = \"{ckn}\", key = \"{key}\" }}")).collect();
    let caks = caks.join(", ");
    let mka = format!("mka = {{ priority = {priority}, {more}cak = [{caks}] }}");
    switch(name, "gcm-aes-128", &mka)
}

const CAK: &[(&str, &str)] = &[("0011", "cak:1")];

/// A group that bridges hand on.
const GROUP: &str = "destination = \"01:00:5e:90:00:01\", ";

fn view(net: &Net, node: usize) -> View {
    let (port, view) = net.members[node].control.mka().pop().expect("a keyed port");
    assert_eq!(port, "wan");
    view
}

fn is_secured(net: &Net, node: usize) -> bool {
    let view = view(net, node);
    view.port == PortState::Secured && view.trouble().is_none()
}

/// Until all are secured; how long that took.
fn secure(net: &mut Net, nodes: &[usize]) -> Duration {
    let begin = net.now;
    for _ in 0..200 {
        net.wait(Duration::from_millis(100));
        if nodes.iter().all(|&node| is_secured(net, node)) {
            return net.now.since(begin);
        }
    }
    let why: Vec<_> = nodes.iter().map(|&node| view(net, node).trouble()).collect();
    panic!("not secured: {why:?}");
}

/// A frame between two hosts of its own number.
fn frame(number: u64, from: u8, to: u8) -> Vec<u8> {
    let address = |host| MacAddr([2, 0, 0, 0, 9, host]);
    let mut payload = number.to_be_bytes().to_vec();
    payload.resize(80, 0x5a);
    ethernet(address(to), address(from), 0x88b5, &payload)
}

struct Pair {
    net: Net,
    a: Host,
    b: Host,
}

impl Pair {
    fn new(a: &str, b: &str) -> Self {
        let mut net = Net::new();
        net.node(a);
        net.node(b);
        net.join((0, "wan"), (1, "wan"));
        let (a, b) = (net.host(0, "lan"), net.host(1, "lan"));
        Self { net, a, b }
    }

    /// Frames that pass of those sent both ways, one a millisecond, for so long; how many, and
    /// how many arrived.
    fn traffic(&mut self, time: Duration) -> (usize, usize) {
        let (end, mut sent, mut arrived) = (self.net.now + time, 0, 0);
        while self.net.now < end {
            sent += 2;
            self.a.send(&frame(sent as u64, 1, 2));
            self.b.send(&frame(sent as u64, 2, 1));
            self.net.wait(Duration::from_millis(1));
            arrived += self.a.received().len() + self.b.received().len();
        }
        (sent, arrived)
    }
}

#[test]
fn two_nodes_agree_and_rekey_without_losing_a_frame() {
    for suite in ["gcm-aes-128", "gcm-aes-256", "gcm-aes-xpn-128", "gcm-aes-xpn-256"] {
        let a = keyed("a", 16, "rekey = 10, ", CAK).replace("gcm-aes-128", suite);
        let mut pair = Pair::new(&a, &keyed("b", 32, "", CAK));
        // Nothing passes in clear before.
        pair.a.send(&frame(0, 1, 2));
        pair.net.settle();
        assert!(pair.b.received().is_empty());
        assert_eq!(pair.net.dropped(0, DropReason::MacsecNoTxSa), 1);
        let took = secure(&mut pair.net, &[0, 1]);
        assert!(took <= Duration::from_secs(7), "{took:?}");
        let first = view(&pair.net, 1).saks[0].key;
        let (sent, arrived) = pair.traffic(Duration::from_secs(35));
        assert_eq!(sent, arrived, "{suite}");
        let last = view(&pair.net, 1).saks[0].key;
        assert_eq!((first.mi, first.kn + 3), (last.mi, last.kn));
        assert_eq!(view(&pair.net, 0).server, Some(ferrule_wire::Sci::new(mac("a", "wan"), 1)));
        pair.net.assert_conserved();
        let reports = pair.net.reports(1);
        let stats = reports[0].secy_in[0].1.stats;
        assert_eq!((stats.in_ok, stats.in_no_tag), (sent as u64 / 2, 0), "{stats:?}");
    }
}

#[test]
fn a_wrong_cak_or_ckn_passes_nothing_and_says_why() {
    let other: &[(&str, &str)] = &[("0011", "cak:2")];
    let unknown: &[(&str, &str)] = &[("0022", "cak:1")];
    for (b, why) in [(other, "another CAK by the same CKN"), (unknown, "another CKN")] {
        let mut pair = Pair::new(&keyed("a", 16, "", CAK), &keyed("b", 16, "", b));
        pair.net.wait(Duration::from_secs(8));
        let view = view(&pair.net, 0);
        assert_eq!(view.port, PortState::Blocked);
        assert!(view.trouble().is_some_and(|said| said.contains(why)), "{:?}", view.trouble());
        assert_eq!(pair.traffic(Duration::from_millis(20)).1, 0);
        assert!(pair.net.dropped(0, DropReason::MkaRefused) >= 3);
    }
}

#[test]
fn should_secure_passes_in_clear_until_there_is_a_peer() {
    let text = keyed("a", 16, "should-secure = true, ", CAK);
    let mut pair = Pair::new(&text, &switch("b", "gcm-aes-128", ""));
    // The other side has no MKA yet; it neither protects nor validates.
    pair.net.apply(1, &switch("b", "gcm-aes-128", "protect = false\nvalidate = \"disabled\""));
    pair.net.wait(Duration::from_millis(50));
    let (sent, arrived) = pair.traffic(Duration::from_millis(50));
    assert_eq!((sent, view(&pair.net, 0).port), (arrived, PortState::Clear));
    pair.net.apply(1, &keyed("b", 32, "should-secure = true, ", CAK));
    secure(&mut pair.net, &[0, 1]);
    let (sent, arrived) = pair.traffic(Duration::from_millis(50));
    assert_eq!(sent, arrived);
    pair.a.send(&frame(1, 1, 2));
    pair.net.settle();
    let stats = pair.net.reports(1)[0].secy_in[0].1.stats;
    assert_eq!(stats.in_ok, sent as u64 / 2 + 1, "all under the SAK");
}

#[test]
fn a_cak_follows_another_by_apply_without_losing_a_frame() {
    let mut pair = Pair::new(&keyed("a", 16, "", CAK), &keyed("b", 32, "", CAK));
    secure(&mut pair.net, &[0, 1]);
    let both: &[(&str, &str)] = &[("0011", "cak:1"), ("0022", "cak:2")];
    let new: &[(&str, &str)] = &[("0022", "cak:2")];
    let (mut sent, mut arrived) = (0, 0);
    for (node, caks) in [(0, both), (1, both), (0, new), (1, new)] {
        let (name, priority) = [("a", 16), ("b", 32)][node];
        pair.net.apply(node, &keyed(name, priority, "", caks));
        let passed = pair.traffic(Duration::from_secs(15));
        (sent, arrived) = (sent + passed.0, arrived + passed.1);
        assert!(is_secured(&pair.net, 0) && is_secured(&pair.net, 1), "{node} {caks:?}");
    }
    assert_eq!(sent, arrived);
    assert_eq!(view(&pair.net, 0).peers[0].ckn.to_string(), "0022");
    pair.net.assert_conserved();
}

#[test]
fn static_saks_give_way_to_mka_and_back() {
    let of = |name: &str, own: u8, peer: &str| {
        let peer = mac(peer, "wan");
        let sas = format!(
            "transmit = [{{ an = 0, key = \"sak:{own}\" }}]\n\
             receive = [{{ an = 0, key = \"sak:{}\", sci = \"{peer}/1\" }}]",
            3 - own
        );
        switch(name, "gcm-aes-128", &sas)
    };
    let mut pair = Pair::new(&of("a", 1, "b"), &of("b", 2, "a"));
    pair.net.settle();
    let passes = |pair: &mut Pair| {
        let (sent, arrived) = pair.traffic(Duration::from_millis(20));
        assert_eq!(sent, arrived);
        pair.net.assert_conserved();
    };
    passes(&mut pair);
    pair.net.apply(0, &keyed("a", 16, "", CAK));
    pair.net.apply(1, &keyed("b", 16, "", CAK));
    secure(&mut pair.net, &[0, 1]);
    passes(&mut pair);
    pair.net.apply(0, &of("a", 1, "b"));
    pair.net.apply(1, &of("b", 2, "a"));
    pair.net.wait(Duration::from_millis(20));
    assert!(pair.net.members[0].control.mka().is_empty());
    passes(&mut pair);
}

/// Three on a LAN, whose bridge hands on another group than that of 802.1X.
#[test]
fn three_nodes_on_a_lan_agree_and_one_that_leaves_is_forgotten() {
    let mut net = Net::new();
    for (name, priority) in [("a", 16), ("b", 32), ("c", 48)] {
        net.node(&keyed(name, priority, GROUP, CAK));
    }
    lan(&mut net, &["a", "b", "c"]);
    let mut hosts: Vec<Host> = (0..3).map(|node| net.host(node, "lan")).collect();
    secure(&mut net, &[0, 1, 2]);
    assert_eq!(view(&net, 2).peers.len(), 2);
    for from in 0..3_u8 {
        hosts[usize::from(from)].send(&frame(1, from, 0xff));
        net.settle();
        let got: Vec<usize> = hosts.iter_mut().map(|host| host.received().len()).collect();
        let expected: Vec<usize> = (0..3).map(|to| usize::from(to != from)).collect();
        assert_eq!(got, expected);
    }
    // The key server's configuration loses its SecY: others go on without it.
    let none = switch("a", "gcm-aes-128", "").split("[[macsec]]").next().map(str::to_owned);
    net.apply(0, &none.expect("a text"));
    net.wait(Duration::from_secs(15));
    assert!(is_secured(&net, 1) && is_secured(&net, 2));
    assert_eq!(view(&net, 2).peers.len(), 1);
    hosts[1].send(&frame(1, 1, 0xff));
    net.settle();
    assert_eq!(hosts[2].received().len(), 1);
    net.assert_conserved();
}

/// A bridge that joins these nodes' protected ports.
fn lan(net: &mut Net, names: &[&str]) {
    let mut lan = "[node]\nname = \"lan\"\nlab = true\n".to_owned();
    for port in names {
        lan += &format!("[[port]]\nname = \"{port}\"\ndriver = \"wire\"\nmtu = 1600\n");
    }
    let members: Vec<_> = names.iter().map(|port| format!("{{ port = \"{port}\" }}")).collect();
    lan += &format!("[[bridge]]\nname = \"br\"\nmember = [{}]\n", members.join(", "));
    let bridge = net.node(&lan);
    for (node, port) in names.iter().enumerate() {
        net.join((node, "wan"), (bridge, port));
    }
}

/// A key server with another cipher or confidentiality takes over, under traffic.
#[test]
fn another_cipher_follows_without_losing_a_frame() {
    let node = |name: &str, priority, key, cipher: &str| {
        let text = keyed(name, priority, GROUP, &[("0011", key)]);
        text.replace("cipher = \"gcm-aes-128\"", cipher)
    };
    let (plain, long) = ("cipher = \"gcm-aes-128\"", "cipher = \"gcm-aes-256\"");
    let (offset, clear) = ("offset = 30", "encrypt = false");
    let xpn = "cipher = \"gcm-aes-xpn-128\"";
    for (first, second) in
        [(plain, long), (plain, offset), (offset, clear), (clear, plain), (long, xpn)]
    {
        let mut net = Net::new();
        net.node(&node("a", 16, "cak:2", second));
        net.node(&node("b", 32, "cak:1", first));
        net.node(&node("c", 48, "cak:1", first));
        lan(&mut net, &["a", "b", "c"]);
        let mut hosts: Vec<Host> = (0..3).map(|node| net.host(node, "lan")).collect();
        secure(&mut net, &[1, 2]);
        net.apply(0, &node("a", 16, "cak:1", second));
        let (mut sent, mut arrived) = (0, 0);
        for _ in 0..15_000 {
            hosts[1].send(&frame(sent as u64, 1, 2));
            hosts[2].send(&frame(sent as u64, 2, 1));
            sent += 2;
            net.now += Duration::from_millis(1);
            for member in &mut net.members {
                member.workers.iter_mut().for_each(|worker| _ = worker.turn(net.now));
                member.control.turn(net.now);
            }
            hosts[0].received();
            arrived += hosts[1].received().len() + hosts[2].received().len();
        }
        net.settle();
        arrived += hosts[1].received().len() + hosts[2].received().len();
        assert_eq!(sent, arrived, "{first} to {second}");
        assert!((0..3).all(|node| is_secured(&net, node)), "{first} to {second}");
        let server = ferrule_wire::Sci::new(mac("a", "wan"), 1);
        assert_eq!(view(&net, 1).server, Some(server));
        net.assert_conserved();
    }
}

/// Parameters of MKA and of its SecY change under traffic, at the key server and at others.
#[test]
fn other_parameters_follow_without_losing_a_frame_or_sending_one_in_clear() {
    let a = |more: &str| keyed("a", 16, &format!("{more}should-secure = true, "), CAK);
    let b = |more: &str| keyed("b", 32, &format!("{more}should-secure = true, "), CAK);
    let with = |text: String, line: &str| text.replace("mka =", &format!("{line}\nmka ="));
    let mut pair = Pair::new(&a(""), &b(""));
    secure(&mut pair.net, &[0, 1]);
    let changes = [
        (0, a("rekey = 3600, "), 0),
        (1, b("rekey = 3600, "), 0),
        (0, a("delay-protect = true, "), 0),
        (1, b("delay-protect = true, "), 0),
        (0, with(a(""), "window = 64"), 0),
        (1, with(b(""), "uncontrolled = [\"lldp\"]"), 0),
        // Each a new SAK of the key server.
        (0, with(a(""), "encrypt = false"), 1),
        (0, with(a(""), "offset = 30"), 1),
        (0, a("").replace("gcm-aes-128", "gcm-aes-xpn-256"), 1),
        // Nobody makes one by what another station would make.
        (1, b("").replace("gcm-aes-128", "gcm-aes-256"), 0),
        // The other one becomes key server.
        (0, a("").replace("priority = 16", "priority = 200"), 1),
        (0, a("").replace("should-secure = true, ", ""), 1),
    ];
    for (node, text, saks) in changes {
        let before = view(&pair.net, 0).saks[0].key;
        let in_clear = |net: &mut Net| {
            let stats = [0, 1].map(|node| net.reports(node)[0].secy_in[0].1.stats);
            stats.map(|stats| stats.in_untagged + stats.in_no_tag)
        };
        let clear_before = in_clear(&mut pair.net);
        pair.net.apply(node, &text);
        let (sent, arrived) = pair.traffic(Duration::from_secs(12));
        assert_eq!(sent, arrived, "{text}");
        assert!(is_secured(&pair.net, 0) && is_secured(&pair.net, 1), "{text}");
        assert_eq!(in_clear(&mut pair.net), clear_before, "{text}");
        let after = view(&pair.net, 0).saks[0].key;
        let made = if after.mi == before.mi { after.kn - before.kn } else { 1 };
        assert_eq!(made, saks, "{text}");
    }
    pair.net.assert_conserved();
}

/// A control part that is busy for as long as all of this takes: it is not turned.
#[test]
fn protocols_on_a_thread_of_their_own_do_not_wait_for_the_control_part() {
    let (a, b) = (keyed("a", 16, "", CAK), keyed("b", 32, "", CAK));
    let mut pair = Pair::new(&a, &b);
    let protocols = pair.net.members[0].control.give_protocols();
    let mut now = pair.net.now;
    let (mut secured, mut done) = (0, 0);
    for _ in 0..60_000 {
        now += Duration::from_millis(1);
        for member in &mut pair.net.members {
            member.workers.iter_mut().for_each(|worker| _ = worker.turn(now));
        }
        done += protocols.turn(now).done;
        pair.net.members[1].control.turn(now);
        secured += usize::from((0..2).all(|node| is_secured(&pair.net, node)));
    }
    assert!(secured > 50_000 && done > 60, "{secured} ms secured, {done} messages and orders");
    let told = pair.net.members[0].control.take_incidents();
    assert_eq!(told, [], "the control part was not turned");
    pair.net.now = now;
    pair.net.members[0].control.turn(now);
    let told = pair.net.members[0].control.take_incidents();
    assert!(!told.is_empty(), "the control part is told once it turns");
}

#[test]
fn a_port_that_must_be_secure_from_now_on_sends_nothing_more_in_clear() {
    let mut net = Net::new();
    net.node(&keyed("a", 16, "should-secure = true, ", CAK));
    let (mut lan, mut wan) = (net.host(0, "lan"), net.host(0, "wan"));
    let mut in_clear = |net: &mut Net| {
        lan.send(&frame(1, 1, 2));
        net.now += Duration::from_millis(1);
        net.members[0].workers[0].turn(net.now);
        wan.received().iter().filter(|frame| frame[12..14] == [0x88, 0xb5]).count()
    };
    net.wait(Duration::from_millis(100));
    assert_eq!(in_clear(&mut net), 1);
    net.apply(0, &keyed("a", 16, "", CAK));
    for turn in 0..10 {
        assert_eq!(in_clear(&mut net), 0, "{turn}");
        if turn > 2 {
            net.members[0].control.turn(net.now);
        }
    }
}

/// More than the protected wire carries, for ten seconds.
#[test]
fn a_port_that_has_too_much_to_send_keeps_its_session() {
    let mut pair = Pair::new(&keyed("a", 16, "", CAK), &keyed("b", 32, "", CAK));
    secure(&mut pair.net, &[0, 1]);
    for number in 0..15_000 {
        pair.net.now += Duration::from_millis(1);
        let now = pair.net.now;
        for turn in 0..8 {
            (0..64).for_each(|_| pair.a.send(&frame(number, 1, 2)));
            let [a, b, ..] = &mut pair.net.members[..] else { unreachable!("two") };
            if number % 8 == turn {
                a.control.turn(now);
            }
            if turn == 4 {
                b.workers[0].turn(now);
                b.control.turn(now);
                pair.b.received();
            }
            a.workers[0].turn(now);
            pair.a.received();
        }
        assert!([0, 1].iter().all(|&at| view(&pair.net, at).port == PortState::Secured));
    }
    assert!(pair.net.dropped(0, DropReason::TxQueueFull) > 1000);
}

/// EAPOL of no sense at one port, a thousand frames a millisecond; sessions of another port, and
/// of the same one.
#[test]
fn a_flood_of_eapol_costs_no_session() {
    let mut net = Net::new();
    let ports: String = ["evil", "wan"]
        .map(|port| format!("[[port]]\nname = \"{port}\"\ndriver = \"wire\"\nmtu = 1600\n"))
        .concat();
    net.node(&format!(
        "[node]\nname = \"a\"\nlab = true\n{ports}\
         [[bridge]]\nname = \"br\"\nmember = [{{ port = \"evil\" }}, {{ port = \"wan\" }}]\n\
         [[macsec]]\nport = \"evil\"\nmka = {{ cak = [{{ ckn = \"02\", key = \"cak:7\" }}] }}\n\
         [[macsec]]\nport = \"wan\"\nmka = {{ cak = [{{ ckn = \"0011\", key = \"cak:1\" }}] }}\n"
    ));
    net.node(&keyed("b", 32, "", CAK));
    net.join((0, "wan"), (1, "wan"));
    let (mut evil, _lan) = (net.host(0, "evil"), net.host(1, "lan"));
    net.wait(Duration::from_secs(5));
    let state = |net: &Net| {
        let wan = net.members[0].control.mka().into_iter().find(|(name, _)| name == "wan");
        wan.map(|(_, view)| view.port)
    };
    assert_eq!(state(&net), Some(PortState::Secured));
    let group = MacAddr([1, 0x80, 0xc2, 0, 0, 3]);
    let junk = ethernet(group, MacAddr([2; 6]), 0x888e, &[3, 5, 0, 0, 0, 0]);
    for number in 0..15_000 {
        net.now += Duration::from_millis(1);
        let now = net.now;
        (0..1024).for_each(|_| evil.send(&junk));
        let [a, b] = &mut net.members[..] else { unreachable!("two") };
        for turn in 0..8 {
            if turn == number % 8 {
                b.workers[0].turn(now);
                b.control.turn(now);
                b.workers[0].turn(now);
            }
            a.workers[0].turn(now);
        }
        a.control.turn(now);
        a.workers[0].turn(now);
        assert_eq!(state(&net), Some(PortState::Secured), "{number} ms");
    }
    assert!(net.dropped(0, DropReason::ControlQueueFull) > 1_000_000);
}

/// A flood of ARP beside a session.
#[test]
fn a_flood_of_arp_costs_no_session() {
    let mut pair = Pair::new(&keyed("a", 16, "", CAK), &keyed("b", 32, "", CAK));
    secure(&mut pair.net, &[0, 1]);
    let mi = view(&pair.net, 0).own[0].1;
    let arp = ethernet(MacAddr::BROADCAST, MacAddr([2, 0, 0, 0, 9, 9]), 0x0806, &[0; 46]);
    for _ in 0..2_000 {
        (0..64).for_each(|_| pair.a.send(&arp));
        pair.net.wait(Duration::from_millis(10));
        pair.a.received();
        pair.b.received();
    }
    assert!(is_secured(&pair.net, 0) && is_secured(&pair.net, 1));
    assert_eq!(view(&pair.net, 0).own[0].1, mi);
}
