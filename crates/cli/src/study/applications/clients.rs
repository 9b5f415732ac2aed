//! The client host's process: a hidden command of this program (`study-apps`), for a namespace is
//! entered by a process. It takes lanes and sizes as JSON, has curl and a shell behind Telnet make
//! every transfer over every lane in turn, compares the data that arrived with the data sent, and
//! prints the times as JSON.

use super::node_times::{NodeTimes, Spent};
use super::servers::{Files, text};
use super::telnet::Telnet;
use crate::process::is_installed;
use clap::Args;
use ferrule_studies::ipsec_ip_layer::cases::Application;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Ports of the servers.
const PORTS: [u16; 3] = [21, 23, 25];
/// Servers answer within this time, or something is wrong.
const JOINED: Duration = Duration::from_secs(15);
/// One transfer takes no longer.
const TRANSFER_SECONDS: &str = "60";
/// Mail is in the box within this time.
const DELIVERED: Duration = Duration::from_secs(20);
/// curl begins transfers no faster: between logging in and the transfer that counts there
/// is time to read the nodes' clocks.
const RATE: &str = "15/s";

/// Orders for the client's process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// Where the server is, by lane.
    pub lanes: Vec<Way>,
    /// The transfers: sizes by application.
    pub work: Vec<(Application, Vec<usize>)>,
    /// The lane that is first.
    pub first: usize,
    /// The servers' files.
    pub files: PathBuf,
    /// A folder of the client's own.
    pub own: PathBuf,
}

/// A lane, as the client knows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Way {
    /// The server.
    pub server: Ipv4Addr,
    /// The nodes' sockets; none without nodes.
    pub sockets: Vec<PathBuf>,
    /// The nodes' processes, and their device on the wire.
    pub processes: Vec<u32>,
    /// The device.
    pub wire: String,
}

/// One transfer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Seen {
    /// The lane, counted from zero.
    pub lane: usize,
    /// The application.
    pub app: Application,
    /// Octets of the file.
    pub octets: usize,
    /// Duration in seconds.
    pub seconds: f64,
    /// Work of the nodes meanwhile.
    pub spent: Option<Spent>,
}

/// Arguments of the companion.
#[derive(Debug, Args)]
pub struct AppsArgs {
    /// The plan, as JSON
    #[arg(long)]
    plan: String,
    /// Only wait until every server answers over every lane
    #[arg(long)]
    join: bool,
}

impl AppsArgs {
    /// The companion.
    pub fn run(self) -> ExitCode {
        let done = serde_json::from_str::<Plan>(&self.plan)
            .map_err(|e| e.to_string())
            .and_then(|plan| if self.join { join(&plan).map(|()| Vec::new()) } else { go(&plan) });
        match done {
            Ok(seen) => {
                println!("{}", serde_json::to_string(&seen).unwrap_or_default());
                ExitCode::SUCCESS
            }
            Err(what) => {
                eprintln!("{what}");
                ExitCode::FAILURE
            }
        }
    }
}

/// Returns once every server answers over every lane.
fn join(plan: &Plan) -> Result<(), String> {
    let end = Instant::now() + JOINED;
    for way in &plan.lanes {
        for port in PORTS {
            let to = SocketAddr::from((way.server, port));
            while TcpStream::connect_timeout(&to, Duration::from_secs(1)).is_err() {
                if Instant::now() > end {
                    return Err(format!("error: {to} does not answer within {JOINED:?}"));
                }
                thread::sleep(Duration::from_millis(50));
            }
        }
    }
    Ok(())
}

/// Everything once: lanes take turns at each size.
fn go(plan: &Plan) -> Result<Vec<Seen>, String> {
    let files = Files::at(&plan.files);
    let mut nodes: Vec<_> = plan.lanes.iter().map(NodeTimes::open).collect::<Result<_, _>>()?;
    let mut seen = Vec::new();
    for (app, sizes) in &plan.work {
        let mut shells = match app {
            Application::Telnet => {
                let each = plan.lanes.iter().map(|way| Telnet::open(way.server, PORTS[1]));
                each.collect::<Result<Vec<_>, _>>().map_err(|e| format!("error: Telnet: {e}"))?
            }
            Application::Ftp | Application::Smtp => Vec::new(),
        };
        for &octets in sizes {
            let want = text(octets);
            for turn in 0..plan.lanes.len() {
                let lane = (plan.first + turn) % plan.lanes.len();
                let client =
                    Client { plan, files: &files, server: plan.lanes[lane].server, octets };
                let node = &mut nodes[lane];
                let (seconds, got, spent) = match app {
                    Application::Ftp => client.ftp(node)?,
                    Application::Smtp => client.smtp(node)?,
                    Application::Telnet => client.telnet(&mut shells[lane], node)?,
                };
                if got != want {
                    let what = format!("{} of {octets} octets, lane {lane}", app.name());
                    return Err(format!("error: {what}, arrived altered: {}", differ(&got, &want)));
                }
                seen.push(Seen { lane, app: *app, octets, seconds, spent });
            }
        }
    }
    Ok(seen)
}

/// Position at which two texts differ.
fn differ(got: &[u8], want: &[u8]) -> String {
    let at = got.iter().zip(want).take_while(|(a, b)| a == b).count();
    let near = |text: &[u8]| {
        let near = text.get(at.saturating_sub(8)..text.len().min(at + 24)).unwrap_or_default();
        String::from_utf8_lossy(near).into_owned()
    };
    format!("{} octets, at {at} {:?} for {:?}", got.len(), near(got), near(want))
}

/// How long, what arrived, what the nodes did.
type Transferred = Result<(f64, Vec<u8>, Option<Spent>), String>;

struct Client<'a> {
    plan: &'a Plan,
    files: &'a Files,
    server: Ipv4Addr,
    octets: usize,
}

impl Client<'_> {
    fn curl() -> Command {
        // It ends with this companion, however that ends.
        let mut curl = Command::new(if is_installed("setpriv") { "setpriv" } else { "env" });
        if is_installed("setpriv") {
            curl.args(["--pdeathsig", "TERM"]);
        }
        curl.args(["curl", "-q", "-sS", "--noproxy", "*", "--max-time", TRANSFER_SECONDS]);
        // By standard error, where nothing waits for more to be written.
        curl.args(["-w", "%{stderr}%{time_total}\n"]);
        curl.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        curl
    }

    /// One file for the login, then the one that counts, over the same connection.
    fn ftp(&self, node: &mut NodeTimes) -> Transferred {
        let (first, then) = (self.plan.own.join("first"), self.plan.own.join("then"));
        let url = |octets: usize| format!("ftp://{}/{}", self.server, super::servers::name(octets));
        let mut curl = Self::curl();
        curl.args(["--rate", RATE, "-o"]).arg(first).arg(url(1)).arg("-o").arg(&then);
        curl.arg(url(self.octets));
        let mut child = curl.spawn().map_err(|e| format!("curl: {e}"))?;
        let mut said = BufReader::new(child.stderr.take().ok_or("curl says nothing")?);
        let (mut login, mut line, mut rest) = (String::new(), String::new(), String::new());
        let mut read = said.read_line(&mut login);
        let before = node.read();
        read = read.and(said.read_line(&mut line));
        let after = node.read();
        read = read.and(said.read_to_string(&mut rest));
        let status = child.wait().map_err(|e| e.to_string())?;
        read.map_err(|e| format!("error: FTP: {e}"))?;
        let seconds = line.trim().parse::<f64>().ok().filter(|_| status.success());
        let complaint = || format!("error: FTP: {}{}{}", login, line, rest.trim());
        let seconds = seconds.ok_or_else(complaint)?;
        let got = fs::read(&then).map_err(|e| e.to_string())?;
        Ok((seconds, got, Spent::between(before?, after?)))
    }

    /// A message from connecting to its acceptance; then it is waited for.
    fn smtp(&self, node: &mut NodeTimes) -> Transferred {
        let mut curl = Self::curl();
        curl.args(["--crlf", "--mail-from", "a@lab.example", "--mail-rcpt", "b@lab.example"]);
        curl.arg("-T").arg(self.files.message(self.octets)).arg(format!("smtp://{}", self.server));
        let before = node.read()?;
        let said = curl.output().map_err(|e| format!("curl: {e}"))?;
        let after = node.read()?;
        let line = String::from_utf8_lossy(&said.stderr);
        let seconds = line.trim().parse::<f64>().ok().filter(|_| said.status.success());
        let seconds = seconds.ok_or_else(|| format!("error: SMTP: {}", line.trim()))?;
        let mut got = delivered(&self.files.mail().join("new"))?;
        // A message ends with a line's end, whether its text did or not.
        got.truncate(self.octets);
        Ok((seconds, got, Spent::between(before, after)))
    }

    /// A shell's output, from the command to its last octet.
    fn telnet(&self, shell: &mut Telnet, node: &mut NodeTimes) -> Transferred {
        let path = self.files.file(self.octets);
        let before = node.read()?;
        let shown = shell.show(&path.display().to_string(), self.octets);
        let (time, got) = shown.map_err(|e| format!("error: Telnet: {e}"))?;
        let after = node.read()?;
        Ok((time.as_secs_f64(), got, Spent::between(before, after)))
    }
}

/// Takes the only message out of the box: its body.
fn delivered(folder: &Path) -> Result<Vec<u8>, String> {
    let end = Instant::now() + DELIVERED;
    loop {
        let first = fs::read_dir(folder).ok().and_then(|mut entries| entries.next()?.ok());
        if let Some(entry) = first {
            let path = entry.path();
            let whole = fs::read(&path).map_err(|e| e.to_string())?;
            fs::remove_file(&path).map_err(|e| e.to_string())?;
            let at = whole.windows(2).position(|two| two == b"\n\n");
            let at = at.ok_or("error: SMTP: a message without a body")?;
            return Ok(whole[at + 2..].to_vec());
        }
        if Instant::now() > end {
            return Err(format!("error: SMTP: not delivered within {DELIVERED:?}"));
        }
        thread::sleep(Duration::from_millis(2));
    }
}
