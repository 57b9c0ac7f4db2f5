//! The runtime of flows: the engine, or the upstream, which keeps its own flows.

use super::Error;
use crate::policy::Types;
use crate::upstream::Upstream;
#[cfg(feature = "engine")]
use engine::stopped_flows::StoppedFlow;
#[cfg(feature = "engine")]
use engine::{Engine, RunState};
use events::{Limits, Listener};
use flows::{Credentials, FlowSet, Plan};
use serde_json::Value as Json;
use std::sync::Arc;

/// The runtime of flows.
#[derive(Clone, Debug)]
pub enum Runtime {
    /// The engine inside this program.
    #[cfg(feature = "engine")]
    Own(Engine),
    /// The runtime behind us.
    Upstream(Upstream),
}

#[cfg_attr(
    not(feature = "engine"),
    allow(
        unused_variables,
        clippy::unused_async,
        reason = "there is no runtime then"
    )
)]
impl Runtime {
    /// The runtime behind us, if that is what runs flows.
    pub fn upstream(&self) -> Option<&Upstream> {
        match self {
            #[cfg(feature = "engine")]
            Self::Own(_) => None,
            Self::Upstream(upstream) => Some(upstream),
        }
    }

    /// Subscribes to the engine's events; an upstream sends its own to each editor.
    pub fn listen(&self, limits: Limits) -> Option<Listener> {
        match self {
            #[cfg(feature = "engine")]
            Self::Own(engine) => Some(engine.events().listen(limits)),
            Self::Upstream(_) => None,
        }
    }

    /// Makes a flow set live. While flows are stopped it is only kept for the next start.
    pub(super) async fn apply(
        &self,
        plan: Plan,
        flows: Arc<FlowSet>,
        credentials: Arc<Credentials>,
    ) -> Result<(), Error> {
        match *self {
            #[cfg(feature = "engine")]
            Self::Own(ref engine) => engine.apply(plan, flows, credentials).await.map_err(gone),
            Self::Upstream(_) => Ok(()),
        }
    }

    /// Starts or stops all flows.
    pub(super) async fn set_running(&self, running: bool) -> Result<(), Error> {
        match *self {
            #[cfg(feature = "engine")]
            Self::Own(ref engine) => {
                let state = if running {
                    RunState::Start
                } else {
                    RunState::Stop
                };
                engine.set_state(state).await.map_err(gone)
            }
            Self::Upstream(_) => Ok(()),
        }
    }

    /// Keeps flows from being started until the next deployment.
    pub(super) async fn load_only(&self) -> Result<(), Error> {
        match *self {
            #[cfg(feature = "engine")]
            Self::Own(ref engine) => engine.set_state(RunState::Safe).await.map_err(gone),
            Self::Upstream(_) => Ok(()),
        }
    }

    /// Waits until the engine does something: one that hangs never does.
    pub(super) async fn answer(&self) -> Result<(), Error> {
        match *self {
            #[cfg(feature = "engine")]
            // To switch no debug node changes nothing.
            Self::Own(ref engine) => engine.set_debug(Vec::new(), true).await.map_err(gone),
            Self::Upstream(_) => Ok(()),
        }
    }

    /// The state of the flows in the admin API.
    pub(super) fn state(&self) -> &'static str {
        match *self {
            #[cfg(feature = "engine")]
            Self::Own(ref engine) => match engine.state() {
                RunState::Start => "start",
                RunState::Stop => "stop",
                RunState::Safe => "safe",
            },
            Self::Upstream(_) => "start",
        }
    }

    /// The flows that the engine has stopped by itself, as the admin API lists them.
    pub(super) fn stopped_flows(&self) -> Vec<Json> {
        match *self {
            #[cfg(feature = "engine")]
            Self::Own(ref engine) => engine
                .stopped_flows()
                .iter()
                .map(StoppedFlow::to_json)
                .collect(),
            Self::Upstream(_) => Vec::new(),
        }
    }

    /// Returns whether flows run, or would if none of their types were missing.
    pub(super) fn running(&self) -> bool {
        match *self {
            #[cfg(feature = "engine")]
            Self::Own(ref engine) => engine.state() == RunState::Start,
            Self::Upstream(ref upstream) => upstream.healthy(),
        }
    }

    /// Tells editors that a deployment is live.
    pub(super) fn announce(&self, rev: &str) {
        match *self {
            #[cfg(feature = "engine")]
            Self::Own(ref engine) => engine.announce(rev),
            Self::Upstream(_) => {}
        }
    }

    /// The types of nodes that it has.
    pub(super) async fn types(&self) -> Result<Box<Types>, Error> {
        match *self {
            #[cfg(feature = "engine")]
            Self::Own(ref engine) => {
                let engine = engine.clone();
                Ok(Box::new(move |kind| engine.knows(kind)))
            }
            Self::Upstream(ref upstream) => {
                let types = upstream.types().await?;
                Ok(Box::new(move |kind| types.contains(kind)))
            }
        }
    }

    /// Closes all nodes, or takes leave of the upstream.
    pub(super) async fn close(&self) {
        match *self {
            #[cfg(feature = "engine")]
            Self::Own(ref engine) => engine.close().await,
            Self::Upstream(ref upstream) => upstream.sign_out().await,
        }
    }
}

#[cfg(feature = "engine")]
#[allow(
    clippy::needless_pass_by_value,
    reason = "the shape that map_err wants"
)]
fn gone(error: engine::Error) -> Error {
    tracing::error!(%error, "the engine failed");
    Error::Runtime
}
