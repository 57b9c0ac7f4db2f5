//! The errors of each operation on users and sessions; operations that are not listed here fail
//! with the store only.

use super::{HashError, InvalidToken, PasskeyError, Unconfirmed};
use crate::store;
use smol_str::SmolStr;
use std::time::Duration;

/// Why a sign-in fails.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// Too many failures, or too many sign-ins at this moment; try again after `wait`.
    #[error("too many failures")]
    Throttled {
        /// The time to wait.
        wait: Duration,
    },
    /// Unknown user or wrong password.
    #[error("unknown user or wrong password")]
    BadCredentials {
        /// This failure makes the throttle refuse what comes next.
        locked: bool,
        /// With this failure the user counts as being guessed from many addresses.
        guessed: bool,
        /// The password was right, but the address is in none of the user's networks. The response
        /// is that of a wrong password.
        outside: bool,
    },
    /// The passkey does not count. The response is that of a wrong password.
    #[error("the passkey is not accepted: {reason}")]
    BadPasskey {
        /// The user whose it is, as far as that is known.
        user: Option<SmolStr>,
        /// Why.
        reason: PasskeyError,
        /// This failure makes the throttle refuse what comes next.
        locked: bool,
        /// With this failure the user counts as being guessed from many addresses.
        guessed: bool,
    },
    /// The user's permissions do not cover the scope.
    #[error("the user's permissions do not cover the scope")]
    InvalidScope,
    /// The session could not be made durable.
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// Why a revocation fails.
#[derive(Debug, thiserror::Error)]
pub enum RevokeError {
    /// The token belongs to another user and the caller lacks `*`.
    #[error("the token is another user's")]
    NotYours,
    /// It could not be made durable.
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// Why no service token is made.
#[derive(Debug, thiserror::Error)]
pub enum CreateTokenError {
    /// It cannot be as it is described.
    #[error(transparent)]
    Invalid(#[from] InvalidToken),
    /// The user must show first who it is.
    #[error(transparent)]
    Unconfirmed(Unconfirmed),
    /// The user does not have a permission that the token is to have.
    #[error("you do not have the permission {0}, so your tokens cannot have it")]
    NotHeld(String),
    /// The user has as many as may be.
    #[error("you have 100 tokens, the most that a user may have: revoke one first")]
    TooMany,
    /// Another service token has this name.
    #[error("another token has this name; revoke it first or choose another name")]
    NameTaken,
    /// It could not be made durable.
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// Why users and sessions cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The password of the first `admin` could not be hashed.
    #[error(transparent)]
    Hash(#[from] HashError),
}
