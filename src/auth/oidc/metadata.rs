//! What a provider tells of itself (OpenID Connect Discovery 1.0 §3): where its endpoints are.
//!
//! Its URLs are under the same rules as those of the configuration.

use crate::config::{Oidc, ProviderUrl};
use serde::Deserialize;

/// How long metadata is kept, seconds. Our choice: providers change it with releases.
pub(super) const FRESH: u64 = 3600;

/// The endpoints of a provider.
#[derive(Debug, Clone)]
pub(super) struct Metadata {
    pub(super) authorization: ProviderUrl,
    pub(super) token: ProviderUrl,
    pub(super) keys: ProviderUrl,
    pub(super) user_info: Option<ProviderUrl>,
    pub(super) end_session: Option<ProviderUrl>,
    /// True if the authorization response has `iss` (RFC 9207 §3).
    pub(super) names_itself: bool,
    /// True if the secret of a client stands in the form only.
    pub(super) secret_in_form: bool,
    /// When it was fetched, seconds since 1970.
    pub(super) fetched: u64,
}

#[derive(Deserialize)]
struct Raw {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    userinfo_endpoint: Option<String>,
    end_session_endpoint: Option<String>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

impl Metadata {
    /// Reads it; the error is a sentence.
    pub(super) fn read(config: &Oidc, text: &[u8], now: u64) -> Result<Self, &'static str> {
        let raw: Raw =
            serde_json::from_slice(text).map_err(|_| "its metadata is not understood")?;
        if raw.issuer != config.issuer {
            return Err("its metadata names another issuer");
        }
        let url = |text: &str| {
            let url = ProviderUrl::parse(text);
            url.filter(|url| !url.is_loopback() || config.metadata.is_loopback())
                .ok_or("its metadata has a URL that is not https")
        };
        let optional = |text: Option<String>| text.map(|text| url(&text)).transpose();
        let methods = raw.token_endpoint_auth_methods_supported;
        let has = |name: &str| {
            let mut methods = methods.iter().flatten();
            methods.any(|method| method == name)
        };
        Ok(Self {
            authorization: url(&raw.authorization_endpoint)?,
            token: url(&raw.token_endpoint)?,
            keys: url(&raw.jwks_uri)?,
            user_info: optional(raw.userinfo_endpoint)?,
            end_session: optional(raw.end_session_endpoint)?,
            names_itself: raw.authorization_response_iss_parameter_supported,
            secret_in_form: has("client_secret_post") && !has("client_secret_basic"),
            fetched: now,
        })
    }
}
