//! The start: makes the stored flow set live, or the one before it after too many failed starts.
//!
//! A start overwrites no broken file.

use super::{Active, Deployments, Error, Runtime, plan_of};
use crate::audit::{Actor, Audit, Event};
use crate::config;
use crate::metrics::Metrics;
use crate::store::{self, FALLBACK, Loaded, OUTSIDE_EDIT, Reading, Store};
use arc_swap::{ArcSwap, ArcSwapOption};
use flows::{Credentials, DeploymentType, FlowSet};
use parking_lot::Mutex as Lock;
use serde_json::json;
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::{Mutex, watch};

/// The result of reading the flow files.
enum Found {
    Flows(Active),
    /// They have ended the process too often for another try: the revision that they are, and how
    /// often.
    CrashLoop(String, u32),
}

/// The flow set to start, and the mode.
struct Start {
    active: Active,
    /// The revision that did not start, if these are the flows before it.
    set_aside: Option<String>,
    /// Loaded only.
    safe: bool,
}

/// The parts of the gateway that a start uses, and its time in seconds since 1970.
#[derive(Clone)]
pub struct StartContext {
    /// The stored flow sets.
    pub store: Store,
    /// The audit log.
    pub audit: Audit,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The time.
    pub now: u64,
}

impl StartContext {
    /// That of these parts.
    pub fn new(store: Store, audit: Audit, metrics: Arc<Metrics>, now: u64) -> Self {
        Self {
            store,
            audit,
            metrics,
            now,
        }
    }
}

impl Deployments {
    /// Loads the stored flow set and makes it live. Broken flow files stop nothing but the flows:
    /// they stay as they are, and nothing runs until they are repaired (and reloaded) or replaced.
    pub async fn open(
        runtime: Runtime,
        config: &config::Engine,
        context: StartContext,
    ) -> Result<Self, Error> {
        if runtime.upstream().is_some() {
            return Ok(Self::in_front_of(runtime, context));
        }
        let store = &context.store;
        if let Some(rev) = store.finished().await.map_err(Error::Store)? {
            let facts = json!({ "rev": rev });
            let program = Actor::program();
            context
                .audit
                .record(Event::Finished, &program, context.now, facts);
        }
        let running = store.running().await.map_err(Error::Store)?;
        let Start {
            active,
            set_aside,
            safe,
        } = match stored(config, &context).await? {
            Found::CrashLoop(rev, failed) => Start::before(rev, failed, &context).await?,
            Found::Flows(active) if config.safe => {
                tracing::warn!(
                    "safe: the flows are loaded and not started; the next deployment starts them"
                );
                Start::of(active, store, true).await?
            }
            Found::Flows(active) if running => {
                Start::counted(active, config.start_attempts, &context).await?
            }
            Found::Flows(active) => {
                tracing::warn!("flows are stopped, as an administrator left them");
                Start::of(active, store, false).await?
            }
        };
        if safe {
            runtime.load_only().await?;
        } else if !running {
            runtime.set_running(false).await?;
        }
        context.metrics.fallen_back(set_aside.is_some());
        let active = Arc::new(active);
        make_live(&runtime, &active, config.shard.as_ref()).await?;
        Ok(Self {
            deploy_lock: Mutex::new(None),
            active: watch::Sender::new(active),
            seen_there: ArcSwapOption::default(),
            set_aside: Lock::new(set_aside),
            changes: watch::Sender::new(None),
            runtime,
            shard: config.shard.clone(),
            policy: ArcSwap::default(),
            freeze: ArcSwapOption::default(),
            store: context.store,
            audit: context.audit,
            metrics: context.metrics,
        })
    }
}

impl Start {
    async fn of(active: Active, store: &Store, safe: bool) -> Result<Self, Error> {
        Ok(Self {
            active,
            set_aside: store.fallen_back().await.map_err(Error::Store)?,
            safe,
        })
    }

    /// Counts the start. After `attempts` failed ones it starts the flow set before; if there is
    /// none, or if that was done already, nothing: a user can still sign in and repair the flows.
    async fn counted(active: Active, attempts: u32, context: &StartContext) -> Result<Self, Error> {
        let store = &context.store;
        let failed = store.begin_start(&active.rev).await.map_err(Error::Store)?;
        if attempts == 0 || failed < attempts {
            return Self::of(active, store, false).await;
        }
        match fallen_back(&active.rev, failed, context).await? {
            Some(start) => Ok(start),
            None => Self::of(active, store, true).await,
        }
    }

    /// The flow set before one that ends the process when it is read; without one, none.
    async fn before(bad: String, failed: u32, context: &StartContext) -> Result<Self, Error> {
        match fallen_back(&bad, failed, context).await? {
            Some(start) => Ok(start),
            None => Self::of(nothing(), &context.store, true).await,
        }
    }
}

/// Sets the active flow set, of this revision, aside for the one before it; `None`: there is none.
async fn fallen_back(
    bad: &str,
    failed: u32,
    StartContext {
        store,
        audit,
        metrics,
        now,
    }: &StartContext,
) -> Result<Option<Start>, Error> {
    let Some(earlier) = store.earlier().await.map_err(Error::Store)? else {
        tracing::error!(
            rev = bad,
            "these flows did not start {failed} times in a row, and there are no others to fall back to: they are \
             not started. Deploy others, or start them with POST /flows/state"
        );
        let facts = json!({ "rev": bad });
        audit.record(Event::Safe, &Actor::program(), *now, facts);
        return Ok(None);
    };
    store.set_aside(bad).await.map_err(Error::Store)?;
    let active = Active::new(earlier.flows, earlier.credentials, None);
    let record = active.record(&Actor::program(), FALLBACK, None, *now);
    store.commit(record).await.map_err(Error::Store)?;
    tracing::error!(
        set_aside = bad,
        rev = active.rev,
        "FALLEN BACK: the flows deployed last did not start {failed} times in a row. They are set aside as \
         flows.set-aside-{bad}.json, and those before them are started"
    );
    let facts = json!({ "set_aside": bad, "rev": active.rev, "starts": failed });
    audit.record(Event::Fallback, &Actor::program(), *now, facts);
    metrics.fallback();
    store.begin_start(&active.rev).await.map_err(Error::Store)?;
    Start::of(active, store, false).await.map(Some)
}

async fn make_live(
    runtime: &Runtime,
    active: &Active,
    shard: Option<&config::Shard>,
) -> Result<(), Error> {
    let part = active.part(shard);
    let start = plan_of(
        [&FlowSet::default(), part],
        &HashSet::new(),
        DeploymentType::Full,
        HashSet::new(),
    );
    let (flows, credentials) = (Arc::clone(part), Arc::clone(&active.credentials));
    runtime.apply(start, flows, credentials).await?;
    // Editors hear of deployments from the main engine.
    if shard.is_none_or(|shard| shard.name.is_empty()) {
        runtime.announce(&active.rev);
    }
    Ok(())
}

/// Reads the flow files; an edit becomes a revision of its own.
async fn stored(
    config: &config::Engine,
    StartContext {
        store, audit, now, ..
    }: &StartContext,
) -> Result<Found, Error> {
    let Reading { failed, rev } = store.begin_reading().await.map_err(Error::Store)?;
    // With `--safe` an operator is watching.
    if config.start_attempts > 0 && failed >= config.start_attempts && !config.safe {
        if let Some(rev) = rev {
            return Ok(Found::CrashLoop(rev, failed));
        }
        tracing::error!(
            "flows.json was edited outside, and the process ended {failed} times while it was read: {RECOVERY_HINT}"
        );
        return Ok(Found::Flows(nothing()));
    }
    let loaded = store.load().await;
    store.end_reading().await.map_err(Error::Store)?;
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(error @ store::Error::Invalid { .. }) => {
            tracing::error!("{error}: {RECOVERY_HINT}");
            return Ok(Found::Flows(nothing()));
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
        let record = active.record(&Actor::program(), OUTSIDE_EDIT, None, *now);
        store.commit(record).await.map_err(Error::Store)?;
        let facts = json!({ "rev": active.rev });
        audit.record(Event::OutsideEdit, &Actor::program(), *now, facts);
    }
    Ok(Found::Flows(active))
}

/// The way out of flow files that cannot be used.
const RECOVERY_HINT: &str = "nothing runs. Repair the file or put back .flows.json.backup, and deploy with type reload; or deploy \
                    other flows";

/// No flows: the files stay as they are.
fn nothing() -> Active {
    Active::new(FlowSet::default(), Credentials::default(), None)
}
