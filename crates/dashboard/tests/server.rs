//! The server over loopback, asked as browsers and others ask.

use ferrule_dashboard::state::{Kind, SCHEMA};
use ferrule_dashboard::{Command, Dashboard, Refusal, Source, State};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

#[derive(Default)]
struct Fake {
    commands: Vec<Command>,
    asked: u64,
    /// How long the first state takes.
    slow: Duration,
}

impl Source for Fake {
    fn state(&mut self) -> State {
        self.asked += 1;
        std::thread::sleep(std::mem::take(&mut self.slow));
        State {
            schema: SCHEMA.into(),
            kind: Kind::Lab,
            name: "fake".into(),
            about: String::new(),
            now_ns: self.asked,
            run: None,
            commands: vec!["pause".into()],
            nodes: Vec::new(),
            links: Vec::new(),
            sas: Vec::new(),
            drops: Vec::new(),
            histograms: Vec::new(),
            flows: Vec::new(),
            events: Vec::new(),
        }
    }

    fn command(&mut self, command: Command) -> Result<(), Refusal> {
        if command == (Command::Resume {}) {
            return Err(Refusal("it has ended".into()));
        }
        self.commands.push(command);
        Ok(())
    }
}

/// A dashboard whose driver turns in a thread, as long as the value lives.
struct Rig {
    address: String,
    key: String,
    stop: Arc<AtomicBool>,
    driver: Option<JoinHandle<Fake>>,
}

impl Rig {
    fn new() -> Self {
        Self::of(Fake::default())
    }

    fn of(mut fake: Fake) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut dashboard = Dashboard::serve(listener, || ()).unwrap();
        let url = dashboard.address();
        let (address, key) = url.strip_prefix("http://").unwrap().split_once("/#key=").unwrap();
        let (address, key) = (address.to_owned(), key.to_owned());
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        let driver = std::thread::spawn(move || {
            while !flag.load(Ordering::SeqCst) {
                dashboard.turn_within(&mut fake, Duration::from_millis(20));
            }
            fake
        });
        Self { address, key, stop, driver: Some(driver) }
    }

    fn end(mut self) -> Fake {
        self.stop.store(true, Ordering::SeqCst);
        self.driver.take().unwrap().join().unwrap()
    }

    /// Sends octets, reads to the end. The connection is closed by the server.
    fn raw(&self, octets: &[u8]) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        // The server may have had enough before it has read everything.
        let _ = stream.write_all(octets);
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    fn ask(&self, line: &str, fields: &str, body: &str) -> (u16, String) {
        let text = self.raw(
            format!(
                "{line} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n{fields}\r\n{body}",
                self.address,
                body.len()
            )
            .as_bytes(),
        );
        (text.split(' ').nth(1).map_or(0, |s| s.parse().unwrap_or(0)), text)
    }

    fn authorized(&self) -> String {
        format!("Authorization: Bearer {}\r\n", self.key)
    }
}

const IS_JSON: &str = "Content-Type: application/json\r\n";
const PAUSE: &str = r#"{"command":"pause"}"#;

#[test]
fn dashboard_commands_without_the_key_or_from_elsewhere_are_refused() {
    let rig = Rig::new();
    let key = rig.authorized();
    let fine = format!("{key}{IS_JSON}");
    for (fields, status) in [
        (String::new(), 401),
        (IS_JSON.to_owned(), 401),
        (format!("Authorization: Bearer {}\r\n{IS_JSON}", "0".repeat(32)), 401),
        (format!("{key}{key}{IS_JSON}"), 401),
        (key.clone(), 415),
        (format!("{fine}Origin: http://evil.example\r\n"), 403),
        (format!("{fine}Origin: null\r\n"), 403),
        // Two names, one of which is ours: neither.
        (format!("{fine}Host: evil.example\r\n"), 421),
    ] {
        let (got, text) = rig.ask("POST /api/command", &fields, PAUSE);
        assert_eq!(got, status, "{fields}: {text}");
        assert!(!text.contains("Access-Control"), "{text}");
    }
    assert_eq!(rig.ask("GET /api/command", &key, "").0, 405);
    assert_eq!(rig.ask("GET /api/state", "", "").0, 401);
    assert_eq!(rig.ask("OPTIONS /api/command", "", "").0, 401, "no preflight is answered");
    let (status, text) = rig.ask("POST /api/command", &fine, r#"{"command":"resume"}"#);
    assert_eq!((status, text.contains("it has ended")), (409, true), "{text}");
    let own = format!("{fine}Origin: http://{}\r\n", rig.address);
    let (status, text) = rig.ask("POST /api/command", &own, PAUSE);
    assert_eq!((status, text.contains(SCHEMA)), (200, true), "{text}");
    assert_eq!(rig.end().commands, [Command::Pause {}], "one of all these was carried out");
}

#[test]
fn dashboard_answers_all_that_ask_at_once() {
    let rig = Rig::of(Fake { slow: Duration::from_millis(500), ..Fake::default() });
    let key = rig.authorized();
    // More than there are places, while the driver is busy with the first.
    let answers = std::thread::scope(|scope| {
        let asks = (0..80).map(|_| scope.spawn(|| rig.ask("GET /api/state", &key, "").0));
        let asks: Vec<_> = asks.collect();
        asks.into_iter().map(|ask| ask.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(answers, [200; 80]);
}

#[test]
fn dashboard_page_has_a_policy_and_nothing_else_is_served() {
    let rig = Rig::new();
    let (status, text) = rig.ask("GET /", "", "");
    assert_eq!(status, 200);
    let (head, page) = text.split_once("\r\n\r\n").unwrap();
    for part in
        ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "nosniff", "no-store"]
    {
        assert!(head.contains(part), "{part} is not in\n{head}");
    }
    assert!(page.contains("<html") && !page.contains(&rig.key));
    assert!(!page.contains("<script>") && !page.contains("style="), "the policy would forbid it");
    for path in ["/../Cargo.toml", "/etc/passwd", "/%2e%2e/x", "/style.css/", "//"] {
        assert_eq!(rig.ask(&format!("GET {path}"), "", "").0, 404, "{path}");
    }
    assert_eq!(rig.ask("POST /", "", "").0, 405);
    assert_eq!(rig.ask("GET /style.css?v=1", "", "").0, 200);
}

#[test]
fn dashboard_server_bounds_requests_and_connections() {
    let rig = Rig::new();
    let starts = |octets: &[u8], status: &str| {
        let text = rig.raw(octets);
        assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{status}: {text}");
    };
    starts(format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(9000)).as_bytes(), "431");
    starts(b"POST /api/command HTTP/1.1\r\nContent-Length: 5000\r\n\r\n", "413");
    starts(b"POST /api/command HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "411");
    starts(b"\x16\x03\x01\x02\x00\r\n\r\n", "400");
}

#[test]
fn dashboard_clients_that_say_nothing_keep_nobody_out() {
    let rig = Rig::new();
    let connect = || TcpStream::connect(&rig.address).unwrap();
    let silent: Vec<_> = (0..200).map(|_| connect()).collect();
    assert_eq!(rig.ask("GET /", "", "").0, 200);
    // The first that came went first.
    let is_open = |mut stream: &TcpStream| {
        stream.set_nonblocking(true).unwrap();
        stream.read(&mut [0]).is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock)
    };
    std::thread::sleep(Duration::from_millis(100));
    let open: Vec<_> = silent.iter().map(is_open).collect();
    assert!(open.iter().filter(|&&open| open).count() <= 64);
    assert!(open[150..].iter().all(|&open| open), "{open:?}");
}

#[test]
fn dashboard_many_pages_cost_no_more_than_one() {
    let rig = Rig::new();
    let key = rig.authorized();
    // One connection, so that the questions come at once.
    let one = format!("GET /api/state HTTP/1.1\r\nHost: {}\r\n{key}\r\n", rig.address);
    let last = one.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    let text = rig.raw((one.repeat(20) + &last).as_bytes());
    assert_eq!(text.matches("HTTP/1.1 200").count(), 21, "{text}");
    let asked = rig.end().asked;
    assert!((1..=8).contains(&asked), "the driver was asked {asked} times");
}
