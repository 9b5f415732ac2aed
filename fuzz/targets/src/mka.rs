//! A station that has a CAK hears arbitrary octets in the body of EAPOL, and MKPDUs whose ICV is
//! right though their sets are arbitrary: what a peer may do that has the CAK.

use crate::input::Input;
use crate::seeds;
use ferrule_base::{Instant, MacAddr, Rng, Secret};
use ferrule_control::mka::config::PEERS_MAX;
use ferrule_control::mka::{Cak, Command, Config, Kay, Keys, Order};
use ferrule_control::{Core, Refused};
use ferrule_wire::eapol::{self, BODY_AT, Kind, PAE_GROUP};
use ferrule_wire::mkpdu::{Ckn, ICV_LEN, Repr};
use ferrule_wire::{EtherType, Sci, ethernet};
use std::collections::HashSet;

const OWN: Sci = Sci::new(MacAddr([2, 0, 0, 0, 0, 9]), 1);

fn ckn() -> Option<Ckn> {
    Ckn::new(&[7; 16])
}

fn cak() -> Secret {
    Secret::new(vec![7; 16])
}

/// A frame with this body, to which an ICV is put.
fn framed(body: &[u8], keys: &Keys) -> Vec<u8> {
    let mut frame = vec![0; BODY_AT];
    let (dst, src) = (MacAddr(PAE_GROUP), MacAddr([2, 0, 0, 0, 0, 1]));
    ethernet::Repr { dst, src, ethertype: EtherType::EAPOL }.emit(&mut frame);
    let length = u16::try_from(body.len() + ICV_LEN).unwrap_or(u16::MAX);
    eapol::Repr { version: 3, kind: Kind::MKA, length }.emit(&mut frame[ethernet::Header::LEN..]);
    frame.extend(body);
    let icv = keys.icv(&frame);
    frame.extend(icv);
    frame
}

/// The message of a member with the CAK, which has heard the station.
fn member(kay: &Kay, body: &[u8]) -> Option<Vec<u8>> {
    let mut padded = body.to_vec();
    padded.resize(padded.len().next_multiple_of(4) + ICV_LEN, 0);
    let (mut repr, _) = Repr::parse(&padded).ok()?;
    repr.ckn = ckn()?;
    let own = kay.view().own.first().map(|(_, mi)| *mi)?;
    for set in &mut repr.sets {
        use ferrule_wire::mkpdu::Set;
        if let Set::Live { peers, .. } | Set::Potential(peers) = set
            && let Some(first) = peers.first_mut()
        {
            (first.mi, first.mn) = (own, u32::try_from(kay.view().counts.sent).ok()?);
        }
    }
    let mut out = vec![0; repr.len()];
    repr.emit(&mut out);
    Some(out)
}

/// One station, and what it hears: pieces of the input, with time between them.
pub fn mka(data: &[u8]) {
    let (Some(keys), Some(cak)) =
        (ckn().and_then(|ckn| Keys::new(cak(), &ckn)), ckn().and_then(|ckn| Cak::new(ckn, cak())))
    else {
        return;
    };
    let mut input = Input::new(data);
    let mut now = Instant::from_secs(1);
    let priority = input.u8();
    let mut kay = Kay::new(Config { priority, ..Config::new(OWN) }, Box::new(Rng::new(1)));
    kay.handle_command(now, Command::Join(cak));
    let mut installed = HashSet::new();
    for _ in 0..40 {
        now += ferrule_base::Duration::from_millis(u64::from(input.u8()) * 20);
        if kay.poll_timeout().is_some_and(|due| due <= now) {
            kay.handle_timeout(now);
        }
        let refuses = input.u8() == 0;
        let len = usize::from(input.u8()) * 2;
        let body = input.take(len);
        let body = member(&kay, body).unwrap_or_else(|| body.to_vec());
        let _ = kay.handle_message(now, (), &framed(&body, &keys));
        while let Some((token, order)) = kay.poll_order() {
            if let Order::Install { key, .. } = order {
                assert!(installed.insert(key), "a SAK is installed twice: {key}");
            }
            let done = if refuses { Err(Refused("no".into())) } else { Ok(()) };
            kay.handle_answer(now, token, done);
        }
        while let Some(((), frame)) = kay.poll_transmit() {
            assert!(Repr::parse(&frame[BODY_AT..]).is_ok(), "what it says can be read");
        }
        let view = kay.view();
        assert!(view.peers.len() <= PEERS_MAX && view.saks.len() <= 2);
        if body.is_empty() && len > 0 {
            return;
        }
    }
}

/// MKPDUs of the recordings, with their ICVs.
pub fn mkpdus() -> Vec<Vec<u8>> {
    let is_eapol = |frame: &Vec<u8>| {
        frame.get(12..14).is_some_and(|octets| *octets == EtherType::EAPOL.0.to_be_bytes())
    };
    let frames = seeds::frames().into_iter().filter(is_eapol);
    frames.filter_map(|frame| frame.get(BODY_AT..).map(<[u8]>::to_vec)).collect()
}

/// MKPDUs of the recordings, one behind the other.
pub fn messages() -> Vec<Vec<u8>> {
    let short = |mut body: Vec<u8>| {
        body.truncate(body.len().saturating_sub(ICV_LEN));
        body
    };
    let bodies: Vec<Vec<u8>> =
        mkpdus().into_iter().map(short).filter(|body| body.len() < 510).collect();
    let piece = |body: &Vec<u8>| {
        let len = body.len().div_ceil(2) as u8;
        let mut octets = vec![10, 1, len];
        octets.extend(body);
        octets.resize(3 + usize::from(len) * 2, 0);
        octets
    };
    let seed = |bodies: &[Vec<u8>]| {
        let pieces: Vec<u8> = bodies.iter().flat_map(piece).collect();
        [vec![200], pieces].concat()
    };
    bodies.chunks(8).map(seed).chain(bodies.chunks(1).map(seed)).collect()
}
