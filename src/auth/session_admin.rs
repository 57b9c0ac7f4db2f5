//! Lists and ends sessions: those of users, and the service tokens of machines, which are called
//! `token:NAME` where users are called by their names.

use super::Auth;
use super::session::{Key, SERVICE_TOKEN, Session};
use crate::config::Networks;
use crate::store;
use crypto::{hex, sha256};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// The prefix of the names of service tokens; no user's name has it.
pub(super) const PREFIX: &str = "token:";

/// The end of a token that has none: the last second that RFC 3339 can write.
pub const NEVER: u64 = 253_402_300_799;

/// Characters of a session's id: 64 bits, so that no two of a gateway have the same. Our choice.
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
    /// The `User-Agent` of the sign-in, shortened; empty: it sent none.
    pub agent: String,
    /// The scope, or the permissions of a service token.
    pub scope: Vec<String>,
    /// The user who made a service token; `None`: an operator, or it is none.
    pub creator: Option<String>,
    /// The networks that the requests of a service token must come from; empty: all.
    pub networks: Vec<String>,
    /// Seconds since 1970.
    pub created: u64,
    /// Seconds since 1970; [`NEVER`]: it does not end.
    pub expires: u64,
    /// Seconds since 1970; `None`: not since the sign-in or the start of the gateway.
    pub last_used: Option<u64>,
}

/// A selection of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionSelector {
    /// All of all users.
    AllUsers,
    /// All of a user.
    User(String),
    /// The one with this id.
    Id(String),
    /// The service token of this name.
    Token(String),
}

impl Auth {
    /// All sessions that are not over, oldest first, service tokens too.
    pub fn list(&self, now: u64) -> Vec<SessionInfo> {
        let alive = self.alive(now).into_iter();
        let mut listed: Vec<_> = alive.map(|(_, listed)| listed).collect();
        listed.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        listed
    }

    fn alive(&self, now: u64) -> Vec<(Key, SessionInfo)> {
        let idle = self.0.registry.users().idle;
        let alive = |session: &Session| !session.is_over(now, idle);
        let listed = |session: &Session| (session.key, listed(session));
        self.0.registry.sessions().map_alive(alive, listed)
    }

    /// Ends sessions, as [`revoke`](Self::revoke) does; returns those that were there.
    pub async fn end_all(
        &self,
        which: &SessionSelector,
        now: u64,
    ) -> Result<Vec<SessionInfo>, store::Error> {
        let all = self.alive(now).into_iter();
        let (keys, ended): (Vec<Key>, Vec<_>) = all.filter(|(_, listed)| which.is(listed)).unzip();
        let sessions = self.0.registry.sessions();
        for key in &keys {
            match sessions.find(key).filter(|session| session.is_jwt()) {
                Some(session) => self.revoke_jwt(&session).await?,
                None => drop(sessions.end_one(key)),
            }
        }
        self.forget(keys).await?;
        Ok(ended)
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
    pub(super) fn is(&self, listed: &SessionInfo) -> bool {
        match self {
            Self::AllUsers => listed.token().is_none(),
            Self::User(user) => listed.token().is_none() && listed.user == *user,
            Self::Id(id) => listed.id == *id,
            Self::Token(name) => listed.token() == Some(name),
        }
    }
}

fn listed(session: &Session) -> SessionInfo {
    SessionInfo {
        id: session_id(session),
        user: session.user.to_string(),
        client: session.client.to_string(),
        agent: session.agent.to_string(),
        scope: session.scope.iter().map(SmolStr::to_string).collect(),
        creator: session.creator.as_ref().map(SmolStr::to_string),
        networks: session
            .networks
            .as_ref()
            .map_or_else(Vec::new, Networks::texts),
        created: session.created,
        expires: session.expires,
        last_used: session.last_used(),
    }
}

/// Names a session, and tells nothing about its token or that token's hash: a SHA-256 of that hash.
pub fn session_id(session: &Session) -> String {
    let mut id = hex(&sha256(&[b"flowgate session", &session.key[..]].concat()));
    id.truncate(ID);
    id
}
