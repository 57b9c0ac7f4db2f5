//! The sign-in of an editor's channel: by a token, a certificate, or as the anonymous user; watched from then on.
//!
//! The token is checked once and dropped; only its session is kept.

use super::{Comms, PendingEditor};
use crate::auth::{Auth, AuthWatch, Caller, Grant, Lapsed, Registry};
use crate::metrics::TokenCheck;
use crypto::Secret;
use std::sync::Arc;

/// The permission that receiving events needs (docs/reference/node-red-admin-api.md §4).
const NEEDS: &str = "status.read";

/// Watches the authorization of an editor's channel.
pub(super) type Watch = AuthWatch<Subscription>;

/// The authorization of a channel: to receive the events of a place.
#[derive(Clone)]
pub(super) struct Subscription {
    auth: Option<Auth>,
    here: super::Here,
}

impl Grant for Subscription {
    fn registry(&self) -> Option<&Registry> {
        self.auth.as_ref().map(Auth::registry)
    }

    fn narrowed(&self, caller: Option<Caller>) -> Result<Option<Caller>, Lapsed> {
        let caller = caller.map(|caller| (self.here)(caller));
        let permitted = |caller: &Caller| caller.permissions.cover(NEEDS);
        if caller.as_ref().is_some_and(permitted) {
            Ok(caller)
        } else {
            Err(Lapsed::Permission)
        }
    }
}

/// Without a sign-in, where the API is open.
pub(super) fn open(comms: &Comms, editor: &PendingEditor) -> Watch {
    watch(comms, editor, None, 0)
}

/// By a token; `None`: it is not valid, or lacks the permission.
pub(super) fn by_token(comms: &Comms, editor: &PendingEditor, token: &Secret) -> Option<Watch> {
    let Some(auth) = &comms.auth else {
        return Some(open(comms, editor));
    };
    let generation = auth.generation();
    let now = (editor.clock)().as_secs();
    let caller = auth.identify(token.reveal(), now);
    comms
        .metrics
        .token_check(match (&caller, editor.actor.address) {
            (Some(_), _) => TokenCheck::Valid,
            // Guessing costs the same wherever it is tried.
            (None, Some(address)) if auth.bad_token(address, now).is_some() => {
                TokenCheck::Throttled
            }
            (None, _) => TokenCheck::Invalid,
        });
    permitted(comms, editor, caller?, generation)
}

/// Without a token: as the user of the certificate, else as the anonymous user.
pub(super) fn without_token(comms: &Comms, editor: &PendingEditor) -> Option<Watch> {
    let Some(auth) = &comms.auth else {
        return Some(open(comms, editor));
    };
    let generation = auth.generation();
    let now = (editor.clock)().as_secs();
    let certificate = editor.certificate.as_ref();
    let certified = certificate.and_then(|certificate| auth.certified(certificate, now));
    comms.metrics.token_check(match certified {
        Some(_) => TokenCheck::Certificate,
        None => TokenCheck::Absent,
    });
    let caller = certified.or_else(|| auth.anonymous().filter(|_| editor.without_token))?;
    permitted(comms, editor, caller, generation)
}

fn permitted(
    comms: &Comms,
    editor: &PendingEditor,
    caller: Caller,
    generation: u64,
) -> Option<Watch> {
    let caller = (editor.here)(caller);
    let granted = caller.permissions.cover(NEEDS);
    comms.metrics.permission_check(granted);
    granted.then(|| watch(comms, editor, Some(caller), generation))
}

fn watch(comms: &Comms, editor: &PendingEditor, caller: Option<Caller>, generation: u64) -> Watch {
    let subscription = Subscription {
        auth: comms.auth.clone(),
        here: Arc::clone(&editor.here),
    };
    AuthWatch::new(caller, subscription, generation, editor.clock)
}
