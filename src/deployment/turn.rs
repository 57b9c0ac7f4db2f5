//! The turn of a deployment: one at a time, of this gateway and of those that share its store.

use super::{Deployments, Error};
use crate::auth::AuthWatch;
use crate::store;
use std::ops::{Deref, DerefMut};
use tokio::sync::MutexGuard;

/// The turn of a deployment. In it: the revision that the upstream had after the last change of
/// this gateway.
pub(super) struct Turn<'a> {
    known: MutexGuard<'a, Option<String>>,
    shared: Option<store::Turn>,
}

impl Deployments {
    /// Waits for the turn of a deployment; fails at once when the authorization lapses.
    pub(super) async fn turn_of(&self, watch: &mut AuthWatch) -> Result<Turn<'_>, Error> {
        let turn = tokio::select! {
            biased;
            lapsed = watch.lapsed() => return Err(lapsed.into()),
            turn = self.turn() => turn?,
        };
        watch.check()?;
        Ok(turn)
    }

    /// Waits for the turn of a deployment.
    pub(super) async fn turn(&self) -> Result<Turn<'_>, Error> {
        let known = self.deploy_lock.lock().await;
        let shared = self.store.turn(self.runtime_name()).await;
        Ok(Turn {
            known,
            shared: shared.map_err(Error::Store)?,
        })
    }
}

impl Turn<'_> {
    /// Fails if another gateway may deploy by now.
    pub(super) async fn check(&self) -> Result<(), Error> {
        match &self.shared {
            None => Ok(()),
            Some(shared) => shared.check().await.map_err(Error::Store),
        }
    }
}

impl Deref for Turn<'_> {
    type Target = Option<String>;

    fn deref(&self) -> &Option<String> {
        &self.known
    }
}

impl DerefMut for Turn<'_> {
    fn deref_mut(&mut self) -> &mut Option<String> {
        &mut self.known
    }
}
