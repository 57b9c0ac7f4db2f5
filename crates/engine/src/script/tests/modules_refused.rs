//! Modules that cannot be had, and what those that can may not do.

use super::modules::{importing, installed, value, write};
use super::*;
use crate::script::Import;
use std::fs;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

/// Why a module cannot be loaded: the error's code and text. The node is broken then: messages
/// vanish.
fn refusal(data: &TempDir, module: &str) -> (String, String) {
    let code = Code {
        function: "return msg".into(),
        initialize: "node.warn('set up')".into(),
        ..Code::default()
    };
    let (mut sandbox, started) = importing(data.path(), module, code);
    let [Effect::Error(failure, None)] = &started[..] else {
        panic!("{started:?}")
    };
    assert!(sandbox.call(message(1.0)).is_empty());
    let text = failure.message.to_string();
    let reason = text.strip_prefix(&format!("cannot load the module '{module}': "));
    let directory = data.path().to_str().unwrap();
    assert!(!text.contains(directory), "{text}");
    (failure.code.to_string(), reason.unwrap().to_owned())
}

fn reason(data: &TempDir, module: &str) -> String {
    refusal(data, module).1
}

#[test]
fn a_missing_module_is_named_in_the_error() {
    let data = installed(&[
        ("asks/index.js", "\nrequire('absent')"),
        ("here/index.js", "\n\nrequire('./absent')"),
        ("types/package.json", "{}"),
        ("broken/package.json", "{"),
    ]);
    assert_eq!(
        refusal(&data, "absent"),
        (
            "MODULE_NOT_FOUND".into(),
            "'absent' is not installed".into()
        )
    );
    assert_eq!(
        reason(&data, "asks"),
        "'absent' is not installed (node_modules/asks/index.js:2)"
    );
    assert_eq!(
        reason(&data, "here"),
        "'./absent' is not there (node_modules/here/index.js:3)"
    );
    assert_eq!(reason(&data, "types"), "'types' is not there");
    assert_eq!(
        reason(&data, "broken"),
        "'/node_modules/broken/package.json' cannot be read"
    );
    let nothing = tempfile::tempdir().unwrap();
    assert_eq!(reason(&nothing, "absent"), "'absent' is not installed");
}

#[test]
fn paths_that_a_package_does_not_export_are_refused() {
    let data = installed(&[
        ("strict/package.json", r#"{"exports": "./a.js"}"#),
        ("strict/a.js", ""),
        ("strict/lib/a.js", ""),
    ]);
    assert_eq!(
        refusal(&data, "strict/lib/a.js"),
        (
            "ERR_PACKAGE_PATH_NOT_EXPORTED".into(),
            "'strict' does not export './lib/a.js' to CommonJS".into()
        )
    );
}

#[test]
fn modules_beyond_the_sandbox_are_refused_with_a_catchable_error() {
    let data = installed(&[
        (
            "reads/index.js",
            "require('fs').readFileSync('/etc/passwd')",
        ),
        (
            "tries/index.js",
            "try { require('node:net') } catch (e) { module.exports = [e instanceof Error, e.code] }",
        ),
        ("native/index.js", "require('./build/it')"),
        ("native/build/it.node", ""),
    ]);
    let sandboxed = "needs files, the network or other processes, and functions reach none of them";
    for module in [
        "fs",
        "node:fs/promises",
        "child_process",
        "worker_threads",
        "https",
        "cluster",
    ] {
        assert_eq!(reason(&data, module), format!("'{module}' {sandboxed}"));
    }
    assert_eq!(
        reason(&data, "reads"),
        format!("'fs' {sandboxed} (node_modules/reads/index.js:1)")
    );
    assert_eq!(
        value(&data, "tries", "m"),
        r#"[true, "ERR_UNKNOWN_BUILTIN_MODULE"]"#
    );
    assert_eq!(reason(&data, "vm"), "'vm' of Node.js is not offered here");
    assert_eq!(
        reason(&data, "node:nosuch"),
        "'node:nosuch' of Node.js is not offered here"
    );
    assert_eq!(
        reason(&data, "native"),
        "'/node_modules/native/build/it.node' is machine code, and only JavaScript can be loaded (node_modules/native/index.js:1)"
    );
}

#[test]
fn no_path_leads_outside_node_modules() {
    let data = installed(&[
        ("up/index.js", "require('../../secret')"),
        (
            "above/index.js",
            "require('../../../../../../../../../../etc/passwd')",
        ),
        ("absolute/index.js", "require('/etc/passwd')"),
        ("main/package.json", r#"{"main": "../../secret.js"}"#),
        (
            "exports/package.json",
            r#"{"exports": "./../../secret.js"}"#,
        ),
    ]);
    write(&data.path().join("secret.js"), "module.exports = 'secret'");
    for (module, name) in [("up", "../../secret"), ("absolute", "/etc/passwd")] {
        assert_eq!(
            reason(&data, module),
            format!("'{name}' lies outside node_modules (node_modules/{module}/index.js:1)")
        );
    }
    assert!(reason(&data, "above").contains("lies outside node_modules"));
    assert_eq!(
        reason(&data, "./secret.js"),
        "'./secret.js' lies outside node_modules"
    );
    assert_eq!(
        reason(&data, "plain/../../secret"),
        "'plain/../../secret' is not installed"
    );
    assert_eq!(
        reason(&data, "up/../../secret.js"),
        "'up/../../secret.js' is not there"
    );
    for module in ["main", "exports"] {
        assert_eq!(reason(&data, module), format!("'{module}' is not there"));
    }
}

#[test]
fn no_symbolic_link_leads_outside_node_modules() {
    let data = installed(&[
        ("linked/index.js", "require('./secret')"),
        ("inside/index.js", "module.exports = require('./link')"),
        ("inside/real.js", "module.exports = __filename"),
    ]);
    let secret = "module.exports = 'secret'";
    write(&data.path().join("secret.js"), secret);
    write(&data.path().join("elsewhere/index.js"), secret);
    let modules = data.path().join("node_modules");
    symlink(
        data.path().join("secret.js"),
        modules.join("linked/secret.js"),
    )
    .unwrap();
    symlink(data.path().join("elsewhere"), modules.join("elsewhere")).unwrap();
    symlink("real.js", modules.join("inside/link.js")).unwrap();
    assert_eq!(
        reason(&data, "linked"),
        "'/node_modules/linked/secret.js' lies outside node_modules (node_modules/linked/index.js:1)"
    );
    assert!(reason(&data, "elsewhere").ends_with("lies outside node_modules"));
    assert_eq!(
        value(&data, "inside", "m"),
        r#""/node_modules/inside/real.js""#
    );
}

#[test]
fn an_error_in_a_module_names_its_file_and_line() {
    let data = installed(&[
        ("syntax/index.js", "require('./lib/bad')"),
        ("syntax/lib/bad.js", "var a = 1;\nvar b = ;\n"),
        (
            "throws/index.js",
            "\nfunction boom() {\n  throw new TypeError('boom') }\nboom()",
        ),
        ("text/index.js", "throw 'a text'"),
        ("data/index.js", "require('./data.json')"),
        ("data/data.json", "{nonsense"),
        ("bytes/index.js", "require('./bytes.js')"),
        ("esm/package.json", r#"{"type": "module"}"#),
        ("esm/index.js", "export default 1"),
        ("late/index.js", "module.exports = () => {\n  undefined.x }"),
    ]);
    fs::write(
        data.path().join("node_modules/bytes/bytes.js"),
        [0xff, 0xfe],
    )
    .unwrap();
    let syntax = reason(&data, "syntax");
    assert!(syntax.starts_with("SyntaxError: "), "{syntax}");
    assert!(
        syntax.ends_with(" (node_modules/syntax/lib/bad.js:2)"),
        "{syntax}"
    );
    assert_eq!(
        reason(&data, "throws"),
        "TypeError: boom (node_modules/throws/index.js:3)"
    );
    assert_eq!(reason(&data, "text"), "a text");
    let json = reason(&data, "data");
    assert!(
        json.starts_with("SyntaxError: node_modules/data/data.json: "),
        "{json}"
    );
    assert!(reason(&data, "bytes").starts_with("'/node_modules/bytes/bytes.js' cannot be read"));
    assert_eq!(
        refusal(&data, "esm"),
        (
            "ERR_REQUIRE_ESM".into(),
            "'/node_modules/esm/index.js' is an ES module, and only CommonJS can be loaded".into()
        )
    );
    let late = value(
        &data,
        "late",
        "(() => { try { m() } catch (e) { return e.stack } })()",
    );
    assert!(late.contains("node_modules/late/index.js:2"), "{late}");
}

#[test]
fn a_huge_file_is_not_read() {
    let data = installed(&[("huge/index.js", "")]);
    let file = fs::File::create(data.path().join("node_modules/huge/index.js")).unwrap();
    file.set_len(9 << 20).unwrap();
    assert_eq!(
        reason(&data, "huge"),
        "'/node_modules/huge/index.js' is larger than 8 MiB"
    );
}

#[test]
fn a_module_has_the_time_and_memory_limits_of_its_function() {
    let data = installed(&[
        ("endless/index.js", "for (;;) {}"),
        (
            "keeps/index.js",
            "for (;;) { try { require('absent') } catch (e) {} }",
        ),
        (
            "derives/index.js",
            "require('crypto').pbkdf2Sync('a', 'b', 2e9, 64, 'sha512')",
        ),
        (
            "hashes/index.js",
            "const hash = require('crypto').createHash('md5'); for (;;) hash.update('a'.repeat(1e6))",
        ),
        (
            "compresses/index.js",
            "const text = Array.from({ length: 2e5 }, (_, i) => i * 7919 % 100003).join();
             for (;;) require('zlib').brotliCompressSync(text)",
        ),
        (
            "greedy/index.js",
            "const a = []; for (;;) a.push(new Array(10000).fill(1))",
        ),
        ("deep/index.js", "(function down() { down() })()"),
    ]);
    for module in ["endless", "keeps", "derives", "hashes", "compresses"] {
        let (code, text) = refusal(&data, module);
        assert_eq!(code, "ERR_SCRIPT_EXECUTION_TIMEOUT", "{text}");
        assert_eq!(text, "Script execution timed out after 200ms");
    }
    assert!(reason(&data, "greedy").contains("out of memory"));
    assert!(reason(&data, "deep").contains("RangeError"));
}

#[test]
fn a_module_instance_is_not_shared_between_nodes() {
    let data = installed(&[(
        "patch/index.js",
        "Array.prototype.mine = 1; Object.assign(require('util'), { mine: 1 }); require('events').prototype.mine = 1;
         module.exports = () => [[].mine, require('util').mine, new (require('events'))().mine]",
    )]);
    let scripts = scripts_in(data.path());
    let look = |module: &str, expression: &str| {
        let code = Code {
            function: format!("msg.payload = {expression}; return msg").into(),
            imports: Box::new([Import {
                var: "m".into(),
                module: module.into(),
            }]),
            ..Code::default()
        };
        let mut sandbox = sandbox_of(&scripts, code);
        sandbox.start();
        match sandbox.call(message(1.0)).first() {
            Some(Effect::Pass(message)) => format!("{:?}", message.get("payload")),
            other => format!("{other:?}"),
        }
    };
    assert_eq!(look("patch", "m()"), "[1, 1, 1]");
    assert_eq!(look("util", "[[].mine, m.mine]"), "[undefined, undefined]");
    assert_eq!(look("events", "new m().mine"), "undefined");
}
