//! The sign-in of an editor's channel: by a token, a certificate, or as the anonymous user; watched
//! from then on.
//!
//! The token is checked once and dropped; only its session is kept.

use super::{Comms, JwtClient, PendingEditor, sign_in_with_jwt};
use crate::auth::{Auth, AuthWatch, Caller, Grant, Lapsed, Registry};
use crate::metrics::TokenCheck;
use crypto::Secret;
use std::net::IpAddr;
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
    /// The client's address.
    address: Option<IpAddr>,
}

impl Subscription {
    /// Returns whether the networks of the user and the token have the client's address.
    fn admits(&self, caller: &Caller) -> bool {
        let registry = self.registry().zip(self.address);
        registry.is_none_or(|(registry, address)| registry.admits(caller, address))
    }
}

impl Subscription {
    /// The caller with the permissions of the place, as far as they may be used.
    fn here(&self, caller: Caller) -> Caller {
        let caller = (self.here)(caller);
        match self.registry() {
            Some(registry) => registry.conditioned(caller, self.address),
            None => caller,
        }
    }
}

impl Grant for Subscription {
    fn registry(&self) -> Option<&Registry> {
        self.auth.as_ref().map(Auth::registry)
    }

    fn narrowed(&self, caller: Option<Caller>) -> Result<Option<Caller>, Lapsed> {
        let caller = caller.map(|caller| self.here(caller));
        let permitted = |caller: &Caller| caller.permissions.cover(NEEDS) && self.admits(caller);
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
pub(super) async fn by_token(
    comms: &Comms,
    editor: &PendingEditor,
    token: &Secret,
) -> Option<Watch> {
    let Some(auth) = &comms.auth else {
        return Some(open(comms, editor));
    };
    let client = JwtClient {
        actor: editor.actor.clone(),
        agent: String::new(),
        now: (editor.clock)().as_secs(),
    };
    let signed_in = sign_in_with_jwt(auth, &comms.audit, token.reveal(), client).await;
    signed_in.ok()?;
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
    let subscription = subscription(comms, editor);
    let caller = subscription.here(caller);
    let granted = caller.permissions.cover(NEEDS) && subscription.admits(&caller);
    comms.metrics.permission_check(granted);
    granted.then(|| watch(comms, editor, Some(caller), generation))
}

fn subscription(comms: &Comms, editor: &PendingEditor) -> Subscription {
    Subscription {
        auth: comms.auth.clone(),
        here: Arc::clone(&editor.here),
        address: editor.actor.address,
    }
}

fn watch(comms: &Comms, editor: &PendingEditor, caller: Option<Caller>, generation: u64) -> Watch {
    AuthWatch::new(
        caller,
        subscription(comms, editor),
        generation,
        editor.clock,
    )
}
