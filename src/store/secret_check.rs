//! Shows that this gateway has the secret of those that it shares the database with: what it cannot
//! decrypt it must not replace.

use super::Error;
use super::credentials;
use super::database::Database;
use super::disk::Disk;
use crate::config;
use crypto::Secret;
use flows::Credentials;
use serde_json::{Map, Value};

/// The name of the element in the check value, which is sealed as credentials are.
const CHECK: &str = "flowgate";

impl Disk {
    /// Proves that the secret of the configuration opens what other gateways have stored. The first
    /// gateway with a secret stores the check value, if it can read what gateways without one have
    /// left.
    pub(super) fn prove_secret(&self) -> Result<(), Error> {
        if !self.database.is_shared() {
            return Ok(());
        }
        let check = self.database.secret_check()?;
        let Some(secret) = &self.credential_secret else {
            return check.map_or(Ok(()), |_| Err(Error::OtherSecret));
        };
        let check = if let Some(check) = check {
            check
        } else {
            let secrets = self.secrets()?;
            let can_read = |file: &Vec<u8>| credentials::open(file, &secrets).is_some();
            if !self.database.sealed_credentials()?.iter().all(can_read) {
                return Err(Error::OtherSecret);
            }
            self.database.claim_secret_check(&sealed(secret)?)?
        };
        if opens(&check, secret) {
            Ok(())
        } else {
            Err(Error::OtherSecret)
        }
    }
}

/// Makes the secret of the configuration that of all gateways that share its database. What cannot
/// be decrypted with it is kept where no engine takes it over.
pub fn accept_new_secret(config: &config::Storage) -> Result<(), Error> {
    let (Some(shared), Some(secret)) = (&config.shared, &config.credential_secret) else {
        let sentence = "storage.url and storage.credential_secret must be set: the database, and the new secret";
        return Err(Error::Database(sentence.to_owned()));
    };
    let database = Database::open_shared(shared, Some(secret))?;
    let known = std::slice::from_ref(secret);
    let can_read = |file: &Vec<u8>| credentials::open(file, known).is_some();
    let is_readable = database.kept_credentials()?.iter().all(can_read);
    database.replace_secret_check(&sealed(secret)?, !is_readable)
}

fn sealed(secret: &Secret) -> Result<String, Error> {
    let text = crypto::hex(&crypto::random::<16>());
    let fields = Map::from_iter([(CHECK.to_owned(), Value::from(text))]);
    let check = Credentials {
        nodes: [(CHECK.into(), fields)].into(),
    };
    let sealed = credentials::seal(&check, secret)?;
    Ok(String::from_utf8_lossy(&sealed).into_owned())
}

fn opens(check: &str, secret: &Secret) -> bool {
    let opened = credentials::open(check.as_bytes(), std::slice::from_ref(secret));
    opened.is_some_and(|opened| opened.current && opened.credentials.nodes.contains_key(CHECK))
}
