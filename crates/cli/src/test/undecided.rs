//! Tests of the command line's limits, and of answers where nothing was measured.

use super::tests::{answer, read};
use super::{Answer, PathBuf};
use std::time::Duration;

const LAB: &str = "--lab two-gateways --size 512 --drain 50ms --quick --quiet";

/// The answer to trials that have no time, as no command line asks for them.
fn timeless(words: &str) -> Answer {
    let mut what = read(words).unwrap_or_else(|e| panic!("{words}: {e}"));
    what.setup_mut().times.duration = Some(Duration::ZERO);
    what.answer().unwrap_or_else(|e| panic!("{words}: {e}"))
}

fn file(name: &str, text: &str) -> PathBuf {
    let name = format!("ferrule-undecided-{}-{name}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, text).expect("a file");
    path
}

#[test]
fn times_too_short_to_measure_in_are_refused_with_the_least() {
    for (test, option) in [
        ("throughput", "--duration"),
        ("throughput", "--confirm"),
        ("mesh", "--duration"),
        ("bridge", "--duration"),
        ("loss", "--duration"),
        ("mlrsearch", "--sum"),
        ("back-to-back", "--longest"),
        ("recovery", "--overload"),
        ("recovery", "--after"),
        ("soak --at 1kpps", "--interval"),
        ("soak --at 1kpps", "--duration"),
    ] {
        for time in ["0s", "1us"] {
            let read = read(&format!("{test} {LAB} {option} {time}"));
            if (option, time) == ("--confirm", "0s") {
                assert!(read.is_ok(), "none is asked for");
                continue;
            }
            let said = read.err().unwrap_or_else(|| panic!("{test} {option} {time}"));
            assert!(said.contains("10ms at least, such as 250ms or 2s"), "{said}");
            assert!(said.contains(option), "{said}");
        }
    }
}

#[test]
fn rfc2544_tests_in_which_no_frame_was_sent_are_findings() {
    for words in [
        "throughput",
        "latency",
        "latency --at 1kpps",
        "loss",
        "bridge",
        "recovery",
        "reset --at 1kpps --node gw1",
        "soak --at 1kpps",
        "mesh --pattern one-way",
    ] {
        let answer = timeless(&format!("{words} {LAB}"));
        assert!(answer.finding, "{words}: {}", answer.report.answer);
        let said = answer.report.answer.to_lowercase();
        assert!(!said.contains("pps without") && !said.contains("all 0 frames"), "{words}: {said}");
        assert!(!said.contains("nan") && !said.contains("0.00 %"), "{words}: {said}");
    }
    for words in ["throughput", "loss", "soak --at 1kpps"] {
        let said = timeless(&format!("{words} {LAB}")).report.answer.to_lowercase();
        assert!(said.contains("no frame"), "{words}: {said}");
    }
    let ports = "--lab campus --tx h1 --tx h5 --rx h2 --rx h3";
    let found = timeless(&format!("congestion {ports} --size 512 --drain 50ms --quiet"));
    assert!(found.finding && found.report.answer.contains("no frame was sent"));
    // Streams that begin behind the end.
    let plan = file("late.toml", "[[stream]]\nrate = \"1kpps\"\nsize = 512\nafter = \"1s\"\n");
    let words = format!("stream {LAB} --plan {} --duration 20ms", plan.display());
    let found = answer(&words).unwrap_or_else(|e| panic!("{e}"));
    std::fs::remove_file(plan).expect("the file");
    assert!(found.finding && found.report.answer.contains("No frame was sent."));
}

#[test]
fn rfc9971_goals_whose_trials_have_no_time_are_no_panic() {
    let mut what = read(&format!("mlrsearch {LAB}")).unwrap_or_else(|e| panic!("{e}"));
    what.setup_mut().times.duration = Some(Duration::ZERO);
    let fault = what.answer().err().expect("a fault");
    assert!(fault.to_string().contains("its trials take time"), "{fault}");
}

#[test]
fn latency_of_frames_of_which_none_arrived_is_a_finding_and_no_number() {
    let topology = include_str!("../../../../topologies/two-gateways.toml");
    let last = "ends = [\"gw2:lan\", \"h2\"]";
    let path = file("cut.toml", &topology.replace(last, &format!("{last}\nloss = \"100%\"")));
    let lab = format!("--lab {} --size 64 --drain 50ms --quick --quiet", path.display());
    let answer = answer(&format!("latency {lab} --at 1kpps"));
    std::fs::remove_file(path).expect("the file");
    let answer = answer.unwrap_or_else(|e| panic!("{e}"));
    assert!(answer.finding);
    let json = ferrule_report::json::render(&answer.report);
    assert!(answer.report.answer.contains("No frame arrived"), "{}", answer.report.answer);
    assert!(answer.report.answer.contains("lost for 64 at 1000 pps"), "{}", answer.report.answer);
    assert!(json.contains("No frame arrived") && !json.contains("Median latency"), "{json}");
}

#[test]
fn loads_that_the_line_does_not_carry_are_refused_before_anything_is_sent() {
    let plan = file("fast.toml", "[[stream]]\nname = \"a\"\nrate = \"2Gbit/s\"\nsize = 512\n");
    let stream = format!("stream --plan {}", plan.display());
    // 532 octets with preamble and gap on a line of 1 Gbit/s.
    let carried = "carries of frames of 512 octets: 234962 pps";
    let remedy = "at most, or shorter frames with --size";
    for (words, said) in [
        ("latency --at 10Mpps", ["--at 10000000 pps is more than a line of 1 Gbit/s", carried]),
        ("latency --at 10Mpps", ["give --at 234962pps", remedy]),
        ("latency --at 2Gpps", ["--at 2000000000 pps", carried]),
        ("soak --at 300kpps", ["--at 300000 pps", carried]),
        ("reset --at 300kpps --node gw1", ["--at 300000 pps", carried]),
        ("recovery --throughput 300kpps", ["--throughput 300000 pps", carried]),
        ("throughput --min 300kpps", ["--min 300000 pps", carried]),
        (&stream, ["stream a: 2 Gbit/s is more than a line of 1 Gbit/s carries", "a lower rate"]),
    ] {
        let words = format!("{words} {LAB}");
        let fault = answer(&words).err().unwrap_or_else(|| panic!("{words}: no fault"));
        for said in said {
            assert!(fault.to_string().contains(said), "{words}: {fault}");
        }
        assert_eq!(fault.exit_code(), 2, "{words}");
    }
    std::fs::remove_file(plan).expect("the file");
    let said = read(&format!("latency {LAB} --at 1000Gpps")).err().expect("refused");
    assert!(said.contains("more than any line carries: 2Gpps at most"), "{said}");
    let all = answer(&format!("soak {LAB} --at 234962pps --duration 10ms"));
    assert!(all.is_ok(), "the line carries it, if not the device");
}

#[test]
fn lowest_loads_above_the_highest_are_refused() {
    for test in ["throughput", "latency", "loss", "mlrsearch", "bridge", "mesh", "recovery"] {
        let words = format!("{test} {LAB} --min 100kpps --max 10kpps");
        let fault = answer(&words).err().unwrap_or_else(|| panic!("{words}: no fault"));
        let said = "--min 100000 pps is above --max 10000 pps";
        assert!(fault.to_string().contains(said), "{words}: {fault}");
        assert_eq!(fault.exit_code(), 2, "{words}");
    }
}
