//! Actions of an editor on running nodes: pressing an inject button, switching debug nodes.

use crate::gateway::Runtime;
use crate::http::error::Error;
use crate::http::path::Path;
use crate::http::request_context::RequestContext;
use crate::http::response;
use crate::http::response_body::Body;
use crate::http::visible_flows::nodes_seen;
use hyper::{Response, StatusCode};
use serde_json::Value as Json;

/// `POST /inject/:id`
pub(super) async fn inject(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
) -> Result<Response<Body>, Error> {
    let body = ctx.read_json_value().await?;
    let Runtime::Own(engine) = &ctx.backend.runtime else {
        return Err(Error::NotFound);
    };
    engine.inject(&path.parameter(1), body).await?;
    Ok(response::text(StatusCode::OK, "OK"))
}

/// `POST /debug/:id/(enable|disable)`
pub(super) async fn debug_node(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
    active: bool,
) -> Result<Response<Body>, Error> {
    let Runtime::Own(engine) = &ctx.backend.runtime else {
        return Err(Error::NotFound);
    };
    engine.set_debug(vec![path.parameter(1)], active).await?;
    Ok(switched(active))
}

/// `POST /debug/(enable|disable)` with `{"nodes": […]}`; those that do not run are passed over.
pub(super) async fn debug_nodes(
    ctx: &mut RequestContext<'_>,
    active: bool,
) -> Result<Response<Body>, Error> {
    let body = ctx.read_json_if_any().await?;
    let body = nodes_seen(ctx, body).await?;
    let ids = ids(serde_json::from_slice(&body).ok().as_ref())?;
    let Runtime::Own(engine) = &ctx.backend.runtime else {
        return Err(Error::NotFound);
    };
    match engine.set_debug(ids, active).await {
        Ok(()) | Err(engine::Error::NoSuchNode) => Ok(switched(active)),
        Err(error) => Err(error.into()),
    }
}

/// `GET /udp-ports/:id`: the ports of udp in nodes that run, with which the editor warns of another
/// one.
pub(super) fn udp_ports(ctx: &RequestContext<'_>) -> Response<Body> {
    let deployments = &ctx.backend.deployments;
    let active = deployments.active();
    let nodes = active.flows.nodes().iter();
    let running = nodes
        .filter(|node| node.kind == "udp in" && deployments.running() && active.flows.runs(node));
    let mut ports: Vec<String> = running
        .filter_map(|node| match node.object().remove("port")? {
            Json::String(port) => Some(port),
            Json::Number(port) => Some(port.to_string()),
            _ => None,
        })
        .collect();
    ports.sort();
    ports.dedup();
    response::json(StatusCode::OK, Json::from(ports).to_string())
}

fn ids(body: Option<&Json>) -> Result<Vec<String>, Error> {
    let nodes = body
        .and_then(|body| body.get("nodes"))
        .and_then(Json::as_array);
    nodes
        .and_then(|nodes| {
            nodes
                .iter()
                .map(|id| id.as_str().map(str::to_owned))
                .collect()
        })
        .ok_or_else(|| Error::Body("nodes must be an array of ids".into()))
}

/// As the stock editor expects it (docs/reference/node-red-admin-api.md §2).
fn switched(active: bool) -> Response<Body> {
    if active {
        response::text(StatusCode::OK, "OK")
    } else {
        response::text(StatusCode::CREATED, "Created")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn debug_nodes_are_named_by_an_array_of_ids() {
        assert_eq!(
            ids(Some(&json!({ "nodes": ["a", "b"] }))).unwrap(),
            ["a", "b"]
        );
        for body in [
            None,
            Some(json!({})),
            Some(json!({ "nodes": "a" })),
            Some(json!({ "nodes": [1] })),
        ] {
            assert!(ids(body.as_ref()).is_err(), "{body:?}");
        }
    }
}
