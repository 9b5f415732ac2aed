//! Frames that others made: the examples of 802.1AE Annex C, those of
//! `oracle.py`, and of Linux; both directions, on both engines.

use super::*;
use serde_json::Value;

fn octets(hex: &str) -> Vec<u8> {
    Secret::from_hex(hex).expect("hexadecimal").expose().to_vec()
}

fn text<'a>(case: &'a Value, field: &str) -> &'a str {
    case[field].as_str().expect(field)
}

fn number(case: &Value, field: &str) -> u64 {
    case[field].as_u64().expect(field)
}

struct Case {
    config: SecyConfig,
    tx: TxSaConfig,
    rx: RxSaConfig,
    plain: Vec<u8>,
    wire: Vec<u8>,
}

fn read(case: &Value) -> Case {
    let key = Secret::from_hex(text(case, "key")).unwrap();
    let suite = if key.len() == 16 { GCM128 } else { GCM256 };
    let sci = u64::from_str_radix(text(case, "sci"), 16).unwrap();
    let identity = text(case, "identity");
    let salt: Option<[u8; 12]> = octets(text(case, "salt")).try_into().ok();
    let mut config = SecyConfig::new(sci, suite);
    config.xpn = salt.is_some();
    config.encrypt = case["encrypt"].as_bool().unwrap();
    config.offset = number(case, "offset") as u8;
    config.send_sci = identity == "sci";
    config.end_station = identity.starts_with("es");
    config.broadcast = identity.ends_with("scb");
    config.clear_tags = number(case, "clear_tags") as u8;
    let (an, pn) = (number(case, "an") as u8, number(case, "pn"));
    let xpn = salt.map(|salt| Xpn { salt, ssci: number(case, "ssci") as u32 });
    Case {
        tx: TxSaConfig { an, key: key.clone(), cipher: None, xpn, place: Place::Software },
        rx: RxSaConfig {
            sci,
            an,
            key,
            cipher: None,
            xpn,
            lowest_pn: pn,
            record: [0; 16],
            place: Place::Software,
        },
        plain: octets(text(case, "plain")),
        wire: octets(text(case, "wire")),
        config,
    }
}

/// Protects the plain frame and validates the one on the wire.
fn both_ways(name: &str, case: &Case, engine: impl Engine<Packet>) {
    let mut rig = Rig::new(engine, &case.config);
    let pn = Sequence::unlimited(case.rx.lowest_pn, case.config.pn_max());
    rig.rekey(&case.tx, pn);
    rig.secy_in.install_rx_sa(&mut rig.engine, 0, &case.rx).unwrap();
    assert_eq!(rig.protect(&case.plain).as_ref(), Ok(&case.wire), "{name}");
    // The MAC below pads short frames; only the short length tells.
    let mut padded = case.wire.clone();
    padded.resize(padded.len().max(60), 0);
    assert_eq!(rig.validate(&padded).as_ref(), Ok(&case.plain), "{name}");
    let stats = rig.secy_in.report()[0].1.stats;
    let user = (case.plain.len() - 12) as u64;
    let octets = stats.in_octets_decrypted + stats.in_octets_validated;
    assert_eq!((stats.in_ok, octets <= user && octets > 0), (1, true), "{name}");
}

fn all(json: &str, wanted: &str) -> usize {
    let cases: Vec<Value> = serde_json::from_str(json).unwrap();
    let mut done = 0;
    for case in cases.iter().filter(|c| text(c, "name").starts_with(wanted)) {
        let (name, case) = (text(case, "name"), read(case));
        let (software, late) = engines();
        both_ways(name, &case, software);
        both_ways(name, &case, late);
        done += 1;
    }
    done
}

#[test]
fn macsec_example_frames_of_802_1ae_annex_c() {
    assert_eq!(all(include_str!("oracle.json"), "Annex C"), 18);
}

#[test]
fn macsec_agrees_with_an_independent_oracle() {
    assert_eq!(all(include_str!("oracle.json"), "drawn"), 120);
}

/// A few of `vectors/macsec`, so that these tests need no other file.
#[test]
fn macsec_frames_of_a_linux_secy() {
    assert_eq!(all(include_str!("linux.json"), "Linux"), 30);
}
