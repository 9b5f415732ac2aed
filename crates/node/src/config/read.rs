//! From what is written to what is meant: the frame around [`links`](super::links)
//! and [`secure`](super::secure), and what both need.

use super::error::{Problem, Problems};
use super::keys::KeySource;
use super::names::{Names, unknown};
use super::raw::{self, Number, Spanned, Text};
use super::{
    Config, LogFormat, RESERVE, acl, cross, inline, ipsec, links, place, policy, secure, token,
};
use std::fmt::Display;
use std::net::IpAddr;
use std::ops::Range;
use std::str::FromStr;
use strum::VariantArray;

/// Packet buffers if nothing is said.
const BUFFERS: i64 = 8192;
/// Octets of a buffer if nothing is said: enough for an MTU of 1600 and all headers.
const BUFFER_SIZE: i64 = 2048;
/// Workers of a node at most.
pub(super) const WORKERS_MAX: i64 = 64;

/// Context of every function that reads a part of the configuration.
pub(super) struct Reader<'a> {
    pub problems: Problems,
    pub keys: &'a mut dyn KeySource,
    /// The name of a node of the laboratory: what it does not say about itself
    /// and its ports follows from that.
    pub lab: Option<&'a str>,
    pub ports: Names,
    pub interfaces: Names,
    pub vrfs: Names,
    pub lists: Names,
}

pub(super) fn config(
    file: &raw::File,
    keys: &mut dyn KeySource,
    lab: Option<&str>,
) -> Result<Config, Vec<Problem>> {
    let mut r = Reader {
        problems: Problems::default(),
        keys,
        lab,
        ports: Names::new("port"),
        interfaces: Names::new("interface"),
        vrfs: Names::of("vrf", [""].into_iter()),
        lists: Names::new("access list"),
    };
    let mut config = match &file.node {
        Some(n) => node(&mut r, n.span(), n.get_ref()),
        None => node(&mut r, 0..0, &raw::Node::default()),
    };
    links::ports(&mut r, file, &mut config);
    acl::lists(&mut r, file, &mut config);
    links::interfaces(&mut r, file, &mut config);
    links::bridges(&mut r, file, &mut config);
    links::routes(&mut r, file, &mut config);
    links::labels(&mut r, file, &mut config);
    links::pseudowires(&mut r, file, &mut config);
    config.look_aside = place::look_aside(&mut r, file);
    config.token = token::token(&mut r, file, config.lab);
    secure::macsec(&mut r, file, &mut config);
    ipsec::read_pairs(&mut r, file, &mut config);
    policy::policies(&mut r, file, &mut config);
    inline::tell_mtu(&mut config);
    if r.problems.0.is_empty() {
        cross::check(&mut r, file, &config);
        inline::check(&mut r, file, &config);
    }
    if r.problems.0.is_empty() { Ok(config) } else { Err(r.problems.0) }
}

fn node(r: &mut Reader<'_>, span: Range<usize>, n: &raw::Node) -> Config {
    if n.name.is_none() && r.lab.is_none() {
        r.problems.add(span, "the node has no name", "add name = \"NAME\" to [node]");
    }

    let workers = r.number(n.workers.as_ref(), 1, 1..=WORKERS_MAX, "workers") as usize;
    let cores = match &n.cores {
        Some(list) => {
            if n.workers.is_some() && list.get_ref().len() != workers {
                r.problems.add(
                    list.span(),
                    format!("{} cores for {workers} workers", list.get_ref().len()),
                    "give one core for each worker, or leave `workers` out",
                );
            }
            let of = |&c: &i64| usize::try_from(c).ok();
            list.get_ref().iter().map(of).collect()
        }
        None => vec![None; workers],
    };
    if cores.is_empty() {
        r.problems.add(0..0, "no worker", "give `cores` at least one core");
    }
    let text = |t: &Option<Text>| t.as_ref().map(|t| t.get_ref().clone());
    let (least, most) = (*RESERVE.start() as i64, *RESERVE.end() as i64);
    Config {
        name: text(&n.name).or(r.lab.map(str::to_owned)).unwrap_or_default(),
        cores,
        buffers: r.number(n.buffers.as_ref(), BUFFERS, 64..=1 << 24, "buffers") as usize,
        buffer_size: buffer_size(r, n.buffer_size.as_ref()),
        state: text(&n.state),
        reserve: r.number(n.reserve.as_ref(), most, least..=most, "reserve") as u64,
        control: text(&n.control),
        metrics: n.metrics.as_ref().and_then(|t| {
            r.parse(t, "an address and port", "write it as 127.0.0.1:9100 or [::1]:9100")
        }),
        user: text(&n.user),
        devices: n.devices.iter().flatten().map(|t| t.get_ref().clone()).collect(),
        monitors: text(&n.monitors),
        keying_ports: keying_ports(r, n.keying_ports.as_ref()),
        key_log: n.key_log.unwrap_or(false),
        log: log_format(r, n.log.as_ref()),
        lab: n.lab.unwrap_or(r.lab.is_some()),
        times: n.times.unwrap_or(false),
        ports: Vec::new(),
        interfaces: Vec::new(),
        bridges: Vec::new(),
        vrfs: vec![String::new()],
        routes: Vec::new(),
        labels: Vec::new(),
        pseudowires: Vec::new(),
        secys: Vec::new(),
        tunnels: Vec::new(),
        policies: Vec::new(),
        lists: Vec::new(),
        look_aside: None,
        token: None,
    }
}

/// Ports of keying programs at most: each is an entry of a card's policies.
const KEYING_PORTS_MAX: usize = 64;

fn keying_ports(r: &mut Reader<'_>, ports: Option<&Spanned<Vec<i64>>>) -> Vec<u16> {
    let Some(ports) = ports else { return Vec::new() };
    let port = |n: &i64| u16::try_from(*n).ok().filter(|&port| port != 0);
    let read: Option<Vec<u16>> = ports.get_ref().iter().map(port).collect();
    if read.is_none() {
        r.problems.add(ports.span(), "these are not UDP ports", "use 1 to 65535, as [500, 4500]");
    }
    if ports.get_ref().len() > KEYING_PORTS_MAX {
        let what = format!("{} keying-ports", ports.get_ref().len());
        r.problems.add(ports.span(), what, format!("{KEYING_PORTS_MAX} at most, as [500, 4500]"));
    }
    read.unwrap_or_default()
}

fn log_format(r: &mut Reader<'_>, log: Option<&Text>) -> LogFormat {
    let formats = [
        ("text", LogFormat::Text),
        ("json", LogFormat::Json),
        ("journal", LogFormat::Journal),
        ("none", LogFormat::None),
    ];
    log.and_then(|log| r.choice(log, "log", &formats)).unwrap_or_default()
}

fn buffer_size(r: &mut Reader<'_>, n: Option<&Number>) -> usize {
    let size = r.number(n, BUFFER_SIZE, 1024..=65_472, "buffer-size");
    if size % 64 != 0 {
        let span = n.map_or(0..0, Spanned::span);
        r.problems.add(span, "buffer-size is not a multiple of 64", "use 2048, 4096 or 16384");
    }
    size as usize
}

impl Reader<'_> {
    /// A number within a range, or the default.
    pub fn number(
        &mut self,
        n: Option<&Number>,
        default: i64,
        range: std::ops::RangeInclusive<i64>,
        what: &str,
    ) -> i64 {
        let Some(n) = n else { return default };
        let value = *n.get_ref();
        if range.contains(&value) {
            return value;
        }
        let remedy = format!("use a number from {} to {}", range.start(), range.end());
        self.problems.add(n.span(), format!("{what} cannot be {value}"), remedy);
        default
    }

    /// A value in its usual notation.
    pub fn parse<T: FromStr>(&mut self, t: &Text, what: &str, remedy: &str) -> Option<T>
    where
        T::Err: Display,
    {
        t.get_ref()
            .parse()
            .map_err(|_| {
                let what = format!("`{}` is not {what}", t.get_ref());
                self.problems.add(t.span(), what, remedy);
            })
            .ok()
    }

    /// An IP address.
    pub fn address(&mut self, t: &Text) -> Option<IpAddr> {
        self.parse(t, "an IP address", "write it as 192.0.2.1 or 2001:db8::1")
    }

    /// A network: the host bits must be zero.
    pub fn prefix(&mut self, t: &Text) -> Option<(IpAddr, u8)> {
        let (address, len) = self.with_length(t)?;
        let network = mask(address, len);
        if network != address {
            let what = format!("`{}` has bits set behind the prefix", t.get_ref());
            self.problems.add(t.span(), what, format!("write {network}/{len}"));
        }
        Some((network, len))
    }

    /// An address with the prefix length of its network.
    pub fn with_length(&mut self, t: &Text) -> Option<(IpAddr, u8)> {
        let parsed = t.get_ref().split_once('/').and_then(|(a, l)| {
            let address: IpAddr = a.parse().ok()?;
            let len: u8 = l.parse().ok()?;
            (len <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, len))
        });
        if parsed.is_none() {
            let what = format!("`{}` is not an address with a prefix length", t.get_ref());
            self.problems.add(t.span(), what, "write it as 192.0.2.0/24 or 2001:db8::/64");
        }
        parsed
    }

    /// One of a few words.
    pub fn choice<T: Copy>(&mut self, t: &Text, what: &str, choices: &[(&str, T)]) -> Option<T> {
        let found = choices.iter().find(|(name, _)| name == t.get_ref());
        if found.is_none() {
            unknown(&mut self.problems, t, what, choices.iter().map(|(name, _)| *name));
        }
        found.map(|&(_, v)| v)
    }

    /// The value that a word names.
    pub fn word<T>(&mut self, t: &Text, what: &str) -> Option<T>
    where
        T: Copy + VariantArray + Into<&'static str>,
    {
        let words: Vec<_> = T::VARIANTS.iter().map(|&value| (value.into(), value)).collect();
        self.choice(t, what, &words)
    }

    /// Labels, outermost first, each 16 to 2^20 - 1. In place of a wrong one is another, so that
    /// there are as many as are written.
    pub fn labels(&mut self, list: Option<&Spanned<Vec<i64>>>) -> Vec<u32> {
        let Some(list) = list else { return Vec::new() };
        let max = ferrule_dataplane::route::config::LABELS_MAX;
        if list.get_ref().len() > max {
            let what = format!("{} labels", list.get_ref().len());
            self.problems.add(list.span(), what, format!("push {max} at most"));
        }
        let label = |&label: &i64| self.label(label, list.span()).unwrap_or(16);
        list.get_ref().iter().map(label).collect()
    }

    /// The label of a pseudowire: what is below an explicit null is no frame.
    pub fn pseudowire_label(&mut self, n: &Number, what: &str) -> u32 {
        self.number(Some(n), 16, 16..=0xf_ffff, what) as u32
    }

    /// A label that may be on the wire: 16 and above, or an explicit null.
    pub fn label(&mut self, value: i64, span: Range<usize>) -> Option<u32> {
        if matches!(value, 0 | 2 | 16..=0xf_ffff) {
            return Some(value as u32);
        }
        let remedy = "use 16 to 1048575, or 0 (IPv4) or 2 (IPv6) for explicit null";
        self.problems.add(span, format!("{value} is no label to use here"), remedy);
        None
    }
}

/// The address with the bits behind the prefix cleared.
pub(crate) fn mask(address: IpAddr, len: u8) -> IpAddr {
    match address {
        IpAddr::V4(a) => {
            let bits = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
            IpAddr::V4((a.to_bits() & bits).into())
        }
        IpAddr::V6(a) => {
            let bits = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
            IpAddr::V6((a.to_bits() & bits).into())
        }
    }
}
