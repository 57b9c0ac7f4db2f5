//! Compiles the code of nodes and, where that makes no difference, keeps no text of it.
//!
//! `QuickJS` keeps the text of each function for `Function.prototype.toString`, and that of inner
//! functions again for each around them. Only bytecode that is written and read again is without
//! (`JS_WRITE_OBJ_STRIP_SOURCE`); names, lines and columns stay in it.

#![allow(
    unsafe_code,
    reason = "rquickjs writes and reads modules only, whose code is always strict"
)]

use super::{failure, options};
use rquickjs::{Ctx, Error, Function, Result, Value, qjs};
use std::ffi::CString;

/// The function that a node's code is. The text of it is kept if the code may ask for it, by
/// `toString()` or `String(…)`, and if it may have classes, which `util.inspect` knows by their
/// text.
pub(super) fn function<'js>(ctx: &Ctx<'js>, code: &str) -> Result<Function<'js>> {
    if code.contains("String") || code.contains("class") {
        ctx.eval_with_options(code, options(failure::FILE))
    } else {
        without_text(ctx, code, failure::FILE)?.get()
    }
}

/// Evaluates a script whose functions have no text.
fn without_text<'js>(ctx: &Ctx<'js>, source: &str, file: &str) -> Result<Value<'js>> {
    let (text, file) = (CString::new(source)?, CString::new(file)?);
    let flags = qjs::JS_EVAL_TYPE_GLOBAL | qjs::JS_EVAL_FLAG_COMPILE_ONLY;
    let strip = qjs::JS_WRITE_OBJ_BYTECODE | qjs::JS_WRITE_OBJ_STRIP_SOURCE;
    let raw = ctx.as_raw().as_ptr();
    // Safety: `raw` is alive as long as `ctx`, which is entered on this thread. `text` ends with a
    // NUL behind the bytes that are counted. Each value that comes into being has one owner:
    // `compiled` is freed here, `read` by `JS_EvalFunction`, `made` by the `Value`; so have the
    // bytes, which `JS_ReadObject` copies from. They are what this library wrote a moment ago: it
    // trusts them, and no one else can have changed them.
    unsafe {
        let compiled = qjs::JS_Eval(
            raw,
            text.as_ptr(),
            source.len() as _,
            file.as_ptr(),
            flags.cast_signed(),
        );
        if qjs::JS_IsException(compiled) {
            return Err(Error::Exception);
        }
        let mut length = 0;
        let bytes = qjs::JS_WriteObject(raw, &raw mut length, compiled, strip.cast_signed());
        qjs::JS_FreeValue(raw, compiled);
        if bytes.is_null() {
            return Err(Error::Exception);
        }
        let read = qjs::JS_ReadObject(raw, bytes, length, qjs::JS_READ_OBJ_BYTECODE.cast_signed());
        qjs::js_free(raw, bytes.cast());
        if qjs::JS_IsException(read) {
            return Err(Error::Exception);
        }
        let made = qjs::JS_EvalFunction(raw, read);
        if qjs::JS_IsException(made) {
            return Err(Error::Exception);
        }
        Ok(Value::from_raw(ctx.clone(), made))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::without_text;
    use crate::script::script_memory::ScriptMemory;
    use rquickjs::{Context, Function, Runtime};

    /// `tests/instructions` runs it under memcheck.
    #[test]
    fn all_memory_of_code_without_text_is_freed_whether_it_runs_or_fails() {
        let memory = ScriptMemory::default();
        let bytes = memory.bytes();
        let runtime = Runtime::new_with_alloc(memory).unwrap();
        let context = Context::full(&runtime).unwrap();
        context.with(|ctx| {
            for n in 0..10 {
                let source =
                    format!("(function next(a) {{ const inner = () => a + {n}; return inner() }})");
                let next: Function<'_> =
                    without_text(&ctx, &source, "next").unwrap().get().unwrap();
                assert_eq!(next.call::<_, i32>((1,)).unwrap(), n + 1);
            }
            for fails in ["(function (", "throw new Error('on the way')", "a\0b"] {
                assert!(without_text(&ctx, fails, "fails").is_err(), "{fails}");
                ctx.catch();
            }
        });
        assert!(bytes.get() > 0);
        drop(context);
        drop(runtime);
        assert_eq!(bytes.get(), 0);
    }
}
