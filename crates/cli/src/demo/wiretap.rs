//! Frames on the provider's wires, captured by stock dumpcap and measured by their octets and
//! labels.

use super::network::Network;
use super::plan::{End, Place, Variant};
use crate::process::{Background, Fault, Runner};
use ferrule_base::MacAddr;
use ferrule_wire::capture::Reader;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// EtherType of labelled packets.
const MPLS: [u8; 2] = [0x88, 0x47];
/// Octets of an Ethernet header.
const ETHERNET: usize = 14;
/// Labels that are looked through at most.
const LABELS_MAX: usize = 8;
/// dumpcap begins within this time.
const BEGIN: Duration = Duration::from_secs(15);
/// Frames reach dumpcap's file within this time.
const SETTLE: Duration = Duration::from_millis(300);

/// A running capture.
pub struct Wiretap {
    dumpcap: Background,
    file: PathBuf,
}

impl Wiretap {
    /// Has dumpcap begin at a device.
    pub fn start(
        network: &Network,
        (place, device): (Place, &str),
        file: PathBuf,
    ) -> Result<Self, Fault> {
        let mut command = network.inside(place);
        command.args(["dumpcap", "-q", "-i", device, "-w"]).arg(&file);
        let log = file.with_extension("log");
        Ok(Self { dumpcap: Background::start("dumpcap", &mut command, &log)?, file })
    }

    /// Returns when every frame from now on is in.
    pub fn wait(&mut self, runner: &Runner) -> Result<(), Fault> {
        runner.wait_for("dumpcap did not begin", BEGIN, || {
            self.dumpcap.check()?;
            Ok(self.dumpcap.said().contains("File:") && self.file.exists())
        })
    }

    /// Ends the capture; its file is complete.
    pub fn stop(mut self, runner: &Runner) -> Result<PathBuf, Fault> {
        runner.pause(SETTLE)?;
        self.dumpcap.check()?;
        match self.dumpcap.stop() {
            Some(status) if status.success() => Ok(self.file.clone()),
            _ => Err(Fault::failed("dumpcap", self.dumpcap.said())),
        }
    }
}

/// The study's frames on one link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OnWire {
    /// Octets of each, without FCS.
    pub bytes: usize,
    /// Labels on each.
    pub labels: usize,
    /// Number of frames.
    pub frames: usize,
    /// Length of such a frame according to the calculator.
    pub expected_bytes: usize,
}

/// Reads a capture: the labelled frames that the device at `from` sent. The
/// size that most of them have is the study's, for nothing else was sent but
/// what the hosts ask each other now and then.
pub fn measure(file: &Path, from: &End, variant: &Variant) -> Result<OnWire, Fault> {
    let failed = |e: &dyn std::fmt::Display| Fault::failed(file.display().to_string(), e);
    let from: MacAddr = from.mac.parse().expect("an address of the plan");
    let input = BufReader::new(File::open(file).map_err(|e| failed(&e))?);
    let mut sizes: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for packet in Reader::new(input).map_err(|e| failed(&e))? {
        let packet = packet.map_err(|e| failed(&e))?;
        if let Some(labels) = labelled(&packet.data, from) {
            *sizes.entry((packet.original_len as usize, labels)).or_default() += 1;
        }
    }
    OnWire::of(sizes, variant)
}

impl OnWire {
    /// The size that most frames have, out of all sizes and numbers of labels.
    pub fn of(sizes: BTreeMap<(usize, usize), usize>, variant: &Variant) -> Result<Self, Fault> {
        let most = sizes.into_iter().max_by_key(|&(_, count)| count);
        let ((bytes, labels), frames) = most.unwrap_or_default();
        let expected_bytes = variant.expected(labels.max(1));
        let expected_bytes = expected_bytes.map_err(|e| Fault::failed(variant.name, e))?;
        Ok(Self { bytes, labels, frames, expected_bytes })
    }
}

/// Number of labels of a frame of `from`; nothing if it is another frame.
pub fn labelled(frame: &[u8], from: MacAddr) -> Option<usize> {
    if frame.get(6..12)? == from.0 { labels_of(frame) } else { None }
}

/// Number of labels of a frame, from any sender; nothing without labels.
pub fn labels_of(frame: &[u8]) -> Option<usize> {
    if frame.get(12..ETHERNET)? != MPLS {
        return None;
    }
    let entries = frame.get(ETHERNET..)?.chunks_exact(4).take(LABELS_MAX);
    let bottom = entries.enumerate().find(|(_, entry)| entry[2] & 1 == 1);
    bottom.map(|(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use super::super::plan;
    use super::*;

    #[test]
    fn demo_measures_labelled_frames_of_one_sender_only() {
        let end = plan::end(Place::Pe1, "core");
        let mac: MacAddr = end.mac.parse().expect("an address");
        let mut frame = [[2; 6], mac.0].concat();
        frame.extend(MPLS);
        frame.extend([0, 0, 0, 64, 0, 0, 1, 64, 0, 0, 1, 64]);
        assert_eq!(labelled(&frame, mac), Some(2));
        assert_eq!(labelled(&frame[..ETHERNET + 4], mac), None, "no bottom of the stack");
        assert_eq!(labelled(&frame, MacAddr([2; 6])), None);
        frame[13] = 0;
        assert_eq!(labelled(&frame, mac), None);
    }
}
