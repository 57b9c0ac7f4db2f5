//! Writes requests to an upstream; no other code does. Each is framed here, by the body that is sent with it: the
//! framing fields of a head do not count.

use super::request_body::Outgoing;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::SendRequest;
use hyper::header::{CONTENT_LENGTH, EXPECT, HeaderValue, TRAILER, TRANSFER_ENCODING};
use hyper::{Method, Request, Response};
use std::pin::Pin;
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep, timeout};

/// The time-out for a kept connection to become free. Its last response has ended; it is not free while the upstream
/// has not read the whole request. Our choice: a new connection costs less.
const READY_TIMEOUT: Duration = Duration::from_millis(100);

/// Sends requests over one connection.
pub(super) struct Sender {
    connection: SendRequest<Outgoing>,
    /// For one response after the other: to postpone a timer costs far less than to make one for each.
    timer: Pin<Box<Sleep>>,
}

impl Sender {
    pub(super) fn new(connection: SendRequest<Outgoing>) -> Self {
        Self {
            connection,
            timer: Box::pin(sleep(READY_TIMEOUT)),
        }
    }

    /// The timer, set to this time.
    pub(super) fn timer(&mut self, deadline: Instant) -> Pin<&mut Sleep> {
        self.timer.as_mut().reset(deadline);
        self.timer.as_mut()
    }

    /// Sends a request; with an error it is given back if nothing of it has left.
    pub(super) fn send(
        &mut self,
        mut request: Request<Outgoing>,
    ) -> impl Future<Output = Result<Response<Incoming>, TrySendError<Request<Outgoing>>>> + use<>
    {
        frame(&mut request);
        self.connection.try_send_request(request)
    }

    /// Whether the connection takes no more requests.
    pub(super) fn is_closed(&self) -> bool {
        self.connection.is_closed()
    }

    /// Waits until the connection takes a request; false: it does not.
    pub(super) async fn ready(&mut self) -> bool {
        if self.connection.is_ready() {
            return true;
        }
        let ready = timeout(READY_TIMEOUT, self.connection.ready()).await;
        ready.is_ok_and(|ready| ready.is_ok())
    }
}

/// Sets the framing of a request (RFC 9112 §6). hyper uses the length in a head before it looks at the body, drops a
/// body of unknown length of GET and HEAD, and never declares an empty body.
fn frame(request: &mut Request<Outgoing>) {
    let length = request.body().length();
    // RFC 9110 §8.6: methods that give a body a meaning declare an empty one.
    let expects = matches!(
        *request.method(),
        Method::POST | Method::PUT | Method::PATCH
    );
    let headers = request.headers_mut();
    for name in [CONTENT_LENGTH, TRANSFER_ENCODING, TRAILER, EXPECT] {
        headers.remove(name);
    }
    match length {
        Some(0) if !expects => {}
        Some(length) => drop(headers.insert(CONTENT_LENGTH, length.into())),
        None => {
            let chunked = HeaderValue::from_static("chunked");
            headers.insert(TRANSFER_ENCODING, chunked);
        }
    }
}
