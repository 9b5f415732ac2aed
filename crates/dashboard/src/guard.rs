//! Checks of a request's origin and rights.
//!
//! A page from anywhere can make a browser send requests to this machine. So:
//!
//! - the `Host` must be an address or `localhost`: a name that an attacker's DNS
//!   points here is neither;
//! - an `Origin`, where there is one, must be our own;
//! - state and commands need the key in a header, which no form and no image can
//!   send; commands must say that they are JSON.

use crate::http::Request;
use ferrule_crypto::random;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Octets of randomness in a key.
const KEY_LEN: usize = 16;

/// Key that a page must show to see the state and to give commands. Made anew for each run; the
/// driver prints it as a part of the address.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// A fresh one.
    pub fn fresh() -> Result<Self, random::Unavailable> {
        let mut octets = [0; KEY_LEN];
        random::fill(&mut octets)?;
        Ok(Self(octets.iter().map(|o| format!("{o:02x}")).collect()))
    }

    /// Text of the key, as in the address.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Looks at every octet, so that time tells nothing.
    fn is(&self, shown: &str) -> bool {
        let pairs = self.0.bytes().zip(shown.bytes());
        self.0.len() == shown.len() && pairs.fold(0, |all, (a, b)| all | (a ^ b)) == 0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// Refusal of a request: status, and a sentence.
pub type Refused = (u16, &'static str);

/// Checks of every request, those for the page itself included.
pub fn admit(request: &Request) -> Result<(), Refused> {
    let host = request.header("host").unwrap_or_default();
    if !is_own_name(host) {
        return Err((421, "use the address of this machine, not a name of it"));
    }
    match request.header("origin") {
        Some(origin) if origin.strip_prefix("http://") != Some(host) => {
            Err((403, "another page may not ask here"))
        }
        _ => Ok(()),
    }
}

/// Checks of requests for state and commands.
pub fn authorize(request: &Request, key: &Key) -> Result<(), Refused> {
    let shown = request.header("authorization").and_then(|a| a.strip_prefix("Bearer "));
    match shown {
        Some(shown) if key.is(shown) => Ok(()),
        Some(_) => Err((401, "the key is of another run: take the address that ferrule printed")),
        None => Err((401, "the key is missing: take the address that ferrule printed")),
    }
}

/// Checks that a command is declared as JSON.
pub fn is_json(request: &Request) -> Result<(), Refused> {
    let kind = request.header("content-type").and_then(|k| k.split(';').next());
    match kind {
        Some(kind) if kind.trim() == "application/json" => Ok(()),
        _ => Err((415, "commands are application/json")),
    }
}

/// `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080`, each without port, too.
fn is_own_name(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, port)) => return name.parse::<Ipv6Addr>().is_ok() && is_port(port),
            None => return false,
        },
        None => host.find(':').map_or((host, ""), |at| host.split_at(at)),
    };
    is_port(port) && (name.parse::<Ipv4Addr>().is_ok() || name.eq_ignore_ascii_case("localhost"))
}

fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|p| p.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: &[(&str, &str)]) -> Request {
        let mut text = "GET /api/state HTTP/1.1\r\n".to_owned();
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        Request::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn dashboard_refuses_other_origins_and_names() {
        let fine = ["127.0.0.1:8080", "localhost", "[::1]:8080", "192.0.2.7:1", "LOCALHOST:80"];
        for host in fine {
            let origin = format!("http://{host}");
            assert_eq!(admit(&request(&[("Host", host)])), Ok(()), "{host}");
            assert_eq!(admit(&request(&[("Host", host), ("Origin", &origin)])), Ok(()));
            for origin in ["http://evil.example", "null", "https://127.0.0.1:8080", ""] {
                let refused = admit(&request(&[("Host", host), ("Origin", origin)]));
                assert_eq!(refused.unwrap_err().0, 403, "{origin}");
            }
        }
        for host in ["evil.example", "evil.example:8080", "", "[::1", "::1", "127.0.0.1:x", "a:80"]
        {
            assert_eq!(admit(&request(&[("Host", host)])).unwrap_err().0, 421, "{host}");
        }
        assert!(admit(&request(&[])).is_err());
    }

    #[test]
    fn dashboard_key_is_asked_for_in_full() {
        let key = Key::fresh().unwrap();
        assert_ne!(key, Key::fresh().unwrap());
        assert_eq!(key.text().len(), 2 * KEY_LEN);
        assert!(!format!("{key:?}").contains(key.text()));
        let full = format!("Bearer {}", key.text());
        assert_eq!(authorize(&request(&[("Authorization", &full)]), &key), Ok(()));
        for wrong in [&full[..full.len() - 1], "Bearer ", "Basic abc", key.text(), ""] {
            let refused = authorize(&request(&[("Authorization", wrong)]), &key);
            assert_eq!(refused.unwrap_err().0, 401, "{wrong}");
        }
        assert_eq!(authorize(&request(&[]), &key).unwrap_err().0, 401);
        assert!(is_json(&request(&[("Content-Type", "application/json; charset=utf-8")])).is_ok());
        assert!(is_json(&request(&[("Content-Type", "text/plain")])).is_err());
    }
}
