//! Context stores: what flows remember. Memory only; values are shared until written.

use super::expression::Path;
use super::node::Info;
use super::value::Value;
use smol_str::SmolStr;
use std::collections::HashMap;

/// Which context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Of one node.
    Node,
    /// Of one flow: a tab or subflow instance.
    Flow,
    /// Of the whole runtime.
    Global,
}

/// All contexts of the engine.
#[derive(Debug, Default)]
pub struct Contexts {
    global: Value,
    flows: HashMap<SmolStr, Value>,
    nodes: HashMap<SmolStr, Value>,
}

impl Contexts {
    /// Reads a value as the node `info` sees it; `undefined` if there is none.
    pub fn read(&self, _scope: Scope, _info: &Info, _key: &Path) -> Value {
        todo!()
    }

    /// Writes a value; `undefined` deletes it.
    pub fn write(&mut self, _scope: Scope, _info: &Info, _key: &Path, _value: Value) {
        todo!()
    }

    /// The top-level keys of a context.
    pub fn keys(&self, _scope: Scope, _info: &Info) -> Vec<SmolStr> {
        todo!()
    }
}
