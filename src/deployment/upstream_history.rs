//! Keeps the history of an upstream: each change that it has accepted, and the changes that others
//! have made there.
//!
//! A change is kept as an intent before it is sent. A failure of the history fails no deployment
//! that was sent: it is logged, and the next one finds the change at the upstream, as that of its
//! user if it led to what the intent says, else as an outside edit. The next one fails if gateways
//! share the history and cannot keep what it finds: it would be lost from what all of them see.

use super::four_eyes::SentCredentials;
use super::{Active, Authorized, Deployments, Error, entry};
use crate::audit::{Actor, Event};
use crate::store::{self, FALLBACK, Intent, OUTSIDE_EDIT, Revision, UpstreamRecord};
use crate::upstream::{self, Upstream};
use bytes::Bytes;
use flows::{FlowSet, Patch, submission_json};
use serde_json::json;
use smol_str::SmolStr;
use std::collections::HashSet;
use std::sync::Arc;

/// The flow set that an upstream has.
pub(super) struct Found {
    pub(super) rev: String,
    /// `None`: it cannot be read.
    pub(super) active: Option<Arc<Active>>,
}

/// The flow set that a change leads to at the upstream.
pub(super) struct ChangedFlows {
    pub(super) flows: Arc<FlowSet>,
    /// How much of it the change changes, and what.
    pub(super) patch: Patch,
    /// The nodes whose credentials were sent.
    pub(super) sent: HashSet<SmolStr>,
    /// The credentials that were sent: inside nodes, which are merged, and beside the flows.
    pub(super) submitted: SentCredentials,
    /// True if the upstream takes it over as it is, without ids of its own.
    pub(super) is_exact: bool,
    /// The id of a flow that was added.
    pub(super) flow: Option<String>,
}

impl Found {
    pub(super) fn readable(active: &Arc<Active>) -> Self {
        Self {
            rev: active.rev.clone(),
            active: Some(Arc::clone(active)),
        }
    }
}

impl ChangedFlows {
    /// The whole as the body of a deployment, for the upstream's revision `rev`.
    pub(super) fn as_body(&self, rev: &str) -> Bytes {
        let SentCredentials { merged, replacing } = &self.submitted;
        submission_json(&self.flows, merged, replacing, Some(rev)).into()
    }
}

impl Deployments {
    /// Records that others have deployed there since the last change of ours, after which it had
    /// `known`. An error: the history that gateways share cannot be read or written.
    pub(super) async fn notice_outside_edit(
        &self,
        known: &mut Option<String>,
        found: &Found,
        actor: &Actor,
        now: u64,
    ) -> Result<(), Error> {
        let Some(upstream) = self.runtime.upstream() else {
            return Ok(());
        };
        let newest = self.newest_kept(upstream).await?;
        let before = known.replace(found.rev.clone()).or_else(|| newest.clone());
        // Another gateway may have deployed it, which keeps the same history.
        let is_kept = newest.as_ref() == Some(&found.rev);
        let intended = match &found.active {
            Some(active) if !is_kept && self.store.keeps_upstreams() => {
                let flows = Arc::clone(&active.flows);
                let intended = self.store.intended(upstream.name(), &found.rev, flows);
                self.needed(upstream, intended.await)?.flatten()
            }
            _ => None,
        };
        if let Some(record) = intended {
            let (rev, user) = (&record.revision.rev, &record.revision.user);
            tracing::info!(
                upstream = upstream.name(),
                rev,
                user,
                "the history has a deployment that it could not keep"
            );
            self.needed(upstream, self.store.keep_upstream(record).await)?;
            return Ok(());
        }
        if !is_kept && before.is_some_and(|before| before != found.rev) {
            let rev = found.rev.as_str();
            tracing::warn!(
                upstream = upstream.name(),
                rev,
                "the upstream's flows were changed by someone else"
            );
            let facts = json!({ "rev": rev, "upstream": upstream.name() });
            self.audit.record(Event::OutsideEdit, actor, now, facts);
        }
        let Some(active) = &found.active else {
            return Ok(());
        };
        if is_kept || !self.store.keeps_upstreams() {
            return Ok(());
        }
        let edit = UpstreamRecord {
            revision: Revision {
                runtime: upstream.name().to_owned(),
                rev: found.rev.clone(),
                ..entry(&Actor::program(), OUTSIDE_EDIT, now)
            },
            flows: Arc::clone(&active.flows),
            sent: HashSet::new(),
        };
        self.needed(upstream, self.store.keep_upstream(edit).await)?;
        Ok(())
    }

    /// The revision that the history has last; `None`: none, or it cannot be read.
    async fn newest_kept(&self, upstream: &Upstream) -> Result<Option<String>, Error> {
        if !self.store.keeps_upstreams() {
            return Ok(None);
        }
        let newest = self.store.newest(upstream.name()).await;
        let newest = self.needed(upstream, newest)?.flatten();
        Ok(newest.map(|newest| newest.rev))
    }

    /// What a deployment cannot do without where gateways share the history; elsewhere a failure is
    /// logged.
    fn needed<T>(
        &self,
        upstream: &Upstream,
        result: Result<T, store::Error>,
    ) -> Result<Option<T>, Error> {
        if self.store.grace().is_some() {
            return result.map(Some).map_err(Error::Store);
        }
        Ok(report(upstream, result))
    }

    /// Keeps a change of the flow set of revision `base` that is about to be sent.
    pub(super) async fn intend(
        &self,
        kind: &str,
        base: &str,
        change: &ChangedFlows,
        by: &Authorized<'_>,
    ) -> Result<(), Error> {
        let upstream = self.runtime.upstream();
        let Some(upstream) = upstream.filter(|_| self.store.keeps_upstreams()) else {
            return Ok(());
        };
        let intent = Intent {
            revision: entry_of(upstream, kind, by),
            base: base.to_owned(),
            patch: change.patch.text.clone(),
            sent: change.sent.clone(),
        };
        self.needed(upstream, self.store.save_intent(intent).await)?;
        Ok(())
    }

    /// Forgets the change that was about to be sent: the upstream has refused it.
    pub(super) async fn forget_intent(&self) {
        if let Some(upstream) = self.runtime.upstream()
            && self.store.keeps_upstreams()
        {
            report(upstream, self.store.remove_intent(upstream.name()).await);
        }
    }

    /// Adds a change that the upstream has accepted, and returns the revision that it has now. Its
    /// response and the change tell revision and flow set of `POST /flows`; else both are read
    /// there.
    pub(super) async fn keep_change(
        &self,
        kind: &str,
        rev: Option<String>,
        changed: Option<ChangedFlows>,
        by: &Authorized<'_>,
    ) -> Option<String> {
        let upstream = self.runtime.upstream();
        let Some(upstream) = upstream.filter(|_| self.store.keeps_upstreams()) else {
            return rev;
        };
        let (rev, flows, sent) = match (rev, changed) {
            (Some(rev), Some(changed)) if changed.is_exact => (rev, changed.flows, changed.sent),
            (rev, changed) => {
                let found = match self.found_there(upstream).await {
                    Ok(found) => found,
                    Err(error) => {
                        unread(upstream, &error);
                        return rev;
                    }
                };
                let sent = changed.map_or_else(HashSet::new, |changed| changed.sent);
                match found.active {
                    Some(active) => (found.rev, Arc::clone(&active.flows), sent),
                    None => return Some(found.rev),
                }
            }
        };
        let record = UpstreamRecord {
            revision: Revision {
                rev: rev.clone(),
                ..entry_of(upstream, kind, by)
            },
            flows,
            sent,
        };
        report(upstream, self.store.keep_upstream(record).await);
        Some(rev)
    }

    /// Adds flows that were well, and that the program has deployed again.
    pub(super) async fn keep_fallback(
        &self,
        upstream: &Upstream,
        rev: &str,
        healthy: &Active,
        now: u64,
    ) {
        if !self.store.keeps_upstreams() {
            return;
        }
        let record = UpstreamRecord {
            revision: Revision {
                runtime: upstream.name().to_owned(),
                rev: rev.to_owned(),
                ..entry(&Actor::program(), FALLBACK, now)
            },
            flows: Arc::clone(&healthy.flows),
            sent: HashSet::new(),
        };
        report(upstream, self.store.keep_upstream(record).await);
    }
}

/// The entry of a change of an upstream's flow set, without its revision.
fn entry_of(upstream: &Upstream, kind: &str, by: &Authorized<'_>) -> Revision {
    let mut entry = Revision {
        runtime: upstream.name().to_owned(),
        message: by.message.to_owned(),
        ..entry(by.actor, kind, by.now)
    };
    if let Some(approval) = by.approval {
        approval.sign(&mut entry);
    }
    entry
}

/// Logs that the upstream's flows cannot be read for the history.
pub(super) fn unread(upstream: &Upstream, error: &upstream::Error) {
    let upstream = upstream.name();
    tracing::warn!(%error, upstream, "the history has no entry: the upstream's flows cannot be read");
}

/// Logs an error of the store.
fn report<T>(upstream: &Upstream, result: Result<T, store::Error>) -> Option<T> {
    let upstream = upstream.name();
    result
        .inspect_err(|error| tracing::error!(%error, upstream, "the upstream's history failed"))
        .ok()
}
