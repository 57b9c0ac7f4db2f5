//! The running graph of a flow set: which nodes run, in which flow, in which order, wired to what.
//!
//! Knows tabs, groups, config nodes and subflow instances (docs/reference/node-red-engine.md §2); starts nothing.

use super::env::{Entry as EnvEntry, Env};
use super::groups::{self, Group};
use crate::subflow_expand::{Definition, Instance};
use flows::{Credentials, FlowSet, HiddenVariables, Node};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;
use smol_str::SmolStr;
use std::rc::Rc;
use std::sync::Arc;

/// Targets by output, as running ids.
pub(super) type Wires = Vec<Vec<SmolStr>>;

/// Everything that runs.
#[derive(Default)]
pub(super) struct Graph {
    /// Flow 0 is the global one.
    pub flows: Vec<Flow>,
    /// Nodes in the order in which they start.
    pub nodes: Vec<Running>,
}

/// A tab, a subflow instance, or the global flow.
pub(super) struct Flow {
    /// Id of the tab or instance; empty: global.
    pub id: SmolStr,
    /// Ids from the tab down, joined by `/`.
    pub path: SmolStr,
    /// The flow that holds the instance.
    pub parent: Option<usize>,
    /// Its variables.
    pub env: Rc<Env>,
    /// A subflow with a status output keeps its nodes' status inside.
    pub status_port: bool,
    /// Its groups, by template id.
    pub groups: FxHashMap<SmolStr, Group>,
}

/// A node that runs.
pub(super) struct Running {
    /// Its id in the running graph.
    pub id: SmolStr,
    /// Its element in the flow set.
    pub node: Arc<Node>,
    /// Index of its flow.
    pub flow: usize,
    /// What it is beside its type.
    pub role: Role,
    /// Its wires, if they are not those of the element.
    pub wires: Option<Wires>,
}

/// What a running node is.
#[derive(Clone)]
pub(super) enum Role {
    /// An ordinary node.
    Plain,
    /// A node inside a subflow instance: template ids become running ids.
    Inner(Rc<FxHashMap<SmolStr, SmolStr>>),
    /// A subflow instance: passes on to the inputs inside.
    Instance,
    /// The status output of the instance of that id.
    StatusPort(SmolStr),
}

impl Running {
    /// Targets by output, as running ids.
    pub(super) fn wires(&self) -> impl Iterator<Item = &[SmolStr]> {
        let own = self.wires.as_deref().map(|w| w.iter().map(Vec::as_slice));
        let element = self
            .wires
            .is_none()
            .then(|| self.node.wires.iter().map(|w| &w[..]));
        own.into_iter()
            .flatten()
            .chain(element.into_iter().flatten())
    }
}

impl Flow {
    /// Groups around a node of this flow, inner first.
    pub(super) fn groups(&self, group: &str) -> Rc<[SmolStr]> {
        self.groups
            .get(group)
            .map_or_else(|| Rc::from([]), |g| Rc::clone(&g.chain))
    }

    /// Variables that a node in this group sees.
    pub(super) fn env(&self, group: &str) -> &Rc<Env> {
        self.groups.get(group).map_or(&self.env, |g| &g.env)
    }
}

/// The name and the variables of a tab, instance or `global-config`.
#[derive(Deserialize, Default)]
pub(super) struct Scope {
    #[serde(default)]
    pub label: SmolStr,
    #[serde(default)]
    pub name: SmolStr,
    #[serde(default)]
    pub env: Vec<EnvEntry>,
}

/// Builds the graph of a flow set; `hidden`: variables of the process that its nodes do not see.
pub(super) fn build(flows: &FlowSet, credentials: &Credentials, hidden: &HiddenVariables) -> Graph {
    Builder::new(flows, credentials).build(&Env::root(hidden))
}

pub(super) struct Builder<'a> {
    flows: &'a FlowSet,
    pub credentials: &'a Credentials,
    pub children: FxHashMap<&'a str, Vec<&'a Arc<Node>>>,
    pub definitions: FxHashMap<&'a str, (&'a Arc<Node>, Option<Rc<Definition>>)>,
    pub graph: Graph,
}

impl<'a> Builder<'a> {
    fn new(flows: &'a FlowSet, credentials: &'a Credentials) -> Self {
        let mut children: FxHashMap<&str, Vec<&Arc<Node>>> = FxHashMap::default();
        let mut definitions = FxHashMap::default();
        for node in flows.nodes() {
            match node.kind.as_str() {
                "tab" => {}
                "subflow" => {
                    let parsed = serde_json::from_str(&node.text).ok().map(Rc::new);
                    definitions.insert(node.id.as_str(), (node, parsed));
                }
                _ => children.entry(node.z.as_str()).or_default().push(node),
            }
        }
        Self {
            flows,
            credentials,
            children,
            definitions,
            graph: Graph::default(),
        }
    }

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
        let globals = self.children.remove("").unwrap_or_default();
        // A placed node without a container is never started (docs/reference/node-red-engine.md §2.1).
        for node in globals.into_iter().filter(|n| !n.placed && !n.disabled) {
            self.plain(node, 0);
        }
        for tab in self.tabs() {
            if let Some(scope) = tab.1 {
                self.tab(&tab.0, &scope, &root);
            }
        }
        self.graph
    }

    /// Tabs in order; a `z` that is neither tab nor subflow makes an implicit one
    /// (docs/reference/node-red-engine.md §2.1).
    fn tabs(&self) -> Vec<(SmolStr, Option<Scope>)> {
        let mut seen = FxHashSet::default();
        let mut tabs = Vec::new();
        for node in self.flows.nodes() {
            if node.kind == "tab" {
                if seen.insert(node.id.clone()) {
                    let scope = (!node.disabled).then(|| scope(node));
                    tabs.push((node.id.clone(), scope));
                }
            } else if !node.z.is_empty() && self.implicit(&node.z) && seen.insert(node.z.clone()) {
                tabs.push((node.z.clone(), Some(Scope::default())));
            }
        }
        tabs
    }

    fn implicit(&self, z: &str) -> bool {
        !self.definitions.contains_key(z) && self.flows.get(z).is_none_or(|n| n.kind != "tab")
    }

    fn tab(&mut self, id: &SmolStr, scope: &Scope, root: &Rc<Env>) {
        let env = Env::inside(
            root,
            &[("NR_FLOW_ID", id), ("NR_FLOW_NAME", &scope.label)],
            &[(&scope.env, self.credentials.nodes.get(id))],
        );
        let children = self.children.remove(id.as_str()).unwrap_or_default();
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
        let running = |n: &&Arc<Node>| !n.disabled && n.kind != "group";
        for node in children
            .iter()
            .copied()
            .filter(running)
            .filter(|n| !n.placed)
        {
            self.plain(node, flow);
        }
        for node in children
            .iter()
            .copied()
            .filter(running)
            .filter(|n| n.placed)
        {
            if node.kind.starts_with("subflow:") {
                let outer = node.wires.iter().map(|w| w.to_vec()).collect();
                let env = Rc::clone(self.graph.flows[flow].env(&node.group));
                self.instance(
                    &Instance {
                        id: &node.id,
                        node,
                        flow,
                        outer,
                        env,
                    },
                    0,
                );
            } else {
                self.plain(node, flow);
            }
        }
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

    /// Variables of `global-config` over those of the process.
    fn root_env(&self, process: &Rc<Env>) -> Rc<Env> {
        let config = self
            .flows
            .nodes()
            .iter()
            .rfind(|n| n.kind == "global-config" && !n.disabled);
        let Some(node) = config else {
            return Rc::clone(process);
        };
        let credentials = self.credentials.nodes.get(&node.id);
        let map = credentials
            .and_then(|c| c.get("map"))
            .and_then(|m| m.as_object());
        Env::inside(process, &[], &[(&scope(node).env, map.or(credentials))])
    }
}

/// What an element says of its name and variables; nothing if that is malformed.
pub(super) fn scope(node: &Node) -> Scope {
    serde_json::from_str(&node.text).unwrap_or_else(|error| {
        tracing::warn!(node = %node.id, %error, "the element's name or env is malformed and is ignored");
        Scope::default()
    })
}
