//! `GET /nodes…`: the node sets of the palette; for the editor also as HTML.

use super::editor::wants_json;
use super::node_sets::{NodeSets, packaged_subflows};
use crate::http::error::Error;
use crate::http::path::Path;
use crate::http::request_context::RequestContext;
use crate::http::response;
use crate::http::response_body::Body;
use hyper::header::ACCEPT_LANGUAGE;
use hyper::{Response, StatusCode};
use serde_json::Value as Json;

/// `GET /nodes`
pub(super) async fn all(ctx: &RequestContext<'_>) -> Result<Response<Body>, Error> {
    match ctx.gateway.editor.clone().filter(|_| !wants_json(ctx)) {
        Some(editor) => {
            let language = language(ctx);
            let packaged = packaged_subflows(&ctx.backend.runtime);
            let html = ctx
                .blocking(move || editor.palette(&language, &packaged))
                .await??;
            Ok(response::html(html))
        }
        None => Ok(ok_json(&Json::from(sets(ctx).all()))),
    }
}

/// `GET /nodes/:module`
pub(super) fn module(ctx: &RequestContext<'_>, path: &Path<'_>) -> Result<Response<Body>, Error> {
    let (module, _) = module_and_set(path);
    Ok(ok_json(&sets(ctx).module(&module)?))
}

/// `GET /nodes/:module/:set`
pub(super) async fn set(
    ctx: &RequestContext<'_>,
    path: &Path<'_>,
) -> Result<Response<Body>, Error> {
    let (module, name) = module_and_set(path);
    let set = sets(ctx).one(&module, &name)?;
    match ctx.gateway.editor.clone().filter(|_| !wants_json(ctx)) {
        Some(editor) => {
            let language = language(ctx);
            let packaged = packaged_subflows(&ctx.backend.runtime);
            let html = ctx
                .blocking(move || editor.set(&module, &name, &language, &packaged))
                .await??;
            Ok(response::html(html.ok_or(Error::NotFound)?))
        }
        None => Ok(ok_json(&set)),
    }
}

/// The palette as a request sees it.
fn sets<'a>(ctx: &RequestContext<'a>) -> NodeSets<'a> {
    NodeSets::of(ctx.gateway, &ctx.backend.runtime)
}

/// The module and the set that a path names; the name of a module with a scope is two segments.
pub(super) fn module_and_set(path: &Path<'_>) -> (String, String) {
    let mut names = path.rest(1).into_iter();
    let first = names.next().unwrap_or_default();
    let module = if first.starts_with('@') {
        format!("{first}/{}", names.next().unwrap_or_default())
    } else {
        first
    };
    (module, names.next().unwrap_or_default())
}

pub(super) fn ok_json(nodes: &Json) -> Response<Body> {
    response::json(StatusCode::OK, nodes.to_string())
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
