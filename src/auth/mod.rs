//! Who may do what: users, passwords, sessions (the concurrent map), permissions, the throttle.

mod password;
mod permission;
mod session;
mod throttle;

pub use password::{Password, hash_password};
pub use permission::covers;
pub use session::Session;

use crate::config;
use crate::secret::Secret;
use crate::store::{self, Store};
use smol_str::SmolStr;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Who calls, after *identify*.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The user's name; empty: anonymous.
    pub user: SmolStr,
    /// What the caller may do now: the token's scope and what the user has.
    pub permissions: Permissions,
    /// The session, unless anonymous.
    pub session: Option<Arc<Session>>,
}

/// What a caller effectively has: every need must be covered by the scope *and* by the user's permissions.
#[derive(Debug, Clone)]
pub struct Permissions {
    /// The token's scope; empty: all that the user has.
    pub scope: Arc<[SmolStr]>,
    /// The user's permissions now.
    pub user: Arc<[SmolStr]>,
}

/// A sign-in, parsed.
#[derive(Debug)]
pub struct SignIn {
    /// `username`.
    pub user: String,
    /// `password`.
    pub password: Secret,
    /// `scope`, split at spaces; empty: all that the user has.
    pub scope: Vec<SmolStr>,
    /// `client_id`.
    pub client: String,
    /// Where from.
    pub address: IpAddr,
}

/// A token handed out.
#[derive(Debug)]
pub struct Issued {
    /// The token.
    pub token: Secret,
    /// Its lifetime.
    pub expires_in: Duration,
}

/// Why a sign-in or revocation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Too many failures; try again after `wait`.
    #[error("too many failures")]
    Throttled {
        /// How long.
        wait: Duration,
    },
    /// Unknown user or wrong password.
    #[error("unknown user or wrong password")]
    BadCredentials,
    /// The user's permissions do not cover the scope.
    #[error("the user's permissions do not cover the scope")]
    InvalidScope,
    /// The token belongs to another user and the caller lacks `*`.
    #[error("the token is another user's")]
    NotYours,
    /// It could not be made durable.
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// Users, sessions and throttle of one gateway; clones share them.
#[derive(Clone)]
pub struct Auth {}

impl Auth {
    /// Puts it together: reads sessions and failures from the store, makes the first `admin` if there is no user.
    /// The second value is that admin's password, to be shown once.
    pub async fn open(_config: &config::Auth, _hashing: usize, _store: Store, _now: u64) -> Result<(Self, Option<Secret>), Error> {
        todo!()
    }

    /// Replaces users, lifetimes and throttle; sessions of users who are gone are revoked for good.
    pub async fn reload(&self, _config: &config::Auth) -> Result<(), Error> {
        todo!()
    }

    /// The caller behind a bearer token; `None`: unknown, expired or revoked. Takes one map shard.
    pub fn identify(&self, _token: &str, _now: u64) -> Option<Caller> {
        todo!()
    }

    /// The caller without a token, if the operator allows one.
    pub fn anonymous(&self) -> Option<Caller> {
        todo!()
    }

    /// Checks a password and hands out a token.
    pub async fn sign_in(&self, _sign_in: SignIn, _now: u64) -> Result<Issued, Error> {
        todo!()
    }

    /// Revokes a token; what it has open is told through its session. An unknown token is no error.
    pub async fn revoke(&self, _caller: &Caller, _token: &str) -> Result<(), Error> {
        todo!()
    }

    /// Ends sessions that are over; returns how many.
    pub async fn sweep(&self, _now: u64) -> Result<usize, Error> {
        todo!()
    }

    /// Sessions alive.
    pub fn active(&self) -> usize {
        todo!()
    }
}
