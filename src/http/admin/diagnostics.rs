//! `GET /diagnostics`: a short report for support requests.

use crate::http::request_context::RequestContext;
use crate::http::response;
use crate::http::response_body::Body;
use hyper::{Response, StatusCode};
use serde_json::json;

pub(super) fn read(ctx: &RequestContext<'_>) -> Response<Body> {
    let deployments = &ctx.backend.deployments;
    let active = deployments.active();
    let report = json!({
        "report": "diagnostics",
        "scope": "basic",
        "os": { "platform": std::env::consts::OS, "arch": std::env::consts::ARCH },
        "runtime": {
            "version": env!("CARGO_PKG_VERSION"),
            "isStarted": deployments.running(),
            "flows": {
                "state": deployments.state(),
                "nodes": active.flows.nodes().len(),
                "tabs": active.flows.tabs().count(),
            },
        },
    });
    response::json(StatusCode::OK, report.to_string())
}
