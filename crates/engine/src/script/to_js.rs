//! Our values as JavaScript values, made in the realm of the function that will see them.

use super::Scripts;
use rquickjs::function::Constructor;
use rquickjs::object::Property;
use rquickjs::{
    Array, ArrayBuffer, Atom, Ctx, Exception, Function, Object as JsObject, Result,
    String as JsString, Value as JsValue,
};
use smol_str::SmolStr;
use value::{Failure, Handle, MAX_DEPTH, Message, Object, Value};

/// A message as an object, with its `visible` properties only; `None`: all.
pub(super) fn message<'js>(
    scripts: &Scripts,
    ctx: &Ctx<'js>,
    message: &Message,
    visible: Option<&[SmolStr]>,
) -> Result<JsValue<'js>> {
    let Some(visible) = visible else {
        return object(scripts, ctx, message.properties(), 0);
    };
    let object = JsObject::new(ctx.clone())?;
    for name in visible {
        if message.properties().contains_key(name) {
            property(scripts, &object, message, name)?;
        }
    }
    Ok(object.into_value())
}

/// Gives the object a property of the message, or takes it away if that has none.
pub(super) fn property(
    scripts: &Scripts,
    object: &JsObject<'_>,
    message: &Message,
    name: &SmolStr,
) -> Result<()> {
    match message.properties().get(name) {
        Some(value) => set(scripts, object, name, any(scripts, object.ctx(), value, 1)?),
        None => object.remove(scripts.names.atom(object.ctx(), name)?),
    }
}

/// Adds the properties of the message that were not visible, and puts all in their order.
pub(super) fn complete<'js>(
    scripts: &Scripts,
    object: &JsObject<'js>,
    message: &Message,
    visible: &[SmolStr],
) -> Result<()> {
    let before: Vec<Atom<'js>> = object.keys().collect::<Result<_>>()?;
    let to_end = |atom: Atom<'js>| -> Result<()> {
        let value: JsValue<'js> = object.get(atom.clone())?;
        object.remove(atom.clone())?;
        object.set(atom, value)
    };
    for (name, value) in message.properties() {
        let atom = scripts.names.atom(object.ctx(), name)?;
        if !visible.contains(name) {
            set(scripts, object, name, any(scripts, object.ctx(), value, 1)?)?;
        } else if before.contains(&atom) {
            to_end(atom)?;
        }
    }
    for atom in before {
        let (name, atom) = scripts.names.text(object.ctx(), atom)?;
        if !visible.contains(&name) && !message.properties().contains_key(&name) {
            object.remove(atom)?;
        } else if !message.properties().contains_key(&name) {
            to_end(atom)?;
        }
    }
    Ok(())
}

/// Any value.
pub(super) fn value<'js>(scripts: &Scripts, ctx: &Ctx<'js>, value: &Value) -> Result<JsValue<'js>> {
    any(scripts, ctx, value, 0)
}

fn any<'js>(
    scripts: &Scripts,
    ctx: &Ctx<'js>,
    value: &Value,
    depth: usize,
) -> Result<JsValue<'js>> {
    if depth > MAX_DEPTH {
        return Err(Exception::throw_range(ctx, "value is nested too deeply"));
    }
    match value {
        Value::Undefined => Ok(JsValue::new_undefined(ctx.clone())),
        Value::Null => Ok(JsValue::new_null(ctx.clone())),
        Value::Bool(b) => Ok(JsValue::new_bool(ctx.clone(), *b)),
        Value::Number(n) => Ok(number(ctx, *n)),
        Value::String(s) => Ok(JsString::from_str(ctx.clone(), s)?.into_value()),
        Value::Array(elements) => {
            let array = Array::new(ctx.clone())?;
            for (index, element) in elements.iter().enumerate() {
                array.set(index, any(scripts, ctx, element, depth + 1)?)?;
            }
            Ok(array.into_value())
        }
        Value::Object(properties) => object(scripts, ctx, properties, depth),
        Value::Buffer(bytes) => buffer(scripts, ctx, bytes),
        Value::Date(ms) => construct(ctx, "Date", (*ms,)),
        Value::Error(failure) => error(ctx, failure),
        Value::RegExp(regexp) => construct(ctx, "RegExp", (regexp.0.as_str(), regexp.1.as_str())),
        Value::Handle(handle) => opaque(scripts, ctx, handle),
    }
}

/// Whole numbers become `QuickJS` integers, but never minus zero, which integers cannot be.
fn number<'js>(ctx: &Ctx<'js>, n: f64) -> JsValue<'js> {
    if n == 0.0 && n.is_sign_negative() {
        JsValue::new_float(ctx.clone(), n)
    } else {
        JsValue::new_number(ctx.clone(), n)
    }
}

fn object<'js>(
    scripts: &Scripts,
    ctx: &Ctx<'js>,
    properties: &Object,
    depth: usize,
) -> Result<JsValue<'js>> {
    let object = JsObject::new(ctx.clone())?;
    for (name, property) in properties {
        set(
            scripts,
            &object,
            name,
            any(scripts, ctx, property, depth + 1)?,
        )?;
    }
    Ok(object.into_value())
}

fn set<'js>(
    scripts: &Scripts,
    object: &JsObject<'js>,
    name: &SmolStr,
    value: JsValue<'js>,
) -> Result<()> {
    if name == "__proto__" {
        // Plain assignment would change the prototype: data from outside must never do that.
        let own = Property::from(value).writable().enumerable().configurable();
        return object.prop("__proto__", own);
    }
    object.set(scripts.names.atom(object.ctx(), name)?, value)
}

/// A `Buffer` with a copy of these bytes.
pub(super) fn buffer<'js>(scripts: &Scripts, ctx: &Ctx<'js>, bytes: &[u8]) -> Result<JsValue<'js>> {
    let library = scripts.library()?;
    // Of the library's realm, as the `Buffer` is: the node's own may have no array buffers.
    let realm = library.inside.clone().restore(ctx)?.ctx().clone();
    let store = ArrayBuffer::new_copy(realm, bytes)?;
    library.function(ctx, "bufferOver")?.call((store,))
}

fn error<'js>(ctx: &Ctx<'js>, failure: &Failure) -> Result<JsValue<'js>> {
    let kind = match failure.name.as_str() {
        name @ ("EvalError" | "RangeError" | "ReferenceError" | "SyntaxError" | "TypeError"
        | "URIError") => name,
        _ => "Error",
    };
    let error: JsObject<'js> = construct(ctx, kind, (failure.message.as_str(),))?.get()?;
    let hidden = |text: &SmolStr| Property::from(text.to_string()).writable().configurable();
    if !failure.name.is_empty() && failure.name != kind {
        error.prop("name", hidden(&failure.name))?;
    }
    if !failure.stack.is_empty() {
        error.prop("stack", hidden(&failure.stack))?;
    }
    if !failure.code.is_empty() {
        error.set("code", failure.code.as_str())?;
    }
    Ok(error.into_value())
}

fn construct<'js>(
    ctx: &Ctx<'js>,
    class: &str,
    args: impl rquickjs::function::IntoArgs<'js>,
) -> Result<JsValue<'js>> {
    ctx.globals()
        .get::<_, Constructor<'js>>(class)?
        .construct(args)
}

/// An object that carries a reference to something of the runtime, and nothing else.
fn opaque<'js>(scripts: &Scripts, ctx: &Ctx<'js>, handle: &Handle) -> Result<JsValue<'js>> {
    let (taken, handle) = (scripts.taken.clone(), handle.clone());
    let open = Function::new(ctx.clone(), move || {
        taken.borrow_mut().replace(handle.clone());
    })?;
    scripts
        .library()?
        .function(ctx, "handleOver")?
        .call((open,))
}
