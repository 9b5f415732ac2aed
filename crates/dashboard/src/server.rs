//! Connections of HTTP within bounds, each with a thread.
//!
//! ```text
//!   accept ─ a place is free? ──────────────▶ thread: request ─ handler ─ response ─┐
//!              └ no: who is silent, or reads, longest goes ▲               └─────────┘
//! ```
//!
//! So clients that say nothing or read nothing, however many, keep nobody out, and
//! cost what [`CONNECTIONS_MAX`] of them cost.

use crate::http::{Connection, NoRequest, Request, Response};
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Connections at a time: a browser opens six for a page, and lets them wait.
pub const CONNECTIONS_MAX: usize = 64;
/// Requests on one connection; then the client opens another.
const REQUESTS_MAX: usize = 10_000;
/// How long a new connection waits for the place of another, while all are being answered.
const PLACE_WAIT: Duration = Duration::from_secs(1);
/// How often it looks for one that may go.
const PLACE_LOOK: Duration = Duration::from_millis(10);
/// How long a client may be silent, however many others want its place.
const ASK_TIME: Duration = Duration::from_millis(20);
/// How long a client may take to read a response, however many others want its place.
const READ_TIME: Duration = Duration::from_millis(100);

type Handler = dyn Fn(&Request) -> Response + Send + Sync;

/// A server on a listener.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    handler: Box<Handler>,
    places: Mutex<Vec<Place>>,
    /// Signalled when a connection ends.
    left: Condvar,
    closed: AtomicBool,
}

/// A connection from the outside.
struct Place {
    id: u64,
    stream: TcpStream,
    state: State,
    since: Instant,
    /// True once the connection was told to close.
    leaves: bool,
}

impl Place {
    /// True if no answer is being made for it: the client is silent, or reads slowly.
    fn may_go(&self) -> bool {
        match self.state {
            State::Silent => self.since.elapsed() > ASK_TIME,
            State::Sending => self.since.elapsed() > READ_TIME,
            State::Asked => false,
        }
    }
}

/// State of a connection, in the order in which connections are closed when there are too many.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    /// No request is there.
    Silent,
    /// The response leaves, as fast as it is read.
    Sending,
    /// The answer is being found.
    Asked,
}

impl Server {
    /// Serves from threads of its own, which have this name.
    pub fn start(
        name: &'static str,
        listener: TcpListener,
        handler: impl Fn(&Request) -> Response + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            handler: Box::new(handler),
            places: Mutex::default(),
            left: Condvar::new(),
            closed: AtomicBool::new(false),
        });
        let here = shared.clone();
        let accept = move || accept(name, &listener, &here);
        std::thread::Builder::new().name(name.into()).spawn(accept)?;
        Ok(Self { address, shared })
    }

    /// Address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        // Ends the thread that waits for connections.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_millis(200));
    }
}

fn accept(name: &str, listener: &TcpListener, shared: &Arc<Shared>) {
    let mut id = 0;
    for stream in listener.incoming() {
        if shared.closed.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else {
            // Out of files, most likely: that passes.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        let Ok(outside) = stream.try_clone() else { continue };
        let Ok(mut connection) = Connection::new(stream) else { continue };
        id += 1;
        if !shared.admit(id, outside) {
            connection.respond(None, &Response::text(503, "too many connections\n"));
            continue;
        }
        // The place is free again also if the thread panics, or does not start.
        let place = Taken { id, shared: shared.clone() };
        let talk = move || converse(&mut connection, &place);
        let _ = std::thread::Builder::new().name(name.into()).spawn(talk);
    }
}

impl Shared {
    fn places(&self) -> MutexGuard<'_, Vec<Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place; where all are taken, that of the connection which is silent
    /// longest, or reads longest, now or once an answer was found. False if nobody leaves.
    fn admit(&self, id: u64, stream: TcpStream) -> bool {
        let (mut places, end) = (self.places(), Instant::now() + PLACE_WAIT);
        while places.len() >= CONNECTIONS_MAX {
            if !places.iter().any(|p| p.leaves) {
                let there = places.iter_mut().filter(|p| p.may_go());
                if let Some(longest) = there.min_by_key(|p| (p.state, p.since)) {
                    longest.leaves = true;
                    let _ = longest.stream.shutdown(Shutdown::Both);
                }
            }
            let wait = end.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                return false;
            }
            let waited = self.left.wait_timeout(places, wait.min(PLACE_LOOK));
            places = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let (state, since) = (State::Silent, Instant::now());
        places.push(Place { id, stream, state, since, leaves: false });
        true
    }

    fn enter(&self, id: u64, state: State) {
        if let Some(place) = self.places().iter_mut().find(|p| p.id == id) {
            (place.state, place.since) = (state, Instant::now());
        }
    }
}

/// A place that a thread has.
struct Taken {
    id: u64,
    shared: Arc<Shared>,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.shared.places().retain(|p| p.id != self.id);
        self.shared.left.notify_all();
    }
}

/// One connection, to its end.
fn converse(connection: &mut Connection, place: &Taken) {
    let shared = &place.shared;
    for _ in 0..REQUESTS_MAX {
        if shared.closed.load(Ordering::SeqCst) {
            return;
        }
        shared.enter(place.id, State::Silent);
        let stays = match connection.request() {
            Ok(request) => {
                shared.enter(place.id, State::Asked);
                let response = (shared.handler)(&request);
                shared.enter(place.id, State::Sending);
                connection.respond(Some(&request), &response)
            }
            Err(NoRequest::Gone) => return,
            Err(NoRequest::Bad(status, what)) => {
                connection.respond(None, &Response::text(status, what))
            }
        };
        if !stays {
            return;
        }
    }
}
