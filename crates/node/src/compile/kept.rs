//! Tables that outlive a configuration: one whose entries stay is not compiled again.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Digest in place of a value that is no secret: keeping it costs little for a value of any
/// size.
pub(crate) type Mark = [u8; 16];

/// Mark of a value; another value has another mark, chance aside.
pub(crate) fn mark(of: &impl Hash) -> Mark {
    let half = |which: u8| {
        let mut hasher = DefaultHasher::new();
        (which, of).hash(&mut hasher);
        hasher.finish()
    };
    (u128::from(half(0)) << 64 | u128::from(half(1))).to_be_bytes()
}

/// Compiled tables of one kind, by the mark of their entries.
pub(crate) struct KeptTables<T>(HashMap<Mark, Arc<T>>);

impl<T> Default for KeptTables<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> Clone for KeptTables<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> KeptTables<T> {
    /// The tables of these entries: those of the configuration before, and new ones compiled.
    /// Tables of other entries are forgotten.
    pub fn tables<E: Hash>(
        &mut self,
        all: impl IntoIterator<Item = E>,
        compile: impl Fn(E) -> T,
    ) -> Vec<Arc<T>> {
        let before = std::mem::take(&mut self.0);
        let table = |entries: E| {
            let mark = mark(&entries);
            let table = self.0.get(&mark).or_else(|| before.get(&mark));
            let table = table.cloned().unwrap_or_else(|| Arc::new(compile(entries)));
            self.0.insert(mark, table.clone());
            table
        };
        all.into_iter().map(table).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::{Shared, compile};
    use crate::config::{Config, named_key};
    use ferrule_base::MacAddr;
    use ferrule_dataplane::Tables;
    use ferrule_dataplane::ipsec::Spd;
    use ferrule_dataplane::route::Vrf;

    /// Two VRFs with a route each, and two interfaces with a policy each.
    fn tables(shared: &mut Shared, routes: [&str; 2], entries: [&str; 2]) -> Tables {
        let text = format!(
            "[node]\nname = \"r\"\nlab = true\n\
             [[port]]\nname = \"a\"\ndriver = \"wire\"\n\
             [[port]]\nname = \"b\"\ndriver = \"wire\"\n\
             [[interface]]\nport = \"a\"\naddress = [\"192.0.2.1/24\"]\n\
             [[interface]]\nport = \"b\"\naddress = [\"198.51.100.1/24\"]\nvrf = \"red\"\n\
             [[route]]\nprefix = \"{}\"\nvia = \"192.0.2.9\"\n\
             [[route]]\nprefix = \"{}\"\nvrf = \"red\"\nvia = \"198.51.100.9\"\n\
             [[policy]]\ninterface = \"a\"\naction = \"{}\"\n\
             [[policy]]\ninterface = \"b\"\naction = \"{}\"\n",
            routes[0], routes[1], entries[0], entries[1]
        );
        let config =
            Config::parse("r.toml", &text, &mut named_key).unwrap_or_else(|e| panic!("{e}"));
        let macs = [MacAddr([2, 0, 0, 0, 0, 1]); 2];
        compile(&config, &macs, shared, &Tables::default()).tables
    }

    #[test]
    fn tables_whose_entries_stay_are_not_compiled_again() {
        let mut shared = Shared::default();
        let (here, there) = (["10.1.0.0/16", "10.2.0.0/16"], ["10.1.0.0/16", "10.3.0.0/16"]);
        let first = tables(&mut shared, here, ["bypass", "bypass"]);
        let other_route = tables(&mut shared, there, ["bypass", "bypass"]);
        let other_policy = tables(&mut shared, there, ["discard", "bypass"]);
        let same_vrfs = |a: &Tables, b: &Tables| {
            let pairs = a.vrfs.iter().zip(&b.vrfs);
            pairs.map(|(a, b): (&Arc<Vrf>, _)| Arc::ptr_eq(a, b)).collect::<Vec<_>>()
        };
        let same_policies = |a: &Tables, b: &Tables| {
            let pairs = a.policies.iter().zip(&b.policies);
            pairs.map(|(a, b): (&Arc<Spd>, _)| Arc::ptr_eq(a, b)).collect::<Vec<_>>()
        };
        assert_eq!(same_vrfs(&first, &other_route), [true, false]);
        assert_eq!(same_policies(&first, &other_route), [true, true]);
        assert_eq!(same_vrfs(&other_route, &other_policy), [true, true]);
        assert_eq!(same_policies(&other_route, &other_policy), [false, true]);
        let is = |tables: &Tables, host: [u8; 4]| tables.vrfs[1].v4(host.into()).is_some();
        assert!(is(&first, [10, 2, 0, 1]) && !is(&first, [10, 3, 0, 1]));
        assert!(is(&other_route, [10, 3, 0, 1]) && !is(&other_route, [10, 2, 0, 1]));
    }
}
