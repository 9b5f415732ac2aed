//! Which SA of one end is which of the other, and what comes in the place of each.

use super::edit::{Document, Sa};
use super::unfit;
use crate::init::files::Files;
use crate::init::key::KeyFor;
use crate::init::pairs::fresh_spi;
use ferrule_base::Secret;
use ferrule_crypto::Suite;
use ferrule_daemon::Fault;
use ferrule_daemon::load::Loaded;
use ferrule_node::config::{Mode, TunnelConfig};
use std::path::{Path, PathBuf};

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

    /// All SPIs that are taken.
    fn has_spi(&self, spi: u32) -> bool {
        let tunnels = self.loaded.config.tunnels.iter();
        tunnels.flat_map(|t| t.outbound().chain(t.inbound())).any(|sa| sa.spi == spi)
    }
}

/// The SAs of one end, in the order of its file.
pub struct End {
    pub section: &'static str,
    pub name: String,
    pub old_in: Vec<Sa>,
    pub new_in: Vec<Sa>,
    pub old_out: Vec<Sa>,
    pub new_out: Vec<Sa>,
}

/// A key that is new at both ends.
struct Key {
    content: Secret,
    /// Its file at each end.
    files: [String; 2],
}

/// A pair of SAs, or several, of both ends.
pub struct Plan {
    /// The name at the first end.
    pub name: String,
    pub ends: [End; 2],
    keys: Vec<Key>,
}

fn section(tunnel: &TunnelConfig) -> &'static str {
    if tunnel.mode == Mode::Tunnel { "tunnel" } else { "transport" }
}

/// SPIs in order, to compare what both ends have.
fn spis(sas: &[Sa]) -> Vec<u32> {
    let mut spis: Vec<u32> = sas.iter().map(|sa| sa.spi).collect();
    spis.sort_unstable();
    spis
}

/// The tunnel of the first end that is meant.
fn chosen<'a>(side: &'a Side, name: Option<&str>) -> Result<&'a TunnelConfig, Fault> {
    let tunnels = &side.loaded.config.tunnels;
    let names: Vec<&str> = tunnels.iter().map(|t| t.name.as_str()).collect();
    let names = names.join(", ");
    match (name, tunnels.as_slice()) {
        (Some(name), _) => tunnels.iter().find(|t| t.name == name).ok_or_else(|| {
            let what = format!("there is no tunnel or transport `{name}`");
            unfit(&side.loaded, what, &format!("there are {names}"))
        }),
        (None, [one]) => Ok(one),
        (None, []) => {
            let remedy = "a [[tunnel]] or [[transport]] has keys that this changes";
            Err(unfit(&side.loaded, "there is no tunnel", remedy))
        }
        (None, _) => {
            let remedy = format!("say which: --tunnel {}", names.replace(", ", " or --tunnel "));
            Err(unfit(&side.loaded, format!("there are {}", tunnels.len()), &remedy))
        }
    }
}

/// The other end of it.
fn opposite<'a>(side: &'a Side, tunnel: &TunnelConfig) -> Result<&'a TunnelConfig, Fault> {
    let fits = |t: &&TunnelConfig| {
        (t.local, t.remote, t.mode, t.suite)
            == (tunnel.remote, tunnel.local, tunnel.mode, tunnel.suite)
    };
    side.loaded.config.tunnels.iter().find(fits).ok_or_else(|| {
        let (local, remote, suite) = (tunnel.remote, tunnel.local, tunnel.suite);
        let what = format!("no {} from {local} to {remote} with {suite}", section(tunnel));
        unfit(&side.loaded, what, &format!("it is the other end of `{}`", tunnel.name))
    })
}

impl Plan {
    /// For the tunnel of this name, or the only one.
    pub fn of(sides: &[Side; 2], name: Option<&str>) -> Result<Self, Fault> {
        let tunnel = chosen(&sides[0], name)?;
        let tunnels = [tunnel, opposite(&sides[1], tunnel)?];
        let end = |at: usize| -> Result<End, Fault> {
            let (side, tunnel) = (&sides[at], tunnels[at]);
            let (section, name) = (section(tunnel), tunnel.name.clone());
            let read = |key, also| side.document.sas(section, &name, key, also);
            let both = read("in", "also-in").and_then(|i| Ok((i, read("out", "also-out")?)));
            let (old_in, old_out) = both.map_err(|(what, remedy)| {
                let place = [section, "name", &name];
                side.loaded.source.fault(ferrule_daemon::Blame::Configuration, place, what, remedy)
            })?;
            Ok(End { section, name, old_in, old_out, new_in: Vec::new(), new_out: Vec::new() })
        };
        let mut ends = [end(0)?, end(1)?];
        let agree = spis(&ends[0].old_out) == spis(&ends[1].old_in)
            && spis(&ends[1].old_out) == spis(&ends[0].old_in);
        if !agree {
            let what = format!("the two ends of `{}` have different SPIs", tunnel.name);
            let remedy = "finish the change of keys that is under way, or correct one of them";
            return Err(unfit(&sides[0].loaded, what, remedy));
        }
        let mut keys = Vec::new();
        for from in [0, 1] {
            direction(sides, &mut ends, from, tunnel.suite, &mut keys)?;
        }
        Ok(Self { name: tunnel.name.clone(), ends, keys })
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
            files.secret(&paths[0], key.content.clone());
            if paths[1] != paths[0] {
                files.secret(&paths[1], key.content.clone());
            }
        }
        files
    }
}

/// New SAs from the end `from` to the other.
fn direction(
    sides: &[Side; 2],
    ends: &mut [End; 2],
    from: usize,
    suite: Suite,
    keys: &mut Vec<Key>,
) -> Result<(), Fault> {
    let to = 1 - from;
    let random = |e| Fault::environment(e, "see whether /dev/urandom works");
    let names = [0, 1].map(|at| sides[at].loaded.config.name.clone());
    let (old_out, old_in) = (ends[from].old_out.clone(), ends[to].old_in.clone());
    let mut new_in = old_in.clone();
    for old in &old_out {
        let Some(there) = old_in.iter().position(|sa| sa.spi == old.spi) else { continue };
        let spi = loop {
            let spi = fresh_spi().map_err(random)?;
            if !sides.iter().any(|side| side.has_spi(spi)) {
                break spi;
            }
        };
        let taken = |name: &str| keys.iter().any(|key: &Key| key.files.iter().any(|f| f == name));
        let mut files = [String::new(), String::new()];
        for (at, key) in [(from, &old.key), (to, &old_in[there].key)] {
            files[at] = next_name(key, |name| {
                taken(name) || sides.iter().any(|side| side.folder().join(name).exists())
            });
        }
        let what = format!("{suite}, from {} to {}, SPI {spi:#x}", names[from], names[to]);
        let content = KeyFor::Esp(suite).fresh(&what).map_err(random)?;
        ends[from].new_out.push(Sa { spi, key: files[from].clone(), ..old.clone() });
        new_in[there] = Sa { spi, key: files[to].clone(), ..old_in[there].clone() };
        keys.push(Key { content, files });
    }
    ends[to].new_in = new_in;
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
