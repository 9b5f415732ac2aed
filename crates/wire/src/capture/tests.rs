//! Captures written and read back, made by hand, cut, and altered at will.

use super::*;
use crate::laws::hex;
use proptest::prelude::*;

fn read(bytes: &[u8]) -> Result<(Vec<Packet>, Vec<Interface>), CaptureError> {
    let mut reader = Reader::new(bytes)?;
    let packets = reader.by_ref().collect::<Result<_, _>>()?;
    Ok((packets, reader.interfaces().to_vec()))
}

/// A file with all that a writer can say.
fn rich() -> (Vec<u8>, Vec<Packet>) {
    let mut writer = Writer::new(Vec::new(), "ferrule").unwrap();
    let wan = writer.interface(&Interface::ethernet("wan")).unwrap();
    writer.secrets(SecretsKind::TLS, b"CLIENT_RANDOM 00 11").unwrap();
    let lan = writer.interface(&Interface::new("lan0", LinkType::RAW)).unwrap();
    let packets = vec![
        Packet {
            direction: Some(Direction::Inbound),
            comments: vec!["received".into(), "dropped: esp-replay".into()],
            ..Packet::new(wan, 1_700_000_000_123_456_789, vec![1, 2, 3])
        },
        Packet { direction: Some(Direction::Outbound), ..Packet::new(lan, 7, vec![9; 64]) },
        Packet { original_len: 1500, ..Packet::new(lan, u64::MAX, Vec::new()) },
    ];
    for packet in &packets {
        writer.packet(packet).unwrap();
    }
    (writer.into_inner(), packets)
}

#[test]
fn pcapng_keeps_names_times_directions_and_comments() {
    let (bytes, packets) = rich();
    let (read_back, interfaces) = read(&bytes).unwrap();
    assert_eq!(read_back, packets);
    assert_eq!(interfaces, [Interface::ethernet("wan"), Interface::new("lan0", LinkType::RAW)]);
}

#[test]
fn pcapng_carries_decryption_secrets() {
    let (bytes, _) = rich();
    let mut reader = Reader::new(&bytes[..]).unwrap();
    assert!(reader.secrets().is_empty());
    reader.next().unwrap().unwrap();
    assert_eq!(reader.secrets(), [(SecretsKind::TLS, b"CLIENT_RANDOM 00 11".to_vec())]);
}

#[test]
fn pcap_is_read_in_both_orders_and_resolutions() {
    let rest = ["00000000 00000000 0000ffff 00000001", "00000002 00000005 00000003 00000040"];
    let big = |magic: &str| hex(&[magic, "0002 0004", rest[0], rest[1], "aabbcc"].concat());
    let little = |magic: &str| {
        let (words, halves) = (hex(&rest.concat()), hex("0200 0400"));
        let mut out = hex(magic);
        out.reverse();
        out.extend(halves);
        out.extend(words.chunks(4).flat_map(|w| w.iter().rev()));
        out.extend(hex("aabbcc"));
        out
    };
    for (magic, nanos) in [("a1b2c3d4", 2_000_005_000), ("a1b23c4d", 2_000_000_005)] {
        for bytes in [big(magic), little(magic)] {
            let (packets, interfaces) = read(&bytes).unwrap();
            let expected = Packet { original_len: 64, ..Packet::new(0, nanos, hex("aabbcc")) };
            assert_eq!(packets, [expected]);
            assert_eq!((interfaces[0].link, interfaces[0].snap_len), (LinkType::ETHERNET, 65535));
        }
    }
}

/// Big-endian: a section, an interface with microseconds by default, an old
/// packet, an enhanced one with an inbound flag, a simple one, one unknown
/// block, then a little-endian section.
const BIG: &str = "
    0a0d0d0a 0000001c 1a2b3c4d 0001 0000 ffffffffffffffff 0000001c
    00000001 00000020 0001 0000 00000000 0002 0003 65746800 0000 0000 00000020
    00000002 00000024 0000 0000 00000000 00000003 00000001 00000001 aa000000 00000024
    00000006 00000030 00000000 00000000 00000004 00000001 00000001 bb000000
        0002 0004 00000001 0000 0000 00000030
    00000003 00000014 00000001 cc000000 00000014
    0bad0bad 0000000c 0000000c
    0a0d0d0a 1c000000 4d3c2b1a 0100 0000 ffffffffffffffff 1c000000
    01000000 20000000 0100 0000 00000000 0900 0100 8a000000 0000 0000 20000000
    06000000 24000000 00000000 00000000 00040000 01000000 01000000 dd000000 24000000";

#[test]
fn pcapng_is_read_in_both_orders_and_several_sections() {
    let (packets, interfaces) = read(&hex(BIG)).unwrap();
    let got: Vec<_> = packets.iter().map(|p| (p.nanos, p.data[0], p.direction)).collect();
    assert_eq!(
        got,
        [
            (3000, 0xaa, None),
            (4000, 0xbb, Some(Direction::Inbound)),
            (0, 0xcc, None),
            (1_000_000_000, 0xdd, None), // 1024 units of 2^-10 s
        ]
    );
    assert_eq!(interfaces.len(), 1, "a section has interfaces of its own");
    assert!(interfaces[0].name.is_empty());
}

#[test]
fn captures_that_lie_about_lengths_are_refused() {
    assert!(matches!(read(b"not a capture, no"), Err(CaptureError::NotACapture)));
    assert!(matches!(read(b""), Err(CaptureError::NotACapture)));
    let changed = |at: usize, value: &str| {
        let (mut bytes, value) = (hex(BIG), hex(value));
        bytes[at..at + value.len()].copy_from_slice(&value);
        read(&bytes).unwrap_err()
    };
    assert!(matches!(changed(12, "0002"), CaptureError::Version));
    assert!(matches!(changed(32, "00000021"), CaptureError::Length));
    assert!(matches!(changed(32, "00000008"), CaptureError::Length));
    assert!(matches!(changed(32, "7fffffff"), CaptureError::TooLarge));
    assert!(matches!(changed(68, "0001"), CaptureError::UnknownInterface));
    assert!(matches!(changed(80, "00000009"), CaptureError::Length));
    let huge = hex("a1b2c3d4 00020004 0000000000000000 0000ffff 00000001
                    00000000 00000000 7fffffff 7fffffff");
    assert!(matches!(read(&huge), Err(CaptureError::TooLarge)));
}

#[test]
fn a_cut_capture_gives_what_is_whole_and_then_says_so() {
    let (bytes, packets) = rich();
    for n in 0..bytes.len() {
        let Ok(reader) = Reader::new(&bytes[..n]) else { continue };
        let mut good = 0;
        for (packet, expected) in reader.zip(&packets) {
            match packet {
                Ok(packet) => assert_eq!(&packet, expected),
                Err(why) => {
                    assert!(matches!(why, CaptureError::Truncated), "{why}");
                    break;
                }
            }
            good += 1;
        }
        assert!(good < packets.len());
    }
}

#[test]
fn interfaces_must_be_described_before_packets() {
    let mut writer = Writer::new(Vec::new(), "ferrule").unwrap();
    assert!(writer.packet(&Packet::new(0, 0, vec![1])).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_bytes_are_a_capture_or_not(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        noise in proptest::collection::vec(any::<u8>(), 0..200),
        rich_one: bool,
    ) {
        let mut bytes = if rich_one { rich().0 } else { hex(BIG) };
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let _ = read(&bytes);
        let _ = read(&noise);
        bytes.truncate(24);
        bytes.extend(noise);
        let _ = read(&bytes);
    }

    #[test]
    fn any_packet_survives_pcapng(
        nanos: u64, data in proptest::collection::vec(any::<u8>(), 0..100),
        comments in proptest::collection::vec(".{0,20}", 0..3),
        direction in prop_oneof![
            Just(None), Just(Some(Direction::Inbound)), Just(Some(Direction::Outbound)),
        ],
    ) {
        let mut writer = Writer::new(Vec::new(), "ferrule").unwrap();
        writer.interface(&Interface::ethernet("p")).unwrap();
        let packet = Packet { direction, comments, ..Packet::new(0, nanos, data) };
        writer.packet(&packet).unwrap();
        prop_assert_eq!(read(&writer.into_inner()).unwrap().0, [packet]);
    }
}
