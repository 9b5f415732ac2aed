//! Every claim of the studies' files is in the report, with its section and a verdict that
//! rests on evidence or says why there is none.

use ferrule_report::{Kind, Report, Verdict};
use ferrule_studies::options::Options;
use ferrule_studies::{acl_mpls, ipsec_ip_layer, macsec_mobility, prebuffered_ctr, toe_ipsec};

const WHY: &str = "not run: a test of the files";

/// A file's claims, read without the program's own types.
fn claims(text: &str) -> Vec<toml::Table> {
    let file: toml::Table = toml::from_str(text).expect("a file");
    let claims = file["claim"].as_array().expect("claims");
    claims.iter().map(|claim| claim.as_table().expect("a claim").clone()).collect()
}

fn check(text: &str, report: &Report) {
    let printed = claims(text);
    assert_eq!(printed.len(), report.claims().count(), "{}", report.title);
    for (said, shown) in printed.iter().zip(report.claims()) {
        let of = |key: &str| said[key].as_str().expect("a text");
        assert_eq!((of("id"), of("text")), (shown.id.as_str(), shown.text.as_str()));
        assert_eq!(of("section"), shown.section, "{}", shown.id);
        assert!(shown.section.contains("section") || shown.section.contains("figure"), "{said:?}");
        assert!(!shown.judgements.is_empty(), "{}", shown.id);
        for judgement in &shown.judgements {
            let basis = judgement.evidence();
            assert_eq!(basis.is_none(), judgement.verdict() == Verdict::NotRun, "{judgement:?}");
            assert!(!judgement.words().is_empty(), "{judgement:?}");
            // Whatever is judged is judged by this place of the print.
            let named = basis.is_none_or(|basis| basis.said.contains("section"));
            assert!(named || basis.is_some_and(|b| b.said.contains("figure")), "{judgement:?}");
        }
        // What was fitted never holds.
        assert_ne!(shown.by(Kind::Fitted), Verdict::Holds, "{}", shown.id);
        // Each threshold of the file is used.
        let asked = said.get("threshold").and_then(|all| all.as_array()).into_iter().flatten();
        for asked in asked {
            let words = asked["said"].as_str().expect("words");
            let mut bases = shown.judgements.iter().filter_map(|j| j.evidence());
            assert!(bases.any(|basis| basis.said.contains(words)), "{}: {words}", shown.id);
        }
    }
}

macro_rules! study {
    ($name:ident, $file:literal, $report:expr) => {
        #[test]
        fn $name() {
            check(include_str!(concat!("../../../studies/", $file)), &$report);
        }
    };
}

study!(
    digest_of_macsec_mobility_is_judged_claim_by_claim,
    "macsec-mobility.toml",
    macsec_mobility::report(Options::QUICK, Err(WHY.into()), &mut |_| {})
);
study!(
    digest_of_toe_ipsec_is_judged_claim_by_claim,
    "toe-ipsec.toml",
    toe_ipsec::report(Options::QUICK, Err(WHY.into()), &mut |_| {})
);
study!(
    digest_of_prebuffered_ctr_is_judged_claim_by_claim,
    "prebuffered-ctr.toml",
    prebuffered_ctr::report(Options::QUICK, Err(WHY.into()), &mut |_| {})
);
study!(
    digest_of_ipsec_ip_layer_is_judged_claim_by_claim,
    "ipsec-ip-layer.toml",
    ipsec_ip_layer::report(Options::QUICK, &ipsec_ip_layer::live::Live::none(WHY), &mut |_| {})
);
study!(
    digest_of_acl_mpls_is_judged_claim_by_claim,
    "acl-mpls.toml",
    acl_mpls::report(Options::QUICK, &Err(WHY.into()), &mut |_| {})
);
