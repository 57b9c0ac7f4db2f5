//! Changes to the upstream's flows: sent whole, and the response read whole, so that the deploy
//! lock is held until the change has ended. Sent again only if the upstream refused it for the
//! gateway's token and another token could be obtained: a refused request has changed nothing.

use super::{Error, ForwardedRequest, Outgoing, ResponseBody, Upstream};
use bytes::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH};
use hyper::http::uri::PathAndQuery;
use hyper::{Method, Request, Response, StatusCode};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};
use tokio::time::timeout;

/// The most that is read of an answer about flows. Our choice: many times the flow sets that are
/// known.
const LIMIT: usize = 256 << 20;

/// The longest time for such an answer, in longest pauses (`idle`). Our choice: by default five
/// minutes, in which the largest answer comes at 1 MB/s.
const PAUSES: u32 = 5;

/// A change of the flows, ready to be sent.
#[derive(Debug, Clone)]
pub struct Change {
    request: Request<Bytes>,
    client: IpAddr,
}

/// The result of a change at the upstream.
#[derive(Debug)]
pub struct Changed {
    /// The upstream's response.
    pub response: Response<Bytes>,
    /// The meaning of the response.
    pub outcome: Outcome,
}

/// The meaning of a response to a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is done; the new revision, if the answer names it.
    Done(Option<String>),
    /// Another revision is active.
    Stale,
    /// It was refused for another reason.
    Refused,
}

/// The flow set that an upstream shows.
#[derive(Debug)]
pub struct Shown {
    /// Its revision.
    pub rev: String,
    /// The whole response that contains both.
    pub body: Bytes,
    /// The response's entity tag.
    pub tag: Option<HeaderValue>,
}

/// The part of a v2 body that names its revision.
#[derive(Deserialize)]
struct Revision {
    rev: String,
}

/// The part of a node set in `GET /nodes` that tells which types there are
/// (docs/reference/node-red-admin-api.md §2).
#[derive(Deserialize)]
struct NodeSet {
    #[serde(default)]
    types: Vec<String>,
    #[serde(default)]
    enabled: bool,
    err: Option<IgnoredAny>,
}

impl NodeSet {
    fn failed(&self) -> bool {
        self.err.is_some()
    }
}

impl Change {
    /// The same with another body.
    #[must_use]
    pub fn with_body(self, body: Bytes) -> Self {
        let request = self.request.map(|_| body);
        Self { request, ..self }
    }
}

impl Upstream {
    /// `POST /flows` for a client: `version` and `kind` as both dialects spell them.
    pub fn deployment(
        &self,
        front: &ForwardedRequest<'_>,
        version: &'static str,
        kind: &'static str,
        body: Bytes,
    ) -> Change {
        let mut request = self.own_head(front);
        *request.method_mut() = Method::POST;
        let headers = request.headers_mut();
        headers.insert(self.api_version(), HeaderValue::from_static(version));
        headers.insert(self.deployment_type(), HeaderValue::from_static(kind));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Change {
            request: request.map(|()| body),
            client: front.address,
        }
    }

    /// The path of its flow set.
    pub fn flows_path(&self) -> PathAndQuery {
        let path = format!("{}/flows", self.0.config.root);
        // The config has let through nothing that could not stand in a path.
        path.parse()
            .unwrap_or_else(|_| PathAndQuery::from_static("/flows"))
    }

    /// Any other change for a client, under its own headers.
    pub fn change(&self, front: &ForwardedRequest<'_>, body: Bytes) -> Change {
        Change {
            request: self.head(front).map(|()| body),
            client: front.address,
        }
    }

    /// `POST /flows` by the gateway itself, of all flows in version v2.
    pub async fn deploy(&self, body: Bytes) -> Result<Changed, Error> {
        let mut request = self.own("/flows");
        *request.method_mut() = Method::POST;
        let headers = request.headers_mut();
        headers.insert(self.api_version(), HeaderValue::from_static("v2"));
        headers.insert(self.deployment_type(), HeaderValue::from_static("full"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let client = Ipv4Addr::LOCALHOST.into();
        let request = request.map(|()| body);
        self.apply(Change { request, client }).await
    }

    /// Sends a change and reads the whole answer.
    pub async fn apply(&self, change: Change) -> Result<Changed, Error> {
        let (parts, body) = change.request.into_parts();
        let head = || Request::from_parts(parts.clone(), ());
        let response = self
            .send(head, Outgoing::Whole(body), Some(change.client))
            .await?;
        let response = self.whole(response).await?;
        let outcome = match response.status() {
            StatusCode::CONFLICT => Outcome::Stale,
            status if status.is_success() => Outcome::Done(revision(response.body())),
            _ => Outcome::Refused,
        };
        Ok(Changed { response, outcome })
    }

    /// The flow set that is active there now; `None`: it is still the one of the entity tag `known`
    /// (RFC 9110 §13.1.2).
    pub async fn flows(&self, known: Option<&HeaderValue>) -> Result<Option<Shown>, Error> {
        let head = || {
            let mut request = self.own("/flows");
            let version = HeaderValue::from_static("v2");
            let headers = request.headers_mut();
            headers.insert(self.api_version(), version);
            headers.extend(known.map(|tag| (IF_NONE_MATCH, tag.clone())));
            request
        };
        let response = self.send(head, Outgoing::empty(), None).await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_MODIFIED if known.is_some() => return Ok(None),
            StatusCode::UNAUTHORIZED => return Err(self.refused()),
            _ => return Err(Error::Unexpected("it does not show its flows")),
        }
        let (head, body) = self.whole(response).await?.into_parts();
        let rev = revision(&body).ok_or(Error::Unexpected("its flows have no revision"))?;
        let tag = head.headers.get(ETAG).cloned();
        Ok(Some(Shown { rev, body, tag }))
    }

    /// The types of the nodes that can run there.
    pub async fn types(&self) -> Result<HashSet<String>, Error> {
        let unread = "its node types are no list of sets";
        let sets: Vec<NodeSet> = self.ask_json("/nodes", unread).await?;
        let running = sets.into_iter().filter(|set| set.enabled && !set.failed());
        Ok(running.flat_map(|set| set.types).collect())
    }

    /// Asks for JSON for the gateway itself; `unread` says that the answer is something else.
    pub(super) async fn ask_json<T: DeserializeOwned>(
        &self,
        path: &'static str,
        unread: &'static str,
    ) -> Result<T, Error> {
        let head = || {
            let mut request = self.own(path);
            let json = HeaderValue::from_static("application/json");
            request.headers_mut().insert(ACCEPT, json);
            request
        };
        let response = self.send(head, Outgoing::empty(), None).await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED => return Err(self.refused()),
            _ => return Err(Error::Unexpected(unread)),
        }
        let body = self.whole(response).await?.into_body();
        serde_json::from_slice(&body).map_err(|_| Error::Unexpected(unread))
    }

    /// Reads the whole of an answer, of any type, within a time.
    pub async fn whole(&self, response: Response<ResponseBody>) -> Result<Response<Bytes>, Error> {
        let (parts, body) = response.into_parts();
        let time = self.0.config.idle.saturating_mul(PAUSES);
        let body = match timeout(time, body.whole(LIMIT)).await {
            Ok(body) => body?,
            Err(_) => return self.counted(Err(Error::Timeout)),
        };
        Ok(Response::from_parts(parts, body))
    }
}

fn revision(body: &[u8]) -> Option<String> {
    serde_json::from_slice::<Revision>(body)
        .ok()
        .map(|body| body.rev)
}
