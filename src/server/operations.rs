//! The operations listener: `/metrics`, `/healthz`, `/readyz`, for monitoring. Plain HTTP, on the
//! control runtime, with small limits. Knows nothing of the gateway's requests.

use super::worker::Worker;
use crate::audit::Monitor;
use crate::config::{Host, Hosts};
use crate::gateway::{Backend, Gateway};
use crate::metrics::Metrics;
use crate::upstream::Upstream;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue};
use hyper::http::uri::Authority;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use limits::conn_limit::ConnLimit;
use serde_json::{Value as Json, json};
use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

/// Connections at a time. Our choice: a handful of scrapers and probes.
const CONNECTIONS: usize = 32;
/// The same for one address. Our choice: half, so that no address has all.
const CONNECTIONS_PER_ADDRESS: usize = CONNECTIONS / 2;
/// A request's head, and the rest between two requests.
const HEAD: Duration = Duration::from_secs(10);
/// A whole connection.
const LIFETIME: Duration = Duration::from_mins(5);
/// Bytes of a request's head: the least that hyper takes.
const BUFFER: usize = 8192;

/// The life-cycle stage of the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Flows are not live yet.
    Starting,
    /// Requests are answered and flows run.
    Ready,
    /// Work in flight is finished, nothing new is accepted.
    Draining,
}

/// The state that the operations listener reports.
pub(super) struct Operations {
    metrics: Arc<Metrics>,
    stage: AtomicU8,
    /// The hosts under which it answers, beside local ones.
    hosts: Hosts,
    /// True if a refused host has been reported.
    reported: AtomicBool,
    /// The runtimes; weak, because we live on when the gateway closes its store.
    backends: OnceLock<Vec<Weak<Backend>>>,
    /// The workers, whose tasks are counted; weak for the same reason.
    workers: OnceLock<Vec<Weak<Worker>>>,
    audit: OnceLock<Arc<Monitor>>,
    /// Whether the store that gateways share was not reached for too long.
    cut_off: OnceLock<Arc<AtomicBool>>,
}

impl Operations {
    pub(super) fn new(metrics: Arc<Metrics>, hosts: Hosts) -> Arc<Self> {
        Arc::new(Self {
            metrics,
            stage: AtomicU8::new(Stage::Starting as u8),
            hosts,
            reported: AtomicBool::new(false),
            backends: OnceLock::new(),
            workers: OnceLock::new(),
            audit: OnceLock::new(),
            cut_off: OnceLock::new(),
        })
    }

    /// Adds these runtimes and the audit log to readiness, and these workers to metrics.
    pub(super) fn look_at(&self, gateway: &Gateway, workers: &[Arc<Worker>]) {
        // They are the same for the gateway's life.
        let _ = self.audit.set(Arc::clone(gateway.audit.monitor()));
        if let Some(auth) = &gateway.auth {
            let _ = self.cut_off.set(auth.was_cut_off());
        }
        let backends = gateway.backends.all().iter();
        let _ = self.backends.set(backends.map(Arc::downgrade).collect());
        let workers = workers.iter().map(Arc::downgrade).collect();
        let _ = self.workers.set(workers);
    }

    /// The page for Prometheus.
    fn metrics(&self) -> String {
        let workers = self.workers.get().into_iter().flatten();
        let workers = workers.filter_map(|worker| worker.upgrade()?.runtime());
        let tasks = |runtime: &Handle| runtime.metrics().num_alive_tasks();
        let control = Handle::try_current().map_or(0, |control| tasks(&control));
        self.metrics
            .tasks(workers.map(|worker| tasks(&worker)).sum(), control);
        self.metrics.render()
    }

    /// Sets the stage.
    pub(super) fn enter(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
    }

    fn stage(&self) -> Stage {
        let stages = [Stage::Starting, Stage::Ready, Stage::Draining];
        let now = self.stage.load(Ordering::Relaxed);
        stages
            .into_iter()
            .find(|stage| *stage as u8 == now)
            .unwrap_or(Stage::Draining)
    }

    /// Serves on a runtime until that ends.
    pub(super) fn start(
        self: &Arc<Self>,
        listener: std::net::TcpListener,
        runtime: &Handle,
    ) -> io::Result<()> {
        let _inside = runtime.enter();
        let listener = TcpListener::from_std(listener)?;
        runtime.spawn(Arc::clone(self).listen(listener));
        Ok(())
    }

    async fn listen(self: Arc<Self>, listener: TcpListener) {
        let connections = ConnLimit::new(CONNECTIONS, CONNECTIONS_PER_ADDRESS);
        loop {
            let Ok((tcp, address)) = listener.accept().await else {
                sleep(Duration::from_millis(100)).await;
                continue;
            };
            let permit = connections.admit();
            let Ok(permit) = permit.and_then(|permit| permit.of(address.ip())) else {
                continue;
            };
            let operations = Arc::clone(&self);
            tokio::spawn(async move {
                let _ = timeout(LIFETIME, operations.serve(tcp)).await;
                drop(permit);
            });
        }
    }

    async fn serve(self: Arc<Self>, tcp: TcpStream) {
        let service = service_fn(|request: Request<Incoming>| {
            let response = match self.foreign_host(&request) {
                None => self.answer(request.method(), request.uri().path()),
                Some(host) => self.misdirected(host),
            };
            async move { Ok::<_, Infallible>(response) }
        });
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD)
            .max_buf_size(BUFFER);
        if let Err(error) = builder.serve_connection(TokioIo::new(tcp), service).await {
            tracing::debug!(%error, "a connection of the operations listener failed");
        }
    }

    /// The host of a request that is not answered: a name that an attacker could let resolve to
    /// this machine (DNS rebinding). A web page of it would be of this listener's own origin for
    /// its browser, and read everything. A request that names no host is no browser's.
    fn foreign_host<'r, B>(&self, request: &'r Request<B>) -> Option<&'r str> {
        let own = |host: Host<'_>| host.is_local() || self.hosts.contains(host);
        let authority = request.uri().authority().map(Authority::as_str);
        let hosts = request.headers().get_all(HOST).iter();
        let hosts = hosts.map(|host| host.to_str().unwrap_or_default());
        let mut named = authority.into_iter().chain(hosts);
        named.find(|host| !Host::parse(host, 80).is_some_and(own))
    }

    fn misdirected(&self, host: &str) -> Response<Full<Bytes>> {
        if !self.reported.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                host,
                "the operations listener has refused a host; if it is a name of this gateway, add it to operations_hosts"
            );
        }
        let sentence = "this host is not answered: add it to operations_hosts in gateway.toml, or ask by address\n";
        let mut response = Response::new(Full::from(sentence));
        *response.status_mut() = StatusCode::MISDIRECTED_REQUEST;
        response
    }

    fn answer(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        let (status, kind, body) = match path {
            "/metrics" => (
                StatusCode::OK,
                "text/plain; version=0.0.4; charset=utf-8",
                None,
            ),
            "/healthz" => (
                StatusCode::OK,
                "text/plain; charset=utf-8",
                Some(Bytes::from_static(b"ok")),
            ),
            "/readyz" => {
                let (status, body) = self.readiness();
                (status, "application/json", Some(body.to_string().into()))
            }
            _ => (
                StatusCode::NOT_FOUND,
                "text/plain; charset=utf-8",
                Some(Bytes::from_static(b"not found")),
            ),
        };
        let readable = method == Method::GET || method == Method::HEAD;
        if !readable && status != StatusCode::NOT_FOUND {
            let mut response = Response::new(Full::from("method not allowed"));
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            response
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        // hyper leaves a HEAD's body out and keeps its length.
        let body = body.unwrap_or_else(|| Bytes::from(self.metrics()));
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = status;
        response
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        response
            .headers_mut()
            .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    /// Ready is who can serve something: with several upstreams, those that are well must not
    /// suffer from the others.
    fn readiness(&self) -> (StatusCode, Json) {
        let backends = self.backends.get().into_iter().flatten();
        let backends: Vec<_> = backends.filter_map(Weak::upgrade).collect();
        let upstreams = backends.iter();
        let upstreams = upstreams.filter_map(|backend| backend.runtime.upstream());
        let leader = upstreams.clone().find_map(Upstream::leader);
        let described: Vec<_> = upstreams
            .clone()
            .map(|u| (u.name(), u.state_with_remedy()))
            .collect();
        let found: Vec<_> = upstreams.map(|u| (u.name(), u.state())).collect();
        let well = found.iter().filter(|(_, state)| *state == "well").count();
        let unreachable = found.iter().any(|(_, state)| *state == "unreachable");
        let fallen_back: Vec<_> = backends
            .iter()
            .map(|backend| backend.fallen_back())
            .collect();
        let safe = fallen_back.iter().any(|(_, safe)| *safe);
        let set_aside = fallen_back.into_iter().find_map(|(rev, _)| rev);
        let audit = self.audit.get().and_then(|audit| audit.problem());
        let is_cut_off = |cut_off: &Arc<AtomicBool>| cut_off.load(Ordering::Relaxed);
        let is_cut_off = self.cut_off.get().is_some_and(is_cut_off);
        let (status, word) = match self.stage() {
            Stage::Starting => (StatusCode::SERVICE_UNAVAILABLE, "starting"),
            Stage::Draining => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
            Stage::Ready if is_cut_off => {
                (StatusCode::SERVICE_UNAVAILABLE, "shared store unreachable")
            }
            Stage::Ready if set_aside.is_some() || safe => (StatusCode::OK, "degraded"),
            Stage::Ready if well == found.len() && audit.is_some() => (StatusCode::OK, "degraded"),
            Stage::Ready if well == found.len() => (StatusCode::OK, "ready"),
            Stage::Ready if well > 0 => (StatusCode::OK, "degraded"),
            Stage::Ready if unreachable => {
                (StatusCode::SERVICE_UNAVAILABLE, "upstream unreachable")
            }
            Stage::Ready => (StatusCode::SERVICE_UNAVAILABLE, "upstream unauthorized"),
        };
        let mut body = json!({ "status": word });
        if safe {
            body["flows"] = "safe: loaded and not started".into();
        } else if let Some(rev) = set_aside {
            body["flows"] = "fallen back: the flows deployed last did not start".into();
            body["set_aside"] = rev.into();
        }
        if let Some(problem) = audit {
            body["audit"] = problem.into();
        }
        if let Some(leader) = leader {
            body["leader"] = leader.to_string().into();
        }
        if let Some(shards) = backends.iter().find_map(|backend| backend.shard_leaders()) {
            body["shards"] = json!(shards);
        }
        for (name, state) in described {
            body["upstreams"][name] = state.into();
        }
        (status, body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_follows_the_stage_and_health_does_not() {
        let operations = Operations::new(Metrics::new(), Hosts::default());
        let status = |path| operations.answer(&Method::GET, path).status();
        assert_eq!(status("/readyz"), 503);
        operations.enter(Stage::Ready);
        assert_eq!(status("/readyz"), 200);
        operations.enter(Stage::Draining);
        assert_eq!(status("/readyz"), 503);
        assert_eq!(status("/healthz"), 200);
    }

    #[test]
    fn other_paths_and_methods_are_refused() {
        let operations = Operations::new(Metrics::new(), Hosts::default());
        assert_eq!(operations.answer(&Method::GET, "/flows").status(), 404);
        assert_eq!(operations.answer(&Method::POST, "/flows").status(), 404);
        let refused = operations.answer(&Method::POST, "/metrics");
        assert_eq!(refused.status(), 405);
        assert_eq!(
            refused.headers().get(ALLOW).map(HeaderValue::as_bytes),
            Some(&b"GET, HEAD"[..])
        );
    }

    #[test]
    fn metrics_are_text_of_version_0_0_4() {
        let operations = Operations::new(Metrics::new(), Hosts::default());
        let response = operations.answer(&Method::HEAD, "/metrics");
        let kind = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok());
        assert!(kind.is_some_and(|kind| kind.starts_with("text/plain; version=0.0.4")));
    }
}
