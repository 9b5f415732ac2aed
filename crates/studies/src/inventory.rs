//! Inventory of the studies' papers: the items that the digests list, and so the statements of
//! reports, the overall index and `study list` on each.

use crate::{acl_mpls, ipsec_ip_layer, macsec_mobility, prebuffered_ctr, toe_ipsec};
use ferrule_report::{Item, Report};
use serde::Deserialize;

/// A study's digest: what stands in it for every study alike.
#[derive(Debug, Deserialize)]
pub struct Digest {
    /// The paper's title.
    pub title: String,
    /// Authors, as far as they are known.
    #[serde(default)]
    pub authors: Vec<String>,
    /// Year of publication, if the paper states it.
    pub year: Option<u16>,
    /// Its systems, tables, figures and sections with results, in its order.
    pub inventory: Vec<Item>,
}

/// The digest of a study by its name, as it is in the tree.
pub fn text(name: &str) -> Option<&'static str> {
    Some(match name {
        macsec_mobility::NAME => include_str!("../../../studies/macsec-mobility.toml"),
        ipsec_ip_layer::NAME => include_str!("../../../studies/ipsec-ip-layer.toml"),
        prebuffered_ctr::NAME => include_str!("../../../studies/prebuffered-ctr.toml"),
        toe_ipsec::NAME => include_str!("../../../studies/toe-ipsec.toml"),
        acl_mpls::NAME => include_str!("../../../studies/acl-mpls.toml"),
        _ => return None,
    })
}

/// Files of what a study's model takes for its devices, by name; what is fitted says so.
pub fn profiles(name: &str) -> &'static [(&'static str, &'static str)] {
    macro_rules! files {
        ($($file:literal in $folder:literal),*) => {
            &[$(($file, include_str!(concat!("../../../profiles/", $folder, $file)))),*]
        };
    }
    match name {
        macsec_mobility::NAME => files!(
            "study-switch.toml" in "",
            "study-macsec.toml" in "",
            "study-gateway.toml" in ""
        ),
        ipsec_ip_layer::NAME => files!(
            "ipsec-2001-plausible.toml" in "studies/",
            "ipsec-2001-fitted.toml" in "studies/"
        ),
        prebuffered_ctr::NAME => files!("microsd.toml" in "token/"),
        toe_ipsec::NAME => files!(
            "toe-software.toml" in "",
            "toe-look-aside.toml" in "",
            "toe-inline.toml" in ""
        ),
        // Its four limits are fitted as it runs: the table `limits`.
        _ => &[],
    }
}

impl Digest {
    /// A study's by its name.
    pub fn of(name: &str) -> Option<Self> {
        text(name).map(|text| toml::from_str(text).expect("the digest is as its test has it"))
    }

    /// The paper as one cites it.
    pub fn citation(&self) -> String {
        let authors = self.authors.join(", ");
        let by = if authors.is_empty() { String::new() } else { format!("{authors}: ") };
        let year = self.year.map_or_else(String::new, |year| format!(", {year}"));
        format!("{by}“{}”{year}", self.title)
    }
}

/// A report on a study's paper, without results yet; `lead` names the figure that shows its
/// answer.
pub(crate) fn begun(name: &str, question: &str, lead: &str) -> Report {
    let digest = Digest::of(name).expect("a study's own name");
    let mut report = Report::new(format!("Reproduction of “{}”", digest.title), question);
    report.lead = lead.into();
    report.citations = vec![digest.citation()];
    report.inventory = digest.inventory;
    report
}
