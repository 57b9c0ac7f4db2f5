//! Builds the running graph of a flow set from its tabs, groups, config nodes and subflow instances
//! (docs/reference/node-red-engine.md §2).

use super::elements::{Elements, Scope, scope};
use super::env::{Env, Evaluator};
use super::expand::{Expander, Instance};
use super::graph::{Flow, Graph, Role, Running};
use super::groups;
use crate::{Credentials, ElementKind, FlowSet, Node};
use rustc_hash::{FxHashMap, FxHashSet};
use smol_str::SmolStr;
use std::rc::Rc;
use std::sync::Arc;

/// A part of a flow set: whether a tab, or a global config node, is in it.
pub type InPart<'a> = &'a dyn Fn(&str) -> bool;

/// Builds the graph of a flow set, or of a part of it.
pub fn build(
    flows: &FlowSet,
    part: Option<InPart<'_>>,
    credentials: &Credentials,
    evaluator: &Rc<dyn Evaluator>,
) -> Graph {
    let builder = Builder {
        flows,
        part,
        elements: Elements::of(flows, credentials),
        graph: Graph::default(),
        evaluator: &**evaluator,
    };
    builder.build(&Env::root(evaluator))
}

/// Returns whether a node is one of those whose variables all flows have: a `global-config` that is
/// a config node on no tab and in no subflow.
pub fn is_root_config(node: &Node, flows: &FlowSet) -> bool {
    let has_container = || {
        let around = flows.get(&node.z).map(|around| around.part());
        matches!(around, Some(ElementKind::Tab | ElementKind::Subflow))
    };
    node.kind == "global-config" && !node.placed && !has_container()
}

struct Builder<'a> {
    flows: &'a FlowSet,
    part: Option<InPart<'a>>,
    elements: Elements<'a>,
    graph: Graph,
    evaluator: &'a dyn Evaluator,
}

impl Builder<'_> {
    fn build(mut self, process: &Rc<Env>) -> Graph {
        let root = self.root_env(process);
        self.graph.flows.push(Flow {
            id: SmolStr::default(),
            path: SmolStr::default(),
            parent: None,
            env: Rc::clone(&root),
            status_port: false,
            groups: FxHashMap::default(),
        });
        let globals = self.elements.children.remove("").unwrap_or_default();
        // A placed node without a container is never started (docs/reference/node-red-engine.md
        // §2.1).
        for node in globals.into_iter().filter(|n| !n.placed && !n.disabled) {
            if self.is_here(&node.id) {
                self.plain(node, 0);
            }
        }
        for tab in self.tabs() {
            if let Some(scope) = tab.1
                && self.is_here(&tab.0)
            {
                self.tab(&tab.0, &scope, &root);
            }
        }
        self.graph
    }

    /// Returns whether a tab, or a global config node, is in the part.
    fn is_here(&self, id: &str) -> bool {
        self.part.is_none_or(|is_in| is_in(id))
    }

    /// Tabs in order; a `z` that is neither tab nor subflow makes an implicit one
    /// (docs/reference/node-red-engine.md §2.1).
    fn tabs(&self) -> Vec<(SmolStr, Option<Scope>)> {
        let mut seen = FxHashSet::default();
        let mut tabs = Vec::new();
        for node in self.flows.nodes() {
            if node.kind == "tab" {
                if seen.insert(node.id.clone()) {
                    let scope = (!node.disabled).then(|| scope(node, self.evaluator));
                    tabs.push((node.id.clone(), scope));
                }
            } else if !node.z.is_empty() && self.implicit(&node.z) && seen.insert(node.z.clone()) {
                tabs.push((node.z.clone(), Some(Scope::default())));
            }
        }
        tabs
    }

    fn implicit(&self, z: &str) -> bool {
        !self.elements.definitions.contains_key(z)
            && self.flows.get(z).is_none_or(|n| n.kind != "tab")
    }

    fn tab(&mut self, id: &SmolStr, scope: &Scope, root: &Rc<Env>) {
        let env = Env::inside(
            root,
            &[
                ("NR_FLOW_ID", Some(id)),
                ("NR_FLOW_NAME", Some(&scope.label)),
            ],
            &[(&scope.env, self.elements.credentials.nodes.get(id))],
        );
        let children = self
            .elements
            .children
            .remove(id.as_str())
            .unwrap_or_default();
        let groups = groups::of(&children, &env, None);
        let flow = self.graph.flows.len();
        self.graph.flows.push(Flow {
            id: id.clone(),
            path: id.clone(),
            parent: None,
            env,
            status_port: false,
            groups,
        });
        let running = children
            .into_iter()
            .filter(|n| !n.disabled && n.kind != "group");
        // Config nodes first.
        let (placed, unplaced): (Vec<_>, Vec<_>) = running.partition(|n| n.placed);
        for node in unplaced.into_iter().chain(placed) {
            if node.placed && node.kind.starts_with("subflow:") {
                self.instance(node, flow);
            } else {
                self.plain(node, flow);
            }
        }
    }

    /// A subflow instance on a tab, with everything in it.
    fn instance(&mut self, node: &Arc<Node>, flow: usize) {
        let instance = Instance {
            id: &node.id,
            node,
            flow,
            outer: node.wires.iter().map(|w| w.to_vec()).collect(),
            env: Rc::clone(self.graph.flows[flow].env(&node.group)),
        };
        let mut expander = Expander {
            elements: &self.elements,
            graph: &mut self.graph,
            evaluator: self.evaluator,
        };
        expander.instance(&instance, 0);
    }

    fn plain(&mut self, node: &Arc<Node>, flow: usize) {
        self.graph.nodes.push(Running {
            id: node.id.clone(),
            node: Arc::clone(node),
            flow,
            role: Role::Plain,
            wires: None,
        });
    }

    /// Variables of all global `global-config` nodes, later ones over earlier ones, over those of
    /// the process. One on a tab or in a subflow counts for nothing, as in Node-RED: it belongs to
    /// those who may change that flow.
    fn root_env(&self, process: &Rc<Env>) -> Rc<Env> {
        let nodes = self.flows.nodes().iter();
        let configs = nodes.filter(|node| !node.disabled && is_root_config(node, self.flows));
        let layers: Vec<_> = configs
            .map(|node| {
                let credentials = self.elements.credentials.nodes.get(&node.id);
                let map = credentials.and_then(|c| c.get("map"));
                let map = map.and_then(|map| map.as_object());
                (scope(node, self.evaluator).env, map.or(credentials))
            })
            .collect();
        if layers.is_empty() {
            return Rc::clone(process);
        }
        let layers: Vec<_> = layers
            .iter()
            .map(|(env, credentials)| (env.as_slice(), *credentials))
            .collect();
        Env::inside(process, &[], &layers)
    }
}
