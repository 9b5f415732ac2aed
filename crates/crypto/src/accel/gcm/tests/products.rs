//! Every way to multiply gives the same octets. The kernel chooses one by the machine, so
//! the tests against other implementations cover only one of them on each.

use super::super::{BLOCK, Key, Sealed, run};
use super::*;
use crate::job::Op;
use crate::suite::Aes;
use ferrule_base::Rng;

/// Nine packets, two groups and one more, sealed.
fn sealed(kernel: Kernel, aes: Aes, len: usize, ad: usize) -> Vec<Vec<u8>> {
    let mut rng = Rng::new(len as u64);
    let mut octets = |len: usize| {
        let mut octets = vec![0; len];
        rng.fill(&mut octets);
        octets
    };
    let keys = [octets(aes.key_len()), octets(aes.key_len())];
    let keys = keys.map(|key| Key::new(kernel, aes, &key).unwrap());
    let ad = octets(ad);
    let mut packets: Vec<_> = (0..9).map(|_| octets(len + BLOCK)).collect();
    let mut verdicts = [Verdict::Pending; 9];
    let each = packets.iter_mut().zip(&mut verdicts).enumerate();
    let mut lanes = each.map(|(i, (packet, verdict))| Lane {
        key: &keys[usize::from(i % 3 == 1)],
        nonce: &[7; 12],
        ad: &ad,
        sealed: Sealed::new(packet).unwrap(),
        verdict,
    });
    run(Op::Seal, &mut lanes);
    assert_eq!(verdicts, [Verdict::Done; 9]);
    packets
}

#[test]
fn gcm_kernels_agree_however_they_multiply() {
    for aes in [Aes::Aes128, Aes::Aes256] {
        for len in (0..1600).chain([4063, 4064, 4065, 9000]) {
            let mut all = kernels().map(|kernel| sealed(kernel, aes, len, len % 33));
            let Some(first) = all.next() else { return };
            assert!(all.all(|other| other == first), "{len} octets");
        }
    }
}
