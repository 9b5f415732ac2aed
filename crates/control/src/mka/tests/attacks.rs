//! Attacks by stations that do not have the CAK.

use super::lan::{Lan, Weather, cak, sci};
use crate::Core;
use crate::mka::config::{LIFE, PEERS_MAX};
use crate::mka::{Config, Fault, Kay, PortState};
use ferrule_base::{Duration, Instant, Rng};

const SECOND: Duration = Duration::from_secs(1);

fn secured(seed: u64) -> Lan {
    let mut lan = Lan::new(seed, Weather::default());
    lan.station(20, &[cak(1, 16)]);
    lan.station(10, &[cak(1, 16)]);
    lan.secured_within(SECOND).expect("secured");
    lan
}

#[test]
fn mka_changed_messages_teach_nothing() {
    let mut lan = secured(1);
    lan.run(LIFE);
    let message = lan.stations[1].sent.last().unwrap().clone();
    let kay = lan.stations[0].kay.as_mut().unwrap();
    let before = format!("{:?}", (kay.view().peers, kay.view().saks));
    let mut rng = Rng::new(7);
    for _ in 0..20_000 {
        let mut changed = message.clone();
        for _ in 0..=rng.below(3) {
            let at = 12 + rng.below(changed.len() as u64 - 12) as usize;
            changed[at] ^= 1 << rng.below(8);
        }
        changed.truncate(changed.len() - rng.below(3) as usize * rng.below(20) as usize);
        if changed == message {
            continue;
        }
        let heard = kay.handle_message(lan.now, (), &changed);
        // Behind the body there may be anything: the link pads.
        assert!(heard.is_err(), "{changed:02x?}");
    }
    assert_eq!(format!("{:?}", (kay.view().peers, kay.view().saks)), before);
    assert_eq!(kay.handle_message(lan.now, (), &message), Err(Fault::OldNumber));
}

#[test]
fn mka_recorded_messages_make_nobody_live_and_push_nobody_out() {
    let mut lan = secured(2);
    // Lives of a station, one after the other, each recorded.
    for _ in 0..PEERS_MAX + 10 {
        lan.boot(1);
        lan.run(SECOND);
    }
    let recorded = lan.stations[1].sent.clone();
    lan.run(2 * LIFE);
    assert!(lan.is_secured());
    lan.take_lost();
    let key = lan.stations[0].transmits();
    for _ in 0..5 {
        for message in &recorded {
            lan.deliver(0, message);
        }
        lan.run(SECOND);
        let view = lan.stations[0].kay.as_ref().unwrap().view();
        assert_eq!(view.peers.len(), 1);
    }
    assert_eq!((lan.stations[0].transmits(), lan.take_lost()), (key, 0));
    // Nor do they keep one alive that is gone.
    lan.kill(1);
    for _ in 0..8 {
        recorded.iter().for_each(|message| lan.deliver(0, message));
        lan.run(SECOND);
    }
    assert_eq!((lan.stations[0].port(), lan.stations[0].saks()), (PortState::Blocked, 0));
    // A newcomer is let in although they go on.
    lan.boot(1);
    for _ in 0..9 {
        recorded.iter().for_each(|message| lan.deliver(0, message));
        lan.run(SECOND);
    }
    assert!(lan.is_secured());
}

#[test]
fn mka_own_messages_that_come_back_are_nobody_s() {
    let mut lan = secured(3);
    lan.run(LIFE);
    let own = lan.stations[0].sent.clone();
    let kay = lan.stations[0].kay.as_mut().unwrap();
    for message in own {
        assert_eq!(kay.handle_message(lan.now, (), &message), Err(Fault::OwnMessage));
    }
    assert_eq!(kay.view().peers.len(), 1);
}

#[test]
fn mka_noise_is_dropped_with_a_reason() {
    let mut kay = Kay::new(Config::new(sci(1)), Box::new(Rng::new(1)));
    let mut rng = Rng::new(2);
    for len in 0..200 {
        let mut frame = vec![0; len];
        rng.fill(&mut frame);
        let _ = kay.handle_message(Instant::ZERO, (), &frame);
        let head = [0x01, 0x80, 0xc2, 0, 0, 3, 2, 0, 0, 0, 0, 9, 0x88, 0x8e, 3, 5, 0, 64];
        let count = head.len().min(len);
        frame[..count].copy_from_slice(&head[..count]);
        assert!(kay.handle_message(Instant::ZERO, (), &frame).is_err());
    }
    let start = [&[1, 0x80, 0xc2, 0, 0, 3, 2, 0, 0, 0, 0, 9, 0x88, 0x8e][..], &[3, 1, 0, 0]];
    assert_eq!(kay.handle_message(Instant::ZERO, (), &start.concat()), Err(Fault::NotMka));
}
