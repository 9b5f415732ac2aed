//! The part of HTTP/1.1 (RFC 9112) that the page needs: a request with bounds,
//! a response with its length.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Octets of a request line and its fields at most.
pub const HEAD_MAX: usize = 8 << 10;
/// Octets of a body at most.
pub const BODY_MAX: usize = 4 << 10;
/// Fields of a request at most.
pub const FIELDS_MAX: usize = 64;
/// How long a request may take to come, from its first octet or the end of the
/// last response.
pub const REQUEST_WAIT: Duration = Duration::from_secs(8);
/// How long a response may take to leave.
const RESPONSE_WAIT: Duration = Duration::from_secs(5);

/// Header lines of every response: nothing from elsewhere is run, shown or sent to, no other page
/// frames this one, nothing is cached.
const POLICY: &str = "Content-Security-Policy: default-src 'none'; script-src 'self'; \
    style-src 'self'; connect-src 'self'; img-src 'self'; manifest-src 'self'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'\r\n\
    X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
    Cross-Origin-Opener-Policy: same-origin\r\nCross-Origin-Resource-Policy: same-origin\r\n\
    Cache-Control: no-store\r\n";

/// A request's head, and later its body.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// `GET`.
    pub method: String,
    /// `/api/state`, without what follows a question mark.
    pub path: String,
    fields: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// HTTP/1.1: the connection stays.
    persistent: bool,
}

/// Reasons for which a connection gave no request.
#[derive(Debug)]
pub enum NoRequest {
    /// The other end closed, or was silent for too long.
    Gone,
    /// The request is refused: status, and a sentence.
    Bad(u16, &'static str),
}

impl From<io::Error> for NoRequest {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

impl Request {
    /// Reads one from a source of octets: no more of them than head and body may have.
    pub fn read(mut octet: impl FnMut() -> Result<u8, NoRequest>) -> Result<Self, NoRequest> {
        let mut head = Vec::new();
        loop {
            head.push(octet()?);
            if head.ends_with(b"\r\n\r\n") {
                break;
            }
            if head == b"\r\n" {
                // An empty line before a request is passed over (RFC 9112 section 2.2).
                head.clear();
            }
            if head.len() == HEAD_MAX {
                return Err(NoRequest::Bad(431, "the request's head is too long"));
            }
        }
        head.truncate(head.len() - 4);
        let mut request = Self::parse(&head)?;
        for _ in 0..request.body_len()? {
            request.body.push(octet()?);
        }
        Ok(request)
    }

    /// Understands a head, up to and without its empty line.
    pub fn parse(head: &[u8]) -> Result<Self, NoRequest> {
        const BAD: NoRequest = NoRequest::Bad(400, "not a request of HTTP/1.1");
        let text = std::str::from_utf8(head).map_err(|_| BAD)?;
        let mut lines = text.split("\r\n");
        let mut words = lines.next().ok_or(BAD)?.split(' ');
        let (method, target) = (words.next().ok_or(BAD)?, words.next().ok_or(BAD)?);
        let version = words.next().ok_or(BAD)?;
        if words.next().is_some() || !target.starts_with('/') || !version.starts_with("HTTP/1.") {
            return Err(BAD);
        }
        let mut fields = Vec::new();
        for line in lines.filter(|l| !l.is_empty()) {
            let (name, value) = line.split_once(':').ok_or(BAD)?;
            // A space before the colon, or a folded line, means different things
            // to different readers (RFC 9112 section 5).
            if name.is_empty() || name.contains([' ', '\t']) || fields.len() == FIELDS_MAX {
                return Err(BAD);
            }
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let path = target.split('?').next().unwrap_or_default().to_owned();
        let mut request = Self {
            method: method.into(),
            path,
            fields,
            body: Vec::new(),
            persistent: version == "HTTP/1.1",
        };
        request.persistent &= request.header("connection").is_none_or(|c| c != "close");
        Ok(request)
    }

    /// The value of a field; nothing if it is there twice.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut all = self.fields.iter().filter(|(n, _)| n == name);
        let (_, value) = all.next()?;
        all.next().is_none().then_some(value)
    }

    /// How long the body is.
    fn body_len(&self) -> Result<usize, NoRequest> {
        let count = |name: &str| self.fields.iter().filter(|(n, _)| n == name).count();
        if count("transfer-encoding") > 0 {
            return Err(NoRequest::Bad(411, "say how long the body is"));
        }
        match (count("content-length"), self.header("content-length")) {
            (0, _) => Ok(0),
            (1, Some(text)) if text.bytes().all(|b| b.is_ascii_digit()) => {
                match text.parse::<usize>() {
                    Ok(len) if len <= BODY_MAX => Ok(len),
                    _ => Err(NoRequest::Bad(413, "the body is too long")),
                }
            }
            _ => Err(NoRequest::Bad(400, "the length of the body is no number")),
        }
    }
}

/// A connection.
pub struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Over a stream that was accepted.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        let _ = stream.set_nodelay(true);
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// The next request, within its bounds of octets and of time.
    pub fn request(&mut self) -> Result<Request, NoRequest> {
        let until = Instant::now() + REQUEST_WAIT;
        Request::read(|| self.octet(until))
    }

    /// One octet, from the buffer nearly always.
    fn octet(&mut self, until: Instant) -> Result<u8, NoRequest> {
        if self.stream.buffer().is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(NoRequest::Gone);
            }
            self.stream.get_ref().set_read_timeout(Some(left))?;
            self.stream.fill_buf()?;
        }
        let mut octet = [0];
        self.stream.read_exact(&mut octet)?;
        Ok(octet[0])
    }

    /// Answers. False: the connection is to be closed.
    pub fn respond(&mut self, request: Option<&Request>, response: &Response) -> bool {
        let keep = request.is_some_and(|r| r.persistent) && response.status < 500;
        let connection = if keep { "keep-alive" } else { "close" };
        let until = Instant::now() + RESPONSE_WAIT;
        let head = format!(
            "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: {connection}\r\n{}{POLICY}\r\n",
            response.status,
            reason(response.status),
            response.kind,
            response.body.len(),
            response.fields(),
        );
        let with_body = request.is_none_or(|r| r.method != "HEAD");
        let body: &[u8] = if with_body { &response.body } else { &[] };
        let parts = [head.as_bytes(), body];
        parts.iter().try_for_each(|part| self.send(part, until)).is_ok() && keep
    }

    /// Sends all octets before the deadline, however slowly the client reads.
    fn send(&mut self, mut octets: &[u8], until: Instant) -> io::Result<()> {
        while !octets.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let stream = self.stream.get_mut();
            stream.set_write_timeout(Some(left))?;
            match stream.write(octets) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => octets = &octets[count..],
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// A response.
pub struct Response {
    /// Its status.
    pub status: u16,
    /// Its media type.
    pub kind: &'static str,
    /// Its body.
    pub body: Body,
}

/// Octets that many connections may be sent, without a copy for each.
#[derive(Clone)]
pub enum Body {
    /// A part of the program.
    Fixed(&'static [u8]),
    /// Made while it runs.
    Made(Arc<[u8]>),
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Fixed(octets) => octets,
            Self::Made(octets) => octets,
        }
    }
}

impl Response {
    /// A sentence.
    pub fn text(status: u16, text: &'static str) -> Self {
        let body = Body::Fixed(text.as_bytes());
        Self { status, kind: "text/plain; charset=utf-8", body }
    }

    /// Fields that belong to a status.
    fn fields(&self) -> &'static str {
        match self.status {
            401 => "WWW-Authenticate: Bearer\r\n",
            405 => "Allow: GET, HEAD, POST\r\n",
            503 => "Retry-After: 1\r\n",
            _ => "",
        }
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        411 => "Length Required",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        _ => "Service Unavailable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashboard_http_understands_a_request_and_refuses_what_is_doubtful() {
        let head = b"POST /api/command?x=1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 12";
        let request = Request::parse(head).unwrap();
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/api/command"));
        assert_eq!((request.header("host"), request.body_len().unwrap()), (Some("localhost"), 12));
        assert!(request.persistent);
        for bad in [
            "GET",
            "GET / HTTP/2",
            "GET http://x/ HTTP/1.1",
            "GET / HTTP/1.1 x",
            "GET / HTTP/1.1\r\nname",
            "GET / HTTP/1.1\r\nname : v",
            "GET / HTTP/1.1\r\na: b\r\n folded",
            "",
        ] {
            assert!(Request::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(Request::parse(&[0xff, 0xfe]).is_err());
        let many = "GET / HTTP/1.1".to_owned() + &"\r\na: b".repeat(FIELDS_MAX + 1);
        assert!(Request::parse(many.as_bytes()).is_err());
    }

    #[test]
    fn dashboard_http_bodies_have_one_length_within_the_bound() {
        let status = |fields: &str| {
            let head = format!("POST / HTTP/1.1\r\n{fields}");
            match Request::parse(head.as_bytes()).unwrap().body_len() {
                Err(NoRequest::Bad(status, _)) => status,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(status("Content-Length: 4097"), 413);
        assert_eq!(status("Content-Length: 99999999999999999999999"), 413);
        assert_eq!(status("Content-Length: +1"), 400);
        assert_eq!(status("Content-Length: 1\r\nContent-Length: 2"), 400);
        assert_eq!(status("Transfer-Encoding: chunked\r\nContent-Length: 1"), 411);
    }
}
