//! Software and token give identical bytes, with any packets lost, late or twice.

use super::*;
use ferrule_base::Rng;

const LENGTHS: [usize; 10] = [0, 1, 15, 16, 17, 64, 100, 512, 1420, 4000];

fn expected(key: KeyId, base: [u8; 12], number: u64, text: usize) -> Packet {
    sealed(key, base, number, text).buf
}

#[test]
fn identical_bytes_software_and_token_when_sealing() {
    let mut rng = Rng::new(1);
    for profile in ["none", "microsd", "tpm", "usb-hsm"] {
        let mut engine = engine(profile, settings());
        let key = engine.install(&on_token(GCM, Op::Seal, true, 1)).unwrap();
        let (mut now, mut seen) = (Instant::ZERO, Vec::new());
        let mut lengths = Vec::new();
        for number in 1..=300u64 {
            let text = LENGTHS[rng.below(LENGTHS.len() as u64) as usize];
            lengths.push(text);
            seen.extend(submit(&mut engine, now, job(key, Op::Seal, BASE, number, text)));
            now += Duration::from_micros(rng.below(3000));
            let mut done = Jobs::new();
            engine.collect(now, &mut done);
            seen.extend(done);
        }
        seen.extend(drain(&mut engine, &mut now).into_iter().map(|(_, job)| job));
        assert_eq!(seen.len(), 300, "{profile}");
        for job in seen {
            let number = job.ticket;
            assert_eq!(job.verdict, Verdict::Done, "{profile} {number}");
            let want = expected(key, BASE, number, lengths[number as usize - 1]);
            assert_eq!(job.buf, want, "{profile}, packet {number}");
        }
        let stats = engine.stats();
        assert!(stats.ready > 0 && stats.waited > 0, "{profile}: {stats:?}");
    }
}

/// Loss, reordering and duplicates before the receiver; bits flipped in some.
fn opens_what_arrives(profile: &str, known: bool, base: [u8; 12], seed: u64) -> TokenStats {
    let mut rng = Rng::new(seed);
    let mut engine = engine(profile, settings());
    let key = engine.install(&on_token(GCM, Op::Open, known, 1)).unwrap();
    let mut flying: Vec<(u64, usize, bool)> = Vec::new();
    let (mut now, mut seen, mut sent) = (Instant::ZERO, Vec::new(), 0);
    for number in 1..=400u64 {
        if !rng.one_in(10) {
            let text = LENGTHS[rng.below(LENGTHS.len() as u64) as usize];
            let copies = if rng.one_in(20) { 2 } else { 1 };
            flying.extend((0..copies).map(|_| (number, text, rng.one_in(12))));
        }
        while flying.len() > 5 || (number == 400 && !flying.is_empty()) {
            let (number, text, altered) =
                flying.swap_remove(rng.below(flying.len() as u64) as usize);
            let mut job = sealed(key, base, number, text);
            if altered {
                let bit = AD as u64 * 8 + rng.below((job.buf.len() - AD) as u64 * 8);
                job.buf[bit as usize / 8] ^= 1 << (bit % 8);
                job.ticket |= 1 << 40;
            }
            job.ticket |= (text as u64) << 48;
            sent += 1;
            seen.extend(submit(&mut engine, now, job));
        }
        now += Duration::from_micros(rng.below(2000));
        let mut done = Jobs::new();
        engine.collect(now, &mut done);
        seen.extend(done);
    }
    seen.extend(drain(&mut engine, &mut now).into_iter().map(|(_, job)| job));
    assert_eq!(seen.len(), sent, "{profile}: every packet comes back once");
    for found in seen {
        let (text, number) = ((found.ticket >> 48) as usize, found.ticket & 0xff_ffff_ffff);
        if found.ticket >> 40 & 1 == 1 {
            assert_eq!(found.verdict, Verdict::BadIcv, "{profile}: altered packet {number}");
            continue;
        }
        assert_eq!(found.verdict, Verdict::Done, "{profile}: packet {number}");
        let clear = job(key, Op::Seal, base, number, text).buf;
        assert_eq!(found.buf[..AD + text], clear[..AD + text], "{profile}: packet {number}");
    }
    engine.stats()
}

#[test]
fn loss_reordering_and_altered_packets_never_give_wrong_plaintext() {
    for (seed, profile) in (1..).zip(["none", "microsd", "tpm", "usb-hsm"]) {
        let stats = opens_what_arrives(profile, true, BASE, seed);
        assert_eq!(stats.gone, 0, "{profile}: late packets are asked for: {stats:?}");
    }
}

#[test]
fn ivs_that_are_a_constant_xor_the_number_are_learned_from_the_first_authentic_packet() {
    // The constant that Linux draws for an SA.
    let linux = nonce(BASE, 0x9e37_79b9_7f4a_7c15);
    let stats = opens_what_arrives("none", false, linux, 77);
    assert!(stats.ready > 200, "once it is learned: {stats:?}");
    opens_what_arrives("usb-hsm", false, linux, 78);
}

#[test]
fn integrity_only_needs_one_block_of_each_packet() {
    let mut engine = engine("microsd", settings());
    let key = engine.install(&on_token(GCM, Op::Seal, true, 1)).unwrap();
    let mut now = Instant::ZERO;
    drain(&mut engine, &mut now);
    let mut packet = job(key, Op::Seal, BASE, 1, 400);
    packet.ad = Ad::Span(Span::new(0, AD + 400));
    packet.text = Span::new(AD + 400, 0);
    let done = submit(&mut engine, now, packet.map(|buf| buf)).expect("made ahead");
    let mut software = Software::default();
    let own = Engine::<Packet>::install(&mut software, &spec(GCM)).unwrap();
    let mut plain = job(own, Op::Seal, BASE, 1, 400);
    (plain.ad, plain.text) = (done.ad, done.text);
    let mut jobs = [plain];
    software.run(&mut jobs);
    assert_eq!((done.verdict, &done.buf), (Verdict::Done, &jobs[0].buf));
}
