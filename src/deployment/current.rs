//! The active flow set, of the engine or of the upstream, and what each caller sees of it.

use super::upstream_history::Found;
use super::{Active, Deployments, Error};
use crate::auth::{AuthWatch, Permissions};
use crate::policy::Sight;
use crate::upstream::{self, Shown, Upstream};
use flows::{FlowSet, Submission};
use hyper::header::HeaderValue;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, OnceLock};

/// Sights of one flow set that are kept. Our choice: users mostly have few sets of permissions.
const KEPT: usize = 64;

/// The flow set that an upstream had when it was last asked.
#[derive(Debug)]
pub(super) struct Seen {
    active: Arc<Active>,
    /// Its entity tag in `GET /flows`.
    tag: Option<HeaderValue>,
}

/// What callers see of one flow set, by their permissions.
#[derive(Debug, Default)]
pub(super) struct Sights(Mutex<HashMap<Permissions, Arc<Sight>>>);

impl Active {
    /// What a caller with these permissions sees of it.
    pub fn sight(&self, permissions: &Permissions) -> Arc<Sight> {
        let kept = || self.sights.0.lock();
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
    /// The active flow set; an upstream is asked for it. Credentials of an upstream are not known
    /// here.
    pub async fn current(&self, watch: &mut AuthWatch) -> Result<Arc<Active>, Error> {
        let Some(upstream) = self.runtime.upstream() else {
            return Ok(self.active());
        };
        let found = watch.during(pin!(self.found_there(upstream))).await??;
        let unread = upstream::Error::Unexpected("its flows cannot be read");
        Ok(found.active.ok_or(unread)?)
    }

    /// The same after this revision was announced: if it is the one that was seen last, an upstream
    /// is not asked again.
    pub async fn announced(
        &self,
        rev: Option<&str>,
        watch: &mut AuthWatch,
    ) -> Result<Arc<Active>, Error> {
        let seen = self.seen_there.load_full();
        match seen.filter(|seen| rev == Some(&seen.active.rev)) {
            Some(seen) => Ok(Arc::clone(&seen.active)),
            None => self.current(watch).await,
        }
    }

    /// The flow set that is active as far as is known without asking; an empty one, if nothing is
    /// known. What differs little from it is read quickly.
    pub fn known(&self) -> Arc<FlowSet> {
        let seen = self.seen_there.load();
        let seen = seen.as_ref().map(|seen| Arc::clone(&seen.active.flows));
        seen.unwrap_or_else(|| Arc::clone(&self.active.borrow().flows))
    }

    /// Asks an upstream for the flow set that it has now, which is read once a revision.
    pub(super) async fn found_there(&self, upstream: &Upstream) -> Result<Found, upstream::Error> {
        let seen = self.seen_there.load_full();
        let known = seen.as_ref().and_then(|seen| seen.tag.as_ref());
        let shown = match (upstream.flows(known).await?, seen) {
            (Some(shown), Some(seen)) if shown.rev == seen.active.rev => {
                self.keep_seen(Arc::clone(&seen.active), shown.tag);
                return Ok(Found::readable(&seen.active));
            }
            (Some(shown), _) => shown,
            (None, Some(seen)) => return Ok(Found::readable(&seen.active)),
            // What was not asked for is not answered.
            (None, None) => return Err(upstream::Error::Unexpected("it does not show its flows")),
        };
        let Shown { rev, body, tag } = shown;
        let Ok(submission) = Submission::v2(&self.known(), &body) else {
            return Ok(Found { rev, active: None });
        };
        let flows = Arc::new(submission.flows);
        let active = Arc::new(Active::there(flows, rev));
        self.keep_seen(Arc::clone(&active), tag);
        Ok(Found::readable(&active))
    }

    /// Keeps the flow set that an upstream has after a change of ours, under the tag of flowgate's
    /// own engine; others will have given it another tag, and show it.
    pub(super) fn sent_there(&self, flows: &Arc<FlowSet>, rev: &str) {
        let active = Active::there(Arc::clone(flows), rev.to_owned());
        self.keep_seen(Arc::new(active), entity_tag(rev).try_into().ok());
    }

    fn keep_seen(&self, active: Arc<Active>, tag: Option<HeaderValue>) {
        self.seen_there.store(Some(Arc::new(Seen { active, tag })));
    }
}

impl Active {
    /// The flow set of an upstream, whose credentials are not known here.
    fn there(flows: Arc<FlowSet>, rev: String) -> Self {
        Self {
            flows,
            credentials: Arc::default(),
            rev,
            sights: Sights::default(),
            part: OnceLock::new(),
        }
    }
}

/// The entity tag of `GET /flows` in version v2: a revision is one flow set.
pub fn entity_tag(rev: &str) -> String {
    format!("\"{rev}\"")
}
