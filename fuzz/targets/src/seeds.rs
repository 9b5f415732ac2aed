//! Inputs that mutation starts from: the recordings in `vectors/`, cut at every layer.

use ferrule_overhead::GALLERY;
use ferrule_wire::capture::Reader;
use ferrule_wire::{Protocol, ethernet, ipv4, ipv6};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Frames that are taken from one recording at most: many are alike.
const EACH_MAX: usize = 24;

fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors")
}

/// The recordings, in order of their paths.
fn recordings() -> Vec<PathBuf> {
    let folders = fs::read_dir(vectors()).into_iter().flatten().flatten();
    let files = folders.filter_map(|f| fs::read_dir(f.path()).ok()).flatten().flatten();
    let mut files: Vec<_> = files.map(|f| f.path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "pcapng"));
    files.sort();
    files
}

/// Frames of every recording.
pub fn frames() -> Vec<Vec<u8>> {
    static FRAMES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let read = || {
        let files = recordings().into_iter().filter_map(|f| fs::read(f).ok());
        let of = |octets: Vec<u8>| -> Vec<Vec<u8>> {
            let packets = Reader::new(&octets[..]).into_iter().flatten().flatten();
            packets.map(|p| p.data).take(EACH_MAX).collect()
        };
        let frames: Vec<_> = files.flat_map(of).collect();
        assert!(frames.len() > 100, "the recordings in vectors/ are read: {}", frames.len());
        frames
    };
    FRAMES.get_or_init(read).clone()
}

/// Payloads of Ethernet frames.
pub fn ethernet_payloads() -> Vec<Vec<u8>> {
    let frames = frames().into_iter();
    frames.filter_map(|f| f.get(ethernet::Header::LEN..).map(<[u8]>::to_vec)).collect()
}

/// Payloads of IP packets, and the octets behind a label.
pub fn messages() -> Vec<Vec<u8>> {
    let inner = |packet: Vec<u8>| match packet.first().map(|b| b >> 4) {
        Some(4) => ipv4::Repr::parse(&packet).ok().map(|(_, p)| p.to_vec()),
        Some(6) => ipv6::Repr::parse(&packet).ok().map(|(_, p)| p.to_vec()),
        _ => packet.get(4..).map(<[u8]>::to_vec),
    };
    ethernet_payloads().into_iter().filter_map(inner).collect()
}

/// Messages of listener discovery, of each kind.
pub fn listeners() -> Vec<Vec<u8>> {
    use ferrule_wire::mld::{Querier, REPORTS_GROUP, Record, Repr};
    let v2 = Some(Querier { flags: 2, interval: 125, sources: 0 });
    let (group, delay, record) = (REPORTS_GROUP, 1_000, Record::Joins);
    let all = [
        Repr::Query { group, delay, v2 },
        Repr::Query { group, delay, v2: None },
        Repr::ReportV1 { group },
        Repr::Done { group },
        Repr::ReportV2 { record, group },
    ];
    let written = |repr: Repr| {
        let mut octets = vec![0; repr.len()];
        repr.emit(&mut octets);
        octets
    };
    all.map(written).into()
}

/// Chains of extension headers: the first one's number, and the headers.
pub fn extension_headers() -> Vec<Vec<u8>> {
    let fragment = [17, 0, 0x01, 0x01, 1, 2, 3, 4];
    let options = |next| [next, 0, 5, 2, 0, 0, 1, 0];
    let chain = [options(43), options(60), options(44), fragment].concat();
    let long = [options(60); 8].concat();
    let mut seeds = vec![[&[0], &chain[..]].concat(), [&[60], &long[..]].concat()];
    seeds.push([&[44], &fragment[..], &[0; 8]].concat());
    seeds
}

/// Authentication headers, and headers with options that stand in front of one.
pub fn covered() -> Vec<Vec<u8>> {
    let mut seeds = messages();
    let repr = |icv_len| ferrule_wire::ah::Repr { next: Protocol::UDP, icv_len, spi: 300, seq: 1 };
    for icv_len in [12, 16, 32] {
        let mut header = vec![0; 12 + usize::from(icv_len)];
        repr(icv_len).emit(&mut header);
        seeds.push(header);
    }
    // Router alert, a source route, record route.
    let options = [148, 4, 0, 0, 131, 7, 4, 10, 0, 0, 1, 7, 7, 4, 0, 0, 0, 0, 0, 0];
    let (src, dst) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let front = [0x4a, 0, 0, 60, 0, 1, 0x40, 0, 64, 51, 0, 0];
    seeds.push([&front[..], &src, &dst, &options].concat());
    // Hop-by-hop options that change and stay, a routing header with a hop to go.
    let hop_by_hop = [43, 1, 0x3e, 2, 1, 2, 5, 2, 0, 0, 1, 4, 0, 0, 0, 0];
    let routing = [&[51, 2, 0, 1, 0, 0, 0, 0][..], &[0xfd; 16]].concat();
    let front = [&[0x60, 0, 0, 0, 0, 80, 0, 64][..], &[0xfd; 32]].concat();
    seeds.push([&front[..], &hop_by_hop, &routing].concat());
    seeds
}

/// Small captures of both formats.
pub fn captures() -> Vec<Vec<u8>> {
    let files = recordings().into_iter().filter_map(|f| fs::read(f).ok());
    // As much as a mutant may have, so that changes hit headers of blocks.
    let mut seeds: Vec<_> = files.map(|f| f[..f.len().min(2048)].to_vec()).collect();
    for magic in [0xa1b2_c3d4_u32, 0xa1b2_3c4d] {
        for big in [false, true] {
            let word = |w: u32| if big { w.to_be_bytes() } else { w.to_le_bytes() };
            let version = if big { [0, 2, 0, 4] } else { [2, 0, 4, 0] };
            let mut file = [word(magic), version, word(0), word(0), word(65535), word(1)].concat();
            for length in [14_u32, 60] {
                file.extend([word(1), word(2), word(length), word(length)].concat());
                file.extend(vec![7; length as usize]);
            }
            seeds.push(file);
        }
    }
    seeds
}

/// Configurations of the nodes that are fuzzed, and those of the overhead of
/// everything else that a file may say.
pub fn configs() -> Vec<Vec<u8>> {
    crate::node::CONFIGS.iter().map(|(text, _)| text.as_bytes().to_vec()).collect()
}

/// Key files.
pub fn key_files() -> Vec<Vec<u8>> {
    let texts = [
        "# written by hand\ncipher 000102030405060708090a0b0c0d0e0f\nsalt a1b2c3d4\n",
        "cipher = 00:01:02:03:04:05:06:07:08:09:0a:0b:0c:0d:0e:0f\nsalt\ta1b2c3d4 # salt",
        "cipher 0001020304050607\nintegrity 000102030405060708090a0b0c0d0e0f10111213\n",
    ];
    texts.iter().map(|t| t.as_bytes().to_vec()).collect()
}

/// Stacks in the overhead calculator's words.
pub fn stacks() -> Vec<Vec<u8>> {
    let gallery = GALLERY.iter().map(|entry| format!("eth vlan ipv4 udp 954 | {}", entry.stack));
    let more = ["eth svlan vlan ipv6 tcp 9000 | untag | esp aes-cbc-256 transport esn", "eth arp"];
    gallery.chain(more.map(str::to_owned)).map(String::into_bytes).collect()
}
