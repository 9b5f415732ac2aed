//! MKA sets: every MKPDU is read and written again, octet by octet, SAKs are unwrapped, and
//! with them the MACsec frames between.

use crate::engine::Kind;
use crate::esp::same;
use crate::macsec;
use crate::report::{Row, Way};
use crate::sidecar::{Hex, Set};
use ferrule_base::Secret;
use ferrule_control::mka::Keys;
use ferrule_wire::eapol::{self, BODY_AT};
use ferrule_wire::mkpdu::{Ckn, ICV_LEN, KeyId, Repr, Set as Parameters};
use ferrule_wire::{EtherType, ethernet};
use serde::Deserialize;
use serde_json::json;

/// A SAK as the sidecar has it.
#[derive(Debug, Deserialize)]
struct Sak {
    key_id: Hex,
    an: u8,
    sak: Hex,
}

/// The members' MACsec settings.
#[derive(Debug, Deserialize)]
struct Macsec {
    integ_only: u8,
    replay_protect: u8,
    replay_window: u32,
}

/// Runs a set.
pub fn run(set: &Set, kind: Kind, row: &mut Row) -> Result<(), String> {
    let (cak, name): (Hex, Hex) = (set.get("cak")?, set.get("ckn")?);
    let ckn = Ckn::new(&name.0).ok_or("a CKN of another length")?;
    let keys = Keys::new(Secret::new(cak.0), &ckn).ok_or("a CAK of another length")?;
    let mut found = Vec::new();
    for (n, frame) in (1..).zip(&set.capture) {
        let is_mka = frame.octets.get(12..14) == Some(&EtherType::EAPOL.0.to_be_bytes());
        if !is_mka {
            continue;
        }
        let taken = take(&frame.octets, &keys, &ckn, &mut found);
        let made = taken.as_ref().map_err(Clone::clone);
        let made = made.and_then(|repr| same(&make(repr, &frame.octets, &keys), &frame.octets));
        row.record(Way::Take, n, taken.map(|_| ()));
        row.record(Way::Make, n, made);
    }
    let saks: Vec<Sak> = set.get("saks")?;
    let told: Vec<_> =
        saks.iter().map(|sak| (sak.key_id.0.clone(), sak.an, sak.sak.0.clone())).collect();
    if told != found {
        return Err(format!("{} SAKs, not the {} of the sidecar", found.len(), told.len()));
    }
    macsec::run(&protected(set)?, kind, row)
}

/// Key identifier, association number, SAK.
type Found = (Vec<u8>, u8, Vec<u8>);

/// Reads an MKPDU; SAKs that are new go to the others.
fn take(frame: &[u8], keys: &Keys, ckn: &Ckn, saks: &mut Vec<Found>) -> Result<Repr, String> {
    let (_, payload) = ethernet::Repr::parse(frame).map_err(|e| e.to_string())?;
    let (_, body) = eapol::Repr::parse(payload).map_err(|e| e.to_string())?;
    let (repr, icv) = Repr::parse(body).map_err(|e| e.to_string())?;
    if !keys.is_icv(&frame[..BODY_AT + body.len() - ICV_LEN], icv) || repr.ckn != *ckn {
        return Err("another ICV or CKN".into());
    }
    for set in &repr.sets {
        let Parameters::DistributedSak(sak) = set else { continue };
        let key = sak.key.as_ref().ok_or("no SAK in it")?;
        let id = KeyId { mi: repr.actor.mi, kn: key.kn };
        let octets = [&id.mi.0[..], &id.kn.to_be_bytes()].concat();
        let unwrapped = keys.unwrap(&key.wrapped).ok_or("a SAK that does not unwrap")?;
        let one = (octets, sak.an, unwrapped.expose().to_vec());
        if !saks.contains(&one) {
            saks.push(one);
        }
    }
    Ok(repr)
}

/// The frame of an MKPDU.
fn make(repr: &Repr, like: &[u8], keys: &Keys) -> Vec<u8> {
    let mut frame = like[..BODY_AT].to_vec();
    frame.resize(BODY_AT + repr.len(), 0);
    repr.emit(&mut frame[BODY_AT..]);
    let icv = keys.icv(&frame);
    frame.extend(icv);
    frame
}

/// The MACsec frames as a set of their own.
fn protected(set: &Set) -> Result<Set, String> {
    let macsec: Macsec = set.get("macsec")?;
    let mut frames = set.json["frames"].clone();
    let mut sas = Vec::new();
    for frame in frames.as_array_mut().ok_or("no frames")? {
        let id = format!("{}/{}", frame["key_id"], frame["sci"]);
        let saks = set.json["saks"].as_array().ok_or("no SAKs")?;
        let sak = saks.iter().find(|sak| sak["key_id"] == frame["key_id"]);
        let sak = sak.ok_or_else(|| format!("no SAK {id}"))?;
        sas.push(json!({
            "id": id, "sci": frame["sci"], "an": sak["an"], "key": sak["sak"],
        }));
        frame["sa"] = id.into();
    }
    let mut json = set.json.clone();
    json["frames"] = frames;
    json["sas"] = sas.into();
    json["secy"] = json!({
        "cipher": "gcm-aes-128", "encrypt": macsec.integ_only == 0, "send_sci": true,
        "end_station": false, "scb": false, "replay": macsec.replay_protect == 1,
        "window": macsec.replay_window,
    });
    Ok(Set {
        label: set.label.clone(),
        topic: set.topic.clone(),
        json,
        capture: set.capture.clone(),
    })
}
