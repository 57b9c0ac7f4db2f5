//! Evaluates a settings.js in a `QuickJS` that has nothing of the machine: no file, no variable, no
//! module, no network; and little time and memory. `prelude.js` has the stand-ins, which leave
//! marks where settings depend on the machine.

use rquickjs::{
    CatchResultExt, CaughtError, Context, Ctx, Function, IntoJs, Object, Runtime, Value as JsValue,
};
use serde_json::{Map, Value as Json};
use std::path::Path;
use std::time::{Duration, Instant};

const PRELUDE: &str = include_str!("prelude.js");

/// Bytes of memory of the evaluation. Our choice: what settings take is far below.
const MEMORY: usize = 64 << 20;
/// Bytes of its stack: the default of `QuickJS`.
const STACK: usize = 256 << 10;
/// The time of an evaluation. Our choice: settings take milliseconds.
const TIME: Duration = Duration::from_secs(5);

/// A variable of the environment stands between these.
pub(super) const VARIABLE: [char; 2] = ['\u{e000}', '\u{e001}'];
/// The content of a file: its path stands between these.
pub(super) const FILE: [char; 2] = ['\u{e002}', '\u{e003}'];
/// What is not evaluated: what makes it stands between these.
pub(super) const MADE: [char; 2] = ['\u{e004}', '\u{e005}'];

/// The variables of the environment that an evaluation has.
pub(super) enum Environment {
    /// None is set.
    None,
    /// Each is a mark with its name.
    Marks,
    /// Those of this process.
    Own,
}

/// The settings of a file.
#[derive(Debug, Default)]
pub(super) struct Evaluated {
    /// As JSON; what is none is a mark.
    pub(super) settings: Map<String, Json>,
    /// The modules that were not evaluated.
    pub(super) required: Vec<String>,
}

/// Evaluates the text of a file in this directory; an error is a sentence.
pub(super) fn evaluate(
    source: &str,
    directory: &Path,
    environment: &Environment,
) -> Result<Evaluated, String> {
    let failed = |error: rquickjs::Error| format!("QuickJS: {error}");
    let runtime = Runtime::new().map_err(failed)?;
    runtime.set_memory_limit(MEMORY);
    runtime.set_max_stack_size(STACK);
    let deadline = Instant::now() + TIME;
    runtime.set_interrupt_handler(Some(Box::new(move || Instant::now() > deadline)));
    let context = Context::full(&runtime).map_err(failed)?;
    let directory = directory.to_string_lossy();
    let text = context.with(|ctx| {
        let run = || {
            let prelude: Function<'_> = ctx.eval(PRELUDE)?;
            let environment = variables(&ctx, environment)?;
            prelude.call::<_, String>((source, &*directory, environment))
        };
        run().catch(&ctx).map_err(|error| match error {
            // QuickJS has no memory for an error.
            CaughtError::Value(value) if value.is_null() => {
                format!("it takes more than {} MiB of memory", MEMORY >> 20)
            }
            error => error.to_string(),
        })
    });
    let text = text.map_err(|error| {
        if Instant::now() > deadline {
            format!("it takes longer than {} s", TIME.as_secs())
        } else {
            error
        }
    })?;
    let mut found: Json = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let settings = match found["settings"].take() {
        Json::Object(settings) => settings,
        _ => Map::new(),
    };
    let required = serde_json::from_value(found["required"].take()).unwrap_or_default();
    Ok(Evaluated { settings, required })
}

fn variables<'js>(ctx: &Ctx<'js>, environment: &Environment) -> rquickjs::Result<JsValue<'js>> {
    match environment {
        Environment::None => "none".into_js(ctx),
        Environment::Marks => "marks".into_js(ctx),
        Environment::Own => {
            let variables = Object::new(ctx.clone())?;
            for (name, value) in std::env::vars_os() {
                if let (Some(name), Some(value)) = (name.to_str(), value.to_str()) {
                    variables.set(name, value)?;
                }
            }
            variables.into_js(ctx)
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(source: &str) -> Result<Evaluated, String> {
        evaluate(source, Path::new("/home/red"), &Environment::Marks)
    }

    fn setting(expression: &str) -> Json {
        let source = format!("module.exports = {{ a: {expression} }};");
        run(&source).unwrap().settings["a"].clone()
    }

    #[test]
    fn files_variables_and_modules_become_marks() {
        for (expression, expected) in [
            (
                "require('fs').readFileSync('key.pem')",
                "\u{e002}/home/red/key.pem\u{e003}",
            ),
            (
                "require('node:fs').readFileSync(require('path').join(__dirname, '..', 'k')).toString()",
                "\u{e002}/home/k\u{e003}",
            ),
            ("process.env.HASH", "\u{e000}HASH\u{e001}"),
            (
                "require('bcryptjs').hashSync('secret', 8)",
                "\u{e004}require(\"bcryptjs\")\u{e005}",
            ),
            ("new (require('x').Y)().z", "\u{e004}require(\"x\")\u{e005}"),
            ("function () {}", "\u{e004}a function\u{e005}"),
            ("10n", "\u{e004}a value that is no JSON\u{e005}"),
            ("require('path').resolve('/a/b/../c', 'd')", "/a/c/d"),
        ] {
            assert_eq!(setting(expression), json!(expected), "{expression}");
        }
        let evaluated = run("require('./auth'); require('fs'); exports.b = { c: [1] }").unwrap();
        assert_eq!(evaluated.required, ["./auth"]);
        assert_eq!(evaluated.settings["b"], json!({ "c": [1] }));
    }

    #[test]
    fn nothing_of_the_machine_can_be_reached() {
        for global in [
            "std",
            "os",
            "fetch",
            "Deno",
            "Bun",
            "scriptArgs",
            "print",
            "global",
            "import.meta",
            "process.binding",
            "process.mainModule",
            "require.cache",
            "globalThis.process",
            "globalThis.require",
        ] {
            let source = format!("exports.a = typeof ({global})");
            let found = run(&source).map(|found| found.settings["a"].clone());
            assert!(
                found.is_err() || found == Ok(json!("undefined")),
                "{global}: {found:?}"
            );
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "hidden").unwrap();
        let file = file.path().to_str().unwrap();
        let text = setting(&format!("require('fs').readFileSync({file:?})"));
        assert!(!text.to_string().contains("hidden"), "{text}");
        assert!(run("import fs from 'fs'").is_err());
        let imported = run("import('/etc/passwd').then((m) => { exports.a = m }); exports.b = 1");
        assert!(imported.is_err() || !imported.unwrap().settings.contains_key("a"));
        let own = evaluate(
            "exports.a = process.env.PATH",
            Path::new("/"),
            &Environment::None,
        );
        assert!(!own.unwrap().settings.contains_key("a"));
    }

    #[test]
    fn what_takes_too_long_or_too_much_is_ended() {
        for (source, reason) in [
            ("for (;;) {}", "longer than"),
            (
                "const a = []; for (;;) a.push(new Array(1000).fill('x'.repeat(100)));",
                "memory",
            ),
            ("(function f() { f() })()", "stack"),
            ("throw new Error('no')", "no"),
            ("process.exit(0)", "ends the process"),
            ("module.exports = () => 1", "exports no object"),
            ("exports.a = {", ""),
        ] {
            let error = run(source).unwrap_err();
            assert!(error.contains(reason), "{source}: {error}");
        }
        let endless = "exports.a = { toJSON() { for (;;) {} } }";
        assert!(run(endless).unwrap_err().contains("longer than"));
    }
}
