//! Re-checks an authorization for as long as it is used, and right before an action.
//!
//! *Identify* and *authorize* decide for a moment. Everything that lasts longer (a request body, a
//! wait for the deployment lock, a response, a tunnel, an editor's channel) holds an [`AuthWatch`]
//! and ends when the session is revoked or expires, or when a reload removes the user, the password
//! or the permission. A check of an unchanged state is two atomic loads; a task registers a waker
//! only when it is pending anyway. Knows no HTTP: what was authorized, a [`Grant`] knows.

use super::registry::Registry;
use super::{AuthMethod, Caller, Permissions};
use smol_str::SmolStr;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// An authorization that can be decided again.
pub trait Grant: Send + Sync {
    /// Users and sessions; `None`: the API is open, and the authorization does not lapse.
    fn registry(&self) -> Option<&Registry>;

    /// The caller with the permissions at this place, if they still suffice. A caller of `None`: a
    /// public request.
    fn narrowed(&self, caller: Option<Caller>) -> Result<Option<Caller>, Lapsed>;
}

/// Why an authorization has lapsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Lapsed {
    /// The session or certificate is revoked or expired.
    #[error("the session has ended")]
    Session,
    /// The permission is missing now.
    #[error("the permission was withdrawn")]
    Permission,
}

impl Lapsed {
    /// As the audit log spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Session => "session_ended",
            Self::Permission => "permission_withdrawn",
        }
    }
}

/// Watches one authorization.
pub struct AuthWatch<G: Grant = Box<dyn Grant>> {
    caller: Option<Caller>,
    grant: G,
    /// The time since 1970.
    clock: fn() -> Duration,
    /// The generation of the registry in which it was decided.
    generation: u64,
    /// The slot in which its waker is registered.
    slot: Option<usize>,
}

impl<G: Grant> AuthWatch<G> {
    /// Of an authorized caller. `generation` is [`Registry::generation`], read before the caller
    /// was authorized.
    pub fn new(caller: Option<Caller>, grant: G, generation: u64, clock: fn() -> Duration) -> Self {
        Self {
            caller,
            grant,
            clock,
            generation,
            slot: None,
        }
    }

    /// The caller, with the permissions of the last check.
    pub fn caller(&self) -> Option<&Caller> {
        self.caller.as_ref()
    }

    /// Decides again, by the clock: for use right before an action.
    pub fn check(&mut self) -> Result<(), Lapsed> {
        let Some(registry) = self.grant.registry() else {
            return Ok(());
        };
        // Before users and rules are read: a concurrent change is found by the next check.
        let generation = registry.generation();
        if let Some(caller) = &self.caller
            && registry.has_ended(caller, (self.clock)().as_secs())
        {
            return Err(Lapsed::Session);
        }
        if generation == self.generation {
            return Ok(());
        }
        let again = match &self.caller {
            None => None,
            Some(caller) => Some(registry.again(caller).ok_or(match caller.session() {
                Some(_) => Lapsed::Session,
                None => Lapsed::Permission,
            })?),
        };
        self.caller = self.grant.narrowed(again)?;
        self.generation = generation;
        Ok(())
    }

    /// The same without reading a clock, so that expiry is noticed up to a second late: for use
    /// before each piece of a stream.
    pub fn glance(&mut self) -> Result<(), Lapsed> {
        let Some(registry) = self.grant.registry() else {
            return Ok(());
        };
        let ended = |caller: &Caller| registry.is_known_to_have_ended(caller);
        if registry.generation() == self.generation && !self.caller.as_ref().is_some_and(ended) {
            return Ok(());
        }
        self.check()
    }

    /// Ready once the authorization has lapsed; otherwise registers the task to be woken when that
    /// may have changed.
    pub fn poll_lapsed(&mut self, cx: &mut Context<'_>) -> Poll<Lapsed> {
        if let Err(lapsed) = self.glance() {
            return Poll::Ready(lapsed);
        }
        let Some(registry) = self.grant.registry() else {
            return Poll::Pending;
        };
        let wakers = registry.wakers(self.caller.as_ref());
        wakers.register(&mut self.slot, cx.waker());
        // Again: it may have lapsed before the waker was registered.
        match self.glance() {
            Err(lapsed) => Poll::Ready(lapsed),
            Ok(()) => Poll::Pending,
        }
    }

    /// The same, but registers only authenticated callers: anonymous and public requests share one
    /// list of wakers, and notice a reload at their next [`glance`](Self::glance).
    pub fn poll_lapsed_if_known(&mut self, cx: &mut Context<'_>) -> Poll<Lapsed> {
        if self.caller.as_ref().is_some_and(Caller::is_known) {
            self.poll_lapsed(cx)
        } else {
            Poll::Pending
        }
    }

    /// Waits until the authorization has lapsed.
    pub async fn lapsed(&mut self) -> Lapsed {
        poll_fn(|cx| self.poll_lapsed(cx)).await
    }

    /// Polls a future until it is done, or until the authorization lapses. The caller pins it: an
    /// `async fn` would hold a future that it takes by value twice, and a request's is large.
    pub async fn during<T>(
        &mut self,
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, Lapsed> {
        poll_fn(|cx| {
            if let Err(lapsed) = self.glance() {
                return Poll::Ready(Err(lapsed));
            }
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Ok(done));
            }
            self.poll_lapsed_if_known(cx).map(Err)
        })
        .await
    }
}

impl<G: Grant + Clone + 'static> AuthWatch<G> {
    /// Another watch of the same authorization, for another task.
    pub fn detached(&self) -> AuthWatch {
        let grant = Box::new(self.grant.clone());
        AuthWatch::new(self.caller.clone(), grant, self.generation, self.clock)
    }
}

impl AuthWatch {
    /// An authorization that does not lapse: the operator's, or any where the API is open.
    pub fn unlimited() -> Self {
        let everybody = Caller {
            user: SmolStr::default(),
            permissions: Permissions::all(),
            known: AuthMethod::Anonymous,
        };
        Self::new(Some(everybody), Box::new(Unlimited), 0, Duration::default)
    }
}

struct Unlimited;

impl Grant for Unlimited {
    fn registry(&self) -> Option<&Registry> {
        None
    }

    fn narrowed(&self, caller: Option<Caller>) -> Result<Option<Caller>, Lapsed> {
        Ok(caller)
    }
}

impl<G: Grant + ?Sized> Grant for Box<G> {
    fn registry(&self) -> Option<&Registry> {
        (**self).registry()
    }

    fn narrowed(&self, caller: Option<Caller>) -> Result<Option<Caller>, Lapsed> {
        (**self).narrowed(caller)
    }
}

impl<G: Grant> Drop for AuthWatch<G> {
    fn drop(&mut self) {
        if let (Some(slot), Some(registry)) = (self.slot, self.grant.registry()) {
            registry.wakers(self.caller.as_ref()).remove(slot);
        }
    }
}

impl<G: Grant> fmt::Debug for AuthWatch<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthWatch")
            .field("caller", &self.caller)
            .finish_non_exhaustive()
    }
}
