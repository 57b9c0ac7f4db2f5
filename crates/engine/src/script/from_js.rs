//! JavaScript values as ours: always a copy, always finite.
//!
//! Values that a message cannot carry become the nearest ones that it can: a `Map` an object, a
//! `Set` an array, a typed array of numbers an array, a function or symbol `undefined`, a value
//! inside itself `[Circular]`.

use super::Scripts;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use rquickjs::atom::PredefinedAtom;
use rquickjs::{
    Array, Atom, Ctx, Exception, Filter, Object as JsObject, Result, String as JsString,
    Value as JsValue,
};
use smol_str::SmolStr;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use value::{Failure, MAX_DEPTH, MAX_PARTS, Message, Object, Value};

/// Any value; properties are read as JavaScript reads them, so getters run.
pub(super) fn value<'js>(scripts: &Scripts, ctx: &Ctx<'js>, value: &JsValue<'js>) -> Result<Value> {
    exactly(scripts, ctx, value).map(|(value, _)| value)
}

/// The message with the properties of the object in place of the `visible` ones. The object has no
/// others.
pub(super) fn merged(
    scripts: &Scripts,
    object: &JsObject<'_>,
    mut message: Message,
    visible: &[SmolStr],
) -> Result<Message> {
    let ctx = object.ctx();
    let mut added: Vec<(SmolStr, Value)> = Vec::new();
    for name in visible {
        let atom = scripts.names.atom(ctx, name)?;
        let now: JsValue<'_> = object.get(atom.clone())?;
        let is_there = !now.is_undefined() || object.contains_key(atom)?;
        let now = value(scripts, ctx, &now)?;
        match message.properties().get(name) {
            Some(before) if is_there && is_same(before, &now) => {}
            Some(_) if is_there => message.set(name.clone(), now),
            Some(_) => drop(message.take(name)),
            None if is_there => added.push((name.clone(), now)),
            None => {}
        }
    }
    if added.len() > 1 {
        let names = object.keys().collect::<Result<Vec<String>>>()?;
        added.sort_by_key(|(added, _)| names.iter().position(|name| name == added));
    }
    for (name, now) in added {
        message.set(name, now);
    }
    Ok(message)
}

/// The names of an object's properties, in their order.
pub(super) fn names(scripts: &Scripts, object: &JsObject<'_>) -> Result<Vec<SmolStr>> {
    let atoms = object.own_keys::<Atom<'_>>(Filter::new().string().enum_only());
    let name = |atom| Ok(scripts.names.text(object.ctx(), atom?)?.0);
    atoms.map(name).collect()
}

/// Returns whether both are the same primitive value, so that the message need not be copied to
/// change it.
fn is_same(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Number(old), Value::Number(new)) => old.to_bits() == new.to_bits(),
        (Value::String(old), Value::String(new)) => old == new,
        (Value::Bool(old), Value::Bool(new)) => old == new,
        (Value::Null, Value::Null) | (Value::Undefined, Value::Undefined) => true,
        _ => false,
    }
}

/// Any value, and whether a value made of the result would be the same again, but for the identity
/// of objects.
pub(super) fn exactly<'js>(
    scripts: &Scripts,
    ctx: &Ctx<'js>,
    value: &JsValue<'js>,
) -> Result<(Value, bool)> {
    let reading = Reading {
        scripts,
        ctx,
        parts: Cell::new(0),
        is_exact: Cell::new(true),
        plain: RefCell::new(None),
    };
    let value = reading.any(value, None)?;
    Ok((value, reading.is_exact.get()))
}

/// The length of an array that is not too long to be read. (`Array::len` panics where the length is
/// no 32-bit integer.)
pub(super) fn length(array: &Array<'_>) -> Result<usize> {
    let length: f64 = array.as_object().get(PredefinedAtom::Length)?;
    if length > f64::from(MAX_PARTS) {
        return Err(Exception::throw_range(
            array.ctx(),
            "array is too long for a message",
        ));
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and the limit"
    )]
    Ok(length as usize)
}

/// Text; lone surrogates become U+FFFD.
pub(super) fn text<'js>(ctx: &Ctx<'js>, string: &JsString<'js>) -> Result<SmolStr> {
    match string.to_string() {
        Ok(text) => Ok(text.into()),
        Err(rquickjs::Error::Utf8(_)) => {
            let well_formed: rquickjs::Function<'js> = ctx.eval("s => s.toWellFormed()")?;
            Ok(well_formed.call::<_, String>((string.clone(),))?.into())
        }
        Err(e) => Err(e),
    }
}

/// Bytes from what `Uint8Array.prototype.toBase64` made of them: `QuickJS`'s memory is never read
/// directly, which would need `unsafe`.
pub(super) fn bytes(ctx: &Ctx<'_>, encoded: &str) -> Result<Bytes> {
    STANDARD
        .decode(encoded)
        .map(Bytes::from)
        .map_err(|_| Exception::throw_internal(ctx, "bytes cannot be read"))
}

/// A thrown value as a failure: the properties of an `Error` object, anything else as text.
pub(super) fn failure<'js>(
    scripts: &Scripts,
    ctx: &Ctx<'js>,
    thrown: &JsValue<'js>,
) -> Result<Failure> {
    match value(scripts, ctx, thrown)? {
        Value::Error(failure) => Ok(Arc::unwrap_or_clone(failure)),
        Value::String(text) => Ok(Failure::text(text)),
        _ => Ok(Failure::text(match ctx.json_stringify(thrown.clone())? {
            Some(json) => text(ctx, &json)?,
            None => SmolStr::new_static("undefined"),
        })),
    }
}

struct Reading<'a, 'js> {
    scripts: &'a Scripts,
    ctx: &'a Ctx<'js>,
    parts: Cell<u32>,
    /// Whether all values could be converted as what they are.
    is_exact: Cell<bool>,
    /// The prototype of the plain object that was read last.
    plain: RefCell<Option<JsObject<'js>>>,
}

/// An object that is being read, and what it was found in.
#[derive(Clone, Copy)]
struct Inside<'a, 'js> {
    object: &'a JsValue<'js>,
    outer: Option<&'a Inside<'a, 'js>>,
    depth: usize,
}

impl<'js> Reading<'_, 'js> {
    fn any(&self, value: &JsValue<'js>, outer: Option<&Inside<'_, 'js>>) -> Result<Value> {
        let parts = self.parts.get() + 1;
        self.parts.set(parts);
        if parts > MAX_PARTS {
            return Err(Exception::throw_range(
                self.ctx,
                "value has too many parts for a message",
            ));
        }
        if let Some(n) = value.as_number() {
            return Ok(Value::Number(n));
        }
        if let Some(string) = value.as_string() {
            return Ok(Value::String(text(self.ctx, string)?));
        }
        if value.is_object() {
            return self.object(value, outer);
        }
        if let Some(b) = value.as_bool() {
            return Ok(Value::Bool(b));
        }
        if value.is_null() {
            return Ok(Value::Null);
        }
        self.is_exact
            .set(self.is_exact.get() && value.is_undefined());
        if value.is_big_int() {
            return self.foreign(
                value,
                &Inside {
                    object: value,
                    outer,
                    depth: 0,
                },
            );
        }
        Ok(Value::Undefined)
    }

    fn object(&self, value: &JsValue<'js>, outer: Option<&Inside<'_, 'js>>) -> Result<Value> {
        let mut ancestor = outer;
        while let Some(inside) = ancestor {
            if inside.object == value {
                self.is_exact.set(false);
                return Ok(Value::String(SmolStr::new_static("[Circular]")));
            }
            ancestor = inside.outer;
        }
        let inside = Inside {
            object: value,
            outer,
            depth: outer.map_or(0, |o| o.depth + 1),
        };
        if inside.depth > MAX_DEPTH {
            return Err(Exception::throw_range(
                self.ctx,
                "value is nested too deeply",
            ));
        }
        let Some(object) = value.as_object() else {
            return Ok(Value::Undefined);
        };
        if let Some(array) = value.as_array() {
            return self.array(array, &inside);
        }
        if self.is_plain(object) {
            return self.properties(object, &inside);
        }
        if object.is_typed_array::<u8>() {
            let encoded: String = self
                .scripts
                .library()?
                .function(self.ctx, "base64Of")?
                .call((value.clone(),))?;
            return bytes(self.ctx, &encoded).map(Value::buffer);
        }
        if value.is_function() {
            self.is_exact.set(false);
            return Ok(Value::Undefined);
        }
        self.foreign(value, &inside)
    }

    /// Returns whether the object is as if written `{…}` in a node's code.
    fn is_plain(&self, object: &JsObject<'js>) -> bool {
        if object.is_proxy() {
            return false;
        }
        let prototype = object.get_prototype();
        let mut plain = self.plain.borrow_mut();
        if prototype.is_none() || prototype == *plain {
            return prototype.is_some();
        }
        let is_plain = prototype
            .as_ref()
            .is_some_and(|prototype| self.scripts.is_plain(self.ctx, prototype.clone()));
        if is_plain {
            *plain = prototype;
        }
        is_plain
    }

    fn array(&self, array: &Array<'js>, inside: &Inside<'_, 'js>) -> Result<Value> {
        let len = length(array)?;
        let mut elements = Vec::with_capacity(len.min(4096));
        for index in 0..len {
            elements.push(self.any(&array.get(index)?, Some(inside))?);
        }
        Ok(Value::array(elements))
    }

    fn properties(&self, object: &JsObject<'js>, inside: &Inside<'_, 'js>) -> Result<Value> {
        let names = object.own_keys::<Atom<'js>>(Filter::new().string().enum_only());
        let mut properties = Object::with_capacity(names.len());
        for name in names {
            let (text, atom) = self.scripts.names.text(self.ctx, name?)?;
            let value: JsValue<'js> = object.get(atom)?;
            properties.insert(text, self.any(&value, Some(inside))?);
        }
        Ok(Value::object(properties))
    }

    /// Everything that is neither plain nor an array: the library classifies it, as `[kind, …]`.
    fn foreign(&self, value: &JsValue<'js>, inside: &Inside<'_, 'js>) -> Result<Value> {
        let parts: Array<'js> = self
            .scripts
            .library()?
            .function(self.ctx, "classify")?
            .call((value.clone(),))?;
        let kind: String = parts.get(0)?;
        let field = |index: usize| -> Result<SmolStr> {
            text(self.ctx, &parts.get::<JsString<'js>>(index)?)
        };
        if matches!(kind.as_str(), "plain" | "instead") {
            self.is_exact.set(false);
        }
        Ok(match kind.as_str() {
            "plain" | "literal" => {
                return value.as_object().map_or(Ok(Value::Undefined), |object| {
                    self.properties(object, inside)
                });
            }
            "instead" => self.any(&parts.get(1)?, Some(inside))?,
            "date" => Value::Date(parts.get(1)?),
            "error" => {
                let mut failure = Failure {
                    name: field(1)?,
                    message: field(2)?,
                    code: field(3)?,
                    stack: field(4)?,
                    cause: match self.any(&parts.get(5)?, Some(inside))? {
                        Value::Undefined => None,
                        cause => Some(Box::new(cause)),
                    },
                };
                // QuickJS leaves out the first line, which V8 writes.
                let head = failure.to_string();
                if !failure.stack.starts_with(head.as_str()) {
                    failure.stack = format!("{head}\n{}", failure.stack).trim_end().into();
                }
                Value::Error(Arc::new(failure))
            }
            "regexp" => Value::RegExp(Arc::new((field(1)?, field(2)?))),
            "handle" => self
                .scripts
                .taken
                .borrow_mut()
                .take()
                .map_or(Value::Undefined, Value::Handle),
            _ => Value::Undefined,
        })
    }
}
