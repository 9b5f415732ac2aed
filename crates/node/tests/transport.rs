//! Transport mode and ESP in UDP through whole nodes: hosts behind two nodes that do
//! IPsec for them (RFC 4301 section 3.3), the nodes' own addresses, an SA around another;
//! what a person may write in a configuration, and what not.

mod net;

use ferrule_base::{DropReason, Duration, MacAddr};
use ferrule_dataplane::graph::Next;
use ferrule_node::Config;
use ferrule_node::config::named_key;
use ferrule_overhead::Stack;
use ferrule_wire::{FromBytes, ipv6};
use net::{Host, Net, ethernet, mac, udp4, udp6};
use std::sync::atomic::{AtomicU64, Ordering};

const HOST: [MacAddr; 2] = [MacAddr([2, 0, 0xaa, 1, 2, 3]), MacAddr([2, 0, 0xbb, 1, 2, 3])];
const LANS: [[u8; 4]; 2] = [[10, 1, 0, 9], [10, 2, 0, 9]];
const LANS6: [&str; 2] = ["2001:db8:1::9", "2001:db8:2::9"];

/// Node `own` (1 or 2) with a LAN, and what is said about its SAs.
fn node(own: u8, pairs: &str) -> String {
    let other = 3 - own;
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
        [[interface]]
        port = "lan"
        address = ["10.{own}.0.1/24", "2001:db8:{own}::1/64"]
        [[interface]]
        port = "wan"
        address = ["192.0.2.{own}/24", "2001:db8::{own}/64"]
        [[route]]
        prefix = "10.{other}.0.0/24"
        via = "192.0.2.{other}"
        [[route]]
        prefix = "2001:db8:{other}::/64"
        via = "2001:db8::{other}"
        {pairs}
        "#
    )
}

/// A pair of SAs between two addresses, as node `own` has it.
fn pair(own: u8, kind: &str, name: &str, ends: [&str; 2], spi: u32, more: &str) -> String {
    let (here, there) = (usize::from(own) - 1, 2 - usize::from(own));
    let (local, remote) = (ends[here], ends[there]);
    let (out, inn) = (spi + u32::from(own), spi + 3 - u32::from(own));
    // One key for each direction of each pair, named by its SPI.
    format!(
        r#"
        [[{kind}]]
        name = "{name}"
        local = "{local}"
        remote = "{remote}"
        {more}
        out = {{ spi = {out}, key = "gcm:{}" }}
        in = {{ spi = {inn}, key = "gcm:{}" }}
        "#,
        out % 50,
        inn % 50
    )
}

fn protect(kind: &str, name: &str) -> String {
    format!("[[policy]]\ninterface = \"wan\"\naction = \"protect\"\n{kind} = \"{name}\"\n")
}

/// Hosts in transport mode, IPv4 and IPv6.
fn guarded(own: u8, suite: &str, more: &str) -> String {
    let v4 = ["10.1.0.9", "10.2.0.9"];
    let more = format!("suite = \"{suite}\"\n{more}");
    pair(own, "transport", "h4", v4, 0x1000, &more)
        + &pair(own, "transport", "h6", LANS6, 0x1010, &more)
        + &protect("transport", "h4")
        + &protect("transport", "h6")
}

/// Two nodes, a host at each, and the wire between them in our hands.
struct Two {
    net: Net,
    hosts: [Host; 2],
    wire: [Host; 2],
    /// Packets that went over the wire, in frames.
    seen: Vec<Vec<u8>>,
}

impl Two {
    fn new(mut net: Net, texts: [String; 2]) -> Self {
        let nodes = texts.map(|text| net.node(&text));
        let hosts = nodes.map(|n| net.host(n, "lan"));
        let wire = nodes.map(|n| net.host(n, "wan"));
        net.settle();
        for side in nodes {
            let tables = net.members[side].control.tables().clone();
            let (own, other) = (side + 1, 2 - side);
            let peer = mac(&format!("n{other}"), "wan");
            let known = [
                (format!("10.{own}.0.9"), HOST[side]),
                (format!("2001:db8:{own}::9"), HOST[side]),
                (format!("192.0.2.{other}"), peer),
                (format!("2001:db8::{other}"), peer),
            ];
            for iface in 0..tables.ifaces.len() as u16 {
                for (address, mac) in &known {
                    tables.neighbours.set(iface, address.parse().unwrap(), *mac);
                }
            }
        }
        let mut two = Self { net, hosts, wire, seen: Vec::new() };
        // Until the nodes' own addresses are in use.
        two.net.wait(Duration::from_millis(2500));
        two.relay();
        for side in [0, 1] {
            two.taken(side);
        }
        two.seen.clear();
        two
    }

    /// Everything moves until nothing does.
    fn relay(&mut self) {
        loop {
            self.net.settle();
            let frames = [self.wire[0].received(), self.wire[1].received()];
            if frames.iter().all(Vec::is_empty) {
                return;
            }
            for (side, frames) in frames.into_iter().enumerate() {
                frames.iter().for_each(|frame| self.wire[1 - side].send(frame));
                self.seen.extend(frames.into_iter().filter(|frame| is_packet(frame)));
            }
        }
    }

    /// A host sends a packet.
    fn send(&mut self, side: usize, packet: &[u8]) {
        let ethertype = if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
        let to = mac(&format!("n{}", side + 1), "lan");
        self.hosts[side].send(&ethernet(to, HOST[side], ethertype, packet));
        self.relay();
    }

    /// Packets that a host got.
    fn taken(&mut self, side: usize) -> Vec<Vec<u8>> {
        let frames = self.hosts[side].received().into_iter();
        frames.filter(|frame| is_packet(frame)).map(|frame| frame[14..].to_vec()).collect()
    }
}

/// True if a frame has an IP packet that is no neighbour discovery.
fn is_packet(frame: &[u8]) -> bool {
    match [frame[12], frame[13]] {
        [0x08, 0x00] => true,
        [0x86, 0xdd] => frame[20] != 0 && !(frame[20] == 58 && (133..=137).contains(&frame[54])),
        _ => false,
    }
}

/// The packet with the checksum of UDP right, which would be made good otherwise.
fn with_sum(mut packet: Vec<u8>) -> Vec<u8> {
    let (header, _) = ipv6::Header::ref_from_prefix(&packet).unwrap();
    let ends = header.ends();
    ferrule_wire::udp::fill_checksum(&ends, &mut packet[40..]);
    packet
}

/// The packet two hops later.
fn two_hops_later(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if packet[0] >> 4 == 6 {
        packet[7] -= 2;
        return packet;
    }
    packet[8] -= 2;
    packet[10..12].fill(0);
    let sum = ferrule_wire::checksum::checksum(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// Packets of these lengths, IPv4 and IPv6, from both hosts, arrive whole; on the wire
/// each has the octets that the calculator says.
fn carries(two: &mut Two, suite: &str, words: &str, carried: u8) {
    let udp = if words.contains("udp-encap") { 8 } else { 0 };
    for (side, len) in [(0, 60), (1, 61), (0, 64), (1, 500), (0, 1200), (1, 1300)] {
        let other = 1 - side;
        for (version, head) in [(4, 20), (6, 40)] {
            let packet = match version {
                4 => udp4(LANS[side], LANS[other], (7, 9), len, 3),
                _ => with_sum(udp6(LANS6[side], LANS6[other], (7, 9), len, 3)),
            };
            two.send(side, &packet);
            let dropped = two.net.drops(side).total() + two.net.drops(other).total();
            assert_eq!(two.taken(other), [two_hops_later(&packet)], "{suite} {len} {dropped}");
            let seen = std::mem::take(&mut two.seen);
            let [frame] = &seen[..] else { panic!("one packet on the wire: {}", seen.len()) };
            assert_eq!(frame[if version == 4 { 23 } else { 20 }], carried);
            let text =
                format!("eth ipv{version} udp {} | esp {suite} transport {words}", len - head - 8);
            let stack = Stack::parse(&text).expect(&text);
            assert_eq!(stack.calculation_only(), Vec::<String>::new(), "{text}");
            assert_eq!(frame.len(), stack.wire_len(14 + len).expect(&text), "{text}");
            if udp != 0 {
                let ports = &frame[14 + head..][..4];
                assert_eq!(ports, [4500u16.to_be_bytes(), 4500u16.to_be_bytes()].concat());
            }
        }
    }
    two.net.assert_conserved();
}

#[test]
fn hosts_behind_nodes_are_in_transport_mode_and_the_calculator_agrees() {
    for late in [false, true] {
        let net = if late { Net::late() } else { Net::new() };
        let suite = "aes-gcm-128";
        let mut two = Two::new(net, [guarded(1, suite, ""), guarded(2, suite, "")].map_node());
        carries(&mut two, suite, "", 50);
        let report = two.net.reports(0).remove(0);
        let names: Vec<_> = report.esp_out.iter().map(|sa| (&*sa.name, sa.stats.packets)).collect();
        assert_eq!(names, [("h4", 3), ("h6", 3)]);
    }
}

#[test]
fn a_worker_that_keeps_time_says_which_stages_a_packet_took_it_to() {
    static CLOCK: AtomicU64 = AtomicU64::new(0);
    let suite = "aes-gcm-128";
    let texts = [guarded(1, suite, ""), guarded(2, suite, "")].map_node();
    let mut two = Two::new(Net::new(), texts);
    assert_eq!(two.net.reports(0).remove(0).times, None, "nobody asked for it");
    for member in &mut two.net.members {
        // Each look at the clock is a nanosecond later.
        let clock = || CLOCK.fetch_add(1, Ordering::Relaxed);
        member.workers.iter_mut().for_each(|worker| worker.keep_time(clock));
    }
    two.send(0, &udp4(LANS[0], LANS[1], (7, 9), 500, 3));
    assert_eq!(two.taken(1).len(), 1);
    let sealing = ["attach", "ip", "policy", "esp-out", "output", "transmit"];
    let opening = ["attach", "ip", "esp-in", "output", "transmit"];
    for (node, expected) in [&sealing[..], &opening[..]].into_iter().enumerate() {
        let times = two.net.reports(node).remove(0).times.expect("it keeps time");
        let seen = Next::ALL.into_iter().zip(times.stages).filter(|(_, time)| *time > 0);
        let seen: Vec<_> = seen.map(|(next, _)| next.name()).collect();
        for stage in expected {
            assert!(seen.contains(stage), "node {node}: {stage} is not in {seen:?}");
        }
        let other = if node == 0 { "esp-in" } else { "esp-out" };
        assert!(!seen.contains(&other), "node {node}: {seen:?}");
        assert!(times.ports > 0 && times.idle > 0, "{times:?}");
    }
}

#[test]
fn hosts_behind_nodes_have_esp_in_udp_and_the_calculator_agrees() {
    let more = "encapsulation = \"udp\"\nkeepalive-seconds = 0\nwindow = 131072";
    let suite = "aes-gcm-128";
    let texts = [guarded(1, suite, more), guarded(2, suite, more)].map_node();
    let mut two = Two::new(Net::new(), texts);
    carries(&mut two, suite, "udp-encap", 17);
}

#[test]
fn transport_policy_refuses_in_clear_what_it_protects_and_passes_nothing_else() {
    let suite = "aes-gcm-128";
    let mut two = Two::new(Net::new(), [guarded(1, suite, ""), guarded(2, suite, "")].map_node());
    let clear = udp4(LANS[1], LANS[0], (9, 7), 100, 5);
    let to = mac("n1", "wan");
    two.wire[0].send(&ethernet(to, mac("n2", "wan"), 0x0800, &clear));
    two.relay();
    assert_eq!(two.net.dropped(0, DropReason::EspRequired), 1);
    // Another host of that network is in no policy.
    two.send(0, &udp4([10, 1, 0, 8], LANS[1], (9, 7), 100, 5));
    assert_eq!(two.net.dropped(0, DropReason::PolicyDiscard), 1);
    assert_eq!((two.taken(0), two.taken(1), two.seen.len()), (vec![], vec![], 0));
}

#[test]
fn the_nodes_own_addresses_are_in_transport_mode() {
    let ends = ["192.0.2.1", "10.2.0.9"];
    let text = |own| {
        let more = "suite = \"aes-gcm-128\"";
        let pairs = pair(own, "transport", "own", ends, 0x1000, more);
        node(own, &(pairs + &protect("transport", "own")))
    };
    let mut two = Two::new(Net::new(), [text(1), text(2)]);
    // A host's echo request to the other node, which answers; both sealed.
    let mut request = udp4(LANS[1], [192, 0, 2, 1], (0, 0), 84, 1);
    request[9] = 1;
    request[20..28].copy_from_slice(&[8, 0, 0, 0, 0, 7, 0, 1]);
    let sum = ferrule_wire::checksum::checksum(&request[20..]);
    request[22..24].copy_from_slice(&sum.to_be_bytes());
    request[10..12].fill(0);
    let sum = ferrule_wire::checksum::checksum(&request[..20]);
    request[10..12].copy_from_slice(&sum.to_be_bytes());
    two.send(1, &request);
    let seen: Vec<u8> = two.seen.iter().map(|frame| frame[23]).collect();
    assert_eq!(seen, [50, 50]);
    let taken = two.taken(1);
    assert_eq!(taken.len(), 1, "{:?} {:?}", two.net.drops(0), two.net.drops(1));
    assert_eq!((taken[0][9], taken[0][20], &taken[0][28..]), (1, 0, &request[28..]));
}

#[test]
fn a_tunnel_inside_transport_mode_is_sealed_twice_and_refused_when_once() {
    let text = |own| {
        let more = "suite = \"aes-gcm-128\"\nthen = \"around\"";
        let ends = ["192.0.2.1", "192.0.2.2"];
        let inside = pair(own, "tunnel", "inside", ends, 0x1000, more);
        let more = "suite = \"aes-gcm-128\"";
        let around = pair(own, "transport", "around", ends, 0x1010, more);
        let policy = protect("tunnel", "inside")
            + &format!("local = \"10.{own}.0.0/24\"\nremote = \"10.{}.0.0/24\"\n", 3 - own);
        node(own, &(inside + &around + &policy))
    };
    let mut two = Two::new(Net::new(), [text(1), text(2)]);
    for len in [60, 61, 1000] {
        let packet = udp4(LANS[0], LANS[1], (7, 9), len, 3);
        two.send(0, &packet);
        assert_eq!(two.taken(1), [two_hops_later(&packet)]);
        let seen = std::mem::take(&mut two.seen);
        let once = (20 + 8 + 8 + (len + 2).next_multiple_of(4) + 16, 20);
        let twice = 20 + 8 + 8 + (once.0 - once.1 + 2usize).next_multiple_of(4) + 16;
        assert_eq!(seen.iter().map(Vec::len).collect::<Vec<_>>(), [14 + twice]);
    }
    two.net.assert_conserved();
    let report = two.net.reports(1).remove(0);
    let taken: Vec<_> = report.esp_in.iter().map(|sa| (&*sa.name, sa.stats.packets)).collect();
    assert_eq!(taken, [("inside", 3), ("around", 3)]);
    // The largest packet fits the wire twice sealed.
    let most = Config::parse("x", &text(1), &mut named_key).unwrap().tunnels[0].mtu;
    two.send(0, &udp4(LANS[0], LANS[1], (7, 9), most, 3));
    assert_eq!(two.taken(1).len(), 1);
    assert!(two.seen[0].len() <= 1514 && two.seen[0].len() > 1490, "{}", two.seen[0].len());
}

/// Puts what was said about SAs into nodes.
trait MapNode {
    fn map_node(self) -> [String; 2];
}

impl MapNode for [String; 2] {
    fn map_node(self) -> [String; 2] {
        [node(1, &self[0]), node(2, &self[1])]
    }
}

fn problems(text: &str) -> String {
    match Config::parse("test.toml", text, &mut named_key) {
        Ok(_) => "none".into(),
        Err(e) => e.to_string(),
    }
}

fn wrong(text: &str, what: &str, remedy: &str) {
    let said = problems(text);
    assert!(said.contains(what), "{what} is not in\n{said}");
    assert!(said.contains(remedy), "{remedy} is not in\n{said}");
    assert!(said.starts_with("test.toml:"), "with its place: {said}");
}

#[test]
fn bad_configuration_of_transport_mode_is_refused_with_place_and_remedy() {
    let with = |more: &str| {
        let more = format!("suite = \"aes-gcm-128\"\n{more}");
        let ends = ["10.1.0.9", "192.0.2.2"];
        node(1, &(pair(1, "transport", "h", ends, 0x1000, &more) + &protect("transport", "h")))
    };
    assert_eq!(problems(&with("")), "none");
    for key in ["df = \"set\"", "copy-df = true", "dscp = 10", "ecn = \"normal\"", "ttl = 9"] {
        wrong(&with(key), "in transport mode, which makes no header", "keeps its own header");
    }
    wrong(&with("vrf = \"red\""), "`vrf` in transport mode", "global table");
    wrong(&with("placement = \"inline\""), "is inline, and no plain tunnel", "in software");
    wrong(&with("window = 131073"), "window cannot be 131073", "from 0 to 131072");
    wrong(&with("ports = [1, 2]"), "ESP in UDP, which is not asked for", "encapsulation");
    let udp = |more: &str| with(&format!("encapsulation = \"udp\"\n{more}"));
    assert_eq!(problems(&udp("ports = [4500, 61000]")), "none");
    wrong(&udp("ports = [4500]"), "these are not two ports", "ports = [OURS, THEIRS]");
    wrong(&udp("ports = [4500, 0]"), "these are not two ports", "1 to 65535");
    wrong(&udp("keepalive-seconds = -1"), "keepalive-seconds cannot be -1", "from 0 to 3600");
    wrong(&with("encapsulation = \"tcp\""), "there is no encapsulation `tcp`", "there are udp");
    wrong(&with("tfc = \"some\""), "this is no padding", "\"whole\"");
    wrong(&with("tfc = 0"), "this is no padding", "multiple of");
    wrong(&with("dummy = 5000"), "dummy cannot be 5000", "from 0 to 1000");
    wrong(&with("then = \"nobody\""), "there is no tunnel or transport `nobody`", "there are h");
    wrong(&with("then = \"h\""), "`h` is inside itself", "outermost");
    let other = with("").replace("[[policy]]", "[[policy]]\nlocal = \"10.1.0.0/24\"");
    wrong(&other, "transport mode protects what 10.1.0.9 sends", "leave it out");
    let both = with("").replace("transport = \"h\"", "transport = \"h\"\ntunnel = \"h\"");
    wrong(&both, "a tunnel and a transport for one entry", "keep the one");
    let none = with("").replace("transport = \"h\"", "");
    wrong(&none, "protect needs a tunnel", "transport = \"NAME\"");
    let away = with("").replace("local = \"10.1.0.9\"", "local = \"10.77.0.9\"");
    wrong(&away, "neither this node nor a host behind it has 10.77.0.9", "[[route]]");
}

#[test]
fn tunnel_header_options_are_read_and_refused_with_place_and_remedy() {
    let with = |more: &str| {
        let more = format!("suite = \"aes-gcm-128\"\n{more}");
        let ends = ["192.0.2.1", "192.0.2.2"];
        node(1, &(pair(1, "tunnel", "t", ends, 0x1000, &more) + &protect("tunnel", "t")))
    };
    let all = "df = \"clear\"\ndscp = 46\necn = \"compatibility\"\nttl = \"copy\"\n\
               tfc = \"whole\"\ndummy = 3\nencapsulation = \"udp\"";
    assert_eq!(problems(&with(all)), "none");
    let pair = &Config::parse("x", &with(all), &mut named_key).unwrap().tunnels[0];
    let text = format!("{:?} {:?} {:?} {}", pair.outside, pair.tfc, pair.encap, pair.dummies);
    for word in ["Clear", "46", "Compatibility", "hops: Copy", "Whole", "4500", "20s", " 3"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    wrong(&with("df = \"keep\""), "there is no treatment of DF `keep`", "copy, set, clear");
    wrong(&with("df = \"set\"\ncopy-df = true"), "df and copy-df", "says more");
    wrong(&with("ttl = 0"), "this is no TTL", "from 1 to 255");
    wrong(&with("ttl = \"inner\""), "this is no TTL", "\"copy\"");
    wrong(&with("dscp = 64"), "dscp cannot be 64", "from 0 to 63");
    wrong(&with("ecn = \"off\""), "there is no ECN mode `off`", "normal, compatibility");
}

/// A packet in two fragments, the second one `at` octets into its payload.
fn in_two(packet: &[u8], at: usize) -> [Vec<u8>; 2] {
    let v4 = packet[0] >> 4 == 4;
    let (head, payload) = packet.split_at(if v4 { 20 } else { 40 });
    let piece = |from: usize, to: usize| {
        let (field, more) = ((from / 8) as u16, u16::from(to < payload.len()));
        let mut out = head.to_vec();
        if v4 {
            out[6..8].copy_from_slice(&(field | more << 13).to_be_bytes());
        } else {
            out[6] = 44;
            out.extend([head[6], 0]);
            out.extend((field << 3 | more).to_be_bytes());
            out.extend([0, 0, 0, 7]);
        }
        out.extend(&payload[from..to]);
        let len = out.len() as u16;
        if v4 {
            out[2..4].copy_from_slice(&len.to_be_bytes());
            out[10..12].fill(0);
            let sum = ferrule_wire::checksum::checksum(&out[..20]);
            out[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            out[4..6].copy_from_slice(&(len - 40).to_be_bytes());
        }
        out
    };
    [piece(0, at), piece(at, payload.len())]
}

fn kind_of(packet: &[u8]) -> u16 {
    if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd }
}

#[test]
fn datagrams_in_fragments_leave_sealed_whatever_interface() {
    // Packets that the hosts' SAs seal are sealed again by a pair that leaves by another
    // interface, which has no policy.
    let then = "suite = \"aes-gcm-128\"\nthen = \"around\"";
    let ends = ["203.0.113.1", "203.0.113.2"];
    let pairs = pair(1, "transport", "h4", ["10.1.0.9", "10.2.0.9"], 0x1000, then)
        + &pair(1, "transport", "h6", LANS6, 0x1010, then)
        + &pair(1, "tunnel", "around", ends, 0x1020, "suite = \"aes-gcm-128\"")
        + &protect("transport", "h4")
        + &protect("transport", "h6");
    let far = "[[port]]\nname = \"far\"\ndriver = \"wire\"\n\
               [[interface]]\nport = \"far\"\naddress = [\"203.0.113.1/24\"]\n";
    let mut net = Net::new();
    let n = net.node(&node(1, &(far.to_owned() + &pairs)));
    let (mut host, mut wan, mut out) = (net.host(n, "lan"), net.host(n, "wan"), net.host(n, "far"));
    net.settle();
    let tables = net.members[n].control.tables().clone();
    for iface in 0..tables.ifaces.len() as u16 {
        for next in ["203.0.113.2", "192.0.2.2", "2001:db8::2"] {
            tables.neighbours.set(iface, next.parse().unwrap(), HOST[1]);
        }
    }
    net.wait(Duration::from_millis(2500));
    wan.received();
    out.received();
    let v4 = udp4(LANS[0], LANS[1], (7, 9), 900, 0xa7);
    let v6 = with_sum(udp6(LANS6[0], LANS6[1], (7, 9), 900, 0xa7));
    for packet in [v4, v6] {
        for whole in [vec![packet.clone()], in_two(&packet, 400).to_vec()] {
            for piece in &whole {
                let to = mac("n1", "lan");
                host.send(&ethernet(to, HOST[0], kind_of(piece), piece));
            }
            net.settle();
            let sealed: Vec<_> = out.received().into_iter().filter(|f| is_packet(f)).collect();
            let other: Vec<_> = wan.received().into_iter().filter(|f| is_packet(f)).collect();
            assert_eq!((sealed.len(), other.len()), (1, 0), "{:?}", net.drops(n));
            let clear = sealed[0].windows(8).any(|octets| octets == [0xa7; 8]);
            assert!(sealed[0][23] == 50 && !clear, "{} pieces", whole.len());
        }
    }
    net.assert_conserved();
}

/// Policies for traffic in clear beside the protected traffic.
const CLEAR: &str = r#"
    [[policy]]
    interface = "wan"
    action = "bypass"
    local = "10.1.0.9"
    remote = "198.51.100.0/24"
    [[policy]]
    interface = "wan"
    action = "bypass"
    local = "10.1.0.9"
    protocol = "icmp"
    [[policy]]
    interface = "wan"
    action = "bypass"
    local = "2001:db8:1::9"
    protocol = "icmpv6"
"#;

/// A router's "too big" to a host behind node 1 about what that sent.
fn too_big(about: &[u8]) -> Vec<u8> {
    use ferrule_wire::{Protocol, icmpv4, icmpv6, ipv4};
    let kind = if about[0] >> 4 == 4 { [3, 4] } else { [2, 0] };
    let head = [kind[0], kind[1], 0, 0, 0, 0, 5, 20];
    let mut message = [&head[..], &about[..about.len().min(100)]].concat();
    let len = message.len() as u16;
    let mut octets;
    if kind[0] == 3 {
        icmpv4::fill_checksum(&mut message);
        let (from, to) = ([203, 0, 113, 77].into(), LANS[0].into());
        octets = vec![0; 20];
        ipv4::Repr::new(Protocol::ICMP, from, to, len).emit(&mut octets);
    } else {
        let (from, to) = ("2001:db8:77::1".parse().unwrap(), LANS6[0].parse().unwrap());
        icmpv6::fill_checksum(&ferrule_wire::checksum::Ends::V6(from, to), &mut message);
        octets = vec![0; 40];
        ipv6::Repr::new(Protocol::ICMPV6, from, to, len).emit(&mut octets);
    }
    octets.extend(message);
    octets
}

#[test]
fn path_errors_about_clear_packets_of_a_guarded_host_reach_it() {
    for more in ["", "encapsulation = \"udp\""] {
        let text = guarded(1, "aes-gcm-128", more) + CLEAR;
        let texts = [text, guarded(2, "aes-gcm-128", more)].map_node();
        let mut two = Two::new(Net::new(), texts);
        let arrive = |two: &mut Two, packet: &[u8]| {
            let (to, from) = (mac("n1", "wan"), mac("n2", "wan"));
            two.wire[0].send(&ethernet(to, from, kind_of(packet), packet));
            two.relay();
            two.taken(0)
        };
        // UDP in clear, on no port of ESP and on one, whose payload is no SPI of ours;
        // ESP that the host made itself.
        let mut own_esp = udp4(LANS[0], [198, 51, 100, 5], (0, 0x7777), 1400, 3);
        own_esp[9] = 50;
        let clear = [
            udp4(LANS[0], [198, 51, 100, 5], (7, 9), 1400, 3),
            udp4(LANS[0], [198, 51, 100, 5], (4500, 4500), 1400, 3),
            own_esp,
            udp6(LANS6[0], "2001:db8:9::5", (7, 9), 1400, 3),
        ];
        for packet in &clear {
            let got = arrive(&mut two, &too_big(packet));
            assert_eq!(got.len(), 1, "{more} {:?}", two.net.drops(0));
            let at = if packet[0] >> 4 == 4 { 28 } else { 48 };
            assert_eq!(got[0][at..], packet[..100]);
        }
        assert_eq!(two.net.dropped(0, DropReason::IcmpForged), 0);
        // About what the node sealed for the host: the node's own, forged or not.
        two.send(0, &udp4(LANS[0], LANS[1], (7, 9), 1400, 3));
        let sealed = std::mem::take(&mut two.seen).remove(0)[14..].to_vec();
        assert_eq!(arrive(&mut two, &too_big(&sealed)), Vec::<Vec<u8>>::new());
        let mut forged = sealed;
        let number = if more.is_empty() { 24 } else { 32 };
        forged[number] ^= 0x40;
        assert_eq!(arrive(&mut two, &too_big(&forged)), Vec::<Vec<u8>>::new());
        assert_eq!(two.net.dropped(0, DropReason::IcmpForged), 1);
        two.net.assert_conserved();
    }
}

#[test]
fn fragments_in_clear_for_a_guarded_host_are_judged_by_the_policy() {
    for more in ["", "encapsulation = \"udp\""] {
        let text = guarded(1, "aes-gcm-128", more) + CLEAR;
        let texts = [text, guarded(2, "aes-gcm-128", more)].map_node();
        let mut two = Two::new(Net::new(), texts);
        let arrive = |two: &mut Two, packet: &[u8]| {
            for piece in in_two(packet, 400) {
                let (to, from) = (mac("n1", "wan"), mac("n2", "wan"));
                two.wire[0].send(&ethernet(to, from, kind_of(&piece), &piece));
            }
            two.relay();
            two.taken(0)
        };
        // The place of ESP in UDP is not known before the datagram is whole.
        let whole = !more.is_empty();
        let passes = udp4([198, 51, 100, 5], LANS[0], (9, 7), 900, 5);
        let got = arrive(&mut two, &passes);
        let octets: usize = got.iter().map(|packet| packet.len() - 20).sum();
        assert_eq!((got.len(), octets), (if whole { 1 } else { 2 }, 880), "{more}");
        let each = if whole { 1 } else { 2 };
        let protected = udp4(LANS[1], LANS[0], (9, 7), 900, 5);
        assert!(arrive(&mut two, &protected).is_empty());
        assert_eq!(two.net.dropped(0, DropReason::EspRequired), each, "{more}");
        let unknown = udp4([172, 16, 0, 5], LANS[0], (9, 7), 900, 5);
        assert!(arrive(&mut two, &unknown).is_empty());
        assert_eq!(two.net.dropped(0, DropReason::PolicyDiscard), each, "{more}");
        // Of IPv6 the first fragment may pass, a later one shows no protocol.
        let mut echo = udp6("2001:db8:9::5", LANS6[0], (0x8000, 0), 900, 5);
        echo[6] = 58;
        assert_eq!(arrive(&mut two, &echo).len(), 1, "{more}");
        assert_eq!(two.net.dropped(0, DropReason::PolicyDiscard), each + 1, "{more}");
        two.net.assert_conserved();
    }
}

#[test]
fn fragments_of_esp_and_of_esp_in_udp_for_a_guarded_host_are_put_together_and_opened() {
    for more in ["", "encapsulation = \"udp\""] {
        let texts = [guarded(1, "aes-gcm-128", more), guarded(2, "aes-gcm-128", more)].map_node();
        let mut two = Two::new(Net::new(), texts);
        let v4 = udp4(LANS[0], LANS[1], (7, 9), 900, 3);
        let v6 = with_sum(udp6(LANS6[0], LANS6[1], (7, 9), 900, 3));
        for packet in [v4, v6] {
            two.hosts[0].send(&ethernet(mac("n1", "lan"), HOST[0], kind_of(&packet), &packet));
            two.net.settle();
            let frames = two.wire[0].received().into_iter();
            let sealed: Vec<_> = frames.filter(|frame| is_packet(frame)).collect();
            assert_eq!(sealed.len(), 1);
            let mut pieces = in_two(&sealed[0][14..], 400);
            pieces.reverse();
            for piece in pieces {
                two.wire[1].send(&ethernet(
                    mac("n2", "wan"),
                    mac("n1", "wan"),
                    kind_of(&piece),
                    &piece,
                ));
            }
            two.relay();
            let got = two.taken(1);
            assert_eq!(got, [two_hops_later(&packet)], "{more} {:?}", two.net.drops(1));
        }
        two.net.assert_conserved();
    }
}

#[test]
fn tunnel_whose_way_has_labels_takes_what_fits_below_them() {
    let mtu = |way: &str| {
        let text = format!(
            r#"
            [node]
            name = "n"
            lab = true
            [[port]]
            name = "wan"
            driver = "wire"
            [[interface]]
            port = "wan"
            address = ["192.0.2.1/24"]
            mpls = true
            [[route]]
            prefix = "198.51.100.7/32"
            {way}
            [[tunnel]]
            name = "t"
            local = "192.0.2.1"
            remote = "198.51.100.7"
            suite = "aes-gcm-128"
            keying = "external"
            "#
        );
        Config::parse("x", &text, &mut named_key).unwrap_or_else(|e| panic!("{e}")).tunnels[0].mtu
    };
    let plain = mtu("via = \"192.0.2.2\"");
    // Pads to four octets: what a label takes is missing inside.
    assert_eq!(mtu("via = \"192.0.2.2\"\nlabels = [16002]"), plain - 4);
    // What is sealed is one flow, and takes one of them.
    let path = |hop| format!("{{ via = \"192.0.2.{hop}\", labels = [16002, 1000] }}");
    assert_eq!(mtu(&format!("paths = [{}, {}]", path(2), path(3))), plain - 8);
}
