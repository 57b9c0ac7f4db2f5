//! The context of one node for its expressions and scripts.

use crate::context::{Contexts, Scope};
use crate::expression::eval_context::EvalContext;
use crate::expression::typed::resolved;
use crate::node_info::NodeInfo;
use formats::mustache::Lookup;
use std::cell::RefCell;
use std::rc::Rc;
use value::{Failure, Message, Path, Value};

/// The node, the context stores as it sees them, and the time.
#[derive(Debug, Clone)]
pub struct NodeContext {
    /// The node, with its environment variables.
    pub info: Rc<NodeInfo>,
    /// The context stores. Borrow them briefly.
    pub contexts: Rc<RefCell<Contexts>>,
    /// When this was made, in milliseconds since 1970.
    pub now: f64,
}

impl NodeContext {
    /// Reads a context value; nested `[msg.x]` are taken from the message.
    pub(crate) fn read(
        &self,
        scope: Scope,
        key: &Path,
        message: &Message,
    ) -> Result<Value, Failure> {
        let key = resolved(key, message)?;
        let mut contexts = self.contexts.borrow_mut();
        contexts.reach(scope)?;
        Ok(contexts.read(scope, &self.info, &key))
    }

    /// Writes a context value; nested `[msg.x]` are taken from the message.
    pub(crate) fn write(
        &self,
        scope: Scope,
        key: &Path,
        message: &Message,
        value: Value,
    ) -> Result<(), Failure> {
        let key = resolved(key, message)?;
        let mut contexts = self.contexts.borrow_mut();
        contexts.write(scope, &self.info, &key, value)?;
        Ok(())
    }

    /// A context without a node and without contexts, at a fixed time.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn for_tests() -> Self {
        let info = NodeInfo::of("", "", crate::node_info::Container::default());
        Self {
            info: Rc::new(info),
            contexts: Rc::default(),
            now: 1_795_203_905_042.0,
        }
    }
}

impl Lookup for NodeContext {
    fn env(&self, name: &str) -> Value {
        self.info.env(name)
    }

    fn flow(&self, key: &Path) -> Value {
        self.contexts
            .borrow_mut()
            .read(Scope::Flow, &self.info, key)
    }

    fn global(&self, key: &Path) -> Value {
        self.contexts
            .borrow_mut()
            .read(Scope::Global, &self.info, key)
    }
}

impl EvalContext for NodeContext {
    fn now(&self) -> f64 {
        self.now
    }
}
