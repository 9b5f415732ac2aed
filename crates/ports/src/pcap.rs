//! Capture files as a port: received frames come from a pcap or pcapng file, sent frames go
//! to a pcapng file.
//!
//! This port is for tests and for replaying recorded frames, not for speed: it reads and
//! writes files, and the reader allocates each frame.

use crate::error::{Doing, OpenError, OpenFault};
use ferrule_base::{Duration, Instant};
use ferrule_pipeline::{Batch, PoolCache, Port, PortStats};
use ferrule_wire::capture::{Direction, Interface, LinkType, Packet, Reader, Writer};
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Arrival rate of recorded frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// As fast as they are taken.
    #[default]
    Fast,
    /// As far apart as they were recorded, the first one at the first look.
    Recorded,
}

/// Longest time that written frames stay in memory before they go to the file.
const FLUSH_EVERY: Duration = Duration::from_millis(500);

/// Files that are open.
#[derive(Debug)]
pub struct PcapOpened {
    pub(crate) read: Option<File>,
    pub(crate) write: Option<File>,
}

impl PcapOpened {
    /// Opens the one and makes the other.
    pub fn new(read: Option<&Path>, write: Option<&Path>) -> Result<Self, OpenError> {
        let read = read.map(|path| {
            File::open(path).doing(|| format!("opening the capture {}", path.display()))
        });
        let write = write.map(|path| {
            File::create(path).doing(|| format!("making the capture {}", path.display()))
        });
        Ok(Self { read: read.transpose()?, write: write.transpose()? })
    }
}

/// A port on capture files.
pub struct PcapPort {
    reader: Option<Reader<BufReader<File>>>,
    writer: Option<Writer<BufWriter<File>>>,
    /// Read, and not yet due or without a chunk.
    waiting: Option<Packet>,
    pace: Pace,
    /// Recorded time and our time of the first frame.
    first: Option<(u64, Instant)>,
    /// Our time zero in nanoseconds since 1970.
    epoch: u64,
    looked: Instant,
    flush: Option<Instant>,
    stats: PortStats,
}

impl PcapPort {
    /// Reads the one file's header and writes the other's.
    pub fn new(opened: PcapOpened, pace: Pace) -> Result<Self, OpenError> {
        let PcapOpened { read, write } = opened;
        let reader = read.map(|file| Reader::new(BufReader::new(file))).transpose();
        let reader = reader.map_err(|error| OpenError {
            fault: OpenFault::Unsupported,
            what: format!("reading a capture: {error}"),
            remedy: "Give a pcap or pcapng file.".into(),
            source: None,
        })?;
        let begin = |file| {
            let mut writer = Writer::new(BufWriter::new(file), "ferrule")?;
            writer.interface(&Interface::ethernet("ferrule"))?;
            Ok(writer)
        };
        let writer = write.map(begin).transpose().doing(|| "beginning a capture".into())?;
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self {
            reader,
            writer,
            waiting: None,
            pace,
            first: None,
            epoch: epoch.as_nanos() as u64,
            looked: Instant::ZERO,
            flush: None,
            stats: PortStats::default(),
        })
    }

    /// The next frame that can be handed over: whole, and Ethernet.
    fn next(&mut self) -> Option<Packet> {
        while let Some(reader) = &mut self.reader {
            let packet = match reader.next() {
                Some(Ok(packet)) => packet,
                // The end, or a record that cannot be read.
                end => {
                    self.stats.rx_missed += u64::from(end.is_some());
                    self.reader = None;
                    break;
                }
            };
            let interface = reader.interfaces().get(packet.interface as usize);
            let ethernet = interface.is_some_and(|i| i.link == LinkType::ETHERNET);
            if ethernet && packet.data.len() == packet.original_len as usize {
                return Some(packet);
            }
            self.stats.rx_missed += 1;
        }
        None
    }

    /// Time at which a frame recorded at `nanos` is due.
    fn due(&self, nanos: u64) -> Instant {
        match (self.pace, self.first) {
            (Pace::Recorded, Some((recorded, start))) => {
                start + Duration::from_nanos(nanos.saturating_sub(recorded))
            }
            _ => self.looked,
        }
    }

    fn write(&mut self, now: Instant, frame: &[u8]) -> bool {
        let nanos = self.epoch.saturating_add(now.as_nanos());
        let Some(writer) = &mut self.writer else { return false };
        let len = frame.len() as u32;
        writer.write(0, nanos, Some(Direction::Outbound), len, frame, &[]).is_ok()
    }
}

impl Port for PcapPort {
    fn receive(&mut self, now: Instant, cache: &mut PoolCache, batch: &mut Batch) {
        self.looked = now;
        if self.flush.is_some_and(|at| now >= at) {
            self.flush = None;
            // A full disk shows in the frames that follow.
            let _ = self.writer.as_mut().map(Writer::flush);
        }
        while !batch.is_full() {
            let Some(frame) = self.waiting.take().or_else(|| self.next()) else { return };
            self.first.get_or_insert((frame.nanos, now));
            if self.due(frame.nanos) > now {
                self.waiting = Some(frame);
                return;
            }
            let Some(mut packet) = cache.packet() else {
                self.waiting = Some(frame);
                return;
            };
            let Some(room) = packet.append(frame.data.len()) else {
                self.stats.rx_missed += 1;
                cache.recycle(packet);
                continue;
            };
            room.copy_from_slice(&frame.data);
            self.stats.rx.add(packet.len());
            batch.push(packet);
        }
    }

    /// Without a file to write, frames are sent to nowhere.
    fn transmit(&mut self, now: Instant, cache: &mut PoolCache, batch: &mut Batch) {
        for packet in batch.drain(..) {
            if self.writer.is_none() || self.write(now, packet.data()) {
                self.stats.tx.add(packet.len());
            } else {
                self.stats.tx_failed += 1;
            }
            cache.recycle(packet);
        }
        if self.writer.is_some() {
            self.flush.get_or_insert(now + FLUSH_EVERY);
        }
    }

    fn stats(&self) -> PortStats {
        self.stats
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let frame = match &self.waiting {
            Some(frame) => Some(self.due(frame.nanos)),
            None => self.reader.as_ref().map(|_| self.looked),
        };
        [frame, self.flush].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_pipeline::Pool;

    /// Writes three frames a second apart through a port, and reads them back
    /// through another.
    #[test]
    fn capture_port_gives_back_what_was_sent_at_the_recorded_pace() {
        let path = std::env::temp_dir().join(format!("ferrule-{}.pcapng", std::process::id()));
        let pool = Pool::heap(64, 2048);
        let mut cache = pool.cache();
        let open = |read, write| PcapOpened::new(read, write).unwrap();
        let mut port = PcapPort::new(open(None, Some(&path)), Pace::Fast).unwrap();
        let mut batch = Batch::new();
        for i in 0..3u8 {
            batch.push(cache.packet_from(&[i; 60]).unwrap());
            port.transmit(Instant::from_secs(i.into()), &mut cache, &mut batch);
        }
        assert!(port.poll_timeout().is_some(), "what was written is to be flushed");
        drop(port);

        let mut port = PcapPort::new(open(Some(&path), None), Pace::Recorded).unwrap();
        for (at, count, next) in [(5000, 1, 6), (5999, 1, 6), (6000, 2, 7)] {
            port.receive(Instant::from_millis(at), &mut cache, &mut batch);
            assert_eq!(batch.len(), count, "at {at}");
            assert_eq!(port.poll_timeout(), Some(Instant::from_secs(next)));
        }
        port.receive(Instant::from_secs(9), &mut cache, &mut batch);
        assert_eq!(batch.len(), 3);
        assert_eq!(batch[2].data(), [2; 60]);
        assert_eq!(port.poll_timeout(), None, "all was read");
        batch.clear();

        let mut port = PcapPort::new(open(Some(&path), None), Pace::Fast).unwrap();
        port.receive(Instant::ZERO, &mut cache, &mut batch);
        assert_eq!((batch.len(), port.stats().rx.octets), (3, 180));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn capture_port_says_what_is_wrong_with_a_file() {
        let missing = PcapOpened::new(Some(Path::new("/nonexistent.pcap")), None).unwrap_err();
        assert_eq!(missing.fault, OpenFault::MissingInterface);
        let odd = PcapOpened::new(Some(Path::new("/proc/self/exe")), None).unwrap();
        let error = PcapPort::new(odd, Pace::Fast).err().unwrap();
        assert_eq!(error.fault, OpenFault::Unsupported, "{error}");
    }
}
