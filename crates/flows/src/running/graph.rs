//! The running graph of a flow set: which nodes run, in which flow, in which order, wired to what.

use super::env::Env;
use super::groups::Group;
use crate::Node;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use std::rc::Rc;
use std::sync::Arc;
use value::Value;

/// Targets by output, as running ids.
pub type Wires = Vec<Vec<SmolStr>>;

/// Everything that runs.
#[derive(Default)]
pub struct Graph {
    /// Flow 0 is the global one.
    pub flows: Vec<Flow>,
    /// Nodes in the order in which they start.
    pub nodes: Vec<Running>,
}

/// A tab, a subflow instance, or the global flow.
pub struct Flow {
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
pub struct Running {
    /// Its id in the running graph.
    pub id: SmolStr,
    /// Its element in the flow set.
    pub node: Arc<Node>,
    /// Index of its flow.
    pub flow: usize,
    /// Its part in the graph.
    pub role: Role,
    /// Its wires, if they are not those of the element.
    pub wires: Option<Wires>,
}

/// The part that a running node has in the graph.
#[derive(Clone)]
pub enum Role {
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
    pub fn wires(&self) -> impl Iterator<Item = &[SmolStr]> {
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

impl Graph {
    /// The tab of a running node; `None`: a global config node.
    pub fn tab(&self, running: &Running) -> Option<&SmolStr> {
        let mut flow = self.flows.get(running.flow)?;
        while let Some(outer) = flow.parent.and_then(|parent| self.flows.get(parent)) {
            flow = outer;
        }
        (!flow.id.is_empty()).then_some(&flow.id)
    }

    /// A variable as a running node's properties see it (docs/reference/node-red-engine.md §2.5).
    pub fn variable(&self, running: &Running, name: &str) -> Value {
        let Some(flow) = self.flows.get(running.flow) else {
            return Value::Undefined;
        };
        match name {
            "NR_NODE_ID" => Value::String(running.id.clone()),
            "NR_NODE_PATH" => Value::from(format!("{}/{}", flow.path, running.node.id)),
            _ => flow.env(&running.node.group).lookup(name),
        }
    }
}

impl Flow {
    /// The groups around a node of this group, inner first, as running ids.
    pub fn groups(&self, group: &str) -> Rc<[SmolStr]> {
        let groups = self.groups.get(group).map(|g| Rc::clone(&g.chain));
        groups.unwrap_or_default()
    }

    /// Variables that a node in this group sees.
    pub fn env(&self, group: &str) -> &Rc<Env> {
        self.groups.get(group).map_or(&self.env, |g| &g.env)
    }
}
