//! `ferrule apply`: another configuration for a running node; and `ferrule
//! stop`, its end.

use crate::answer::Form;
use crate::live::{Which, finish, unexpected};
use clap::Args;
use ferrule_daemon::Fault;
use ferrule_daemon::api::{Reply, Request};
use ferrule_daemon::load::{load_to_send, to_send};
use ferrule_node::config::{Change, Difference, ValueChange};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Put another configuration in force, without losing a packet.
///
/// The running node checks all of it first; whatever is wrong with it, the node
/// goes on as it was. Counters never go back. Key files are read by this
/// command, so the node itself need not be able to.
#[derive(Args)]
#[command(after_help = "Examples:
  ferrule check gw.toml && sudo ferrule apply gw.toml
  sudo ferrule apply gw.toml --dry-run       what would change, by section
  sudo ferrule apply gw.toml --new-keys      rekeying: counters for fresh keys
  sudo ferrule apply gw.toml --socket /run/ferrule/gw.sock

Exit: 0 in force (with --dry-run: it would be accepted), 2 the configuration is wrong, 3 the machine lacks something.")]
pub struct ApplyArgs {
    /// The node's new configuration.
    file: PathBuf,
    /// Make the counters that are not there. This says: these keys have never
    /// been used (see `ferrule state create --help`).
    #[arg(long)]
    new_keys: bool,
    /// Say what would change, and change nothing. Ports are looked for, not opened.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    which: Which,
}

impl ApplyArgs {
    /// Applies.
    pub fn run(self) -> ExitCode {
        finish(self.go())
    }

    fn go(self) -> Result<(), Fault> {
        let loaded = load_to_send(&self.file)?;
        let mut client = self.which.connect_for(&loaded)?;
        let file = std::path::absolute(&self.file).unwrap_or(self.file).display().to_string();
        let keys = to_send(&loaded.keys);
        let (text, new_keys) = (loaded.source.text, self.new_keys);
        let request = match self.dry_run {
            true => Request::Compare { file, text, keys, new_keys },
            false => Request::Apply { file, text, keys, new_keys },
        };
        let node = loaded.config.name;
        match client.ask(&request)? {
            Reply::Differences { differences } => {
                let object = json!({ "node": node, "accepted": true, "differences": differences });
                self.form.give(object, || told(&node, &differences));
                Ok(())
            }
            Reply::Applied { opened, closed } => {
                let list = |what: &str, ports: &[String]| match ports {
                    [] => String::new(),
                    ports => format!("; ports {what}: {}", ports.join(", ")),
                };
                let (more, fewer) = (list("opened", &opened), list("closed", &closed));
                let object = json!({ "node": node, "opened": opened, "closed": closed });
                self.form.give(object, || format!("{node} is in force{more}{fewer}\n"));
                Ok(())
            }
            reply => Err(unexpected(reply)),
        }
    }
}

/// Differences in lines, by section:
///
/// ```text
///   tunnel
///     ~ branch: mtu 1400 -> 1380
///     + harbour
/// ```
fn told(node: &str, differences: &[Difference]) -> String {
    if differences.is_empty() {
        return format!("{node} would not change\n");
    }
    let mut text = format!("{node} would change:\n");
    let mut section = "";
    for difference in differences {
        if difference.section != section {
            section = &difference.section;
            text += &format!("  {section}\n");
        }
        let sign = match difference.change {
            Change::Added => '+',
            Change::Removed => '-',
            Change::Changed => '~',
        };
        let value = |v: &ValueChange| format!("{} {} -> {}", v.key, v.old, v.new);
        let values = difference.values.iter().map(value).collect::<Vec<_>>().join(", ");
        let line = format!("{}: {values}", difference.name);
        text += &format!("    {sign} {}\n", line.trim_start_matches(": ").trim_end_matches(": "));
    }
    text
}

/// Stop a running node: what is inside goes out, counters are kept exactly.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ferrule stop
  sudo ferrule stop --node gw")]
pub struct StopArgs {
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    which: Which,
}

impl StopArgs {
    /// Stops it, and waits until it is gone.
    pub fn run(self) -> ExitCode {
        finish(self.go())
    }

    fn go(self) -> Result<(), Fault> {
        let mut client = self.which.connect()?;
        match client.ask(&Request::Stop {})? {
            Reply::Stopping {} => {
                while let Ok(Some(_)) = client.receive() {}
                self.form.give(json!({ "stopped": true }), String::new);
                Ok(())
            }
            reply => Err(unexpected(reply)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_lines_by_section() {
        let entry = |section: &str, name: &str, change, values| Difference {
            section: section.into(),
            name: name.into(),
            change,
            values,
        };
        let value = |key: &str, old: &str, new: &str| ValueChange {
            key: key.into(),
            old: old.into(),
            new: new.into(),
        };
        let all = [
            entry("node", "", Change::Changed, vec![value("times", "false", "true")]),
            entry("tunnel", "a", Change::Removed, vec![]),
            entry("tunnel", "b", Change::Changed, vec![value("mtu", "1400", "1380")]),
            entry("tunnel", "c", Change::Added, vec![]),
        ];
        let want = "gw would change:\n  node\n    ~ times false -> true\n  tunnel\n    - a\n    \
                    ~ b: mtu 1400 -> 1380\n    + c\n";
        assert_eq!(told("gw", &all), want);
        assert_eq!(told("gw", &[]), "gw would not change\n");
    }
}
