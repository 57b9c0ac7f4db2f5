//! Adds, lists and removes passkeys. Adding and removing one's own needs a fresh password, or a
//! fresh second factor where the user has one ([`Unconfirmed`]).

use super::base64url::{Base64Url, encode};
use super::ceremony::{self, Expected, PasskeyError, Registration};
use super::challenge::{Challenge, PasskeyBegun, PasskeySite, Purpose};
use super::{creation_options, is_current};
use crate::auth::{Auth, Caller, Unconfirmed, session_id};
use crate::store::{self, PasskeyAdded, PasskeyRow};
use crypto::{hex, random, sha256};
use serde::{Deserialize, Serialize};

/// Passkeys of a user. Our choice: each device of a person, and some keys in drawers.
const PER_USER: usize = 10;

/// Characters of a passkey's name.
const MAX_NAME: usize = 64;

/// Characters of a passkey's id for people: 64 bits, so that no two of a gateway have the same. Our
/// choice.
const ID: usize = 16;

/// The passkey that a browser has made, with the user's name for it.
#[derive(Debug, Deserialize)]
pub struct NewPasskey {
    /// The user's name for it.
    pub name: String,
    /// The credential.
    pub credential: Registration,
}

/// A passkey as it may be shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PasskeyInfo {
    /// Names it.
    pub id: String,
    /// Its user.
    pub user: String,
    /// The user's name for it.
    pub name: String,
    /// The host that it is for.
    pub host: String,
    /// When it was registered, seconds since 1970.
    pub created: u64,
    /// Its last use, seconds since 1970; `None`: it was not used.
    pub last_used: Option<u64>,
}

/// A selection of passkeys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PasskeySelector {
    /// All of a user.
    User(String),
    /// The one with this id.
    Id(String),
    /// The one of this user with this id.
    UsersOwn(String, String),
}

/// Why a passkey is not added or removed.
#[derive(Debug, thiserror::Error)]
pub enum AddPasskeyError {
    /// The caller has not shown who it is.
    #[error(transparent)]
    Unconfirmed(#[from] Unconfirmed),
    /// The user has as many as may be.
    #[error("a user has at most {PER_USER} passkeys: remove one first")]
    TooMany,
    /// There is one of this id.
    #[error("this passkey is registered already")]
    Taken,
    /// The name is not one.
    #[error("a passkey's name has 1 to {MAX_NAME} characters, and no control characters")]
    Name,
    /// It is not what was asked for.
    #[error("the passkey is not accepted: {0}")]
    Invalid(#[from] PasskeyError),
    /// The library has refused.
    #[error("the challenge cannot be sealed")]
    Broken,
    /// It could not be made durable.
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Auth {
    /// Begins the registration of a passkey for the user of a session.
    pub async fn begin_passkey_registration(
        &self,
        caller: &Caller,
        site: &PasskeySite,
        now: u64,
    ) -> Result<PasskeyBegun, AddPasskeyError> {
        let (session, rows) = self.confirmed(caller, now).await?;
        let handle = rows.first().map(|row| row.handle.clone());
        let handle = handle.unwrap_or_else(|| random::<32>().to_vec());
        let here: Vec<_> = rows.iter().filter(|row| row.rp == site.rp).collect();
        let mut challenge = Challenge::new(Purpose::Registration, site, now);
        challenge.session = session_id(session);
        challenge.handle = encode(&handle);
        let options = creation_options(&challenge, &caller.user, &here);
        let begun = self.0.challenges.begin(&challenge, options);
        begun.ok_or(AddPasskeyError::Broken)
    }

    /// Adds the passkey that was made, under a name, durable when this returns.
    pub async fn register_passkey(
        &self,
        caller: &Caller,
        cookie: &str,
        site: &PasskeySite,
        new: NewPasskey,
        now: u64,
    ) -> Result<PasskeyInfo, AddPasskeyError> {
        let (session, _) = self.confirmed(caller, now).await?;
        let NewPasskey {
            name,
            credential: made,
        } = new;
        let length = name.chars().count();
        if !(1..=MAX_NAME).contains(&length) || name.chars().any(char::is_control) {
            return Err(AddPasskeyError::Name);
        }
        let (session_id, purpose) = (session_id(session), Purpose::Registration);
        let challenges = &self.0.challenges;
        let challenge = challenges.open(cookie, &session_id, purpose, site, now)?;
        let (counter, handle) = check(&made, &challenge)?;
        if !self.use_challenge(&challenge, now).await? {
            return Err(PasskeyError::Challenge.into());
        }
        let row = PasskeyRow {
            id: made.raw_id.0,
            user: caller.user.to_string(),
            name,
            handle,
            rp: site.rp.clone(),
            algorithm: made.response.public_key_algorithm,
            key: made.response.public_key.0,
            counter,
            // A session of a local user has one.
            password: session.password.ok_or(Unconfirmed::NoUser)?,
            created: now,
            last_used: None,
        };
        let info = info(&row);
        match self.0.store.add_passkey(row, PER_USER).await? {
            PasskeyAdded::Added => Ok(info),
            PasskeyAdded::TooMany => Err(AddPasskeyError::TooMany),
            PasskeyAdded::Taken => Err(AddPasskeyError::Taken),
        }
    }

    /// Whether the user of a session may change passkeys now.
    pub async fn may_change_passkeys(
        &self,
        caller: &Caller,
        now: u64,
    ) -> Result<(), AddPasskeyError> {
        self.confirmed(caller, now).await?;
        Ok(())
    }

    /// The passkeys that count, oldest first: of a user, or of all.
    pub async fn passkeys(&self, user: Option<&str>) -> Result<Vec<PasskeyInfo>, store::Error> {
        let rows = self.current(user).await?;
        Ok(rows.iter().map(info).collect())
    }

    /// Removes passkeys; returns those that were there. Sessions that began with them go on.
    pub async fn remove_passkeys(
        &self,
        which: &PasskeySelector,
    ) -> Result<Vec<PasskeyInfo>, store::Error> {
        let user = match which {
            PasskeySelector::User(user) | PasskeySelector::UsersOwn(user, _) => Some(user.as_str()),
            PasskeySelector::Id(_) => None,
        };
        let rows = self.current(user).await?.into_iter();
        let wanted = rows.map(|row| (info(&row), row.id));
        let wanted = wanted.filter(|(info, _)| match which {
            PasskeySelector::User(_) => true,
            PasskeySelector::Id(id) | PasskeySelector::UsersOwn(_, id) => info.id == *id,
        });
        let (removed, ids) = wanted.unzip();
        self.0.store.remove_passkeys(ids).await?;
        Ok(removed)
    }

    pub(in crate::auth) async fn passkeys_of(
        &self,
        user: &str,
    ) -> Result<Vec<PasskeyRow>, store::Error> {
        self.current(Some(user)).await
    }

    async fn current(&self, user: Option<&str>) -> Result<Vec<PasskeyRow>, store::Error> {
        let mut rows = self.0.store.passkeys(user.map(str::to_owned)).await?;
        let users = self.0.registry.users();
        rows.retain(|row| is_current(row, &users));
        Ok(rows)
    }
}

/// The counter and the user handle of a passkey that was made (§7.1).
fn check(made: &Registration, challenge: &Challenge) -> Result<(u32, Vec<u8>), PasskeyError> {
    let expected = Expected {
        kind: "webauthn.create",
        challenge: &challenge.random,
        origin: &challenge.site.origin,
        rp: &challenge.site.rp,
        verified: false,
    };
    ceremony::client_data(&made.response.client_data.0, &expected)?;
    let data = ceremony::authenticator_data(&made.response.authenticator_data.0, &expected)?;
    if data.credential != Some(made.raw_id.0.as_slice()) {
        return Err(PasskeyError::Malformed);
    }
    let algorithm = made.response.public_key_algorithm;
    ceremony::public_key(algorithm, &made.response.public_key.0)?;
    let handle: Result<Base64Url, _> = serde_json::from_value(challenge.handle.as_str().into());
    let Base64Url(handle) = handle.map_err(|_| PasskeyError::Challenge)?;
    Ok((data.counter, handle))
}

fn info(row: &PasskeyRow) -> PasskeyInfo {
    let mut id = hex(&sha256(&[b"flowgate passkey", &row.id[..]].concat()));
    id.truncate(ID);
    PasskeyInfo {
        id,
        user: row.user.clone(),
        name: row.name.clone(),
        host: row.rp.clone(),
        created: row.created,
        last_used: row.last_used,
    }
}
