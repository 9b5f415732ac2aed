//! `ferrule test macsec`: frames through a device that bridges between MACsec and the clear, and
//! what became of each, clause by clause of 802.1AE-2018.
//!
//! ```text
//!   --interface ══ MACsec ══▶ [ device ] ── clear ──▶ --clear     right frames, wrong frames
//!               ◀═ read ═════            ◀── lengths ──
//! ```
//!
//! Frames are made and read one by one (`frames`), by the codecs and ciphers that nodes have; a
//! node's own stages could not make what is wrong. With a CAK the station of `ferrule test mka`
//! agrees on the SAK.

mod args;
mod desk;
mod frames;
mod probes;
#[cfg(test)]
mod tests;
mod watched;

pub use args::MacsecArgs;

use super::clauses::{self, Check, Found, Subject};
use super::line::{self, Line};
use super::mka::Station;
use crate::{interrupt, results};
use args::Associations;
use desk::{Desk, Ends, STOPPED, Side};
use ferrule_base::{Duration, Instant};
use ferrule_control::mka::Config;
use ferrule_daemon::Fault;
use ferrule_report::Report;
use ferrule_wire::sectag::Protection;
use ferrule_wire::{EtherType, Sci};
use frames::{MACS, TAG_AT, Talker};
use std::process::ExitCode;
use watched::Watched;

/// Longest time between requests for frames.
const TURN: Duration = Duration::from_millis(100);

/// Interfaces of this machine, and the station that agrees on keys.
struct Live {
    secure: Line,
    clear: Line,
    station: Option<Station>,
}

impl Live {
    fn open(args: &MacsecArgs) -> Result<Self, Fault> {
        let start = std::time::Instant::now();
        let secure = Line::open(&args.interface, start)?;
        let clear = Line::open(&args.clear, start)?;
        let station = match (&args.cak, args.ckn) {
            (Some(cak), Some(ckn)) => {
                let config = Config {
                    priority: args.priority,
                    suite: args.suite,
                    destination: args.destination,
                    ..Config::new(Sci::new(secure.link.mac, Sci::PORT_END_STATION))
                };
                Some(Station::join(cak, ckn, config)?)
            }
            _ => None,
        };
        // From here on a signal ends the test, not the program.
        interrupt::flag()?;
        Ok(Self { secure, clear, station })
    }

    /// The associations, once there are any.
    fn associations(&mut self, args: &MacsecArgs) -> Result<Option<Associations>, Fault> {
        let mac = self.secure.link.mac;
        let end = self.now() + args.wait;
        loop {
            let Some(station) = &self.station else { return args.by_keys(mac).map(Some) };
            if let Some(agreed) = station.agreed().filter(|_| station.is_secured()) {
                return args.by_mka(mac, agreed).map(Some);
            }
            if self.now() >= end || self.is_stopped() {
                return Ok(None);
            }
            self.receive(TURN, &mut |_, _| {})?;
        }
    }

    /// The check of frames beside the SecY.
    fn uncontrolled(&self) -> Check {
        let found = match &self.station {
            Some(station) if station.device.live.is_some() => {
                Found::Holds("MKPDUs in both directions".into())
            }
            Some(_) => Found::Broken("no MKPDU was answered".into()),
            None => Found::NotSeen("no MKA with static keys (--cak)".into()),
        };
        Check::new("11.1", "EAPOL passes beside the SecY, at the uncontrolled port", found)
    }
}

impl Ends for Live {
    fn now(&self) -> Instant {
        self.secure.now()
    }

    fn send(&mut self, side: Side, frame: &[u8]) {
        match side {
            Side::Secure => self.secure.send(frame),
            Side::Clear => self.clear.send(frame),
        }
    }

    fn receive(&mut self, limit: Duration, take: &mut dyn FnMut(Side, &[u8])) -> Result<(), Fault> {
        line::wait(&[&self.secure, &self.clear], limit.min(TURN))?;
        let station = &mut self.station;
        self.secure.receive(|now, frame| match station {
            Some(station) if is_eapol(frame) => station.take(now, frame),
            _ => take(Side::Secure, frame),
        });
        if let Some(station) = station {
            station.turn(&mut self.secure);
        }
        self.clear.receive(|_, frame| {
            if !is_eapol(frame) {
                take(Side::Clear, frame);
            }
        });
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        interrupt::wanted()
    }
}

fn is_eapol(frame: &[u8]) -> bool {
    frame.get(MACS..TAG_AT) == Some(&EtherType::EAPOL.0.to_be_bytes())
}

/// A test of a device.
fn tested<E: Ends>(
    desk: &mut Desk<E>,
    told: probes::Told,
    wait: Duration,
    say: impl Fn(&str),
) -> Result<Vec<Check>, Fault> {
    say("waiting for frames to pass");
    let (passes, is_sent) = desk.begins(wait)?;
    let rule = "a frame with SCI, encrypted as agreed, comes through";
    let found = match passes {
        true => Found::Holds("it came through".into()),
        false if desk.ends.is_stopped() => Found::NotSeen(STOPPED.into()),
        false => Found::Broken("none did within the time".into()),
    };
    let mut checks = vec![Check::new("10.6", rule, found)];
    if passes {
        say("frames to the device");
        checks.extend(desk.probe(told)?);
    }
    if is_sent {
        say("frames of the device");
        desk.frames_inward(told.largest, told.vlan)?;
    }
    checks.extend(desk.watched.checks());
    Ok(checks)
}

impl MacsecArgs {
    /// Tests.
    pub fn run(&self) -> Result<ExitCode, Fault> {
        let mut live = Live::open(self)?;
        let say = |what: &str| {
            if !self.json {
                eprintln!("{what} …");
            }
        };
        if self.cak.is_some() {
            say("agreeing on a SAK");
        }
        let report = |device: Result<String, &str>, checks: &[Check], also: &str| {
            let report = reported(device, checks, also);
            results::Files { report: self.report.as_deref(), folder: None, index: None }
                .give(&report, self.json)?;
            Ok(clauses::code(checks, true))
        };
        let Some(Associations { own, device, sci, device_sci }) = live.associations(self)? else {
            let found = Found::Broken("not within the time: ferrule test mka says why".into());
            let check = Check::new("12.4", "a SAK is in use by both", found);
            return report(Err("No SAK was agreed on."), &[check], "");
        };
        let encrypts = own.cipher.encrypt;
        let talker = Talker {
            sa: own,
            sci,
            dst: live.clear.link.mac,
            src: live.secure.link.mac,
            protection: if encrypts { Protection::Confidentiality } else { Protection::Integrity },
            next: self.pn,
            count: 0,
        };
        let told = self.told(live.clear.link.mtu.min(live.secure.link.mtu.saturating_sub(32)));
        let mut desk = Desk::new(live, talker, Watched::new(device, device_sci));
        let mut checks = tested(&mut desk, told, self.wait, say)?;
        checks.push(desk.ends.uncontrolled());
        let also = match self.cak {
            None => format!(" The next run with these keys begins with --pn {}.", desk.talker.next),
            Some(_) => String::new(),
        };
        let who = desk.watched.sci.map_or_else(|| "the device".into(), |sci| sci.to_string());
        report(Ok(who), &checks, &also)
    }
}

fn reported(device: Result<String, &str>, checks: &[Check], also: &str) -> Report {
    let subject = Subject {
        title: "MACsec, clause by clause",
        question: "Does the device protect and validate frames as 802.1AE-2018 says?",
        standard: "Clauses of 802.1AE-2018",
        device,
        also,
    };
    subject.report(checks)
}
