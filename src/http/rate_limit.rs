//! Limits the requests of a user, a service token and a `[[route]]`, and tells clients what is left
//! of each limit.
//!
//! The fields are those of draft-ietf-httpapi-ratelimit-headers-10: `RateLimit-Policy` (§3) and
//! `RateLimit` (§4).

use super::access_error::AccessError;
use super::clock::unix_time;
use super::error::Error;
use super::request_context::RequestContext;
use super::route::Route;
use crate::auth::Caller;
use crate::gateway::{Counted, LimitState};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use smol_str::SmolStr;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const STATE: HeaderName = HeaderName::from_static("ratelimit");

/// Counts a request whose caller is known, against all of its limits. An error: it is over one of
/// them.
pub(super) fn count(ctx: &mut RequestContext<'_>, route: &Route<'_>) -> Result<(), Error> {
    let caller = ctx.caller.as_ref().filter(|caller| caller.is_known());
    let auth = ctx.gateway.auth.as_ref();
    let of_user = caller.zip(auth).and_then(|(caller, auth)| {
        let limit = auth.registry().rate_limit(caller)?;
        Some(("user", Counted::User(caller.user.clone()), limit))
    });
    let of_route = route.limited.and_then(|rule| {
        let user = caller.map_or_else(SmolStr::default, |caller: &Caller| caller.user.clone());
        let counted = Counted::at_route(rule, &user, ctx.peer.address.ip());
        Some(("route", counted, rule.rate_limit?))
    });
    if of_user.is_none() && of_route.is_none() {
        return Ok(());
    }
    let now = u64::try_from(unix_time().as_millis()).unwrap_or(u64::MAX);
    let limits = &ctx.gateway.rate_limits;
    let all = of_user.into_iter().chain(of_route);
    let counts: Vec<_> = all
        .map(|(name, counted, limit)| (name, limits.count(counted, limit, now)))
        .collect();
    let wait = counts.iter().filter_map(|(_, quota)| quota.wait).max();
    ctx.rate_limits = counts;
    wait.map_or(Ok(()), |wait| Err(AccessError::RateLimited { wait }.into()))
}

/// Adds the fields for a request that was counted, in place of those of a flow or an upstream.
pub(super) fn tell(counts: &[(&str, LimitState)], headers: &mut HeaderMap) {
    if counts.is_empty() {
        return;
    }
    let policies = counts.iter().map(|(name, quota)| {
        let limit = quota.limit;
        format!(
            "\"{name}\";q={};w={}",
            limit.requests,
            limit.period.as_secs()
        )
    });
    let states = counts.iter().map(|(name, quota)| {
        let full = quota.full.as_millis().div_ceil(1000);
        format!("\"{name}\";r={};t={full}", quota.left)
    });
    for (field, items) in [
        (POLICY, policies.collect::<Vec<_>>()),
        (STATE, states.collect()),
    ] {
        if let Ok(value) = HeaderValue::try_from(items.join(", ")) {
            headers.insert(field, value);
        }
    }
}
