//! The state of one function node while its code runs, and how natives of the library reach it.

use super::effect::Effect;
use super::given::Given;
use super::program::Program;
use super::{Scripts, from_js};
use crate::node_context::NodeContext;
use rquickjs::{Ctx, Exception, Object as JsObject, Persistent, Result, Value as JsValue};
use smol_str::SmolStr;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use value::{Message, Value};

/// The phase of the node's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The setup code has not finished: messages wait.
    Starting,
    /// Messages run.
    Ready,
    /// The code cannot be parsed, or its setup failed: messages are dropped
    /// (docs/reference/node-red-engine.md §4.3).
    Broken,
}

/// One function node, as its code sees it and changes it.
pub(super) struct State {
    pub(super) node: NodeContext,
    /// What runs for every message.
    pub(super) program: Rc<Program>,
    pub(super) phase: Cell<Phase>,
    pub(super) closing: Cell<bool>,
    pub(super) shows_status: Cell<bool>,
    /// Whether a complete node receives the messages with which this one is done.
    pub(super) watched: Cell<bool>,
    /// Whether one node gets what the code returns, and takes it as it is.
    pub(super) feeds: Cell<bool>,
    /// Whether the code runs in the realm that nodes share.
    pub(super) shares_realm: Cell<bool>,
    pub(super) given: RefCell<Option<Given>>,
    late: RefCell<Vec<Late>>,
    /// The prototype of plain objects in the node's realm; it also leads to that realm.
    pub(super) plain: RefCell<Option<Persistent<JsObject<'static>>>>,
    effects: RefCell<Vec<Effect>>,
}

impl State {
    pub(super) fn new(node: NodeContext, program: Rc<Program>) -> Self {
        Self {
            node,
            program,
            phase: Cell::new(Phase::Ready),
            closing: Cell::new(false),
            shows_status: Cell::new(false),
            watched: Cell::new(true),
            feeds: Cell::new(false),
            shares_realm: Cell::new(false),
            given: RefCell::default(),
            late: RefCell::default(),
            plain: RefCell::new(None),
            effects: RefCell::default(),
        }
    }

    /// Returns whether the node is done with a message when the function returns.
    pub(super) fn auto_done(&self) -> bool {
        !self.program.uses.done
    }

    /// The properties of its message that the code can see; `None`: all.
    pub(super) fn visible(&self) -> Option<&Rc<[SmolStr]>> {
        self.program.uses.visible.as_ref()
    }

    pub(super) fn push(&self, effect: Effect) {
        self.effects.borrow_mut().push(effect);
    }

    pub(super) fn take(&self) -> Vec<Effect> {
        self.effects.take()
    }

    /// The id of the given message.
    pub(super) fn given_id(&self) -> Value {
        let given = self.given.borrow();
        (given.as_ref()).map_or(Value::Undefined, |given| given.id.clone())
    }

    /// The first message of the effect that comes next is this object as it is when the code's run
    /// ends.
    pub(super) fn defer<'js>(&self, ctx: &Ctx<'js>, object: &JsValue<'js>) {
        self.late.borrow_mut().push(Late {
            effect: self.effects.borrow().len(),
            object: Persistent::save(ctx, object.clone()),
        });
    }

    /// The messages that were sent without a copy.
    pub(super) fn take_late(&self) -> Vec<Late> {
        self.late.take()
    }

    /// Changes the first message of an effect.
    pub(super) fn change(&self, effect: usize, change: impl FnOnce(&mut Message)) {
        if let Some(Effect::Send(messages)) = self.effects.borrow_mut().get_mut(effect)
            && let Some((_, message)) = messages.first_mut()
        {
            change(message);
        }
    }
}

/// A message that was sent without a copy.
pub(super) struct Late {
    /// The number of the effect that sends it.
    pub(super) effect: usize,
    pub(super) object: Persistent<JsValue<'static>>,
}

/// The scripts of the thread, and the node whose code runs.
pub(super) fn running(scripts: &Weak<Scripts>) -> Option<(Rc<Scripts>, Rc<State>)> {
    let scripts = scripts.upgrade()?;
    let state = scripts.current.borrow().clone()?;
    Some((scripts, state))
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
        let (scripts, state) = running(scripts).ok_or_else(no_node)?;
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
