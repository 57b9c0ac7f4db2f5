//! Deployment outcomes as the audit log and the metrics name them: how much changes, and why a deployment failed.

use super::Error;
use crate::metrics::Deployed;
use crate::policy::Rule;
use flows::FlowSet;
use serde_json::{Value, json};

/// Counts the elements of a flow set that a deployment adds, changes and removes: tabs, nodes, groups, and all else.
/// Unlike for restarts, a node that was only moved counts as changed: the audit log describes the file.
pub(super) fn counts(facts: &mut Value, old: &FlowSet, new: &FlowSet) {
    let (mut added, mut changed) = (0, 0);
    for node in new.nodes() {
        match old.get(&node.id) {
            None => added += 1,
            Some(before) if before.text != node.text => changed += 1,
            Some(_) => {}
        }
    }
    let kept = new.nodes().len() - added;
    facts["nodes"] = new.nodes().len().into();
    facts["added"] = added.into();
    facts["changed"] = changed.into();
    facts["removed"] = (old.nodes().len() - kept).into();
}

/// The metrics' name for a deployment that did not happen.
pub fn failed(error: &Error) -> Deployed {
    match error {
        Error::Stale { .. } => Deployed::Stale,
        Error::Malformed(_) | Error::NoSuchFlow => Deployed::Malformed,
        Error::Policy(_) => Deployed::Refused,
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

fn reason(error: &Error) -> &'static str {
    match error {
        Error::Stale { .. } => "stale",
        Error::Malformed(_) => "malformed",
        Error::Policy(_) => "policy",
        Error::StorageInvalid(_) => "storage_invalid",
        Error::Store(_) => "storage_failed",
        Error::NoSuchFlow => "no_such_flow",
        Error::Runtime => "runtime_gone",
        Error::Audit(_) => "audit_unavailable",
        Error::Lapsed(lapsed) => lapsed.name(),
        Error::Upstream(_) => "upstream",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn added_changed_and_removed_nodes_are_counted_by_id() {
        let set = |text: &str| FlowSet::parse(text.as_bytes()).unwrap();
        let old = set(r#"[{"id":"a","type":"x"},{"id":"b","type":"x"},{"id":"c","type":"x"}]"#);
        let new = set(
            r#"[{"id":"d","type":"x"},{"id":"b","type":"y"},{"id":"a","type":"x"},{"id":"e","type":"x"}]"#,
        );
        let mut facts = json!({});
        counts(&mut facts, &old, &new);
        assert_eq!(
            facts,
            json!({ "nodes": 4, "added": 2, "changed": 1, "removed": 1 })
        );
    }
}
