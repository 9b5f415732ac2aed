//! Measures of ports while a dashboard is served: sizes of frames, and frames taken at once. They
//! cost nothing while no dashboard is served.

use ferrule_dashboard::histogram::{BATCH_FRAMES, Classes, FRAME_OCTETS};
use ferrule_dashboard::state::Histogram;
use ferrule_pipeline::Packet;
use std::sync::Arc;
use std::sync::Mutex;

/// Histograms of one port, filled by the worker that drives it.
pub struct Measured {
    received: Classes<{ FRAME_OCTETS.len() }>,
    sent: Classes<{ FRAME_OCTETS.len() }>,
    batches: Classes<{ BATCH_FRAMES.len() }>,
}

impl Measured {
    fn new() -> Self {
        Self {
            received: Classes::new(&FRAME_OCTETS),
            sent: Classes::new(&FRAME_OCTETS),
            batches: Classes::new(&BATCH_FRAMES),
        }
    }

    /// Counts frames that were taken at once.
    pub fn received(&self, frames: &[Packet]) {
        if !frames.is_empty() {
            self.batches.add(frames.len() as u64);
            frames.iter().for_each(|f| self.received.add(f.len() as u64));
        }
    }

    /// Counts a frame that goes out.
    pub fn sent(&self, octets: usize) {
        self.sent.add(octets as u64);
    }
}

/// Measured ports by name. The lock is taken when a port is attached and when the histograms are
/// read.
#[derive(Default)]
pub struct Measures(Mutex<Vec<(String, Arc<Measured>)>>);

impl Measures {
    /// A port's new counters, which take the place of those of the port that had
    /// its name.
    pub fn begin(&self, port: &str) -> Arc<Measured> {
        let mut all = self.0.lock().unwrap_or_else(|e| e.into_inner());
        all.retain(|(name, _)| name != port);
        let measured = Arc::new(Measured::new());
        all.push((port.into(), measured.clone()));
        measured
    }

    /// Histograms of the ports that are still there.
    pub fn view(&self, is_there: impl Fn(&str) -> bool) -> Vec<Histogram> {
        let mut all = self.0.lock().unwrap_or_else(|e| e.into_inner());
        all.retain(|(name, _)| is_there(name));
        let mut views = Vec::new();
        for (port, measured) in all.iter() {
            let Measured { received, sent, batches } = &**measured;
            views.push(received.view("frame sizes", &format!("{port} in"), "octets"));
            views.push(sent.view("frame sizes", &format!("{port} out"), "octets"));
            views.push(batches.view("frames taken at once", port, "frames"));
        }
        views
    }
}
