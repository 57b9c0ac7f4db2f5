//! Signed checkpoints: records that sign the chain up to themselves with a key of the gateway
//! (Ed25519, RFC 8032), so that without that key no program can rewrite lines that a checkpoint
//! covers.
//!
//! A checkpoint vouches for the lines that its own process has written since the checkpoint before,
//! from the line `from` on: never for lines that a start has found, which another program may have
//! written. What is signed is the line itself without the signature, and with that its number, its
//! time and the hash of the line before.

use super::Event;
use super::record::{Entry, Read};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use crypto::{hex, sha256};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

/// Lines after which a checkpoint is due, whatever the time. Our choice: a burst of records is one
/// or two signatures, and what a crash leaves unsigned can be compared by eye.
pub(super) const RECORDS: u64 = 100;
/// What the signed text begins with, so that no other signature of the key is one of a checkpoint.
const CONTEXT: &[u8] = b"flowgate audit checkpoint 1\n";
/// What stands before the signature in a line.
const BEFORE: &[u8] = b"\"signature\":\"";
/// Characters of a signature: 64 bytes in base64url.
const SIGNATURE: usize = 86;
/// Characters of a line after the signature: `","prev":"`, a hash and `"}`.
const AFTER: usize = 10 + 64 + 2;
/// How a public key is written, before its bytes in base64url.
const PREFIX: &str = "ed25519:";

/// The gateway's private key.
pub struct SigningKey(Ed25519KeyPair);

/// A public key, for those who verify the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// There is no such file.
    #[error("{0}: there is no such file; make the key with `flowgate audit key`")]
    Missing(String),
    /// It cannot be read or written.
    #[error("{0}: {1}")]
    File(String, #[source] io::Error),
    /// Other users may read it.
    #[error("{0}: every user of this machine may read or write it: chmod 600")]
    Open(String),
    /// It is no private key of Ed25519.
    #[error("{0}: expected a private key of Ed25519 (PKCS #8 in PEM)")]
    Invalid(String),
}

impl SigningKey {
    /// Reads a PEM file that other users may not read.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let shown = || path.display().to_string();
        let failed = |error: io::Error| match error.kind() {
            ErrorKind::NotFound => KeyError::Missing(shown()),
            _ => KeyError::File(shown(), error),
        };
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if metadata.permissions().mode() & 0o007 != 0 {
            return Err(KeyError::Open(shown()));
        }
        let der =
            PrivatePkcs8KeyDer::from_pem_file(path).map_err(|_| KeyError::Invalid(shown()))?;
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der());
        pair.map(Self).map_err(|_| KeyError::Invalid(shown()))
    }

    /// Makes a key in a file that is not there yet, mode 0600, and its directory if that is not
    /// there either.
    pub fn make(path: &Path) -> Result<Self, KeyError> {
        let shown = || path.display().to_string();
        let failed = |error| KeyError::File(shown(), error);
        let der = Ed25519KeyPair::generate_pkcs8v1(&SystemRandom::new());
        let der =
            der.map_err(|_| failed(io::Error::other("the system gives no random numbers")))?;
        if let Some(parent) = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
        {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(path);
        let mut file = file.map_err(failed)?;
        // 48 bytes: one line of base64 (RFC 7468 §2).
        let text = zeroize::Zeroizing::new(format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            STANDARD.encode(der.as_ref())
        ));
        let written = file.write_all(text.as_bytes());
        written.and_then(|()| file.sync_all()).map_err(failed)?;
        sync_parent(path).map_err(failed)?;
        Self::read(path)
    }

    /// The key that others verify with.
    pub fn public(&self) -> PublicKey {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.0.public_key().as_ref());
        PublicKey(bytes)
    }

    fn sign(&self, line: &[u8]) -> String {
        URL_SAFE_NO_PAD.encode(self.0.sign(&[CONTEXT, line].concat()))
    }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    match path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

impl PublicKey {
    /// Reads what [`Display`](fmt::Display) writes.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD
            .decode(text.trim().strip_prefix(PREFIX)?)
            .ok()?;
        bytes.try_into().ok().map(Self)
    }

    /// Its name in checkpoints: the first 8 bytes of its SHA-256, in hexadecimal.
    pub fn id(&self) -> String {
        hex(&sha256(&self.0)[..8])
    }

    /// Returns whether this key has signed a checkpoint.
    pub(super) fn verifies(&self, seal: &Seal) -> bool {
        let text = [CONTEXT, &seal.text].concat();
        let key = UnparsedPublicKey::new(&ED25519, &self.0);
        key.verify(&text, &seal.signature).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", URL_SAFE_NO_PAD.encode(self.0))
    }
}

/// Decides when a checkpoint is due, and signs it.
pub(super) struct Signer {
    key: SigningKey,
    /// The name of the key.
    id: String,
    /// The name of the machine.
    gateway: String,
    /// The identity of the log.
    log: String,
    /// The longest time, seconds, that a line waits for its checkpoint.
    every: u64,
    /// The first line that the next checkpoint vouches for.
    from: u64,
    /// When that was written, seconds since 1970; `None`: there is none yet.
    since: Option<u64>,
}

impl Signer {
    /// For a log whose last line is `last`: that and those before it are not vouched for.
    pub(super) fn open(
        path: &Path,
        every: Duration,
        last: u64,
        log: &str,
    ) -> Result<Self, KeyError> {
        let key = SigningKey::read(path)?;
        Ok(Self {
            id: key.public().id(),
            key,
            gateway: super::machine_name(),
            log: log.to_owned(),
            every: every.as_secs(),
            from: last + 1,
            since: None,
        })
    }

    /// Takes note of a line written now.
    pub(super) fn written(&mut self, event: Event, seq: u64, now: u64) {
        if event == Event::Checkpoint {
            (self.from, self.since) = (seq + 1, None);
        } else {
            self.since.get_or_insert(now);
        }
    }

    /// Returns whether lines wait to be signed.
    pub(super) fn is_behind(&self) -> bool {
        self.since.is_some()
    }

    /// Returns whether they have waited for long enough.
    pub(super) fn is_due(&self, last: u64, now: u64) -> bool {
        let old = |since| now.saturating_sub(since) >= self.every;
        self.since.is_some_and(old) || (last + 1).saturating_sub(self.from) >= RECORDS
    }

    /// The record to be signed.
    pub(super) fn entry(&self, now: u64) -> Entry {
        let facts = json!({
            "gateway": self.gateway, "log": self.log, "key": self.id, "from": self.from,
            "signature": "",
        });
        Entry::of_program(Event::Checkpoint, facts, now)
    }

    /// The line with its signature.
    pub(super) fn sign(&self, line: &str) -> String {
        let at = line.len().saturating_sub(AFTER);
        let signature = self.key.sign(line.as_bytes());
        let (before, after) = line.split_at_checked(at).unwrap_or((line, ""));
        format!("{before}{signature}{after}")
    }
}

/// The signature of a line that is a checkpoint.
pub(super) struct Seal {
    /// The line without the signature.
    text: Vec<u8>,
    signature: Vec<u8>,
    /// The name of the key.
    pub(super) key: String,
    /// The name of the machine.
    pub(super) gateway: String,
    /// The identity of the log; empty: an older version wrote it.
    pub(super) log: String,
    /// The first line that it vouches for.
    pub(super) from: u64,
    pub(super) time: String,
}

impl Seal {
    /// Of a line, without line feed; one that is malformed verifies with no key.
    pub(super) fn of(read: &Read, line: &[u8]) -> Self {
        let end = line.len().saturating_sub(AFTER);
        let start = end.saturating_sub(SIGNATURE);
        let placed = line[..start].ends_with(BEFORE);
        let decoded = URL_SAFE_NO_PAD.decode(&line[start..end]);
        Self {
            text: [&line[..start], &line[end..]].concat(),
            signature: decoded.ok().filter(|_| placed).unwrap_or_default(),
            key: read.key.clone(),
            gateway: read.gateway.clone(),
            log: read.log.clone(),
            from: read.from,
            time: read.time.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
