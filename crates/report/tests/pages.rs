//! Pages that are made for reading: the answer first, the rest folded, nothing said twice.

#[path = "../examples/sample.rs"]
mod sample;

use ferrule_report::html::{Entry, index, render, render_beside};
use ferrule_report::svg::Hues;
use ferrule_report::{
    Axis, Circumstance, Column, Figure, Item, Kind, Live, Model, Plot, Report, Section, Series,
    Shape, State, Table, csv,
};

/// The sample as a reproduction, with the figure that shows its answer.
fn led() -> Report {
    let mut report = sample::report();
    report.lead = "delay".into();
    report.circumstances = vec![Circumstance { name: "load".into(), value: "0.5".into() }];
    report.citations = vec!["Somebody, a paper".into()];
    report
}

/// Without what only the script and the styles see.
fn readable(page: &str) -> String {
    let body = page.split_once("</style>").map_or(page, |(_, body)| body);
    let mut text = String::new();
    for (number, piece) in body.split("<script").enumerate() {
        let seen = if number == 0 { piece } else { piece.split_once("</script>").expect("end").1 };
        text.push_str(seen);
    }
    text
}

#[test]
fn page_begins_with_the_answer_its_figure_and_every_claim() {
    let report = led();
    let page = render(&report);
    let (first, rest) = page.split_once("<main").expect("a main part");
    for words in ["What does a report look like?", "Like this:", "class=\"plot lead\"", "<svg"] {
        assert!(first.contains(words), "{words}");
    }
    for claim in report.claims() {
        assert!(first.contains(&format!("href=\"#claim-{}\"", claim.id)), "{}", claim.id);
        assert!(rest.contains(&format!("id=\"claim-{}\"", claim.id)), "{}", claim.id);
    }
    assert!(!first.contains("a machine, 2 processors") && rest.contains("a machine, 2 processors"));
    assert!(rest.contains("<dt>Load</dt><dd>0.5</dd>") && rest.contains("Somebody, a paper"));
}

#[test]
fn sections_fold_where_a_page_begins_with_its_answer_and_stand_open_elsewhere() {
    let folded = readable(&render(&led()));
    assert_eq!(folded.matches("<details>").count(), led().sections.len() + 1);
    let open = readable(&render(&sample::report()));
    assert_eq!(open.matches("<details open>").count(), sample::report().sections.len());
    // On paper nothing is folded, with and without script.
    let page = render(&led());
    assert!(page.contains("details::details-content") && page.contains("beforeprint"));
}

#[test]
fn reason_that_nothing_was_run_is_said_once() {
    let why = "not run: needs root";
    let live = || Column::results::<Live, _>("delay", "µs", [Err(why), Err(why)]);
    let words = || Column::words("system", ["a", "b"]);
    let model = || Column::numbers("delay", "µs", [1.0, 2.0].map(Model::from));
    let mut report = Report::new("t", "q");
    let mut section = Section::new("s");
    for id in ["one", "two"] {
        section = section.table(Table::new(id, id).column(words()).column(model()).column(live()));
    }
    report.sections = vec![section.table(Table::new("all", "all").column(words()).column(live()))];
    let text = readable(&render(&report));
    assert_eq!(text.matches("needs root").count(), 1, "{text}");
    assert_eq!(text.matches(">live<").count() + text.matches(" live</span>").count(), 1, "{text}");
    // Files keep a cell for each.
    let table = report.tables().next().expect("a table");
    assert_eq!(csv::render(&report, table).matches(why).count(), 2);
}

#[test]
fn reason_that_several_cells_have_stands_beneath_the_table() {
    let cells = [Ok(Model::from(1.0)), Err("not printed"), Err("not printed"), Err("no buffer")];
    let table = Table::new("t", "t")
        .column(Column::settings("load", "", [1.0, 2.0, 3.0, 4.0]))
        .column(Column::results("delay", "µs", cells));
    let mut report = Report::new("t", "q");
    report.sections = vec![Section::new("s").table(table)];
    let text = readable(&render(&report));
    assert_eq!(text.matches("not printed").count(), 1);
    assert_eq!(text.matches("–<sup>a</sup>").count(), 2);
    assert!(text.contains("<sup>a</sup> not printed") && text.contains(">no buffer</td>"));
}

#[test]
fn group_has_one_colour_in_all_figures() {
    let figure = |id: &str, groups: &[&str]| {
        let series = groups.iter().map(|group| {
            Series::new(*group, Shape::Line, [(1.0, Model::from(1.0)), (2.0, Model::from(3.0))])
        });
        Figure::xy(id, id, [Axis::new("x", ""), Axis::new("y", "")], series.collect())
    };
    let figures = [figure("one", &["plain", "ESP"]), figure("two", &["ESP", "plain", "MACsec"])];
    let hues = Hues::of(&figures);
    assert_eq!(["plain", "ESP", "MACsec"].map(|group| hues.hue(group)), [0, 1, 2]);
    let mut report = Report::new("t", "q");
    let [one, two] = figures;
    report.sections = vec![Section::new("s").figure(one).figure(two)];
    let page = render(&report);
    assert!(page.contains("data-hues=\"0 1\"") && page.contains("data-hues=\"1 0 2\""));
}

#[test]
fn ticks_stand_at_what_was_set() {
    let points = [1.0, 2.0, 4.0, 6.0].map(|x| (x, Model::from(x)));
    let axes = [Axis::new("switches", ""), Axis::new("delay", "µs")];
    let series = vec![Series::new("MACsec", Shape::Line, points)];
    let text = ferrule_report::svg::render(&Figure::xy("f", "f", axes, series));
    let labels =
        |words: &str| text.contains(&format!("text-anchor=\"middle\" class=\"soft\">{words}<"));
    assert!(["1", "2", "4", "6"].iter().all(|words| labels(words)), "{text}");
    assert!(!labels("3") && !labels("5"), "nobody tried 3 and 5");
}

fn item(place: &str, shown: &[&str], with: &[Kind]) -> Item {
    Item {
        place: place.into(),
        what: "delay".into(),
        section: "3".into(),
        shown: shown.iter().map(|id| (*id).to_owned()).collect(),
        with: with.to_vec(),
        drawing: false,
        waits: String::new(),
    }
}

#[test]
fn item_is_in_the_state_that_its_numbers_give_it() {
    let mut report = led();
    let both = item("table 1", &["delay"], &[Kind::Model, Kind::Live]);
    assert_eq!(both.found(&report), (State::Reproduced, vec![Kind::Model, Kind::Live]));
    let gone = item("table 2", &["nothing"], &[Kind::Model]);
    assert_eq!(gone.found(&report), (State::NotRun, vec![]));
    assert_eq!(gone.at_best(), State::Reproduced);
    let mut later = item("table 3", &[], &[]);
    later.waits = "wireless comes later".into();
    assert_eq!(later.found(&report).0, State::Waits);
    report.inventory = vec![both, gone, later];
    let page = readable(&render(&report));
    assert!(page.contains("1 reproduced, 1 not run, 1 waits."), "{page}");
    assert!(page.contains("reproduced: model, live") && page.contains("wireless comes later"));
    assert!(page.contains("href=\"#table-delay\"") && page.contains("href=\"#figure-delay\""));
}

#[test]
fn index_has_every_item_of_every_report_and_the_way_there_and_back() {
    let mut report = led();
    report.inventory = vec![item("table 1", &["delay"], &[Kind::Model])];
    let entries = ["one.html", "two.html"].map(|file| Entry { file, report: &report });
    let page = index("Two of them", &entries);
    for file in ["one.html", "two.html"] {
        assert!(page.contains(&format!("href=\"{file}#table-delay\"")), "{file}");
        assert!(page.contains(&format!("href=\"{file}#claim-flat\"")), "{file}");
    }
    assert!(render_beside(&report, Some("index.html")).contains("href=\"index.html\""));
}

#[test]
fn headings_of_a_page_skip_no_level_and_tables_have_captions() {
    let mut report = led();
    report.inventory = vec![item("table 1", &["delay"], &[Kind::Model])];
    let entry = [Entry { file: "one.html", report: &report }];
    for page in [render(&report), render(&sample::report()), index("All", &entry)] {
        let text = readable(&page);
        let mut last = 0;
        for piece in text.split("<h").skip(1) {
            let Some(level) = piece.chars().next().and_then(|c| c.to_digit(10)) else { continue };
            assert!(level <= last + 1, "from {last} to {level}: {}", &piece[..40]);
            last = level;
        }
        assert_eq!(text.matches("<h1").count(), 1);
        assert_eq!(text.matches("<table").count(), text.matches("<caption").count());
    }
}

#[test]
fn figure_as_csv_has_a_line_for_each_point_and_part() {
    let report = sample::report();
    for figure in report.figures() {
        let text = csv::figure(&report, figure);
        let points: usize = match &figure.plot {
            Plot::Xy(xy) => xy.series.iter().map(|series| series.points().len()).sum(),
            Plot::Bars(bars) => bars.bars.iter().map(|bar| bar.values().len()).sum(),
        };
        assert_eq!(text.lines().count(), points + 1, "{}: {text}", figure.id);
        let columns: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
        assert!(columns.iter().all(|count| *count == columns[0]), "{text}");
    }
    let delay = csv::figure(&report, report.figures().next().expect("a figure"));
    assert!(delay.contains("ESP,published,20,343.94,,\r\n"), "{delay}");
    assert!(delay.contains("ESP,live,20,40,32,60\r\n"), "{delay}");
}

#[test]
fn terminal_says_once_that_nothing_was_run() {
    let live = Column::results::<Live, _>("delay", "µs", [Err("not run: needs root"); 2]);
    let table = Table::new("t", "t").column(Column::words("system", ["a", "b"])).column(live);
    let mut report = Report::new("t", "q");
    report.sections = vec![Section::new("s").table(table)];
    let terminal = ferrule_report::terminal::Terminal { width: 100, colour: false };
    let text = ferrule_report::terminal::render(&report, terminal);
    assert!(text.contains("Not run: needs root.\n"), "{text}");
    assert_eq!(text.matches("needs root").count(), 1, "{text}");
}
