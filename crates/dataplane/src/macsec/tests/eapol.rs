//! EAPOL that floods a port: new messages of members pass it.

use super::super::{ParticipantConfig, RxChange};
use super::*;
use DropReason::{ControlQueueFull, MkaForged, MkaReplay};
use ferrule_crypto::AesCmac;
use ferrule_wire::eapol::{self, BODY_AT, Kind};
use ferrule_wire::mkpdu::{self, Ckn, Member, Mi};
use ferrule_wire::{EtherType, Sci, ethernet};

const PEER: Sci = Sci(0x0200_0000_0002_0001);

fn ckn(octet: u8) -> Ckn {
    Ckn::new(&[octet]).unwrap()
}

fn ick() -> Secret {
    Secret::new(vec![7; 16])
}

fn member(mi: u8, mn: u32) -> Member {
    Member { mi: Mi([mi; 12]), mn }
}

/// An MKPDU under this name of a CAK.
fn message(from: Sci, actor: Member, ckn: Ckn) -> Vec<u8> {
    let repr = mkpdu::Repr {
        version: 3,
        priority: 16,
        key_server: true,
        desired: true,
        capability: 3,
        sci: from,
        actor,
        agility: mkpdu::AGILITY,
        ckn,
        sets: Vec::new(),
    };
    let length = (repr.len() + mkpdu::ICV_LEN) as u16;
    let mut frame = vec![0; BODY_AT + repr.len()];
    let (dst, src) = (MacAddr(eapol::PAE_GROUP), from.system());
    ethernet::Repr { dst, src, ethertype: EtherType::EAPOL }.emit(&mut frame);
    let eapol = eapol::Repr { version: 3, kind: Kind::MKA, length };
    eapol.emit(&mut frame[ethernet::Header::LEN..]);
    repr.emit(&mut frame[BODY_AT..]);
    let icv = AesCmac::new(&ick()).unwrap().tag(&[&frame]);
    frame.extend(icv);
    frame
}

fn genuine(mi: u8, mn: u32) -> Vec<u8> {
    message(PEER, member(mi, mn), ckn(1))
}

/// With a wrong ICV.
fn forged(mi: u8, mn: u32) -> Vec<u8> {
    let mut frame = genuine(mi, mn);
    *frame.last_mut().unwrap() ^= 1;
    frame
}

fn participants(rig: &mut Rig<Software>, ckns: &[u8], live: &[Member]) {
    let of = |&octet| ParticipantConfig { ckn: ckn(octet), ick: ick(), live: live.to_vec() };
    let change = RxChange::Participants(0, ckns.iter().map(of).collect());
    rig.secy_in.apply(&mut rig.engine, change).unwrap();
}

fn hear(rig: &mut Rig<Software>, frames: &[Vec<u8>]) -> Vec<Fate> {
    rig.push(Next::SecyIn, frames);
    let fates = rig.drain(Next::Eapol);
    assert_eq!(fates.len(), frames.len(), "every frame goes somewhere");
    fates
}

fn passes(rig: &mut Rig<Software>, frame: Vec<u8>) -> Result<(), DropReason> {
    hear(rig, &[frame]).remove(0).map(drop)
}

fn rig() -> Rig<Software> {
    Rig::new(engines().0, &SecyConfig { eapol: Some(EtherType::EAPOL), ..config(GCM128) })
}

/// One whose tokens for what is of no member are gone.
fn flooded() -> Rig<Software> {
    let mut rig = rig();
    participants(&mut rig, &[1], &[member(1, 5)]);
    let fates = hear(&mut rig, &vec![forged(1, 6); 500]);
    assert_eq!(fates.iter().filter(|fate| fate.is_ok()).count(), 64);
    assert!(fates[64..].iter().all(|fate| *fate == Err(MkaForged)));
    rig
}

#[test]
fn mka_new_messages_of_members_pass_a_flood_once() {
    let mut rig = flooded();
    // Of the live peer, and of a member that is not live yet; among padding of the MAC,
    // too.
    let padded = [genuine(1, 6), vec![0; 20]].concat();
    for frame in [padded, genuine(1, 7), genuine(2, 1), genuine(2, 9)] {
        assert_eq!(passes(&mut rig, frame.clone()), Ok(()));
        assert_eq!(passes(&mut rig, frame), Err(MkaReplay));
    }
    let junk = [&ADDRESSES[..], &[0x88, 0x8e, 3, 5, 0, 0]].concat();
    let start = [&ADDRESSES[..], &[0x88, 0x8e, 3, 1, 0, 0]].concat();
    for (frame, reason) in [
        (genuine(1, 5), MkaReplay),
        (genuine(3, 0), MkaReplay),
        (message(Sci(SCI), member(9, 1), ckn(1)), MkaReplay),
        (forged(1, 8), MkaForged),
        (forged(3, u32::MAX), MkaForged),
        (message(PEER, member(3, 1), ckn(2)), ControlQueueFull),
        (junk, ControlQueueFull),
        (start, ControlQueueFull),
    ] {
        assert_eq!(passes(&mut rig, frame), Err(reason));
    }
    // A forged number has no effect.
    assert_eq!(passes(&mut rig, genuine(1, 8)), Ok(()));
    assert_eq!(passes(&mut rig, genuine(3, 1)), Ok(()));
}

#[test]
fn mka_numbers_outlast_that_a_peer_is_live_or_another_cak_comes() {
    let mut rig = flooded();
    assert_eq!(passes(&mut rig, genuine(1, 9)), Ok(()));
    assert_eq!(passes(&mut rig, genuine(2, 3)), Ok(()));
    // (The MKA entity says what it had heard when it decided.)
    for (ckns, live) in [
        (&[1][..], &[member(1, 7), member(2, 1)][..]),
        (&[1, 2], &[member(2, 3)]),
        (&[2, 1], &[]),
        (&[1], &[member(1, 5)]),
    ] {
        participants(&mut rig, ckns, live);
        assert_eq!(passes(&mut rig, genuine(1, 9)), Err(MkaReplay));
        assert_eq!(passes(&mut rig, genuine(2, 3)), Err(MkaReplay));
    }
    assert_eq!(passes(&mut rig, genuine(1, 10)), Ok(()));
    // Keys that are gone vouch for no message, nor do those of a SecY that went.
    participants(&mut rig, &[2], &[]);
    assert_eq!(passes(&mut rig, genuine(1, 11)), Err(ControlQueueFull));
    participants(&mut rig, &[1], &[]);
    assert_eq!(passes(&mut rig, genuine(1, 11)), Ok(()));
    let config = SecyConfig { eapol: Some(EtherType::EAPOL), ..config(GCM128) };
    rig.secy_in.remove(&mut rig.engine, 0).unwrap();
    let late = RxChange::Participants(0, Vec::new());
    assert!(rig.secy_in.apply(&mut rig.engine, late).is_err());
    rig.secy_in.install(&mut rig.engine, 0, &config).unwrap();
    assert_eq!(passes(&mut rig, genuine(1, 12)), Err(ControlQueueFull));
}

/// A member of the CAK can say new things at any rate, and has recordings of more members than
/// are remembered.
#[test]
fn mka_messages_of_others_take_nothing_of_live_peers() {
    let mut rig = flooded();
    let many: Vec<_> = (2..=201).map(|mi| genuine(mi, 1)).collect();
    for _ in 0..2 {
        let fates = hear(&mut rig, &many);
        let taken = fates.iter().filter(|fate| fate.is_ok()).count();
        assert!(taken <= 64 && fates[taken..].iter().all(|fate| *fate == Err(ControlQueueFull)));
    }
    assert_eq!(passes(&mut rig, genuine(1, 6)), Ok(()));
    assert_eq!(passes(&mut rig, genuine(1, 6)), Err(MkaReplay));
    // The peer itself has its limit; others have theirs once more.
    let all: Vec<_> = (7..=206).map(|mn| genuine(1, mn)).collect();
    let fates = hear(&mut rig, &all);
    assert_eq!(fates.iter().filter(|fate| fate.is_ok()).count(), 63);
    rig.now += Duration::from_secs(1);
    // Of those who are not live, the latest 64 are remembered.
    hear(&mut rig, &vec![forged(1, u32::MAX); 500]);
    assert_eq!(passes(&mut rig, genuine(201, 1)), Err(MkaReplay));
    assert_eq!(passes(&mut rig, genuine(138, 1)), Err(MkaReplay));
    assert_eq!(passes(&mut rig, genuine(137, 1)), Ok(()));
    assert_eq!(passes(&mut rig, genuine(1, 206)), Err(MkaReplay));
}

#[test]
fn mka_frames_that_are_cut_off_or_whose_lengths_lie_are_of_nobody() {
    let mut rig = flooded();
    let whole = genuine(1, 6);
    for len in 14..whole.len() {
        assert_eq!(passes(&mut rig, whole[..len].to_vec()), Err(ControlQueueFull), "{len}");
    }
    // Lengths of EAPOL and of the basic set.
    for (at, octet) in [16, 17, BODY_AT + 2, BODY_AT + 3].into_iter().flat_map(|at| {
        let own = whole[at];
        (0..=u8::MAX).filter(move |octet| *octet != own).map(move |octet| (at, octet))
    }) {
        let mut lies = whole.clone();
        lies[at] = octet;
        assert!(passes(&mut rig, lies).is_err(), "{octet} at {at}");
    }
    assert_eq!(passes(&mut rig, whole), Ok(()));
}

#[test]
fn mka_numbers_of_another_key_do_not_stand_in_the_way() {
    let mut rig = rig();
    participants(&mut rig, &[1], &[]);
    assert_eq!(passes(&mut rig, genuine(2, u32::MAX)), Ok(()));
    let other = Secret::new(vec![8; 16]);
    let config = ParticipantConfig { ckn: ckn(1), ick: other.clone(), live: Vec::new() };
    rig.secy_in.apply(&mut rig.engine, RxChange::Participants(0, vec![config])).unwrap();
    let mut frame = genuine(2, 5);
    let at = frame.len() - mkpdu::ICV_LEN;
    let icv = AesCmac::new(&other).unwrap().tag(&[&frame[..at]]);
    frame[at..].copy_from_slice(&icv);
    // More than the tokens of what is forged or replayed.
    for mn in 6..200 {
        let _ = passes(&mut rig, genuine(2, mn));
    }
    assert_eq!(passes(&mut rig, frame), Ok(()));
}

#[test]
fn mka_icvs_of_messages_longer_than_any_are_asked_for_at_a_rate() {
    let mut rig = rig();
    participants(&mut rig, &[1], &[member(2, 1)]);
    let long = |mn: u32, good: bool| {
        // A set of an unknown type, behind the others.
        let mut frame = genuine(2, mn);
        frame.truncate(frame.len() - mkpdu::ICV_LEN);
        frame.extend([200, 0, 2, 188].into_iter().chain([0; 700]));
        let length = (frame.len() + mkpdu::ICV_LEN - BODY_AT) as u16;
        frame[BODY_AT - 2..BODY_AT].copy_from_slice(&length.to_be_bytes());
        let mut icv = AesCmac::new(&ick()).unwrap().tag(&[&frame]);
        icv[0] ^= u8::from(!good);
        frame.extend(icv);
        frame
    };
    assert_eq!(passes(&mut rig, long(2, true)), Ok(()), "as long as there are tokens");
    let fates: Vec<_> = (0..200).map(|_| passes(&mut rig, long(9, false))).collect();
    // Each that is judged takes two, if it is forged.
    let count = |of| fates.iter().filter(|&fate| *fate == of).count();
    assert!(count(Err(ControlQueueFull)) > 130, "{fates:?}");
    assert_eq!(passes(&mut rig, genuine(2, 3)), Ok(()), "one as messages are");
}
