//! The natives that the library calls for the node whose code runs.

use super::effect::Effect;
use super::failure::throw;
use super::node_state::{Invocation, Phase};
use super::outputs::Outputs;
use super::{Scripts, failure, timezone, to_js};
use crate::context::Scope;
use crate::instance::timer_delay;
use crate::log_level::Level;
use rquickjs::function::Opt;
use rquickjs::{Ctx, Function, Object as JsObject, Result, Value as JsValue};
use smol_str::SmolStr;
use std::rc::Weak;
use std::sync::Arc;
use value::{Failure, Key, Path, Value, coerce};

/// Time zones: the machine's own, and what others show.
fn define_zones(native: &JsObject<'_>) -> Result<()> {
    let realm = native.ctx();
    let offset = |name: String, at: f64| timezone::offset(&name, at);
    let short = |name: String, at: f64| timezone::short(&name, at);
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
    define_held(native, scripts)?;
    define_contexts(native, scripts)
}

/// `send(messages, id)`, `done(msg)`.
fn define_messages<'js>(native: &JsObject<'js>, scripts: &Weak<Scripts>) -> Result<()> {
    let ctx = native.ctx();
    let weak = scripts.clone();
    let send = move |ctx: Ctx<'js>, messages: JsValue<'js>, id: JsValue<'js>| {
        let call = Invocation::of(&weak, &ctx)?;
        if call.state.closing.get() {
            call.state.push(Effect::Error(
                Failure::text("Cannot send from close function"),
                None,
            ));
            return Ok(());
        }
        Outputs::of(&call).send(&messages, &call.value(&id)?)
    };
    native.set("send", Function::new(ctx.clone(), send)?)?;
    let weak = scripts.clone();
    let done = move |ctx: Ctx<'js>, msg: JsValue<'js>| {
        let call = Invocation::of(&weak, &ctx)?;
        call.state.push(Effect::Done(call.state.message(
            &call.scripts,
            &call.realm,
            &msg,
        )?));
        Ok::<_, rquickjs::Error>(())
    };
    native.set("done", Function::new(ctx.clone(), done)?)
}

/// `resolved(result, msg, id)`, `rejected(thrown, msg, isNoted)`, `setUp(well)`: the outcomes of asynchronous code.
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
            let message = call.state.message(&call.scripts, &call.realm, &msg)?;
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
            Some(call.state.message(&call.scripts, &call.realm, &msg)?)
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

/// `hold()`, `settle(scope, key, value, store)`: objects of the stores that the code may have changed in place.
fn define_held<'js>(native: &JsObject<'js>, scripts: &Weak<Scripts>) -> Result<()> {
    let ctx = native.ctx();
    let weak = scripts.clone();
    let hold = move |ctx: Ctx<'js>| {
        Invocation::of(&weak, &ctx)?.state.holds.set(true);
        Ok::<_, rquickjs::Error>(())
    };
    native.set("hold", Function::new(ctx.clone(), hold)?)?;
    let weak = scripts.clone();
    let settle = move |ctx: Ctx<'js>,
                       scope: u8,
                       key: String,
                       value: JsValue<'js>,
                       store: Opt<Option<String>>| {
        let call = Invocation::of(&weak, &ctx)?;
        let value = call.value(&value)?;
        let node = &call.state.node;
        let (scope, path) = (scope_of(scope), path(&ctx, &key, store)?);
        let mut contexts = node.contexts.borrow_mut();
        if !coerce::deep_equal(&contexts.read(scope, &node.info, &path), &value) {
            let written = contexts.write(scope, &node.info, &path, value);
            written.map_err(|failure| throw(&ctx, &failure))?;
        }
        Ok::<_, rquickjs::Error>(())
    };
    native.set("settle", Function::new(ctx.clone(), settle)?)
}

/// `read(scope, key, store)`, `write(scope, key, value, store)`, `keys(scope, store)`, `env(name)`, `path(expression)`.
fn define_contexts<'js>(native: &JsObject<'js>, scripts: &Weak<Scripts>) -> Result<()> {
    let ctx = native.ctx();
    let weak = scripts.clone();
    let read = move |ctx: Ctx<'js>, scope: u8, key: String, store: Opt<Option<String>>| {
        let call = Invocation::of(&weak, &ctx)?;
        let node = &call.state.node;
        let value =
            node.contexts
                .borrow()
                .read(scope_of(scope), &node.info, &path(&ctx, &key, store)?);
        to_js::value(&call.scripts, &call.realm, &value)
    };
    native.set("read", Function::new(ctx.clone(), read)?)?;
    let weak = scripts.clone();
    let write = move |ctx: Ctx<'js>,
                      scope: u8,
                      key: String,
                      value: JsValue<'js>,
                      store: Opt<Option<String>>| {
        let call = Invocation::of(&weak, &ctx)?;
        let value = call.value(&value)?;
        let node = &call.state.node;
        let written = node.contexts.borrow_mut().write(
            scope_of(scope),
            &node.info,
            &path(&ctx, &key, store)?,
            value,
        );
        written.map_err(|failure| throw(&ctx, &failure))?;
        Ok::<_, rquickjs::Error>(())
    };
    native.set("write", Function::new(ctx.clone(), write)?)?;
    let weak = scripts.clone();
    let keys = move |ctx: Ctx<'js>, scope: u8, store: Opt<Option<String>>| {
        let call = Invocation::of(&weak, &ctx)?;
        let node = &call.state.node;
        let contexts = node.contexts.borrow();
        let keys = contexts.keys(scope_of(scope), &node.info, store.0.flatten().as_deref());
        Ok::<_, rquickjs::Error>(keys.into_iter().map(String::from).collect::<Vec<_>>())
    };
    native.set("keys", Function::new(ctx.clone(), keys)?)?;
    let weak = scripts.clone();
    let env = move |ctx: Ctx<'js>, name: String| {
        let call = Invocation::of(&weak, &ctx)?;
        to_js::value(&call.scripts, &call.realm, &call.state.node.info.env(&name))
    };
    native.set("env", Function::new(ctx.clone(), env)?)?;
    native.set("path", Function::new(ctx.clone(), parts)?)
}

fn scope_of(number: u8) -> Scope {
    match number {
        0 => Scope::Node,
        1 => Scope::Flow,
        _ => Scope::Global,
    }
}

/// A key of a context. Most are plain names, which need no parsing.
fn path(ctx: &Ctx<'_>, key: &str, store: Opt<Option<String>>) -> Result<Path> {
    let is_plain = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if is_plain {
        return Ok(Path {
            keys: Box::new([Key::Name(SmolStr::from(key))]),
            store: store.0.flatten().map(Into::into),
        });
    }
    let mut path = Path::parse(key).map_err(|failure| throw(ctx, &failure))?;
    if let Some(store) = store.0.flatten() {
        path.store = Some(store.into());
    }
    Ok(path)
}

/// The steps of a property expression: texts, numbers, and lists for nested ones.
#[allow(clippy::needless_pass_by_value, reason = "arguments arrive by value")]
fn parts(ctx: Ctx<'_>, expression: String) -> Result<JsValue<'_>> {
    steps(&ctx, &path(&ctx, &expression, Opt(None))?)
}

fn steps<'js>(ctx: &Ctx<'js>, path: &Path) -> Result<JsValue<'js>> {
    let steps_of = rquickjs::Array::new(ctx.clone())?;
    for (index, key) in path.keys.iter().enumerate() {
        match key {
            Key::Name(name) => steps_of.set(index, name.as_str())?,
            Key::Index(at) => steps_of.set(index, *at)?,
            Key::Nested(inner) => steps_of.set(index, steps(ctx, inner)?)?,
        }
    }
    Ok(steps_of.into_value())
}
