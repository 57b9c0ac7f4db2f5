//! The page on which browsers sign in for routes with `sign_in = "page"`: `/gateway/sign-in` and `/gateway/sign-out`.
//!
//! It needs no JavaScript. A sign-in of another site's page is refused (login CSRF), each sign-in has a new session, and the
//! sign-in leads back to a path of this host only.

use super::error::Error;
use super::page_session::{self, relative, returned};
use super::request_context::RequestContext;
use super::response;
use super::response_body::Body;
use super::route::PageAction;
use super::sign_in_html::Page;
use super::{auth, form};
use crate::audit::{Actor, Event};
use crate::auth::{Auth, Caller, PAGE, SignIn, SignInError};
use crypto::Secret;
use hyper::header::SET_COOKIE;
use hyper::{Method, Response, StatusCode};
use serde_json::json;
use std::borrow::Cow;
use std::time::Duration;

type Answer = Result<Response<Body>, Error>;

/// Handles a request by its route.
pub(super) async fn act(ctx: &mut RequestContext<'_>, action: PageAction) -> Answer {
    let auth = ctx.gateway.auth.clone();
    let auth = auth.filter(Auth::has_sign_in_page).ok_or(Error::NotFound)?;
    if action != PageAction::Show && !page_session::is_of_own_page(ctx, &Method::POST) {
        ctx.audit(Event::Denied, ctx.actor(), json!({ "reason": "origin" }));
        return Err(Error::Origin);
    }
    match action {
        PageAction::Show => Ok(show(ctx, &auth)),
        PageAction::SignIn => sign_in(ctx, auth).await,
        PageAction::SignOut => sign_out(ctx, auth).await,
    }
}

/// `GET /gateway/sign-in?return=…`
fn show(ctx: &RequestContext<'_>, auth: &Auth) -> Response<Body> {
    if let Some(caller) = signed_in(ctx, auth) {
        let page = Page::SignedIn {
            user: &caller.user,
            sign_out: &here(ctx, &page_session::sign_out(&ctx.backend.mount)),
            forbidden: false,
        };
        return response::page(StatusCode::OK, &page);
    }
    let back = back(ctx.head.uri.query().unwrap_or_default());
    form_page(ctx, (StatusCode::OK, None), &back)
}

/// The path after `return=`, to the end of the query: encoded as in a form, or as it is, because nginx cannot encode it.
fn back(query: &str) -> Cow<'_, str> {
    let back = query.strip_prefix("return=").unwrap_or_default();
    if back.starts_with('/') {
        return Cow::Borrowed(back);
    }
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.next().map_or(Cow::Borrowed(""), |(_, back)| back)
}

fn form_page(
    ctx: &RequestContext<'_>,
    (status, error): (StatusCode, Option<&str>),
    back: &str,
) -> Response<Body> {
    if !ctx.peer.secure {
        return response::page(StatusCode::FORBIDDEN, &Page::Insecure);
    }
    let page = Page::Form {
        sign_in: &here(ctx, &page_session::sign_in(&ctx.backend.mount)),
        back: returned(back).unwrap_or_default(),
        error,
    };
    response::page(status, &page)
}

/// A path as seen from that of the request.
fn here(ctx: &RequestContext<'_>, path: &str) -> String {
    relative(ctx.head.uri.path(), path)
}

fn signed_in(ctx: &RequestContext<'_>, auth: &Auth) -> Option<Caller> {
    let cookie = page_session::cookie(&ctx.head.headers)?;
    let caller = auth.identify_page(cookie, ctx.now)?;
    let address = ctx.peer.address.ip();
    auth.registry().admits(&caller, address).then_some(caller)
}

/// `POST /gateway/sign-in`
async fn sign_in(ctx: &mut RequestContext<'_>, auth: Auth) -> Answer {
    let content = ctx.read_sign_in().await?;
    if !ctx.peer.secure {
        return Ok(form_page(ctx, (StatusCode::FORBIDDEN, None), ""));
    }
    let names = ["username", "password", "code", "return"];
    let [user, password, code, back] = form::fields(&ctx.head.headers, &content, names)?;
    let back = back.unwrap_or_default();
    let asked = SignIn {
        user: auth::filled(user, "username")?,
        password: Secret::new(auth::filled(password, "password")?),
        scope: Vec::new(),
        here: None,
        code: code.filter(|code| !code.is_empty()),
        client: PAGE.to_owned(),
        agent: String::new(),
        address: ctx.peer.address.ip(),
    };
    let issued = match Box::pin(auth::establish(ctx, auth.clone(), asked)).await {
        Ok(issued) => issued,
        Err(Error::SignIn(error)) => return failed(ctx, error, &back),
        Err(other) => return Err(other),
    };
    end_session(ctx, auth).await?;
    let page = page_session::sign_in(&ctx.backend.mount);
    let location = here(ctx, returned(&back).unwrap_or(&page));
    let cookie = page_session::set_cookie(issued.token.reveal(), issued.expires_in);
    let mut response = response::see_other(&location);
    response
        .headers_mut()
        .extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
    Ok(response)
}

/// The form again, with the reason; 401 would need a scheme that browsers have a prompt of their own for.
fn failed(ctx: &RequestContext<'_>, error: SignInError, back: &str) -> Answer {
    match &error {
        SignInError::BadCredentials { .. } => {
            let reason = Some("Unknown user, wrong password, or wrong or used code.");
            Ok(form_page(ctx, (StatusCode::FORBIDDEN, reason), back))
        }
        SignInError::Throttled { wait } => {
            let reason = Some("Too many failed sign-ins. Try again later.");
            let page = form_page(ctx, (StatusCode::TOO_MANY_REQUESTS, reason), back);
            Ok(response::retry_after(page, *wait))
        }
        SignInError::InvalidScope | SignInError::Store(_) => Err(Error::SignIn(error)),
    }
}

/// `POST /gateway/sign-out`
async fn sign_out(ctx: &mut RequestContext<'_>, auth: Auth) -> Answer {
    ctx.read_sign_in().await?;
    end_session(ctx, auth).await?;
    let page = page_session::sign_in(&ctx.backend.mount);
    let mut response = response::see_other(&here(ctx, &page));
    let cookie = page_session::set_cookie("", Duration::ZERO);
    response
        .headers_mut()
        .extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
    Ok(response)
}

/// Ends the session whose cookie the browser has sent, if it has, and all that is open for it.
async fn end_session(ctx: &RequestContext<'_>, auth: Auth) -> Result<(), Error> {
    let Some(caller) = signed_in(ctx, &auth) else {
        return Ok(());
    };
    let Some(cookie) = page_session::cookie(&ctx.head.headers) else {
        return Ok(());
    };
    let cookie = Secret::new(cookie.to_owned());
    let task = async move {
        let ended = auth.end(cookie.reveal()).await;
        (ended, auth.active())
    };
    let (ended, active) = ctx.control(task).await?;
    ctx.gateway.metrics.sessions(active);
    ended?;
    let actor = Actor {
        user: caller.user.to_string(),
        by: caller.known.to_string(),
        ..ctx.actor()
    };
    ctx.audit(Event::Revoke, actor, json!({ "of": caller.user }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_to_return_to_is_read_encoded_and_as_it_is() {
        for (query, path) in [
            ("return=%2Fa%3Fb%3D1%26c", "/a?b=1&c"),
            ("return=/a?b=1&c=2", "/a?b=1&c=2"),
            ("return=", ""),
            ("", ""),
        ] {
            assert_eq!(back(query), path, "{query}");
        }
    }
}
