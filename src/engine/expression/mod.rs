//! Expressions in nodes' properties: property paths, typed inputs, JSONata, coercions as JavaScript makes them.

mod path;
pub use path::{Key, Path};
