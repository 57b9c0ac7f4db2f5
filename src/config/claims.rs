//! Claims of an identity provider's tokens (RFC 7519 §4), and the permissions that they give:
//! `[[auth.jwt.grant]]`.
//!
//! Knows how both are spelled and which grants fit the claims of a token; verifies nothing.

use super::error::SpannedError;
use super::setting::Source;
use super::{raw, route};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use toml::Spanned;
use wildmatch::WildMatch;

/// The expected form of a claim's name, for errors.
pub(super) const CLAIM: &str = "the name of a claim, such as \"sub\", or a JSON pointer to a nested one, such as \"/realm_access/roles\"";

const VALUE: &str = "a value of the claim, in which * is any text, such as \"flow-admins\"";

/// The most values of a claim that count. Our choice: providers leave groups out of a token before
/// it has so many.
const MAX_VALUES: usize = 1000;

/// The place of a claim: its name, or a JSON pointer (RFC 6901).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim(String);

/// The permissions of callers with certain claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimGrant {
    /// Claims that must all be there, each with one of these patterns.
    claims: Vec<(Claim, Vec<String>)>,
    /// The name of the upstream where the permissions count; `None`: everywhere.
    pub upstream: Option<String>,
    /// The permissions.
    pub permissions: Vec<String>,
}

impl Claim {
    /// Reads a name or a pointer.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_plain = !text.is_empty() && !text.contains(char::is_control) && text != "/";
        is_plain.then(|| Self(text.to_owned()))
    }

    /// `sub`: an issuer never assigns it twice (RFC 7519 §4.1.2).
    pub(super) fn subject() -> Self {
        Self("sub".to_owned())
    }

    /// The claim's value.
    pub fn of<'c>(&self, claims: &'c Map<String, Json>) -> Option<&'c Json> {
        let Some(pointer) = self.0.strip_prefix('/') else {
            return claims.get(&self.0);
        };
        let (first, rest) = pointer
            .split_once('/')
            .map_or((pointer, None), |(first, rest)| (first, Some(rest)));
        let value = claims.get(&first.replace("~1", "/").replace("~0", "~"))?;
        rest.map_or(Some(value), |rest| value.pointer(&format!("/{rest}")))
    }

    /// The claim's texts: of a list, each. Numbers and truth values count as they are written.
    fn texts(&self, claims: &Map<String, Json>) -> Vec<String> {
        let text = |value: &Json| match value {
            Json::String(text) => Some(text.clone()),
            Json::Bool(_) | Json::Number(_) => Some(value.to_string()),
            Json::Null | Json::Array(_) | Json::Object(_) => None,
        };
        match self.of(claims) {
            Some(Json::Array(list)) => list.iter().take(MAX_VALUES).filter_map(text).collect(),
            Some(value) => text(value).into_iter().collect(),
            None => Vec::new(),
        }
    }
}

impl ClaimGrant {
    /// Returns whether the claims have one of the patterns each.
    pub fn fits(&self, claims: &Map<String, Json>) -> bool {
        self.claims.iter().all(|(claim, patterns)| {
            let texts = claim.texts(claims);
            let mut patterns = patterns.iter().map(|pattern| WildMatch::new(pattern));
            patterns.any(|pattern| texts.iter().any(|text| pattern.matches(text)))
        })
    }
}

/// Reads the grants of a provider; one at least, or no caller of it could do anything.
pub(super) fn grants(
    raw: Vec<Spanned<raw::ClaimGrant>>,
    span: super::setting::Span,
    source: &Source<'_>,
) -> Result<Vec<ClaimGrant>, SpannedError> {
    if raw.is_empty() {
        let sentence = "it needs a grant, or no caller has a permission: claims = { sub = [\"…\"] }, permissions = [\"read\"]";
        return Err(SpannedError::rule(span, sentence));
    }
    raw.into_iter().map(|table| grant(table, source)).collect()
}

fn grant(table: Spanned<raw::ClaimGrant>, source: &Source<'_>) -> Result<ClaimGrant, SpannedError> {
    let span = table.span();
    let raw = table.into_inner();
    let claims = raw.claims.map(Spanned::into_inner).unwrap_or_default();
    if claims.is_empty() {
        let sentence = "a grant needs claims, or every token of the issuer would have it: claims = { sub = [\"…\"] }";
        return Err(SpannedError::rule(span, sentence));
    }
    let Some(permissions) = source.list(raw.permissions, route::PERMISSION, route::permission)?
    else {
        let sentence = "a grant needs permissions, such as [\"read\"]";
        return Err(SpannedError::rule(span, sentence));
    };
    let upstream = raw
        .upstream
        .map(|entry| source.text(&entry, "the name of an upstream"));
    Ok(ClaimGrant {
        claims: claim_patterns(claims, source)?,
        upstream: upstream.transpose()?,
        permissions,
    })
}

fn claim_patterns(
    claims: BTreeMap<Spanned<String>, Spanned<Vec<Spanned<toml::Value>>>>,
    source: &Source<'_>,
) -> Result<Vec<(Claim, Vec<String>)>, SpannedError> {
    let claims = claims.into_iter().map(|(name, patterns)| {
        let claim = Claim::parse(name.get_ref());
        let claim = claim.ok_or_else(|| SpannedError::value(name.span(), CLAIM))?;
        let span = patterns.span();
        let read = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let patterns = source
            .list(Some(patterns), VALUE, read)?
            .unwrap_or_default();
        if patterns.is_empty() {
            return Err(SpannedError::rule(
                span,
                "no token could have this claim: name a value",
            ));
        }
        Ok((claim, patterns))
    });
    claims.collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use serde_json::json;

    fn fits(claims: &[(&str, &[&str])], token: &Json) -> bool {
        let claims = claims.iter().map(|(name, patterns)| {
            let patterns = patterns.iter().map(ToString::to_string).collect();
            (Claim::parse(name).unwrap(), patterns)
        });
        let grant = ClaimGrant {
            claims: claims.collect(),
            upstream: None,
            permissions: Vec::new(),
        };
        grant.fits(token.as_object().unwrap())
    }

    #[test]
    fn every_claim_must_have_one_of_its_values() {
        let token = json!({
            "sub": "repo:acme/flows:ref:refs/heads/main", "groups": ["a", "b"], "verified": true, "n": 5,
            "kubernetes.io": { "namespace": "prod", "a/b": ["x"] }, "object": {}, "none": null
        });
        for (claims, expected) in [
            (
                &[("sub", &["repo:acme/*:ref:refs/heads/main"][..])][..],
                true,
            ),
            (&[("groups", &["x", "b"])], true),
            (&[("groups", &["ab"])], false),
            (&[("groups", &["a"]), ("sub", &["other"])], false),
            (&[("verified", &["true"]), ("n", &["5"])], true),
            (&[("/kubernetes.io/namespace", &["prod"])], true),
            (&[("/kubernetes.io/a~1b", &["x"])], true),
            (&[("kubernetes.io", &["*"])], false),
            (&[("object", &["*"])], false),
            (&[("none", &["*"])], false),
            (&[("absent", &["*"])], false),
        ] {
            assert_eq!(fits(claims, &token), expected, "{claims:?}");
        }
    }
}
