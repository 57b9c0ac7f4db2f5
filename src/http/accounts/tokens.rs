//! `/gateway/tokens`: users list, make and revoke the service tokens of machines.
//!
//! A token that is made here acts within the rights of the user who makes it. Its text is in one
//! response, and nowhere else.

use crate::audit::{Event, rfc3339};
use crate::auth::{Auth, Caller, CreateTokenError, NEVER, NewToken, SessionInfo, SessionSelector};
use crate::config::permission_hint;
use crate::http::access_error::AccessError;
use crate::http::error::Error;
use crate::http::request_body;
use crate::http::request_context::RequestContext;
use crate::http::response;
use crate::http::response_body::Body;
use hyper::{Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value as Json, json};
use std::time::Duration;

type Answer = Result<Response<Body>, Error>;

/// Seconds that a token lives for unless the request says. Our choice, as `flowgate token create`:
/// 90 days.
const LIFETIME: u64 = 90 * 86_400;

/// The body of `POST /gateway/tokens`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    name: String,
    permissions: Vec<String>,
    #[serde(default)]
    networks: Vec<String>,
    rate_limit: Option<String>,
    expires_in: Option<u64>,
}

/// `GET /gateway/tokens`
pub(super) fn list(ctx: &RequestContext<'_>, auth: &Auth) -> Response<Body> {
    let listed = auth.tokens(ctx.now);
    let listed: Vec<Json> = listed.iter().map(entry).collect();
    let list = json!({ "tokens": listed }).to_string();
    response::uncached(response::json(StatusCode::OK, list))
}

/// A token as clients see it.
fn entry(listed: &SessionInfo) -> Json {
    json!({
        "id": listed.id,
        "name": listed.token(),
        "creator": listed.creator,
        "permissions": listed.scope,
        "networks": listed.networks,
        "created": rfc3339(listed.created),
        "expires": (listed.expires != NEVER).then(|| rfc3339(listed.expires)),
        "last_used": listed.last_used.map(rfc3339),
    })
}

/// `POST /gateway/tokens`: recorded before it is made.
pub(super) async fn create(ctx: &mut RequestContext<'_>, auth: Auth) -> Answer {
    request_body::json(&ctx.head.headers)?;
    let limit = ctx.gateway.config.limits.sign_in_body;
    let content = ctx.read(limit).await?;
    let asked: Asked = serde_json::from_slice(&content)
        .map_err(|error| Error::Body(format!("the body is no new token: {error}")))?;
    let made = NewToken {
        name: asked.name,
        permissions: asked.permissions,
        networks: asked.networks,
        rate_limit: asked.rate_limit,
        lifetime: Some(Duration::from_secs(asked.expires_in.unwrap_or(LIFETIME))),
    };
    let caller = ctx.caller.clone().filter(Caller::is_known);
    let (caller, now) = (caller.ok_or(Error::NoToken)?, ctx.now);
    let (audit, actor) = (ctx.gateway.audit.clone(), ctx.actor());
    let (making, name) = (auth.clone(), made.name.clone());
    let warnings = warnings(ctx, &made.permissions);
    let task = async move {
        making.may_create_token(&caller, &made, now).await?;
        let facts = json!({
            "name": made.name, "permissions": made.permissions, "networks": made.networks,
            "rate_limit": made.rate_limit, "lifetime": made.lifetime.map(|lifetime| lifetime.as_secs()),
        });
        audit
            .written(Event::TokenCreate, &actor, now, facts)
            .await?;
        let issued = making.create_token(made, Some(&caller.user), now).await?;
        Ok::<_, Error>(issued)
    };
    let issued = ctx.control(task).await?;
    if let Err(Error::Access(AccessError::Token(CreateTokenError::NotHeld(more)))) = &issued {
        ctx.audit(Event::Denied, ctx.actor(), json!({ "needs": more }));
    }
    let issued = issued?;
    ctx.gateway.metrics.sessions(auth.active());
    let tokens = auth.tokens(now);
    let of_name = tokens.iter().find(|listed| listed.token() == Some(&name));
    let mut shown = entry(of_name.ok_or(Error::Broken)?);
    shown["token"] = issued.token.reveal().into();
    if !warnings.is_empty() {
        shown["warnings"] = warnings.into();
    }
    let made = response::json(StatusCode::CREATED, shown.to_string());
    Ok(response::uncached(made))
}

/// Hints at permissions that nothing needs here.
fn warnings(ctx: &RequestContext<'_>, permissions: &[String]) -> Vec<String> {
    let rules = ctx.backend.rules.load();
    let routes = rules.paths.endpoints.iter().chain(&rules.paths.admin);
    let of_routes = routes.filter_map(|route| route.permission.as_deref());
    let of_routes: Vec<&str> = of_routes.collect();
    let hints = permissions.iter();
    hints
        .filter_map(|name| permission_hint(name, &of_routes))
        .collect()
}

/// `DELETE /gateway/tokens/NAME`: whether or not that can be recorded, as a revocation must not
/// depend on the audit log.
pub(super) async fn revoke(ctx: &RequestContext<'_>, auth: Auth, name: String) -> Answer {
    let now = ctx.now;
    let which = SessionSelector::Token(name.clone());
    let task = async move {
        let ended = auth.end_all(&which, now).await;
        (ended, auth.active())
    };
    let (ended, active) = ctx.control(task).await?;
    ctx.gateway.metrics.sessions(active);
    if ended?.is_empty() {
        return Err(Error::NotFound);
    }
    ctx.audit(Event::TokenRevoke, ctx.actor(), json!({ "name": name }));
    Ok(response::uncached(response::empty(StatusCode::NO_CONTENT)))
}

impl From<CreateTokenError> for Error {
    fn from(error: CreateTokenError) -> Self {
        match error {
            CreateTokenError::Store(error) => Self::Store(error),
            other => Self::Access(AccessError::Token(other)),
        }
    }
}
