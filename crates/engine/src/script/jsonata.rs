//! `JSONata` for `RED.util.evaluateJSONataExpression`: evaluated in Rust, in the context of the
//! node whose code runs.

use super::failure::throw;
use super::node_state::Invocation;
use super::stored_object::StoredObject;
use super::{Scripts, to_js};
use crate::expression::jsonata::Jsonata;
use crate::node_context::NodeContext;
use rquickjs::{Ctx, Function, Object, Result, Value as JsValue};
use std::any::Any;
use std::rc::Weak;
use value::Message;

/// Gives the library `checkJsonata(text)`, which throws if the text is no expression, and
/// `jsonata(text, input, isMessage, now)`, which answers its value; a message is seen as in
/// Node-RED's nodes.
pub(super) fn define<'js>(native: &Object<'js>, scripts: &Weak<Scripts>) -> Result<()> {
    let ctx = native.ctx();
    native.set("checkJsonata", Function::new(ctx.clone(), check)?)?;
    let weak = scripts.clone();
    let evaluate =
        move |ctx: Ctx<'js>, text: String, input: JsValue<'js>, is_message: bool, now: f64| {
            let call = Invocation::of(&weak, &ctx)?;
            let eval = NodeContext {
                now,
                ..call.state.node.clone()
            };
            let input = call.value(&input)?;
            if text.contains("Context") {
                snapshot(&call, &ctx);
            }
            let result =
                Jsonata::compile(&text).and_then(|expression| {
                    match Message::from_value(input.clone()).filter(|_| is_message) {
                        Some(message) => expression.evaluate(&eval, &message),
                        None => expression.evaluate_on(&eval, &input),
                    }
                });
            match result {
                Ok(value) => to_js::value(&call.scripts, &call.realm, &value),
                Err(failure) => Err(throw(&ctx, &failure)),
            }
        };
    native.set("jsonata", Function::new(ctx.clone(), evaluate)?)
}

/// Gives the expression the objects of the context stores as they are now. No code of a node runs
/// meanwhile: it could not use the stores.
fn snapshot(call: &Invocation<'_>, ctx: &Ctx<'_>) {
    let current = call.scripts.current.take();
    let mut contexts = call.state.node.contexts.borrow_mut();
    contexts.snapshot(&|object| {
        let object: &dyn Any = object;
        let object = object.downcast_ref::<StoredObject>()?;
        object.snapshot(&call.scripts, ctx).ok()
    });
    call.scripts.current.replace(current);
}

#[allow(clippy::needless_pass_by_value, reason = "arguments arrive by value")]
fn check(ctx: Ctx<'_>, text: String) -> Result<()> {
    Jsonata::compile(&text)
        .map(|_| ())
        .map_err(|failure| throw(&ctx, &failure))
}
