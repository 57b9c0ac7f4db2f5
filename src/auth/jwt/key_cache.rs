//! The keys of an issuer as they were fetched last: kept for as long as the issuer says, within
//! bounds, fetched again when a token has a key that is not among them, and then not often.
//!
//! While the issuer cannot be reached the keys count on for a limited time.

use super::keys::KeySet;
use crate::auth::provider_client::{ProviderOutcome, ProviderRequest, SendToProvider};
use arc_swap::ArcSwapOption;
use limits::token_bucket::{Rate, TokenBucket};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// How long keys are kept if the issuer does not say. Our choice: a key that is withdrawn ends
/// within it.
const FRESH: Duration = Duration::from_mins(5);
/// The shortest time, whatever the issuer says. Our choice: one request a minute is no load.
const MIN_FRESH: Duration = Duration::from_mins(1);
/// The longest time, whatever the issuer says. Our choice: issuers say a day, and a withdrawn key
/// must end.
const MAX_FRESH: Duration = Duration::from_mins(15);
/// Fetches at once, and then in a minute: each token may have another key id. Our choice.
const FETCHES: u64 = 3;
const FETCH_RATE: Rate = Rate {
    tokens: 6,
    period: 60_000,
};

/// The keys of one issuer.
pub(in crate::auth) struct KeyCache {
    current: ArcSwapOption<Fetched>,
    fetches: Mutex<Option<TokenBucket>>,
    /// Held while they are fetched: one fetch is enough for all who wait.
    turn: tokio::sync::Mutex<()>,
}

struct Fetched {
    keys: Arc<KeySet>,
    /// The number of fetches before this one.
    number: u64,
    /// Until then they need no other fetch, seconds since 1970.
    fresh_until: u64,
}

impl KeyCache {
    /// Without keys.
    pub(in crate::auth) fn new() -> Self {
        Self {
            current: ArcSwapOption::empty(),
            fetches: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// With keys that are never fetched.
    pub(in crate::auth) fn fixed(keys: KeySet) -> Self {
        let cache = Self::new();
        cache.current.store(Some(Arc::new(Fetched {
            keys: Arc::new(keys),
            number: 0,
            fresh_until: u64::MAX,
        })));
        cache
    }

    /// The keys that count at a time; `None`: there are none, or the issuer was not reached for too
    /// long.
    pub(in crate::auth) fn keys(&self, max_stale: Duration, now: u64) -> Option<Arc<KeySet>> {
        let current = self.current.load();
        let current = current.as_ref()?;
        let ends = current.fresh_until.saturating_add(max_stale.as_secs());
        (now < ends).then(|| Arc::clone(&current.keys))
    }

    /// Returns whether keys have been fetched, and it is time to do it again.
    pub(in crate::auth) fn is_due(&self, now: u64) -> bool {
        let current = self.current.load();
        current
            .as_ref()
            .is_some_and(|current| current.fresh_until <= now)
    }

    /// Fetches the keys, unless that was tried too often or another task has just done it. False:
    /// they are as before.
    pub(in crate::auth) async fn fetch(
        &self,
        send: SendToProvider,
        request: ProviderRequest,
        now: u64,
    ) -> bool {
        let seen = self.number();
        let _turn = self.turn.lock().await;
        if self.number() != seen {
            return true;
        }
        if !self.may_fetch(now) {
            return false;
        }
        let url = request.url.to_string();
        let found = match send(request).await {
            Ok(response) if response.outcome == ProviderOutcome::Success => {
                let set = serde_json::from_slice(&response.body);
                let keys = set.map(|set| KeySet::of(&set)).unwrap_or_default();
                (!keys.is_empty()).then_some((keys, response.max_age))
            }
            Ok(_) => None,
            Err(error) => {
                tracing::warn!(url, %error, "the keys of an identity provider cannot be fetched");
                return false;
            }
        };
        let Some((keys, max_age)) = found else {
            tracing::warn!(
                url,
                "an identity provider sends no set of public keys (RFC 7517 §5)"
            );
            return false;
        };
        let fresh = max_age.unwrap_or(FRESH).clamp(MIN_FRESH, MAX_FRESH);
        self.current.store(Some(Arc::new(Fetched {
            keys: Arc::new(keys),
            number: seen + 1,
            fresh_until: now.saturating_add(fresh.as_secs()),
        })));
        true
    }

    fn number(&self) -> u64 {
        self.current
            .load()
            .as_ref()
            .map_or(0, |current| current.number)
    }

    fn may_fetch(&self, now: u64) -> bool {
        let now = now.saturating_mul(1000);
        let mut fetches = self.fetches.lock();
        let bucket = fetches.get_or_insert_with(|| TokenBucket::new(FETCHES, FETCH_RATE, now));
        bucket.refill(now);
        bucket.take(1)
    }
}
