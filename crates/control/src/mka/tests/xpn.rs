//! SAKs of XPN suites, step by step.

use super::lan::{Lan, NOTICED, Weather, altered, cak, sci, sets};
use crate::Core;
use crate::mka::config::{LIFE, PN_PENDING, RETIRE, XPN_PENDING};
use crate::mka::{Command, Confidentiality, Config, Fault, Suite, Xpn};
use ferrule_base::Duration;
use ferrule_wire::mkpdu::{KeyId, Set};
use std::collections::BTreeMap;

const SECOND: Duration = Duration::from_secs(1);

/// Stations with SCIs from 1 on, of these priorities, and secured.
fn lan(suite: Suite, priorities: &[u8], hides_ssci: bool) -> Lan {
    let mut lan = Lan::new(1, Weather { secy_ms: 1, ..Weather::default() });
    lan.hides_ssci = hides_ssci;
    for (&priority, number) in priorities.iter().zip(1..) {
        let config = Config { priority, suite, ..Config::new(sci(number)) };
        lan.station_of(config, &[cak(1, 16)]);
    }
    lan.secured_within(2 * LIFE).expect("secured");
    lan.run(LIFE);
    lan.take_lost();
    lan
}

/// The last message of a station that has a SAK in it.
fn with_sak(lan: &Lan, at: usize) -> Vec<u8> {
    let is_sak = |set: &Set| matches!(set, Set::DistributedSak(_));
    let has_sak = |frame: &&Vec<u8>| sets(frame).iter().any(is_sak);
    lan.stations[at].sent.iter().rev().find(has_sak).expect("a SAK").clone()
}

fn key(lan: &Lan, at: usize) -> KeyId {
    lan.stations[at].transmits().expect("it transmits")
}

#[test]
fn mka_xpn_all_know_the_same_salt_and_ssci_of_each() {
    for suite in [Suite::GcmAesXpn128, Suite::GcmAesXpn256] {
        for hides_ssci in [false, true] {
            let mut lan = lan(suite, &[20, 10, 30], hides_ssci);
            let KeyId { mi, kn } = key(&lan, 1);
            let mut salt = mi.0;
            salt[1] ^= kn as u8;
            let all = BTreeMap::from([(sci(3), Some(1)), (sci(2), Some(2)), (sci(1), Some(3))]);
            for (station, own) in lan.stations.iter().zip([3, 2, 1]) {
                let (xpn, channels) = station.xpn().expect("an XPN suite");
                assert_eq!(xpn, Xpn { salt, ssci: own });
                let mut others = all.clone();
                others.remove(&station.config.sci);
                assert_eq!(channels, others);
            }
            lan.run(10 * SECOND);
            assert_eq!(lan.take_lost(), 0);
        }
    }
}

#[test]
fn mka_xpn_the_key_server_says_its_ssci_with_the_sak_alone() {
    let lan = lan(Suite::GcmAesXpn128, &[20, 10, 30], false);
    let mut said = Vec::new();
    for frame in &lan.stations[1].sent {
        let sets = sets(frame);
        let has_sak = sets.iter().any(|set| matches!(set, Set::DistributedSak(_)));
        for set in &sets {
            match set {
                Set::Live { ssci, .. } => said.push((*ssci, has_sak)),
                Set::DistributedSak(sak) => {
                    let key = sak.key.as_ref().expect("a SAK");
                    let id = Some(0x0080_c200_0100_0003);
                    assert_eq!((key.suite, key.wrapped.len()), (id, 24));
                }
                _ => {}
            }
        }
    }
    assert!(said.iter().all(|(ssci, has_sak)| (*ssci != 0) == *has_sak), "{said:?}");
    // Of three, the last time; and the list is in the order of SSCIs.
    assert_eq!(said.iter().rev().find(|(_, has_sak)| *has_sak), Some(&(2, true)));
    let own = |at: usize| lan.stations[at].kay.as_ref().unwrap().view().own[0].1;
    let listed = sets(&with_sak(&lan, 1)).into_iter().find_map(|set| match set {
        Set::Live { peers, .. } => Some(peers.iter().map(|peer| peer.mi).collect::<Vec<_>>()),
        _ => None,
    });
    assert_eq!(listed, Some(vec![own(2), own(0)]));
    // A station that is not key server says none.
    let none = |set: &Set| !matches!(set, Set::Live { ssci: 1.., .. });
    assert!(lan.stations[0].sent.iter().all(|frame| sets(frame).iter().all(none)));
}

/// A message of station 1 with a new SAK that does not come to station 0, changed.
fn changed_sak(lan: &mut Lan, change: impl Fn(&mut Set)) -> Result<(), Fault> {
    lan.cut.insert((1, 0));
    lan.command(1, Command::Rekey);
    lan.run(SECOND / 10);
    let frame = with_sak(lan, 1);
    let frame = altered(&frame, &cak(1, 16), |repr| repr.sets.iter_mut().for_each(&change));
    let now = lan.now;
    let heard = lan.stations[0].kay.as_mut().unwrap().handle_message(now, (), &frame);
    lan.cut.clear();
    heard
}

#[test]
fn mka_xpn_has_no_confidentiality_offset() {
    for offset in 0..4 {
        let mut lan = lan(Suite::GcmAesXpn256, &[20, 10], false);
        let heard = changed_sak(&mut lan, |set| {
            if let Set::DistributedSak(sak) = set {
                sak.offset = offset;
            }
        });
        assert_eq!(heard, if offset > 1 { Err(Fault::Offset) } else { Ok(()) });
        lan.run(2 * SECOND);
        assert!(lan.is_secured() && key(&lan, 0).kn == 2, "the next message is right");
    }
    // A key server does not ask for it.
    let mut lan = Lan::new(1, Weather::default());
    let suite = Suite::GcmAesXpn128;
    let confidentiality = Confidentiality::Offset50;
    let config = Config { suite, confidentiality, ..Config::new(sci(1)) };
    lan.station_of(config, &[cak(1, 16)]);
    lan.station_of(Config { sci: sci(2), ..config }, &[cak(1, 16)]);
    assert!(lan.secured_within(SECOND).is_some());
}

#[test]
fn mka_xpn_members_are_named_once() {
    let mut lan = lan(Suite::GcmAesXpn128, &[20, 10, 30], false);
    let heard = changed_sak(&mut lan, |set| {
        if let Set::Live { peers, .. } = set {
            peers.push(peers[0]);
        }
    });
    assert_eq!(heard, Err(Fault::Sscis));
}

#[test]
fn mka_xpn_a_member_that_is_heard_again_has_its_ssci() {
    let mut lan = lan(Suite::GcmAesXpn128, &[20, 10, 30], false);
    let before = (key(&lan, 0), lan.stations[0].xpn());
    lan.cut.extend([(0, 2), (2, 0)]);
    lan.run(NOTICED);
    assert_eq!(lan.stations[0].xpn(), before.1, "its channel stays as long as the SAK");
    lan.cut.clear();
    lan.run(2 * LIFE);
    assert_eq!((key(&lan, 0), lan.stations[0].xpn()), before, "the same SAK, all SSCIs");
    lan.take_lost();
    lan.run(10 * SECOND);
    assert_eq!(lan.take_lost(), 0);
}

#[test]
fn mka_xpn_a_member_that_was_not_heard_yet_has_its_ssci() {
    // Nothing passes between two of three: both are members by the key server alone.
    for hides_ssci in [false, true] {
        let mut lan = Lan::new(1, Weather::default());
        lan.hides_ssci = hides_ssci;
        lan.cut.extend([(0, 2), (2, 0)]);
        for (number, priority) in [(1, 20), (2, 10), (3, 30)] {
            let suite = Suite::GcmAesXpn128;
            let config = Config { priority, suite, ..Config::new(sci(number)) };
            lan.station_of(config, &[cak(1, 16)]);
        }
        lan.run(LIFE);
        let channels = |lan: &Lan| lan.stations[0].xpn().map(|(xpn, of)| (xpn.ssci, of));
        let server = (sci(2), Some(2));
        // Without SCIs of all there are no SSCIs.
        let some = (!hides_ssci).then(|| (3, BTreeMap::from([server])));
        assert_eq!(channels(&lan), some);
        lan.cut.clear();
        lan.run(2 * LIFE);
        assert!(lan.is_secured());
        assert_eq!(channels(&lan), Some((3, BTreeMap::from([server, (sci(3), Some(1))]))));
        lan.take_lost();
        lan.run(10 * SECOND);
        assert_eq!(lan.take_lost(), 0);
    }
}

#[test]
fn mka_xpn_a_sak_is_not_handed_out_when_a_member_is_gone() {
    let mut lan = lan(Suite::GcmAesXpn128, &[20, 10, 30], false);
    // The first station does not get it, and the key server gives up the third.
    lan.cut.insert((2, 1));
    lan.run(LIFE - 2 * SECOND);
    lan.cut.insert((1, 0));
    lan.command(1, Command::Rekey);
    lan.run(2 * SECOND);
    let view = lan.stations[1].kay.as_ref().unwrap().view();
    assert_eq!((view.peers.len(), view.saks[0].key.kn, view.saks[0].transmits), (1, 2, false));
    lan.cut.remove(&(1, 0));
    let before = lan.stations[1].sent.len();
    lan.run(SECOND);
    let is_sak = |set: &Set| matches!(set, Set::DistributedSak(_));
    let sent = lan.stations[1].sent.split_off(before);
    assert!(sent.iter().all(|frame| !sets(frame).iter().any(is_sak)), "it has other SSCIs now");
    lan.cut.clear();
    lan.run(4 * LIFE);
    assert!(lan.is_secured());
    lan.take_lost();
    lan.run(10 * SECOND);
    assert_eq!(lan.take_lost(), 0);
}

#[test]
fn mka_xpn_a_new_sak_comes_before_64_bits_end() {
    let mut lan = lan(Suite::GcmAesXpn128, &[20, 10], false);
    for (at, kn) in [(1, 2), (0, 3)] {
        lan.stations[at].set_next_pn(PN_PENDING - 1);
        lan.run(LIFE + LIFE);
        assert_eq!(key(&lan, 0).kn, kn - 1, "far from the end");
        lan.stations[at].set_next_pn(XPN_PENDING - 1);
        lan.run(LIFE + LIFE);
        assert_eq!(key(&lan, 0).kn, kn);
    }
    assert_eq!(lan.take_lost(), 0);
}

#[test]
fn mka_xpn_lowest_packet_numbers_have_64_bits() {
    for hides_high in [false, true] {
        let mut lan = Lan::new(1, Weather::default());
        let config =
            Config { suite: Suite::GcmAesXpn256, delay_protect: true, ..Config::new(sci(1)) };
        lan.station_of(Config { priority: 20, ..config }, &[cak(1, 16)]);
        lan.station_of(Config { sci: sci(2), ..config }, &[cak(1, 16)]);
        lan.secured_within(SECOND).expect("secured");
        lan.hides_high = hides_high;
        lan.run(RETIRE);
        lan.stations[0].set_next_pn(7 << 32);
        lan.run(10 * SECOND);
        let lowest = lan.stations[1].lowest_pn(sci(1)).unwrap();
        if hides_high {
            // A half of it is no number: the last that was whole stays.
            assert!(lowest < 100, "{lowest}");
        } else {
            assert!((420..500).contains(&(lowest - (7 << 32))), "{lowest}");
        }
        assert_eq!(lan.take_lost(), 0);
    }
}

#[test]
fn mka_xpn_follows_another_suite_without_loss() {
    let mut lan = lan(Suite::GcmAes128, &[20, 10], false);
    assert_eq!(lan.stations[0].xpn(), None);
    // A better key server with another suite.
    let config = Config { priority: 5, suite: Suite::GcmAesXpn256, ..Config::new(sci(3)) };
    lan.station_of(config, &[cak(1, 16)]);
    lan.run(LIFE);
    assert!(lan.is_secured());
    assert_eq!(lan.stations[0].xpn().unwrap().0.ssci, 3);
    assert_eq!(lan.stations[0].lost + lan.stations[1].lost, 0);
    lan.kill(2);
    lan.run(NOTICED);
    assert!(lan.is_secured() && lan.stations[0].xpn().is_none());
}
