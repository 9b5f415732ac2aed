//! Interfaces on which a test speaks frame by frame.

use ferrule_base::{Duration, Instant};
use ferrule_daemon::Fault;
use ferrule_pipeline::{Batch, PoolCache, Port};
use ferrule_ports::os::PollSet;
use ferrule_ports::{Link, OpenError, Opener, PortSpec, Umem, region};

/// Octets of a buffer: frames of 9,000 octets have room.
const CHUNK: usize = 16_384;
const CHUNKS: usize = 512;

/// An interface.
pub struct Line {
    port: Box<dyn Port>,
    cache: PoolCache,
    pub link: Link,
    start: std::time::Instant,
}

impl Line {
    /// An interface, with a clock that several may share.
    pub fn open(interface: &str, start: std::time::Instant) -> Result<Self, Fault> {
        let wrong = |e: &OpenError| super::bench::fault(e);
        let link = Link::by_name(interface).map_err(|e| wrong(&e))?;
        let (pool, _) = region::pool(CHUNKS, CHUNK).map_err(|e| {
            Fault::environment(format!("{CHUNKS} buffers: {e}"), "free some memory")
        })?;
        let spec = PortSpec::Packet { interface: interface.to_owned(), promiscuous: true };
        let opened = Opener::new().open(&spec);
        let port = opened.and_then(|opened| opened.start(&Umem::new(&pool)));
        let port = port.map_err(|e| wrong(&e))?;
        Ok(Self { port, cache: pool.cache(), link, start })
    }

    pub fn now(&self) -> Instant {
        Instant::ZERO + self.start.elapsed()
    }

    pub fn send(&mut self, frame: &[u8]) {
        let mut batch = Batch::new();
        if let Some(packet) = self.cache.packet_from(frame) {
            batch.push(packet);
        }
        let now = self.now();
        self.port.transmit(now, &mut self.cache, &mut batch);
        batch.drain(..).for_each(|packet| self.cache.recycle(packet));
    }

    /// The frames that came.
    pub fn receive(&mut self, mut take: impl FnMut(Instant, &[u8])) {
        let mut batch = Batch::new();
        self.port.receive(self.now(), &mut self.cache, &mut batch);
        for packet in batch.drain(..) {
            take(self.now(), packet.data());
            self.cache.recycle(packet);
        }
    }
}

/// Sleeps until a frame comes, for so long at most.
pub fn wait(lines: &[&Line], limit: Duration) -> Result<(), Fault> {
    let mut set = PollSet::new();
    for fd in lines.iter().filter_map(|line| line.port.wait_fd()) {
        set.add(fd, false);
    }
    let waited = set.wait(Some(limit));
    waited.map_err(|e| Fault::environment(format!("waiting: {e}"), "see what it says")).map(drop)
}
