//! Why a request is refused for the identity, the network or the rate of its client.

use crate::auth::{AddPasskeyError, CreateTokenError, Unconfirmed};
use smol_str::SmolStr;
use std::time::Duration;

/// Why a request is refused for its client.
#[derive(Debug, thiserror::Error)]
pub(super) enum AccessError {
    /// No valid credentials for a route that accepts Basic authentication.
    #[error("no user and password")]
    BasicNeeded,
    /// A browser without the cookie of the sign-in page.
    #[error("no sign-in")]
    SignInNeeded {
        /// The page, relative to the path of the request.
        location: String,
    },
    /// A browser whose user lacks the permission for a page.
    #[error("the user may not see the page")]
    PageForbidden {
        /// The user.
        user: SmolStr,
        /// The path of the sign-out, relative to that of the request.
        sign_out: String,
    },
    /// The caller lacks the permission that `GET /gateway/verify` asks for.
    #[error("the caller lacks the permission")]
    VerifyForbidden,
    /// A flow or a package would answer for pages of editor and console.
    #[error(
        "a service worker with this path would answer pages of editor and console: serve its script from a directory below, \
         or give endpoints hosts of their own (server.endpoint_hosts)"
    )]
    ServiceWorker,
    /// The requests of the user, the token or the route are over their limit.
    #[error("too many requests, try again later")]
    RateLimited {
        /// The time until the next one.
        wait: Duration,
    },
    /// The second factor was given too long ago for what the caller wants.
    #[error(
        "this needs a second factor of the last {minutes} min: sign out, and sign in again with a code of your authenticator app, with a passkey, or at your provider"
    )]
    SecondFactorOld {
        /// How long it counts.
        minutes: u64,
    },
    /// What the caller wants needs a second factor, and there is none.
    #[error(
        "this needs a second factor, and this user or token has none: sign in as a user with an authenticator app, with a passkey, or with a second factor at your provider"
    )]
    NoSecondFactor,
    /// The caller has not shown who it is, lately enough for what it wants.
    #[error(transparent)]
    Unconfirmed(Unconfirmed),
    /// A service token is not made.
    #[error(transparent)]
    Token(CreateTokenError),
    /// A passkey is not added or removed.
    #[error(transparent)]
    Passkey(AddPasskeyError),
    /// Browsers have no passkeys for this host.
    #[error("passkeys need HTTPS and a host with a name: browsers have none for an address")]
    PasskeyHost,
    /// The client's address is in none of the networks of the user, the token, the route or the
    /// permission.
    #[error("this is not allowed from the network of the client")]
    Network,
}
