//! Frames past the SecY: EAPOL, listed protocols, and what passes although nothing vouches
//! for it (clauses 10.6, 10.7.8, 10.7.17).

use super::super::{Replay, Validate};
use super::*;
use ferrule_wire::EtherType;

const LLDP: EtherType = EtherType(0x88cc);

fn of(ethertype: EtherType, user: usize) -> Vec<u8> {
    let mut frame = frame(user);
    frame[12..14].copy_from_slice(&ethertype.0.to_be_bytes());
    frame
}

fn counts(rig: &Rig<Software>, names: &[&str]) -> Vec<u64> {
    let stats = rig.received();
    let count = |name| stats.iter().find(|(of, _)| *of == name).map_or(u64::MAX, |(_, n)| n);
    names.iter().map(|name| count(*name)).collect()
}

#[test]
fn macsec_eapol_goes_to_the_mka_entity_and_listed_protocols_pass_in_clear() {
    let config =
        SecyConfig { eapol: Some(EtherType::EAPOL), uncontrolled: vec![LLDP], ..config(GCM128) };
    let mut rig = Rig::keyed(engines().0, &config);
    let eapol = of(EtherType::EAPOL, 60);
    rig.push(Next::SecyIn, std::slice::from_ref(&eapol));
    assert_eq!(rig.drain(Next::Eapol), [Ok(eapol.clone())]);
    let lldp = of(LLDP, 60);
    assert_eq!(rig.validate(&lldp), Ok(lldp.clone()));
    assert_eq!(rig.protect(&lldp), Ok(lldp));
    // A forwarded frame of the kind is data as any other.
    assert_eq!(rig.protect(&eapol).unwrap().len(), eapol.len() + 32);
    assert_eq!(rig.validate(&frame(60)), Err(DropReason::MacsecUntagged));
    assert_eq!(counts(&rig, &["InPktsNoTag", "InPktsUntagged"]), [1, 0]);
    // Among frames that are protected, order stays.
    let all = [frame(60), of(LLDP, 61), frame(62), frame(63)];
    let lens: Vec<_> = rig.protect_all(&all).into_iter().map(|f| f.unwrap().len()).collect();
    assert_eq!(lens.len(), 4);
    assert_eq!(lens.iter().filter(|&&len| len == 12 + 61).count(), 1);
}

#[test]
fn macsec_unprotected_frames_leave_as_they_are() {
    let config = SecyConfig { protect: false, ..config(GCM128) };
    let mut rig = Rig::new(engines().0, &config);
    let frames: Vec<_> = (60..70).map(frame).collect();
    let sent: Vec<_> = rig.protect_all(&frames).into_iter().map(Result::unwrap).collect();
    assert_eq!(sent, frames);
    assert_eq!(rig.sent().out_untagged, 10);
}

#[test]
fn macsec_check_and_disabled_pass_what_can_be_read() {
    let bad_icv = Err(DropReason::MacsecBadIcv);
    for validate in [Validate::Check, Validate::Disabled] {
        let clear = SecyConfig { validate, encrypt: false, ..config(GCM128) };
        let mut rig = Rig::keyed(engines().0, &clear);
        assert_eq!(rig.validate(&frame(60)), Ok(frame(60)), "untagged");
        let sealed = rig.protect(&frame(20)).unwrap();
        let mut wrong = [sealed.clone(), vec![0; 9]].concat();
        wrong[sealed.len() - 1] ^= 1;
        assert_eq!(rig.validate(&wrong), Ok(frame(20)), "wrong ICV, padded");
        assert_eq!(rig.validate(&sealed), Ok(frame(20)));
        let mut foreign = rig.protect(&frame(60)).unwrap();
        foreign[27] = 9;
        assert_eq!(rig.validate(&foreign), Ok(frame(60)), "unknown channel");
        let names =
            ["InPktsUntagged", "InPktsNoSA", "InPktsInvalid", "InPktsUnchecked", "InPktsOK"];
        let expected = match validate {
            Validate::Check => [1, 1, 1, 0, 1],
            _ => [1, 1, 0, 2, 0],
        };
        assert_eq!(counts(&rig, &names), expected, "{validate:?}");
        // Ciphertext is no frame.
        let mut rig = Rig::keyed(engines().0, &SecyConfig { encrypt: true, ..clear });
        let sealed = rig.protect(&frame(60)).unwrap();
        let (mut wrong, mut foreign) = (sealed.clone(), sealed.clone());
        wrong[40] ^= 1;
        foreign[27] = 9;
        assert_eq!(rig.validate(&wrong), bad_icv);
        assert_eq!(rig.validate(&foreign), Err(DropReason::MacsecUnknownSci));
        assert_eq!(rig.validate(&sealed), Ok(frame(60)));
    }
}

#[test]
fn macsec_lowest_number_rises_and_never_falls() {
    for replay in [Replay::Off, Replay::Standard, Replay::Strict] {
        let config = SecyConfig { replay, window: 64, ..config(GCM128) };
        let mut rig = Rig::keyed(engines().0, &config);
        let frames: Vec<_> = (0..200).map(|i| frame(60 + i % 50)).collect();
        let sealed: Vec<_> = rig.protect_all(&frames).into_iter().map(Result::unwrap).collect();
        let raise = |rig: &mut Rig<Software>, pn| {
            rig.secy_in.raise_lowest(0, SCI, 0, pn).unwrap();
        };
        assert!(rig.validate(&sealed[9]).is_ok(), "number 10");
        // Numbers beyond the next one.
        raise(&mut rig, 101);
        raise(&mut rig, 5);
        let late = replay != Replay::Off;
        for (pn, passes) in [(11, !late), (100, !late), (101, true), (150, true), (140, true)] {
            assert_eq!(rig.validate(&sealed[pn - 1]).is_ok(), passes, "{replay:?}, {pn}");
        }
        assert_eq!(rig.edges(), (151, 101));
        assert!(rig.secy_in.raise_lowest(0, 1, 0, 9).is_err());
        // The port's rules may change meanwhile.
        raise(&mut rig, 190);
        rig.secy_in.install(&mut rig.engine, 0, &SecyConfig { window: 8, ..config }).unwrap();
        assert_eq!(rig.validate(&sealed[180]).is_ok(), !late, "{replay:?}");
        assert!(rig.validate(&sealed[189]).is_ok(), "{replay:?}");
    }
}
