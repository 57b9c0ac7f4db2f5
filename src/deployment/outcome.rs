//! Deployment outcomes as the audit log and the metrics name them: how much changes, and why a
//! deployment failed.

use super::{Authorized, Error};
use crate::metrics::Deployed;
use crate::policy::Rule;
use flows::Counts;
use serde_json::{Value, json};

/// Adds how many elements of the flow set a deployment adds, changes and removes. Unlike for
/// restarts, a node that was only moved counts as changed: the audit log describes the file.
pub(super) fn counts(facts: &mut Value, counts: &Counts) {
    facts["nodes"] = counts.nodes.into();
    facts["added"] = counts.added.into();
    facts["changed"] = counts.changed.into();
    facts["removed"] = counts.removed.into();
}

/// Adds what the client says about the change, if it says anything, and the proposal that it
/// approves.
pub(super) fn said(facts: &mut Value, by: &Authorized<'_>) {
    if !by.message.is_empty() {
        facts["message"] = by.message.into();
    }
    if let Some(approval) = by.approval {
        approval.name_in(facts);
    }
}

/// The metrics' name for a deployment that did not happen.
pub fn failed(error: &Error) -> Deployed {
    match error {
        Error::Stale { .. } => Deployed::Stale,
        Error::Malformed(_) | Error::NoSuchFlow => Deployed::Malformed,
        Error::Policy(_) | Error::Proposal(_) => Deployed::Refused,
        Error::Proposed(_) => Deployed::Proposed,
        Error::StorageInvalid(_)
        | Error::Store(_)
        | Error::Runtime
        | Error::Audit(_)
        | Error::Lapsed(_)
        | Error::Upstream(_) => Deployed::Failed,
    }
}

/// The audit fields of a deployment that did not happen.
pub fn refusal(kind: &str, error: &Error) -> Value {
    let mut fields = json!({ "type": kind, "reason": reason(error) });
    if let Error::Policy(verdict) = error {
        fields["rules"] = verdict.rules().map(Rule::name).collect();
    }
    fields
}

/// Why it did not happen, for the audit log.
pub fn reason(error: &Error) -> &'static str {
    match error {
        Error::Stale { .. } => "stale",
        Error::Malformed(_) => "malformed",
        Error::Policy(_) => "policy",
        Error::Proposed(_) => "proposed",
        Error::Proposal(_) => "proposal",
        Error::StorageInvalid(_) => "storage_invalid",
        Error::Store(_) => "storage_failed",
        Error::NoSuchFlow => "no_such_flow",
        Error::Runtime => "runtime_gone",
        Error::Audit(_) => "audit_unavailable",
        Error::Lapsed(lapsed) => lapsed.name(),
        Error::Upstream(_) => "upstream",
    }
}
