//! Sending an http request node's request: connections that are used again, redirections, digest
//! authentication.

use super::client_headers::Headers;
use super::client_response::{self, Answer};
use super::client_wire::{Bent, ClientWire, Spelling};
use super::cookie_jar::Jar;
use super::digest;
use super::http_proxy::Gate;
use crate::nodes::network::connect;
use crate::nodes::network::tls::Trust;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, HOST, HeaderValue, LOCATION, SET_COOKIE, TRANSFER_ENCODING,
    USER_AGENT, WWW_AUTHENTICATE,
};
use hyper::http::response::Parts;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;
use url::Url;
use value::Failure;

/// Redirections that are followed (Node-RED's `maxRedirects`).
const MAX_REDIRECTS: usize = 21;

/// The idle time-out of a connection. A second less than that of Node.js' servers.
const IDLE: Duration = Duration::from_secs(4);

/// A request and all that its way may need.
pub(super) struct Plan {
    pub(super) method: String,
    pub(super) url: Url,
    pub(super) headers: Headers,
    pub(super) body: Option<Bytes>,
    pub(super) jar: Jar,
    pub(super) digest: Option<digest::Credentials>,
    /// True if redirections are followed.
    pub(super) follow: bool,
    pub(super) limit: Duration,
    pub(super) gate: Option<Gate>,
    pub(super) lenient: bool,
    pub(super) trust: Trust,
    pub(super) pool: Rc<Pool>,
}

/// Idle connections, kept for further requests.
#[derive(Default)]
pub(super) struct Pool {
    idle: RefCell<HashMap<Key, Vec<(u64, Line)>>>,
    count: Cell<u64>,
}

/// The properties that interchangeable connections have in common.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    secure: bool,
    host: String,
    port: u16,
    gate: Option<Gate>,
    /// The TLS settings, identified by their memory address; they live as long as the node that
    /// owns the connection.
    trust: usize,
}

/// One connection.
struct Line {
    sender: SendRequest<Full<Bytes>>,
    spelling: Rc<RefCell<Spelling>>,
    /// Keeps the TLS alive by whose address the connection is known.
    _trust: Trust,
}

impl Pool {
    fn take(&self, key: &Key) -> Option<Line> {
        let mut idle = self.idle.borrow_mut();
        let lines = idle.get_mut(key)?;
        while let Some((_, line)) = lines.pop() {
            if line.sender.is_ready() {
                return Some(line);
            }
        }
        None
    }

    fn keep(self: &Rc<Self>, key: Key, line: Line) {
        if line.sender.is_closed() {
            return;
        }
        let number = self.count.get();
        self.count.set(number + 1);
        let mut idle = self.idle.borrow_mut();
        idle.entry(key.clone()).or_default().push((number, line));
        let pool = Rc::downgrade(self);
        tokio::task::spawn_local(async move {
            tokio::time::sleep(IDLE).await;
            let Some(pool) = pool.upgrade() else { return };
            let mut idle = pool.idle.borrow_mut();
            if let Some(lines) = idle.get_mut(&key) {
                lines.retain(|(n, _)| *n != number);
                if lines.is_empty() {
                    idle.remove(&key);
                }
            }
        });
    }
}

impl Plan {
    /// Sends the request and gives the last answer.
    pub(super) async fn carry_out(self) -> Result<Answer, Failure> {
        let limit = self.limit;
        let result = tokio::time::timeout(limit, self.exchange()).await;
        result.unwrap_or_else(|_| {
            Err(Failure {
                name: "TimeoutError".into(),
                code: "ETIMEDOUT".into(),
                ..Failure::text(format!(
                    "Timeout awaiting 'request' for {}ms",
                    limit.as_millis()
                ))
            })
        })
    }

    async fn exchange(mut self) -> Result<Answer, Failure> {
        let mut redirects = Vec::new();
        let mut warning = None;
        loop {
            let (response, line, key) = self.send().await.map_err(request_error)?;
            let (head, body) = response.into_parts();
            for field in head.headers.get_all(SET_COOKIE) {
                self.jar.set(&self.url, &client_response::text(field));
            }
            let body = body.collect().await.map_err(read_error)?.to_bytes();
            self.pool.keep(key, line);
            match self.challenged(&head) {
                Some(Ok(authorization)) => {
                    self.headers.put("Authorization", authorization.into());
                    continue;
                }
                Some(Err(failure)) => {
                    warning = Some(format!("Digest authentication failed: {}", failure.message));
                }
                None => {}
            }
            let location = head.headers.get(LOCATION).map(client_response::text);
            let Some(location) = location.filter(|_| self.follow && is_redirect(&head)) else {
                return Ok(Answer {
                    status: head.status.as_u16(),
                    headers: head.headers,
                    body,
                    url: self.url.to_string(),
                    redirects,
                    warning,
                });
            };
            if redirects.len() >= MAX_REDIRECTS {
                return Err(Failure {
                    name: "MaxRedirectsError".into(),
                    code: "ERR_TOO_MANY_REDIRECTS".into(),
                    ..Failure::text(format!("Redirected {MAX_REDIRECTS} times. Aborting."))
                });
            }
            redirects.push(client_response::redirect(&location, &head.headers));
            self.turn(&location, head.status.as_u16())?;
        }
    }

    /// The `Authorization` that a server's challenge asks for; each request answers one.
    fn challenged(&mut self, head: &Parts) -> Option<Result<String, Failure>> {
        if head.status.as_u16() != 401 {
            return None;
        }
        let credentials = self.digest.take()?;
        let challenge = head
            .headers
            .get(WWW_AUTHENTICATE)
            .map(client_response::text)?;
        let path = &self.url[url::Position::BeforePath..url::Position::AfterQuery];
        Some(digest::answer(&credentials, &self.method, path, &challenge))
    }

    /// Follows a redirect. Header fields for one server only are not sent to another.
    fn turn(&mut self, location: &str, status: u16) -> Result<(), Failure> {
        let next = self.url.join(location).map_err(|_| Failure {
            name: "RequestError".into(),
            code: "ERR_INVALID_URL".into(),
            ..Failure::text("Invalid URL")
        })?;
        if !matches!(next.scheme(), "http" | "https") {
            return Err(Failure {
                name: "RequestError".into(),
                code: "ERR_UNSUPPORTED_PROTOCOL".into(),
                ..Failure::text(format!("Unsupported protocol: {}:", next.scheme()))
            });
        }
        if status == 303 && self.method != "HEAD" {
            self.method = "GET".into();
            self.body = None;
            self.headers.remove("content-length");
            self.headers.remove("content-type");
        }
        if next.origin() != self.url.origin() {
            for name in ["host", "cookie", "authorization"] {
                self.headers.remove(name);
            }
        }
        self.url = next;
        Ok(())
    }

    /// Sends the request once, over a kept connection if there is one.
    async fn send(&self) -> Result<(Response<Incoming>, Line, Key), Failure> {
        let key = Key {
            secure: self.url.scheme() == "https",
            host: self.url.host_str().unwrap_or_default().to_owned(),
            port: self.url.port_or_known_default().unwrap_or(80),
            gate: self.gate.clone(),
            trust: std::ptr::from_ref(self.trust.tls()) as usize,
        };
        let mut request = self.request()?;
        while let Some(mut line) = self.pool.take(&key) {
            self.spell(&line);
            match line.sender.try_send_request(request).await {
                Ok(response) => return Ok((response, line, key)),
                Err(mut error) => match error.take_message() {
                    // The server had closed it in the meantime; nothing was sent.
                    Some(unsent) => request = unsent,
                    None => return Err(hyper_failure(error.error())),
                },
            }
        }
        let mut line = self.open(&key).await?;
        self.spell(&line);
        match line.sender.send_request(request).await {
            Ok(response) => Ok((response, line, key)),
            Err(error) => Err(hyper_failure(&error)),
        }
    }

    fn spell(&self, line: &Line) {
        // The library that Node-RED uses writes this one itself where Node.js would not.
        let length = if self.method == "GET" {
            "content-length"
        } else {
            "Content-Length"
        };
        let own = ["Host", "Connection", length];
        let names = own.into_iter().chain(self.headers.names());
        line.spelling.borrow_mut().begin(names, self.lenient);
    }

    fn request(&self) -> Result<Request<Full<Bytes>>, Failure> {
        let mut headers = self.headers.map()?;
        // The library counts and frames the body itself.
        headers.remove(CONTENT_LENGTH);
        headers.remove(TRANSFER_ENCODING);
        headers
            .entry(USER_AGENT)
            .or_insert(HeaderValue::from_static("flowgate"));
        if let Some(value) = self
            .jar
            .field(&self.url)
            .and_then(|field| HeaderValue::from_str(&field).ok())
        {
            headers.insert(COOKIE, value);
        }
        let host = &self.url[url::Position::BeforeHost..url::Position::AfterPort];
        if let Ok(host) = HeaderValue::from_str(host) {
            headers.entry(HOST).or_insert(host);
        }
        // An empty body has length 0; so has a missing one with methods that have a body (RFC 9110
        // §8.6).
        let counted = match &self.body {
            Some(body) => body.is_empty() && self.method != "GET",
            None => matches!(self.method.as_str(), "POST" | "PUT" | "PATCH"),
        };
        if counted {
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        headers
            .entry(CONNECTION)
            .or_insert(HeaderValue::from_static("keep-alive"));
        let method = Method::from_bytes(self.method.as_bytes())
            .map_err(|_| Failure::error(format!("Invalid HTTP method: {}", self.method)))?;
        let target = &self.url[url::Position::BeforePath..url::Position::AfterQuery];
        let target = target.strip_suffix('?').unwrap_or(target);
        let mut request = Request::new(Full::new(self.body.clone().unwrap_or_default()));
        *request.method_mut() = method;
        *request.uri_mut() = target.parse().map_err(|_| Failure::error("Invalid URL"))?;
        *request.headers_mut() = headers;
        Ok(request)
    }

    async fn open(&self, key: &Key) -> Result<Line, Failure> {
        let tls = key.secure.then(|| self.trust.tls());
        let stream = connect::open(self.gate.as_ref(), &key.host, key.port, tls).await?;
        let spelling = Rc::new(RefCell::new(Spelling::default()));
        let wire = ClientWire::new(stream, Rc::clone(&spelling));
        let handshake = http1::handshake(TokioIo::new(wire)).await;
        let (sender, connection) = handshake.map_err(|e| hyper_failure(&e))?;
        tokio::task::spawn_local(async move {
            // The caller that awaits the response gets the error. The task ends when the sender is
            // dropped.
            let _ = connection.await;
        });
        Ok(Line {
            sender,
            spelling,
            _trust: self.trust.clone(),
        })
    }
}

fn is_redirect(head: &Parts) -> bool {
    matches!(head.status.as_u16(), 300..=304 | 307 | 308)
}

/// As `got`, the library of Node-RED, names what went wrong.
fn request_error(failure: Failure) -> Failure {
    let code = if failure.code.is_empty() {
        "ERR_GOT_REQUEST_ERROR".into()
    } else {
        failure.code
    };
    Failure {
        name: "RequestError".into(),
        code,
        ..failure
    }
}

#[allow(clippy::needless_pass_by_value, reason = "the shape of map_err")]
fn read_error(_error: hyper::Error) -> Failure {
    Failure {
        name: "ReadError".into(),
        code: "ECONNRESET".into(),
        ..Failure::text("The server aborted pending request")
    }
}

fn hyper_failure(error: &hyper::Error) -> Failure {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<std::io::Error>() {
            if let Some(bent) = io.get_ref().and_then(|e| e.downcast_ref::<Bent>()) {
                return Failure {
                    code: bent.code.into(),
                    ..Failure::error(bent.to_string())
                };
            }
            return connect::failure(io, "read");
        }
        source = inner.source();
    }
    if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        return Failure {
            code: "ECONNRESET".into(),
            ..Failure::error("socket hang up")
        };
    }
    if error.is_parse() {
        return Failure {
            code: "HPE_INVALID_CONSTANT".into(),
            ..Failure::error("Parse Error: Expected HTTP/, RTSP/ or ICE/")
        };
    }
    Failure::error(error.to_string())
}
