//! Passkeys of users, as other rooms ask for them.

use super::{Error, Store};

/// A passkey: a public key that an authenticator has made for a user of one host.
#[derive(Debug, Clone, PartialEq)]
pub struct PasskeyRow {
    /// The id that the authenticator has given it.
    pub id: Vec<u8>,
    /// The user.
    pub user: String,
    /// The user's name for it.
    pub name: String,
    /// What the authenticator knows the user by; the same for all of a user.
    pub handle: Vec<u8>,
    /// The host that it is for.
    pub rp: String,
    /// The algorithm of the key (IANA COSE Algorithms).
    pub algorithm: i64,
    /// The public key, as `SubjectPublicKeyInfo` in DER.
    pub key: Vec<u8>,
    /// The signature counter of its last use; 0: the authenticator has none.
    pub counter: u32,
    /// The record of the user's password that it is bound to.
    pub password: [u8; 32],
    /// When it was registered, seconds since 1970.
    pub created: u64,
    /// Its last use, seconds since 1970.
    pub last_used: Option<u64>,
}

/// How an addition ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PasskeyAdded {
    /// It is there.
    Added,
    /// The user has as many as may be.
    TooMany,
    /// There is one of this id.
    Taken,
}

impl Store {
    /// The passkey of an id.
    pub async fn passkey(&self, id: Vec<u8>) -> Result<Option<PasskeyRow>, Error> {
        self.owner.ask(move |disk| disk.database.passkey(&id)).await
    }

    /// All passkeys, oldest first: of a user, or of all.
    pub async fn passkeys(&self, user: Option<String>) -> Result<Vec<PasskeyRow>, Error> {
        self.owner
            .ask(move |disk| disk.database.passkeys(user.as_deref()))
            .await
    }

    /// Adds a passkey, if the user has less than `most`. Those of the user that are bound to
    /// another password are forgotten.
    pub async fn add_passkey(&self, row: PasskeyRow, most: usize) -> Result<PasskeyAdded, Error> {
        self.owner
            .ask(move |disk| disk.database.add_passkey(&row, most))
            .await
    }

    /// Notes a use at a time. False: the counter has not grown, or the passkey is gone.
    pub async fn use_passkey(&self, id: Vec<u8>, counter: u32, now: u64) -> Result<bool, Error> {
        self.owner
            .ask(move |disk| disk.database.use_passkey(&id, counter, now))
            .await
    }

    /// Forgets passkeys.
    pub async fn remove_passkeys(&self, ids: Vec<Vec<u8>>) -> Result<(), Error> {
        self.owner
            .ask(move |disk| disk.database.remove_passkeys(&ids))
            .await
    }
}
