//! Contexts that move from one thread of the engine to another, with the flows that they belong to.

use super::root::Root;
use super::{Contexts, Remembered, Store};
use smol_str::SmolStr;
use value::Value;

/// The context of a flow and those of its nodes, in one store, on their way to another thread.
#[derive(Debug)]
pub(crate) struct MovedFlow {
    /// The flow's id.
    pub flow: SmolStr,
    store: usize,
    own: Value,
    nodes: Vec<(SmolStr, Value)>,
}

impl Contexts {
    /// Takes the contexts of flows that do not stay here. Their nodes have closed. What was changed
    /// is given to the writer of the files.
    pub(crate) fn take(&mut self, stays: &dyn Fn(&str) -> bool) -> Vec<MovedFlow> {
        let mut taken = Vec::new();
        for (number, store) in self.stores.iter_mut().enumerate() {
            let leaves = store.flows.keys().filter(|flow| !stays(flow));
            let leaving: Vec<SmolStr> = leaves.cloned().collect();
            if !leaving.is_empty() {
                store.save(None);
            }
            for flow in leaving {
                let Some(Remembered { own, nodes }) = store.flows.remove(&flow) else {
                    continue;
                };
                // Contexts that end with their nodes do not move.
                let nodes = nodes.into_iter().filter(|_| !self.passing);
                taken.push(MovedFlow {
                    flow,
                    store: number,
                    own: own.into_values(),
                    nodes: nodes.map(|(id, root)| (id, root.into_values())).collect(),
                });
            }
        }
        taken
    }

    /// Takes over the context of a flow from another thread.
    pub(crate) fn put(&mut self, moved: MovedFlow) {
        if let Some(store) = self.stores.get_mut(moved.store) {
            store.put(moved);
        }
    }
}

impl Store {
    fn put(&mut self, moved: MovedFlow) {
        let nodes = moved.nodes.into_iter();
        let context = Remembered {
            own: Root::from(moved.own),
            nodes: nodes.map(|(id, values)| (id, Root::from(values))).collect(),
        };
        self.flows.insert(moved.flow, context);
    }
}
