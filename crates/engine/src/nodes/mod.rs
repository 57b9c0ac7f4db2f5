//! The palette: one node a file, in folders as the editor's palette has them.
//!
//! [`PALETTE`] has every type; a type that is not in it is missing.

use super::node::{BoxedNode, Build, Host};
use value::{Failure, Value};

mod common;
mod function;
mod network;
mod parser;
mod sequence;
mod storage;

/// Makes a node of its properties.
type Constructor = fn(&Build<'_>, &mut Host<'_>) -> Result<BoxedNode, Failure>;

/// A set of the palette: its name in Node-RED, and the types in it.
type Set = (&'static str, &'static [(&'static str, Constructor)]);

/// Every type that the engine has, in the sets and the order of Node-RED's palette
/// (docs/reference/node-red-engine.md §4.2).
const PALETTE: &[Set] = &[
    ("junction", &[("junction", common::passthrough::build)]),
    ("inject", &[("inject", common::inject::build)]),
    ("debug", &[("debug", common::debug::build)]),
    ("complete", &[("complete", common::passthrough::build)]),
    ("catch", &[("catch", common::passthrough::build)]),
    ("status", &[("status", common::passthrough::build)]),
    (
        "link",
        &[
            ("link in", common::passthrough::build),
            ("link call", common::link_call::build),
            ("link out", common::link_out::build),
        ],
    ),
    ("comment", &[("comment", common::noop::build)]),
    ("global-config", &[("global-config", common::noop::build)]),
    ("unknown", &[("unknown", common::noop::build)]),
    ("function", &[("function", function::function::build)]),
    ("switch", &[("switch", function::switch::build)]),
    ("change", &[("change", function::change::build)]),
    ("range", &[("range", function::range::build)]),
    ("template", &[("template", function::template::build)]),
    ("delay", &[("delay", function::delay::build)]),
    ("trigger", &[("trigger", function::trigger::build)]),
    ("exec", &[("exec", function::exec::build)]),
    ("rbe", &[("rbe", function::rbe::build)]),
    ("tls", &[("tls-config", network::tls_config::build)]),
    (
        "httpproxy",
        &[("http proxy", network::http::http_proxy::build)],
    ),
    (
        "mqtt",
        &[
            ("mqtt in", network::mqtt::mqtt_in::build),
            ("mqtt out", network::mqtt::mqtt_out::build),
            ("mqtt-broker", network::mqtt::mqtt_broker::build),
        ],
    ),
    (
        "httpin",
        &[
            ("http in", network::http::http_in::build),
            ("http response", network::http::http_response::build),
        ],
    ),
    (
        "httprequest",
        &[("http request", network::http::http_request::build)],
    ),
    (
        "websocket",
        &[
            ("websocket in", network::websocket::websocket_in::build),
            ("websocket out", network::websocket::websocket_out::build),
            (
                "websocket-listener",
                network::websocket::websocket_listener::build,
            ),
            (
                "websocket-client",
                network::websocket::websocket_listener::build,
            ),
        ],
    ),
    (
        "tcpin",
        &[
            ("tcp in", network::tcp::tcp_in::build),
            ("tcp out", network::tcp::tcp_out::build),
            ("tcp request", network::tcp::tcp_request::build),
        ],
    ),
    (
        "udp",
        &[
            ("udp in", network::udp::udp_in::build),
            ("udp out", network::udp::udp_out::build),
        ],
    ),
    ("CSV", &[("csv", parser::csv::build)]),
    ("HTML", &[("html", parser::html::build)]),
    ("JSON", &[("json", parser::json::build)]),
    ("XML", &[("xml", parser::xml::build)]),
    ("YAML", &[("yaml", parser::yaml::build)]),
    (
        "split",
        &[
            ("split", sequence::split::build),
            ("join", sequence::join::build),
        ],
    ),
    ("sort", &[("sort", sequence::sort::build)]),
    ("batch", &[("batch", sequence::batch::build)]),
    (
        "file",
        &[
            ("file", storage::file::build),
            ("file in", storage::file_in::build),
        ],
    ),
    ("watch", &[("watch", storage::watch::build)]),
];

/// The sets of the palette and their types.
pub fn sets() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    PALETTE.iter().map(|(name, types)| {
        let types = types.iter().map(|(kind, _)| *kind);
        (*name, types.collect())
    })
}

/// Every type that the engine has.
pub fn types() -> impl Iterator<Item = &'static str> {
    let all = PALETTE.iter().flat_map(|(_, types)| types.iter());
    all.map(|(kind, _)| *kind)
}

/// Returns whether the engine has this type.
pub fn knows(kind: &str) -> bool {
    types().any(|known| known == kind)
}

/// Returns whether the engine lacks this type, which a package may have.
pub(crate) fn is_foreign(kind: &str) -> bool {
    !matches!(kind, "tab" | "subflow" | "group") && !kind.starts_with("subflow") && !knows(kind)
}

/// Builds a node of a known type.
pub(crate) fn build(build: &Build<'_>, host: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let kind = build.info.kind().as_str();
    if host.is_foreign() {
        return common::foreign::build(host);
    }
    let mut all = PALETTE.iter().flat_map(|(_, types)| types.iter());
    match all.find(|(known, _)| *known == kind) {
        Some((_, constructor)) => constructor(build, host),
        None => common::foreign::build(host),
    }
}

/// The status of a node: the colour and shape of its mark, and the text beside it.
fn status(fill: &str, shape: &str, text: &str) -> Value {
    Value::record([
        ("fill", fill.into()),
        ("shape", shape.into()),
        ("text", text.into()),
    ])
}
