//! Identifies the caller by the bearer token of a request, under the rules of RFC 6750 and
//! docs/reference/admin-api.md §5, else by the certificate of its connection.
//!
//! Reads no header but `Authorization`, and no token anywhere else but the cookie of
//! [`super::page_session`] where a route has it; [`super::origin`] identifies the requesting page.

use super::access_error::AccessError;
use super::basic;
use super::error::Error;
use super::host_policy;
use super::origin::{self, Page};
use super::page_session;
use super::request_context::RequestContext;
use crate::audit::{Actor, Event};
use crate::auth::{Auth, AuthMethod, Caller};
use crate::config::AmbientCredentials;
use crate::metrics::TokenCheck;
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use serde_json::{Value as Json, json};

/// The caller of a request that needs to be known; `admin`: it is for the admin API; `ambient`: the
/// credentials that its route accepts beside tokens and certificates.
pub(super) fn caller(
    ctx: &RequestContext<'_>,
    admin: bool,
    ambient: AmbientCredentials,
) -> Result<Caller, Error> {
    let caller = match &ctx.gateway.auth {
        Some(auth) => known(ctx, auth, ambient)?,
        None => ctx.gateway.everybody.clone(),
    };
    if let Some(auth) = &ctx.gateway.auth
        && !auth.registry().admits(&caller, ctx.peer.address.ip())
    {
        denied(ctx, &caller, "network");
        return Err(AccessError::Network.into());
    }
    if caller.has_page() || caller.has_basic() {
        let method = &ctx.head.method;
        let may = if caller.has_page() {
            page_session::is_of_own_page(ctx, method)
        } else {
            page_session::is_of_no_other_page(ctx, method)
        };
        if may {
            return Ok(caller);
        }
        denied(ctx, &caller, "origin");
        return Err(Error::Origin);
    }
    let without_token = !matches!(caller.known, AuthMethod::Token(_));
    if without_token && let Err(refused) = host_policy::check_own(ctx) {
        denied(ctx, &caller, "host");
        return Err(refused);
    }
    // A client sends a token on purpose. A browser's certificate, or its place in the network, is
    // an ambient credential: any page that it shows can make it send requests.
    let led = match caller.known {
        AuthMethod::Token(_) | AuthMethod::Gateway => false,
        AuthMethod::Certificate(_) => true,
        AuthMethod::Anonymous => admin && !ctx.head.method.is_safe(),
    };
    let trusted = &ctx.gateway.config.headers.cors_origins;
    let astray = || match origin::page(ctx, trusted) {
        Page::Ours => false,
        Page::Trusted => caller.is_known(),
        Page::Foreign => true,
    };
    if led && astray() {
        denied(ctx, &caller, "origin");
        return Err(Error::Origin);
    }
    Ok(caller)
}

/// Records that this caller may not act from there.
fn denied(ctx: &RequestContext<'_>, caller: &Caller, reason: &str) {
    let actor = Actor {
        user: caller.user.to_string(),
        by: caller.known.to_string(),
        ..ctx.actor()
    };
    ctx.audit(Event::Denied, actor, json!({ "reason": reason }));
}

/// The caller where users sign in. A token counts more than a certificate: a bad one is refused,
/// whatever else is there.
fn known(
    ctx: &RequestContext<'_>,
    auth: &Auth,
    ambient: AmbientCredentials,
) -> Result<Caller, Error> {
    let now = ctx.now;
    if auth.is_cut_off(now) {
        return Err(Error::CutOff);
    }
    let count = |check| ctx.gateway.metrics.token_check(check);
    if ambient.basic
        && let Some((user, password)) = basic::credentials(&ctx.head.headers)?
    {
        let caller = auth.identify_basic(&user, password.reveal(), now);
        let valid = caller.is_some();
        count(if valid {
            TokenCheck::Valid
        } else {
            TokenCheck::Invalid
        });
        return caller.ok_or_else(|| AccessError::BasicNeeded.into());
    }
    match token(&ctx.head.headers) {
        Ok(Some(token)) => of_token(ctx, auth, token),
        Ok(None) => {
            let cookie = page_session::cookie(&ctx.head.headers).filter(|_| ambient.page);
            if let Some(caller) = cookie.and_then(|cookie| auth.identify_page(cookie, now)) {
                count(TokenCheck::Valid);
                return Ok(caller);
            }
            if !ctx.has_looked_up && cookie.is_some_and(|cookie| auth.may_be_elsewhere(cookie)) {
                return Err(Error::NewToken);
            }
            let certificate = ctx.peer.certificate.as_ref();
            if let Some(caller) = certificate.and_then(|shown| auth.certified(shown, now)) {
                count(TokenCheck::Certificate);
                return Ok(caller);
            }
            count(TokenCheck::Absent);
            auth.anonymous().ok_or(Error::NoToken)
        }
        Err(error) => {
            count(TokenCheck::Malformed);
            Err(error)
        }
    }
}

/// The caller of a bearer token.
fn of_token(ctx: &RequestContext<'_>, auth: &Auth, token: &str) -> Result<Caller, Error> {
    let count = |check| ctx.gateway.metrics.token_check(check);
    if let Some(caller) = auth.identify(token, ctx.now) {
        count(TokenCheck::Valid);
        return Ok(caller);
    }
    let is_new = auth.is_new_jwt(token) || auth.may_be_elsewhere(token);
    if is_new && !ctx.has_looked_up {
        return Err(Error::NewToken);
    }
    match auth.bad_token(ctx.peer.address.ip(), ctx.now) {
        None => {
            count(TokenCheck::Invalid);
            Err(Error::BadToken)
        }
        Some(wait) => {
            count(TokenCheck::Throttled);
            Err(Error::BadTokens { wait })
        }
    }
}

/// A caller as the editor shows it: the effective permissions, scope and user together
/// (docs/reference/admin-api.md §5).
pub(super) fn shown(caller: &Caller) -> Json {
    let permissions = caller.permissions.shown().for_editor();
    if caller.is_known() {
        json!({ "username": caller.user, "permissions": permissions })
    } else {
        json!({ "anonymous": true, "permissions": permissions })
    }
}

/// Returns whether a query carries `access_token`, where no token may be.
pub(super) fn token_in_query(query: Option<&str>) -> bool {
    query.is_some_and(|query| {
        form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "access_token")
    })
}

/// The bearer token; `None` if the header is absent or empty.
pub(super) fn token(headers: &HeaderMap) -> Result<Option<&str>, Error> {
    let mut fields = headers.get_all(AUTHORIZATION).iter();
    let Some(field) = fields.next() else {
        return Ok(None);
    };
    if fields.next().is_some() {
        return Err(Error::Authorization);
    }
    let text = field.to_str().map_err(|_| Error::Authorization)?;
    if text.is_empty() {
        return Ok(None);
    }
    let (scheme, token) = text.split_once(' ').ok_or(Error::Authorization)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        let named = !scheme.is_empty() && scheme.bytes().all(is_token_character);
        return Err(if named {
            Error::NoToken
        } else {
            Error::Authorization
        });
    }
    let characters = token.trim_end_matches('=');
    if characters.is_empty() || !characters.bytes().all(is_b64token) {
        return Err(Error::Authorization);
    }
    Ok(Some(token))
}

/// `b64token` of RFC 6750 §2.1, without its padding.
fn is_b64token(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'+' | b'/')
}

/// `tchar` of RFC 9110 §5.6.2.
fn is_token_character(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn headers(values: &[&str]) -> HeaderMap {
        values
            .iter()
            .map(|v| {
                (
                    AUTHORIZATION,
                    HeaderValue::from_bytes(v.as_bytes()).unwrap(),
                )
            })
            .collect()
    }

    #[test]
    fn a_bearer_token_is_accepted_whatever_the_case_of_its_scheme() {
        for value in [
            "Bearer aZ9-._~+/==",
            "bearer aZ9-._~+/==",
            "BEARER aZ9-._~+/==",
        ] {
            assert_eq!(token(&headers(&[value])).unwrap(), Some("aZ9-._~+/=="));
        }
    }

    #[test]
    fn no_header_and_an_empty_one_are_no_token() {
        assert_eq!(token(&headers(&[])).unwrap(), None);
        assert_eq!(token(&headers(&[""])).unwrap(), None);
    }

    #[test]
    fn malformed_credentials_are_distinguished_from_missing_ones() {
        for value in [
            "Bearer",
            "abc",
            "Basic",
            "Bearer  abc",
            "Bearer\tabc",
            "Bearer abc def",
            "Bearer a,b",
            "Bearer =",
            "Bearer a=b",
            "Bearer \u{e9}",
            "b@d x",
        ] {
            let headers = headers(&[value]);
            let result = token(&headers);
            assert!(matches!(result, Err(Error::Authorization)), "{value}");
        }
        for value in ["Basic dXNlcjpwYXNz", "Digest a=b, c=\"d\"", "Token x"] {
            assert!(
                matches!(token(&headers(&[value])), Err(Error::NoToken)),
                "{value}"
            );
        }
    }

    #[test]
    fn two_authorizations_are_refused_even_if_equal() {
        let headers = headers(&["Bearer abc", "Bearer abc"]);
        let result = token(&headers);
        assert!(matches!(result, Err(Error::Authorization)));
    }

    #[test]
    fn a_token_in_the_query_is_found_in_every_spelling() {
        for query in [
            "access_token=x",
            "a=1&access_token",
            "%61ccess_token=x",
            "access_token=",
        ] {
            assert!(token_in_query(Some(query)), "{query}");
        }
        assert!(!token_in_query(Some("a=access_token&my_access_token=1")));
        assert!(!token_in_query(None));
    }
}
