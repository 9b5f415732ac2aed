//! Pairs of SAs: tunnels, and transport mode.
//!
//! ```toml
//!   [[tunnel]]                # tunnel mode; [[transport]] has the same keys but for
//!   name = "t"                # those marked *, which are about a new header
//!   local = "198.51.100.1"
//!   remote = "198.51.100.2"
//!   suite = "aes-gcm-128"
//!   esn = true
//!   window = 1024             # 0, or 32 up to 131072
//!   mtu = 1400                # of clear packets; left out: what fits
//!   learn-mtu = true          # from ICMP errors about sealed packets
//!   fragment = "after"        # * or "before": what is too long, and may be cut
//!   clamp-mss = false         # of TCP in it
//!   df = "copy"               # * or "set", "clear"
//!   dscp = 46                 # * left out: as inside
//!   ecn = "normal"            # * or "compatibility"
//!   ttl = 64                  # * or "copy"
//!   encapsulation = "udp"     # RFC 3948
//!   ports = [4500, 4500]      # ours, theirs
//!   keepalive-seconds = 20    # 0: none
//!   follow = false            # * the other end to where its packets come from
//!   tfc = "whole"             # or a number of octets; left out: no padding
//!   dummy = 0                 # packets in a second
//!   then = "u"                # the pair around this one
//!   protocol = "esp"          # or "ah", whose suite is a keyed hash or GMAC
//!   ah-align = 4              # AH over IPv4 is padded to this, or to 8
//!   every-worker = true       # seals with this SA, and then it has to be known:
//!   peer-window = 1024        # the replay window of the other end; 0: none
//!   also-out = [{ spi = 0x1002, key = "out.2.key" }]  # for more workers
//!   also-in = [{ spi = 0x1003, key = "in.2.key" }]
//!   keying = "file"           # or "external": a keying program gives the SAs, none is here
//!   [tunnel.out]              # lifetimes: `life`
//!   spi = 0x1000
//!   key = "out.key"
//!   [tunnel.in]
//!   spi = 0x1001
//!   key = "in.key"
//! ```

use super::life::lifetimes;
use super::names::{Names, Ways};
use super::raw::{self, Spanned, Text, WordOrNumber};
use super::read::Reader;
use super::token::Named;
use super::{Config, Placement, SaConfig, TunnelConfig, Via, inline};
use ferrule_base::Duration;
use ferrule_crypto::{KeySpec, Suite};
use ferrule_dataplane::ipsec::{
    Df, EcnOut, Encap, Fragment, Hops, Mode, Outside, Overhead, SaProtocol, Tfc, replay::WINDOW_MAX,
};
use ferrule_dataplane::sequence::WINDOW_EACH;
use ferrule_wire::{Dscp, udp};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::net::IpAddr;

/// Packets of the smallest window that the standards know.
const WINDOW_MIN: u32 = 32;

/// Seconds of silence after which a keepalive is sent (RFC 3948 section 4).
const KEEPALIVE: i64 = 20;

/// Every pair of the file, in the order in which [`Config`] has them.
pub(super) fn pairs(file: &raw::File) -> impl Iterator<Item = (&Spanned<raw::Tunnel>, Mode)> {
    let tunnels = file.tunnel.iter().map(|t| (t, Mode::Tunnel));
    tunnels.chain(file.transport.iter().map(|t| (t, Mode::Transport)))
}

/// Reads them; one that is inside another comes after that, whose mtu it needs.
pub(super) fn read_pairs(r: &mut Reader<'_>, file: &raw::File, config: &mut Config) {
    let all: Vec<_> = pairs(file).collect();
    let mut names = Names::new("tunnel or transport");
    for (pair, _) in &all {
        let name = &pair.get_ref().name;
        names.unique(&mut r.problems, name);
        names.push(name.get_ref());
    }
    let mut then = |(pair, _): &(&Spanned<raw::Tunnel>, Mode)| {
        let name = pair.get_ref().then.as_ref()?;
        names.find(&mut r.problems, name)
    };
    let outer: Vec<_> = all.iter().map(&mut then).collect();
    let ways = Ways::of(config);
    let mut tried = vec![false; all.len()];
    let mut found: Vec<Option<TunnelConfig>> = vec![None; all.len()];
    // Of those whose outer pair was tried, the first of the file comes next.
    let mut inner: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut ready = BinaryHeap::new();
    for (at, outer) in outer.iter().enumerate() {
        match outer {
            Some(outer) => inner.entry(*outer).or_default().push(at),
            None => ready.push(Reverse(at)),
        }
    }
    while let Some(Reverse(at)) = ready.pop() {
        tried[at] = true;
        ready.extend(inner.remove(&at).into_iter().flatten().map(Reverse));
        let around = outer[at].and_then(|outer| found[outer].clone().map(|pair| (outer, pair)));
        if outer[at].is_some() && around.is_none() {
            continue;
        }
        let (raw, mode) = all[at];
        found[at] = Pair { raw, mode, at, around }.read(r, config, &ways);
    }
    for (pair, _) in all.iter().zip(&tried).filter(|(_, tried)| !**tried).map(|(pair, _)| pair) {
        let what = format!("`{}` is inside itself by way of `then`", pair.get_ref().name.get_ref());
        let span = pair.get_ref().then.as_ref().map_or(pair.span(), Spanned::span);
        r.problems.add(span, what, "let the outermost pair have no `then`");
    }
    config.tunnels = found.into_iter().flatten().collect();
}

/// One of them as it is written.
struct Pair<'a> {
    raw: &'a Spanned<raw::Tunnel>,
    mode: Mode,
    at: usize,
    around: Option<(usize, TunnelConfig)>,
}

/// Both ends: two addresses of one family.
fn ends(r: &mut Reader<'_>, local: &Text, remote: &Text) -> Option<(IpAddr, IpAddr)> {
    let ends = (r.address(local)?, r.address(remote)?);
    if ends.0.is_ipv4() != ends.1.is_ipv4() {
        let remedy = "give both ends of one address family";
        r.problems.add(remote.span(), "the ends are of different families", remedy);
        return None;
    }
    if ends.0 == ends.1 {
        let what = format!("both ends are {}", ends.0);
        r.problems.add(remote.span(), what, "give the other gateway's address");
        return None;
    }
    Some(ends)
}

impl Pair<'_> {
    fn read(&self, r: &mut Reader<'_>, config: &Config, ways: &Ways<'_>) -> Option<TunnelConfig> {
        let raw = self.raw.get_ref();
        let (local, remote) = ends(r, &raw.local, &raw.remote)?;
        let protocols = [("esp", SaProtocol::Esp), ("ah", SaProtocol::Ah)];
        let protocol = match &raw.protocol {
            Some(t) => r.choice(t, "protocol", &protocols)?,
            None => SaProtocol::Esp,
        };
        let suite = r.choice(&raw.suite, "suite", &suites(protocol))?;
        let encap = self.encap(r);
        let ah_align = self.ah_align(r, protocol)?;
        let via = match &self.around {
            Some((_, around)) => around.via.clone(),
            None => way_to(r, ways, &raw.local, (local, remote), self.mode)?,
        };
        let path = match &self.around {
            Some((_, around)) => around.mtu,
            None => via.mtu(&config.interfaces),
        };
        let (mode, v6, udp) = (self.mode, local.is_ipv6(), encap.is_some());
        let fits = Overhead { protocol, suite, mode, v6, udp, ah_align }.fits(path).max(68);
        let mtu = r.number(raw.mtu.as_ref(), fits as i64, 68..=65_535, "mtu") as usize;
        if mtu > fits {
            let span = raw.mtu.as_ref().map_or(self.raw.span(), Spanned::span);
            let what = format!("inner packets of {mtu} octets do not fit the path with {suite}");
            r.problems.add(span, what, format!("use at most {fits}, or leave mtu out"));
        }
        let placement = r.placement(raw.placement.as_ref(), config);
        r.suite_at(&raw.suite, suite, placement, config).then_some(())?;
        let external = self.is_external(r, suite, placement)?;
        let mut sa = |s: &Spanned<raw::Sa>| sa(r, config, s.get_ref(), suite, placement);
        let outbound: Option<Vec<SaConfig>> = raw.all_out().map(&mut sa).collect();
        let inbound: Option<Vec<SaConfig>> = raw.all_in().map(&mut sa).collect();
        let mut pair = TunnelConfig {
            name: raw.name.get_ref().clone(),
            local,
            remote,
            suite,
            esn: raw.esn.unwrap_or(true),
            window: self.window(r, config),
            mtu,
            protocol,
            mode: self.mode,
            learns: raw.learn_mtu.as_ref().is_none_or(|learns| *learns.get_ref()),
            fragment: self.fragment(r),
            clamp_mss: raw.clamp_mss.as_ref().is_some_and(|clamp| *clamp.get_ref()),
            outside: self.outside(r),
            encap,
            follows: self.follows(r),
            tfc: self.tfc(r),
            dummies: r.number(raw.dummy.as_ref(), 0, 0..=1000, "dummy") as u32,
            ah_align,
            then: self.around.as_ref().map(|(outer, _)| *outer),
            vrf: self.vrf(r),
            placement,
            via,
            shared: self.shared(r, placement, config.cores.len()),
            home: self.at % config.cores.len().max(1),
            external,
            outbound: outbound?,
            inbound: inbound?,
        };
        self.settle(r, &mut pair, config.cores.len());
        Some(pair)
    }

    /// True if a keying program gives the SAs: then the file has none, and otherwise both.
    fn is_external(&self, r: &mut Reader<'_>, suite: Suite, placement: Placement) -> Option<bool> {
        let raw = self.raw.get_ref();
        let external = match &raw.keying {
            Some(word) => r.choice(word, "keying", &[("file", false), ("external", true)])?,
            None => false,
        };
        self.fits_around(r);
        if !external {
            for (key, sa) in [("in", &raw.inbound), ("out", &raw.outbound)] {
                if sa.is_none() {
                    let what = format!("`{}` has no SA `{key}`", raw.name.get_ref());
                    let remedy = format!(
                        "add {key} = {{ spi = NUMBER, key = \"FILE\" }}, or keying = \"external\" \
                         if a keying program gives the SAs"
                    );
                    r.problems.add(self.raw.span(), what, remedy);
                }
            }
            return (raw.inbound.is_some() && raw.outbound.is_some()).then_some(false);
        }
        for sa in raw.all_in().chain(raw.all_out()) {
            let what = "an SA of the file, with `keying = \"external\"`";
            r.problems.add(sa.span(), what, "take it out, or take keying out");
        }
        let span = raw.placement.as_ref().map_or(self.raw.span(), Spanned::span);
        if placement == Placement::Token {
            let what = format!("`keying = \"external\"` with placement {}", placement.name());
            let remedy = "use another placement: a token has its keys already";
            r.problems.add(span, what, remedy);
        }
        if suite.esp_salt_len() > 0 && suite.esp_iv_len() == 0 {
            let what = format!("`keying = \"external\"` with {suite}, whose IVs are the numbers");
            let remedy = "use the suite with an IV in each packet: a key may come again";
            r.problems.add(raw.suite.span(), what, remedy);
        }
        if let Some(every) = &raw.every_worker {
            let what = "`every-worker` with `keying = \"external\"`";
            let remedy = "take it out: the keying program gives each worker an SA of its own";
            r.problems.add(every.span(), what, remedy);
        }
        Some(true)
    }

    /// A packet of a pair inside another has a number: it cannot wait for an SA around it.
    fn fits_around(&self, r: &mut Reader<'_>) {
        let around = self.around.as_ref().filter(|(_, around)| around.external);
        if let (Some((_, around)), Some(then)) = (around, &self.raw.get_ref().then) {
            let what =
                format!("`{}` is around another pair, and its keys are external", around.name);
            r.problems.add(then.span(), what, "give the pair around it keys in the file");
        }
    }

    /// The replay window for which every worker seals with one SA.
    fn shared(&self, r: &mut Reader<'_>, placement: Placement, workers: usize) -> Option<u32> {
        let raw = self.raw.get_ref();
        let window = raw.peer_window.as_ref();
        let Some(every) = raw.every_worker.as_ref().filter(|every| *every.get_ref()) else {
            if let Some(n) = window {
                let remedy = "add every-worker = true, or take it out";
                r.problems.add(n.span(), "`peer-window` without `every-worker`", remedy);
            }
            return None;
        };
        let mut wrong = |span, what: &str, remedy: String| r.problems.add(span, what, remedy);
        if let Some(also) = raw.also_out.first() {
            let what = "`also-out` and `every-worker`";
            wrong(also.span(), what, "keep one of both: also-out needs no wide window".into());
        }
        if placement == Placement::Token {
            let what = "`every-worker` with a key on a token, which works ahead number by number";
            wrong(every.span(), what, "use also-out, or place it in software".into());
        }
        let Some(window) = window else {
            let what = "`every-worker` without `peer-window`";
            let remedy = "add peer-window = PACKETS, the replay window of the other end (0: it \
                          has none): numbers of several workers are not in order";
            wrong(every.span(), what, remedy.into());
            return None;
        };
        let span = window.span();
        let window = r.number(Some(window), 0, 0..=i64::from(u32::MAX), "peer-window") as u32;
        let least = WINDOW_EACH * workers as u32;
        if workers > 1 && (1..least).contains(&window) {
            let what = format!("a window of {window} would lose packets of {workers} workers");
            let remedy = format!("give the other end {least} or more, or use also-out here");
            r.problems.add(span, what, remedy);
        }
        (workers > 1).then_some(window)
    }

    /// Gives its SAs to workers; outbound ones are one for each at most.
    fn settle(&self, r: &mut Reader<'_>, pair: &mut TunnelConfig, workers: usize) {
        pair.spread(workers);
        self.fits_card(r, pair);
        let mut seen = HashSet::new();
        for (raw, sa) in self.raw.get_ref().all_out().zip(&pair.outbound) {
            if seen.insert(sa.worker) {
                continue;
            }
            let (span, what, remedy) = match &raw.get_ref().worker {
                Some(worker) => (
                    worker.span(),
                    format!("worker {} has an outbound SA of `{}` already", sa.worker, pair.name),
                    "give each outbound SA of a tunnel a worker of its own",
                ),
                None => (
                    raw.span(),
                    format!("`{}` has more outbound SAs than {workers} workers", pair.name),
                    "take it out, or raise `workers` in [node]",
                ),
            };
            r.problems.add(span, what, remedy);
        }
    }

    /// Octets to a multiple of which AH is padded. Reports keys that only ESP or only AH has.
    fn ah_align(&self, r: &mut Reader<'_>, protocol: SaProtocol) -> Option<u8> {
        let raw = self.raw.get_ref();
        let align = r.number(raw.ah_align.as_ref(), 4, 4..=8, "ah-align") as u8;
        if protocol == SaProtocol::Esp {
            if let Some(n) = &raw.ah_align {
                r.problems.add(n.span(), "`ah-align` without AH", "add protocol = \"ah\"");
            }
            return Some(4);
        }
        if !matches!(align, 4 | 8) {
            let span = raw.ah_align.as_ref().map_or(self.raw.span(), Spanned::span);
            r.problems.add(span, format!("AH is not padded to {align}"), "use 4 or 8");
        }
        let only_esp = [
            ("encapsulation", raw.encapsulation.as_ref().map(Spanned::span)),
            ("tfc", raw.tfc.as_ref().map(Spanned::span)),
            ("dummy", raw.dummy.as_ref().map(Spanned::span)),
        ];
        for (key, span) in only_esp {
            let Some(span) = span else { continue };
            let remedy = "take it out: AH has an ICV and nothing else";
            r.problems.add(span, format!("`{key}` with AH"), remedy);
        }
        Some(align)
    }

    fn encap(&self, r: &mut Reader<'_>) -> Option<Encap> {
        let raw = self.raw.get_ref();
        let Some(text) = &raw.encapsulation else {
            let only = raw.ports.as_ref().map(Spanned::span);
            if let Some(span) = only.or(raw.keepalive_seconds.as_ref().map(Spanned::span)) {
                let remedy = "add encapsulation = \"udp\", or take it out";
                r.problems.add(span, "this is about ESP in UDP, which is not asked for", remedy);
            }
            return None;
        };
        r.choice(text, "encapsulation", &[("udp", ())])?;
        let [local, remote] = match &raw.ports {
            None => [udp::PORT_ESP; 2],
            Some(list) => {
                let port = |n: &i64| u16::try_from(*n).ok().filter(|&port| port != 0);
                let ports: Option<Vec<u16>> = list.get_ref().iter().map(port).collect();
                match ports.and_then(|ports| <[u16; 2]>::try_from(ports).ok()) {
                    Some(ports) => ports,
                    None => {
                        let remedy = "write ports = [OURS, THEIRS], each 1 to 65535";
                        r.problems.add(list.span(), "these are not two ports", remedy);
                        return None;
                    }
                }
            }
        };
        let seconds = raw.keepalive_seconds.as_ref();
        let seconds = r.number(seconds, KEEPALIVE, 0..=3600, "keepalive-seconds") as u64;
        let keepalive = (seconds != 0).then(|| Duration::from_secs(seconds));
        Some(Encap { local, remote, keepalive })
    }

    /// True if the other end is followed. In transport mode it is the host of the selectors, and
    /// without UDP no address translation is expected to change.
    fn follows(&self, r: &mut Reader<'_>) -> bool {
        let raw = self.raw.get_ref();
        let Some(follow) = raw.follow.as_ref().filter(|follow| *follow.get_ref()) else {
            return false;
        };
        let mut wrong = |what: &str, remedy: &str| r.problems.add(follow.span(), what, remedy);
        if self.mode == Mode::Transport {
            wrong("`follow` in transport mode, whose ends are the hosts", "take it out");
        } else if raw.encapsulation.is_none() {
            wrong("`follow` without ESP in UDP", "add encapsulation = \"udp\", or take it out");
        } else if self.around.is_some() {
            wrong("`follow` of a pair inside another", "let the pair around it follow");
        }
        true
    }

    /// The replay window: the standards know none of fewer than 32 packets (RFC 4303
    /// section 3.4.3, RFC 4302 section 3.4.3). A laboratory may try one.
    fn window(&self, r: &mut Reader<'_>, config: &Config) -> u32 {
        let raw = self.raw.get_ref().window.as_ref();
        let window = r.number(raw, 1024, 0..=WINDOW_MAX.into(), "window") as u32;
        if (1..WINDOW_MIN).contains(&window)
            && !config.lab
            && let Some(raw) = raw
        {
            let what = format!("a window of {window} is smaller than any that is allowed");
            let remedy = format!("use {WINDOW_MIN} or more, or 0 for no replay protection at all");
            r.problems.add(raw.span(), what, remedy);
        }
        window
    }

    fn fragment(&self, r: &mut Reader<'_>) -> Fragment {
        let Some(text) = &self.raw.get_ref().fragment else { return Fragment::After };
        let ways = [("after", Fragment::After), ("before", Fragment::Before)];
        let way = r.choice(text, "time to fragment", &ways).unwrap_or_default();
        let inline = self.raw.get_ref().placement.as_ref().is_some_and(|p| p.get_ref() == "inline");
        if way == Fragment::Before && self.mode == Mode::Transport {
            let what = "fragments in transport mode, which has whole datagrams";
            r.problems.add(text.span(), what, "write \"after\", or leave it out");
            return Fragment::After;
        }
        // The node cuts what a card is to seal: nothing that is too long comes there.
        if inline { Fragment::After } else { way }
    }

    fn tfc(&self, r: &mut Reader<'_>) -> Tfc {
        let Some(value) = &self.raw.get_ref().tfc else { return Tfc::Off };
        match value.get_ref() {
            WordOrNumber::Word(word) if word == "whole" => Tfc::Whole,
            WordOrNumber::Word(word) if word == "off" => Tfc::Off,
            &WordOrNumber::Number(n) if (1..=65_535).contains(&n) => Tfc::Multiple(n as u16),
            _ => {
                let remedy = "use \"whole\", or the number of octets to pad to a multiple of";
                r.problems.add(value.span(), "this is no padding", remedy);
                Tfc::Off
            }
        }
    }

    /// Options for a tunnel's outer header; in transport mode they are faults.
    fn outside(&self, r: &mut Reader<'_>) -> Outside {
        let raw = self.raw.get_ref();
        if self.mode == Mode::Transport {
            let said = [
                ("copy-df", raw.copy_df.as_ref().map(Spanned::span)),
                ("df", raw.df.as_ref().map(Spanned::span)),
                ("dscp", raw.dscp.as_ref().map(Spanned::span)),
                ("ecn", raw.ecn.as_ref().map(Spanned::span)),
                ("ttl", raw.ttl.as_ref().map(Spanned::span)),
            ];
            for (key, span) in said {
                let Some(span) = span else { continue };
                let what = format!("`{key}` in transport mode, which makes no header");
                r.problems.add(span, what, "take it out: the packet keeps its own header");
            }
            return Outside::default();
        }
        if let (Some(df), Some(_)) = (&raw.df, &raw.copy_df) {
            r.problems.add(df.span(), "df and copy-df", "keep df, which says more");
        }
        let kinds = [("copy", Df::Copy), ("set", Df::Set), ("clear", Df::Clear)];
        let df = raw.df.as_ref().and_then(|t| r.choice(t, "treatment of DF", &kinds));
        let copied = raw.copy_df.as_ref().is_none_or(|copy| *copy.get_ref());
        let kinds = [("normal", EcnOut::Normal), ("compatibility", EcnOut::Compatibility)];
        let ecn = raw.ecn.as_ref().and_then(|t| r.choice(t, "ECN mode", &kinds));
        let dscp = r.number(raw.dscp.as_ref(), 0, 0..=63, "dscp") as u8;
        let dscp = raw.dscp.as_ref().and_then(|_| Dscp::new(dscp));
        let df = df.unwrap_or(if copied { Df::Copy } else { Df::Clear });
        Outside { df, dscp, ecn: ecn.unwrap_or_default(), hops: self.hops(r) }
    }

    fn hops(&self, r: &mut Reader<'_>) -> Hops {
        let Some(value) = &self.raw.get_ref().ttl else { return Hops::default() };
        match value.get_ref() {
            WordOrNumber::Word(word) if word == "copy" => Hops::Copy,
            &WordOrNumber::Number(n) if (1..=255).contains(&n) => Hops::Fixed(n as u8),
            _ => {
                let remedy = "use a number from 1 to 255, or \"copy\"";
                r.problems.add(value.span(), "this is no TTL", remedy);
                Hops::default()
            }
        }
    }

    fn vrf(&self, r: &mut Reader<'_>) -> usize {
        let Some(name) = &self.raw.get_ref().vrf else { return 0 };
        if self.mode == Mode::Transport {
            let remedy = "take it out: in transport mode both ends are in the global table";
            r.problems.add(name.span(), "`vrf` in transport mode", remedy);
            return 0;
        }
        let vrf = r.vrfs.get(name.get_ref());
        if vrf.is_none() {
            let what = format!("there is no vrf `{}`", name.get_ref());
            r.problems.add(name.span(), what, "give an interface or route that vrf");
        }
        vrf.unwrap_or(0)
    }

    /// A card makes plain tunnels alone.
    fn fits_card(&self, r: &mut Reader<'_>, pair: &TunnelConfig) {
        let around = self.around.as_ref().is_some_and(|(_, around)| around.is_inline());
        if around || (pair.is_inline() && !inline::is_plain(pair)) {
            let what = format!("`{}` is inline, and no plain tunnel", pair.name);
            let remedy = "a card makes tunnels of ESP without UDP, padding, dummies, nesting and \
                          more than one outbound SA: place it in software";
            let span = self.raw.get_ref().placement.as_ref().map_or(self.raw.span(), Spanned::span);
            r.problems.add(span, what, remedy);
        }
    }
}

/// How sealed packets reach the other gateway: on a connected network, or by
/// the route that matches best.
fn way_to(
    r: &mut Reader<'_>,
    ways: &Ways<'_>,
    text: &Text,
    (local, remote): (IpAddr, IpAddr),
    mode: Mode,
) -> Option<Via> {
    let own = ways.is_own(local);
    if mode == Mode::Transport && !own && ways.best(local).is_none() {
        let what = format!("neither this node nor a host behind it has {local}");
        let remedy = "use an address of an interface, or add a [[route]] to the host";
        r.problems.add(text.span(), what, remedy);
        return None;
    }
    if mode == Mode::Tunnel && !own {
        let what = format!("no interface has the tunnel's local address {local}");
        r.problems.add(text.span(), what, "use an address of the interface to the other gateway");
        return None;
    }
    let best = ways.best(remote);
    if best.is_none() {
        let remedy = "add a [[route]] to it, before the tunnel is of use";
        r.problems.add(text.span(), format!("no way to the other gateway {remote}"), remedy);
    }
    best
}

/// Every name of a suite, of whichever protocol.
pub(super) fn suite_names() -> Vec<&'static str> {
    let all = [SaProtocol::Esp, SaProtocol::Ah].into_iter().flat_map(suites);
    let mut names: Vec<_> = all.map(|(name, _)| name).collect();
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(*name));
    names
}

/// Suites by name, for ESP or AH.
fn suites(protocol: SaProtocol) -> Vec<(&'static str, Suite)> {
    match protocol {
        SaProtocol::Esp => {
            Suite::software().chain(Suite::STUDY).map(|suite| (suite.name(), suite)).collect()
        }
        SaProtocol::Ah => {
            Suite::software().filter_map(|suite| Some((suite.ah_name()?, suite))).collect()
        }
    }
}

fn sa(
    r: &mut Reader<'_>,
    config: &Config,
    sa: &raw::Sa,
    suite: Suite,
    placement: Placement,
) -> Option<SaConfig> {
    let spi = r.number(Some(&sa.spi), 256, 256..=i64::from(u32::MAX), "an SPI") as u32;
    let lengths = [
        ("cipher", suite.key_len()),
        ("integrity", suite.mac_key_len()),
        ("salt", suite.esp_salt_len()),
    ];
    let named = Named { key: &sa.key, rest: sa.rest.as_ref() };
    let file = r.keys_of(named, placement, config, lengths)?;
    let last = config.cores.len() as i64 - 1;
    let worker = r.number(sa.worker.as_ref(), 0, 0..=last, "worker") as usize;
    let keys =
        KeySpec::new(suite, file.cipher, file.integrity).at(placement.place(file.label.as_deref()));
    let fixed = sa.worker.is_some();
    let lifetimes = lifetimes(r, sa);
    Some(SaConfig { spi, keys, salt: file.salt, worker, fixed, lifetimes })
}
