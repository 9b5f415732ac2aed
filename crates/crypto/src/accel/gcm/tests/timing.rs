//! AES-GCM takes as long for one secret as for another: the method is that of
//! [`crate::accel::tests::timing`].

use super::super::{BLOCK, GROUP, Key, Sealed, run};
use super::*;
use crate::accel::tests::timing::{clocks, leaks};
use crate::job::Op;
use crate::suite::Aes;
use ferrule_base::Rng;
use std::hint::black_box;

/// Octets of a text.
const TEXT: usize = 256;

/// A group of four packets.
#[derive(Clone)]
struct Group([[u8; TEXT + BLOCK]; GROUP]);

impl Group {
    fn run(&mut self, op: Op, keys: [&Key; GROUP]) -> f64 {
        let mut verdicts = [Verdict::Pending; GROUP];
        let packets = self.0.iter_mut().zip(&mut verdicts).zip(keys);
        let lanes: Vec<_> = packets
            .map(|((sealed, verdict), key)| {
                let sealed = Sealed::new(sealed).unwrap();
                Lane { key, nonce: &[3; 12], ad: &[4; 12], sealed, verdict }
            })
            .collect();
        let mut lanes = lanes.into_iter();
        let spent = clocks(|| run(op, black_box(&mut lanes)));
        black_box(verdicts);
        spent
    }
}

/// A key of equal octets. (Not from the heap: a vector of zeros is allocated in another way
/// than others are, and what comes from the heap next lies elsewhere.)
fn key(kernel: Kernel, aes: Aes, octet: u8) -> Key {
    Key::new(kernel, aes, &[octet; 32][..aes.key_len()]).unwrap()
}

fn each(mut check: impl FnMut(Kernel, Aes)) {
    for kernel in kernels() {
        for aes in [Aes::Aes128, Aes::Aes256] {
            check(kernel, aes);
        }
    }
}

#[test]
fn timing_of_refusal_does_not_tell_where_an_icv_is_wrong() {
    each(|kernel, aes| {
        let key = key(kernel, aes, 1);
        let mut sealed = Group([[5; TEXT + BLOCK]; GROUP]);
        sealed.run(Op::Seal, [&key; GROUP]);
        assert!(
            !leaks(|last| {
                let mut group = sealed.clone();
                for packet in &mut group.0 {
                    packet[TEXT + if last { BLOCK - 1 } else { 0 }] ^= 1;
                }
                group.run(Op::Open, [&key; GROUP])
            }),
            "{kernel:?} {aes:?}"
        );
    });
}

#[test]
fn timing_of_sealing_does_not_tell_keys_or_texts() {
    each(|kernel, aes| {
        let octets = [0, 0xb7];
        let constant = key(kernel, aes, octets[0]);
        let mut rng = Rng::new(5);
        let mut noise = [0; TEXT + BLOCK];
        rng.fill(&mut noise);
        let texts = [[0; TEXT + BLOCK], noise];
        // Made anew each time, so that both lie where the other did: an address is no
        // secret, and tells.
        let by_key = leaks(|class| {
            let key = key(kernel, aes, octets[usize::from(class)]);
            let mut group = Group([texts[0]; GROUP]);
            group.run(Op::Seal, [&key; GROUP])
        });
        let by_text = leaks(|class| {
            let mut group = Group([texts[usize::from(class)]; GROUP]);
            group.run(Op::Seal, [&constant; GROUP])
        });
        assert!(!by_key && !by_text, "{kernel:?} {aes:?}: key {by_key}, text {by_text}");
    });
}
