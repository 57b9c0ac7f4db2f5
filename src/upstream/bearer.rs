//! A token for the upstream: its header, its lifetime, and whether a response rejects it.

use crate::config::{self, is_token};
use crypto::Secret;
use hyper::Request;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// The shortest life that is believed of a token. Our choice.
const MIN_LIFETIME: Duration = Duration::from_secs(2);

/// A token of the upstream's.
pub struct Bearer {
    header: HeaderValue,
    token: Secret,
    since: Instant,
    /// When it is to be renewed, and when it expires; `None`: unknown.
    ends: Option<(Instant, Instant)>,
    /// True if it has been refused.
    struck: AtomicBool,
}

/// Shows a token with a request.
pub(super) fn sign(mut request: Request<()>, shown: &HeaderValue) -> Request<()> {
    request.headers_mut().insert(AUTHORIZATION, shown.clone());
    request
}

/// Returns whether a 401 rejects the token, rather than its permissions (RFC 6750 §3.1). One
/// without a challenge does not: it is how Node-RED reports a missing permission
/// (docs/reference/node-red-admin-api.md §1.5).
pub(super) fn refuses_token(headers: &HeaderMap) -> bool {
    let challenges = headers.get_all(WWW_AUTHENTICATE).iter();
    challenges
        .filter_map(|value| value.to_str().ok())
        .any(|value| {
            let scheme = value.split(' ').next().unwrap_or(value);
            scheme.eq_ignore_ascii_case("bearer") && !value.contains("insufficient_scope")
        })
}

impl Bearer {
    /// `None`: this cannot be a token.
    pub(super) fn new(token: Secret, life: Option<Duration>) -> Option<Self> {
        if !is_token(token.reveal()) {
            return None;
        }
        let mut header = HeaderValue::try_from(format!("Bearer {}", token.reveal())).ok()?;
        header.set_sensitive(true);
        let since = Instant::now();
        let ends = life.and_then(|life| {
            let life = life.max(MIN_LIFETIME);
            // At 80 % of its lifetime, while it is still valid for requests in flight.
            Some((since.checked_add(life / 5 * 4)?, since.checked_add(life)?))
        });
        Some(Self {
            header,
            token,
            since,
            ends,
            struck: AtomicBool::new(false),
        })
    }

    /// Records that it is rejected; returns its age, the first time.
    pub(super) fn strike(&self) -> Option<Duration> {
        let struck = self.struck.swap(true, Ordering::Relaxed);
        (!struck).then(|| self.since.elapsed())
    }

    /// When it was handed out.
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    /// The token itself, for the first frame of a comms link.
    pub fn token(&self) -> &Secret {
        &self.token
    }

    /// The value of `Authorization`.
    pub(super) fn header(&self) -> &HeaderValue {
        &self.header
    }

    /// The token that needs no sign-in.
    pub(super) fn at_once(means: &config::Account) -> Option<Arc<Self>> {
        match means {
            config::Account::Token { token, .. } => Self::new(token.clone(), None).map(Arc::new),
            config::Account::User(_) => None,
        }
    }

    /// Returns whether it is time to renew it.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.ends.is_some_and(|(due, _)| now >= due)
    }

    /// Returns whether it has not ended.
    pub(super) fn is_good(&self, now: Instant) -> bool {
        self.ends.is_none_or(|(_, end)| now < end)
    }
}

impl std::fmt::Debug for Bearer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bearer(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bearer_challenge_refuses_a_token() {
        for (challenge, refused) in [
            ("Bearer realm=\"Users\", error=\"invalid_token\"", true),
            ("bearer", true),
            ("Bearer error=\"insufficient_scope\"", false),
            ("Basic realm=\"x\"", false),
        ] {
            let mut headers = HeaderMap::new();
            assert!(!refuses_token(&headers));
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
            assert_eq!(refuses_token(&headers), refused, "{challenge}");
        }
    }
}
