//! `/gateway/passkeys`: users register, list and remove their passkeys, and sign in with them.
//!
//! Each challenge is in a cookie of the browser that asked for it. A passkey is for the host of the
//! page, which must be a name of this gateway (see [`super::host_policy`]), and for exactly its
//! origin.

use super::access_error::AccessError;
use super::error::Error;
use super::establish;
use super::host_policy;
use super::origin;
use super::page_session;
use super::path::Path;
use super::request_body;
use super::request_context::RequestContext;
use super::response;
use super::response_body::Body;
use super::route::PasskeyAction;
use crate::audit::{Event, rfc3339};
use crate::auth::{
    AddPasskeyError, Auth, Caller, EDITOR, NewPasskey, PasskeyAnswer, PasskeyBegun, PasskeyInfo,
    PasskeySelector, PasskeySite,
};
use bytes::Bytes;
use hyper::header::SET_COOKIE;
use hyper::{Response, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};
use std::net::IpAddr;
use std::time::Duration;

type Answer = Result<Response<Body>, Error>;

/// The script of the sign-in page. It adds a button for passkeys; the page works without it.
const SCRIPT: &str = include_str!("passkey_button.js");

/// Handles a request by its route.
pub(super) async fn act(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
    action: PasskeyAction,
) -> Answer {
    let auth = ctx.gateway.auth.clone();
    let auth = auth.filter(Auth::has_passkeys).ok_or(Error::NotFound)?;
    match action {
        PasskeyAction::Script => Ok(script()),
        PasskeyAction::SignInOptions => {
            let begun = auth.begin_passkey_sign_in(&site(ctx)?, ctx.now);
            Ok(options(&begun.ok_or(Error::Broken)?))
        }
        PasskeyAction::SignIn => sign_in(ctx, auth).await,
        PasskeyAction::List => list(ctx, auth).await,
        PasskeyAction::RegistrationOptions => registration_options(ctx, auth).await,
        PasskeyAction::Register => register(ctx, auth).await,
        PasskeyAction::Remove => remove(ctx, auth, path.parameter(2)).await,
    }
}

/// `GET /gateway/passkeys/sign-in.js`
fn script() -> Response<Body> {
    let kind = "text/javascript; charset=utf-8";
    let script = Bytes::from_static(SCRIPT.as_bytes());
    response::uncached(response::content(StatusCode::OK, kind, script))
}

/// The page's origin and host, as the browser writes them (RFC 6454 §6.2).
pub(super) fn site(ctx: &RequestContext<'_>) -> Result<PasskeySite, Error> {
    host_policy::check_own(ctx)?;
    let own = origin::own(ctx).ok_or(Error::Host)?;
    let rp = own.host().to_ascii_lowercase();
    let bare = rp.trim_start_matches('[').trim_end_matches(']');
    if !ctx.peer.secure || bare.parse::<IpAddr>().is_ok() {
        return Err(AccessError::PasskeyHost.into());
    }
    let origin = match own.port_u16() {
        None | Some(443) => format!("https://{rp}"),
        Some(port) => format!("https://{rp}:{port}"),
    };
    Ok(PasskeySite { origin, rp })
}

/// The options of a challenge, and its cookie.
pub(super) fn options(begun: &PasskeyBegun) -> Response<Body> {
    let mut response = response::json(StatusCode::OK, begun.options.to_string());
    let cookie = page_session::set_challenge(begun.cookie.reveal(), begun.lifetime);
    response
        .headers_mut()
        .extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
    response::uncached(response)
}

/// The same response, and the browser forgets the challenge, which was used.
pub(super) fn without_challenge(mut response: Response<Body>) -> Response<Body> {
    if let Some(cookie) = page_session::set_challenge("", Duration::ZERO) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}

/// The answer of the browser, in JSON.
pub(super) fn answer(ctx: &RequestContext<'_>, text: &[u8]) -> Result<PasskeyAnswer, Error> {
    Ok(PasskeyAnswer {
        cookie: cookie(ctx),
        site: site(ctx)?,
        assertion: parsed(text)?,
    })
}

fn cookie(ctx: &RequestContext<'_>) -> String {
    let cookie = page_session::challenge_cookie(&ctx.head.headers);
    cookie.unwrap_or_default().to_owned()
}

/// No text of the client is quoted.
fn parsed<T: DeserializeOwned>(text: &[u8]) -> Result<T, Error> {
    let parsed = serde_json::from_slice(text);
    parsed.map_err(|_| Error::Parameter("the body is not what a browser returns for a passkey"))
}

/// `POST /gateway/passkeys/sign-in`
async fn sign_in(ctx: &mut RequestContext<'_>, auth: Auth) -> Answer {
    request_body::json(&ctx.head.headers)?;
    let content = ctx.read_sign_in().await?;
    let answer = answer(ctx, &content)?;
    let issued = Box::pin(establish::by_passkey(ctx, auth, answer, EDITOR)).await?;
    Ok(without_challenge(super::auth::granted(&issued)))
}

/// `GET /gateway/passkeys`: the caller's own.
async fn list(ctx: &RequestContext<'_>, auth: Auth) -> Answer {
    let user = caller(ctx)?.user;
    let task = async move { auth.passkeys(Some(&user)).await };
    let listed = ctx.control(task).await??;
    let listed: Vec<Json> = listed.iter().map(entry).collect();
    let list = json!({ "passkeys": listed }).to_string();
    Ok(response::uncached(response::json(StatusCode::OK, list)))
}

/// A passkey as its user sees it.
fn entry(info: &PasskeyInfo) -> Json {
    json!({
        "id": info.id,
        "name": info.name,
        "host": info.host,
        "created": rfc3339(info.created),
        "last_used": info.last_used.map(rfc3339),
    })
}

/// `GET /gateway/passkeys/options`
async fn registration_options(ctx: &RequestContext<'_>, auth: Auth) -> Answer {
    let (caller, site, now) = (caller(ctx)?, site(ctx)?, ctx.now);
    let task = async move { auth.begin_passkey_registration(&caller, &site, now).await };
    Ok(options(&ctx.control(task).await??))
}

/// `POST /gateway/passkeys`: one that cannot be recorded does not stay.
async fn register(ctx: &mut RequestContext<'_>, auth: Auth) -> Answer {
    request_body::json(&ctx.head.headers)?;
    let limit = ctx.gateway.config.limits.sign_in_body;
    let content = ctx.read(limit).await?;
    let new: NewPasskey = parsed(&content)?;
    let (caller, cookie, site, now) = (caller(ctx)?, cookie(ctx), site(ctx)?, ctx.now);
    let (audit, actor) = (ctx.gateway.audit.clone(), ctx.actor());
    let task = async move {
        let registered = auth.register_passkey(&caller, &cookie, &site, new, now);
        let info = registered.await?;
        let facts = json!({ "id": info.id, "name": info.name, "host": info.host });
        let written = audit.written(Event::PasskeyRegister, &actor, now, facts);
        if let Err(unavailable) = written.await {
            let which = PasskeySelector::Id(info.id);
            auth.remove_passkeys(&which).await?;
            return Err(Error::Audit(unavailable));
        }
        Ok(info)
    };
    let info = ctx.control(task).await??;
    let registered = response::json(StatusCode::CREATED, entry(&info).to_string());
    Ok(without_challenge(response::uncached(registered)))
}

/// `DELETE /gateway/passkeys/ID`
async fn remove(ctx: &RequestContext<'_>, auth: Auth, id: String) -> Answer {
    let (caller, now) = (caller(ctx)?, ctx.now);
    let task = async move {
        auth.may_change_passkeys(&caller, now).await?;
        let which = PasskeySelector::UsersOwn(caller.user.to_string(), id);
        let removed = auth.remove_passkeys(&which).await?;
        Ok::<_, AddPasskeyError>(removed)
    };
    let removed = ctx.control(task).await??;
    let removed = removed.first().ok_or(Error::NotFound)?;
    let facts = json!({ "id": removed.id, "name": removed.name, "of": removed.user });
    ctx.audit(Event::PasskeyRemove, ctx.actor(), facts);
    Ok(response::uncached(response::empty(StatusCode::NO_CONTENT)))
}

fn caller(ctx: &RequestContext<'_>) -> Result<Caller, Error> {
    let caller = ctx.caller.clone().filter(Caller::is_known);
    caller.ok_or(Error::NoToken)
}

impl From<AddPasskeyError> for Error {
    fn from(error: AddPasskeyError) -> Self {
        match error {
            AddPasskeyError::Store(error) => Self::Store(error),
            AddPasskeyError::Broken => Self::Broken,
            AddPasskeyError::Unconfirmed(error) => error.into(),
            other => Self::Access(AccessError::Passkey(other)),
        }
    }
}
