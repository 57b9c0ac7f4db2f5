//! The form of a refusal for the stock editor, which shows its user the body of one as it is.

use super::error::Error;
use super::path::Path;
use super::request_context::RequestContext;
use crate::metrics::RouteClass;

/// The stock editor's clients (docs/reference/admin-api.md §4.2).
const EDITORS: [&str; 2] = ["service-editor", "node-red-editor"];

/// The error of a change in the form that the stock editor shows, if it is the client.
pub(super) fn for_editor(ctx: &RequestContext<'_>, error: Error) -> Error {
    if ctx.class == RouteClass::Flows && is_editor(ctx) && !is_of_gateway(ctx) {
        Error::ForEditor(Box::new(error))
    } else {
        error
    }
}

/// Returns whether the request is for a path of the gateway itself, which the stock editor never
/// asks for. The console, whose client id is that of the editor, reads errors as JSON.
fn is_of_gateway(ctx: &RequestContext<'_>) -> bool {
    Path::parse(ctx.head.uri.path()).is_ok_and(|mut path| {
        path.enter(&ctx.backend.mount);
        let segments = path.segments();
        segments.is_some_and(|segments| segments.as_slice().first() == Some(&"gateway"))
    })
}

fn is_editor(ctx: &RequestContext<'_>) -> bool {
    let session = ctx.caller.as_ref().and_then(|caller| caller.session());
    session.is_some_and(|session| EDITORS.contains(&session.client.as_str()))
}
