//! Our own runtime: flows, nodes, messages, on a thread of their own.

pub mod context;
pub mod env;
pub mod expression;
pub mod http;
pub mod message;
pub mod node;
pub mod nodes;
pub mod script;
pub mod value;
pub mod world;

use crate::events::Event;
use crate::flows::{Credentials, FlowSet, Plan};
use serde_json::Value as Json;
use std::sync::Arc;
use tokio::sync::broadcast;

/// The engine cannot do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No running node has this id.
    #[error("no running node has this id")]
    NoSuchNode,
    /// The node does not take this (an inject of a node that is none).
    #[error("the node does not take this")]
    NotPossible,
    /// The engine's thread has ended.
    #[error("the engine has ended")]
    Gone,
}

/// Whether flows run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// `start`
    Start,
    /// `stop`
    Stop,
    /// `safe`
    Safe,
}

/// The running engine; clones speak to the same one.
#[derive(Clone, Debug)]
pub struct Engine {}

impl Engine {
    /// Starts the engine's thread, with nothing running.
    pub fn start(_config: crate::config::Engine) -> std::io::Result<Self> {
        todo!()
    }

    /// Applies a plan: stops, waits for the closes, rewires, starts. Returns when everything is live.
    pub async fn apply(&self, _plan: Plan, _flows: Arc<FlowSet>, _credentials: Arc<Credentials>) -> Result<(), Error> {
        todo!()
    }

    /// Starts or stops all flows (`POST /flows/state`).
    pub async fn set_state(&self, _state: RunState) -> Result<(), Error> {
        todo!()
    }

    /// Whether flows run.
    pub fn state(&self) -> RunState {
        todo!()
    }

    /// Triggers an inject node; `body` is the request's JSON, with `__user_inject_props__` or without.
    pub async fn inject(&self, _id: &str, _body: Option<Json>) -> Result<(), Error> {
        todo!()
    }

    /// Switches debug nodes on or off.
    pub async fn set_debug(&self, _ids: Vec<String>, _active: bool) -> Result<(), Error> {
        todo!()
    }

    /// The endpoint of an http-in node for this method and canonical path, if there is one.
    pub fn endpoint(&self, _method: &hyper::Method, _path: &str) -> Option<Endpoint> {
        todo!()
    }

    /// Sends a request to an endpoint and waits for the flow's answer.
    pub async fn call(&self, _endpoint: Endpoint, _request: http::Request) -> Result<http::Reply, Error> {
        todo!()
    }

    /// What the engine says: state, status, debug messages. Slow listeners lose the oldest.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        todo!()
    }

    /// The types that the flow set needs and the engine has not.
    pub fn missing_types(_flows: &FlowSet) -> Vec<String> {
        todo!()
    }

    /// Closes all nodes and ends the thread.
    pub async fn close(&self) {
        todo!()
    }
}

/// An http-in node's endpoint that matched a request.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Values of `:name` in its path.
    pub params: Vec<(smol_str::SmolStr, smol_str::SmolStr)>,
    pub(crate) slot: u32,
    pub(crate) epoch: u32,
}
