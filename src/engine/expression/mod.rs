//! Expressions in nodes' properties: property paths, typed inputs, `JSONata`, coercions as JavaScript makes them.

pub mod coerce;
pub mod date;
pub mod json;
mod json_syntax;
pub mod jsonata;
mod jsonata_error;
pub mod mustache;
mod mustache_parse;
mod path;
mod path_parse;
pub mod regex;
mod regex_cost;
pub mod typed;
pub use path::{Key, Path, property};
