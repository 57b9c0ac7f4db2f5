//! The error of a change that did not happen, or not yet, for the client that has asked for it.

use super::error::{Error, Waiting};
use super::path::Path;
use super::request_context::RequestContext;
use crate::deployment;
use crate::metrics::RouteClass;

/// The stock editor's clients (docs/reference/admin-api.md §4.2).
const EDITORS: [&str; 2] = ["service-editor", "node-red-editor"];

/// The error of a deployment; that of a change that has become a proposal says where it is.
pub(super) fn refusal(ctx: &RequestContext<'_>, error: deployment::Error) -> Error {
    let error = match error {
        deployment::Error::Proposed(number) => {
            let path = Path::parse(ctx.head.uri.path()).map(|mut path| {
                path.enter(&ctx.backend.mount);
                url(&path, number)
            });
            let url = path.unwrap_or_default();
            Error::NeedsApproval(Waiting { number, url })
        }
        error @ (deployment::Error::Policy(_) | deployment::Error::Proposal(_)) => {
            Error::Deployment(error)
        }
        error => return Error::Deployment(error),
    };
    for_editor(ctx, error)
}

/// The error of a change in the form that the stock editor shows, if it is the client.
pub(super) fn for_editor(ctx: &RequestContext<'_>, error: Error) -> Error {
    if ctx.class == RouteClass::Flows && is_editor(ctx) && !is_of_gateway(ctx) {
        Error::ForEditor(Box::new(error))
    } else {
        error
    }
}

/// The path of a proposal, for clients.
pub(super) fn url(path: &Path<'_>, number: u64) -> String {
    path.endpoint(&format!("/gateway/proposals/{number}"))
}

/// Whether the request is for a path of the gateway itself, which the stock editor never asks for. The console, whose client id is
/// that of the editor, reads errors as JSON.
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
