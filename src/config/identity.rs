//! `[identity]`: the keys that sign who a caller is, for upstreams and other applications.

use super::error::SpannedError;
use super::raw;
use super::setting::Source;
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;

const SECOND: Duration = Duration::from_secs(1);

const NAME: &str = "a name of 1 to 255 printable characters without spaces";

/// `[identity]`.
#[derive(Debug, Clone)]
pub struct IdentityTokens {
    /// PEM files of private keys: the first signs, all are published. None: nothing is signed.
    pub keys: Vec<PathBuf>,
    /// The name of the gateway in its tokens.
    pub issuer: String,
    /// How long a token is valid.
    pub lifetime: Duration,
    /// The applications for which `GET /gateway/verify` signs.
    pub audiences: Vec<String>,
}

pub(super) fn identity(
    raw: raw::Identity,
    upstreams: &[super::Upstream],
    source: &Source<'_>,
) -> Result<IdentityTokens, SpannedError> {
    let mut keys = Vec::new();
    for entry in raw.keys.iter().flat_map(Spanned::get_ref) {
        keys.push(source.path(entry)?);
    }
    let of_upstream = |text: &str| upstreams.iter().any(|upstream| upstream.mount.name == text);
    let mut audiences = Vec::new();
    for entry in raw.audiences.iter().flat_map(Spanned::get_ref) {
        let audience = source.parsed(entry, NAME, name)?;
        if of_upstream(&audience) {
            let sentence = "this is the name of an upstream: a user could get a token for it that no request to it has";
            return Err(SpannedError::rule(entry.span(), sentence));
        }
        audiences.push(audience);
    }
    let issuer = raw.issuer.as_ref();
    let issuer = issuer.map(|entry| source.parsed(entry, NAME, name));
    Ok(IdentityTokens {
        keys,
        issuer: issuer.transpose()?.unwrap_or_else(|| "flowgate".to_owned()),
        lifetime: source.duration(raw.lifetime, 60 * SECOND, 5 * SECOND..=3600 * SECOND)?,
        audiences,
    })
}

fn name(text: &str) -> Option<String> {
    let plain = text.bytes().all(|byte| byte.is_ascii_graphic());
    let fits = (1..=255).contains(&text.len()) && plain;
    fits.then(|| text.to_owned())
}
