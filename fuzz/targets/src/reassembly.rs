//! Fragments of a few datagrams, in any order, overlapping, altered, with time that
//! passes: no packet and no buffer is lost, what comes out is a whole datagram, and
//! made of nothing but what was said of it.

use crate::input::Input;
use ferrule_base::{Duration, Instant, VrfId};
use ferrule_dataplane::fragment::REASSEMBLY_TIME;
use ferrule_dataplane::graph::{Ctx, FLAG_ONWARDS, FLAG_OPENED, Next, Outputs, Stage, Tally};
use ferrule_dataplane::{Tables, fragment::Reassemble};
use ferrule_pipeline::{Batch, Packet, Pool, PoolCache};
use ferrule_wire::{Protocol, ipv4, ipv6, ipv6ext};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Fragments of an input at most.
const FRAGMENTS_MAX: usize = 400;

/// Buffers: an eighth of them is what the stage may use.
const CHUNKS: usize = 128;

struct Rig {
    stage: Reassemble,
    tables: Tables,
    cache: PoolCache,
    tally: Tally,
    out: Outputs,
    now: Instant,
    pushed: u64,
    sent: u64,
}

impl Rig {
    fn new() -> Self {
        Self {
            stage: Reassemble::default(),
            tables: Tables::default(),
            cache: Pool::heap(CHUNKS, 2048).cache(),
            tally: Tally::default(),
            out: Outputs::new(),
            now: Instant::from_secs(1),
            pushed: 0,
            sent: 0,
        }
    }

    fn with(&mut self, what: impl FnOnce(&mut Reassemble, &mut Ctx<'_>)) {
        let Self { stage, tables, cache, tally, out, now, .. } = self;
        let mut ctx = Ctx { now: *now, worker: 0, tables, cache, tally, out };
        what(stage, &mut ctx);
        self.look();
    }

    /// Takes the packets that came out, and checks that every buffer is accounted for.
    fn look(&mut self) {
        for next in Next::ALL {
            for packet in self.out.queue(next).drain(..) {
                self.sent += 1;
                if matches!(next, Next::Ip | Next::Policy) {
                    assert!(is_whole(packet.data()), "{next:?} {packet:?}");
                } else {
                    assert_eq!(next, Next::IcmpError);
                }
                self.cache.recycle(packet);
            }
        }
        for (packet, reason) in self.out.dropped().drain(..) {
            self.tally.drops.count(reason);
            self.cache.recycle(packet);
        }
        let ended =
            self.sent + self.tally.consumed + self.tally.drops.total() + self.stage.held() as u64;
        assert_eq!(self.pushed + self.tally.made, ended, "packets are conserved");
        assert!(self.stage.held() == 0 || self.stage.poll_timeout().is_some());
    }
}

/// A datagram that is no fragment and as long as it says.
fn is_whole(data: &[u8]) -> bool {
    match data.first().map(|b| b >> 4) {
        Some(4) => {
            ipv4::validate(data).is_ok_and(|(h, _, len)| !h.is_fragment() && len == data.len())
        }
        Some(6) => ipv6::validate(data).is_ok_and(|(_, len)| len == data.len()),
        _ => false,
    }
}

/// A fragment as the input describes it.
fn fragment(input: &mut Input<'_>) -> Vec<u8> {
    let how = input.u8();
    let (ident, source) = (input.u8() & 3, input.u8());
    // Near to one another, so that pieces meet.
    let (offset, more) = (u16::from(input.u8()) & 0x1f, how & 2 != 0);
    let offset = if how & 0xe0 == 0xe0 { 0x1fff - offset } else { offset };
    let mut len = usize::from(input.u8()) * if how & 4 != 0 { 8 } else { 1 };
    if more && how & 8 == 0 {
        len &= !7;
    }
    let data = vec![if how & 16 != 0 { input.u8() } else { 7 }; len];
    let protocol =
        *input.pick(&[Protocol::UDP, Protocol::TCP, Protocol::ESP, Protocol::DESTINATION]);
    let mut out = Vec::new();
    if how & 1 == 0 {
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, source), Ipv4Addr::new(10, 0, 0, 1));
        let mut repr = ipv4::Repr::new(protocol, src, dst, len as u16);
        (repr.ident, repr.fragment_offset, repr.more_fragments) = (ident.into(), offset, more);
        repr.ecn = ferrule_wire::Ecn::from_bits(source >> 6);
        out.resize(repr.len(), 0);
        repr.emit(&mut out);
    } else {
        let net = |low: u8| Ipv6Addr::new(0x2001, 0xdb8, 0, low.into(), 0, 0, 0, 1);
        let chain = if how & 0x40 != 0 { vec![44, 0, 1, 4, 0, 0, 0, 0] } else { Vec::new() };
        let next = if chain.is_empty() { Protocol::FRAGMENT } else { Protocol::DESTINATION };
        let payload = chain.len() + ipv6ext::Header::LEN + len;
        let repr = ipv6::Repr::new(next, net(source), net(1), payload as u16);
        out.resize(repr.len(), 0);
        repr.emit(&mut out);
        out.extend(chain);
        let at = out.len();
        out.resize(at + ipv6ext::Header::LEN, 0);
        let header = ipv6ext::Repr { next: protocol, offset, more, ident: ident.into() };
        header.emit(&mut out[at..]);
    }
    out.extend(data);
    out
}

/// Fragments and time.
pub fn reassembly(data: &[u8]) {
    let (mut input, mut rig) = (Input::new(data), Rig::new());
    for _ in 0..FRAGMENTS_MAX {
        if input.is_empty() {
            break;
        }
        let how = input.u8();
        if how & 0xf0 == 0xf0 {
            rig.now += Duration::from_secs(u64::from(how & 15) * 5);
            rig.with(|stage, ctx| stage.expire(ctx));
            continue;
        }
        let mut octets = fragment(&mut input);
        if how & 0x0f == 0 {
            input.alter(&mut octets);
        }
        let Some(mut packet) = rig.cache.packet_from(&octets) else { continue };
        let meta = packet.meta_mut();
        meta.ethertype = if octets.first().is_some_and(|b| b >> 4 == 6) { 0x86dd } else { 0x0800 };
        meta.vrf = VrfId(u16::from(how & 0x30 == 0x30));
        meta.flags = match how & 0xc0 {
            0x40 => FLAG_OPENED,
            0x80 => FLAG_ONWARDS,
            _ => 0,
        };
        rig.pushed += 1;
        let mut batch = Box::new(Batch::new());
        batch.push(packet);
        rig.with(|stage, ctx| stage.push(ctx, &mut batch));
    }
    rig.now += REASSEMBLY_TIME;
    rig.with(|stage, ctx| stage.expire(ctx));
    assert_eq!((rig.stage.held(), rig.stage.poll_timeout()), (0, None), "nothing waits for ever");
    let all: Vec<Packet> = std::iter::from_fn(|| rig.cache.packet()).collect();
    assert_eq!(all.len(), CHUNKS, "every buffer is back");
}

/// Sequences of fragments, in order and out of it.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for version in [0u8, 1] {
        let piece =
            |how: u8, ident: u8, offset: u8, len: u8| [1, version | how, ident, 2, offset, len, 0];
        let whole = [piece(2, 1, 0, 40), piece(2, 1, 5, 40), piece(0, 1, 10, 9)];
        all.push(whole.concat());
        all.push([whole[2], whole[0], whole[1]].concat());
        all.push([whole[0], whole[0], whole[1]].concat());
        all.push([whole[0], piece(2, 1, 4, 40), whole[1], whole[2]].concat());
        let late = [whole[0].to_vec(), vec![0xff], whole[1].to_vec()].concat();
        all.push(late);
        let many = (0..120u8).flat_map(|n| [1, version | 2, n, n, 0, 64, 0]).collect();
        all.push(many);
    }
    all
}
