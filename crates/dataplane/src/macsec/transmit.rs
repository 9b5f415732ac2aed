//! The transmit side of every SecY: its associations, how they come and go.

use super::config::{Cipher, SecyConfig, TxSaConfig};
use super::state::{ANS, Nonces, SaError, SaReport, key_spec};
use super::stats::Stats;
use crate::protection::InFlight;
use crate::protection::sequence::{Lease, Sequence};
use crate::protection::tickets::Lane;
use ferrule_crypto::{Engine, KeyId, Op};
use ferrule_pipeline::Packet;
use ferrule_wire::sectag::{Channel, Protection, Repr, Sci};

/// No association is encoding.
pub(super) const NONE: u8 = u8::MAX;

/// A change to the transmit side of a SecY.
#[derive(Debug)]
pub enum TxChange {
    /// Make the SecY with this index, or change it.
    Install(u16, SecyConfig),
    /// Remove the SecY.
    Remove(u16),
    /// Install an association; it does not encode yet.
    Sa(u16, TxSaConfig, Sequence),
    /// Let the association with this number encode.
    Encode(u16, u8),
    /// Numbers up to this limit are reserved for this lease.
    Extend(u16, u8, Lease, u64),
    /// Give the association up.
    Retire(u16, u8),
}

/// The transmit side of one SecY, for `show macsec`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxReport {
    /// The association number in use.
    pub encoding: Option<u8>,
    /// Counts of every association, retired ones included.
    pub stats: Stats,
    /// The associations.
    pub sas: Vec<SaReport>,
}

pub(super) struct TxSa {
    pub(super) key: KeyId,
    pub(super) nonces: Nonces,
    /// Cipher of the association, if it is not the SecY's.
    pub(super) cipher: Option<Cipher>,
    pub(super) pn: Sequence,
}

/// A place for a SecY. It outlives the SecY: jobs come back to it.
pub(super) struct TxSecy {
    pub(super) config: Option<SecyConfig>,
    pub(super) encoding: u8,
    pub(super) sas: [Option<TxSa>; ANS],
    pub(super) counts: [Stats; ANS],
    pub(super) lane: Lane,
    /// Counters that no association has, and those of retired ones.
    pub(super) stats: Stats,
}

impl TxSecy {
    fn empty() -> Self {
        Self {
            config: None,
            encoding: NONE,
            sas: [const { None }; ANS],
            counts: [Stats::default(); ANS],
            lane: Lane::default(),
            stats: Stats::default(),
        }
    }

    fn take_sa(&mut self, an: u8) -> Option<TxSa> {
        let sa = self.sas.get_mut(an as usize)?.take()?;
        if self.encoding == an {
            self.encoding = NONE;
        }
        Some(sa)
    }
}

/// First octet of every SecTAG of this SecY, but for the association number.
pub(super) fn tci(config: &SecyConfig, encrypt: bool) -> u8 {
    let channel = match (config.send_sci, config.end_station, config.broadcast) {
        (true, ..) => Channel::Explicit(Sci(config.sci)),
        (_, true, broadcast) => Channel::EndStation { broadcast },
        (_, _, true) => Channel::Broadcast,
        _ => Channel::Peer,
    };
    let protection = if encrypt { Protection::Confidentiality } else { Protection::Integrity };
    Repr { channel, protection, an: 0, short_len: 0, pn: 0 }.tci_an()
}

/// The stage: protects frames on their way to a port with a SecY.
#[derive(Default)]
pub struct SecyOut {
    pub(super) secys: Vec<TxSecy>,
    pub(super) in_flight: InFlight,
}

impl SecyOut {
    /// Carries out a change.
    pub fn apply<E: Engine<Packet>>(
        &mut self,
        engine: &mut E,
        change: TxChange,
    ) -> Result<(), SaError> {
        match change {
            TxChange::Install(index, config) => self.install(engine, index, &config),
            TxChange::Remove(index) => self.remove(engine, index),
            TxChange::Sa(index, config, pn) => self.install_tx_sa(engine, index, &config, pn),
            TxChange::Encode(index, an) => self.encode(index, an),
            TxChange::Extend(index, an, by, limit) => self.extend(index, an, by, limit),
            TxChange::Retire(index, an) => self.retire_tx_sa(engine, index, an).map(drop),
        }
    }

    /// Makes a SecY, or changes one. Its associations stay if they still fit:
    /// same SCI, same suite.
    pub fn install<E: Engine<Packet>>(
        &mut self,
        engine: &mut E,
        index: u16,
        config: &SecyConfig,
    ) -> Result<(), SaError> {
        while self.secys.len() <= index as usize {
            self.secys.push(TxSecy::empty());
        }
        let secy = &mut self.secys[index as usize];
        if secy.config.as_ref().is_some_and(|old| !old.sends_like(config)) {
            self.remove(engine, index)?;
        }
        self.secys[index as usize].config = Some(config.clone());
        Ok(())
    }

    /// Removes a SecY. Until another is installed, its port sends nothing.
    pub fn remove<E: Engine<Packet>>(&mut self, engine: &mut E, index: u16) -> Result<(), SaError> {
        for an in 0..ANS as u8 {
            match self.retire_tx_sa(engine, index, an) {
                Ok(_) | Err(SaError::NoSa(_)) => {}
                Err(e) => return Err(e),
            }
        }
        self.secy(index)?.config = None;
        Ok(())
    }

    /// Installs an association beside those that are there. It sends nothing
    /// before [`encode`](Self::encode).
    pub fn install_tx_sa<E: Engine<Packet>>(
        &mut self,
        engine: &mut E,
        index: u16,
        sa: &TxSaConfig,
        pn: Sequence,
    ) -> Result<(), SaError> {
        let secy = self.secy(index)?;
        let config = secy.config.as_ref().ok_or(SaError::NoSecy(index))?;
        let cipher = sa.cipher.unwrap_or(config.cipher());
        let spec = key_spec(cipher, sa.an, sa.xpn, &sa.key, &sa.place)?;
        if pn.peek() == 0 {
            return Err(SaError::Numbers);
        }
        let place = &mut secy.sas[sa.an as usize];
        if place.is_some() {
            return Err(SaError::Occupied(sa.an));
        }
        let nonces = Nonces::new(config.sci, sa.xpn);
        let spec = spec.expecting(nonces.coming(Op::Seal, pn.peek()));
        *place = Some(TxSa { key: engine.install(&spec)?, nonces, cipher: sa.cipher, pn });
        secy.stats.merge(&std::mem::take(&mut secy.counts[sa.an as usize]));
        Ok(())
    }

    /// Uses this association from the next frame on.
    pub fn encode(&mut self, index: u16, an: u8) -> Result<(), SaError> {
        let secy = self.secy(index)?;
        match secy.sas.get(an as usize) {
            Some(Some(_)) => secy.encoding = an,
            _ => return Err(SaError::NoSa(an)),
        }
        Ok(())
    }

    /// Numbers up to `limit` are reserved. For an association of another lease, which
    /// came after the one that asked, this does nothing.
    pub fn extend(&mut self, index: u16, an: u8, by: Lease, limit: u64) -> Result<(), SaError> {
        if let Some(Some(sa)) = self.secy(index)?.sas.get_mut(an as usize)
            && sa.pn.lease() == by
        {
            sa.pn.extend(limit);
        }
        Ok(())
    }

    /// Gives an association up and returns its numbers, without which its key
    /// must not be used again.
    pub fn retire_tx_sa<E: Engine<Packet>>(
        &mut self,
        engine: &mut E,
        index: u16,
        an: u8,
    ) -> Result<Sequence, SaError> {
        let sa = self.secy(index)?.take_sa(an).ok_or(SaError::NoSa(an))?;
        engine.retire(sa.key);
        Ok(sa.pn)
    }

    /// Calls `ask` for each association that needs more numbers reserved, once; again
    /// if it says that it could not pass that on.
    pub fn wants(&mut self, mut ask: impl FnMut(u16, u8, Lease, u64) -> bool) {
        for (index, secy) in self.secys.iter_mut().enumerate() {
            for (an, sa) in secy.sas.iter_mut().enumerate() {
                let Some(sa) = sa else { continue };
                if let Some(limit) = sa.pn.wants()
                    && !ask(index as u16, an as u8, sa.pn.lease(), limit)
                {
                    sa.pn.ask_again();
                }
            }
        }
    }

    /// Every SecY and its counters.
    pub fn report(&self) -> Vec<(u16, TxReport)> {
        let installed = self.secys.iter().enumerate().filter_map(|(index, secy)| {
            let config = secy.config.as_ref()?;
            let sas = secy.sas.iter().enumerate().filter_map(|(an, sa)| {
                let (next_pn, lease) = (sa.as_ref()?.pn.peek(), sa.as_ref()?.pn.lease());
                let (sci, an, stats) = (config.sci, an as u8, secy.counts[an]);
                let (lowest_pn, edge) = (next_pn, next_pn);
                Some(SaReport { sci, an, next_pn, lowest_pn, edge, lease, stats })
            });
            let mut stats = secy.stats;
            secy.counts.iter().for_each(|counts| stats.merge(counts));
            let encoding = (secy.encoding != NONE).then_some(secy.encoding);
            Some((index as u16, TxReport { encoding, stats, sas: sas.collect() }))
        });
        installed.collect()
    }

    /// Frames under way or waiting for their turn.
    pub fn held(&self) -> usize {
        self.in_flight.held()
    }

    fn secy(&mut self, index: u16) -> Result<&mut TxSecy, SaError> {
        self.secys.get_mut(index as usize).ok_or(SaError::NoSecy(index))
    }
}
