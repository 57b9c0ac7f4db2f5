//! Shared elements (config nodes on no tab, subflows and what is in them) and the flows that use them.

use flows::{ElementKind, FlowSet, Node};
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::collections::{HashMap, HashSet};

/// Where an element belongs.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'a> {
    /// On a tab.
    Flow(&'a SmolStr),
    /// Among the shared elements: itself, or the subflow that it is in.
    Shared(&'a SmolStr),
}

pub(super) fn place<'a>(node: &'a Node, flows: &FlowSet) -> Place<'a> {
    match node.part() {
        ElementKind::Tab => Place::Flow(&node.id),
        ElementKind::Subflow => Place::Shared(&node.id),
        ElementKind::Group | ElementKind::Config | ElementKind::Node => {
            if node.z.is_empty() {
                Place::Shared(&node.id)
            } else if flows.subflow(&node.z).is_some() {
                Place::Shared(&node.z)
            } else {
                Place::Flow(&node.z)
            }
        }
    }
}

/// Who refers to which shared elements. An element refers to another if any of its texts, however deep, is the id, or is
/// the type of its instances: more than those that Node-RED counts, and never fewer.
pub(super) struct References<'a> {
    /// By elements on flows: the flow, and the shared element.
    from_flows: Vec<(&'a SmolStr, &'a SmolStr)>,
    from_shared: HashMap<&'a SmolStr, Vec<&'a SmolStr>>,
}

impl<'a> References<'a> {
    /// Those in `flows`, also to elements that only the `other` flow set still has, or has already.
    pub(super) fn of(flows: &'a FlowSet, other: &'a FlowSet) -> Self {
        let mut found = Self {
            from_flows: Vec::new(),
            from_shared: HashMap::new(),
        };
        for node in flows.nodes() {
            for_each_text(node, |text| {
                let id = text.strip_prefix("subflow:").unwrap_or(text);
                let there = |of: &'a FlowSet| Some(place(of.get(id)?, of));
                let Some(target) = there(flows).or_else(|| there(other)) else {
                    return;
                };
                match (place(node, flows), target) {
                    (Place::Flow(flow), Place::Shared(shared)) => {
                        found.from_flows.push((flow, shared));
                    }
                    (Place::Shared(from), Place::Shared(shared)) if from != shared => {
                        found.from_shared.entry(from).or_default().push(shared);
                    }
                    (Place::Flow(_) | Place::Shared(_), _) => {}
                }
            });
        }
        found
    }

    /// The shared elements that such flows use, directly or through others. Linear.
    pub(super) fn used_by(&self, is: impl Fn(&SmolStr) -> bool) -> HashSet<&'a SmolStr> {
        let direct = self.from_flows.iter().filter(|(flow, _)| is(flow));
        let mut left: Vec<_> = direct.map(|(_, shared)| *shared).collect();
        let mut used = HashSet::new();
        while let Some(shared) = left.pop() {
            if used.insert(shared) {
                left.extend(self.from_shared.get(shared).into_iter().flatten());
            }
        }
        used
    }
}

/// All texts in an element, its keys too.
fn for_each_text(node: &Node, mut each: impl FnMut(&str)) {
    if node.text.contains('\\') {
        walk(&Json::Object(node.object()), &mut each);
        return;
    }
    // Nothing is escaped: every second piece between quotes is a text.
    node.text.split('"').skip(1).step_by(2).for_each(each);
}

fn walk(value: &Json, each: &mut impl FnMut(&str)) {
    match value {
        Json::String(text) => each(text),
        Json::Array(values) => values.iter().for_each(|value| walk(value, each)),
        Json::Object(object) => object.values().for_each(|value| walk(value, each)),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}
