//! Service tokens: sessions of machines. A token has a name, permissions of its own, and no
//! password that leads to it.
//!
//! An operator makes tokens in the shell, with any permission. A user makes tokens that act within
//! the user's rights: what such a token may do is in its own permissions and in those that the user
//! has at that moment, from the user's networks, and it ends when the user is removed.

use super::confirmation::Unconfirmed;
use super::session::{SERVICE_TOKEN, Session, new_token};
use super::session_admin::{NEVER, PREFIX, SessionInfo, SessionSelector};
use super::{Auth, Caller, CreateTokenError, Issued, covers};
use crate::config::{RATE_LIMIT, RateLimit, is_network, is_permission};
use crate::store::SessionRow;
use crypto::sha256;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use std::time::Duration;

/// Characters of a name. Our choice.
const MAX_NAME: usize = 64;
/// Permissions and networks of a token that a user makes. Our choice: each request is compared with
/// all.
const MAX_LIST: usize = 64;
/// Characters of each of them. Our choice: a permission for one flow has the flow's label.
const MAX_TEXT: usize = 256;
/// Tokens of one user. Our choice: they are kept in memory.
const PER_USER: usize = 100;
/// The longest lifetime of a token that a user makes. Our choice: longer ones are an operator's
/// decision.
const MAX_LIFETIME: Duration = Duration::from_hours(366 * 24);

/// A service token to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewToken {
    /// Its name.
    pub name: String,
    /// Its permissions.
    pub permissions: Vec<String>,
    /// The networks that its requests must come from; empty: all.
    pub networks: Vec<String>,
    /// The limit of its requests, as `100/m`; `None`: none.
    pub rate_limit: Option<String>,
    /// Its lifetime; `None`: it never ends.
    pub lifetime: Option<Duration>,
}

/// Why a service token cannot be as it is described.
#[derive(Debug, thiserror::Error)]
pub enum InvalidToken {
    /// The name.
    #[error(
        "a name has 1 to {MAX_NAME} letters, digits, dots, hyphens and underscores, and begins with a letter or digit"
    )]
    Name,
    /// It has no permission.
    #[error("a token needs at least one permission")]
    NoPermission,
    /// A permission.
    #[error("{0:?} is no permission; write for example flows.write, read or \"*\"")]
    Permission(String),
    /// A network.
    #[error(
        "{0:?} is no network; write an address, or a network without host bits such as 10.0.0.0/8"
    )]
    Network(String),
    /// The limit of requests.
    #[error("{0:?} is no limit; write {RATE_LIMIT}")]
    RateLimit(String),
    /// More or longer permissions and networks than a user may give.
    #[error("a token has at most {MAX_LIST} permissions and networks of {MAX_TEXT} characters")]
    TooLong,
    /// The lifetime.
    #[error("a token lives for 60 seconds to {days} days", days = MAX_LIFETIME.as_secs() / 86_400)]
    Lifetime,
}

impl NewToken {
    fn check(&self) -> Result<(), InvalidToken> {
        if !is_name(&self.name) {
            return Err(InvalidToken::Name);
        }
        if self.permissions.is_empty() {
            return Err(InvalidToken::NoPermission);
        }
        if let Some(wrong) = self.permissions.iter().find(|text| !is_permission(text)) {
            return Err(InvalidToken::Permission(wrong.clone()));
        }
        if let Some(wrong) = self.networks.iter().find(|text| !is_network(text)) {
            return Err(InvalidToken::Network(wrong.clone()));
        }
        let limit = self.rate_limit.as_deref();
        let wrong = limit.filter(|text| RateLimit::parse(text).is_none());
        wrong.map_or(Ok(()), |text| Err(InvalidToken::RateLimit(text.to_owned())))
    }

    /// The limits of a token that a user makes.
    fn check_users(&self) -> Result<(), InvalidToken> {
        let is_long = |list: &[String]| {
            list.len() > MAX_LIST || list.iter().any(|text| text.len() > MAX_TEXT)
        };
        if is_long(&self.permissions) || is_long(&self.networks) {
            return Err(InvalidToken::TooLong);
        }
        let range = Duration::from_mins(1)..=MAX_LIFETIME;
        let lives = self.lifetime.filter(|lifetime| range.contains(lifetime));
        lives.map(drop).ok_or(InvalidToken::Lifetime)
    }
}

fn is_name(name: &str) -> bool {
    let inside = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    name.len() <= MAX_NAME
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(inside)
}

impl Auth {
    /// Whether an operator can make a service token.
    pub fn check_token(&self, made: &NewToken, now: u64) -> Result<(), CreateTokenError> {
        made.check()?;
        if self.has_token(&made.name, now) {
            return Err(CreateTokenError::NameTaken);
        }
        Ok(())
    }

    /// Whether a user can make a service token: a local user with a fresh password or second
    /// factor, who has all of its permissions.
    pub async fn may_create_token(
        &self,
        caller: &Caller,
        made: &NewToken,
        now: u64,
    ) -> Result<(), CreateTokenError> {
        self.confirmed(caller, now)
            .await
            .map_err(|error| match error {
                Unconfirmed::Store(error) => CreateTokenError::Store(error),
                other => CreateTokenError::Unconfirmed(other),
            })?;
        made.check_users()?;
        self.check_token(made, now)?;
        let user = &caller.permissions.user;
        if let Some(more) = made.permissions.iter().find(|name| !covers(user, name)) {
            return Err(CreateTokenError::NotHeld(more.clone()));
        }
        self.has_room(&caller.user, now)
    }

    /// An error: the user has as many tokens as may be.
    fn has_room(&self, user: &str, now: u64) -> Result<(), CreateTokenError> {
        let listed = self.list(now);
        let of_user = listed
            .iter()
            .filter(|one| one.creator.as_deref() == Some(user));
        if of_user.count() >= PER_USER {
            return Err(CreateTokenError::TooMany);
        }
        Ok(())
    }

    /// Makes a service token, durable before it is handed out. `creator`: the user within whose
    /// rights it acts; `None`: an operator makes it.
    pub async fn create_token(
        &self,
        made: NewToken,
        creator: Option<&str>,
        now: u64,
    ) -> Result<Issued, CreateTokenError> {
        let token = new_token();
        let lifetime = made.lifetime;
        let expires = lifetime.map_or(NEVER, |lifetime| now.saturating_add(lifetime.as_secs()));
        let row = SessionRow {
            token: sha256(token.reveal().as_bytes()),
            user: format!("{PREFIX}{}", made.name),
            client: SERVICE_TOKEN.to_owned(),
            networks: Some(made.networks).filter(|list| !list.is_empty()),
            rate_limit: made.rate_limit,
            creator: creator.map(str::to_owned),
            scope: made.permissions,
            created: now,
            expires: expires.min(NEVER),
            ..SessionRow::default()
        };
        // One at a time: two of the same name must not both find it free, nor two the last place of
        // a user.
        let _creating = self.0.creating.lock().await;
        if self.has_token(&made.name, now) {
            return Err(CreateTokenError::NameTaken);
        }
        if let Some(user) = creator {
            self.has_room(user, now)?;
        }
        self.0.store.save_session(row.clone()).await?;
        if self.0.registry.admit(Session::new(&row, now)).is_none() {
            // A reload has removed the creator meanwhile.
            self.forget([row.token]).await?;
            return Err(CreateTokenError::Unconfirmed(Unconfirmed::NoUser));
        }
        Ok(Issued {
            token,
            expires_in: Duration::from_secs(row.expires - now),
            ended: 0,
            key: row.token,
        })
    }

    /// The service tokens that are not over, oldest first.
    pub fn tokens(&self, now: u64) -> Vec<SessionInfo> {
        let mut listed = self.list(now);
        listed.retain(|listed| listed.token().is_some());
        listed
    }

    /// Returns whether there is a service token of this name that is not over.
    fn has_token(&self, name: &str, now: u64) -> bool {
        let which = SessionSelector::Token(name.to_owned());
        self.list(now).iter().any(|listed| which.is(listed))
    }

    /// The user within whose rights a service token acts, by its full name `token:NAME`.
    pub fn creator_of(&self, token: &str) -> Option<SmolStr> {
        token.strip_prefix(PREFIX)?;
        let is_it = |session: &Session| session.is_service_token() && session.user == token;
        let sessions = self.0.registry.sessions();
        let found = sessions.map_alive(is_it, |session| session.creator.clone());
        found.into_iter().next().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_bounded_and_cannot_be_mistaken_for_something_else() {
        for name in ["ci", "CI-2.backup_x", "0", &"a".repeat(64)] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "",
            "-x",
            ".x",
            "a b",
            "a:b",
            "a/b",
            "ä",
            "a\n",
            &"a".repeat(65),
        ] {
            assert!(!is_name(name), "{name}");
        }
    }
}
