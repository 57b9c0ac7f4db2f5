//! Responses instead of an upstream's: when it does not answer, and in the place of its error
//! pages.

use super::super::error::FramingError;
use super::{RETRY_DELAY, coded, lapsed, last, retry_after};
use crate::auth::Lapsed;
use crate::http::response_body::Body;
use crate::upstream::{self, BodyError, Refusal};
use hyper::{Response, StatusCode};

/// The response to an error of the upstream.
pub(super) fn response(error: &upstream::Error) -> Response<Body> {
    use StatusCode as S;
    use upstream::Error as E;
    let refuse = |status, code| coded(status, code, &error.to_string());
    match error {
        E::Unreachable(_) | E::Unavailable => refuse(S::BAD_GATEWAY, "upstream_unreachable"),
        E::NotListening(_) => retry_after(
            refuse(S::SERVICE_UNAVAILABLE, "upstream_not_listening"),
            RETRY_DELAY,
        ),
        E::ConnectTimeout | E::Timeout => refuse(S::GATEWAY_TIMEOUT, "upstream_timeout"),
        E::Closed(_) => refuse(S::BAD_GATEWAY, "upstream_closed"),
        E::InvalidResponse(_) | E::Unexpected(_) => {
            refuse(S::BAD_GATEWAY, "upstream_invalid_answer")
        }
        E::Incomplete(_) => refuse(S::BAD_GATEWAY, "upstream_incomplete_answer"),
        E::SignedOut | E::Unauthorized => refuse(S::BAD_GATEWAY, "upstream_unauthorized"),
        E::Busy | E::AddressBusy => {
            retry_after(refuse(S::SERVICE_UNAVAILABLE, "upstream_busy"), RETRY_DELAY)
        }
        E::TooManyTunnels => retry_after(
            refuse(S::SERVICE_UNAVAILABLE, "too_many_tunnels"),
            RETRY_DELAY,
        ),
        E::Request(Refusal::TooLarge) => refuse(S::PAYLOAD_TOO_LARGE, "body_too_large"),
        E::Request(Refusal::Timeout) => refuse(S::REQUEST_TIMEOUT, "body_timeout"),
        E::Request(Refusal::Broken(BodyError::Incomplete)) => {
            refuse(S::BAD_REQUEST, "incomplete_body")
        }
        E::Request(Refusal::Broken(BodyError::Trailers)) => last(&FramingError::Trailers.into()),
        E::Request(Refusal::NotAllowed) => lapsed(Lapsed::Session),
    }
}

/// Instead of an upstream's error page.
pub(in crate::http) fn upstream_page(status: StatusCode) -> Response<Body> {
    let code = match status {
        StatusCode::NOT_FOUND => "not_found",
        StatusCode::PAYLOAD_TOO_LARGE => "body_too_large",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "unsupported_media_type",
        status if status.is_client_error() => "invalid_request",
        _ => "upstream_error",
    };
    let reason = status.canonical_reason().unwrap_or("error");
    coded(status, code, &format!("the upstream says: {reason}"))
}
