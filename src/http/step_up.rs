//! `/gateway/step-up`: the user of a session gives the password or a second factor again, for what
//! needs a fresh one: permissions in `[auth] step_up`, and changes of passkeys.

use super::access_error::AccessError;
use super::auth::filled;
use super::error::Error;
use super::establish::{self, SignInRecord};
use super::request_context::RequestContext;
use super::response;
use super::response_body::Body;
use super::route::StepUpAction;
use super::{form, passkeys, request_body};
use crate::audit::{Actor, Event};
use crate::auth::{Auth, Caller, Session, SignIn, SignInError, Unconfirmed};
use crypto::Secret;
use hyper::{Response, StatusCode};
use serde_json::json;
use std::future::Future;

type Answer = Result<Response<Body>, Error>;

/// Handles a request by its route.
pub(super) async fn act(ctx: &mut RequestContext<'_>, action: StepUpAction) -> Answer {
    let auth = ctx.gateway.auth.clone().ok_or(Error::NotFound)?;
    if action != StepUpAction::Password && !auth.has_passkeys() {
        return Err(Error::NotFound);
    }
    match action {
        StepUpAction::Password => password(ctx, auth).await,
        StepUpAction::PasskeyOptions => options(ctx, auth).await,
        StepUpAction::Passkey => passkey(ctx, auth).await,
    }
}

/// `POST /gateway/step-up`
async fn password(ctx: &mut RequestContext<'_>, auth: Auth) -> Answer {
    let content = ctx.read_sign_in().await?;
    let caller = caller(ctx)?;
    let [password, code] = form::fields(&ctx.head.headers, &content, ["password", "code"])?;
    let client = caller.session().map(|session| session.client.to_string());
    let asked = SignIn {
        user: caller.user.to_string(),
        password: Secret::new(filled(password, "password")?),
        code: code.filter(|code| !code.is_empty()),
        scope: Vec::new(),
        here: None,
        client: client.unwrap_or_default(),
        agent: String::new(),
        address: ctx.peer.address.ip(),
    };
    let (checking, now) = (auth.clone(), ctx.now);
    let attempt = async move { checking.check_again(asked, now).await };
    finish(ctx, auth, caller, "password", attempt).await
}

/// `GET /gateway/step-up/passkey`
async fn options(ctx: &RequestContext<'_>, auth: Auth) -> Answer {
    let (caller, site, now) = (caller(ctx)?, passkeys::site(ctx)?, ctx.now);
    let task = async move { auth.begin_passkey_step_up(&caller, &site, now).await };
    let begun = ctx.control(task).await?.map_err(Error::SignIn)?;
    let no_user = || AccessError::Unconfirmed(Unconfirmed::NoUser);
    Ok(passkeys::options(&begun.ok_or_else(no_user)?))
}

/// `POST /gateway/step-up/passkey`
async fn passkey(ctx: &mut RequestContext<'_>, auth: Auth) -> Answer {
    request_body::json(&ctx.head.headers)?;
    let content = ctx.read_sign_in().await?;
    let (caller, answer) = (caller(ctx)?, passkeys::answer(ctx, &content)?);
    let (address, now) = (ctx.peer.address.ip(), ctx.now);
    let (checking, whose) = (auth.clone(), caller.clone());
    let attempt = async move {
        let checked = checking.check_second_factor(answer, &whose, address, now);
        checked.await
    };
    let response = finish(ctx, auth, caller, "passkey", attempt).await?;
    Ok(passkeys::without_challenge(response))
}

/// Runs an attempt, and records how it ends; what is not recorded does not count.
async fn finish(
    ctx: &RequestContext<'_>,
    auth: Auth,
    caller: Caller,
    by: &str,
    attempt: impl Future<Output = Result<bool, SignInError>> + Send + 'static,
) -> Answer {
    let actor = Actor {
        by: by.to_owned(),
        ..ctx.actor()
    };
    let record = SignInRecord::new(ctx, actor, json!({ "step_up": true }));
    let now = ctx.now;
    let task = async move {
        let result = attempt.await;
        let has_factor = match result {
            Ok(has_factor) => has_factor,
            Err(error) => {
                record.failed(&error);
                return Ok(Err(error));
            }
        };
        record.succeeded(Event::StepUp).await?;
        auth.step_up(&caller, has_factor, now).await?;
        Ok::<_, Error>(Ok(()))
    };
    let result = ctx.control(task).await??;
    if let Err(error) = &result {
        establish::count(ctx, Err(error));
    }
    result.map_err(Error::SignIn)?;
    Ok(response::uncached(response::empty(StatusCode::NO_CONTENT)))
}

/// A local user with a session of all permissions; other callers have no password to give.
fn caller(ctx: &RequestContext<'_>) -> Result<Caller, Error> {
    let caller = ctx.caller.clone().ok_or(Error::NoToken)?;
    if !caller.session().is_some_and(Session::is_whole_users) {
        return Err(AccessError::Unconfirmed(Unconfirmed::NoUser).into());
    }
    Ok(caller)
}

impl From<Unconfirmed> for Error {
    fn from(error: Unconfirmed) -> Self {
        match error {
            Unconfirmed::Store(error) => Self::Store(error),
            other => Self::Access(AccessError::Unconfirmed(other)),
        }
    }
}
