//! A key that is given up leaves nothing behind.

use super::super::schedule::Schedule;
use crate::suite::Aes;
use std::mem::ManuallyDrop;
use std::ptr::{addr_of, drop_in_place, from_mut};

#[test]
fn zeroizing_a_dropped_gcm_key_leaves_zeros() {
    if super::kernels().next().is_none() {
        return;
    }
    for aes in [Aes::Aes128, Aes::Aes256] {
        // SAFETY: a kernel is a proof of the instructions.
        let made = unsafe { Schedule::new(aes, &vec![0x5a; aes.key_len()]) };
        let mut made = ManuallyDrop::new(made.unwrap());
        let whole: &mut Schedule = &mut made;
        let (powers, rounds) = (whole.power(36).cast::<u128>(), whole.rounds().cast::<u128>());
        let secrets = 11 + 4 * usize::from(aes == Aes::Aes256);
        let set = |from: *const u128, count: usize| {
            // SAFETY: so many there are; the memory is still this schedule's.
            let all = unsafe { std::slice::from_raw_parts(from, count) };
            all.iter().filter(|&&block| block != 0).count()
        };
        assert_eq!((set(powers, 36), set(rounds, 15)), (36, secrets));
        // SAFETY: dropped once, in place; the box keeps its memory and is not
        // dropped itself.
        unsafe { drop_in_place(from_mut(whole)) };
        let whole = addr_of!(**made).cast::<u128>();
        assert_eq!(set(whole, 36 + 15), 0);
        // SAFETY: the memory alone, without dropping its content again.
        drop(unsafe { Box::from_raw((&raw mut **made).cast::<ManuallyDrop<Schedule>>()) });
    }
}
