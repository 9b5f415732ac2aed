//! Cost of every path of a node, with mixed flows, lengths and SAs.
//!
//! A whole node, memory to memory, one worker on one core, TSC clocks a packet. Lengths
//! are those of the clear Ethernet frame without its FCS, as the node receives it or
//! (inbound) sends it; payload is random; every frame is written anew in whole for each
//! lap of 256, which is not counted. 512 flows in turn, unless a row says otherwise; with
//! one flow and with 8,192 beside it.
//!
//! ```text
//! cargo bench --bench path -- [PART ...] [--quick] [--stages] [--calibrate] [--rows=TEXT]
//! ```

use ferrule_base::Rng;
use ferrule_benches::bare::{self, Plain};
use ferrule_benches::dut::{Dut, Setting};
use ferrule_benches::networks::{self, End, HOPS, Listed, gateway, to_the_hub};
use ferrule_benches::rows::{Case, Effort, Row, Sealers, Shared, Source, measure, shared};
use ferrule_benches::traffic::{
    ETHERNET, Flow, Frames, Size, TO, backwards, bridged, flows, in_pseudowire, ipv4 as ipv4_frame,
    labelled, odd, station,
};
use ferrule_benches::{Case as Measured, interleave, peer, settle, tsc, workers as several};
use ferrule_crypto::Backend;
use ferrule_lab::calibrate::calibrate;
use ferrule_lab::profile::Profile;
use std::net::Ipv4Addr;

/// Frames of a case, if it has no more flows.
const FRAMES: usize = 8192;

/// A group of rows.
type Part = fn(Effort);

/// Names of the parts, and the functions that measure them.
const PARTS: [(&str, Part); 13] = [
    ("ipv4", ipv4),
    ("acl", acl),
    ("routes", routes),
    ("esp-out", esp_out),
    ("esp-in", esp_in),
    ("imix", imix),
    ("sas", sas),
    ("cbc", cbc),
    ("mpls", mpls),
    ("options", options),
    ("macsec", macsec),
    ("inflight", inflight),
    ("workers", workers),
];

fn node(config: &str) -> Shared {
    shared(Dut::new(config, &Setting { hops: &HOPS, ..Setting::default() }))
}

/// So many flows from 10.0.0.0/8 to 20.0.0.0/8.
fn clear(size: Size) -> impl Fn(usize) -> Frames {
    move |count| Frames::ipv4(FRAMES, size, flows(count))
}

fn ipv4(effort: Effort) {
    let router = node(&networks::router());
    let mut rows: Vec<Row> = [(64, 39.0, Some(20.0)), (512, 40.0, None), (1420, 41.0, None)]
        .map(|(len, vpp, reach)| {
            let frames = clear(Size::Of(len));
            Row::of(format!("IPv4 forwarding, {len} B"), Some(vpp), reach)
                .with_flows(|count| Case::new(&router, Source::Clear(frames(count))))
        })
        .into();
    rows.push(
        Row::of("IPv4 forwarding, IMIX", None, None)
            .with_flows(|count| Case::new(&router, Source::Clear(clear(Size::Imix)(count)))),
    );
    let some_odd = Frames::new(FRAMES, |i, rng| {
        let frame = small(i, 512, rng);
        if rng.one_in(100) { odd(rng, frame) } else { frame }
    });
    rows.push(
        Row::of("IPv4 forwarding, 64 B, one in a hundred odd", None, None)
            .with_own(Case::new(&router, Source::Clear(some_odd)).through(98)),
    );
    measure("IPv4", effort, &mut rows);
}

/// A flow that one of these entries has.
fn permitted(entries: &[Listed], rng: &mut Rng) -> Flow {
    let entry = entries[rng.below(entries.len() as u64) as usize];
    let mut host = |(first, len): (u32, u32)| {
        first | rng.next_u64() as u32 & u32::MAX.checked_shr(len).unwrap_or(0)
    };
    let (src, dst) = (host(entry.src), host(entry.dst));
    let port = rng.next_u64() as u16;
    let to = entry.to.unwrap_or(rng.next_u64() as u16);
    Flow { src: src.into(), dst: dst.into(), port, to }
}

fn acl(effort: Effort) {
    let mut rows = Vec::new();
    for count in [120, 10_000, 100_000] {
        let entries = Listed::all(count);
        let start = std::time::Instant::now();
        let listed = node(&networks::listed_router(&entries));
        println!("\n{count} entries were loaded in {:.2} s.", start.elapsed().as_secs_f64());
        let mut rng = Rng::new(90);
        let flows: Vec<Flow> = (0..FRAMES).map(|_| permitted(&entries, &mut rng)).collect();
        let frames = || Frames::ipv4(FRAMES, Size::Of(64), |i, _| flows[i]);
        for (name, router) in [("no list", node(&networks::router())), ("a list in", listed)] {
            let row = Row::of(format!("IPv4, 64 B, {name}, flows of {count} entries"), None, None);
            rows.push(row.with_own(Case::new(&router, Source::Clear(frames()))));
        }
    }
    let title = "Access lists, every packet another flow of 8,192 (to reach: 10, 35 and 70 clocks \
                 more than without a list)";
    measure(title, effort, &mut rows);
}

/// Flows and routes of the large table.
const ROUTES: usize = 100_000;

fn routes(effort: Effort) {
    let prefixes = networks::prefixes(ROUTES);
    let start = std::time::Instant::now();
    let router = node(&networks::large_router(&prefixes));
    println!("\n{ROUTES} routes were loaded in {:.1} s.", start.elapsed().as_secs_f64());
    let mut rng = Rng::new(5);
    let flows: Vec<Flow> = (0..ROUTES as u32).map(|n| to_one_of(&prefixes, n, &mut rng)).collect();
    let frames = |count: usize, of: usize| Frames::ipv4(count, Size::Of(64), |i, _| flows[i % of]);
    // So many that what the cases before have left of the table counts for little.
    let effort = Effort { packets: 32_768, warm: 16_384, ..effort };
    let all = Case::new(&router, Source::Clear(frames(ROUTES, ROUTES)));
    let mut rows = [Row::of("IPv4, 64 B, 100,000 flows in turn", None, Some(40.0))
        .with_flows(|count| Case::new(&router, Source::Clear(frames(FRAMES, count))))
        .with_own(all)];
    measure("IPv4, 100,000 routes, of lengths as in the Internet", effort, &mut rows);
}

/// A flow to a host of one of these networks.
fn to_one_of(prefixes: &[(Ipv4Addr, u8)], n: u32, rng: &mut Rng) -> Flow {
    let (network, len) = prefixes[rng.below(prefixes.len() as u64) as usize];
    let host = rng.next_u64() as u32 & u32::MAX >> len;
    Flow {
        src: (10 << 24 | n).into(),
        dst: (u32::from(network) | host).into(),
        port: rng.next_u64() as u16,
        to: TO,
    }
}

/// Names, lengths, and what VPP needs and what is to be reached for each.
type Sized = (&'static str, Size, Option<f64>, Option<f64>);

fn sizes(vpp: [f64; 3], reach: [f64; 3]) -> [Sized; 3] {
    std::array::from_fn(|n| {
        let (name, len) = [("64 B", 64), ("512 B", 512), ("1420 B", 1420)][n];
        (name, Size::Of(len), Some(vpp[n]), Some(reach[n]))
    })
}

fn sealing(hub: &Shared, what: &str, sizes: &[Sized]) -> Vec<Row> {
    let row = |&(name, size, vpp, reach): &Sized| {
        let frames = clear(size);
        Row::of(format!("{what}, {name}"), vpp, reach)
            .with_flows(|count| Case::new(hub, Source::Clear(frames(count))))
    };
    sizes.iter().map(row).collect()
}

/// Frames as the far ends' node sealed them.
fn sealed(far: &Shared, frames: Frames) -> Source {
    Source::Sealed(Sealers { nodes: vec![(far.clone(), frames)], way: to_the_hub })
}

fn opening([hub, far]: [&Shared; 2], what: &str, sizes: &[Sized]) -> Vec<Row> {
    let row = |&(name, size, vpp, reach): &Sized| {
        Row::of(format!("{what}, {name}"), vpp, reach).with_flows(|count| {
            let frames = Frames::ipv4(FRAMES, size, backwards(flows(count)));
            Case::new(hub, sealed(far, frames))
        })
    };
    sizes.iter().map(row).collect()
}

/// A hub that opens what comes in at port b.
fn receiver(config: &str) -> Shared {
    let setting = Setting { hops: &HOPS, ports: ["b", "a"], ..Setting::default() };
    shared(Dut::new(config, &setting))
}

const GCM: &str = "aes-gcm-128";

fn esp_out(effort: Effort) {
    let hub = node(&gateway(End::Hub, 1, GCM));
    let sizes = sizes([150.0, 201.0, 303.0], [65.0, 125.0, 225.0]);
    let mut rows = sealing(&hub, "ESP GCM-128 tunnel out, one SA", &sizes);
    measure("ESP out", effort, &mut rows);
}

fn esp_in(effort: Effort) {
    let hub = receiver(&gateway(End::Hub, 1, GCM));
    let far = node(&gateway(End::Far, 1, GCM));
    let sizes = sizes([164.0, 214.0, 316.0], [80.0, 140.0, 235.0]);
    let mut rows = opening([&hub, &far], "ESP GCM-128 tunnel in, window 1024", &sizes);
    measure("ESP in (VPP's without a replay window)", effort, &mut rows);
}

fn imix(effort: Effort) {
    let hub = node(&gateway(End::Hub, 1, GCM));
    let imix = |reach| [("IMIX", Size::Imix, None, Some(reach))];
    let mut rows = sealing(&hub, "ESP GCM-128 tunnel out", &imix(110.0));
    let hub = receiver(&gateway(End::Hub, 1, GCM));
    let far = node(&gateway(End::Far, 1, GCM));
    rows.extend(opening([&hub, &far], "ESP GCM-128 tunnel in", &imix(125.0)));
    measure("ESP, 64, 570 and 1420 B as 7:4:1 in one batch", effort, &mut rows);
}

/// Flows to the networks of so many tunnels, at random.
fn to_tunnels(tunnels: u32) -> impl Fn(usize, &mut Rng) -> Flow {
    move |i, rng| {
        let network = rng.below(tunnels.into()) as u32;
        Flow {
            src: (10 << 24 | i as u32).into(),
            dst: (20 << 24 | network << 8 | rng.below(256) as u32).into(),
            port: rng.next_u64() as u16,
            to: TO,
        }
    }
}

/// Frames to tunnels at random: more than there are tunnels.
const TO_TUNNELS: usize = 16_384;

fn sas(effort: Effort) {
    let counts = [(1000, "1,000", 110.0, 130.0), (10_000, "10,000", 180.0, 210.0)];
    let mut rows = Vec::new();
    for (tunnels, name, out, inn) in counts {
        let start = std::time::Instant::now();
        let hub = node(&gateway(End::Hub, tunnels, GCM));
        println!("\n{name} tunnels were loaded in {:.1} s.", start.elapsed().as_secs_f64());
        let size = Size::Of(64);
        let some = Frames::ipv4(TO_TUNNELS, size, to_tunnels(tunnels));
        let mut row = Row::of(format!("ESP GCM-128 out, 64 B, {name} SAs"), None, Some(out));
        row.flows[0] = Some(Case::new(&hub, Source::Clear(clear(size)(1))));
        rows.push(row.with_own(Case::new(&hub, Source::Clear(some))));
        let hub = receiver(&gateway(End::Hub, tunnels, GCM));
        let far = node(&gateway(End::Far, tunnels, GCM));
        let from = |count, flow: &dyn Fn(usize, &mut Rng) -> Flow| {
            let frames = Frames::ipv4(count, size, backwards(flow));
            Case::new(&hub, sealed(&far, frames))
        };
        let mut row = Row::of(format!("ESP GCM-128 in, 64 B, {name} SAs"), None, Some(inn));
        row.flows[0] = Some(from(FRAMES, &flows(1)));
        rows.push(row.with_own(from(TO_TUNNELS, &to_tunnels(tunnels))));
    }
    // Each SA has had a packet or two before it counts.
    let effort = Effort { packets: 16_384, warm: 24_576, ..effort };
    measure("ESP, many SAs, each packet of one at random", effort, &mut rows);
}

fn inflight(effort: Effort) {
    let setting = Setting { hops: &HOPS, under_way: 8192, ..Setting::default() };
    let hub = shared(Dut::new(&gateway(End::Hub, 1, GCM), &setting));
    let sizes = [("1420 B", Size::Of(1420), None, Some(350.0))];
    let mut rows = sealing(&hub, "ESP GCM-128 tunnel out", &sizes);
    measure("ESP out, 8,192 buffers under way", effort, &mut rows);
}

/// One row over frames that are made of clear ones.
fn made(
    node: &Shared,
    name: &str,
    [vpp, reach]: [f64; 2],
    frame: impl Fn(usize, usize, &mut Rng) -> Vec<u8>,
) -> Row {
    Row::of(name, Some(vpp), Some(reach)).with_flows(|count| {
        let frames = Frames::new(FRAMES, |i, rng| frame(i, count, rng));
        Case::new(node, Source::Clear(frames))
    })
}

/// The frame of a flow, 64 octets long.
fn small(i: usize, count: usize, rng: &mut Rng) -> Vec<u8> {
    let flow = flows(count)(i, rng);
    ipv4_frame(rng, flow, 64)
}

/// Labels, and stations on either side.
const LABELS: u32 = 512;

/// From one station to another: of `count` pairs.
fn between(behind: [u8; 2], i: usize, count: usize, rng: &mut Rng) -> Vec<u8> {
    let n = (i % count) as u32;
    let from = station(behind[0], n % LABELS);
    let to = station(behind[1], (n + n / LABELS) % LABELS);
    bridged(small(i, count, rng), from, to)
}

fn mpls(effort: Effort) {
    let from_core = |config: &str| receiver(config);
    let l3vpn = networks::l3vpn();
    let mut rows = [
        made(&node(&l3vpn), "L3VPN ingress, two labels, 64 B", [52.0, 26.0], small),
        made(&from_core(&l3vpn), "L3VPN egress, 64 B", [62.0, 31.0], |i, count, rng| {
            let flow = backwards(flows(count))(i, rng);
            labelled(&ipv4_frame(rng, flow, 64), &[1000])
        }),
        made(&node(&networks::switch(LABELS)), "MPLS swap, 512 labels, 64 B", [50.0, 25.0], {
            |i, count, rng| {
                let label = networks::LABEL + (i % count) as u32 % LABELS;
                labelled(&small(i, count, rng), &[label])
            }
        }),
        made(&node(&networks::vpws()), "VPWS ingress, control word, 64 B", [78.0, 30.0], {
            |i, count, rng| between([0, 1], i, count, rng)
        }),
        made(&from_core(&networks::vpws()), "VPWS egress, control word, 64 B", [46.0, 30.0], {
            |i, count, rng| in_pseudowire(&between([1, 0], i, count, rng), networks::PSEUDOWIRE)
        }),
    ];
    measure("MPLS (VPP's VPWS without a control word)", effort, &mut rows);
}

/// Optional features, each row beside that of the same path without them.
fn options(effort: Effort) {
    let clear = |config: &str, name: &str| {
        let (node, frames) = (node(config), clear(Size::Of(64)));
        let case = move |count| Case::new(&node, Source::Clear(frames(count)));
        Row::of(name, None, None).with_flows(case)
    };
    let swapped = |config: &str, name: &str| {
        let node = node(config);
        Row::of(name, None, None).with_flows(move |count| {
            let frames = Frames::new(FRAMES, |i, rng| {
                let label = networks::LABEL + (i % count) as u32 % LABELS;
                labelled(&small(i, count, rng), &[label])
            });
            Case::new(&node, Source::Clear(frames))
        })
    };
    let crossed = |config: &str, name: &str| {
        let node = node(config);
        Row::of(name, None, None).with_flows(move |count| {
            let frames = Frames::new(FRAMES, |i, rng| between([0, 1], i, count, rng));
            Case::new(&node, Source::Clear(frames))
        })
    };
    let (router, l3vpn, vpws) = (networks::router(), networks::l3vpn(), networks::vpws());
    let (switch, balancing) = (networks::switch(LABELS), networks::balancing_switch(LABELS));
    let mut rows = [
        clear(&router, "IPv4, 64 B"),
        clear(&networks::with_validation(&router), "IPv4, 64 B, sources validated"),
        clear(&networks::with_paths(&router), "IPv4, 64 B, eight paths"),
        clear(&l3vpn, "L3VPN ingress, 64 B"),
        clear(&networks::with_entropy(&l3vpn), "L3VPN ingress, 64 B, entropy label"),
        clear(&networks::with_paths(&l3vpn), "L3VPN ingress, 64 B, eight paths"),
        swapped(&switch, "MPLS swap, 64 B"),
        swapped(&balancing, "MPLS swap, 64 B, eight paths"),
        crossed(&vpws, "VPWS ingress, 64 B"),
        crossed(&networks::with_entropy(&vpws), "VPWS ingress, 64 B, entropy label"),
        crossed(&networks::with_paths(&vpws), "VPWS ingress, 64 B, eight paths"),
    ];
    measure("Options (to reach: 5 clocks more than without)", effort, &mut rows);
}

/// Peers on a secured link.
const PEERS: u32 = 64;

fn macsec(effort: Effort) {
    let stations = |behind: u8, member| -> Vec<_> {
        (0..LABELS).map(|n| (station(behind, n), member)).collect()
    };
    let bridge = |own, peers, ports, stations: &[_]| {
        let setting = Setting { ports, stations, ..Setting::default() };
        shared(Dut::new(&networks::secured_bridge(own, peers), &setting))
    };
    let behind_b = stations(1, 1);
    let out = bridge(PEERS, 0..PEERS, ["a", "b"], &behind_b);
    let inn = bridge(PEERS, 0..PEERS, ["b", "a"], &stations(1, 0));
    let peers: Vec<Shared> =
        (0..PEERS).map(|n| bridge(n, PEERS..PEERS + 1, ["a", "b"], &behind_b)).collect();
    let mut rows = [
        Row::of("bridge, MACsec out to 512 stations, 64 B", None, Some(50.0)).with_flows(|count| {
            let frames = Frames::new(FRAMES, |i, rng| between([0, 1], i, count, rng));
            Case::new(&out, Source::Clear(frames))
        }),
        Row::of("MACsec in from 64 peers, bridge, 64 B", None, Some(60.0)).with_flows(|count| {
            // Each peer has the flows of its number; one flow is of one peer.
            let peers = &peers[..count.min(peers.len())];
            let nodes = peers.iter().enumerate().map(|(n, peer)| {
                let frames = Frames::new(FRAMES / peers.len(), |i, rng| {
                    between([0, 1], i * peers.len() + n, count, rng)
                });
                (peer.clone(), frames)
            });
            Case::new(&inn, Source::Sealed(Sealers { nodes: nodes.collect(), way: |_| () }))
        }),
    ];
    measure("MACsec, GCM-AES-128, whole frame", effort, &mut rows);
}

fn cbc(effort: Effort) {
    let hub = node(&gateway(End::Hub, 1, "aes-cbc-128 hmac-sha1-96"));
    let sizes = sizes([284.0, 448.0, 774.0], [215.0, 400.0, 770.0]);
    let mut rows = sealing(&hub, "ESP CBC-SHA1 tunnel out", &sizes);
    measure("ESP with AES-128-CBC and HMAC-SHA1-96", effort, &mut rows);
}

/// Tunnels with an outbound SA for each worker.
fn with_more(config: String) -> String {
    let mut tunnels = 0..;
    let more = |line: &str| match line.starts_with("window = ") {
        true => format!("{line}\n{}{}\n", several::MORE, tunnels.next().unwrap_or(0)),
        false => format!("{line}\n"),
    };
    config.lines().map(more).collect()
}

/// Tunnels with one SA that all workers have.
fn shared_sa(config: String) -> String {
    config.replace("window = 1024", "window = 1024\nevery-worker = true\npeer-window = 0")
}

fn workers(effort: Effort) {
    let kinds = [
        ("IPv4, 512 flows", networks::router()),
        ("ESP GCM-128 out, 64 tunnels, handed over", gateway(End::Hub, 64, GCM)),
        ("ESP GCM-128 out, 64 tunnels, SAs for each", with_more(gateway(End::Hub, 64, GCM))),
        ("ESP GCM-128 out, one tunnel, handed over", gateway(End::Hub, 1, GCM)),
        ("ESP GCM-128 out, one tunnel, SAs for each", with_more(gateway(End::Hub, 1, GCM))),
        ("ESP GCM-128 out, one tunnel, numbers shared", shared_sa(gateway(End::Hub, 1, GCM))),
    ];
    let kinds: Vec<_> = kinds.into_iter().filter(|(name, _)| name.contains(effort.only)).collect();
    several::compare("Workers, 64 B", effort.rounds, &kinds);
}

/// Cost of the bare kernel on this machine, for scaling figures of other machines.
fn scale() {
    let backend = Backend::best();
    let plain = Plain { len: 64, at: ETHERNET, ad: 12 };
    let mut bare = [Measured::new(backend.name(), bare::own(backend, plain))];
    interleave(&mut bare, 8 * FRAMES);
    println!(
        "Scaled by: bare AES-128-GCM ({}), 64 octets sealed, {:.1} clocks a packet here.",
        bare[0].name,
        bare[0].clocks(),
    );
}

/// A profile of this machine, as `ferrule lab calibrate` makes it, but in clocks.
fn calibrated() -> &'static Profile {
    let done = calibrate("clocks", "here", &mut tsc, &mut |_, _| ());
    let fit = done.profile.fit;
    println!(
        "Calibrated by {} points, each within {} %, within {} % of the others alone.",
        fit.points, fit.error_percent, fit.leave_one_out_percent
    );
    for one in &done.observations {
        println!(
            "  {:<36} {:>5} octets {:>7.1} clocks, priced {:>7.1}, {:+5.1} %",
            one.path,
            one.octets,
            one.measured_ns(),
            one.priced_ns(&done.profile),
            one.error_percent(&done.profile)
        );
    }
    Box::leak(Box::new(done.profile))
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` passes this; measuring is for `cargo bench`.
    if arguments.iter().any(|a| a == "--test") {
        return;
    }
    let (options, names): (Vec<_>, Vec<_>) = arguments.iter().partition(|a| a.starts_with('-'));
    let quick = options.iter().any(|o| *o == "--quick");
    let stages = options.iter().any(|o| *o == "--stages");
    let rounds = if quick { 9 } else { 31 };
    for name in &names {
        let known = PARTS.map(|(part, _)| part);
        assert!(known.contains(&name.as_str()), "no part {name}: {}", known.join(", "));
    }
    peer::pin();
    settle();
    println!("Whole node, memory to memory, one worker, one core; TSC clocks a packet.");
    println!("Lengths are those of the clear Ethernet frame without its FCS; payload is random.");
    println!("The figure is that of 512 flows in turn, unless the row says otherwise;");
    println!("8192/1: clocks of 8,192 flows over those of one, at most 1.3 (`!`: more).");
    println!("Median of {rounds} interleaved rounds of 8,192 or more.");
    scale();
    let profile = options.iter().any(|o| *o == "--calibrate").then(calibrated);
    let only = options.iter().find_map(|o| o.strip_prefix("--rows=")).unwrap_or_default();
    let only: &str = only.to_owned().leak();
    let effort = Effort { rounds, packets: 8192, warm: 2048, stages, profile, only };
    for (name, part) in PARTS {
        if names.is_empty() || names.iter().any(|n| *n == name) {
            part(effort);
        }
    }
}
