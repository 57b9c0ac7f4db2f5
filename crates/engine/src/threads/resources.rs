//! The resources that nodes share without naming each other, such as a UDP port, and the nodes that
//! have to be on the first thread: those that use the global context, run in the node host, or call
//! link in nodes by names in messages.

use crate::expression::typed;
use crate::hosted_functions::has_modules;
use crate::nodes::is_foreign;
use flows::{FlowSet, Node};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::sync::Arc;

/// Words by which code reaches the global context: by its name, or by code that is made as it runs.
const WORDS: [&str; 3] = ["global", "eval(", "Function("];
/// The properties in which the words mean nothing.
const PROSE: [&str; 4] = ["type", "name", "label", "info"];

/// A resource of nodes of different flows; those that share one are joined.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Resource {
    /// Everything that is on the first thread.
    First,
    /// The connections of `tcp in` nodes, to which replies go.
    TcpSessions,
    /// A UDP port, on which nodes share a socket.
    UdpPort(u16),
    /// All UDP ports.
    UdpPorts,
    /// The path of WebSocket listeners, of which only one can have it.
    Path(String),
    /// The paths of all of them.
    Paths,
}

/// A property of a flow set on which it depends which resources nodes share.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Feature {
    /// A message may name a link in node.
    CallsByName,
    /// A node sends to the connections of others.
    RepliesByTcp,
    /// A variable may be a UDP port.
    VariablePort,
    /// A variable may be the path of a WebSocket listener.
    VariablePath,
    /// Function nodes may run in the node host.
    HostedFunctions,
}

/// The resources that nodes of a flow set share.
pub(super) struct Resources(Vec<Feature>);

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Properties {
    link_type: Json,
    beserver: Json,
    path: Json,
    port: Json,
    outport: Json,
}

impl Properties {
    fn of(node: &Node) -> Self {
        serde_json::from_str(&node.text).unwrap_or_default()
    }
}

impl Resources {
    pub(super) fn of(flows: &FlowSet, hosts_functions: bool) -> Self {
        let mut by_kind: FxHashMap<&str, Vec<Properties>> = FxHashMap::default();
        let known = [
            "link call",
            "tcp out",
            "udp in",
            "udp out",
            "websocket-listener",
        ];
        for node in flows.nodes() {
            if known.contains(&node.kind.as_str()) {
                let all = by_kind.entry(&node.kind).or_default();
                all.push(Properties::of(node));
            }
        }
        let any = |kind: &str, is: &dyn Fn(&Properties) -> bool| {
            by_kind.get(kind).is_some_and(|all| all.iter().any(is))
        };
        let is_or_may_be = |value: &Json, word: &str| {
            let text = typed::text_of(value);
            text == word || is_variable(&text)
        };
        let ports = |p: &Properties| {
            [&p.port, &p.outport].map(|port| is_variable(&typed::text_of(port))) != [false; 2]
        };
        let paths = |p: &Properties| is_variable(&typed::text_of(&p.path));
        let dynamic = |p: &Properties| is_or_may_be(&p.link_type, "dynamic");
        let reply = |p: &Properties| is_or_may_be(&p.beserver, "reply");
        let features = [
            (Feature::CallsByName, any("link call", &dynamic)),
            (Feature::RepliesByTcp, any("tcp out", &reply)),
            (
                Feature::VariablePort,
                any("udp in", &ports) || any("udp out", &ports),
            ),
            (Feature::VariablePath, any("websocket-listener", &paths)),
            (Feature::HostedFunctions, hosts_functions),
        ];
        let found = features.into_iter().filter(|(_, is)| *is);
        Self(found.map(|(found, _)| found).collect())
    }

    fn has(&self, feature: Feature) -> bool {
        self.0.contains(&feature)
    }

    /// The resources of a node.
    pub(super) fn of_node(&self, node: &Arc<Node>) -> Vec<Resource> {
        let mut found = Vec::new();
        match node.kind.as_str() {
            "link call" | "link in" if self.has(Feature::CallsByName) => {
                found.push(Resource::First);
            }
            "tcp in" | "tcp out" if self.has(Feature::RepliesByTcp) => {
                found.push(Resource::TcpSessions);
            }
            "udp in" | "udp out" if self.has(Feature::VariablePort) => {
                found.push(Resource::UdpPorts);
            }
            "udp in" | "udp out" => found.extend(udp_port(node).map(Resource::UdpPort)),
            "websocket-listener" if self.has(Feature::VariablePath) => found.push(Resource::Paths),
            "websocket-listener" => {
                let path = typed::text_of(&Properties::of(node).path);
                let path = path.trim_matches('/').to_lowercase();
                found.push(Resource::Path(path));
            }
            // A template that the message brings along.
            "template" if !has_text(node, "template") => found.push(Resource::First),
            kind if is_foreign(kind) => found.push(Resource::First),
            _ if self.has(Feature::HostedFunctions) && has_modules(node) => {
                found.push(Resource::First);
            }
            _ => {}
        }
        if may_use_global(node) {
            found.push(Resource::First);
        }
        found
    }
}

/// Returns whether a text is read from an environment variable.
fn is_variable(text: &SmolStr) -> bool {
    text.contains("${") || text.contains("$(")
}

/// The port of the socket that the node shares with others.
fn udp_port(node: &Node) -> Option<u16> {
    let properties = Properties::of(node);
    let number = |port: &Json| typed::text_of(port).trim().parse().ok();
    let outport = number(&properties.outport).filter(|port| *port != 0);
    let port = outport.filter(|_| node.kind == "udp out");
    port.or_else(|| number(&properties.port))
}

/// Returns whether a property is a text that is not empty. The element's text is compact.
fn has_text(node: &Node, property: &str) -> bool {
    let begin = format!("\"{property}\":\"");
    let text = node.text.find(&begin).map(|at| at + begin.len());
    text.is_some_and(|at| !node.text[at..].starts_with('"'))
}

/// Returns whether a node may read or write the global context.
fn may_use_global(node: &Node) -> bool {
    let mentions = |text: &str| WORDS.iter().any(|word| text.contains(word));
    // A word may be written with escapes.
    if node.kind == "comment" || !(mentions(&node.text) || node.text.contains("\\u")) {
        return false;
    }
    let mut object = node.object();
    object.retain(|key, _| !PROSE.contains(&key.as_str()));
    object.values().any(|value| any_text(value, &mentions))
}

fn any_text(value: &Json, is: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Json::String(text) => is(text),
        Json::Array(elements) => elements.iter().any(|element| any_text(element, is)),
        Json::Object(object) => object.values().any(|value| any_text(value, is)),
        Json::Null | Json::Bool(_) | Json::Number(_) => false,
    }
}
