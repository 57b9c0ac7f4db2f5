//! The error of a change that did not happen, or not yet, for the client that has asked for it.

use super::editor_refusal::for_editor;
use super::error::{Error, Waiting};
use super::path::Path;
use super::refused_permission::refused;
use super::request_context::RequestContext;
use crate::auth::{Caller, FLOWS_WRITE};
use crate::deployment;
use crate::policy::{Rule, Verdict};

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
        deployment::Error::Policy(verdict) if is_withheld(ctx, &verdict) => {
            return refused(ctx, FLOWS_WRITE);
        }
        error @ (deployment::Error::Policy(_) | deployment::Error::Proposal(_)) => {
            Error::Deployment(error)
        }
        error => return Error::Deployment(error),
    };
    for_editor(ctx, error)
}

/// Returns whether a change is refused because the right to some of its flows is withheld, as far
/// as the caller has it.
fn is_withheld(ctx: &RequestContext<'_>, verdict: &Verdict) -> bool {
    let caller = ctx.caller.as_ref();
    let withholds = |caller: &Caller| caller.permissions.withholds_part(FLOWS_WRITE, |_| true);
    verdict.rules().any(|rule| rule == Rule::Flows) && caller.is_some_and(withholds)
}

/// The path of a proposal, for clients.
pub(super) fn url(path: &Path<'_>, number: u64) -> String {
    path.endpoint(&format!("/gateway/proposals/{number}"))
}
