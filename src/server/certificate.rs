//! Certificates as files: read, look into, and make the self-signed one of a first start.

use crate::gateway::machine_name;
use crypto::{hex, sha256};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::fs;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// The validity of the self-signed certificate: two years, below the 825 days that Apple's clients
/// accept of certificates that users trust themselves.
const LIFETIME: Duration = Duration::from_hours(730 * 24);
/// Its beginning lies in the past, for clients whose clock is slow.
const SLACK: Duration = Duration::from_hours(24);

/// A certificate that cannot be used. Every message names the file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {source}; make its directory writable, or name a [[tls.certificate]]", .file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Not the PEM that it should be.
    #[error("{} is not a PEM file with a {what}: {source}", .file.display())]
    Pem {
        /// The file.
        file: PathBuf,
        /// The expected content.
        what: &'static str,
        /// Why.
        source: pem::Error,
    },
    /// Nothing of what was looked for is in the file.
    #[error("{} has no {what} in it", .file.display())]
    Empty {
        /// The file.
        file: PathBuf,
        /// The expected content.
        what: &'static str,
    },
    /// The certificate itself is malformed.
    #[error("the certificate in {} is malformed", .0.display())]
    Malformed(PathBuf),
    /// The key does not fit, or is of a kind that we cannot use.
    #[error("the key {} cannot be used with the certificate {}: {source}", .key.display(), .cert.display())]
    Key {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// The authorities of clients, or what they have revoked, cannot be used.
    #[error("{} cannot be used: {source}", .file.display())]
    Clients {
        /// The file.
        file: PathBuf,
        /// Why.
        source: rustls::server::VerifierBuilderError,
    },
    /// The self-signed certificate could not be made.
    #[error("cannot make a self-signed certificate: {0}")]
    Make(#[from] rcgen::Error),
}

/// A certificate with its key and its parsed fields.
#[derive(Debug)]
pub(super) struct Certificate {
    pub(super) key: CertifiedKey,
    /// The host names and addresses it is for, lower-case; `*.` at the beginning is a wildcard.
    pub(super) names: Vec<String>,
    /// When it ends, seconds since 1970.
    pub(super) not_after: i64,
    /// The SHA-256 of the leaf, as browsers and `openssl x509 -fingerprint -sha256` show it.
    pub(super) fingerprint: String,
}

/// Reads a certificate chain (leaf first) and its key.
pub(super) fn read(
    cert: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<Certificate, Error> {
    let chain: Vec<CertificateDer<'static>> = all(cert, "certificate")?;
    let private = PrivateKeyDer::from_pem_slice(&read_file(key)?).map_err(|source| Error::Pem {
        file: key.into(),
        what: "private key",
        source,
    })?;
    let leaf = chain
        .first()
        .ok_or_else(|| Error::Empty {
            file: cert.into(),
            what: "certificate",
        })?
        .clone();
    let (_, parsed) =
        X509Certificate::from_der(&leaf).map_err(|_| Error::Malformed(cert.into()))?;
    let certified =
        CertifiedKey::from_der(chain, private, provider).map_err(|source| Error::Key {
            cert: cert.into(),
            key: key.into(),
            source,
        })?;
    Ok(Certificate {
        key: certified,
        names: names(&parsed),
        not_after: parsed.validity().not_after.timestamp(),
        fingerprint: fingerprint(&leaf),
    })
}

/// All that a PEM file has of one kind.
pub(super) fn all<T: PemObject>(file: &Path, what: &'static str) -> Result<Vec<T>, Error> {
    let found = T::pem_slice_iter(&read_file(file)?).collect::<Result<_, _>>();
    found.map_err(|source| Error::Pem {
        file: file.into(),
        what,
        source,
    })
}

/// The files of the self-signed certificate in `directory`, created if they are missing or expired
/// by `now` (since 1970).
pub(super) fn self_signed(directory: &Path, now: Duration) -> Result<(PathBuf, PathBuf), Error> {
    let (cert, key) = (
        directory.join("self-signed.crt"),
        directory.join("self-signed.key"),
    );
    if cert.exists() && key.exists() && !is_over(&cert, now) {
        return Ok((cert, key));
    }
    let private = KeyPair::generate()?;
    let made = parameters(now)?.self_signed(&private)?;
    write(directory, &key, &private.serialize_pem(), 0o600)?;
    write(directory, &cert, &made.pem(), 0o644)?;
    Ok((cert, key))
}

fn parameters(now: Duration) -> Result<CertificateParams, Error> {
    let mut names = vec![
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
        "::1".to_owned(),
    ];
    names.extend(machine_name().filter(|host| host != "localhost"));
    let mut params = CertificateParams::new(names)?;
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(SLACK);
    params.not_after = epoch + now + LIFETIME;
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, "flowgate self-signed");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(params)
}

/// Returns whether the certificate in this file has ended; one that cannot be read is left to
/// [`read`] to complain about.
fn is_over(cert: &Path, now: Duration) -> bool {
    let Ok(pem) = fs::read(cert) else {
        return false;
    };
    let Ok(leaf) = CertificateDer::from_pem_slice(&pem) else {
        return false;
    };
    X509Certificate::from_der(&leaf).is_ok_and(|(_, parsed)| {
        parsed.validity().not_after.timestamp() < i64::try_from(now.as_secs()).unwrap_or(0)
    })
}

fn names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(alternative)) = certificate.subject_alternative_name() else {
        return Vec::new();
    };
    let names = alternative.value.general_names.iter();
    names
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            GeneralName::IPAddress(address) => address_name(address),
            _ => None,
        })
        .collect()
}

/// An address as it stands in a URL.
fn address_name(octets: &[u8]) -> Option<String> {
    if let Ok(octets) = <[u8; 4]>::try_from(octets) {
        return Some(Ipv4Addr::from(octets).to_string());
    }
    let octets = <[u8; 16]>::try_from(octets).ok()?;
    Some(format!("[{}]", Ipv6Addr::from(octets)))
}

fn fingerprint(der: &[u8]) -> String {
    let digits = hex(&sha256(der)).to_ascii_uppercase();
    let pairs: Vec<&str> = (0..digits.len())
        .step_by(2)
        .filter_map(|at| digits.get(at..at + 2))
        .collect();
    pairs.join(":")
}

fn read_file(file: &Path) -> Result<Vec<u8>, Error> {
    fs::read(file).map_err(|source| Error::Read {
        file: file.into(),
        source,
    })
}

/// Replaces the file, so that a reader sees the old or the new one and an old one's permissions do
/// not stay.
pub(super) fn write(directory: &Path, file: &Path, text: &str, mode: u32) -> Result<(), Error> {
    let fresh = file.with_extension("new");
    let result = fs::create_dir_all(directory).and_then(|()| {
        let _ = fs::remove_file(&fresh);
        let mut out = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&fresh)?;
        out.write_all(text.as_bytes())?;
        out.sync_all()?;
        fs::rename(&fresh, file)
    });
    result.map_err(|source| Error::Write {
        file: file.into(),
        source,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const NOW: Duration = Duration::from_hours(500_000);

    fn provider() -> CryptoProvider {
        rustls::crypto::aws_lc_rs::default_provider()
    }

    #[test]
    fn a_first_start_makes_a_certificate_for_two_years_and_later_ones_use_it() {
        let directory = tempfile::tempdir().unwrap();
        let certs = directory.path().join("certs");
        let (cert, key) = self_signed(&certs, NOW).unwrap();
        let made = read(&cert, &key, &provider()).unwrap();
        assert!(made.names.contains(&"localhost".to_owned()));
        assert_eq!(made.not_after, 1_800_000_000 + 730 * 24 * 3600);
        assert_eq!(
            fs::metadata(&key).unwrap().permissions().mode() & 0o777,
            0o600
        );

        let (cert, key) = self_signed(&certs, NOW).unwrap();
        assert_eq!(
            read(&cert, &key, &provider()).unwrap().fingerprint,
            made.fingerprint
        );
    }

    #[test]
    fn an_expired_self_signed_certificate_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let (cert, key) = self_signed(directory.path(), NOW).unwrap();
        let before = read(&cert, &key, &provider()).unwrap().fingerprint;
        self_signed(directory.path(), NOW + LIFETIME + SLACK).unwrap();
        assert_ne!(read(&cert, &key, &provider()).unwrap().fingerprint, before);
    }

    #[test]
    fn errors_name_the_file_and_the_reason() {
        let directory = tempfile::tempdir().unwrap();
        let (cert, key) = self_signed(directory.path(), NOW).unwrap();
        let other = tempfile::tempdir().unwrap();
        let (_, foreign) = self_signed(other.path(), NOW).unwrap();
        let missing = directory.path().join("missing.pem");

        let error = read(&missing, &key, &provider()).unwrap_err().to_string();
        assert!(
            error.contains("missing.pem") && error.contains("No such file"),
            "{error}"
        );
        let error = read(&key, &key, &provider()).unwrap_err().to_string();
        assert!(
            error.contains("self-signed.key has no certificate"),
            "{error}"
        );
        let error = read(&cert, &cert, &provider()).unwrap_err().to_string();
        assert!(
            error.contains("self-signed.crt is not a PEM file with a private key"),
            "{error}"
        );
        assert!(matches!(
            read(&cert, &foreign, &provider()),
            Err(Error::Key { .. })
        ));
    }

    #[test]
    fn fingerprints_are_pairs_of_digits() {
        assert!(fingerprint(b"abc").starts_with("BA:78:16:BF:"));
        assert_eq!(fingerprint(b"abc").len(), 95);
    }
}
