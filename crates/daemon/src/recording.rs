//! A trace or capture that a client asked for: records from the workers' rings
//! to the client, as fast as it takes them.

use crate::api::{Recording, Reply, Seen, Server};
use crate::clock::Clock;
use ferrule_base::{Duration, Instant};
use ferrule_crypto::{Mac, Place, Suite};
use ferrule_dataplane::graph::Next;
use ferrule_node::Control;
use ferrule_node::config::{Config, SaConfig, TunnelConfig};
use ferrule_node::probe::{Filter, Point, RECORDS_MAX, Record, Records};
use std::collections::HashSet;
use std::fmt::Write;
use std::net::IpAddr;

/// How often the rings are looked into while something is recorded.
pub const LOOK_EVERY: Duration = Duration::from_millis(2);
/// A packet that was followed and of which nothing more is heard has ended:
/// consumed by the node itself, or held.
const SILENCE: Duration = Duration::from_millis(300);
/// Records sent in one go at most.
const BURST: usize = 4096;

/// Recording under way for a client.
pub struct Tap {
    /// The client.
    pub client: u64,
    rings: Vec<Records>,
    trace: bool,
    left: u64,
    /// Records that the client did not take in time.
    untaken: u64,
    heard: Instant,
    following: HashSet<u64>,
}

impl Tap {
    /// Begins. The error is a sentence.
    pub fn begin(
        control: &mut Control,
        client: u64,
        wanted: &Recording,
        trace: bool,
    ) -> Result<Self, String> {
        let config = control.config();
        let port = match &wanted.port {
            Some(name) => match config.ports.iter().position(|p| p.name == *name) {
                Some(index) => Some(control.port_id(index)),
                None => {
                    let names: Vec<_> = config.ports.iter().map(|p| p.name.as_str()).collect();
                    return Err(format!(
                        "there is no port `{name}`; there are {}",
                        names.join(", ")
                    ));
                }
            },
            None => None,
        };
        let left = wanted.count.unwrap_or(u64::MAX);
        let snap = if wanted.snap == 0 { usize::MAX } else { wanted.snap };
        let filter = Filter { stages: trace, port, count: left, snap };
        let rings = control.record(&filter).map_err(|e| e.to_string())?;
        let (heard, following) = (Instant::ZERO, HashSet::new());
        Ok(Self { client, rings, trace, left, untaken: 0, heard, following })
    }

    /// Sends what was recorded. True when it is over.
    pub fn turn(&mut self, control: &Control, server: &mut Server, clock: Clock) -> bool {
        self.pass_on(control, server, clock);
        let silent = clock.now().since(self.heard) > SILENCE;
        let over = self.left == 0 && (self.following.is_empty() || silent);
        if over {
            self.say_end(server);
        }
        over
    }

    /// Ends it before all that was asked for is there.
    pub fn end(mut self, control: &Control, server: &mut Server, clock: Clock) {
        // As much as the rings can hold, and no more: workers go on meanwhile.
        for _ in 0..=self.rings.len() * RECORDS_MAX / BURST {
            self.pass_on(control, server, clock);
        }
        self.say_end(server);
    }

    /// The last word: how many records are missing, for lack of room in a
    /// worker's ring or in what the client left unread.
    fn say_end(&self, server: &mut Server) {
        let lost = self.untaken + self.rings.iter().map(Records::lost).sum::<u64>();
        server.say(self.client, &Reply::End { lost });
    }

    fn pass_on(&mut self, control: &Control, server: &mut Server, clock: Clock) {
        let mut records = Vec::new();
        for ring in &mut self.rings {
            while records.len() < BURST
                && let Some(record) = ring.pop()
            {
                records.push(record);
            }
        }
        records.sort_by_key(|r| r.time);
        for record in records {
            if !self.wants(&record) {
                continue;
            }
            self.heard = clock.now();
            let seen = seen(control, &record, clock);
            if !server.say(self.client, &Reply::Record(seen)) {
                self.untaken += 1;
            }
        }
    }

    /// Counts down; a trace takes packets that it saw arriving, to their end.
    fn wants(&mut self, record: &Record) -> bool {
        if !self.trace {
            let wanted = self.left > 0;
            self.left = self.left.saturating_sub(1);
            return wanted;
        }
        match record.point {
            Point::Received if self.left > 0 => {
                self.left -= 1;
                self.following.insert(record.id);
                true
            }
            Point::Received => {
                // The chunk is another packet's now.
                self.following.remove(&record.id);
                false
            }
            Point::At(Next::Transmit | Next::TransmitFirst) => self.following.remove(&record.id),
            Point::Dropped(_) => self.following.remove(&record.id),
            Point::At(_) => self.following.contains(&record.id),
        }
    }
}

fn seen(control: &Control, record: &Record, clock: Clock) -> Seen {
    let (point, reason) = match record.point {
        Point::Received => ("received", None),
        Point::At(next) => (next.name(), None),
        Point::Dropped(reason) => ("dropped", Some(reason.name().to_owned())),
    };
    let mut data = String::with_capacity(2 * record.data.len());
    for octet in &record.data {
        let _ = write!(data, "{octet:02x}");
    }
    Seen {
        time: clock.time_of_day(record.time),
        worker: record.worker,
        point: point.into(),
        reason,
        port: control.port_name(record.port).into(),
        id: record.id,
        len: record.len,
        data,
    }
}

/// The keys of all tunnels, as Wireshark's table `esp_sa` has them.
pub fn key_log(config: &Config) -> Vec<String> {
    let each = config.tunnels.iter().flat_map(|t| {
        let inbound = t.inbound.iter().map(move |sa| line(sa, t, t.remote, t.local));
        t.outbound.iter().map(move |sa| line(sa, t, t.local, t.remote)).chain(inbound)
    });
    each.flatten().collect()
}

/// One line: family, source, destination, SPI, cipher, key, integrity, key.
fn line(sa: &SaConfig, tunnel: &TunnelConfig, from: IpAddr, to: IpAddr) -> Option<String> {
    let family = if from.is_ipv4() { "IPv4" } else { "IPv6" };
    // Without a key the field is empty.
    let hex = |octets: &[u8]| {
        let prefix = if octets.is_empty() { "" } else { "0x" };
        octets.iter().fold(prefix.to_owned(), |mut text, octet| {
            let _ = write!(text, "{octet:02x}");
            text
        })
    };
    // A key on a token is not here.
    if matches!(sa.keys.place, Place::Token(_)) {
        return None;
    }
    let (cipher, integrity) = wireshark_names(tunnel.suite)?;
    let mut key = sa.keys.key.expose().to_vec();
    key.extend(sa.salt.expose());
    let mac_key = hex(sa.keys.mac_key.expose());
    let fields = [
        family,
        &from.to_string(),
        &to.to_string(),
        &format!("0x{:08x}", sa.spi),
        cipher,
        &hex(&key),
        integrity,
        &mac_key,
    ];
    Some(fields.map(|f| format!("\"{f}\"")).join(","))
}

/// Wireshark's own names of a cipher and of what is beside it. It has none for
/// ChaCha20-Poly1305 in version 4.0, nor for GMAC or implicit IVs.
const fn wireshark_names(suite: Suite) -> Option<(&'static str, &'static str)> {
    let cipher = match suite {
        Suite::AesGcm(_) => "AES-GCM with 16 octet ICV [RFC4106]",
        Suite::AesCbc(..) => "AES-CBC [RFC3602]",
        Suite::AesCtr(..) => "AES-CTR [RFC3686]",
        Suite::Null(_) => "NULL",
        Suite::DesCbc(_) => "DES-CBC [RFC2405]",
        Suite::TripleDesCbc(_) => "TripleDES-CBC [RFC2451]",
        Suite::AesGcmIiv(_)
        | Suite::ChaCha20Poly1305
        | Suite::ChaCha20Poly1305Iiv
        | Suite::AesGmac(_)
        | Suite::AesCtrStudy(..) => return None,
    };
    let integrity = match suite.mac() {
        None => "NULL",
        Some(Mac::HmacMd5_96) => "HMAC-MD5-96 [RFC2403]",
        Some(Mac::HmacSha1_96) => "HMAC-SHA-1-96 [RFC2404]",
        Some(Mac::HmacSha256_128) => "HMAC-SHA-256-128 [RFC4868]",
        Some(Mac::HmacSha384_192) => "HMAC-SHA-384-192 [RFC4868]",
        Some(Mac::HmacSha512_256) => "HMAC-SHA-512-256 [RFC4868]",
    };
    Some((cipher, integrity))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_base::Secret;

    const NODE: &str = r#"
[node]
name = "gw"
lab = true
[[port]]
name = "wan"
driver = "wire"
[[interface]]
port = "wan"
address = ["198.51.100.1/24", "2001:db8::1/64"]
[[tunnel]]
name = "four"
local = "198.51.100.1"
remote = "198.51.100.2"
suite = "SUITE"
in = { spi = 0x1001, key = "in" }
out = { spi = 0x1002, key = "out" }
"#;

    fn lines(suite: &str, file: &'static str) -> Vec<String> {
        let mut keys = |name: &str| {
            // Each direction has a key of its own.
            let digit = if name == "in" { "1" } else { "2" };
            Ok::<_, String>(Secret::new(file.replace('?', digit).into_bytes()))
        };
        let text = NODE.replace("SUITE", suite);
        key_log(&Config::parse("n.toml", &text, &mut keys).unwrap())
    }

    /// Checked with tshark in `tests/live/observe.py`; here, that it stays so.
    #[test]
    fn key_log_is_in_the_form_of_the_table_esp_sa() {
        let file = "cipher ?0112233445566778899aabbccddeeff\nsalt a1b2c3d4\n";
        let want = [
            "\"IPv4\",\"198.51.100.1\",\"198.51.100.2\",\"0x00001002\",\
             \"AES-GCM with 16 octet ICV [RFC4106]\",\
             \"0x20112233445566778899aabbccddeeffa1b2c3d4\",\"NULL\",\"\"",
            "\"IPv4\",\"198.51.100.2\",\"198.51.100.1\",\"0x00001001\",\
             \"AES-GCM with 16 octet ICV [RFC4106]\",\
             \"0x10112233445566778899aabbccddeeffa1b2c3d4\",\"NULL\",\"\"",
        ];
        assert_eq!(lines("aes-gcm-128", file), want);
        let file = "cipher ?0112233445566778899aabbccddeeff\n\
                    integrity 00112233445566778899aabbccddeeff00112233\n";
        let cbc = lines("aes-cbc-128 hmac-sha1-96", file);
        assert!(cbc[0].ends_with(
            "\"AES-CBC [RFC3602]\",\"0x20112233445566778899aabbccddeeff\",\
             \"HMAC-SHA-1-96 [RFC2404]\",\"0x00112233445566778899aabbccddeeff00112233\""
        ));
    }
}
