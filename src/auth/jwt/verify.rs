//! Verifies one JWT (RFC 7519) under the rules of RFC 8725: the algorithm is of the configuration,
//! the key is the issuer's, and issuer, audience and times are checked. Pure: no clock, no network.

use super::keys::{KeySet, NoKey};
use crate::config::Jwt;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Header, Validation};
use serde_json::{Map, Value as Json};
use std::time::Duration;

/// Bytes of a token. Our choice: half of what `limits.header_bytes` has room for; tokens with some
/// hundred groups have 8.
pub(in crate::auth) const MAX_LENGTH: usize = 8 * 1024;

/// The claims of a token.
pub(in crate::auth) type Claims = Map<String, Json>;

/// A token's header and claims, of which nothing is verified.
#[derive(Debug)]
pub(in crate::auth) struct Unverified {
    header: Header,
    /// Whom to ask for the key.
    pub(in crate::auth) claims: Claims,
}

/// The rules for the tokens of one issuer.
#[derive(Debug, Clone, Copy)]
pub(in crate::auth) struct Rules<'a> {
    pub(in crate::auth) algorithms: &'a [jsonwebtoken::Algorithm],
    pub(in crate::auth) issuer: &'a str,
    pub(in crate::auth) audience: &'a [String],
    pub(in crate::auth) clock_skew: Duration,
    pub(in crate::auth) max_lifetime: Duration,
    /// `typ` of the header, lower-case, without `application/`; a token without one counts as a
    /// `jwt`.
    pub(in crate::auth) types: &'a [&'a str],
}

/// A token whose signature and claims are right.
#[derive(Debug)]
pub(in crate::auth) struct Verified {
    pub(in crate::auth) claims: Claims,
    /// When it ends, seconds since 1970.
    pub(in crate::auth) expires: u64,
    /// The key that signed it.
    pub(in crate::auth) key: [u8; 32],
}

/// Why a token does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidJwt {
    /// It is no JWT, or one that is not understood.
    #[error("it is no signed JWT that is understood")]
    Malformed,
    /// It is larger than any token needs to be.
    #[error("it is larger than {} KiB", MAX_LENGTH / 1024)]
    TooLarge,
    /// No table of the configuration has the issuer.
    #[error("no [[auth.jwt]] has its issuer and audience")]
    Issuer,
    /// It is made for another program.
    #[error("its audience is another one")]
    Audience,
    /// Its algorithm is not accepted.
    #[error("its algorithm is not accepted")]
    Algorithm,
    /// Its `typ` is that of another kind of token.
    #[error("it is another kind of token")]
    Type,
    /// The issuer has no such key.
    #[error("its issuer has no such key")]
    UnknownKey,
    /// The issuer's keys are not known: it cannot be reached.
    #[error("the keys of its issuer cannot be fetched")]
    NoKeys,
    /// The signature is wrong.
    #[error("its signature is wrong")]
    Signature,
    /// It has expired, or has no expiry.
    #[error("it has expired, or has no expiry")]
    Expired,
    /// It is from the future.
    #[error("it is not valid yet")]
    Future,
    /// It is valid for too long.
    #[error("its lifetime is longer than max_lifetime")]
    Lifetime,
    /// A claim that names the caller is missing.
    #[error("it does not name its caller")]
    Subject,
    /// No grant fits its claims.
    #[error("no grant fits its claims")]
    NoGrant,
    /// It was revoked here.
    #[error("it was revoked")]
    Revoked,
}

/// Returns whether a bearer token can be a JWT: three parts (RFC 7515 §7.1). A token of the
/// gateway's own has no dot.
pub(in crate::auth) fn has_form(token: &str) -> bool {
    token.bytes().filter(|byte| *byte == b'.').count() == 2
}

/// Reads a token without verifying it.
pub(in crate::auth) fn read(token: &str) -> Result<Unverified, InvalidJwt> {
    if token.len() > MAX_LENGTH {
        return Err(InvalidJwt::TooLarge);
    }
    let mut parts = token.split('.');
    let (Some(header), Some(claims)) = (parts.next(), parts.next()) else {
        return Err(InvalidJwt::Malformed);
    };
    let decoded = |part: &str| {
        URL_SAFE_NO_PAD
            .decode(part)
            .map_err(|_| InvalidJwt::Malformed)
    };
    let header = decoded(header)?;
    let raw: Claims = serde_json::from_slice(&header).map_err(|_| InvalidJwt::Malformed)?;
    // Extensions that must be understood (RFC 7515 §4.1.11), and none are.
    if raw.contains_key("crit") || raw.contains_key("b64") {
        return Err(InvalidJwt::Malformed);
    }
    Ok(Unverified {
        // `none` is no algorithm.
        header: serde_json::from_slice(&header).map_err(|_| InvalidJwt::Algorithm)?,
        claims: serde_json::from_slice(&decoded(claims)?).map_err(|_| InvalidJwt::Malformed)?,
    })
}

impl Unverified {
    /// `iss`.
    pub(in crate::auth) fn issuer(&self) -> Option<&str> {
        self.claims.get("iss")?.as_str()
    }

    /// Verifies the token at a time in seconds since 1970.
    pub(in crate::auth) fn verify(
        &self,
        token: &str,
        rules: &Rules<'_>,
        keys: &KeySet,
        now: u64,
    ) -> Result<Verified, InvalidJwt> {
        let algorithm = self.header.alg;
        if !rules.algorithms.contains(&algorithm) {
            return Err(InvalidJwt::Algorithm);
        }
        if !rules.types.contains(&self.kind().as_str()) {
            return Err(InvalidJwt::Type);
        }
        if self.issuer() != Some(rules.issuer) {
            return Err(InvalidJwt::Issuer);
        }
        if !has_audience(&self.claims, rules.audience) {
            return Err(InvalidJwt::Audience);
        }
        let expires = times(&self.claims, rules, now)?;
        let key = keys.find(self.header.kid.as_deref(), algorithm);
        let key = key.map_err(|why| match why {
            NoKey::Unknown => InvalidJwt::UnknownKey,
            NoKey::Ambiguous => InvalidJwt::Malformed,
        })?;
        let decoded =
            jsonwebtoken::decode::<Claims>(token, &key.decoding, &signature_only(algorithm));
        Ok(Verified {
            claims: decoded.map_err(|_| InvalidJwt::Signature)?.claims,
            expires,
            key: key.thumbprint,
        })
    }

    /// `typ` (RFC 7515 §4.1.9): a media type, mostly without `application/`.
    fn kind(&self) -> String {
        let kind = self.header.typ.as_deref().unwrap_or("jwt");
        let kind = kind.to_ascii_lowercase();
        kind.strip_prefix("application/")
            .unwrap_or(&kind)
            .to_owned()
    }
}

/// Claims are checked here, by the caller's clock.
fn signature_only(algorithm: jsonwebtoken::Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.validate_aud = false;
    validation
}

/// `aud`: a text or a list of them (RFC 7519 §4.1.3).
pub(in crate::auth) fn has_audience(claims: &Claims, audience: &[String]) -> bool {
    let is_ours = |value: &Json| audience.iter().any(|ours| value == ours);
    match claims.get("aud") {
        Some(Json::Array(all)) => all.iter().any(is_ours),
        Some(one) => is_ours(one),
        None => false,
    }
}

/// Checks `exp`, `nbf` and `iat`; gives the time when the token ends, with the difference of
/// clocks.
fn times(claims: &Claims, rules: &Rules<'_>, now: u64) -> Result<u64, InvalidJwt> {
    let skew = rules.clock_skew.as_secs();
    let expires = seconds(claims, "exp")?.ok_or(InvalidJwt::Expired)?;
    let ends = expires.saturating_add(skew);
    if ends <= now {
        return Err(InvalidJwt::Expired);
    }
    let begun = now.saturating_add(skew);
    let issued = seconds(claims, "iat")?;
    let starts = seconds(claims, "nbf")?;
    if issued.is_some_and(|at| at > begun) || starts.is_some_and(|at| at > begun) {
        return Err(InvalidJwt::Future);
    }
    // A token without a beginning may be valid from now on for as long, and no longer.
    let lifetime = expires.saturating_sub(issued.or(starts).unwrap_or(now));
    if lifetime > rules.max_lifetime.as_secs() {
        return Err(InvalidJwt::Lifetime);
    }
    Ok(ends)
}

/// A `NumericDate` (RFC 7519 §2): seconds since 1970, perhaps with a fraction.
fn seconds(claims: &Claims, name: &str) -> Result<Option<u64>, InvalidJwt> {
    let Some(value) = claims.get(name) else {
        return Ok(None);
    };
    let whole = value.as_u64();
    let fraction = || {
        let seconds = value.as_f64()?;
        Duration::try_from_secs_f64(seconds)
            .ok()
            .map(|at| at.as_secs())
    };
    whole
        .or_else(fraction)
        .map(Some)
        .ok_or(InvalidJwt::Malformed)
}

impl<'a> Rules<'a> {
    /// Those of bearer tokens of machines: plain JWTs and access tokens (RFC 9068 §2.1).
    pub(in crate::auth) fn of(issuer: &'a Jwt) -> Self {
        Self {
            algorithms: &issuer.algorithms,
            issuer: &issuer.issuer,
            audience: &issuer.audience,
            clock_skew: issuer.clock_skew,
            max_lifetime: issuer.max_lifetime,
            types: &["jwt", "at+jwt"],
        }
    }
}
