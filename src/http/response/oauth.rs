//! Maps errors of signing in and of revoking to the responses of RFC 6749 §5.2.

use super::{Body, INSUFFICIENT_SCOPE, json, retry_after, unauthorized, uncached};
use crate::auth::{RevokeError, SignInError};
use crate::http::error::Error;
use crate::store;
use hyper::{Response, StatusCode};

/// The error with its own sentence, as RFC 6749 §5.2 has it.
pub(super) fn of(error: &Error, status: StatusCode, code: &str) -> Response<Body> {
    described(status, code, &error.to_string())
}

pub(super) fn sign_in(error: &SignInError) -> Response<Body> {
    use StatusCode as S;
    match error {
        SignInError::Throttled { wait } => {
            let refused = "too many failures, try again later";
            let response = described(S::TOO_MANY_REQUESTS, "temporarily_unavailable", refused);
            retry_after(response, *wait)
        }
        SignInError::BadCredentials { .. } | SignInError::BadPasskey { .. } => described(
            S::BAD_REQUEST,
            "invalid_grant",
            "unknown user or wrong password",
        ),
        SignInError::InvalidScope => described(
            S::BAD_REQUEST,
            "invalid_scope",
            "the user's permissions do not cover the scope",
        ),
        SignInError::Store(store::Error::Unreachable(_) | store::Error::Busy { .. }) => {
            unreachable_store()
        }
        SignInError::Store(_) => described(
            S::INTERNAL_SERVER_ERROR,
            "server_error",
            "the session could not be kept",
        ),
    }
}

/// RFC 6749 §4.1.2.1 has this code for a server that is unavailable for a time.
pub(super) fn unrecorded_sign_in() -> Response<Body> {
    described(
        StatusCode::SERVICE_UNAVAILABLE,
        "temporarily_unavailable",
        "the audit log cannot be written, so no user can sign in",
    )
}

/// The database that gateways share cannot be reached: nothing was kept.
fn unreachable_store() -> Response<Body> {
    let response = described(
        StatusCode::SERVICE_UNAVAILABLE,
        "temporarily_unavailable",
        "the shared database cannot be reached, try again",
    );
    super::retry_after(response, super::RETRY_DELAY)
}

pub(super) fn revocation(error: &RevokeError) -> Response<Body> {
    match error {
        RevokeError::NotYours => unauthorized(INSUFFICIENT_SCOPE),
        RevokeError::Store(store::Error::Unreachable(_) | store::Error::Busy { .. }) => {
            unreachable_store()
        }
        RevokeError::Store(_) => described(
            StatusCode::INTERNAL_SERVER_ERROR,
            "server_error",
            "the revocation could not be kept, try again",
        ),
    }
}

/// RFC 6749 §5.2.
pub(super) fn described(status: StatusCode, error: &str, description: &str) -> Response<Body> {
    let body = json!({ "error": error, "error_description": description });
    uncached(json(status, body.to_string()))
}
