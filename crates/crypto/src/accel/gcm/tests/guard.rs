//! Every octet that a kernel is given stands against a page that may not be
//! touched, once behind it and once in front of it: a read or write beyond ends
//! the test with a signal. (Behind a text stands its ICV; that is compared.)

use super::super::{BLOCK, GROUP, Key, Sealed, run};
use super::*;
use crate::accel::tests::guard::Guarded;
use crate::job::Op;
use crate::suite::Aes;

/// Octets between two pages that may not be touched.
const ROOM: usize = 4 * 4096;

/// Three of them for one packet: nonce, additional data, text and ICV.
struct Room([Guarded; 3]);

impl Room {
    fn new() -> Self {
        Self(std::array::from_fn(|_| Guarded::new(ROOM)))
    }

    fn fill(&mut self, octet: u8, len: usize, ad: usize, at_end: bool) {
        let [nonce, header, sealed] = &mut self.0;
        nonce.slice(12, at_end).fill(octet);
        header.slice(ad, at_end).fill(octet);
        sealed.slice(len + BLOCK, at_end).fill(octet);
    }

    fn lane<'a>(
        &'a mut self,
        (key, verdict): (&'a Key, &'a mut Verdict),
        len: usize,
        ad: usize,
        at_end: bool,
    ) -> Lane<'a> {
        let [nonce, header, sealed] = &mut self.0;
        let nonce: &mut [u8; 12] = nonce.slice(12, at_end).try_into().unwrap();
        let sealed = Sealed::new(sealed.slice(len + BLOCK, at_end)).unwrap();
        Lane { key, nonce, ad: header.slice(ad, at_end), sealed, verdict }
    }
}

/// Seals and opens a group of packets that are alike.
fn check(rooms: &mut [Room], key: &Key, len: usize, ad: usize, at_end: bool) {
    for (room, octet) in rooms.iter_mut().zip(7..) {
        room.fill(octet, len, ad, at_end);
    }
    for op in [Op::Seal, Op::Open] {
        let mut verdicts = vec![Verdict::Pending; rooms.len()];
        let packets = rooms.iter_mut().zip(&mut verdicts);
        run(op, &mut packets.map(|(room, verdict)| room.lane((key, verdict), len, ad, at_end)));
        assert!(verdicts.iter().all(|&verdict| verdict == Verdict::Done), "{len} octets");
    }
    for (room, octet) in rooms.iter_mut().zip(7..) {
        let sealed = &*room.0[2].slice(len + BLOCK, at_end);
        assert!(sealed[..len].iter().all(|&o| o == octet), "{len} octets");
    }
}

#[test]
fn gcm_kernels_stay_between_guard_pages_at_every_length() {
    // Two whole groups and a part of one.
    let mut rooms: [Room; 2 * GROUP + 1] = std::array::from_fn(|_| Room::new());
    for kernel in kernels() {
        for aes in [Aes::Aes128, Aes::Aes256] {
            let key = Key::new(kernel, aes, &vec![5; aes.key_len()]).unwrap();
            for at_end in [false, true] {
                for len in (0..1100).chain([4063, 4064, 4065, 4600, 9000]) {
                    check(&mut rooms[..1], &key, len, len % 37, at_end);
                    check(&mut rooms[..GROUP], &key, len, len % 35, at_end);
                    if len <= 300 || len % 8 == 0 {
                        check(&mut rooms, &key, len, len % 36, at_end);
                    }
                }
                for ad in (0..200).chain(500..600).chain([1500, 4096, 9000]) {
                    check(&mut rooms[..1 + ad % GROUP], &key, ad % 71, ad, at_end);
                }
            }
        }
    }
}

/// A stream that begins behind another one hashes nothing of that one: its packets have
/// other additional data, and may have less.
#[test]
fn gcm_streams_that_follow_one_another_stay_with_their_own_additional_data() {
    let mut rooms: [Room; 3 * GROUP] = std::array::from_fn(|_| Room::new());
    for kernel in kernels() {
        let key = Key::new(kernel, Aes::Aes128, &[5; 16]).unwrap();
        for (len, long) in [(40, 70), (64, 64), (64, 128), (100, 300), (300, 64), (700, 64)] {
            let shape = |i: usize| if i / GROUP == 1 { (long, 32) } else { (len, 8) };
            for (i, room) in rooms.iter_mut().enumerate() {
                room.fill(7, shape(i).0, shape(i).1, true);
            }
            for op in [Op::Seal, Op::Open] {
                let mut verdicts = vec![Verdict::Pending; rooms.len()];
                let packets = rooms.iter_mut().zip(&mut verdicts).enumerate();
                let mut lanes = packets.map(|(i, (room, verdict))| {
                    room.lane((&key, verdict), shape(i).0, shape(i).1, true)
                });
                run(op, &mut lanes);
                assert!(verdicts.iter().all(|&verdict| verdict == Verdict::Done), "{len} {long}");
            }
        }
    }
}
