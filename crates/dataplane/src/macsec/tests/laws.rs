//! Laws that hold for every suite, option and length.

use super::*;
use proptest::prelude::*;

fn identity(engine: impl Engine<Packet>, name: &str, config: &SecyConfig, lengths: &[usize]) {
    let mut rig = Rig::keyed(engine, config);
    let frames: Vec<_> = lengths.iter().flat_map(|&n| [frame(n), tagged_frame(n)]).collect();
    for frames in frames.chunks(200) {
        let wires: Vec<_> = rig.protect_all(frames).into_iter().map(|f| f.expect(name)).collect();
        for (wire, frame) in wires.iter().zip(frames) {
            assert_eq!(wire.len(), frame.len() + SecyConfig::overhead(config.send_sci), "{name}");
        }
        let back: Vec<_> = rig.validate_all(&wires).into_iter().map(|f| f.expect(name)).collect();
        assert!(back == frames, "{name}");
    }
    let stats = rig.received();
    assert_eq!(stats.in_ok as usize, frames.len(), "{name}");
    assert_eq!(rig.tally.work.sealed, rig.tally.work.opened, "{name}");
}

#[test]
fn macsec_protect_then_validate_is_identity_for_every_option() {
    let lengths: Vec<usize> = (2..=110).step_by(3).chain([29, 30, 31, 47, 48, 49, 51]).collect();
    let configs = every_config();
    assert_eq!(configs.len(), 180);
    for (name, config) in configs {
        let (software, late) = engines();
        identity(software, &name, &config, &lengths);
        identity(late, &name, &config, &lengths);
    }
}

#[test]
fn macsec_protect_then_validate_is_identity_for_every_length() {
    let lengths: Vec<usize> = (2..=1502).collect();
    for offset in [0, 30, 50] {
        let config = SecyConfig { offset, ..config(GCM128) };
        identity(engines().0, "every length", &config, &lengths);
    }
    identity(engines().0, "XPN", &SecyConfig { xpn: true, ..config(GCM256) }, &lengths);
    identity(engines().1, "integrity", &SecyConfig { encrypt: false, ..config(GCM128) }, &lengths);
}

#[test]
fn macsec_any_flipped_bit_is_dropped_and_the_window_stays() {
    for (name, config) in every_config() {
        let mut rig = Rig::keyed(engines().0, &config);
        let wire = rig.protect(&tagged_frame(53)).unwrap();
        let before = rig.edges();
        let open = 12..12 + 4 * usize::from(config.clear_tags);
        for bit in 0..wire.len() * 8 {
            let mut bad = wire.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            if open.contains(&(bit / 8)) {
                continue;
            }
            let fate = rig.validate(&bad);
            assert!(fate.is_err(), "{name}, bit {bit} passed");
            assert_eq!(rig.edges(), before, "{name}, bit {bit} moved the window");
        }
        assert_eq!(rig.validate(&wire), Ok(tagged_frame(53)), "{name}");
        assert_ne!(rig.edges(), before);
    }
}

#[test]
fn macsec_vlan_in_clear_may_be_changed_by_the_provider() {
    let config = SecyConfig { clear_tags: 1, ..config(GCM128) };
    let mut rig = Rig::keyed(engines().0, &config);
    let frame = tagged_frame(60);
    let mut wire = rig.protect(&frame).unwrap();
    assert_eq!(&wire[..18], [&frame[..16], &[0x88, 0xe5]].concat(), "one tag stays in front");
    wire[15] ^= 0x0f;
    let mut changed = frame;
    changed[15] ^= 0x0f;
    assert_eq!(rig.validate(&wire), Ok(changed));
    // A frame without a tag is protected as it is.
    let wire = rig.protect(&super::frame(60)).unwrap();
    assert_eq!(wire[12..14], [0x88, 0xe5]);
    assert_eq!(rig.validate(&wire), Ok(super::frame(60)));
}

#[test]
fn macsec_confidentiality_offset_leaves_so_many_octets_readable() {
    let plain = frame(100);
    for offset in [0, 30, 50] {
        let config = SecyConfig { offset, ..config(GCM256) };
        let wire = Rig::keyed(engines().0, &config).protect(&plain).unwrap();
        let user = &wire[28..];
        let offset = usize::from(offset);
        assert_eq!(user[..offset], plain[12..12 + offset]);
        assert!(user[offset..100].iter().zip(&plain[12 + offset..]).any(|(a, b)| a != b));
        assert_ne!(user[offset..offset + 8], plain[12 + offset..20 + offset]);
    }
}

#[test]
fn macsec_xpn_numbers_are_recovered_across_the_carry() {
    let config = SecyConfig {
        xpn: true,
        window: 64,
        replay: super::super::Replay::Strict,
        ..config(GCM128)
    };
    for carry in [1u64 << 32, 5 << 32, 1 << 63] {
        let mut rig = Rig::new(engines().0, &config);
        rig.key(&config, 2, carry - 20);
        let plain: Vec<_> = (0..40).map(|i| frame(60 + i)).collect();
        let wires = rig.protect_all(&plain);
        let mut wires: Vec<_> = wires.into_iter().map(Result::unwrap).zip(&plain).collect();
        // Some late, over the carry; PN 0 travels.
        wires.rotate_left(25);
        for (wire, plain) in &wires {
            assert_eq!(rig.validate(wire).as_ref(), Ok(*plain), "at {carry}");
        }
        assert!(wires.iter().any(|(w, _)| w[16..20] == [0; 4]));
        assert_eq!(rig.validate(&wires[0].0), Err(DropReason::MacsecReplay));
        assert_eq!(rig.edges().0, carry + 20);
    }
}

/// Octets that look like a protected frame, so that more of the code is reached.
fn likely() -> impl Strategy<Value = Vec<u8>> {
    let tags = prop::sample::select(vec![
        vec![],
        vec![0x81, 0, 0, 5],
        vec![0x88, 0xa8, 0, 6, 0x81, 0, 0, 5],
    ]);
    let tail = prop::collection::vec(any::<u8>(), 0..120);
    let tci = prop::sample::select(vec![0x0cu8, 0x2c, 0x4c, 0x00, 0x20, 0x1c, 0x04, 0xff]);
    (tags, tci, any::<u8>(), any::<u32>(), any::<bool>(), tail).prop_map(
        |(tags, tci, sl, pn, ours, tail)| {
            let mut octets = ADDRESSES.to_vec();
            octets.extend(tags);
            octets.extend([0x88, 0xe5, tci, sl % 64]);
            octets.extend((pn % 9).to_be_bytes());
            if ours {
                octets.extend(SCI.to_be_bytes());
            }
            octets.extend(tail);
            octets
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn macsec_arbitrary_octets_never_panic_and_never_pass(
        frames in prop::collection::vec(
            prop_oneof![prop::collection::vec(any::<u8>(), 0..200), likely()], 1..20),
        choice in 0usize..180,
    ) {
        let (_, config) = every_config().swap_remove(choice);
        let (software, late) = engines();
        for fate in Rig::keyed(software, &config).validate_all(&frames) {
            prop_assert!(fate.is_err());
        }
        for fate in Rig::keyed(late, &config).validate_all(&frames) {
            prop_assert!(fate.is_err());
        }
        // And on the way out: whatever is long enough comes back as it was.
        let mut rig = Rig::keyed(engines().0, &config);
        for frame in &frames {
            match rig.protect(frame) {
                Ok(wire) => prop_assert!(rig.validate(&wire).is_ok_and(|f| f == *frame)
                    || config.end_station),
                Err(reason) => prop_assert!(
                    reason == DropReason::Malformed && frame.len() < 22),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn macsec_batch_is_protected_as_each_frame_alone(
        n in any::<prop::sample::Index>(),
        lengths in proptest::collection::vec(
            (prop_oneof![3 => Just(100usize), 1 => 0usize..1700], any::<bool>()),
            1..40,
        ),
    ) {
        let configs = every_config();
        // The configuration that most ports have makes up half of it.
        let config = match n.index(2) {
            0 => SecyConfig::new(SCI, GCM128),
            _ => n.get(&configs).1.clone(),
        };
        let frames: Vec<_> = lengths
            .iter()
            .map(|&(len, tagged)| if tagged { tagged_frame(len) } else { frame(len) })
            .collect();
        let (mut together, mut alone) =
            (Rig::keyed(engines().0, &config), Rig::keyed(engines().0, &config));
        let one_by_one: Vec<_> = frames.iter().map(|frame| alone.protect(frame)).collect();
        let (sent, dropped): (Vec<_>, Vec<_>) = one_by_one.into_iter().partition(Result::is_ok);
        let expected = [sent, dropped].concat();
        prop_assert_eq!(together.protect_all(&frames), expected);
        prop_assert_eq!(together.secy_out.report(), alone.secy_out.report());
        prop_assert_eq!(together.tally.work, alone.tally.work);
    }

    /// But that what comes twice in one batch is validated twice.
    #[test]
    fn macsec_batch_is_validated_as_each_frame_alone(
        n in any::<prop::sample::Index>(),
        frames in proptest::collection::vec((2usize..1500, any::<bool>(), 0u8..12, 0usize..64), 1..=64),
    ) {
        let config = n.get(&every_config()).1.clone();
        let rig = || Rig::keyed(engines().0, &config);
        let (mut sender, mut wires) = (rig(), Vec::<Vec<u8>>::new());
        for (len, tagged, what, at) in frames {
            let clear = if tagged { tagged_frame(len) } else { frame(len) };
            let again = wires.get(at % wires.len().max(1)).cloned();
            match (sender.protect(&clear), what) {
                (_, 0) => wires.push(clear),
                (Ok(mut wire), 1) => {
                    wire.last_mut().into_iter().for_each(|octet| *octet ^= 1);
                    wires.push(wire);
                }
                (Ok(wire), 2) => wires.push(wire[..at.min(wire.len())].to_vec()),
                (Ok(wire), 3..) => wires.push(wire),
                _ => wires.extend(again),
            }
        }
        let (mut together, mut alone) = (rig(), rig());
        let one_by_one: Vec<_> = wires.iter().map(|wire| alone.validate(wire)).collect();
        let split = |fates: Vec<Fate>| -> (Vec<_>, Vec<_>) {
            let (passed, dropped): (Vec<_>, Vec<_>) = fates.into_iter().partition(Result::is_ok);
            let mut reasons: Vec<_> = dropped.into_iter().filter_map(Result::err).collect();
            reasons.sort_by_key(|reason| reason.name());
            (passed, reasons)
        };
        prop_assert_eq!(split(together.validate_all(&wires)), split(one_by_one));
        prop_assert_eq!(together.secy_in.report(), alone.secy_in.report());
    }
}
