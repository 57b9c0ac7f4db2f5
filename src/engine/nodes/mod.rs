//! The palette: one node a file, in folders as the editor's palette has them.
//!
//! [`build`] knows every type; a type that is not in [`TYPES`] is missing.

use super::node::{Build, Host, Node};
use super::value::Failure;

mod common;
mod function;
mod network;
mod parser;
mod storage;

/// Every type that the engine has.
pub const TYPES: [&str; 28] = [
    "catch",
    "change",
    "comment",
    "complete",
    "csv",
    "debug",
    "file",
    "file in",
    "function",
    "global-config",
    "html",
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
    "watch",
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
        "change" => function::change::build(build),
        "range" => function::range::build(build),
        "switch" => function::switch::build(build),
        "template" => function::template::build(build),
        "http in" => network::http_in::build(build),
        "http response" => network::http_response::build(build),
        "udp out" => network::udp_out::build(build),
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
