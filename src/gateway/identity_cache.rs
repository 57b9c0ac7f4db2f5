//! Keeps signed identities, so that a caller's requests share one: a signature costs more than
//! everything else that is done for a request. A token is for a user, its permissions at that
//! moment, and an audience; when one of them differs, another one is signed.

use crypto::sha256;
use dashmap::DashMap;
use hyper::header::HeaderValue;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tokens kept. Our choice: some 4 MiB; further ones are signed for each request.
const MAX_TOKENS: usize = 4096;

/// A digest of what a token is about.
pub(super) type CacheKey = [u8; 32];

/// The tokens of one signer; they go with it.
#[derive(Default)]
pub(super) struct IdentityCache {
    tokens: DashMap<CacheKey, Kept>,
    /// When those that are old were last removed, seconds since 1970.
    swept: AtomicU64,
}

struct Kept {
    token: HeaderValue,
    /// When it was signed, seconds since 1970.
    signed: u64,
    /// Until when it is sent, seconds since 1970.
    until: u64,
}

/// The key of a token: each part with its length, so that no two lists have one.
pub(super) fn cache_key<'p>(parts: impl Iterator<Item = &'p str>) -> CacheKey {
    let mut text = Vec::new();
    for part in parts {
        text.extend_from_slice(&part.len().to_le_bytes());
        text.extend_from_slice(part.as_bytes());
    }
    sha256(&text)
}

impl IdentityCache {
    /// The token of a key at this time; `None`: there is none, or it is about to expire. One that
    /// was signed later is none: the clock was set back.
    pub(super) fn find(&self, key: &CacheKey, now: u64) -> Option<HeaderValue> {
        let kept = self.tokens.get(key)?;
        let counts = kept.signed <= now && now < kept.until;
        counts.then(|| kept.token.clone())
    }

    /// Keeps a token that was signed now until a time, if there is room.
    pub(super) fn keep(&self, key: CacheKey, token: &HeaderValue, now: u64, until: u64) {
        if self.tokens.len() >= MAX_TOKENS && self.swept.swap(now, Ordering::Relaxed) != now {
            self.tokens
                .retain(|_, kept| kept.signed <= now && now < kept.until);
        }
        if self.tokens.len() < MAX_TOKENS || self.tokens.contains_key(&key) {
            let kept = Kept {
                token: token.clone(),
                signed: now,
                until,
            };
            self.tokens.insert(key, kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(parts: &[&str]) -> CacheKey {
        cache_key(parts.iter().copied())
    }

    #[test]
    fn a_token_is_kept_for_its_parts_and_time_only() {
        let cache = IdentityCache::default();
        let ann = key(&["ann", "read"]);
        let token = HeaderValue::from_static("signed");
        cache.keep(ann, &token, 100, 130);
        assert_eq!(cache.find(&ann, 129), Some(token));
        for (key, now) in [
            (ann, 130),
            (ann, 99),
            (key(&["ann", "write"]), 100),
            (key(&["annread"]), 100),
            (key(&["ann", "re", "ad"]), 100),
            (key(&["ann"]), 100),
        ] {
            assert_eq!(cache.find(&key, now), None, "{now}");
        }
    }

    #[test]
    fn memory_is_bounded_and_freed_when_tokens_are_old() {
        let cache = IdentityCache::default();
        let token = HeaderValue::from_static("signed");
        let keep = |number: usize, now: u64| {
            let key = key(&[&number.to_string()]);
            cache.keep(key, &token, now, now + 30);
            cache.find(&key, now).is_some()
        };
        assert!((0..MAX_TOKENS).all(|number| keep(number, 100)));
        assert!(!keep(MAX_TOKENS, 100) && cache.tokens.len() == MAX_TOKENS);
        assert!(keep(0, 101), "the same key");
        assert!(keep(MAX_TOKENS, 131));
        assert_eq!(cache.tokens.len(), 1);
    }
}
