//! The state of one request: the results of the steps of [`super::answer`], and its body, not yet
//! read.

use super::clock::unix_time;
use super::error::Error;
use super::forwarded_caller;
use super::granted::{Granted, Watch};
use super::path::Path;
use super::pieces::PIECE;
use super::record::{self, Record};
use super::request_body;
use super::response_body::Body;
use super::route::Recorded;
use super::{Peer, form};
use crate::allocator;
use crate::audit::{Actor, Event};
use crate::auth::{AuthWatch, Caller, Lapsed};
use crate::gateway::{Backend, Gateway, LimitState};
use crate::metrics::{InFlight, RouteClass};
use crate::traces::Trace;
use crate::upstream::{Authorization, ClientBody, Pace, Upstream};
use bytes::Bytes;
use flows::json;
use hyper::Response;
use hyper::body::Body as _;
use hyper::http::request::Parts;
use hyper::upgrade::OnUpgrade;
use limits::fair_queue::Turn;
use limits::party::Party;
use limits::quota::{Grant, Quota};
use serde_json::{Value as Json, json};
use smol_str::SmolStr;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Instant;
use tokio::runtime::Handle;

/// A request on its way.
pub(super) struct RequestContext<'a> {
    pub(super) gateway: &'a Arc<Gateway>,
    /// Since *route*, the runtime that it is for, with what belongs to that; before, any.
    pub(super) backend: &'a Arc<Backend>,
    pub(super) peer: &'a Peer,
    pub(super) id: SmolStr,
    /// Seconds since 1970.
    pub(super) now: u64,
    pub(super) head: &'a Parts,
    /// The head as flows and upstreams may see it, if that is not the same.
    pub(super) redacted: Option<Box<Parts>>,
    /// Until it is read.
    pub(super) body: Option<ClientBody>,
    /// Until the connection changes hands.
    pub(super) upgrade: Option<OnUpgrade>,
    /// Bytes of the body that were read.
    pub(super) received: u64,
    /// Memory charged to an unauthenticated caller's address.
    pub(super) held: Option<Grant>,
    /// Since *route*.
    pub(super) class: RouteClass,
    /// Since *route*.
    pub(super) authorization: Authorization,
    /// Since *route*: whether a flow may have made the response, which is no page of the editor's
    /// origin then.
    pub(super) may_serve_pages: bool,
    /// Since *route*: counts the request as in flight.
    pub(super) in_flight: Option<InFlight>,
    /// True if its bearer token was a JWT without a session, which has been verified.
    pub(super) has_looked_up: bool,
    /// Since *identify*, unless the path is open.
    pub(super) caller: Option<Caller>,
    /// Since *identify*: the limits that the request counts for; most often none.
    pub(super) rate_limits: Vec<(&'static str, LimitState)>,
    /// Since *authorize*, if the route has an audit record: written when the request ends.
    pub(super) record: Option<Box<Record>>,
    /// The generation of users and permissions in which it is authorized.
    pub(super) generation: u64,
    /// Its trace, if requests are traced.
    pub(super) trace: Option<Box<Trace>>,
    /// Since it is first needed.
    watch: Option<Watch>,
}

impl<'a> RequestContext<'a> {
    /// At its beginning: only its head has been read.
    pub(super) fn new(gateway: &'a Arc<Gateway>, peer: &'a Peer, head: &'a Parts) -> Self {
        Self {
            gateway,
            backend: gateway.backends.first(),
            peer,
            id: forwarded_caller::request_id(peer, head).unwrap_or_else(|| gateway.request_id()),
            now: unix_time().as_secs(),
            head,
            redacted: None,
            body: None,
            upgrade: None,
            received: 0,
            held: None,
            class: RouteClass::None,
            authorization: Authorization::None,
            may_serve_pages: false,
            in_flight: None,
            has_looked_up: false,
            caller: None,
            rate_limits: Vec::new(),
            record: None,
            generation: 0,
            trace: begin_trace(gateway, peer, head),
            watch: None,
        }
    }

    /// The head as flows and upstreams may see it.
    pub(super) fn outgoing(&self) -> &Parts {
        self.redacted.as_deref().unwrap_or(self.head)
    }

    /// Takes the watch of the caller's authorization; [`keep`](Self::keep) puts it back, with its
    /// registered waker.
    pub(super) fn watch(&mut self) -> Watch {
        self.watch.take().unwrap_or_else(|| self.new_watch())
    }

    /// A watch of the caller's authorization, for what outlives the request.
    pub(super) fn new_watch(&self) -> Watch {
        let caller = self.caller.clone();
        let granted = Granted::of(self.backend, self.head, self.peer.address.ip());
        granted.watch(caller, self.generation)
    }

    /// Puts the watch back.
    pub(super) fn keep(&mut self, watch: Watch) {
        self.watch = Some(watch);
    }

    /// A watch for another task.
    pub(super) fn detached_watch(&self) -> AuthWatch {
        match &self.watch {
            Some(watch) => watch.detached(),
            None => self.new_watch().detached(),
        }
    }

    /// The watch for the response body; `None`: the API is open.
    pub(super) fn watch_the_rest(mut self) -> Option<Watch> {
        self.gateway.auth.is_some().then(|| self.watch())
    }

    /// Checks the authorization again, right before an action.
    pub(super) fn check(&mut self) -> Result<(), Error> {
        let mut watch = self.watch();
        watch.check().map_err(|lapsed| self.lapsed(lapsed))?;
        self.caller = watch.caller().cloned();
        self.keep(watch);
        Ok(())
    }

    /// Runs a future, which is dropped when the authorization lapses.
    pub(super) async fn during<T>(
        &mut self,
        work: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, Error> {
        let mut watch = self.watch();
        let done = watch.during(work).await;
        let done = done.map_err(|lapsed| self.lapsed(lapsed))?;
        self.keep(watch);
        Ok(done)
    }

    /// Records that the authorization has lapsed.
    pub(super) fn lapsed(&self, lapsed: Lapsed) -> Error {
        let facts = json!({ "reason": lapsed.name() });
        self.audit(Event::Denied, self.actor(), facts);
        lapsed.into()
    }

    /// Reads the whole body, of at most `limit` bytes, unless the authorization lapses. Afterwards
    /// `caller` has the permissions of that moment. The body is charged to the user, or to the
    /// address of an unauthenticated caller.
    pub(super) async fn read(&mut self, limit: usize) -> Result<Bytes, Error> {
        let config = &self.gateway.config;
        let pace = Pace::new(&config.timeouts, &config.limits);
        let party = self.party();
        let shares = &self.gateway.shares;
        let memory = if party.is_user() {
            &shares.users
        } else {
            &shares.unauthenticated
        };
        self.read_at(limit, pace, party, std::iter::once(memory))
            .await
    }

    /// Reads the body of a sign-in, within its total time.
    pub(super) async fn read_sign_in(&mut self) -> Result<Bytes, Error> {
        let config = &self.gateway.config;
        let pace = Pace::within(config.timeouts.sign_in_body);
        let address = self.peer.address.ip();
        let auth = self.gateway.auth.as_ref();
        let known = auth.is_some_and(|auth| auth.has_signed_in_from(address));
        let memory = self.gateway.shares.sign_in(known);
        let limit = config.limits.sign_in_body;
        self.read_at(limit, pace, address.into(), memory).await
    }

    /// Reads the whole body; the memory that it takes is charged until the request ends, to the
    /// share of `party` in the first quota of `memory` that has room.
    async fn read_at(
        &mut self,
        limit: usize,
        pace: Pace,
        party: Party,
        mut memory: impl Iterator<Item = &Arc<Quota>>,
    ) -> Result<Bytes, Error> {
        request_body::announced(&self.head.headers, limit)?;
        let Some(mut incoming) = self.body.take().filter(|body| !body.is_end_stream()) else {
            return Ok(Bytes::new());
        };
        let size = request_body::head_size(&self.head.headers);
        let mut held = memory.find_map(|memory| {
            let mut held = memory.grant_to(party.clone());
            held.try_grow(size).ok().map(|()| held)
        });
        if held.is_none() {
            return Err(Error::MemoryBusy);
        }
        let read = {
            let read = pin!(request_body::read(
                &mut incoming,
                limit,
                pace,
                held.as_mut()
            ));
            self.during(read).await
        };
        self.held = held;
        let content = read??;
        self.received = content.len() as u64;
        self.check()?;
        Ok(content)
    }

    /// Refuses a request with a body; one that is there but empty is read to its end.
    pub(super) async fn read_none(&mut self) -> Result<(), Error> {
        let empty = |body: &ClientBody| body.is_end_stream();
        if self.body.as_ref().is_none_or(empty) {
            return Ok(());
        }
        let config = &self.gateway.config;
        let pace = Pace::new(&config.timeouts, &config.limits);
        let Some(mut body) = self.body.take() else {
            return Ok(());
        };
        let mut none = Box::pin(request_body::none(&mut body, pace));
        self.during(none.as_mut()).await??;
        self.check()
    }

    /// Reads a body that must be JSON, of any size that a deployment may have.
    pub(super) async fn read_json(&mut self) -> Result<Bytes, Error> {
        request_body::json(&self.head.headers)?;
        let limit = self.gateway.config.limits.body;
        self.read(limit).await
    }

    /// Reads the body of `POST /flows/state`, which the stock editor sends as a form and others as
    /// JSON; of a form only what is understood is left.
    pub(super) async fn read_state(&mut self) -> Result<(Bytes, Option<String>), Error> {
        if !form::is_form(&self.head.headers) {
            let content = self.read_json_if_any().await?;
            let value = serde_json::from_slice(&content).unwrap_or(Json::Null);
            let state = value.get("state").and_then(Json::as_str);
            return Ok((content, state.map(str::to_owned)));
        }
        let limit = self.gateway.config.limits.body;
        let content = self.read(limit).await?;
        match form::fields(&self.head.headers, &content, ["state"]) {
            Ok([Some(state)]) => {
                let mut form = form_urlencoded::Serializer::new(String::new());
                form.append_pair("state", &state);
                Ok((form.finish().into(), Some(state)))
            }
            Ok([None]) => Ok((content, None)),
            Err(Error::Form(reason)) => Err(Error::Body(reason)),
            Err(other) => Err(other),
        }
    }

    /// Reads a JSON body that may be missing; empty: it is.
    pub(super) async fn read_json_if_any(&mut self) -> Result<Bytes, Error> {
        let limit = self.gateway.config.limits.body;
        let content = self.read(limit).await?;
        if !content.is_empty() {
            request_body::json(&self.head.headers)?;
            json::text(&content).map_err(|invalid| Error::Body(invalid.to_string()))?;
        }
        Ok(content)
    }

    /// The same as a value.
    #[cfg(feature = "engine")]
    pub(super) async fn read_json_value(&mut self) -> Result<Option<Json>, Error> {
        let content = self.read_json_if_any().await?;
        if content.is_empty() {
            return Ok(None);
        }
        let value = serde_json::from_slice(&content);
        value.map(Some).map_err(|e| Error::Body(e.to_string()))
    }

    /// Its trace, if that is recorded.
    pub(super) fn recorded_trace(&self) -> Option<&Trace> {
        self.trace.as_deref().filter(|trace| trace.is_recorded())
    }

    /// The name of the upstream that it is for; `None`: that is not known yet, or it is for our own
    /// engine.
    pub(super) fn upstream(&self) -> Option<&str> {
        let upstream = self.backend.runtime.upstream();
        let upstream = upstream.filter(|_| self.class != RouteClass::None);
        upstream.map(Upstream::name)
    }

    /// The user's name; empty: anonymous, or not identified.
    pub(super) fn user(&self) -> &str {
        self.caller
            .as_ref()
            .map_or("", |caller| caller.user.as_str())
    }

    /// The user, or the address of an unauthenticated caller: whose share of memory and of work the
    /// request takes.
    pub(super) fn party(&self) -> Party {
        match self.caller.as_ref().filter(|caller| caller.is_known()) {
            Some(caller) => Party::User(caller.user.clone()),
            None => self.peer.address.ip().into(),
        }
    }

    /// Charges a response that is made to its user until it is sent; `None`: it is small, streamed,
    /// or charged already.
    pub(super) fn charge(&self, response: &Response<Body>) -> Result<Option<Grant>, Error> {
        let size = response.body().uncharged();
        let party = self.party();
        if size <= PIECE || !party.is_user() {
            return Ok(None);
        }
        let mut held = self.gateway.shares.users.grant_to(party);
        held.try_grow(size).map_err(|_| Error::MemoryBusy)?;
        Ok(Some(held))
    }

    /// Returns whether the caller reads some flows only.
    pub(super) fn reads_some_flows(&self) -> bool {
        let caller = self.caller.as_ref();
        caller.is_some_and(|caller| caller.permissions.reads_some_flows())
    }

    /// The actor of an event, for audit and history.
    pub(super) fn actor(&self) -> Actor {
        let caller = self.caller.as_ref();
        Actor {
            user: self.user().to_owned(),
            by: caller.map_or_else(String::new, |caller| caller.known.to_string()),
            address: Some(self.peer.address.ip().to_canonical()),
            request: self.id.to_string(),
            has_all: caller.is_some_and(|caller| caller.permissions.cover_all()),
        }
    }

    /// Runs a task to its end on the control runtime, even if the client disconnects; checks the
    /// authorization first.
    pub(super) fn control<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = Result<T, Error>> + Send {
        self.spawn(&self.gateway.control, task)
    }

    /// Like [`control`](Self::control), for a task that takes longer than a millisecond, such as a
    /// deployment: on threads that hold up neither a worker nor the control thread.
    pub(super) fn work<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = Result<T, Error>> + Send {
        self.spawn(self.gateway.work.runtime(), task)
    }

    /// Spawns the task at once: the future of an `async fn` would keep room for it, and so would
    /// all that wait for it.
    fn spawn<T: Send + 'static>(
        &self,
        runtime: &Handle,
        task: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = Result<T, Error>> + Send {
        let mut watch = self.detached_watch();
        let running = runtime.spawn(async move {
            watch.check()?;
            Ok(task.await)
        });
        async move {
            let done = running.await.map_err(|_| Error::Broken)?;
            done.map_err(|lapsed| self.lapsed(lapsed))
        }
    }

    /// Waits for a turn to do work that takes long, which is held until it is done.
    pub(super) async fn turn(&self) -> Result<Turn, Error> {
        let turn = self.gateway.work.turn(self.party()).await;
        turn.ok_or(Error::WorkBusy)
    }

    /// Runs what waits for files or takes long, in turn, where nothing else has to wait.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        task: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let turn = self.turn().await?;
        let task = self.gateway.work.runtime().spawn_blocking(move || {
            // It goes with the thread: a client that leaves does not make room before the work is
            // done.
            let _turn = turn;
            let done = task();
            allocator::purge();
            done
        });
        task.await.map_err(|_| Error::Broken)
    }

    /// Begins the audit record of the request, if its route has one. An error: it cannot be
    /// recorded, so it must not be done.
    pub(super) async fn begin_record(
        &mut self,
        path: &Path<'_>,
        recorded: Recorded,
    ) -> Result<(), Error> {
        let Some(event) = recorded.event() else {
            return Ok(());
        };
        let mut fields = record::fields(&self.head.method, path);
        if let Some(upstream) = self.upstream() {
            fields["upstream"] = upstream.into();
        }
        // Boxed: few requests have a record, and no other keeps room for it.
        let record = Box::new(Record {
            audit: self.gateway.audit.clone(),
            event,
            actor: self.actor(),
            now: self.now,
            facts: Some(fields),
        });
        self.record = Some(Box::pin(record.begin()).await?);
        Ok(())
    }

    /// Writes an audit record.
    #[allow(clippy::needless_pass_by_value, reason = "made for the call")]
    pub(super) fn audit(&self, event: Event, actor: Actor, mut facts: Json) {
        if let Some(upstream) = self.upstream() {
            facts["upstream"] = upstream.into();
        }
        self.gateway.audit.record(event, &actor, self.now, facts);
    }
}

/// Begins the trace of a request; `None`: requests are not traced. The `traceparent` of the gateway
/// in front and of trusted proxies counts.
fn begin_trace(gateway: &Gateway, peer: &Peer, head: &Parts) -> Option<Box<Trace>> {
    let tracer = gateway.tracer.as_ref()?;
    let trusted = peer.is_gateway || peer.trusted;
    let (now, began) = (unix_time(), Instant::now());
    let trace = tracer.begin(&head.headers, trusted, now, began);
    Some(Box::new(trace))
}
