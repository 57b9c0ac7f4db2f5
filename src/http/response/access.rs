//! Maps refusals by identity, network and rate to responses.

use super::{BEARER, Body, coded, page, retry_after, see_other, unauthorized};
use crate::auth::{AddPasskeyError, CreateTokenError, StepUpNeeded, Unconfirmed};
use crate::http::access_error::AccessError;
use crate::http::sign_in_html::Page;
use hyper::header::{HeaderValue, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};

const BASIC: &str = "Basic realm=\"flowgate\", charset=\"UTF-8\"";

pub(super) fn response(error: &AccessError) -> Response<Body> {
    use StatusCode as S;
    let refuse = |status, code| coded(status, code, &error.to_string());
    match error {
        AccessError::BasicNeeded => basic(),
        AccessError::SignInNeeded { location } => see_other(location),
        AccessError::PageForbidden { user, sign_out } => forbidden(user, sign_out),
        AccessError::VerifyForbidden => refuse(S::FORBIDDEN, "insufficient_scope"),
        AccessError::SecondFactorOld { .. } | AccessError::NoSecondFactor => {
            refuse(S::FORBIDDEN, "second_factor_required")
        }
        AccessError::Unconfirmed(error) => unconfirmed(error),
        AccessError::Token(error) => token(error),
        AccessError::Passkey(error) => passkey(error),
        AccessError::PasskeyHost => refuse(S::BAD_REQUEST, "passkey_host"),
        AccessError::ServiceWorker => refuse(S::FORBIDDEN, "service_worker_not_allowed"),
        AccessError::Network => refuse(S::FORBIDDEN, "network_not_allowed"),
        AccessError::RateLimited { wait } => {
            retry_after(refuse(S::TOO_MANY_REQUESTS, "rate_limited"), *wait)
        }
    }
}

/// The caller has not shown who it is.
fn unconfirmed(error: &Unconfirmed) -> Response<Body> {
    use StatusCode as S;
    let (status, code) = match error {
        Unconfirmed::NoUser => (S::FORBIDDEN, "local_user_required"),
        Unconfirmed::NotFresh(StepUpNeeded::Password) => (S::FORBIDDEN, "confirmation_required"),
        Unconfirmed::NotFresh(StepUpNeeded::SecondFactor) => {
            (S::FORBIDDEN, "second_factor_required")
        }
        Unconfirmed::Store(_) => (S::INTERNAL_SERVER_ERROR, "internal_error"),
    };
    coded(status, code, &error.to_string())
}

/// A service token is not made.
fn token(error: &CreateTokenError) -> Response<Body> {
    use StatusCode as S;
    let (status, code) = match error {
        CreateTokenError::Unconfirmed(error) => return unconfirmed(error),
        CreateTokenError::Invalid(_) => (S::BAD_REQUEST, "invalid_request"),
        CreateTokenError::NotHeld(_) => (S::FORBIDDEN, "permission_not_held"),
        CreateTokenError::NameTaken => (S::CONFLICT, "token_name_taken"),
        CreateTokenError::TooMany => (S::CONFLICT, "too_many_tokens"),
        CreateTokenError::Store(_) => (S::INTERNAL_SERVER_ERROR, "internal_error"),
    };
    coded(status, code, &error.to_string())
}

/// A passkey is not added or removed.
fn passkey(error: &AddPasskeyError) -> Response<Body> {
    use StatusCode as S;
    let (status, code) = match error {
        AddPasskeyError::Unconfirmed(error) => return unconfirmed(error),
        AddPasskeyError::TooMany => (S::CONFLICT, "too_many_passkeys"),
        AddPasskeyError::Taken => (S::CONFLICT, "passkey_taken"),
        AddPasskeyError::Name => (S::BAD_REQUEST, "invalid_request"),
        AddPasskeyError::Invalid(_) => (S::BAD_REQUEST, "invalid_passkey"),
        AddPasskeyError::Broken | AddPasskeyError::Store(_) => {
            (S::INTERNAL_SERVER_ERROR, "internal_error")
        }
    };
    coded(status, code, &error.to_string())
}

/// Both schemes that the route has (RFC 9110 §11.6.1); RFC 7617 §2.1 has the charset.
fn basic() -> Response<Body> {
    let mut response = unauthorized(BASIC);
    let bearer = HeaderValue::from_static(BEARER);
    response.headers_mut().append(WWW_AUTHENTICATE, bearer);
    response
}

/// The user may sign in as another one.
fn forbidden(user: &str, sign_out: &str) -> Response<Body> {
    let signed_in = Page::SignedIn {
        user,
        sign_out,
        forbidden: true,
    };
    page(StatusCode::FORBIDDEN, &signed_in)
}
