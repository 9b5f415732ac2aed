//! Figure 1: where a VPN box can stand.

use super::super::places::{FRAME, Place};
use ferrule_report::{Column, Derived, Model as ModelNumber, Section, Table};

/// The five, as `ferrule lab run` has them.
pub fn places(places: &[Place]) -> Section {
    let trip = |f: fn(&Place) -> f64| {
        places.iter().map(move |place| ModelNumber::from(f(place) / 1000.0)).collect::<Vec<_>>()
    };
    let found = |f: fn(&Place) -> String| places.iter().map(f).collect::<Vec<_>>();
    let added = places.iter().map(|place| {
        let least = places.iter().map(|p| p.machines_us - p.lines_us).fold(f64::MAX, f64::min);
        Derived::from((place.machines_us - place.lines_us - least) / 1000.0)
    });
    let table = Table::new("places", "Figure 1: five places for a VPN box")
        .column(Column::words("place", places.iter().map(|place| place.called.clone())))
        .column(Column::words("topology", places.iter().map(|place| place.name)))
        .column(Column::findings::<ModelNumber>("in clear", found(|p| p.names_of(true))))
        .column(Column::findings::<ModelNumber>("sealed", found(|p| p.names_of(false))))
        .column(Column::findings::<ModelNumber>(
            "the firewall sees",
            found(|p| p.firewall().into()),
        ))
        .column(
            Column::numbers("overhead", "B", places.iter().map(|p| ModelNumber::from(p.overhead())))
                .decimals(0),
        )
        .column(Column::numbers("lines", "ms", trip(|p| p.lines_us)).decimals(2))
        .column(Column::numbers("with machines", "ms", trip(|p| p.machines_us)).decimals(2))
        .column(Column::numbers("over the least", "ms", added).decimals(2))
        .note(format!(
            "A frame of {FRAME} bytes there and back, ESP with AES-GCM-128, lines of 100 Mbit/s and \
             one of 2 Mbit/s with 5 ms. Overhead on that line. Lines: nodes take no time; with \
             machines: each is the plausible machine of 2001. fw firewall, rt router, vpn VPN \
             box, nos a host's own system, 1 and 2 the sites."
        ));
    Section::new("Five places for a VPN box")
        .text(
            "Each is a topology that one can run and change: `ferrule lab run vpn-line`. The \
             further out the box stands the more machines see clear packets; in the hosts \
             themselves nobody else does, and no firewall can look into them either. The \
             overhead is the new header's in a tunnel, and less in transport mode.",
        )
        .table(table)
}
