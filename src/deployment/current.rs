//! The active flow set, of the engine or of the upstream, and what each caller sees of it.

use super::{Active, Deployments, Error};
use crate::auth::{AuthWatch, Permissions};
use crate::policy::Sight;
use crate::upstream;
use bytes::Bytes;
use flows::{Credentials, Submission};
use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

/// Sights of one flow set that are kept. Our choice: users mostly have few sets of permissions.
const KEPT: usize = 64;

/// What callers see of one flow set, by their permissions.
#[derive(Debug, Default)]
pub(super) struct Sights(Mutex<HashMap<Permissions, Arc<Sight>>>);

impl Active {
    /// What a caller with these permissions sees of it.
    pub fn sight(&self, permissions: &Permissions) -> Arc<Sight> {
        let kept = || self.sights.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sight) = kept().get(permissions) {
            return Arc::clone(sight);
        }
        // Computed without the lock.
        let sight = Arc::new(Sight::of(permissions, &self.flows));
        let mut kept = kept();
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(permissions.clone(), Arc::clone(&sight));
        sight
    }
}

impl Deployments {
    /// The active flow set; an upstream is asked for it. Credentials of an upstream are not known here.
    pub async fn current(&self, watch: &mut AuthWatch) -> Result<Arc<Active>, Error> {
        let Some(upstream) = self.runtime.upstream() else {
            return Ok(self.active());
        };
        let (rev, flows) = watch.during(pin!(upstream.revision())).await??;
        self.seen_there(rev, &flows)
    }

    /// The same after this revision was announced: if it is the one that was seen last, an upstream is not asked again.
    pub async fn announced(
        &self,
        rev: Option<&str>,
        watch: &mut AuthWatch,
    ) -> Result<Arc<Active>, Error> {
        let seen = self.seen_there.load_full();
        match seen.filter(|seen| rev == Some(&seen.rev)) {
            Some(seen) => Ok(seen),
            None => self.current(watch).await,
        }
    }

    /// Keeps the flow set that an upstream has now. One of the same revision is the same.
    pub(super) fn seen_there(&self, rev: String, flows: &Bytes) -> Result<Arc<Active>, Error> {
        let seen = self.seen_there.load_full();
        if let Some(seen) = seen.filter(|seen| seen.rev == rev) {
            return Ok(seen);
        }
        let submission = Submission::v2(&flows::FlowSet::default(), flows)
            .map_err(|_| upstream::Error::Unexpected("its flows cannot be read"))?;
        let active = Active::new(submission.flows, Credentials::default(), Some(rev));
        let active = Arc::new(active);
        self.seen_there.store(Some(Arc::clone(&active)));
        Ok(active)
    }
}
