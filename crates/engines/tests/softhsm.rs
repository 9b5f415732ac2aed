//! The token engine with a real PKCS#11 module: SoftHSM 2. Without it (Debian:
//! softhsm2) these tests say so and do nothing; `make test` installs it.

use aws_lc_rs::rsa::{OAEP_SHA1_MGF1SHA1, OaepPublicEncryptingKey, PublicEncryptingKey};
use ferrule_base::{Duration, Instant, Secret};
use ferrule_crypto::key::{Coming, TokenKey};
use ferrule_crypto::{
    Ad, Aes, Engine, Job, Jobs, KeyId, KeySpec, Op, Place, Software, Span, Suite, Verdict,
};
use ferrule_engines::token::provision::{Purpose, Wrapping};
use ferrule_engines::token::wrap::{Wrapper, name, wrap};
use ferrule_engines::token::{
    Live, Login, Pkcs11Token, Provider, Settings, SoftToken, TokenEngine, TokenError, TokenProfile,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

const MODULES: [&str; 3] = [
    "/usr/lib/softhsm/libsofthsm2.so",
    "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so",
    "/usr/lib64/pkcs11/libsofthsm2.so",
];
const PIN: &str = "577251";
const SUITE: Suite = Suite::AesGcm(Aes::Aes128);
const BASE: [u8; 12] = [5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0];

/// Two fresh tokens in a folder of this process, for one test at a time: SoftHSM
/// fails now and then where one thread writes objects while others read them.
fn softhsm() -> Option<(&'static Path, MutexGuard<'static, ()>)> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    static READY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let made = READY.get_or_init(|| {
        let module = MODULES.iter().map(PathBuf::from).find(|path| path.exists())?;
        let folder = std::env::temp_dir().join(format!("ferrule-softhsm-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("tokens")).unwrap();
        let config = folder.join("softhsm2.conf");
        let text =
            format!("directories.tokendir = {}/tokens\nlog.level = ERROR\n", folder.display());
        std::fs::write(&config, text).unwrap();
        // SAFETY: every test asks for the token first, and waits here until this is
        // done; none reads the environment meanwhile.
        unsafe { std::env::set_var("SOFTHSM2_CONF", &config) };
        for label in ["alpha", "beta"] {
            let made = Command::new("softhsm2-util")
                .args([
                    "--init-token",
                    "--free",
                    "--label",
                    label,
                    "--so-pin",
                    "9999",
                    "--pin",
                    PIN,
                ])
                .output()
                .expect("softhsm2-util comes with the module");
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        }
        Some(module)
    });
    if made.is_none() {
        eprintln!("no SoftHSM here: install softhsm2");
    }
    Some((made.as_deref()?, turn))
}

fn login(module: &Path, token: &str) -> Login {
    let pin = Secret::new(PIN.as_bytes().to_vec());
    Login { module: module.to_owned(), token: token.into(), pin }
}

fn key() -> Secret {
    Secret::new((0x30..0x40).collect())
}

/// A token with the key above under this label, imported as a peer would send it.
fn with_key(module: &Path, label: &str) -> Pkcs11Token {
    bring(module, label, Purpose::Traffic, key().expose())
}

/// A token with this key.
fn bring(module: &Path, label: &str, purpose: Purpose, key: &[u8]) -> Pkcs11Token {
    let aes = if key.len() == 16 { Aes::Aes128 } else { Aes::Aes256 };
    let mut token = Pkcs11Token::new(&login(module, "alpha")).unwrap();
    // One pair for all: making it takes a second.
    static PUBLIC: OnceLock<Vec<u8>> = OnceLock::new();
    let public = PUBLIC.get_or_init(|| token.make_import_pair("import").unwrap());
    let public = PublicEncryptingKey::from_der(public).expect("a SubjectPublicKeyInfo");
    let public = OaepPublicEncryptingKey::new(public).unwrap();
    let mut wrapped = vec![0; public.ciphertext_size()];
    let wrapped = public.encrypt(&OAEP_SHA1_MGF1SHA1, key, &mut wrapped, None).unwrap();
    token.import(label, aes, purpose, "import", Wrapping::RsaOaep, wrapped).unwrap();
    token
}

#[test]
fn a_wrapped_key_is_imported_into_softhsm_and_encrypts_as_software_does() {
    let Some((module, _turn)) = softhsm() else { return };
    let mut token = with_key(module, "imported");
    let mut soft = SoftToken::new(|_, _| Some(key()));
    token.open(1, "imported", Aes::Aes128).unwrap();
    soft.open(1, "", Aes::Aes128).unwrap();
    let mut list: Vec<[u8; 16]> = (0..200u128).map(|n| ((n * n) << 40).to_be_bytes()).collect();
    let mut same = list.clone();
    token.ecb(1, &mut list).unwrap();
    soft.ecb(1, &mut same).unwrap();
    assert_eq!(list, same, "ECB of a list");
    // A stream that goes on, then elsewhere, then a list, then on.
    for (first, len) in [(u128::MAX / 2 - 5, 7), (1, 64), (65, 64), (9000, 3), (129, 5)] {
        let (mut a, mut b) = (vec![[0; 16]; len], vec![[0; 16]; len]);
        token.ctr(1, first, &mut a).unwrap();
        soft.ctr(1, first, &mut b).unwrap();
        assert_eq!(a, b, "AES-CTR from {first}");
        token.ecb(1, &mut a).unwrap();
        soft.ecb(1, &mut b).unwrap();
        assert_eq!(a, b);
    }
}

fn octets(hex: &str) -> Vec<u8> {
    Secret::from_hex(hex).unwrap().expose().to_vec()
}

/// RFC 3394 sections 4.1 and 4.6: key-encryption key, key, wrapped key.
const WRAPPED: [(&str, &str, &str); 2] = [
    (
        "000102030405060708090a0b0c0d0e0f",
        "00112233445566778899aabbccddeeff",
        "1fa68b0a8112b447aef34bd8fb5a7b829d3e862371d2cfe5",
    ),
    (
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        "00112233445566778899aabbccddeeff000102030405060708090a0b0c0d0e0f",
        "28c9f404c4b810f4cbccb35cfb87f8263f5786e2d80ed326cbc7f0e71a99f43bfb988b9b7a02dd21",
    ),
];

#[test]
fn aes_key_wrap_import_takes_the_vectors_of_rfc_3394_into_the_token() {
    let Some((module, _turn)) = softhsm() else { return };
    for (i, (kek, key, wrapped)) in WRAPPED.into_iter().enumerate() {
        let (kek, key, wrapped) = (octets(kek), octets(key), octets(wrapped));
        let (with, label) = (format!("kek {i}"), format!("under kek {i}"));
        let mut token = bring(module, &with, Purpose::Unwrapping, &kek);
        let aes = if key.len() == 16 { Aes::Aes128 } else { Aes::Aes256 };
        let by = Wrapping::AesKeyWrap;
        let mut altered = wrapped.clone();
        altered[9] ^= 1;
        let refused = token.import(&label, aes, Purpose::Traffic, &with, by, &altered);
        assert!(matches!(refused, Err(TokenError::Call("C_UnwrapKey", _))), "{refused:?}");
        assert!(matches!(token.open(1, &label, aes), Err(TokenError::NoKey(_))), "nothing is left");
        token.import(&label, aes, Purpose::Traffic, &with, by, &wrapped).unwrap();
        let mut soft = SoftToken::new(move |_, _| Some(Secret::new(key.clone())));
        token.open(1, &label, aes).unwrap();
        soft.open(1, "", aes).unwrap();
        let (mut a, mut b) = ([[7; 16]; 9], [[7; 16]; 9]);
        token.ecb(1, &mut a).unwrap();
        soft.ecb(1, &mut b).unwrap();
        assert_eq!(a, b, "it is the key of the standard");
        let unfit = token.open(2, &with, aes);
        assert!(matches!(unfit, Err(TokenError::Unfit(..))), "what unwraps does not encrypt");
        let again = token.import("other", aes, Purpose::Traffic, &label, by, &wrapped);
        assert!(again.is_err(), "and what encrypts does not unwrap");
    }
}

#[test]
fn the_identity_of_a_key_is_the_same_under_every_label_and_says_nothing_else() {
    let Some((module, _turn)) = softhsm() else { return };
    let mut token = with_key(module, "first name");
    let first = token.identity("first name", Aes::Aes128).unwrap();
    let mut token = with_key(module, "second name");
    let second = token.identity("second name", Aes::Aes128).unwrap();
    assert!(first.same_as(&second) && first.len() == 16 && !first.same_as(&key()));
}

#[test]
fn two_tokens_agree_on_a_key_that_neither_host_sees() {
    let Some((module, _turn)) = softhsm() else { return };
    let mut ends = ["alpha", "beta"].map(|t| Pkcs11Token::new(&login(module, t)).unwrap());
    let points = ends.each_mut().map(|end| end.make_agreement_pair("pair").unwrap());
    ends[0].agree("shared", Aes::Aes256, "pair", &points[1]).unwrap();
    ends[1].agree("shared", Aes::Aes256, "pair", &points[0]).unwrap();
    let names = ends.each_mut().map(|end| end.identity("shared", Aes::Aes256).unwrap());
    assert!(names[0].same_as(&names[1]));
    assert!(ends[0].open(1, "shared", Aes::Aes128).is_err(), "a key of another length");
    let wrong = ends[0].agree("other", Aes::Aes128, "pair", &[4; 12]);
    assert!(matches!(wrong, Err(TokenError::Unfit(..))));
}

#[test]
fn what_is_wrong_with_a_token_is_said_by_name() {
    let Some((module, _turn)) = softhsm() else { return };
    let mut token = with_key(module, "right");
    let error = |e: TokenError| e.to_string();
    assert!(error(token.open(1, "wrong", Aes::Aes128).unwrap_err()).contains("`wrong`"));
    let none = Pkcs11Token::new(&login(module, "gamma")).err().unwrap();
    assert!(error(none.clone()).contains("alpha, beta") || error(none).contains("beta, alpha"));
    let none = Pkcs11Token::new(&login(Path::new("/nowhere.so"), "alpha")).err().unwrap();
    assert!(error(none).contains("/nowhere.so"));
    let again = token.make_import_pair("import");
    assert!(matches!(again, Err(TokenError::Unfit(..))), "a label is one key's");
}

fn job(key: KeyId, op: Op, number: u64, text: usize) -> Job<Vec<u8>> {
    let mut buf = vec![0, 0, 1, 7, 0, 0, 0, 0];
    buf.extend((0..text).map(|i| (i as u64 * 3 + number) as u8));
    buf.resize(8 + text + 16, 0);
    let mut nonce = BASE;
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    let (ad, text) = (Ad::Span(Span::new(0, 8)), Span::new(8, text));
    Job { buf, key, ticket: number, number: 0, nonce, op, verdict: Verdict::Pending, ad, text }
}

fn now(start: std::time::Instant) -> Instant {
    Instant::from_nanos(start.elapsed().as_nanos() as u64)
}

/// Seals packets with a key in SoftHSM behind a profile, live; the time it took, after a
/// check of each against software.
fn seals(profile: &str, blocks: usize, count: u64, fill: bool, label: &str) -> Option<Duration> {
    let (module, _turn) = softhsm()?;
    let token = Arc::new(Mutex::new(with_key(module, label)));
    let profile = TokenProfile::shipped(profile).unwrap();
    let most = profile.blocks_max();
    let line = Live::start(token, profile, 0).unwrap();
    let settings = Settings { blocks, ..Settings::default() };
    let mut engine = TokenEngine::new(Box::new(line), most, settings).unwrap();
    let coming = Coming { op: Op::Seal, base: BASE, known: true, next: 1 };
    let spec = KeySpec::new(SUITE, Secret::new(vec![0; 16]), Secret::new(Vec::new()));
    let place = Place::Token(TokenKey::new(label));
    let id = engine.install(&spec.clone().at(place).expecting(coming)).unwrap();
    let start = std::time::Instant::now();
    while fill && (engine.poll_timeout().is_some() || engine.ahead(id) < Some(count)) {
        engine.pump(now(start));
        std::thread::sleep(Duration::from_micros(200));
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", engine.stats());
    }
    let begun = std::time::Instant::now();
    let mut seen: Vec<Job<Vec<u8>>> = Vec::new();
    for number in 1..=count {
        let mut jobs = Jobs::new();
        jobs.push(job(id, Op::Seal, number, 64));
        engine.submit(now(start), &mut jobs);
        seen.extend(jobs);
        // Packet by packet where nothing is made ahead.
        while !fill && seen.len() < number as usize {
            let mut done = Jobs::new();
            engine.collect(now(start), &mut done);
            seen.extend(done);
        }
    }
    let took = begun.elapsed();
    let mut software = Software::default();
    let own = Engine::<Vec<u8>>::install(
        &mut software,
        &KeySpec::new(SUITE, key(), Secret::new(Vec::new())),
    )
    .unwrap();
    assert_eq!(seen.len() as u64, count, "{:?}", engine.stats());
    for found in seen {
        let mut expected = [job(own, Op::Seal, found.ticket, 64)];
        software.run(&mut expected);
        assert_eq!((found.verdict, &found.buf), (Verdict::Done, &expected[0].buf));
    }
    Some(took)
}

#[test]
fn a_key_in_softhsm_seals_what_software_seals_20_times_faster_made_ahead_than_exactly() {
    // Nothing ahead: a ring of the least size would be filled, so the first packets
    // after the start are timed, each an exchange of its own.
    let Some(slow) = seals("microsd", 512, 4, false, "slow") else { return };
    let Some(fast) = seals("microsd", 2048, 100, true, "fast") else { return };
    let (slow, fast) = (slow / 4, fast / 100);
    println!("each packet: {slow:?} asked for, {fast:?} made ahead");
    assert!(slow >= fast * 20, "{slow:?} against {fast:?}");
}

#[test]
fn a_pin_that_the_token_refused_is_not_tried_again_by_this_process() {
    let Some((module, _turn)) = softhsm() else { return };
    let wrong = Login { pin: Secret::new(b"111111".to_vec()), ..login(module, "beta") };
    for _ in 0..3 {
        let refused = Pkcs11Token::new(&wrong).err();
        assert_eq!(refused, Some(TokenError::Pin("beta".into())));
    }
    // Were it tried, it would now be right.
    set_pin(module, "beta", "111111");
    let refused = Pkcs11Token::new(&wrong).err();
    set_pin(module, "beta", PIN);
    assert_eq!(refused, Some(TokenError::Pin("beta".into())), "the token was not asked");
    assert!(Pkcs11Token::new(&login(module, "beta")).is_ok(), "the right one is taken");
}

/// Sets the user's PIN as the security officer.
fn set_pin(module: &Path, label: &str, pin: &str) {
    use cryptoki::context::Pkcs11;
    use cryptoki::session::UserType;
    let module = Pkcs11::new(module).unwrap();
    let slots = module.get_slots_with_token().unwrap();
    let is = |slot: &cryptoki::slot::Slot| {
        module.get_token_info(*slot).is_ok_and(|info| info.label().trim_end() == label)
    };
    let slot = slots.into_iter().find(is).unwrap();
    let session = module.open_rw_session(slot).unwrap();
    session.login(UserType::So, Some(&"9999".into())).unwrap();
    session.init_pin(&pin.into()).unwrap();
    session.logout().unwrap();
    // The state that this process has of the module stays: other tests use it.
    std::mem::forget(module);
}

/// As if the token had been taken out for a moment.
fn close_all_sessions(module: &Path) {
    let known = cryptoki::context::Pkcs11::new(module).unwrap();
    // SAFETY: the library is loaded already.
    let library = unsafe { cryptoki_sys::Pkcs11::new(module) }.unwrap();
    for slot in known.get_slots_with_token().unwrap() {
        // SAFETY: the call takes a number, and the caller has its turn: no other test uses
        // a session meanwhile.
        assert_eq!(unsafe { library.C_CloseAllSessions(slot.id()) }, 0);
    }
    std::mem::forget(known);
}

#[test]
fn a_session_that_failed_is_opened_again() {
    let Some((module, _turn)) = softhsm() else { return };
    let mut token = with_key(module, "reopened");
    token.open(1, "reopened", Aes::Aes128).unwrap();
    let (mut first, mut then) = ([[5; 16]; 3], [[5; 16]; 3]);
    token.ecb(1, &mut first).unwrap();
    close_all_sessions(module);
    let lost = token.ecb(1, &mut [[5; 16]; 3]);
    assert!(matches!(lost, Err(TokenError::Call(..))), "{lost:?}");
    token.ecb(1, &mut then).unwrap();
    assert_eq!(first, then, "logged in and opened again by itself");
}

#[test]
fn keys_of_any_octets_come_wrapped_and_have_the_name_that_they_have_here() {
    let Some((module, _turn)) = softhsm() else { return };
    let kek = Secret::new(vec![0; 32]);
    let mut token = bring(module, "kek of zeros", Purpose::Unwrapping, kek.expose());
    for at in 0..16_u8 {
        let mut octets = key().expose().to_vec();
        octets[usize::from(at)] = 0;
        let (key, label) = (Secret::new(octets), format!("zero at {at}"));
        let wrapped = wrap(&key, &Wrapper::Kek(&kek)).unwrap();
        let (with, by) = ("kek of zeros", Wrapping::AesKeyWrap);
        token.import(&label, Aes::Aes128, Purpose::Traffic, with, by, &wrapped).unwrap();
        let there = token.identity(&label, Aes::Aes128).unwrap();
        assert!(there.same_as(&name(&key).unwrap()), "{label}");
        let long = token.open(1, &label, Aes::Aes256);
        assert!(matches!(long, Err(TokenError::Length(_, 128, 256))), "{long:?}");
    }
}
