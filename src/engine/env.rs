//! Environment variables of nodes: groups, subflow instances, tabs, global-config, the process (facts engine §2.5).

use super::value::Value;
use smol_str::SmolStr;
use std::collections::HashMap;
use std::rc::Rc;

/// One scope of variables and the scope around it.
#[derive(Debug, Default)]
pub struct Env {
    /// Variables of this scope.
    pub vars: HashMap<SmolStr, Value>,
    /// The scope around it; `None`: only the process.
    pub parent: Option<Rc<Env>>,
}

impl Env {
    /// The value of a variable; `$parent.X` skips one scope; `undefined` if there is none.
    pub fn lookup(&self, _name: &str) -> Value {
        todo!()
    }
}
