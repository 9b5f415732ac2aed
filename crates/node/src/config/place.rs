//! Where packets are sealed and opened: a word at each tunnel and SecY, and the
//! tables of the engines that are not in the worker's own loop.
//!
//! ```toml
//!   [look-aside]              # an engine on another core
//!   core = 3                  # where its thread runs; left out: anywhere
//!   depth = 1024              # jobs under way at most, for each worker
//!   batch = 32                # jobs that go together
//!   wait-us = 5               # for which a batch waits to be full
//!   copies = 0                # of each packet: 0, or 2 or 4 as over a bus
//!   deadline-ms = 100         # after which the engine counts as hung
//!   on-failure = "software"   # or "drop"
//!   on-full = "drop"          # or "software"
//!
//!   [[tunnel]]
//!   placement = "look-aside"
//! ```

use super::Config;
use super::raw::{self, Text};
use super::read::Reader;
use ferrule_base::Duration;
use ferrule_crypto::{Place, TokenKey};
use std::ops::RangeInclusive;
use strum::{IntoStaticStr, VariantArray};

/// Jobs under way in one queue pair.
const DEPTH: RangeInclusive<i64> = 64..=4096;

/// Jobs that go to an engine together.
const BATCH: RangeInclusive<i64> = 1..=64;

/// Where the packets of a tunnel or SecY are sealed and opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Placement {
    /// In the worker's own loop.
    #[default]
    Software,
    /// By the engine of `[look-aside]`.
    LookAside,
    /// By a card in the port: the node sees clear packets.
    Inline,
    /// With a key on the token of `[token]`.
    Token,
}

impl Placement {
    /// The word in configurations.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Place for the engine of a worker; `label` names a key on the token.
    pub fn place(self, label: Option<&str>) -> Place {
        match self {
            // A card's own engine works in its own loop.
            Self::Software | Self::Inline => Place::Software,
            Self::LookAside => Place::LookAside,
            Self::Token => Place::Token(TokenKey::new(label.unwrap_or_default())),
        }
    }
}

/// Fallback for a job that an engine cannot do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Otherwise {
    /// The worker does the job itself.
    Software,
    /// The job's packet is dropped, with a reason.
    #[default]
    Drop,
}

/// The engine for what is placed look-aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookAsideConfig {
    /// The core of its threads, one for each worker; nothing: wherever the
    /// scheduler likes.
    pub core: Option<usize>,
    /// Jobs under way at most, for each worker.
    pub depth: usize,
    /// Jobs that go to it together.
    pub batch: usize,
    /// How long the first job of a batch waits for others.
    pub wait: Duration,
    /// How often each packet is copied on its way there and back: 0, 2 or 4.
    pub copies: usize,
    /// A job that is not back by then tells that the engine hangs.
    pub deadline: Duration,
    /// Fallback for jobs that fail.
    pub on_failure: Otherwise,
    /// Fallback for jobs beyond its depth.
    pub on_full: Otherwise,
}

impl Default for LookAsideConfig {
    fn default() -> Self {
        Self {
            core: None,
            depth: 1024,
            batch: 32,
            wait: Duration::from_micros(5),
            copies: 0,
            deadline: Duration::from_millis(100),
            on_failure: Otherwise::Software,
            on_full: Otherwise::Drop,
        }
    }
}

/// The table `[look-aside]`, if there is one.
pub(super) fn look_aside(r: &mut Reader<'_>, file: &raw::File) -> Option<LookAsideConfig> {
    let table = file.look_aside.as_ref()?.get_ref();
    let usual = LookAsideConfig::default();
    let core = table.core.as_ref();
    let core = core.map(|n| r.number(Some(n), 0, 0..=4095, "core") as usize);
    let (depth, batch) = (usual.depth as i64, usual.batch as i64);
    let depth = r.number(table.depth.as_ref(), depth, DEPTH, "depth") as usize;
    let batch = r.number(table.batch.as_ref(), batch, BATCH, "batch") as usize;
    let wait = usual.wait.as_micros() as i64;
    let wait = r.number(table.wait_us.as_ref(), wait, 0..=1_000_000, "wait-us") as u64;
    let copies = r.number(table.copies.as_ref(), 0, 0..=4, "copies");
    if let (1 | 3, Some(n)) = (copies, &table.copies) {
        let what = format!("copies cannot be {copies}: what goes there comes back");
        r.problems.add(n.span(), what, "use 0 (shared memory), 2 or 4");
    }
    let deadline = usual.deadline.as_millis() as i64;
    let deadline = r.number(table.deadline_ms.as_ref(), deadline, 1..=60_000, "deadline-ms");
    let mut otherwise =
        |t: &Option<Text>, what, usual| t.as_ref().and_then(|t| r.word(t, what)).unwrap_or(usual);
    Some(LookAsideConfig {
        core,
        depth,
        batch,
        wait: Duration::from_micros(wait),
        copies: copies as usize,
        deadline: Duration::from_millis(deadline as u64),
        on_failure: otherwise(&table.on_failure, "on-failure", usual.on_failure),
        on_full: otherwise(&table.on_full, "on-full", usual.on_full),
    })
}

impl Reader<'_> {
    /// The placement of a tunnel or SecY, and whether there is an engine for it.
    pub fn placement(&mut self, t: Option<&Text>, config: &Config) -> Placement {
        let Some(t) = t else { return Placement::default() };
        let placement = self.word(t, "placement").unwrap_or_default();
        if placement == Placement::LookAside && config.look_aside.is_none() {
            let remedy = "add a table [look-aside], for instance with core = 1";
            self.problems.add(t.span(), "there is no look-aside engine", remedy);
        }
        if placement == Placement::Token && config.token.is_none() {
            let remedy = "add a table [token] with module, token and pin-file";
            self.problems.add(t.span(), "there is no token", remedy);
        }
        placement
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::named_key;

    fn gateway(tunnel: &str, tables: &str) -> String {
        format!(
            "{tables}\n[node]\nname = \"g\"\nlab = true\n\
             [[port]]\nname = \"wan\"\ndriver = \"wire\"\n\
             [[interface]]\nport = \"wan\"\naddress = [\"192.0.2.1/24\"]\n\
             [[tunnel]]\nname = \"t\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n\
             suite = \"aes-gcm-128\"\nmtu = 1400\n{tunnel}\n\
             out = {{ spi = 4097, key = \"gcm:1\" }}\nin = {{ spi = 4098, key = \"gcm:3\" }}\n"
        )
    }

    fn problems(tunnel: &str, tables: &str) -> String {
        let text = gateway(tunnel, tables);
        Config::parse("g.toml", &text, &mut named_key).expect_err("it is wrong").to_string()
    }

    #[test]
    fn a_placement_reaches_the_keys_of_its_tunnel() {
        for (tunnel, tables, place) in [
            ("", "", Place::Software),
            ("placement = \"software\"", "", Place::Software),
            ("placement = \"look-aside\"", "[look-aside]", Place::LookAside),
        ] {
            let text = gateway(tunnel, tables);
            let config = Config::parse("g.toml", &text, &mut named_key).unwrap();
            let tunnel = &config.tunnels[0];
            assert_eq!(tunnel.outbound[0].keys.place, place);
            assert_eq!(tunnel.inbound[0].keys.place, place);
        }
    }

    #[test]
    fn a_placement_without_its_table_and_a_wrong_word_say_what_helps() {
        let missing = problems("placement = \"look-aside\"", "");
        assert!(missing.starts_with("g.toml:") && missing.contains("[look-aside]"), "{missing}");
        let wrong = problems("placement = \"card\"", "");
        assert!(wrong.contains("`card`") && wrong.contains("software, look-aside"), "{wrong}");
    }

    #[test]
    fn all_that_is_wrong_in_the_table_is_said_at_once() {
        let table = "[look-aside]\ndepth = 1\nbatch = 65\ncopies = 3\ndeadline-ms = 0\n\
                     on-failure = \"retry\"\non-full = \"wait\"\n";
        let found = problems("placement = \"look-aside\"", table);
        for (line, word) in [
            (2, "depth"),
            (3, "batch"),
            (4, "copies"),
            (5, "deadline-ms"),
            (6, "on-failure"),
            (7, "on-full"),
        ] {
            let at = format!("g.toml:{line}:");
            assert!(
                found.lines().any(|l| l.starts_with(&at) && l.contains(word)),
                "{word}: {found}"
            );
        }
    }
}
