//! A recording: a finding that can be repeated anywhere. It holds the topology as it was read, with
//! the files beside it, and the parts of the seed's case that are left.
//!
//! ```toml
//! [recording]
//! version = 1
//! found = "replay at 3.28s (ce1, …): 73 packets accepted, where …"
//! invariant = "replay"
//! file = "ten-nodes.toml"
//! topology = '''…'''
//! [recording.files]
//! "gw1.toml" = '''…'''
//! [case]
//! seed = 17
//! …
//! ```

use super::case::Case;
use super::finding::{Finding, Invariant};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the format.
pub const VERSION: u32 = 1;

/// A finding and what repeats it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Recording {
    /// The finding, and the network that it was made in.
    pub recording: Found,
    /// The case after shrinking.
    pub case: Case,
}

/// A finding and the topology that it was made in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Found {
    /// The version of the format.
    pub version: u32,
    /// The finding, in a sentence.
    pub found: String,
    /// The promise that was broken.
    pub invariant: String,
    /// The name of the topology's file.
    pub file: String,
    /// The variant of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Text of the topology file.
    pub topology: String,
    /// The files beside it, by the names that it uses.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

/// A topology as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The name of its file.
    pub file: String,
    /// The variant that was chosen.
    pub variant: Option<String>,
    /// Text of the topology file.
    pub text: String,
    /// The files beside it.
    pub files: BTreeMap<String, String>,
}

impl Recording {
    /// Records a finding.
    pub fn new(source: &Source, case: Case, finding: &Finding) -> Self {
        let Source { file, variant, text, files } = source.clone();
        let (found, invariant) = (finding.to_string(), finding.invariant.name().to_owned());
        let version = VERSION;
        let recording = Found { version, found, invariant, file, variant, topology: text, files };
        Self { recording, case }
    }

    /// True if a file is a recording rather than a topology.
    pub fn is_one(text: &str) -> bool {
        text.lines().any(|line| line.trim() == "[recording]")
    }

    /// Reads a recording; the error is a sentence that says what to do.
    pub fn parse(text: &str) -> Result<Self, String> {
        let recording: Self = toml::from_str(text)
            .map_err(|e| format!("not a recording: {}; take a whole one", e.message()))?;
        let Found { version, invariant, .. } = &recording.recording;
        if *version != VERSION {
            return Err(format!(
                "a recording of version {version}; this ferrule reads version {VERSION}"
            ));
        }
        if Invariant::by_name(invariant).is_none() {
            return Err(format!("a recording of `{invariant}`, which this ferrule does not check"));
        }
        Ok(recording)
    }

    /// The recording as a file. The error is what TOML cannot hold: no seed that
    /// is drawn, but a caller may have chosen one.
    pub fn text(&self) -> Result<String, String> {
        let body = toml::to_string(self).map_err(|e| format!("cannot be written: {e}"))?;
        Ok(format!("# Repeat it: ferrule lab run THIS-FILE\n{body}"))
    }

    /// The network.
    pub fn source(&self) -> Source {
        let Found { file, variant, topology, files, .. } = self.recording.clone();
        Source { file, variant, text: topology, files }
    }

    /// True if the recorded finding is among `findings`.
    pub fn is_repeated_by(&self, findings: &[Finding]) -> bool {
        findings.iter().any(|f| f.to_string() == self.recording.found)
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::Shape;
    use super::*;
    use ferrule_base::Instant;

    #[test]
    fn a_recording_reads_back_whatever_the_case_and_the_topology_hold() {
        let (links, nodes) = ((0..9).collect(), (0..6).collect());
        let shape = Shape { start_ns: 5, length_ns: 50_000_000, flows: 3, links, nodes };
        let text = "name = \"x\"\nconfig = '''\n[node]\n'''\n# \"\"\" \\ \u{1f980}\n".to_owned();
        let files = [("gw1.toml", "a = 1\n"), ("b/c.toml", "")];
        let files = files.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
        let source = Source { file: "x.toml".into(), variant: Some("v".into()), text, files };
        for seed in (0..200).chain([i64::MAX as u64]) {
            let case = Case::draw(seed, &shape);
            let (place, what) = ("gw1".to_owned(), "\"quoted\"".to_owned());
            let invariant = Invariant::ALL[seed as usize % Invariant::ALL.len()];
            let finding = Finding { invariant, at: Instant::from_nanos(seed), place, what };
            let recording = Recording::new(&source, case, &finding);
            let text = recording.text().unwrap();
            assert!(Recording::is_one(&text), "{text}");
            let back = Recording::parse(&text).unwrap();
            assert_eq!(back, recording);
            assert_eq!(back.source(), source);
            assert!(back.is_repeated_by(&[finding]) && !back.is_repeated_by(&[]));
        }
        let wrong = Recording::parse("[recording]\nversion = 1\n").unwrap_err();
        assert!(wrong.contains("not a recording"), "{wrong}");
        assert!(!Recording::is_one("name = \"two-gateways\"\n[node.gw1]\n"));
    }
}
