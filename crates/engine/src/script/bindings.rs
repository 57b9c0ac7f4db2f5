//! The natives that the library calls for the node whose code runs.

use super::effect::Effect;
use super::node_state::{self, Invocation, Phase};
use super::outputs::Outputs;
use super::{Scripts, contexts, failure, locales, paths, timezone, to_js};
use crate::instance::timer_delay;
use crate::log_level::Level;
use rquickjs::function::Opt;
use rquickjs::{Ctx, Function, Object as JsObject, Result, Value as JsValue};
use std::rc::Weak;
use std::sync::Arc;
use value::{Failure, Value, coerce};

/// Time zones: the machine's own, and what others show.
fn define_zones(native: &JsObject<'_>) -> Result<()> {
    let realm = native.ctx();
    let offset = |name: String, at: f64| timezone::offset(&name, at);
    let short = |name: String, at: f64| timezone::short(&name, at);
    native.set(
        "localeData",
        Function::new(realm.clone(), |language: String| locales::data(&language))?,
    )?;
    native.set("timeZone", Function::new(realm.clone(), timezone::own)?)?;
    native.set("zoneOffset", Function::new(realm.clone(), offset)?)?;
    native.set("zoneShort", Function::new(realm.clone(), short)?)
}

/// Defines everything.
pub(super) fn define(native: &JsObject<'_>, scripts: &Weak<Scripts>) -> Result<()> {
    define_zones(native)?;
    define_messages(native, scripts)?;
    define_outcomes(native, scripts)?;
    define_reports(native, scripts)?;
    define_timers(native, scripts)?;
    define_settings(native, scripts)?;
    contexts::define(native, scripts)
}

/// `send(messages, clone)`, which sends with the id of the given message,
/// `sendWith(id, messages, clone)`; `done(msg)`.
fn define_messages<'js>(native: &JsObject<'js>, scripts: &Weak<Scripts>) -> Result<()> {
    let ctx = native.ctx();
    let weak = scripts.clone();
    // Code calls this one itself, with as many values as it likes.
    let send = move |ctx: Ctx<'js>, messages: Opt<JsValue<'js>>, clone: Opt<JsValue<'js>>| {
        let messages = messages
            .0
            .unwrap_or_else(|| JsValue::new_undefined(ctx.clone()));
        let is_copy = clone.0.as_ref().and_then(JsValue::as_bool) != Some(false);
        if is_copy
            && let Some((scripts, state)) = node_state::running(&weak)
            && !state.closing.get()
            && Outputs::new(&scripts, &state, &ctx).send_given(&messages)?
        {
            return Ok(());
        }
        let call = Invocation::of(&weak, &ctx)?;
        send_messages(&call, &messages, &call.state.given_id(), clone.0.as_ref())
    };
    native.set("send", Function::new(ctx.clone(), send)?)?;
    let weak = scripts.clone();
    let send_with =
        move |ctx: Ctx<'js>, id: JsValue<'js>, messages: JsValue<'js>, clone: JsValue<'js>| {
            let call = Invocation::of(&weak, &ctx)?;
            send_messages(&call, &messages, &call.value(&id)?, Some(&clone))
        };
    native.set("sendWith", Function::new(ctx.clone(), send_with)?)?;
    let weak = scripts.clone();
    let done = move |ctx: Ctx<'js>, msg: JsValue<'js>| {
        let call = Invocation::of(&weak, &ctx)?;
        Outputs::of(&call).done(&msg)
    };
    native.set("done", Function::new(ctx.clone(), done)?)
}

/// Sends messages with this id, unless the node closes.
fn send_messages<'js>(
    call: &Invocation<'js>,
    messages: &JsValue<'js>,
    id: &Value,
    clone: Option<&JsValue<'js>>,
) -> Result<()> {
    if call.state.closing.get() {
        let failure = Failure::text("Cannot send from close function");
        call.state.push(Effect::Error(failure, None));
        return Ok(());
    }
    let is_late = clone.and_then(JsValue::as_bool) == Some(false);
    Outputs::of(call).send(messages, id, is_late)
}

/// `resolved(result, msg, id)`, `rejected(thrown, msg, isNoted)`, `setUp(well)`: the outcomes of
/// asynchronous code.
fn define_outcomes<'js>(native: &JsObject<'js>, scripts: &Weak<Scripts>) -> Result<()> {
    let ctx = native.ctx();
    let weak = scripts.clone();
    let resolved =
        move |ctx: Ctx<'js>, result: JsValue<'js>, msg: JsValue<'js>, id: JsValue<'js>| {
            let call = Invocation::of(&weak, &ctx)?;
            Outputs::of(&call).finish(&result, &msg, &call.value(&id)?)
        };
    native.set("resolved", Function::new(ctx.clone(), resolved)?)?;
    let weak = scripts.clone();
    let rejected = move |ctx: Ctx<'js>, thrown: JsValue<'js>, msg: JsValue<'js>, is_noted: bool| {
        let call = Invocation::of(&weak, &ctx)?;
        let failure = failure::thrown_by_code(&call.scripts, &call.realm, &thrown);
        let message = if msg.is_undefined() {
            None
        } else {
            let message = Outputs::of(&call).message(&msg)?;
            Some(if is_noted {
                failure::noted(&failure, message)
            } else {
                message
            })
        };
        call.state.push(Effect::Error(failure, message));
        Ok::<_, rquickjs::Error>(())
    };
    native.set("rejected", Function::new(ctx.clone(), rejected)?)?;
    let weak = scripts.clone();
    let set_up = move |ctx: Ctx<'js>, well: bool| {
        Invocation::of(&weak, &ctx)?.state.phase.set(if well {
            Phase::Ready
        } else {
            Phase::Broken
        });
        Ok::<_, rquickjs::Error>(())
    };
    native.set("setUp", Function::new(ctx.clone(), set_up)?)
}

/// `log(level, value)`, `error(thrown, msg)`, `status(status)`.
fn define_reports<'js>(native: &JsObject<'js>, scripts: &Weak<Scripts>) -> Result<()> {
    let ctx = native.ctx();
    let weak = scripts.clone();
    let log = move |ctx: Ctx<'js>, level: String, value: JsValue<'js>| {
        let call = Invocation::of(&weak, &ctx)?;
        let level = match level.as_str() {
            "error" => Level::Error,
            "warn" => Level::Warn,
            "debug" => Level::Debug,
            "trace" => Level::Trace,
            _ => Level::Info,
        };
        call.state.push(Effect::Log(level, call.value(&value)?));
        Ok::<_, rquickjs::Error>(())
    };
    native.set("log", Function::new(ctx.clone(), log)?)?;
    let weak = scripts.clone();
    let error = move |ctx: Ctx<'js>, thrown: JsValue<'js>, msg: JsValue<'js>| {
        let call = Invocation::of(&weak, &ctx)?;
        let thrown = call.value(&thrown)?;
        let message = if msg.is_object() {
            Some(Outputs::of(&call).message(&msg)?)
        } else {
            None
        };
        call.state.push(match (thrown, &message) {
            (Value::Error(failure), _) => Effect::Error(Arc::unwrap_or_clone(failure), message),
            (Value::Undefined | Value::Null, _) => Effect::Error(Failure::default(), message),
            (Value::String(text), _) => Effect::Error(Failure::text(text), message),
            // Without a message no catch node gets it: the value is logged as it is.
            (other, None) => Effect::Log(Level::Error, other),
            (other, _) => Effect::Error(Failure::text(coerce::to_text(&other)), message),
        });
        Ok::<_, rquickjs::Error>(())
    };
    native.set("error", Function::new(ctx.clone(), error)?)?;
    let weak = scripts.clone();
    let status = move |ctx: Ctx<'js>, status: JsValue<'js>| {
        let call = Invocation::of(&weak, &ctx)?;
        call.state.shows_status.set(true);
        call.state.push(Effect::Status(call.value(&status)?));
        Ok::<_, rquickjs::Error>(())
    };
    native.set("status", Function::new(ctx.clone(), status)?)
}

/// `setTimer(number, milliseconds)`, `clearTimer(number)`.
fn define_timers<'js>(native: &JsObject<'js>, scripts: &Weak<Scripts>) -> Result<()> {
    let ctx = native.ctx();
    let weak = scripts.clone();
    let set = move |ctx: Ctx<'js>, number: u32, milliseconds: f64| {
        Invocation::of(&weak, &ctx)?
            .state
            .push(Effect::SetTimer(number, timer_delay(milliseconds)));
        Ok::<_, rquickjs::Error>(())
    };
    native.set("setTimer", Function::new(ctx.clone(), set)?)?;
    let weak = scripts.clone();
    let clear = move |ctx: Ctx<'js>, number: u32| {
        Invocation::of(&weak, &ctx)?
            .state
            .push(Effect::ClearTimer(number));
        Ok::<_, rquickjs::Error>(())
    };
    native.set("clearTimer", Function::new(ctx.clone(), clear)?)
}

/// `env(name)`, `path(expression)`.
fn define_settings<'js>(native: &JsObject<'js>, scripts: &Weak<Scripts>) -> Result<()> {
    let ctx = native.ctx();
    let weak = scripts.clone();
    let env = move |ctx: Ctx<'js>, name: String| {
        let call = Invocation::of(&weak, &ctx)?;
        to_js::value(&call.scripts, &call.realm, &call.state.node.info.env(&name))
    };
    native.set("env", Function::new(ctx.clone(), env)?)?;
    native.set("path", Function::new(ctx.clone(), parts)?)
}

/// The steps of a property expression: texts, numbers, and lists for nested ones.
#[allow(clippy::needless_pass_by_value, reason = "arguments arrive by value")]
fn parts(ctx: Ctx<'_>, expression: String) -> Result<JsValue<'_>> {
    paths::steps(&ctx, paths::path(&ctx, &expression, Opt(None))?.keys())
}
