//! The `admin` of the first start, which is there only as long as the configuration has had no
//! user.

use super::users;
use crate::config;
use crate::store::{self, Store};
use crypto::Secret;

/// For the operator who has configured the first user.
const ADMIN_ENDS: &str = "the user `admin` of the first start ends, because there is an [[auth.user]]: its password and its sessions are not valid any more, also when the users are removed later";
/// For the operator who has removed the last user.
pub(super) const NO_USERS: &str = "there is no [[auth.user]], and the `admin` of the first start has ended: no client can sign in with a password. The next start makes another `admin`, with a new password";

/// The hash of the `admin` of the first start. It ends for good with the first user of the
/// configuration: else the password that was shown then, perhaps in a journal, would be valid again
/// when the last user is removed.
pub(super) async fn generated_admin(
    config: &config::Auth,
    store: &Store,
) -> Result<Option<Secret>, store::Error> {
    if config.users.is_empty() {
        return store.generated_admin().await;
    }
    if store
        .forget_generated_admin(users::generated_record())
        .await?
    {
        tracing::warn!("{ADMIN_ENDS}");
    }
    Ok(None)
}

/// Returns for the operator how the `admin` of the first start ends, or that it has ended and no
/// user is there; `has_admin`: it is there. `None`: these users change nothing about it.
pub fn admin_notice(config: &config::Auth, has_admin: bool) -> Option<&'static str> {
    match (config.users.is_empty(), has_admin) {
        (false, true) => Some(ADMIN_ENDS),
        (true, false) => Some(NO_USERS),
        (false, false) | (true, true) => None,
    }
}
