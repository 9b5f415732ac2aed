//! The receive side of every SecY: channels, associations, how they come and go.

use super::channels::{CHANNELS_MAX, Channels, NONE};
use super::config::{RxSaConfig, SecyConfig, pn_max};
use super::eapol::{EapolFilter, OtherEapol, ParticipantConfig};
use super::replay::Window;
use super::state::{Nonces, SaError, SaReport, key_spec};
use super::stats::Stats;
use crate::protection::InFlight;
use crate::protection::sequence::Lease;
use crate::protection::tickets::Lane;
use ferrule_crypto::{Engine, KeyId, Op};
use ferrule_pipeline::Packet;

/// Receive associations of this stage at most.
pub const SAS_MAX: usize = 1 << 16;

/// A change to the receive side of a SecY.
#[derive(Debug)]
pub enum RxChange {
    /// Make the SecY with this index, or change it.
    Install(u16, SecyConfig),
    /// Remove the SecY.
    Remove(u16),
    /// Install an association, and its channel if it is the first of it.
    Sa(u16, RxSaConfig),
    /// Change where an association is validated: its window stays as it is.
    Move(u16, RxSaConfig),
    /// Refuse numbers below this one of an association (updtLLPN, clause 10.7.15).
    LowestPn(u16, u64, u8, u64),
    /// Give up the association of this SCI and number.
    Retire(u16, u64, u8),
    /// Participants of the port's MKA entity.
    Participants(u16, Vec<ParticipantConfig>),
}

/// The receive side of one SecY, for `show macsec`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RxReport {
    /// Counts of every association, retired ones included.
    pub stats: Stats,
    /// The associations.
    pub sas: Vec<SaReport>,
}

/// A place for a SecY. It outlives the SecY: jobs come back to it.
#[derive(Default)]
pub(super) struct RxSecy {
    pub(super) config: Option<SecyConfig>,
    pub(super) channels: Channels,
    pub(super) lane: Lane,
    pub(super) stats: Stats,
    pub(super) eapol_filter: EapolFilter,
}

/// An association. It lives until its last job is back. The fields that packets read and
/// write are in its first two cache lines, as far as they are in order.
#[repr(C, align(64))]
pub(super) struct RxSa {
    pub(super) key: KeyId,
    pub(super) nonces: Nonces,
    pub(super) window: Window,
    pub(super) under_way: u32,
    pub(super) secy: u16,
    pub(super) retired: bool,
    /// 64-bit packet numbers.
    pub(super) xpn: bool,
    /// Octets of encrypted user data that stay readable at most.
    pub(super) offset: u8,
    /// Its cipher is its own, not the SecY's.
    pub(super) own_cipher: bool,
    pub(super) counts: Stats,
    pub(super) record: [u8; 16],
}

/// The stage: validates frames that come from a port with a SecY.
#[derive(Default)]
pub struct SecyIn {
    pub(super) rx: Receive,
    pub(super) in_flight: InFlight,
}

/// Every SecY's receive side.
#[derive(Default)]
pub(super) struct Receive {
    pub secys: Vec<RxSecy>,
    pub sas: Vec<Option<RxSa>>,
    pub free: Vec<u32>,
    pub other_eapol: OtherEapol,
}

impl SecyIn {
    /// Carries out a change.
    pub fn apply<E: Engine<Packet>>(
        &mut self,
        engine: &mut E,
        change: RxChange,
    ) -> Result<(), SaError> {
        match change {
            RxChange::Install(index, config) => self.install(engine, index, &config),
            RxChange::Remove(index) => self.remove(engine, index),
            RxChange::Sa(index, config) => self.install_rx_sa(engine, index, &config),
            RxChange::Move(index, config) => self.move_rx_sa(engine, index, &config),
            RxChange::LowestPn(index, sci, an, pn) => self.raise_lowest(index, sci, an, pn),
            RxChange::Retire(index, sci, an) => self.retire_rx_sa(engine, index, sci, an),
            RxChange::Participants(index, participants) => {
                self.follow_participants(index, &participants)
            }
        }
    }

    /// Makes a SecY, or changes one. Its associations stay if they still fit, which is
    /// to say of the same suite; their windows are as wide as this says from now on.
    pub fn install<E: Engine<Packet>>(
        &mut self,
        engine: &mut E,
        index: u16,
        config: &SecyConfig,
    ) -> Result<(), SaError> {
        while self.rx.secys.len() <= index as usize {
            self.rx.secys.push(RxSecy::default());
        }
        let secy = &mut self.rx.secys[index as usize];
        if secy.config.as_ref().is_some_and(|old| !old.receives_like(config)) {
            self.remove(engine, index)?;
        }
        let secy = &mut self.rx.secys[index as usize];
        for place in secy.channels.iter().flat_map(|c| c.sas) {
            if let Some(Some(sa)) = self.rx.sas.get_mut(place as usize) {
                sa.window.change(config.replay, config.window);
                if !sa.own_cipher {
                    sa.offset = config.offset;
                }
            }
        }
        secy.config = Some(config.clone());
        Ok(())
    }

    /// Removes a SecY. Until another is installed, its port receives nothing.
    pub fn remove<E: Engine<Packet>>(&mut self, engine: &mut E, index: u16) -> Result<(), SaError> {
        let secy = self.rx.secys.get_mut(index as usize).ok_or(SaError::NoSecy(index))?;
        secy.config = None;
        secy.eapol_filter = EapolFilter::default();
        for place in std::mem::take(&mut secy.channels).iter().flat_map(|c| c.sas) {
            self.let_go(engine, place);
        }
        Ok(())
    }

    /// Installs an association beside those that are there.
    pub fn install_rx_sa<E: Engine<Packet>>(
        &mut self,
        engine: &mut E,
        index: u16,
        sa: &RxSaConfig,
    ) -> Result<(), SaError> {
        let secy = self.rx.secys.get_mut(index as usize).ok_or(SaError::NoSecy(index))?;
        let config = secy.config.as_ref().ok_or(SaError::NoSecy(index))?;
        let cipher = sa.cipher.unwrap_or(config.cipher());
        let spec = key_spec(cipher, sa.an, sa.xpn, &sa.key, &sa.place)?;
        if sa.lowest_pn == 0 || sa.lowest_pn > pn_max(cipher.xpn) {
            return Err(SaError::Numbers);
        }
        if secy.channels.place(sa.sci, sa.an).is_some() {
            return Err(SaError::Occupied(sa.an));
        }
        let new = secy.channels.find(sa.sci).is_none();
        let full = new && secy.channels.len() >= CHANNELS_MAX;
        if full || (self.rx.free.is_empty() && self.rx.sas.len() >= SAS_MAX) {
            return Err(SaError::Full);
        }
        let nonces = Nonces::new(sa.sci, sa.xpn);
        let fresh = RxSa {
            key: engine.install(&spec.expecting(nonces.coming(Op::Open, sa.lowest_pn)))?,
            nonces,
            window: Window::new(config.replay, config.window, sa.lowest_pn),
            secy: index,
            under_way: 0,
            record: sa.record,
            retired: false,
            xpn: cipher.xpn,
            offset: cipher.offset,
            own_cipher: sa.cipher.is_some(),
            counts: Stats::default(),
        };
        let place = self.rx.free.pop().unwrap_or_else(|| {
            self.rx.sas.push(None);
            self.rx.sas.len() as u32 - 1
        });
        self.rx.sas[place as usize] = Some(fresh);
        secy.channels.set(sa.sci, sa.an, place);
        Ok(())
    }

    /// Lets another engine have an association, with its window and counters.
    pub fn move_rx_sa<E: Engine<Packet>>(
        &mut self,
        engine: &mut E,
        index: u16,
        sa: &RxSaConfig,
    ) -> Result<(), SaError> {
        let secy = self.rx.secys.get_mut(index as usize).ok_or(SaError::NoSecy(index))?;
        let config = secy.config.as_ref().ok_or(SaError::NoSecy(index))?;
        let cipher = sa.cipher.unwrap_or(config.cipher());
        let spec = key_spec(cipher, sa.an, sa.xpn, &sa.key, &sa.place)?;
        let place = secy.channels.place(sa.sci, sa.an).unwrap_or(NONE);
        let Some(Some(old)) = self.rx.sas.get_mut(place as usize) else {
            return Err(SaError::NoSa(sa.an));
        };
        let coming = old.nonces.coming(Op::Open, old.window.lowest());
        let key = engine.install(&spec.expecting(coming))?;
        engine.retire(std::mem::replace(&mut old.key, key));
        Ok(())
    }

    /// Refuses numbers below `pn` from now on.
    pub fn raise_lowest(&mut self, index: u16, sci: u64, an: u8, pn: u64) -> Result<(), SaError> {
        let secy = self.rx.secys.get(index as usize).ok_or(SaError::NoSecy(index))?;
        let place = secy.channels.place(sci, an).unwrap_or(NONE);
        let sa = self.rx.sas.get_mut(place as usize).and_then(Option::as_mut);
        sa.ok_or(SaError::NoSa(an))?.window.raise(pn);
        Ok(())
    }

    /// Knows the messages of the MKA entity's peers by these from now on.
    pub fn follow_participants(
        &mut self,
        index: u16,
        of: &[ParticipantConfig],
    ) -> Result<(), SaError> {
        let secy = self.rx.secys.get_mut(index as usize).filter(|secy| secy.config.is_some());
        secy.ok_or(SaError::NoSecy(index))?.eapol_filter.follow(of);
        Ok(())
    }

    /// Gives an association up, and its channel with the last. Frames that an
    /// engine still has are delivered when they come back.
    pub fn retire_rx_sa<E: Engine<Packet>>(
        &mut self,
        engine: &mut E,
        index: u16,
        sci: u64,
        an: u8,
    ) -> Result<(), SaError> {
        let secy = self.rx.secys.get_mut(index as usize).ok_or(SaError::NoSecy(index))?;
        let place = secy.channels.place(sci, an).ok_or(SaError::NoSa(an))?;
        secy.channels.set(sci, an, NONE);
        self.let_go(engine, place);
        Ok(())
    }

    fn let_go<E: Engine<Packet>>(&mut self, engine: &mut E, place: u32) {
        if let Some(Some(sa)) = self.rx.sas.get_mut(place as usize) {
            engine.retire(sa.key);
            sa.retired = true;
            if sa.under_way == 0 {
                self.rx.bury(place);
            }
        }
    }

    /// Every SecY and its counters.
    pub fn report(&self) -> Vec<(u16, RxReport)> {
        let mut reports = Vec::new();
        for (index, secy) in self.rx.secys.iter().enumerate().filter(|(_, s)| s.config.is_some()) {
            let mut report = RxReport { stats: secy.stats, sas: Vec::new() };
            for channel in secy.channels.iter() {
                for (an, &place) in channel.sas.iter().enumerate() {
                    let Some(Some(sa)) = self.rx.sas.get(place as usize) else { continue };
                    let (next_pn, lowest_pn) = (sa.window.next(), sa.window.lowest());
                    let (sci, an, stats) = (channel.sci, an as u8, sa.counts);
                    let edge = sa.window.edge();
                    let lease = Lease { record: sa.record, number: 0 };
                    let sa = SaReport { sci, an, next_pn, lowest_pn, edge, lease, stats };
                    report.sas.push(sa);
                    report.stats.merge(&stats);
                }
            }
            reports.push((index as u16, report));
        }
        reports
    }

    /// Frames under way or waiting for their turn.
    pub fn held(&self) -> usize {
        self.in_flight.held()
    }
}

impl Receive {
    /// The last job of a retired association is back.
    pub(super) fn bury(&mut self, place: u32) {
        if let Some(sa) = self.sas.get_mut(place as usize).and_then(Option::take) {
            self.secys[sa.secy as usize].stats.merge(&sa.counts);
            self.free.push(place);
        }
    }
}
