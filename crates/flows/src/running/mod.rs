//! Resolves a flow set into what runs: every node with its definition after instances of subflows,
//! groups, variables and config nodes, and the flow that it belongs to
//! (docs/reference/node-red-engine.md §2).
//!
//! The engine builds its graph with this; policies on rights and approval compare what it gives for
//! two flow sets. Never knows what a type of nodes does.

mod build;
mod collisions;
mod elements;
mod env;
mod expand;
mod graph;
mod groups;
mod keys;
mod misread;
mod resolve;
mod running_node;
mod runs;
mod surroundings;

pub use build::{InPart, build, is_root_config};
pub use collisions::check_elements;
pub use elements::{Scope, scope};
pub use env::{Entry, Env, Evaluator, Layer, reference};
pub use graph::{Flow, Graph, Role, Running, Wires};
pub use groups::Group;
pub use keys::{each_key, is_value_text};
pub use misread::check_forms;
pub use resolve::{credentials, may_name_variables, of as resolved, remapped};
pub use running_node::{RunningNode, Unresolved};
pub use runs::Runs;
