//! `show spd`: the policy in order, with what each entry was asked for. `show sad`: the
//! SAs that carry it out.

use super::draw;
use ferrule_daemon::policies::PolicyView;
use ferrule_daemon::report::SaView;

/// Addresses of an entry that a line names.
const NAMED_MAX: usize = 3;

/// The entries of all interfaces as a table.
pub(super) fn table(entries: &[PolicyView]) -> String {
    if entries.is_empty() {
        return "none: every interface lets all pass in clear\n".into();
    }
    let named = entries.iter().any(|e| e.name.is_some());
    let mut head = vec!["INTERFACE", "ENTRY#"];
    head.extend(named.then_some("NAME"));
    head.extend(["ACTION", "LOCAL", "REMOTE", "TRAFFIC"]);
    head.extend(["OUT#", "OUT OCTETS#", "IN CLEAR#", "IN OCTETS#"]);
    let rows: Vec<Vec<String>> = entries.iter().map(|entry| row(entry, named)).collect();
    draw(&head, &rows)
}

fn row(entry: &PolicyView, named: bool) -> Vec<String> {
    let rest = entry.order == 0;
    let order = if rest { "rest".into() } else { entry.order.to_string() };
    let mut row = vec![entry.interface.clone(), order];
    if named {
        row.push(entry.name.clone().unwrap_or_default());
    }
    row.push(match &entry.by {
        Some(by) => format!("{} by {by}", entry.action),
        None => entry.action.clone(),
    });
    row.extend([nets(&entry.local), nets(&entry.remote)]);
    row.push(if entry.upper.is_empty() { "any".into() } else { entry.upper.clone() });
    let numbers = [entry.packets_out, entry.octets_out, entry.packets_in, entry.octets_in];
    row.extend(numbers.map(|n| n.to_string()));
    row
}

pub(super) fn nets(list: &[String]) -> String {
    let shown = list.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    match list.len() {
        0 => "any".into(),
        n if n > NAMED_MAX => format!("{shown}, {} more", n - NAMED_MAX),
        _ => shown,
    }
}

/// The SAs as a table: what each is, and its traffic. (`show sa` has what went wrong.)
pub(super) fn associations(sas: &[SaView]) -> String {
    if sas.is_empty() {
        return "none\n".into();
    }
    let head = [
        "SA", "WAY", "SPI", "PROTOCOL", "MODE", "FROM", "TO", "SUITE", "NUMBERS", "WINDOW#",
        "AROUND", "ENTRIES#", "WORKER#", "NUMBER#", "PACKETS#", "OCTETS#",
    ];
    let row = |s: &SaView| {
        let (from, to) = if s.way == "out" { (&s.local, &s.remote) } else { (&s.remote, &s.local) };
        let protocol = if s.udp { format!("{} in udp", s.protocol) } else { s.protocol.clone() };
        let numbers = if s.esn { "64 bits" } else { "32 bits" };
        // A window is the receiver's.
        let window = if s.way == "out" { String::new() } else { s.window.to_string() };
        let mut row = vec![s.tunnel.clone(), s.way.clone(), s.spi.clone(), protocol];
        row.extend([s.mode.clone(), from.clone(), to.clone(), s.suite.clone(), numbers.into()]);
        row.extend([window, s.then.clone().unwrap_or_default(), s.entries.to_string()]);
        row.extend([s.worker.to_string(), s.number.to_string()]);
        row.extend([s.packets, s.octets].map(|n| n.to_string()));
        row
    };
    draw(&head, &sas.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn show_sad_says_what_each_sa_is_and_carries() {
        let out = SaView {
            tunnel: "branch".into(),
            way: "out".into(),
            spi: "0x00001001".into(),
            suite: "aes-gcm-128".into(),
            local: "192.0.2.1".into(),
            remote: "198.51.100.1".into(),
            protocol: "esp".into(),
            mode: "tunnel".into(),
            udp: true,
            then: Some("outside".into()),
            esn: true,
            window: 1024,
            entries: 3,
            number: 18,
            packets: 17,
            octets: 1700,
            ..SaView::default()
        };
        let inn = SaView {
            way: "in".into(),
            spi: "0x00001002".into(),
            udp: false,
            then: None,
            esn: false,
            ..out.clone()
        };
        let text = associations(&[inn, out]);
        let words: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        let line = |n: usize| words[n].join(" ");
        let ends = "192.0.2.1 198.51.100.1";
        assert_eq!(
            line(1),
            "branch in 0x00001002 esp tunnel 198.51.100.1 192.0.2.1 aes-gcm-128 32 bits 1024 3 0 \
             18 17 1700"
        );
        assert_eq!(
            line(2),
            format!(
                "branch out 0x00001001 esp in udp tunnel {ends} aes-gcm-128 64 bits outside 3 0 \
                 18 17 1700"
            )
        );
        assert_eq!(associations(&[]), "none\n");
    }

    #[test]
    fn show_spd_has_entries_in_order_with_their_hits_and_the_rest() {
        let entry = |order, action: &str, by: Option<&str>, out| PolicyView {
            interface: "wan".into(),
            order,
            action: action.into(),
            by: by.map(str::to_owned),
            packets_out: out,
            octets_out: out * 100,
            ..PolicyView::default()
        };
        let web = PolicyView {
            local: vec!["10.1.0.0/16".into()],
            remote: ["10.2.0.0/16", "10.3.0.1-10.3.0.9", "10.4.0.0/16", "10.5.0.7"]
                .map(str::to_owned)
                .into(),
            upper: "tcp, remote ports 443".into(),
            packets_in: 2,
            octets_in: 180,
            ..entry(1, "protect", Some("branch"), 12)
        };
        let text = table(&[web, entry(2, "bypass", None, 0), entry(0, "discard", None, 3)]);
        let want = "\
INTERFACE  ENTRY  ACTION             LOCAL        REMOTE                                              TRAFFIC                OUT  OUT OCTETS  IN CLEAR  IN OCTETS
wan            1  protect by branch  10.1.0.0/16  10.2.0.0/16, 10.3.0.1-10.3.0.9, 10.4.0.0/16, 1 more  tcp, remote ports 443   12        1200         2        180
wan            2  bypass             any          any                                                 any                      0           0         0          0
wan         rest  discard            any          any                                                 any                      3         300         0          0
";
        let squeeze = |text: &str| -> Vec<String> {
            text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
        };
        assert_eq!(squeeze(&text), squeeze(want));
        let mut ends = text.lines().map(str::len);
        let first = ends.next();
        assert!(ends.all(|end| Some(end) == first), "numbers end in one column:\n{text}");
        assert!(table(&[]).starts_with("none"));
    }
}
