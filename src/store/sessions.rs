//! Sessions, and what sign-ins with providers and passkeys need that any gateway with this store,
//! and this one after a restart, can go on with them.

use super::{Error, Store};
use crypto::Secret;

/// The stored data of a session; the token itself is not stored.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionRow {
    /// SHA-256 of the token.
    pub token: [u8; 32],
    /// Its user.
    pub user: String,
    /// `service-admin`, `node-red-editor` …
    pub client: String,
    /// The `User-Agent` of the sign-in, as it may be shown; empty: it sent none.
    pub agent: String,
    /// The scope asked for; empty: all that the user has at the time of use.
    pub scope: Vec<String>,
    /// The networks that the requests of a service token must come from; `None`: all.
    pub networks: Option<Vec<String>>,
    /// The limit of the requests of a service token, as `100/m`; `None`: none.
    pub rate_limit: Option<String>,
    /// The user who made a service token; `None`: an operator, in the shell.
    pub creator: Option<String>,
    /// When it was handed out, seconds since 1970.
    pub created: u64,
    /// When it ends, seconds since 1970.
    pub expires: u64,
    /// The record of the user's password that it is bound to; `None`: it has none, or is from
    /// before there were any.
    pub password: Option<[u8; 32]>,
    /// When the user last gave the password or a second factor in it, seconds since 1970; 0: at the
    /// sign-in.
    pub confirmed: u64,
    /// When the user last gave a second factor in it, seconds since 1970; 0: never.
    pub factor: u64,
    /// What an identity provider vouches for, sealed; `None`: it has none.
    pub provider: Option<String>,
}

impl Store {
    /// All sessions, oldest first.
    pub async fn sessions(&self) -> Result<Vec<SessionRow>, Error> {
        self.owner.ask(|disk| disk.database.sessions()).await
    }

    /// One session, by the hash of its token; `None`: there is none.
    pub async fn session(&self, token: [u8; 32]) -> Result<Option<SessionRow>, Error> {
        self.owner
            .ask(move |disk| disk.database.session(&token))
            .await
    }

    /// Keeps a session.
    pub async fn save_session(&self, session: SessionRow) -> Result<(), Error> {
        self.owner
            .ask(move |disk| disk.database.save_session(&session))
            .await
    }

    /// Keeps when the user of a session last gave the password or a second factor, and a second
    /// factor.
    pub async fn confirm_session(
        &self,
        token: [u8; 32],
        confirmed: u64,
        factor: u64,
    ) -> Result<(), Error> {
        self.owner
            .ask(move |disk| disk.database.confirm_session(&token, confirmed, factor))
            .await
    }

    /// Binds sessions, by their tokens, to records of passwords.
    pub async fn bind_sessions(&self, sessions: Vec<([u8; 32], [u8; 32])>) -> Result<(), Error> {
        self.owner
            .ask(move |disk| disk.database.bind_sessions(&sessions))
            .await
    }

    /// Forgets sessions.
    pub async fn remove_sessions(&self, tokens: Vec<[u8; 32]>) -> Result<(), Error> {
        self.owner
            .ask(move |disk| disk.database.remove_sessions(&tokens))
            .await
    }

    /// Keeps when sessions, by their tokens, were used last, for other gateways.
    pub async fn save_uses(&self, uses: Vec<([u8; 32], u64)>) -> Result<(), Error> {
        self.owner
            .ask(move |disk| disk.database.save_uses(&uses))
            .await
    }

    /// The secret of the configuration, which all gateways have that share the store: what is
    /// sealed with it may be kept.
    pub fn secret(&self) -> Option<&Secret> {
        self.secret.as_ref()
    }

    /// Claims, until a time, to ask the provider of a session whether it still counts; gives what
    /// the provider said last, sealed. `None`: another gateway asks or has just asked, or the
    /// session has ended.
    pub async fn claim_provider(
        &self,
        token: [u8; 32],
        until: u64,
        now: u64,
    ) -> Result<Option<String>, Error> {
        self.owner
            .ask(move |disk| disk.database.claim_provider(&token, until, now))
            .await
    }

    /// Keeps what the provider of a session has said, sealed, and when it is asked next, unless the
    /// session has ended.
    pub async fn save_provider(
        &self,
        token: [u8; 32],
        sealed: String,
        next: u64,
    ) -> Result<(), Error> {
        self.owner
            .ask(move |disk| disk.database.save_provider(&token, &sealed, next))
            .await
    }

    /// Remembers, until a time, that something that counts once was used; false: it was before.
    pub async fn use_once(&self, key: [u8; 32], until: u64, now: u64) -> Result<bool, Error> {
        self.owner
            .ask(move |disk| disk.database.use_once(&key, until, now))
            .await
    }
}
