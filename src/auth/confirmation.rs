//! Whether the user of a session has shown lately who it is: for changes of what gives access, such
//! as passkeys and service tokens. A session that is stolen, or a password alone of a user with a
//! second factor, must not become another credential.

use super::passkey::whole_users;
use super::{Auth, Caller, Session};
use crate::store::{self, PasskeyRow};

/// Seconds for which a password or a second factor is fresh. Our choice: the time to find the view
/// and the authenticator.
const FRESH: u64 = 300;

/// What a user must give again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StepUpNeeded {
    /// The password.
    #[error("your password")]
    Password,
    /// A second factor, because the user has one.
    #[error("a second factor")]
    SecondFactor,
}

/// Why a caller may not change what gives access.
#[derive(Debug, thiserror::Error)]
pub enum Unconfirmed {
    /// The caller is no local user, or may use a part of the user's permissions only.
    #[error("this is for local users who have signed in without a scope")]
    NoUser,
    /// The user has to show first who it is.
    #[error("this needs {0} of the last {minutes} min: give it again", minutes = FRESH / 60)]
    NotFresh(StepUpNeeded),
    /// The passkeys cannot be read.
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Auth {
    /// The caller's session and passkeys, if what was given last is fresh: with a second factor
    /// that, else the password.
    pub(super) async fn confirmed<'c>(
        &self,
        caller: &'c Caller,
        now: u64,
    ) -> Result<(&'c Session, Vec<PasskeyRow>), Unconfirmed> {
        let session = whole_users(caller).ok_or(Unconfirmed::NoUser)?;
        let rows = self.passkeys_of(&caller.user).await?;
        let users = self.0.registry.users();
        let has_codes = users
            .find(&caller.user)
            .is_some_and(|user| user.totp.is_some());
        let (given, needed) = if has_codes || !rows.is_empty() {
            let at_sign_in = has_codes.then_some(session.created);
            let given = session.factor().max(at_sign_in).unwrap_or(0);
            (given, StepUpNeeded::SecondFactor)
        } else {
            (session.confirmed(), StepUpNeeded::Password)
        };
        if now.saturating_sub(given) >= FRESH {
            return Err(Unconfirmed::NotFresh(needed));
        }
        Ok((session, rows))
    }
}
