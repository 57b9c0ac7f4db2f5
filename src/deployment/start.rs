//! The start: the stored flow set becomes the active one. Nothing that is broken is overwritten by it.

use super::{Active, Deployments, Error, Runtime, plan_of};
use crate::audit::Audit;
use crate::flows::{Credentials, DeploymentType, FlowSet};
use crate::metrics::Metrics;
use crate::store::{self, Loaded, Store};
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::{Mutex, watch};

impl Deployments {
    /// Loads the stored flow set and makes it live. Broken flow files stop nothing but the flows: they stay as they
    /// are, and nothing runs until they are repaired (and reloaded) or replaced.
    pub async fn open(
        runtime: Runtime,
        store: Store,
        (audit, metrics): (Audit, Arc<Metrics>),
        now: u64,
    ) -> Result<Self, Error> {
        if runtime.upstream().is_some() {
            return Ok(Self::in_front_of(runtime, store, (audit, metrics)));
        }
        let running = store.running().await.map_err(Error::Store)?;
        let active = Arc::new(stored(&store, now).await?);
        if !running {
            tracing::warn!("flows are stopped, as an administrator left them");
            runtime.set_running(false).await?;
        }
        let nothing = FlowSet::default();
        let start = plan_of(
            &nothing,
            &active.flows,
            &HashSet::new(),
            DeploymentType::Full,
        );
        runtime
            .apply(
                start,
                Arc::clone(&active.flows),
                Arc::clone(&active.credentials),
            )
            .await?;
        runtime.announce(&active.rev);
        Ok(Self {
            turn: Mutex::new(None),
            active: watch::Sender::new(active),
            runtime,
            store,
            audit,
            metrics,
        })
    }
}

/// What the flow files hold; an edit becomes a revision of its own.
async fn stored(store: &Store, now: u64) -> Result<Active, Error> {
    let loaded = match store.load().await {
        Ok(loaded) => loaded,
        Err(error @ store::Error::Invalid { .. }) => {
            tracing::error!(
                "{error}: nothing runs. Repair the file or put back .flows.json.backup, and deploy with type reload; \
                 or deploy other flows"
            );
            return Ok(Active::new(
                FlowSet::default(),
                Credentials::default(),
                None,
            ));
        }
        Err(error) => return Err(Error::Store(error)),
    };
    let Loaded {
        flows,
        credentials,
        locked,
        rev,
    } = loaded;
    let edited = rev.is_none() && !locked && !flows.nodes().is_empty();
    let active = Active::new(flows, credentials, rev);
    if edited {
        let record = active.record("", "outside-edit", now);
        store.commit(record).await.map_err(Error::Store)?;
    }
    Ok(active)
}
