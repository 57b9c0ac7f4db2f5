//! One sign-in at the upstream, and its revocation (docs/reference/admin-api.md §4.2, §4.3).
//!
//! Interprets the responses; [`crate::upstream::token_source`] decides when to sign in. Responses
//! are small and read strictly, and errors never quote them.

use super::bearer::{Bearer, sign};
use super::{Error, Outgoing, Upstream};
use crate::config::ServiceAccount;
use crate::metrics::UpstreamSignIn;
use bytes::Bytes;
use crypto::Secret;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use serde::Deserialize;
use std::time::Duration;
use tokio::time::timeout;

/// The most that is read of an answer. Our choice: many times a token.
const LIMIT: usize = 16 * 1024;
/// The longest sign-in. Our choice.
pub(super) const SIGN_IN_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest revocation: the gateway wants to end. Our choice.
pub(super) const SHORT_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest wait that is taken over from an answer. Our choice.
const MAX_WAIT: Duration = Duration::from_hours(1);

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// User, password, client or scope are wrong.
    #[error("the sign-in is refused with status {0}")]
    Refused(StatusCode),
    /// There were too many sign-ins; with the requested wait, if any.
    #[error("too many sign-ins")]
    Throttled(Option<Duration>),
    /// It answers something else.
    #[error("the sign-in is answered with status {0}")]
    Status(StatusCode),
    /// No answer, or none that can be read.
    #[error(transparent)]
    Failed(#[from] Error),
    /// The token is refused, and its file holds no other, or it is too early for another.
    #[error("the token is refused, and there is no other")]
    Token,
}

/// A token as the upstream hands it out.
#[derive(Deserialize)]
struct HandedOut {
    access_token: String,
    expires_in: Option<f64>,
}

/// An error as RFC 6749 §5.2 has it.
#[derive(Deserialize)]
struct Refusal {
    error: String,
}

impl Upstream {
    /// Signs in.
    pub(super) async fn sign_in(&self, account: &ServiceAccount) -> Result<Bearer, Failure> {
        let result = timeout(SIGN_IN_TIMEOUT, self.try_sign_in(account)).await;
        let result = result.unwrap_or(Err(Failure::Failed(Error::Timeout)));
        self.0.metrics.signed_in(match &result {
            Ok(_) => UpstreamSignIn::Success,
            Err(Failure::Refused(_) | Failure::Token) => UpstreamSignIn::Refused,
            Err(Failure::Throttled(_)) => UpstreamSignIn::Throttled,
            Err(Failure::Status(_) | Failure::Failed(_)) => UpstreamSignIn::Failed,
        });
        result
    }

    /// Ends a token's session; false: it may not have ended.
    pub(super) async fn revoke(&self, bearer: &Bearer) -> bool {
        let form = form(&[("token", bearer.token().reveal())]);
        let head = || sign(self.form_head("/auth/revoke"), bearer.header());
        let sent = self.send_bare(head, form, None).await;
        sent.is_ok_and(|answer| answer.status().is_success())
    }

    async fn try_sign_in(&self, account: &ServiceAccount) -> Result<Bearer, Failure> {
        let form = form(&[
            ("client_id", &account.client_id),
            ("grant_type", "password"),
            ("scope", &account.scope),
            ("username", &account.user),
            ("password", account.password.reveal()),
        ]);
        let response = self
            .send_bare(|| self.form_head("/auth/token"), form, None)
            .await?;
        let (head, body) = response.into_parts();
        let body = body.whole(LIMIT).await?;
        read(&Response::from_parts(head, body))
    }

    fn form_head(&self, target: &'static str) -> Request<()> {
        let mut request = self.own(target);
        *request.method_mut() = Method::POST;
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(CONTENT_TYPE, form);
        request.headers_mut().insert(ACCEPT, json);
        request
    }
}

impl Failure {
    /// Returns whether the upstream refuses us; false: it gave no answer, or none that can be read.
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            Self::Refused(_) | Self::Throttled(_) | Self::Token | Self::Status(_) => true,
            Self::Failed(_) => false,
        }
    }
}

fn form(fields: &[(&str, &str)]) -> Outgoing {
    let mut form = form_urlencoded::Serializer::new(String::new());
    let form = form.extend_pairs(fields).finish();
    Outgoing::Whole(Bytes::from(form))
}

/// Interprets the response to a sign-in.
fn read(response: &Response<Bytes>) -> Result<Bearer, Failure> {
    let status = response.status();
    match status {
        StatusCode::OK => token(response.body())
            .ok_or(Failure::Failed(Error::Unexpected("it hands out no token"))),
        StatusCode::TOO_MANY_REQUESTS => Err(Failure::Throttled(asked_to_wait(response.headers()))),
        // Node-RED's answer to too many failures (docs/reference/node-red-admin-api.md §1.8)
        StatusCode::INTERNAL_SERVER_ERROR if is_server_error(response.body()) => {
            Err(Failure::Throttled(None))
        }
        // RFC 6749 §5.2, and Node-RED's answers (docs/reference/node-red-admin-api.md §1.2)
        StatusCode::BAD_REQUEST
        | StatusCode::UNAUTHORIZED
        | StatusCode::FORBIDDEN
        | StatusCode::NOT_IMPLEMENTED => Err(Failure::Refused(status)),
        _ => Err(
            asked_to_wait(response.headers()).map_or(Failure::Status(status), |wait| {
                Failure::Throttled(Some(wait))
            }),
        ),
    }
}

fn token(body: &[u8]) -> Option<Bearer> {
    let handed_out: HandedOut = serde_json::from_slice(body).ok()?;
    let life = match handed_out.expires_in {
        Some(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        None => None,
    };
    Bearer::new(Secret::new(handed_out.access_token), life)
}

fn is_server_error(body: &[u8]) -> bool {
    serde_json::from_slice::<Refusal>(body).is_ok_and(|refusal| refusal.error == "server_error")
}

fn asked_to_wait(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds).clamp(Duration::from_secs(1), MAX_WAIT))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests {
    use super::*;

    fn answer(status: u16, body: &'static str) -> Result<Bearer, Failure> {
        let mut response = Response::new(Bytes::from_static(body.as_bytes()));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        read(&response)
    }

    #[test]
    fn a_token_is_accepted_with_or_without_an_expiry() {
        for body in [
            r#"{"access_token":"a+/b==","expires_in":604800,"token_type":"Bearer"}"#,
            r#"{"access_token":"a+/b==","token_type":"Bearer"}"#,
        ] {
            let bearer = answer(200, body).unwrap();
            assert_eq!(bearer.token().reveal(), "a+/b==");
            assert_eq!(bearer.header(), "Bearer a+/b==");
            assert!(bearer.header().is_sensitive() && !format!("{bearer:?}").contains("a+"));
        }
    }

    #[test]
    fn a_response_without_a_valid_token_is_a_failure() {
        for body in [
            "",
            "[]",
            "{}",
            r#"{"access_token":5}"#,
            r#"{"access_token":""}"#,
            r#"{"access_token":"a b"}"#,
            r#"{"access_token":"a\r\nX: 1"}"#,
            r#"{"access_token":"a","expires_in":"soon"}"#,
        ] {
            let failure = answer(200, body).unwrap_err();
            assert!(matches!(failure, Failure::Failed(_)), "{body}");
        }
    }

    #[test]
    fn refusals_are_distinguished_from_lockouts_and_other_failures() {
        for status in [400, 401, 403, 501] {
            let body = r#"{"error":"invalid_grant"}"#;
            assert!(matches!(answer(status, body), Err(Failure::Refused(_))));
        }
        let locked = r#"{"error":"server_error","error_description":"Too many login attempts."}"#;
        assert!(matches!(answer(500, locked), Err(Failure::Throttled(None))));
        assert!(matches!(answer(429, ""), Err(Failure::Throttled(None))));
        for status in [500, 404, 503, 302] {
            assert!(matches!(answer(status, "<p>"), Err(Failure::Status(_))));
        }
    }
}
