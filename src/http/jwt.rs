//! The sign-in of the first request with a JWT; further ones are found by [`super::identify`] as other tokens are.

use super::error::Error;
use super::identify;
use super::request_context::RequestContext;
use super::user_agent::user_agent;
use crate::comms::{JwtClient, sign_in_with_jwt};

/// Verifies the bearer token of a request, a JWT that has no session.
pub(super) async fn sign_in(ctx: &mut RequestContext<'_>) -> Result<(), Error> {
    ctx.has_read_jwt = true;
    let Some(auth) = &ctx.gateway.auth else {
        return Ok(());
    };
    let Some(token) = identify::token(&ctx.head.headers)? else {
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
