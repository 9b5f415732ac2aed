//! `ferrule demo-host`, hidden: the part of the demo that runs inside a host's
//! namespace. It sends the study's frames as a host does, by a UDP socket, and
//! counts them at the other end.
//!
//! A datagram of 954 octets is 996 octets with its headers; the access port of
//! the CE adds the VLAN tag, and the study's frame of 1000 octets is complete.

use super::plan::STUDY_PAYLOAD;
use clap::{Args, Subcommand};
use std::io::{self, Write};
use std::net::{SocketAddr, UdpSocket};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// First octets of every datagram.
const MAGIC: &[u8; 8] = b"ferrule\0";
/// Octet that fills the rest behind the number.
const FILL: u8 = 0x5a;
/// Datagrams of one run at most.
pub const COUNT_MAX: u32 = 1 << 20;

/// The host's part.
#[derive(Debug, Args)]
pub struct HostArgs {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Send datagrams, evenly in time
    Send {
        /// Where to
        to: SocketAddr,
        /// How many
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(COUNT_MAX)))]
        count: u32,
        /// Microseconds from one to the next
        #[arg(long)]
        interval: u64,
    },
    /// Count datagrams until all are there or none comes any more
    Receive {
        /// Where
        at: SocketAddr,
        /// How many are expected
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(COUNT_MAX)))]
        count: u32,
        /// Milliseconds of silence after which no more are expected
        #[arg(long)]
        silence: u64,
    },
}

impl HostArgs {
    /// Runs the command.
    pub fn run(self) -> ExitCode {
        let done = match self.role {
            Role::Send { to, count, interval } => send(to, count, Duration::from_micros(interval)),
            Role::Receive { at, count, silence } => {
                receive(at, count, Duration::from_millis(silence))
            }
        };
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                eprintln!("{e}");
                ExitCode::from(3)
            }
        }
    }
}

/// The payload of a number.
pub fn payload(number: u32) -> [u8; STUDY_PAYLOAD] {
    let mut octets = [FILL; STUDY_PAYLOAD];
    octets[..8].copy_from_slice(MAGIC);
    octets[8..12].copy_from_slice(&number.to_be_bytes());
    octets
}

/// The number of a payload that is whole.
pub fn number(octets: &[u8]) -> Option<u32> {
    let (head, fill) = octets.split_at_checked(12)?;
    let number = u32::from_be_bytes(head.strip_prefix(MAGIC)?.try_into().ok()?);
    let whole = octets.len() == STUDY_PAYLOAD && fill.iter().all(|&octet| octet == FILL);
    whole.then_some(number)
}

fn send(to: SocketAddr, count: u32, interval: Duration) -> io::Result<()> {
    let any: SocketAddr =
        if to.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    let start = Instant::now();
    for number in 0..count {
        let due = interval * number;
        if let Some(early) = due.checked_sub(start.elapsed()) {
            std::thread::sleep(early);
        }
        socket.send(&payload(number))?;
    }
    Ok(())
}

fn receive(at: SocketAddr, count: u32, silence: Duration) -> io::Result<()> {
    let socket = UdpSocket::bind(at)?;
    socket.set_read_timeout(Some(silence))?;
    println!("ready");
    io::stdout().flush()?;
    let (mut seen, mut whole) = (vec![false; count as usize], 0_u32);
    let (mut twice, mut broken) = (0_u64, 0_u64);
    let mut octets = [0; 2048];
    while whole < count {
        let len = match socket.recv(&mut octets) {
            Ok(len) => len,
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                break;
            }
            Err(e) => return Err(e),
        };
        let place = number(&octets[..len]).and_then(|number| seen.get_mut(number as usize));
        match place {
            None => broken += 1,
            Some(true) => twice += 1,
            Some(place) => {
                *place = true;
                whole += 1;
            }
        }
    }
    println!("{}", serde_json::json!({ "whole": whole, "twice": twice, "broken": broken }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demo_host_knows_a_whole_datagram_from_a_broken_one() {
        let mut octets = payload(7);
        assert_eq!(number(&octets), Some(7));
        assert_eq!(number(&octets[1..]), None);
        assert_eq!(number(&[]), None);
        octets[953] ^= 1;
        assert_eq!(number(&octets), None);
    }
}
