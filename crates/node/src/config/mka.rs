//! Key agreement of a SecY.

use super::keys;
use super::raw::{self, Spanned, Text};
use super::read::Reader;
use super::{CakConfig, MacsecConfig, MkaConfig, Placement};
use ferrule_base::{Duration, MacAddr, Secret};
use ferrule_wire::EtherType;
use ferrule_wire::eapol::PAE_GROUP;
use ferrule_wire::mkpdu::Ckn;

/// CAKs of a port at most.
const CAKS_MAX: usize = ferrule_control::mka::config::CAKS_MAX;
/// The shortest time between two SAKs in seconds: one is in use everywhere, and the one before
/// is gone.
const REKEY_MIN: i64 = 10;

/// Reads the key agreement of a SecY that has been read.
pub(super) fn read(
    r: &mut Reader<'_>,
    secy: &raw::Macsec,
    read: &MacsecConfig,
) -> Option<MkaConfig> {
    let spanned = secy.mka.as_ref()?;
    let mka = spanned.get_ref();
    let refused = [
        (
            !secy.transmit.is_empty() || !secy.receive.is_empty(),
            "static associations together with mka",
            "take `transmit` and `receive` out, or `mka`",
        ),
        (
            secy.validate.is_some() || secy.protect.is_some(),
            "protect or validate together with mka",
            "MKA decides when frames are protected: `should-secure = true` lets them pass in clear \
             as long as there is no SAK",
        ),
        (
            !matches!(read.placement, Placement::Software | Placement::LookAside),
            "mka with a SecY on a card or a token",
            "use placement \"software\" or \"look-aside\"",
        ),
        (
            mka.cak.is_empty(),
            "mka without a CAK",
            "add cak = [{ ckn = \"00ff\", key = \"cak.key\" }]",
        ),
        (mka.cak.len() > CAKS_MAX, "more than four CAKs", "keep those that peers still have"),
    ];
    for (_, what, remedy) in refused.iter().filter(|(is_wrong, ..)| *is_wrong) {
        r.problems.add(spanned.span(), *what, *remedy);
    }
    let rekey = r.number(mka.rekey.as_ref(), 0, 0..=31_536_000, "rekey");
    if let Some(n) = mka.rekey.as_ref().filter(|_| (1..REKEY_MIN).contains(&rekey)) {
        let remedy = format!("use 0, or {REKEY_MIN} seconds and more");
        r.problems.add(n.span(), format!("rekey cannot be {rekey}"), remedy);
    }
    let ethertype = i64::from(EtherType::EAPOL.0);
    let ethertype = r.number(mka.ethertype.as_ref(), ethertype, 0x600..=0xffff, "ethertype") as u16;
    if let Some(n) = mka.ethertype.as_ref().filter(|_| !is_free(EtherType(ethertype))) {
        let what = format!("mka has EtherType {ethertype:#06x}, which others have");
        r.problems.add(n.span(), what, "use another, as 0x876f");
    }
    Some(MkaConfig {
        caks: caks(r, &mka.cak),
        priority: r.number(mka.priority.as_ref(), 16, 0..=255, "priority") as u8,
        rekey: (rekey > 0).then(|| Duration::from_secs(rekey as u64)),
        should_secure: mka.should_secure.unwrap_or(false),
        delay_protect: mka.delay_protect.unwrap_or(false),
        destination: destination(r, mka.destination.as_ref()),
        ethertype: EtherType(ethertype),
    })
}

/// True for a protocol that is not what a SecY protects, nor its SecTAG.
fn is_free(of: EtherType) -> bool {
    let data = [EtherType::IPV4, EtherType::IPV6, EtherType::ARP, EtherType::MPLS];
    !of.is_vlan() && of != EtherType::MACSEC && !data.contains(&of)
}

fn destination(r: &mut Reader<'_>, text: Option<&Text>) -> MacAddr {
    let Some(t) = text else { return MacAddr(PAE_GROUP) };
    t.get_ref().parse().unwrap_or_else(|_| {
        let what = format!("`{}` is no MAC address", t.get_ref());
        r.problems.add(t.span(), what, "write it as 01:80:c2:00:00:03");
        MacAddr(PAE_GROUP)
    })
}

fn caks(r: &mut Reader<'_>, list: &[raw::Cak]) -> Vec<CakConfig> {
    let mut caks: Vec<CakConfig> = Vec::new();
    for raw::Cak { ckn, key } in list {
        let Some(name) = Secret::from_hex(ckn.get_ref()).ok().and_then(|o| Ckn::new(o.expose()))
        else {
            let what = format!("`{}` is no CKN", ckn.get_ref());
            r.problems.add(ckn.span(), what, "write 1 to 32 octets in hexadecimal digits");
            continue;
        };
        if caks.iter().any(|cak| cak.ckn == name) {
            let remedy = "give each another `ckn`";
            r.problems.add(ckn.span(), format!("two CAKs are called {name}"), remedy);
        }
        let Some(text) = r.key_text(key, [("cak", 16), ("", 0), ("", 0)]) else { continue };
        match keys::cak(&text) {
            Ok(key) => caks.push(CakConfig { ckn: name, key }),
            Err(e) => {
                let what = format!("key file `{}`: {e}", key.get_ref());
                r.problems.add(key.span(), what, keys::MAKE);
            }
        }
    }
    caks
}

/// EtherTypes of the uncontrolled port.
pub(super) fn uncontrolled(r: &mut Reader<'_>, list: &[Text]) -> Vec<EtherType> {
    let named = [
        ("lldp", EtherType::LLDP),
        ("eapol", EtherType::EAPOL),
        ("lacp", EtherType(0x8809)),
        ("ptp", EtherType(0x88f7)),
    ];
    let each = list.iter().filter_map(|t: &Spanned<String>| {
        let word = t.get_ref().as_str();
        let number = word.strip_prefix("0x").and_then(|hex| u16::from_str_radix(hex, 16).ok());
        let number = number.map(EtherType).filter(|&of| of.0 >= 0x600 && is_free(of));
        let found = named.iter().find(|(name, _)| *name == word).map(|&(_, of)| of).or(number);
        if found.is_none() {
            let remedy = "use lldp, lacp, ptp, eapol, or an EtherType as \"0x88cc\"";
            r.problems.add(t.span(), format!("`{word}` is no protocol here"), remedy);
        }
        found
    });
    each.collect()
}
