//! The authority of the process: the elements that it was given to run, with the flows that these
//! are in. Its frames may name nothing else, whatever code it runs: between the packages of one
//! process is no border, around the process is this one.
//!
//! Every frame, and the check of what it names:
//!
//! | from the process | is checked for |
//! |---|---|
//! | `message` | `node` is a foreign node, `to` are nodes that it is wired to |
//! | `error`, `log` | `node` is a given element; a line of the log may have none |
//! | `status` | `node` is a foreign node, or an instance of a subflow that has some |
//! | `complete` | `node` is a foreign node; only `complete` nodes that watch it get it |
//! | `context` | `scope` is one of [`Authority::context`], `store` one of the configured stores |
//! | `published` | `topic` is none of the runtime's; in `debug`, `id`, `z` and `path` are of a given element |
//! | `ready` | comes once, before the first deployment |
//! | `deployed` | `number` is that of a deployment or stop that has not finished |
//! | `taken` | `bytes` were written to the process, and not taken before |
//! | `release`, `{"$":"engine"}` | `ids` are handles that were lent to this process |
//! | `routes` | their number and length; the matching of each request has a budget (`package_state.rs`) |
//! | `loading`, `failed` | `package` has the form of a name of npm: it is left out if the process ends |
//! | `pong` | nothing: a number for a metric |
//!
//! | to the process | has |
//! |---|---|
//! | `start` | names of context stores, paths of its sockets, packages and sets that are left out |
//! | `deploy` | the given elements, their credentials, the variables of the environment that they name |
//! | `message` | a message that was sent to a foreign node |
//! | `watch` | ids of foreign nodes that a `complete` node watches |
//! | the answer to `context` | the value of a context that the question may name |
//! | `stop`, `ping`, `release` | numbers |

use crate::context::Scope;
use crate::node_info::{Container, NodeInfo};
use flows::{DEPTH, FlowSet, Node};
use rustc_hash::{FxHashMap, FxHashSet};
use smol_str::{SmolStr, format_smolstr};

/// Flows that are listed, at most: as many nodes as a flow set may expand to.
const MAX_FLOWS: usize = 100_000;

/// The elements that the process was given.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Authority {
    /// By their ids in the flow set.
    elements: FxHashMap<SmolStr, Element>,
    /// The tabs, and the running instances of subflows, that have foreign nodes.
    flows: FxHashMap<SmolStr, RunningFlow>,
    /// Ids of other tabs and instances that could be taken for a flow inside a packaged subflow.
    ambiguous: FxHashSet<SmolStr>,
}

/// An element that the process runs.
#[derive(Debug, PartialEq)]
struct Element {
    /// The tab or subflow definition that it is in; empty: none.
    z: SmolStr,
    role: Role,
}

/// The acts that the process may do in the name of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A foreign node: it sends, and has a status, errors and a context.
    Foreign,
    /// An instance of a subflow: it has a status and errors.
    Instance,
    /// A config node of both sides, a tab, a group, or a node that no package has: it has errors.
    Other,
}

/// A flow that runs.
#[derive(Debug, PartialEq)]
struct RunningFlow {
    /// Its tab or subflow definition.
    definition: SmolStr,
    /// The tab that it is in.
    tab: SmolStr,
}

impl Authority {
    /// The authority over some elements of a flow set; `role`: none for those of others.
    pub(crate) fn over(flows: &FlowSet, role: &dyn Fn(&Node) -> Option<Role>) -> Self {
        let mut authority = Self::default();
        let mut instances: FxHashMap<&str, Vec<&Node>> = FxHashMap::default();
        let mut left = Vec::new();
        for node in flows.nodes() {
            let Some(role) = role(node) else { continue };
            let z = node.z.clone();
            if role == Role::Instance {
                instances.entry(&node.z).or_default().push(node);
            }
            if matches!(role, Role::Instance | Role::Foreign)
                && !z.is_empty()
                && flows.subflow(&z).is_none()
            {
                left.push((z.clone(), z.clone(), z.clone(), 0));
            }
            let element = Element { z, role };
            authority.elements.insert(node.id.clone(), element);
        }
        while let Some((id, definition, tab, depth)) = left.pop() {
            if authority.flows.contains_key(&id) || authority.flows.len() >= MAX_FLOWS {
                continue;
            }
            for node in instances.get(definition.as_str()).into_iter().flatten() {
                let inner = if depth == 0 {
                    node.id.clone()
                } else {
                    format_smolstr!("{id}-{}", node.id)
                };
                if let Some(definition) = node.instance_of().filter(|_| depth < DEPTH) {
                    left.push((inner, definition.into(), tab.clone(), depth + 1));
                }
            }
            let flow = RunningFlow { definition, tab };
            authority.flows.insert(id, flow);
        }
        authority.ambiguous = authority.ambiguous_in(flows);
        authority
    }

    /// Running ids of other flows that begin like one inside a packaged subflow have a hyphen.
    fn ambiguous_in(&self, flows: &FlowSet) -> FxHashSet<SmolStr> {
        let flows = flows.nodes().iter();
        let others = flows.filter(|node| {
            let is_flow = node.kind == "tab" || node.instance_of().is_some();
            is_flow && node.id.contains('-') && !self.elements.contains_key(&node.id)
        });
        others.map(|node| node.id.clone()).collect()
    }

    /// Returns whether the process was given an element.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.elements.contains_key(id)
    }

    /// Leaves an element only errors: the process reports messages for it, which it does not run.
    pub(crate) fn leave_out(&mut self, id: &str) {
        if let Some(element) = self.elements.get_mut(id) {
            element.role = Role::Other;
        }
    }

    /// The role of a running node; `None`: the process was not given it.
    pub(crate) fn role(&self, id: &str) -> Option<Role> {
        self.element(id).map(|(element, _)| element.role)
    }

    /// The element that runs as a node, and the flow in which it does.
    fn element(&self, id: &str) -> Option<(&Element, Option<&RunningFlow>)> {
        if let Some(element) = self.elements.get(id) {
            let flow = self.flows.get(&element.z);
            // A config node of both sides may be on a tab without foreign nodes.
            let runs = flow.is_some() || element.z.is_empty() || element.role == Role::Other;
            return runs.then_some((element, flow));
        }
        id.match_indices('-').find_map(|(at, _)| {
            let (flow, rest) = (self.flows.get(id.get(..at)?)?, id.get(at + 1..)?);
            let element = self.elements.get(rest)?;
            (element.z == flow.definition).then_some((element, Some(flow)))
        })
    }

    /// The foreign node that is, or whose packaged subflow has, what runs under this id, and its
    /// flow.
    fn around(&self, id: &str) -> Option<(&Element, Option<&RunningFlow>)> {
        if self.ambiguous.iter().any(|other| id.contains(&**other)) {
            return None;
        }
        let ends = id.match_indices('-').map(|(at, _)| at).chain([id.len()]);
        let mut found = ends.filter_map(|end| self.element(id.get(..end)?));
        found.find(|(element, _)| element.role == Role::Foreign)
    }

    /// The context that a name of Node-RED means: `global`, `FLOW`, `NODE:FLOW`, or `NODE` for a
    /// config node of no flow; `None`: it is one of others.
    pub(super) fn context(&self, name: &str) -> Option<(Scope, NodeInfo)> {
        let of = |scope, node: &str, flow: &str| {
            let z = flow.into();
            let container = Container {
                z,
                ..Container::default()
            };
            Some((scope, NodeInfo::of(node, "", container)))
        };
        if name == "global" {
            return (!self.elements.is_empty())
                .then(|| of(Scope::Global, "", ""))
                .flatten();
        }
        if self.flows.contains_key(name) {
            return of(Scope::Flow, "", name);
        }
        let own = self.elements.get(name);
        if own.is_some_and(|e| e.z.is_empty() && e.role == Role::Foreign) {
            return of(Scope::Node, name, "");
        }
        if let Some((node, flow)) = name.rsplit_once(':') {
            let own = self.elements.get(node).zip(self.flows.get(flow));
            let is_own = own.is_some_and(|(e, flow)| e.z == flow.definition);
            return (is_own || self.around(flow).is_some())
                .then(|| of(Scope::Node, node, flow))
                .flatten();
        }
        self.around(name).and_then(|_| of(Scope::Flow, "", name))
    }

    /// Returns whether a message of a debug node may name these: `id` is a given element, or inside
    /// a packaged subflow; `z` and `path` are around it.
    pub(super) fn covers_debug(&self, id: &str, z: &str, path: &str) -> bool {
        if id.is_empty() || self.flows.contains_key(id) {
            return z.is_empty() && (path.is_empty() || path == id);
        }
        let Some((element, flow)) = self.element(id).or_else(|| self.around(id)) else {
            return false;
        };
        let Some(flow) = flow else {
            return z.is_empty() && matches!(path, "" | "global");
        };
        let is_around = z.is_empty()
            || self.flows.get(z).is_some_and(|f| f.definition == element.z)
            || self.around(z).is_some();
        let below = path.strip_prefix(flow.tab.as_str());
        is_around && (path.is_empty() || below.is_some_and(|b| b.is_empty() || b.starts_with('/')))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const FLOWS: &str = r#"[
        {"id":"t","type":"tab"},{"id":"u","type":"tab"},{"id":"p-x","type":"tab"},
        {"id":"f","type":"foreign","z":"t","x":1,"y":1,"wires":[]},
        {"id":"p","type":"foreign","z":"t","x":1,"y":1,"wires":[]},
        {"id":"c","type":"foreign"},
        {"id":"n","type":"debug","z":"t","x":1,"y":1,"wires":[]},
        {"id":"b","type":"mqtt-broker","z":"u"},
        {"id":"e","type":"exec","z":"u","x":1,"y":1,"wires":[]},
        {"id":"S","type":"subflow"},{"id":"O","type":"subflow"},{"id":"N","type":"subflow"},
        {"id":"g","type":"foreign","z":"S","x":1,"y":1,"wires":[]},
        {"id":"h","type":"subflow:S","z":"O","x":1,"y":1,"wires":[]},
        {"id":"i","type":"subflow:O","z":"v","x":1,"y":1,"wires":[]},
        {"id":"k","type":"subflow:N","z":"u","x":1,"y":1,"wires":[]}
    ]"#;

    fn authority() -> Authority {
        let flows = FlowSet::parse(FLOWS.as_bytes()).unwrap();
        Authority::over(&flows, &|node| match node.kind.as_str() {
            "foreign" => Some(Role::Foreign),
            "subflow:S" | "subflow:O" => Some(Role::Instance),
            "subflow" if node.id != "N" => Some(Role::Other),
            "tab" if node.id == "t" => Some(Role::Other),
            "mqtt-broker" => Some(Role::Other),
            _ => None,
        })
    }

    #[test]
    fn only_given_elements_have_a_role_wherever_they_run() {
        let authority = authority();
        for (id, role) in [
            ("f", Some(Role::Foreign)),
            ("c", Some(Role::Foreign)),
            ("b", Some(Role::Other)),
            ("i", Some(Role::Instance)),
            ("i-h", Some(Role::Instance)),
            ("i-h-g", Some(Role::Foreign)),
            // These run nowhere.
            ("g", None),
            ("h", None),
            ("i-g", None),
            ("h-g", None),
            ("f-g", None),
            // And these are of others.
            ("n", None),
            ("e", None),
            ("k", None),
            ("", None),
            ("-", None),
        ] {
            assert_eq!(authority.role(id), role, "{id}");
        }
    }

    #[test]
    fn a_context_is_named_if_a_foreign_node_has_it_or_is_in_its_flow() {
        let authority = authority();
        let own = [
            "global", "t", "v", "i", "i-h", "f:t", "g:i-h", "c", "p", "p-in", "x:p", "x:p-in",
        ];
        for name in own {
            assert!(authority.context(name).is_some(), "{name}");
        }
        let others = [
            "u", "p-x", "p-x-y", "n:u", "e:u", "f:u", "f:i", "g:t", "g", "k", "n:t", "x:p-x", "",
            ":", ":t", "S", "n", "e",
        ];
        for name in others {
            assert!(authority.context(name).is_none(), "{name}");
        }
        assert!(Authority::default().context("global").is_none());
    }

    #[test]
    fn a_debug_message_names_what_is_around_a_given_element() {
        let authority = authority();
        for (id, z, path, is_own) in [
            ("", "", "", true),
            ("p-in", "p", "t/p", true),
            ("f", "t", "t", true),
            ("i-h-g", "i-h", "v/i/h", true),
            ("c", "", "global", true),
            ("", "", "u", false),
            ("", "u", "", false),
            ("e", "u", "u", false),
            ("n", "t", "t", false),
            ("p-in", "p", "u/p", false),
            ("p-in", "p", "tt", false),
            ("p-in", "u", "t", false),
            ("c", "u", "", false),
            ("t", "", "u", false),
        ] {
            assert_eq!(
                authority.covers_debug(id, z, path),
                is_own,
                "{id} {z} {path}"
            );
        }
    }
}
