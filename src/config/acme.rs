//! `[tls.acme]`: the certificate that a certification authority issues by ACME (RFC 8555).

use super::error::SpannedError;
use super::provider_url::{EXPECTED, ProviderUrl};
use super::raw;
use super::setting::{Source, flag};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use crypto::{Secret, constant_time_eq};
use std::ops::Range;
use std::path::PathBuf;

/// The production directory of Let's Encrypt.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// Names in a certificate, at most: the limit of Let's Encrypt.
const MAX_DOMAINS: usize = 100;

/// The expected form of a domain, for errors.
const DOMAIN: &str = "a host name such as \"gate.example.org\", without a port; TLS-ALPN-01 validates neither wildcards nor addresses";

/// `[tls.acme]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acme {
    /// The names that the certificate is for, lower-case.
    pub domains: Vec<String>,
    /// `mailto:` URLs of the account.
    pub contact: Vec<String>,
    /// The authority's directory (RFC 8555 §7.1.1).
    pub directory: ProviderUrl,
    /// PEM file of the authorities of the directory's own certificate; `None`: those of the system.
    pub ca_file: Option<PathBuf>,
    /// The account at the authority outside ACME (RFC 8555 §7.3.4).
    pub external_account: Option<ExternalAccount>,
}

/// An external account binding.
#[derive(Debug, Clone)]
pub struct ExternalAccount {
    /// The identifier of its key.
    pub key_id: String,
    /// The key, base64url.
    hmac_key: Secret,
}

impl ExternalAccount {
    /// The bytes of the key.
    pub fn hmac_key(&self) -> Vec<u8> {
        decoded(&self.hmac_key).unwrap_or_default()
    }
}

impl PartialEq for ExternalAccount {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (self.hmac_key.reveal(), other.hmac_key.reveal());
        self.key_id == other.key_id && constant_time_eq(a.as_bytes(), b.as_bytes())
    }
}

impl Eq for ExternalAccount {}

/// The whole table, which starts at `span`.
pub(super) fn acme(
    raw: raw::Acme,
    span: Range<usize>,
    source: &Source<'_>,
) -> Result<Acme, SpannedError> {
    let terms = raw.accept_terms.as_ref().map(toml::Spanned::span);
    if !flag(raw.accept_terms, false)? {
        return Err(SpannedError::rule(
            terms.unwrap_or(span),
            "a certificate is ordered only when you accept the terms of service of the authority: accept_terms = true",
        ));
    }
    let domains = domains(raw.domains, span.clone(), source)?;
    let mail = |text: &str| {
        let address = text.strip_prefix("mailto:")?;
        let plain = address.contains('@') && !address.contains([',', '?', ' ']);
        (plain && address.is_ascii()).then(|| text.to_owned())
    };
    let contact = source.list(
        raw.contact,
        "a URL such as \"mailto:ops@example.org\"",
        mail,
    )?;
    let directory = match &raw.directory {
        Some(entry) => source.parsed(entry, EXPECTED, ProviderUrl::parse)?,
        None => ProviderUrl::parse(LETS_ENCRYPT)
            .ok_or_else(|| SpannedError::value(span.clone(), EXPECTED))?,
    };
    Ok(Acme {
        domains,
        contact: contact.unwrap_or_default(),
        directory,
        ca_file: raw.ca_file.map(|entry| source.path(&entry)).transpose()?,
        external_account: external_account(raw.eab_key_id, raw.eab_hmac_key_file, source)?,
    })
}

fn domains(
    list: raw::List,
    table: Range<usize>,
    source: &Source<'_>,
) -> Result<Vec<String>, SpannedError> {
    let span = list.as_ref().map_or(table, toml::Spanned::span);
    let domains = source.list(list, DOMAIN, domain)?.unwrap_or_default();
    if domains.is_empty() || domains.len() > MAX_DOMAINS {
        return Err(SpannedError::rule(
            span,
            format!("[tls.acme] needs domains, from 1 to {MAX_DOMAINS} names for the certificate"),
        ));
    }
    let mut sorted = domains.clone();
    sorted.sort_unstable();
    let twice = |pair: &[String]| (pair[0] == pair[1]).then(|| pair[0].clone());
    if let Some(name) = sorted.windows(2).find_map(twice) {
        let sentence = format!("{name} is named twice");
        return Err(SpannedError::rule(span, sentence));
    }
    Ok(domains)
}

/// A host name that an authority can validate, lower-case.
fn domain(text: &str) -> Option<String> {
    let label = |label: &str| {
        let fits = (1..=63).contains(&label.len());
        let ends = label.starts_with('-') || label.ends_with('-');
        let plain = label
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-');
        fits && !ends && plain
    };
    let last = text.rsplit('.').next()?;
    let is_address = last.bytes().all(|b| b.is_ascii_digit());
    let is_name = text.len() <= 253 && text.split('.').all(label) && !is_address;
    is_name.then(|| text.to_ascii_lowercase())
}

fn external_account(
    key_id: raw::Entry,
    hmac_key_file: raw::Entry,
    source: &Source<'_>,
) -> Result<Option<ExternalAccount>, SpannedError> {
    let (key_id, file) = match (key_id, hmac_key_file) {
        (None, None) => return Ok(None),
        (Some(key_id), Some(file)) => (key_id, file),
        (Some(one), None) | (None, Some(one)) => {
            return Err(SpannedError::rule(
                one.span(),
                "an external account needs both, eab_key_id and eab_hmac_key_file",
            ));
        }
    };
    let name = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let key_id = source.parsed(&key_id, "the identifier of the key", name)?;
    let Some((hmac_key, span)) = source.secret(None, Some(file))? else {
        return Ok(None);
    };
    if decoded(&hmac_key).is_none() {
        return Err(SpannedError::rule(
            span,
            "the key of an external account is base64url, as the authority gives it",
        ));
    }
    Ok(Some(ExternalAccount { key_id, hmac_key }))
}

fn decoded(key: &Secret) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD
        .decode(key.reveal().trim_end_matches('='))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_a_host_name_that_tls_alpn_01_can_validate() {
        for (text, expected) in [
            ("Gate.Example.org", Some("gate.example.org")),
            ("localhost", Some("localhost")),
            ("xn--bcher-kva.example", Some("xn--bcher-kva.example")),
            ("*.example.org", None),
            ("192.0.2.7", None),
            ("gate.example.org:443", None),
            ("gate..example.org", None),
            ("-a.example.org", None),
            ("bücher.example", None),
            ("", None),
        ] {
            assert_eq!(domain(text).as_deref(), expected, "{text}");
        }
    }
}
