//! *Identify* and *authorize*: who sends a request, from where and how often, and whether that
//! suffices for its route.

use super::access_error::AccessError;
use super::basic;
use super::error::Error;
use super::forwarded_caller;
use super::identify;
use super::new_token;
use super::page_session;
use super::path::Path;
use super::rate_limit;
use super::refused_permission::refused;
use super::request_context::RequestContext;
use super::route::{self, Access, Needs, Own, Route, Target};
use super::verify;
use crate::audit::Event;
use crate::auth::FLOWS_READ;
use crate::gateway::Rules;
use crate::metrics::RouteClass;
use serde_json::json;

/// Finds the caller, and refuses one who may not do this. Returns whether the caller reads some
/// flows only.
pub(super) async fn authorize(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
    route: &Route<'_>,
    rules: &Rules,
) -> Result<bool, Error> {
    let mut networks = route.networks.iter();
    if !networks.all(|networks| networks.contains(ctx.peer.address.ip())) {
        ctx.audit(Event::Denied, ctx.actor(), json!({ "reason": "network" }));
        return Err(AccessError::Network.into());
    }
    if route.ambient.basic {
        Box::pin(basic::sign_in(ctx)).await?;
    }
    let mut caller = identified(ctx, route, rules);
    if matches!(caller, Err(Error::NewToken)) {
        Box::pin(new_token::look_up(ctx)).await?;
        caller = identified(ctx, route, rules);
    }
    let authorized = caller
        .and_then(|()| rate_limit::count(ctx, route))
        .and_then(|()| {
            if forwarded_caller::is_authorized(ctx.peer, route.target) {
                Ok(())
            } else {
                permitted(ctx, route.needs)
            }
        });
    authorized.map_err(|refusal| match refusal {
        refusal if route.ambient.page => page_session::led(ctx, refusal),
        // A browser would ask for a password itself, where the page is to do it.
        Error::NoToken if route.ambient.basic => AccessError::BasicNeeded.into(),
        refusal => refusal,
    })?;
    let some_flows = ctx.reads_some_flows();
    if some_flows {
        permitted_some_flows(ctx, path, route.target)?;
    }
    Ok(some_flows)
}

/// Finds the caller, with the permissions of this backend. An open path does not look at
/// `Authorization`.
fn identified(ctx: &mut RequestContext<'_>, route: &Route<'_>, rules: &Rules) -> Result<(), Error> {
    if route.needs == Needs::Nothing {
        return Ok(());
    }
    let admin = route.class != RouteClass::Endpoint;
    if admin && identify::token_in_query(ctx.head.uri.query()) {
        return Err(Error::TokenInQuery);
    }
    let ambient = match route.target {
        Target::Own(Own::Verify) => verify::ambient(ctx.head)?,
        _ => route.ambient,
    };
    let caller = if ctx.peer.is_gateway {
        forwarded_caller::read(&ctx.head.headers, route.target)
    } else {
        identify::caller(ctx, admin, ambient)?
    };
    // Tokens are the gateway's, good at all sites: for them counts what the caller has everywhere.
    let caller = match route.class {
        RouteClass::Auth => caller,
        _ => rules.here(caller),
    };
    let address = Some(ctx.peer.address.ip());
    ctx.caller = Some(match &ctx.gateway.auth {
        Some(auth) => auth.registry().conditioned(caller, address),
        None => caller,
    });
    Ok(())
}

/// Refuses a caller who lacks the permission that is needed: scope and user must both cover it.
fn permitted(ctx: &RequestContext<'_>, needs: Needs<'_>) -> Result<(), Error> {
    let caller = ctx.caller.as_ref().map(|caller| &caller.permissions);
    let (need, granted) = match needs {
        Needs::Nothing | Needs::Anyone => return Ok(()),
        Needs::Permission(need) => (need, caller.is_some_and(|had| had.cover(need))),
        Needs::SomeFlow(need) => (need, caller.is_some_and(|had| had.cover_some(need))),
    };
    ctx.gateway.metrics.permission_check(granted);
    if granted {
        return Ok(());
    }
    Err(refused(ctx, need))
}

/// Refuses a caller who reads some flows only what is about all of them.
fn permitted_some_flows(
    ctx: &RequestContext<'_>,
    path: &Path<'_>,
    target: Target,
) -> Result<(), Error> {
    if route::access(target, path) == Access::Nothing {
        ctx.audit(Event::Denied, ctx.actor(), json!({ "needs": FLOWS_READ }));
        return Err(Error::SomeFlows);
    }
    Ok(())
}
