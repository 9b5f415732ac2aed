//! Access lists, compiled. One that stays as it is stays compiled: a change elsewhere does not
//! wait for a list of 100,000 entries.

mod edit;

use super::{Builder, Mark, carried_over, mark};
use crate::config::{AclConfig, AclEntryConfig, Config};
use ferrule_dataplane::acl::frame::FrameEntry;
use ferrule_dataplane::acl::{AccessList, AclEntry, Edit, Numbered};
use ferrule_dataplane::ipsec::HitMap;
use std::sync::Arc;

/// A compiled list.
struct Listed {
    /// Uses of the list: for IP packets, for frames.
    uses: [bool; 2],
    /// Marks of its entries in order, and of the packets that match none.
    marks: Box<[Mark]>,
    list: Arc<AccessList>,
    /// The list of which this one is an edit, if it is: it has the same trees.
    compiled: Option<Arc<Self>>,
}

/// Entries of a list, multiplied out: for IP packets, for frames.
type Entries = (Vec<AclEntry>, Vec<FrameEntry>);

/// The compiled entries of one entry of a configuration.
fn entries(entry: &AclEntryConfig, counter: u32, [packets, frames]: [bool; 2]) -> Entries {
    let (verdict, logs) = (entry.verdict, entry.logs);
    let packet = |matches| AclEntry { matches, verdict, logs, counter };
    let frame = |matches| FrameEntry { matches, verdict, logs, counter };
    (
        packets.then(|| entry.matches().map(packet)).into_iter().flatten().collect(),
        frames.then(|| entry.frames().map(frame)).into_iter().flatten().collect(),
    )
}

impl Listed {
    fn new(list: &AclConfig, uses: [bool; 2], marks: Box<[Mark]>) -> Self {
        let (mut of_packets, mut of_frames) = (Vec::new(), Vec::new());
        for (entry, counter) in list.entries.iter().zip(0..) {
            let (packets, frames) = entries(entry, counter, uses);
            of_packets.extend(packets);
            of_frames.extend(frames);
        }
        let list = AccessList::new(&of_packets, list.entries.len() as u32);
        let list = list.and_then(|list| list.with_frames(&of_frames));
        let list = Arc::new(list.expect("entries were checked"));
        Self { uses, marks, list, compiled: None }
    }

    /// A list as an edit of this one; nothing if it is another one or the edit too large.
    fn edited(self: &Arc<Self>, list: &AclConfig, uses: [bool; 2], marks: &[Mark]) -> Option<Self> {
        let old = self.compiled.as_ref().unwrap_or(self);
        // The last mark is that of the list's name.
        if old.uses != uses || old.marks.last() != marks.last() {
            return None;
        }
        let changes = edit::changes(&old.marks, marks)?;
        let mut edit = Edit { counters: changes.counters.into(), ..Edit::default() };
        for (before, place) in changes.new {
            let (packets, frames) = entries(&list.entries[place as usize], place, uses);
            edit.packets.extend(packets.into_iter().map(|entry| (before, entry)));
            edit.frames.extend(frames.into_iter().map(|entry| (before, entry)));
        }
        let list = Arc::new(old.list.edited(&edit)?);
        Some(Self { uses, marks: marks.into(), list, compiled: Some(old.clone()) })
    }

    fn is(&self, uses: [bool; 2], marks: &[Mark]) -> bool {
        self.uses == uses && *self.marks == *marks
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

/// The marks of a list's entries, and of the packets that match none.
fn marks(list: &AclConfig) -> Box<[Mark]> {
    let entries = list.entries.iter().map(|entry| mark(&(&list.name, Some(entry))));
    entries.chain([mark(&(&list.name, None::<()>))]).collect()
}

/// Access lists of a configuration, compiled.
#[derive(Clone, Default)]
pub struct ReadyLists(Vec<Arc<Listed>>);

impl ReadyLists {
    /// The lists of another configuration: lists that it has in common with this one as they
    /// are, the others compiled.
    #[must_use]
    pub fn ready_for(&self, config: &Config) -> Self {
        self.lists(config, |_| true, |_, _, _| None)
    }

    /// The same in little time where lists changed in a few entries: those have the old trees
    /// and an edit beside them.
    #[must_use]
    pub fn edited_for(&self, config: &Config) -> Self {
        let edited = |list: &AclConfig, uses, marks: &[Mark]| {
            self.0.iter().find_map(|old| old.edited(list, uses, marks))
        };
        self.lists(config, |_| true, edited)
    }

    /// The same, all with trees of their own.
    #[must_use]
    pub fn whole_for(&self, config: &Config) -> Self {
        self.lists(config, |old| old.compiled.is_none(), |_, _, _| None)
    }

    /// True if some are an edit of another one.
    pub fn has_edits(&self) -> bool {
        self.0.iter().any(|list| list.compiled.is_some())
    }

    /// The lists of a configuration: a known one that will do, the result of `or`, or
    /// compiled.
    fn lists(
        &self,
        config: &Config,
        will_do: impl Fn(&Listed) -> bool,
        or: impl Fn(&AclConfig, [bool; 2], &[Mark]) -> Option<Listed>,
    ) -> Self {
        let ready = config.lists.iter().enumerate().map(|(number, list)| {
            let (uses, marks) = (uses(config, number), marks(list));
            match self.0.iter().find(|old| old.is(uses, &marks) && will_do(old)) {
                Some(old) => old.clone(),
                None => {
                    let edited = or(list, uses, &marks);
                    Arc::new(edited.unwrap_or_else(|| Listed::new(list, uses, marks)))
                }
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
    /// of each list comes that of packets that match none.
    pub(super) fn lists(&mut self) {
        let shared = &mut *self.shared;
        let before = std::mem::take(&mut shared.lists);
        let ahead = std::mem::take(&mut shared.lists_ahead).0.into_iter();
        let known = ReadyLists(ahead.chain(before.0.iter().cloned()).collect());
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
    fn a_list_that_changes_in_a_few_entries_keeps_its_trees_until_there_are_new_ones() {
        let config = |last: &str| {
            let hosts =
                (0..200).map(|n| format!("{{ action = \"permit\", from = \"10.0.0.{n}\" }}"));
            let text = format!(
                "[node]\nname = \"r\"\nlab = true\n[[port]]\nname = \"a\"\n\
                 driver = \"wire\"\n[[interface]]\nport = \"a\"\naddress = [\"192.0.2.1/24\"]\n\
                 acl-in = \"one\"\n[[access-list]]\nname = \"one\"\nentry = [{}{last}]\n",
                hosts.collect::<Vec<_>>().join(", ")
            );
            Config::parse("r.toml", &text, &mut named_key).unwrap()
        };
        let (old, new) = (config(""), config(", { action = \"permit\", from = \"10.0.1.1\" }"));
        let lists = ReadyLists::default().edited_for(&old);
        assert!(!lists.has_edits(), "none was there before");
        let edited = lists.edited_for(&new);
        assert!(edited.has_edits() && edited.edited_for(&new).has_edits());
        // Again the same, and back.
        assert!(Arc::ptr_eq(&edited.ready_for(&new).0[0], &edited.0[0]));
        assert!(
            !ReadyLists(vec![lists.0[0].clone(), edited.0[0].clone()]).edited_for(&old).has_edits()
        );
        let whole = edited.whole_for(&new);
        assert!(!whole.has_edits());
        let mut packet = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 59, 0, 0, 10, 0, 1, 1, 192, 0, 2, 9];
        for (host, counter) in [([10, 0, 1, 1], 200), ([10, 0, 0, 7], 7), ([10, 0, 1, 2], 201)] {
            packet[12..16].copy_from_slice(&host);
            for list in [&edited, &whole] {
                let outcome = list.0[0].list.judge(&packet).unwrap();
                assert_eq!((outcome.counter(), outcome.permits()), (counter, counter < 201));
            }
        }
        // As many lists by as many names are no edits of one another.
        assert!(!lists.edited_for(&renamed(new)).has_edits());
    }

    fn renamed(mut config: Config) -> Config {
        config.lists[0].name = "other".into();
        config
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
