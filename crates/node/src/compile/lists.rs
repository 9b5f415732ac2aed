//! Access lists, compiled. One that stays as it is stays compiled: a change elsewhere does not
//! wait for a list of 100,000 entries.

use super::{Builder, Mark, carried_over};
use crate::config::{AclConfig, Config};
use ferrule_dataplane::acl::frame::FrameEntry;
use ferrule_dataplane::acl::{AccessList, AclEntry, Numbered};
use ferrule_dataplane::ipsec::HitMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// A compiled list.
struct Listed {
    /// For IP packets, for frames.
    uses: [bool; 2],
    /// Marks of its entries in order, and of what none of them has.
    marks: Box<[Mark]>,
    list: Arc<AccessList>,
}

impl Listed {
    fn new(list: &AclConfig, uses: [bool; 2], marks: Box<[Mark]>) -> Self {
        let [packets, frames] = uses;
        let (mut of_packets, mut of_frames) = (Vec::new(), Vec::new());
        for (entry, counter) in list.entries.iter().zip(0..) {
            let (verdict, logs) = (entry.verdict, entry.logs);
            let packet = |matches| AclEntry { matches, verdict, logs, counter };
            let frame = |matches| FrameEntry { matches, verdict, logs, counter };
            of_packets.extend(packets.then(|| entry.matches().map(packet)).into_iter().flatten());
            of_frames.extend(frames.then(|| entry.frames().map(frame)).into_iter().flatten());
        }
        let list = AccessList::new(&of_packets, list.entries.len() as u32);
        let list = list.and_then(|list| list.with_frames(&of_frames));
        Self { uses, marks, list: Arc::new(list.expect("entries were checked")) }
    }
}

/// Uses of a list: for IP packets, for frames.
fn uses(config: &Config, number: usize) -> [bool; 2] {
    let used = |of: [Option<usize>; 2]| of.contains(&Some(number));
    let mut members = config.bridges.iter().flat_map(|bridge| &bridge.members);
    let frames = config.pseudowires.iter().any(|p| used([p.acl_in, p.acl_out]))
        || members.any(|m| used([m.acl_in, m.acl_out]));
    [config.interfaces.iter().any(|i| used([i.acl_in, i.acl_out])), frames]
}

/// The marks of a list's entries, and of what none of them has.
fn marks(list: &AclConfig) -> Box<[Mark]> {
    let entries = list.entries.iter().map(|entry| mark(&(&list.name, Some(entry))));
    entries.chain([mark(&(&list.name, None::<()>))]).collect()
}

/// Mark of a value that is no secret; another value has another mark, chance aside.
fn mark(of: &impl Hash) -> Mark {
    let half = |which: u8| {
        let mut hasher = DefaultHasher::new();
        (which, of).hash(&mut hasher);
        hasher.finish()
    };
    (u128::from(half(0)) << 64 | u128::from(half(1))).to_be_bytes()
}

/// Access lists of a configuration, compiled.
#[derive(Clone, Default)]
pub struct ReadyLists(Vec<Arc<Listed>>);

impl ReadyLists {
    /// The lists of another configuration: lists that it has in common with this one as they
    /// are, the others compiled.
    #[must_use]
    pub fn ready_for(&self, config: &Config) -> Self {
        let ready = config.lists.iter().enumerate().map(|(number, list)| {
            let (uses, marks) = (uses(config, number), marks(list));
            let is_same = |old: &&Arc<Listed>| old.uses == uses && old.marks == marks;
            match self.0.iter().find(is_same) {
                Some(old) => old.clone(),
                None => Arc::new(Listed::new(list, uses, marks)),
            }
        });
        Self(ready.collect())
    }

    /// Marks of all entries, in the order of their counters.
    fn marks(&self) -> Vec<Mark> {
        self.0.iter().flat_map(|list| list.marks.iter().copied()).collect()
    }
}

impl Builder<'_> {
    /// Access lists. Counters are numbered as entries are in the configuration; behind those
    /// of each list comes that of what no entry has.
    pub(super) fn lists(&mut self) {
        let shared = &mut *self.shared;
        let before = std::mem::take(&mut shared.lists);
        let ahead = std::mem::take(&mut shared.lists_ahead).0.into_iter();
        let known = ReadyLists(before.0.iter().cloned().chain(ahead).collect());
        shared.lists = known.ready_for(self.config);
        let mut first_counter = 0;
        for listed in &shared.lists.0 {
            self.tables.lists.push(Numbered { list: listed.list.clone(), first_counter });
            first_counter += listed.marks.len() as u32;
        }
        let carried = carried_over(&before.marks(), &shared.lists.marks());
        self.tables.list_hits = HitMap { generation: shared.generation, carried };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::Shared;
    use crate::config::named_key;
    use ferrule_base::MacAddr;
    use ferrule_dataplane::Tables;

    fn compiled(shared: &mut Shared, text: &str) -> Vec<Numbered> {
        let config = Config::parse("r.toml", text, &mut named_key).unwrap();
        let macs: Vec<_> = config.ports.iter().map(|_| MacAddr([2, 0, 0, 0, 0, 1])).collect();
        crate::compile::compile(&config, &macs, shared, &Tables::default()).tables.lists
    }

    #[test]
    fn a_list_that_stays_is_not_compiled_again() {
        let text = |first: &str, second: &str, more: &str| {
            format!(
                "{more}[node]\nname = \"r\"\nlab = true\n[[port]]\nname = \"a\"\n\
                 driver = \"wire\"\n[[interface]]\nport = \"a\"\naddress = [\"192.0.2.1/24\"]\n\
                 acl-in = \"one\"\nacl-out = \"two\"\n\
                 [[access-list]]\nname = \"one\"\nentry = [{first}]\n\
                 [[access-list]]\nname = \"two\"\nentry = [{second}]\n"
            )
        };
        let permit = "{ action = \"permit\" }";
        let telnet = "{ action = \"deny\", protocol = \"tcp\", to-ports = 23 }";
        let mut shared = Shared::default();
        let before = compiled(&mut shared, &text(permit, telnet, ""));
        // Elsewhere in the file, behind a longer list: the same, its counters further on.
        let both = format!("{telnet}, {permit}");
        let after = compiled(&mut shared, &text(&both, telnet, "# a line more\n"));
        assert!(!Arc::ptr_eq(&before[0].list, &after[0].list));
        assert!(Arc::ptr_eq(&before[1].list, &after[1].list));
        assert_eq!((before[1].first_counter, after[1].first_counter), (2, 3));
        // Any other entry is another list.
        let other = telnet.replace("23", "24");
        let last = compiled(&mut shared, &text(&both, &other, ""));
        assert!(Arc::ptr_eq(&after[0].list, &last[0].list));
        assert!(!Arc::ptr_eq(&after[1].list, &last[1].list));
    }
}
