//! The response to a change that has become a proposal.

use super::error::{Error, Waiting};
use super::path::Path;
use super::request_context::RequestContext;
use crate::deployment;

/// The clients that take every success for a deployment (docs/reference/admin-api.md §4.2).
const EDITORS: [&str; 2] = ["service-editor", "node-red-editor"];

/// The error of a deployment; that of a change that has become a proposal says where it is.
pub(super) fn refusal(ctx: &RequestContext<'_>, error: deployment::Error) -> Error {
    let deployment::Error::Proposed(number) = error else {
        return Error::Deployment(error);
    };
    let path = Path::parse(ctx.head.uri.path()).map(|mut path| {
        path.enter(&ctx.backend.mount);
        url(&path, number)
    });
    let session = ctx.caller.as_ref().and_then(|caller| caller.session());
    Error::NeedsApproval(Waiting {
        number,
        url: path.unwrap_or_default(),
        editor: session.is_some_and(|session| EDITORS.contains(&session.client.as_str())),
    })
}

/// The path of a proposal, for clients.
pub(super) fn url(path: &Path<'_>, number: u64) -> String {
    path.endpoint(&format!("/gateway/proposals/{number}"))
}
