//! Decides from a function node's source whether its code may run in the realm that nodes share.
//!
//! That realm is frozen, so it is safe for any code. This is about code that would notice: code
//! that changes built-in objects or the global object, or may do so. It reads the words of the
//! source without parsing it; where they could mean such a thing, the node gets a realm of its own.

use super::message_use::is_doubtful;
use super::scopes::{Brackets, assigns_undeclared, is_assignment};
use super::tokens::{is_word, tokens};

/// What each node has for itself; in its own realm these are global variables.
const OWN: [&str; 8] = [
    "RED",
    "console",
    "context",
    "env",
    "flow",
    "global",
    "setInterval",
    "setTimeout",
];

/// Texts, also of strings, that lead to prototypes, to the global object or to code made of texts.
const LEADS_ANYWHERE: [&str; 4] = ["__", "constructor", "globalThis", "prototype"];

/// Words of code that can reach or change more than it names.
const OPAQUE: [&str; 25] = [
    "Function",
    "Proxy",
    "Reflect",
    "\\",
    "arguments",
    "captureStackTrace",
    "class",
    "defineProperties",
    "defineProperty",
    "eval",
    "export",
    "getOwnPropertyDescriptor",
    "getOwnPropertyDescriptors",
    "getPrototypeOf",
    "import",
    "prepareStackTrace",
    "queueMicrotask",
    "setPrototypeOf",
    "stackTraceLimit",
    "super",
    "this",
    "with",
    "yield",
    "inherits",
    "FinalizationRegistry",
];

/// Built-in objects and functions.
const BUILT_IN: [&str; 50] = [
    "AggregateError",
    "Array",
    "ArrayBuffer",
    "Atomics",
    "BigInt",
    "BigInt64Array",
    "BigUint64Array",
    "Boolean",
    "Buffer",
    "DataView",
    "Date",
    "Error",
    "EvalError",
    "Float32Array",
    "Float64Array",
    "Int16Array",
    "Int32Array",
    "Int8Array",
    "Intl",
    "Iterator",
    "JSON",
    "Map",
    "Math",
    "Number",
    "Object",
    "Promise",
    "RangeError",
    "ReferenceError",
    "RegExp",
    "Set",
    "SharedArrayBuffer",
    "String",
    "Symbol",
    "SyntaxError",
    "TypeError",
    "URIError",
    "URL",
    "URLSearchParams",
    "Uint16Array",
    "Uint32Array",
    "Uint8Array",
    "Uint8ClampedArray",
    "WeakMap",
    "WeakRef",
    "WeakSet",
    "decodeURIComponent",
    "encodeURIComponent",
    "parseFloat",
    "parseInt",
    "util",
];

/// Those of them that code hands to functions.
const CALLBACKS: [&str; 7] = [
    "Boolean",
    "Number",
    "String",
    "decodeURIComponent",
    "encodeURIComponent",
    "parseFloat",
    "parseInt",
];

/// Methods that objects other than plain ones inherit: in a frozen realm an object cannot get one
/// of its own by assignment.
const INHERITED: [&str; 46] = [
    "add",
    "apply",
    "at",
    "bind",
    "call",
    "catch",
    "clear",
    "concat",
    "copyWithin",
    "delete",
    "description",
    "entries",
    "every",
    "exec",
    "fill",
    "filter",
    "finally",
    "find",
    "findIndex",
    "findLast",
    "flags",
    "flat",
    "flatMap",
    "forEach",
    "get",
    "has",
    "includes",
    "indexOf",
    "join",
    "keys",
    "lastIndexOf",
    "map",
    "pop",
    "push",
    "reduce",
    "reverse",
    "set",
    "shift",
    "slice",
    "some",
    "sort",
    "splice",
    "test",
    "then",
    "unshift",
    "values",
];

/// How the code of a node fits into the shared realm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sharing {
    /// True if the code names `node`, or anything else that each node has for itself.
    pub(super) names_own: bool,
}

impl Sharing {
    /// For a node with these pieces of code; `None`: the node needs a realm of its own.
    pub(super) fn of(pieces: &[&str]) -> Option<Self> {
        let mut names_own = false;
        for source in pieces {
            if LEADS_ANYWHERE.iter().any(|text| source.contains(text)) {
                return None;
            }
            let tokens = tokens(source);
            let brackets = Brackets::of(&tokens)?;
            let is_doubtful = |at| is_doubtful(&tokens, at, brackets.word_before(&tokens, at));
            let may_change = (0..tokens.len()).any(|at| is_opaque(&tokens, at) || is_doubtful(at));
            if may_change || assigns_undeclared(&tokens, &brackets) {
                return None;
            }
            names_own |= (0..tokens.len())
                .any(|at| is_variable(&tokens, at) && (tokens[at] == "node" || is_own(tokens[at])));
        }
        Some(Self { names_own })
    }

    /// The names in this source of what each node has for itself.
    pub(super) fn own_names(source: &str) -> Vec<&'static str> {
        let tokens = tokens(source);
        let is_named = |name: &&str| {
            (0..tokens.len()).any(|at| tokens[at] == *name && is_variable(&tokens, at))
        };
        OWN.into_iter().filter(is_named).collect()
    }
}

fn is_own(word: &str) -> bool {
    OWN.contains(&word)
}

/// Returns whether a token is not the name of a property behind a point.
fn is_variable(tokens: &[&str], at: usize) -> bool {
    at == 0 || !matches!(tokens[at - 1], "." | "?.")
}

/// Returns whether code with this token may change what others share, or is not understood.
fn is_opaque(tokens: &[&str], at: usize) -> bool {
    let token = tokens[at];
    let next = |offset: usize| tokens.get(at + offset).copied().unwrap_or("");
    if OPAQUE.contains(&token) {
        return true;
    }
    match token {
        // The variable of a global object; properties may be deleted.
        "delete" => !matches!(next(2), "." | "?." | "["),
        "." | "?." if INHERITED.contains(&next(1)) => {
            is_assignment(tokens, at + 2) && (at == 0 || tokens[at - 1] != "msg")
        }
        _ if BUILT_IN.contains(&token) && is_variable(tokens, at) => !is_read(tokens, at),
        _ => false,
    }
}

/// Returns whether a built-in object is only called, asked for a property or handed to a function.
fn is_read(tokens: &[&str], at: usize) -> bool {
    let before = at.checked_sub(1).map_or("", |at| tokens[at]);
    let mut end = at + 1;
    while matches!(tokens.get(end), Some(&("." | "?.")))
        && tokens
            .get(end + 1)
            .is_some_and(|name| name.starts_with(is_word))
    {
        end += 2;
    }
    let after = tokens.get(end).copied().unwrap_or("");
    let is_property = end > at + 1;
    let is_changed = is_assignment(tokens, end) || before == "delete";
    match after {
        "(" => !is_changed,
        "[" | "of" | "in" => false,
        _ if before == "instanceof" || before == "new" => !is_changed,
        // The key of an object.
        ":" if !is_property => matches!(before, "{" | ","),
        ")" | "," if CALLBACKS.contains(&tokens[at]) => matches!(before, "(" | ","),
        _ => is_property && !is_changed,
    }
}

#[cfg(test)]
mod tests {
    use super::Sharing;

    fn shares(source: &str) -> bool {
        Sharing::of(&["", source]).is_some()
    }

    #[test]
    fn usual_code_shares() {
        for source in [
            "return msg;",
            "msg.payload = Math.round(msg.payload * 10) / 10; return msg",
            "let n = context.get('n') || 0; n += 1; context.set('n', n); node.status({ text: `${n}` }); return [msg, null]",
            "var a = 1, b = { c: [2] }; for (var i = 0; i < 3; i++) { a += i; b.c[i] = a } return msg",
            "const { x, y: [z], ...rest } = msg.payload; let k; k = x; return { payload: k }",
            "function f(a, b) { a = b; let c; c = a; return c } msg.payload = f(1, 2); return msg",
            "try { f() } catch (e) { e = 1; node.error(e, msg) }",
            "msg.payload.list.forEach((item, n) => { item = n; n++ })",
            "const when = new Date(msg.t); msg.payload = when.toISOString(); return msg",
            "if (msg.payload instanceof Array && Array.isArray(msg.x)) { msg.y = Object.keys(msg.x).map(Number) }",
            "setTimeout(() => { node.send({ payload: Buffer.from('a') }) }, 100)",
            "for (const [k, v] of Object.entries(msg.payload)) { flow.set(k, v) }",
            "delete msg.payload; msg.values = 1; msg.x = a === b ? c : d; return msg",
            "let x = 1; x ??= 2; x **= 2; x >>>= 1; x <= 3; msg.p = { Date: Date.now(), b: x }; return msg",
            "var f = async function (a) { await g(a) }, h = 1; h = 2",
        ] {
            assert!(shares(source), "{source}");
        }
    }

    #[test]
    fn code_that_assigns_undeclared_names_has_its_own_realm() {
        for source in [
            "x = 1",
            "x += 1",
            "x++",
            "--x",
            "x ||= 1",
            "x >>>= 1",
            "for (x of [1]) {}",
            "for (x in msg) {}",
            "[x, y] = [1, 2]",
            "if (a) {} [x, y] = [1, 2]",
            "({ x } = msg)",
            "({ y: x } = msg)",
            "for ([x] of [[1]]) {}",
            "for ({ x } of []) {}",
            "function f() { var x } x = 1",
            "for (let x of []) {} x = 1",
            "{ let x } x = 1",
            "f(x => { x = 1 }); x = 2",
            "a: x = 1",
            "flow = 1",
            "setTimeout = f",
            "const { a = x } = msg; x = 1",
            "const { [x]: y } = msg; x = 1",
            "var a = 1\nb, c = 2",
            "var a = f(b), c = 1; b = 2",
            "function f(a = x) { x = 1 }",
            "delete flow",
            "undefined = 1",
            "Object = 1",
        ] {
            assert!(!shares(source), "{source}");
        }
    }

    #[test]
    fn code_that_may_change_built_in_objects_has_its_own_realm() {
        for source in [
            "const o = Object; o.assign = f",
            "Object.keys = f",
            "Object.keys.x = 1",
            "Math['max'] = f",
            "delete Math.max",
            "[].constructor.x = 1",
            "Array.prototype.x = 1",
            "''['constructor']",
            "msg.__proto__.x = 1",
            "msg['__proto__']",
            "(function () { return this })().x = 1",
            "globalThis.x = 1",
            "eval('x = 1')",
            "new Function('return 1')",
            "Reflect.set(Array, 'x', 1)",
            "Object.getPrototypeOf([]).x = 1",
            "Object.setPrototypeOf(msg, null)",
            "Object.defineProperty(Object, 'x', {})",
            "Object.assign(Math, { x: 1 })",
            "with (msg) { x = 1 }",
            "\\u0065val('1')",
            "class A extends Array {}",
            "function* g() { yield 1 }",
            "const [o] = [Object]; o.x = 1",
            "({ Object }).Object.x = 1",
            "f`${Math}`",
            "for (Math.x of [1]) {}",
            "[Math.x] = [1]",
            "Error.stackTraceLimit = 0",
            "list.map = f",
            "import('fs')",
            "}); x; (function () {",
            "a = b / c } / d; x = 1",
            "<!-- x",
        ] {
            assert!(!shares(source), "{source}");
        }
    }
}
