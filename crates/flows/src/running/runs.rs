//! What a flow set runs, as far as it is known before it runs: every node with its variables
//! resolved, and the flow that it belongs to. Resolved by what the engine itself uses.
//!
//! A variable of the process, a credential, an expression and the like have a mark as their value:
//! the property may turn out to be anything.

use super::build::build;
use super::env::{Entry, Env, Evaluator};
use super::running_node::{MARK, RunningNode};
use super::surroundings;
use crate::{Credentials, FlowSet, Node};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Map, Value as Json};
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;
use value::Value;

/// Everything that a flow set runs.
#[derive(Debug, Default)]
pub struct Runs {
    nodes: FxHashMap<SmolStr, RunningNode>,
}

impl Runs {
    /// Resolves a flow set. Linear in the number of nodes that it runs.
    pub fn of(flows: &FlowSet) -> Self {
        let evaluator: Rc<dyn Evaluator> = Rc::new(Marks);
        let graph = build(flows, None, &Credentials::default(), &evaluator);
        let nodes = graph.nodes.iter();
        let nodes = nodes.map(|running| (running.id.clone(), RunningNode::of(running, &graph)));
        let mut nodes: FxHashMap<_, _> = nodes.collect();
        for (id, digest) in surroundings::of(flows, &nodes) {
            if let Some(node) = nodes.get_mut(&id) {
                node.surroundings = digest;
            }
        }
        Self { nodes }
    }

    /// The names that several link in nodes have, with their running ids.
    pub fn ambiguous_names(&self) -> BTreeMap<String, Vec<&SmolStr>> {
        let mut names = surroundings::names(&self.nodes);
        names.retain(|_, ids| ids.len() > 1);
        names
    }

    /// The node of a running id.
    pub fn get(&self, id: &str) -> Option<&RunningNode> {
        self.nodes.get(id)
    }

    /// The node of a running id that is inside an instance of a subflow.
    pub fn inside(&self, id: &str) -> Option<(&SmolStr, &RunningNode)> {
        // Every such id has one.
        let found = id.contains('-').then(|| self.nodes.get_key_value(id));
        found.flatten().filter(|(_, node)| node.is_inside)
    }

    /// All nodes, by their running ids, in no order.
    pub fn nodes(&self) -> impl Iterator<Item = (&SmolStr, &RunningNode)> {
        self.nodes.iter()
    }

    /// The nodes that differ from their elements.
    pub fn with_variables(&self) -> impl Iterator<Item = &RunningNode> {
        let nodes = self.nodes.values();
        nodes.filter(|node| node.differs_from_its_element())
    }

    /// The elements of which something runs on such tabs that does not run in the same way in the
    /// other flow set, in no order: themselves, or a config node that they use, on no tab or on one
    /// that `follows`.
    pub fn differing<'r>(
        &'r self,
        other: &'r Self,
        is: impl Fn(&SmolStr) -> bool,
        follows: impl Fn(&SmolStr) -> bool,
    ) -> impl Iterator<Item = &'r Arc<Node>> {
        let found = self.differing_nodes(other, is, follows);
        found.map(|node| &node.node)
    }

    /// The tabs on which something runs that does not run in the same way in the other flow set.
    pub fn differing_tabs<'r>(&'r self, other: &'r Self) -> impl Iterator<Item = &'r SmolStr> {
        let found = self.differing_nodes(other, |_| true, |_| true);
        found.filter_map(|node| node.tab.as_ref())
    }

    fn differing_nodes<'r>(
        &'r self,
        other: &'r Self,
        is: impl Fn(&SmolStr) -> bool,
        follows: impl Fn(&SmolStr) -> bool,
    ) -> impl Iterator<Item = &'r RunningNode> {
        let configs = self.differing_configs(other, follows);
        let differs = move |id: &SmolStr, node: &RunningNode| {
            other.get(id).is_none_or(|o| !o.same(node)) || node.names_any(&configs)
        };
        let on_tabs = self.nodes.iter();
        let on_tabs = on_tabs.filter(move |(_, node)| node.tab.as_ref().is_some_and(&is));
        let found = on_tabs.filter(move |(id, node)| differs(id, node));
        found.map(|(_, node)| node)
    }

    /// The elements of the config nodes that run here and not, or in another way, in the other flow
    /// set.
    pub fn differing_config_nodes<'r>(
        &'r self,
        other: &'r Self,
    ) -> impl Iterator<Item = &'r Arc<Node>> {
        let configs = self.nodes.iter().filter(|(_, node)| !node.node.placed);
        let found =
            configs.filter(|(id, node)| other.get(id).is_none_or(|there| !there.same(node)));
        found.map(|(_, node)| &node.node)
    }

    /// The running ids of config nodes that do not run in the same way in the other flow set, and
    /// of those that use one.
    fn differing_configs<'r>(
        &'r self,
        other: &'r Self,
        follows: impl Fn(&SmolStr) -> bool,
    ) -> FxHashSet<&'r SmolStr> {
        let configs = |runs: &'r Self| runs.nodes.iter().filter(|(_, node)| !node.node.placed);
        let is_followed = |node: &RunningNode| node.tab.as_ref().is_none_or(&follows);
        let differs = |(id, node): &(&'r SmolStr, &'r RunningNode)| {
            is_followed(node) && other.get(id).is_none_or(|there| !there.same(node))
        };
        let mut found: FxHashSet<&SmolStr> =
            configs(self).filter(differs).map(|(id, _)| id).collect();
        let added = configs(other).filter(|(id, node)| is_followed(node) && self.get(id).is_none());
        found.extend(added.map(|(id, _)| id));
        if found.is_empty() {
            return found;
        }
        loop {
            let users = configs(self).filter(|(id, node)| {
                !found.contains(*id) && is_followed(node) && node.names_any(&found)
            });
            let users: Vec<_> = users.map(|(id, _)| id).collect();
            if users.is_empty() {
                return found;
            }
            found.extend(users);
        }
    }
}

/// Gives marks for what the flow set alone does not determine.
#[derive(Debug)]
struct Marks;

impl Evaluator for Marks {
    fn process_variable(&self, name: &str) -> Value {
        mark(&format!("process {name}"))
    }

    fn entry(
        &self,
        entry: &Entry,
        _credentials: Option<&Map<String, Json>>,
        scope: &Rc<Env>,
    ) -> Option<Value> {
        let is_odd = match entry.kind.as_str() {
            // JavaScript makes bytes of numbers and texts by rules of its own.
            "bin" => true,
            // It reads JSON of any depth, and of what is no text.
            "json" => entry
                .value
                .as_str()
                .is_none_or(|text| serde_json::from_str::<Json>(text).is_err()),
            // It makes texts of lists and objects.
            _ => entry.value.is_array() || entry.value.is_object(),
        };
        if is_odd {
            return Some(mark(&format!("{} {}", entry.kind, entry.value)));
        }
        match entry.kind.as_str() {
            // An expression sees the variables around its scope.
            "jsonata" => Some(mark(&format!("{} {:x}", entry.value, digest(scope)))),
            // Node-RED evaluates these when the flow starts.
            "cred" | "flow" | "global" | "msg" | "date" | "re" => {
                Some(mark(&format!("{} {}", entry.kind, entry.value)))
            }
            _ => None,
        }
    }

    /// The last one is not always the one that counts: those of some types are evaluated later.
    fn repeated(&self, entry: &Entry, before: &Value) -> Option<Value> {
        Some(mark(&format!("{before:?} {} {}", entry.kind, entry.value)))
    }

    /// The engine's text may be shorter, because marks are not: it may be any.
    fn too_long(&self, text: &str) -> Value {
        mark(text)
    }
}

fn mark(what: &str) -> Value {
    Value::from(format!("{MARK}{what}{MARK}"))
}

/// A digest of all variables of a scope.
fn digest(scope: &Env) -> u64 {
    let mut hasher = DefaultHasher::new();
    for variables in scope.scopes() {
        let mut names: Vec<_> = variables.iter().collect();
        names.sort_unstable_by_key(|(name, _)| *name);
        format!("{names:?}").hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// A node next to variables of its tab.
    fn runs(env: &[String]) -> Runs {
        let flows = format!(
            r#"[{{"id":"t","type":"tab","env":[{}]}},{{"id":"n","type":"other","z":"t","a":"${{X}}"}}]"#,
            env.join(",")
        );
        Runs::of(&FlowSet::parse(flows.as_bytes()).unwrap())
    }

    fn variable(name: &str, kind: &str, value: &str) -> String {
        format!(r#"{{"name":"{name}","type":"{kind}","value":"{value}"}}"#)
    }

    #[test]
    fn what_javascript_evaluates_by_rules_of_its_own_may_be_any_config_node() {
        let deep = format!("{}\\\"c\\\"{}", "[".repeat(200), "]".repeat(200));
        for odd in [
            r#"{"name":"X","type":"json","value":["\"c\""]}"#.to_owned(),
            r#"{"name":"X","type":"str","value":["c"]}"#.to_owned(),
            r#"{"name":"X","type":"env","value":["Y"]}"#.to_owned(),
            variable("X", "bin", "[354]"),
            variable("X", "bin", r#"\"c\""#),
            variable("X", "json", &deep),
            variable("X", "jsonata", "'c'"),
            [
                variable("X", "env", "${A}${B}"),
                variable("X", "str", "own"),
            ]
            .join(","),
        ] {
            assert!(
                !runs(std::slice::from_ref(&odd))
                    .get("n")
                    .unwrap()
                    .unresolved()
                    .is_empty(),
                "{odd}"
            );
        }
        for plain in [
            variable("X", "str", "c"),
            variable("X", "json", r#"\"c\""#),
            variable("X", "num", "5"),
        ] {
            assert!(
                runs(std::slice::from_ref(&plain))
                    .get("n")
                    .unwrap()
                    .unresolved()
                    .is_empty(),
                "{plain}"
            );
        }
    }

    #[test]
    fn variables_that_double_from_one_to_the_next_take_bounded_memory() {
        let twice = |n: usize| {
            let before = n.saturating_sub(1);
            variable(
                &format!("A{n}"),
                "env",
                &format!("${{A{before}}}${{A{before}}}"),
            )
        };
        let first = variable("A0", "str", &"x".repeat(1000));
        let mut env: Vec<String> = std::iter::once(first).chain((1..200).map(twice)).collect();
        env.push(variable("X", "env", "<${A199}>"));
        let runs = runs(&env);
        assert!(!runs.get("n").unwrap().unresolved().is_empty());
    }

    #[test]
    fn many_long_texts_of_variables_take_bounded_memory() {
        let long = variable("A", "str", &"x".repeat(60_000));
        let many = (0..3_000).map(|n| variable(&format!("B{n}"), "env", "${A}-"));
        let mut env: Vec<String> = std::iter::once(long).chain(many).collect();
        env.push(variable("X", "env", "${A}"));
        assert!(runs(&env).get("n").unwrap().unresolved().is_empty());
        env.push(variable("X", "env", "${A}-"));
        assert!(!runs(&env).get("n").unwrap().unresolved().is_empty());
    }

    #[test]
    fn a_text_that_only_the_policy_takes_for_too_long_may_be_any() {
        // The engine makes nothing of the expression, whose mark is long.
        let long = variable(
            "J",
            "jsonata",
            &format!("$substring('{}', 99999)", "x".repeat(70_000)),
        );
        let env = [long, variable("X", "env", "${J}broker")];
        assert!(!runs(&env).get("n").unwrap().unresolved().is_empty());
    }
}
