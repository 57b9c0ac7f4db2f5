//! Expands subflow instances into the running graph: the nodes inside, their ids and their wires
//! (docs/reference/node-red-engine.md §2.6).

use super::elements::{Definition, Elements, Feed, scope};
use super::env::{Env, Evaluator};
use super::graph::{Flow, Graph, Role, Running, Wires};
use super::groups;
use crate::{DEPTH, Node};
use rustc_hash::FxHashMap;
use smol_str::{SmolStr, format_smolstr};
use std::rc::Rc;
use std::sync::Arc;

/// Outputs of a node, at most, that a subflow's output may name.
const MAX_PORTS: usize = 1024;

/// A subflow instance about to be expanded.
pub(super) struct Instance<'a> {
    pub id: &'a SmolStr,
    pub node: &'a Arc<Node>,
    pub flow: usize,
    pub outer: Wires,
    pub env: Rc<Env>,
}

impl Instance<'_> {
    /// The id of its subflow.
    fn template(&self) -> &str {
        self.node.instance_of().unwrap_or_default()
    }
}

/// The flow of an instance, and the running ids of the nodes in it.
struct Inside {
    flow: usize,
    ids: Rc<FxHashMap<SmolStr, SmolStr>>,
}

/// Adds subflow instances to a graph.
pub(super) struct Expander<'e, 'a> {
    pub elements: &'e Elements<'a>,
    pub graph: &'e mut Graph,
    pub evaluator: &'e dyn Evaluator,
}

impl<'a> Expander<'_, 'a> {
    /// Adds an instance and all that runs inside it. `depth` counts the instances around it.
    pub(super) fn instance(&mut self, instance: &Instance<'_>, depth: usize) {
        let template = instance.template();
        let Some((element, Some(definition))) = self.elements.definitions.get(template) else {
            return;
        };
        let (element, definition) = (Arc::clone(element), Rc::clone(definition));
        // No flow set can have more.
        if depth >= DEPTH {
            return;
        }
        let children = self
            .elements
            .children
            .get(template)
            .cloned()
            .unwrap_or_default();
        let ids: FxHashMap<SmolStr, SmolStr> = children
            .iter()
            .map(|c| (c.id.clone(), format_smolstr!("{}-{}", instance.id, c.id)))
            .collect();
        let inside = self.inner_flow(instance, &definition, &children, &ids);
        self.graph.nodes.push(Running {
            id: instance.id.clone(),
            node: Arc::clone(instance.node),
            flow: instance.flow,
            role: Role::Instance,
            wires: Some(vec![input_wires(&definition, template, instance, &ids)]),
        });
        let inner = Inside {
            flow: inside,
            ids: Rc::new(ids),
        };
        let runs = |n: &&Arc<Node>| !n.disabled && n.kind != "group";
        let (placed, config): (Vec<_>, Vec<_>) =
            children.into_iter().filter(runs).partition(|n| n.placed);
        for node in config.into_iter().chain(placed) {
            let wires = inner_wires(node, &definition, instance, &inner.ids);
            self.inner(node, &inner, wires, depth);
        }
        if definition.status.is_some() {
            self.graph.nodes.push(Running {
                id: format_smolstr!("{}:status", instance.id),
                node: Arc::new(Node {
                    id: element.id.clone(),
                    kind: "subflow-status".into(),
                    text: element.text.clone(),
                    ..Node::default()
                }),
                flow: inside,
                role: Role::StatusPort(instance.id.clone()),
                wires: Some(Vec::new()),
            });
        }
    }

    /// Adds one node inside an instance.
    fn inner(&mut self, node: &'a Arc<Node>, inside: &Inside, wires: Wires, depth: usize) {
        let Inside { flow, ids } = inside;
        let id = ids.get(&node.id).cloned().unwrap_or_default();
        if node.kind.starts_with("subflow:") {
            let env = Rc::clone(self.graph.flows[*flow].env(&node.group));
            let nested = Instance {
                id: &id,
                node,
                flow: *flow,
                outer: wires,
                env,
            };
            return self.instance(&nested, depth + 1);
        }
        self.graph.nodes.push(Running {
            id,
            node: Arc::clone(node),
            flow: *flow,
            role: Role::Inner(Rc::clone(ids)),
            wires: Some(wires),
        });
    }

    /// Variables of a subflow: those of the instance over those of the definition
    /// (docs/reference/node-red-engine.md §2.5).
    fn inner_flow(
        &mut self,
        instance: &Instance<'_>,
        definition: &Definition,
        children: &[&'a Arc<Node>],
        ids: &FxHashMap<SmolStr, SmolStr>,
    ) -> usize {
        let own = scope(instance.node, self.evaluator);
        let outer = &self.graph.flows[instance.flow];
        let path = format_smolstr!("{}/{}", outer.path, instance.node.id);
        let credentials = |id: &str| self.elements.credentials.nodes.get(id);
        let env = Env::inside(
            &instance.env,
            &[
                ("NR_SUBFLOW_ID", Some(instance.id)),
                ("NR_SUBFLOW_NAME", own.name.as_ref()),
                ("NR_SUBFLOW_PATH", Some(&path)),
            ],
            &[
                (&definition.env, credentials(instance.template())),
                (&own.env, credentials(&instance.node.id)),
            ],
        );
        let groups = groups::of(children, &env, Some(ids));
        self.graph.flows.push(Flow {
            id: instance.id.clone(),
            path,
            parent: Some(instance.flow),
            env,
            status_port: definition.status.is_some(),
            groups,
        });
        self.graph.flows.len() - 1
    }
}

/// The targets of an instance's input: the wires of `in[0]`, and for an output wired straight to
/// the input the instance's own targets.
fn input_wires(
    definition: &Definition,
    template: &str,
    instance: &Instance<'_>,
    ids: &FxHashMap<SmolStr, SmolStr>,
) -> Vec<SmolStr> {
    let input = definition.inputs.first().into_iter().flat_map(|p| &p.wires);
    let mut targets: Vec<SmolStr> = input.filter_map(|w| ids.get(&w.id).cloned()).collect();
    for (output, port) in definition.outputs.iter().enumerate() {
        if port.wires.iter().any(|w| w.id == template) {
            targets.extend(instance.outer.get(output).into_iter().flatten().cloned());
        }
    }
    targets
}

/// The wires of a node inside: its own, plus the instance's targets where an output of the subflow
/// is fed by it.
fn inner_wires(
    node: &Node,
    definition: &Definition,
    instance: &Instance<'_>,
    ids: &FxHashMap<SmolStr, SmolStr>,
) -> Wires {
    let own = node.wires.iter();
    let mut wires: Wires = own
        .map(|w| w.iter().filter_map(|id| ids.get(id).cloned()).collect())
        .collect();
    let mut append = |port: usize, targets: &[SmolStr]| {
        if let Some(output) = wires.get_mut(port) {
            output.extend(targets.iter().cloned());
        } else if port < MAX_PORTS {
            wires.resize(port + 1, Vec::new());
            wires[port].extend(targets.iter().cloned());
        }
    };
    for Feed { port, output } in definition.feeds(&node.id) {
        match output {
            Some(output) => append(
                *port,
                instance.outer.get(*output).map_or(&[], Vec::as_slice),
            ),
            None => append(*port, &[format_smolstr!("{}:status", instance.id)]),
        }
    }
    wires
}
