//! The replay script: what an SA takes, refuses and counts, step by step, with
//! windows of 32, 64 and 131,072 numbers, extended numbers off and on.
//!
//! ```text
//!   left of the window │ ◀─────── window ───────▶ │ ahead
//!   ESN off: a replay  │ once each                │ passes, if authentic
//!   ESN on: taken for  │                          │
//!   the next epoch's,  │                          │
//!   fails its ICV      │                          │
//! ```

use super::*;
use ferrule_crypto::{Aes, Mac};

const WINDOWS: [u32; 3] = [32, 64, 131_072];
const EPOCH: u64 = 1 << 32;
/// Packets with a wrong key, and runts.
const HOSTILE: u64 = 17;

/// A sender of any number, and a receiver.
struct Script<E> {
    g: Gateway<E>,
    suite: Suite,
    window: u32,
    esn: bool,
}

impl<E: Make> Script<E> {
    /// A receiver that has everything up to `edge`.
    fn at(suite: Suite, window: u32, esn: bool, edge: u64) -> Self {
        let mut g = Gateway::new(5);
        let inn = InboundConfig { window, ..inbound(suite, 4, esn) };
        g.inn.install_at(&mut g.engine, 0, &inn, edge).unwrap();
        Self { g, suite, window, esn }
    }

    fn max(&self) -> u64 {
        if self.esn { u64::MAX - 1 } else { u32::MAX.into() }
    }

    /// A sender that begins with `number`.
    fn sender(&mut self, number: u64, change: impl FnOnce(&mut OutboundConfig)) {
        let mut out = outbound(self.suite, 4, self.esn);
        change(&mut out);
        self.g.out.retire(&mut self.g.engine, 0);
        let numbers = Sequence::unlimited(number, self.max());
        self.g.out.install_at(&mut self.g.engine, 0, &out, numbers).unwrap();
    }

    fn seal(&mut self, number: u64) -> Vec<u8> {
        self.sender(number, |_| ());
        self.g.sealed(&inner(4, 60, 0))
    }

    /// The same under a key that the receiver has not.
    fn seal_wrong(&mut self, number: u64) -> Vec<u8> {
        self.sender(number, |out| {
            let other = |key: &Secret| Secret::new(key.expose().iter().map(|b| !b).collect());
            out.keys.key = other(&out.keys.key);
            out.keys.mac_key = other(&out.keys.mac_key);
        });
        self.g.sealed(&inner(4, 60, 0))
    }

    fn passes(&mut self, packet: &[u8]) {
        assert_eq!(self.g.open(packet), End::Sent(Next::Ip, inner(4, 60, 0)), "{}", self.case());
    }

    fn refused(&mut self, packet: &[u8], reason: DropReason) {
        let edge = self.g.edge();
        assert_eq!(self.g.open(packet), End::Dropped(reason), "{}", self.case());
        assert_eq!(self.g.edge(), edge, "{}: nothing moved", self.case());
    }

    fn stats(&self) -> SaStats {
        self.g.inn.show().next().unwrap().stats
    }

    fn case(&self) -> String {
        format!(
            "{}, window {}, ESN {}, edge {:#x}",
            self.suite,
            self.window,
            self.esn,
            self.g.edge()
        )
    }
}

/// 1 to 33 pass, and the same again are counted as replays: with extended numbers
/// those that the window still has, for what is left of it is of another epoch.
fn once_each<E: Make>(mut s: Script<E>) {
    let packets: Vec<_> = (1..=33).map(|number| s.seal(number)).collect();
    packets.iter().for_each(|packet| s.passes(packet));
    for (number, packet) in (1u32..).zip(&packets) {
        let left = s.esn && number + s.window <= 33;
        let reason = if left { DropReason::EspBadIcv } else { DropReason::EspReplay };
        s.refused(packet, reason);
    }
    let left = if s.esn { 33u64.saturating_sub(s.window.into()) } else { 0 };
    let stats = s.stats();
    assert_eq!(
        (stats.packets, stats.replays, stats.bad_icv),
        (33, 33 - left, left),
        "{}",
        s.case()
    );
}

/// Eight copies of one number pass once; past the window, three copies likewise.
fn copies_and_a_jump<E: Make>(mut s: Script<E>) {
    let packet = s.seal(1);
    s.passes(&packet);
    (0..7).for_each(|_| s.refused(&packet, DropReason::EspReplay));
    let far = 1 + 2 * u64::from(s.window) + 1000;
    let packet = s.seal(far);
    s.passes(&packet);
    (0..2).for_each(|_| s.refused(&packet, DropReason::EspReplay));
    assert_eq!((s.g.edge(), s.stats().replays), (far, 9));
}

/// A packet that fails authentication never moves the window: a number inside it still
/// passes after packets with a wrong key, and runts, far ahead.
fn hostile_far_ahead<E: Make>(mut s: Script<E>) {
    let edge = 3 * u64::from(s.window);
    let (last, within) = (s.seal(edge), s.seal(edge - u64::from(s.window) + 1));
    let (below, between) = (s.seal(edge - u64::from(s.window)), s.seal(edge - 1));
    s.passes(&last);
    for n in 0..HOSTILE {
        let ahead = edge + 5 * u64::from(s.window) + n * 1000;
        let wrong = s.seal_wrong(ahead);
        s.refused(&wrong, DropReason::EspBadIcv);
        // Cut to headers; then cut by a block, so that an ICV seems to be there.
        let whole = s.seal(ahead);
        let body = 20 + 8 + s.suite.esp_iv_len();
        s.refused(&cut(&whole, body + (n as usize) % 2), DropReason::Malformed);
        let shorter = cut(&whole, whole.len() - s.suite.esp_align());
        s.refused(&shorter, DropReason::EspBadIcv);
    }
    assert_eq!((s.g.edge(), s.stats().bad_icv), (edge, 2 * HOSTILE));
    s.passes(&within);
    s.passes(&between);
    // One below: without extended numbers a replay, with them a trial that fails.
    let reason = if s.esn { DropReason::EspBadIcv } else { DropReason::EspReplay };
    s.refused(&below, reason);
    let stats = s.stats();
    let trial = u64::from(s.esn);
    assert_eq!((stats.replays, stats.bad_icv), (1 - trial, 2 * HOSTILE + trial), "{}", s.case());
}

/// The first octets of a packet, its length made good.
fn cut(packet: &[u8], len: usize) -> Vec<u8> {
    let mut packet = packet[..len].to_vec();
    packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    ipv4::fill_checksum(&mut packet);
    packet
}

/// 0xffffffff is sent; the next is not, and counted, without extended numbers, and
/// goes on at 2^32 with them.
fn the_last_of_32_bits<E: Make>(mut s: Script<E>) {
    s.sender(EPOCH - 2, |_| ());
    let plain = inner(4, 60, 0);
    let sent: Vec<_> = (0..2).map(|_| s.g.sealed(&plain)).collect();
    assert_eq!(sent[1][24..28], [0xff; 4]);
    sent.iter().for_each(|packet| s.passes(packet));
    assert_eq!(s.g.edge(), EPOCH - 1);
    if s.esn {
        let next = s.g.sealed(&plain);
        assert_eq!(next[24..28], [0; 4]);
        s.passes(&next);
        assert_eq!(s.g.edge(), EPOCH);
    } else {
        for n in 1..=3 {
            assert_eq!(s.g.seal(&plain), End::Dropped(DropReason::EspSequenceExhausted));
            assert_eq!(s.g.out.show().next().unwrap().stats.failed, n, "counted");
        }
    }
}

/// Across the wrap, and back into the last epoch; two epochs ahead fails and moves
/// nothing.
fn across_the_wrap<E: Make>(mut s: Script<E>) {
    let (late, last) = (s.seal(EPOCH - 9), s.seal(EPOCH - 1));
    let (first, on) = (s.seal(EPOCH), s.seal(EPOCH + 7));
    s.passes(&last);
    s.passes(&on);
    s.passes(&first);
    s.passes(&late);
    assert_eq!(s.g.edge(), EPOCH + 7);
    for packet in [&late, &last, &first, &on] {
        s.refused(packet, DropReason::EspReplay);
    }
    for number in [2 * EPOCH + EPOCH + 8, 2 * EPOCH + EPOCH - 5, 3 * EPOCH + 100_000] {
        let ahead = s.seal(number);
        s.refused(&ahead, DropReason::EspBadIcv);
    }
    // The next of this epoch, and the far end of what can still be told.
    let next = s.seal(EPOCH + 8);
    s.passes(&next);
    let farthest = EPOCH + 8 + (EPOCH - u64::from(s.window));
    let packet = s.seal(farthest);
    s.passes(&packet);
    assert_eq!(s.g.edge(), farthest);
}

fn replay_script_holds_for_windows_of_32_64_and_131072_with_and_without_esn<E: Make>() {
    let cbc = Suite::AesCbc(Aes::Aes128, Mac::HmacSha1_96);
    for suite in [Suite::AesGcm(Aes::Aes128), Suite::ChaCha20Poly1305, cbc] {
        for window in WINDOWS {
            for esn in [false, true] {
                let fresh = || Script::<E>::at(suite, window, esn, 0);
                once_each(fresh());
                copies_and_a_jump(fresh());
                hostile_far_ahead(fresh());
                the_last_of_32_bits(Script::<E>::at(suite, window, esn, EPOCH - 3));
                if esn {
                    across_the_wrap(Script::<E>::at(suite, window, esn, EPOCH - 20));
                }
            }
        }
    }
}

on_both_engines! {
    replay_script_holds_for_windows_of_32_64_and_131072_with_and_without_esn;
}

#[test]
fn replay_window_of_131072_has_its_bits_apart_and_is_as_long_as_it_says() {
    let window = Window::new(131_072, 1 << 20);
    assert!(size_of::<Window>() <= 40, "the bits are elsewhere");
    assert!(window.octets() >= 131_072 / 8 && window.octets() <= 131_072 / 4 + 16);
    let mut g = Gateway::<Software>::new(1);
    let suite = Suite::AesGcm(Aes::Aes128);
    let inn = InboundConfig { window: 131_072, ..inbound(suite, 4, true) };
    g.inn.install_at(&mut g.engine, 0, &inn, 1 << 20).unwrap();
    let mut s = Script { g, suite, window: 131_072, esn: true };
    let ahead = (1 << 20) + 131_072;
    let (edge, oldest) = (s.seal(ahead), s.seal((1 << 20) + 1));
    s.passes(&edge);
    s.passes(&oldest);
    s.refused(&oldest, DropReason::EspReplay);
}
