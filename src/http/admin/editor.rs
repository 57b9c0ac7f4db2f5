//! Serves the stock editor: its page, files, translations and icons, all as Node-RED does
//! (docs/reference/node-red-admin-api.md §5).
//!
//! Without `[editor] modules` it serves a page that explains how to get them.

use crate::editor::{self, Editor};
use crate::http::error::Error;
use crate::http::path::Path;
use crate::http::request_context::RequestContext;
use crate::http::response;
use crate::http::response_body::Body;
use crate::http::route;
use hyper::header::{ACCEPT, CONTENT_SECURITY_POLICY, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::{Map, Value as Json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The time-out for a request's permit. Our choice: longer than a browser that loads the whole
/// editor over a slow line needs, and shorter than a user waits.
const PLACE_TIMEOUT: Duration = Duration::from_secs(5);

/// The page without an editor.
const NONE: &str = include_str!("no_editor.html");

/// The catalogue that the editor loads if none is configured (`editor-client/public/red/red.js`,
/// 4.1).
const CATALOGUE: &str = "https://catalogue.nodered.org/catalogue.json";

/// Serves the parts of the editor, which need no sign-in.
pub(super) async fn load(
    ctx: &RequestContext<'_>,
    path: &Path<'_>,
    part: route::Editor,
) -> Result<Response<Body>, Error> {
    let Some(editor) = ctx.gateway.editor.clone() else {
        return match part {
            route::Editor::Page => Ok(response::html(NONE)),
            _ => Err(Error::NotFound),
        };
    };
    match part {
        route::Editor::Page => page(ctx, editor).await,
        route::Editor::Theme => Ok(theme(ctx, &editor)),
        route::Editor::Locale => words(ctx, editor, &path.parameter(1)).await,
        route::Editor::File => {
            let names = path.rest(0);
            file(ctx, editor, move |editor| editor.public(&names)).await
        }
        route::Editor::Resource => {
            let names = path.rest(1);
            file(ctx, editor, move |editor| editor.resource(&names)).await
        }
        route::Editor::DebugView => {
            let names = path.rest(2);
            file(ctx, editor, move |editor| editor.debug_view(&names)).await
        }
        route::Editor::Icon => {
            let mut names = path.rest(1);
            let name = names.pop().unwrap_or_default();
            file(ctx, editor, move |editor| {
                editor.icon(&names.join("/"), &name)
            })
            .await
        }
    }
}

/// `GET /theme`: the logo leads to the console, if there is one.
fn theme(ctx: &RequestContext<'_>, editor: &Editor) -> Response<Body> {
    let mut theme = editor.theme();
    if ctx.gateway.config.console.enabled {
        theme["header"]["url"] = "gateway/".into();
    }
    response::json(StatusCode::OK, theme.to_string())
}

/// `GET /icons`
pub(super) async fn icons(ctx: &RequestContext<'_>) -> Result<Response<Body>, Error> {
    let icons = match ctx.gateway.editor.clone() {
        Some(editor) => ctx.blocking(move || editor.icons()).await??,
        None => Map::new(),
    };
    let icons = Json::Object(icons).to_string();
    Ok(response::json(StatusCode::OK, icons))
}

/// `GET /plugins`: those of packages, as a list or as HTML.
pub(super) async fn plugins(ctx: &RequestContext<'_>) -> Result<Response<Body>, Error> {
    let editor = ctx.gateway.editor.clone();
    if wants_json(ctx) {
        let plugins = editor
            .map(|editor| editor.packages().listed_plugins())
            .unwrap_or_default();
        return Ok(response::json(
            StatusCode::OK,
            Json::Array(plugins).to_string(),
        ));
    }
    let html = match editor {
        Some(editor) => ctx.blocking(move || editor.plugins_html()).await?,
        None => String::new(),
    };
    Ok(response::html(html))
}

/// `GET …/messages`: the words of modules that are not the core's, whichever of them is asked for.
pub(super) async fn messages(ctx: &RequestContext<'_>) -> Result<Response<Body>, Error> {
    let Some(editor) = ctx.gateway.editor.clone() else {
        return Ok(response::json(StatusCode::OK, "{}"));
    };
    let language = language(ctx);
    let words = ctx
        .blocking(move || editor.package_words(&language).to_string())
        .await?;
    Ok(response::json(StatusCode::OK, words))
}

/// The language that a request for words asks for (`lng`).
fn language(ctx: &RequestContext<'_>) -> String {
    let query = ctx.head.uri.query().unwrap_or_default();
    form_urlencoded::parse(query.as_bytes())
        .find(|(name, language)| name == "lng" && !language.is_empty())
        .map_or_else(|| "en-US".to_owned(), |(_, language)| language.into_owned())
}

/// Returns whether a list is asked for instead of HTML (docs/reference/node-red-admin-api.md §2:
/// exactly so).
pub(super) fn wants_json(ctx: &RequestContext<'_>) -> bool {
    let accept = ctx.head.headers.get(ACCEPT);
    accept.is_some_and(|accept| accept.as_bytes() == b"application/json")
}

/// Waits for a place, for a limited time.
async fn place(ctx: &RequestContext<'_>, editor: &Editor) -> Result<editor::FilePermit, Error> {
    let place = editor.place(ctx.peer.address.ip());
    timeout(PLACE_TIMEOUT, place)
        .await
        .map_err(|_| Error::EditorBusy)
}

async fn page(ctx: &RequestContext<'_>, editor: Arc<Editor>) -> Result<Response<Body>, Error> {
    let page = ctx.blocking(move || editor.page()).await??;
    let mut response = response::html(page);
    let catalogues = catalogues(ctx);
    if !catalogues.is_empty()
        && let Some(policy) = response.headers_mut().get_mut(CONTENT_SECURITY_POLICY)
        && let Ok(text) = policy.to_str()
    {
        // Their addresses were checked with the configuration.
        let text = format!("{text}; connect-src 'self' {}", catalogues.join(" "));
        *policy = HeaderValue::try_from(text).map_err(|_| Error::Broken)?;
    }
    Ok(response)
}

/// The catalogues that the palette manager loads from other servers; none if no packages may be
/// installed.
fn catalogues(ctx: &RequestContext<'_>) -> Vec<String> {
    let host = ctx.gateway.config.engine.node_host.as_ref();
    match host.map(|host| &host.installs) {
        Some(installs) if !installs.are_allowed() => Vec::new(),
        Some(installs) if installs.catalogues.is_empty() => vec![CATALOGUE.to_owned()],
        Some(installs) => installs.catalogues.clone(),
        None => Vec::new(),
    }
}

/// `GET /locales/:part?lng=`
async fn words(
    ctx: &RequestContext<'_>,
    editor: Arc<Editor>,
    part: &str,
) -> Result<Response<Body>, Error> {
    let place = place(ctx, &editor).await?;
    let language = language(ctx);
    let part = part.strip_suffix(".json").unwrap_or(part).to_owned();
    let words = ctx
        .blocking(move || {
            editor
                .catalog(&part, &language)
                .map(|words| words.to_string())
        })
        .await?;
    let words = words.unwrap_or_else(|| "{}".to_owned());
    Ok(response::words(words, place))
}

async fn file(
    ctx: &RequestContext<'_>,
    editor: Arc<Editor>,
    find: impl FnOnce(&Editor) -> Option<editor::File> + Send + 'static,
) -> Result<Response<Body>, Error> {
    let place = place(ctx, &editor).await?;
    let file = ctx.blocking(move || find(&editor)).await?;
    let file = file.ok_or(Error::NotFound)?;
    let control = &ctx.gateway.control;
    Ok(response::file(&ctx.head.headers, file, control, place))
}
