//! The sign-in of a caller who shows a JWT for the first time: verified, recorded, and then a
//! session like others.

use crate::audit::{Actor, Audit, Event, Unavailable};
use crate::auth::{Auth, InvalidJwt, JWT};
use serde_json::json;

/// The client that shows the token.
#[derive(Debug, Clone)]
pub struct JwtClient {
    /// The client for the audit log; no user yet.
    pub actor: Actor,
    /// `User-Agent`, as it may be shown.
    pub agent: String,
    /// Seconds since 1970.
    pub now: u64,
}

/// Begins the session of a bearer token that is a JWT and has none yet. A token that does not count
/// has no session afterwards either. An error: it cannot be recorded, so it must not be done.
pub async fn sign_in_with_jwt(
    auth: &Auth,
    audit: &Audit,
    token: &str,
    client: JwtClient,
) -> Result<(), Unavailable> {
    if !auth.is_new_jwt(token) {
        return Ok(());
    }
    let now = client.now;
    let mut verified = auth.verify_jwt(token, now);
    if matches!(verified, Err(InvalidJwt::UnknownKey | InvalidJwt::NoKeys)) {
        auth.fetch_jwt_keys(token, now).await;
        verified = auth.verify_jwt(token, now);
    }
    let jwt = match verified {
        Ok(jwt) => jwt,
        Err(reason) => {
            let address = client.actor.address;
            tracing::info!(?address, %reason, "a JWT is not accepted");
            return Ok(());
        }
    };
    let actor = Actor {
        user: jwt.user().to_owned(),
        by: JWT.to_owned(),
        ..client.actor
    };
    let facts = json!({ "client": JWT, "provider": jwt.provider() });
    audit.written(Event::Login, &actor, now, facts).await?;
    auth.admit_jwt(jwt, client.agent, now);
    Ok(())
}
