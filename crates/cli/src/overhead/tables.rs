//! Several stacks, a row each: the gallery, and what `--compare` asks for.

use super::ledger::percent;
use super::{Lines, rate_text};
use crate::paint::Paint;
use anstyle::AnsiColor;
use ferrule_overhead::{Layout, Line, Stack, StackError, Transform};

/// A stack of a table.
pub struct Row {
    /// Rows of one group stand under one heading.
    pub group: &'static str,
    /// Name for people; empty: the stack's own words.
    pub name: String,
    /// The stack.
    pub stack: Stack,
}

/// The numbers of a row.
struct Numbers {
    layout: Layout,
    /// Octets that ESP and MACsec add, without the provider's part.
    sealing: isize,
    share: f64,
    limit: Line,
    user_mtu: Option<usize>,
    mss: [Option<usize>; 2],
}

impl Numbers {
    fn of(stack: &Stack, lines: Lines) -> Result<Self, StackError> {
        let ceiling = stack.ceiling(lines.access_bps, lines.core_bps)?;
        let mtu = stack.mtu(lines.mtu).ok();
        let layout = stack.layout()?;
        let seals = |transform: &Transform| {
            matches!(transform, Transform::Esp(_) | Transform::Ah(_) | Transform::Macsec(_))
        };
        let stages = stack.transforms().iter().zip(&layout.stages);
        let sealing = stages.filter(|(what, _)| seals(what)).map(|(_, stage)| stage.net()).sum();
        Ok(Self {
            layout,
            sealing,
            share: ceiling.share,
            limit: ceiling.limit,
            user_mtu: mtu.filter(|_| stack.frame().is_resizable()).map(|report| report.user_mtu),
            mss: [mtu.and_then(|report| report.mss_ipv4), mtu.and_then(|report| report.mss_ipv6)],
        })
    }
}

/// Facts that all rows have in common.
fn preamble(paint: Paint, rows: &[Row], lines: Lines) -> Result<String, StackError> {
    let Some(first) = rows.first() else { return Ok(String::new()) };
    let frame = first.stack.frame();
    let rates = if lines.access_bps == lines.core_bps {
        format!("on lines of {}", rate_text(lines.access_bps))
    } else {
        format!(
            "on an access line of {}, a core line of {}",
            rate_text(lines.access_bps),
            rate_text(lines.core_bps)
        )
    };
    Ok(format!(
        "User's frame  {}  {} bytes without FCS\n{}\n",
        paint.bold(frame),
        paint.bold(frame.len()),
        paint.faint(format!(
            "added: bytes by the whole stack, crypto: by ESP and MACsec among it\nload: highest \
             without loss, in % of the access line (FCS, preamble, gap counted)\n      {rates}\n\
             MTU, MSS: what the user has where the core line's MTU is {}",
            lines.mtu
        )),
    ))
}

/// Stacks whose frame does not fit the line's MTU, each with the MTU that it needs.
fn too_long(paint: Paint, rows: &[Row], lines: Lines) -> Result<String, StackError> {
    let mut text = String::new();
    for row in rows {
        let needed = row.stack.line_mtu()?;
        if needed > lines.mtu {
            text += &format!("  needs {needed:>5}  {}\n", row.stack.transforms_text());
        }
    }
    if text.is_empty() {
        return Ok(text);
    }
    let heading = paint.fault(format!("these do not fit a line MTU of {}:", lines.mtu));
    Ok(format!("\n{heading} they would be fragmented or dropped\n{text}"))
}

fn number(value: Option<usize>) -> String {
    value.map_or("–".to_owned(), |value| value.to_string())
}

/// Columns of the numbers of a gallery's row, with the margins.
const GALLERY_NUMBERS: usize = 57;
/// The same of a comparison's, with the name of the line that limits.
const COMPARE_NUMBERS: usize = 86;

/// Growth with its sign; none at all is a dash.
fn signed(growth: isize) -> String {
    if growth == 0 { "–".to_owned() } else { format!("{growth:+}") }
}

/// The useful stacks around one frame, by group.
pub fn gallery(paint: Paint, rows: &[Row], lines: Lines) -> Result<String, StackError> {
    let mut text = preamble(paint, rows, lines)?;
    let named = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let stacks = rows.iter().map(|row| row.stack.transforms_text().chars().count());
    let inline = paint.width >= GALLERY_NUMBERS + named + stacks.max().unwrap_or(0);
    let heads = format!(
        "  {:named$}  on wire   added  crypto    load %   MTU   MSS   MSS6{}",
        "",
        if inline { "  stack" } else { "" }
    );
    text += &format!("\n{}\n", paint.faint(heads));
    let mut group = "";
    for row in rows {
        if row.group != group {
            group = row.group;
            text += &format!("{}\n", paint.bold(group));
        }
        let numbers = Numbers::of(&row.stack, lines)?;
        let words = paint.hue(AnsiColor::Cyan, row.stack.transforms_text());
        text += &format!(
            "  {:named$}  {}  {:>+6}  {:>6}  {:>8}  {:>4}  {:>4}  {:>5}{}\n",
            row.name,
            paint.bold(format!("{:>7}", numbers.layout.wire_len())),
            numbers.layout.overhead(),
            signed(numbers.sealing),
            percent(numbers.share),
            number(numbers.user_mtu),
            number(numbers.mss[0]),
            number(numbers.mss[1]),
            if inline { format!("  {words}") } else { format!("\n      {words}") },
        );
    }
    text += &too_long(paint, rows, lines)?;
    text += &format!(
        "\n{}\n  ferrule overhead 'esp aes-gcm-128 tunnel | mpls cw'\n  ferrule overhead eth ipv4 \
         tcp 1460 --compare 'macsec sci' 'esp aes-gcm-256'\n  ferrule overhead --help\n",
        paint.bold("Try next")
    );
    Ok(text)
}

/// The stacks that were asked for, with what sets each apart from the first.
pub fn compare(paint: Paint, rows: &[Row], lines: Lines) -> Result<String, StackError> {
    let mut text = preamble(paint, rows, lines)?;
    let name = |row: &Row| {
        let words = row.stack.transforms_text();
        let marked = if row.stack.calculation_only().is_empty() { "" } else { " *" };
        if words.is_empty() { "(as it is)".to_owned() } else { words + marked }
    };
    let widest = rows.iter().map(|row| name(row).chars().count()).max().unwrap_or(0).max(5);
    let inline = paint.width >= COMPARE_NUMBERS + widest;
    let named = if inline { widest } else { 0 };
    let heads = format!(
        "  {:named$}  on wire   added  crypto  to first    load %   MTU   MSS   MSS6  full first",
        if inline { "stack" } else { "" }
    );
    text += &format!("\n{}\n", paint.faint(heads));
    let mut first = None;
    let mut marked = false;
    for row in rows {
        let numbers = Numbers::of(&row.stack, lines)?;
        let wire = numbers.layout.wire_len();
        let base = *first.get_or_insert(wire);
        let blank = " ".repeat(named.saturating_sub(name(row).chars().count()));
        let words = paint.hue(AnsiColor::Cyan, name(row));
        let words = if inline { words } else { format!("{words}\n  ") };
        marked |= !row.stack.calculation_only().is_empty();
        text += &format!(
            "  {words}{blank}  {}  {:>+6}  {:>6}  {:>8}  {:>8}  {:>4}  {:>4}  {:>5}  {}\n",
            paint.bold(format!("{wire:>7}")),
            numbers.layout.overhead(),
            signed(numbers.sealing),
            if wire == base {
                "same".to_owned()
            } else {
                format!("{:+}", wire.cast_signed() - base.cast_signed())
            },
            percent(numbers.share),
            number(numbers.user_mtu),
            number(numbers.mss[0]),
            number(numbers.mss[1]),
            numbers.limit.name(),
        );
    }
    if marked {
        text += "\n* for calculation only: Ferrule does not carry it\n";
    }
    Ok(text + &too_long(paint, rows, lines)?)
}
