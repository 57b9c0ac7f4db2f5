//! `[[admin_route]]`: permissions of the paths that node packages add to the admin API.
//!
//! Without one they need `admin.read` or `admin.write` at an upstream; those of the node host what
//! `http` says. Paths that `http` lists keep their permissions.

use super::Upstream;
use super::error::SpannedError;
use super::raw;
use super::route::{
    AmbientCredentials, Authorization, PERMISSION, Route, alone, compared, is_reserved, methods,
    permission, upstream,
};
use super::setting::{Source, flag};
use toml::Spanned;

/// Converts all `[[admin_route]]` tables; two that answer for the same request are an error.
pub(super) fn admin_routes(
    raw: Vec<Spanned<raw::AdminRoute>>,
    upstreams: &[Upstream],
    has_node_host: bool,
    source: &Source<'_>,
) -> Result<Vec<Route>, SpannedError> {
    let mut routes: Vec<Route> = Vec::new();
    for table in raw {
        let span = table.span();
        if upstreams.is_empty() && !has_node_host {
            let sentence = "an [[admin_route]] is for an [upstream], or for the packages of [engine.node_host]: our own engine has none";
            return Err(SpannedError::rule(span, sentence));
        }
        let route = admin_route(table, upstreams, source)?;
        alone(&routes, &route).map_err(|path| {
            let sentence =
                format!("another [[admin_route]] has the path {path} and the same methods");
            SpannedError::rule(span, sentence)
        })?;
        routes.push(route);
    }
    Ok(routes)
}

fn admin_route(
    table: Spanned<raw::AdminRoute>,
    upstreams: &[Upstream],
    source: &Source<'_>,
) -> Result<Route, SpannedError> {
    let span = table.span();
    let raw = table.into_inner();
    let Some(path) = raw.path else {
        return Err(SpannedError::rule(span, "an [[admin_route]] needs a path"));
    };
    let place = path.span();
    let path = compared(&path, source)?;
    let prefix = flag(raw.prefix, false)?;
    let upstream = upstream(raw.upstream.as_ref(), upstreams, source)?;
    if is_reserved(&path) || (path == "/" && !prefix) {
        let sentence = "this path belongs to the admin API and the editor, whose permissions are fixed; an [[admin_route]] is for what packages add";
        return Err(SpannedError::rule(place, sentence));
    }
    let mut meant = upstreams
        .iter()
        .map(|meant| &meant.mount)
        .filter(|mount| upstream.as_ref().is_none_or(|name| *name == mount.name));
    if path == "/" && meant.any(|mount| mount.admin_root.is_empty()) {
        let sentence = "this would be every endpoint of a flow too: set the upstream's admin_root, or name a path";
        return Err(SpannedError::rule(place, sentence));
    }
    let mut methods = methods(raw.methods, source)?;
    let (permission, authorization) = match (flag(raw.public, false)?, raw.permission) {
        (true, None) => {
            if methods.iter().any(|name| name != "GET" && name != "HEAD") {
                let sentence = "only GET and HEAD of the admin API can be public, for what the editor loads before sign-in";
                return Err(SpannedError::rule(span, sentence));
            }
            if methods.is_empty() {
                methods.push("GET".to_owned());
            }
            (None, Authorization::None)
        }
        (false, Some(entry)) => {
            let permission = source.parsed(&entry, PERMISSION, permission)?;
            (Some(permission), Authorization::Ours)
        }
        _ => {
            let sentence =
                "an [[admin_route]] needs either permission = \"…\" or public = true, and not both";
            return Err(SpannedError::rule(span, sentence));
        }
    };
    Ok(Route {
        path,
        upstream,
        prefix,
        methods,
        permission,
        authorization,
        ambient: AmbientCredentials::default(),
        networks: None,
        rate_limit: None,
        same_origin: flag(raw.same_origin, false)?,
    })
}
