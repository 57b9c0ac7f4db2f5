//! Basic authentication (RFC 7617) of devices that know nothing else: a password with each request.
//!
//! A password is checked once, as at every other sign-in, and then stands for a session in memory.
//! So it costs a hash of the throttle's pace once in a while, and a look-up otherwise; and the
//! session ends like all others: when it is revoked, or when a reload removes the user or the
//! password.

use super::session::{BASIC, Key};
use super::{Auth, Caller, SignIn};
use crypto::sha256;
use std::time::Duration;

/// The longest time for which a password is not checked again. Our choice: a device that asks each
/// second costs one hash an hour.
pub(super) const LIFETIME: Duration = Duration::from_hours(1);

impl Auth {
    /// The caller whose password was checked before; `None`: it was not, or the session has ended.
    pub fn identify_basic(&self, user: &str, password: &str, now: u64) -> Option<Caller> {
        self.0
            .registry
            .identify(&self.basic_key(user, password), now)
    }

    /// The key of the session of a sign-in with Basic; `None`: it is another one.
    pub(super) fn key_of_basic(&self, sign_in: &SignIn) -> Option<Key> {
        let is_basic = sign_in.client == BASIC;
        is_basic.then(|| self.basic_key(&sign_in.user, sign_in.password.reveal()))
    }

    /// A hash of user and password, keyed by a random number of this process.
    fn basic_key(&self, user: &str, password: &str) -> Key {
        let length = user.len().to_le_bytes();
        let parts: [&[u8]; 5] = [
            b"flowgate basic",
            &self.0.label_key,
            &length,
            user.as_bytes(),
            password.as_bytes(),
        ];
        sha256(&parts.concat())
    }
}
