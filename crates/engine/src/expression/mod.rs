//! Expressions in nodes' properties: property paths, typed inputs, `JSONata`, coercions as JavaScript makes them.

pub mod eval_context;
pub mod jsonata;
mod jsonata_error;
pub mod typed;
