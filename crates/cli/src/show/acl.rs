//! `show acl`: access lists in order, with what each entry was asked for.

use super::{draw, policy::nets};
use ferrule_daemon::lists::{AclEntryView, AclView};

/// The entries of all lists, each list with a heading.
pub(super) fn text(lists: &[AclView]) -> String {
    if lists.is_empty() {
        return "none: interfaces take and send whatever is routed\n".into();
    }
    lists.iter().map(list).collect::<Vec<_>>().join("\n")
}

fn list(list: &AclView) -> String {
    let ends = |names: &[String], way| match names {
        [] => None,
        names => Some(format!("{way} {}", names.join(", "))),
    };
    let places = [ends(&list.inbound, "in at"), ends(&list.outbound, "out at")];
    let places: Vec<String> = places.into_iter().flatten().collect();
    let places = if places.is_empty() { "nowhere".into() } else { places.join("; ") };
    let named = list.entries.iter().any(|entry| entry.name.is_some());
    let mut head = vec!["ENTRY#"];
    head.extend(named.then_some("NAME"));
    head.extend(["ACTION", "FROM", "TO", "TRAFFIC"]);
    head.extend(["IN#", "IN OCTETS#", "OUT#", "OUT OCTETS#"]);
    let rows: Vec<Vec<String>> = list.entries.iter().map(|entry| row(entry, named)).collect();
    format!("{}: {places}\n{}", list.name, draw(&head, &rows))
}

fn row(entry: &AclEntryView, named: bool) -> Vec<String> {
    let mut row = vec![if entry.order == 0 { "rest".into() } else { entry.order.to_string() }];
    if named {
        row.push(entry.name.clone().unwrap_or_default());
    }
    row.extend([entry.action.clone(), nets(&entry.from), nets(&entry.to)]);
    row.push(if entry.upper.is_empty() { "any".into() } else { entry.upper.clone() });
    let numbers = [entry.packets_in, entry.octets_in, entry.packets_out, entry.octets_out];
    row.extend(numbers.map(|n| n.to_string()));
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn show_acl_has_entries_in_order_with_their_hits_and_the_rest() {
        let entry = |order, action: &str, packets_in| AclEntryView {
            order,
            action: action.into(),
            packets_in,
            octets_in: 64 * packets_in,
            ..AclEntryView::default()
        };
        let mail = AclEntryView {
            name: Some("no mail".into()),
            from: vec!["10.1.0.0/16".into()],
            upper: "tcp, to ports 25".into(),
            ..entry(1, "deny", 3)
        };
        let list = AclView {
            name: "customer".into(),
            inbound: vec!["lan".into()],
            entries: vec![mail, entry(2, "permit", 90), entry(0, "deny", 0)],
            ..AclView::default()
        };
        let lines = [
            "customer: in at lan",
            "ENTRY  NAME     ACTION  FROM         TO   TRAFFIC           IN  IN OCTETS  OUT  OUT OCTETS",
            "    1  no mail  deny    10.1.0.0/16  any  tcp, to ports 25   3        192    0           0",
            "    2           permit  any          any  any               90       5760    0           0",
            " rest           deny    any          any  any                0          0    0           0",
            "",
        ];
        assert_eq!(text(&[list]), lines.join("\n"));
        assert!(text(&[]).starts_with("none"));
    }
}
