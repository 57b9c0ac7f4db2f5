//! `[[auth.oidc]]`: providers with which users sign in by OpenID Connect, and the permissions of
//! their users.
//!
//! Knows how they are spelled; `crate::auth` asks them.

use super::claims::{self, Claim, ClaimGrant};
use super::error::SpannedError;
use super::jwt::{algorithms, name};
use super::provider_url::{self, ProviderUrl};
use super::rate_limit::rate_limit;
use super::setting::Source;
use super::{Networks, RateLimit, networks, raw};
use crypto::Secret;
use jsonwebtoken::Algorithm;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use toml::Spanned;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);

/// The scopes asked for by default (OpenID Connect Core 1.0 §5.4).
const SCOPES: [&str; 3] = ["openid", "profile", "email"];

/// A provider of OpenID Connect.
#[derive(Debug, Clone, PartialEq)]
pub struct Oidc {
    /// Its name in logs and paths, and a part of its users' names.
    pub name: String,
    /// Its name on the sign-in page.
    pub label: String,
    /// Its issuer, exactly as its tokens have it.
    pub issuer: String,
    /// Where its metadata is.
    pub metadata: ProviderUrl,
    /// PEM file of the certification authorities to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// The gateway's id there.
    pub client_id: String,
    /// The gateway's secret there; `None`: it is a public client.
    pub client_secret: Option<Secret>,
    /// The address to which the provider sends browsers back; `None`: that of the request.
    pub redirect_url: Option<ProviderUrl>,
    /// The scopes to ask for.
    pub scopes: Vec<String>,
    /// The claim that names the user.
    pub user_claim: Claim,
    /// Values of `amr` or `acr` that show a second factor; empty: its users have none.
    pub second_factor: Vec<String>,
    /// `acr_values` to ask for.
    pub acr_values: Vec<String>,
    /// The algorithms accepted.
    pub algorithms: Vec<Algorithm>,
    /// The largest difference between its clock and ours.
    pub clock_skew: Duration,
    /// The time between two questions whether a session still counts.
    pub refresh: Duration,
    /// How long sessions count on while the provider cannot be reached.
    pub max_stale: Duration,
    /// The networks that requests must come from; `None`: all.
    pub networks: Option<Arc<Networks>>,
    /// The limit of the requests of each user; `None`: none.
    pub rate_limit: Option<RateLimit>,
    /// The permissions.
    pub grants: Vec<ClaimGrant>,
}

/// All of them.
pub(super) fn providers(
    raw: Vec<Spanned<raw::Oidc>>,
    source: &Source<'_>,
) -> Result<Vec<Oidc>, SpannedError> {
    let mut providers: Vec<Oidc> = Vec::new();
    for table in raw {
        let span = table.span();
        let provider = provider(table, source)?;
        if providers.iter().any(|other| other.name == provider.name) {
            let sentence = format!("there are two [[auth.oidc]] named \"{}\"", provider.name);
            return Err(SpannedError::rule(span, sentence));
        }
        providers.push(provider);
    }
    Ok(providers)
}

fn provider(table: Spanned<raw::Oidc>, source: &Source<'_>) -> Result<Oidc, SpannedError> {
    let span = table.span();
    let raw = table.into_inner();
    let missing = |what: &str| {
        SpannedError::rule(
            span.clone(),
            format!("a provider of OpenID Connect needs {what}"),
        )
    };
    let entry = raw.name.ok_or_else(|| missing("a name"))?;
    let name = source.parsed(&entry, super::jwt::NAME, name)?;
    let entry = raw.issuer.ok_or_else(|| missing("its issuer"))?;
    let (issuer, metadata) = source.parsed(&entry, provider_url::EXPECTED, issuer)?;
    let entry = raw
        .client_id
        .ok_or_else(|| missing("the client_id of flowgate there"))?;
    let plain = |text: &str| {
        let is_plain = !text.is_empty() && !text.contains(char::is_control);
        is_plain.then(|| text.to_owned())
    };
    let client_id = source.parsed(&entry, "the id of flowgate at the provider", plain)?;
    let label = raw
        .label
        .map(|entry| source.parsed(&entry, "a name for users", plain));
    let secret = source.secret(raw.client_secret, raw.client_secret_file)?;
    let user_claim = raw.user_claim;
    let user_claim = user_claim.map(|entry| source.parsed(&entry, claims::CLAIM, Claim::parse));
    let redirect_url = raw
        .redirect_url
        .map(|entry| source.parsed(&entry, provider_url::EXPECTED, ProviderUrl::parse));
    Ok(Oidc {
        label: label.transpose()?.unwrap_or_else(|| name.clone()),
        name,
        issuer,
        metadata,
        ca_file: raw.ca_file.map(|entry| source.path(&entry)).transpose()?,
        client_id,
        client_secret: secret.map(|(secret, _)| secret),
        redirect_url: redirect_url.transpose()?,
        scopes: scopes(raw.scopes, source)?,
        user_claim: user_claim.transpose()?.unwrap_or_else(Claim::subject),
        second_factor: values(raw.second_factor, source)?,
        acr_values: values(raw.acr_values, source)?,
        algorithms: algorithms(raw.algorithms, source)?,
        clock_skew: source.duration(raw.clock_skew, 30 * SECOND, Duration::ZERO..=300 * SECOND)?,
        refresh: source.duration(raw.refresh, 30 * SECOND, SECOND..=HOUR)?,
        max_stale: source.duration(raw.max_stale, HOUR, SECOND..=24 * HOUR)?,
        networks: networks::allowed(raw.networks, source)?,
        rate_limit: rate_limit(raw.rate_limit, source)?,
        grants: claims::grants(raw.grant, span, source)?,
    })
}

/// The issuer and the URL of its metadata (OpenID Connect Discovery 1.0 §4).
fn issuer(text: &str) -> Option<(String, ProviderUrl)> {
    ProviderUrl::parse(text).filter(|url| url.uri().query().is_none())?;
    let base = text.trim_end_matches('/');
    let metadata = ProviderUrl::parse(&format!("{base}/.well-known/openid-configuration"))?;
    Some((text.to_owned(), metadata))
}

/// Values of `amr` (RFC 8176) and `acr`; those asked for are separated by spaces (OpenID Connect
/// Core 1.0 §3.1.2.1).
fn values(list: raw::List, source: &Source<'_>) -> Result<Vec<String>, SpannedError> {
    const EXPECTED: &str = "a value of amr or acr without spaces, such as \"mfa\" or \"otp\"";
    let value = |text: &str| {
        let is_value = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_value.then(|| text.to_owned())
    };
    Ok(source.list(list, EXPECTED, value)?.unwrap_or_default())
}

fn scopes(list: raw::List, source: &Source<'_>) -> Result<Vec<String>, SpannedError> {
    const EXPECTED: &str = "a scope, such as \"openid\" or \"groups\"";
    // RFC 6749 §3.3.
    let is_scope = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    let scope =
        |text: &str| (!text.is_empty() && text.bytes().all(is_scope)).then(|| text.to_owned());
    let span = list.as_ref().map(Spanned::span);
    let scopes = source.list(list, EXPECTED, scope)?;
    match (scopes, span) {
        (Some(list), Some(span)) if !list.iter().any(|scope| scope == "openid") => {
            let sentence = "without the scope \"openid\" a provider tells nothing of who signs in";
            Err(SpannedError::rule(span, sentence))
        }
        (list, _) => Ok(list.unwrap_or_else(|| SCOPES.map(str::to_owned).to_vec())),
    }
}
