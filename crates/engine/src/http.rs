//! Requests to endpoints made by http-in nodes, where they lead, and the way back.

use super::Error;
use super::http_path::PathPattern;
use crate::instance::Instance;
use bytes::Bytes;
use hyper::{HeaderMap, Method};
use limits::quota::{Exhausted, Grant};
use parking_lot::Mutex;
use smol_str::SmolStr;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::oneshot;
use value::Failure;

/// The methods that an http-in node can have.
pub const METHODS: [Method; 5] = [
    Method::GET,
    Method::POST,
    Method::PUT,
    Method::DELETE,
    Method::PATCH,
];

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
    /// True if it came over TLS.
    pub secure: bool,
    /// The user who has signed in, if any.
    pub user: Option<User>,
}

/// A user as flows see them in `msg.req.user`: with the names that users of the stock runtime have
/// there.
#[derive(Debug)]
pub struct User {
    /// The user's name.
    pub username: SmolStr,
    /// The permissions that the user has here.
    pub permissions: Vec<SmolStr>,
}

/// The response of an http response node.
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
    /// The client's request.
    pub request: Request,
    /// Sends the response to the client.
    pub responder: Arc<Responder>,
}

/// Replies up to this size are not charged. Our choice: one address, with 256 connections of 100
/// streams each, can hold 25 MiB of them.
const SMALL: usize = 1024;

/// Memory that is charged to the address of an unauthenticated client.
#[derive(Debug)]
pub struct Memory {
    /// The grant for the request. Released by the response, or when no flow can respond any more:
    /// until then, the request of a disconnected client stays charged.
    pub request: Grant,
    /// Of the reply; empty until there is one.
    pub reply: Grant,
}

/// The reply, with the grant for its memory; an error: it exceeds the memory of an unauthenticated
/// client.
pub type Answer = Result<(Reply, Option<Grant>), Exhausted>;

/// The way back to the client: `msg.res` carries a reference to it. The first answer counts.
#[derive(Debug)]
pub struct Responder(Mutex<Option<Waiting>>);

/// A client that waits.
#[derive(Debug)]
struct Waiting {
    sender: oneshot::Sender<Result<Answer, Error>>,
    memory: Option<Memory>,
}

impl Responder {
    /// Creates a responder and the receiver of its response. `memory`: the grants to which the
    /// request and the response are charged.
    pub fn new(memory: Option<Memory>) -> (Arc<Self>, oneshot::Receiver<Result<Answer, Error>>) {
        let (sender, receiver) = oneshot::channel();
        let waiting = Waiting { sender, memory };
        (Arc::new(Self(Mutex::new(Some(waiting)))), receiver)
    }

    /// Returns whether an answer was given before.
    pub fn is_answered(&self) -> bool {
        self.0.lock().is_none()
    }

    /// Returns whether the client is gone without an answer.
    pub(super) fn is_abandoned(&self) -> bool {
        let waiting = self.0.lock();
        waiting
            .as_ref()
            .is_some_and(|waiting| waiting.sender.is_closed())
    }

    /// Answers; false if an answer was given before or the client is gone.
    pub fn answer(&self, reply: Reply) -> bool {
        let waiting = self.0.lock().take();
        waiting.is_some_and(|Waiting { sender, memory }| {
            // The memory of the request is released before the reply needs some.
            let memory = memory.map(|Memory { reply, .. }| reply);
            let answer = charged(reply, memory);
            sender.send(Ok(answer)).is_ok()
        })
    }

    /// Answers that the flow does not take the request.
    pub(super) fn refuse(&self, error: Error) {
        let waiting = self.0.lock().take();
        if let Some(Waiting { sender, .. }) = waiting {
            // The client may be gone.
            let _ = sender.send(Err(error));
        }
    }
}

/// Charges a reply as soon as it exists: a flow makes replies faster than clients read them. One
/// that is larger than the share of an address takes all of that share.
fn charged(reply: Reply, memory: Option<Grant>) -> Answer {
    let mut memory = memory.filter(|_| reply.body.len() > SMALL);
    if let Some(memory) = &mut memory {
        memory.try_grow(reply.body.len().min(memory.most()))?;
    }
    Ok((reply, memory))
}

/// An http-in node's endpoint that matched a request.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Values of `:name` in its path.
    pub params: Vec<(SmolStr, SmolStr)>,
    pub(super) instance: Instance,
    pub(super) rank: Rank,
    /// The number of the node's thread.
    pub(super) thread: usize,
}

/// The rank of an endpoint among those of other threads: the first one wins, as on one thread.
/// Those of one thread are in the order in which they were registered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// The number of the change that started its node.
    pub change: u64,
    /// The position of its tab in the flow set.
    pub tab: usize,
}

/// The endpoints of running http-in nodes, in the order in which the nodes registered them; the
/// first that matches wins, as in Express.
#[derive(Debug, Default, Clone)]
pub(super) struct Endpoints {
    entries: Vec<Arc<Entry>>,
    /// Method and path of entries without parameters, to the first of them.
    fixed: HashMap<(Method, String), usize>,
    /// The entries with parameters.
    patterns: Vec<usize>,
}

#[derive(Debug)]
struct Entry {
    method: Method,
    shape: PathPattern,
    instance: Instance,
    rank: Rank,
}

impl Endpoints {
    /// Adds an endpoint; its path is one of Express.
    pub(super) fn add(
        &mut self,
        method: &str,
        path: &str,
        instance: Instance,
        rank: Rank,
    ) -> Result<(), Failure> {
        let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes())
            .map_err(|_| Failure::error(format!("unknown method: {method}")))?;
        let shape = PathPattern::parse(path)?;
        self.push(Arc::new(Entry {
            method,
            shape,
            instance,
            rank,
        }));
        Ok(())
    }

    fn push(&mut self, entry: Arc<Entry>) {
        let at = self.entries.len();
        match &entry.shape {
            PathPattern::Fixed(path) => {
                let key = (entry.method.clone(), path.clone());
                self.fixed.entry(key).or_insert(at);
            }
            PathPattern::Segments(_) | PathPattern::Pattern(..) => self.patterns.push(at),
        }
        self.entries.push(entry);
    }

    /// The same without the endpoints of nodes that no longer run.
    pub(super) fn retained(&self, runs: impl Fn(Instance) -> bool) -> Self {
        let mut retained = Self::default();
        let entries = self.entries.iter().filter(|e| runs(e.instance));
        entries.for_each(|entry| retained.push(Arc::clone(entry)));
        retained
    }

    /// The endpoint for a request; HEAD is answered by GET's. Paths match case-insensitively, a
    /// trailing slash is ignored.
    pub(super) fn find(&self, method: &Method, path: &str) -> Option<Endpoint> {
        if self.entries.is_empty() {
            return None;
        }
        let method = if method == Method::HEAD {
            Method::GET
        } else {
            method.clone()
        };
        let bare = path.trim_matches('/').to_lowercase();
        let fixed = self.fixed.get(&(method.clone(), bare)).copied();
        for &at in &self.patterns {
            if fixed.is_some_and(|f| f < at) {
                break;
            }
            let entry = &self.entries[at];
            if entry.method == method
                && let Some(params) = entry.shape.matched(path)
            {
                return Some(entry.endpoint(params));
            }
        }
        fixed.map(|at| self.entries[at].endpoint(Vec::new()))
    }
}

impl Entry {
    fn endpoint(&self, params: Vec<(SmolStr, SmolStr)>) -> Endpoint {
        Endpoint {
            params,
            instance: self.instance,
            rank: self.rank,
            thread: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use limits::quota::Quota;

    fn endpoints(paths: &[&str]) -> Endpoints {
        let mut endpoints = Endpoints::default();
        for (slot, path) in (0..).zip(paths) {
            endpoints
                .add("get", path, Instance { slot, epoch: slot }, Rank::default())
                .unwrap();
        }
        endpoints
    }

    fn slot(endpoints: &Endpoints, path: &str) -> Option<u32> {
        endpoints.find(&Method::GET, path).map(|e| e.instance.slot)
    }

    #[test]
    fn the_first_endpoint_that_matches_wins() {
        let table = endpoints(&["/a/b", "/a/:x", "/a/c", "/a/b"]);
        assert_eq!(slot(&table, "/a/b"), Some(0));
        assert_eq!(slot(&table, "/a/c"), Some(1));
        assert_eq!(slot(&table, "/a"), None);
        assert_eq!(slot(&table, "/a/b/c"), None);
    }

    #[test]
    fn parameters_keep_their_case_and_get_endpoints_serve_head() {
        let table = endpoints(&["/Things/:id"]);
        let found = table.find(&Method::HEAD, "/tHINGS/AbC/").unwrap();
        assert_eq!(found.params, [("id".into(), "AbC".into())]);
        assert!(table.find(&Method::POST, "/things/a").is_none());
    }

    #[test]
    fn endpoints_of_closed_nodes_are_removed() {
        let table = endpoints(&["/a", "/b"]).retained(|i| i.slot == 1);
        assert_eq!(slot(&table, "/a"), None);
        assert_eq!(slot(&table, "/b"), Some(1));
    }

    #[test]
    fn only_the_first_response_is_sent() {
        let (responder, mut receiver) = Responder::new(None);
        let reply = |status| Reply {
            status,
            headers: HeaderMap::new(),
            body: Bytes::new(),
        };
        assert!(responder.answer(reply(200)));
        assert!(!responder.answer(reply(500)));
        assert_eq!(receiver.try_recv().unwrap().unwrap().unwrap().0.status, 200);
    }

    #[test]
    fn a_response_is_charged_before_the_client_reads_it() {
        let quota = Quota::new(1 << 20, 10_000);
        let answer = |bytes: usize| {
            let memory = Memory {
                request: quota.grant([127, 0, 0, 1].into()),
                reply: quota.grant([127, 0, 0, 1].into()),
            };
            let (responder, mut receiver) = Responder::new(Some(memory));
            let body = Bytes::from(vec![b'x'; bytes]);
            let headers = HeaderMap::new();
            responder.answer(Reply {
                status: 200,
                headers,
                body,
            });
            receiver.try_recv().unwrap().unwrap()
        };
        let first = answer(8000).unwrap();
        assert_eq!(answer(8000).unwrap_err(), Exhausted);
        assert!(answer(SMALL).unwrap().1.is_none());
        drop(first);
        let (_, held) = answer(100_000).unwrap();
        assert_eq!(held.unwrap().units(), 10_000);
    }

    #[test]
    fn a_request_is_charged_until_it_is_answered_or_unanswerable() {
        let quota = Quota::new(1 << 20, 10_000);
        let grant = || quota.grant([127, 0, 0, 1].into());
        let asked = || {
            let mut request = grant();
            request.try_grow(10_000).unwrap();
            let reply = grant();
            Responder::new(Some(Memory { request, reply }))
        };
        let reply = || Reply {
            status: 200,
            headers: HeaderMap::new(),
            body: Bytes::new(),
        };
        let (responder, receiver) = asked();
        drop(receiver);
        assert!(responder.is_abandoned());
        assert!(grant().try_grow(1).is_err());
        drop(responder);
        let (responder, _receiver) = asked();
        assert!(!responder.is_abandoned() && grant().try_grow(1).is_err());
        responder.answer(reply());
        assert!(grant().try_grow(10_000).is_ok());
    }
}
