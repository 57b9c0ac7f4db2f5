//! Decides which hosts are served, those of `[server] hosts` (RFC 9110 §7.4), and under which of
//! them a caller needs no token.
//!
//! A page of a name that an attacker lets resolve to the gateway (DNS rebinding) is same-origin for
//! its browser, so [`super::origin`] takes it for ours. No browser sends it a token, but it can use
//! what needs none.

use super::error::Error;
use super::forwarded;
use super::host;
use super::host_error::HostError;
use super::request_context::RequestContext;
use crate::config::Host;
use crate::metrics::RouteClass;

/// Characters of a refused host in the log: the most that a name has (RFC 1035 §2.3.4).
const MAX_LENGTH: usize = 255;

/// Refuses a request for a host that is not listed, if there is a list.
pub(super) fn check(ctx: &RequestContext<'_>) -> Result<(), Error> {
    let hosts = &ctx.gateway.hosts;
    if hosts.answers_all() || every(ctx, |host| hosts.answers(host)) {
        return Ok(());
    }
    if hosts.is_first_refusal() {
        tracing::warn!(
            host = asked(ctx),
            "a host is refused that is not in [server] hosts; further ones are in the access log only, with status 421"
        );
    }
    Err(HostError::NotListed.into())
}

/// Refuses endpoints under a host that is not theirs, and everything else under one that is, if
/// they have hosts of their own. The gateway in front has decided it for its engine.
pub(super) fn check_side(ctx: &RequestContext<'_>) -> Result<(), Error> {
    let hosts = &ctx.gateway.hosts;
    if !hosts.separates_endpoints() || ctx.peer.is_gateway {
        return Ok(());
    }
    let (is_right, error) = if ctx.class == RouteClass::Endpoint {
        let is_right = every(ctx, |host| hosts.is_of_endpoints(host));
        (is_right, HostError::NotOfEndpoints)
    } else {
        let is_right = every(ctx, |host| !hosts.is_of_endpoints(host));
        (is_right, HostError::OfEndpoints)
    };
    if is_right { Ok(()) } else { Err(error.into()) }
}

/// Refuses a caller without a token under a name that could be an attacker's. No browser sends what
/// the gateway in front sends.
pub(super) fn check_own(ctx: &RequestContext<'_>) -> Result<(), Error> {
    if ctx.peer.is_gateway || is_own(ctx) {
        return Ok(());
    }
    if ctx.gateway.hosts.is_first_refusal() {
        tracing::warn!(
            host = asked(ctx),
            "a request without a token is refused, because its host is not a name of this gateway. If it is, add it \
             to [server] hosts; if not, a web page tried DNS rebinding. Further ones are in the access log only, with \
             status 421"
        );
    }
    Err(HostError::NotOwn.into())
}

/// Returns whether the request is for a name or an address that only the gateway can have.
pub(super) fn is_own(ctx: &RequestContext<'_>) -> bool {
    every(ctx, |host| ctx.gateway.hosts.is_own(host))
}

/// Refuses a host that neither the configuration nor a certificate names, for a URL that is made of
/// it and counts elsewhere.
pub(super) fn check_named(ctx: &RequestContext<'_>) -> Result<(), Error> {
    if is_named(ctx) {
        return Ok(());
    }
    tracing::warn!(
        host = asked(ctx),
        "a sign-in with a provider is refused, because its redirect URI would have a host that neither [server] hosts nor a \
         certificate names: add it there, or set redirect_url of the [[auth.oidc]]"
    );
    Err(HostError::NotOwn.into())
}

/// Returns whether the configuration or a certificate names the host of the request.
pub(super) fn is_named(ctx: &RequestContext<'_>) -> bool {
    every(ctx, |host| ctx.gateway.hosts.is_named(host))
}

/// Returns whether this holds for the host that the client asked for. Of several that proxies name
/// one after the other the first may be the client's own words, so it must hold for all. A request
/// that names none (HTTP/1.0) is no browser's.
fn every(ctx: &RequestContext<'_>, holds: impl Fn(Host<'_>) -> bool) -> bool {
    let port = if ctx.peer.secure { 443 } else { 80 };
    let holds = |host: &str| Host::parse(host, port).is_some_and(&holds);
    let mut forwarded = forwarded::hosts(ctx).peekable();
    if forwarded.peek().is_some() {
        return forwarded.all(holds);
    }
    host::authority(ctx.head).is_none_or(holds)
}

/// The host that the client asked for, for the log.
fn asked<'c>(ctx: &RequestContext<'c>) -> &'c str {
    let forwarded = forwarded::hosts(ctx).next();
    let host = forwarded.or_else(|| host::authority(ctx.head));
    let host = host.unwrap_or_default();
    host.get(..MAX_LENGTH).unwrap_or(host)
}
