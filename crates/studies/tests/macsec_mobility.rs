//! The study, run whole as `--quick` does: what it must reproduce, and what it says
//! where something is missing.

use ferrule_report::{Block, Cell, Kind, Proof, Report, Verdict, html, json};
use ferrule_studies::macsec_mobility::live::Live;
use ferrule_studies::macsec_mobility::model::{self, Model};
use ferrule_studies::macsec_mobility::network::{self, Lines, System};
use ferrule_studies::macsec_mobility::profiles::{Gateway, NAMES, Profiles};
use ferrule_studies::macsec_mobility::published::Study;
use ferrule_studies::macsec_mobility::{WITHIN_PERCENT, bench, gateway, overhead, report};
use std::sync::OnceLock;

const NO_ROOT: &str = "not run: needs root";

fn no_root() -> Result<Live, String> {
    Err(NO_ROOT.into())
}

/// Run once for all tests.
fn modelled() -> &'static Model {
    static MODEL: OnceLock<Model> = OnceLock::new();
    MODEL.get_or_init(|| model::run(&Study::read(), true, &mut |_| {}))
}

fn reported() -> &'static Report {
    static REPORT: OnceLock<Report> = OnceLock::new();
    REPORT.get_or_init(|| report(true, no_root(), &mut |_| {}))
}

#[test]
fn study_model_is_within_five_per_cent_of_every_printed_load_and_delay() {
    let (study, model) = (Study::read(), modelled());
    let mut compared = 0;
    for system in System::ALL {
        let printed = study.load_of(system.key());
        let rows = printed.offered_mbps.iter().zip(&printed.delay_us).zip(&printed.loss_percent);
        for (((load, delay), loss), point) in rows.zip(model.loads_of(system)) {
            assert_eq!(point.load_mbps, *load);
            let off = 100.0 * (point.mean_us / delay - 1.0);
            assert!(off.abs() < WITHIN_PERCENT, "{system:?} at {load}: {off:.2} %");
            assert_eq!(point.loss_percent(), *loss, "{system:?} at {load}");
            compared += 1;
        }
    }
    assert_eq!(compared, 14, "every point of tables 1 to 3");
    let full = gateway::full_mbps(&model.gateway());
    assert!((full / 120.0 - 1.0).abs() < 0.05, "full at {full}");
    // And the laboratory agrees that it is: just below nothing is lost, well above much.
    let lost: Vec<bool> = model.loads_of(System::Ipsec).iter().map(|p| p.lost > 0).collect();
    assert_eq!(lost[..5], [false; 5]);
    assert!(lost[6], "at 140 Mbit/s frames are lost");
    let extra = model.extra_per_hop_us();
    assert!((extra / 0.63 - 1.0).abs() < 0.05, "{extra} us a hop");
}

#[test]
fn study_profiles_are_files_and_fitting_again_gives_the_same() {
    let files = Profiles::read();
    assert_eq!(Profiles::of(&model::fit_again(&Study::read())), files);
    for (profile, name) in [&files.switch, &files.macsec, &files.gateway].into_iter().zip(NAMES) {
        assert_eq!(profile.name, name);
        assert!(profile.free.len() < profile.fit.points, "{profile:?}");
        assert!(profile.fit.error_percent < WITHIN_PERCENT, "{profile:?}");
        assert!(profile.fit.leave_one_out_percent < WITHIN_PERCENT, "{profile:?}");
        assert!(profile.origin.contains("Ahn, Shin 2019"), "{profile:?}");
        // What `lab run` takes by this name.
        assert_eq!(ferrule_lab::Profile::named(name).as_ref(), Some(profile));
    }
    let queue = modelled().queue.error_percent;
    assert!(queue > 2.0 * files.gateway.fit.error_percent, "why it is no server with a queue");
}

#[test]
fn study_gateway_closed_form_agrees_with_the_laboratory() {
    let model = modelled();
    let lines = Lines { rate: 1_000_000_000, queue: 256 };
    let run = |gateway: Option<Gateway>, load| {
        let mut profiles = model.profiles.clone();
        let ideal = ferrule_lab::Profile::ideal();
        profiles.gateway = gateway.map_or(ideal.clone(), |gateway| gateway.profile(ideal));
        let built = network::provider(System::Ipsec, &profiles, lines);
        bench::measure(built, System::Ipsec, load, 1000).mean_us
    };
    let path = gateway::Path { fixed_us: run(None, 20.0), spacing_us: 8.896 };
    // Also for a gateway that was fitted to nothing.
    let other = Gateway { poll_us: 91.3, budget: 2, work_us: 11.0 };
    for gateway in [model.gateway(), other] {
        for load in [20.0, 50.0, 80.0, 95.0] {
            let closed = path.fixed_us + gateway::waiting_us(&gateway, &path, load);
            let lab = run(Some(gateway), load);
            let off = 100.0 * (closed / lab - 1.0);
            assert!(off.abs() < 2.0, "{gateway:?} at {load}: {closed}, in the laboratory {lab}");
        }
    }
}

#[test]
fn study_overhead_is_exact_on_both_core_links_and_ceilings_are_the_calculators() {
    let (study, model) = (Study::read(), modelled());
    for system in System::ALL {
        let [two, one] = overhead::CORE_LINKS.map(|link| overhead::modelled(model, system, link));
        assert_eq!(one, overhead::published(&study, system));
        assert_eq!(two, one + 4.0);
        let calculated = overhead::calculated_ceiling(system.transform(), 2, 1_000_000_000);
        let (_, found) = model.ceilings.iter().find(|(of, _)| *of == system).expect("searched");
        // The search goes by quarters of a per cent when time is short.
        assert!((0.0..=0.3).contains(&(calculated - found)), "{system:?} {found} {calculated}");
    }
}

#[test]
fn study_errata_are_shown_by_arithmetic_and_none_is_refuted() {
    let errata = reported().blocks().find_map(|block| match block {
        Block::Errata(errata) => Some(errata),
        _ => None,
    });
    let errata = errata.expect("errata");
    assert_eq!(errata.len(), Study::read().erratum.len());
    for erratum in errata {
        match &erratum.proof {
            Proof::Shown(steps) => assert!(!steps.is_empty()),
            Proof::Open(_) => assert_eq!(erratum.place, "section 4", "the one about handoff"),
            Proof::Refuted(steps) => panic!("{}: {steps:#?}", erratum.place),
        }
    }
}

#[test]
fn study_claims_have_verdicts_and_handoff_is_not_run() {
    let verdicts: Vec<_> =
        reported().claims().map(|claim| (claim.id.as_str(), claim.verdict())).collect();
    let expected = [
        ("overhead-exact", Verdict::Holds),
        // 0.63 of 52.22 us are 1.2 %: not below one per cent, by the print's own numbers.
        ("hop-delay", Verdict::Fails),
        ("load-flat", Verdict::Holds),
        ("handoff-order", Verdict::NotRun),
    ];
    assert_eq!(verdicts, expected);
}

#[test]
fn study_without_root_says_so_where_live_numbers_would_stand() {
    let mut columns = 0;
    for column in reported().tables().flat_map(|table| table.columns()) {
        if column.kind() == Kind::Live {
            columns += 1;
            assert!(column.cells().iter().all(|cell| *cell == Cell::missing(NO_ROOT)));
        }
    }
    assert!(columns >= 2);
    let live = |claim: &ferrule_report::Claim| {
        claim.judgements.iter().any(|j| j.kind == Kind::Live && j.verdict == Verdict::NotRun)
    };
    assert!(reported().claims().all(live));
}

#[test]
fn study_gives_the_same_numbers_each_time_and_reads_back() {
    let again = report(true, no_root(), &mut |_| {});
    let text = json::render(reported());
    assert_eq!(json::render(&again), text);
    assert_eq!(json::read(&text).expect("a report"), again);
    let page = html::render(reported());
    for words in ["439.51", "1084", "not run: needs root", "id=\"figure-hop-load\""] {
        assert!(page.contains(words), "{words}");
    }
}
