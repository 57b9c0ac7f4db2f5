//! Modules that the code of a function node asks for (`libs`), and what those require in turn.
//!
//! Node.js' built-in modules come from the engine's own files ([`mod@builtin`]), all others from
//! the operator's `node_modules` ([`installed`]). Both are evaluated in the node's own realm, once,
//! on first use, by `lib/modules/require.js`; a node that uses none pays nothing.
//!
//! Code sees the files' names from the data directory on, such as `/node_modules/ms/index.js`; the
//! location of that directory is not disclosed.

mod aead;
mod asymmetric;
mod brotli;
mod builtin;
mod cipher;
mod compression;
mod crypto;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod installed;
mod keys;
mod machine;
mod package;
mod refusal;
mod signing;
mod zlib;

pub(crate) use builtin::is_builtin_of_node;

use super::failure::{self, throw};
use super::{Scripts, url};
use installed::Installed;
use refusal::Refusal;
use rquickjs::{Ctx, Exception, Function, Object as JsObject, Result, Value as JsValue};
use smol_str::SmolStr;
use std::rc::{Rc, Weak};
use value::Failure;

/// A module that the code wants under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// The name in the code.
    pub var: SmolStr,
    /// The module, maybe with `@version` behind it, which is for npm. Empty: the name is there, and
    /// `null`.
    pub module: SmolStr,
}

/// Loads all modules into a node's realm; answers which of them failed, and why.
pub(super) fn load(
    scripts: &Rc<Scripts>,
    ctx: &Ctx<'_>,
    imports: &[Import],
) -> Result<Vec<Failure>> {
    let file: Function<'_> = ctx.eval_with_options(
        include_str!("../lib/modules/require.js"),
        super::options("require.js"),
    )?;
    let inside = scripts.library()?.inside.clone().restore(ctx)?;
    let require: Function<'_> = file.call((inside, native(scripts, ctx)?))?;
    let mut failures = Vec::new();
    for import in imports {
        let module = without_version(&import.module);
        let value: Result<JsValue<'_>> = if module.is_empty() {
            Ok(JsValue::new_null(ctx.clone()))
        } else {
            require.call((module,))
        };
        let kept = value.and_then(|value| ctx.globals().set(import.var.as_str(), value));
        if kept.is_err() {
            failures.push(failure::of_loading(scripts, ctx, &import.module));
        }
        if scripts.clock.expired.get() {
            break;
        }
    }
    Ok(failures)
}

/// `lodash@4` is `lodash`, `@scope/name@1` is `@scope/name`.
fn without_version(module: &str) -> &str {
    let version = module.char_indices().skip(1).find(|(_, c)| *c == '@');
    version.map_or(module, |(at, _)| &module[..at])
}

/// The functions for modules: `builtin(name)`, `find(name, directory)`, `read(file)`,
/// `compile(file, text)`, and those defined in [`crypto`], [`asymmetric`], [`mod@zlib`],
/// [`machine`] and [`url`].
fn native<'js>(scripts: &Rc<Scripts>, ctx: &Ctx<'js>) -> Result<JsObject<'js>> {
    let native = JsObject::new(ctx.clone())?;
    let installed = Rc::new(Installed::in_directory(&scripts.modules));
    native.set("builtin", Function::new(ctx.clone(), builtin)?)?;
    let weak = Rc::downgrade(scripts);
    let finding = Rc::clone(&installed);
    let find = move |ctx: Ctx<'js>, name: String, directory: String| {
        in_time(&weak, &ctx)?;
        finding
            .find(&name, &directory)
            .map_err(|refusal| refused(&ctx, &refusal))
    };
    native.set("find", Function::new(ctx.clone(), find)?)?;
    let reading = Rc::clone(&installed);
    let read = move |ctx: Ctx<'js>, file: String| {
        reading
            .read(&file)
            .map_err(|refusal| refused(&ctx, &refusal))
    };
    native.set("read", Function::new(ctx.clone(), read)?)?;
    let compile =
        move |ctx: Ctx<'js>, file: String, text: String| compile(&ctx, &installed, &file, &text);
    native.set("compile", Function::new(ctx.clone(), compile)?)?;
    crypto::define(&native, &Rc::downgrade(scripts))?;
    asymmetric::define(&native, &Rc::downgrade(scripts))?;
    zlib::define(&native, &Rc::downgrade(scripts))?;
    machine::define(&native)?;
    url::define_punycode(&native)?;
    Ok(native)
}

/// A built-in module as a function that makes it; `undefined` if there is none of this name.
#[allow(clippy::needless_pass_by_value, reason = "arguments arrive by value")]
fn builtin(ctx: Ctx<'_>, name: String) -> Result<Option<Function<'_>>> {
    match builtin::source(&name) {
        Ok(None) => Ok(None),
        Ok(Some(source)) => ctx
            .eval_with_options(source, super::options(&name))
            .map(Some),
        Err(refusal) => Err(refused(&ctx, &refusal)),
    }
}

/// A file as a function of what surrounds modules, which makes the function of `CommonJS`. Two, as
/// a module may declare what surrounds it again.
fn compile<'js>(
    ctx: &Ctx<'js>,
    installed: &Installed,
    file: &str,
    text: &str,
) -> Result<Function<'js>> {
    let text = text.trim_start_matches('\u{feff}');
    let comment = if text.starts_with("#!") { "//" } else { "" };
    let source = format!(
        "(function (process, global, setImmediate, clearImmediate, queueMicrotask, TextEncoder, TextDecoder) {{ \
         return function (exports, require, module, __filename, __dirname) {{{comment}{text}\n}} }})"
    );
    let made = ctx.eval_with_options(source, super::options(file.trim_start_matches('/')));
    if made.is_err() && installed.is_es_module(file) {
        ctx.catch();
        return Err(refused(ctx, &Refusal::EsModule(file.into())));
    }
    made
}

/// Fails when the code's time limit has expired. Between the long operations here, JavaScript
/// checks the clock too seldom.
fn in_time(scripts: &Weak<Scripts>, ctx: &Ctx<'_>) -> Result<()> {
    match scripts.upgrade() {
        Some(scripts) if !scripts.clock.is_expired() => Ok(()),
        _ => Err(Exception::throw_internal(ctx, "interrupted")),
    }
}

/// A refusal, as an error that modules can catch.
fn refused(ctx: &Ctx<'_>, refusal: &Refusal) -> rquickjs::Error {
    throw(
        ctx,
        &Failure {
            code: refusal.code().into(),
            ..Failure::error(refusal.to_string())
        },
    )
}
