//! An answer on its way to the peer: writes down whether we or the peer are waited for.

use super::connection::Client;
use crate::http::{self, Body as Content, Flaw};
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
) -> Result<Response<Answer>, Infallible> {
    let (under_way, flaw) = UnderWay::new(client);
    let client = &under_way.0;
    let response = http::answer(&client.worker.gateway, &client.peer, request, flaw).await;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        client.pulse.tunnelled();
    }
    Ok(response.map(|content| Answer::new(content, under_way)))
}

/// A request from its head to the end of its answer.
struct UnderWay(Arc<Client>);

impl UnderWay {
    fn new(client: Arc<Client>) -> (Self, Option<Flaw>) {
        let flaw = client.pulse.request();
        (Self(client), flaw)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.pulse.over(self.0.worker.clock.now());
    }
}

/// The body of an answer.
pub(super) struct Answer {
    content: Content,
    /// Whether there is more for the peer than it has asked for.
    offered: bool,
    under_way: UnderWay,
}

impl Answer {
    fn new(content: Content, under_way: UnderWay) -> Self {
        let client = &under_way.0;
        client.pulse.asked(client.worker.clock.now());
        client.pulse.offer();
        Self {
            content,
            offered: true,
            under_way,
        }
    }

    fn offer(&mut self, offered: bool) {
        let pulse = &self.under_way.0.pulse;
        match (self.offered, offered) {
            (false, true) => pulse.offer(),
            (true, false) => pulse.taken(),
            (true, true) | (false, false) => {}
        }
        self.offered = offered;
    }
}

impl Body for Answer {
    type Data = <Content as Body>::Data;
    type Error = <Content as Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = Pin::new(&mut self.content).poll_frame(cx);
        let client = &self.under_way.0;
        client.pulse.asked(client.worker.clock.now());
        self.offer(frame.is_ready());
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.content.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.content.size_hint()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.offer(false);
    }
}
