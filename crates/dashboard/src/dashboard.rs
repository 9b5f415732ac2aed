//! Requests of the page, and the queue that carries them to the thread that drives packets.

use crate::assets;
use crate::command::{Command, Refusal};
use crate::guard::{self, Key};
use crate::http::{Body, Request, Response};
use crate::server::{CONNECTIONS_MAX, Server};
use crate::{Source, State};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

/// Questions that wait for the driver at most: each connection asks one at a time, so none is
/// refused while the driver answers.
const WAITING_MAX: usize = CONNECTIONS_MAX;
/// How long the driver may take to answer.
const ANSWER_WAIT: Duration = Duration::from_secs(3);
/// A state that is not older than this is given again: many pages cost the
/// driver no more than one.
const FRESH: Duration = Duration::from_millis(50);

const JSON: &str = "application/json";

enum Question {
    State,
    Command(Command),
}

type Answer = Result<Arc<[u8]>, Refusal>;

struct Ask {
    question: Question,
    answer: SyncSender<Answer>,
}

/// State that all connections share.
struct Desk {
    key: Key,
    asks: SyncSender<Ask>,
    wake: Box<dyn Fn() + Send + Sync>,
}

/// A dashboard that is served.
pub struct Dashboard {
    server: Server,
    key: Key,
    asked: Receiver<Ask>,
    last: Option<(Instant, Arc<[u8]>)>,
    /// Pages that wait for a state which is made elsewhere.
    waiting: Vec<SyncSender<Answer>>,
}

impl Dashboard {
    /// Serves on a listener from threads of its own. `wake` is called when there
    /// is something to answer in [`turn`](Self::turn).
    pub fn serve(
        listener: TcpListener,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let key = Key::fresh().map_err(io::Error::other)?;
        let (asks, asked) = sync_channel(WAITING_MAX);
        let desk = Desk { key: key.clone(), asks, wake: Box::new(wake) };
        let server = Server::start("web", listener, move |request| reply(request, &desk))?;
        Ok(Self { server, key, asked, last: None, waiting: Vec::new() })
    }

    /// Address to open, with the key behind the `#`, where no server and no referrer gets it.
    pub fn address(&self) -> String {
        let (ip, port) = (self.server.address().ip(), self.server.address().port());
        let ip = match ip {
            ip if !ip.is_unspecified() => ip,
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        format!("http://{}/#key={}", SocketAddr::new(ip, port), self.key.text())
    }

    /// Answers what was asked since the last turn, all of it. Returns how much
    /// that was.
    pub fn turn(&mut self, source: &mut dyn Source) -> usize {
        let mut answered = 0;
        while let Ok(ask) = self.asked.try_recv() {
            self.answer(source, ask);
            answered += 1;
        }
        answered
    }

    /// As [`turn`](Self::turn), but waits for a question first, for so long at most.
    pub fn turn_within(&mut self, source: &mut dyn Source, wait: Duration) -> usize {
        match self.asked.recv_timeout(wait) {
            Ok(ask) => {
                self.answer(source, ask);
                1 + self.turn(source)
            }
            Err(_) => 0,
        }
    }

    /// Takes what was asked since the last turn, where states are made elsewhere. True if a page
    /// waits for one: [`show`](Self::show).
    pub fn hear(&mut self, command: impl Fn(Command) -> Result<(), Refusal>) -> bool {
        while let Ok(Ask { question, answer }) = self.asked.try_recv() {
            let fresh = self.last.as_ref().filter(|(at, _)| at.elapsed() < FRESH);
            // A page that is gone needs no answer.
            match question {
                Question::Command(asked) => match command(asked) {
                    Ok(()) => self.keep_waiting(answer),
                    Err(refusal) => _ = answer.try_send(Err(refusal)),
                },
                Question::State => match fresh {
                    Some((_, state)) => _ = answer.try_send(Ok(state.clone())),
                    None => self.keep_waiting(answer),
                },
            }
        }
        !self.waiting.is_empty()
    }

    /// Of more pages than there are connections the first has given up.
    fn keep_waiting(&mut self, page: SyncSender<Answer>) {
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.remove(0);
        }
        self.waiting.push(page);
    }

    /// Gives a state, as JSON, to the pages that wait.
    pub fn show(&mut self, state: Arc<[u8]>) {
        for page in self.waiting.drain(..) {
            let _ = page.try_send(Ok(state.clone()));
        }
        self.last = Some((Instant::now(), state));
    }

    fn answer(&mut self, source: &mut dyn Source, ask: Ask) {
        let answer = match ask.question {
            Question::State => Ok(self.state(source)),
            Question::Command(command) => {
                self.last = None;
                source.command(command).map(|()| self.state(source))
            }
        };
        // If the client no longer waits, the answer is not needed.
        let _ = ask.answer.try_send(answer);
    }

    fn state(&mut self, source: &mut dyn Source) -> Arc<[u8]> {
        match &self.last {
            Some((at, state)) if at.elapsed() < FRESH => state.clone(),
            _ => {
                let state: State = source.state();
                let text = serde_json::to_vec(&state).unwrap_or_default();
                let text: Arc<[u8]> = text.into();
                self.last = Some((Instant::now(), text.clone()));
                text
            }
        }
    }
}

/// A refusal as the page reads it.
fn refusal(status: u16, what: &str) -> Response {
    let body = serde_json::json!({ "refused": what }).to_string();
    Response { status, kind: JSON, body: Body::Made(body.into_bytes().into()) }
}

fn reply(request: &Request, desk: &Desk) -> Response {
    if let Err((status, what)) = guard::admit(request) {
        return refusal(status, what);
    }
    let read = matches!(request.method.as_str(), "GET" | "HEAD");
    match (request.path.as_str(), read) {
        ("/api/state" | "/api/command", _) => {
            api(request, desk).unwrap_or_else(|(status, what)| refusal(status, what))
        }
        (path, true) => match assets::find(path) {
            Some((kind, text)) => {
                Response { status: 200, kind, body: Body::Fixed(text.as_bytes()) }
            }
            None => refusal(404, "there is no such page"),
        },
        (_, false) => refusal(405, "pages are read"),
    }
}

fn api(request: &Request, desk: &Desk) -> Result<Response, guard::Refused> {
    guard::authorize(request, &desk.key)?;
    let question = match (request.path.as_str(), request.method.as_str()) {
        ("/api/state", "GET") => Question::State,
        ("/api/command", "POST") => {
            guard::is_json(request)?;
            match Command::parse(&request.body) {
                Ok(command) => Question::Command(command),
                Err(e) => return Ok(refusal(400, &e.0)),
            }
        }
        _ => return Err((405, "GET the state, POST a command")),
    };
    let (answer, answers) = sync_channel(1);
    match desk.asks.try_send(Ask { question, answer }) {
        Ok(()) => (desk.wake)(),
        Err(TrySendError::Full(_)) => return Err((503, "too many questions at once")),
        Err(TrySendError::Disconnected(_)) => return Err((503, "it has ended")),
    }
    match answers.recv_timeout(ANSWER_WAIT) {
        Ok(Ok(state)) => Ok(Response { status: 200, kind: JSON, body: Body::Made(state) }),
        Ok(Err(e)) => Ok(refusal(409, &e.0)),
        Err(_) => Err((503, "it does not answer")),
    }
}
