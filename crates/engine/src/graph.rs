//! The running graph of a flow set: which nodes run, in which flow, in which order, wired to what.

use super::env::Env;
use super::groups::Group;
use super::node_info::Container;
use flows::Node;
use rustc_hash::FxHashMap;
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
    /// Its part in the graph.
    pub role: Role,
    /// Its wires, if they are not those of the element.
    pub wires: Option<Wires>,
}

/// The part that a running node has in the graph.
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
    /// What a node of this flow in this group is in.
    pub(super) fn container(&self, group: &str) -> Rc<Container> {
        let groups = self.groups.get(group).map(|g| Rc::clone(&g.chain));
        Rc::new(Container {
            z: self.id.clone(),
            path: self.path.clone(),
            groups: groups.unwrap_or_default(),
            env: Rc::clone(self.env(group)),
        })
    }

    /// Variables that a node in this group sees.
    pub(super) fn env(&self, group: &str) -> &Rc<Env> {
        self.groups.get(group).map_or(&self.env, |g| &g.env)
    }
}
