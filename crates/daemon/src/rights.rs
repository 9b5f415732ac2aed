//! User of a running node, and users who may look at it: docs/privileges.md.

use crate::api::Server;
use crate::fault::{Blame, Fault, Source};
use crate::opening::Openings;
use crate::store::SharedStore;
use ferrule_node::config::Config;
use ferrule_ports::os::{
    User, allow_locked_memory, group_by_name, hide_memory, lock_memory, return_large_allocations,
};
use std::path::Path;

/// User that nodes started by root become, if it exists and they name none.
const USER: &str = "ferrule";
/// Name with which nodes started by root stay root.
const ROOT: &str = "root";

/// Users and groups of a configuration, found on this machine.
pub(crate) struct Rights {
    /// User that the node becomes, by name; nothing: it keeps its own.
    user: Option<(String, User)>,
    /// The group of those who may look, beside the node's user.
    pub monitors: Option<u32>,
}

/// Protects the keys in this process's memory: from core files, from swap, and from other
/// processes.
pub(crate) fn protect_memory() {
    return_large_allocations();
    let _ = hide_memory();
    // Where the limit stays small, ports of AF_XDP cannot be added later, and memory
    // may be swapped out.
    let _ = allow_locked_memory().and_then(|()| lock_memory());
}

impl Rights {
    /// Finds users and groups.
    pub fn of(config: &Config, source: &Source) -> Result<Self, Fault> {
        let fault = |key: &'static str, name: &str, what: String, remedy: String| {
            source.fault(Blame::Environment, ["node", key, name], what, remedy)
        };
        let found = |name: &str| Some((name.to_owned(), User::by_name(name).ok().flatten()?));
        let user = match config.user.as_deref() {
            Some(ROOT) => None,
            None if User::current().is_root() => found(USER),
            None => None,
            Some(name) => Some(found(name).ok_or_else(|| {
                let remedy =
                    format!("`useradd --system {name}`, or user = \"{ROOT}\" to stay root");
                fault("user", name, format!("no user is `{name}`"), remedy)
            })?),
        };
        let group = |name: &String| {
            group_by_name(name).ok().flatten().ok_or_else(|| {
                let remedy = format!("`groupadd --system {name}`, or leave monitors out");
                fault("monitors", name, format!("no group is `{name}`"), remedy)
            })
        };
        let monitors = config.monitors.as_ref().map(group).transpose()?;
        Ok(Self { user, monitors })
    }

    /// Gives up privilege: from here on this process cannot open a port, or read a key file that is
    /// not its own. Ports that are still to be opened, the companion opens.
    pub fn give_up(
        &self,
        (config, source): (&Config, &Source),
        openings: &mut Openings,
        server: &Server,
        store: Option<&SharedStore>,
    ) -> Result<(), Fault> {
        let Some((name, User { uid, gid })) = &self.user else {
            return self.stay(config, server);
        };
        let fault = |what: String, remedy: &str| {
            source.fault(Blame::Environment, ["node", "user", name], what, remedy)
        };
        let left: Vec<&Path> = std::iter::once(server.path()).chain(server.entry()).collect();
        let started = openings.start_companion(config, &left);
        started.map_err(|e| fault(e.to_string(), &e.remedy))?;
        let drop = || -> std::io::Result<()> {
            server.give_to(*uid, self.monitors.unwrap_or(*gid))?;
            if let Some(store) = store {
                store.lock().give_to(*uid, *gid)?;
            }
            User { uid: *uid, gid: *gid }.become_for_good()?;
            hide_memory()
        };
        drop().map_err(|e| {
            let remedy = format!("start as root, or user = \"{ROOT}\" to stay root");
            fault(format!("becoming user `{name}`: {e}"), &remedy)
        })?;
        let Some(store) = store else { return Ok(()) };
        store.lock().is_reachable().map_err(|e| {
            let what = format!("user `{name}` cannot reach the counters: {e}");
            let remedy = "let it through the folders above: `chmod o+x`, or move the state";
            source.state_fault(config, &what, remedy)
        })
    }

    fn stay(&self, config: &Config, server: &Server) -> Result<(), Fault> {
        let user = User::current();
        if user.is_root() && config.user.is_none() {
            eprintln!(
                "ferrule: runs as root, since no user `{USER}` is there: `useradd --system \
                 {USER}`, or user = \"NAME\" in [node] (\"{ROOT}\" says that it is meant)"
            );
        }
        let Some(group) = self.monitors else { return Ok(()) };
        server.give_to(user.uid, group).map_err(|e| {
            let what = format!("giving the socket to the group of monitors: {e}");
            Fault::environment(what, "start as root, or as a member of that group")
        })
    }
}
