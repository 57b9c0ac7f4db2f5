//! Expressions in nodes' properties: property paths, typed inputs, `JSONata`, coercions as
//! JavaScript makes them.

pub(crate) mod eval_context;
pub(crate) mod jsonata;
mod jsonata_error;
pub(crate) mod typed;
