//! Tests the conversion of values on the way in and out, and the library's results for them.

use super::*;
use std::sync::Arc;
use value::{Failure, Handle, Object};

#[test]
fn every_expression_gives_the_result_of_node_20() {
    let mut wrong = Vec::new();
    let lines: Vec<&str> = include_str!("golden.txt").lines().collect();
    let mut sandbox = function(
        "try { msg.payload = util.inspect((0, eval)('(' + msg.payload + ')')) } \
         catch (e) { msg.payload = `throws ${e.name} ${e.code} ${e.message}` } return msg",
    );
    for pair in lines.chunks(2) {
        let expected: String =
            serde_json::from_str(pair[1].trim_start().trim_start_matches("=> ")).unwrap();
        let got = match sandbox.call(message(pair[0])).pop() {
            Some(Effect::Pass(message)) => {
                message.get("payload").as_str().unwrap_or("?").to_owned()
            }
            other => format!("{other:?}"),
        };
        if got != expected {
            wrong.push(format!("{}\n   node: {expected}\n  here: {got}", pair[0]));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn values_survive_the_conversion_in_both_directions() {
    let handle = Handle(Arc::new(5_u8));
    let mut nested = Object::default();
    nested.insert("2".into(), Value::from("b"));
    nested.insert(
        "a".into(),
        Value::array(vec![Value::Null, Value::from(true), Value::Undefined]),
    );
    nested.insert("1".into(), Value::from("é😀"));
    nested.insert("__proto__".into(), Value::from("own"));
    nested.insert(
        "bytes".into(),
        Value::buffer(bytes::Bytes::from_static(&[0, 255, 3])),
    );
    nested.insert("when".into(), Value::Date(86_400_000.0));
    nested.insert("zero".into(), Value::Number(-0.0));
    nested.insert(
        "rx".into(),
        Value::RegExp(Arc::new(("a/b".into(), "gi".into()))),
    );
    nested.insert(
        "error".into(),
        Value::Error(Arc::new(Failure {
            name: "TypeError".into(),
            message: "m".into(),
            code: "C".into(),
            stack: "s".into(),
            cause: None,
        })),
    );
    nested.insert("res".into(), Value::Handle(handle.clone()));
    let effects = run("const all = msg; return all", Value::object(nested));
    let Some(Effect::Pass(message)) = effects.first() else {
        panic!("{effects:?}")
    };
    assert_eq!(
        format!("{:?}", message.get("payload")),
        r#"{"1": "é😀", "2": "b", "a": [null, true, undefined], "__proto__": "own", "bytes": Buffer(b"\0\xff\x03"), "when": Date(86400000), "zero": -0, "rx": /a\/b/gi, "error": Error(TypeError: m), "res": Handle}"#
    );
    let Some(Value::Handle(back)) = message
        .get("payload")
        .as_object()
        .and_then(|o| o.get("res"))
    else {
        panic!()
    };
    assert!(Arc::ptr_eq(&back.0, &handle.0));
}

#[test]
fn values_unfit_for_a_message_become_the_nearest_equivalent() {
    let made = |source: &str| payload(&format!("msg.payload = {source}; return msg"), 1.0);
    assert_eq!(made("new Map([['a', 1]])"), r#"{"a": 1}"#);
    assert_eq!(made("new Set([1, 2])"), "[1, 2]");
    assert_eq!(made("10n"), "10");
    assert_eq!(made("Symbol('x')"), "undefined");
    assert_eq!(made("() => 1"), "undefined");
    assert_eq!(made("new Float32Array([1.5])"), "[1.5]");
    assert_eq!(
        made("new (class A { constructor() { this.x = 1 } })()"),
        r#"{"x": 1}"#
    );
    assert_eq!(made("new Proxy({ a: 1 }, {})"), r#"{"a": 1}"#);
    assert_eq!(made("'a\\ud800b'"), "\"a\u{fffd}b\"");
    assert_eq!(
        made("(() => { const a = { n: [] }; a.n.push(a); return a })()"),
        r#"{"n": ["[Circular]"]}"#
    );
    assert!(
        error("let a = {}; for (let i = 0; i < 1000; i++) a = { a }; msg.payload = a; return msg")
            .contains("nested too deeply")
    );
}

#[test]
fn the_sandbox_has_the_expected_globals_and_lacks_others() {
    let has = "['console','util','Buffer','URL','URLSearchParams','Date','RED','context','flow','global','env','setTimeout','clearTimeout','setInterval','clearInterval','promisify'].filter(n => typeof globalThis[n] === 'undefined')";
    assert_eq!(
        payload(&format!("msg.payload = {has}; return msg"), 1.0),
        "[]"
    );
    let has_not = "['require','process','fetch','structuredClone','TextEncoder','atob','btoa','crypto','queueMicrotask','setImmediate','performance','navigator','module'].filter(n => typeof globalThis[n] !== 'undefined')";
    assert_eq!(
        payload(&format!("msg.payload = {has_not}; return msg"), 1.0),
        "[]"
    );
    let red = "['cloneMessage','generateId','getMessageProperty','setMessageProperty','getObjectProperty','setObjectProperty','evaluateNodeProperty','evaluateJSONataExpression','prepareJSONataExpression','normalisePropertyExpression','parseContextStore','ensureString','ensureBuffer','compareObjects','encodeObject','getSetting','normaliseNodeTypeName'].filter(n => typeof RED.util[n] !== 'function')";
    assert_eq!(
        payload(&format!("msg.payload = {red}; return msg"), 1.0),
        "[]"
    );
    assert_eq!(
        payload(
            "msg.payload = [node.id, node.name, node.path, node.z, node.outputCount]; return msg",
            1.0
        ),
        r#"["n1", "a name", "t1/n1", "t1", 2]"#
    );
}

#[test]
fn red_util_works_on_messages() {
    let made = |source: &str| payload(&format!("msg.payload = {source}; return msg"), 1.0);
    assert_eq!(
        made("RED.util.getMessageProperty({ a: [{ b: 5 }] }, 'msg.a')"),
        r#"[{"b": 5}]"#
    );
    assert_eq!(made("/^[0-9a-f]{16}$/.test(RED.util.generateId())"), "true");
    assert_eq!(
        made(
            "(() => { const a = { b: [1], res: {} }; const c = RED.util.cloneMessage(a); c.b.push(2); return [a.b.length, c.res === a.res] })()"
        ),
        "[1, true]"
    );
    assert_eq!(
        made(
            "RED.util.evaluateJSONataExpression(RED.util.prepareJSONataExpression('$sum(a)'), { a: [1, 2] })"
        ),
        "3"
    );
    assert_eq!(
        made("RED.util.compareObjects({ a: [1] }, { a: [1] })"),
        "true"
    );
    assert_eq!(
        made("RED.util.normaliseNodeTypeName('a-random node')"),
        "\"aRandomNode\""
    );
    assert_eq!(
        made("RED.util.ensureBuffer({ a: 1 }).toString()"),
        r#""{\"a\":1}""#
    );
}

#[test]
fn an_array_with_billions_of_holes_is_an_error() {
    assert!(error("let a = []; a[4e9] = 1; msg.payload = a; return msg").contains("RangeError"));
}

#[test]
fn jsonata_in_a_function_sees_contexts_and_environment_variables_of_its_node() {
    let made = |expression: &str| {
        payload(
            &format!(
                "flow.set('f', {{ a: [1, 2] }}); global.set('g', 3);
                const expression = RED.util.prepareJSONataExpression({expression:?}, node);
                msg.payload = RED.util.evaluateJSONataExpression(expression, msg);
                return msg"
            ),
            Value::buffer(vec![1, 2]),
        )
    };
    assert_eq!(made("$sum($flowContext('f.a'))"), "3");
    assert_eq!(made("$globalContext('g') & '!'"), r#""3!""#);
    assert_eq!(made("$env('NR_NODE_NAME')"), r#""a name""#);
    assert_eq!(made("$env('NO_SUCH_VARIABLE_HERE')"), r#""""#);
    assert_eq!(made("msg._msgid"), r#""0123456789abcdef""#);
    assert_eq!(made("nothing"), "undefined");
    assert_eq!(made("null"), "null");
    assert_eq!(
        payload(
            "flow.set('f', 4); RED.util.evaluateJSONataExpression(RED.util.prepareJSONataExpression(\"$flowContext('f')\"), msg, (e, v) => { msg.payload = [e, v] }); return msg",
            1.0
        ),
        "[null, 4]"
    );
    assert_eq!(
        payload(
            "msg.payload = RED.util.prepareJSONataExpression('msg.a').evaluate({ msg: { a: 5 } }); return msg",
            1.0
        ),
        "5"
    );
    assert_eq!(
        payload(
            "flow.set('f', 6); msg.payload = RED.util.evaluateNodeProperty(\"$flowContext('f')\", 'jsonata', node, msg); return msg",
            1.0
        ),
        "6"
    );
    let code = |text: &str, input: &str| {
        payload(
            &format!(
                "try {{ RED.util.evaluateJSONataExpression(RED.util.prepareJSONataExpression('{text}'), {input}) }} catch (e) {{ msg.payload = [e instanceof Error || e.name, e.code] }} return msg"
            ),
            1.0,
        )
    };
    assert!(
        code("a + 1", "{ a: 'x' }").contains("T20"),
        "{}",
        code("a + 1", "{ a: 'x' }")
    );
    assert!(code("a +", "{}").starts_with('['), "{}", code("a +", "{}"));
}

#[test]
fn an_unbound_env_get_returns_the_nodes_id_name_and_path() {
    assert_eq!(
        payload(
            "msg.payload = ['NR_NODE_ID', 'NR_NODE_NAME', 'NR_NODE_PATH'].map(env.get); return msg",
            1.0
        ),
        r#"["n1", "a name", "t1/n1"]"#
    );
}

#[test]
fn code_that_mentions_no_collection_can_use_those_it_is_given() {
    let bytes = || Value::buffer(&b"ab"[..]);
    let made = |source: &str| payload(&format!("{source}; return msg"), bytes());
    assert_eq!(
        made(
            "const b = msg.payload; msg.payload = [b.buffer.byteLength, b.slice(1).toString(), Buffer.concat([b, b]).length, [...b.entries()].length]"
        ),
        r#"[2, "b", 4, 2]"#
    );
    assert_eq!(
        made(
            "msg.payload = [new URL('http://a/?b=c').searchParams.get('b'), util.inspect(msg.payload), Object.groupBy([1, 2], n => n % 2)]"
        ),
        r#"["c", "<Buffer 61 62>", {"0": [2], "1": [1]}]"#
    );
    let names = "['Map', 'Set', 'WeakMap', 'WeakSet', 'ArrayBuffer', 'DataView', 'Uint8Array', 'Float64Array', 'BigInt64Array']";
    for way in [
        "globalThis[name]",
        "this[name]",
        "eval(name)",
        "Function('return ' + name)()",
    ] {
        assert_eq!(
            made(&format!(
                "msg.payload = {names}.every(function (name) {{ return typeof {way} === 'function' }})"
            )),
            "true",
            "{way}"
        );
    }
    assert_eq!(
        made(
            "msg.payload = [new Map([[1, 2]]).get(1), new Set([1, 1]).size, new Uint8Array(2).length, new DataView(new ArrayBuffer(3)).byteLength]"
        ),
        "[2, 1, 2, 3]"
    );
}
