//! Converts the values that a function returns or sends to messages for outputs
//! (docs/reference/node-red-engine.md §3.1).

use super::effect::Effect;
use super::given::Given;
use super::node_state::{Invocation, Late, State};
use super::script_message::ScriptMessage;
use super::{Scripts, from_js, to_js};
use rquickjs::{Ctx, Object as JsObject, Persistent, Result, Value as JsValue};
use smol_str::SmolStr;
use std::cell::Ref;
use std::rc::Rc;
use value::{Failure, Message, Value};

/// Converts the values of one node's code.
pub(super) struct Outputs<'a, 'js> {
    scripts: &'a Rc<Scripts>,
    state: &'a State,
    ctx: &'a Ctx<'js>,
}

/// The values that a function sends.
#[derive(Default)]
struct Found<'js> {
    messages: Vec<(usize, Message)>,
    /// The kinds of values that are no message, and whether each is no object either.
    others: Vec<(SmolStr, bool)>,
    /// True if the first message is sent as it is when the code's run ends.
    is_late: bool,
    first: Option<JsValue<'js>>,
}

impl<'a, 'js> Outputs<'a, 'js> {
    /// Of a node whose code runs in this realm.
    pub(super) fn new(scripts: &'a Rc<Scripts>, state: &'a State, ctx: &'a Ctx<'js>) -> Self {
        Self {
            scripts,
            state,
            ctx,
        }
    }

    /// Of the node that calls a native function.
    pub(super) fn of(call: &'a Invocation<'js>) -> Self {
        Self {
            scripts: &call.scripts,
            state: &call.state,
            ctx: &call.realm,
        }
    }

    /// Sends the given message, if the value is that one and the code cannot see the id that it
    /// came with; returns whether it is.
    pub(super) fn send_given(&self, value: &JsValue<'js>) -> Result<bool> {
        let given = given(self.state, value).filter(|given| !given.has("_msgid"));
        let Some(given) = given else {
            return Ok(false);
        };
        let message = given.message_of(self.scripts, value)?;
        self.state.push(Effect::SendFirst(message));
        Ok(true)
    }

    /// The function has returned: sends the result and, unless the code does so itself, is done
    /// with the `given` message, which has this id.
    pub(super) fn finish(
        &self,
        result: &JsValue<'js>,
        given: &JsValue<'js>,
        id: &Value,
    ) -> Result<()> {
        let state = self.state;
        if result == given {
            if self.feed(result, None)? {
                return Ok(());
            }
            let message = self.message(result)?;
            state.push(if state.auto_done() {
                Effect::Pass(message)
            } else {
                Effect::SendFirst(message)
            });
            return Ok(());
        }
        if !is_falsy(result) {
            // A returned message gets the current id of the given message.
            let now = given
                .as_object()
                .map(|o| o.get::<_, Option<String>>("_msgid"));
            let now = match now {
                Some(Ok(Some(text))) => &Value::from(text),
                _ => id,
            };
            if !self.feed(result, Some(now))? {
                self.send(result, now, false)?;
            }
        }
        if state.auto_done() {
            self.done(given)?;
        }
        Ok(())
    }

    /// Hands the object that the code returns to the next function as it is, with this id or its
    /// own, if nothing else gets it; returns whether it did.
    fn feed(&self, result: &JsValue<'js>, id: Option<&Value>) -> Result<bool> {
        let (scripts, state) = (self.scripts, self.state);
        if !state.feeds.get() || !state.shares_realm.get() || !scripts.has_room() {
            return Ok(false);
        }
        let Some(object) = result.as_object().filter(|object| self.is_plain(object)) else {
            return Ok(false);
        };
        let given = given(state, result).map(|given| given.clone());
        let given = given.unwrap_or_else(|| Given::of(object));
        if let Some(id) = id.filter(|id| id.as_str().is_some()) {
            let id = to_js::value(scripts, self.ctx, id)?;
            if object.set("_msgid", id).is_err() {
                drop(self.ctx.catch());
                return Ok(false);
            }
        } else if given.has("_msgid") && !object.get::<_, JsValue<'js>>("_msgid")?.is_string() {
            return Ok(false);
        }
        state.push(Effect::Feed(ScriptMessage::new(scripts, given)));
        Ok(true)
    }

    /// Returns whether the object is as if written `{…}`.
    fn is_plain(&self, object: &JsObject<'js>) -> bool {
        let plain = self.state.plain.borrow();
        let prototype = object.get_prototype();
        let is_same = |prototype| Some(Persistent::save(self.ctx, prototype)) == *plain;
        !object.is_proxy() && prototype.is_some_and(is_same)
    }

    /// The node has finished with a message.
    pub(super) fn done(&self, msg: &JsValue<'js>) -> Result<()> {
        if self.state.watched.get() {
            self.state.push(Effect::Done(self.message(msg)?));
        }
        Ok(())
    }

    /// Converts the messages that were sent without a copy, now that the code's run ends. One that
    /// cannot be converted any more is sent as it was.
    pub(super) fn catch_up(&self) {
        for Late { effect, object } in self.state.take_late() {
            let object = object.restore(self.ctx);
            match object.and_then(|object| self.message(&object)) {
                Ok(now) => self.state.change(effect, |sent| {
                    let id = sent.take("_msgid");
                    *sent = with_id(now, &id);
                }),
                Err(_) => drop(self.ctx.catch()),
            }
        }
    }

    /// An object as a message.
    pub(super) fn message(&self, object: &JsValue<'js>) -> Result<Message> {
        if let Some(given) = given(self.state, object) {
            return given.message_of(self.scripts, object);
        }
        let value = from_js::value(self.scripts, self.ctx, object)?;
        Ok(Message::from_value(value).unwrap_or_default())
    }

    /// Any value. Of the given message, what the code cannot see is as it was.
    pub(super) fn convert(&self, value: &JsValue<'js>) -> Result<Value> {
        if let Some(given) = given(self.state, value) {
            return Ok(given.message_of(self.scripts, value)?.to_value());
        }
        from_js::value(self.scripts, self.ctx, value)
    }

    /// Sends a message, or a list with one entry an output: a message, a list of messages, or
    /// nothing. A value that is no message is an error; one that is no object either is reported a
    /// second time beside messages. Messages get this id, that of the received message. The first
    /// one, if it `is_late`, is sent as it is when the code's run ends.
    pub(super) fn send(&self, result: &JsValue<'js>, id: &Value, is_late: bool) -> Result<()> {
        // Most send one message.
        if !is_late
            && result.is_object()
            && !result.is_array()
            && let Some(message) = Message::from_value(self.convert(result)?)
        {
            let only = vec![(0, with_id(message, id))];
            self.state.push(Effect::Send(only));
            return Ok(());
        }
        let mut found = Found {
            is_late,
            ..Found::default()
        };
        self.collect(result, id, &mut found)?;
        let tried = |who: &str, kind: &SmolStr| {
            let text = format!("{who} tried to send a message of type {kind}");
            self.state.push(Effect::Error(Failure::text(text), None));
        };
        for (kind, _) in &found.others {
            tried("Function", kind);
        }
        if !found.messages.is_empty() {
            for (kind, _) in found.others.iter().filter(|(_, plain)| *plain) {
                tried("Node", kind);
            }
            if let Some(first) = &found.first {
                self.state.defer(self.ctx, first);
            }
            self.state.push(Effect::Send(found.messages));
        }
        Ok(())
    }

    /// Finds the messages, and the values that are none.
    fn collect(&self, result: &JsValue<'js>, id: &Value, found: &mut Found<'js>) -> Result<()> {
        let mut add = |output: usize, value: &JsValue<'js>| -> Result<()> {
            if value.is_undefined() || value.is_null() {
                return Ok(());
            }
            match self.convert(value)? {
                Value::Object(object) => {
                    if found.is_late && found.messages.is_empty() {
                        found.first = Some(value.clone());
                    }
                    let message = Message::from_value(Value::Object(object)).unwrap_or_default();
                    found.messages.push((output, with_id(message, id)));
                }
                other => found.others.push((kind(&other, value), !value.is_object())),
            }
            Ok(())
        };
        let Some(outputs) = result.as_array() else {
            return if is_falsy(result) {
                Ok(())
            } else {
                add(0, result)
            };
        };
        for output in 0..from_js::length(outputs)? {
            let entry: JsValue<'js> = outputs.get(output)?;
            if is_falsy(&entry) {
                continue;
            }
            let Some(several) = entry.as_array() else {
                add(output, &entry)?;
                continue;
            };
            for index in 0..from_js::length(several)? {
                add(output, &several.get(index)?)?;
            }
        }
        Ok(())
    }
}

/// The given message, if the value is that one.
fn given<'s>(state: &'s State, value: &JsValue<'_>) -> Option<Ref<'s, Given>> {
    if !value.is_object() {
        return None;
    }
    let value = Persistent::save(value.ctx(), value.clone());
    let given = Ref::filter_map(state.given.borrow(), Option::as_ref).ok()?;
    (given.object == value).then_some(given)
}

/// The message with this id; without one if it is `undefined`.
fn with_id(mut message: Message, id: &Value) -> Message {
    if id.is_undefined() {
        message.take("_msgid");
    } else if id.as_str().is_none() || message.get("_msgid").as_str() != id.as_str() {
        message.set("_msgid", id.clone());
    }
    message
}

fn is_falsy(value: &JsValue<'_>) -> bool {
    value.is_undefined()
        || value.is_null()
        || value.as_bool() == Some(false)
        || value.as_number().is_some_and(|n| n == 0.0 || n.is_nan())
        || value
            .as_string()
            .is_some_and(|s| s.to_string().is_ok_and(|s| s.is_empty()))
}

/// Node-RED's name for the value's type.
fn kind(value: &Value, js: &JsValue<'_>) -> SmolStr {
    SmolStr::new_static(match value {
        Value::Array(_) => "Array",
        Value::Buffer(_) => "Buffer",
        Value::Date(_) => "Date",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "boolean",
        _ if js.is_function() => "function",
        _ if js.is_symbol() => "symbol",
        _ => "object",
    })
}
