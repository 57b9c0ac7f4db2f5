//! `[tls]`: certificates, ours and those of clients, and how the certificates of clients are named.
//!
//! Knows names of files; never reads one.

use super::error::SpannedError;
use super::setting::{Source, flag};
use super::{Acme, Certificate, ClientCertificates, Tls, acme, raw};
use smol_str::SmolStr;
use std::fmt;
use toml::Spanned;

/// The expected form of a certificate's name, for errors.
pub(super) const NAME: &str = "a certificate's name: \"cn:maria\", \"email:maria@example.org\", \"dns:ci.example.org\", or \"sha256:\" and the 64 digits of its fingerprint";

/// One of the names that a client's certificate has, spelled so that equal ones are equal: the
/// common name of its subject, an e-mail address or a host name among its alternative names, its
/// fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CertificateName(SmolStr);

impl CertificateName {
    /// `cn:` and the common name: exact.
    pub fn common(name: &str) -> Self {
        Self(format!("cn:{name}").into())
    }

    /// `email:` and the address: exact, but for the case of its domain (RFC 5321 §2.4).
    pub fn email(address: &str) -> Self {
        let (local, domain) = address.rsplit_once('@').unwrap_or((address, ""));
        Self(format!("email:{local}@{}", domain.to_ascii_lowercase()).into())
    }

    /// `dns:` and the host name, whose case does not matter. A wildcard is a name like any other.
    pub fn dns(name: &str) -> Self {
        Self(format!("dns:{}", name.to_ascii_lowercase()).into())
    }

    /// `sha256:` and the digits of the whole certificate's SHA-256.
    pub fn fingerprint(sha256: &[u8; 32]) -> Self {
        Self(format!("sha256:{}", crypto::hex(sha256)).into())
    }

    fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once(':')?;
        if name.is_empty() || name.contains(char::is_control) {
            return None;
        }
        match kind {
            "cn" => Some(Self::common(name)),
            "email" => name.contains('@').then(|| Self::email(name)),
            "dns" => name.is_ascii().then(|| Self::dns(name)),
            "sha256" => {
                let digits = name.replace(':', "").to_ascii_lowercase();
                let whole = digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit());
                whole.then(|| Self(format!("sha256:{digits}").into()))
            }
            _ => None,
        }
    }
}

impl fmt::Display for CertificateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The whole table.
pub(super) fn tls(raw: raw::Tls, source: &Source<'_>) -> Result<Tls, SpannedError> {
    let acme = ordered(raw.acme, !raw.certificate.is_empty(), source)?;
    let certificates = raw.certificate.into_iter();
    let certificates = certificates.map(|table| certificate(table, source));
    Ok(Tls {
        directory: source.directory(raw.directory, "certs")?,
        certificates: certificates.collect::<Result<_, _>>()?,
        acme,
        tls12: flag(raw.tls12, true)?,
        clients: clients(
            raw.client_ca,
            raw.client_crl,
            raw.client_certificates,
            source,
        )?,
    })
}

fn ordered(
    table: Option<Spanned<raw::Acme>>,
    has_certificates: bool,
    source: &Source<'_>,
) -> Result<Option<Box<Acme>>, SpannedError> {
    let Some(table) = table else {
        return Ok(None);
    };
    let span = table.span();
    if has_certificates {
        return Err(SpannedError::rule(
            span,
            "[tls.acme] and [[tls.certificate]] exclude each other: keep the certificate that is ordered, or those in files",
        ));
    }
    let acme = acme::acme(table.into_inner(), span, source)?;
    Ok(Some(Box::new(acme)))
}

fn certificate(
    table: Spanned<raw::Certificate>,
    source: &Source<'_>,
) -> Result<Certificate, SpannedError> {
    let span = table.span();
    match table.into_inner() {
        raw::Certificate {
            cert: Some(cert),
            key: Some(key),
        } => Ok(Certificate {
            cert: source.path(&cert)?,
            key: source.path(&key)?,
        }),
        _ => Err(SpannedError::rule(
            span,
            "a [[tls.certificate]] needs cert and key, the paths of two PEM files",
        )),
    }
}

fn clients(
    ca: raw::Entry,
    crl: raw::Entry,
    wanted: raw::Entry,
    source: &Source<'_>,
) -> Result<Option<ClientCertificates>, SpannedError> {
    let Some(ca) = ca else {
        return match crl.or(wanted) {
            None => Ok(None),
            Some(entry) => Err(SpannedError::rule(
                entry.span(),
                "no certificate could be accepted: name the file of their authorities, tls.client_ca",
            )),
        };
    };
    let parse = |text: &str| match text {
        "optional" => Some(false),
        "required" => Some(true),
        _ => None,
    };
    let wanted = wanted.map(|entry| source.parsed(&entry, "\"optional\" or \"required\"", parse));
    Ok(Some(ClientCertificates {
        ca: source.path(&ca)?,
        crl: crl.map(|entry| source.path(&entry)).transpose()?,
        required: wanted.transpose()?.unwrap_or(false),
    }))
}

/// One certificate's name, of a list.
pub(super) fn name(text: &str) -> Option<CertificateName> {
    CertificateName::parse(text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn equivalent_certificate_names_are_equal() {
        let digits = "0a".repeat(32);
        let with_colons = vec!["0A"; 32].join(":");
        for (written, same) in [
            ("dns:CI.Example.org", CertificateName::dns("ci.example.ORG")),
            (
                "email:Maria@Example.org",
                CertificateName::email("Maria@example.ORG"),
            ),
            ("cn:Maria Ünal", CertificateName::common("Maria Ünal")),
            (
                &format!("sha256:{digits}"),
                CertificateName::fingerprint(&[10; 32]),
            ),
            (
                &format!("sha256:{with_colons}"),
                CertificateName::fingerprint(&[10; 32]),
            ),
        ] {
            assert_eq!(name(written), Some(same), "{written}");
        }
        assert_ne!(name("cn:maria"), name("cn:Maria"));
        assert_ne!(name("email:maria@x"), name("email:Maria@x"));
        assert_ne!(name("cn:a.example"), name("dns:a.example"));
    }

    #[test]
    fn an_invalid_certificate_name_is_refused() {
        for text in [
            "",
            "maria",
            "cn:",
            "CN=maria",
            "email:maria",
            "sha256:0a",
            "uri:x",
            "cn:a\nb",
            "dns:ü",
        ] {
            assert_eq!(name(text), None, "{text}");
        }
    }
}
