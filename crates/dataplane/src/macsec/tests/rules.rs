//! The rules of clauses 9 and 10, one by one, and what is counted for each.

use super::super::{Replay, SaError};
use super::*;

/// A protected frame with an SCI, changed by `change`.
fn changed(rig: &mut Rig<Software>, user: usize, change: impl FnOnce(&mut Vec<u8>)) -> Fate {
    let mut wire = rig.protect(&frame(user)).unwrap();
    change(&mut wire);
    rig.validate(&wire)
}

#[test]
fn macsec_sectag_that_breaks_a_rule_is_dropped() {
    let mut rig = Rig::keyed(engines().0, &config(GCM128));
    let bad = Err(DropReason::MacsecBadTag);
    assert_eq!(changed(&mut rig, 60, |w| w[14] |= 0x80), bad, "version");
    assert_eq!(changed(&mut rig, 60, |w| w[14] |= 0x40), bad, "SC and ES");
    assert_eq!(changed(&mut rig, 60, |w| w[14] |= 0x10), bad, "SC and SCB");
    assert_eq!(changed(&mut rig, 60, |w| w[14] ^= 0x04), bad, "E without C");
    assert_eq!(changed(&mut rig, 60, |w| w[14] ^= 0x08), bad, "C without E");
    assert_eq!(changed(&mut rig, 60, |w| w[15] = 0x40), bad, "top bits of SL");
    assert_eq!(changed(&mut rig, 60, |w| w[15] = 48), bad, "SL that is not short");
    assert_eq!(changed(&mut rig, 20, |w| w[15] = 0), bad, "no SL in a short frame");
    assert_eq!(changed(&mut rig, 20, |w| w[15] = 21), bad, "SL beyond the frame");
    assert_eq!(changed(&mut rig, 20, |w| w[15] = 1), bad, "less than an EtherType");
    assert_eq!(changed(&mut rig, 60, |w| w[16..20].fill(0)), bad, "number 0");
    assert_eq!(changed(&mut rig, 60, |w| w.truncate(27)), bad, "cut in the SCI");
    assert_eq!(rig.received().in_bad_tag, 12);
    assert_eq!(rig.tally.drops.get(DropReason::MacsecBadTag), 12);
    assert_eq!(changed(&mut rig, 60, |_| {}), Ok(frame(60)));
}

#[test]
fn macsec_short_length_tells_the_icv_from_padding() {
    let mut rig = Rig::keyed(engines().0, &config(GCM128));
    for user in 2..60 {
        let wire = rig.protect(&frame(user)).unwrap();
        assert_eq!(wire[15] as usize, if user < 48 { user } else { 0 });
        if user < 48 {
            let padded = [wire, vec![0xee; 30]].concat();
            assert_eq!(rig.validate(&padded), Ok(frame(user)), "{user}");
        }
    }
}

#[test]
fn macsec_port_with_a_secy_passes_nothing_in_clear() {
    let config = config(GCM128);
    let mut rig = Rig::keyed(engines().0, &config);
    assert_eq!(rig.validate(&frame(60)), Err(DropReason::MacsecUntagged));
    let mut eapol = frame(60);
    eapol[12..14].copy_from_slice(&[0x88, 0x8e]);
    assert_eq!(rig.validate(&eapol), Err(DropReason::MacsecUntagged));
    assert_eq!(rig.received().in_no_tag, 2);
    // Not even before there is a key, and nothing leaves.
    let mut rig = Rig::new(engines().0, &config);
    assert_eq!(rig.validate(&frame(60)), Err(DropReason::MacsecUntagged));
    assert_eq!(rig.protect(&frame(60)), Err(DropReason::MacsecNoTxSa));
    rig.secy_in.remove(&mut rig.engine, 0).unwrap();
    rig.secy_out.remove(&mut rig.engine, 0).unwrap();
    assert_eq!(rig.validate(&frame(60)), Err(DropReason::MacsecUntagged));
    assert_eq!(rig.protect(&frame(60)), Err(DropReason::MacsecNoTxSa));
}

#[test]
fn macsec_unknown_channel_and_unused_association_have_their_reasons() {
    let mut rig = Rig::keyed(engines().0, &config(GCM128));
    assert_eq!(changed(&mut rig, 60, |w| w[27] = 9), Err(DropReason::MacsecUnknownSci));
    assert_eq!(changed(&mut rig, 60, |w| w[14] ^= 3), Err(DropReason::MacsecUnusedSa));
    assert_eq!(changed(&mut rig, 60, |w| w[60] ^= 3), Err(DropReason::MacsecBadIcv));
    let stats = rig.received();
    assert_eq!((stats.in_no_sa_error, stats.in_not_valid, stats.in_ok), (2, 1, 0));
}

#[test]
fn macsec_without_sci_the_channel_is_implied() {
    let peer = SecyConfig { send_sci: false, ..config(GCM128) };
    let mut rig = Rig::keyed(engines().0, &peer);
    let wire = rig.protect(&frame(60)).unwrap();
    assert_eq!(wire.len(), 12 + 8 + 60 + 16);
    assert_eq!(rig.validate(&wire), Ok(frame(60)));
    // With a second channel nothing is implied any more.
    let other = RxSaConfig { sci: 7, ..rx_sa(&peer, 0, 1) };
    rig.secy_in.install_rx_sa(&mut rig.engine, 0, &other).unwrap();
    let wire = rig.protect(&frame(60)).unwrap();
    assert_eq!(rig.validate(&wire), Err(DropReason::MacsecUnknownSci));
    rig.secy_in.retire_rx_sa(&mut rig.engine, 0, 7, 0).unwrap();
    assert_eq!(rig.validate(&wire), Ok(frame(60)));
    // An end station is told by its address.
    let station = SecyConfig { end_station: true, ..peer };
    let mut rig = Rig::keyed(engines().0, &station);
    let mut foreign = frame(60);
    foreign[11] = 9;
    let wire = rig.protect(&foreign).unwrap();
    assert_eq!(rig.validate(&wire), Err(DropReason::MacsecUnknownSci));
}

fn replay(replay: Replay, window: u32) -> (Rig<Software>, Vec<Vec<u8>>) {
    let config = SecyConfig { replay, window, ..config(GCM128) };
    let mut rig = Rig::keyed(engines().0, &config);
    let plain: Vec<_> = (0..10).map(|i| frame(60 + i)).collect();
    let wires = rig.protect_all(&plain).into_iter().map(Result::unwrap).collect();
    (rig, wires)
}

#[test]
fn macsec_replay_window_standard_and_bitmap_differ_in_duplicates() {
    let late = Err(DropReason::MacsecReplay);
    for (mode, duplicate) in [(Replay::Standard, true), (Replay::Strict, false)] {
        let (mut rig, wires) = replay(mode, 4);
        assert!(rig.validate(&wires[9]).is_ok());
        assert_eq!(rig.edges(), (11, 7));
        assert_eq!(rig.validate(&wires[5]), late, "number 6 is below the lowest, 7");
        assert!(rig.validate(&wires[6]).is_ok());
        assert_eq!(rig.validate(&wires[6]).is_ok(), duplicate, "{mode:?}");
        assert_eq!(rig.validate(&wires[9]).is_ok(), duplicate, "{mode:?}");
        assert_eq!(rig.received().in_late, 1 + 2 * u64::from(!duplicate));
    }
    let (mut rig, wires) = replay(Replay::Standard, 0);
    assert!(rig.validate(&wires[0]).is_ok() && rig.validate(&wires[0]) == late);
    let (mut rig, wires) = replay(Replay::Off, 0);
    assert!((0..3).all(|_| rig.validate(&wires[0]).is_ok()));
    assert_eq!((rig.received().in_ok, rig.received().in_delayed), (1, 2));
}

#[test]
fn macsec_replay_is_looked_at_again_after_validation() {
    let config = SecyConfig { replay: Replay::Strict, window: 64, ..config(GCM128) };
    let mut rig = Rig::keyed(engines().1, &config);
    let wire = rig.protect(&frame(60)).unwrap();
    // Frames under way at once: before validation each of them looks new.
    let fates = rig.validate_all(&vec![wire; 50]);
    assert_eq!(fates.iter().filter(|f| f.is_ok()).count(), 1);
    assert_eq!(rig.tally.drops.get(DropReason::MacsecReplay), 49);
    assert_eq!(rig.tally.work.opened.packets, 50);
}

#[test]
fn macsec_packet_numbers_end_and_are_reserved_first() {
    let config = config(GCM128);
    let mut rig = Rig::new(engines().0, &config);
    rig.key(&config, 0, u32::MAX.into());
    assert!(rig.protect(&frame(60)).is_ok());
    assert_eq!(rig.protect(&frame(60)), Err(DropReason::MacsecPnExhausted));
    // Even if the caller's range of numbers is larger.
    let wrong = Sequence::unlimited(1 << 32, u64::MAX - 1);
    rig.rekey(&tx_sa(&config, 1), wrong);
    assert_eq!(rig.protect(&frame(60)), Err(DropReason::MacsecPnExhausted));
    let reserved = Sequence::new(1, 2, config.pn_max());
    rig.rekey(&tx_sa(&config, 2), reserved);
    let mut wants = Vec::new();
    rig.secy_out.wants(|secy, an, lease, limit| {
        wants.push((secy, an, lease, limit));
        wants.len() > 1
    });
    rig.secy_out.wants(|secy, an, lease, limit| {
        wants.push((secy, an, lease, limit));
        true
    });
    rig.secy_out.wants(|_, _, _, _| panic!("what was heard is not said again"));
    let [_, (0, 2, lease, limit)] = wants[..] else { panic!("{wants:?}") };
    assert_eq!(wants[0], wants[1], "what nobody heard is said again");
    let sent = rig.protect_all(&vec![frame(60); 3]);
    assert_eq!(sent.iter().filter(|f| f.is_ok()).count(), 2);
    let stranger = crate::Lease { number: lease.number + 1, ..lease };
    rig.secy_out.extend(0, 2, stranger, limit).unwrap();
    assert_eq!(rig.protect(&frame(60)), Err(DropReason::MacsecPnExhausted), "of another lease");
    rig.secy_out.extend(0, 2, lease, limit).unwrap();
    assert!(rig.protect(&frame(60)).is_ok());
    let left = rig.secy_out.retire_tx_sa(&mut rig.engine, 0, 2).unwrap();
    assert_eq!(left.peek(), 4, "the numbers outlive the association");
    let none = Sequence::unlimited(0, 9);
    let sa = tx_sa(&config, 3);
    let refused = rig.secy_out.install_tx_sa(&mut rig.engine, 0, &sa, none);
    assert_eq!(refused, Err(SaError::Numbers));
}

#[test]
fn macsec_frames_that_do_not_fit_are_dropped() {
    let mut rig = Rig::keyed(engines().0, &config(GCM128));
    rig.tables.ports[0].frame_max = 1514;
    assert!(rig.protect(&frame(1502 - 32)).is_ok());
    assert_eq!(rig.protect(&frame(1502 - 31)), Err(DropReason::TooBig));
    assert_eq!(rig.sent().out_too_long, 1);
    rig.tables.ports[0].frame_max = u16::MAX;
    let largest = rig.cache.pool().chunk_size() - 256;
    assert_eq!(rig.protect(&frame(largest - 12)), Err(DropReason::NoRoom));
    assert_eq!(rig.protect(&frame(1)), Err(DropReason::Malformed));
    assert_eq!(rig.protect(&[]), Err(DropReason::Malformed));
}

#[test]
fn macsec_counters_have_the_names_of_the_standard() {
    let integrity = SecyConfig { encrypt: false, ..config(GCM128) };
    for (config, expected) in [
        (
            integrity,
            [
                ("InPktsOK", 3),
                ("InOctetsValidated", 300),
                ("OutPktsProtected", 3),
                ("OutOctetsProtected", 300),
            ],
        ),
        (
            config(GCM128),
            [
                ("InPktsOK", 3),
                ("InOctetsDecrypted", 300),
                ("OutPktsEncrypted", 3),
                ("OutOctetsEncrypted", 300),
            ],
        ),
    ] {
        let mut rig = Rig::keyed(engines().0, &config);
        for _ in 0..3 {
            let wire = rig.protect(&frame(100)).unwrap();
            assert!(rig.validate(&wire).is_ok());
        }
        let mut stats = rig.received();
        stats.merge(&rig.sent());
        assert_eq!(stats.iter().filter(|&(_, n)| n > 0).collect::<Vec<_>>(), expected);
    }
}
