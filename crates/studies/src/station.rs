//! The tester as a station of the laboratory: one trial over any number of virtual
//! wires, each of its ports a link.

use ferrule_base::{Instant, Ledger};
use ferrule_lab::{Io, Station};
use ferrule_pipeline::{Batch, Packet};
use ferrule_tester::Trial;
use std::any::Any;

/// The tester's end of its links.
pub struct TesterStation {
    trial: Option<Trial>,
    ports: usize,
    ledger: Ledger,
    now: Instant,
}

impl TesterStation {
    /// For a trial that was started.
    pub fn new(trial: Trial, ports: usize) -> Box<Self> {
        Box::new(Self { trial: Some(trial), ports, ledger: Ledger::default(), now: Instant::ZERO })
    }

    /// The trial, when it is over. Afterwards frames are counted and no more.
    pub fn take(&mut self) -> Option<Trial> {
        self.trial.take()
    }

    /// Whether everything was sent and is accounted for.
    pub fn is_settled(&self) -> bool {
        self.trial.as_ref().is_none_or(Trial::is_settled)
    }

    fn emit(&mut self, io: &mut Io<'_>) {
        self.now = io.now;
        let Some(trial) = &mut self.trial else { return };
        for port in 0..self.ports {
            loop {
                let mut batch = Batch::new();
                trial.emit(io.now, port, io.cache, &mut batch);
                if batch.is_empty() {
                    break;
                }
                self.ledger.made += batch.len() as u64;
                self.ledger.sent += batch.len() as u64;
                io.sent.extend(batch.drain(..).map(|packet| (port, packet)));
            }
        }
    }
}

impl Station for TesterStation {
    fn receive(&mut self, io: &mut Io<'_>, port: usize, packet: Packet) {
        self.ledger.received += 1;
        self.ledger.consumed += 1;
        if let Some(trial) = &mut self.trial {
            trial.handle(io.now, port, &packet);
        }
        io.cache.recycle(packet);
        // It may have been a question that wants an answer.
        self.emit(io);
    }

    fn wake(&mut self, io: &mut Io<'_>) {
        self.emit(io);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        // What is due was sent when it was: ask for what comes after.
        self.trial.as_ref()?.poll_timeout(self.now)
    }

    fn ledger(&self) -> Ledger {
        self.ledger
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
