//! A client of Telnet (RFC 854) that gives commands to a shell: it refuses every option
//! and takes text as it comes.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Telnet's own octets (RFC 854).
const IAC: u8 = 255;
const DONT: u8 = 254;
const DO: u8 = 253;
const WONT: u8 = 252;
const WILL: u8 = 251;
const SB: u8 = 250;
const SE: u8 = 240;
/// Nothing is silent for so long.
const SILENCE: Duration = Duration::from_secs(20);
/// Prompt of a shell that waits for input.
const PROMPT: &[u8] = b"$ ";
/// Comes back once the shell has done what was asked.
const END: &[u8] = b"\x1cend\n";
/// Limit on the text received: more than any transfer has.
const TEXT_MAX: usize = 64 << 20;

/// Where in a sequence the next octet stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    Command,
    Option(u8),
    Parameters,
    ParametersEnd,
}

/// Parser of the received stream: separates text from option negotiation, and holds the answers
/// due.
#[derive(Debug, Default)]
struct Parser {
    state: State,
    text: Vec<u8>,
    answers: Vec<u8>,
}

impl Parser {
    /// Options are refused, once each way, and ends of lines are those of Unix: a CR that
    /// is apart from its LF has a NUL behind it (RFC 854).
    fn take(&mut self, octets: &[u8]) {
        for &octet in octets {
            self.state = match (self.state, octet) {
                (State::Text, IAC) => State::Command,
                (State::Text, b'\r' | 0) => State::Text,
                (State::Text, _) | (State::Command, IAC) => {
                    self.text.push(octet);
                    State::Text
                }
                (State::Command, WILL | WONT | DO | DONT) => State::Option(octet),
                (State::Command, SB) => State::Parameters,
                (State::Command, _) => State::Text,
                (State::Option(word), option) => {
                    match word {
                        WILL => self.answers.extend([IAC, DONT, option]),
                        DO => self.answers.extend([IAC, WONT, option]),
                        _ => {}
                    }
                    State::Text
                }
                (State::Parameters, IAC) => State::ParametersEnd,
                (State::ParametersEnd, SE) => State::Text,
                (State::Parameters | State::ParametersEnd, _) => State::Parameters,
            };
        }
    }
}

/// A session with a shell that neither prompts nor echoes.
pub struct Telnet {
    stream: TcpStream,
    parser: Parser,
    buffer: Vec<u8>,
}

impl Telnet {
    /// Connects, and waits for the shell.
    pub fn open(server: Ipv4Addr, port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&SocketAddr::from((server, port)), SILENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE))?;
        let mut telnet = Self { stream, parser: Parser::default(), buffer: vec![0; 1 << 16] };
        telnet.until(|text| text.ends_with(PROMPT))?;
        // The shell's `printf` makes what ends the answer, so that no echo looks like it.
        telnet.say("stty -echo; PS1=; printf '\\034end\\n'")?;
        telnet.until(|text| text.ends_with(END))?;
        telnet.parser.text.clear();
        Ok(telnet)
    }

    /// Has the shell show a file of so many octets: how long until the last one is here,
    /// and the text.
    pub fn show(&mut self, path: &str, octets: usize) -> io::Result<(Duration, Vec<u8>)> {
        let begun = Instant::now();
        self.say(&format!("cat {path}; printf '\\034end\\n'"))?;
        self.until(|text| text.len() >= octets)?;
        let time = begun.elapsed();
        self.until(|text| text.ends_with(END))?;
        let mut text = std::mem::take(&mut self.parser.text);
        text.truncate(text.len() - END.len());
        Ok((time, text))
    }

    fn say(&mut self, line: &str) -> io::Result<()> {
        self.stream.write_all(format!("{line}\r\n").as_bytes())
    }

    fn until(&mut self, is_enough: impl Fn(&[u8]) -> bool) -> io::Result<()> {
        while !is_enough(&self.parser.text) {
            let count = self.stream.read(&mut self.buffer)?;
            if count == 0 || self.parser.text.len() > TEXT_MAX {
                let said = String::from_utf8_lossy(&self.parser.text).into_owned();
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, said));
            }
            self.parser.take(&self.buffer[..count]);
            if !self.parser.answers.is_empty() {
                let answers = std::mem::take(&mut self.parser.answers);
                self.stream.write_all(&answers)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn telnet_refuses_options_and_keeps_text_wherever_it_is_cut() {
        let came = [
            &[IAC, DO, 24, IAC, WILL, 1, IAC, WONT, 3][..],
            b"a\r\0\r\nb",
            &[IAC, IAC, IAC, SB, 24, 1, IAC, IAC, IAC, SE, IAC, 241],
            b"c",
        ]
        .concat();
        for cut in 0..=came.len() {
            let mut parser = Parser::default();
            parser.take(&came[..cut]);
            parser.take(&came[cut..]);
            assert_eq!(parser.text, b"a\nb\xffc", "cut at {cut}");
            assert_eq!(parser.answers, [IAC, WONT, 24, IAC, DONT, 1]);
            assert_eq!(parser.state, State::Text);
        }
    }
}
