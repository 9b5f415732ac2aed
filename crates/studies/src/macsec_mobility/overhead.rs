//! Figures 4, 5 and 7: what a 1000-byte frame is on the provider's lines, and what a
//! line carries of it.

use super::bench::FRAME;
use super::live::Live;
use super::model::Model;
use super::network::System;
use super::published::Study;
use ferrule_overhead::{Layout, Stack};
use ferrule_report::{
    Axis, Bars, Column, Derived, Figure, Live as LiveNumber, Model as ModelNumber, Published,
    Section, Table,
};

/// The study's frame, in the grammar of `ferrule overhead`.
pub const STACK: &str = "eth vlan ipv4 udp 954";
/// Places of the provider's links among all: PE1 to P, P to PE2.
pub const CORE_LINKS: [usize; 2] = [2, 3];

/// A system's stack on a link with so many labels.
pub fn stack(transform: &str, labels: usize) -> Stack {
    let core = if labels == 1 { "mpls cw".to_owned() } else { format!("mpls {labels} cw") };
    let bar = if transform.is_empty() { "" } else { " | " };
    let text = format!("{STACK}{bar}{transform} | {core}");
    Stack::parse(&text).unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

/// Octets on a link with so many labels, as the calculator has them.
pub fn calculated(transform: &str, labels: usize) -> f64 {
    stack(transform, labels).wire_len(FRAME).map_or(f64::NAN, |len| len as f64)
}

/// The highest load without loss in percent of the line, as the calculator has it.
pub fn calculated_ceiling(transform: &str, labels: usize, rate: u64) -> f64 {
    stack(transform, labels).ceiling(rate, rate).map_or(f64::NAN, |ceiling| 100.0 * ceiling.share)
}

/// Octets on the wire as printed for a system.
pub fn published(study: &Study, system: System) -> f64 {
    match system {
        System::Plain => study.overhead.plain_on_wire,
        System::Macsec => study.overhead.macsec_on_wire,
        System::Ipsec => study.overhead.ipsec_on_wire,
    }
}

/// Octets of the frame on a link in the laboratory.
pub fn modelled(model: &Model, system: System, link: usize) -> f64 {
    let point = model.loads_of(system).first();
    point.and_then(|point| point.octets.get(link)).map_or(f64::NAN, |octets| *octets as f64)
}

/// The whole part.
pub fn section(study: &Study, model: &Model, live: &Result<Live, String>) -> Section {
    Section::new("Overhead")
        .text(
            "A frame of 1000 bytes with VLAN tag, IPv4 and UDP crosses the provider's network. \
             The provider adds an Ethernet header, labels and a control word; behind P, which \
             pops the transport label, one label is left, and that is what the study's captures \
             show.",
        )
        .table(sizes(study, model, live))
        .figure(drawing())
        .table(ceilings(study, model, live))
}

fn sizes(study: &Study, model: &Model, live: &Result<Live, String>) -> Table {
    let [first, second] = CORE_LINKS;
    let systems = System::ALL;
    let on = |link| systems.map(|system| ModelNumber::from(modelled(model, system, link)));
    let measured = |link: usize| {
        systems.map(|system| match live {
            Ok(live) => match live.octets(system) {
                Some(octets) => Ok(LiveNumber::from(octets[link] as f64)),
                None => Err("not measured".to_owned()),
            },
            Err(why) => Err(why.clone()),
        })
    };
    let printed =
        Column::numbers("P–PE2", "B", systems.map(|s| Published::from(published(study, s))));
    let behind = Column::numbers("P–PE2", "B", on(second));
    Table::new("overhead", "The 1000-byte frame on the provider's lines")
        .column(Column::words("system", systems.map(System::name)))
        .column(printed.clone())
        .column(behind.clone())
        .column(Column::deviation("off by", &behind, &printed))
        .column(Column::results("P–PE2", "B", measured(1)))
        .column(Column::numbers("PE1–P", "B", on(first)))
        .column(Column::results("PE1–P", "B", measured(0)))
        .note(
            "Bytes without FCS. PE1–P carries two labels, P–PE2 one. In the model they are \
             those of frames seen on the links of the laboratory.",
        )
}

fn ceilings(study: &Study, model: &Model, live: &Result<Live, String>) -> Table {
    let rate = (study.setup.link_rate_mbps * 1e6) as u64;
    let found = |system| {
        let found = model.ceilings.iter().find(|(of, _)| *of == system);
        ModelNumber::from(found.map_or(f64::NAN, |(_, share)| *share))
    };
    let by = |labels| {
        System::ALL.map(|s| Derived::from(calculated_ceiling(s.transform(), labels, rate)))
    };
    let measured = System::ALL.map(|system| {
        let live = live.as_ref().map_err(Clone::clone)?;
        let found = live.ceilings.iter().find(|(of, _)| *of == system);
        let (_, mbps) = found.ok_or("not measured")?;
        Ok::<_, String>(LiveNumber::from(100.0 * mbps / study.setup.link_rate_mbps))
    });
    Table::new("ceilings", "The highest load without loss, in per cent of the access line")
        .column(Column::words("system", System::ALL.map(System::name)))
        .column(Column::numbers("two labels", "%", System::ALL.map(found)).decimals(2))
        .column(Column::numbers("two labels", "%", by(2)).decimals(2))
        .column(Column::numbers("one label", "%", by(1)).decimals(2))
        .column(Column::results("two labels", "%", measured).decimals(1))
        .note(
            "Devices that take no time: the lines alone decide, and the fullest is the one with \
             two labels. Model: the highest load of a search with the tester that lost nothing; \
             derived: by calculation. Preamble, FCS and gap count. Live: the same search over veth \
             pairs, which have no rate: what this machine's processors carry, in the same unit.",
        )
}

fn drawing() -> Figure {
    let parts = ["the provider's headers", "protection by the customer", "the user's frame"];
    let mut bars = Bars::of::<Derived>(Axis::new("frame from P to PE2", "bytes"), parts);
    let gcm = ("IPsec with AES-GCM", "esp aes-gcm-128 tunnel");
    let all = System::ALL.map(|system| (system.name(), system.transform()));
    for (name, transform) in all.into_iter().chain([gcm]) {
        let Ok(layout) = stack(transform, 1).layout() else { continue };
        let values = shares(&layout).map(|octets| Derived::from(octets as f64));
        bars = bars.bar(name, transform, values);
    }
    Figure::new("overhead", "Where the bytes go, from P to PE2", bars.plot()).caption(
        "As the calculator has them. The last bar is no part of the study: the same tunnel with \
         AES-GCM, which shows how much of the difference is the choice of the suite.",
    )
}

/// Octets of the provider, of the customer's protection, and of the user's frame.
fn shares(layout: &Layout) -> [usize; 3] {
    let stages = layout.stages.len();
    let mut octets = [0; 3];
    for segment in &layout.segments {
        let part = match segment.stage {
            0 => 2,
            stage if stage == stages => 0,
            _ => 1,
        };
        octets[part] += segment.bytes;
    }
    octets
}
