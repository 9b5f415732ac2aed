//! A report that has one of everything, as a page: what to look at when the page's
//! style or script changes. `cargo run -p ferrule-report --example sample > page.html`

use ferrule_report::{
    Axis, Bars, Block, Claim, Column, Condition, Derived, Erratum, Evidence, Figure, Kind, Live,
    Measure, Model, Proof, Published, Report, Section, Series, Shape, Table, Threshold,
};

const LOADS: [f64; 4] = [20.0, 40.0, 60.0, 80.0];

fn delays() -> Table {
    let published =
        Column::numbers("delay", "µs", [343.94, 345.71, 409.91, 439.51].map(Published::from));
    let model = Column::numbers("delay", "µs", [349.0, 349.2, 402.7, 429.1].map(Model::from));
    let spread = |value: f64| Live::from(Measure::within(value, value * 0.9, value * 1.2));
    let live = [Ok(spread(35.0)), Ok(spread(36.0)), Err("not run: needs root"), Ok(spread(38.0))];
    Table::new("delay", "Delay by offered load")
        .column(Column::settings("load", "Mbit/s", LOADS))
        .column(Column::words(
            "system",
            ["plain", "MACsec, the long name of a system", "ESP", "=ESP"],
        ))
        .column(published.clone().decimals(2))
        .column(model.clone().decimals(2))
        .column(Column::deviation("off by", &model, &published))
        .column(Column::results("delay", "µs", live).decimals(1))
        .note("1000-byte frames; load counts preamble, gap and FCS.")
}

fn curves() -> Vec<Figure> {
    let line =
        |scale: f64| LOADS.map(|load| (load, Model::from(scale * 330.0 / (1.0 - load / 120.0))));
    let live = LOADS.map(|load| (load, Live::from(Measure::within(40.0, 32.0, 55.0 + load / 4.0))));
    let print = LOADS.into_iter().zip([343.94, 345.71, 409.91, 439.51].map(Published::from));
    let axes = || [Axis::new("offered load", "Mbit/s").from_zero(), Axis::new("delay", "µs").log()];
    let curve = Figure::xy(
        "delay",
        "Delay by load",
        axes(),
        vec![
            Series::new("ESP", Shape::Line, line(1.0)),
            Series::new("ESP", Shape::Points, print),
            Series::new("MACsec", Shape::Line, line(0.15)),
            Series::new("ESP", Shape::Line, live),
        ],
    );
    let samples = (0..400).map(|n| 50.0 + f64::from(n % 97) * f64::from(n % 7) / 4.0);
    let shares = Figure::xy(
        "share",
        "Share of frames that are not later",
        [Axis::new("delay", "µs"), Axis::new("share", "%").from_zero()],
        vec![Series::cumulative::<Model>("ESP", samples)],
    );
    let walk = (0..200).map(|n| {
        let value = 100.0 + 20.0 * (f64::from(n) / 9.0).sin();
        (f64::from(n), Live::from(Measure::within(value, value - 8.0, value + 12.0)))
    });
    let band = Figure::xy(
        "rate",
        "Rate over time",
        [Axis::new("time", "ms"), Axis::new("rate", "Mbit/s")],
        vec![Series::new("MACsec", Shape::Line, walk)],
    );
    let bars =
        Bars::of::<Model>(Axis::new("length", "bytes"), ["provider", "protection", "user's frame"])
            .bar("plain", "mpls cw", [22.0, 0.0, 1000.0].map(Model::from))
            .bar("MACsec", "macsec sci | mpls cw", [22.0, 32.0, 1000.0].map(Model::from))
            .bar(
                "ESP",
                "esp aes-cbc-128 hmac-sha1-96 tunnel | mpls cw",
                [22.0, 66.0, 996.0].map(Model::from),
            );
    vec![
        curve.mark(120.0, "saturates").caption("Zoom by dragging; `0` shows all."),
        shares,
        band,
        Figure::new("bytes", "Bytes on the wire", bars.plot()),
    ]
}

/// One of everything.
pub fn report() -> Report {
    let flat = (Threshold::AtMost(1.0), "hardly grows, section 3.4");
    let model = Evidence::computed("growth", 0.1, flat).unit("%").against("the lowest load");
    let live = (Measure::within(9.0, 8.0, 10.0), 9);
    let live = Evidence::repeated("growth", live, flat).unit("%").on([Condition::carried(100.0)]);
    let bytes = (Threshold::Exactly(1022.0), "figure 4");
    let claims = vec![
        Claim::new("flat", "MACsec's delay does not grow with load")
            .section("section 3.4")
            .judged(Kind::Model, model, "52.2 to 52.3 µs")
            .judged(Kind::Live, live, "35 to 38 µs & <b>more</b>"),
        Claim::new("handoff", "MACsec hands off sooner").not_run(Kind::Model, "later"),
        Claim::new("bytes", "1022 bytes").judged(
            Kind::Model,
            Evidence::counted("bytes", 1022, bytes),
            "",
        ),
    ];
    let erratum = |proof| Erratum {
        place: "section 3.3".into(),
        text: "says 1.4 times; it is more".into(),
        proof,
    };
    let errata = vec![
        erratum(Proof::Shown(vec!["62 / 32 = 1.94".into(), "1.94 ≠ 1.4".into()])),
        erratum(Proof::Refuted(vec!["62 / 44 = 1.4".into()])),
        erratum(Proof::Open("nothing to calculate".into())),
    ];
    let ratio = Table::new("ratio", "A ratio")
        .column(Column::words("of", ["ESP to MACsec", "MACsec to plain"]))
        .column(Column::numbers("bytes", "", [62.0 / 32.0, 1.05].map(Derived::from)));
    let mut figures = Section::new("Figures").text("Four of them.");
    for figure in curves() {
        figures = figures.figure(figure);
    }
    let mut report = Report::new("One of everything <sample>", "What does a report look like?");
    report.answer = "Like this: `ferrule` & a page that \"needs\" nothing else.".into();
    report.machine = "a machine, 2 processors".into();
    report.command = "cargo run -p ferrule-report --example sample".into();
    report.date = "2026-01-02 03:04 UTC".into();
    report.sections = vec![
        Section::new("Claims").block(Block::Claims(claims)),
        Section::new("Tables").table(delays()).list(["one", "two `code`"]).table(ratio),
        figures,
        Section::new("Errata").block(Block::Errata(errata)).block(Block::Code("x < y\n".into())),
    ];
    report
}

#[allow(dead_code)] // The tests use the rest of this file.
fn main() {
    print!("{}", ferrule_report::html::render(&report()));
}
