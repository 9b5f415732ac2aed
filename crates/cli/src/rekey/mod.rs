//! `ferrule rekey`: new keys and SPIs for both ends of a pair of SAs with static keys,
//! make before break.
//!
//! ```text
//!   A.toml, B.toml ─▶ plan: which SA is whose, new SPIs, new keys
//!                      └─▶ edit: 1 make, 2 switch, 3 break, for each end
//!                           ├─▶ files, and the commands in their order
//!                           └─▶ --apply: both nodes, step by step
//! ```

mod edit;
mod plan;
mod steps;

use crate::answer::Form;
use crate::init::files::{Files, Written};
use crate::live::{finish, load};
use clap::Args;
use edit::Section;
use ferrule_daemon::load::Loaded;
use ferrule_daemon::{Blame, Fault};
use plan::{Choice, Plan, Side};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Names of the steps, in order, with their reasons.
const STEPS: [(&str, &str); 3] = [
    ("make", "both ends open with the new SAs, too"),
    ("switch", "both ends seal with the new SAs"),
    ("break", "both ends forget the old SAs"),
];

/// Give both ends of a tunnel or of a MACsec link new keys, without losing a packet.
///
/// The keys are static ones, in files: an ESP tunnel or transport gets new SPIs with them, a
/// SecY other association numbers.
///
/// Both configurations are read; new key files are written beside them, and for each end
/// the configuration of each of three steps: make, switch, break. Both ends finish a step
/// before either begins the next; within a step the order does not matter. With --apply,
/// where both nodes run here, the steps are done at once, and the third when the old SAs
/// have been silent for a while.
#[derive(Args)]
#[command(after_help = "Examples:
  ferrule rekey gw-a.toml gw-b.toml                  files, and the commands to type
  ferrule rekey gw-a.toml gw-b.toml --tunnel branch  where there are several
  ferrule rekey ce-a.toml ce-b.toml --port uplink    the SecY of that port
  sudo ferrule rekey gw-a.toml gw-b.toml --apply     both nodes run here

Exit: 0 done, 2 the configurations do not fit each other, 3 the machine or a node
lacks something.")]
pub struct RekeyArgs {
    /// The configuration of one end.
    one: PathBuf,
    /// The configuration of the other end.
    other: PathBuf,
    /// The tunnel or transport, as the first configuration calls it.
    #[arg(long, value_name = "NAME", conflicts_with = "port")]
    tunnel: Option<String>,
    /// The port of the SecY, as the first configuration calls it.
    #[arg(long, value_name = "NAME")]
    port: Option<String>,
    /// Do the steps at both nodes, which run here. The configurations are replaced.
    #[arg(long)]
    apply: bool,
    /// With --apply: seconds for which the old SAs must be silent before they go.
    #[arg(long, value_name = "SECONDS", default_value_t = 2,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    silent: u64,
    #[command(flatten)]
    form: Form,
}

impl RekeyArgs {
    /// Runs the command.
    pub fn run(self) -> ExitCode {
        finish(self.go())
    }

    fn go(self) -> Result<(), Fault> {
        let sides = [
            Side::read(load(&self.one)?, &self.one)?,
            Side::read(load(&self.other)?, &self.other)?,
        ];
        let choice = match (&self.tunnel, &self.port) {
            (Some(name), _) => Choice::Tunnel(name),
            (None, Some(name)) => Choice::Port(name),
            (None, None) => Choice::Only,
        };
        let plan = Plan::of(&sides, choice)?;
        let texts = plan.texts(&sides);
        let files = plan.key_files(&sides);
        let keys: Vec<PathBuf> = files.paths().map(Path::to_owned).collect();
        let written = write(&files)?;
        if self.apply {
            // Once a node has a key, it must stay.
            written.keep();
            steps::apply(&sides, &plan, &texts, self.silent)?;
            self.applied(&sides, &plan, &keys);
            return Ok(());
        }
        let mut steps = Files::default();
        for (number, texts) in texts.iter().enumerate() {
            for (side, text) in sides.iter().zip(texts) {
                steps.text(step_path(&side.path, number), text.clone());
            }
        }
        let more = write(&steps)?;
        for path in steps.paths() {
            load(path)?;
        }
        written.keep();
        more.keep();
        self.planned(&sides, &plan, &keys);
        Ok(())
    }

    fn applied(&self, sides: &[Side; 2], plan: &Plan, keys: &[PathBuf]) {
        let names = sides.each_ref().map(|side| side.loaded.config.name.clone());
        let object = json!({ subject(plan): plan.name(), "applied": true, "nodes": names,
                             "keys": keys });
        self.form.give(object, || {
            format!(
                "{}: {} and {} have new keys; {} and {} say so.\n\
                 The old key files are of no use any more: remove them.\n",
                plan.name(),
                names[0],
                names[1],
                self.one.display(),
                self.other.display()
            )
        });
    }

    /// The commands, in their order.
    fn planned(&self, sides: &[Side; 2], plan: &Plan, keys: &[PathBuf]) {
        let command = |number: usize, side: &Side| {
            let file = step_path(&side.path, number);
            format!("ferrule apply --new-keys {}", file.display())
        };
        let steps = STEPS.iter().enumerate().map(|(number, (name, why))| {
            let commands = sides.each_ref().map(|side| {
                json!({ "node": side.loaded.config.name, "command": command(number, side),
                        "file": step_path(&side.path, number) })
            });
            json!({ "step": name, "why": why, "commands": commands })
        });
        let steps: Vec<_> = steps.collect();
        let object = json!({ subject(plan): plan.name(), "applied": false, "keys": keys,
                             "steps": steps });
        self.form.give(object, || {
            let mut text = String::new();
            keys.iter().for_each(|key| text += &format!("wrote {}\n", key.display()));
            for (number, (name, why)) in STEPS.iter().enumerate() {
                text += &format!("\n{}. {name}: {why}\n", number + 1);
                for side in sides {
                    let node = &side.loaded.config.name;
                    text += &format!("   at {node:<12} {}\n", command(number, side));
                }
            }
            let show = if is_secy(plan) { "show macsec" } else { "show sa" };
            text += &format!(
                "\nBoth ends finish a step before either begins the next. Before the third, \
                 `ferrule {show}`\nshows that the old inbound SAs count no more packets. \
                 Afterwards each node's own file\nis the one of the third step.\n"
            );
            text
        });
    }
}

fn is_secy(plan: &Plan) -> bool {
    plan.ends[0].section == Section::Macsec
}

/// Kind of object that a plan's name belongs to.
fn subject(plan: &Plan) -> &'static str {
    if is_secy(plan) { "port" } else { "tunnel" }
}

/// `gw-a.1-make.toml` beside `gw-a.toml`.
fn step_path(path: &Path, number: usize) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}.{}-{}.toml", number + 1, STEPS[number].0))
}

/// Writes files, which go again unless they are kept.
fn write(files: &Files) -> Result<Written, Fault> {
    let there = files.paths().find(|path| path.symlink_metadata().is_ok());
    if let Some(path) = there {
        let what = format!("{} is there already", path.display());
        return Err(Fault::environment(what, "finish or remove the change of keys that made it"));
    }
    files.write(false).map_err(|e| Fault::environment(e, "choose folders that can be written"))
}

/// A configuration that cannot be rekeyed like this.
fn unfit(side: &Loaded, what: impl Into<String>, remedy: &str) -> Fault {
    side.source.fault(Blame::Configuration, ["node", "name", &side.config.name], what, remedy)
}
