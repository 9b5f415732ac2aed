//! CBC and HMAC take as long for one secret as for another, so neither padding nor
//! ICV can be learned octet by octet: the method is that of
//! [`crate::accel::tests::timing`].

use super::*;
use crate::accel::tests::timing::{clocks, leaks};
use ferrule_base::Rng;
use std::hint::black_box;

/// Packets side by side.
const COUNT: usize = 8;
/// Octets in front of the IV, and from there on.
const AD: usize = 8;
const TEXT: usize = BLOCK + 256;

/// Packets that are alike.
#[derive(Clone)]
struct Crowd {
    body: [[u8; AD + TEXT]; COUNT],
    icv: [[u8; 16]; COUNT],
    verdicts: [Verdict; COUNT],
}

impl Crowd {
    fn of(text: &[u8; TEXT]) -> Self {
        let mut body = [[7; AD + TEXT]; COUNT];
        body.iter_mut().for_each(|body| body[AD..].copy_from_slice(text));
        Self { body, icv: [[0; 16]; COUNT], verdicts: [Verdict::Pending; COUNT] }
    }

    /// The same, sealed.
    fn sealed(mut self, key: &Key) -> Self {
        self.run(Op::Seal, key);
        assert_eq!(self.verdicts, [Verdict::Done; COUNT]);
        self
    }

    /// The clocks that it takes to seal or open all of them.
    fn run(&mut self, op: Op, key: &Key) -> f64 {
        self.verdicts = [Verdict::Pending; COUNT];
        let len = key.icv_len();
        let mut packets = Packets::new();
        let parts = self.body.iter_mut().zip(&mut self.icv).zip(&mut self.verdicts);
        for ((body, icv), verdict) in parts {
            let parts = Hashed { before: &[], body, text: AD, after: &[], icv: &mut icv[..len] };
            packets.push(Packet { key, op, nonce: &[3; 12], parts, verdict });
        }
        clocks(|| run(black_box(&mut packets)))
    }
}

fn made(form: Form, aes: Aes, mac: Mac, octets: [u8; 2]) -> Box<Key> {
    key(form, aes, mac, &vec![octets[0]; aes.key_len()], &vec![octets[1]; mac.key_len()])
}

fn each(mut check: impl FnMut(Form, Aes, Mac)) {
    for form in forms() {
        for aes in [Aes::Aes128, Aes::Aes256] {
            for mac in MACS {
                check(form, aes, mac);
            }
        }
    }
}

/// A text that ends with the padding of RFC 4303 section 2.4, and one whose padding
/// is wrong from its first octet on.
fn paddings() -> [[u8; TEXT]; 2] {
    let mut right = [0x45; TEXT];
    let pad = 200;
    for (octet, n) in right[TEXT - 2 - pad..].iter_mut().zip(1..) {
        *octet = n;
    }
    right[TEXT - 2..].copy_from_slice(&[pad as u8, 4]);
    let mut wrong = [0; TEXT];
    Rng::new(9).fill(&mut wrong);
    [right, wrong]
}

#[test]
fn timing_of_refusal_does_not_tell_where_an_hmac_is_wrong() {
    each(|form, aes, mac| {
        let key = made(form, aes, mac, [1, 2]);
        let sealed = Crowd::of(&[5; TEXT]).sealed(&key);
        let last = key.icv_len() - 1;
        let tells = leaks(|late| {
            let mut crowd = sealed.clone();
            for icv in &mut crowd.icv {
                icv[if late { last } else { 0 }] ^= 1;
            }
            let spent = crowd.run(Op::Open, &key);
            assert_eq!(crowd.verdicts, [Verdict::BadIcv; COUNT]);
            spent
        });
        assert!(!tells, "{form:?} {aes:?} {mac:?}");
    });
}

#[test]
fn timing_of_cbc_opening_does_not_tell_whether_padding_is_right() {
    each(|form, aes, mac| {
        let key = made(form, aes, mac, [1, 2]);
        let sealed = paddings().map(|text| Crowd::of(&text).sealed(&key));
        for (flip, verdict) in [(0, Verdict::Done), (0x80, Verdict::BadIcv)] {
            let tells = leaks(|class| {
                let mut crowd = sealed[usize::from(class)].clone();
                crowd.icv.iter_mut().for_each(|icv| icv[3] ^= flip);
                let spent = crowd.run(Op::Open, &key);
                assert_eq!(crowd.verdicts, [verdict; COUNT]);
                spent
            });
            assert!(!tells, "{form:?} {aes:?} {mac:?}: {verdict:?}");
        }
    });
}

#[test]
fn timing_of_cbc_sealing_does_not_tell_keys_or_texts() {
    each(|form, aes, mac| {
        let constant = made(form, aes, mac, [0, 0]);
        let texts = paddings();
        // Made anew each time, so that both lie where the other did: an address is no
        // secret, and tells.
        let by_key = leaks(|class| {
            let key = made(form, aes, mac, if class { [0xb7, 0x39] } else { [0, 0] });
            Crowd::of(&texts[0]).run(Op::Seal, &key)
        });
        let by_text = leaks(|class| Crowd::of(&texts[usize::from(class)]).run(Op::Seal, &constant));
        assert!(!by_key && !by_text, "{form:?} {aes:?} {mac:?}: {by_key}, {by_text}");
    });
}
