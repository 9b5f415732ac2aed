//! The same numbers for a program. Sizes are in octets without FCS, rates in bits per second.

use super::Lines;
use super::tables::Row;
use ferrule_overhead::{Line, Protection, Segment, Stack, StackError};
use serde_json::{Value, json};

/// One stack, with its ledger.
pub fn one(stack: &Stack, lines: Lines) -> Result<String, StackError> {
    Ok(text(&object(stack, lines)?))
}

/// Several stacks, as an array.
pub fn rows(rows: &[Row], lines: Lines) -> Result<String, StackError> {
    let objects = rows.iter().map(|row| {
        let mut object = object(&row.stack, lines)?;
        if !row.name.is_empty() {
            object["name"] = json!(row.name);
            object["group"] = json!(row.group);
        }
        Ok(object)
    });
    Ok(text(&Value::Array(objects.collect::<Result<_, StackError>>()?)))
}

fn text(value: &Value) -> String {
    format!("{value:#}\n")
}

fn object(stack: &Stack, lines: Lines) -> Result<Value, StackError> {
    let layout = stack.layout()?;
    let mut offset = 0;
    let ledger: Vec<Value> = layout
        .segments
        .iter()
        .map(|segment| {
            let value = segment_object(segment, offset);
            offset += segment.bytes;
            value
        })
        .collect();
    let stages: Vec<Value> = stack
        .transforms()
        .iter()
        .zip(&layout.stages)
        .map(|(transform, stage)| {
            json!({
                "transformation": transform.to_string(),
                "added": stage.added,
                "removed": stage.removed,
                "removed_tags": stage.removed_tags,
                "net": stage.net(),
                "net_with_tags": stage.net_with_tags(),
                "bytes": stage.len,
            })
        })
        .collect();
    Ok(json!({
        "stack": stack.to_string(),
        "frame_bytes": layout.user_len,
        "wire_bytes": layout.wire_len(),
        "overhead_bytes": layout.overhead(),
        "stages": stages,
        "ledger": ledger,
        "load": load_object(stack, lines)?,
        "mtu": mtu_object(stack, lines)?,
        "head_room_max": stack.max_head_room(),
        "tail_room_max": stack.max_tail_room(),
        "calculation_only": stack.calculation_only(),
    }))
}

fn segment_object(segment: &Segment, offset: usize) -> Value {
    let (protection, encrypted_from) = match segment.protection {
        Protection::Clear => ("clear", None),
        Protection::CheckValue => ("check value", None),
        Protection::Authenticated => ("authenticated", None),
        Protection::EncryptedFrom(from) => ("encrypted", Some(from)),
        Protection::Encrypted => ("encrypted", Some(0)),
    };
    json!({
        "offset": offset,
        "bytes": segment.bytes,
        "layer": segment.kind.name(),
        "stage": segment.stage,
        "protection": protection,
        "encrypted_from": encrypted_from,
        "rule": segment.kind.rule(),
    })
}

fn load_object(stack: &Stack, lines: Lines) -> Result<Value, StackError> {
    let ceiling = stack.ceiling(lines.access_bps, lines.core_bps)?;
    let rows: Vec<Value> = ceiling
        .lines
        .iter()
        .map(|load| {
            json!({
                "line": line_key(load.line),
                "bits_per_second": load.bits_per_second,
                "frame_bytes": load.frame_len,
                "padding_bytes": load.padding,
                "line_bytes": load.line_len,
                "frames_per_second": load.frames_per_second,
            })
        })
        .collect();
    Ok(json!({
        "share_of_access_line": ceiling.share,
        "frames_per_second": ceiling.frames_per_second,
        "limit": line_key(ceiling.limit),
        "lines": rows,
    }))
}

fn line_key(line: Line) -> &'static str {
    match line {
        Line::Access => "access",
        Line::Attachment => "attachment",
        Line::Core => "core",
    }
}

/// `null` for the user's side where the line's MTU cannot carry the stack; `user` and MSS also
/// where the user's frame is no IP packet, `user_payload` where it has one size.
fn mtu_object(stack: &Stack, lines: Lines) -> Result<Value, StackError> {
    let (report, needed) = (stack.mtu(lines.mtu).ok(), stack.line_mtu()?);
    let of = |applies: bool| report.filter(|_| applies).map(|report| report.user_mtu);
    Ok(json!({
        "line": lines.mtu,
        "user": of(stack.frame().carries_ip()),
        "user_payload": of(stack.frame().is_resizable()),
        "mss_ipv4": report.and_then(|report| report.mss_ipv4),
        "mss_ipv6": report.and_then(|report| report.mss_ipv6),
        "line_for_user_1500": stack.line_mtu_for(1500).ok(),
        "line_for_frame": needed,
        "frame_fits": needed <= lines.mtu,
    }))
}
