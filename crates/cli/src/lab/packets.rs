//! Every frame on every link, one line each, as it is put there.
//!
//! ```text
//!   0.201016232  gw1 > gw2         142  IPv4 192.0.2.1 > 192.0.2.2 ESP … | ESP spi 0x00001001 seq 1 | …
//! ```

use crate::output;
use ferrule_lab::{Direction, Loss, Observer, Sighting};
use ferrule_wire::print::describe;
use std::any::Any;
use std::io::{self, BufWriter, Stdout, Write, stdout};

/// Prints frames. A reader that went away (`| head`) ends it without a word.
pub struct Packets {
    /// By link: what each direction is called.
    names: Vec<[String; 2]>,
    width: usize,
    out: BufWriter<Stdout>,
    closed: bool,
}

impl Packets {
    /// Links by their numbers, each with the names of its ends.
    pub fn new(ends: &[[String; 2]]) -> Self {
        let names: Vec<[String; 2]> =
            ends.iter().map(|[a, b]| [format!("{a} > {b}"), format!("{b} > {a}")]).collect();
        let width = names.iter().flatten().map(|name| name.chars().count()).max().unwrap_or(0);
        Self { names, width, out: BufWriter::new(stdout()), closed: false }
    }

    /// Writes what waits.
    pub fn flush(&mut self) {
        let written = self.out.flush();
        self.keep(written);
    }

    /// After a failure nothing more is written.
    fn keep(&mut self, written: io::Result<()>) {
        self.closed |= written.is_err();
        output::note(written);
    }

    fn line(&mut self, seen: &Sighting, len: usize, text: &str) {
        let way = usize::from(seen.direction == Direction::Reverse);
        let name = self.names.get(seen.link.0).map_or("?", |names| &names[way]);
        let nanos = seen.now.as_nanos();
        let (seconds, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        let width = self.width;
        let line = format!("{seconds:>3}.{nanos:09}  {name:<width$}  {len:>5}  {text}");
        let written = writeln!(self.out, "{line}");
        self.keep(written);
    }
}

/// The layers behind Ethernet addresses, which the link's name stands for.
fn layers(frame: &[u8]) -> String {
    let text = describe(frame);
    match text.split_once(" | ") {
        Some((_, inner)) => inner.to_owned(),
        None => text,
    }
}

impl Observer for Packets {
    fn sent(&mut self, seen: &Sighting, frame: &[u8]) {
        if !self.closed {
            self.line(seen, frame.len(), &layers(frame));
        }
    }

    fn lost(&mut self, seen: &Sighting, why: Loss, frame: &[u8]) {
        if !self.closed {
            let why = match why {
                Loss::Lost => "lost on the link",
                Loss::QueueFull => "lost: the link's queue is full",
                Loss::Down => "lost: the link is down",
                Loss::InputFull => "lost: the node's input queue is full",
                Loss::Capped => "lost: above the rate that the node's profile takes",
                Loss::Crashed => "lost: the node is down",
            };
            self.line(seen, frame.len(), &format!("   ^ {why}"));
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
