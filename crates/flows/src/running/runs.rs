//! What a flow set runs, as far as it is known before it runs: every node with its variables
//! resolved, and the flow that it belongs to. Resolved by what the engine itself uses.
//!
//! A variable of the process, a credential, an expression and the like have a mark as their value:
//! the property may turn out to be anything.

use super::build::build;
use super::env::{Entry, Env, Evaluator};
use super::graph::{Graph, Running};
use super::keys::each_key;
use super::resolve::{may_name_variables, of as resolved};
use crate::{Credentials, ElementKind, FlowSet, Node};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Map, Value as Json};
use smol_str::SmolStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;
use value::Value;

/// Begins and ends the mark of a value that is not known. A text with this character counts as one.
const MARK: char = '\0';

/// Everything that a flow set runs.
#[derive(Debug, Default)]
pub struct Runs {
    nodes: FxHashMap<SmolStr, RunningNode>,
}

/// A node that runs.
#[derive(Debug)]
pub struct RunningNode {
    /// Its element.
    pub node: Arc<Node>,
    /// Its tab; `None`: it is on none.
    pub tab: Option<SmolStr>,
    /// The element on its tab that makes it run: itself, or an instance of a subflow.
    pub outermost: SmolStr,
    /// True if it is inside an instance of a subflow.
    pub is_inside: bool,
    /// Its targets, if they are not those of its element.
    wires: Option<Vec<Vec<SmolStr>>>,
    /// Its properties, if they are not those of its element.
    resolved: Option<Resolved>,
}

/// The properties of a node with variables.
#[derive(Debug)]
struct Resolved {
    properties: Map<String, Json>,
    unresolved: Vec<Unresolved>,
}

/// A reference to a config node that is not known before the node runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Unresolved {
    /// The type that the config node must have; `None`: any.
    pub kind: Option<&'static str>,
    /// The value with its marks.
    value: String,
}

impl Unresolved {
    /// Returns whether an element may turn out to be the one that is referred to.
    pub fn may_be(&self, node: &Node) -> bool {
        let fits = self.kind.is_none_or(|kind| kind == node.kind);
        fits && node.part() == ElementKind::Config
    }
}

impl Runs {
    /// Resolves a flow set. Linear in the number of nodes that it runs.
    pub fn of(flows: &FlowSet) -> Self {
        let evaluator: Rc<dyn Evaluator> = Rc::new(Marks);
        let graph = build(flows, None, &Credentials::default(), &evaluator);
        let nodes = graph.nodes.iter();
        let nodes = nodes.map(|running| (running.id.clone(), RunningNode::of(running, &graph)));
        Self {
            nodes: nodes.collect(),
        }
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
        nodes.filter(|node| node.resolved.is_some())
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

impl RunningNode {
    fn of(running: &Running, graph: &Graph) -> Self {
        let tab = graph.tab(running).cloned();
        let mut outermost = &running.id;
        let mut flow = &graph.flows[running.flow];
        while let Some(parent) = flow.parent {
            outermost = &flow.id;
            flow = &graph.flows[parent];
        }
        let is_written = running.wires.is_none() && !may_name_variables(&running.node.text);
        let properties = (!is_written).then(|| {
            let text = resolved(running, &|name| graph.variable(running, name));
            serde_json::from_str(&text).unwrap_or_default()
        });
        Self {
            node: Arc::clone(&running.node),
            tab,
            is_inside: *outermost != running.id,
            outermost: outermost.clone(),
            wires: running.wires.clone(),
            resolved: properties.map(|properties| Resolved::of(&running.node.kind, properties)),
        }
    }

    /// The values in the properties, as ids.
    pub fn each_key(&self, mut see: impl FnMut(&str)) {
        for value in self.resolved.iter().flat_map(|r| r.properties.values()) {
            each_key(value, &mut |key| {
                if !key.contains(MARK) {
                    see(key);
                }
            });
        }
    }

    /// Returns whether a value in the properties is one of these ids.
    fn names_any(&self, ids: &FxHashSet<&SmolStr>) -> bool {
        if ids.is_empty() {
            return false;
        }
        let written = self.resolved.is_none().then(|| self.node.object());
        let properties = self.properties().into_iter().chain(&written);
        let mut names = false;
        for value in properties.flat_map(Map::values) {
            each_key(value, &mut |key| names |= ids.contains(&SmolStr::new(key)));
        }
        names
    }

    /// The references to config nodes that are not known.
    pub fn unresolved(&self) -> &[Unresolved] {
        self.resolved.as_ref().map_or(&[], |r| &r.unresolved)
    }

    fn properties(&self) -> Option<&Map<String, Json>> {
        self.resolved.as_ref().map(|resolved| &resolved.properties)
    }

    /// Returns whether both are the same for all that can be known.
    fn same(&self, other: &Self) -> bool {
        self.tab == other.tab
            && self.wires == other.wires
            && (Arc::ptr_eq(&self.node, &other.node) || self.node.same_content(&other.node))
            && self.properties() == other.properties()
    }
}

impl Resolved {
    fn of(kind: &str, properties: Map<String, Json>) -> Self {
        let known = config_properties(kind);
        let mut unresolved = Vec::new();
        for (name, value) in &properties {
            if matches!(
                name.as_str(),
                "id" | "type" | "z" | "g" | "wires" | "name" | "info"
            ) {
                continue;
            }
            let wanted = match known {
                None => vec![None],
                Some(known) => {
                    let of_property = known.iter().filter(|(property, _)| property == name);
                    of_property.map(|(_, kind)| Some(*kind)).collect()
                }
            };
            if wanted.is_empty() {
                continue;
            }
            each_key(value, &mut |key| {
                if key.contains(MARK) {
                    unresolved.extend(wanted.iter().map(|kind| Unresolved {
                        kind: *kind,
                        value: key.to_owned(),
                    }));
                }
            });
        }
        Self {
            properties,
            unresolved,
        }
    }
}

/// The properties of a type of the core palette that name config nodes, each with their type;
/// `None`: the type is not of the palette, and any property may.
fn config_properties(kind: &str) -> Option<&'static [(&'static str, &'static str)]> {
    const TLS: (&str, &str) = ("tls", "tls-config");
    Some(match kind {
        "mqtt in" | "mqtt out" => &[("broker", "mqtt-broker")],
        "websocket in" | "websocket out" => &[
            ("server", "websocket-listener"),
            ("client", "websocket-client"),
        ],
        "http request" => &[TLS, ("proxy", "http proxy")],
        "mqtt-broker" | "websocket-client" | "tcp in" | "tcp out" | "tcp request" => &[TLS],
        "batch" | "catch" | "change" | "comment" | "complete" | "csv" | "debug" | "delay"
        | "exec" | "file" | "file in" | "function" | "global-config" | "html" | "http in"
        | "http proxy" | "http response" | "inject" | "join" | "json" | "junction"
        | "link call" | "link in" | "link out" | "range" | "rbe" | "sort" | "split" | "status"
        | "switch" | "template" | "tls-config" | "trigger" | "udp in" | "udp out" | "unknown"
        | "watch" | "websocket-listener" | "xml" | "yaml" | "subflow-status" => &[],
        // The variables of an instance are in what is inside.
        _ if kind.starts_with("subflow:") => &[],
        _ => return None,
    })
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
