//! Names and lists.

use super::*;
use std::collections::HashSet;

#[test]
fn every_suite_stands_in_one_list_under_one_name() {
    let all: HashSet<_> = Suite::software().chain(Suite::STUDY).collect();
    assert_eq!(all.len(), SOFTWARE + 2);
    for suite in all {
        assert_eq!(Suite::from_name(suite.name()), Some(suite));
    }
    assert_eq!(Suite::ALL[0], Suite::AesGcm(Aes::Aes128), "the usual one first");
}

#[test]
fn suites_that_a_standard_forbids_are_known_by_the_algorithm() {
    let of = |name| Suite::from_name(name).unwrap().forbidden();
    assert_eq!(of("des-cbc hmac-sha1-96"), Some("des-cbc"));
    assert_eq!(of("3des-cbc hmac-sha256-128"), Some("3des-cbc"));
    assert_eq!(of("null hmac-md5-96"), Some("hmac-md5-96"));
    assert!(Suite::ALL.iter().all(|suite| suite.forbidden().is_none()));
}

#[test]
fn ah_has_what_gives_integrity_alone() {
    let suites: Vec<_> = Suite::software().filter(|suite| suite.ah_name().is_some()).collect();
    assert_eq!(suites.len(), 5 + 3);
    assert!(suites.into_iter().all(Suite::is_integrity));
}

#[test]
fn counter_mode_suites_have_a_salt_and_no_iv_of_the_engines_making() {
    for suite in Suite::software() {
        assert_eq!(suite.esp_salt_len() == 4, suite.is_counter_mode(), "{suite}");
        assert!(!(suite.is_counter_mode() && suite.text_has_iv()), "{suite}");
        assert!(suite.esp_align().is_power_of_two() && suite.esp_align() >= 4);
    }
}

/// The numbers of a row of the page that users read.
fn row<const N: usize>(name: &str) -> Option<[usize; N]> {
    const PAGE: &str = include_str!("../../../../docs/suites.md");
    let line = PAGE.lines().find(|line| {
        let first = line.strip_prefix("| `").and_then(|rest| rest.split_once('`'));
        first.is_some_and(|(found, _)| found == name)
    })?;
    let mut numbers = line.split('|').filter_map(|cell| cell.trim().parse().ok());
    Some(std::array::from_fn(|_| numbers.next().expect("a number for each column")))
}

#[test]
fn page_of_suites_has_every_suite_with_its_sizes() {
    for suite in Suite::software() {
        let (key, salt, iv) = (suite.key_len(), suite.esp_salt_len(), suite.esp_iv_len());
        let Some((cipher, hash)) = suite.name().split_once(' ') else {
            assert_eq!(row(suite.name()), Some([key, salt, iv, suite.icv_len()]), "{suite}");
            continue;
        };
        assert_eq!(row(cipher), Some([key, salt, iv]), "{suite}");
        assert_eq!(row(hash), Some([suite.mac_key_len(), suite.icv_len()]), "{suite}");
    }
}
