//! `/nodes…`: the node types that the engine has, as sets of one module, in the shape that the stock CLI reads.
//!
//! All are built in: enabling one changes nothing, and disabling one is refused.

use crate::engine;
use crate::http::call::Call;
use crate::http::content::Body;
use crate::http::error::Error;
use crate::http::reply;
use hyper::{Response, StatusCode};
use serde_json::{Value as Json, json};

/// The module that holds the core palette.
const MODULE: &str = "node-red";

/// The sets of the core palette and their types, in the palette's order (facts engine §4.2).
const SETS: [(&str, &[&str]); 37] = [
    ("junction", &["junction"]),
    ("inject", &["inject"]),
    ("debug", &["debug"]),
    ("complete", &["complete"]),
    ("catch", &["catch"]),
    ("status", &["status"]),
    ("link", &["link in", "link call", "link out"]),
    ("comment", &["comment"]),
    ("global-config", &["global-config"]),
    ("unknown", &["unknown"]),
    ("function", &["function"]),
    ("switch", &["switch"]),
    ("change", &["change"]),
    ("range", &["range"]),
    ("template", &["template"]),
    ("delay", &["delay"]),
    ("trigger", &["trigger"]),
    ("exec", &["exec"]),
    ("rbe", &["rbe"]),
    ("tls", &["tls-config"]),
    ("httpproxy", &["http proxy"]),
    ("mqtt", &["mqtt in", "mqtt out", "mqtt-broker"]),
    ("httpin", &["http in", "http response"]),
    ("httprequest", &["http request"]),
    (
        "websocket",
        &[
            "websocket in",
            "websocket out",
            "websocket-listener",
            "websocket-client",
        ],
    ),
    ("tcpin", &["tcp in", "tcp out", "tcp request"]),
    ("udp", &["udp in", "udp out"]),
    ("CSV", &["csv"]),
    ("HTML", &["html"]),
    ("JSON", &["json"]),
    ("XML", &["xml"]),
    ("YAML", &["yaml"]),
    ("split", &["split", "join"]),
    ("sort", &["sort"]),
    ("batch", &["batch"]),
    ("file", &["file", "file in"]),
    ("watch", &["watch"]),
];

/// `GET /nodes`
pub(super) fn all() -> Response<Body> {
    reply::json(StatusCode::OK, Json::from(sets()).to_string())
}

/// `GET /nodes/:module`
pub(super) fn module(name: &str) -> Result<Response<Body>, Error> {
    if name != MODULE {
        return Err(Error::NotFound);
    }
    let module = json!({ "name": MODULE, "version": env!("CARGO_PKG_VERSION"), "nodes": sets() });
    Ok(reply::json(StatusCode::OK, module.to_string()))
}

/// `GET /nodes/:module/:set`
pub(super) fn set(module: &str, name: &str) -> Result<Response<Body>, Error> {
    let set = sets().into_iter().find(|set| set["name"] == name);
    let set = set.filter(|_| module == MODULE).ok_or(Error::NotFound)?;
    Ok(reply::json(StatusCode::OK, set.to_string()))
}

/// `PUT /nodes/:module`
pub(super) async fn switch_module(
    call: &mut Call<'_>,
    name: &str,
) -> Result<Response<Body>, Error> {
    let body = call.read_json_value().await?;
    switched(body.as_ref(), module(name))
}

/// `PUT /nodes/:module/:set`
pub(super) async fn switch_set(
    call: &mut Call<'_>,
    module: &str,
    name: &str,
) -> Result<Response<Body>, Error> {
    let body = call.read_json_value().await?;
    switched(body.as_ref(), set(module, name))
}

/// What is there already, if that is what `{"enabled": …}` wants.
fn switched(
    body: Option<&Json>,
    found: Result<Response<Body>, Error>,
) -> Result<Response<Body>, Error> {
    let enabled = body.and_then(|body| body.get("enabled")?.as_bool());
    let enabled = enabled.ok_or_else(|| Error::Body("enabled must be true or false".into()))?;
    let found = found.map_err(|_| Error::NoSuchNodes)?;
    if enabled {
        Ok(found)
    } else {
        Err(Error::BuiltIn)
    }
}

/// The sets of which the engine has a type, with those types.
fn sets() -> Vec<Json> {
    let known = |types: &[&'static str]| -> Vec<&'static str> {
        let known = types.iter().filter(|kind| engine::nodes::knows(kind));
        known.copied().collect()
    };
    SETS.iter()
        .map(|(name, types)| (name, known(types)))
        .filter(|(_, types)| !types.is_empty())
        .map(|(name, types)| {
            json!({
                "id": format!("{MODULE}/{name}"),
                "name": name,
                "types": types,
                "enabled": true,
                "local": false,
                "user": false,
                "module": MODULE,
                "version": env!("CARGO_PKG_VERSION"),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_that_is_listed_has_types_and_can_be_asked_for() {
        for listed in sets() {
            assert!(
                listed["types"]
                    .as_array()
                    .is_some_and(|types| !types.is_empty())
            );
            let name = listed["name"].as_str().unwrap_or_default();
            assert!(set(MODULE, name).is_ok(), "{name}");
        }
    }

    #[test]
    fn nodes_can_be_enabled_but_not_disabled() {
        let put = |body: &Json, name: &str| switched(Some(body), set(MODULE, name));
        assert!(put(&json!({ "enabled": true }), "inject").is_ok());
        assert!(matches!(
            put(&json!({ "enabled": false }), "inject"),
            Err(Error::BuiltIn)
        ));
        assert!(matches!(
            put(&json!({ "enabled": true }), "nope"),
            Err(Error::NoSuchNodes)
        ));
        for body in [json!({}), json!({ "enabled": "true" }), json!([])] {
            assert!(
                matches!(put(&body, "inject"), Err(Error::Body(_))),
                "{body}"
            );
        }
    }

    #[test]
    fn other_modules_and_sets_are_not_found() {
        assert!(module(MODULE).is_ok());
        assert!(matches!(module("node-red-dashboard"), Err(Error::NotFound)));
        assert!(matches!(set(MODULE, "nope"), Err(Error::NotFound)));
        assert!(matches!(set("other", "inject"), Err(Error::NotFound)));
    }
}
