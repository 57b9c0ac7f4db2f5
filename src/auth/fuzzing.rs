//! Invariants checked for every bearer token that may be a JWT.

#![allow(clippy::missing_panics_doc, reason = "a check: it may panic")]

use super::jwt::keys::KeySet;
use super::jwt::verify::{MAX_LENGTH, Rules, read};
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, jwk::Jwk};
use std::time::Duration;

/// No token counts that the issuer's key has not signed, whatever its claims and the time are.
pub fn jwt(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(unverified) = read(text) else {
        return;
    };
    assert!(text.len() <= MAX_LENGTH);
    let audience = ["a".to_owned()];
    let rules = Rules {
        algorithms: &[Algorithm::EdDSA, Algorithm::ES256],
        issuer: "i",
        audience: &audience,
        clock_skew: Duration::from_secs(30),
        max_lifetime: Duration::from_hours(24),
        types: &["jwt", "at+jwt"],
    };
    // The public key of RFC 8037 §A.2, whose private key signs nothing here.
    let key = DecodingKey::from_ed_components("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo");
    let key = key.and_then(|key| Jwk::from_decoding_key(&key, Some(Algorithm::EdDSA)));
    let keys = JwkSet {
        keys: key.into_iter().collect(),
    };
    let keys = KeySet::of(&keys);
    assert!(!keys.is_empty());
    for now in [0, 1_800_000_000, u64::MAX] {
        assert!(unverified.verify(text, &rules, &keys, now).is_err());
    }
}
