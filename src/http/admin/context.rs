//! `/context`: the context data of flows, for the editor's context sidebar
//! (docs/reference/node-red-engine.md §3.5).

use crate::gateway::Runtime;
use crate::http::error::Error;
use crate::http::path::Path;
use crate::http::request_context::RequestContext;
use crate::http::response;
use crate::http::response_body::Body;
use engine::context::{Request, Scope};
use hyper::{Response, StatusCode};
use serde_json::Value as Json;

/// `GET /context/(global|flow/:id|node/:id)[/:key]?store=…&keysOnly`
pub(super) async fn read(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
) -> Result<Response<Body>, Error> {
    let answer = ask(ctx, path, false).await?;
    Ok(response::json(StatusCode::OK, answer.to_string()))
}

/// `DELETE /context/(global|flow/:id|node/:id)/:key?store=…`
pub(super) async fn forget(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
) -> Result<Response<Body>, Error> {
    ask(ctx, path, true).await?;
    Ok(response::empty(StatusCode::NO_CONTENT))
}

async fn ask(ctx: &RequestContext<'_>, path: &Path<'_>, delete: bool) -> Result<Json, Error> {
    let Runtime::Own(engine) = &ctx.backend.runtime else {
        return Err(Error::NotFound);
    };
    let (scope, id, key) = match path.parameter(1).to_ascii_lowercase().as_str() {
        "global" => (Scope::Global, String::new(), path.rest(2)),
        "flow" => (Scope::Flow, path.parameter(2), path.rest(3)),
        _ => (Scope::Node, path.parameter(2), path.rest(3)),
    };
    let key = Some(key.join("/")).filter(|key| !key.is_empty());
    let query = ctx.head.uri.query().unwrap_or_default();
    let parameter = |name: &str| {
        form_urlencoded::parse(query.as_bytes())
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.into_owned())
    };
    let request = Request {
        scope,
        id,
        key,
        store: parameter("store").filter(|store| !store.is_empty()),
        keys_only: parameter("keysOnly").is_some(),
        delete,
        longest: ctx.gateway.config.engine.debug_length,
    };
    Ok(engine.context(request).await?)
}
