//! Modules that functions ask for: those that are built in, and those of `node_modules`.

use super::*;
use crate::script::Import;
use std::fs;
use tempfile::TempDir;

/// A data directory with these files below its `node_modules`.
pub(super) fn installed(files: &[(&str, &str)]) -> TempDir {
    let data = tempfile::tempdir().unwrap();
    fs::create_dir(data.path().join("node_modules")).unwrap();
    for (name, text) in files {
        write(&data.path().join("node_modules").join(name), text);
    }
    data
}

pub(super) fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A function that has the module `m`, and what its start has brought.
pub(super) fn importing(data: &Path, module: &str, code: Code) -> (Sandbox, Vec<Effect>) {
    let import = Import {
        var: "m".into(),
        module: module.into(),
    };
    let code = Code {
        imports: Box::new([import]),
        ..code
    };
    let mut sandbox = sandbox_of(&scripts_in(data), code);
    let started = sandbox.start();
    (sandbox, started)
}

/// The value of an expression in which `m` is the module.
pub(super) fn value(data: &TempDir, module: &str, expression: &str) -> String {
    let code = Code {
        function: format!("msg.payload = {expression}; return msg").into(),
        ..Code::default()
    };
    let (mut sandbox, started) = importing(data.path(), module, code);
    assert!(started.is_empty(), "{started:?}");
    match sandbox.call(message(1.0)).first() {
        Some(Effect::Pass(message)) => format!("{:?}", message.get("payload")),
        other => format!("{other:?}"),
    }
}

#[test]
fn a_package_is_its_main_file_or_its_index() {
    let data = installed(&[
        ("plain/index.js", "module.exports = 'index'"),
        ("named/package.json", r#"{"main": "lib/start"}"#),
        (
            "named/lib/start.js",
            "exports.file = __filename; exports.directory = __dirname",
        ),
        ("folder/package.json", r#"{"main": "lib"}"#),
        ("folder/lib/index.json", r#"{"is": "json"}"#),
        ("lost/package.json", r#"{"main": "nowhere.js"}"#),
        ("lost/index.js", "module.exports = 'found'"),
        ("@scope/name/index.js", "module.exports = 'scoped'"),
        ("@scope/name/sub.js", "module.exports = 'below'"),
    ]);
    assert_eq!(value(&data, "plain", "m"), r#""index""#);
    assert_eq!(value(&data, "plain@1.2", "m"), r#""index""#);
    assert_eq!(
        value(&data, "named", "[m.file, m.directory]"),
        r#"["/node_modules/named/lib/start.js", "/node_modules/named/lib"]"#
    );
    assert_eq!(value(&data, "folder", "m.is"), r#""json""#);
    assert_eq!(value(&data, "lost", "m"), r#""found""#);
    assert_eq!(value(&data, "@scope/name@^2", "m"), r#""scoped""#);
    assert_eq!(value(&data, "@scope/name/sub", "m"), r#""below""#);
}

#[test]
fn a_package_with_exports_is_resolved_by_them_alone() {
    let data = installed(&[
        (
            "strict/package.json",
            r#"{"main": "no.js", "exports": {".": {"import": "./no.mjs", "require": "./yes.cjs"}, "./part/*": "./lib/*.js"}}"#,
        ),
        ("strict/yes.cjs", "module.exports = 'yes'"),
        ("strict/lib/a.js", "module.exports = 'a'"),
    ]);
    assert_eq!(value(&data, "strict", "m"), r#""yes""#);
    assert_eq!(value(&data, "strict/part/a", "m"), r#""a""#);
}

#[test]
fn the_nearest_node_modules_wins_and_both_roots_are_searched() {
    let data = installed(&[
        (
            "one/index.js",
            "module.exports = [require('dep'), require('./up')]",
        ),
        ("one/up.js", "module.exports = require('../two')"),
        (
            "one/node_modules/dep/index.js",
            "module.exports = 'own dep'",
        ),
        ("two/index.js", "module.exports = require('dep')"),
        ("dep/index.js", "module.exports = 'dep'"),
    ]);
    let older = data.path().join("externalModules/node_modules");
    write(
        &older.join("old/index.js"),
        "module.exports = [__filename, require('dep')]",
    );
    assert_eq!(value(&data, "one", "m"), r#"["own dep", "dep"]"#);
    assert_eq!(
        value(&data, "old", "m"),
        r#"["/externalModules/node_modules/old/index.js", "dep"]"#
    );
}

#[test]
fn modules_in_a_cycle_see_the_exports_made_so_far() {
    let data = installed(&[
        (
            "a/index.js",
            "exports.early = 1; exports.b = require('b'); exports.late = 2",
        ),
        (
            "b/index.js",
            "const a = require('a'); exports.seen = Object.keys(a); exports.later = () => a.late",
        ),
    ]);
    assert_eq!(
        value(&data, "a", "[m.b.seen, m.b.later()]"),
        r#"[["early"], 2]"#
    );
}

#[test]
fn a_module_is_evaluated_once_in_each_node() {
    let data = installed(&[
        ("count/index.js", "let n = 0; module.exports = () => ++n"),
        (
            "twice/index.js",
            "require('count')(); module.exports = require('count')",
        ),
    ]);
    assert_eq!(value(&data, "twice", "m()"), "2");
    assert_eq!(value(&data, "twice", "m()"), "2");
}

#[test]
fn a_module_has_the_commonjs_environment_and_functions_do_not() {
    let data = installed(&[(
        "around/index.js",
        "#!/usr/bin/env node
        let process_ = process; { let process = 1 }
        const setImmediate = 2;
        module.exports = [this === exports, module.id, typeof require, typeof process.nextTick, process_.env,
            global === globalThis, global.Object === Object, typeof queueMicrotask, [...new TextEncoder().encode('a')],
            require('node:path') === require('path'), require.resolve('./index'), typeof Buffer]",
    )]);
    assert_eq!(
        value(
            &data,
            "around",
            "[...m, typeof process, typeof require, typeof TextEncoder]"
        ),
        r#"[true, "/node_modules/around/index.js", "function", "function", {}, true, true, "function", [97], true, "/node_modules/around/index.js", "function", "undefined", "undefined", "undefined"]"#
    );
}

#[test]
fn setup_and_close_code_have_the_modules_too() {
    let data = installed(&[("m/index.js", "module.exports = 'm'")]);
    let code = Code {
        initialize: "node.warn(m)".into(),
        finalize: "node.warn(m + '!')".into(),
        ..Code::default()
    };
    let (mut sandbox, started) = importing(data.path(), "m", code);
    let warned = |effects: Vec<Effect>| format!("{:?}", effects.first());
    assert_eq!(warned(started), r#"Some(Log(Warn, "m"))"#);
    assert_eq!(warned(sandbox.close()), r#"Some(Log(Warn, "m!"))"#);
}

#[test]
fn errors_of_functions_are_errors_for_modules() {
    // In Node-RED functions and modules have different kinds of Error.
    let data = installed(&[]);
    let attempt = |module: &str, code: &str| {
        let code = format!(
            "(() => {{ try {{ {code} }} catch (e) {{ return e.name + ': ' + e.message }} }})()"
        );
        value(&data, module, &code)
    };
    assert_eq!(
        attempt("events", "new m().emit('error', new Error('boom'))"),
        r#""Error: boom""#
    );
    assert_eq!(
        attempt("assert", "m.equal(1, 2, new RangeError('mine'))"),
        r#""RangeError: mine""#
    );
}
