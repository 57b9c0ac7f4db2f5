//! The page on which browsers sign in for routes with `sign_in = "page"`, and the editor where
//! there are providers: `/gateway/sign-in` and `/gateway/sign-out`.
//!
//! It needs no JavaScript; a script adds a button for passkeys. A sign-in of another site's page is
//! refused (login CSRF), each sign-in has a new session, and the sign-in leads back to a path of
//! this host only.

use super::error::Error;
use super::page_session::{self, relative, returned};
use super::request_context::RequestContext;
use super::response;
use super::response_body::Body;
use super::route::PageAction;
use super::sign_in_html::Page;
use super::{auth, establish, form, host_policy, origin, passkeys, provider_sign_out};
use crate::audit::{Actor, Event};
use crate::auth::{Auth, Caller, EDITOR, Issued, PAGE, SignIn, SignInApp, SignInError};
use crypto::Secret;
use hyper::header::SET_COOKIE;
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use serde_json::json;
use std::borrow::Cow;
use std::time::Duration;

type Answer = Result<Response<Body>, Error>;

/// Where a sign-in leads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Target {
    /// A path and query of this host; empty or another one: to no page.
    pub(super) back: String,
    /// The program that signs in.
    pub(super) app: SignInApp,
}

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

/// `GET /gateway/sign-in?return=…`, `?editor=true`, `?console=true`
fn show(ctx: &RequestContext<'_>, auth: &Auth) -> Response<Body> {
    let target = Target::of_query(ctx.head);
    if let Some(caller) = signed_in(ctx, auth)
        && target.app == SignInApp::Pages
    {
        let page = Page::SignedIn {
            user: &caller.user,
            sign_out: &here(ctx, &page_session::sign_out(&ctx.backend.mount)),
            forbidden: false,
        };
        return response::page(StatusCode::OK, &page);
    }
    form_page(ctx, StatusCode::OK, None, &target)
}

impl Target {
    /// Of a query: `editor=true`, `console=true`, or what is after `return=`, to the end: encoded
    /// as in a form, or as it is, because nginx cannot encode it.
    pub(super) fn of_query(head: &Parts) -> Self {
        let query = head.uri.query().unwrap_or_default();
        Self {
            back: back(query).into_owned(),
            app: app(query.strip_suffix("=true")),
        }
    }

    /// The same as a query.
    fn query(&self) -> String {
        if let Some(name) = name(self.app) {
            return format!("?{name}=true");
        }
        let back = returned(&self.back).map(str::as_bytes);
        back.map_or_else(String::new, |back| {
            let encoded = form_urlencoded::byte_serialize(back);
            "?return=".to_owned() + &encoded.collect::<String>()
        })
    }
}

/// The program of this name; all others are pages.
fn app(name: Option<&str>) -> SignInApp {
    match name {
        Some("editor") => SignInApp::Editor,
        Some("console") => SignInApp::Console,
        _ => SignInApp::Pages,
    }
}

/// The name of a program that gets a token.
fn name(app: SignInApp) -> Option<&'static str> {
    match app {
        SignInApp::Pages => None,
        SignInApp::Editor => Some("editor"),
        SignInApp::Console => Some("console"),
    }
}

/// The client of the session: the console's is that of its own sign-in with a password.
pub(super) fn client(app: SignInApp) -> &'static str {
    match app {
        SignInApp::Pages => PAGE,
        SignInApp::Editor | SignInApp::Console => EDITOR,
    }
}

/// The path after `return=`.
fn back(query: &str) -> Cow<'_, str> {
    let Some(back) = query.strip_prefix("return=") else {
        return Cow::Borrowed("");
    };
    if back.starts_with('/') {
        return Cow::Borrowed(back);
    }
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.next().map_or(Cow::Borrowed(""), |(_, back)| back)
}

pub(super) fn form_page(
    ctx: &RequestContext<'_>,
    status: StatusCode,
    error: Option<&str>,
    target: &Target,
) -> Response<Body> {
    if !ctx.peer.secure {
        return response::page(StatusCode::FORBIDDEN, &Page::Insecure);
    }
    let sign_in = page_session::sign_in(&ctx.backend.mount);
    let providers = ctx.gateway.auth.iter().flat_map(Auth::providers);
    let query = target.query();
    let providers: Vec<_> = providers
        .map(|provider| {
            let path = format!("{sign_in}/{}{query}", provider.name);
            (here(ctx, &path), provider.label)
        })
        .collect();
    let has_passkeys = ctx.gateway.auth.as_ref().is_some_and(Auth::has_passkeys);
    let script = has_passkeys.then(|| here(ctx, &page_session::passkey_script(&ctx.backend.mount)));
    let page = Page::Form {
        sign_in: &here(ctx, &sign_in),
        back: returned(&target.back).unwrap_or_default(),
        app: name(target.app).unwrap_or_default(),
        error,
        providers: &providers,
        passkeys: script.as_deref(),
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
        return Ok(form_page(
            ctx,
            StatusCode::FORBIDDEN,
            None,
            &Target::default(),
        ));
    }
    let names = ["username", "password", "code", "passkey", "return", "app"];
    let fields = form::fields(&ctx.head.headers, &content, names)?;
    let [user, password, code, passkey, back, wanted] = fields;
    let target = Target {
        back: back.unwrap_or_default(),
        app: app(wanted.as_deref()),
    };
    let passkey = passkey.filter(|passkey| !passkey.is_empty() && auth.has_passkeys());
    if let Some(passkey) = passkey {
        let answer = passkeys::answer(ctx, passkey.as_bytes())?;
        let client = client(target.app);
        let issued = Box::pin(establish::by_passkey(ctx, auth.clone(), answer, client)).await;
        let response = finished(ctx, auth, issued, &target).await;
        return response.map(passkeys::without_challenge);
    }
    let asked = SignIn {
        user: auth::filled(user, "username")?,
        password: Secret::new(auth::filled(password, "password")?),
        scope: Vec::new(),
        here: None,
        code: code.filter(|code| !code.is_empty()),
        client: client(target.app).to_owned(),
        agent: String::new(),
        address: ctx.peer.address.ip(),
    };
    let issued = Box::pin(establish::by_password(ctx, auth.clone(), asked)).await;
    finished(ctx, auth, issued, &target).await
}

/// The response to a sign-in that has succeeded or failed.
async fn finished(
    ctx: &RequestContext<'_>,
    auth: Auth,
    issued: Result<Issued, Error>,
    target: &Target,
) -> Answer {
    match issued {
        Ok(issued) => signed_in_response(ctx, auth, &issued, target).await,
        Err(Error::SignIn(error)) => failed(ctx, error, target),
        Err(other) => Err(other),
    }
}

/// Gives the browser its session, in place of one that it had, and leads it back. The editor and
/// the console get a token in the page, so that no URL has it.
pub(super) async fn signed_in_response(
    ctx: &RequestContext<'_>,
    auth: Auth,
    issued: &Issued,
    target: &Target,
) -> Answer {
    if let Some(app) = name(target.app) {
        let mount = &ctx.backend.mount;
        let below = match target.app {
            SignInApp::Console => "gateway/",
            SignInApp::Editor | SignInApp::Pages => "",
        };
        let path = format!("{}{}/{below}", mount.path, mount.admin_root);
        let page = Page::App {
            app,
            token: issued.token.reveal(),
            seconds: &issued.expires_in.as_secs().to_string(),
            path: &here(ctx, &path),
        };
        return Ok(response::page(StatusCode::OK, &page));
    }
    end_session(ctx, auth).await?;
    let page = page_session::sign_in(&ctx.backend.mount);
    let location = here(ctx, returned(&target.back).unwrap_or(&page));
    let cookie = page_session::set_cookie(issued.token.reveal(), issued.expires_in);
    let mut response = response::see_other(&location);
    response
        .headers_mut()
        .extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
    Ok(response)
}

/// The form again, with the reason; 401 would need a scheme that browsers have a prompt of their
/// own for.
fn failed(ctx: &RequestContext<'_>, error: SignInError, target: &Target) -> Answer {
    match &error {
        SignInError::BadCredentials { .. } | SignInError::BadPasskey { .. } => {
            let reason = Some(reason(&error));
            Ok(form_page(ctx, StatusCode::FORBIDDEN, reason, target))
        }
        SignInError::Throttled { wait } => {
            let reason = Some("Too many failed sign-ins. Try again later.");
            let page = form_page(ctx, StatusCode::TOO_MANY_REQUESTS, reason, target);
            Ok(response::retry_after(page, *wait))
        }
        SignInError::InvalidScope | SignInError::Store(_) => Err(Error::SignIn(error)),
    }
}

fn reason(error: &SignInError) -> &'static str {
    match error {
        SignInError::BadPasskey { .. } => "This passkey is not accepted.",
        _ => "Unknown user, wrong password, or wrong or used code.",
    }
}

/// `POST /gateway/sign-out`
async fn sign_out(ctx: &mut RequestContext<'_>, auth: Auth) -> Answer {
    ctx.read_sign_in().await?;
    let at_provider = at_provider(ctx, &auth).await?;
    end_session(ctx, auth).await?;
    let page = page_session::sign_in(&ctx.backend.mount);
    // A redirect of a form to another origin is what the policy of the page forbids.
    let mut response = match &at_provider {
        Some(provider) => response::page(StatusCode::OK, &Page::SignedOut { provider }),
        None => response::see_other(&here(ctx, &page)),
    };
    let cookie = page_session::set_cookie("", Duration::ZERO);
    response
        .headers_mut()
        .extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
    Ok(response)
}

/// The sign-out at the provider of the browser's session, if it has one.
async fn at_provider(ctx: &RequestContext<'_>, auth: &Auth) -> Result<Option<String>, Error> {
    let Some(caller) = signed_in(ctx, auth) else {
        return Ok(None);
    };
    let page = page_session::sign_in(&ctx.backend.mount);
    let host = origin::own(ctx).filter(|_| host_policy::is_named(ctx));
    let back = host.map(|host| format!("https://{host}{page}"));
    provider_sign_out::at_provider(ctx, auth, &caller, back).await
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
