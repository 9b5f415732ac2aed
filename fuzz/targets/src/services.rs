//! Input from other programs and from the disk: requests on the management socket, HTTP, counter
//! records, keys to be wrapped for a token.

use crate::input::Input;
use aws_lc_rs::key_wrap::{AES_128, AES_256, AesKek, KeyWrap};
use ferrule_base::{Rng, Secret};
use ferrule_daemon::api::{Action, Recording, Request as Asked, Server};
use ferrule_daemon::state::record::{Place, RECORD_MAX, Record, Void, sealed};
use ferrule_dashboard::http::{BODY_MAX, HEAD_MAX, NoRequest, Request};
use ferrule_engines::token::wrap::{Wrapper, wrap};
use ferrule_ports::os::PollSet;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use std::{env, process};

/// A turn of the server: the requests that it took.
fn turn(server: &mut Server) -> usize {
    let mut set = PollSet::new();
    server.add_to(&mut set);
    set.wait(Some(Duration::ZERO)).expect("descriptors that are open");
    let actions = server.turn(&set);
    actions.iter().filter(|action| matches!(action, Action::Asked(..))).count()
}

/// Requests in pieces, on the real socket: each line that is one is taken, none twice.
pub fn management(data: &[u8]) {
    let path = env::temp_dir().join(format!("ferrule-fuzz-{}.socket", process::id()));
    let mut server = Server::bind(&path, false).expect("a socket");
    let mut client = UnixStream::connect(&path).expect("it is served");
    let (&piece, data) = data.split_first().unwrap_or((&0, &[]));
    let mut taken = turn(&mut server);
    for piece in data.chunks(usize::from(piece) + 1) {
        client.write_all(piece).expect("it is read");
        taken += turn(&mut server);
        while server.has_more() {
            taken += turn(&mut server);
        }
    }
    let lines = data.split_inclusive(|&octet| octet == b'\n').filter(|l| l.ends_with(b"\n"));
    let requests: Vec<Asked> = lines.filter_map(|l| serde_json::from_slice(l).ok()).collect();
    assert_eq!(taken, requests.len());
    for request in requests {
        let again = serde_json::to_string(&request).expect("it was read");
        let request: Asked = serde_json::from_str(&again).expect("what was written is read");
        assert_eq!(serde_json::to_string(&request).expect("it was read"), again);
    }
    drop(client);
    turn(&mut server);
    assert!(server.peer(1).is_none(), "a client that is gone is forgotten");
}

/// Requests of every kind, whole and in pieces.
pub fn requests() -> Vec<Vec<u8>> {
    let recording = || Recording { port: Some("wan".into()), count: Some(3), snap: 64 };
    let requests = [
        Asked::Show {},
        Asked::Apply {
            file: "gw.toml".into(),
            text: "[node]\nname = \"gw\"\n".into(),
            keys: [("a.key".to_owned(), "00ff".to_owned())].into(),
            new_keys: true,
        },
        Asked::Trace(recording()),
        Asked::Capture { recording: recording(), key_log: true },
        Asked::Enough {},
        Asked::ResetCard { port: "wan".into() },
        Asked::Stop {},
    ];
    let lines: Vec<_> =
        requests.iter().map(|r| serde_json::to_string(r).expect("text") + "\n").collect();
    let seed = |(piece, text): (u8, &str)| [&[piece], text.as_bytes()].concat();
    let all = lines.concat();
    let each = lines.iter().map(|line| (u8::MAX, line.as_str()));
    each.chain([(0, all.as_str()), (7, &all)]).map(seed).collect()
}

/// Requests of HTTP one after another, as on a connection that stays: within their
/// bounds, and read to the octet, so that no body is taken for the next request.
pub fn http(data: &[u8]) {
    let mut at = 0;
    loop {
        let begun = at;
        let read = Request::read(|| {
            let octet = data.get(at).copied().ok_or(NoRequest::Gone)?;
            at += 1;
            Ok(octet)
        });
        match read {
            Ok(request) => {
                assert!(request.path.starts_with('/') && !request.path.contains(['?', ' ']));
                assert!(request.body.len() <= BODY_MAX);
                assert!(request.header("transfer-encoding").is_none());
                let said = request.header("content-length").unwrap_or("0");
                assert_eq!(said.parse(), Ok(request.body.len()));
                let head = data[begun..at].strip_suffix(&request.body[..]);
                assert!(head.is_some_and(|head| head.ends_with(b"\r\n\r\n")));
            }
            Err(NoRequest::Bad(status, why)) => {
                assert!((400..=499).contains(&status) && !why.is_empty());
                assert!(at - begun <= data.len().min(HEAD_MAX + data.len() / 2));
                return;
            }
            Err(NoRequest::Gone) => return,
        }
    }
}

/// Requests of browsers, of Prometheus, and of those who try.
pub fn http_requests() -> Vec<Vec<u8>> {
    [
        "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n",
        "GET /metrics?x=1 HTTP/1.0\r\nAccept: text/plain\r\nConnection: close\r\n\r\n",
        "POST /command HTTP/1.1\r\nHost: [::1]:80\r\nContent-Length: 4\r\n\r\nabcdGET /a HTTP/1.1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "\r\nGET / HTTP/1.1\r\nHost : a\r\n b\r\n\r\n",
        "POST / HTTP/1.1\r\ncontent-length: 18446744073709551616\r\n\r\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// Counter records, as they are or with a right check behind them: what is read is what
/// would be written, to the octet.
pub fn counter_record(data: &[u8]) {
    let (&how, data) = data.split_first().unwrap_or((&0, &[]));
    let text = String::from_utf8_lossy(data);
    let text = if how & 1 == 0 { text.into_owned() } else { sealed(&text) };
    if let Some(record) = Record::from_text(&text) {
        assert_eq!(record.to_text(), text);
    }
    if let Some(void) = Void::from_text(&text) {
        assert_eq!(void.to_text(), text);
        assert!(Record::from_text(&text).is_none(), "what is void says no limit");
    }
}

/// Records and what is left of superseded ones, with and without their check.
pub fn counter_records() -> Vec<Vec<u8>> {
    let place = Place { inode: 1835132, born: 1763707551123456789 };
    let mut record = Record::new("esp-out berlin 0x1001", [7; 16], [9; 16]);
    (record.generation, record.limit, record.edge) = (17, 17825792, 64);
    (record.place, record.after) = (place, Place { inode: 1, born: u64::MAX });
    assert!(record.to_text().len() as u64 <= RECORD_MAX);
    let texts = [record.to_text(), Void { next: place }.to_text()];
    let seed = |text: &String| {
        let body = text.rsplit_once("check ").map_or("", |(body, _)| body);
        [[&[0], text.as_bytes()].concat(), [&[1], body.as_bytes()].concat()]
    };
    texts.iter().flat_map(seed).collect()
}

/// Keys wrapped for a token: by a key they come out again, and not when an octet was
/// changed; what is no public key is refused.
pub fn token_wrap(data: &[u8]) {
    let mut input = Input::new(data);
    let lens = [16, 32, 0, 8, 24, 33];
    let (key_len, kek_len) = (*input.pick(&lens), *input.pick(&lens));
    let flip = usize::from(input.u8());
    let mut take = |len: usize| {
        let mut octets = input.take(len).to_vec();
        octets.resize(len, 0);
        octets
    };
    let (key, kek) = (Secret::new(take(key_len)), Secret::new(take(kek_len)));
    let der = input.take(usize::MAX);
    if let Ok(wrapped) = wrap(&key, &Wrapper::Public(der)) {
        assert!(wrapped.len() > key_len);
    }
    let wrapped = wrap(&key, &Wrapper::Kek(&kek));
    let fits = |len: usize| len == 16 || len == 32;
    assert_eq!(wrapped.is_ok(), fits(key_len) && fits(kek_len));
    let Ok(mut wrapped) = wrapped else { return };
    let unwrapped = |wrapped: &[u8]| {
        let cipher = if kek_len == 16 { &AES_128 } else { &AES_256 };
        let kek = AesKek::new(cipher, kek.expose()).expect("of its length");
        let mut room = vec![0; wrapped.len()];
        kek.unwrap(wrapped, &mut room).map(|key| key.to_vec()).ok()
    };
    assert_eq!(unwrapped(&wrapped).as_deref(), Some(key.expose()));
    let at = flip % wrapped.len();
    wrapped[at] ^= 1 << (flip & 7);
    assert_eq!(unwrapped(&wrapped), None);
}

/// Keys of every length, and a public key of RSA.
pub fn keys_to_wrap() -> Vec<Vec<u8>> {
    let mut rng = Rng::new(4);
    let mut seed = |lens: [u8; 2]| {
        let mut octets = vec![0; 80];
        rng.fill(&mut octets);
        octets[..2].copy_from_slice(&lens);
        octets
    };
    let mut seeds: Vec<_> = [[0, 0], [1, 1], [0, 1], [2, 0], [4, 5]].map(&mut seed).to_vec();
    // SubjectPublicKeyInfo (RFC 5280 section 4.1.2.7) of a modulus of 2048 bits.
    let mut public = seed([0, 0]);
    public.truncate(3 + 32);
    public.extend([0x30, 0x82, 1, 0x22, 0x30, 0x0d, 6, 9]);
    public.extend([0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 5, 0, 3, 0x82, 1, 0x0f, 0]);
    public.extend([0x30, 0x82, 1, 0x0a, 2, 0x82, 1, 1, 0]);
    public.extend([0xc5; 256]);
    public.extend([2, 3, 1, 0, 1]);
    seeds.push(public);
    seeds
}
