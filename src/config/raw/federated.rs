//! The tables of identity providers as they are written.

use super::{Entry, List, Lists};
use serde::Deserialize;
use toml::Spanned;

/// `[[auth.jwt]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [[auth.jwt]]")]
pub(in crate::config) struct Jwt {
    pub(in crate::config) name: Entry,
    pub(in crate::config) issuer: Entry,
    pub(in crate::config) audience: List,
    pub(in crate::config) jwks_url: Entry,
    pub(in crate::config) jwks_file: Entry,
    pub(in crate::config) ca_file: Entry,
    pub(in crate::config) max_stale: Entry,
    pub(in crate::config) algorithms: List,
    pub(in crate::config) user_claim: Entry,
    pub(in crate::config) clock_skew: Entry,
    pub(in crate::config) max_lifetime: Entry,
    pub(in crate::config) networks: List,
    pub(in crate::config) rate_limit: Entry,
    #[serde(default)]
    pub(in crate::config) grant: Vec<Spanned<ClaimGrant>>,
}

/// `[[auth.jwt.grant]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table of a grant")]
pub(in crate::config) struct ClaimGrant {
    pub(in crate::config) claims: Lists,
    pub(in crate::config) upstream: Entry,
    pub(in crate::config) permissions: List,
}

/// `[[auth.oidc]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [[auth.oidc]]")]
pub(in crate::config) struct Oidc {
    pub(in crate::config) name: Entry,
    pub(in crate::config) label: Entry,
    pub(in crate::config) issuer: Entry,
    pub(in crate::config) ca_file: Entry,
    pub(in crate::config) client_id: Entry,
    pub(in crate::config) client_secret: Entry,
    pub(in crate::config) client_secret_file: Entry,
    pub(in crate::config) redirect_url: Entry,
    pub(in crate::config) scopes: List,
    pub(in crate::config) user_claim: Entry,
    pub(in crate::config) second_factor: List,
    pub(in crate::config) acr_values: List,
    pub(in crate::config) algorithms: List,
    pub(in crate::config) clock_skew: Entry,
    pub(in crate::config) refresh: Entry,
    pub(in crate::config) max_stale: Entry,
    pub(in crate::config) networks: List,
    pub(in crate::config) rate_limit: Entry,
    #[serde(default)]
    pub(in crate::config) grant: Vec<Spanned<ClaimGrant>>,
}
