use super::*;

fn round_trip(engine: impl Engine<Packet>) {
    let config = config(GCM128);
    let mut rig = Rig::keyed(engine, &config);
    let wire = rig.protect(&frame(60)).unwrap();
    assert_eq!(rig.validate(&wire), Ok(frame(60)));
}

#[test]
fn macsec_round_trip() {
    let (software, late) = engines();
    round_trip(software);
    round_trip(late);
}
