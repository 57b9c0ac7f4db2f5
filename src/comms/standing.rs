//! As whom an editor is here, and until when.
//!
//! The token is looked at once and forgotten; what is kept is its session.

use super::{Comms, Guest};
use crate::auth::{Auth, Caller};
use crate::metrics::{CommsEnd, TokenCheck};
use crate::secret::Secret;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// What hearing needs (facts admin API §4).
const NEEDS: &str = "status.read";

/// As whom an editor is here.
pub(super) enum Standing {
    /// Nobody signs in.
    Open,
    /// Signed in, or the anonymous user.
    Known(Caller),
}

impl Standing {
    /// Whoever shows this token; `None`: nobody, or somebody who may not hear.
    pub(super) fn of_token(comms: &Comms, guest: &Guest, token: &Secret) -> Option<Self> {
        let Some(auth) = &comms.auth else {
            return Some(Self::Open);
        };
        let caller = auth.identify(token.reveal(), (guest.clock)().as_secs());
        comms.metrics.token_check(match caller {
            Some(_) => TokenCheck::Valid,
            None => TokenCheck::Invalid,
        });
        Self::permitted(comms, caller?)
    }

    /// Whoever shows none.
    pub(super) fn of_nobody(comms: &Comms) -> Option<Self> {
        let Some(auth) = &comms.auth else {
            return Some(Self::Open);
        };
        comms.metrics.token_check(TokenCheck::Absent);
        Self::permitted(comms, auth.anonymous()?)
    }

    fn permitted(comms: &Comms, caller: Caller) -> Option<Self> {
        let granted = caller.permissions.cover(NEEDS);
        comms.metrics.permission_check(granted);
        granted.then_some(Self::Known(caller))
    }

    /// The user's name; empty: nobody who is known.
    pub(super) fn user(&self) -> &str {
        match self {
            Self::Open => "",
            Self::Known(caller) => &caller.user,
        }
    }

    /// What an editor sends of its own accord is a use of its session; that it is open is none, else a forgotten tab
    /// would keep its token for ever.
    pub(super) fn is_used(&self, guest: &Guest) {
        if let Self::Known(Caller {
            session: Some(session),
            ..
        }) = self
        {
            session.touch((guest.clock)().as_secs());
        }
    }

    /// Waits until it is lost.
    pub(super) async fn lost(&self, comms: &Comms, clock: fn() -> Duration) -> CommsEnd {
        match (self, &comms.auth) {
            (Self::Known(caller), Some(auth)) => {
                tokio::select! {
                    biased;
                    () = over(caller, clock) => CommsEnd::Session,
                    end = changed(auth, caller, clock) => end,
                }
            }
            (Self::Open, _) | (Self::Known(_), None) => std::future::pending().await,
        }
    }
}

/// Waits until the caller's session is revoked, unused for too long, or at its end.
async fn over(caller: &Caller, clock: fn() -> Duration) {
    match &caller.session {
        None => std::future::pending().await,
        Some(session) => {
            let left = Duration::from_secs(session.expires).saturating_sub(clock());
            tokio::select! {
                () = session.over() => {}
                () = sleep(left) => {}
            }
        }
    }
}

/// Waits until a reload takes the user, or what hearing needs.
async fn changed(auth: &Auth, caller: &Caller, clock: fn() -> Duration) -> CommsEnd {
    let mut changes = auth.changes();
    loop {
        // Looked at before the wait too: it may have changed since the sign-in.
        let now = match &caller.session {
            Some(session) => match auth.caller(Arc::clone(session), clock().as_secs()) {
                Some(caller) => Some(caller),
                None => return CommsEnd::Session,
            },
            None => auth.anonymous(),
        };
        if !now.is_some_and(|caller| caller.permissions.cover(NEEDS)) {
            return CommsEnd::Permission;
        }
        if changes.changed().await.is_err() {
            return CommsEnd::Session;
        }
    }
}
