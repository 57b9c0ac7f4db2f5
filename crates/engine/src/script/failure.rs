//! Exceptions of JavaScript as failures with the line of the user's code, and failures as
//! exceptions.

use super::syntax::SyntaxError;
use super::v8_messages;
use super::{Scripts, from_js, source};
use rquickjs::{Ctx, Exception, Value as JsValue};
use smol_str::SmolStr;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use value::{Failure, Message, Value};

/// The name of a function's source in stacks.
pub(super) const FILE: &str = "Function node";

/// The part that the names of all module files contain.
const MODULES: &str = "node_modules/";

/// The code of Node's `vm` for an expired time-out. It is no error of the function's own.
const OUT_OF_TIME: &str = "ERR_SCRIPT_EXECUTION_TIMEOUT";

/// A failure, thrown with its code.
pub(super) fn throw(ctx: &Ctx<'_>, failure: &Failure) -> rquickjs::Error {
    match Exception::from_message(ctx.clone(), &failure.message) {
        Ok(exception) => {
            let _ = exception.as_object().set("code", failure.code.as_str());
            exception.throw()
        }
        Err(e) => e,
    }
}

/// The pending exception, or that the time was over.
pub(super) fn pending(scripts: &Scripts, ctx: &Ctx<'_>) -> Failure {
    let thrown = ctx.catch();
    if scripts.clock.expired.get() {
        return timed_out(scripts.clock.limit.get());
    }
    thrown_by_code(scripts, ctx, &thrown)
}

/// The pending exception, or that the time was over, while a module was loaded. Says in which file,
/// if that is known.
pub(super) fn of_loading(scripts: &Scripts, ctx: &Ctx<'_>, module: &str) -> Failure {
    let cause = pending(scripts, ctx);
    let reason = match cause.name.as_str() {
        "" | "Error" => cause.message.to_string(),
        _ => cause.to_string(),
    };
    let place = cause.stack.lines().find_map(place_in_module);
    let place = place.map_or(String::new(), |place| format!(" ({place})"));
    Failure {
        code: cause.code,
        ..Failure::error(format!(
            "cannot load the module '{module}': {reason}{place}"
        ))
    }
}

/// The error of an expired time-out, in the words of Node's `vm`.
pub(super) fn timed_out(limit: Duration) -> Failure {
    Failure {
        code: OUT_OF_TIME.into(),
        ..Failure::error(format!(
            "Script execution timed out after {}ms",
            limit.as_millis()
        ))
    }
}

/// A thrown value as a failure. Of all errors only a `ReferenceError` contains its position, and
/// its name twice, as observed on Node-RED 4.1:
/// `ReferenceError: ReferenceError: x is not defined (line 2, col 1)`. The others have their stack.
pub(super) fn thrown_by_code<'js>(
    scripts: &Scripts,
    ctx: &Ctx<'js>,
    thrown: &JsValue<'js>,
) -> Failure {
    let mut failure = from_js::failure(scripts, ctx, thrown).unwrap_or_else(|_| {
        ctx.catch();
        Failure::error("the function failed, and so did telling why")
    });
    let (frames, place) = relocate(&failure.stack);
    let own = scripts.current.borrow().clone();
    let source = own.as_ref().map(|state| state.program.text.as_str());
    let at = place.and_then(|(line, column)| {
        Some((source?.lines().nth(line as usize - 1)?, column as usize))
    });
    if let Some(message) = v8_messages::of_v8(&failure.message, at) {
        failure.message = message.into();
    }
    let stack = format!("{failure}\n{frames}");
    if let ("ReferenceError", Some((line, column))) = (failure.name.as_str(), place) {
        failure.message = SmolStr::from(format!("{failure} (line {line}, col {column})"));
    }
    if !failure.name.is_empty() {
        failure.stack = SmolStr::from(stack.trim_end());
    }
    failure
}

/// The message with the thrown error in it; catch nodes find it as `_error`
/// (docs/reference/node-red-engine.md §4.3).
pub(super) fn noted(failure: &Failure, mut message: Message) -> Message {
    if !failure.name.is_empty() && failure.code != OUT_OF_TIME {
        message.set("error", Value::Error(Arc::new(failure.clone())));
    }
    message
}

/// A syntax error found when the source was read.
pub(super) fn of_syntax(ctx: &Ctx<'_>, whole: &str) -> SyntaxError {
    let thrown = ctx.catch();
    let text = |name: &str| {
        thrown
            .as_object()
            .and_then(|o| o.get::<_, String>(name).ok())
            .unwrap_or_default()
    };
    let error = Failure {
        name: text("name").into(),
        message: text("message").into(),
        ..Failure::default()
    };
    let (line, column) = place_in(&text("stack"), "").unwrap_or((1, 1));
    SyntaxError::new(error, whole, line, column)
}

/// The stack with the user's own line numbers, without the library's frames, and the innermost
/// place, if that is in the user's code and not in a module.
fn relocate(stack: &str) -> (String, Option<(u32, u32)>) {
    let mut own = String::new();
    let mut innermost = None;
    for frame in stack.lines() {
        if frame.contains(MODULES) {
            innermost.get_or_insert(None);
            let _ = writeln!(own, "{frame}");
            continue;
        }
        let Some(at) = frame.find(FILE) else { continue };
        let Some((line, column)) = place_in(&frame[at..], FILE) else {
            continue;
        };
        innermost.get_or_insert(Some((line, column)));
        let _ = writeln!(
            own,
            "{}{FILE}:{line}:{column})",
            frame[..at].trim_end_matches('(')
        );
    }
    (
        own.trim_end()
            .replace(&format!(" {FILE}"), &format!(" ({FILE}")),
        innermost.flatten(),
    )
}

/// The file of a module and the line, `node_modules/ms/index.js:12`, if the frame is in one.
fn place_in_module(frame: &str) -> Option<&str> {
    let place = frame.rsplit([' ', '(']).next()?;
    let (place, _column) = place.rsplit_once(':')?;
    place.contains(MODULES).then_some(place)
}

/// The first `FILE:line:column` in a text, counted from the user's first line.
fn place_in(text: &str, file: &str) -> Option<(u32, u32)> {
    let mut numbers = text[text.find(&format!("{file}:"))? + file.len() + 1..]
        .split(|c: char| !c.is_ascii_digit());
    let line: u32 = numbers.next()?.parse().ok()?;
    let column = numbers.next()?.parse().ok()?;
    Some((line.saturating_sub(source::LINES_BEFORE).max(1), column))
}
