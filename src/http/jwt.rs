//! The sign-in of the first request with a JWT; further ones are found by [`super::identify`] as other tokens are.

use super::error::Error;
use super::identify;
use super::request_context::RequestContext;
use super::user_agent::user_agent;
use crate::comms::{JwtClient, sign_in_with_jwt};

/// Verifies the bearer token of a request, if it is a JWT that was not verified before.
pub(super) async fn sign_in(ctx: &RequestContext<'_>) -> Result<(), Error> {
    let Some((auth, token)) = new_token(ctx) else {
        return Ok(());
    };
    let client = JwtClient {
        actor: ctx.actor(),
        agent: user_agent(&ctx.head.headers),
        now: ctx.now,
    };
    let signed_in = sign_in_with_jwt(auth, &ctx.gateway.audit, token, client).await;
    signed_in.map_err(Error::SignInUnrecorded)?;
    ctx.gateway.metrics.sessions(auth.active());
    Ok(())
}

/// Whether a request has a JWT that was not verified before.
pub(super) fn is_new(ctx: &RequestContext<'_>) -> bool {
    new_token(ctx).is_some()
}

fn new_token<'c>(ctx: &'c RequestContext<'_>) -> Option<(&'c crate::auth::Auth, &'c str)> {
    let auth = ctx.gateway.auth.as_ref()?;
    // Another Authorization is refused later.
    let token = identify::token(&ctx.head.headers).ok()??;
    auth.is_new_jwt(token).then_some((auth, token))
}
