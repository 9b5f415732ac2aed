//! Events by name and field.

use super::*;
use ferrule_node::config::named_key;
use ferrule_pipeline::Missed;
use serde_json::Value;
use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The events that are written meanwhile.
fn written(meanwhile: impl FnOnce()) -> Vec<Value> {
    let lines = Lines::default();
    let writer = lines.clone();
    let json = tracing_subscriber::fmt().json().flatten_event(true);
    let subscriber = json.with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(subscriber, meanwhile);
    let octets = lines.0.lock().unwrap().clone();
    let lines = octets.split(|&octet| octet == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

fn events() -> Events {
    Events {
        due: Instant::ZERO,
        asked: None,
        drops: Drops::default(),
        ports: BTreeMap::new(),
        failing: BTreeMap::new(),
        expired: BTreeSet::new(),
        _writer: None,
    }
}

fn config(routes: usize) -> Config {
    let mut text = "[node]\nname = \"a\"\n[[port]]\nname = \"wan\"\ndriver = \"wire\"\n\
                    [[interface]]\nport = \"wan\"\naddress = [\"192.0.2.1/24\"]\n"
        .to_owned();
    for route in 0..routes {
        text += &format!("[[route]]\nprefix = \"10.{route}.0.0/16\"\nvia = \"192.0.2.2\"\n");
    }
    Config::parse("a.toml", &text, &mut named_key).expect("a good configuration")
}

#[test]
fn apply_names_what_differs_and_no_more_than_people_read() {
    let two = written(|| events().changed(&config(0), &config(2)));
    assert_eq!(two[0]["message"], "apply");
    assert_eq!(two[0]["added"], "route 10.0.0.0/16, route 10.1.0.0/16");
    assert_eq!((&two[0]["removed"], &two[0]["changed"]), (&Value::Null, &Value::Null));
    let many = written(|| events().changed(&config(100), &config(1)));
    let removed = many[0]["removed"].as_str().expect("routes");
    assert!(removed.ends_with("route 10.20.0.0/16, 79 more"), "{removed}");
}

#[test]
fn missed_frames_are_told_at_once_and_then_every_ten_seconds_with_all_that_came() {
    let mut seen = Seen::default();
    let mut at = |seconds: u64, too_long: u64| {
        let stats =
            PortStats { missed: Missed { too_long, ..Missed::default() }, ..PortStats::default() };
        let told = written(|| seen.missed(Instant::from_secs(seconds), "lan", stats));
        told.iter().map(|e| e["count"].as_u64().expect("a number")).collect::<Vec<_>>()
    };
    assert_eq!(at(1, 0), [0_u64; 0]);
    assert_eq!(at(2, 5), [5]);
    assert_eq!(at(3, 7), [0_u64; 0]);
    assert_eq!(at(11, 9), [0_u64; 0]);
    assert_eq!(at(12, 10), [5]);
    assert_eq!(at(30, 10), [0_u64; 0]);
}

/// Every event that is not of a live node's own: its name and fields as documented.
#[test]
fn incidents_are_events_with_names_and_fields_as_documented() {
    let sa = Sender::Tunnel { name: "t".into(), spi: 0x1001 };
    let inbound = SaName {
        tunnel: "t".into(),
        way: "in",
        spi: 0x2001,
        destination: IpAddr::from([192, 0, 2, 1]),
        peer: Some(IpAddr::from([192, 0, 2, 2])),
    };
    let secy = Sender::Macsec { port: "wan".into(), an: 1 };
    let incidents = [
        Incident::CounterNotWritten("no room".into()),
        Incident::CountersWritten,
        Incident::WindowsNotWritten("no room".into()),
        Incident::WindowsWritten,
        Incident::CardSilent { port: "wan".into() },
        Incident::CardUnfilled { port: "wan".into(), why: "x".into() },
        Incident::SaRefused { sa: "tunnel t, inbound SPI 0x00001001".into(), why: "x".into() },
        Incident::SaExpires(sa.clone(), 7),
        Incident::SaExpires(secy, 7),
        Incident::SaLife(inbound.clone(), Expiry::Soft, LifeCause::Octets),
        Incident::SaLife(inbound, Expiry::Hard, LifeCause::Time),
        Incident::Other("x".into()),
    ];
    let all = written(|| {
        incidents.iter().for_each(happened);
        sa_event(&sa, None);
        events().reopened(PortId(0), "wan", "eth0");
    });
    let names: Vec<_> = all.iter().map(|e| e["message"].as_str().unwrap()).collect();
    let want = [
        "state-not-written",
        "state-written",
        "state-not-written",
        "state-written",
        "card",
        "card",
        "sa-refused",
        "sa-expires",
        "sa-expires",
        "sa-expires",
        "sa-expired",
        "failure",
        "sa-expired",
        "port-reopened",
    ];
    assert_eq!(names, want);
    assert_eq!((&all[7]["tunnel"], &all[7]["spi"]), (&"t".into(), &"0x00001001".into()));
    assert_eq!((&all[8]["port"], &all[8]["an"]), (&"wan".into(), &1.into()));
    assert_eq!((&all[8]["cause"], &all[9]["cause"]), (&"numbers".into(), &"octets".into()));
    assert_eq!((&all[10]["cause"], &all[10]["peer"]), (&"time".into(), &"192.0.2.2".into()));
    let documented = include_str!("../../../../docs/events.md");
    for event in &all {
        let row = documented.lines().find(|line| {
            let first = line.split('|').nth(1).unwrap_or_default();
            first.contains(&format!("`{}`", event["message"].as_str().unwrap()))
        });
        let row = row.unwrap_or_else(|| panic!("{event} is not documented"));
        let fields = event.as_object().unwrap().keys();
        for field in
            fields.filter(|f| !["timestamp", "level", "target", "message"].contains(&&***f))
        {
            let same = row.contains("the same") || row.contains(&format!("`{field}`"));
            assert!(same, "field {field} of {event} is not documented");
        }
    }
}
