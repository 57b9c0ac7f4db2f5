//! Property expressions that code gives, and their steps for the library.

use super::failure::throw;
use rquickjs::function::Opt;
use rquickjs::{Array, Ctx, Result, Value as JsValue};
use value::{Key, Path};

/// A key of a context. Most are plain names, which need no parsing.
pub(super) fn path(ctx: &Ctx<'_>, key: &str, store: Opt<Option<String>>) -> Result<Path> {
    let is_plain = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let path = if is_plain {
        Path::name(key)
    } else {
        Path::parse(key).map_err(|failure| throw(ctx, &failure))?
    };
    Ok(match store.0.flatten() {
        Some(store) => path.in_store(Some(&store)),
        None => path,
    })
}

/// The steps of a path: texts, numbers, and lists for nested ones.
pub(super) fn steps<'js>(ctx: &Ctx<'js>, path: &[Key]) -> Result<JsValue<'js>> {
    let steps_of = Array::new(ctx.clone())?;
    for (index, key) in path.iter().enumerate() {
        match key {
            Key::Name(name) => steps_of.set(index, name.as_str())?,
            Key::Index(at) => steps_of.set(index, *at)?,
            Key::Nested(inner) => steps_of.set(index, steps(ctx, inner.keys())?)?,
        }
    }
    Ok(steps_of.into_value())
}
