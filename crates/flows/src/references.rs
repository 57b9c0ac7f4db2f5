//! Finds the references between nodes by value (docs/reference/node-red-engine.md §1.3), and the
//! dependants of a set of ids.
//!
//! There is no schema: any property whose value, used as a key, is an id counts; a list with
//! exactly one element counts as that element (JavaScript makes one text of both). `id`, `z` and
//! `wires` do not count, nor a group's `nodes`.

use super::model::ElementKind;
use super::{FlowSet, Node};
use crate::json::Members;
use serde_json::Value;
use smol_str::SmolStr;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Whether an id hands the change on to those who refer to it.
pub(super) type Through<'a> = &'a dyn Fn(&str) -> bool;

/// The ids of `flows` that depend on `seeds`, directly or not, in the order of the flow set.
///
/// A node depends on what it refers to by value, on its group, and, as an instance, on its subflow;
/// a subflow depends on the nodes inside it. Linear in the size of the flow set.
pub(super) fn dependants(
    flows: &FlowSet,
    seeds: &HashSet<SmolStr>,
    through: Through,
) -> Vec<SmolStr> {
    let mut referrers = Referrers {
        flows,
        seeds,
        rounds: 0,
        index: None,
    };
    let mut found: HashSet<usize> = HashSet::new();
    let mut frontier: Vec<SmolStr> = seeds.iter().filter(|id| through(id)).cloned().collect();
    while !frontier.is_empty() {
        let mut next = Vec::new();
        for i in referrers.of(&frontier) {
            next.extend(reached(flows, i, seeds, &mut found));
        }
        frontier = next;
        frontier.retain(|id| through(id));
    }
    let mut found: Vec<usize> = found.into_iter().collect();
    found.sort_unstable();
    found
        .into_iter()
        .filter_map(|i| flows.nodes().get(i))
        .map(|node| node.id.clone())
        .collect()
}

/// Notes that the element at `i` depends on a seed, and with it the subflow that it is in. Returns
/// what is new.
fn reached(
    flows: &FlowSet,
    i: usize,
    seeds: &HashSet<SmolStr>,
    found: &mut HashSet<usize>,
) -> Vec<SmolStr> {
    let Some(node) = flows.nodes().get(i) else {
        return Vec::new();
    };
    let around = flows
        .subflow(&node.z)
        .and_then(|subflow| flows.position(&subflow.id));
    [Some(i), around]
        .into_iter()
        .flatten()
        .filter_map(|i| Some((i, flows.nodes().get(i)?)))
        .filter(|(i, node)| !seeds.contains(&node.id) && found.insert(*i))
        .map(|(_, node)| node.id.clone())
        .collect()
}

/// Finds who refers to ids. The first rounds with few ids only search the texts; then everything is
/// read, once.
struct Referrers<'a> {
    flows: &'a FlowSet,
    seeds: &'a HashSet<SmolStr>,
    rounds: usize,
    index: Option<HashMap<SmolStr, Vec<usize>>>,
}

/// A search of all texts for this many ids costs no more than reading them all (measured with
/// 10,000 nodes).
const FEW: usize = 4;
/// So many rounds of searching before everything is read; chains of references are rarely longer.
const ROUNDS: usize = 3;

impl Referrers<'_> {
    fn of(&mut self, ids: &[SmolStr]) -> Vec<usize> {
        self.rounds += 1;
        if self.index.is_none() && ids.len() <= FEW && self.rounds <= ROUNDS {
            return self.search(ids);
        }
        let (flows, seeds) = (self.flows, self.seeds);
        let index = self.index.get_or_insert_with(|| index(flows, seeds));
        ids.iter()
            .filter_map(|id| index.get(id))
            .flatten()
            .copied()
            .collect()
    }

    fn search(&self, ids: &[SmolStr]) -> Vec<usize> {
        let nodes = self.flows.nodes().iter().enumerate();
        nodes
            .filter(|(_, node)| may_refer(node, ids))
            .filter(|(_, node)| is_unsettled(node, self.seeds) && refers(node, ids))
            .map(|(i, _)| i)
            .collect()
    }
}

/// Returns whether an element can turn out to depend on a seed: it is none itself.
fn is_unsettled(node: &Node, seeds: &HashSet<SmolStr>) -> bool {
    node.part() != ElementKind::Tab && !seeds.contains(&node.id)
}

/// Returns whether the text of a node can refer to one of these ids at all. An escaped letter can
/// spell anything.
fn may_refer(node: &Node, ids: &[SmolStr]) -> bool {
    let plain = |id: &SmolStr| !id.contains(['"', '\\', '/']) && !id.contains(char::is_control);
    ids.iter()
        .any(|id| !plain(id) || node.text.contains(id.as_str()))
        || node.text.contains("\\u")
}

fn refers(node: &Node, ids: &[SmolStr]) -> bool {
    let mut refers = false;
    each_reference(node, |key| refers |= ids.iter().any(|id| id == key));
    refers
}

/// The referrers of each id that can be queried: those of the flow set, and seeds that are no
/// longer in it.
fn index(flows: &FlowSet, seeds: &HashSet<SmolStr>) -> HashMap<SmolStr, Vec<usize>> {
    let mut index: HashMap<SmolStr, Vec<usize>> = HashMap::new();
    let nodes = flows.nodes().iter().enumerate();
    for (i, node) in nodes.filter(|(_, node)| is_unsettled(node, seeds)) {
        each_reference(node, |key| {
            if flows.get(key).is_some() || seeds.contains(key) {
                index.entry(key.into()).or_default().push(i);
            }
        });
    }
    index
}

/// Calls `see` with each property of the node as a key, and with the id of its subflow.
pub(super) fn each_reference(node: &Node, mut see: impl FnMut(&str)) {
    if let Some(subflow) = node.instance_of() {
        see(subflow);
    }
    let Ok(Members(members)) = serde_json::from_str(&node.text) else {
        return;
    };
    for (name, value) in members {
        let counts = match name.as_ref() {
            "id" | "z" | "wires" => false,
            "nodes" => node.part() != ElementKind::Group,
            _ => true,
        };
        if let Some(key) = counts.then(|| key(value.get())).flatten() {
            see(&key);
        }
    }
}

/// A value's text as JavaScript makes it when the value is used as a key; none for what cannot be
/// an id.
fn key(raw: &str) -> Option<Cow<'_, str>> {
    match raw.as_bytes() {
        [b'"', inside @ .., b'"'] if !inside.contains(&b'\\') => {
            raw.get(1..raw.len() - 1).map(Cow::Borrowed)
        }
        [b'{', ..] | [b'[', b']'] => None,
        [b'"' | b'[', ..] => only(&serde_json::from_str(raw).ok()?).map(Cow::Owned),
        _ => Some(Cow::Borrowed(raw)),
    }
}

/// The text of a value; a list with one element is that element.
fn only(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(list) => match list.as_slice() {
            [one] => only(one),
            _ => None,
        },
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Object(_) => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn of(elements: &str, seeds: &[&str]) -> Vec<String> {
        let flows = FlowSet::parse(elements.as_bytes()).unwrap();
        let seeds = seeds.iter().map(SmolStr::new).collect();
        dependants(&flows, &seeds, &|_| true)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn any_property_with_the_id_as_its_value_is_a_reference() {
        let json = r#"[{"id":"a","type":"x","name":"c"},{"id":"b","type":"x","name":"c c"},{"id":"d","type":"x","z":"c"},
            {"id":"e","type":"x","wires":[["c"]]},{"id":"f","type":"x","o":{"p":"c"}},{"id":"g","type":"x","p":"\u0063"}]"#;
        assert_eq!(of(json, &["c"]), ["a", "g"]);
    }

    #[test]
    fn a_list_is_a_reference_only_with_one_element() {
        let json = r#"[{"id":"a","type":"x","p":["c"]},{"id":"b","type":"x","p":["c","d"]},{"id":"e","type":"x","p":[["c"]]},{"id":"f","type":"x","p":[7]}]"#;
        assert_eq!(of(json, &["c", "7"]), ["a", "e", "f"]);
    }

    #[test]
    fn changes_inside_a_subflow_reach_its_instances_at_any_depth() {
        let json = r#"[{"id":"cfg","type":"x"},{"id":"S","type":"subflow"},{"id":"s","type":"x","z":"S","p":"cfg"},
            {"id":"N","type":"subflow"},{"id":"n","type":"subflow:S","z":"N","x":1,"y":1},{"id":"i","type":"subflow:N","z":"T","x":1,"y":1}]"#;
        assert_eq!(of(json, &["cfg"]), ["S", "s", "N", "n", "i"]);
    }

    #[test]
    fn a_changed_group_reaches_its_members_and_a_changed_member_not_its_siblings() {
        let json = r#"[{"id":"G","type":"group","nodes":["a"]},{"id":"a","type":"x","g":"G"},{"id":"b","type":"x","g":"G"}]"#;
        assert_eq!(of(json, &["G"]), ["a", "b"]);
        assert!(of(json, &["a"]).is_empty());
    }

    #[test]
    fn long_chains_are_followed_to_their_end() {
        let chain = |i: usize| {
            format!(
                r#"{{"id":"n{i}","type":"x","p":"n{}"}}"#,
                i.saturating_sub(1)
            )
        };
        let json = (0..5000).map(chain).collect::<Vec<_>>().join(",");
        assert_eq!(of(&format!("[{json}]"), &["n0"]).len(), 4999);
    }
}
