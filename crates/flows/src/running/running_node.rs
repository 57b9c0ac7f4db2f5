//! One node that runs, with its variables resolved as far as they are known.

use super::graph::{Graph, Running};
use super::keys::each_key;
use super::resolve::{may_name_variables, of as resolved};
use crate::{ElementKind, Node};
use rustc_hash::FxHashSet;
use serde_json::{Map, Value as Json};
use smol_str::SmolStr;
use std::sync::Arc;

/// Begins and ends the mark of a value that is not known. A text with this character counts as one.
pub(super) const MARK: char = '\0';

/// A node that runs.
#[derive(Debug)]
pub struct RunningNode {
    /// Its element.
    pub node: Arc<Node>,
    /// Its tab; `None`: it is on none.
    pub tab: Option<SmolStr>,
    /// The element on its tab that makes it run: itself, or an instance of a subflow.
    pub outermost: SmolStr,
    /// True if it is inside an instance of a subflow.
    pub is_inside: bool,
    /// Its targets, if they are not those of its element.
    wires: Option<Vec<Vec<SmolStr>>>,
    /// Its properties, if they are not those of its element.
    resolved: Option<Resolved>,
    /// A digest of what else decides how it runs; 0: nothing.
    pub(super) surroundings: u64,
}

/// The properties of a node with variables.
#[derive(Debug)]
struct Resolved {
    properties: Map<String, Json>,
    unresolved: Vec<Unresolved>,
}

/// A reference to a config node that is not known before the node runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Unresolved {
    /// The type that the config node must have; `None`: any.
    pub kind: Option<&'static str>,
    /// The value with its marks.
    value: String,
}

impl Unresolved {
    /// Returns whether an element may turn out to be the one that is referred to.
    pub fn may_be(&self, node: &Node) -> bool {
        let fits = self.kind.is_none_or(|kind| kind == node.kind);
        fits && node.part() == ElementKind::Config
    }
}

impl RunningNode {
    pub(super) fn of(running: &Running, graph: &Graph) -> Self {
        let tab = graph.tab(running).cloned();
        let mut outermost = &running.id;
        let mut flow = &graph.flows[running.flow];
        while let Some(parent) = flow.parent {
            outermost = &flow.id;
            flow = &graph.flows[parent];
        }
        let is_written = running.wires.is_none() && !may_name_variables(&running.node.text);
        let properties = (!is_written).then(|| {
            let text = resolved(running, &|name| graph.variable(running, name));
            serde_json::from_str(&text).unwrap_or_default()
        });
        Self {
            node: Arc::clone(&running.node),
            tab,
            is_inside: *outermost != running.id,
            outermost: outermost.clone(),
            wires: running.wires.clone(),
            resolved: properties.map(|properties| Resolved::of(&running.node.kind, properties)),
            surroundings: 0,
        }
    }

    /// A property that is a text; else nothing.
    pub(super) fn text_of(&self, property: &str) -> String {
        let text =
            |value: Option<&Json>| value.and_then(Json::as_str).unwrap_or_default().to_owned();
        match self.properties() {
            Some(properties) => text(properties.get(property)),
            None => text(self.node.object().get(property)),
        }
    }

    /// Returns whether it is a link call whose messages name its target.
    pub fn calls_by_name(&self) -> bool {
        self.node.kind == "link call" && self.text_of("linkType") == "dynamic"
    }

    /// Returns whether its properties are not those of its element.
    pub(super) fn differs_from_its_element(&self) -> bool {
        self.resolved.is_some()
    }

    /// The values in the properties, as ids.
    pub fn each_key(&self, mut see: impl FnMut(&str)) {
        for value in self.resolved.iter().flat_map(|r| r.properties.values()) {
            each_key(value, &mut |key| {
                if !key.contains(MARK) {
                    see(key);
                }
            });
        }
    }

    /// Returns whether a value in the properties is one of these ids.
    pub(super) fn names_any(&self, ids: &FxHashSet<&SmolStr>) -> bool {
        if ids.is_empty() {
            return false;
        }
        let written = self.resolved.is_none().then(|| self.node.object());
        let properties = self.properties().into_iter().chain(&written);
        let mut names = false;
        for value in properties.flat_map(Map::values) {
            each_key(value, &mut |key| names |= ids.contains(&SmolStr::new(key)));
        }
        names
    }

    /// The references to config nodes that are not known.
    pub fn unresolved(&self) -> &[Unresolved] {
        self.resolved.as_ref().map_or(&[], |r| &r.unresolved)
    }

    fn properties(&self) -> Option<&Map<String, Json>> {
        self.resolved.as_ref().map(|resolved| &resolved.properties)
    }

    /// Returns whether both are the same for all that can be known.
    pub(super) fn same(&self, other: &Self) -> bool {
        self.tab == other.tab
            && self.wires == other.wires
            && self.surroundings == other.surroundings
            && (Arc::ptr_eq(&self.node, &other.node) || self.node.same_content(&other.node))
            && self.properties() == other.properties()
    }
}

impl Resolved {
    fn of(kind: &str, properties: Map<String, Json>) -> Self {
        let known = config_properties(kind);
        let mut unresolved = Vec::new();
        for (name, value) in &properties {
            if matches!(
                name.as_str(),
                "id" | "type" | "z" | "g" | "wires" | "name" | "info"
            ) {
                continue;
            }
            let wanted = match known {
                None => vec![None],
                Some(known) => {
                    let of_property = known.iter().filter(|(property, _)| property == name);
                    of_property.map(|(_, kind)| Some(*kind)).collect()
                }
            };
            if wanted.is_empty() {
                continue;
            }
            each_key(value, &mut |key| {
                if key.contains(MARK) {
                    unresolved.extend(wanted.iter().map(|kind| Unresolved {
                        kind: *kind,
                        value: key.to_owned(),
                    }));
                }
            });
        }
        Self {
            properties,
            unresolved,
        }
    }
}

/// The properties of a type of the core palette that name config nodes, each with their type;
/// `None`: the type is not of the palette, and any property may.
fn config_properties(kind: &str) -> Option<&'static [(&'static str, &'static str)]> {
    const TLS: (&str, &str) = ("tls", "tls-config");
    Some(match kind {
        "mqtt in" | "mqtt out" => &[("broker", "mqtt-broker")],
        "websocket in" | "websocket out" => &[
            ("server", "websocket-listener"),
            ("client", "websocket-client"),
        ],
        "http request" => &[TLS, ("proxy", "http proxy")],
        "mqtt-broker" | "websocket-client" | "tcp in" | "tcp out" | "tcp request" => &[TLS],
        "batch" | "catch" | "change" | "comment" | "complete" | "csv" | "debug" | "delay"
        | "exec" | "file" | "file in" | "function" | "global-config" | "html" | "http in"
        | "http proxy" | "http response" | "inject" | "join" | "json" | "junction"
        | "link call" | "link in" | "link out" | "range" | "rbe" | "sort" | "split" | "status"
        | "switch" | "template" | "tls-config" | "trigger" | "udp in" | "udp out" | "unknown"
        | "watch" | "websocket-listener" | "xml" | "yaml" | "subflow-status" => &[],
        // The variables of an instance are in what is inside.
        _ if kind.starts_with("subflow:") => &[],
        _ => return None,
    })
}
