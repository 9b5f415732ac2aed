//! Scenarios of several stations, step by step.

use super::lan::{Lan, NOTICED, Weather, cak, sci};
use crate::mka::config::{LIFE, PN_PENDING, RETIRE};
use crate::mka::{Command, Config, News, PortState, Suite};
use ferrule_base::Duration;
use ferrule_wire::mkpdu::Ckn;

const SECOND: Duration = Duration::from_secs(1);

fn two(octets: usize) -> Lan {
    let mut lan = Lan::new(1, Weather { secy_ms: 1, ..Weather::default() });
    lan.station(20, &[cak(1, octets)]);
    lan.station(10, &[cak(1, octets)]);
    lan
}

#[test]
fn mka_two_stations_secure_a_link_at_once() {
    for octets in [16, 32] {
        let mut lan = two(octets);
        let took = lan.secured_within(SECOND).expect("secured");
        assert!(took < Duration::from_millis(200), "{took:?}");
        lan.run(10 * SECOND);
        assert_eq!((lan.take_lost(), lan.stations[0].saks()), (0, 1));
        // The better priority made the only SAK.
        for station in &lan.stations {
            let view = station.kay.as_ref().unwrap().view();
            assert_eq!((view.server, view.port), (Some(sci(2)), PortState::Secured));
            assert_eq!((view.peers.len(), view.saks.len(), view.saks[0].key.kn), (1, 1, 1));
            assert!(view.peers[0].receives && view.peers[0].transmits);
        }
    }
}

#[test]
fn mka_rekeys_lose_no_frame() {
    let mut lan = two(32);
    for station in &mut lan.stations {
        station.config.suite = Suite::GcmAes256;
        station.config.rekey = Some(10 * SECOND);
    }
    (0..2).for_each(|at| lan.boot(at));
    lan.secured_within(SECOND).expect("secured");
    let first = lan.stations[0].transmits().unwrap();
    lan.run(125 * SECOND);
    assert_eq!(lan.stations[0].transmits().unwrap().kn, first.kn + 12);
    assert_eq!(lan.take_lost(), 0);
    assert!(lan.stations.iter().all(|station| station.got > 6000));
    // By hand, too; of the key server alone.
    lan.command(0, Command::Rekey);
    lan.run(SECOND);
    assert_eq!(lan.stations[0].transmits().unwrap().kn, first.kn + 12);
    lan.run(RETIRE);
    lan.command(1, Command::Rekey);
    lan.run(SECOND);
    assert_eq!(lan.stations[0].transmits().unwrap().kn, first.kn + 13);
    lan.run(RETIRE);
    assert_eq!((lan.take_lost(), lan.stations[0].saks()), (0, 1));
}

#[test]
fn mka_a_new_sak_comes_before_packet_numbers_end() {
    let mut lan = two(16);
    lan.secured_within(SECOND).expect("secured");
    lan.run(LIFE);
    let first = lan.stations[0].transmits();
    // Of the key server itself, then of its peer.
    for (at, kn) in [(1, 2), (0, 3)] {
        lan.stations[at].set_next_pn(PN_PENDING - 1);
        lan.run(LIFE + LIFE);
        assert_eq!(lan.stations[0].transmits().unwrap().kn, kn, "{first:?}");
    }
    assert_eq!(lan.take_lost(), 0);
}

#[test]
fn mka_a_third_station_gets_a_sak_of_its_own() {
    let mut lan = two(16);
    lan.secured_within(SECOND).expect("secured");
    lan.run(LIFE);
    let before = lan.stations[0].transmits();
    lan.station(30, &[cak(1, 16)]);
    assert!(lan.secured_within(LIFE).expect("secured") < 2 * SECOND);
    assert_ne!(lan.stations[0].transmits(), before);
    // The others lost no frame; the third could not know its first ones.
    lan.stations[2].lost = 0;
    lan.run(10 * SECOND);
    assert_eq!((lan.take_lost(), lan.stations[2].saks()), (0, 1));
}

#[test]
fn mka_goes_on_without_its_key_server() {
    let mut lan = two(16);
    lan.station(30, &[cak(1, 16)]);
    lan.secured_within(LIFE + SECOND).expect("secured");
    lan.kill(1);
    lan.run(NOTICED);
    assert!(lan.is_secured());
    assert_eq!(lan.stations[0].kay.as_ref().unwrap().view().server, Some(sci(1)));
    assert!(lan.stations[0].news.contains(&News::PeerLost(sci(2))));
    lan.take_lost();
    lan.run(5 * SECOND);
    assert_eq!(lan.take_lost(), 0);
    // The station comes back, and is key server again.
    lan.boot(1);
    lan.run(NOTICED);
    assert!(lan.is_secured());
    assert_eq!(lan.stations[0].kay.as_ref().unwrap().view().server, Some(sci(2)));
}

#[test]
fn mka_alone_nothing_passes_unless_clear_may() {
    let mut lan = two(16);
    lan.stations[0].config.clear = true;
    (0..2).for_each(|at| lan.boot(at));
    lan.secured_within(SECOND).expect("secured");
    for dead in [0, 1] {
        lan.kill(dead);
        lan.run(NOTICED);
        let other = &lan.stations[1 - dead];
        let port = if dead == 1 { PortState::Clear } else { PortState::Blocked };
        assert_eq!((other.port(), other.transmits(), other.saks()), (port, None, 0));
        lan.boot(dead);
        assert!(lan.secured_within(LIFE).is_some());
    }
}

#[test]
fn mka_another_cak_or_name_is_told_apart() {
    use crate::mka::Fault;
    let other =
        crate::mka::Cak::new(Ckn::new(&[1; 5]).unwrap(), ferrule_base::Secret::new(vec![9; 16]));
    for (wrong, fault) in [(other.unwrap(), Fault::Icv), (cak(2, 16), Fault::UnknownCkn)] {
        let mut lan = Lan::new(3, Weather::default());
        lan.station(20, &[cak(1, 16)]);
        lan.station(10, &[wrong]);
        lan.run(20 * SECOND);
        for station in &lan.stations {
            let view = station.kay.as_ref().unwrap().view();
            assert!(view.peers.is_empty() && view.counts.dropped(fault) > 5, "{view:?}");
            assert_eq!((view.counts.taken, station.port()), (0, PortState::Blocked));
        }
    }
}

#[test]
fn mka_a_new_cak_takes_over_without_loss() {
    let mut lan = two(16);
    lan.secured_within(SECOND).expect("secured");
    lan.run(LIFE);
    lan.command(0, Command::Join(cak(2, 32)));
    lan.run(5 * SECOND);
    assert_eq!(lan.stations[0].transmits().unwrap().kn, 1, "the other one does not have it");
    lan.command(1, Command::Join(cak(2, 32)));
    lan.run(2 * LIFE);
    for at in 0..2 {
        let view = lan.stations[at].kay.as_ref().unwrap().view();
        assert_eq!(view.peers.len(), 2, "by both");
        lan.command(at, Command::Leave(Ckn::new(&[1; 5]).unwrap()));
    }
    lan.run(2 * LIFE);
    assert!(lan.is_secured());
    assert_eq!(lan.take_lost(), 0);
    assert_eq!(lan.stations[0].kay.as_ref().unwrap().view().peers.len(), 1);
}

#[test]
fn mka_a_secy_that_refuses_is_not_announced() {
    let mut lan = two(16);
    lan.stations[0].refuse_installs(1);
    lan.run(LIFE - SECOND);
    assert_eq!((lan.stations[0].transmits(), lan.stations[1].transmits()), (None, None));
    assert!(lan.stations[0].news.contains(&News::Refused("no room".into())));
    // After a life time the key server makes another one: the first must not come again.
    lan.run(3 * SECOND);
    assert!(lan.is_secured());
    assert_eq!(lan.stations[0].transmits().unwrap().kn, 2);
}

#[test]
fn mka_a_key_server_whose_secy_refuses_tries_again_later() {
    let mut lan = two(16);
    lan.stations[1].refuse_installs(3);
    lan.run(LIFE - SECOND);
    let refused = |lan: &Lan| {
        let no_room = News::Refused("no room".into());
        lan.stations[1].news.iter().filter(|news| **news == no_room).count()
    };
    assert_eq!(refused(&lan), 1);
    lan.run(2 * LIFE);
    assert_eq!(refused(&lan), 3);
    lan.run(2 * LIFE);
    assert!(lan.is_secured());
}

#[test]
fn mka_bounded_delay_raises_the_lowest_packet_number() {
    let mut lan = two(16);
    for station in &mut lan.stations {
        station.config.delay_protect = true;
    }
    (0..2).for_each(|at| lan.boot(at));
    lan.secured_within(SECOND).expect("secured");
    lan.run(10 * SECOND);
    let sent = lan.stations[0].sent.len();
    assert!((20..40).contains(&sent), "every half a second: {sent}");
    let lowest = lan.stations[1].lowest_pn(sci(1)).unwrap();
    assert!((420..500).contains(&lowest), "{lowest} of 500 in ten seconds");
    assert_eq!(lan.take_lost(), 0);
}

#[test]
fn mka_nobody_serves_who_must_not() {
    let mut lan = Lan::new(5, Weather::default());
    let config = Config { priority: 255, ..Config::new(sci(1)) };
    lan.station_of(config, &[cak(1, 16)]);
    lan.station_of(Config { sci: sci(2), ..config }, &[cak(1, 16)]);
    lan.run(20 * SECOND);
    assert!(lan.stations.iter().all(|station| station.port() == PortState::Blocked));
    lan.station(200, &[cak(1, 16)]);
    assert!(lan.secured_within(LIFE + SECOND).is_some());
    assert_eq!(lan.stations[0].kay.as_ref().unwrap().view().server, Some(sci(3)));
}
