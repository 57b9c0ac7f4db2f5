//! Ends the sessions of a user beyond `auth.sessions_per_user`, and logs it once for each user.

use super::Auth;
use super::session::Key;
use smol_str::SmolStr;

/// Users of whom it is logged that they have too many sessions. Our choice: many times what an
/// installation has.
const MAX_LOGGED: usize = 1000;

impl Auth {
    /// Returns whether it is to be logged that a user has too many sessions: once for each.
    fn logs_surplus_of(&self, user: &str) -> bool {
        let mut logged = self.0.surplus_logged.lock();
        // A bound for names that providers give.
        logged.len() < MAX_LOGGED && logged.insert(SmolStr::new(user))
    }

    /// Forgets the sessions that a sign-in has ended because their user had too many, and logs it
    /// once for each user.
    pub(super) async fn end_surplus(&self, user: &str, ended: Vec<Key>) -> usize {
        let count = ended.len();
        if count == 0 {
            return 0;
        }
        if self.logs_surplus_of(user) {
            let limit = self.0.registry.users().sessions_per_user;
            tracing::warn!(
                user,
                limit,
                "a sign-in has ended the session of this user that was not used for the longest time: the user has more sessions than auth.sessions_per_user. A program that signs in again and again needs a service token, or to sign out; further ones are in the audit log only"
            );
        }
        if let Err(error) = self.forget(ended).await {
            tracing::error!(%error, "sessions beyond the limit could not be forgotten yet");
        }
        count
    }
}
