//! Answers, as clients read them.

use super::*;
use crate::auth::{RevokeError, SignInError};
use crate::store;
use flows::Malformed;
use http_body_util::BodyExt;

async fn body(response: Response<Body>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.into()).unwrap()
}

fn header(response: &Response<Body>, name: HeaderName) -> &str {
    response
        .headers()
        .get(name)
        .map_or("", |value| value.to_str().unwrap())
}

#[tokio::test]
async fn every_api_401_is_empty_with_the_reason_in_its_challenge() {
    for (error, said) in [
        (Error::NoToken, "Bearer realm=\"flowgate\""),
        (
            Error::BadToken,
            "Bearer realm=\"flowgate\", error=\"invalid_token\"",
        ),
        (Error::Scope, INSUFFICIENT_SCOPE),
        (Error::Revoke(RevokeError::NotYours), INSUFFICIENT_SCOPE),
    ] {
        let response = refusal(&error);
        assert_eq!(response.status(), 401);
        assert_eq!(header(&response, WWW_AUTHENTICATE), said);
        assert!(response.headers().get(CONTENT_TYPE).is_none());
        assert_eq!(body(response).await, "");
    }
}

#[tokio::test]
async fn a_stale_revision_is_a_conflict_that_names_the_active_one() {
    let stale = deployment::Error::Stale {
        active: "r2".into(),
    };
    let response = refusal(&Error::Deployment(stale));
    assert_eq!(response.status(), 409);
    let body = body(response).await;
    assert!(body.starts_with(r#"{"code":"version_mismatch","message":"#) && body.contains("r2"));
}

#[tokio::test]
async fn a_malformed_submission_is_reported_precisely() {
    let malformed = Malformed("element 3: \"id\" is missing".into());
    let response = refusal(&Error::Deployment(malformed.into()));
    assert_eq!(response.status(), 400);
    let wanted = r#"{"code":"invalid_flows","message":"element 3: \"id\" is missing"}"#;
    assert_eq!(body(response).await, wanted);
}

#[tokio::test]
async fn a_store_error_reveals_no_path_to_the_client() {
    let fault = || store::Error::Io {
        what: "/var/lib/secret/flows.json".into(),
        source: std::io::Error::other("disk full"),
    };
    for error in [
        Error::Deployment(deployment::Error::Store(fault())),
        Error::Deployment(deployment::Error::StorageInvalid(fault())),
        Error::SignIn(SignInError::Store(fault())),
        Error::Revoke(RevokeError::Store(fault())),
    ] {
        assert!(is_ours(&error));
        let response = refusal(&error);
        assert_eq!(response.status(), 500);
        let body = body(response).await;
        assert!(!body.contains("secret") && !body.contains("disk"), "{body}");
    }
}

#[tokio::test]
async fn errors_of_the_sign_in_are_those_of_rfc_6749_and_never_cached() {
    let wait = Duration::from_millis(2500);
    for (error, status, code) in [
        (
            Error::Form("scope is missing".into()),
            400,
            "invalid_request",
        ),
        (Error::Client, 401, "invalid_client"),
        (Error::GrantType, 400, "unsupported_grant_type"),
        (
            Error::SignIn(SignInError::BadCredentials {
                locked: false,
                guessed: false,
                outside: false,
            }),
            400,
            "invalid_grant",
        ),
        (
            Error::SignIn(SignInError::InvalidScope),
            400,
            "invalid_scope",
        ),
        (
            Error::SignIn(SignInError::Throttled { wait }),
            429,
            "temporarily_unavailable",
        ),
    ] {
        let response = refusal(&error);
        assert_eq!(response.status(), status);
        assert_eq!(header(&response, CACHE_CONTROL), "no-store");
        assert_eq!(header(&response, PRAGMA), "no-cache");
        if status == 429 {
            assert_eq!(header(&response, RETRY_AFTER), "3");
        }
        let body = body(response).await;
        assert!(
            body.starts_with(&format!(r#"{{"error":"{code}","#)),
            "{body}"
        );
    }
}

#[test]
fn a_listed_path_reports_its_allowed_methods() {
    let allow = || "GET, HEAD, OPTIONS".to_owned();
    let options = other_method(&Method::OPTIONS, allow()).unwrap();
    assert_eq!(
        (options.status().as_u16(), header(&options, ALLOW)),
        (204, "GET, HEAD, OPTIONS")
    );
    let refused = refusal(&other_method(&Method::PUT, allow()).unwrap_err());
    assert_eq!(
        (refused.status().as_u16(), header(&refused, ALLOW)),
        (405, "GET, HEAD, OPTIONS")
    );
}

#[tokio::test]
async fn head_has_the_length_of_get_and_no_body() {
    let response = for_method(&Method::HEAD, json(StatusCode::OK, "[1]"));
    assert_eq!(header(&response, CONTENT_LENGTH), "3");
    assert_eq!(body(response).await, "");
    let response = for_method(&Method::GET, json(StatusCode::OK, "[1]"));
    assert_eq!(body(response).await, "[1]");
}
