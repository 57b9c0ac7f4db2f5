//! The account at a certification authority and the certificate that it has issued, in files that
//! only the gateway's user can read: `acme/` in `[tls] directory`, one directory for each
//! authority, which is named after the digest of its URL.
//!
//! The certificate and its key are one file, so that they are replaced together.

use crate::config;
use crate::server::certificate::{self, Certificate, Error};
use crypto::{hex, sha256};
use rustls::crypto::CryptoProvider;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Only the gateway's user reads them.
const MODE: u32 = 0o600;

/// The directory of an authority's files.
fn directory(tls: &Path, acme: &config::Acme) -> PathBuf {
    let digest = hex(&sha256(acme.directory.to_string().as_bytes()));
    tls.join("acme").join(digest.get(..16).unwrap_or_default())
}

fn certificate_file(tls: &Path, acme: &config::Acme) -> PathBuf {
    directory(tls, acme).join("certificate.pem")
}

fn account_file(tls: &Path, acme: &config::Acme) -> PathBuf {
    directory(tls, acme).join("account.json")
}

/// The account's key and URL, if there is one.
pub(super) fn account(tls: &Path, acme: &config::Acme) -> Result<Option<Vec<u8>>, Error> {
    let file = account_file(tls, acme);
    match fs::read(&file) {
        Ok(account) => Ok(Some(account)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Read { file, source }),
    }
}

/// Renames the file of an account that the authority does not know, so that the next order makes a
/// new one; returns the new name.
pub(super) fn set_account_aside(tls: &Path, acme: &config::Acme) -> Result<PathBuf, Error> {
    let file = account_file(tls, acme);
    let kept = file.with_file_name("account-unknown.json");
    match fs::rename(&file, &kept) {
        Ok(()) => Ok(kept),
        Err(source) => Err(Error::Write { file, source }),
    }
}

/// Keeps the account.
pub(super) fn write_account(tls: &Path, acme: &config::Acme, account: &str) -> Result<(), Error> {
    certificate::write(
        &directory(tls, acme),
        &account_file(tls, acme),
        account,
        MODE,
    )
}

/// Keeps a certificate and its key, unless they cannot be used.
pub(super) fn write_certificate(
    tls: &Path,
    acme: &config::Acme,
    pem: &str,
    provider: &CryptoProvider,
) -> Result<(), Error> {
    let directory = directory(tls, acme);
    let candidate = directory.join("candidate.pem");
    certificate::write(&directory, &candidate, pem, MODE)?;
    let read = certificate::read(&candidate, &candidate, provider);
    let _ = fs::remove_file(&candidate);
    read?;
    certificate::write(&directory, &certificate_file(tls, acme), pem, MODE)
}

/// The kept certificate and its file, unless it has expired by `now` or cannot be used.
pub(in crate::server) fn kept(
    tls: &Path,
    acme: &config::Acme,
    provider: &CryptoProvider,
    now: Duration,
) -> Option<(PathBuf, Certificate)> {
    let file = certificate_file(tls, acme);
    if !file.exists() {
        return None;
    }
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    match certificate::read(&file, &file, provider) {
        Ok(kept) if kept.not_after > now => Some((file, kept)),
        Ok(_) => {
            tracing::warn!(file = %file.display(), "the certificate of the authority has expired");
            None
        }
        Err(error) => {
            tracing::error!(%error, "the certificate of the authority cannot be used");
            None
        }
    }
}

/// An order that has failed, for the next start of the gateway.
#[derive(Serialize, Deserialize)]
struct FailedOrder {
    domains: Vec<String>,
    contact: Vec<String>,
    /// When it ended, seconds since 1970.
    ended: u64,
}

fn failed_order_file(tls: &Path, acme: &config::Acme) -> PathBuf {
    directory(tls, acme).join("failed-order.json")
}

/// When the last order with these settings failed, since 1970; `None`: it did not, or it is not
/// known.
pub(in crate::server) fn failed_order(tls: &Path, acme: &config::Acme) -> Option<Duration> {
    let text = fs::read(failed_order_file(tls, acme)).ok()?;
    let failed: FailedOrder = serde_json::from_slice(&text).ok()?;
    let same = (&failed.domains, &failed.contact) == (&acme.domains, &acme.contact);
    same.then(|| Duration::from_secs(failed.ended))
}

/// Remembers that an order has failed, or forgets it (`None`).
pub(in crate::server) fn write_failed_order(
    tls: &Path,
    acme: &config::Acme,
    ended: Option<Duration>,
) -> Result<(), Error> {
    let file = failed_order_file(tls, acme);
    let Some(ended) = ended else {
        // Mostly there is none.
        let _ = fs::remove_file(file);
        return Ok(());
    };
    let failed = FailedOrder {
        domains: acme.domains.clone(),
        contact: acme.contact.clone(),
        ended: ended.as_secs(),
    };
    let text = serde_json::to_string(&failed).unwrap_or_default();
    certificate::write(&directory(tls, acme), &file, &text, MODE)
}

/// The validity of a certificate, seconds since 1970, and a number of its own.
pub(in crate::server) struct Lifetime {
    pub(in crate::server) not_before: i64,
    pub(in crate::server) not_after: i64,
    pub(in crate::server) jitter: u8,
}

/// The validity of the kept certificate; `None` if there is none for all the names that can be
/// used.
pub(in crate::server) fn lifetime(
    tls: &Path,
    acme: &config::Acme,
    provider: &CryptoProvider,
) -> Option<Lifetime> {
    let file = certificate_file(tls, acme);
    let kept = certificate::read(&file, &file, provider).ok()?;
    let leaf = kept.key.cert.first()?;
    let (_, parsed) = X509Certificate::from_der(leaf).ok()?;
    let all = acme.domains.iter().all(|name| kept.names.contains(name));
    let [jitter, ..] = sha256(leaf);
    all.then(|| Lifetime {
        not_before: parsed.validity().not_before.timestamp(),
        not_after: kept.not_after,
        jitter,
    })
}
