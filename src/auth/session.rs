//! Sessions: what is kept about a token, in the concurrent map keyed by the token's SHA-256.

use smol_str::SmolStr;
use tokio::sync::watch;

/// One session.
#[derive(Debug)]
pub struct Session {
    /// SHA-256 of the token.
    pub key: [u8; 32],
    /// Its user.
    pub user: SmolStr,
    /// When it ends, seconds since 1970.
    pub expires: u64,
    /// Becomes true when the session is revoked or over: whoever holds something open for it closes it.
    pub ended: watch::Sender<bool>,
}
