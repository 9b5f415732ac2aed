//! `ferrule show`: what a running node has and does, as tables.

mod acl;
mod engines;
mod mka;
mod policy;
mod times;

use crate::live::{Which, finish, unexpected};
use crate::output::print;
use clap::{Args, ValueEnum};
use ferrule_daemon::Fault;
use ferrule_daemon::api::{Reply, Request};
use ferrule_daemon::missed::{Cause, causes};
use ferrule_daemon::report::Report;
use std::process::ExitCode;

/// Show what a running node has and does.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ferrule show ports
  sudo ferrule show drops --node gw.toml
  sudo ferrule show spd
  sudo ferrule show sa --json | jq '.sas[] | .number'")]
pub struct ShowArgs {
    /// Part of the node's state to show.
    #[arg(value_enum)]
    what: What,
    /// Everything, as one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// Ports with their counters.
    Ports,
    /// Security associations, with what went wrong.
    Sa,
    /// Security policies: entries in order, with what each was asked for.
    Spd,
    /// Access lists: entries in order, with what each was asked for.
    Acl,
    /// Security associations: what each is, and whose traffic it carries.
    Sad,
    /// MACsec associations.
    Macsec,
    /// Key agreement of MACsec: peers, SAKs, and why frames are not under one.
    Mka,
    /// Engines that seal and open, with the key stream that tokens made ahead.
    Engines,
    /// Cards in ports, with their policy, associations and drops.
    Cards,
    /// Labels, each with its action.
    Mpls,
    /// Drops by reason, and the ICMP errors that were sent for them.
    Drops,
    /// Where the workers' time went, by stage (`times = true` in `[node]`, with which
    /// no stage is passed over).
    Times,
    /// Where packets to each prefix go.
    Path,
    /// Addresses that bridges learned.
    Bridges,
    /// Neighbours.
    Neighbours,
}

impl ShowArgs {
    /// Shows it.
    pub fn run(self) -> ExitCode {
        finish(self.go())
    }

    fn go(self) -> Result<(), Fault> {
        let mut client = self.which.connect()?;
        let report = match client.ask(&Request::Show {})? {
            Reply::Report(report) => report,
            reply => return Err(unexpected(reply)),
        };
        let text = if self.json {
            serde_json::to_string_pretty(&report).map_or_else(|e| e.to_string(), |t| t + "\n")
        } else {
            table(self.what, &report)
        };
        print(&text);
        Ok(())
    }
}

/// Columns whose head ends in `#` hold numbers and stand at the right.
fn draw(head: &[&str], rows: &[Vec<String>]) -> String {
    let title = |h: &str| h.trim_end_matches('#').to_owned();
    let width = |i: usize| {
        let cells = rows.iter().filter_map(|r| r.get(i)).map(|c| c.chars().count());
        cells.chain([title(head[i]).chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &[String]| {
        let mut line = String::new();
        for (i, cell) in cells.iter().enumerate() {
            let pad = " ".repeat(widths[i].saturating_sub(cell.chars().count()));
            let cell = if head[i].ends_with('#') { pad + cell } else { cell.clone() + &pad };
            line += &cell;
            line += "  ";
        }
        line.trim_end().to_owned() + "\n"
    };
    let titles: Vec<String> = head.iter().map(|h| title(h)).collect();
    rows.iter().fold(line(&titles), |text, row| text + &line(row))
}

fn list(labels: &[u32]) -> String {
    labels.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

fn table(what: What, report: &Report) -> String {
    let n = |value: u64| value.to_string();
    let (head, rows): (&[&str], Vec<Vec<String>>) = match what {
        What::Ports => return ports(report),
        What::Sa => return sas(report),
        What::Spd => return policy::table(&report.spd),
        What::Acl => return acl::text(&report.acl),
        What::Mka => return mka::text(&report.mka),
        What::Sad => return policy::associations(&report.sas),
        What::Engines => return engines::text(report),
        What::Cards => return cards(report),
        What::Drops => return drops(report),
        What::Times => return times::text(report),
        What::Macsec => {
            let row = |m: &ferrule_daemon::report::MacsecView| {
                let counters = m.counters.iter().map(|(k, v)| format!("{k} {v}"));
                let counters = counters.collect::<Vec<_>>().join(", ");
                let (an, next) = (m.an.to_string(), n(m.next_pn));
                vec![m.port.clone(), m.way.clone(), m.sci.clone(), an, next, counters]
            };
            (
                &["PORT", "WAY", "SCI", "AN#", "NEXT PN#", "COUNTED"],
                report.macsec.iter().map(row).collect(),
            )
        }
        What::Mpls => {
            let row = |l: &ferrule_daemon::report::LabelView| {
                let (action, from) = (l.action.clone(), origin(l.dynamic));
                vec![l.label.to_string(), action, list(&l.labels_out), l.via.clone(), from]
            };
            (&["LABEL#", "ACTION", "OUT", "VIA", "FROM"], report.mpls.iter().map(row).collect())
        }
        What::Path => {
            let row = |p: &ferrule_daemon::report::PathView| {
                let (labels, mtu) = (list(&p.labels), p.mtu.to_string());
                let (vrf, prefix) = (p.vrf.clone(), p.prefix.clone());
                let from = origin(p.dynamic);
                vec![vrf, prefix, p.via.clone(), labels, mtu, p.policy.clone(), from]
            };
            (
                &["VRF", "PREFIX", "VIA", "LABELS", "MTU#", "POLICY", "FROM"],
                report.path.iter().map(row).collect(),
            )
        }
        What::Bridges => {
            let row = |b: &ferrule_daemon::report::BridgeView| {
                let (vlan, age) = (b.vlan.to_string(), b.age_seconds.to_string());
                vec![b.bridge.clone(), vlan, b.mac.clone(), b.interface.clone(), age]
            };
            (
                &["BRIDGE", "VLAN#", "ADDRESS", "INTERFACE", "AGE s#"],
                report.bridges.iter().map(row).collect(),
            )
        }
        What::Neighbours => {
            let rows = report.neighbours.iter();
            let rows = rows.map(|b| vec![b.interface.clone(), b.address.clone(), b.mac.clone()]);
            (&["INTERFACE", "ADDRESS", "MAC"], rows.collect())
        }
    };
    if rows.is_empty() { "none\n".into() } else { draw(head, &rows) }
}

/// Origin of a route or label.
fn origin(dynamic: bool) -> String {
    if dynamic { "program".into() } else { "file".into() }
}

/// Line about a port's super-frames, if it saw any.
fn supers(p: &ferrule_daemon::report::PortView) -> String {
    let mut text = String::new();
    if p.rx_supers + p.tx_supers > 0 {
        text += &format!(
            "{}: {} super-frames cut into {} frames, {} frames joined into {} super-frames\n",
            p.name, p.rx_supers, p.rx_segments, p.tx_segments, p.tx_supers
        );
    }
    if p.rx_refused > 0 {
        text += &format!(
            "{}: {} frames refused: they contradict their description\n",
            p.name, p.rx_refused
        );
    }
    text
}

/// Lines about the frames that a port missed: cause and remedy.
fn missed(p: &ferrule_daemon::report::PortView) -> String {
    let known = causes(&p.missed()).filter(|(_, count)| *count > 0);
    let line = |(cause, count): (Cause, u64)| {
        format!("{}: missed {count} frames, {}\n", p.name, cause.about())
    };
    known.map(line).collect()
}

fn ports(report: &Report) -> String {
    let head = [
        "PORT",
        "DRIVER",
        "DEVICE",
        "STATE",
        "MTU#",
        "RX#",
        "RX OCTETS#",
        "TX#",
        "TX OCTETS#",
        "MISSED#",
        "FAILED#",
    ];
    let row = |p: &ferrule_daemon::report::PortView| {
        let state = match (p.gone, p.up) {
            (true, _) => "gone",
            (_, true) => "up",
            _ => "down",
        };
        let mut row = vec![p.name.clone(), p.driver.clone(), p.device.clone(), state.into()];
        let numbers = [
            p.mtu as u64,
            p.rx_packets,
            p.rx_octets,
            p.tx_packets,
            p.tx_octets,
            p.rx_missed,
            p.tx_failed,
        ];
        row.extend(numbers.map(|v| v.to_string()));
        row
    };
    let rows: Vec<_> = report.ports.iter().map(row).collect();
    let l = &report.ledger;
    let mut text = draw(&head, &rows);
    for p in &report.ports {
        text += &supers(p);
        text += &missed(p);
    }
    text += &format!(
        "\n{} received + {} made = {} sent + {} consumed + {} dropped + {} held\n",
        l.received, l.made, l.sent, l.consumed, l.dropped, l.held
    );
    for failure in &report.failures {
        text += &format!("! {failure}\n");
    }
    text
}

/// Packets dropped by node and cards, then ICMP messages that answered packets.
fn drops(report: &Report) -> String {
    let n = |value: u64| value.to_string();
    let of_cards = report.cards.iter().flat_map(|card| {
        let place = format!("card of {}", card.port);
        card.drops.iter().map(move |d| (place.clone(), d))
    });
    let own = report.drops.iter().map(|d| ("node".to_owned(), d));
    let rows = own.chain(of_cards);
    let rows = rows.map(|(place, d)| vec![n(d.packets), d.reason.clone(), place, d.about.clone()]);
    let rows: Vec<_> = rows.collect();
    let mut text = match rows.is_empty() {
        true => "none\n".into(),
        false => draw(&["PACKETS#", "REASON", "BY", "MEANING"], &rows),
    };
    let row = |a: &ferrule_daemon::report::AnswerView| {
        let numbers = format!("{}/{}", a.kind, a.code);
        vec![n(a.sent), n(a.limited), a.answer.clone(), numbers, a.about.clone()]
    };
    let rows: Vec<_> = report.answers.iter().map(row).collect();
    if !rows.is_empty() {
        let head = ["ANSWERED#", "RATE LIMITED#", "ICMP", "TYPE", "MEANING"];
        text += &format!("\n{}", draw(&head, &rows));
    }
    text
}

fn sas(report: &Report) -> String {
    let head = [
        "TUNNEL", "WAY", "SPI", "SUITE", "FROM", "TO", "NUMBER#", "PACKETS#", "OCTETS#",
        "REPLAYS#", "BAD ICV#", "REFUSED#", "FAILED#",
    ];
    let row = |s: &ferrule_daemon::report::SaView| {
        let (from, to) = if s.way == "out" { (&s.local, &s.remote) } else { (&s.remote, &s.local) };
        let words = [&s.tunnel, &s.way, &s.spi, &s.suite, from, to];
        let mut row: Vec<String> = words.into_iter().cloned().collect();
        let numbers = [s.number, s.packets, s.octets, s.replays, s.bad_icv, s.refused, s.failed];
        row.extend(numbers.map(|v| v.to_string()));
        row
    };
    let rows: Vec<_> = report.sas.iter().map(row).collect();
    if rows.is_empty() { "none\n".into() } else { draw(&head, &rows) + &lives(report) }
}

/// Lifetimes of SAs, with the part that is used.
fn lives(report: &Report) -> String {
    let head =
        ["TUNNEL", "WAY", "SPI", "LIFE", "OF", "USED#", "LEFT#", "SOFT BOUND#", "HARD BOUND#"];
    let of_sas = report.sas.iter().filter_map(|s| Some((s, s.life.as_ref()?)));
    let rows = of_sas.flat_map(|(s, life)| {
        let or_none = |n: Option<u64>| n.map_or("-".to_owned(), |n| n.to_string());
        life.bounds().map(move |(of, bound)| {
            let words = [s.tunnel.as_str(), &s.way, &s.spi, &life.state, of];
            let numbers = [bound.left, bound.soft, bound.hard].map(or_none);
            let used = [bound.used.to_string()].into_iter().chain(numbers);
            words.into_iter().map(str::to_owned).chain(used).collect::<Vec<_>>()
        })
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() { String::new() } else { format!("\n{}", draw(&head, &rows)) }
}

fn cards(report: &Report) -> String {
    let head = [
        "PORT",
        "STATE",
        "RESETS#",
        "FROM WIRE#",
        "TO NODE#",
        "FROM NODE#",
        "TO WIRE#",
        "SEALED#",
        "OPENED#",
        "HELD#",
    ];
    let row = |c: &ferrule_daemon::cards::CardView| {
        let numbers =
            [c.resets, c.from_wire, c.to_node, c.from_node, c.to_wire, c.sealed, c.opened, c.held];
        let words = [c.port.clone(), c.state.clone()].into_iter();
        words.chain(numbers.map(|v| v.to_string())).collect::<Vec<_>>()
    };
    if report.cards.is_empty() {
        return "none\n".into();
    }
    let mut text = draw(&head, &report.cards.iter().map(row).collect::<Vec<_>>());
    for card in &report.cards {
        text += &format!("\n{}\n", card.port);
        for line in &card.policy {
            text += &format!("  policy  {line}\n");
        }
        for line in &card.sas {
            text += &format!("  sa      {line}\n");
        }
        for drop in &card.drops {
            text += &format!("  drop    {} {}: {}\n", drop.packets, drop.reason, drop.about);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_daemon::report::DropView;

    #[test]
    fn show_cards_has_state_policy_associations_and_drops() {
        let drop = DropView {
            reason: "esp-required".into(),
            packets: 7,
            about: "Clear traffic that the policy wants protected.".into(),
        };
        let card = ferrule_daemon::cards::CardView {
            port: "wan".into(),
            state: "up".into(),
            sealed: 12,
            sas: vec!["t out 0x00001001".into()],
            policy: vec!["wan: 10.1.0.0/24 to 10.2.0.0/24: protect by t".into()],
            drops: vec![drop],
            ..Default::default()
        };
        let text = table(What::Cards, &Report { cards: vec![card], ..Report::default() });
        for line in [
            "PORT  STATE  RESETS  FROM WIRE  TO NODE  FROM NODE  TO WIRE  SEALED  OPENED  HELD",
            "wan   up          0          0        0          0        0      12       0     0",
            "  policy  wan: 10.1.0.0/24 to 10.2.0.0/24: protect by t",
            "  sa      t out 0x00001001",
            "  drop    7 esp-required: Clear traffic that the policy wants protected.",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        assert_eq!(table(What::Cards, &Report::default()), "none\n");
    }

    #[test]
    fn show_drops_lines_up_and_has_those_of_node_and_cards_and_what_icmp_answered() {
        let drop = |reason: &str, packets| DropView {
            reason: reason.into(),
            packets,
            about: "About it.".into(),
        };
        let drops = vec![drop("esp-replay", 1234), drop("no-route", 5)];
        let card = ferrule_daemon::cards::CardView {
            port: "wan".into(),
            drops: vec![drop("card-down", 77)],
            ..Default::default()
        };
        let report = Report { drops, cards: vec![card], ..Report::default() };
        let want = "PACKETS  REASON      BY           MEANING\n   \
                    1234  esp-replay  node         About it.\n      \
                    5  no-route    node         About it.\n     \
                    77  card-down   card of wan  About it.\n";
        assert_eq!(table(What::Drops, &report), want);
        let answer = ferrule_daemon::report::AnswerView {
            answer: "time-exceeded-v4".into(),
            kind: 11,
            code: 0,
            sent: 100,
            limited: 900,
            about: "About it.".into(),
        };
        let report = Report { answers: vec![answer], ..report };
        let told = "\nANSWERED  RATE LIMITED  ICMP              TYPE  MEANING\n     \
                    100           900  time-exceeded-v4  11/0  About it.\n";
        assert_eq!(table(What::Drops, &report), format!("{want}{told}"));
        assert_eq!(table(What::Drops, &Report::default()), "none\n");
        assert_eq!(table(What::Sa, &report), "none\n");
    }
}
