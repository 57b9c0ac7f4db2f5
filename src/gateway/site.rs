//! A site: a runtime with its deployments and the routes of its flows' endpoints.
//!
//! Knows how a runtime is opened; nothing of requests.

use super::{Error, Runtime};
use crate::audit::Audit;
use crate::config::{self, Config};
use crate::deployment::Deployments;
use crate::metrics::Metrics;
use crate::store::Store;
use crate::upstream::Upstream;
use arc_swap::ArcSwap;
use std::sync::Arc;

/// A runtime with what belongs to it.
pub struct Site {
    /// What runs flows.
    pub runtime: Runtime,
    /// The active flow set, and the way to replace it.
    pub deployments: Deployments,
    /// What endpoints made by flows need; a reload replaces it.
    pub routes: ArcSwap<Vec<config::Route>>,
}

/// The sites of a gateway: at least one.
pub struct Sites {
    first: Arc<Site>,
}

impl Sites {
    pub(super) async fn open(
        (config, runtime): (&mut Config, Runtime),
        store: &Store,
        recorders: (Audit, Arc<Metrics>),
        now: u64,
    ) -> Result<Self, Error> {
        let deployments = Deployments::open(runtime.clone(), store.clone(), recorders, now).await?;
        let first = Arc::new(Site {
            runtime,
            deployments,
            routes: ArcSwap::from_pointee(std::mem::take(&mut config.routes)),
        });
        Ok(Self { first })
    }

    /// The first one; often there is no other.
    pub fn first(&self) -> &Arc<Site> {
        &self.first
    }
}

/// What runs the flows: nothing runs yet.
pub(super) fn runtime(config: &Config, metrics: &Arc<Metrics>) -> Result<Runtime, Error> {
    match &config.upstream {
        Some(behind) => Ok(Runtime::Upstream(Upstream::open(behind.clone(), metrics)?)),
        None => start(config, metrics),
    }
}

#[cfg(feature = "engine")]
fn start(config: &Config, metrics: &Arc<Metrics>) -> Result<Runtime, Error> {
    crate::engine::Engine::start(config.engine.clone(), Arc::clone(metrics))
        .map(Runtime::Own)
        .map_err(Error::Engine)
}

#[cfg(not(feature = "engine"))]
fn start(_: &Config, _: &Arc<Metrics>) -> Result<Runtime, Error> {
    Err(Error::NoRuntime)
}
