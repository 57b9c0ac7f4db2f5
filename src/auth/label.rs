//! Names for logs. A name that is no user's may be a password typed into the wrong field: it is
//! never written.

use super::Auth;
use crate::config::UNKNOWN_USER;
use crypto::{hex, sha256};

/// Bytes of a hash that are shown: enough to recognise a name that is tried again.
const SHOWN: usize = 4;

impl Auth {
    /// Returns the user of a sign-in as logs name it: by name if there is such a user, else by a
    /// keyed hash of that name. The key lasts as long as the process, so that no log helps to guess
    /// the name. Takes the same time for both.
    pub fn label(&self, name: &str) -> String {
        let hash = sha256(&[&self.0.label_key, name.as_bytes()].concat());
        let unknown = format!("{UNKNOWN_USER}{}", hex(&hash[..SHOWN]));
        match self.0.registry.users().find(name) {
            Some(_) => name.to_owned(),
            None => unknown,
        }
    }
}
