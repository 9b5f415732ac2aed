//! Files that people and other programs write: captures, configurations, key files, stacks for the
//! overhead calculator.

use ferrule_base::Secret;
use ferrule_node::Config;
use ferrule_node::config::{Problem, named_key};
use ferrule_overhead::Stack;
use ferrule_wire::capture::{Interface, MAX_INTERFACES, MAX_PACKET, Packet, Reader, Writer};

/// Capture files of both formats: bounded, and the same after they were
/// written again.
pub fn capture(data: &[u8]) {
    let Ok(mut reader) = Reader::new(data) else { return };
    let mut packets = Vec::new();
    while let Some(next) = reader.next() {
        let Ok(packet) = next else {
            assert!(reader.next().is_none(), "after an error there is no more");
            break;
        };
        assert!(packet.data.len() <= MAX_PACKET.min(data.len()));
        assert!((packet.interface as usize) < reader.interfaces().len());
        packets.push(packet);
    }
    assert!(reader.interfaces().len() <= MAX_INTERFACES);
    // Comments that are not text grow when they are made text.
    packets.iter_mut().for_each(|p| p.comments.clear());
    let written = write(&packets);
    let reader = Reader::new(&written[..]).expect("what was written is a capture");
    let again: Result<Vec<Packet>, _> = reader.collect();
    assert_eq!(again.expect("what was written is valid"), packets);
}

fn write(packets: &[Packet]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), "fuzz").expect("memory takes it");
    let interfaces = packets.iter().map(|p| p.interface + 1).max().unwrap_or(0);
    for number in 0..interfaces {
        let interface = Interface::ethernet(&format!("port{number}"));
        writer.interface(&interface).expect("memory takes it");
    }
    for packet in packets {
        writer.packet(packet).expect("it was read, so it can be written");
    }
    writer.into_inner()
}

fn check_problems(text: &str, problems: &[Problem]) {
    assert!(!problems.is_empty());
    for problem in problems {
        assert!(problem.span.start <= problem.span.end, "{problem:?}");
        assert!(problem.span.end <= text.len(), "{problem:?}");
        assert!(!problem.what.is_empty());
    }
}

/// Configurations: a value that is right, or problems that stand in the text.
/// One that is right builds a node.
pub fn config(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Config::parse("fuzz.toml", &text, &mut named_key) {
        Ok(config) => crate::node::builds(config),
        Err(error) => {
            check_problems(&text, &error.problems);
            assert!(!error.to_string().is_empty());
        }
    }
}

/// Key files: what is wrong with one never repeats what is in it.
pub fn key_file(data: &[u8]) {
    let (text, _) = &crate::node::CONFIGS[0];
    let mut keys = |_: &str| Ok(Secret::new(data.to_vec()));
    if let Err(error) = Config::parse("fuzz.toml", text, &mut keys) {
        check_problems(text, &error.problems);
        let told = error.to_string();
        let secret = data.split(|b| !b.is_ascii_hexdigit()).filter(|word| word.len() >= 16);
        for word in secret.filter_map(|word| std::str::from_utf8(word).ok()) {
            assert!(!told.contains(word), "an error tells a key: {told}");
        }
    }
}

/// Stacks for the overhead calculator.
pub fn overhead(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let stack = match Stack::parse(&text) {
        Ok(stack) => stack,
        Err(error) => {
            assert!(!error.message.is_empty());
            if let Some(span) = error.span.clone() {
                assert!(text.get(span).is_some(), "a span in the text: {error:?}");
            }
            let _ = (error.underline(&text), error.to_string());
            return;
        }
    };
    let layout = stack.layout().expect("every stack can be laid out");
    assert_eq!(stack.wire_len(layout.user_len).ok(), Some(layout.wire_len()));
    let again = Stack::parse(&stack.to_string());
    assert_eq!(again.as_ref(), Ok(&stack), "`{stack}`");
    let _ = (stack.mtu(1500), stack.line_mtu_for(1500), stack.ceiling(1 << 30, 10 << 30));
    let _ = (stack.max_head_room(), stack.max_tail_room(), stack.calculation_only());
}
