//! As whom an editor is here, and until when.
//!
//! The token is looked at once and forgotten; what is kept is its session.

use super::{Comms, Guest};
use crate::auth::Caller;
use crate::metrics::{CommsEnd, TokenCheck};
use crate::secret::Secret;
use std::future::pending;

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
        let now = (guest.clock)().as_secs();
        let caller = auth.identify(token.reveal(), now);
        comms
            .metrics
            .token_check(match (&caller, guest.actor.address) {
                (Some(_), _) => TokenCheck::Valid,
                // Guessing costs the same wherever it is tried.
                (None, Some(address)) if auth.bad_token(address, now).is_some() => {
                    TokenCheck::Throttled
                }
                (None, _) => TokenCheck::Invalid,
            });
        Self::permitted(comms, (guest.here)(caller?))
    }

    /// Whoever shows none: the user of his certificate, else the anonymous one.
    pub(super) fn of_nobody(comms: &Comms, guest: &Guest) -> Option<Self> {
        let Some(auth) = &comms.auth else {
            return Some(Self::Open);
        };
        let now = (guest.clock)().as_secs();
        let certificate = guest.certificate.as_ref();
        let certified = certificate.and_then(|certificate| auth.certified(certificate, now));
        comms.metrics.token_check(match certified {
            Some(_) => TokenCheck::Certificate,
            None => TokenCheck::Absent,
        });
        let caller = certified.or_else(|| auth.anonymous().filter(|_| guest.without_token))?;
        Self::permitted(comms, (guest.here)(caller))
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

    /// How that is known.
    pub(super) fn by(&self) -> String {
        match self {
            Self::Open => String::new(),
            Self::Known(caller) => caller.known.to_string(),
        }
    }

    /// What an editor sends of its own accord is a use of its session; that it is open is none, else a forgotten tab
    /// would keep its token for ever.
    pub(super) fn is_used(&self, guest: &Guest) {
        if let Self::Known(caller) = self
            && let Some(session) = caller.session()
        {
            session.touch((guest.clock)().as_secs());
        }
    }

    /// Waits until it is lost.
    pub(super) async fn lost(&self, comms: &Comms, guest: &Guest) -> CommsEnd {
        let Self::Known(caller) = self else {
            return pending().await;
        };
        tokio::select! {
            biased;
            () = caller.over((guest.clock)()) => CommsEnd::Session,
            () = forbidden(comms, caller, guest) => CommsEnd::Permission,
        }
    }
}

/// Waits until a reload takes the user, or what hearing needs.
async fn forbidden(comms: &Comms, caller: &Caller, guest: &Guest) {
    let mut reloads = comms.reloads.clone();
    let again = |caller| match &comms.auth {
        Some(auth) => auth.again(caller),
        None => Some(caller.clone()),
    };
    // Looked at before the wait too: it may have changed since the sign-in.
    while again(caller).is_some_and(|now| (guest.here)(now).permissions.cover(NEEDS)) {
        if reloads.changed().await.is_err() {
            return;
        }
    }
}
