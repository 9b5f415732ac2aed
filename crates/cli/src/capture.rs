//! `ferrule capture`: the frames of a running node's ports as pcapng, and on
//! request the keys that Wireshark needs to open ESP.

use crate::live::{Which, end_on_interrupt, finish, unexpected};
use crate::output::print;
use clap::Args;
use ferrule_daemon::Fault;
use ferrule_daemon::api::{Recording, Reply, Request, Seen};
use ferrule_wire::capture::{Direction, Interface, Writer};
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Capture what the ports of a running node receive and send, as pcapng.
///
/// Frames are as on the wire: sealed. With --keylog a node with key-log = true in
/// [node] also hands out the keys of its ESP tunnels, in the form of Wireshark's table `esp_sa`; whoever
/// has that file can read the traffic of these tunnels, past and future.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ferrule capture -w wire.pcapng            until ctrl-C
  sudo ferrule capture --port core | tshark -r -
  sudo ferrule capture -c 100 -w wire.pcapng --keylog esp_sa
  mapfile -t keys < <(sed 's/^/-ouat:esp_sa:/' esp_sa)
  tshark -r wire.pcapng -o esp.enable_encryption_decode:TRUE \"${keys[@]}\"
                                                 or put esp_sa into Wireshark's profile folder")]
pub struct CaptureArgs {
    /// The file to write; without it standard output.
    #[arg(short = 'w', long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Only this port.
    #[arg(long, value_name = "PORT")]
    port: Option<String>,
    /// Frames to capture; without it until ctrl-C.
    #[arg(short, long)]
    count: Option<u64>,
    /// Octets of each frame to keep; 0: all.
    #[arg(short, long, default_value_t = 0)]
    snap: usize,
    /// Write the keys of ESP tunnels to this file (mode 0600), which must not exist.
    #[arg(long, value_name = "FILE")]
    keylog: Option<PathBuf>,
    /// Say at the end as one JSON object what was captured; needs -w.
    #[arg(long, requires = "write")]
    json: bool,
    #[command(flatten)]
    which: Which,
}

impl CaptureArgs {
    /// Captures.
    pub fn run(self) -> ExitCode {
        finish(self.go())
    }

    fn go(self) -> Result<(), Fault> {
        if self.write.is_none() && io::stdout().is_terminal() {
            let what = "a capture is not for a terminal";
            return Err(Fault::environment(what, "use -w FILE, or pipe it into `tshark -r -`"));
        }
        let mut client = self.which.connect()?;
        end_on_interrupt(&client)?;
        let recording = Recording { port: self.port.clone(), count: self.count, snap: self.snap };
        client.send(&Request::Capture { recording, key_log: self.keylog.is_some() })?;
        let (names, key_log) = match client.receive()? {
            Some(Reply::Ports { names, key_log }) => (names, key_log),
            Some(reply) => return Err(unexpected(reply)),
            None => return Ok(()),
        };
        if let Some(path) = &self.keylog {
            write_keys(path, &key_log).map_err(|e| cannot(path, &e))?;
        }
        let output: Box<dyn Write> = match &self.write {
            Some(path) => Box::new(File::create(path).map_err(|e| cannot(path, &e))?),
            None => Box::new(io::stdout()),
        };
        let shown = self.write.unwrap_or_else(|| "standard output".into());
        let mut file = Pcapng::begin(output, &names).map_err(|e| cannot(&shown, &e))?;
        let mut frames = 0;
        while let Some(reply) = client.receive()? {
            match reply {
                Reply::Record(seen) => match file.write(&seen) {
                    Ok(()) => frames += 1,
                    // The reader of the pipe has seen enough.
                    Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                    Err(e) => return Err(cannot(&shown, &e)),
                },
                Reply::End { lost } => {
                    match self.json {
                        true => {
                            print(&format!("{:#}\n", json!({ "frames": frames, "lost": lost })))
                        }
                        false => eprintln!("{frames} frames captured, {lost} lost"),
                    }
                    return Ok(());
                }
                reply => return Err(unexpected(reply)),
            }
        }
        Ok(())
    }
}

fn cannot(path: &Path, error: &io::Error) -> Fault {
    let remedy = match error.kind() {
        io::ErrorKind::AlreadyExists => "choose another name, or remove it first",
        _ => "see whether the folder is there and may be written",
    };
    Fault::environment(format!("{}: {error}", path.display()), remedy)
}

fn write_keys(path: &Path, lines: &[String]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    lines.iter().try_for_each(|line| writeln!(file, "{line}"))
}

/// A capture with one interface for each port.
struct Pcapng {
    writer: Writer<BufWriter<Box<dyn Write>>>,
    names: Vec<String>,
}

impl Pcapng {
    fn begin(output: Box<dyn Write>, names: &[String]) -> io::Result<Self> {
        let mut writer = Writer::new(BufWriter::new(output), "ferrule")?;
        for name in names {
            writer.interface(&Interface::ethernet(name))?;
        }
        writer.flush()?;
        Ok(Self { writer, names: names.to_vec() })
    }

    /// Each frame at once: an interrupt may come at any time.
    fn write(&mut self, seen: &Seen) -> io::Result<()> {
        let place = match self.names.iter().position(|n| *n == seen.port) {
            Some(place) => place,
            None => {
                // A port that `apply` added.
                self.writer.interface(&Interface::ethernet(&seen.port))?;
                self.names.push(seen.port.clone());
                self.names.len() - 1
            }
        };
        let way = match seen.point.as_str() {
            "received" => Direction::Inbound,
            _ => Direction::Outbound,
        };
        let len = u32::try_from(seen.len).unwrap_or(u32::MAX);
        self.writer.write(place as u32, seen.time, Some(way), len, &seen.octets(), &[])?;
        self.writer.flush()
    }
}
