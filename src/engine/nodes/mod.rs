//! The palette: one node a file, in folders as the editor's palette has them.
//!
//! [`build`] knows every type; a type that is not here is missing.

use super::node::{Build, Host, Node};
use super::value::Failure;

mod common;
mod function;
mod network;

/// Builds a node of a known type.
pub fn build(build: &Build<'_>, host: &mut Host<'_>) -> Result<Box<dyn Node>, Failure> {
    match build.info.kind.as_str() {
        "function" => function::function::build(build, host),
        other => Err(Failure::error(format!("unknown node type: {other}"))),
    }
}

/// Whether the engine has this type.
pub fn knows(_kind: &str) -> bool {
    false
}
