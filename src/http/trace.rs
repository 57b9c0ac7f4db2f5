//! The spans of a request and of its calls of an upstream.
//!
//! They name the class of the route, never the path: paths of endpoints can hold secrets, as those
//! of webhooks do. Nor is there anything of the query, the body or the header fields.

use super::request_context::RequestContext;
use crate::auth::{AuthMethod, Caller};
use crate::metrics::{Phase, method_name};
use crate::traces::{Kind, Trace, Value, random};
use crate::upstream::{self, Upstream};
use hyper::{StatusCode, Version};
use std::time::Instant;

/// Records a request that has been answered.
pub(super) fn end(ctx: &RequestContext<'_>, status: StatusCode) {
    let Some(trace) = ctx.recorded_trace() else {
        return;
    };
    let (method, class) = (method_name(&ctx.head.method), ctx.class.name());
    let mut span = trace.request(&format!("{method} {class}"), Instant::now());
    span.failed = status.is_server_error();
    span.attributes = vec![
        ("http.request.method", Value::Text(method.into())),
        (
            "http.response.status_code",
            Value::Number(status.as_u16().into()),
        ),
        (
            "network.protocol.version",
            Value::Text(version(ctx.head.version).into()),
        ),
        ("flowgate.route", Value::Text(class.into())),
        ("flowgate.request_id", Value::Text(ctx.id.clone())),
    ];
    let caller = ctx.caller.as_ref();
    let kind = caller.map(|caller| ("flowgate.user_kind", Value::Text(kind(caller).into())));
    span.attributes.extend(kind);
    let user = caller.filter(|caller| caller.is_known() && trace.has_users());
    let user = user.map(|caller| ("user.name", Value::Text(caller.user.clone())));
    span.attributes.extend(user);
    let upstream = ctx
        .upstream()
        .map(|name| ("flowgate.upstream", Value::Text(name.into())));
    span.attributes.extend(upstream);
    trace.record(span);
}

/// How the caller is known, as the audit log has it, without names.
fn kind(caller: &Caller) -> String {
    match &caller.known {
        AuthMethod::Anonymous => "anonymous".to_owned(),
        AuthMethod::Certificate(_) => "certificate".to_owned(),
        known => known.to_string(),
    }
}

/// As OpenTelemetry's `network.protocol.version` has it.
fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2",
        _ => "1.1",
    }
}

/// Begins a call of an upstream: the requests that are made from now on name it as their parent.
/// `None`: it is not recorded.
pub(super) fn begin_call(ctx: &mut RequestContext<'_>) -> Option<Instant> {
    ctx.trace.as_mut()?.begin_call();
    ctx.recorded_trace().map(|_| Instant::now())
}

/// Records a call of an upstream of which the head of the response is there, or an error.
pub(super) fn end_call(
    ctx: &RequestContext<'_>,
    upstream: &Upstream,
    began: Option<Instant>,
    answered: Result<StatusCode, &upstream::Error>,
) {
    let (Some(trace), Some(began)) = (ctx.recorded_trace(), began) else {
        return;
    };
    let method = method_name(&ctx.head.method);
    let mut span = trace.step(method, trace.call(), [began, Instant::now()]);
    span.kind = Kind::Client;
    span.attributes = vec![
        ("http.request.method", Value::Text(method.into())),
        ("flowgate.upstream", Value::Text(upstream.name().into())),
    ];
    span.attributes.push(match answered {
        Ok(status) => (
            "http.response.status_code",
            Value::Number(status.as_u16().into()),
        ),
        Err(error) => {
            let fault = error.fault().map_or("other", |fault| fault.name());
            ("error.type", Value::Text(fault.into()))
        }
    });
    span.failed = answered.map_or(true, |status| status.is_server_error());
    trace.record(span);
}

/// Records that the body of a deployment was parsed.
pub(super) fn parsed(trace: Option<&Trace>, began: Instant) {
    if let Some(trace) = trace {
        let step = trace.step(Phase::Parse.name(), random(), [began, Instant::now()]);
        trace.record(step);
    }
}
