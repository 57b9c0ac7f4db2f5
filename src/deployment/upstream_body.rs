//! The flow set that a change leads to at an upstream, and the body of a deployment that sends all of it: of a caller who
//! sees some flows.

use super::four_eyes::SentCredentials;
use bytes::Bytes;
use flows::{Counts, FlowSet};
use serde_json::{Value, json};
use smol_str::SmolStr;
use std::collections::HashSet;
use std::sync::Arc;

/// The flow set that a change leads to at the upstream.
pub(super) struct ChangedFlows {
    pub(super) flows: Arc<FlowSet>,
    /// How much of it the change changes.
    pub(super) counts: Counts,
    /// The nodes whose credentials were sent.
    pub(super) sent: HashSet<SmolStr>,
    /// The credentials that were sent: inside nodes, which are merged, and beside the flows.
    pub(super) submitted: SentCredentials,
    /// Whether the upstream takes it over as it is, without ids of its own.
    pub(super) is_exact: bool,
    /// The id of a flow that was added.
    pub(super) flow: Option<String>,
}

impl ChangedFlows {
    /// A body of version v2, for the upstream's revision `rev`.
    pub(super) fn as_body(&self, rev: &str) -> Bytes {
        let mut body = "{\"flows\":[".to_owned();
        for (i, node) in self.flows.nodes().iter().enumerate() {
            if i > 0 {
                body.push(',');
            }
            match self.submitted.merged.nodes.get(&node.id) {
                None => body.push_str(&node.text),
                Some(sent) => {
                    let mut node = node.object();
                    node.insert("credentials".to_owned(), Value::Object(sent.clone()));
                    body.push_str(&Value::Object(node).to_string());
                }
            }
        }
        body.push_str("],\"rev\":");
        body.push_str(&json!(rev).to_string());
        if !self.submitted.replacing.nodes.is_empty() {
            body.push_str(",\"credentials\":");
            body.push_str(&json!(self.submitted.replacing.nodes).to_string());
        }
        body.push('}');
        body.into()
    }
}
