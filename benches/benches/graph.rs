//! The whole graph, memory to memory, on one core.
//!
//! A node receives a batch of frames, carries them through its graph and
//! transmits them; nothing is copied and no wire is involved. Beside each path
//! with encryption stands the bare AEAD: the same library sealing the same
//! octets of the same number of packets, and nothing else; and beside the path with
//! our own kernel Intel's multi-buffer library, by its direct interface, too (Debian:
//! libipsec-mb-dev; its texts begin a cache line, those of packets do not).

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ferrule_base::Secret;
use ferrule_benches::dpdk::Dpdk;
use ferrule_benches::peer::{self, Peer};
use ferrule_benches::{
    BRIDGED, Case, NODE, PEER, ROUNDS, Rig, UNDER_WAY, heading, interleave, row,
};
use ferrule_crypto::engine::BATCH;
use ferrule_crypto::{
    Ad, Aes, Backend, Engine, Job, Jobs, KeySpec, Op, Software, Span, Suite, Verdict,
};
use std::cell::RefCell;
use std::hint::black_box;

/// Octets of an Ethernet header, behind which an IP packet begins.
const ETHERNET: usize = 14;
/// Octets of its addresses, which MACsec leaves readable.
const ADDRESSES: usize = 12;
/// Octets from one of the node's buffers to the next.
const STRIDE: usize = 2048 + 64;
/// Octets of a cache line.
const LINE: usize = 64;

/// Packets of a round: so many that what other cases left in the caches counts for
/// nothing.
const PACKETS: usize = 32_768;

fn ethernet(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&NODE.0[..], &PEER.0[..], &ethertype.to_be_bytes(), payload].concat()
}

/// A frame that a bridge carries, of `len` octets.
fn bridged(len: usize) -> Vec<u8> {
    [&BRIDGED.0[..], &PEER.0, &[0x88, 0xb5], &vec![0; len - 14]].concat()
}

/// An IPv4 UDP packet of `len` octets from 10.1.0.9 to 10.2.0.9.
fn ipv4(len: usize) -> Vec<u8> {
    let mut p = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, 17, 0, 0, 10, 1, 0, 9, 10, 2, 0, 9];
    p[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    let sum: u32 = p.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
    p[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    p.extend([0, 7, 0, 9]);
    p.extend((len as u16 - 20).to_be_bytes());
    p.resize(len, 0);
    p
}

/// Two ports; the second carries frames of `mtu` and headers beside.
fn ports(mtu: usize) -> String {
    format!(
        r#"
[node]
name = "bench"
lab = true
[[port]]
name = "a"
driver = "wire"
[[port]]
name = "b"
driver = "wire"
mtu = {mtu}
"#
    )
}

fn routed(extra: &str) -> String {
    format!(
        r#"{}
[[interface]]
port = "a"
mpls = true
address = ["10.1.0.1/24"]
[[interface]]
port = "b"
address = ["192.0.2.1/24"]
{extra}"#,
        ports(1600)
    )
}

fn esp() -> String {
    routed(
        r#"
[[route]]
prefix = "10.2.0.0/24"
via = "192.0.2.2"
[[tunnel]]
name = "t"
local = "192.0.2.1"
remote = "192.0.2.2"
suite = "aes-gcm-128"
out = { spi = 4097, key = "gcm:1" }
in = { spi = 4098, key = "gcm:3" }
[[policy]]
interface = "b"
action = "protect"
tunnel = "t"
local = "10.1.0.0/24"
remote = "10.2.0.0/24"
"#,
    )
}

fn bridge(mtu: usize, extra: &str) -> String {
    let bridge = "[[bridge]]\nname = \"br\"\nmember = [{ port = \"a\" }, { port = \"b\" }]\n";
    ports(mtu) + bridge + extra
}

fn macsec() -> String {
    bridge(1532, "[[macsec]]\nport = \"b\"\ntransmit = [{ key = \"sak:5\" }]\n")
}

fn vpws() -> String {
    format!(
        r#"{}
[[interface]]
port = "b"
address = ["192.0.2.1/24"]
mpls = true
[[lsp]]
name = "pe2"
via = "192.0.2.2"
labels = [16002]
[[pseudowire]]
name = "pw"
port = "a"
lsp = "pe2"
label-in = 800000
label-out = 800257
"#,
        ports(1600)
    )
}

/// What the bare cipher is given of a packet.
#[derive(Clone, Copy)]
struct Plain {
    /// Octets that are sealed in place.
    len: usize,
    /// Where in a cache line they begin in the node's packets.
    at: usize,
    /// Octets of additional data.
    ad: usize,
}

/// aws-lc-rs as a program would call it: seals what is sealed of a packet, in as
/// many buffers as the node has packets.
fn bare_aws(Plain { len, at, ad }: Plain) -> impl FnMut(usize) -> usize {
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &[1; 16]).expect("a key"));
    let mut memory = vec![0_u8; UNDER_WAY * STRIDE + LINE];
    let first = memory.as_ptr().align_offset(LINE);
    let mut number = 0_u64;
    move |packets| {
        for i in 0..packets {
            let start = first + (i % UNDER_WAY) * STRIDE + 4 * LINE + at - ad;
            let buffer = &mut memory[start..start + ad + len + 16];
            number += 1;
            let mut nonce = [0; 12];
            nonce[4..].copy_from_slice(&number.to_be_bytes());
            let (ad, rest) = buffer.split_at_mut(ad);
            let (text, icv) = rest.split_at_mut(len);
            let nonce = Nonce::assume_unique_for_key(nonce);
            let tag = key.seal_in_place_separate_tag(nonce, Aad::from(&*ad), text);
            icv.copy_from_slice(tag.expect("sealed").as_ref());
            black_box(&mut *icv);
        }
        packets
    }
}

/// A backend of our own, given batches that lie ready but for their nonces.
fn bare_own(backend: Backend, Plain { len, at, ad }: Plain) -> impl FnMut(usize) -> usize {
    let suite = Suite::AesGcm(Aes::Aes128);
    let (key, mac_key) = (Secret::new(vec![1; 16]), Secret::new(Vec::new()));
    let spec = KeySpec { suite, key, mac_key, place: Default::default() };
    let mut engine = Software::new(backend);
    let key = Engine::<Box<[u8]>>::install(&mut engine, &spec).expect("a key");
    let job = || {
        let buf = vec![0_u8; STRIDE + LINE].into_boxed_slice();
        let start = buf.as_ptr().align_offset(LINE) + 4 * LINE + at;
        // As the node has it: SPI and number beside the packet, a SecTAG in it.
        let ad = match ad {
            12 => Ad::Inline([0; 12]),
            _ => Ad::Span(Span::new(start - ad, ad)),
        };
        let (nonce, op, verdict, text) =
            ([0; 12], Op::Seal, Verdict::Pending, Span::new(start, len));
        Job { buf, key, ticket: 0, number: 0, nonce, op, verdict, ad, text }
    };
    let mut batches: Vec<Jobs<Box<[u8]>>> =
        (0..UNDER_WAY / BATCH).map(|_| std::iter::repeat_with(job).take(BATCH).collect()).collect();
    let mut number = 0_u64;
    move |packets| {
        let mut done = 0;
        while done < packets {
            let jobs = &mut batches[done / BATCH % (UNDER_WAY / BATCH)];
            for job in jobs.iter_mut() {
                number += 1;
                job.nonce[4..].copy_from_slice(&number.to_be_bytes());
                job.verdict = Verdict::Pending;
            }
            engine.run(jobs);
            done += jobs.len();
        }
        assert!(batches.iter().flatten().all(|job| job.verdict == Verdict::Done));
        done
    }
}

fn case<'a>(name: impl Into<String>, backend: Backend, config: &str, frame: &[u8]) -> Case<'a> {
    let mut rig = Rig::new(backend, config, "a", "b", frame);
    Case::measured(name, move |packets| rig.run(packets))
}

/// Intel's library, the operation alone.
fn bare_intel(peer: &RefCell<Peer>, Plain { len, ad, .. }: Plain) -> Case<'_> {
    let name = format!("bare AES-128-GCM, multi-buffer {}", peer.borrow().version);
    let order = move |packets: usize| format!("gcm128 seal {len} {ad} {packets}");
    Case::measured(name, move |packets| peer.borrow_mut().ask(&order(packets)))
}

/// The ratio to reach over a bare cipher.
#[derive(Clone, Copy)]
struct Goal {
    /// That of aws-lc.
    library: f64,
    /// That of our own, which takes a tenth of the library's time for small packets:
    /// there the ratio is shown, and the goal is one beside DPDK.
    ours: Option<f64>,
}

/// A path over aws-lc and over the kernels of this machine, each beside its bare
/// cipher, the last beside Intel's library, too.
fn against_bare(
    intel: Option<&RefCell<Peer>>,
    title: &str,
    plain: Plain,
    path: &dyn Fn(Backend) -> Case<'static>,
    goal: Goal,
) {
    let mut cases: Vec<Case<'_>> =
        vec![Case::new("bare AES-128-GCM, aws-lc-rs", bare_aws(plain)), path(Backend::Aws)];
    let ours = [Backend::Vaes512, Backend::Vaes256].map(Backend::name);
    if let Some(ours) = ours.into_iter().find_map(|name| Backend::forced(name).ok()) {
        let name = format!("bare AES-128-GCM, {}", ours.name());
        cases.push(Case::new(name, bare_own(ours, plain)));
        cases.push(path(ours));
    }
    cases.extend(intel.map(|peer| bare_intel(peer, plain)));
    interleave(&mut cases, PACKETS);
    heading(&format!("{title}: {} octets sealed, {} under the ICV beside", plain.len, plain.ad));
    let (pairs, intel) = cases.as_chunks::<2>();
    for ([bare, path], reach) in pairs.iter().zip([Some(goal.library), goal.ours]) {
        row(bare, None, None);
        row(path, Some(bare), reach);
    }
    // The goal is over the same backend; this is what others would take.
    if let (Some([_, path]), [intel]) = (pairs.last(), intel) {
        row(intel, None, None);
        row(path, Some(intel), None);
    }
}

fn encrypted(intel: Option<&RefCell<Peer>>, len: usize, goal: Goal) {
    // The plaintext of ESP has padding and trailer, too; the additional data are
    // SPI and extended number.
    let (config, frame) = (esp(), ethernet(0x0800, &ipv4(len)));
    let title = format!("ESP: whole graph over bare AEAD, inner IP length {len}");
    let plain = Plain { len: (len + 2).next_multiple_of(4), at: ETHERNET, ad: 12 };
    let path = |backend| case("ESP tunnel out, AES-GCM-128", backend, &config, &frame);
    against_bare(intel, &title, plain, &path, goal);
    // The addresses and the SecTAG, with an SCI, are not encrypted.
    let (config, frame) = (macsec(), bridged(len));
    let title = format!("MACsec: whole graph over bare AEAD, frame of {len} without FCS");
    let plain = Plain { len: len - ADDRESSES, at: ADDRESSES, ad: ADDRESSES + 16 };
    let path = |backend| case("bridge and MACsec out, GCM-AES-128", backend, &config, &frame);
    against_bare(intel, &title, plain, &path, goal);
}

/// Rounds beside DPDK, whose program starts anew in each.
const DPDK_ROUNDS: usize = 15;
/// Packets of such a round.
const DPDK_PACKETS: usize = 400_000;

/// The whole node beside what DPDK's program says the bare operation costs on the
/// same octets.
fn beside_dpdk(dpdk: &Dpdk, len: usize, reach: Option<f64>) {
    let sealed = (len + 2).next_multiple_of(4);
    let failed = |e| panic!("{e}");
    let bare = move |packets| dpdk.seal(sealed, packets).unwrap_or_else(failed);
    let (config, frame) = (esp(), ethernet(0x0800, &ipv4(len)));
    let mut cases = [
        Case::measured("DPDK crypto_aesni_gcm, the operation alone", bare),
        case("ESP tunnel out, AES-GCM-128, whole node", Backend::best(), &config, &frame),
    ];
    for round in 0..=DPDK_ROUNDS {
        cases.iter_mut().for_each(|case| case.round(DPDK_PACKETS, round > 0));
    }
    heading(&format!("ESP beside DPDK, inner IP length {len}: {sealed} octets sealed"));
    row(&cases[0], None, None);
    row(&cases[1], Some(&cases[0]), reach.map(|most| (100.0_f64 / most).ceil() / 100.0));
}

fn forwarding(len: usize) {
    let ip = ethernet(0x0800, &ipv4(len));
    let labelled = ethernet(0x8847, &[&[0x03, 0xe8, 0x01, 64][..], &ipv4(len)].concat());
    let route = |labels| {
        routed(&format!("[[route]]\nprefix = \"10.2.0.0/24\"\nvia = \"192.0.2.2\"\n{labels}"))
    };
    let swap = routed("[[label]]\nlabel = 16000\nswap = [17000]\nvia = \"192.0.2.2\"\n");
    let mut cases = [
        case("IPv4 forwarding", Backend::Aws, &route(""), &ip),
        case(
            "IPv4 into two labels (L3VPN ingress)",
            Backend::Aws,
            &route("labels = [16002, 1000]"),
            &ip,
        ),
        case("MPLS swap", Backend::Aws, &swap, &labelled),
        case("VPWS ingress, control word", Backend::Aws, &vpws(), &bridged(len)),
        case("bridge, two ports, known unicast", Backend::Aws, &bridge(1500, ""), &bridged(len)),
    ];
    interleave(&mut cases, PACKETS);
    heading(&format!("Forwarding without encryption, {len} octets (IP length, frame on layer 2)"));
    for case in &cases {
        row(case, None, None);
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` passes this; measuring is for `cargo bench`.
    if arguments.iter().any(|a| a == "--test") {
        return;
    }
    let wanted = |part: &str| {
        let mut names = arguments.iter().filter(|a| !a.starts_with('-')).peekable();
        names.peek().is_none() || names.any(|n| part.contains(n.as_str()))
    };
    peer::pin();
    let intel = match Peer::start("ipsec_mb", "IPSec_MB") {
        Ok(peer) => Some(RefCell::new(peer)),
        Err(why) => {
            println!("Intel's multi-buffer library is left out: {why}");
            None
        }
    };
    println!("Whole graph, memory to memory, one core, batches of {BATCH}.");
    println!("Median of {ROUNDS} interleaved rounds of {PACKETS} packets; clocks are the TSC's.");
    for (len, library, ours) in [(64, 0.5, None), (512, 0.5, None), (1420, 0.85, Some(0.85))] {
        if wanted(&format!("encrypted-{len}")) {
            encrypted(intel.as_ref(), len, Goal { library, ours });
        }
        let at_most = (len == 64).then_some(1.3);
        match Dpdk::find() {
            _ if !wanted(&format!("dpdk-{len}")) => {}
            Ok(dpdk) => beside_dpdk(&dpdk, len, at_most),
            Err(why) => println!("\nDPDK is left out: {why}"),
        }
        if wanted(&format!("forwarding-{len}")) {
            forwarding(len);
        }
    }
}
