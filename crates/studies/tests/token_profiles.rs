//! The shipped token profiles against the figures that they come from.

use ferrule_engines::token::TokenProfile;
use std::time::Duration;

/// The study as printed.
const STUDY: &str = include_str!("../../../studies/prebuffered-ctr.toml");

#[test]
fn shipped_token_profile_microsd_equals_the_studys_figures() {
    let study: toml::Table = toml::from_str(STUDY).unwrap();
    let token = study["token"].as_table().unwrap();
    let number = |name: &str| token[name].as_integer().unwrap() as u64;
    let card = TokenProfile::shipped("microsd").unwrap();
    assert_eq!(card.source, "published");
    assert!(card.origin.contains(study["title"].as_str().unwrap()));
    assert_eq!(card.blocks_max() as u64, number("blocks_per_exchange"));
    let (full, small) = (number("io_delay_ms_full"), number("io_delay_ms_small"));
    assert_eq!(card.time(card.blocks_max()), Duration::from_millis(full));
    assert_eq!(card.time(1), Duration::from_millis(small));
    // An exchange is as large as printed, with what is not key stream in it; up to
    // 768 octets are a small one.
    let overhead = number("exchange_bytes") as usize - 16 * card.blocks_max();
    let small_blocks = (768 - overhead) / 16;
    assert_eq!(card.time(small_blocks), Duration::from_millis(small));
    assert_eq!(card.time(small_blocks + 1), Duration::from_millis(full));
    // What follows from them: section 4.1.1's filling, two rings on one token.
    let voip = study["voip"].as_table().unwrap();
    let a_second = card.blocks_max() as f64 / card.time(card.blocks_max()).as_secs_f64() / 2.0;
    assert_eq!(a_second as i64, voip["blocks_per_second_filled"].as_integer().unwrap());
}

#[test]
fn shipped_token_profiles_that_are_assumed_are_as_fast_as_they_say() {
    let profile = |name: &str| TokenProfile::shipped(name).unwrap();
    let rate = |p: &TokenProfile, blocks| 16.0 * blocks as f64 / p.time(blocks).as_secs_f64();
    // 226 kB/s whatever the size.
    let tpm = profile("tpm");
    for blocks in [1, 7, tpm.blocks_max()] {
        assert!((rate(&tpm, blocks) / 226e3 - 1.0).abs() < 1e-3, "{}", rate(&tpm, blocks));
    }
    assert_eq!(tpm.blocks_max(), 64, "1024 octets in a command");
    // Two milliseconds, then 1 MB/s.
    let hsm = profile("usb-hsm");
    let (one, most) = (hsm.time(1), hsm.time(hsm.blocks_max()));
    assert!(one >= Duration::from_millis(2) && one < Duration::from_micros(2100), "{one:?}");
    assert_eq!(most - one, Duration::from_micros(16 * (hsm.blocks_max() as u64 - 1)));
    let none = profile("none");
    assert_eq!(none.time(none.blocks_max()), Duration::ZERO);
    assert!(["tpm", "usb-hsm", "none"].iter().all(|name| profile(name).source == "assumed"));
    let names: Vec<&str> = TokenProfile::names().collect();
    assert_eq!(names, ["none", "microsd", "tpm", "usb-hsm"], "each is looked at here");
    assert_eq!(names, ferrule_node::config::TOKEN_PROFILES, "and has its word");
}
