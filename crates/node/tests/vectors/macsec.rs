//! MACsec sets: one SecY protects, another validates.
//!
//! ```text
//!   make:  plain ─▶ Emit ─▶ SecY out ─▶ frame = the capture's, octet by octet
//!   take:  the capture's frame ─▶ SecY in ─▶ plain
//! ```
//!
//! Associations are installed when the capture first uses them, beside those
//! that are there, as a key agreement would.

use crate::engine::Kind;
use crate::esp::same;
use crate::report::{Row, Way};
use crate::rig::Rig;
use crate::sidecar::{Frame, Hex, MacsecSa, Secy, Set};
use ferrule_base::{MacAddr, PortId, Secret};
use ferrule_crypto::{Place, Suite, suite::Aes};
use ferrule_dataplane::Sequence;
use ferrule_dataplane::graph::Next;
use ferrule_dataplane::macsec::{Replay, RxSaConfig, SecyConfig, TxSaConfig, Xpn};

/// The SecY of a rig.
const SECY: u16 = 0;
const PORT: PortId = PortId(0);

/// Runs a set.
pub fn run(set: &Set, kind: Kind, row: &mut Row) -> Result<(), String> {
    let secy: Secy = set.get("secy")?;
    let sas: Vec<MacsecSa> = set.get("sas")?;
    let frames: Vec<Frame> = set.get("frames")?;
    let Some((suite, xpn)) = suite(&secy.cipher) else {
        row.not_yet(&secy.cipher);
        return Ok(());
    };
    let mut scis: Vec<&Hex> = sas.iter().map(|sa| &sa.sci).collect();
    scis.sort();
    scis.dedup();
    for sci in scis {
        let config = config(&secy, suite, xpn, octets(sci, "an SCI")?);
        let (sender, receiver) = (Rig::new(kind), Rig::new(kind));
        let mut case = Case { config, sender, receiver, installed: None };
        case.begin()?;
        for frame in &frames {
            let sa = sas.iter().find(|sa| sa.id == frame.sa);
            let sa = sa.ok_or_else(|| format!("no association {}", frame.sa))?;
            if sa.sci == *sci {
                case.frame(set, sa, frame, row)?;
            }
        }
    }
    Ok(())
}

/// Cipher suite, and whether packet numbers have 64 bits.
fn suite(cipher: &str) -> Option<(Suite, bool)> {
    Some(match cipher {
        "gcm-aes-128" => (Suite::AesGcm(Aes::Aes128), false),
        "gcm-aes-256" => (Suite::AesGcm(Aes::Aes256), false),
        "gcm-aes-xpn-128" => (Suite::AesGcm(Aes::Aes128), true),
        "gcm-aes-xpn-256" => (Suite::AesGcm(Aes::Aes256), true),
        _ => return None,
    })
}

/// The maker's SecY in our words. `sci` is the transmitter's.
fn config(secy: &Secy, suite: Suite, xpn: bool, sci: [u8; 8]) -> SecyConfig {
    let mut config = SecyConfig::new(u64::from_be_bytes(sci), suite);
    config.xpn = xpn;
    config.encrypt = secy.encrypt;
    config.send_sci = secy.send_sci;
    config.end_station = secy.end_station;
    config.broadcast = secy.scb;
    config.replay = if secy.replay { Replay::Standard } else { Replay::Off };
    config.window = secy.window;
    config
}

fn octets<const N: usize>(hex: &Hex, what: &str) -> Result<[u8; N], String> {
    <[u8; N]>::try_from(&hex.0[..]).map_err(|_| format!("{what} has {N} octets"))
}

/// One transmitter, and the SecY that validates what it sends.
struct Case {
    config: SecyConfig,
    sender: Rig,
    receiver: Rig,
    /// The association in use, and the number that comes next.
    installed: Option<(String, u64)>,
}

impl Case {
    fn begin(&mut self) -> Result<(), String> {
        for rig in [&mut self.sender, &mut self.receiver] {
            rig.secured_port("line", MacAddr::ZERO);
        }
        let Rig { secy_out, engine, .. } = &mut self.sender;
        secy_out.install(engine, SECY, &self.config).map_err(|e| e.to_string())?;
        let Rig { secy_in, engine, .. } = &mut self.receiver;
        secy_in.install(engine, SECY, &self.config).map_err(|e| e.to_string())
    }

    /// One frame, both ways.
    fn frame(
        &mut self,
        set: &Set,
        sa: &MacsecSa,
        frame: &Frame,
        row: &mut Row,
    ) -> Result<(), String> {
        let [n] = frame.n[..] else { return Err("a MACsec frame is one frame".into()) };
        let captured = &set.frame(n)?.octets;
        match &self.installed {
            Some((id, next)) if *id == sa.id && *next == frame.number => {}
            _ => self.rekey(sa, frame.number)?,
        }
        self.installed = Some((sa.id.clone(), frame.number + 1));
        let made = self.sender.inject(Next::Emit, PORT, &frame.plain.0, None).one();
        row.record(Way::Make, n, made.and_then(|(_, made)| same(&made, captured)));
        let taken = self.receiver.inject(Next::SecyIn, PORT, captured, Some(Next::Attach)).one();
        row.record(Way::Take, n, taken.and_then(|(_, taken)| same(&taken, &frame.plain.0)));
        Ok(())
    }

    /// Installs an association at both ends, from this number on. One with the
    /// same number (AN) goes first.
    fn rekey(&mut self, sa: &MacsecSa, first: u64) -> Result<(), String> {
        let key = Secret::new(sa.key.0.clone());
        let xpn = match (&sa.salt, sa.ssci) {
            (Some(salt), Some(ssci)) => Some(Xpn { salt: octets(salt, "a salt")?, ssci }),
            _ => None,
        };
        let (an, sci) = (sa.an, self.config.sci);
        let Rig { secy_out, engine, .. } = &mut self.sender;
        let _ = secy_out.retire_tx_sa(engine, SECY, an);
        let sequence = Sequence::unlimited(first, self.config.pn_max());
        let tx = TxSaConfig { an, key: key.clone(), cipher: None, xpn, place: Place::Software };
        secy_out.install_tx_sa(engine, SECY, &tx, sequence).map_err(|e| e.to_string())?;
        secy_out.encode(SECY, an).map_err(|e| e.to_string())?;
        let Rig { secy_in, engine, .. } = &mut self.receiver;
        let _ = secy_in.retire_rx_sa(engine, SECY, sci, an);
        let rx = RxSaConfig {
            sci,
            an,
            key,
            cipher: None,
            xpn,
            lowest_pn: first,
            record: [0; 16],
            place: Place::Software,
        };
        secy_in.install_rx_sa(engine, SECY, &rx).map_err(|e| e.to_string())
    }
}
