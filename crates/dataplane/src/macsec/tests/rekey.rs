//! Associations come and go; frames keep their order and none is lost.

use super::super::{RxChange, SaError, TxChange};
use super::*;
use ferrule_crypto::{Job, KeyId, KeySpec, Verdict, key::InstallError};

/// Frames that can be told apart.
fn numbered(range: std::ops::Range<u32>) -> Vec<Vec<u8>> {
    let number = |n: u32| [frame(80), n.to_be_bytes().to_vec()].concat();
    range.map(number).collect()
}

fn all_ok(fates: Vec<Fate>) -> Vec<Vec<u8>> {
    fates.into_iter().map(|f| f.expect("no frame is lost")).collect()
}

/// Static SAK rekey: new associations are made before the old ones are broken,
/// with frames of the old ones still under way.
fn rekeys(engine: impl Engine<Packet>) {
    let config = SecyConfig { window: 1000, ..config(GCM128) };
    let mut rig = Rig::new(engine, &config);
    let mut sent = Vec::new();
    let mut wires = Vec::new();
    for round in 0..8u32 {
        let an = (round % 4) as u8;
        let rx = RxChange::Sa(0, rx_sa(&config, an, 1));
        rig.secy_in.apply(&mut rig.engine, rx).unwrap();
        let pn = Sequence::unlimited(1, config.pn_max());
        let tx = TxChange::Sa(0, tx_sa(&config, an), pn);
        let frames = numbered(round * 20..round * 20 + 20);
        let (before, after) = frames.split_at(10);
        if round > 0 {
            rig.push(Next::SecyOut, before);
        }
        rig.secy_out.apply(&mut rig.engine, tx).unwrap();
        rig.secy_out.apply(&mut rig.engine, TxChange::Encode(0, an)).unwrap();
        if round == 0 {
            rig.push(Next::SecyOut, before);
        }
        rig.push(Next::SecyOut, after);
        if round > 0 {
            // The jobs of the old one may not be back yet.
            let old = (round + 3) as u8 % 4;
            rig.secy_out.apply(&mut rig.engine, TxChange::Retire(0, old)).unwrap();
        }
        let now = all_ok(rig.drain(Next::Transmit));
        assert!(now.iter().any(|w| w[14] & 3 == an), "the new number is used");
        rig.push(Next::SecyIn, &now);
        if round > 0 {
            let old = (round + 3) as u8 % 4;
            let retire = RxChange::Retire(0, config.sci, old);
            rig.secy_in.apply(&mut rig.engine, retire).unwrap();
        }
        wires.extend(all_ok(rig.drain(Next::Attach)));
        sent.extend(frames);
    }
    assert_eq!(wires, sent, "all frames, in their order, over every rekey");
    assert_eq!((rig.received().in_ok, rig.sent().out_encrypted), (160, 160));
    assert_eq!(rig.secy_in.report()[0].1.sas.len(), 1);
}

#[test]
fn macsec_static_rekey_by_an_loses_no_frame() {
    let (software, late) = engines();
    rekeys(software);
    rekeys(late);
}

#[test]
fn macsec_late_engine_keeps_the_order_of_frames() {
    let config = SecyConfig { window: 0, ..config(GCM128) };
    let mut rig = Rig::keyed(engines().1, &config);
    let frames = numbered(0..250);
    let wires = all_ok(rig.protect_all(&frames));
    let numbers: Vec<_> = wires.iter().map(|w| w[16..20].to_vec()).collect();
    assert!(numbers.is_sorted(), "packet numbers on the wire are in order");
    assert_eq!(all_ok(rig.validate_all(&wires)), frames, "with no window at all");
}

#[test]
fn macsec_full_engine_drops_and_accounts_for_every_frame() {
    let config = SecyConfig { window: 1000, ..config(GCM128) };
    let mut rig = Rig::keyed(engines().1, &config);
    let fates = rig.protect_all(&numbered(0..400));
    let sent = fates.iter().filter(|f| f.is_ok()).count();
    assert_eq!(sent, 256, "what the engine holds");
    assert_eq!(rig.tally.drops.get(DropReason::EngineFull), 144);
    assert_eq!(rig.sent().out_encrypted, 256, "what was not sent is not counted");
}

/// An engine that fails with each third job, in the middle of it; of some of those it
/// keeps the frame, and gives another.
struct Frail(Software, u64);

impl Engine<Packet> for Frail {
    fn install(&mut self, spec: &KeySpec) -> Result<KeyId, InstallError> {
        Engine::<Packet>::install(&mut self.0, spec)
    }

    fn retire(&mut self, key: KeyId) {
        Engine::<Packet>::retire(&mut self.0, key);
    }

    fn submit(&mut self, now: Instant, jobs: &mut Jobs<Packet>) {
        self.0.submit(now, jobs);
        for job in jobs.iter_mut() {
            self.1 += 1;
            if self.1.is_multiple_of(3) {
                job.verdict = Verdict::Failed;
                job.buf.data_mut().iter_mut().for_each(|octet| *octet ^= 0xff);
            }
            if self.1.is_multiple_of(6) {
                job.buf.truncate(0);
            }
        }
    }

    fn run_beside(&mut self, _: Instant, buffers: &mut [Packet], jobs: &mut [Job<()>]) {
        self.0.run_beside(buffers, jobs);
        for (job, buffer) in jobs.iter_mut().zip(buffers) {
            self.1 += 1;
            if self.1.is_multiple_of(3) {
                job.verdict = Verdict::Failed;
                buffer.data_mut().iter_mut().for_each(|octet| *octet ^= 0xff);
            }
            if self.1.is_multiple_of(6) {
                buffer.truncate(0);
            }
        }
    }

    fn collect(&mut self, _: Instant, _: &mut Jobs<Packet>) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn in_flight(&self) -> usize {
        0
    }

    fn is_immediate(&self) -> bool {
        true
    }
}

#[test]
fn macsec_frames_that_an_engine_spoiled_are_dropped_and_not_counted_as_sent() {
    let config = config(GCM128);
    let mut rig = Rig::keyed(Frail(Software::default(), 0), &config);
    let fates = rig.protect_all(&numbered(0..120));
    assert_eq!(fates.iter().filter(|fate| fate.is_ok()).count(), 80);
    assert_eq!(rig.tally.drops.get(DropReason::EngineFailed), 40);
    let good = numbered(0..120).into_iter().zip(1..).filter(|(_, n)| n % 3 != 0);
    let octets: usize = good.map(|(frame, _)| frame.len() - 12).sum();
    let sent = rig.sent();
    assert_eq!((sent.out_encrypted, sent.out_octets_encrypted), (80, octets as u64));
}

#[test]
fn macsec_retired_associations_leave_nothing_behind() {
    let config = config(GCM128);
    let mut rig = Rig::new(engines().0, &config);
    for round in 0..1000u64 {
        rig.key(&config, (round % 4) as u8, 1);
        rig.secy_out.retire_tx_sa(&mut rig.engine, 0, (round % 4) as u8).unwrap();
        rig.secy_in.retire_rx_sa(&mut rig.engine, 0, config.sci, (round % 4) as u8).unwrap();
    }
    assert_eq!(rig.engine.keys(), 0);
    assert_eq!(rig.protect(&frame(60)), Err(DropReason::MacsecNoTxSa));
}

#[test]
fn macsec_changed_secy_keeps_associations_that_still_fit() {
    let plain = config(GCM128);
    let mut rig = Rig::keyed(engines().0, &plain);
    let integrity = SecyConfig { encrypt: false, ..plain.clone() };
    rig.secy_out.install(&mut rig.engine, 0, &integrity).unwrap();
    rig.secy_in.install(&mut rig.engine, 0, &integrity).unwrap();
    let wire = rig.protect(&frame(60)).unwrap();
    assert_eq!(wire[28..88], frame(60)[12..], "readable now");
    assert_eq!(rig.validate(&wire), Ok(frame(60)));
    let other = SecyConfig { suite: GCM256, ..plain };
    rig.secy_out.install(&mut rig.engine, 0, &other).unwrap();
    assert_eq!(rig.protect(&frame(60)), Err(DropReason::MacsecNoTxSa), "the old key is gone");
}

#[test]
fn macsec_association_that_cannot_be_installed_is_refused() {
    let config = config(GCM128);
    let mut rig = Rig::keyed(engines().0, &config);
    let mut tx = |sa: &TxSaConfig| {
        let pn = Sequence::unlimited(1, config.pn_max());
        rig.secy_out.install_tx_sa(&mut rig.engine, 0, sa, pn).unwrap_err()
    };
    let sa = tx_sa(&config, 1);
    assert_eq!(tx(&tx_sa(&config, 0)), SaError::Occupied(0));
    assert_eq!(tx(&TxSaConfig { an: 4, ..sa.clone() }), SaError::An(4));
    let salted = Some(Xpn { salt: [0; 12], ssci: 1 });
    assert_eq!(tx(&TxSaConfig { xpn: salted, ..sa.clone() }), SaError::XpnUnexpected);
    let key = Secret::new(vec![0; 32]);
    assert_eq!(tx(&TxSaConfig { key, ..sa }), SaError::Key(InstallError::KeyLength(16, 32)));
    let mut rx =
        |index, sa: &RxSaConfig| rig.secy_in.install_rx_sa(&mut rig.engine, index, sa).unwrap_err();
    assert_eq!(rx(0, &rx_sa(&config, 0, 1)), SaError::Occupied(0));
    assert_eq!(rx(9, &rx_sa(&config, 0, 1)), SaError::NoSecy(9));
    assert_eq!(rx(0, &rx_sa(&config, 1, 0)), SaError::Numbers);
    assert_eq!(rx(0, &rx_sa(&config, 1, 1 << 32)), SaError::Numbers);
    assert_eq!(rig.secy_out.encode(0, 3), Err(SaError::NoSa(3)));
    assert_eq!(rig.engine.keys(), 2, "nothing refused left a key behind");
}
