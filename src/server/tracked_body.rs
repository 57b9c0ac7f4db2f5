//! An answer on its way to the peer: writes down whether we or the peer are waited for.

use super::client::Client;
use super::h2_unsent::Unfinished;
use crate::http::{self, FramingError, ResponseBody as Content};
use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::{Request, Response, StatusCode};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Answers a request of this client.
pub(super) async fn answer(
    client: Arc<Client>,
    request: Request<Incoming>,
) -> Result<Response<TrackedBody>, Infallible> {
    let (under_way, flaw) = UnderWay::new(client);
    let client = &under_way.0;
    let response = http::answer(&client.context.gateway, &client.peer, request, flaw).await;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        client.activity.tunnelled();
    }
    Ok(response.map(|content| TrackedBody::new(content, under_way)))
}

/// A request from its head to the end of its answer.
struct UnderWay(Arc<Client>);

impl UnderWay {
    fn new(client: Arc<Client>) -> (Self, Option<FramingError>) {
        let flaw = client.activity.request();
        (Self(client), flaw)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.activity.over(self.0.context.clock.now());
    }
}

/// The body of an answer.
pub(super) struct TrackedBody {
    content: Held,
    /// True if there is more for the peer than it has asked for.
    offered: bool,
    under_way: UnderWay,
}

/// The location of a response's content.
enum Held {
    /// Here: an HTTP/1.1 connection sends one response at a time, and is closed when it stalls.
    Here(Content),
    /// Among the unfinished responses of an HTTP/2 connection.
    Unfinished(usize),
}

impl TrackedBody {
    fn new(content: Content, under_way: UnderWay) -> Self {
        let client = &under_way.0;
        let now = client.context.clock.now();
        client.activity.asked(now);
        client.activity.offer();
        let content = match &client.unfinished {
            Some(unfinished) if !content.is_end_stream() => {
                Held::Unfinished(unfinished.add(content, now))
            }
            _ => Held::Here(content),
        };
        Self {
            content,
            offered: true,
            under_way,
        }
    }

    fn offer(&mut self, offered: bool) {
        let activity = &self.under_way.0.activity;
        match (self.offered, offered) {
            (false, true) => activity.offer(),
            (true, false) => activity.taken(),
            (true, true) | (false, false) => {}
        }
        self.offered = offered;
    }

    /// The list that the content is in, and its key there.
    fn listed(&self) -> Option<(&Unfinished, usize)> {
        match (&self.content, &self.under_way.0.unfinished) {
            (Held::Unfinished(key), Some(unfinished)) => Some((unfinished, *key)),
            (Held::Unfinished(_) | Held::Here(_), _) => None,
        }
    }
}

impl Body for TrackedBody {
    type Data = Piece;
    type Error = <Content as Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let now = self.under_way.0.context.clock.now();
        let frame = match self.listed() {
            Some((unfinished, key)) => unfinished.poll_frame(key, now, cx),
            None => match &mut self.content {
                Held::Here(content) => Pin::new(content).poll_frame(cx),
                Held::Unfinished(_) => Poll::Ready(None),
            },
        };
        self.under_way.0.activity.asked(now);
        self.offer(frame.is_ready());
        let response = match self.content {
            Held::Unfinished(key) => Some((&self.under_way.0, key)),
            Held::Here(_) => None,
        };
        frame.map_ok(|frame| frame.map_data(|bytes| Piece::new(bytes, response)))
    }

    fn is_end_stream(&self) -> bool {
        match (&self.content, self.listed()) {
            (_, Some((unfinished, key))) => unfinished.is_end_stream(key),
            (Held::Here(content), None) => content.is_end_stream(),
            (Held::Unfinished(_), None) => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match (&self.content, self.listed()) {
            (_, Some((unfinished, key))) => unfinished.size_hint(key),
            (Held::Here(content), None) => content.size_hint(),
            (Held::Unfinished(_), None) => SizeHint::default(),
        }
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        self.offer(false);
        if let Some((unfinished, key)) = self.listed() {
            unfinished.remove(key, self.under_way.0.context.clock.now());
        }
    }
}

/// A piece of a response on its way. Over HTTP/2 its response is unfinished until the last of them
/// has been sent.
pub(super) struct Piece {
    bytes: Bytes,
    /// The connection, and the key of the response among the unfinished ones.
    response: Option<(Arc<Client>, usize)>,
}

impl Piece {
    fn new(bytes: Bytes, response: Option<(&Arc<Client>, usize)>) -> Self {
        let response = response.map(|(client, key)| (Arc::clone(client), key));
        Self { bytes, response }
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if let Some((client, key)) = &self.response
            && let Some(unfinished) = &client.unfinished
        {
            unfinished.sent(*key);
        }
    }
}
