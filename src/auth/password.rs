//! Passwords: argon2id and bcrypt hashes, checked on blocking threads, few at a time.

use crate::secret::Secret;

/// A password hash as the config holds it, parsed.
#[derive(Debug, Clone)]
pub struct Password(pub(super) Secret);

/// The argon2id hash of a password, as PHC string.
pub fn hash_password(_password: &Secret) -> Secret {
    todo!()
}
