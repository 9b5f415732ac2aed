//! Key stream in memory: locked, left out of core files, wiped.

use super::super::sa::Mode;
use super::*;

/// The flags of the mapping with this address in /proc/self/smaps.
fn flags_of(memory: &[Block]) -> Vec<String> {
    let (address, mut inside) = (memory.as_ptr() as usize, false);
    for line in std::fs::read_to_string("/proc/self/smaps").unwrap().lines() {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let ends = range.and_then(|(from, to)| {
            let hex = |word| usize::from_str_radix(word, 16).ok();
            Some(hex(from)?..hex(to)?)
        });
        if let Some(range) = ends {
            inside = range.contains(&address);
        } else if inside && let Some(flags) = line.strip_prefix("VmFlags:") {
            return flags.split_whitespace().map(str::to_owned).collect();
        }
    }
    panic!("no mapping has {address:x}");
}

fn is_guarded(memory: &[Block]) -> bool {
    let flags = flags_of(memory);
    // `lo`: pages are locked; `dd`: left out of core files.
    ["lo", "dd"].iter().all(|flag| flags.iter().any(|f| f == flag))
}

/// The memory of an SA's ring.
fn memory(engine: &TokenEngine<Packet>, key: KeyId) -> &[Block] {
    match &engine.sas[key.slot as usize].sa.as_ref().unwrap().mode {
        Mode::Gcm(gcm) => gcm.ahead.raw(),
        Mode::Study(study) => study.ring.raw(),
    }
}

fn left(engine: &TokenEngine<Packet>, key: KeyId) -> usize {
    memory(engine, key).iter().filter(|block| **block != [0; 16]).count()
}

/// One SA of each mode.
const SUITES: [Suite; 2] = [GCM, Suite::AesCtrStudy(Aes::Aes128, ferrule_crypto::Mac::HmacSha1_96)];

#[test]
fn memory_of_what_is_made_ahead_is_locked_and_left_out_of_core_files() {
    let settings = Settings { blocks: 1024, locked: true, ..settings() };
    let mut engine = engine("microsd", settings);
    for suite in SUITES {
        let key = engine.install(&on_token(suite, Op::Seal, true, 1)).unwrap();
        assert!(is_guarded(memory(&engine, key)), "{suite}: {:?}", flags_of(memory(&engine, key)));
    }
    let exchange = &engine.idle.as_ref().unwrap().blocks;
    assert!(is_guarded(exchange), "what is on its way as well");
    let open = Vault::unlocked(64).unwrap();
    assert!(!flags_of(&open).iter().any(|f| f == "lo"), "the test can fail");
}

#[test]
fn zeroizing_what_was_made_ahead_when_used_when_silent_and_when_the_exchange_is_over() {
    for suite in SUITES {
        let keep = Some(Duration::from_secs(60));
        let mut engine = engine("microsd", Settings { keep, ..settings() });
        let key = engine.install(&on_token(suite, Op::Seal, true, 1)).unwrap();
        let mut now = Instant::ZERO;
        drain(&mut engine, &mut now);
        let full = left(&engine, key);
        assert!(full > 500, "{suite}: {full} blocks");
        let exchange = &engine.idle.as_ref().unwrap().blocks;
        assert!(exchange.iter().all(|block| *block == [0; 16]), "nothing stays in the exchange");
        // 6 blocks of text, of which 8 octets are the study's IV; a near run has 8.
        let (text, used) = if suite == GCM { (96, 8) } else { (104, 6) };
        let mut packet = job(key, Op::Seal, BASE, 1, text);
        if suite != GCM {
            packet.ad = Ad::Span(Span::new(0, AD));
        }
        let done = submit(&mut engine, now, packet).expect("made ahead");
        assert_eq!(done.verdict, Verdict::Done);
        let filling = engine.idle.is_none();
        assert!(filling || left(&engine, key) == full - used, "{suite}: used blocks are wiped");
        drain(&mut engine, &mut now);
        engine.pump(now + Duration::from_secs(61));
        assert_eq!(left(&engine, key), 0, "{suite}: after silence all of it");
    }
}

#[test]
fn zeroizing_e_j0_and_key_stream_in_packets_when_the_engine_ends_before_them() {
    let line = Virtual::new(SoftToken::new(key_of), TokenProfile::shipped("microsd").unwrap());
    let mut engine: TokenEngine<Watched> =
        TokenEngine::new(Box::new(line), 126, settings()).unwrap();
    let key = engine.install(&on_token(GCM, Op::Seal, true, 1)).unwrap();
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    // The first run is here when the packet comes, and the rest is on its way.
    engine.pump(Instant::ZERO);
    engine.pump(Instant::from_millis(12));
    engine.pump(Instant::from_millis(28));
    let packet = job(key, Op::Seal, BASE, 1, 1400);
    let mut jobs = Jobs::new();
    jobs.push(packet.map(|octets| Watched(octets, seen.clone())));
    engine.submit(Instant::from_millis(28), &mut jobs);
    assert!(jobs.is_empty() && engine.in_flight() == 1, "it waits for the rest");
    drop(engine);
    let seen = seen.lock().unwrap();
    let text = job(key, Op::Seal, BASE, 1, 1400).buf;
    assert_eq!(seen.len(), text.len());
    assert!(seen[AD..].iter().all(|octet| *octet == 0), "nothing of it is left in the packet");
}

/// A packet whose octets are seen when it goes.
struct Watched(Vec<u8>, std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl AsMut<[u8]> for Watched {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.1.lock().unwrap().extend_from_slice(&self.0);
    }
}
