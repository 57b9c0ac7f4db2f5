//! What an upstream answers in part, and the gateway completes: the settings, with the caller as
//! the user, and the state of the flows, with the stopped ones of all engines that the caller sees.

use super::error::Error;
use super::forward_change::{error_page_as_json, no_refusal};
use super::forwarding::{forwarded_request, returned_response};
use super::pass::{check_version, pass, streamed};
use super::path::Path;
use super::request_context::RequestContext;
use super::response_body::Body;
use super::visible_flows::sight;
use super::{identify, response, trace};
use crate::upstream::{self, Outgoing, Upstream};
use hyper::header::{ACCEPT, HeaderValue};
use hyper::{Method, Response, StatusCode};
use serde_json::{Map, Value as Json};
use std::pin::pin;

type Result<T = Response<Body>> = std::result::Result<T, Error>;

/// The answer of an upstream.
enum Answer {
    /// A JSON object, to be completed.
    Object(Map<String, Json>),
    /// Anything else, as it is.
    Other(Response<Body>),
}

/// `GET /settings`: with the caller as the user, whatever user the upstream names.
pub(super) async fn settings(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
    upstream: &Upstream,
) -> Result {
    let mut settings = match ask(ctx, path, upstream).await? {
        Answer::Object(settings) => settings,
        Answer::Other(response) => return Ok(response),
    };
    // Without authentication there is no user, and the editor then assumes every permission.
    match ctx.caller.as_ref().filter(|_| ctx.gateway.auth.is_some()) {
        Some(caller) => drop(settings.insert("user".to_owned(), identify::shown(caller))),
        None => drop(settings.remove("user")),
    }
    // The editor shows it before the paths of endpoints.
    let prefix = &ctx.backend.mount.prefix;
    if let Some(Json::String(root)) = settings.get_mut("httpNodeRoot") {
        root.insert_str(0, prefix);
    }
    let settings = Json::Object(settings).to_string();
    Ok(response::uncached(response::json(StatusCode::OK, settings)))
}

/// `GET /flows/state`: with the stopped flows of all engines that the caller sees.
pub(super) async fn state(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
    upstream: &Upstream,
) -> Result {
    if !ctx.reads_some_flows() && !ctx.backend.has_shards() {
        let body = streamed(ctx);
        return pass(ctx, path, body, upstream).await;
    }
    let mut state = match ask(ctx, path, upstream).await? {
        Answer::Object(state) => state,
        Answer::Other(response) => return Ok(response),
    };
    let mut stopped = match state.remove("stopped") {
        None => Vec::new(),
        Some(Json::Array(stopped)) => stopped,
        Some(_) => {
            return Err(upstream::Error::Unexpected("its stopped flows are no list").into());
        }
    };
    let backend = ctx.backend;
    let others = pin!(backend.stopped_in_shards());
    stopped.extend(ctx.during(others).await?);
    if ctx.reads_some_flows() {
        let sight = sight(ctx).await?.1;
        stopped.retain(|flow| flow["id"].as_str().is_some_and(|id| sight.sees(id)));
    }
    if !stopped.is_empty() {
        state.insert("stopped".to_owned(), stopped.into());
    }
    Ok(response::json(
        StatusCode::OK,
        Json::Object(state).to_string(),
    ))
}

/// Asks an upstream what the caller asks for, without the client's own headers: a condition or a
/// range would be about another body than the one that the client gets.
async fn ask(ctx: &mut RequestContext<'_>, path: &Path<'_>, upstream: &Upstream) -> Result<Answer> {
    check_version(ctx)?;
    let target = path.target(&ctx.outgoing().uri)?;
    let began = trace::begin_call(ctx);
    let mut watch = ctx.watch();
    let front = forwarded_request(ctx, &target, Some(upstream));
    let head = || {
        let mut request = upstream.own_head(&front);
        *request.method_mut() = Method::GET;
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(ACCEPT, json);
        request
    };
    let client = Some(ctx.peer.address.ip());
    let sent = pin!(upstream.send(head, Outgoing::empty(), client));
    let sent = watch.during(sent).await;
    let sent = sent.map_err(|lapsed| ctx.lapsed(lapsed))?;
    trace::end_call(ctx, upstream, began, sent.as_ref().map(Response::status));
    let response = sent?;
    no_refusal(upstream, response.status())?;
    if let Some(error_page) = error_page_as_json(response.status(), response.headers()) {
        return Ok(Answer::Other(error_page));
    }
    if response.status() != StatusCode::OK {
        let returned = returned_response(ctx, upstream, response).map(Body::Upstream);
        return Ok(Answer::Other(returned));
    }
    let response = upstream.whole(response).await?;
    match serde_json::from_slice(response.body()) {
        Ok(Json::Object(object)) => Ok(Answer::Object(object)),
        _ => {
            Err(upstream::Error::Unexpected("it answers something else than a JSON object").into())
        }
    }
}
