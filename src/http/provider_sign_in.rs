//! Sign-in with a provider of OpenID Connect, below `/gateway/sign-in/NAME`: the way there, the way
//! back, and the sign-outs that the provider asks for.
//!
//! The way back counts in the browser that has begun it only, by a cookie (login CSRF), and leads
//! to a path of this host only.

use super::access_error::AccessError;
use super::clock::unix_time;
use super::error::Error;
use super::page_session::{self, returned};
use super::path::Path;
use super::request_context::RequestContext;
use super::response;
use super::response_body::Body;
use super::route::ProviderAction;
use super::sign_in_page::{self, Target};
use super::user_agent::user_agent;
use super::{auth, form, host_policy, origin};
use crate::audit::{Actor, Event};
use crate::auth::{
    Auth, Issued, LogoutOf, OidcClient, OidcError, OidcUser, PendingSignIn, ProviderReturn,
};
use crate::config::RateLimit;
use crate::gateway::{Client, Counted};
use crypto::Secret;
use hyper::header::SET_COOKIE;
use hyper::{Response, StatusCode};
use limits::ip_prefix::IpPrefix;
use serde_json::json;
use smol_str::SmolStr;
use std::time::Duration;

type Answer = Result<Response<Body>, Error>;

/// Requests of one address (IPv6: a /64, four times as many of a /56, eight times of a /48). Our
/// choice: an office that signs in on Monday morning, two requests each.
const LIMIT: RateLimit = RateLimit {
    requests: 300,
    period: Duration::from_mins(1),
};

/// Handles a request by its route.
pub(super) async fn act(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
    action: ProviderAction,
) -> Answer {
    let auth = ctx.gateway.auth.clone().ok_or(Error::NotFound)?;
    let provider = path.parameter(2);
    if !auth.providers().iter().any(|known| known.name == provider) {
        return Err(Error::NotFound);
    }
    // The provider itself may send many at a time, and they are signed.
    if action != ProviderAction::BackChannelLogout {
        limit(ctx)?;
    }
    match action {
        ProviderAction::Begin => begin(ctx, auth, provider).await,
        ProviderAction::Callback => callback(ctx, auth, provider).await,
        ProviderAction::BackChannelLogout => back_channel_logout(ctx, auth, provider).await,
        ProviderAction::FrontChannelLogout => front_channel_logout(ctx, auth, provider).await,
    }
}

/// Refuses an address that sends too many: each may be a request to the provider.
fn limit(ctx: &RequestContext<'_>) -> Result<(), Error> {
    let client = Client::Address(IpPrefix::of(ctx.peer.address.ip()));
    let counted = Counted::Route(SmolStr::new_static("/gateway/sign-in/:provider"), client);
    let now = u64::try_from(unix_time().as_millis()).unwrap_or(u64::MAX);
    let state = ctx.gateway.rate_limits.count(counted, LIMIT, now);
    state
        .wait
        .map_or(Ok(()), |wait| Err(AccessError::RateLimited { wait }.into()))
}

/// `GET /gateway/sign-in/NAME`: leads the browser to the provider.
async fn begin(ctx: &RequestContext<'_>, auth: Auth, provider: String) -> Answer {
    let target = Target::of_query(ctx.head);
    if !ctx.peer.secure {
        return Ok(sign_in_page::form_page(
            ctx,
            StatusCode::FORBIDDEN,
            None,
            &target,
        ));
    }
    let redirect_uri = redirect_uri(ctx, &auth, &provider)?;
    let pending = PendingSignIn {
        provider,
        redirect_uri,
        back: returned(&target.back).unwrap_or_default().to_owned(),
        app: target.app,
        ..PendingSignIn::default()
    };
    let now = ctx.now;
    let task = async move { auth.begin_oidc(pending, now).await };
    match ctx.control(task).await? {
        Ok(begun) => {
            let mut response = response::see_other(&begun.location);
            let cookie = page_session::set_pending(begun.cookie.reveal(), begun.lifetime);
            response
                .headers_mut()
                .extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
            Ok(response)
        }
        Err(error) => Ok(failed(ctx, &error, &target)),
    }
}

/// The address of [`callback`], as the browser sees it: as configured, or of a host that the
/// configuration or a certificate names. The provider sends the code there, and `Host` is the
/// client's word.
fn redirect_uri(ctx: &RequestContext<'_>, auth: &Auth, provider: &str) -> Result<String, Error> {
    if let Some(url) = auth.redirect_url(provider) {
        return Ok(url.to_string());
    }
    host_policy::check_named(ctx)?;
    let host = origin::own(ctx).ok_or(Error::Host)?;
    let page = page_session::sign_in(&ctx.backend.mount);
    Ok(format!("https://{host}{page}/{provider}/callback"))
}

/// `GET /gateway/sign-in/NAME/callback`: the provider's response.
async fn callback(ctx: &RequestContext<'_>, auth: Auth, provider: String) -> Answer {
    let returned = provider_return(ctx)?;
    let cookie = page_session::pending_cookie(&ctx.head.headers).unwrap_or_default();
    let pending = auth.pending_oidc(&provider, cookie, &returned, ctx.now);
    let pending = match pending {
        Ok(pending) => pending,
        Err(error) => {
            refused(ctx, &provider, &error);
            return Ok(failed(ctx, &error, &Target::default()));
        }
    };
    let target = Target {
        back: pending.back.clone(),
        app: pending.app,
    };
    match established(ctx, auth.clone(), pending, returned).await? {
        Ok(issued) => {
            let response = sign_in_page::signed_in_response(ctx, auth, &issued, &target).await;
            response.map(without_pending)
        }
        Err(error) => {
            refused(ctx, &provider, &error);
            Ok(without_pending(failed(ctx, &error, &target)))
        }
    }
}

/// Asks the provider for the user, records the sign-in, and begins the session.
async fn established(
    ctx: &RequestContext<'_>,
    auth: Auth,
    pending: PendingSignIn,
    returned: ProviderReturn,
) -> Result<Result<Issued, OidcError>, Error> {
    let now = ctx.now;
    let client = OidcClient {
        client: sign_in_page::client(pending.app).to_owned(),
        agent: user_agent(&ctx.head.headers),
        address: ctx.peer.address.ip(),
    };
    let (audit, actor, upstream) = (ctx.gateway.audit.clone(), ctx.actor(), ctx.upstream());
    let mut facts = json!({ "client": client.client, "provider": pending.provider });
    if let Some(upstream) = upstream {
        facts["upstream"] = upstream.into();
    }
    let task = async move {
        let user: OidcUser = match auth.finish_oidc(&pending, returned, now).await {
            Ok(user) => user,
            Err(error) => {
                auth.release_oidc(&pending);
                return Ok(Err(error));
            }
        };
        let actor = Actor {
            user: user.user().to_owned(),
            by: "oidc".to_owned(),
            ..actor
        };
        audit.written(Event::Login, &actor, now, facts).await?;
        let admitted = auth.admit_oidc(user, client, now).await;
        if let Ok(issued) = &admitted
            && issued.ended > 0
        {
            let facts = json!({
                "of": actor.user, "sessions": issued.ended, "reason": "sessions_per_user",
            });
            audit.record(Event::SessionRevoke, &actor, now, facts);
        }
        Ok(admitted)
    };
    let done = ctx.control(task).await?;
    done.map_err(Error::SignInUnrecorded)
}

/// The fields of the provider's response, each once.
fn provider_return(ctx: &RequestContext<'_>) -> Result<ProviderReturn, Error> {
    let mut found = ProviderReturn::default();
    let mut code = None;
    let query = ctx.head.uri.query().unwrap_or_default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let field = match &*name {
            "code" => &mut code,
            "state" => &mut found.state,
            "iss" => &mut found.issuer,
            "error" => &mut found.error,
            _ => continue,
        };
        if field.replace(value.into_owned()).is_some() {
            return Err(Error::Parameter("a field of the response is there twice"));
        }
    }
    found.code = code.map(Secret::new);
    Ok(found)
}

/// `POST /gateway/sign-in/NAME/back-channel-logout`: the provider itself ends sessions.
async fn back_channel_logout(ctx: &mut RequestContext<'_>, auth: Auth, provider: String) -> Answer {
    let content = ctx.read_sign_in().await?;
    let [token] = form::fields(&ctx.head.headers, &content, ["logout_token"])?;
    let token = Secret::new(auth::filled(token, "logout_token")?);
    let (now, name, verifying) = (ctx.now, provider.clone(), auth.clone());
    let task = async move { verifying.verify_logout(&name, token.reveal(), now).await };
    match ctx.control(task).await? {
        Ok(of) => {
            end(ctx, auth, provider, of).await?;
            Ok(response::uncached(response::empty(StatusCode::OK)))
        }
        Err(OidcError::Store(error)) => Err(error.into()),
        Err(error) => {
            refused(ctx, &provider, &error);
            Err(Error::Form("the logout token is not accepted".to_owned()))
        }
    }
}

/// `GET /gateway/sign-in/NAME/front-channel-logout`: a page of the provider in a frame ends the
/// sessions of one of its own. The id is known to the provider and to flowgate only.
async fn front_channel_logout(ctx: &RequestContext<'_>, auth: Auth, provider: String) -> Answer {
    let query = ctx.head.uri.query().unwrap_or_default();
    let value = |wanted: &str| {
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        pairs.find_map(|(name, value)| (name == wanted).then(|| value.into_owned()))
    };
    let issuer = value("iss").unwrap_or_default();
    let session = value("sid").filter(|_| auth.is_issuer_of(&provider, &issuer));
    if session.is_some() {
        let of = LogoutOf {
            subject: None,
            session,
        };
        end(ctx, auth, provider, of).await?;
    }
    Ok(response::uncached(response::empty(StatusCode::OK)))
}

async fn end(
    ctx: &RequestContext<'_>,
    auth: Auth,
    provider: String,
    of: LogoutOf,
) -> Result<(), Error> {
    let (ending, name) = (auth.clone(), provider.clone());
    let task = async move { ending.end_oidc(&name, &of).await };
    let (users, forgotten) = ctx.control(task).await?;
    for user in users {
        let fields = json!({ "of": user, "sessions": 1, "provider": provider });
        ctx.audit(Event::SessionRevoke, ctx.actor(), fields);
    }
    ctx.gateway.metrics.sessions(auth.active());
    Ok(forgotten?)
}

/// Records why a provider's response does not count.
fn refused(ctx: &RequestContext<'_>, provider: &str, error: &OidcError) {
    tracing::warn!(id = ctx.id.as_str(), provider, %error, "a sign-in or sign-out with a provider failed");
    let facts = json!({ "provider": provider });
    ctx.audit(Event::LoginProvider, ctx.actor(), facts);
}

/// The sign-in page with the reason: the user's words, while the log has the provider's.
fn failed(ctx: &RequestContext<'_>, error: &OidcError, target: &Target) -> Response<Body> {
    let (status, reason) = match error {
        OidcError::Unreachable(_) | OidcError::Invalid(_) | OidcError::Token(_) => (
            StatusCode::BAD_GATEWAY,
            "The provider cannot be reached or gives no valid answer. Try again later.",
        ),
        OidcError::NoGrant | OidcError::Network => (
            StatusCode::FORBIDDEN,
            "This user has no permissions here, or not from this network.",
        ),
        OidcError::Store(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "The sign-in cannot be kept at the moment. Try again later.",
        ),
        OidcError::NoProvider
        | OidcError::Refused(_)
        | OidcError::NotBegun
        | OidcError::Replayed
        | OidcError::MixUp => (
            StatusCode::FORBIDDEN,
            "The sign-in was not finished. Try again.",
        ),
    };
    sign_in_page::form_page(ctx, status, Some(reason), target)
}

/// The same, and the browser forgets the sign-in that it has begun.
fn without_pending(mut response: Response<Body>) -> Response<Body> {
    let cookie = page_session::set_pending("", Duration::ZERO);
    let headers = response.headers_mut();
    if let Some(cookie) = cookie {
        headers.append(SET_COOKIE, cookie);
    }
    response
}
