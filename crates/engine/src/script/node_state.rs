//! The state of one function node while its code runs, and how natives of the library reach it.

use super::effect::Effect;
use super::{Scripts, from_js};
use crate::node_context::NodeContext;
use rquickjs::{Ctx, Exception, Object as JsObject, Persistent, Result, Value as JsValue};
use smol_str::SmolStr;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use value::Value;

/// The phase of the node's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The setup code has not finished: messages wait.
    Starting,
    /// Messages run.
    Ready,
    /// The code cannot be parsed, or its setup failed: messages are dropped (docs/reference/node-red-engine.md §4.3).
    Broken,
}

/// One function node, as its code sees it and changes it.
pub(super) struct State {
    pub(super) node: NodeContext,
    /// The source, for errors that quote it.
    pub(super) source: SmolStr,
    pub(super) phase: Cell<Phase>,
    pub(super) closing: Cell<bool>,
    pub(super) shows_status: Cell<bool>,
    /// Whether the node is done with a message when the function returns.
    pub(super) auto_done: bool,
    /// The prototype of plain objects in the node's realm; it also leads to that realm.
    pub(super) plain: RefCell<Option<Persistent<JsObject<'static>>>>,
    effects: RefCell<Vec<Effect>>,
}

impl State {
    pub(super) fn new(node: NodeContext, source: &SmolStr, auto_done: bool) -> Self {
        Self {
            node,
            source: source.clone(),
            phase: Cell::new(Phase::Ready),
            closing: Cell::new(false),
            shows_status: Cell::new(false),
            auto_done,
            plain: RefCell::new(None),
            effects: RefCell::default(),
        }
    }

    pub(super) fn push(&self, effect: Effect) {
        self.effects.borrow_mut().push(effect);
    }

    pub(super) fn take(&self) -> Vec<Effect> {
        self.effects.take()
    }
}

/// A call from the library into Rust, made by the node whose code runs.
pub(super) struct Invocation<'js> {
    pub(super) scripts: Rc<Scripts>,
    pub(super) state: Rc<State>,
    /// The node's realm: values are made there, not in the library's.
    pub(super) realm: Ctx<'js>,
}

impl<'js> Invocation<'js> {
    pub(super) fn of(scripts: &Weak<Scripts>, ctx: &Ctx<'js>) -> Result<Self> {
        let no_node = || Exception::throw_internal(ctx, "no node is running");
        let scripts = scripts.upgrade().ok_or_else(no_node)?;
        let state = scripts.current.borrow().clone().ok_or_else(no_node)?;
        let plain = state
            .plain
            .borrow()
            .clone()
            .ok_or_else(no_node)?
            .restore(ctx)?;
        Ok(Self {
            scripts,
            state,
            realm: plain.ctx().clone(),
        })
    }

    pub(super) fn value(&self, value: &JsValue<'js>) -> Result<Value> {
        from_js::value(&self.scripts, &self.realm, value)
    }
}
