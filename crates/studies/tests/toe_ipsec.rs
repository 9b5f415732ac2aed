//! The study, run as `--quick` does: what it must reproduce, and what it says where
//! something is missing.

use ferrule_report::{Block, Proof, Report, Verdict, html, json};
use ferrule_studies::toe_ipsec::bench::{Way, datagrams, stream};
use ferrule_studies::toe_ipsec::document;
use ferrule_studies::toe_ipsec::live::Live;
use ferrule_studies::toe_ipsec::model::{self, Model};
use ferrule_studies::toe_ipsec::network::System;
use ferrule_studies::toe_ipsec::published::Study;
use std::sync::OnceLock;

fn nothing_live() -> Result<Live, String> {
    Err("not run: one core".into())
}

fn modelled() -> &'static Model {
    static MODEL: OnceLock<Model> = OnceLock::new();
    MODEL.get_or_init(|| model::run(true, &mut |_| {}))
}

fn reported() -> &'static Report {
    static REPORT: OnceLock<Report> = OnceLock::new();
    REPORT.get_or_init(|| document(modelled(), &nothing_live()))
}

#[test]
fn toe_throughput_of_the_three_systems_is_that_of_table_2() {
    let study = Study::read();
    for system in System::ALL {
        let printed = study.result_of(system).throughput_share;
        for way in Way::ALL {
            let found = modelled().share(system, way);
            let off = 100.0 * (found / printed - 1.0);
            assert!(off.abs() < 10.0, "{system:?} {way:?}: {found}, printed {printed}");
        }
    }
}

#[test]
fn toe_host_works_in_software_alone_and_a_look_aside_packet_waits_for_four_crossings() {
    let at = |system: System| datagrams(system, system.device(), Way::Out, (1051, 100.0), 300);
    let [software, look_aside, inline] = System::ALL.map(at);
    assert!((43.0..50.0).contains(&software.host_us), "{software:?}");
    assert_eq!((look_aside.host_us, inline.host_us), (0.0, 0.0));
    // Four crossings of about 1051 octets at 4.256 Gbit/s, and 0.93 us each beside; the
    // card takes the packet's time on the line once more.
    let more = look_aside.mean_us - inline.mean_us;
    assert!((0.0..13.0).contains(&more), "{look_aside:?} {inline:?}");
}

#[test]
fn toe_bus_alone_does_not_limit_a_pipelined_look_aside_at_any_size() {
    let mut device = System::LookAside.device();
    device.look_aside.bus_latency_ns = 0.0;
    for octets in [128, 512, 1280] {
        let point = datagrams(System::LookAside, device.clone(), Way::Out, (octets, 500.0), 600);
        assert!(point.share > 0.999, "{octets}: {point:?}");
    }
}

#[test]
fn toe_tcp_goes_both_ways_through_every_system() {
    for way in Way::ALL {
        let rates = System::ALL.map(|system| stream(system, system.device(), way));
        let [software, look_aside, inline] = rates;
        assert!(software > 20.0 && software < look_aside && look_aside <= inline, "{rates:?}");
        assert!(inline > 700.0, "{rates:?}");
    }
}

#[test]
fn toe_claims_have_verdicts_and_errata_are_shown() {
    let verdicts: Vec<_> =
        reported().claims().map(|claim| (claim.id.as_str(), claim.verdict())).collect();
    let expected = [
        // 5 times and 1.25 times, by table 2 itself.
        ("inline-wins", Verdict::Fails),
        ("size-hurts-look-aside", Verdict::Fails),
        ("inline-flat", Verdict::Holds),
        ("crossover", Verdict::NotRun),
    ];
    assert_eq!(verdicts, expected);
    let errata = reported().blocks().find_map(|block| match block {
        Block::Errata(errata) => Some(errata),
        _ => None,
    });
    let open = |proof: &Proof| matches!(proof, Proof::Open(_));
    let errata = errata.expect("errata");
    assert_eq!(errata.len(), Study::read().erratum.len());
    assert_eq!(errata.iter().filter(|e| open(&e.proof)).count(), 1);
    assert!(!errata.iter().any(|e| matches!(e.proof, Proof::Refuted(_))), "{errata:#?}");
}

#[test]
fn toe_report_has_every_figure_and_reads_back() {
    let figures: Vec<&str> = reported().figures().map(|figure| figure.id.as_str()).collect();
    for id in ["figure-6", "figure-7", "latency"] {
        assert!(figures.contains(&id), "{id} of {figures:?}");
    }
    let text = json::render(reported());
    assert_eq!(json::read(&text).expect("a report"), *reported());
    let page = html::render(reported());
    for words in ["not run: one core", "0.94", "id=\"figure-figure-6\""] {
        assert!(page.contains(words), "{words}");
    }
}
