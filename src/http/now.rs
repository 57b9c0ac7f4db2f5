//! `GET /gateway/now`: whether the runtime is well, and the last hour in numbers.

use super::error::Error;
use super::request_context::RequestContext;
use super::response;
use super::response_body::Body;
use crate::audit::rfc3339;
use crate::gateway::{Backend, Gateway};
use crate::metrics::{INTERVAL, Sample};
use hyper::{Response, StatusCode};
use serde_json::{Value as Json, json};
use std::pin::pin;

/// The runtime is that of the request: permissions at one of them are none at the others. The
/// samples are sums.
pub(super) async fn read(ctx: &mut RequestContext<'_>) -> Result<Response<Body>, Error> {
    let gateway = ctx.gateway;
    if !gateway.config.console.enabled {
        return Err(Error::NotFound);
    }
    let here = ctx.backend;
    let asked = pin!(here.flows_state());
    let (state, stopped) = ctx.during(asked).await?;
    let closed = here.deployments.closed(ctx.now);
    let body = json!({
        "time": rfc3339(ctx.now),
        "version": env!("CARGO_PKG_VERSION"),
        "build": env!("FLOWGATE_VERSION"),
        "flows": state,
        "set_aside": here.fallen_back().0,
        "stopped": stopped,
        "closed": closed.0.iter().map(|found| found.message.as_str()).collect::<Vec<_>>(),
        "runtime": runtime(here),
        "interval": INTERVAL.as_secs(),
        "samples": samples(gateway),
    });
    Ok(response::json(StatusCode::OK, body.to_string()))
}

fn runtime(backend: &Backend) -> Json {
    let Some(upstream) = backend.runtime.upstream() else {
        return json!({ "name": "engine", "state": "well" });
    };
    let mut runtime = json!({ "name": upstream.name(), "state": upstream.state() });
    if let Some(leader) = upstream.leader() {
        runtime["leader"] = leader.to_string().into();
    }
    if let Some(shards) = backend.shard_leaders() {
        runtime["shards"] = json!(shards);
    }
    runtime
}

/// One list for each number, oldest first; `null` where there is none.
fn samples(gateway: &Gateway) -> Json {
    let samples = gateway.last_hour.samples();
    let list = |number: fn(&Sample) -> f64| samples.iter().map(number).collect::<Vec<f64>>();
    json!({
        "at": samples.iter().map(|sample| sample.at).collect::<Vec<_>>(),
        "requests": list(|sample| sample.requests),
        "errors": list(|sample| sample.errors),
        "p50": list(|sample| sample.p50),
        "p99": list(|sample| sample.p99),
        "sign_ins": list(|sample| sample.sign_ins),
        "refusals": list(|sample| sample.refusals),
        "deployments": list(|sample| sample.deployments),
        "messages": list(|sample| sample.messages),
        "editors": list(|sample| sample.editors),
        "sessions": list(|sample| sample.sessions),
        "memory": list(|sample| sample.memory),
    })
}
