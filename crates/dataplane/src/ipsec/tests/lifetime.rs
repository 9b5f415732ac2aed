//! Lives of SAs end where they are to end, neither earlier nor later, and are told of once.

use super::*;
use crate::ipsec::lifetime::GRANT_MAX;
use ferrule_crypto::Aes;
use proptest::prelude::*;

const GCM: Suite = Suite::AesGcm(Aes::Aes128);
const EXPIRED: End = End::Dropped(DropReason::SaExpired);

fn packets(bound: u64) -> Lifetime {
    Lifetime { packets: Some(bound), ..Lifetime::default() }
}

fn octets(bound: u64) -> Lifetime {
    Lifetime { octets: Some(bound), ..Lifetime::default() }
}

fn life(soft: Lifetime, hard: Lifetime) -> Allowance {
    Allowance { lifetimes: Lifetimes { soft, hard }, account: Account::new(1000) }
}

impl<E: Make> Gateway<E> {
    /// Both ends of one SA, each with bounds or none.
    fn living(suite: Suite, out: Option<Allowance>, inn: Option<Allowance>) -> Self {
        let mut g = Self::new(3);
        let numbers = Sequence::unlimited(1, u64::MAX - 1);
        let out = OutboundConfig { life: out, ..outbound(suite, 4, true) };
        let inn = InboundConfig { life: inn, ..inbound(suite, 4, true) };
        g.out.install_at(&mut g.engine, 0, &out, numbers).unwrap();
        g.inn.install_at(&mut g.engine, 0, &inn, 0).unwrap();
        g
    }

    fn told(&mut self) -> Vec<(Expiry, LifeCause)> {
        let told = self.out.expired().chain(self.inn.expired());
        told.map(|expired| (expired.expiry, expired.cause)).collect()
    }
}

fn life_out_ends_at_its_last_packet_and_both_bounds_are_told_once<E: Make>() {
    let mut g = Gateway::<E>::living(GCM, Some(life(packets(3), packets(5))), None);
    let packet = inner(4, 60, 0);
    for (count, told) in [(2, None), (1, Some(Expiry::Soft)), (1, None), (1, Some(Expiry::Hard))] {
        for _ in 0..count {
            g.sealed(&packet);
        }
        let told: Vec<_> = told.map(|expiry| (expiry, LifeCause::Packets)).into_iter().collect();
        assert_eq!(g.told(), told);
    }
    for _ in 0..3 {
        assert_eq!(g.seal(&packet), EXPIRED);
    }
    assert_eq!(g.told(), []);
    let sa = g.out.show().next().unwrap();
    assert_eq!((sa.number, sa.stats.packets, sa.stats.failed), (6, 5, 3), "no number is used up");
    let life = sa.life.unwrap();
    assert!(life.is_over && (life.packets, life.octets) == (5, 5 * 64), "{life:?}");
}

fn life_in_ends_in_the_middle_of_a_batch_and_forged_packets_shorten_none<E: Make>() {
    let mut g = Gateway::<E>::living(GCM, None, Some(life(packets(30), packets(40))));
    let packet = inner(4, 60, 0);
    let sealed: Vec<_> = (0..100).map(|_| g.sealed(&packet)).collect();
    let mut forged = sealed.clone();
    forged.iter_mut().for_each(|packet| *packet.last_mut().unwrap() ^= 1);
    g.push_in(forged.iter().map(Vec::as_slice));
    g.settle();
    assert_eq!(g.ends(), vec![End::Dropped(DropReason::EspBadIcv); 100]);
    // What came already comes again.
    let twice = sealed.iter().flat_map(|sealed| [sealed, sealed]).take(100);
    g.push_in(twice.map(Vec::as_slice));
    g.settle();
    let ends = g.ends();
    let count = |end: &End| ends.iter().filter(|one| *one == end).count();
    assert_eq!(count(&End::Sent(Next::Ip, packet.clone())), 40);
    assert_eq!(count(&EXPIRED) + count(&End::Dropped(DropReason::EspReplay)), 60);
    assert!(count(&EXPIRED) >= 10, "{ends:?}");
    let both = [Expiry::Soft, Expiry::Hard].map(|expiry| (expiry, LifeCause::Packets));
    let mut told = g.told();
    told.sort();
    assert_eq!(told, both);
    assert_eq!(g.edge(), 40, "the window does not move any more");
}

fn octets_are_those_that_the_algorithm_is_applied_to<E: Make>() {
    for suite in Suite::software() {
        for len in [60, 61, 62, 75, 1000] {
            let by = || Some(life(octets(1_000_000), octets(2_000_000)));
            let mut g = Gateway::<E>::living(suite, by(), by());
            let packet = inner(4, len, 0);
            let sealed = g.sealed(&packet);
            assert_eq!(g.open(&sealed), End::Sent(Next::Ip, packet));
            // RFC 4303 section 2.4: padding, its length, the next header.
            let padded = (len + 2).next_multiple_of(suite.esp_align().max(4)) as u64;
            let sas = [g.out.show().next(), g.inn.show().next()];
            let used = sas.map(|sa| sa.unwrap().life.unwrap().octets);
            assert_eq!(used, [padded; 2], "{suite} {len}");
        }
    }
}

fn life_in_octets_ends_with_the_packet_that_reaches_it<E: Make>() {
    // Each has 64 octets.
    for (bound, sealed) in [(640, 10), (641, 11), (639, 10), (2, 1)] {
        let mut g = Gateway::<E>::living(GCM, Some(life(octets(bound / 2), octets(bound))), None);
        let packet = inner(4, 60, 0);
        g.push_out(0, std::iter::repeat_n(&packet[..], 100));
        g.settle();
        let ends = g.ends();
        assert_eq!(ends.iter().filter(|end| **end == EXPIRED).count(), 100 - sealed, "{bound}");
        let mut told = g.told();
        told.sort();
        assert_eq!(told.last(), Some(&(Expiry::Hard, LifeCause::Octets)), "{bound}");
    }
}

fn life_whose_time_is_over_ends_until_it_has_other_bounds<E: Make>() {
    let time = Lifetime { time: Some(Duration::from_secs(1)), ..Lifetime::default() };
    let (out, inn) = (life(Lifetime::default(), time), life(Lifetime::default(), time));
    let mut g = Gateway::<E>::living(GCM, Some(out.clone()), Some(inn));
    let packet = inner(4, 60, 0);
    let sealed: Vec<_> = (0..3).map(|_| g.sealed(&packet)).collect();
    assert_eq!(g.open(&sealed[0]), End::Sent(Next::Ip, packet.clone()));
    // One is with the engine when its time is over.
    g.push_in([&sealed[1][..]]);
    g.out.expire(0);
    g.inn.expire(0);
    g.settle();
    let late = g.ends();
    assert!(late == [EXPIRED] || late == [End::Sent(Next::Ip, packet.clone())], "{late:?}");
    assert_eq!(g.seal(&packet), EXPIRED);
    assert_eq!(g.open(&sealed[2]), EXPIRED);
    let more = Allowance { lifetimes: Lifetimes { hard: packets(4), ..out.lifetimes }, ..out };
    g.out.live(0, Some(&more));
    g.inn.live(0, None);
    assert_eq!(g.open(&sealed[2]), End::Sent(Next::Ip, packet.clone()));
    g.sealed(&packet);
    assert_eq!(g.seal(&packet), EXPIRED, "three were sealed before");
    g.out.live(0, None);
    g.sealed(&packet);
    assert_eq!(g.out.show().next().unwrap().life, None);
}

on_both_engines! {
    life_out_ends_at_its_last_packet_and_both_bounds_are_told_once;
    life_in_ends_in_the_middle_of_a_batch_and_forged_packets_shorten_none;
    octets_are_those_that_the_algorithm_is_applied_to;
    life_in_octets_ends_with_the_packet_that_reaches_it;
    life_whose_time_is_over_ends_until_it_has_other_bounds;
}

#[test]
fn life_begins_with_the_numbers_that_its_key_has_used_before() {
    let by = life(packets(1000), packets(2000));
    let mut g = Gateway::<Software>::new(1);
    let out = OutboundConfig { life: Some(by.clone()), ..outbound(GCM, 4, true) };
    let numbers = |first| Sequence::unlimited(first, u64::MAX - 1);
    g.out.install_at(&mut g.engine, 0, &out, numbers(1001)).unwrap();
    assert_eq!(by.account.used(), (1000, 1_000_000), "packets of the longest kind");
    let packet = inner(4, 60, 0);
    g.sealed(&packet);
    assert_eq!(g.told()[0], (Expiry::Soft, LifeCause::Packets));
    // Another SA of the key goes on, with what the first gave back.
    assert!(g.out.retire(&mut g.engine, 0));
    g.out.install_at(&mut g.engine, 0, &out, numbers(5001)).unwrap();
    assert_eq!(by.account.used(), (1001, 1_000_000 + 64));
    for _ in 0..999 {
        g.sealed(&packet);
    }
    assert_eq!(g.seal(&packet), EXPIRED);
    // Bounds that come later find what the counters say, with 100 octets for each packet.
    let mut g = Gateway::<Software>::living(GCM, None, None);
    let sealed: Vec<_> = (0..7).map(|_| g.sealed(&packet)).collect();
    g.push_in(sealed.iter().map(Vec::as_slice));
    g.ends();
    let (out, inn) = (life(packets(7), packets(8)), life(packets(7), packets(8)));
    g.out.live(0, Some(&out));
    g.inn.live(0, Some(&inn));
    assert_eq!([out.account.used(), inn.account.used()], [(7, 7 * (packet.len() as u64 + 100)); 2]);
    let last = g.sealed(&packet);
    assert_eq!((g.seal(&packet), g.open(&last)), (EXPIRED, End::Sent(Next::Ip, packet)));
}

proptest! {
    /// Workers that have one SA seal no more than one would, whoever has which packets.
    #[test]
    fn life_that_workers_share_is_no_longer_than_one(
        workers in 1_usize..4,
        bound in 1_u64..3000,
        of_octets: bool,
        bursts in prop::collection::vec((0_usize..4, 1_usize..64, 20_usize..1300), 1..200),
    ) {
        let hard = if of_octets { octets(bound * 600) } else { packets(bound) };
        let by = life(Lifetime::default(), hard);
        let mut all: Vec<_> = (0..workers)
            .map(|_| Gateway::<Software>::living(GCM, Some(by.clone()), None))
            .collect();
        let mut is_over = false;
        for (worker, count, len) in bursts {
            let worker = worker % workers;
            let packet = inner(4, len.max(28), 0);
            let g = &mut all[worker];
            g.push_out(0, std::iter::repeat_n(&packet[..], count));
            for end in g.ends() {
                prop_assert!(end == EXPIRED || !is_over, "nothing leaves any more");
                is_over |= end == EXPIRED && workers == 1;
            }
            // As the control part does it: who hears that the life is over ends all.
            if all[worker].told().iter().any(|told| told.0 == Expiry::Hard) {
                all.iter_mut().for_each(|g| g.out.expire(0));
                is_over = true;
            }
        }
        let sum = |of: fn(&SaView<'_>) -> u64| {
            all.iter().map(|g| of(&g.out.show().next().unwrap())).sum::<u64>()
        };
        let (sent, longest) = (sum(|sa| sa.stats.packets), 1500 * workers as u64);
        let (used, encrypted) = by.account.used();
        prop_assert!(of_octets || sent <= bound, "{sent}");
        prop_assert!(!of_octets || sum(|sa| sa.stats.octets) < bound * 600 + longest);
        if is_over {
            // What nobody used, others could have.
            let early = (GRANT_MAX * workers as u64).min(bound / 8 * workers as u64) + 1;
            prop_assert!(of_octets || sent + early >= bound, "{sent} of {bound}");
            prop_assert!(!of_octets || encrypted + early * (1 << 16) >= bound * 600);
            prop_assert!(of_octets || used == sent, "all was given back");
        }
    }
}
