//! Groups of a flow: which surround which, and the variables they add
//! (docs/reference/node-red-engine.md §2.5).

use super::env::{Entry, Env};
use crate::Node;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;
use smol_str::SmolStr;
use std::rc::Rc;
use std::sync::Arc;

/// A group as its members see it.
pub struct Group {
    /// Itself and the groups around it, inner first, as running ids.
    pub chain: Rc<[SmolStr]>,
    /// Its variables, over those around it.
    pub env: Rc<Env>,
}

#[derive(Deserialize, Default)]
struct Properties {
    #[serde(default)]
    name: SmolStr,
    #[serde(default)]
    env: Vec<Entry>,
}

/// The groups among a flow's elements, by template id. `ids` turns template ids into running ones.
pub(super) fn of(
    children: &[&Arc<Node>],
    flow: &Rc<Env>,
    ids: Option<&FxHashMap<SmolStr, SmolStr>>,
) -> FxHashMap<SmolStr, Group> {
    let elements: FxHashMap<&str, &Arc<Node>> = children
        .iter()
        .filter(|n| n.kind == "group")
        .map(|n| (n.id.as_str(), *n))
        .collect();
    let mut groups = FxHashMap::default();
    let mut seen = FxHashSet::default();
    for id in elements.keys() {
        // Outwards, up to a group that is made already or, in a circle, one of these.
        let next = |inner: &&Arc<Node>| elements.get(inner.group.as_str()).copied();
        let chain = std::iter::successors(elements.get(id).copied(), next);
        let chain: Vec<_> = chain.take_while(|g| seen.insert(&g.id)).collect();
        for element in chain.into_iter().rev() {
            let outer = groups.get(&element.group);
            let group = group(element, outer, flow, ids);
            groups.insert(element.id.clone(), group);
        }
    }
    groups
}

fn group(
    element: &Node,
    outer: Option<&Group>,
    flow: &Rc<Env>,
    ids: Option<&FxHashMap<SmolStr, SmolStr>>,
) -> Group {
    let properties: Properties = serde_json::from_str(&element.text).unwrap_or_default();
    let id = ids.and_then(|i| i.get(&element.id)).unwrap_or(&element.id);
    let fixed = [
        ("NR_GROUP_ID", Some(id)),
        ("NR_GROUP_NAME", Some(&properties.name)),
    ];
    let env = Env::inside(
        outer.map_or(flow, |o| &o.env),
        &fixed,
        &[(&properties.env, None)],
    );
    let chain = std::iter::once(id.clone())
        .chain(outer.iter().flat_map(|o| o.chain.iter().cloned()))
        .collect();
    Group { chain, env }
}
