//! Verdict of stock tshark on a capture: a name for every layer, no warning, and the packets inside
//! ESP once it has the keys.

use super::plan::{Protect, Variant};
use crate::process::{Fault, Runner};
use serde::Serialize;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// tshark takes this long at most.
const LIMIT: Duration = Duration::from_secs(60);
/// Its mark of a warning; an error is worth more.
const WARNING: u64 = 0x0060_0000;

/// Verdict of tshark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The layers of the study's frames.
    pub layers: String,
    /// Frames of a malformed layer, a warning or an error.
    pub complaints: usize,
    /// The layers are those that there are, to the innermost that it can read.
    pub complete: bool,
}

/// Has tshark read a capture, with the key log of a node if there is one.
pub fn read(
    runner: &Runner,
    capture: &Path,
    bytes: usize,
    variant: &Variant,
    key_log: Option<&Path>,
) -> Result<Verdict, Fault> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(capture);
    if let Some(path) = key_log {
        let entries = std::fs::read_to_string(path);
        let entries = entries.map_err(|e| Fault::failed(path.display().to_string(), e))?;
        command.args(["-o", "esp.enable_encryption_decode:TRUE"]);
        for entry in entries.lines() {
            command.args(["-o", &format!("uat:esp_sa:{entry}")]);
        }
    }
    command.args(["-T", "fields", "-E", "separator=/t"]);
    for field in ["frame.len", "frame.protocols", "_ws.malformed", "_ws.expert.severity"] {
        command.args(["-e", field]);
    }
    let text = runner.done(&mut command, LIMIT)?;
    Ok(judge(&text, bytes, variant))
}

fn judge(text: &str, bytes: usize, variant: &Variant) -> Verdict {
    let (mut layers, mut complaints) = (String::new(), 0);
    let mut complete = false;
    let expected = expected_layers(variant);
    for line in text.lines() {
        let mut fields = line.split('\t');
        let mut field = || fields.next().unwrap_or_default();
        let (len, protocols, malformed, severity) = (field(), field(), field(), field());
        let severe = severity.split(',').filter_map(|word| word.parse().ok());
        let severe = severe.max().is_some_and(|worst: u64| worst >= WARNING);
        complaints += usize::from(severe || !malformed.is_empty());
        if len.parse() != Ok(bytes) {
            continue;
        }
        let right = expected.iter().all(|layer| protocols.split(':').any(|word| word == *layer))
            && protocols.ends_with(expected.last().copied().unwrap_or_default());
        complete = if layers.is_empty() { right } else { complete && right };
        if layers.is_empty() || !right {
            layers = protocols.to_owned();
        }
    }
    Verdict { layers, complaints, complete }
}

/// The layers that tshark can see. What is inside MACsec it cannot.
fn expected_layers(variant: &Variant) -> Vec<&'static str> {
    let outer = ["eth", "mpls", "pwethcw"];
    let inner: &[&str] = match variant.protect {
        Protect::Nothing => &["vlan", "ip", "udp", "data"],
        Protect::Macsec(_) => &["macsec", "data"],
        Protect::Esp(_) => &["ip", "esp", "udp", "data"],
    };
    outer.into_iter().chain(inner.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::plan::VARIANTS;
    use super::*;

    #[test]
    fn demo_takes_warnings_and_missing_layers_of_tshark_seriously() {
        let whole = "1022\teth:ethertype:mpls:pwethcw:eth:ethertype:vlan:ethertype:ip:udp:data";
        let judged = |text: &str| judge(text, 1022, &VARIANTS[0]);
        let good = judged(&format!("{whole}\t\t\n64\teth:ethertype:arp\t\t\n"));
        assert!(good.complete && good.complaints == 0, "{good:?}");
        assert_eq!(judged(&format!("{whole}\t1\t\n")).complaints, 1);
        assert_eq!(judged(&format!("{whole}\t\t{WARNING}\n")).complaints, 1);
        assert_eq!(judged(&format!("{whole}\t\t2097152\n")).complaints, 0, "a chat");
        let cut = "1022\teth:ethertype:mpls:pwethcw:data\t\t\n";
        assert!(!judged(cut).complete);
        assert!(!judged(&format!("{whole}\t\t\n{cut}")).complete, "every one of them");
        assert!(!judged("").complete, "nothing there");
    }
}
