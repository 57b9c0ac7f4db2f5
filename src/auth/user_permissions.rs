//! The permissions of a user who is not the caller, such as the one who proposed a change.

use super::{Auth, Permissions, SessionInfo};
use smol_str::SmolStr;
use std::sync::Arc;

impl Auth {
    /// All permissions that a user has now, in seconds since 1970; of `token:NAME`, those of that service token. `None`:
    /// there is no such user or token any more.
    pub fn permissions_of(&self, user: &str, now: u64) -> Option<Permissions> {
        if let Some(user) = self.registry().users().find(user) {
            return Some(Permissions::of(Arc::clone(&user.permissions)));
        }
        let of_user = |session: &SessionInfo| session.token().is_some() && session.user == user;
        let token = self.list(now).into_iter().find(of_user)?;
        Some(Permissions::of(
            token.scope.iter().map(SmolStr::new).collect(),
        ))
    }
}
