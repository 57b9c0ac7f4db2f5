//! The palette: one node a file, in folders as the editor's palette has them.
//!
//! [`build`] knows every type; a type that is not in [`TYPES`] is missing.

use super::node::{Build, Host, Node};
use super::value::Failure;

mod common;
mod function;
mod network;
mod parser;

/// Every type that the engine has.
pub const TYPES: [&str; 20] = [
    "catch",
    "change",
    "comment",
    "complete",
    "debug",
    "global-config",
    "http in",
    "http response",
    "inject",
    "json",
    "junction",
    "link call",
    "link in",
    "link out",
    "range",
    "status",
    "switch",
    "template",
    "udp out",
    "unknown",
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
        "change" => function::change::build(build),
        "range" => function::range::build(build),
        "switch" => function::switch::build(build),
        "template" => function::template::build(build),
        "http in" => network::http_in::build(build),
        "http response" => network::http_response::build(build),
        "udp out" => network::udp_out::build(build),
        "json" => parser::json::build(build),
        other => Err(Failure::error(format!("unknown node type: {other}"))),
    }
}

/// Whether the engine has this type.
pub fn knows(kind: &str) -> bool {
    TYPES.contains(&kind)
}
