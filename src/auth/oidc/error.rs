//! Why a sign-in with a provider fails.

use crate::auth::InvalidJwt;
use crate::store;

/// Why a sign-in with a provider fails, or a session of one no longer counts.
#[derive(Debug, thiserror::Error)]
pub enum OidcError {
    /// No provider has this name.
    #[error("there is no such provider")]
    NoProvider,
    /// It cannot be reached, or is not well.
    #[error("the provider cannot be reached: {0}")]
    Unreachable(String),
    /// It says something else than a provider should.
    #[error("{0}")]
    Invalid(&'static str),
    /// It refuses: the user has not signed in there, or a code or token is not good any more.
    #[error("the provider refuses: {0}")]
    Refused(String),
    /// The browser does not show the sign-in that it began, or too late.
    #[error("the browser has begun no such sign-in, or too long ago")]
    NotBegun,
    /// The response is used already.
    #[error("the response was used before")]
    Replayed,
    /// The response comes from another provider than the one that was asked (RFC 9207).
    #[error("the response is of another issuer")]
    MixUp,
    /// The ID token or logout token does not count.
    #[error("its token: {0}")]
    Token(#[from] InvalidJwt),
    /// No grant fits the user.
    #[error("no grant fits the user's claims")]
    NoGrant,
    /// The store of all gateways cannot be asked.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The address is in none of the provider's networks.
    #[error("the address is in none of the networks of the provider")]
    Network,
}
