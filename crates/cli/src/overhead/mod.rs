//! `ferrule overhead`: what a stack of encapsulations costs, drawn for a person.
//!
//! The numbers come from `ferrule_overhead`; here is only the command line and the drawing.
//!
//! ```text
//! no argument        the gallery: useful stacks around the study's frame of 1000 octets
//! STACK              size by stage, the ledger of bytes, loads, MTU
//! --compare A B C    one row each, for the same user's frame
//! ```

mod json;
mod ledger;
mod tables;
#[cfg(test)]
mod tests;

use crate::answer;
use crate::output::print;
use crate::paint::Paint;
use clap::Args;
use ferrule_crypto::Mac;
use ferrule_daemon::Finding;
use ferrule_overhead::{
    GALLERY, GRAMMAR, GalleryEntry, Stack, StackError, UserFrame, cipher_name, esp_ciphers,
};
use std::process::ExitCode;
use tables::Row;

const EXAMPLES: &str = "\
Examples:
  ferrule overhead
  ferrule overhead 'eth vlan ipv4 udp 954 | macsec sci gcm-aes-128 | mpls cw'
  ferrule overhead esp aes-gcm-128 tunnel / mpls 2 cw    # a slash needs no quotes
  ferrule overhead eth ipv4 tcp 1460 --compare 'macsec sci' 'esp aes-gcm-256'
  ferrule overhead 'esp aes-gcm-128 tunnel | mpls cw' --frame 64 --core 10G --json";

/// Bytes, MTU and the highest loss-free load of a stack of encapsulations
///
/// A stack is the user's frame, layers from the outside in, then transformations, each behind a
/// bar. Without a frame it is the study's: eth vlan ipv4 udp 954, 1000 bytes. Without a stack
/// there is a gallery. Sizes are without FCS; loads count FCS, preamble and gap.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = help_footer())]
pub struct OverheadArgs {
    /// The stack, in one argument or several: 'FRAME | TRANSFORMATION | …'
    stack: Vec<String>,
    /// Stacks to set beside it, for the same user's frame, one argument each
    #[arg(long, value_name = "STACK", num_args = 1..)]
    compare: Vec<String>,
    /// Size of the user's frame, without FCS
    #[arg(long, value_name = "BYTES")]
    frame: Option<usize>,
    /// MTU of the line that carries the whole stack
    #[arg(long, value_name = "BYTES", default_value_t = 1500,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=65_535))]
    mtu: usize,
    /// Rate of the user's access line, and of the core line unless --core says otherwise
    #[arg(long, value_name = "RATE", default_value = "1G", value_parser = rate)]
    line: u64,
    /// Rate of the core line
    #[arg(long, value_name = "RATE", value_parser = rate)]
    core: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// MTU and rates of the lines.
#[derive(Debug, Clone, Copy)]
struct Lines {
    mtu: usize,
    access_bps: u64,
    core_bps: u64,
}

/// Page that goes to standard output.
enum Page {
    Gallery(Vec<Row>),
    Compare(Vec<Row>),
    One(Box<Stack>),
}

/// A stack that cannot be, with the text in which to point.
struct Refusal {
    text: String,
    error: StackError,
}

impl Refusal {
    fn finding(&self) -> Finding {
        let remedy = self.error.help.clone().unwrap_or_default();
        Finding { what: self.error.message.clone(), remedy, ..Finding::default() }
    }
}

impl OverheadArgs {
    /// Prints the page that was asked for; a stack that cannot be is a usage error, 2.
    pub fn run(self) -> ExitCode {
        let paint = Paint::for_stream(&std::io::stdout());
        match self.render(paint) {
            Ok(text) => {
                print(&text);
                ExitCode::SUCCESS
            }
            Err(refusal) => {
                let paint = Paint::for_stream(&std::io::stderr());
                answer::refuse(&[refusal.finding()], &refusal.render(paint), 2)
            }
        }
    }

    /// The whole output.
    fn render(&self, paint: Paint) -> Result<String, Refusal> {
        let lines = Lines {
            mtu: self.mtu,
            access_bps: self.line,
            core_bps: self.core.unwrap_or(self.line),
        };
        let page = self.page()?;
        let text = match (&page, self.json) {
            (Page::One(stack), false) => ledger::page(paint, stack, lines),
            (Page::One(stack), true) => json::one(stack, lines),
            (Page::Gallery(rows), false) => tables::gallery(paint, rows, lines),
            (Page::Compare(rows), false) => tables::compare(paint, rows, lines),
            (Page::Gallery(rows) | Page::Compare(rows), true) => json::rows(rows, lines),
        };
        text.map_err(|error| Refusal { text: String::new(), error })
    }

    fn page(&self) -> Result<Page, Refusal> {
        let text = self.stack.join(" ");
        let default = self.sized(UserFrame::study())?;
        if text.trim().is_empty() && self.compare.is_empty() {
            return self.gallery(&default).map(Page::Gallery);
        }
        if self.compare.is_empty() {
            let stack = self.parse(&text, &default)?;
            return Ok(Page::One(Box::new(stack)));
        }
        let mut rows = Vec::new();
        let mut frame = default;
        if !text.trim().is_empty() {
            let stack = self.parse(&text, &frame)?;
            frame = stack.frame().clone();
            // A frame alone is what the others are set on, not one of them.
            if !stack.transforms().is_empty() {
                rows.push(Row { group: "", name: String::new(), stack });
            }
        }
        for (at, text) in self.compare.iter().enumerate() {
            let stack = self.parse(text, &frame)?;
            if at == 0 && self.stack.is_empty() {
                frame = stack.frame().clone();
            }
            if *stack.frame() != frame {
                let message = format!("this stack has another user's frame, not `{frame}`");
                let error = StackError::usage(message, "give the frame once, before `--compare`");
                return Err(Refusal { text: text.clone(), error });
            }
            rows.push(Row { group: "", name: String::new(), stack });
        }
        Ok(Page::Compare(rows))
    }

    fn gallery(&self, frame: &UserFrame) -> Result<Vec<Row>, Refusal> {
        let row = |entry: &GalleryEntry| {
            let stack = self.parse(entry.stack, frame)?;
            Ok(Row { group: entry.group, name: entry.name.to_owned(), stack })
        };
        GALLERY.iter().map(row).collect()
    }

    fn parse(&self, text: &str, frame: &UserFrame) -> Result<Stack, Refusal> {
        let refuse = |error| Refusal { text: text.to_owned(), error };
        let stack = Stack::parse_with(text, frame).map_err(refuse)?;
        match self.frame {
            Some(len) => stack.resized(len).map_err(refuse),
            None => Ok(stack),
        }
    }

    fn sized(&self, frame: UserFrame) -> Result<UserFrame, Refusal> {
        match self.frame {
            Some(len) => {
                frame.resized(len).map_err(|error| Refusal { text: frame.to_string(), error })
            }
            None => Ok(frame),
        }
    }
}

impl Refusal {
    fn render(&self, paint: Paint) -> String {
        let mut text = format!("{} {}\n", paint.fault("error:"), paint.bold(&self.error.message));
        if let Some((line, carets)) = self.error.underline(&self.text) {
            text += &format!("  {line}\n  {}\n", paint.fault(carets.trim_end()));
        } else if !self.text.is_empty() {
            text += &format!("  {}\n", self.text);
        }
        if let Some(help) = &self.error.help {
            text += &format!("  {} {help}\n", paint.bold("help:"));
        }
        text
    }
}

/// The grammar and examples, below `--help`.
fn help_footer() -> String {
    let widest = GRAMMAR.iter().map(|(words, _)| words.chars().count()).max().unwrap_or(0);
    let mut text = String::from("Words:\n");
    for (words, meaning) in GRAMMAR {
        text += &format!("  {words:widest$}  {meaning}\n");
    }
    let (paired, alone): (Vec<_>, Vec<_>) =
        esp_ciphers(Mac::HmacSha256_128).into_iter().partition(|suite| suite.mac().is_some());
    text += &word_list("\nESP suites that stand alone:", alone.into_iter().map(cipher_name));
    let heading = "ESP ciphers that need an integrity algorithm:";
    text += &word_list(heading, paired.into_iter().map(cipher_name));
    text += &word_list("integrity algorithms:", Mac::ALL.into_iter().map(Mac::name));
    text + "\n" + EXAMPLES
}

/// A heading and words, broken into lines that no terminal breaks again.
fn word_list<'a>(heading: &str, words: impl Iterator<Item = &'a str>) -> String {
    const LINE_COLUMNS: usize = 76;
    let mut text = format!("{heading}\n ");
    let mut columns = 1;
    for word in words {
        if columns + 1 + word.len() > LINE_COLUMNS {
            text += "\n ";
            columns = 1;
        }
        text += " ";
        text += word;
        columns += 1 + word.len();
    }
    text + "\n"
}

/// Reads a line rate: `1G`, `2.5G`, `100M`, or bits per second.
fn rate(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.trim().to_lowercase().strip_suffix("bit/s") {
        Some(rest) => split_unit(rest.trim()),
        None => split_unit(&text.trim().to_lowercase()),
    };
    let rate: f64 = digits.parse().map_err(|_| "for example 1G, 2.5G, 100M".to_owned())?;
    let bits = rate * unit;
    if (1e3..=1e13).contains(&bits) {
        return Ok(bits.round() as u64);
    }
    Err("a line has between 1 kbit/s and 10 Tbit/s".to_owned())
}

fn split_unit(text: &str) -> (String, f64) {
    for (suffix, unit) in [('t', 1e12), ('g', 1e9), ('m', 1e6), ('k', 1e3)] {
        if let Some(digits) = text.strip_suffix(suffix) {
            return (digits.trim().to_owned(), unit);
        }
    }
    (text.to_owned(), 1.0)
}

/// A rate for a person: `1 Gbit/s`.
fn rate_text(bits_per_second: u64) -> String {
    let rate = bits_per_second as f64;
    let (unit, name) = match rate {
        1e12.. => (1e12, "Tbit/s"),
        1e9.. => (1e9, "Gbit/s"),
        1e6.. => (1e6, "Mbit/s"),
        _ => (1e3, "kbit/s"),
    };
    format!("{} {name}", rate / unit)
}

/// A count with its thousands set apart: `112,816`.
fn grouped(count: f64) -> String {
    let digits = format!("{:.0}", count);
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
