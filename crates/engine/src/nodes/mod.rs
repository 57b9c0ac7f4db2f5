//! The palette: one node a file, in folders as the editor's palette has them.
//!
//! [`build`] knows every type; a type that is not in [`TYPES`] is missing.

use super::node::{Build, Host, Node};
use value::Failure;

mod common;
mod function;
mod network;
mod parser;
mod sequence;
mod storage;

/// Every type that the engine has.
pub const TYPES: [&str; 50] = [
    "batch",
    "catch",
    "change",
    "comment",
    "complete",
    "csv",
    "debug",
    "delay",
    "exec",
    "file",
    "file in",
    "function",
    "global-config",
    "html",
    "http in",
    "http proxy",
    "http request",
    "http response",
    "inject",
    "join",
    "json",
    "junction",
    "link call",
    "link in",
    "link out",
    "mqtt in",
    "mqtt out",
    "mqtt-broker",
    "range",
    "rbe",
    "sort",
    "split",
    "status",
    "switch",
    "tcp in",
    "tcp out",
    "tcp request",
    "template",
    "tls-config",
    "trigger",
    "udp in",
    "udp out",
    "unknown",
    "watch",
    "websocket in",
    "websocket out",
    "websocket-client",
    "websocket-listener",
    "xml",
    "yaml",
];

/// Builds a node of a known type.
pub fn build(build: &Build<'_>, host: &mut Host<'_>) -> Result<Box<dyn Node>, Failure> {
    match build.info.kind.as_str() {
        "junction" | "link in" | "catch" | "status" | "complete" => Ok(common::pass_on::build()),
        "comment" | "global-config" | "unknown" => Ok(common::silent::build()),
        "inject" => common::inject::build(build),
        "debug" => common::debug::build(build, host),
        "link out" => common::link_out::build(build),
        "link call" => common::link_call::build(build),
        "delay" => function::delay::build(build),
        "exec" => function::exec::build(build),
        "rbe" => function::rbe::build(build),
        "trigger" => function::trigger::build(build),
        "batch" => sequence::batch::build(build),
        "join" => sequence::join::build(build),
        "sort" => sequence::sort::build(build),
        "split" => sequence::split::build(build),
        "change" => function::change::build(build),
        "range" => function::range::build(build),
        "switch" => function::switch::build(build),
        "template" => function::template::build(build),
        "http in" => network::http_in::build(build),
        "http proxy" => network::http_proxy::build(build),
        "http request" => network::http_request::build(build),
        "http response" => network::http_response::build(build),
        "mqtt in" => network::mqtt_in::build(build),
        "mqtt out" => network::mqtt_out::build(build),
        "mqtt-broker" => network::mqtt_broker::build(build, host),
        "tcp in" => network::tcp_in::build(build),
        "tcp out" => network::tcp_out::build(build),
        "tcp request" => network::tcp_request::build(build),
        "tls-config" => network::tls_config::build(build, host),
        "udp in" => network::udp_in::build(build),
        "udp out" => network::udp_out::build(build),
        "websocket in" => network::websocket_in::build(build),
        "websocket out" => network::websocket_out::build(build),
        "websocket-client" | "websocket-listener" => network::websocket_listener::build(build),
        "csv" => parser::csv::build(build),
        "json" => parser::json::build(build),
        "html" => parser::html::build(build),
        "yaml" => parser::yaml::build(build),
        "watch" => storage::watch::build(build),
        "xml" => parser::xml::build(build),
        "file" => storage::file::build(build),
        "file in" => storage::file_in::build(build),
        "function" => function::function::build(build, host),
        other => Err(Failure::error(format!("unknown node type: {other}"))),
    }
}

/// Whether the engine has this type.
pub fn knows(kind: &str) -> bool {
    TYPES.contains(&kind)
}
