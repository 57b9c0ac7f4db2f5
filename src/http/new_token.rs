//! The first request with a token that is not known: a JWT signs in, and a token of another gateway
//! is looked up. Further ones are found by [`super::identify`].

use super::error::Error;
use super::identify;
use super::page_session;
use super::request_context::RequestContext;
use super::user_agent::user_agent;
use crate::comms::{JwtClient, sign_in_with_jwt};

/// Verifies the bearer token of a request if it is a JWT, and looks it up if another gateway may
/// have handed it out; or the cookie of a browser.
pub(super) async fn look_up(ctx: &mut RequestContext<'_>) -> Result<(), Error> {
    ctx.has_looked_up = true;
    let Some(auth) = &ctx.gateway.auth else {
        return Ok(());
    };
    let address = ctx.peer.address.ip();
    let Some(token) = identify::token(&ctx.head.headers)? else {
        if let Some(cookie) = page_session::cookie(&ctx.head.headers) {
            auth.find_elsewhere(cookie, address, ctx.now).await?;
        }
        return Ok(());
    };
    auth.find_elsewhere(token, address, ctx.now).await?;
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
