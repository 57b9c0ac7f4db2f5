//! The permissions of a user who is not the caller, such as the one who proposed a change.

use super::registry::permissions;
use super::{Auth, FederatedPermissions, Permissions, Session};
use std::sync::Arc;

impl Auth {
    /// The permissions of a caller whom an identity provider vouches for, while a session of it is
    /// alive.
    pub fn federated_permissions_of(&self, user: &str) -> Option<Arc<FederatedPermissions>> {
        let wanted = |session: &Session| session.user == user && session.federated.is_some();
        let permissions = |session: &Session| {
            session
                .federated
                .as_ref()
                .map(|federated| federated.permissions())
        };
        let registry = self.registry();
        registry
            .sessions()
            .map_alive(wanted, permissions)
            .pop()
            .flatten()
    }

    /// All permissions that a user has now, in seconds since 1970; of `token:NAME`, those of that
    /// service token. `None`: there is no such user or token any more.
    pub fn permissions_of(&self, user: &str, now: u64) -> Option<Permissions> {
        if let Some(user) = self.registry().users().find(user) {
            return Some(Permissions::of(Arc::clone(&user.permissions)));
        }
        if let Some(permissions) = self.federated_permissions_of(user) {
            return Some(permissions.everywhere());
        }
        let registry = self.registry();
        let users = registry.users();
        let is_it = |session: &Session| {
            session.is_service_token() && session.user == user && !session.is_over(now, users.idle)
        };
        let found = registry
            .sessions()
            .map_alive(is_it, |session| permissions(&users, session));
        found.into_iter().next().flatten()
    }
}
