//! Keeps the ids of elements apart from those that runtimes make of them: of nodes inside instances
//! of subflows (`INSTANCE-NODE`), of status outputs (`INSTANCE:status`) and of contexts
//! (`NODE:FLOW`, `global`).
//!
//! Two elements that run under one id are one to everything that finds nodes by ids: contexts,
//! status, buttons, wires, plans. Disabled elements count: they run once they are enabled.

use super::misread;
use crate::json::shown;
use crate::{DEPTH, FlowSet, Malformed, Node};
use rustc_hash::{FxHashMap, FxHashSet};
use smol_str::{SmolStr, format_smolstr};
use std::sync::Arc;

/// The name of the global context, and of the global flow in the API.
const GLOBAL: &str = "global";

/// Refuses a flow set in which an id is that of two things that run, or could after an element is
/// enabled; and elements that a runtime would misread.
pub fn check_elements(flows: &FlowSet) -> Result<(), Malformed> {
    misread::check(flows)?;
    // Without these characters, a running id is none of an element, and has one way only in which
    // it is made.
    let may_collide = |node: &Arc<Node>| node.id.contains(['-', ':']) || node.id == GLOBAL;
    if !flows.nodes().iter().any(may_collide) {
        return Ok(());
    }
    if let Some(node) = flows.get(GLOBAL) {
        return Err(refused(&node.id, "the global flow and its context"));
    }
    let mut inside: FxHashMap<&str, Vec<&Node>> = FxHashMap::default();
    for node in flows.nodes() {
        if flows.subflow(&node.z).is_some() {
            inside.entry(&node.z).or_default().push(node);
        }
    }
    let mut ids = RunningIds {
        flows,
        inside,
        made: FxHashSet::default(),
    };
    for node in flows.nodes() {
        if node.instance_of().is_some() && flows.subflow(&node.z).is_none() {
            ids.expand(&node.id, node, 0)?;
        }
    }
    for node in flows.nodes() {
        let owner = node
            .id
            .match_indices(':')
            .filter_map(|(at, _)| node.id.get(..at))
            .find(|id| flows.get(id).is_some() || ids.made.contains(*id));
        if let Some(owner) = owner {
            let what = format!("a context or the status of the node {}", shown(owner));
            return Err(refused(&node.id, &what));
        }
    }
    Ok(())
}

/// The ids that instances of subflows make.
struct RunningIds<'f> {
    flows: &'f FlowSet,
    inside: FxHashMap<&'f str, Vec<&'f Node>>,
    made: FxHashSet<SmolStr>,
}

impl RunningIds<'_> {
    /// Makes the ids of all that is inside an instance. `depth` counts the instances around it.
    fn expand(&mut self, id: &SmolStr, instance: &Node, depth: usize) -> Result<(), Malformed> {
        let inside = instance.instance_of().and_then(|id| self.inside.get(id));
        if depth >= DEPTH {
            return Ok(());
        }
        for node in inside.cloned().unwrap_or_default() {
            let made = format_smolstr!("{id}-{}", node.id);
            if self.flows.get(&made).is_some() || self.made.contains(&made) {
                let (node, instance) = (shown(&node.id), shown(id));
                let what = format!("the node {node} inside the subflow instance {instance}");
                return Err(refused(&made, &what));
            }
            if node.instance_of().is_some() {
                self.expand(&made, node, depth + 1)?;
            }
            self.made.insert(made);
        }
        Ok(())
    }
}

fn refused(id: &str, other: &str) -> Malformed {
    Malformed(format!(
        "the id {} is that of an element, and is needed when {other} runs; give the element another id",
        shown(id)
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::running::Runs;

    const SUBFLOW: &str = concat!(
        r#"{"id":"t","type":"tab"},{"id":"S","type":"subflow"},{"id":"fn","type":"x","z":"S","x":1,"y":1},"#,
        r#"{"id":"ln","type":"subflow:S","z":"t","x":1,"y":1},{"id":"O","type":"subflow"},"#,
        r#"{"id":"in","type":"subflow:S","z":"O","x":1,"y":1},{"id":"out","type":"subflow:O","z":"t","x":1,"y":1}"#
    );

    fn refusal(added: &str) -> Option<String> {
        let flows = FlowSet::parse(format!("[{SUBFLOW}{added}]").as_bytes()).unwrap();
        check_elements(&flows).err().map(|refused| refused.0)
    }

    #[test]
    fn the_id_of_a_node_inside_an_instance_is_no_elements_at_any_depth() {
        let node = |id: &str| format!(r#",{{"id":"{id}","type":"comment","z":"t","x":1,"y":1}}"#);
        for id in [
            "ln-fn",
            "out-in",
            "out-in-fn",
            "ln:status",
            "ln:t",
            "ln-fn:ln",
            "t:t",
            "global",
        ] {
            let refused = refusal(&node(id)).unwrap_or_default();
            assert!(refused.contains(&format!("{id:?}")), "{id}: {refused}");
        }
        // `in` runs inside of `out` only.
        for id in [
            "in-fn", "ln-gn", "x-fn", "-", "ln-", "a:b", "0a1b.2c", "ln-fn-x", "Global",
        ] {
            assert_eq!(refusal(&node(id)), None, "{id}");
        }
    }

    #[test]
    fn an_instance_of_a_subflow_whose_id_begins_like_a_type_runs_that_one_only() {
        let added = r#",{"id":"subflow:S","type":"subflow"},{"id":"line","type":"subflow:subflow:S","z":"t","x":1,"y":1}"#;
        let flows = FlowSet::parse(format!("[{SUBFLOW}{added}]").as_bytes()).unwrap();
        let runs = Runs::of(&flows);
        assert!(runs.get("ln-fn").is_some() && runs.get("line").is_some());
        assert!(runs.get("line-fn").is_none());
    }

    #[test]
    fn disabled_elements_count_and_two_instances_make_no_id_twice() {
        let off = r#",{"id":"off","type":"tab","disabled":true},{"id":"i","type":"subflow:S","z":"off","d":true,"x":1,"y":1},{"id":"i-fn","type":"x","z":"t"}"#;
        assert!(refusal(off).is_some());
        // Both make `a-b-c`.
        let twice = r#",{"id":"P","type":"subflow"},{"id":"b-c","type":"x","z":"P"},{"id":"a","type":"subflow:P","z":"t","x":1,"y":1},
            {"id":"Q","type":"subflow"},{"id":"c","type":"x","z":"Q"},{"id":"a-b","type":"subflow:Q","z":"t","x":1,"y":1}"#;
        assert!(refusal(twice).is_some_and(|refused| refused.contains("\"a-b-c\"")));
    }

    #[test]
    fn ids_as_editors_make_them_are_accepted_with_hyphens_too() {
        let uuid = "123e4567-e89b-12d3-a456-426614174000";
        let nodes = format!(
            r#",{{"id":"{uuid}","type":"subflow:S","z":"t","x":1,"y":1}},{{"id":"{uuid}0","type":"x","z":"t"}},{{"id":"123e4567","type":"x","z":"t"}}"#
        );
        assert_eq!(refusal(&nodes), None);
    }
}
