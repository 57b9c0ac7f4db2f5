//! Requests to endpoints made by http-in nodes, and the answers of http response nodes.

use bytes::Bytes;
use hyper::{HeaderMap, Method};
use smol_str::SmolStr;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

/// A request to an endpoint, body read.
#[derive(Debug)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The path as matched, decoded.
    pub path: String,
    /// Path and query as sent.
    pub url: String,
    /// The query, without `?`.
    pub query: String,
    /// Values of `:name` in the endpoint's path.
    pub params: Vec<(SmolStr, SmolStr)>,
    /// Header fields.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
    /// The address of the client.
    pub address: IpAddr,
    /// Whether it came over TLS.
    pub secure: bool,
}

/// What a http response node answers.
#[derive(Debug)]
pub struct Reply {
    /// Status code, 100 to 999.
    pub status: u16,
    /// Header fields.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// A request on its way through a flow, with the way back.
#[derive(Debug)]
pub struct Exchange {
    /// What was asked.
    pub request: Request,
    /// Where the answer goes.
    pub responder: Arc<Responder>,
}

/// The way back to the client: `msg.res` carries a reference to it. The first answer counts.
#[derive(Debug)]
pub struct Responder(Mutex<Option<oneshot::Sender<Reply>>>);

impl Responder {
    /// A responder and where its answer arrives.
    pub fn new() -> (Arc<Self>, oneshot::Receiver<Reply>) {
        let (sender, receiver) = oneshot::channel();
        (Arc::new(Self(Mutex::new(Some(sender)))), receiver)
    }

    /// Answers; false if an answer was given before or the client is gone.
    pub fn answer(&self, reply: Reply) -> bool {
        let sender = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        sender.is_some_and(|s| s.send(reply).is_ok())
    }
}
