//! `GET /credentials/:type/:id`: a node's credentials as an editor may see them; never a password.

use crate::http::path::Path;
use crate::http::request_context::RequestContext;
use crate::http::response;
use crate::http::response_body::Body;
use hyper::{Response, StatusCode};
use serde_json::Value as Json;

pub(super) fn read(ctx: &RequestContext<'_>, path: &Path<'_>) -> Response<Body> {
    let active = ctx.backend.deployments.active();
    let id = path.parameter(2);
    // The type is the node's own, whatever was asked for: another one could show more.
    let shown = match active.flows.get(&id) {
        Some(node) => active.credentials.shown(&node.kind, &id),
        None => serde_json::Map::new(),
    };
    response::uncached(response::json(
        StatusCode::OK,
        Json::Object(shown).to_string(),
    ))
}
