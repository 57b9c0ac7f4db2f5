//! `/gateway/sessions`: who is signed in. Users list and end their own sessions, and with `*` those
//! of all users.
//!
//! A session has an id that is neither its token nor a part of it. Service tokens are not listed:
//! they are made and ended by the operator, over the control socket.

use super::error::Error;
use super::path::Path;
use super::query::{flag, parameter};
use super::request_context::RequestContext;
use super::response;
use super::response_body::Body;
use super::route::SessionAction;
use crate::audit::{Event, rfc3339};
use crate::auth::{Auth, Caller, SessionInfo, SessionSelector, session_id};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use serde_json::{Value as Json, json};

/// Handles a request by its route.
pub(super) async fn act(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
    action: SessionAction,
) -> Result<Response<Body>, Error> {
    let auth = ctx.gateway.auth.clone().ok_or(Error::NotFound)?;
    let caller = ctx.caller.clone().ok_or(Error::NoToken)?;
    match action {
        SessionAction::List => Ok(list(ctx, &auth, &caller)),
        SessionAction::End => {
            let id = path.parameter(2);
            let mut listed = auth.list(ctx.now).into_iter();
            let is_there = listed.any(|listed| listed.id == id && may_see(&caller, &listed));
            if !is_there {
                return Err(Error::NotFound);
            }
            end(ctx, auth, SessionSelector::Id(id)).await
        }
        SessionAction::EndSeveral => {
            let which = selector(ctx.head)?;
            let own = matches!(&which, SessionSelector::User(user) if is_own(&caller, user));
            if !own && !caller.permissions.cover("*") {
                let facts = json!({ "needs": "*" });
                ctx.audit(Event::Denied, ctx.actor(), facts);
                return Err(Error::Scope);
            }
            end(ctx, auth, which).await
        }
    }
}

/// `GET /gateway/sessions`
fn list(ctx: &RequestContext<'_>, auth: &Auth, caller: &Caller) -> Response<Body> {
    let current = caller.session().map(session_id);
    let listed = auth.list(ctx.now).into_iter();
    let seen = listed.filter(|listed| may_see(caller, listed));
    let entries: Vec<Json> = seen
        .map(|listed| {
            let mut entry = entry(&listed);
            entry["current"] = (current.as_ref() == Some(&listed.id)).into();
            entry
        })
        .collect();
    let list = json!({ "sessions": entries }).to_string();
    response::uncached(response::json(StatusCode::OK, list))
}

/// A session as clients see it.
fn entry(listed: &SessionInfo) -> Json {
    json!({
        "id": listed.id,
        "user": listed.user,
        "client": listed.client,
        "agent": listed.agent,
        "permissions": listed.scope,
        "created": rfc3339(listed.created),
        "expires": rfc3339(listed.expires),
        "last_used": listed.last_used.map(rfc3339),
    })
}

/// Returns whether the caller may see and end a session.
fn may_see(caller: &Caller, listed: &SessionInfo) -> bool {
    listed.token().is_none() && (is_own(caller, &listed.user) || caller.permissions.cover("*"))
}

fn is_own(caller: &Caller, user: &str) -> bool {
    caller.is_known() && caller.user == user
}

/// The sessions that `DELETE /gateway/sessions?…` names: without a name, none ends.
fn selector(head: &Parts) -> Result<SessionSelector, Error> {
    let all = flag(head, "all", "all must be true or false")?;
    match (parameter(head, "user"), all) {
        (Some(user), false) => Ok(SessionSelector::User(user.into_owned())),
        (None, true) => Ok(SessionSelector::AllUsers),
        _ => Err(Error::Parameter(
            "name the sessions to end: either user=NAME or all=true",
        )),
    }
}

/// Ends sessions whether or not that can be recorded: a revocation must not depend on the audit
/// log.
async fn end(
    ctx: &RequestContext<'_>,
    auth: Auth,
    which: SessionSelector,
) -> Result<Response<Body>, Error> {
    let now = ctx.now;
    let task = async move {
        let ended = auth.end_all(&which, now).await;
        (ended.map(|ended| (which, ended)), auth.active())
    };
    let (ended, active) = ctx.control(task).await?;
    ctx.gateway.metrics.sessions(active);
    let (which, ended) = ended?;
    let fields = match which {
        SessionSelector::Id(id) => {
            let of = ended.first().map(|ended| ended.user.as_str());
            json!({ "of": of, "id": id })
        }
        SessionSelector::User(user) => json!({ "of": user, "sessions": ended.len() }),
        SessionSelector::AllUsers | SessionSelector::Token(_) => {
            json!({ "of": "*", "sessions": ended.len() })
        }
    };
    ctx.audit(Event::SessionRevoke, ctx.actor(), fields);
    let body = json!({ "revoked": ended.len() }).to_string();
    Ok(response::uncached(response::json(StatusCode::OK, body)))
}
