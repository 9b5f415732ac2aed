//! Threads that talk to browsers, and the queue to whoever drives packets.

use crate::assets;
use crate::command::{Command, Refusal};
use crate::guard::{self, Key};
use crate::http::{Connection, NoRequest, Request, Response};
use crate::{Source, State};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

/// Connections at a time: a browser opens six for a page, and lets them wait.
pub const CONNECTIONS_MAX: usize = 64;
/// Requests on one connection; then the browser opens another.
const REQUESTS_MAX: usize = 10_000;
/// Questions that wait for the driver at most.
const WAITING_MAX: usize = 32;
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

/// What all threads of the server have.
struct Desk {
    key: Key,
    asks: SyncSender<Ask>,
    wake: Box<dyn Fn() + Send + Sync>,
    connections: AtomicUsize,
    closed: AtomicBool,
}

/// A dashboard that is served.
pub struct Dashboard {
    address: SocketAddr,
    desk: Arc<Desk>,
    asked: Receiver<Ask>,
    last: Option<(Instant, Arc<[u8]>)>,
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
        let desk = Arc::new(Desk {
            key,
            asks,
            wake: Box::new(wake),
            connections: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        });
        let address = listener.local_addr()?;
        let here = desk.clone();
        std::thread::Builder::new().name("web".into()).spawn(move || accept(&listener, &here))?;
        Ok(Self { address, desk, asked, last: None })
    }

    /// What a person opens, with the key behind the `#`, where no server and no
    /// referrer gets it.
    pub fn address(&self) -> String {
        let (ip, port) = (self.address.ip(), self.address.port());
        let ip = match ip {
            ip if !ip.is_unspecified() => ip,
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        format!("http://{}/#key={}", SocketAddr::new(ip, port), self.desk.key.text())
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

    fn answer(&mut self, source: &mut dyn Source, ask: Ask) {
        let answer = match ask.question {
            Question::State => Ok(self.state(source)),
            Question::Command(command) => {
                self.last = None;
                source.command(command).map(|()| self.state(source))
            }
        };
        // Nobody waits any more: then it is not needed.
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

impl Drop for Dashboard {
    fn drop(&mut self) {
        self.desk.closed.store(true, Ordering::SeqCst);
        // Ends the thread that waits for connections.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_millis(200));
    }
}

/// Takes connections, as many as there may be.
fn accept(listener: &TcpListener, desk: &Arc<Desk>) {
    for stream in listener.incoming() {
        if desk.closed.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else {
            // Out of files, most likely: that passes.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        let Ok(mut connection) = Connection::new(stream) else { continue };
        if desk.connections.fetch_add(1, Ordering::SeqCst) >= CONNECTIONS_MAX {
            desk.connections.fetch_sub(1, Ordering::SeqCst);
            connection.respond(None, &plain(503, "too many connections\n"));
            continue;
        }
        let here = desk.clone();
        let talk = move || {
            // Counted down also if the thread should panic.
            let _counted = Counted(&here.connections);
            converse(&mut connection, &here);
        };
        if std::thread::Builder::new().name("web".into()).spawn(talk).is_err() {
            desk.connections.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// One connection, to its end.
fn converse(connection: &mut Connection, desk: &Desk) {
    for _ in 0..REQUESTS_MAX {
        if desk.closed.load(Ordering::SeqCst) {
            return;
        }
        let stays = match connection.request() {
            Ok(request) => {
                let (status, kind, body) = reply(&request, desk);
                let response = Response { status, kind, body: &body };
                connection.respond(Some(&request), &response)
            }
            Err(NoRequest::Gone) => return,
            Err(NoRequest::Bad(status, what)) => connection.respond(None, &plain(status, what)),
        };
        if !stays {
            return;
        }
    }
}

fn plain(status: u16, text: &str) -> Response<'_> {
    Response { status, kind: "text/plain; charset=utf-8", body: text.as_bytes() }
}

type Reply = (u16, &'static str, Arc<[u8]>);

/// A refusal as the page reads it.
fn refusal(status: u16, what: &str) -> Reply {
    let body = serde_json::json!({ "refused": what }).to_string();
    (status, JSON, body.into_bytes().into())
}

fn reply(request: &Request, desk: &Desk) -> Reply {
    if let Err((status, what)) = guard::admit(request) {
        return refusal(status, what);
    }
    let read = matches!(request.method.as_str(), "GET" | "HEAD");
    match (request.path.as_str(), read) {
        ("/api/state" | "/api/command", _) => {
            api(request, desk).unwrap_or_else(|(status, what)| refusal(status, what))
        }
        (path, true) => match assets::find(path) {
            Some((kind, body)) => (200, kind, body.as_bytes().into()),
            None => refusal(404, "there is no such page"),
        },
        (_, false) => refusal(405, "pages are read"),
    }
}

fn api(request: &Request, desk: &Desk) -> Result<Reply, guard::Refused> {
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
        Ok(Ok(state)) => Ok((200, JSON, state)),
        Ok(Err(e)) => Ok(refusal(409, &e.0)),
        Err(_) => Err((503, "it does not answer")),
    }
}
