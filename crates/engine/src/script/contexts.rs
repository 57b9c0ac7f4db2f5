//! `context`, `flow` and `global` for the library: what code reads from a store, or puts there, is
//! the stored object itself, as in Node-RED.

use super::failure::throw;
use super::node_state::Invocation;
use super::paths::path;
use super::stored_object::StoredObject;
use super::{Scripts, to_js};
use crate::context::{Scope, Slot};
use rquickjs::function::Opt;
use rquickjs::{Array, Ctx, Function, Object as JsObject, Result, Value as JsValue};
use std::any::Any;
use std::rc::{Rc, Weak};
use value::{Key, Path};

/// `read(scope, key, store)`, `write(scope, key, value, store)`, `keys(scope, store)`.
pub(super) fn define<'js>(native: &JsObject<'js>, scripts: &Weak<Scripts>) -> Result<()> {
    let ctx = native.ctx();
    let weak = scripts.clone();
    let get = move |ctx: Ctx<'js>, scope: u8, key: String, store: Opt<Option<String>>| {
        let call = Invocation::of(&weak, &ctx)?;
        read(&call, scope_of(&call, scope)?, &path(&ctx, &key, store)?)
    };
    native.set("read", Function::new(ctx.clone(), get)?)?;
    let weak = scripts.clone();
    let set = move |ctx: Ctx<'js>,
                    scope: u8,
                    key: String,
                    value: JsValue<'js>,
                    store: Opt<Option<String>>| {
        let call = Invocation::of(&weak, &ctx)?;
        let scope = scope_of(&call, scope)?;
        write(&call, scope, &path(&ctx, &key, store)?, value)
    };
    native.set("write", Function::new(ctx.clone(), set)?)?;
    let weak = scripts.clone();
    let keys = move |ctx: Ctx<'js>, scope: u8, store: Opt<Option<String>>| {
        let call = Invocation::of(&weak, &ctx)?;
        let (scope, node) = (scope_of(&call, scope)?, &call.state.node);
        let contexts = node.contexts.borrow();
        let keys = contexts.keys(scope, &node.info, store.0.flatten().as_deref());
        Ok::<_, rquickjs::Error>(keys.into_iter().map(String::from).collect::<Vec<_>>())
    };
    native.set("keys", Function::new(ctx.clone(), keys)?)
}

fn read<'js>(call: &Invocation<'js>, scope: Scope, path: &Path) -> Result<JsValue<'js>> {
    let node = &call.state.node;
    let slot = node.contexts.borrow().slot(scope, &node.info, path);
    if let Some(slot) = slot
        && let Some(object) = object(call, &slot, false)?
    {
        return object.get(&call.scripts, &call.realm, &slot.rest);
    }
    let value = node.contexts.borrow_mut().read(scope, &node.info, path);
    to_js::value(&call.scripts, &call.realm, &value)
}

fn write<'js>(
    call: &Invocation<'js>,
    scope: Scope,
    path: &Path,
    value: JsValue<'js>,
) -> Result<()> {
    let node = &call.state.node;
    let slot = node.contexts.borrow().slot(scope, &node.info, path);
    if let Some(slot) = slot {
        if slot.rest.is_empty() && value.is_object() {
            let object = StoredObject::new(call, value);
            node.contexts.borrow_mut().keep(&slot, object, true);
            return Ok(());
        }
        if !slot.rest.is_empty() {
            let parent = match object(call, &slot, true)? {
                None if !value.is_undefined() => new_parent(call, &slot)?,
                parent => parent,
            };
            if let Some(parent) = parent {
                parent.set(&call.scripts, &call.realm, &slot.rest, value)?;
                return Ok(());
            }
        }
    }
    let value = call.value(&value)?;
    let mut contexts = node.contexts.borrow_mut();
    let written = contexts.write(scope, &node.info, path, value);
    written.map_err(|failure| throw(&call.realm, &failure))?;
    Ok(())
}

/// The object of a slot; from now on it lives in JavaScript. `None` if it is a primitive.
fn object(call: &Invocation<'_>, slot: &Slot, is_write: bool) -> Result<Option<Rc<StoredObject>>> {
    let contexts = &call.state.node.contexts;
    let known = contexts.borrow_mut().object(slot, is_write);
    if let Some(known) = known {
        let known: Rc<dyn Any> = known;
        return Ok(known.downcast().ok());
    }
    let value = contexts.borrow().value(slot);
    let value = to_js::value(&call.scripts, &call.realm, &value)?;
    if !value.is_object() {
        return Ok(None);
    }
    let object = StoredObject::new(call, value);
    contexts.borrow_mut().keep(slot, object.clone(), is_write);
    Ok(Some(object))
}

/// An object, or array, in an empty slot, to write into.
fn new_parent(call: &Invocation<'_>, slot: &Slot) -> Result<Option<Rc<StoredObject>>> {
    let contexts = &call.state.node.contexts;
    if !contexts.borrow().value(slot).is_nullish() {
        return Ok(None);
    }
    let realm = call.realm.clone();
    let empty = match slot.rest.first() {
        Some(Key::Index(_)) => Array::new(realm)?.into_value(),
        _ => JsObject::new(realm)?.into_value(),
    };
    let object = StoredObject::new(call, empty);
    contexts.borrow_mut().keep(slot, object.clone(), true);
    Ok(Some(object))
}

/// The scope of that number; an exception if its context is on another thread.
fn scope_of(call: &Invocation<'_>, number: u8) -> Result<Scope> {
    let scope = match number {
        0 => Scope::Node,
        1 => Scope::Flow,
        _ => Scope::Global,
    };
    let reached = call.state.node.contexts.borrow().reach(scope);
    reached.map_err(|failure| throw(&call.realm, &failure))?;
    Ok(scope)
}
