//! Dialogues of the programs: the protocols' round trips, with lines of the usual length.
//!
//! ```text
//!   FTP     (logged in)  PORT ─ 200 ─ RETR ─ data connection ─ 150 ─ data ─ end ─ 226
//!   SMTP    connection ─ 220 ─ HELO ─ MAIL ─ RCPT ─ DATA ─ 354 ─ message ─ 250 ─ QUIT ─ 221
//!   Telnet  (logged in)  each key and its echo ─ return ─ output, prompt
//! ```
//!
//! Times begin with the first octet, or connection, of the part that is not in brackets.

use super::cases::Application;
use ferrule_lab::host::dialogue::{Line, Party, Script};

use Line::{Close, Open, Say};
use Party::{Client, Server};

/// Control connection, and the data's.
const CONTROL: usize = 0;
const DATA: usize = 1;
/// Octets of a message's head.
const HEAD: u64 = 200;
/// Keys of a command that shows a file.
const KEYS: usize = 8;
/// Octets of a prompt.
const PROMPT: u64 = 12;

/// A request and its answer on the control connection.
fn asked(lines: &mut Vec<Line>, request: u64, answer: u64) {
    lines.extend([Say(CONTROL, Client, request), Say(CONTROL, Server, answer)]);
}

/// A transfer of so many octets.
pub fn script(application: Application, octets: u64) -> Script {
    match application {
        Application::Ftp => ftp(octets),
        Application::Smtp => smtp(octets),
        Application::Telnet => telnet(octets),
    }
}

/// RFC 959: the server opens the data connection, from PORT's address.
fn ftp(octets: u64) -> Script {
    let mut lines = vec![Open(CONTROL, Client), Say(CONTROL, Server, 42)];
    // USER, PASS, TYPE.
    for (request, answer) in [(15, 36), (18, 30), (8, 20)] {
        asked(&mut lines, request, answer);
    }
    let begin = lines.len();
    asked(&mut lines, 24, 30);
    lines.push(Say(CONTROL, Client, 16));
    lines.push(Open(DATA, Server));
    lines.push(Say(CONTROL, Server, 64));
    lines.extend([Say(DATA, Server, octets), Close(DATA, Server), Say(CONTROL, Server, 24)]);
    let timed = begin..lines.len();
    asked(&mut lines, 6, 14);
    lines.push(Close(CONTROL, Server));
    Script { lines, timed }
}

/// RFC 5321: the client sends the message.
fn smtp(octets: u64) -> Script {
    let mut lines = vec![Open(CONTROL, Client), Say(CONTROL, Server, 52)];
    // HELO, MAIL, RCPT, DATA.
    for (request, answer) in [(18, 38), (30, 14), (28, 14), (6, 46)] {
        asked(&mut lines, request, answer);
    }
    // The message ends with a line that has a dot alone.
    asked(&mut lines, HEAD + octets + 5, 36);
    asked(&mut lines, 6, 28);
    let timed = 0..lines.len();
    lines.push(Close(CONTROL, Server));
    Script { lines, timed }
}

/// RFC 854, with the server's echo (RFC 857): each key goes there and back.
fn telnet(octets: u64) -> Script {
    let mut lines = vec![Open(CONTROL, Client), Say(CONTROL, Server, PROMPT)];
    let begin = lines.len();
    for _ in 0..KEYS {
        asked(&mut lines, 1, 1);
    }
    asked(&mut lines, 2, 2);
    lines.extend([Say(CONTROL, Server, octets), Say(CONTROL, Server, PROMPT)]);
    let timed = begin..lines.len();
    lines.push(Close(CONTROL, Client));
    Script { lines, timed }
}
