//! The refusal of a permission: the caller does not have it, or may not use it at the moment.

use super::access_error::AccessError;
use super::editor_refusal::for_editor;
use super::error::Error;
use super::request_context::RequestContext;
use crate::audit::Event;
use crate::auth::WithheldReason;
use serde_json::json;

/// The refusal of a permission that the caller does not have, or may not use at the moment.
pub(super) fn refused(ctx: &RequestContext<'_>, need: &str) -> Error {
    let caller = ctx.caller.as_ref();
    let Some(withheld) = caller.and_then(|caller| caller.permissions.withheld(need)) else {
        ctx.audit(Event::Denied, ctx.actor(), json!({ "needs": need }));
        return Error::Scope;
    };
    let (reason, error) = match withheld {
        WithheldReason::Network => ("network", AccessError::Network),
        WithheldReason::SecondFactorOld(after) => {
            let minutes = after.as_secs().div_ceil(60);
            ("second_factor", AccessError::SecondFactorOld { minutes })
        }
        WithheldReason::NoSecondFactor => ("second_factor", AccessError::NoSecondFactor),
    };
    ctx.audit(
        Event::Denied,
        ctx.actor(),
        json!({ "needs": need, "reason": reason }),
    );
    for_editor(ctx, error.into())
}
