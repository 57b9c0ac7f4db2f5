//! Lists and ends sessions for operators: those of users, and the service tokens of machines.
//!
//! A service token is a session without a user: its permissions are its own, no password leads to it, and it does not
//! rest. It has a name, and is called `token:NAME` where users are called by theirs.

use super::session::{SERVICE_TOKEN, Session, new_token};
use super::{Auth, CreateTokenError, Issued};
use crate::store::{self, SessionRow};
use crypto::{hex, sha256};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use std::time::Duration;

/// The prefix of the names of service tokens; no user's name has it.
pub(super) const PREFIX: &str = "token:";

/// The end of a token that has none: the last second that RFC 3339 can write.
pub const NEVER: u64 = 253_402_300_799;

/// Characters of a session's id: a prefix of its token's SHA-256, so that two never meet and none is a token.
const ID: usize = 16;

/// The data of a session that may be shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// Names it, and is no token.
    pub id: String,
    /// Its user, or `token:` and the name of the service token.
    pub user: String,
    /// The program that signed in.
    pub client: String,
    /// The scope, or the permissions of a service token.
    pub scope: Vec<String>,
    /// Seconds since 1970.
    pub created: u64,
    /// Seconds since 1970; [`NEVER`]: it does not end.
    pub expires: u64,
}

/// A selection of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionSelector {
    /// All of a user.
    User(String),
    /// The one with this id.
    Id(String),
    /// The service token of this name.
    Token(String),
}

impl Auth {
    /// Makes a service token, durable before it is handed out. `None`: it never ends.
    pub async fn create_token(
        &self,
        name: &str,
        permissions: Vec<String>,
        lifetime: Option<Duration>,
        now: u64,
    ) -> Result<Issued, CreateTokenError> {
        let token = new_token();
        let expires = lifetime.map_or(NEVER, |lifetime| now.saturating_add(lifetime.as_secs()));
        let row = SessionRow {
            token: sha256(token.reveal().as_bytes()),
            user: format!("{PREFIX}{name}"),
            client: SERVICE_TOKEN.to_owned(),
            scope: permissions,
            created: now,
            expires: expires.min(NEVER),
            password: None,
        };
        // One at a time: two of the same name must not both find it free.
        let _creating = self.0.creating.lock().await;
        if self.has_token(name, now) {
            return Err(CreateTokenError::NameTaken);
        }
        self.0.store.save_session(row.clone()).await?;
        self.0.registry.restore(Session::new(&row, now));
        Ok(Issued {
            token,
            expires_in: Duration::from_secs(row.expires - now),
            ended: 0,
        })
    }

    /// Whether there is a service token of this name that is not over.
    pub fn has_token(&self, name: &str, now: u64) -> bool {
        let which = SessionSelector::Token(name.to_owned());
        let mut listed = self.list(now).into_iter();
        listed.any(|listed| which.is(&listed))
    }

    /// All sessions that are not over, oldest first, service tokens too.
    pub fn list(&self, now: u64) -> Vec<SessionInfo> {
        let idle = self.0.registry.users().idle;
        let alive = |session: &Session| !session.is_over(now, idle);
        let mut listed = self.0.registry.sessions().map_alive(alive, listed);
        listed.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        listed
    }

    /// Ends sessions, as [`revoke`](Self::revoke) does; returns those that were there.
    pub async fn end_all(
        &self,
        which: &SessionSelector,
        now: u64,
    ) -> Result<Vec<SessionInfo>, store::Error> {
        let all = self.list(now);
        let meant: Vec<_> = all.into_iter().filter(|listed| which.is(listed)).collect();
        let ended = self
            .0
            .registry
            .sessions()
            .end(|session| meant.iter().any(|meant| meant.id == id(session)));
        self.forget(ended).await?;
        Ok(meant)
    }
}

impl SessionInfo {
    /// The name of the service token, if it is one.
    pub fn token(&self) -> Option<&str> {
        let token = self.client == SERVICE_TOKEN;
        self.user.strip_prefix(PREFIX).filter(|_| token)
    }
}

impl SessionSelector {
    fn is(&self, listed: &SessionInfo) -> bool {
        match self {
            Self::User(user) => listed.token().is_none() && listed.user == *user,
            Self::Id(id) => listed.id == *id,
            Self::Token(name) => listed.token() == Some(name),
        }
    }
}

fn listed(session: &Session) -> SessionInfo {
    SessionInfo {
        id: id(session),
        user: session.user.to_string(),
        client: session.client.to_string(),
        scope: session.scope.iter().map(SmolStr::to_string).collect(),
        created: session.created,
        expires: session.expires,
    }
}

fn id(session: &Session) -> String {
    let mut id = hex(&session.key);
    id.truncate(ID);
    id
}
