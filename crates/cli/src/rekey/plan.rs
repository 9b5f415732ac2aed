//! Pairs of SAs at the two ends, and the successor of each SA.

use super::edit::{Document, Sa, Section, Way};
use super::unfit;
use crate::init::files::Files;
use crate::init::key::KeyFor;
use crate::init::pairs::fresh_spi;
use ferrule_base::Secret;
use ferrule_daemon::load::Loaded;
use ferrule_daemon::{Blame, Fault};
use ferrule_node::config::{MacsecConfig, Mode, TunnelConfig};
use std::path::{Path, PathBuf};

/// Association numbers of a secure channel (802.1AE clause 9.5).
const ANS: u32 = 4;

/// One end: its configuration, where it is, and how it is written.
pub struct Side {
    pub loaded: Loaded,
    pub path: PathBuf,
    pub document: Document,
}

impl Side {
    /// A configuration that was understood, as it is written.
    pub fn read(loaded: Loaded, path: &Path) -> Result<Self, Fault> {
        let document = Document::parse(&loaded.source.text)
            .map_err(|what| unfit(&loaded, what, "see `ferrule check`"))?;
        Ok(Self { loaded, path: path.to_owned(), document })
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    fn node(&self) -> &str {
        &self.loaded.config.name
    }

    /// True if an SPI is taken.
    fn has_spi(&self, spi: u32) -> bool {
        let tunnels = self.loaded.config.tunnels.iter();
        tunnels.flat_map(|t| t.outbound.iter().chain(&t.inbound)).any(|sa| sa.spi == spi)
    }

    fn tunnel(&self, tunnel: &TunnelConfig) -> Subject {
        let section = match tunnel.mode {
            Mode::Tunnel => Section::Tunnel,
            _ => Section::Transport,
        };
        Subject { section, name: tunnel.name.clone(), key: KeyFor::Esp(tunnel.suite) }
    }

    fn secy(&self, secy: &MacsecConfig) -> Subject {
        let name = self.loaded.config.ports[secy.port].name.clone();
        let (sak_len, xpn) = (secy.entity.suite.key_len(), secy.entity.xpn);
        Subject { section: Section::Macsec, name, key: KeyFor::Macsec { sak_len, xpn } }
    }
}

/// Part of a configuration that gets new keys.
#[derive(Clone, Copy)]
pub enum Choice<'a> {
    /// Its only tunnel, transport or SecY.
    Only,
    /// The tunnel or transport of this name.
    Tunnel(&'a str),
    /// The SecY of this port.
    Port(&'a str),
}

/// A tunnel, transport or SecY at one end.
struct Subject {
    section: Section,
    name: String,
    key: KeyFor,
}

/// The SAs of one end, in the order of its file.
pub struct End {
    pub section: Section,
    /// Name of the tunnel or transport, or of the SecY's port.
    pub name: String,
    pub old_in: Vec<Sa>,
    /// Successors of the SAs that the other end seals with.
    pub new_in: Vec<Sa>,
    pub old_out: Vec<Sa>,
    pub new_out: Vec<Sa>,
}

/// A key that is new at both ends.
struct Key {
    content: Secret,
    /// Its file at each end.
    files: [String; 2],
    /// Files of the key before it.
    old: [String; 2],
}

/// A pair of SAs, or several, of both ends.
pub struct Plan {
    pub ends: [End; 2],
    keys: Vec<Key>,
}

/// The tunnel, transport or SecY of the first end that is meant, and the other end of it.
fn chosen(sides: &[Side; 2], choice: Choice<'_>) -> Result<[Subject; 2], Fault> {
    let config = &sides[0].loaded.config;
    // (MKA and keying programs change keys by themselves.)
    let tunnels = config.tunnels.iter().filter(|t| !t.external);
    let tunnels = tunnels.filter(|t| match choice {
        Choice::Only => true,
        Choice::Tunnel(name) => t.name == name,
        Choice::Port(_) => false,
    });
    let with_keys = config.secys.iter().filter(|s| s.mka.is_none());
    let secys = with_keys.filter(|s| match choice {
        Choice::Only => true,
        Choice::Tunnel(_) => false,
        Choice::Port(name) => config.ports[s.port].name == name,
    });
    let (tunnels, secys): (Vec<_>, Vec<_>) = (tunnels.collect(), secys.collect());
    match (tunnels.as_slice(), secys.as_slice()) {
        ([tunnel], []) => {
            let other = opposite_tunnel(&sides[1], tunnel)?;
            Ok([sides[0].tunnel(tunnel), sides[1].tunnel(other)])
        }
        ([], [secy]) => {
            let other = opposite_secy(sides, secy)?;
            Ok([sides[0].secy(secy), sides[1].secy(other)])
        }
        _ => Err(undecided(&sides[0], choice)),
    }
}

/// None is meant, or one of several.
fn undecided(side: &Side, choice: Choice<'_>) -> Fault {
    let config = &side.loaded.config;
    let tunnels = config.tunnels.iter().filter(|t| !t.external);
    let tunnels = tunnels.map(|t| format!("--tunnel {}", t.name));
    let secys = config.secys.iter().filter(|s| s.mka.is_none());
    let secys = secys.map(|s| format!("--port {}", config.ports[s.port].name));
    let all: Vec<String> = tunnels.chain(secys).collect();
    let what = match choice {
        Choice::Only if all.is_empty() => {
            "there is no tunnel or SecY with keys of a file".to_owned()
        }
        Choice::Only => format!("there are {} tunnels and SecYs", all.len()),
        Choice::Tunnel(name) => {
            format!("there is no tunnel or transport `{name}` with keys of a file")
        }
        Choice::Port(name) => format!("there is no SecY at a port `{name}`"),
    };
    let remedy = match all.is_empty() {
        true => "a [[tunnel]], [[transport]] or [[macsec]] has keys that this changes".to_owned(),
        false => format!("say which: {}", all.join(" or ")),
    };
    unfit(&side.loaded, what, &remedy)
}

/// The other end of a tunnel.
fn opposite_tunnel<'a>(side: &'a Side, tunnel: &TunnelConfig) -> Result<&'a TunnelConfig, Fault> {
    let fits = |t: &&TunnelConfig| {
        let ends = (t.local, t.remote, t.mode, t.suite);
        !t.external && ends == (tunnel.remote, tunnel.local, tunnel.mode, tunnel.suite)
    };
    side.loaded.config.tunnels.iter().find(fits).ok_or_else(|| {
        let (local, remote, suite) = (tunnel.remote, tunnel.local, tunnel.suite);
        let section = side.tunnel(tunnel).section.name();
        let what = format!("no {section} from {local} to {remote} with {suite}");
        unfit(&side.loaded, what, &format!("it is the other end of `{}`", tunnel.name))
    })
}

/// The other end of a SecY: it receives what this one transmits, and transmits what this one
/// receives, and neither knows a third.
fn opposite_secy<'a>(sides: &'a [Side; 2], secy: &MacsecConfig) -> Result<&'a MacsecConfig, Fault> {
    let port = &sides[0].loaded.config.ports[secy.port].name;
    let fits = |other: &&MacsecConfig| {
        (other.entity.suite, other.entity.xpn) == (secy.entity.suite, secy.entity.xpn)
            && hears(secy, other)
            && hears(other, secy)
    };
    let found = sides[1].loaded.config.secys.iter().find(fits).ok_or_else(|| {
        let what = format!("no SecY is the other end of that at port `{port}`");
        let remedy = "the same cipher; each SCI in `sci` here and in `receive` there, and no third";
        unfit(&sides[1].loaded, what, remedy)
    })?;
    Ok(found)
}

/// True if everything that one SecY receives is of the SCI of another, as far as that is written.
fn hears(from: &MacsecConfig, to: &MacsecConfig) -> bool {
    let Some(first) = to.receive.first() else { return false };
    from.sci.is_none_or(|own| first.sci == Some(own))
        && to.receive.iter().all(|sa| sa.sci == first.sci)
}

impl Plan {
    /// For what is chosen at the first end.
    pub fn of(sides: &[Side; 2], choice: Choice<'_>) -> Result<Self, Fault> {
        let subjects = chosen(sides, choice)?;
        let end = |at: usize| -> Result<End, Fault> {
            let Subject { section, name, .. } = &subjects[at];
            let read = |way| sides[at].document.sas(*section, name, way);
            let both = read(Way::In).and_then(|inbound| Ok((inbound, read(Way::Out)?)));
            let (old_in, mut old_out) = both.map_err(|(what, remedy)| {
                let place = [section.name(), section.named_by(), name];
                sides[at].loaded.source.fault(Blame::Configuration, place, what, remedy)
            })?;
            if *section == Section::Macsec {
                // A SecY seals with the first.
                old_out.truncate(1);
            }
            let (new_in, new_out) = (Vec::new(), Vec::new());
            Ok(End { section: *section, name: name.clone(), old_in, new_in, old_out, new_out })
        };
        let mut ends = [end(0)?, end(1)?];
        if !(agree(&ends[0], &ends[1]) && agree(&ends[1], &ends[0])) {
            let what =
                format!("an end of `{}` seals with what the other does not open", subjects[0].name);
            let remedy = "finish the change of keys that is under way, or correct one of them";
            return Err(unfit(&sides[0].loaded, what, remedy));
        }
        let mut keys = Vec::new();
        for from in [0, 1] {
            direction(sides, &mut ends, from, subjects[from].key, &mut keys)?;
        }
        Ok(Self { ends, keys })
    }

    /// Name of the tunnel, transport or port that gets new keys, as the first end has it.
    pub fn name(&self) -> &str {
        &self.ends[0].name
    }

    /// The configuration of each step, of both ends.
    pub fn texts(&self, sides: &[Side; 2]) -> [[String; 2]; 3] {
        [0, 1, 2].map(|step| [0, 1].map(|at| sides[at].document.step(&self.ends[at], step)))
    }

    /// The new keys, at both ends; once where they share a folder.
    pub fn key_files(&self, sides: &[Side; 2]) -> Files {
        let mut files = Files::default();
        for key in &self.keys {
            let paths = [0, 1].map(|at| sides[at].folder().join(&key.files[at]));
            let old = [0, 1].map(|at| sides[at].folder().join(&key.old[at]));
            let same = paths[0] == paths[1];
            for (path, old) in paths.into_iter().zip(old).take(if same { 1 } else { 2 }) {
                files.successor(path, key.content.clone(), old);
            }
        }
        files
    }
}

/// True if `to` opens everything that `from` seals with. It may open more: SAs that an
/// interrupted change of keys left.
fn agree(from: &End, to: &End) -> bool {
    from.old_out.iter().all(|out| to.old_in.iter().any(|sa| sa.number == out.number))
}

/// New SAs from the end `from` to the other.
fn direction(
    sides: &[Side; 2],
    ends: &mut [End; 2],
    from: usize,
    kind: KeyFor,
    keys: &mut Vec<Key>,
) -> Result<(), Fault> {
    let to = 1 - from;
    let random = |e| Fault::environment(e, "see whether /dev/urandom works");
    let [here, there] = [from, to].map(|at| sides[at].node());
    let mut fresh = Vec::new();
    for old in ends[from].old_out.clone() {
        let Some(place) = ends[to].old_in.iter().position(|sa| sa.number == old.number) else {
            continue;
        };
        let (number, what) = match kind {
            KeyFor::Esp(suite) => {
                let spi = loop {
                    let spi = fresh_spi().map_err(random)?;
                    if !sides.iter().any(|side| side.has_spi(spi)) {
                        break spi;
                    }
                };
                (spi, format!("{suite}, from {here} to {there}, SPI {spi:#x}"))
            }
            KeyFor::Macsec { .. } | KeyFor::Mka(_) => {
                let taken = |an: &u32| ends[to].old_in.iter().any(|sa| sa.number == *an);
                let an = (1..ANS).map(|n| (old.number + n) % ANS).find(|an| !taken(an));
                let an = an.ok_or_else(|| {
                    let what = format!("all association numbers of `{}` are taken", ends[to].name);
                    unfit(&sides[to].loaded, what, "take out receive associations not in use")
                })?;
                (an, format!("MACsec, from {here} to {there}, AN {an}"))
            }
        };
        let taken = |name: &str| keys.iter().any(|key: &Key| key.files.iter().any(|f| f == name));
        let mut before = [old.key.clone(), ends[to].old_in[place].key.clone()];
        if from == 1 {
            before.reverse();
        }
        let files = before.each_ref().map(|key| {
            next_name(key, |name| {
                taken(name) || sides.iter().any(|side| side.folder().join(name).exists())
            })
        });
        let content = kind.fresh(&what).map_err(random)?;
        ends[from].new_out.push(Sa { number, key: files[from].clone(), ..old });
        let opened = ends[to].old_in[place].clone();
        fresh.push((place, Sa { number, key: files[to].clone(), ..opened }));
        keys.push(Key { content, files, old: before });
    }
    // In the order in which they stand.
    fresh.sort_by_key(|(place, _)| *place);
    ends[to].new_in = fresh.into_iter().map(|(_, sa)| sa).collect();
    Ok(())
}

/// `a-to-b.2.key` after `a-to-b.key`, or the next that is not taken.
fn next_name(name: &str, taken: impl Fn(&str) -> bool) -> String {
    let stem = name.strip_suffix(".key").unwrap_or(name);
    let (stem, mut number) = match stem.rsplit_once('.') {
        Some((front, digits)) if digits.parse::<u32>().is_ok() => {
            (front, digits.parse::<u32>().unwrap_or(1))
        }
        _ => (stem, 1),
    };
    loop {
        number += 1;
        let next = format!("{stem}.{number}.key");
        if !taken(&next) {
            return next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_file_is_named_after_the_one_before() {
        assert_eq!(next_name("a-to-b.key", |_| false), "a-to-b.2.key");
        assert_eq!(next_name("a-to-b.2.key", |_| false), "a-to-b.3.key");
        assert_eq!(next_name("keys/a", |name| name == "keys/a.2.key"), "keys/a.3.key");
    }
}
