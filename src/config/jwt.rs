//! `[[auth.jwt]]`: issuers of JWTs that count as bearer tokens, and the permissions of their
//! callers.
//!
//! Knows how they are spelled; `crate::auth` verifies tokens.

use super::claims::{self, Claim, ClaimGrant};
use super::error::SpannedError;
use super::provider_url::{self, ProviderUrl};
use super::rate_limit::rate_limit;
use super::setting::{Source, Span};
use super::{Networks, RateLimit, networks, raw};
use jsonwebtoken::Algorithm;
use jsonwebtoken::jwk::JwkSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use toml::Spanned;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// The algorithms that may be named: those with a public key. A key set is public, so an HMAC
/// proves nothing.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// The expected form of a provider's name, for errors.
pub(super) const NAME: &str = "a name of at most 64 letters, digits, \"-\", \"_\" and \".\"";

/// An issuer of JWTs.
#[derive(Debug, Clone, PartialEq)]
pub struct Jwt {
    /// Its name in logs, and a part of its callers' names.
    pub name: String,
    /// `iss` of its tokens.
    pub issuer: String,
    /// `aud` must have one of these.
    pub audience: Vec<String>,
    /// Its public keys.
    pub keys: KeySource,
    /// The algorithms accepted.
    pub algorithms: Vec<Algorithm>,
    /// The claim that names the caller.
    pub user_claim: Claim,
    /// The largest difference between its clock and ours.
    pub clock_skew: Duration,
    /// The longest time between `iat` and `exp`.
    pub max_lifetime: Duration,
    /// The networks that requests must come from; `None`: all.
    pub networks: Option<Arc<Networks>>,
    /// The limit of the requests of each caller; `None`: none.
    pub rate_limit: Option<RateLimit>,
    /// The permissions.
    pub grants: Vec<ClaimGrant>,
}

/// Where the public keys of an issuer are.
#[derive(Debug, Clone, PartialEq)]
pub enum KeySource {
    /// In a file, read with the configuration.
    File(JwkSet),
    /// At a URL.
    Url {
        /// The URL.
        url: ProviderUrl,
        /// PEM file of the certification authorities to trust instead of the system's.
        ca_file: Option<PathBuf>,
        /// How long the keys count after they were last fetched, while the issuer cannot be
        /// reached.
        max_stale: Duration,
    },
}

/// All of them.
pub(super) fn issuers(
    raw: Vec<Spanned<raw::Jwt>>,
    source: &Source<'_>,
) -> Result<Vec<Jwt>, SpannedError> {
    let mut issuers: Vec<Jwt> = Vec::new();
    for table in raw {
        let span = table.span();
        let issuer = issuer(table, source)?;
        if issuers.iter().any(|other| other.name == issuer.name) {
            let sentence = format!("there are two [[auth.jwt]] named \"{}\"", issuer.name);
            return Err(SpannedError::rule(span, sentence));
        }
        issuers.push(issuer);
    }
    Ok(issuers)
}

fn issuer(table: Spanned<raw::Jwt>, source: &Source<'_>) -> Result<Jwt, SpannedError> {
    let span = table.span();
    let mut raw = table.into_inner();
    let missing =
        |what: &str| SpannedError::rule(span.clone(), format!("an issuer of JWTs needs {what}"));
    let entry = raw.name.take().ok_or_else(|| missing("a name"))?;
    let name = source.parsed(&entry, NAME, name)?;
    let entry = raw
        .issuer
        .take()
        .ok_or_else(|| missing("its issuer, the claim iss of its tokens"))?;
    let not_empty = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let issuer = source.parsed(&entry, "the claim iss of its tokens", not_empty)?;
    let audience = source.list(raw.audience.take(), "a value of the claim aud", not_empty)?;
    let audience = audience.filter(|list| !list.is_empty()).ok_or_else(|| {
        missing("an audience, or tokens made for other programs would be accepted")
    })?;
    let user_claim = match raw.user_claim.take() {
        Some(entry) => source.parsed(&entry, claims::CLAIM, Claim::parse)?,
        None => Claim::subject(),
    };
    let grants = claims::grants(std::mem::take(&mut raw.grant), span.clone(), source)?;
    Ok(Jwt {
        name,
        issuer,
        audience,
        algorithms: algorithms(raw.algorithms.take(), source)?,
        user_claim,
        clock_skew: source.duration(
            raw.clock_skew.take(),
            30 * SECOND,
            Duration::ZERO..=300 * SECOND,
        )?,
        max_lifetime: source.duration(raw.max_lifetime.take(), DAY, SECOND..=365 * DAY)?,
        networks: networks::allowed(raw.networks.take(), source)?,
        rate_limit: rate_limit(raw.rate_limit.take(), source)?,
        grants,
        keys: keys(raw, span, source)?,
    })
}

fn keys(raw: raw::Jwt, span: Span, source: &Source<'_>) -> Result<KeySource, SpannedError> {
    match (raw.jwks_url, raw.jwks_file) {
        (Some(entry), None) => Ok(KeySource::Url {
            url: source.parsed(&entry, provider_url::EXPECTED, ProviderUrl::parse)?,
            ca_file: raw.ca_file.map(|entry| source.path(&entry)).transpose()?,
            max_stale: source.duration(raw.max_stale, HOUR, SECOND..=30 * DAY)?,
        }),
        (None, Some(entry)) => {
            let path = source.path(&entry)?;
            source.read.borrow_mut().push(path.clone());
            let text = std::fs::read_to_string(&path);
            let keys = text.map_err(|error| error.to_string()).and_then(|text| {
                serde_json::from_str(&text).map_err(|_| "it is no JWK set (RFC 7517 §5)".to_owned())
            });
            let wrong = |error| {
                let sentence = format!("cannot read {}: {error}", path.display());
                SpannedError::rule(entry.span(), sentence)
            };
            keys.map(KeySource::File).map_err(wrong)
        }
        _ => {
            let sentence =
                "an issuer of JWTs needs either a jwks_url or a jwks_file, with its public keys";
            Err(SpannedError::rule(span, sentence))
        }
    }
}

pub(super) fn algorithms(
    list: raw::List,
    source: &Source<'_>,
) -> Result<Vec<Algorithm>, SpannedError> {
    const EXPECTED: &str = "\"RS256\", \"RS384\", \"RS512\", \"PS256\", \"PS384\", \"PS512\", \"ES256\", \"ES384\" or \"EdDSA\"";
    let known = |text: &str| {
        let algorithm = text.parse().ok()?;
        ALGORITHMS.contains(&algorithm).then_some(algorithm)
    };
    let span = list.as_ref().map(Spanned::span);
    match (source.list(list, EXPECTED, known)?, span) {
        (Some(list), Some(span)) if list.is_empty() => Err(SpannedError::rule(
            span,
            "no token could be signed: name an algorithm, or leave the key out",
        )),
        (list, _) => Ok(list.unwrap_or_else(|| ALGORITHMS.to_vec())),
    }
}

/// Plain enough to be a part of a caller's name.
pub(super) fn name(text: &str) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name = (1..=64).contains(&text.len()) && text.bytes().all(plain);
    is_name.then(|| text.to_owned())
}
