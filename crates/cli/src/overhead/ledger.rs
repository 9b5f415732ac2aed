//! One stack: its size by stage, every byte in a drawing, loads and MTU.
//!
//! The drawing is a staircase: each row is a run of bytes, and begins where the one above ended.
//!
//! ```text
//! offset bytes  by      layer              ▏
//!      0    14  mpls    Ethernet           ███▌
//!     14     4  mpls    MPLS label            ▐▌
//! ```

use super::{Lines, grouped, rate_text};
use crate::paint::Paint;
use anstyle::AnsiColor;
use ferrule_overhead::{
    FCS, FRAME_LEN_MIN, GAP, Layout, Line, MtuReport, PREAMBLE, Protection, Segment, SegmentKind,
    Stack, StackError,
};

/// A payload longer than this is drawn shortened, so that headers keep their proportions.
const PAYLOAD_BYTES_DRAWN: usize = 32;
/// Bytes that half a column stands for, if the drawing has the room.
const HALF_COLUMN_BYTES: usize = 2;
/// Columns of a ledger row beside drawing and rule.
const ROW_COLUMNS: usize = 58;
/// Columns for the rule, if the terminal has them.
const RULE_COLUMNS: usize = 24;
/// The least columns for a drawing worth having.
const DRAWING_COLUMNS_MIN: usize = 16;

/// The whole page.
pub fn page(paint: Paint, stack: &Stack, lines: Lines) -> Result<String, StackError> {
    let layout = stack.layout()?;
    let mut text = headline(paint, stack, &layout);
    text += &stages(paint, stack, &layout);
    text += &ledger(paint, stack, &layout);
    text += &loads(paint, stack, lines)?;
    text += &mtus(paint, stack, lines)?;
    text += &remarks(paint, stack, &layout, lines)?;
    Ok(text)
}

fn headline(paint: Paint, stack: &Stack, layout: &Layout) -> String {
    let (wire, user) = (layout.wire_len(), layout.user_len);
    let share = layout.overhead() as f64 * 100.0 / user as f64;
    format!(
        "{}\n{} on the wire for the user's {user}: {:+} bytes, {share:+.1} %\n",
        paint.faint(stack),
        paint.bold(format!("{wire} bytes")),
        layout.overhead(),
    )
}

/// One row for the frame and one for each transformation.
fn stages(paint: Paint, stack: &Stack, layout: &Layout) -> String {
    let names: Vec<String> = stack.transforms().iter().map(ToString::to_string).collect();
    let frame = stack.frame().to_string();
    let widest = names.iter().chain([&frame]).map(String::len).max().unwrap_or(0);
    let mut text = format!("\n{}\n", paint.bold("Stages"));
    text += &format!("  {frame:widest$}         {:>6}\n", layout.user_len);
    for (name, stage) in names.iter().zip(&layout.stages) {
        let net = format!("{:+}", stage.net());
        let tags = match stage.removed_tags {
            0 => String::new(),
            _ => format!("   {:+} with the dropped tag", stage.net_with_tags()),
        };
        text += &format!("  {name:widest$}  {net:>6} {:>6}{}\n", stage.len, paint.faint(tags));
    }
    text
}

/// Scale from bytes to columns.
struct Scale {
    /// Bytes of half a column.
    half: usize,
    /// Columns of the whole drawing.
    columns: usize,
    with_rules: bool,
}

impl Scale {
    fn new(paint: Paint, layout: &Layout) -> Self {
        let drawn: usize = layout.segments.iter().map(drawn_bytes).sum();
        let with_rules = paint.width >= ROW_COLUMNS + RULE_COLUMNS + 20;
        let rules = if with_rules { RULE_COLUMNS } else { 0 };
        let room = paint.width.saturating_sub(ROW_COLUMNS + rules).max(DRAWING_COLUMNS_MIN);
        let mut half = HALF_COLUMN_BYTES;
        while drawn.div_ceil(2 * half) > room {
            half *= 2;
        }
        Self { half, columns: drawn.div_ceil(2 * half), with_rules }
    }

    /// A bar of half columns from one byte to another; at least one half column.
    fn bar(&self, from: usize, bytes: usize, shortened: bool) -> String {
        let start = (from + self.half / 2) / self.half;
        let end = ((from + bytes + self.half / 2) / self.half).max(start + 1);
        let mut cells: Vec<char> = (0..self.columns.max(end.div_ceil(2)))
            .map(|cell| match (start..end).contains(&(2 * cell)) {
                true if (start..end).contains(&(2 * cell + 1)) => '█',
                true => '▌',
                false if (start..end).contains(&(2 * cell + 1)) => '▐',
                false => ' ',
            })
            .collect();
        let full: Vec<usize> =
            (0..cells.len()).filter(|cell| cells.get(*cell) == Some(&'█')).collect();
        if shortened && full.len() > 4 {
            // A torn bar: it would be longer.
            for cell in full.iter().skip(2).take(full.len() - 4) {
                cells[*cell] = '╌';
            }
        }
        cells.into_iter().collect()
    }
}

/// Bytes that a run takes in the drawing.
fn drawn_bytes(segment: &Segment) -> usize {
    match segment.kind {
        SegmentKind::Payload => segment.bytes.min(PAYLOAD_BYTES_DRAWN),
        _ => segment.bytes,
    }
}

fn ledger(paint: Paint, stack: &Stack, layout: &Layout) -> String {
    let scale = Scale::new(paint, layout);
    let (columns, per) = (scale.columns, 2 * scale.half);
    let legend = format!("{per} bytes a column");
    let wide = columns.max(DRAWING_COLUMNS_MIN);
    let rule = if scale.with_rules { "set by" } else { "" };
    let heads =
        format!("  offset  bytes  by      layer            {legend:wide$}  protection      {rule}");
    let mut text = format!("\n{}\n{}\n", paint.bold("Ledger"), paint.faint(heads.trim_end()));
    let (mut offset, mut drawn) = (0, 0);
    for segment in &layout.segments {
        let shortened = drawn_bytes(segment) < segment.bytes;
        let bar = scale.bar(drawn, drawn_bytes(segment), shortened);
        let (state, colour) = state(segment);
        let by = author(stack, segment.stage);
        let rule = if scale.with_rules { segment.kind.rule() } else { "" };
        let row = format!(
            "  {offset:>6}  {:>5}  {by:<6}  {:<15}  {}  {}  {}",
            segment.bytes,
            segment.kind.name(),
            paint.hue(colour, format!("{bar:wide$}")),
            paint.hue(colour, format!("{state:<14}")),
            paint.faint(rule),
        );
        text += row.trim_end();
        text += "\n";
        offset += segment.bytes;
        drawn += drawn_bytes(segment);
    }
    text += &format!(
        "  {}  {}\n",
        " ".repeat(6),
        paint.bold(format!("{offset:>5}  in all, without FCS"))
    );
    text
}

/// Access that others on the last line have to these bytes.
fn state(segment: &Segment) -> (String, AnsiColor) {
    match segment.protection {
        Protection::Clear => ("clear".to_owned(), AnsiColor::Yellow),
        Protection::CheckValue => ("check value".to_owned(), AnsiColor::Magenta),
        Protection::Authenticated => ("authenticated".to_owned(), AnsiColor::Cyan),
        Protection::Encrypted => ("encrypted".to_owned(), AnsiColor::Green),
        Protection::EncryptedFrom(from) => (format!("encr. from {}", from + 1), AnsiColor::Green),
    }
}

/// The word that put a run there.
fn author(stack: &Stack, stage: usize) -> String {
    let transform = stage.checked_sub(1).and_then(|at| stack.transforms().get(at));
    let text = transform.map_or("user".to_owned(), ToString::to_string);
    text.split(' ').next().unwrap_or_default().to_owned()
}

fn loads(paint: Paint, stack: &Stack, lines: Lines) -> Result<String, StackError> {
    let ceiling = stack.ceiling(lines.access_bps, lines.core_bps)?;
    let added = format!("preamble {PREAMBLE}, FCS {FCS}, gap {GAP} counted");
    let mut text = format!("\n{}  {}\n", paint.bold("Load"), paint.faint(added));
    for load in &ceiling.lines {
        let limits = load.line == ceiling.limit;
        let row = format!(
            "{} {:<18} {:>10}  {:>5} → {:>5} bytes {:>11} frames/s",
            if limits { "▶" } else { " " },
            load.line.name(),
            rate_text(load.bits_per_second),
            load.frame_len,
            load.line_len,
            grouped(load.frames_per_second),
        );
        text += &if limits { paint.hue(AnsiColor::Yellow, row) } else { row };
        text += "\n";
    }
    let share = format!("{} %", percent(ceiling.share));
    text += &match ceiling.limit {
        Line::Access => format!(
            "  no loss up to {} of the access line: nothing behind it is slower\n",
            paint.bold(share)
        ),
        limit => format!(
            "  no loss up to {} of the access line; the {} limits\n",
            paint.bold(share),
            limit.name()
        ),
    };
    let needed = stack.line_mtu()?;
    if needed > lines.mtu {
        let fault =
            format!("this frame does not fit a line MTU of {}: it needs {needed}", lines.mtu);
        text += &format!("  {}\n  it would be fragmented or dropped\n", paint.fault(fault));
    }
    Ok(text)
}

/// A share in per cent with two places, and never 100 for less than the whole.
pub fn percent(share: f64) -> String {
    let hundredths = (share * 10_000.0).round();
    let shown = if share < 1.0 { hundredths.min(9_999.0) } else { hundredths };
    format!("{:.2}", shown / 100.0)
}

fn mtus(paint: Paint, stack: &Stack, lines: Lines) -> Result<String, StackError> {
    let frame = stack.frame();
    let about = match (frame.carries_ip(), frame.is_resizable()) {
        (true, _) => "line: all behind Ethernet and its tags; user: an IP packet",
        (false, true) => "line and user: all behind Ethernet and its tags",
        (false, false) => "all behind Ethernet and its tags",
    };
    let mut text = format!("\n{}   {}\n", paint.bold("MTU"), paint.faint(about));
    match stack.mtu(lines.mtu) {
        Ok(report) => text += &mtu_row(paint, stack, report, "")?,
        Err(error) => {
            let help = error.help.as_deref().unwrap_or_default();
            text += &format!("  {}: {help}\n", paint.fault(&error.message));
        }
    }
    if let Ok(needed) = stack.line_mtu_for(1500)
        && needed != lines.mtu
    {
        text += &mtu_row(paint, stack, stack.mtu(needed)?, "the least for 1500")?;
    }
    Ok(text)
}

/// MTU and MSS for an IP packet, MTU alone for a payload without a name, and for a frame of one
/// size what it takes.
fn mtu_row(
    paint: Paint,
    stack: &Stack,
    report: MtuReport,
    remark: &str,
) -> Result<String, StackError> {
    let mss = |mss: Option<usize>| mss.map_or("none".to_owned(), |mss| mss.to_string());
    let mut row = format!("  line {:>5}", report.line_mtu);
    if stack.frame().is_resizable() {
        row += &format!("   user {}", paint.bold(format!("{:>5}", report.user_mtu)));
    } else {
        row += &format!("   this frame, always of one size, has {}", stack.line_mtu()?);
    }
    if stack.frame().carries_ip() {
        row += &format!(
            "   TCP MSS {:>5} IPv4, {:>5} IPv6",
            mss(report.mss_ipv4),
            mss(report.mss_ipv6)
        );
    }
    if !remark.is_empty() {
        row += &paint.faint(format!("   {remark}"));
    }
    Ok(row + "\n")
}

fn remarks(
    paint: Paint,
    stack: &Stack,
    layout: &Layout,
    lines: Lines,
) -> Result<String, StackError> {
    let mut remarks = vec![format!(
        "a buffer needs {} bytes of head room and {} of tail room",
        stack.max_head_room(),
        stack.max_tail_room()
    )];
    let parts = stack.calculation_only();
    if !parts.is_empty() {
        remarks.push(format!("for calculation only: Ferrule does not carry {}", parts.join(", ")));
    }
    if layout.user_len < FRAME_LEN_MIN {
        remarks.extend(padding(stack, layout, lines)?);
    }
    let no_ipv6 = |report: MtuReport| report.mss_ipv6.is_none() && stack.frame().carries_ip();
    if stack.mtu(lines.mtu).is_ok_and(no_ipv6) {
        remarks.push("below a user's MTU of 1280 IPv6 does not run (RFC 8200 §5)".to_owned());
    }
    let mut text = format!("\n{}\n", paint.bold("Notes"));
    for remark in remarks {
        text += &format!("  {remark}\n");
    }
    Ok(text)
}

/// The way of a short frame's padding: the ledger has the frame as the user made it, the loads
/// have it as it comes from the access line.
fn padding(stack: &Stack, layout: &Layout, lines: Lines) -> Result<Vec<String>, StackError> {
    let ceiling = stack.ceiling(lines.access_bps, lines.core_bps)?;
    let core = ceiling.lines.iter().find(|load| load.line == Line::Core);
    let mut remarks =
        vec![format!("on an Ethernet line the user's frame is padded to {FRAME_LEN_MIN} bytes")];
    if let Some(core) = core
        && core.frame_len > layout.wire_len().max(FRAME_LEN_MIN)
    {
        remarks.push(format!(
            "it is carried on with its padding: {} bytes that the ledger does not have",
            core.padding
        ));
    }
    Ok(remarks)
}
