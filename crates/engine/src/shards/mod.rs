//! Which engine runs which flows of a flow set that several engines share: each runs its shard, and
//! has all other flows as if they were disabled.
//!
//! [`Places`] has where tabs are to run, [`Shards`] where everything of a flow set runs: what is
//! joined stays together, and all that has no place is in the main shard.

use crate::http::{Endpoints, METHODS, Rank};
use crate::instance::Instance;
use crate::threads::partition::{Group, partition};
use crate::threads::placement::Placement;
use flows::{ElementKind, FlowSet, Node, Places};
use hyper::Method;
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The number of the main shard.
const MAIN: usize = 0;

/// Characters of a name that a message shows. Our choice, as for those of policies.
const SHOWN: usize = 64;

/// Flows that cannot be where they are to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misplaced {
    /// Their ids.
    pub tabs: Vec<SmolStr>,
    /// A sentence for the user.
    pub message: String,
}

/// The shards of a flow set.
#[derive(Debug, Default)]
pub struct Shards {
    placement: Placement,
    /// By number: the main one has the empty name.
    names: Vec<String>,
    misplaced: Vec<Misplaced>,
}

impl Shards {
    /// Those of a flow set. What cannot be where it is to be is in the main shard.
    pub fn of(flows: &Arc<FlowSet>, places: &Places) -> Self {
        let names: Vec<String> = [""]
            .into_iter()
            .chain(places.shards())
            .map(str::to_owned)
            .collect();
        let own_globals = flows.tabs().filter(|tab| places.has_own_globals(tab));
        let own_globals: FxHashSet<&str> = own_globals.map(|tab| tab.id.as_str()).collect();
        let (mut shards, mut misplaced) = (FxHashMap::default(), Vec::new());
        for group in partition(flows, places.hosts_functions, &own_globals) {
            match shard_of(&group, flows, places) {
                Ok("") => {}
                Ok(name) => {
                    let number = names.iter().position(|other| other == name);
                    let number = number.unwrap_or(MAIN);
                    let members = group.members.into_iter();
                    shards.extend(members.map(|(id, _)| (id, number)));
                }
                Err(found) => misplaced.push(found),
            }
        }
        let mut shards = Self {
            placement: Placement::new(flows, shards),
            names,
            misplaced,
        };
        let variable = |(_, _, path): &(usize, String, String)| path.contains("${");
        if let Some((_, _, path)) = shards.placed_endpoints().into_iter().find(variable) {
            let path: String = path.chars().take(SHOWN).collect();
            shards.misplaced.push(Misplaced {
                tabs: Vec::new(),
                message: format!(
                    "the endpoint {path:?} is in a flow of cluster.place, where the path of an endpoint cannot have variables"
                ),
            });
        }
        shards
    }

    /// The shard of a tab, a node, a subflow instance, or of a node inside an instance; empty: the
    /// main one.
    pub fn of_element(&self, id: &str) -> &str {
        self.name(self.placement.thread_of(id))
    }

    fn name(&self, number: usize) -> &str {
        self.names.get(number).map_or("", String::as_str)
    }

    /// What cannot be where it is to be, or would move with these flows in place of those before: a
    /// flow moves only when its place does.
    pub fn refused(&self, before: &Self) -> Vec<Misplaced> {
        let new = self
            .misplaced
            .iter()
            .filter(|found| !before.misplaced.contains(found));
        let moved = self.placement.flows().tabs().filter_map(|tab| {
            before.placement.flows().get(&tab.id)?;
            let (from, to) = (before.of_element(&tab.id), self.of_element(&tab.id));
            let message = || {
                let name = shown(tab);
                format!(
                    "the flow {name} would move from {} to {}: its context stays behind. Change its place first, in \
                     cluster.place of all members, by its id if its label changes",
                    shard(from),
                    shard(to)
                )
            };
            (from != to).then(|| Misplaced {
                tabs: vec![tab.id.clone()],
                message: message(),
            })
        });
        new.cloned().chain(moved).collect()
    }

    /// The flow set as one shard has it: the flows of others are disabled.
    pub fn part(&self, name: &str) -> FlowSet {
        let flows = self.placement.flows();
        let is_elsewhere = |node: &Node| {
            let is_unit = node.part() == ElementKind::Tab
                || (node.part() == ElementKind::Config && node.z.is_empty());
            is_unit && self.name(self.placement.thread_of_flow(&node.id)) != name
        };
        let elsewhere: FxHashSet<&str> = flows
            .nodes()
            .iter()
            .filter(|node| is_elsewhere(node))
            .map(|node| node.id.as_str())
            .collect();
        flows.disabling(|id| elsewhere.contains(id))
    }

    /// Where requests to endpoints go that are not in the main shard. `root`: the path of all of
    /// them (`http_node_root`).
    pub fn endpoints(&self, root: &str) -> ShardEndpoints {
        let mut table = Endpoints::default();
        let root = root.trim_end_matches('/');
        for (number, method, path) in self.placed_endpoints() {
            let slot = u32::try_from(number).unwrap_or_default();
            // The number of the shard stands for the node.
            let instance = Instance { slot, epoch: 0 };
            // A path that cannot be read is that of no endpoint either.
            let path = format!("{root}{path}");
            let _ = table.add(&method, &path, instance, Rank::default());
        }
        ShardEndpoints {
            table,
            names: self.names.clone(),
        }
    }

    /// The endpoints that are not in the main shard: number of the shard, method and path.
    fn placed_endpoints(&self) -> Vec<(usize, String, String)> {
        let within = self.of_definitions();
        let mut found = Vec::new();
        for node in self.placement.flows().nodes() {
            let Some((method, path)) = endpoint(node) else {
                continue;
            };
            let shards = match within.get(node.z.as_str()) {
                Some(shards) => shards.iter().copied().collect(),
                None => vec![self.placement.thread_of(&node.id)],
            };
            let placed = shards.into_iter().filter(|number| *number != MAIN);
            found.extend(placed.map(|number| (number, method.clone(), path.clone())));
        }
        found
    }

    /// The shards that have instances of each subflow.
    fn of_definitions(&self) -> FxHashMap<&str, BTreeSet<usize>> {
        let flows = self.placement.flows();
        let mut found: FxHashMap<&str, BTreeSet<usize>> = FxHashMap::default();
        let mut inside: FxHashMap<&str, Vec<&str>> = FxHashMap::default();
        let mut left = Vec::new();
        for node in flows.nodes() {
            let Some(definition) = node.instance_of().and_then(|id| flows.subflow(id)) else {
                continue;
            };
            match flows.subflow(&node.z) {
                Some(outer) => inside.entry(&outer.id).or_default().push(&definition.id),
                None => left.push((definition.id.as_str(), self.placement.thread_of(&node.id))),
            }
        }
        while let Some((definition, number)) = left.pop() {
            if found.entry(definition).or_default().insert(number) {
                let inner = inside.get(definition).into_iter().flatten();
                left.extend(inner.map(|id| (*id, number)));
            }
        }
        found
    }
}

/// The endpoints that are not in the main shard.
#[derive(Debug, Default)]
pub struct ShardEndpoints {
    table: Endpoints,
    names: Vec<String>,
}

impl ShardEndpoints {
    /// The shard of the endpoint that a request is for; empty: the main one, or there is no such
    /// endpoint. One with a method that no endpoint can have, such as `OPTIONS`, is about all
    /// endpoints of the path.
    pub fn find(&self, method: &Method, path: &str) -> &str {
        let found = if *method == Method::HEAD || METHODS.contains(method) {
            self.table.find(method, path)
        } else {
            METHODS
                .iter()
                .find_map(|method| self.table.find(method, path))
        };
        let number = found.map_or(MAIN, |found| found.instance.slot as usize);
        self.names.get(number).map_or("", String::as_str)
    }
}

/// The shard of a group, if all that it has may be there.
fn shard_of<'p>(group: &Group, flows: &FlowSet, places: &'p Places) -> Result<&'p str, Misplaced> {
    let members = group.members.iter().filter_map(|(id, _)| flows.get(id));
    let tabs: Vec<&Arc<Node>> = members
        .filter(|node| node.part() == ElementKind::Tab)
        .collect();
    let of_tab = |tab: &&Arc<Node>| places.of(tab).unwrap_or_default();
    let found: BTreeSet<&str> = tabs.iter().map(of_tab).collect();
    let with_place = || tabs.iter().filter(|tab| !of_tab(tab).is_empty());
    let misplaced = |message| Misplaced {
        tabs: with_place().map(|tab| tab.id.clone()).collect(),
        message,
    };
    let list = || {
        let each = with_place().map(|tab| format!("{} on {}", shown(tab), shard(of_tab(tab))));
        each.collect::<Vec<_>>().join(", ")
    };
    let mut found = found.into_iter();
    match (found.next(), found.next()) {
        (None | Some(""), None) => Ok(""),
        (Some(_), None) if group.is_on_first => Err(misplaced(format!(
            "a flow has to run with those that have no place, and is to run elsewhere: {}. It may use the global context, call \
             links by name, or have nodes of packages; cluster.own_global_context allows that",
            list()
        ))),
        (Some(name), None) => Ok(name),
        (_, Some(_)) => Err(misplaced(format!(
            "flows belong together, by links, wires, config nodes, ports or paths, and are to run apart: {}",
            list()
        ))),
    }
}

/// The method and the path of an endpoint.
fn endpoint(node: &Node) -> Option<(String, String)> {
    let property = |name: &str| match node.object().remove(name) {
        Some(Json::String(text)) => Some(text),
        _ => None,
    };
    match node.kind.as_str() {
        "http in" => Some((property("method")?, rooted(&property("url")?))),
        "websocket-listener" => Some(("get".to_owned(), rooted(&property("path")?))),
        _ => None,
    }
}

fn rooted(path: &str) -> String {
    format!("/{}", path.trim_start_matches('/'))
}

/// A tab for a message.
fn shown(tab: &Node) -> String {
    let label = tab.label();
    let name = if label.is_empty() { &*tab.id } else { &label };
    let short: String = name.chars().take(SHOWN).collect();
    format!("{short:?}")
}

/// A shard for a message.
fn shard(name: &str) -> String {
    if name.is_empty() {
        "the main engine".to_owned()
    } else {
        format!("{name:?}")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
