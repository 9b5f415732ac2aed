//! Packets that follow others into an SA are sealed where they come in, and no others.

use super::*;
use crate::graph::FLAG_LOCAL;
use crate::route::tests::rig::{HOST, Rig, frame, own, v4};
use ferrule_base::PortId;
use ferrule_crypto::Aes;
use ferrule_wire::EtherType;

const SUITE: Suite = Suite::AesGcm(Aes::Aes128);

/// A node that protects UDP to port 9 behind the router, whose SA has sealed four packets.
struct Node<E> {
    rig: Rig,
    out: EspOut,
    engine: E,
}

impl Node<Software> {
    fn new() -> Self {
        let mut rig = Rig::new();
        let udp9 = Selector { remote_ports: Field::is(9), ..between("10.0.0.0/8", "10.9.0.0/16") };
        let protect = PolicyEntry::new(udp9.of(Protocol::UDP), Action::Protect(0));
        rig.tables.policies = vec![Spd::new(&[protect]).unwrap()];
        rig.tables.sas = SaDirectory::new(&[Some(0)], &[]).unwrap();
        rig.routed(1).policy = Some(0);
        let (mut out, mut engine) = (EspOut::default(), Software::default());
        let sa = super::outbound(SUITE, 4, true);
        let sa = OutboundConfig { adjacency: 1, ..sa };
        out.install_at(&mut engine, 0, &sa, Sequence::unlimited(1, 1000)).unwrap();
        let mut node = Self { rig, out, engine };
        let mut batch = node.batch(&vec![Given::usual(); 4]);
        let (attach, parts) = Rig::attach(&mut node.rig);
        attach.push(&mut parts.ctx(), &mut batch);
        batch.extend(node.rig.out.queue(Next::EspOut).drain(..));
        assert_eq!(batch.len(), 4, "they are for the SA");
        let (_, parts) = Rig::attach(&mut node.rig);
        node.out.push(&mut parts.ctx(), &mut node.engine, &mut batch);
        node.sent();
        node
    }
}

impl<E: Engine<Packet>> Node<E> {
    fn batch(&mut self, given: &[Given]) -> Box<Batch> {
        let packet = |given: &Given| {
            let mut packet = self.rig.packet(&given.octets);
            *packet.meta_mut() = given.meta;
            packet
        };
        Box::new(given.iter().map(packet).collect())
    }

    /// What is left of a batch.
    fn seal_ahead(&mut self, given: &[Given]) -> Vec<Vec<u8>> {
        let mut batch = self.batch(given);
        let Rig { attach, tables, now, cache, tally, out, .. } = &mut self.rig;
        let mut ctx = Ctx { now: *now, worker: 0, tables, cache, tally, out };
        attach.seal_ahead(&mut ctx, &mut self.out, &mut self.engine, &mut batch);
        batch.drain(..).map(|packet| packet.data().to_vec()).collect()
    }

    /// What went on, and where to.
    fn sent(&mut self) -> Vec<(Next, Packet)> {
        let mut sent = Vec::new();
        for next in Next::ALL {
            sent.extend(self.rig.out.queue(next).drain(..).map(|packet| (next, packet)));
        }
        sent
    }
}

/// A frame, and what is known of it when it has come in.
#[derive(Clone)]
struct Given {
    octets: Vec<u8>,
    meta: Meta,
}

/// Where the IPv4 header begins.
const IP: usize = 14;

impl Given {
    fn usual() -> Self {
        Self::of(&v4("10.3.0.9", "10.9.0.7", Protocol::UDP, &[0, 7, 0, 9, 0, 20, 0, 0, 1, 2, 3, 4]))
    }

    fn of(ip: &[u8]) -> Self {
        let octets = frame(own(0), HOST, EtherType::IPV4, ip);
        Self { octets, meta: Meta { port: PortId(0), ..Meta::default() } }
    }

    /// Another octet of the frame, with a header whose checksum is right.
    fn with(mut self, at: usize, octet: u8) -> Self {
        self.octets[at] = octet;
        ipv4::fill_checksum(&mut self.octets[IP..]);
        self
    }

    /// An octet that is off by a bit, and no checksum that knows of it.
    fn wrong(mut self, at: usize) -> Self {
        self.octets[at] ^= 1;
        self
    }
}

#[test]
fn what_follows_into_an_sa_is_sealed_where_it_comes_in_and_nothing_else() {
    let usual = Given::usual;
    let longer =
        v4("10.3.0.9", "10.9.0.7", Protocol::UDP, &[0, 7, 0, 9, 0, 20, 0, 0, 1, 2, 3, 4, 5]);
    let mut padded = usual();
    padded.octets.push(0);
    let marked = |change: fn(&mut Meta)| {
        let mut given = usual();
        change(&mut given.meta);
        given
    };
    let cases = [
        ("identification", true, usual().with(IP + 5, 99)),
        ("TTL", true, usual().with(IP + 8, 2)),
        ("source port", false, usual().wrong(IP + 21)),
        ("payload", true, usual().wrong(IP + 29)),
        ("TTL at its end", false, usual().with(IP + 8, 1)),
        ("checksum", false, usual().wrong(IP + 10)),
        ("TTL without checksum", false, usual().wrong(IP + 8)),
        ("identification without checksum", false, usual().wrong(IP + 4)),
        ("class", false, usual().with(IP + 1, 4)),
        ("more fragments", false, usual().with(IP + 6, 0x20)),
        ("fragment", false, usual().with(IP + 7, 1)),
        ("DF", false, usual().with(IP + 6, 0x40)),
        ("version", false, usual().wrong(IP)),
        ("total length", false, usual().with(IP + 3, 31)),
        ("protocol", false, usual().with(IP + 9, 6)),
        ("source", false, usual().with(IP + 15, 8)),
        ("destination", false, usual().with(IP + 19, 8)),
        ("destination port", false, usual().wrong(IP + 23)),
        ("station", false, usual().wrong(5)),
        ("ethertype", false, usual().wrong(13)),
        ("source station", true, usual().wrong(11)),
        ("longer", false, Given::of(&longer)),
        ("padded", false, padded),
        ("port", false, marked(|meta| meta.port = PortId(1))),
        ("turns", false, marked(|meta| meta.turns = 1)),
    ];
    for (what, follows, odd) in cases {
        let mut node = Node::new();
        let before = node.rig.tally.work.lookups;
        let given = [usual(), usual(), odd.clone(), usual()];
        let left = node.seal_ahead(&given);
        let sent = node.sent();
        let ends = if follows { (4, Next::Transmit) } else { (2, Next::Output) };
        assert_eq!((sent.len(), sent[0].0), ends, "{what}");
        assert_eq!(node.rig.tally.work.lookups - before, 2 * ends.0 as u64, "{what}");
        let untouched: Vec<_> = given[ends.0..].iter().map(|given| given.octets.clone()).collect();
        assert_eq!(left, untouched, "{what}");
        // It leads nobody, either.
        if !follows {
            assert_eq!(node.seal_ahead(&[odd, usual()]).len(), 2, "{what}");
            assert!(node.sent().is_empty(), "{what}");
        }
    }
}

#[test]
fn what_is_sealed_ahead_opens_as_what_came_with_one_hop_less() {
    let mut node = Node::new();
    assert!(node.seal_ahead(&[Given::usual()]).is_empty());
    let sent = node.sent();
    let Ok([(Next::Transmit, packet)]) = <[_; 1]>::try_from(sent) else { panic!("one frame") };
    assert_eq!(packet.meta().port, PortId(1));
    let mut far = Gateway::<Software>::new(1);
    let selectors = vec![between("10.9.0.0/16", "10.0.0.0/8")];
    let sa = InboundConfig { selectors, ..super::inbound(SUITE, 4, true) };
    far.inn.install_at(&mut far.engine, 0, &sa, 0).unwrap();
    let End::Sent(Next::Ip, opened) = far.open(&packet.data()[IP..]) else { panic!("it opens") };
    assert_eq!(opened, Given::usual().with(IP + 8, 63).octets[IP..]);
    // Without a link header it is known for what it is.
    node.rig.tables.neighbours.remove(1, ip("10.1.0.2"));
    assert!(node.seal_ahead(&[Given::usual()]).is_empty());
    let [(Next::Output, packet)] = &node.sent()[..] else { panic!("one packet") };
    let meta = packet.meta();
    assert_eq!((meta.target, meta.ethertype, meta.turns), (1, EtherType::IPV4.0, 1));
    assert!(meta.flags & FLAG_LOCAL != 0);
}

#[test]
fn what_looks_otherwise_takes_the_link_header_off_the_others() {
    let mut node = Node::new();
    assert!(node.seal_ahead(&[Given::usual()]).is_empty());
    assert_eq!(node.sent()[0].0, Next::Transmit);
    // The mould has a link header in it now. One that is longer comes first.
    let longer = v4("10.3.0.9", "10.9.0.7", Protocol::UDP, &[9; 40]);
    let usual = Given::usual().octets[IP..].to_vec();
    let for_sa = |octets| Given { octets, meta: Meta { target: 0, ..Meta::default() } };
    let given = [longer, usual.clone(), usual].map(for_sa);
    let mut batch = node.batch(&given);
    let (_, parts) = Rig::attach(&mut node.rig);
    node.out.push(&mut parts.ctx(), &mut node.engine, &mut batch);
    let sent = node.sent();
    assert_eq!(sent.len(), 3);
    for (next, packet) in sent {
        assert_eq!((next, packet.data()[0]), (Next::Output, 0x45));
    }
}

#[test]
fn nothing_is_sealed_ahead_of_what_waits_nor_where_an_engine_is_late() {
    for place in [Next::Ip, Next::Policy, Next::EspOut] {
        let mut node = Node::new();
        let packet = node.rig.packet(&[0x45; 20]);
        node.rig.out.queue(place).push(packet);
        assert_eq!(node.seal_ahead(&[Given::usual()]).len(), 1, "{}", place.name());
    }
    let mut node = Node::new();
    node.rig.out.watch(true);
    assert_eq!(node.seal_ahead(&[Given::usual()]).len(), 1, "somebody looks");
    node.rig.out.watch(false);
    node.rig.attach.forget();
    assert_eq!(node.seal_ahead(&[Given::usual()]).len(), 1, "there are new tables");
    // One that was not when the mould was made.
    let Node { rig, out, .. } = Node::new();
    let mut node = Node { rig, out, engine: Late::<Packet>::make(1) };
    assert_eq!(node.seal_ahead(&[Given::usual()]).len(), 1, "it comes back later");
}
