//! Chains of up to 32 switches in tables and a figure: each delay by its parts.

use super::chains::{self, BURSTS, CHAIN, Chain, LOW, SHARES};
use super::live::{Live, LiveHop};
use super::model::{self, Model};
use super::network::System;
use super::published::Study;
use super::software::Prices;
use ferrule_report::{
    Axis, Bars, Column, Figure, Live as LiveNumber, Measure, Model as ModelNumber, Section, Table,
};

/// Digits of a microsecond: nanoseconds are what the laboratory counts in.
const DECIMALS: u8 = 3;
/// Parts that switches have: all but the last.
const OF_SWITCHES: usize = SHARES.len() - 1;

/// The whole section. It runs switches of the machine at hand, as their prices are live.
pub fn section(
    study: &Study,
    model: &Model,
    live: &Result<Live, String>,
    say: &mut dyn FnMut(&str),
) -> Section {
    let [low, bursts] = &model.chains;
    let titled = |how| format!("Delay by number of switches and its parts, {how}");
    Section::new("Chains of up to 32 switches, and where the time goes")
        .text(
            "Figures 2 and 9 further than they go. The laboratory notes of every frame, link by \
             link and device by device, what was bits on a line, forwarding, crypto and waiting; \
             the parts add up to the delay that the tester measured, and a test holds them to \
             it. Of a switch the print tells one latency, 0.653 µs as fitted, in which look-up \
             is contained; of a gateway one piece of work for look-up and crypto: neither is \
             divided here.",
        )
        .table(by_length("chain", titled("at a constant rate"), low).column(delays(low, live)).note(format!(
            "Frames of 1000 bytes at a constant {:.0} Mbit/s. Nobody but the gateways lets a \
             frame wait: theirs is the wait for the next look. Live: {LIVE}",
            LOW.load_mbps
        )))
        .figure(figure(low))
        .table(by_length("chain-bursts", titled("in bursts"), bursts).note(format!(
            "The same frames in bursts of {}, {:.0} Mbit/s on average. A burst waits where a \
             line has more to carry than the one before: with MACsec behind the first edge, \
             once, however long the chain is; at a gateway for frames before it and for looks.",
            BURSTS.burst.unwrap_or(1),
            BURSTS.load_mbps
        )))
        .table(by_hop(model))
        .table(prices(live))
        .table(software(study, live, say))
}

const LIVE: &str = "the median of trials, the least and the greatest, at the same load, each \
    switch a process and each cable a veth pair of one machine; plain and MACsec in turn.";

/// A row for each system and length.
fn by_length(id: &str, title: impl Into<String>, chains: &[Chain]) -> Table {
    let table = Table::new(id, title)
        .column(Column::words("system", chains.iter().map(|chain| chain.system.name())))
        .column(Column::settings("switches", "", chains.iter().map(|c| c.switches as f64)))
        .column(mean("delay", chains, |chain| chain.delay_ps));
    let gateways = chains.iter().any(|chain| chain.system == System::Ipsec);
    // Without gateways their column is empty.
    let shares = SHARES.iter().take(if gateways { SHARES.len() } else { OF_SWITCHES });
    shares.fold(table, |table, (name, of)| {
        table.column(mean(name, chains, move |chain| of(&chain.shares())))
    })
}

/// A mean time of each chain.
fn mean(head: &str, chains: &[Chain], of: impl Fn(&Chain) -> u64) -> Column {
    let each = chains.iter().map(|chain| ModelNumber::from(chain.mean_us(of(chain))));
    Column::numbers(head, "µs", each).decimals(DECIMALS)
}

/// Measured delays of the same chains.
fn delays(chains: &[Chain], live: &Result<Live, String>) -> Column {
    let hops = live.as_ref().map_err(Clone::clone);
    let hops = hops.and_then(|live| live.hops.as_deref().map_err(Clone::clone));
    let found = chains.iter().map(|chain| {
        let hops = hops.as_ref().map_err(|why| why.to_owned())?;
        let hop = hops.iter().find(|hop| hop.switches == chain.switches);
        let of = |hop: &LiveHop| match chain.system {
            System::Plain => Some(hop.plain),
            System::Macsec => Some(hop.macsec),
            System::Ipsec => None,
        };
        let [median, least, greatest] = hop.and_then(of).ok_or("not measured")?;
        Ok::<_, String>(LiveNumber::from(Measure::within(median, least, greatest)))
    });
    Column::results("delay", "µs", found.collect::<Vec<_>>()).decimals(0)
}

/// A bar for each system and length.
fn figure(chains: &[Chain]) -> Figure {
    let axis = Axis::new("delay", "µs");
    let mut bars = Bars::of::<ModelNumber>(axis, SHARES.map(|(name, _)| name));
    for switches in CHAIN {
        for chain in chains.iter().filter(|chain| chain.switches == switches) {
            let one = if switches == 1 { "switch" } else { "switches" };
            let name = format!("{switches} {one}, {}", chain.system.name());
            let shares = chain.shares();
            let values = SHARES.map(|(_, of)| ModelNumber::from(chain.mean_us(of(&shares))));
            bars = bars.bar(name, "", values);
        }
    }
    Figure::new("chain", "Delay by number of switches and its parts", bars.plot()).caption(
        "At a constant 20 Mbit/s, model. A chain's delay is that of its lines; crypto is the \
         thin part that the MACsec bars have more; gateways wait for their next look, and work. \
         Look-up is contained in the switches' latency and in the gateways' work.",
    )
}

/// The longest chain, hop by hop.
fn by_hop(model: &Model) -> Table {
    let longest = |at: usize, system| {
        let of =
            |chain: &&Chain| chain.system == system && chain.switches == CHAIN[CHAIN.len() - 1];
        model.chains[at].iter().find(of)
    };
    let [low, bursts] = [0, 1].map(|at| longest(at, System::Macsec));
    let [plain, ipsec] = [System::Plain, System::Ipsec].map(|system| longest(0, system));
    let count = low.map_or(0, |chain| chain.places.len());
    let names = (0..count).map(|place| match place {
        0 => "first edge".to_owned(),
        last if last + 1 == count => "last edge".to_owned(),
        hop => format!("hop {hop}"),
    });
    let column = |head: &str, chain: Option<&Chain>, of: fn(&chains::Shares) -> u64| {
        let places = chain.map_or(&[][..], |chain| &chain.places);
        let mean = |place| chain.map_or(f64::NAN, |chain| chain.mean_us(of(place)));
        let each = places.iter().map(|place| ModelNumber::from(mean(place)));
        Column::numbers(head, "µs", each.collect::<Vec<_>>()).decimals(DECIMALS)
    };
    let all = chains::Shares::total_ps;
    let table = Table::new("chain-hops", "The chain of 32 switches, hop by hop")
        .column(Column::words("place", names))
        .column(column("plain", plain, all))
        .column(column("IPsec", ipsec, all))
        .column(column("MACsec", low, all));
    let parts = SHARES.into_iter().take(OF_SWITCHES);
    let table = parts.fold(table, |table, (name, of)| table.column(column(name, low, of)));
    table.column(column("in bursts", bursts, all)).note(
        "A hop is a switch and the line behind it; the first edge has the tester's line as well. \
         Line to latency are the parts of the MACsec column; in bursts: MACsec under the bursts \
         of the table above. Each column adds up to a delay in the tables above.",
    )
}

/// The prices of the machine's own switches, or why there are none.
fn known(live: &Result<Live, String>) -> Result<Prices, String> {
    live.as_ref().map_err(Clone::clone).and_then(|live| live.prices.clone())
}

fn prices(live: &Result<Live, String>) -> Table {
    let known = known(live);
    let row = |of: fn(&Prices) -> Measure| {
        let found = known.as_ref().map(of).map_err(Clone::clone);
        found.map(LiveNumber::from)
    };
    let rows = [row(|p| p.plain), row(|p| p.edge), row(|p| p.switch)];
    let names =
        ["a switch: look-up", "an edge: look-up, sealing", "a switch: opening, look-up, sealing"];
    Table::new("chain-prices", "Ferrule's own switches: work on a frame, memory to memory")
        .column(Column::words("device", names))
        .column(Column::results("work", "ns", rows).decimals(1))
        .note(
            "Frames of 1000 bytes in full batches on one core; in brackets the middle half of \
             41 rounds, all three in turn.",
        )
}

/// Chains of such switches.
fn software(study: &Study, live: &Result<Live, String>, say: &mut dyn FnMut(&str)) -> Table {
    let systems = [System::Plain, System::Macsec];
    let title = "Chains of Ferrule's own switches under these prices, 20 Mbit/s";
    let prices = match known(live) {
        Ok(prices) => prices,
        Err(why) => {
            let rows = systems.iter().flat_map(|system| CHAIN.map(|_| system.name()));
            let missing = systems.iter().flat_map(|_| CHAIN).map(|_| Err(why.clone()));
            return Table::new("chain-software", title)
                .column(Column::words("system", rows))
                .column(Column::results::<ModelNumber, _>("delay", "µs", missing));
        }
    };
    say("chains of the machine's own switches");
    let on = prices.profiles();
    let chains = chains::all(&systems, (&on, model::lines(study)), LOW);
    by_length("chain-software", title, &chains).column(delays(&chains, live)).note(
        "The model has the prices of the table above and lines of 1 Gbit/s, and no operating \
         system; prices are no whole nanoseconds, arrivals are, and the line has the rest. What the live column has more is not the data path's: veth pairs, wake-ups, \
         and a scheduler that shares this machine's processors among all switches.",
    )
}
