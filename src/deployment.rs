//! The heart: turn, revision, plan, store, apply, announce. Used by requests, start-up and reload alike.

use crate::audit::Actor;
use crate::flows::{Credentials, DeploymentType, FlowSet, Malformed, Submission};
use crate::store;
use bytes::Bytes;
use std::sync::Arc;

/// The active flow set and its name.
#[derive(Debug)]
pub struct Active {
    /// The flow set.
    pub flows: Arc<FlowSet>,
    /// Its credentials.
    pub credentials: Arc<Credentials>,
    /// Its revision.
    pub rev: String,
    /// The flow set as JSON: the body of `GET /flows` v1.
    pub json: Bytes,
}

/// Why a deployment did not happen. The active flow set is as before.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The submission names another revision than the active one.
    #[error("the flows have changed since: the active revision is {active}")]
    Stale {
        /// The active revision.
        active: String,
    },
    /// The submission is malformed.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// `reload`: the flow files are broken.
    #[error("the flow files are broken")]
    StorageInvalid(#[source] store::Error),
    /// It could not be made durable.
    #[error("the flows could not be stored")]
    Store(#[source] store::Error),
    /// A single flow of that id does not exist.
    #[error("no such flow")]
    NoSuchFlow,
    /// The runtime is gone.
    #[error("the runtime is gone")]
    Runtime,
}

/// A deployment asked for.
#[derive(Debug)]
pub enum Request {
    /// `POST /flows`.
    Flows {
        /// What was sent.
        submission: Submission,
        /// How much to restart.
        kind: DeploymentType,
    },
    /// `POST /flows` with type `reload`.
    Reload,
    /// `POST /flow`: add one flow.
    AddFlow(Bytes),
    /// `PUT /flow/:id`.
    ReplaceFlow(String, Bytes),
    /// `DELETE /flow/:id`.
    RemoveFlow(String),
}

/// What came of it.
#[derive(Debug)]
pub struct Deployed {
    /// The new revision.
    pub rev: String,
    /// The id of the flow added or replaced, for `/flow`.
    pub flow: Option<String>,
}

/// Takes deployments, one at a time.
pub struct Deployments {}

impl Deployments {
    /// The active flow set; never waits for a deployment.
    pub fn active(&self) -> Arc<Active> {
        todo!()
    }

    /// Runs one deployment to its end, whatever becomes of the caller. Must run as a task of the control runtime.
    pub async fn deploy(&self, _request: Request, _actor: &Actor, _now: u64) -> Result<Deployed, Error> {
        todo!()
    }
}
