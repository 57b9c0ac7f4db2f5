//! Deployments, as the node host gets them: the elements that it runs, and the end of their start.

use super::authority::Authority;
use super::{NodeHost, State, frame};
use crate::task::Closing;
use flows::Plan;
use rustc_hash::FxHashMap;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json, json};
use smol_str::SmolStr;
use std::cell::Ref;
use std::collections::BTreeMap;
use std::rc::Rc;
use tokio::sync::oneshot;

/// What the host runs.
#[derive(Default, PartialEq)]
pub(crate) struct HostFlows {
    /// The elements, a JSON array.
    pub flows: String,
    /// Credentials by element.
    pub credentials: BTreeMap<SmolStr, Map<String, Json>>,
    /// The environment variables that the elements name.
    pub environment: BTreeMap<String, String>,
    /// The names that frames about the elements may have.
    pub authority: Authority,
}

impl HostFlows {
    /// Returns whether there are no elements.
    pub(crate) fn is_empty(&self) -> bool {
        self.flows == "[]"
    }
}

/// The end of a deployment, with the error that kept nodes from starting.
type Done = oneshot::Receiver<Option<String>>;

impl NodeHost {
    /// The engine's plan restarts these elements: so does the host.
    pub(crate) fn restart(&self, plan: &Plan) {
        let mut epochs = self.epochs.borrow_mut();
        if plan.everything {
            // A full deployment restarts everything by itself.
            return epochs.clear();
        }
        for stop in &plan.stop {
            *epochs.entry(stop.id.clone()).or_default() += 1;
        }
        for stop in plan.stop.iter().filter(|stop| stop.removed) {
            epochs.remove(&stop.id);
        }
    }

    /// How often the engine's plans have restarted each element.
    pub(crate) fn epochs(&self) -> Ref<'_, FxHashMap<SmolStr, u32>> {
        self.epochs.borrow()
    }

    /// Returns whether the host runs exactly this.
    pub(crate) fn runs(&self, flows: &HostFlows) -> bool {
        self.running.borrow().as_ref() == Some(flows)
    }

    /// Sends a flow set; the result is ready when its nodes have started, or the host has failed.
    pub(crate) fn deploy(self: &Rc<Self>, flows: HostFlows, kind: &str) -> Closing {
        let (number, done) = self.number();
        let elements = RawValue::from_string(flows.flows.clone()).ok();
        let frame = Deploy {
            t: "deploy",
            number,
            kind,
            flows: elements.as_deref(),
            credentials: &flows.credentials,
            environment: &flows.environment,
        };
        let json = serde_json::to_string(&frame).unwrap_or_default();
        match frame::encode(&json, &[]) {
            Ok(frame) => self.send(frame),
            Err(failure) => {
                let pending = self.pending.borrow_mut().remove(&number);
                let _ = pending.map(|done| done.send(Some(failure.to_string())));
            }
        }
        self.violations.forget();
        self.hand_over(Some(flows));
        self.finished(done)
    }

    /// Stops all nodes, which keep their data.
    pub(crate) fn stop(self: &Rc<Self>) -> Option<Closing> {
        if self.state.get() != State::Running || self.running.borrow().is_none() {
            return None;
        }
        self.hand_over(None);
        let (number, done) = self.number();
        self.send_json(&json!({ "t": "stop", "number": number }));
        Some(self.finished(done))
    }

    /// Replaces what the host runs. Nodes of before close and report until the change is done.
    fn hand_over(&self, flows: Option<HostFlows>) {
        let before = self.running.replace(flows);
        self.before.replace(before.map(|before| before.authority));
    }

    fn number(&self) -> (u32, Done) {
        let number = self.deployments.get().wrapping_add(1);
        self.deployments.set(number);
        let (done, receive) = oneshot::channel();
        self.pending.borrow_mut().insert(number, done);
        (number, receive)
    }

    /// Waits until the host has deployed; a host that does not within `start_timeout` is restarted.
    fn finished(self: &Rc<Self>, done: Done) -> Closing {
        let host = Rc::clone(self);
        Box::pin(async move {
            match tokio::time::timeout(host.start_timeout(), done).await {
                Ok(Ok(Some(error))) => {
                    tracing::error!(target: "node_host", error, "the foreign nodes did not start");
                }
                // An error: the process has ended, which is logged elsewhere.
                Ok(Ok(None) | Err(_)) => {}
                Err(_) => host.kill("it did not finish a deployment within start_timeout"),
            }
        })
    }
}

/// The frame of a deployment.
#[derive(Serialize)]
struct Deploy<'a> {
    t: &'a str,
    number: u32,
    kind: &'a str,
    flows: Option<&'a RawValue>,
    credentials: &'a BTreeMap<SmolStr, Map<String, Json>>,
    environment: &'a BTreeMap<String, String>,
}
