//! Limits the expansion of subflow instances: a small flow set must not become a large one when it
//! starts.
//!
//! Node-RED 4.1 never comes back from a subflow with an instance of itself inside that has an
//! instance on a tab, and 30 subflows with two instances each of the next are a thousand million
//! nodes.

use super::{FlowSet, Malformed, Node};
use crate::json::shown;
use smol_str::SmolStr;
use std::collections::HashMap;
use std::sync::Arc;

/// Instances inside instances, at most. Our choice: people use three or four.
pub const DEPTH: usize = 32;
/// Nodes inside all instances, at most. Our choice: ten times the largest flow set that is known.
const NODES: u64 = 100_000;

/// Refuses a flow set in which a subflow contains itself, or that unfolds to too much.
pub(super) fn check(flows: &FlowSet) -> Result<(), Malformed> {
    let instances = |node: &&Arc<Node>| node.instance_of().is_some();
    if !flows.nodes().iter().any(|node| instances(&node)) {
        return Ok(());
    }
    let mut inside: HashMap<&str, Vec<&Node>> = HashMap::new();
    for node in flows.nodes() {
        if flows.subflow(&node.z).is_some() {
            inside.entry(&node.z).or_default().push(node);
        }
    }
    let mut unfolded = Unfolded {
        flows,
        inside,
        known: HashMap::new(),
    };
    let mut total: u64 = 0;
    for node in flows.nodes().iter().filter(instances) {
        let nodes = unfolded.count(node.instance_of().unwrap_or_default(), &mut Vec::new())?;
        let runs = flows.subflow(&node.z).is_none();
        total = total.saturating_add(if runs { nodes.0 } else { 0 });
    }
    if total > NODES {
        return Err(Malformed(format!(
            "the instances of subflows are {total} nodes together; at most {NODES} are allowed"
        )));
    }
    Ok(())
}

struct Unfolded<'f> {
    flows: &'f FlowSet,
    /// The nodes inside each subflow.
    inside: HashMap<&'f str, Vec<&'f Node>>,
    /// Nodes inside each subflow when it is unfolded, and how many instances deep the deepest of
    /// them is.
    known: HashMap<SmolStr, (u64, usize)>,
}

impl Unfolded<'_> {
    /// Counts what an instance of a subflow unfolds to; `around` are the subflows that it is
    /// inside.
    fn count(&mut self, id: &str, around: &mut Vec<SmolStr>) -> Result<(u64, usize), Malformed> {
        if let Some(known) = self.known.get(id) {
            return Ok(*known);
        }
        if around.iter().any(|outer| outer == id) {
            let id = shown(id);
            return Err(Malformed(format!("the subflow {id} contains itself")));
        }
        let Some(subflow) = self.flows.subflow(id) else {
            return Ok((0, 0));
        };
        around.push(subflow.id.clone());
        let (mut nodes, mut depth): (u64, usize) = (0, 0);
        for node in self.inside.get(id).cloned().unwrap_or_default() {
            let (more, deeper) = match node.instance_of() {
                // One more than allowed is followed, to be refused below.
                Some(inner) if around.len() <= DEPTH => self.count(inner, around)?,
                Some(_) | None => (0, 0),
            };
            nodes = nodes.saturating_add(more).saturating_add(1);
            depth = depth.max(deeper);
        }
        around.pop();
        depth += 1;
        if depth > DEPTH {
            return Err(Malformed(format!(
                "the subflow {} has instances nested more than {DEPTH} deep inside",
                shown(id)
            )));
        }
        self.known.insert(subflow.id.clone(), (nodes, depth));
        Ok((nodes, depth))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// Subflows 0 to n, each with `times` instances of the next; one instance of the first on a
    /// tab.
    fn chain(n: usize, times: usize) -> Result<FlowSet, Malformed> {
        let mut elements = vec![
            r#"{"id":"t","type":"tab"},{"id":"i","type":"subflow:0","z":"t","x":1,"y":1}"#.into(),
        ];
        for i in 0..n {
            elements.push(format!(r#"{{"id":"{i}","type":"subflow"}}"#));
            for j in 0..times {
                elements.push(format!(
                    r#"{{"id":"{i}/{j}","type":"subflow:{}","z":"{i}"}}"#,
                    i + 1
                ));
            }
        }
        FlowSet::parse(format!("[{}]", elements.join(",")).as_bytes())
    }

    #[test]
    fn a_subflow_that_contains_itself_is_refused_at_any_depth() {
        let itself = |elements: &str| FlowSet::parse(elements.as_bytes()).unwrap_err().0;
        assert_eq!(
            itself(
                r#"[{"id":"s","type":"subflow"},{"id":"i","type":"subflow:s","z":"s","x":1,"y":1}]"#
            ),
            "the subflow \"s\" contains itself"
        );
        assert_eq!(
            itself(
                r#"[{"id":"s","type":"subflow"},{"id":"i","type":"subflow:u","z":"s"},{"id":"u","type":"subflow"},{"id":"j","type":"subflow:s","z":"u"}]"#
            ),
            "the subflow \"u\" contains itself"
        );
    }

    #[test]
    fn the_nesting_depth_of_instances_is_limited() {
        assert!(chain(DEPTH, 1).is_ok());
        let deep = chain(DEPTH + 1, 1).unwrap_err().0;
        assert!(deep.contains("nested more than 32 deep"), "{deep}");
        let deep = chain(3000, 1).unwrap_err().0;
        assert!(deep.contains("nested more than 32 deep"), "{deep}");
    }

    #[test]
    fn exponential_growth_is_refused_before_the_expansion() {
        assert!(chain(15, 2).is_ok(), "65,534 nodes");
        let many = chain(30, 2).unwrap_err().0;
        assert!(many.contains("2147483646 nodes"), "{many}");
    }

    #[test]
    fn instances_of_a_missing_subflow_expand_to_nothing() {
        let flows = br#"[{"id":"i","type":"subflow:none","z":"t","x":1,"y":1}]"#;
        assert!(FlowSet::parse(flows).is_ok());
    }
}
