//! One document in all its renderings: nothing is lost, nothing escapes.

#[path = "../examples/sample.rs"]
#[allow(unused)]
mod sample;

use ferrule_report::terminal::{self, Terminal};
use ferrule_report::{
    Axis, Block, Cell, Column, Figure, Kind, Live, Measure, Model, Published, Report, Section,
    Series, Shape, Table, Verdict, csv, html, json, svg,
};

const PLAIN: Terminal = Terminal { width: 100, colour: false };

#[test]
fn report_json_reads_back_as_it_was() {
    let report = sample::report();
    let text = json::render(&report);
    assert!(text.contains("\"schema\": \"ferrule-report/1\""));
    assert_eq!(json::read(&text).expect("a report"), report);
    // Also what is hard to write exactly.
    let mut odd = Report::new("", "");
    let values = [0.1 + 0.2, f64::MIN_POSITIVE, 1e300, -0.0, 2.0_f64.powi(53) + 1.0];
    let column = Column::numbers("n", "", values.map(Model::from));
    odd.sections = vec![Section::new("s").table(Table::new("t", "").column(column))];
    assert_eq!(json::read(&json::render(&odd)).expect("a report"), odd);
}

#[test]
fn report_json_of_another_schema_or_shape_is_refused() {
    let text = json::render(&sample::report());
    let other = text.replace("ferrule-report/1", "ferrule-report/2");
    let error = json::read(&other).expect_err("another schema").to_string();
    assert!(error.contains("ferrule-report/2") && error.contains("ferrule-report/1"), "{error}");
    assert!(json::read(&text.replacen("\"question\"", "\"quest\"", 1)).is_err());
    assert!(json::read("{}").is_err() && json::read("").is_err());
}

#[test]
fn report_json_with_a_verdict_that_its_basis_does_not_bear_out_is_refused() {
    let text = json::render(&sample::report());
    assert!(text.contains("\"verdict\": \"fails\""));
    let forged = text.replace("\"verdict\": \"fails\"", "\"verdict\": \"holds\"");
    let error = json::read(&forged).expect_err("a forgery").to_string();
    assert!(error.contains("its basis says \"fails\""), "{error}");
}

#[test]
fn report_schema_page_names_every_field() {
    fn keys(value: &serde_json::Value, found: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(map) => map.iter().for_each(|(key, value)| {
                found.push(key.clone());
                keys(value, found);
            }),
            serde_json::Value::Array(all) => all.iter().for_each(|value| keys(value, found)),
            _ => {}
        }
    }
    let page = include_str!("../SCHEMA.md");
    let value = serde_json::from_str(&json::render(&sample::report())).expect("JSON");
    let mut found = Vec::new();
    keys(&value, &mut found);
    assert!(found.len() > 100);
    for key in found {
        assert!(page.contains(&format!("`{key}`")), "SCHEMA.md does not name {key}");
    }
    assert!(page.contains(json::SCHEMA));
}

#[test]
fn report_column_is_of_one_origin_and_says_which() {
    let published = Column::numbers("d", "µs", [1.0, 0.0].map(Published::from));
    let model = Column::numbers("d", "µs", [1.05, 0.0].map(Model::from));
    assert_eq!((published.kind(), model.kind()), (Kind::Published, Kind::Model));
    let off = Column::deviation("off", &model, &published);
    assert_eq!(off.kind(), Kind::Derived);
    let cell = off.cells()[0].measure().expect("a number");
    assert!((cell.value - 5.0).abs() < 1e-9);
    assert_eq!(off.show(1), "0.0", "nothing against nothing is no deviation");
    // What is no number is nothing, rather than a broken file.
    let bad = Column::numbers("x", "", [Model::from(f64::NAN), Model::from(f64::INFINITY)]);
    assert!(bad.cells().iter().all(|cell| matches!(cell, Cell::Missing { .. })));
    assert_eq!(sample::report().kinds(), [Kind::Published, Kind::Model, Kind::Live, Kind::Derived]);
}

#[test]
fn report_csv_quotes_and_keeps_words_from_being_formulas() {
    let report = sample::report();
    let table = report.tables().next().expect("a table");
    let text = csv::render(&report, table);
    let lines: Vec<&str> = text.split("\r\n").collect();
    assert_eq!(
        lines[0],
        "load [Mbit/s],system,delay [µs] published,delay [µs] model,off by [%] derived,\
         delay [µs] live,delay [µs] live low,delay [µs] live high"
    );
    assert!(lines[2].contains("\"MACsec, the long name of a system\""), "{text}");
    assert!(lines[3].contains("not run: needs root,,"), "{text}");
    assert!(lines[4].starts_with("80,'=ESP,439.51,429.1,"), "{text}");
    let fields = |line: &str| line.replace("MACsec, the", "MACsec the").matches(',').count();
    assert!(lines[..5].iter().all(|line| fields(line) == 7), "{text}");
}

#[test]
fn report_terminal_tables_are_aligned_at_any_width() {
    let report = sample::report();
    let table = report.tables().next().expect("a table");
    for width in [200, 100, 90, 80] {
        let text = terminal::render_table(table, Terminal { width, colour: false });
        assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
        // The unit stands to the right like its numbers.
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[2].starts_with("Mbit/s") && lines[2].contains("published µs"), "{text}");
        // Numbers end where their units end.
        let end = |line: &str, word: &str| {
            let (before, _) = line.split_once(word).expect("a word");
            before.chars().count() + word.chars().count()
        };
        let row = lines.iter().find(|line| line.contains("439.51")).expect("a row");
        assert_eq!(end(lines[2], "published µs"), end(row, "439.51"), "{text}");
        assert_eq!(end(lines[2], "model µs"), end(row, "429.10"), "{text}");
        assert!(text.contains("  not run: needs root\n") && text.contains(" 36.0 (32.4–43.2)\n"));
    }
    let narrow = terminal::render_table(table, Terminal { width: 40, colour: false });
    assert!(narrow.contains("load (Mbit/s)") && narrow.contains("409.91"), "{narrow}");
}

#[test]
fn report_terminal_shows_verdicts_and_is_the_same_without_colour() {
    let report = sample::report();
    let plain = terminal::render(&report, PLAIN);
    assert!(plain.contains("fails     flat") && plain.contains("not run   handoff"), "{plain}");
    assert!(plain.contains("62 / 32 = 1.94") && plain.contains("refuted "), "{plain}");
    let colour = terminal::render(&report, Terminal { colour: true, ..PLAIN });
    let mut bare = String::new();
    let mut pieces = colour.split('\x1b');
    bare.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        bare.push_str(piece.split_once('m').expect("a colour").1);
    }
    assert_eq!(bare, plain);
}

#[test]
fn report_terminal_obeys_no_text() {
    let mut report = sample::report();
    report.title = "a\x1b[31mb\x07\u{9b}2Jc".into();
    let text = terminal::render(&report, PLAIN);
    assert!(text.starts_with("a[31mb2Jc\n"), "{text:?}");
}

#[test]
fn report_svg_is_whole_and_shows_every_point() {
    for figure in sample::report().figures() {
        let text = svg::render(figure);
        assert!(well_formed(&text), "{}", figure.id);
        assert!(text.contains("prefers-color-scheme:dark") && text.contains("<desc>"));
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
    let report = sample::report();
    let delay = svg::render(report.figures().next().expect("a figure"));
    for words in
        ["ESP, published: 409.9 µs at 60 Mbit/s", "ESP, live: 40 µs at 20 Mbit/s", "saturates"]
    {
        assert!(delay.contains(words), "{words}");
    }
}

#[test]
fn report_svg_takes_any_numbers() {
    let odd = [f64::NAN, f64::INFINITY, 0.0, -1.0, 1e300, 1e-300, 5.0];
    for log in [false, true] {
        let axis = || Axis { log, ..Axis::new("<a>", "\"b\"") };
        let points = odd.map(|v| (v, Model::from(Measure::within(v, v - 1.0, v + 1.0))));
        let series = vec![
            Series::new("s", Shape::Line, points),
            Series::new("e", Shape::Step, Vec::<(f64, Model)>::new()),
        ];
        let text = svg::render(
            &Figure::xy("odd", "x < y & z", [axis(), axis()], series).mark(f64::NAN, ""),
        );
        assert!(well_formed(&text) && !text.contains("NaN") && !text.contains("inf"), "{text}");
    }
}

#[test]
fn report_cumulative_and_histogram_add_up() {
    let series = Series::cumulative::<Model>("s", [3.0, 1.0, 2.0, 2.0, f64::NAN]);
    let points: Vec<_> = series.points().iter().map(|p| (p.x, p.y.value)).collect();
    assert_eq!(points, [(1.0, 0.0), (1.0, 25.0), (2.0, 75.0), (3.0, 100.0)]);
    let series = Series::histogram::<Model>("s", [(0.0, 5), (10.0, 2)], 20.0);
    let points: Vec<_> = series.points().iter().map(|p| (p.x, p.y.value)).collect();
    assert_eq!(points, [(0.0, 5.0), (10.0, 2.0), (20.0, 0.0)]);
}

#[test]
fn report_draws_a_distribution_of_one_value() {
    let series = Series::cumulative::<Live>("s", [4.5; 1000]);
    let axes = [Axis::new("latency", "us").log(), Axis::new("share", "%").from_zero()];
    let text = svg::render(&Figure::xy("one", "One value", axes, vec![series]));
    // A path with one place alone shows nothing: this one goes from the axis to the top.
    let path = text.split("<path d=\"M").nth(1).and_then(|rest| rest.split('"').next());
    let path = path.expect("a path");
    let (from, to) = path.split_once('V').expect("upwards");
    let from: f64 = from.split([' ', 'H']).nth(1).and_then(|y| y.parse().ok()).expect("a place");
    assert!(from - to.parse::<f64>().expect("a place") > 200.0, "{path}");
    assert!(Series::cumulative::<Live>("none", []).points().is_empty());
}

#[test]
fn report_says_everywhere_which_device_which_program_measured() {
    let mut report = sample::report();
    report.device = "Linux bridge br0 of 6.1".into();
    report.program = "ferrule 9.8.7".into();
    report.partial = true;
    let table = report.tables().next().expect("a table");
    let texts = [
        terminal::render(&report, Terminal { width: 100, colour: false }),
        json::render(&report),
        html::render(&report),
        csv::render(&report, table),
    ];
    for text in &texts {
        assert!(
            text.contains("Linux bridge br0 of 6.1") && text.contains("ferrule 9.8.7"),
            "{text}"
        );
        assert!(!text.contains("Ferrule's data path measured"), "a bridge is none");
    }
    assert!(texts[..3].iter().all(|text| text.contains("artial")), "it is not all");
    assert_eq!(json::read(&texts[1]).expect("a report"), report);
    let columns = |line: &str| line.split(',').count();
    let rows: Vec<usize> = texts[3].lines().map(|l| columns(&l.replace("MACsec, ", ""))).collect();
    assert!(rows.windows(2).all(|pair| pair[0] == pair[1]), "{rows:?}");
}

#[test]
fn report_page_stands_alone() {
    let page = html::render(&sample::report());
    assert!(page.contains("default-src 'none'"), "the policy");
    for loads in
        ["src=", "@import", "url(", "<link", "<iframe", "fetch(", "XMLHttpRequest", "import("]
    {
        assert!(!page.contains(loads), "the page has {loads}");
    }
    // Where an address stands it is a name or in a comment, never a reference.
    let outside = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!outside.contains("href=\"http"), "no link leads out");
    assert!(page.contains("uPlot: The MIT License") || page.contains("uPlot: MIT"), "its licence");
    assert!(page.len() < 400_000, "{} octets", page.len());
}

#[test]
fn report_page_has_every_table_figure_and_verdict_without_script() {
    let report = sample::report();
    let page = html::render(&report);
    let (static_part, _) = page.rsplit_once("<script>").expect("the script stands last");
    for figure in report.figures() {
        assert!(static_part.contains(&format!("id=\"figure-{}\"", figure.id)));
        let (_, rest) =
            static_part.split_once(&format!("id=\"figure-{}\"", figure.id)).expect("it");
        let (body, _) = rest.split_once("</figure>").expect("its end");
        assert_eq!(body.matches("<svg").count(), 2, "wide and narrow: {}", figure.id);
    }
    for cell in ["439.51", "429.10", "36.0 (32.4–43.2)", "not run: needs root", "1.938"] {
        assert!(static_part.contains(&format!(">{cell}<")), "{cell}");
    }
    for words in
        ["holds</span>", "fails</span>", "not run</span>", "62 / 32 = 1.94", "prefers-color-scheme"]
    {
        assert!(static_part.contains(words), "{words}");
    }
    let verdicts: Vec<_> = report.claims().map(|claim| claim.verdict()).collect();
    assert_eq!(verdicts, [Verdict::Fails, Verdict::NotRun, Verdict::Holds]);
}

#[test]
fn report_page_escapes_whatever_it_is_given() {
    let evil = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>`<b>`&";
    let mut report = Report::new(evil, evil);
    let text = || evil.to_owned();
    [report.answer, report.machine, report.command, report.date] = [text(), text(), text(), text()];
    let table = Table::new(evil, evil)
        .note(evil)
        .column(Column::words(evil, [evil]))
        .column(Column::results::<Model, _>(evil, evil, [Err(evil)]));
    let point = [(1.0, Model::from(1.0))];
    let figure = Figure::xy(
        evil,
        evil,
        [Axis::new(evil, evil), Axis::new(evil, evil)],
        vec![Series::new(evil, Shape::Line, point)],
    );
    let mut section = Section::new(evil).text(evil).list([evil]).table(table);
    section = section.figure(figure.mark(1.0, evil).caption(evil)).block(Block::Code(text()));
    report.sections = vec![section];
    let page = html::render(&report);
    assert!(!page.contains("<script>alert") && !page.contains("<img") && !page.contains("<b>"));
    assert_eq!(page.matches("</script>").count(), 3, "the table's data, the figure's, the script");
    for figure in report.figures() {
        assert!(well_formed(&svg::render(figure)));
    }
}

/// Every element that opens closes, in order; attributes are quoted.
fn well_formed(text: &str) -> bool {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let Some(end) = rest[at..].find('>') else { return false };
        let tag = &rest[at + 1..at + end];
        rest = &rest[at + end + 1..];
        let name = tag.trim_start_matches('/').split([' ', '/', '\n']).next().unwrap_or_default();
        if tag.contains('<') || !tag.matches('"').count().is_multiple_of(2) {
            return false;
        }
        match (tag.starts_with('/'), tag.ends_with('/')) {
            (true, _) if open.pop() != Some(name) => return false,
            (false, false) => open.push(name),
            _ => {}
        }
    }
    open.is_empty() && text.starts_with("<svg")
}
