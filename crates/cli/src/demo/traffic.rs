//! Stock tools between the two hosts, and what they measured.

use super::network::Network;
use super::plan::{Place, REFUSED_COUNT, REFUSED_PORT};
use crate::process::{Background, Fault, Runner, write};
use ferrule_crypto::random;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Echo requests, and milliseconds from one to the next.
const PINGS: usize = 50;
const PING_INTERVAL_S: &str = "0.02";
/// Octets of the file.
const FILE_LEN: usize = 8 << 20;
/// A service is up within this time.
const UP: Duration = Duration::from_secs(15);
/// Study's frames, and microseconds from one to the next.
pub const STUDY_FRAMES: u32 = 1000;
const STUDY_INTERVAL_US: u64 = 1000;
/// A port that no dissector of tshark's claims.
const STUDY_PORT: u16 = 40_954;
/// Silence after which the rest of the frames counts as lost.
const SILENCE_MS: u64 = 2000;
/// The same of a flow of which perhaps nothing comes.
const REFUSED_SILENCE_MS: u64 = 500;

/// The two hosts of a variant.
pub struct Hosts<'a> {
    /// Runner of the steps, which ends them at a signal.
    pub runner: &'a Runner,
    /// Where they are.
    pub network: &'a Network,
    /// Their addresses.
    pub addresses: [&'static str; 2],
    /// Folder for logs and files.
    pub folder: &'a Path,
}

/// Round trips.
#[derive(Clone, Debug, Serialize)]
pub struct RoundTrips {
    /// Echo requests.
    pub sent: usize,
    /// Replies.
    pub received: usize,
    /// The middle one, in microseconds.
    pub median_us: f64,
}

/// Frames at a modest, even rate.
#[derive(Clone, Debug, Serialize)]
pub struct Delivery {
    /// Frames that were sent.
    pub sent: u32,
    /// Frames that came whole.
    pub received: u32,
    /// Frames that came twice or broken.
    pub spoilt: u64,
}

/// A file fetched over HTTP.
#[derive(Clone, Debug, Serialize)]
pub struct Fetched {
    /// Its octets.
    pub bytes: usize,
    /// Its SHA-256 where it was served, and where it arrived.
    pub sha256: [String; 2],
    /// True if both are the same.
    pub matches: bool,
    /// Its duration.
    pub seconds: f64,
}

impl Hosts<'_> {
    /// Waits until the network carries an echo and its reply.
    pub fn wait_until_joined(
        &self,
        mut alive: impl FnMut() -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.runner.wait_for("no echo came back", UP, || {
            alive()?;
            let mut ping = self.network.inside(Place::Host1);
            ping.args(["ping", "-n", "-q", "-c", "1", "-W", "0.3", self.addresses[1]]);
            Ok(self.runner.output(&mut ping, UP)?.status.success())
        })
    }

    /// ping.
    pub fn round_trips(&self) -> Result<RoundTrips, Fault> {
        let mut ping = self.network.inside(Place::Host1);
        let count = PINGS.to_string();
        ping.args(["ping", "-n", "-c", &count, "-i", PING_INTERVAL_S, "-W", "1"]);
        let said = self.runner.output(ping.arg(self.addresses[1]), UP)?;
        let times = said.out.lines().filter_map(|line| {
            line.split("time=").nth(1)?.split_whitespace().next()?.parse::<f64>().ok()
        });
        let times: Vec<f64> = times.map(|milliseconds| milliseconds * 1e3).collect();
        let median_us =
            median(&times).ok_or_else(|| Fault::failed("ping", said.out + &said.err))?;
        Ok(RoundTrips { sent: PINGS, received: times.len(), median_us })
    }

    /// The study's frames, from the first host to the second.
    pub fn study_frames(&self) -> Result<Delivery, Fault> {
        self.datagrams(STUDY_PORT, STUDY_FRAMES, SILENCE_MS)
    }

    /// A few of the flow that the provider refuses: how many arrive.
    pub fn refused(&self) -> Result<u32, Fault> {
        Ok(self.datagrams(REFUSED_PORT, REFUSED_COUNT, REFUSED_SILENCE_MS)?.received)
    }

    fn datagrams(&self, port: u16, count: u32, silence: u64) -> Result<Delivery, Fault> {
        let program = std::env::current_exe().map_err(|e| Fault::failed("our own path", e))?;
        let target = format!("{}:{port}", self.addresses[1]);
        let (sent, count, silence) = (count, count.to_string(), silence.to_string());
        let mut receive = self.network.inside(Place::Host2);
        receive.arg(&program).args(["demo-host", "receive", &target]);
        receive.args(["--count", &count, "--silence", &silence]);
        let log = self.folder.join(format!("receive-{port}.log"));
        let mut receiver = Background::start("the receiver", &mut receive, &log)?;
        self.runner.wait_for("the receiver did not begin", UP, || {
            receiver.check()?;
            Ok(receiver.said().contains("ready"))
        })?;
        let mut send = self.network.inside(Place::Host1);
        let interval = STUDY_INTERVAL_US.to_string();
        send.arg(&program).args(["demo-host", "send", &target]);
        self.runner.done(send.args(["--count", &count, "--interval", &interval]), UP)?;
        self.runner.wait_for("the receiver did not end", UP, || Ok(receiver.check().is_err()))?;
        let said = receiver.said();
        let counted = said.lines().find_map(|line| {
            serde_json::from_str::<serde_json::Value>(line).ok().filter(|v| v.is_object())
        });
        let field = |name: &str| counted.as_ref()?.get(name)?.as_u64();
        let received = field("whole").ok_or_else(|| Fault::failed("the receiver", &said))?;
        Ok(Delivery {
            sent,
            received: received as u32,
            spoilt: field("twice").unwrap_or(0) + field("broken").unwrap_or(0),
        })
    }

    /// iperf3: bits per second to the second host, and back.
    pub fn bulk(&self, seconds: u32) -> Result<[f64; 2], Fault> {
        let mut serve = self.network.inside(Place::Host2);
        serve.args(["iperf3", "-s", "--forceflush", "-B", self.addresses[1]]);
        let log = self.folder.join("iperf3.log");
        let mut server = Background::start("iperf3", &mut serve, &log)?;
        self.runner.wait_for("iperf3 did not begin", UP, || {
            server.check()?;
            Ok(server.said().contains("listening"))
        })?;
        let mut rates = [0.0; 2];
        for (rate, way) in rates.iter_mut().zip([None, Some("-R")]) {
            let mut client = self.network.inside(Place::Host1);
            let time = seconds.to_string();
            client.args(["iperf3", "-J", "-t", &time, "-c", self.addresses[1]]).args(way);
            let limit = Duration::from_secs(u64::from(seconds)) + UP;
            let said = self.runner.output(&mut client, limit)?;
            let report: serde_json::Value =
                serde_json::from_str(&said.out).map_err(|e| Fault::failed("iperf3", e))?;
            if let Some(error) = report["error"].as_str() {
                return Err(Fault::failed("iperf3", error));
            }
            let received = report["end"]["sum_received"]["bits_per_second"].as_f64();
            *rate = received.ok_or_else(|| Fault::failed("iperf3", said.err))?;
        }
        Ok(rates)
    }

    /// A file of random octets, served by the second host, fetched by the first.
    pub fn file(&self) -> Result<Fetched, Fault> {
        let mut octets = vec![0; FILE_LEN];
        random::fill(&mut octets).map_err(|e| Fault::failed("a random file", e))?;
        let served = self.folder.join("served");
        fs::create_dir(&served).map_err(|e| Fault::failed("a folder to serve", e))?;
        write(&served.join("file"), &octets)?;
        let mut serve = self.network.inside(Place::Host2);
        serve.args(["python3", "-u", "-m", "http.server", "8080", "--bind", self.addresses[1]]);
        let log = self.folder.join("http.log");
        let mut server =
            Background::start("python3 -m http.server", serve.arg("-d").arg(&served), &log)?;
        self.runner.wait_for("the HTTP server did not begin", UP, || {
            server.check()?;
            Ok(server.said().contains("Serving"))
        })?;
        let fetched = self.folder.join("fetched");
        let mut curl = self.network.inside(Place::Host1);
        curl.args(["curl", "-sS", "--fail", "--noproxy", "*", "-o"]).arg(&fetched);
        let begun = Instant::now();
        self.runner.done(curl.arg(format!("http://{}:8080/file", self.addresses[1])), UP * 2)?;
        let seconds = begun.elapsed().as_secs_f64();
        let arrived = fs::read(&fetched).map_err(|e| Fault::failed("the fetched file", e))?;
        let sha256 = [sha256(&octets), sha256(&arrived)];
        let matches = sha256[0] == sha256[1];
        Ok(Fetched { bytes: arrived.len(), sha256, matches, seconds })
    }
}

/// SHA-256 in hexadecimal digits.
pub fn sha256(octets: &[u8]) -> String {
    Sha256::digest(octets).iter().map(|octet| format!("{octet:02x}")).collect()
}

/// The middle one.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { (upper + sorted[middle - 1]) / 2.0 })
}
