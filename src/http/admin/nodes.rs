//! `/nodes…`: the node types that the engine has, as sets of one module, in the shape that the stock CLI and editor
//! read; for the editor also as HTML.
//!
//! Those of the core are built in: enabling one changes nothing, and disabling one is refused. Those of packages are
//! disabled while the package is left out.

use super::editor::wants_json;
use crate::editor::{CORE as MODULE, Editor};
use crate::gateway::Runtime;
use crate::http::admin_error::AdminError;
use crate::http::error::Error;
use crate::http::request_context::RequestContext;
use crate::http::response;
use crate::http::response_body::Body;
use hyper::header::ACCEPT_LANGUAGE;
use hyper::{Response, StatusCode};
use serde_json::{Value as Json, json};
use smol_str::SmolStr;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Why a package does not run, for the editor.
const LEFT_OUT: &str =
    "it has ended the node host several times in a row, and is left out until a full deployment";

/// `GET /nodes`
pub(super) async fn all(ctx: &RequestContext<'_>) -> Result<Response<Body>, Error> {
    match ctx.gateway.editor.clone().filter(|_| !wants_json(ctx)) {
        Some(editor) => {
            let language = language(ctx);
            let html = ctx.blocking(move || editor.palette(&language)).await??;
            Ok(response::html(html))
        }
        None => Ok(ok_json(&Json::from(sets(
            ctx.gateway.editor.as_deref(),
            &left_out(ctx),
        )))),
    }
}

/// `GET /nodes/:module`
pub(super) fn module(ctx: &RequestContext<'_>, name: &str) -> Result<Response<Body>, Error> {
    Ok(ok_json(&find_module(
        ctx.gateway.editor.as_deref(),
        &left_out(ctx),
        name,
    )?))
}

/// `GET /nodes/:module/:set`
pub(super) async fn set(
    ctx: &RequestContext<'_>,
    module: &str,
    name: &str,
) -> Result<Response<Body>, Error> {
    let set = find_set(
        ctx.gateway.editor.as_deref(),
        &left_out(ctx),
        (module, name),
    )?;
    match ctx.gateway.editor.clone().filter(|_| !wants_json(ctx)) {
        Some(editor) => {
            let (language, module, name) = (language(ctx), module.to_owned(), name.to_owned());
            let html = ctx
                .blocking(move || editor.set(&module, &name, &language))
                .await??;
            Ok(response::html(html.ok_or(Error::NotFound)?))
        }
        None => Ok(ok_json(&set)),
    }
}

/// `PUT /nodes/:module`
pub(super) async fn switch_module(
    ctx: &mut RequestContext<'_>,
    name: &str,
) -> Result<Response<Body>, Error> {
    let body = ctx.read_json_value().await?;
    let module = find_module(ctx.gateway.editor.as_deref(), &left_out(ctx), name);
    Ok(ok_json(&switched(body.as_ref(), module)?))
}

/// `PUT /nodes/:module/:set`
pub(super) async fn switch_set(
    ctx: &mut RequestContext<'_>,
    module: &str,
    name: &str,
) -> Result<Response<Body>, Error> {
    let body = ctx.read_json_value().await?;
    let set = find_set(
        ctx.gateway.editor.as_deref(),
        &left_out(ctx),
        (module, name),
    );
    Ok(ok_json(&switched(body.as_ref(), set)?))
}

fn ok_json(nodes: &Json) -> Response<Body> {
    response::json(StatusCode::OK, nodes.to_string())
}

/// The packages that do not run now.
type LeftOut = BTreeSet<SmolStr>;

fn left_out(ctx: &RequestContext<'_>) -> Arc<LeftOut> {
    match &ctx.backend.runtime {
        Runtime::Own(engine) => engine.packages_left_out(),
        Runtime::Upstream(_) => Arc::default(),
    }
}

fn find_module(editor: Option<&Editor>, left_out: &LeftOut, name: &str) -> Result<Json, Error> {
    let mut nodes = sets(editor, left_out);
    nodes.retain(|set| set["module"] == name);
    let version = nodes.first().map(|set| set["version"].clone());
    let version = version.ok_or(Error::NotFound)?;
    Ok(json!({ "name": name, "version": version, "nodes": nodes, "plugins": [] }))
}

fn find_set(
    editor: Option<&Editor>,
    left_out: &LeftOut,
    (module, name): (&str, &str),
) -> Result<Json, Error> {
    let mut sets = sets(editor, left_out).into_iter();
    let set = sets.find(|set| set["module"] == module && set["name"] == name);
    set.ok_or(Error::NotFound)
}

/// The existing entry, if it is as `{"enabled": …}` requests.
fn switched(body: Option<&Json>, found: Result<Json, Error>) -> Result<Json, Error> {
    let enabled = body.and_then(|body| body.get("enabled")?.as_bool());
    let enabled = enabled.ok_or_else(|| Error::Body("enabled must be true or false".into()))?;
    let found = found.map_err(|_| AdminError::NoSuchNodes)?;
    if enabled {
        Ok(found)
    } else {
        Err(AdminError::BuiltIn.into())
    }
}

/// The version of the palette, which is the editor's.
pub(super) fn version(editor: Option<&Editor>) -> &str {
    editor.map_or(env!("CARGO_PKG_VERSION"), Editor::version)
}

/// The sets of which the engine has the types: those of the editor, or of none if it is not served, those that there
/// are; and those of packages for the node host.
fn sets(editor: Option<&Editor>, left_out: &LeftOut) -> Vec<Json> {
    let version = version(editor);
    let of = |module: &str, version: &str, name: &str, types: Json| {
        let is_left_out = left_out.contains(module);
        let mut set = json!({
            "id": format!("{module}/{name}"),
            "name": name,
            "types": types,
            "enabled": !is_left_out,
            "local": module != MODULE,
            "user": module != MODULE,
            "module": module,
            "version": version,
        });
        if is_left_out {
            set["err"] = LEFT_OUT.into();
        }
        set
    };
    let shown = |name: &str, types: Json| of(MODULE, version, name, types);
    match editor {
        Some(editor) => editor
            .sets()
            .map(|(name, types)| shown(name, types.into()))
            .chain(editor.package_sets().map(|(module, version, set)| {
                of(module, version, &set.name, set.types.as_slice().into())
            }))
            .collect(),
        None => engine::nodes::sets()
            .map(|(name, types)| shown(name, types.into()))
            .collect(),
    }
}

/// The language that the caller likes best (RFC 9110 §12.5.4); of equals the first.
fn language(ctx: &RequestContext<'_>) -> String {
    let accepted = ctx.head.headers.get(ACCEPT_LANGUAGE);
    let accepted = accepted.and_then(|accepted| accepted.to_str().ok());
    liked_best(accepted.unwrap_or_default()).to_owned()
}

fn liked_best(accepted: &str) -> &str {
    let weighed = accepted.split(',').map(|range| {
        let (language, weight) = range.split_once(";q=").unwrap_or((range, "1"));
        (language.trim(), weight.trim().parse().unwrap_or(0.0_f32))
    });
    let best = weighed.fold(
        ("", 0.0),
        |best, next| if next.1 > best.1 { next } else { best },
    );
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_set_has_types_and_can_be_fetched() {
        let none = LeftOut::new();
        let listed = sets(None, &none);
        assert_eq!(listed.len(), engine::nodes::sets().count());
        for listed in listed {
            let name = listed["name"].as_str().unwrap_or_default();
            assert!(find_set(None, &none, (MODULE, name)).is_ok(), "{name}");
        }
    }

    #[test]
    fn nodes_can_be_enabled_but_not_disabled() {
        let none = LeftOut::new();
        let put =
            |body: &Json, name: &str| switched(Some(body), find_set(None, &none, (MODULE, name)));
        assert!(put(&json!({ "enabled": true }), "inject").is_ok());
        assert!(matches!(
            put(&json!({ "enabled": false }), "inject"),
            Err(Error::Admin(AdminError::BuiltIn))
        ));
        assert!(matches!(
            put(&json!({ "enabled": true }), "nope"),
            Err(Error::Admin(AdminError::NoSuchNodes))
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
        let none = LeftOut::new();
        let module = |name| find_module(None, &none, name);
        assert!(module(MODULE).is_ok());
        assert!(matches!(module("node-red-dashboard"), Err(Error::NotFound)));
        for (module, set) in [(MODULE, "nope"), ("other", "inject")] {
            assert!(matches!(
                find_set(None, &none, (module, set)),
                Err(Error::NotFound)
            ));
        }
    }

    #[test]
    fn the_language_with_the_highest_weight_is_preferred() {
        for (accepted, best) in [
            ("de", "de"),
            ("en-US,en;q=0.9,de;q=0.8", "en-US"),
            ("fr;q=0.5, ja;q=0.7", "ja"),
            ("a, b", "a"),
            ("*", "*"),
            ("", ""),
        ] {
            assert_eq!(liked_best(accepted), best, "{accepted}");
        }
    }
}
