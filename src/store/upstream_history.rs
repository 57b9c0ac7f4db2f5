//! The history of upstreams: flow sets that flowgate has sent or found there, never with
//! credentials.

use super::commit::{LONGEST_DIFFERENCE, WHOLE_EVERY};
use super::database::Content;
use super::disk::Disk;
use super::kept_there::KeptThere;
use super::{Error, Revision, Store, load};
use flows::{FlowSet, Patch, patched, touched};
use smol_str::SmolStr;
use std::collections::HashSet;
use std::sync::Arc;

/// A flow set that an upstream has, to be kept.
#[derive(Debug, Clone)]
pub struct UpstreamRecord {
    /// Its entry, with the name of the upstream. The store counts what differs.
    pub revision: Revision,
    /// The flow set.
    pub flows: Arc<FlowSet>,
    /// The nodes whose credentials were sent.
    pub sent: HashSet<SmolStr>,
}

/// A change that is about to be sent to an upstream. The history may fail when the upstream has
/// made it.
#[derive(Debug, Clone)]
pub struct Intent {
    /// Its entry, whose revision the upstream will tell.
    pub revision: Revision,
    /// The revision that it changes.
    pub base: String,
    /// The difference of the flow set that it leads to.
    pub patch: String,
    /// The nodes whose credentials are sent.
    pub sent: HashSet<SmolStr>,
}

impl Store {
    /// Returns whether upstreams have a history.
    pub fn keeps_upstreams(&self) -> bool {
        self.upstream_history
    }

    /// The newest entry of a runtime's history.
    pub async fn newest(&self, runtime: &str) -> Result<Option<Revision>, Error> {
        let runtime = runtime.to_owned();
        self.owner
            .ask(move |disk| disk.database.newest(&runtime))
            .await
    }

    /// Keeps a change that is about to be sent to an upstream, until the history has an entry of
    /// that or a later one.
    pub async fn save_intent(&self, intent: Intent) -> Result<(), Error> {
        self.owner
            .ask(move |disk| disk.database.save_intent(&intent))
            .await
    }

    /// Forgets the change that was about to be sent to an upstream: it was refused.
    pub async fn remove_intent(&self, runtime: &str) -> Result<(), Error> {
        let runtime = runtime.to_owned();
        self.owner
            .ask(move |disk| disk.database.remove_intent(&runtime))
            .await
    }

    /// The entry of the change that was about to be sent to an upstream, if it led from the newest
    /// entry to this flow set.
    pub async fn intended(
        &self,
        runtime: &str,
        rev: &str,
        flows: Arc<FlowSet>,
    ) -> Result<Option<UpstreamRecord>, Error> {
        let (runtime, rev) = (runtime.to_owned(), rev.to_owned());
        self.owner
            .ask(move |disk| disk.intended(&runtime, rev, flows))
            .await
    }

    /// Adds the flow set that an upstream has now to its history.
    pub async fn keep_upstream(&self, record: UpstreamRecord) -> Result<(), Error> {
        self.owner.ask(|disk| disk.keep_upstream(record)).await
    }

    /// The nodes to which credentials were sent, as far as a runtime's history tells.
    pub async fn with_credentials(&self, runtime: &str) -> Result<HashSet<String>, Error> {
        let runtime = runtime.to_owned();
        self.owner
            .ask(move |disk| disk.database.with_credentials(&runtime))
            .await
    }

    /// The nodes that an entry has added to which credentials were sent once, as far as a runtime's
    /// history tells.
    pub async fn lacking_credentials(
        &self,
        runtime: &str,
        rev: &str,
    ) -> Result<Vec<String>, Error> {
        let (runtime, rev) = (runtime.to_owned(), rev.to_owned());
        self.owner
            .ask(move |disk| disk.database.lacking_credentials(&runtime, &rev))
            .await
    }
}

impl Disk {
    pub(super) fn keep_upstream(&mut self, record: UpstreamRecord) -> Result<(), Error> {
        let UpstreamRecord {
            mut revision,
            flows,
            sent,
        } = record;
        let newest = self.database.newest(&revision.runtime)?;
        let old = match &newest {
            None => Arc::default(),
            Some(newest) => self.flows_there(newest)?,
        };
        let Patch { text, counts } = Patch::between(&old, &flows);
        revision.counts = Some(counts);
        let whole = flows.to_json();
        let base = match newest {
            Some(newest) if text.len() <= whole.len() / LONGEST_DIFFERENCE => Some(newest.number),
            _ => None,
        };
        let differences = base.map_or(Ok(0), |base| self.database.differences(base))?;
        let base = base.filter(|_| differences + 1 < WHOLE_EVERY);
        let content = Content {
            base,
            text: if base.is_some() { &text } else { &whole },
            credentials: None,
            touched: &touched(&old, &flows, &sent),
        };
        let number = self
            .database
            .add(&revision, &content, None, &self.retention)?;
        self.kept_there.insert(
            revision.runtime,
            KeptThere {
                number,
                rev: revision.rev,
                flows,
            },
        );
        Ok(())
    }

    fn intended(
        &self,
        runtime: &str,
        rev: String,
        flows: Arc<FlowSet>,
    ) -> Result<Option<UpstreamRecord>, Error> {
        let (Some(intent), Some(newest)) = (
            self.database.intent(runtime)?,
            self.database.newest(runtime)?,
        ) else {
            return Ok(None);
        };
        if intent.base != newest.rev {
            return Ok(None);
        }
        let base = self.flows_there(&newest)?.to_json();
        // One of another base leads to no flow set, or to another one.
        let led_to = patched(&base, &[intent.patch]).ok();
        let led_to = led_to.and_then(|text| load::parse(text.as_bytes()).ok());
        Ok(led_to
            .filter(|led_to| led_to.same_content(&flows))
            .map(|_| UpstreamRecord {
                revision: Revision {
                    rev,
                    ..intent.revision
                },
                flows,
                sent: intent.sent,
            }))
    }

    /// The flow set of an entry: read only if another process has added it.
    fn flows_there(&self, entry: &Revision) -> Result<Arc<FlowSet>, Error> {
        let kept = self.kept_there.get(&entry.runtime);
        if let Some(kept) =
            kept.filter(|kept| (kept.number, &kept.rev) == (entry.number, &entry.rev))
        {
            return Ok(Arc::clone(&kept.flows));
        }
        let files = self.database.files(entry.number)?;
        let flows = load::parse(files.flows.as_deref().unwrap_or(b"[]"))?;
        Ok(Arc::new(flows))
    }
}
