//! The station beside a device: it agrees on keys, and watches what the device says.

use super::checks::Device;
use super::{altered, cak};
use crate::test::line::Line;
use ferrule_base::{Instant, Secret};
use ferrule_control::Core;
use ferrule_control::mka::{Cak, Channel, Command, Config, Kay, Keys, Order};
use ferrule_control::mka::{Confidentiality, PortState, Suite, Xpn};
use ferrule_daemon::entropy::OfMachine;
use ferrule_daemon::{Blame, Fault};
use ferrule_wire::mkpdu::{Ckn, KeyId, Mi, Set};
use std::path::Path;

/// A SAK as it was agreed on.
#[derive(Clone, Debug)]
pub struct Agreed {
    pub key: KeyId,
    pub an: u8,
    pub sak: Secret,
    pub suite: Suite,
    pub confidentiality: Confidentiality,
    pub xpn: Option<Xpn>,
    /// The device's.
    pub channels: Vec<Channel>,
}

/// The station.
pub struct Station {
    pub kay: Kay,
    pub keys: Keys,
    ckn: Ckn,
    pub device: Device,
    /// Its last message, and the one before.
    pub sent: [Vec<u8>; 2],
    /// Messages get a parameter set of an unknown type.
    pub adds_set: bool,
    installed: Vec<Agreed>,
    /// The SAK by which it is to transmit.
    transmits: Option<KeyId>,
}

impl Station {
    /// A station that joins by the CAK of a key file.
    pub fn join(file: &Path, ckn: Ckn, config: Config) -> Result<Self, Fault> {
        let key = cak(file)?;
        let lost =
            || Fault::new(Blame::Configuration, "a CAK of another length", "16 or 32 octets");
        let keys = Keys::new(key.clone(), &ckn).ok_or_else(lost)?;
        let cak = Cak::new(ckn, key).ok_or_else(lost)?;
        let who = (config.sci, config.priority);
        let mut kay = Kay::new(config, Box::new(OfMachine));
        kay.handle_command(Instant::ZERO, Command::Join(cak));
        Ok(Self {
            kay,
            keys: keys.clone(),
            ckn,
            device: Device::new(Instant::ZERO, (ckn, keys), who),
            sent: [Vec::new(), Vec::new()],
            adds_set: false,
            installed: Vec::new(),
            transmits: None,
        })
    }

    fn mi(&self) -> Option<Mi> {
        let view = self.kay.view();
        view.own.into_iter().find(|(ckn, _)| *ckn == self.ckn).map(|(_, mi)| mi)
    }

    /// A frame that came.
    pub fn take(&mut self, now: Instant, frame: &[u8]) {
        let mi = self.mi();
        self.device.note(now, frame, mi);
        let _ = self.kay.handle_message(now, (), frame);
    }

    /// Does what is due.
    pub fn turn(&mut self, line: &mut Line) {
        let now = line.now();
        if self.kay.poll_timeout().is_some_and(|due| due <= now) {
            self.kay.handle_timeout(now);
        }
        while let Some((token, order)) = self.kay.poll_order() {
            self.obey(order);
            self.kay.handle_answer(line.now(), token, Ok(()));
        }
        while self.kay.poll_news().is_some() {}
        while let Some(((), frame)) = self.kay.poll_transmit() {
            let unknown = Set::Other { kind: 200, flags: 0, body: vec![0x5a; 7] };
            let with_set = self
                .adds_set
                .then(|| altered(&frame, &self.keys, |repr| repr.sets.insert(0, unknown)));
            let frame = with_set.flatten().unwrap_or(frame);
            line.send(&frame);
            self.sent.swap(0, 1);
            self.sent[0] = frame;
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Install { key, an, sak, suite, confidentiality, xpn, channels } => {
                let agreed = Agreed { key, an, sak, suite, confidentiality, xpn, channels };
                self.installed.retain(|other| other.an != an);
                self.installed.push(agreed);
            }
            Order::Transmit(key) => self.transmits = Some(key),
            Order::Retire(key) => self.installed.retain(|other| other.key != key),
            Order::AddChannel { key, channel } => {
                let of_key = self.installed.iter_mut().filter(|agreed| agreed.key == key);
                of_key.for_each(|agreed| agreed.channels.push(channel));
            }
            _ => {}
        }
    }

    /// The SAK by which it is to transmit.
    pub fn agreed(&self) -> Option<&Agreed> {
        self.installed.iter().find(|agreed| Some(agreed.key) == self.transmits)
    }

    /// True if both use the latest SAK.
    pub fn is_secured(&self) -> bool {
        let view = self.kay.view();
        let both = view.peers.iter().any(|peer| peer.receives && peer.transmits);
        view.port == PortState::Secured && both
    }
}
