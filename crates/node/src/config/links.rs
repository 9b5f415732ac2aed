//! Ports, interfaces, bridges, routes, labels and pseudowires.

use super::acl;
use super::names::{Connected, Names, empty_table, is_host, is_of_link, is_unicast};
use super::raw::{self, Number, Spanned, Text};
use super::read::{Reader, mask};
use super::{
    BridgeConfig, Config, Driver, InterfaceConfig, LabelAction, LabelConfig, MemberConfig,
    PortConfig, PseudowireConfig, RouteConfig, TapConfig, Via, VlanTag, XdpMode,
};
use ferrule_dataplane::macsec::SecyConfig;
use ferrule_dataplane::route::{SourceCheck, TtlModel};
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;

const CTAG: u16 = 0x8100;
const STAG: u16 = 0x88a8;

pub(super) fn ports(r: &mut Reader<'_>, file: &raw::File, config: &mut Config) {
    for port in file.port.iter().map(Spanned::get_ref) {
        r.ports.unique(&mut r.problems, &port.name);
        r.ports.push(port.name.get_ref());
        let workers = config.cores.len().max(1);
        let driver = driver(r, port, workers);
        device_of_its_own(r, port, &driver, &config.ports);
        if matches!(driver, Driver::Xdp { .. }) && !XDP_BUFFERS.contains(&config.buffer_size) {
            let span = port.driver.as_ref().map_or(port.name.span(), Spanned::span);
            let size = config.buffer_size;
            let what = format!("AF_XDP has buffers of 2048 or 4096 octets, not of {size}");
            let remedy = "another buffer-size in [node], or driver = \"af-packet\" here";
            r.problems.add(span, what, remedy);
        }
        let room = config.buffer_size.saturating_sub(ferrule_pipeline::HEAD_ROOM + 64) as i64;
        let mtu = r.number(port.mtu.as_ref(), 1500, 68..=9216, "mtu");
        if mtu > room {
            let span = port.mtu.as_ref().map_or(port.name.span(), Spanned::span);
            let remedy = format!("use at most {room}, or a larger buffer-size in [node]");
            r.problems.add(span, format!("frames of mtu {mtu} do not fit a buffer"), remedy);
        }
        let spread = (config.ports.len() % workers) as i64;
        let last = workers as i64 - 1;
        config.ports.push(PortConfig {
            name: port.name.get_ref().clone(),
            driver,
            mac: port.mac.as_ref().and_then(|t| {
                r.parse(
                    t,
                    "a MAC address",
                    "write it as 02:00:00:00:00:01, with an even first octet",
                )
            }),
            mtu: mtu as usize,
            worker: r.number(port.worker.as_ref(), spread, 0..=last, "worker") as usize,
        });
    }
}

/// Sizes of buffers with which AF_XDP works.
const XDP_BUFFERS: [usize; 2] = [2048, 4096];

/// Two ports of one device would both receive each frame. (With AF_XDP each may have a queue.)
fn device_of_its_own(r: &mut Reader<'_>, port: &raw::Port, driver: &Driver, others: &[PortConfig]) {
    let Some(device) = driver.device().filter(|device| !device.is_empty()) else { return };
    let queue = |driver: &Driver| match driver {
        Driver::Xdp { queue, every_worker: false, .. } => Some(*queue),
        _ => None,
    };
    let shares = |other: &&PortConfig| {
        let apart = queue(driver).zip(queue(&other.driver)).is_some_and(|(a, b)| a != b);
        other.driver.device() == Some(device) && !apart
    };
    if let Some(other) = others.iter().find(shares) {
        let span = port.device.as_ref().map_or(port.name.span(), Spanned::span);
        let what = format!("port `{}` has the device {device} already", other.name);
        r.problems.add(span, what, "give each port a device of its own, as `ip link` shows them");
    }
}

/// Addresses, and routes, of the host at a port at most.
const HOST_MAX: usize = 32;

/// An interface of the host, and what the host is to have there.
fn tap(r: &mut Reader<'_>, port: &raw::Port, device: String, workers: usize) -> TapConfig {
    let listed = |list: &Option<Vec<Text>>| list.iter().flatten().cloned().collect::<Vec<_>>();
    let addresses = listed(&port.host_address);
    let addresses: Vec<_> = addresses.iter().filter_map(|t| r.with_length(t)).collect();
    let routes = listed(&port.host_route);
    if let Some(surplus) =
        port.host_address.iter().chain(&port.host_route).flat_map(|l| l.get(HOST_MAX)).next()
    {
        let what = format!("more than {HOST_MAX} of the host's addresses or routes");
        r.problems.add(surplus.span(), what, "set the others by `ip`");
    }
    if let (Some(first), true) = (routes.first(), addresses.is_empty()) {
        let remedy = "add host-address = [\"ADDRESS/LEN\"], or set the route by hand";
        r.problems.add(first.span(), "a route of a host that has no address here", remedy);
    }
    TapConfig {
        device,
        addresses,
        routes: routes.iter().filter_map(|t| r.prefix(t)).collect(),
        offload: port.offload.unwrap_or(true),
        every_worker: port.every_worker.unwrap_or(false) && workers > 1,
    }
}

/// Keys that only ports of the host's stack know.
fn only_for_hosts(r: &mut Reader<'_>, port: &raw::Port) {
    let lists = [("host-address", &port.host_address), ("host-route", &port.host_route)];
    let mut wrong: Vec<_> =
        lists.iter().filter(|(_, list)| list.is_some()).map(|(name, _)| *name).collect();
    wrong.extend(port.offload.map(|_| "offload"));
    for name in wrong {
        let what =
            format!("port `{}` has {name}, which is for the host's own stack", port.name.get_ref());
        let remedy = format!("take {name} out, or set driver = \"tun\" (or \"tap\")");
        r.problems.add(port.name.span(), what, remedy);
    }
}

/// A port of one queue has one worker.
fn one_queue(r: &mut Reader<'_>, port: &raw::Port) {
    if port.every_worker.is_some() {
        let what = format!("port `{}` has every-worker, and one queue", port.name.get_ref());
        let remedy = "take every-worker out, or set driver = \"af-xdp\" (or \"tun\", \"tap\")";
        r.problems.add(port.name.span(), what, remedy);
    }
}

fn driver(r: &mut Reader<'_>, port: &raw::Port, workers: usize) -> Driver {
    let name = port.driver.as_ref().map_or("", |t| t.get_ref().as_str());
    if r.lab.is_some() || !matches!(name, "tap" | "tun") {
        only_for_hosts(r, port);
    }
    if r.lab.is_some() || !matches!(name, "" | "af-xdp" | "tap" | "tun") {
        one_queue(r, port);
    }
    if r.lab.is_some() {
        for t in [&port.driver, &port.device].into_iter().flatten() {
            let what = format!("port `{}` stands on a link of the topology", port.name.get_ref());
            r.problems.add(t.span(), what, "take driver and device out");
        }
        return Driver::Wire;
    }
    let name = port.driver.as_ref().map_or("af-xdp", |t| t.get_ref().as_str());
    let device = |r: &mut Reader<'_>| match &port.device {
        Some(d) if !d.get_ref().is_empty() && d.get_ref().len() < 16 => d.get_ref().clone(),
        Some(d) => {
            let what = format!("`{}` is no device name", d.get_ref());
            r.problems.add(d.span(), what, "device names have 1 to 15 characters");
            String::new()
        }
        None => {
            let what = format!("port `{}` has no device", port.name.get_ref());
            r.problems.add(port.name.span(), what, "add device = \"NAME\", as `ip link` shows it");
            String::new()
        }
    };
    match name {
        "af-xdp" => {
            let mode = port.mode.as_ref().and_then(|t| r.word(t, "XDP mode"));
            Driver::Xdp {
                device: device(r),
                queue: r.number(port.queue.as_ref(), 0, 0..=1023, "queue") as u32,
                every_worker: port.every_worker.unwrap_or(false) && workers > 1,
                mode: mode.unwrap_or(XdpMode::Auto),
            }
        }
        "af-packet" => Driver::Packet { device: device(r) },
        "tap" | "tun" => {
            let device = device(r);
            let tap = tap(r, port, device, workers);
            if name == "tun" { Driver::Tun(tap) } else { Driver::Tap(tap) }
        }
        "pcap" => Driver::Pcap {
            read: port.read.as_ref().map(|t| t.get_ref().clone()),
            write: port.write.as_ref().map(|t| t.get_ref().clone()),
        },
        _ => {
            if name != "wire"
                && let Some(t) = &port.driver
            {
                let names = ["af-xdp", "af-packet", "tap", "tun", "pcap", "wire"];
                r.choice(t, "driver", &names.map(|n| (n, ())));
            }
            Driver::Wire
        }
    }
}

pub(super) fn port_index(r: &mut Reader<'_>, t: &Text) -> Option<usize> {
    r.ports.find(&mut r.problems, t)
}

fn vlan(r: &mut Reader<'_>, n: Option<&Number>, tpid: u16) -> Option<VlanTag> {
    let n = n?;
    Some((tpid, r.number(Some(n), 1, 1..=4094, "a VLAN ID") as u16))
}

pub(super) fn interfaces(r: &mut Reader<'_>, file: &raw::File, config: &mut Config) {
    let usable = usable_mtus(file, config);
    let vrfs = vrf_lists(r, file, config);
    let mut taken = HashMap::new();
    for interface in file.interface.iter().map(Spanned::get_ref) {
        let Some(port) = port_index(r, &interface.port) else { continue };
        let tag = vlan(r, interface.vlan.as_ref(), CTAG).or(vlan(
            r,
            interface.service_vlan.as_ref(),
            STAG,
        ));
        let port_name = &config.ports[port].name;
        let name = match (&interface.name, tag) {
            (Some(name), _) => {
                r.interfaces.unique(&mut r.problems, name);
                name.get_ref().clone()
            }
            (None, Some((_, vid))) => format!("{port_name}.{vid}"),
            (None, None) => port_name.clone(),
        };
        let usable = usable[port];
        let mtu = r.number(interface.mtu.as_ref(), usable as i64, 68..=9216, "mtu") as usize;
        if mtu > usable {
            let span = interface.mtu.as_ref().map_or(interface.port.span(), Spanned::span);
            let what = format!("interface `{name}` has mtu {mtu}, its port carries {usable}");
            r.problems.add(
                span,
                what,
                format!("use at most {usable}, or a larger mtu at the port"),
            );
        }
        let vrf = vrf_index(r, interface.vrf.as_ref(), config);
        let addresses =
            addresses(r, interface, (&name, &config.ports[port].driver), vrf, &mut taken);
        let (of_vrf_in, of_vrf_out) =
            vrfs.get(vrf_name(&interface.vrf)).copied().unwrap_or_default();
        let acl_in = acl::packet_list(r, config, interface.acl_in.as_ref()).or(of_vrf_in);
        let acl_out = acl::packet_list(r, config, interface.acl_out.as_ref()).or(of_vrf_out);
        let modes = [("strict", SourceCheck::Strict), ("loose", SourceCheck::Loose)];
        let sources = interface.source_validation.as_ref();
        let sources = sources.and_then(|word| r.choice(word, "source validation", &modes));
        r.interfaces.push(&name);
        config.interfaces.push(InterfaceConfig {
            name,
            port,
            tag,
            untagged: interface.untagged.unwrap_or(tag.is_none()),
            addresses,
            vrf,
            mtu,
            mpls: interface.mpls.unwrap_or(false),
            clamp_mss: interface.clamp_mss.unwrap_or(false),
            sources,
            acl_in,
            acl_out,
        });
    }
}

/// Addresses of an interface. `taken` has the interface of each, by table.
fn addresses(
    r: &mut Reader<'_>,
    interface: &raw::Interface,
    (name, driver): (&str, &Driver),
    vrf: usize,
    taken: &mut HashMap<(usize, IpAddr), String>,
) -> Vec<(IpAddr, u8)> {
    let mut all = Vec::new();
    for t in interface.address.iter().flatten() {
        let Some((address, len)) = r.with_length(t) else { continue };
        if !is_host(address, len) {
            let what = format!("`{}` is no address of a host in its network", t.get_ref());
            let remedy = match address {
                IpAddr::V4(first) if is_unicast(address) && mask(address, len) == address => {
                    format!("write a host's: {}/{len}", Ipv4Addr::from(first.to_bits() + 1))
                }
                _ if is_unicast(address) => "write a host's, not the broadcast address".to_owned(),
                _ => "write a unicast one, as 192.0.2.1/24 or 2001:db8::1/64".to_owned(),
            };
            r.problems.add(t.span(), what, remedy);
        }
        if let Driver::Tun(host) | Driver::Tap(host) = driver
            && host.addresses.iter().any(|(of_host, _)| *of_host == address)
        {
            let what = format!("{address} is the host's own at this port (host-address)");
            r.problems.add(t.span(), what, "give the node another, or none");
        }
        match taken.entry((vrf, address)) {
            Entry::Occupied(other) if !is_of_link(address) => {
                let what = format!("interface `{}` has {address} already", other.get());
                let remedy = "give each interface of a routing table addresses of its own";
                r.problems.add(t.span(), what, remedy);
            }
            free => _ = free.or_insert_with(|| name.to_owned()),
        }
        all.push((address, len));
    }
    all
}

/// Access lists of all interfaces of a table that name none, by the table's name: in and out.
fn vrf_lists<'a>(
    r: &mut Reader<'_>,
    file: &'a raw::File,
    config: &Config,
) -> HashMap<&'a str, (Option<usize>, Option<usize>)> {
    let mut lists = HashMap::new();
    let used: BTreeSet<&str> = file.interface.iter().map(|i| vrf_name(&i.get_ref().vrf)).collect();
    for written in &file.vrf {
        let (span, vrf) = (written.span(), written.get_ref());
        let name = vrf_name(&vrf.name);
        let table = match name {
            "" => "the global routing table".to_owned(),
            name => format!("the routing table `{name}`"),
        };
        if !used.contains(name) {
            let span = vrf.name.as_ref().map_or(span.clone(), Spanned::span);
            empty_table(&mut r.problems, span, name, used.iter().copied());
        }
        let of = (
            acl::packet_list(r, config, vrf.acl_in.as_ref()),
            acl::packet_list(r, config, vrf.acl_out.as_ref()),
        );
        if lists.insert(name, of).is_some() {
            let what = format!("{table} is there twice");
            r.problems.add(span, what, "give its lists in one place");
        }
    }
    lists
}

fn vrf_name(name: &Option<Text>) -> &str {
    name.as_ref().map_or("", |name| name.get_ref().as_str())
}

/// The mtu of each port, less what its SecY adds to every frame.
pub(super) fn usable_mtus(file: &raw::File, config: &Config) -> Vec<usize> {
    let mut secys: HashMap<&str, &raw::Macsec> = HashMap::new();
    for secy in file.macsec.iter().map(Spanned::get_ref) {
        secys.entry(secy.port.get_ref()).or_insert(secy);
    }
    let usable = |port: &PortConfig| {
        let added =
            secys.get(port.name.as_str()).map_or(0, |m| SecyConfig::overhead(m.sends_sci()));
        port.mtu.saturating_sub(added)
    };
    config.ports.iter().map(usable).collect()
}

/// The index of the table of a route or label; complains if neither an interface is in it nor a
/// tunnel gives it packets.
fn table(
    r: &mut Reader<'_>,
    file: &raw::File,
    t: Option<&Text>,
    config: &mut Config,
) -> Option<usize> {
    let Some(name) = t.filter(|t| r.vrfs.get(t.get_ref()).is_none()) else {
        return Some(vrf_index(r, t, config));
    };
    let of_tunnels = file.tunnel.iter().filter_map(|tunnel| tunnel.get_ref().vrf.as_ref());
    let of_tunnels = of_tunnels.map(|vrf| vrf.get_ref().as_str());
    if of_tunnels.clone().any(|vrf| vrf == name.get_ref()) {
        return Some(vrf_index(r, t, config));
    }
    let names: BTreeSet<&str> = r.vrfs.iter().chain(of_tunnels).collect();
    empty_table(&mut r.problems, name.span(), name.get_ref(), names.into_iter());
    None
}

/// The index of a table; a table exists as soon as it is named.
fn vrf_index(r: &mut Reader<'_>, t: Option<&Text>, config: &mut Config) -> usize {
    let Some(t) = t else { return 0 };
    r.vrfs.get(t.get_ref()).unwrap_or_else(|| {
        config.vrfs.push(t.get_ref().clone());
        r.vrfs.push(t.get_ref());
        r.vrfs.len() - 1
    })
}

pub(super) fn bridges(r: &mut Reader<'_>, file: &raw::File, config: &mut Config) {
    let mut names = Names::new("bridge");
    for bridge in file.bridge.iter().map(Spanned::get_ref) {
        names.unique(&mut r.problems, &bridge.name);
        names.push(bridge.name.get_ref());
        let mut members = Vec::new();
        for member in bridge.member.iter().map(Spanned::get_ref) {
            let Some(port) = port_index(r, &member.port) else { continue };
            let access = vlan(r, member.access.as_ref(), CTAG).map(|(_, vid)| vid);
            let tag = vlan(r, member.vlan.as_ref(), CTAG);
            let acl_in = acl::frame_list(r, member.acl_in.as_ref());
            let acl_out = acl::frame_list(r, member.acl_out.as_ref());
            members.push(MemberConfig { port, tag, access, acl_in, acl_out });
        }
        config.bridges.push(BridgeConfig {
            name: bridge.name.get_ref().clone(),
            members,
            ageing_seconds: r.number(
                bridge.ageing_seconds.as_ref(),
                300,
                10..=1_000_000,
                "ageing-seconds",
            ) as u32,
            addresses: r.number(bridge.addresses.as_ref(), 8192, 16..=1 << 20, "addresses")
                as usize,
        });
    }
}

/// The way to a neighbour: the interface is named, or the one whose network has
/// the address.
pub(super) fn via(
    r: &mut Reader<'_>,
    connected: &Connected,
    next_hop: Option<&Text>,
    interface: Option<&Text>,
    vrf: Option<usize>,
) -> Option<Via> {
    let address = match next_hop {
        Some(t) => Some(r.address(t)?),
        None => None,
    };
    let index = match (interface, address) {
        (Some(t), _) => r.interfaces.find(&mut r.problems, t)?,
        (None, Some(address)) => {
            let Some(index) = connected.to(vrf, address) else {
                let span = next_hop.map_or(0..0, Spanned::span);
                unconnected(r, connected, span, vrf, address);
                return None;
            };
            index
        }
        (None, None) => return None,
    };
    if let (Some(t), Some(address)) = (next_hop, address)
        && let Some(is) = connected.no_neighbour(index, address)
    {
        let what = format!("{address} is no next hop: it is {is}");
        r.problems.add(t.span(), what, "name a neighbour's address");
        return None;
    }
    Some(Via::new(index, address))
}

/// Complains about a next hop on no network of the table that it has to be in.
fn unconnected(
    r: &mut Reader<'_>,
    connected: &Connected,
    span: Range<usize>,
    vrf: Option<usize>,
    address: IpAddr,
) {
    let Some(other) = vrf.and_then(|_| connected.to(None, address)) else {
        let what = format!("no interface has a network with {address} in it");
        r.problems.add(span, what, "correct it, or add interface = \"NAME\"");
        return;
    };
    let table = |vrf| match r.vrfs.name(vrf) {
        "" => "the global table".to_owned(),
        name => format!("table `{name}`"),
    };
    let (wanted, has) = (table(vrf.unwrap_or_default()), table(connected.table(other)));
    let what = format!("{address} is in {has}, and a route without labels stays in {wanted}");
    let name = r.interfaces.name(other);
    let remedy = format!("add labels = [LABEL], or interface = \"{name}\" to leave {wanted}");
    r.problems.add(span, what, remedy);
}

fn ttl(r: &mut Reader<'_>, t: Option<&Text>) -> TtlModel {
    let models = [("uniform", TtlModel::Uniform), ("pipe", TtlModel::Pipe)];
    t.and_then(|t| r.choice(t, "TTL model", &models)).unwrap_or_default()
}

/// Ways of the same cost are so many at most.
const PATHS_MAX: usize = ferrule_dataplane::link::PATHS_MAX;

/// True if an entry has ways that are written one by one beside one of its own, which it says.
fn has_both<T>(r: &mut Reader<'_>, written: Option<&Vec<Spanned<T>>>, own: bool) -> bool {
    let first = written.and_then(|paths| paths.first()).filter(|_| own);
    if let Some(first) = first {
        let remedy = "write all ways in paths, or one without paths";
        r.problems.add(first.span(), "paths beside a way of the entry's own", remedy);
    }
    first.is_some()
}

/// The ways that are written one by one, `read` as the entry's own would be; the first of
/// them has the others. Nothing if there are none.
fn paths<T>(
    r: &mut Reader<'_>,
    written: Option<&Vec<Spanned<T>>>,
    read: impl Fn(&mut Reader<'_>, &T) -> Option<Via>,
) -> Option<Via> {
    let written = written?;
    let first = written.first().map(Spanned::span)?;
    if written.len() > PATHS_MAX {
        let what = format!("{} ways of the same cost", written.len());
        r.problems.add(first, what, format!("use at most {PATHS_MAX}"));
    }
    let mut all = Vec::new();
    for path in written {
        let told = r.problems.0.len();
        let way = read(r, path.get_ref());
        if way.is_none() && r.problems.0.len() == told {
            let remedy = "add via = \"ADDRESS\" or interface = \"NAME\"";
            r.problems.add(path.span(), "a path that leads nowhere", remedy);
        }
        all.extend(way);
    }
    let mut all = all.into_iter();
    let first = all.next()?;
    Some(Via { others: all.collect(), ..first })
}

/// A path of a route or an LSP; one with labels leaves by the provider's network, whichever
/// table the route is in.
fn path(
    r: &mut Reader<'_>,
    connected: &Connected,
    path: &raw::Path,
    vrf: Option<usize>,
    (ttl, entropy): (TtlModel, bool),
) -> Option<Via> {
    let labels = r.labels(path.labels.as_ref());
    let within = vrf.filter(|_| labels.is_empty());
    let way = via(r, connected, path.via.as_ref(), path.interface.as_ref(), within)?;
    Some(Via { labels, ttl, entropy, ..way })
}

/// Refuses an entropy label where there is no label for it to stand below.
fn check_entropy(r: &mut Reader<'_>, span: Range<usize>, way: Option<&Via>) {
    if way.is_some_and(|way| way.paths().any(|path| path.entropy && path.labels.is_empty())) {
        let remedy = "add labels, or leave entropy-label out";
        r.problems.add(span, "an entropy label without a label above it", remedy);
    }
}

pub(super) fn routes(r: &mut Reader<'_>, file: &raw::File, config: &mut Config) {
    let connected = Connected::of(config);
    let mut taken = HashSet::new();
    for spanned in &file.route {
        let route = spanned.get_ref();
        let Some(prefix) = r.prefix(&route.prefix) else { continue };
        let labels = r.labels(route.labels.as_ref());
        let Some(vrf) = table(r, file, route.vrf.as_ref(), config) else { continue };
        // A labelled route leaves by the provider's network, whichever table it is in.
        let within = labels.is_empty().then_some(vrf);
        let kind = (ttl(r, route.ttl.as_ref()), route.entropy_label.unwrap_or(false));
        let discard = route.discard.unwrap_or(false);
        let own = route.via.is_some() || route.interface.is_some() || route.labels.is_some();
        if has_both(r, route.paths.as_ref(), own || discard) {
            continue;
        }
        let way = via(r, &connected, route.via.as_ref(), route.interface.as_ref(), within);
        let several = paths(r, route.paths.as_ref(), |r, written| {
            path(r, &connected, written, Some(vrf), kind)
        });
        let nowhere = !discard && route.via.is_none() && route.interface.is_none();
        if nowhere && route.paths.as_ref().is_none_or(Vec::is_empty) {
            r.problems.add(
                spanned.span(),
                "a route that leads nowhere",
                "add via = \"ADDRESS\", interface = \"NAME\", paths or discard = true",
            );
        }
        let (ttl, entropy) = kind;
        let way = way.map(|way| Via { labels, ttl, entropy, ..way }).or(several);
        let way = way.filter(|_| !discard);
        check_entropy(r, spanned.span(), way.as_ref());
        if !taken.insert((vrf, prefix)) {
            let what = format!("a second route to {}", route.prefix.get_ref());
            r.problems.add(route.prefix.span(), what, "keep one of them; paths has several ways");
        }
        config.routes.push(RouteConfig { vrf, prefix, via: way });
    }
}

pub(super) fn labels(r: &mut Reader<'_>, file: &raw::File, config: &mut Config) {
    let connected = Connected::of(config);
    let mut taken = HashSet::new();
    for spanned in &file.label {
        let entry = spanned.get_ref();
        let Some(label) = r.label(*entry.label.get_ref(), entry.label.span()) else { continue };
        let ttl = ttl(r, entry.ttl.as_ref());
        let swap = r.labels(entry.swap.as_ref());
        let pops = entry.pop.unwrap_or(false);
        let own = entry.via.is_some() || entry.interface.is_some() || entry.swap.is_some();
        if has_both(r, entry.paths.as_ref(), own || pops || entry.vrf.is_some()) {
            continue;
        }
        let told = r.problems.0.len();
        let way = via(r, &connected, entry.via.as_ref(), entry.interface.as_ref(), None);
        let unclear = |r: &mut Reader<'_>, span| {
            r.problems.add(
                span,
                format!("label {label}: what to do with it is not clear"),
                "give vrf = \"NAME\"; or via = \"ADDRESS\" with pop = true or swap = [LABEL]",
            );
        };
        let several = paths(r, entry.paths.as_ref(), |r, written| {
            let swap = r.labels(written.swap.as_ref());
            let way = via(r, &connected, written.via.as_ref(), written.interface.as_ref(), None)?;
            if written.pop.unwrap_or(false) != swap.is_empty() {
                unclear(r, spanned.span());
            }
            Some(Via { labels: swap, ttl, ..way })
        });
        let vrf = table(r, file, entry.vrf.as_ref(), config);
        if r.problems.0.len() > told {
            continue;
        }
        let action = match (&entry.vrf, way, several) {
            (Some(_), None, None) => LabelAction::Ip(vrf.unwrap_or_default()),
            (None, Some(way), _) if pops == swap.is_empty() => {
                LabelAction::Forward(Via { labels: swap, ttl, ..way })
            }
            (None, None, Some(way)) => LabelAction::Forward(way),
            _ => {
                unclear(r, spanned.span());
                continue;
            }
        };
        if !taken.insert(label) {
            let what = format!("incoming label {label} is defined twice");
            r.problems.add(entry.label.span(), what, "each label has one meaning");
        }
        config.labels.push(LabelConfig { label, action, ttl });
    }
}

/// The way of a label-switched path.
fn lsp_way(r: &mut Reader<'_>, connected: &Connected, spanned: &Spanned<raw::Lsp>) -> Option<Via> {
    let lsp = spanned.get_ref();
    let kind = (TtlModel::Uniform, lsp.entropy_label.unwrap_or(false));
    let labels = r.labels(lsp.labels.as_ref());
    let own = lsp.via.is_some() || lsp.interface.is_some() || lsp.labels.is_some();
    if has_both(r, lsp.paths.as_ref(), own) {
        return None;
    }
    let several =
        paths(r, lsp.paths.as_ref(), |r, written| path(r, connected, written, None, kind));
    if lsp.via.is_none() && lsp.paths.as_ref().is_none_or(Vec::is_empty) {
        let remedy = "add via = \"ADDRESS\", or paths";
        r.problems.add(spanned.span(), "a path that leads nowhere", remedy);
    }
    let way =
        match &lsp.via {
            Some(hop) => via(r, connected, Some(hop), lsp.interface.as_ref(), None)
                .map(|way| Via { labels, entropy: kind.1, ..way }),
            None => several,
        };
    check_entropy(r, spanned.span(), way.as_ref());
    way
}

pub(super) fn pseudowires(r: &mut Reader<'_>, file: &raw::File, config: &mut Config) {
    let connected = Connected::of(config);
    let mut names = Names::new("pseudowire");
    let lsps = file.lsp.iter().map(|l| l.get_ref().name.get_ref().as_str());
    let lsps = Names::of("lsp", lsps);
    let mut taken: HashSet<u32> = config.labels.iter().map(|l| l.label).collect();
    for pw in file.pseudowire.iter().map(Spanned::get_ref) {
        names.unique(&mut r.problems, &pw.name);
        let Some(port) = port_index(r, &pw.port) else { continue };
        let Some(lsp) = lsps.find(&mut r.problems, &pw.lsp) else { continue };
        let Some(way) = lsp_way(r, &connected, &file.lsp[lsp]) else { continue };
        let modes = [("raw", false), ("tagged", true)];
        let mode = pw.mode.as_ref().and_then(|t| r.choice(t, "pseudowire mode", &modes));
        let customer = vlan(r, pw.vlan.as_ref(), CTAG);
        let service = vlan(r, pw.tag.as_ref(), CTAG).or(customer).map_or(1, |(_, vid)| vid);
        let (tag, inner) = match vlan(r, pw.service_vlan.as_ref(), STAG) {
            Some(outer) => (Some(outer), customer),
            None => (customer, None),
        };
        let told = r.problems.0.len();
        let label_in = r.pseudowire_label(&pw.label_in, "label-in");
        if r.problems.0.len() == told && !taken.insert(label_in) {
            let what = format!("incoming label {label_in} is defined twice");
            r.problems.add(pw.label_in.span(), what, "each label has one meaning");
        }
        names.push(pw.name.get_ref());
        let acl_in = acl::frame_list(r, pw.acl_in.as_ref());
        let acl_out = acl::frame_list(r, pw.acl_out.as_ref());
        config.pseudowires.push(PseudowireConfig {
            name: pw.name.get_ref().clone(),
            port,
            tag,
            inner,
            label_in,
            label_out: r.pseudowire_label(&pw.label_out, "label-out"),
            via: way,
            control_word: pw.control_word.unwrap_or(true),
            sequencing: pw.sequencing.unwrap_or(false),
            tagged_mode: mode.unwrap_or(false).then_some(service),
            ttl: r.number(pw.ttl.as_ref(), 255, 1..=255, "ttl") as u8,
            acl_in,
            acl_out,
        });
    }
}

#[cfg(test)]
mod tests;
