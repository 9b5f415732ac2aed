//! Tunnels whose SAs a keying program gives, and tunnels whose other end moves.

mod net;

use ferrule_base::{DropReason, Duration, MacAddr};
use ferrule_dataplane::ipsec::Endpoints;
use ferrule_node::{AgreedSa, CounterStore, Datagram, Incident, Refused, Sa, SaOrder, Volatile};
use net::{Host, Kept, Net, agreed, config, ethernet, mac, udp4};
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

const HOST: MacAddr = MacAddr([2, 0, 0xaa, 1, 2, 3]);
const ROUTER: MacAddr = MacAddr([2, 0, 0xbb, 1, 2, 3]);
/// Where the other end is at first, and where it goes.
const FIRST: [u8; 4] = [198, 51, 100, 2];
const THEN: [u8; 4] = [203, 0, 113, 77];

/// A gateway behind a router, with a tunnel to [`FIRST`].
fn gateway(workers: usize, tunnel: &str) -> String {
    format!(
        "[node]\nname = \"g\"\nlab = true\ncores = {:?}\n\
         [[port]]\nname = \"lan\"\ndriver = \"wire\"\n\
         [[port]]\nname = \"wan\"\ndriver = \"wire\"\nmtu = 1600\n\
         [[interface]]\nport = \"lan\"\naddress = [\"10.1.0.1/24\"]\n\
         [[interface]]\nport = \"wan\"\naddress = [\"192.0.2.1/24\", \"192.0.2.5/24\"]\n\
         [[route]]\nprefix = \"0.0.0.0/0\"\nvia = \"192.0.2.254\"\n\
         [[tunnel]]\nname = \"t\"\nlocal = \"192.0.2.1\"\nremote = \"198.51.100.2\"\n\
         suite = \"aes-gcm-128\"\n{tunnel}\n\
         [[policy]]\ninterface = \"wan\"\naction = \"protect\"\ntunnel = \"t\"\n\
         local = \"10.1.0.0/24\"\nremote = \"10.2.0.0/24\"\n",
        (0..workers).collect::<Vec<_>>()
    )
}

/// The gateway between its host and its router.
struct One {
    net: Net,
    host: Host,
    wan: Host,
}

impl One {
    fn new(workers: usize, tunnel: &str) -> Self {
        Self::on(workers, tunnel, Box::new(Volatile::default()))
    }

    fn on(workers: usize, tunnel: &str, store: Box<dyn CounterStore>) -> Self {
        Self::of(&gateway(workers, tunnel), store)
    }

    fn of(text: &str, store: Box<dyn CounterStore>) -> Self {
        let mut net = Net::new();
        net.node_on(text, store);
        let (host, wan) = (net.host(0, "lan"), net.host(0, "wan"));
        net.settle();
        let tables = net.members[0].control.tables().clone();
        for iface in 0..tables.ifaces.len() as u16 {
            tables.neighbours.set(iface, [10, 1, 0, 9].into(), HOST);
            tables.neighbours.set(iface, [192, 0, 2, 254].into(), ROUTER);
        }
        Self { net, host, wan }
    }

    fn ask(&mut self, order: SaOrder) -> Result<Sa, Refused> {
        let control = &mut self.net.members[0].control;
        let token = control.order(order);
        self.net.settle();
        let (answered, answer) = self.net.members[0].control.poll_answer().expect("an answer");
        assert_eq!(answered, token);
        assert!(self.net.members[0].control.poll_answer().is_none());
        answer
    }

    /// Sends a packet of a flow from the host into the tunnel.
    fn send(&mut self, flow: u16) {
        let packet = udp4([10, 1, 0, 9], [10, 2, 0, 9], (flow, 9000), 60, 7);
        self.host.send(&ethernet(mac("g", "lan"), HOST, 0x0800, &packet));
        self.net.settle();
    }

    /// IP packets that left by the router.
    fn sealed(&mut self) -> Vec<Vec<u8>> {
        let frames = self.wan.received().into_iter().filter(|frame| frame[12..14] == [8, 0]);
        frames.map(|frame| frame[14..].to_vec()).collect()
    }

    fn incidents(&mut self) -> Vec<Incident> {
        self.net.members[0].control.take_incidents()
    }

    fn dropped(&mut self) -> u64 {
        self.net.dropped(0, DropReason::EspNoSa)
    }
}

fn is_acquire(incident: &Incident) -> bool {
    matches!(incident, Incident::Acquire { tunnel, header } if tunnel == "t" && header.len() == 60)
}

#[test]
fn packet_without_an_sa_asks_once_and_goes_on_with_the_first_that_is_used() {
    let mut one = One::new(1, "keying = \"external\"");
    (1..=3).for_each(|flow| one.send(flow));
    let incidents = one.incidents();
    assert!(incidents.len() == 1 && is_acquire(&incidents[0]), "{incidents:?}");
    assert_eq!((one.dropped(), one.sealed().len()), (2, 0), "one is kept");
    assert_eq!(one.net.ledger(0).held, 1);
    let early = one.net.members[0].control.order(SaOrder::AddOutbound(agreed("t", 0x1000)));
    let index = Sa::Outbound(0);
    let used = one.net.members[0].control.order(SaOrder::Use(index, None));
    let answer = one.net.members[0].control.poll_answer().expect("it is answered at once");
    assert_eq!(answer, (used, Err(Refused("it is not there yet".into()))));
    one.net.settle();
    assert_eq!(one.net.members[0].control.poll_answer(), Some((early, Ok(index))));
    assert_eq!(one.ask(SaOrder::Drop(index)), Ok(index));
    let said = one.net.members[0].workers[0].said();
    let out = one.ask(SaOrder::AddOutbound(agreed("t", 0x2000))).expect("it is added");
    assert!(one.net.members[0].workers[0].said() > said, "the control part is to be woken");
    assert!(one.sealed().is_empty(), "nothing is sent before it is used");
    assert_eq!(one.net.members[0].control.agreed("t", 0x2000, true), Some(out));
    assert_eq!(one.ask(SaOrder::Use(out, None)), Ok(out));
    let sealed = one.sealed();
    assert_eq!(sealed.len(), 1, "the packet that asked");
    assert_eq!((sealed[0][9], &sealed[0][16..20]), (50, &FIRST[..]));
    assert_eq!(sealed[0][20..28], [0, 0, 0x20, 0, 0, 0, 0, 1]);
    one.send(4);
    assert_eq!((one.sealed().len(), one.incidents()), (1, vec![]));
    // Without the SA another one is asked for.
    assert_eq!(one.ask(SaOrder::Drop(out)), Ok(out));
    one.send(5);
    assert!(one.incidents().iter().all(is_acquire));
    assert_eq!(one.net.ledger(0).held, 1);
    one.net.assert_conserved();
}

#[test]
fn unanswered_packet_is_dropped_in_time_and_the_next_one_asks_again() {
    let mut one = One::new(1, "keying = \"external\"");
    one.send(1);
    assert_eq!(one.incidents().len(), 1);
    one.net.wait(Duration::from_secs(29));
    one.send(2);
    assert_eq!((one.dropped(), one.incidents()), (1, vec![]));
    one.net.wait(Duration::from_secs(2));
    assert_eq!((one.dropped(), one.net.ledger(0).held), (2, 0));
    one.send(3);
    assert!(is_acquire(&one.incidents()[0]));
    // With the tunnel goes what waits for it.
    one.net.apply(
        0,
        &gateway(1, "in = { spi = 256, key = \"gcm:1\" }\nout = { spi = 257, key = \"gcm:2\" }"),
    );
    one.net.settle();
    assert_eq!((one.dropped(), one.net.ledger(0).held), (3, 0));
    one.net.assert_conserved();
}

#[test]
fn each_worker_may_seal_by_an_sa_of_its_own() {
    let mut one = One::new(2, "keying = \"external\"");
    let outs = [0, 1].map(|worker| {
        one.ask(SaOrder::AddOutbound(AgreedSa { worker, ..agreed("t", 0x2000 + worker as u32) }))
            .expect("it is added")
    });
    assert_eq!(one.ask(SaOrder::Use(outs[0], None)), Ok(outs[0]));
    assert_eq!(one.ask(SaOrder::Use(outs[1], Some(1))), Ok(outs[1]));
    (0..64).for_each(|flow| one.send(flow));
    let spis: Vec<u8> = one.sealed().iter().map(|packet| packet[23]).collect();
    assert_eq!(spis.len(), 64);
    assert!((0..2).all(|spi| spis.contains(&spi)), "each worker uses its own: {spis:?}");
    let refused = one.ask(SaOrder::Use(outs[1], Some(2)));
    assert_eq!(refused, Err(Refused("there is no worker 2".into())));
    // A packet waits for an SA of its own worker.
    for out in outs {
        assert_eq!(one.ask(SaOrder::Drop(out)), Ok(out));
    }
    one.send(1);
    assert_eq!((one.net.ledger(0).held, one.sealed().len()), (1, 0));
    for (worker, spi) in [(0, 0x3000), (1, 0x3001)] {
        let out = one
            .ask(SaOrder::AddOutbound(AgreedSa { worker, ..agreed("t", spi) }))
            .expect("it is added");
        assert_eq!(one.ask(SaOrder::Use(out, Some(worker))), Ok(out));
    }
    assert_eq!((one.net.ledger(0).held, one.sealed().len()), (0, 1));
}

#[test]
fn moved_sa_keeps_its_numbers_and_its_window() {
    let mut one = One::new(2, "keying = \"external\"");
    let out = one
        .ask(SaOrder::AddOutbound(AgreedSa { worker: 1, ..agreed("t", 0x2000) }))
        .expect("it is added");
    let inn = one.ask(SaOrder::AddInbound(agreed("t", 0x2001))).expect("it is added");
    assert_eq!(one.ask(SaOrder::Use(out, None)), Ok(out));
    (0..5).for_each(|flow| one.send(flow));
    assert_eq!(one.sealed().len(), 5);
    let to = |local: [u8; 4], remote: [u8; 4]| {
        let (local, remote) = (local.into(), remote.into());
        Endpoints { local, remote, ports: None }
    };
    let there = to([192, 0, 2, 5], THEN);
    assert_eq!(one.ask(SaOrder::Move(out, there)), Ok(out));
    assert_eq!(one.ask(SaOrder::Move(inn, there)), Ok(inn));
    one.send(6);
    let sealed = one.sealed();
    assert_eq!(sealed[0][12..20], [192, 0, 2, 5, 203, 0, 113, 77]);
    assert_eq!(sealed[0][24..28], [0, 0, 0, 6], "it goes on with its numbers");
    let path = |one: &One, to: [u8; 4]| {
        one.net.members[0].control.tables().sas.path(0x2000, IpAddr::from(to)).is_some()
    };
    assert!(path(&one, THEN) && !path(&one, FIRST), "errors about its packets find it");
    for (ends, why) in [
        (to([192, 0, 2, 9], THEN), "192.0.2.9 is no address of this node"),
        (to([192, 0, 2, 1], [192, 0, 2, 1]), "there is no route to 192.0.2.1"),
        (
            Endpoints { ports: Some((4500, 4500)), ..there },
            "ports are of ESP in UDP, which needs them",
        ),
        (
            Endpoints { remote: "2001:db8::1".parse().unwrap(), ..there },
            "both ends stay in the address family of the tunnel",
        ),
    ] {
        assert_eq!(one.ask(SaOrder::Move(out, ends)), Err(Refused(why.into())));
    }
    one.send(7);
    assert_eq!(one.sealed()[0][16..20], THEN, "what is refused changes nothing");
}

#[test]
fn agreed_sas_go_with_a_tunnel_that_changes_and_their_program_is_told() {
    let mut one = One::new(1, "keying = \"external\"");
    let out = one.ask(SaOrder::AddOutbound(agreed("t", 0x2000))).expect("it is added");
    assert_eq!(one.ask(SaOrder::Use(out, None)), Ok(out));
    one.net.apply(0, &gateway(1, "keying = \"external\"\nwindow = 64\nmtu = 1200"));
    one.net.settle();
    let gone = one.incidents();
    assert!(matches!(&gone[..], [Incident::SaGone(name)] if name.spi == 0x2000), "{gone:?}");
    assert_eq!(one.net.members[0].control.agreed("t", 0x2000, true), None);
    one.send(1);
    assert!(is_acquire(&one.incidents()[0]));
    let again = one.ask(SaOrder::AddOutbound(agreed("t", 0x2002))).expect("it is added");
    let refused = one.ask(SaOrder::AddOutbound(AgreedSa { spi: 0x2002, ..agreed("t", 0x2003) }));
    assert_eq!(refused, Err(Refused("the SPI 0x00002002 is another SA's".into())));
    assert_eq!(one.ask(SaOrder::Use(again, None)), Ok(again));
    assert_eq!(one.sealed().len(), 1);
}

#[test]
fn key_that_is_given_again_makes_other_nonces_also_after_a_restart() {
    let (store, mut ivs) = (Kept::default(), HashSet::new());
    for _ in 0..3 {
        let mut one = One::on(1, "keying = \"external\"", Box::new(store.clone()));
        for spi in 0x2000..0x2400 {
            let sa = AgreedSa { spi, ..agreed("t", 0x5000) };
            let out = one.ask(SaOrder::AddOutbound(sa)).expect("it is added");
            assert_eq!(one.ask(SaOrder::Use(out, None)), Ok(out));
            one.send(1);
            let sealed = one.sealed().pop().expect("it is sealed");
            assert_eq!(sealed[24..28], [0, 0, 0, 1], "its numbers begin anew");
            assert_eq!(sealed[33..36], [0, 0, 1], "the IV ends with the number");
            assert!(sealed[28] >= 0x80, "no number of a static key is such");
            assert!(ivs.insert(sealed[28..36].to_vec()), "an IV comes twice");
            assert_eq!(one.ask(SaOrder::Drop(out)), Ok(out));
        }
    }
}

const FOLLOWS: &str = "follow = true\nencapsulation = \"udp\"\nkeepalive-seconds = 0\n\
                       in = { spi = 256, key = \"gcm:1\" }\nout = { spi = 257, key = \"gcm:2\" }";

/// The other end: a gateway of its own, whose packets the test carries.
fn other_end() -> One {
    let text = gateway(
        1,
        "encapsulation = \"udp\"\nkeepalive-seconds = 0\n\
                           out = { spi = 256, key = \"gcm:1\" }\nin = { spi = 257, key = \"gcm:2\" }",
    );
    let text = text
        .replace(
            "local = \"10.1.0.0/24\"\nremote = \"10.2.0.0/24\"",
            "local = \"10.2.0.0/24\"\nremote = \"10.1.0.0/24\"",
        )
        .replace("address = [\"10.1.0.1/24\"]", "address = [\"10.2.0.1/24\"]");
    One::of(&text, Box::new(Volatile::default()))
}

impl One {
    /// Sealed packets of the other end, as an address translation sends them from `source`.
    fn sealed_from(&mut self, source: ([u8; 4], u16), flow: u16) -> Vec<u8> {
        let packet = udp4([10, 2, 0, 9], [10, 1, 0, 9], (flow, 9000), 60, 7);
        self.host.send(&ethernet(mac("g", "lan"), HOST, 0x0800, &packet));
        self.net.settle();
        let mut packet = self.sealed().pop().expect("it is sealed");
        packet[12..16].copy_from_slice(&source.0);
        packet[16..20].copy_from_slice(&[192, 0, 2, 1]);
        packet[20..22].copy_from_slice(&source.1.to_be_bytes());
        packet[10..12].fill(0);
        let sum = ferrule_wire::checksum::checksum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        ethernet(mac("g", "wan"), ROUTER, 0x0800, &packet)
    }
}

/// Destination and port of the packet that a node sends into its tunnel now.
fn heads_for(one: &mut One, flow: u16) -> ([u8; 4], u16) {
    one.send(flow);
    let sealed = one.sealed().pop().expect("it is sealed");
    let port = u16::from_be_bytes([sealed[22], sealed[23]]);
    (sealed[16..20].try_into().unwrap(), port)
}

#[test]
fn tunnel_that_follows_goes_to_where_the_newest_authentic_packet_came_from() {
    let (mut one, mut other) = (One::new(1, FOLLOWS), other_end());
    assert_eq!(heads_for(&mut one, 1), (FIRST, 4500));
    let old = other.sealed_from((FIRST, 4500), 1);
    let late = other.sealed_from((FIRST, 4500), 2);
    one.wan.send(&old);
    one.net.settle();
    assert_eq!(heads_for(&mut one, 1), (FIRST, 4500));
    assert!(one.incidents().is_empty());
    // Behind a translation that began anew.
    let moved = other.sealed_from((THEN, 31_000), 3);
    one.wan.send(&moved);
    one.net.settle();
    let address = SocketAddr::from((THEN, 31_000));
    assert_eq!(one.incidents(), [Incident::PeerMoved { tunnel: "t".into(), address }]);
    assert_eq!(heads_for(&mut one, 1), (THEN, 31_000));
    let arrived = one.host.received().into_iter().filter(|frame| frame[12..14] == [8, 0]);
    assert_eq!(arrived.count(), 2, "what came from there arrived");
    one.net.wait(Duration::from_secs(2));
    // A packet that was under way for longer, one seen before and a forged one do not move it.
    one.wan.send(&late);
    let mut seen = moved.clone();
    seen[26..30].copy_from_slice(&[203, 0, 113, 99]);
    let mut forged = other.sealed_from(([203, 0, 113, 98], 1), 4);
    *forged.last_mut().unwrap() ^= 1;
    for frame in [seen, forged] {
        let mut frame = frame;
        frame[24..26].fill(0);
        let sum = ferrule_wire::checksum::checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        one.wan.send(&frame);
    }
    one.net.settle();
    assert_eq!(heads_for(&mut one, 1), (THEN, 31_000));
    assert!(one.incidents().is_empty());
}

#[test]
fn rekeyed_and_reconfigured_tunnel_stays_where_its_other_end_is() {
    let (mut one, mut other) = (One::new(1, FOLLOWS), other_end());
    let moved = other.sealed_from((THEN, 31_000), 1);
    one.wan.send(&moved);
    one.net.settle();
    assert_eq!(heads_for(&mut one, 1), (THEN, 31_000));
    let rekeyed = FOLLOWS.replace("spi = 257, key = \"gcm:2\"", "spi = 300, key = \"gcm:3\"");
    one.net.apply(0, &gateway(1, &rekeyed));
    one.net.settle();
    assert_eq!(heads_for(&mut one, 1), (THEN, 31_000));
    // It moves once a second at most, and a tunnel that does not follow begins where it did.
    one.net.apply(0, &gateway(1, &rekeyed.replace("follow = true", "")));
    one.net.settle();
    assert_eq!(heads_for(&mut one, 1), (FIRST, 4500));
}

#[test]
fn other_end_moves_once_a_second_at_most() {
    let (mut one, mut other) = (One::new(1, FOLLOWS), other_end());
    let began = one.net.now;
    for port in 0..20 {
        let frame = other.sealed_from((THEN, 20_000 + port), port);
        one.wan.send(&frame);
        one.net.settle();
    }
    assert!(one.net.now < began + Duration::from_secs(1), "all within a second");
    assert_eq!(one.incidents().len(), 1);
    assert_eq!(heads_for(&mut one, 1), (THEN, 20_000));
    one.net.wait(Duration::from_secs(1));
    let frame = other.sealed_from((THEN, 21_000), 1);
    one.wan.send(&frame);
    one.net.settle();
    assert_eq!(heads_for(&mut one, 1), (THEN, 21_000));
}

/// A datagram from the other end's host to the node, as the router sends it.
fn to_node(port: u16, len: usize) -> Vec<u8> {
    let packet = udp4(FIRST, [192, 0, 2, 1], (500, port), len, 7);
    ethernet(mac("g", "wan"), ROUTER, 0x0800, &packet)
}

/// The gateway with a port for keying programs.
fn with_ports() -> One {
    let text = gateway(1, "keying = \"external\"");
    let text = text.replace("lab = true", "lab = true\nkeying-ports = [500]");
    One::of(&text, Box::new(Volatile::default()))
}

#[test]
fn datagrams_of_keying_pass_every_policy_both_ways_and_no_others_do() {
    let mut one = with_ports();
    one.wan.send(&to_node(500, 60));
    one.net.settle();
    assert_eq!(one.net.dropped(0, DropReason::NoKeyingProgram), 1);
    one.net.members[0].control.listen_for_datagrams(true);
    one.wan.send(&to_node(500, 60));
    let mut bad = to_node(500, 60);
    // It has a checksum, and a wrong one.
    bad[40] = 1;
    one.wan.send(&bad);
    one.wan.send(&to_node(501, 60));
    one.net.settle();
    let control = &mut one.net.members[0].control;
    let heard = control.poll_datagram().expect("it is for the program");
    let local = SocketAddr::from(([192, 0, 2, 1], 500));
    let remote = SocketAddr::from((FIRST, 500));
    assert_eq!((heard.local, heard.remote, heard.payload), (local, remote, vec![7; 32]));
    assert_eq!(control.poll_datagram(), None);
    let reasons = [DropReason::BadChecksum, DropReason::PolicyDiscard];
    assert_eq!(reasons.map(|reason| one.net.dropped(0, reason)), [1, 1]);
    let answer = Datagram { local, remote, payload: b"agreed".to_vec() };
    assert_eq!(one.net.members[0].control.send_datagram(&answer), Ok(()));
    one.net.settle();
    let sent = one.sealed().pop().expect("it leaves");
    assert_eq!((sent[9], &sent[12..20]), (17, &[192, 0, 2, 1, 198, 51, 100, 2][..]), "in clear");
    assert_eq!((&sent[20..26], &sent[28..]), (&[1, 244, 1, 244, 0, 14][..], &b"agreed"[..]));
    let control = &mut one.net.members[0].control;
    for (datagram, why) in [
        (Datagram { local: ([192, 0, 2, 1], 501).into(), ..answer.clone() }, "port 501"),
        (Datagram { local: ([192, 0, 2, 9], 500).into(), ..answer.clone() }, "192.0.2.9 is no"),
        (Datagram { remote: ([192, 0, 2, 1], 500).into(), ..answer.clone() }, "no way to"),
        (Datagram { payload: vec![0; 60_000], ..answer.clone() }, "60000 octets find no buffer"),
    ] {
        let Err(Refused(refused)) = control.send_datagram(&datagram) else { panic!("it is sent") };
        assert!(refused.contains(why), "{refused}");
    }
    one.net.assert_conserved();
}

#[test]
fn flood_of_datagrams_that_no_program_takes_is_bounded() {
    let mut one = with_ports();
    one.net.members[0].control.listen_for_datagrams(true);
    for _ in 0..40 {
        (0..100).for_each(|_| one.wan.send(&to_node(500, 1000)));
        one.net.settle();
    }
    assert_eq!(one.net.dropped(0, DropReason::ControlQueueFull), 4000 - 1024);
    let control = &mut one.net.members[0].control;
    assert_eq!(std::iter::from_fn(|| control.poll_datagram()).count(), 1024);
    one.net.assert_conserved();
}

#[test]
fn configurations_that_do_not_fit_are_refused_in_words() {
    let words = |tunnel: &str| {
        let refused = std::panic::catch_unwind(|| config(&gateway(1, tunnel)));
        let why = refused.err().and_then(|e| e.downcast::<String>().ok()).expect("it is refused");
        *why
    };
    let sas = "in = { spi = 256, key = \"gcm:1\" }\nout = { spi = 257, key = \"gcm:2\" }";
    assert!(words("").contains("`t` has no SA `in`"));
    let both = words(&format!("keying = \"external\"\n{sas}"));
    assert!(both.contains("an SA of the file, with `keying = \"external\"`"), "{both}");
    let every = words("keying = \"external\"\nevery-worker = true\npeer-window = 0");
    assert!(every.contains("`every-worker` with `keying"), "{every}");
    let bare = words(&format!("follow = true\n{sas}"));
    assert!(bare.contains("`follow` without ESP in UDP"), "{bare}");
}
