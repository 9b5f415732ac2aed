//! The paths that are timed: small configurations, fed from memory.

use crate::memory::{FRAMES, Path};
use crate::profile::{ENTRIES, ROUTES};
use ferrule_base::{Instant, MacAddr, Rng, Secret};
use ferrule_dataplane::Tables;
use ferrule_node::{Config, made_mac};
use std::collections::HashSet;
use std::net::Ipv4Addr;

/// Lengths of the IP packets, or of the frames on layer 2.
const LENGTHS: [usize; 4] = [64, 256, 640, 1420];

/// Flows, or stations on layer 2, whose frames come in turn.
const FLOWS: usize = 512;

/// Peers whose MACsec frames are opened.
const PEERS: usize = 64;

/// Packets to one entry of a large table, in random order, before they come again.
const REPEATED: usize = 4;

const HERE: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

/// Every path with every length, and those through large tables of these sizes.
pub fn all(sizes: &[usize]) -> Vec<(String, Path)> {
    let mut paths = Vec::new();
    for &size in sizes {
        let [near, far] = gateways(size);
        let tunnels: Vec<_> = (0..size).map(network).collect();
        let frames = to_one_of(&tunnels, LENGTHS[0]);
        paths.extend([
            through(format!("IPv4, ESP sealed, {size} SAs"), std::slice::from_ref(&near), &frames),
            through(format!("IPv4, ESP opened, {size} SAs"), &[near, far], &frames),
        ]);
        let networks = networks(size * ROUTES);
        let routes = [routed("left", 1) + &many_routes(&networks)];
        paths.extend([LENGTHS[0], LENGTHS[2]].map(|len| {
            through(format!("IPv4, {} routes", networks.len()), &routes, &to_one_of(&networks, len))
        }));
        let entries = entries(size * ENTRIES);
        let name = format!("IPv4, {} entries in", entries.len());
        let listed = [listed(&router("left"), "lan", "in") + &list(&entries)];
        paths.extend(
            [LENGTHS[0], LENGTHS[2]]
                .map(|len| through(name.clone(), &listed, &permitted(&entries, len))),
        );
    }
    for len in LENGTHS {
        let ip: Vec<_> = (0..FLOWS).map(|flow| routed_frame(len, flow)).collect();
        let bridged: Vec<_> = (0..FLOWS).map(|flow| bridged_frame(len, flow)).collect();
        let sealing = secured("left0", 5, &["right"], 7);
        let left: Vec<String> = (0..PEERS).map(|n| format!("left{n}")).collect();
        let left: Vec<&str> = left.iter().map(|name| &**name).collect();
        let opened = left.iter().map(|name| secured(name, 5, &["right"], 7));
        let opened = opened.chain([secured("right", 7, &left, 5)]).collect();
        let [near, far] = gateways(1);
        let vpn = |labels| provider("left", 1) + &vpn_route(labels);
        let few = entries(FEW);
        let permitted = permitted(&few, len);
        let of_packets = |port, way| listed(&router("left"), port, way) + &list(&few);
        let of_frames = |port, way| listed(&bridge("left", 2), port, way) + &frame_list();
        let wire = |name, labels, inn, out| pseudowire(name, labels, [inn, out]);
        let cases = [
            ("bridge, known unicast", vec![bridge("left", 2)], &bridged),
            ("bridge, flooded to three ports", vec![bridge("left", 4)], &bridged),
            ("IPv4", vec![router("left")], &ip),
            ("bridge, MACsec sealed", vec![sealing], &bridged),
            ("bridge, MACsec opened", opened, &bridged),
            ("IPv4, ESP sealed", vec![near.clone()], &ip),
            ("IPv4, ESP opened", vec![near, far], &ip),
            ("IPv4, a list in", vec![of_packets("lan", "in")], &permitted),
            ("IPv4, a list out", vec![of_packets("wan", "out")], &permitted),
            ("IPv4, sources validated", vec![validating()], &ip),
            ("bridge, a list in", vec![of_frames("lan", "in")], &bridged),
            ("bridge, a list out", vec![of_frames("wan", "out")], &bridged),
            ("IPv4, passed by a policy", vec![router("left") + BYPASS], &ip),
            ("L3VPN ingress", vec![vpn("16002, 1000")], &ip),
            ("L3VPN egress", vec![vpn("1000"), provider("right", 2) + VPN_END], &ip),
            ("MPLS swap", vec![provider("left", 1) + &swapped_routes(), label_switch()], &ip),
            ("pseudowire ingress", vec![wire("left", "16002", 800, 801)], &bridged),
            (
                "pseudowire egress",
                vec![wire("left", "", 800, 801), wire("right", "", 801, 800)],
                &bridged,
            ),
        ];
        paths.extend(cases.map(|(name, configs, frames)| through(name, &configs, frames)));
    }
    paths
}

/// A named path through nodes of these configurations.
fn through(name: impl Into<String>, configs: &[String], frames: &[Vec<u8>]) -> (String, Path) {
    let parsed = configs.iter().map(|text| {
        let parsed = Config::parse("calibration", text, &mut key);
        parsed.unwrap_or_else(|e| panic!("a configuration of ours is wrong: {e}"))
    });
    (name.into(), Path::prepared(parsed.collect(), &known, frames.to_vec()))
}

/// Neighbours and stations that every node knows.
fn known(tables: &Tables) {
    for iface in 0..tables.ifaces.len() as u16 {
        tables.neighbours.set(iface, [192, 0, 2, 1].into(), made_mac("left", "wan"));
        tables.neighbours.set(iface, [20, 0, 0, 9].into(), HERE);
        for hop in 2..=9 {
            tables.neighbours.set(iface, [192, 0, 2, hop].into(), made_mac("right", "wan"));
        }
    }
    for bridge in &tables.bridges {
        // With two members the destination is known, with more it is flooded to.
        if let [_, last] = bridge.members[..] {
            for flow in 0..FLOWS {
                bridge.table.learn(0, station(flow), last, Instant::ZERO);
            }
        }
    }
}

/// Keys `gcm:N` and `sak:N`, of words N.
fn key(path: &str) -> Result<Secret, String> {
    let (kind, n) = path.split_once(':').ok_or("no such key")?;
    let n: u32 = n.parse().map_err(|_| "no such key")?;
    let cipher = format!("{n:08x}").repeat(4);
    let text = match kind {
        "gcm" => format!("cipher {cipher}\nsalt {n:08x}"),
        _ => format!("cipher {cipher}"),
    };
    Ok(Secret::new(text.into_bytes()))
}

fn ports(name: &str, ports: &[(&str, usize)]) -> String {
    let mut text = format!("[node]\nname = \"{name}\"\nlab = true\n");
    for (port, mtu) in ports {
        text += &format!("[[port]]\nname = \"{port}\"\ndriver = \"wire\"\nmtu = {mtu}\n");
    }
    text
}

fn bridge(name: &str, count: usize) -> String {
    let all = [("lan", 1600), ("wan", 1600), ("x", 1600), ("y", 1600)];
    let all = &all[..count.min(all.len())];
    let members: Vec<_> = all.iter().map(|(port, _)| format!("{{ port = \"{port}\" }}")).collect();
    let members = members.join(", ");
    format!("{}[[bridge]]\nname = \"br\"\nmember = [{members}]\n", ports(name, all))
}

/// A bridge that seals at its WAN port, and opens what its peers sealed, which comes in by
/// its first port on the right.
fn secured(name: &str, out: u8, peers: &[&str], inn: u8) -> String {
    let order = match name {
        "right" => [("wan", 1632), ("lan", 1600)],
        _ => [("lan", 1600), ("wan", 1632)],
    };
    let members = order.map(|(port, _)| format!("{{ port = \"{port}\" }}")).join(", ");
    let receive = |peer: &&str| {
        format!("{{ sci = \"{}/1\", key = \"sak:{inn}\", an = 0 }}", made_mac(peer, "wan"))
    };
    let receive: Vec<String> = peers.iter().map(receive).collect();
    format!(
        "{}[[bridge]]\nname = \"br\"\nmember = [{members}]\n[[macsec]]\nport = \"wan\"\n\
         sci = \"{}/1\"\ntransmit = [{{ key = \"sak:{out}\", an = 0 }}]\nreceive = [{}]\n",
        ports(name, &order),
        made_mac(name, "wan"),
        receive.join(", "),
    )
}

fn routed(name: &str, own: u8) -> String {
    let order = match own {
        1 => [("lan", 1600), ("wan", 1600)],
        _ => [("wan", 1600), ("lan", 1600)],
    };
    format!(
        "{}[[interface]]\nport = \"lan\"\naddress = [\"{own}0.0.0.1/24\"]\n\
         [[interface]]\nport = \"wan\"\naddress = [\"192.0.2.{own}/24\"]\n",
        ports(name, &order)
    )
}

fn router(name: &str) -> String {
    routed(name, 1) + "[[route]]\nprefix = \"20.0.0.0/8\"\nvia = \"192.0.2.2\"\n"
}

/// Two gateways and the tunnels between them: one, or one to each network behind the
/// right one.
fn gateways(tunnels: usize) -> [String; 2] {
    [("left", 1, 2), ("right", 2, 1)].map(|(name, own, other)| {
        let mut text = format!(
            "{}[[route]]\nprefix = \"{other}0.0.0.0/8\"\nvia = \"192.0.2.{other}\"\n\
             [[route]]\nprefix = \"{own}0.0.0.0/8\"\nvia = \"{own}0.0.0.9\"\n",
            routed(name, own),
        );
        for n in 0..tunnels {
            let right = if tunnels == 1 { "20.0.0.0/8".into() } else { prefix(network(n)) };
            let left = "10.0.0.0/8".to_owned();
            let (local, remote) = if own == 1 { (left, right) } else { (right, left) };
            // SPIs in no order, as peers choose them.
            let spi = |end: u8| (2 * n as u32 + u32::from(end)).wrapping_mul(0x9e37_79b1);
            let key = |end: u8| 2 * n + usize::from(end);
            text += &format!(
                "[[tunnel]]\nname = \"t{n}\"\nlocal = \"192.0.2.{own}\"\n\
                 remote = \"192.0.2.{other}\"\nsuite = \"aes-gcm-128\"\nmtu = 1500\n\
                 out = {{ spi = {}, key = \"gcm:{}\" }}\nin = {{ spi = {}, key = \"gcm:{}\" }}\n\
                 [[policy]]\ninterface = \"wan\"\naction = \"protect\"\ntunnel = \"t{n}\"\n\
                 local = \"{local}\"\nremote = \"{remote}\"\n",
                spi(other),
                key(own),
                spi(own),
                key(other),
            );
        }
        text
    })
}

/// A network's first address, and the length of its prefix.
type Network = (u32, u32);

/// The network behind the right node that a tunnel leads to.
fn network(tunnel: usize) -> Network {
    (0x1401_0000 + ((tunnel as u32) << 8), 24)
}

fn prefix((first, len): Network) -> String {
    format!("{}/{len}", Ipv4Addr::from(first))
}

/// Different networks all over the address space, the shorter their prefix the fewer.
fn networks(count: usize) -> Vec<Network> {
    let mut rng = Rng::new(count as u64);
    let any = move || {
        let len = 24 - rng.next_u64().trailing_zeros().min(8);
        let address = (20 << 24) + rng.below(100 << 24) as u32;
        (address & u32::MAX << (32 - len), len)
    };
    let mut seen = HashSet::new();
    std::iter::repeat_with(any).filter(|&network| seen.insert(network)).take(count).collect()
}

/// Routes to these networks by neighbours in turn.
fn many_routes(networks: &[Network]) -> String {
    let hops = ('2'..='9').cycle();
    let route = |(&network, hop)| {
        format!("[[route]]\nprefix = \"{}\"\nvia = \"192.0.2.{hop}\"\n", prefix(network))
    };
    networks.iter().zip(hops).map(route).collect()
}

/// Frames to hosts in these networks, in random order.
fn to_one_of(networks: &[Network], len: usize) -> Vec<Vec<u8>> {
    let mut rng = Rng::new(networks.len() as u64);
    (0..(REPEATED * networks.len()).next_multiple_of(FRAMES) as u32)
        .map(|n| {
            let (first, bits) = networks[rng.below(networks.len() as u64) as usize];
            let host = rng.next_u64() as u32 & u32::MAX >> bits;
            frame_to(len, 0x0a01_0000 | n & 0xffff, first | host)
        })
        .collect()
}

/// Entries of a list that is not large.
const FEW: usize = 120;
/// Flows that a list judges.
const LISTED_FLOWS: usize = 8192_usize.next_multiple_of(FRAMES);

/// Networks of both ends of an access list's entries, of mixed prefixes.
fn entries(count: usize) -> Vec<[Network; 2]> {
    let mut rng = Rng::new(count as u64);
    let mut network = |first: u32| {
        let len = [16, 20, 22, 24, 24, 24, 28, 32][rng.below(8) as usize];
        ((first << 24 | rng.below(1 << 24) as u32) & u32::MAX << (32 - len), len)
    };
    (0..count).map(|_| [10, 20].map(&mut network)).collect()
}

/// The list that permits what is between these networks.
fn list(entries: &[[Network; 2]]) -> String {
    let entry = |&[from, to]: &[Network; 2]| {
        let (from, to) = (prefix(from), prefix(to));
        format!(
            "{{ action = \"permit\", protocol = \"udp\", from = \"{from}\", to = \"{to}\" }},\n"
        )
    };
    let entries: String = entries.iter().map(entry).collect();
    format!("[[access-list]]\nname = \"list\"\nentry = [\n{entries}]\n")
}

/// The same for frames, of which it permits all but those of some addresses.
fn frame_list() -> String {
    let entry = |n| format!("{{ action = \"deny\", mac-from = \"02:00:5e:00:00:{n:02x}\" }},\n");
    let entries: String = (1..FEW).map(entry).collect();
    let all = "{ action = \"permit\", ethertype = 0x88b5 }";
    format!("[[access-list]]\nname = \"list\"\nentry = [\n{entries}{all}]\n")
}

/// A configuration with the list at an interface, or a bridge's member.
fn listed(config: &str, port: &str, way: &str) -> String {
    let interface = format!("[[interface]]\nport = \"{port}\"\n");
    let member = format!("{{ port = \"{port}\"");
    config.replacen(&interface, &format!("{interface}acl-{way} = \"list\"\n"), 1).replacen(
        &member,
        &format!("{member}, acl-{way} = \"list\""),
        1,
    )
}

/// Frames that the entries permit, in random order: each a flow of its own.
fn permitted(entries: &[[Network; 2]], len: usize) -> Vec<Vec<u8>> {
    let mut rng = Rng::new(entries.len() as u64);
    (0..LISTED_FLOWS)
        .map(|_| {
            let networks = entries[rng.below(entries.len() as u64) as usize];
            let [src, dst] =
                networks.map(|(first, bits)| first | rng.below(1 << (32 - bits)) as u32);
            frame_to(len, src, dst)
        })
        .collect()
}

/// A router that takes nothing from its LAN but what it would send there.
fn validating() -> String {
    let lan = "[[interface]]\nport = \"lan\"\n";
    let strict = format!("{lan}source-validation = \"strict\"\n");
    let back = "[[route]]\nprefix = \"10.0.0.0/8\"\nvia = \"10.0.0.9\"\n";
    router("left").replacen(lan, &strict, 1) + back
}

/// Policy that lets everything leave by the WAN port in clear.
const BYPASS: &str = "[[policy]]\ninterface = \"wan\"\naction = \"bypass\"\n";

/// The ports of the left node, or those of the right one, whose WAN port is the first.
fn in_order(name: &str, lan: usize) -> String {
    match name {
        "left" => ports(name, &[("lan", lan), ("wan", 1600)]),
        _ => ports(name, &[("wan", 1600), ("lan", lan)]),
    }
}

/// The WAN side of a label switch.
fn core(own: u8) -> String {
    format!("[[interface]]\nport = \"wan\"\nmpls = true\naddress = [\"192.0.2.{own}/24\"]\n")
}

/// A provider's edge with a customer in a VRF.
fn provider(name: &str, own: u8) -> String {
    let customer = format!("vrf = \"red\"\naddress = [\"{own}0.0.0.1/24\"]\n");
    format!("{}{}[[interface]]\nport = \"lan\"\n{customer}", in_order(name, 1600), core(own))
}

/// The customer's route through the provider.
fn vpn_route(labels: &str) -> String {
    format!(
        "[[route]]\nvrf = \"red\"\nprefix = \"20.0.0.0/8\"\nvia = \"192.0.2.2\"\n\
         labels = [{labels}]\n"
    )
}

/// The far end of the customer's route.
const VPN_END: &str = "[[label]]\nlabel = 1000\nvrf = \"red\"\n\
    [[route]]\nvrf = \"red\"\nprefix = \"20.0.0.0/8\"\nvia = \"20.0.0.9\"\n";

/// A route with a label of its own for each flow.
fn swapped_routes() -> String {
    let route = |flow| {
        let [high, low] = ends(flow);
        format!(
            "[[route]]\nvrf = \"red\"\nprefix = \"20.0.{high}.{low}/32\"\n\
             via = \"192.0.2.2\"\nlabels = [{}, 1000]\n",
            LABEL + flow
        )
    };
    (0..FLOWS).map(route).collect()
}

/// A label switch that swaps the labels of all flows.
fn label_switch() -> String {
    let label = |flow| {
        let label = LABEL + flow;
        format!("[[label]]\nlabel = {label}\nswap = [{}]\nvia = \"20.0.0.9\"\n", 2 * label)
    };
    let labels: String = (0..FLOWS).map(label).collect();
    format!(
        "{}{}[[interface]]\nport = \"lan\"\nmpls = true\naddress = [\"20.0.0.1/24\"]\n{labels}",
        in_order("right", 1600),
        core(2)
    )
}

/// The first of the labels that are swapped.
const LABEL: usize = 16_000;

/// A provider's edge with a pseudowire of these labels, in and out.
fn pseudowire(name: &str, labels: &str, [inn, out]: [u32; 2]) -> String {
    let (own, other) = if name == "left" { (1, 2) } else { (2, 1) };
    format!(
        "{}{}[[lsp]]\nname = \"far\"\nvia = \"192.0.2.{other}\"\nlabels = [{labels}]\n\
         [[pseudowire]]\nname = \"pw\"\nport = \"lan\"\nlsp = \"far\"\nlabel-in = {inn}\n\
         label-out = {out}\n",
        in_order(name, 1500),
        core(own)
    )
}

/// The station to which a frame of this flow goes.
fn station(flow: usize) -> MacAddr {
    let [.., high, low] = flow.to_be_bytes();
    MacAddr([2, 0, 0, 1, high, low])
}

/// A frame that a bridge carries.
fn bridged_frame(len: usize, flow: usize) -> Vec<u8> {
    let mut frame = [&station(flow).0[..], &HERE.0, &[0x88, 0xb5]].concat();
    frame.resize(len, 0);
    frame
}

/// The last two octets of both addresses of a flow.
fn ends(flow: usize) -> [u8; 2] {
    let [.., high, low] = (256 + flow).to_be_bytes();
    [high, low]
}

/// An IPv4 UDP packet of `len` octets to a network behind 20.0.0.9, in a frame to the
/// first node.
fn routed_frame(len: usize, flow: usize) -> Vec<u8> {
    let flow = 256 + flow as u32;
    frame_to(len, 10 << 24 | flow, 20 << 24 | flow)
}

fn frame_to(len: usize, src: u32, dst: u32) -> Vec<u8> {
    let mut p = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, 17, 0, 0];
    p.extend([src, dst].map(u32::to_be_bytes).as_flattened());
    p[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    let sum: u32 = p.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    p[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    p.extend([0, 7, 0, 9]);
    p.extend((len as u16 - 20).to_be_bytes());
    p.resize(len, 0);
    [&made_mac("left", "lan").0[..], &HERE.0, &[8, 0], &p].concat()
}
