//! What the sandbox promises to functions, driven without an engine.
#![allow(clippy::unwrap_used, clippy::float_cmp, reason = "tests")]

use super::{Code, Effect, Sandbox, Scripts, Surroundings};
use crate::config::Engine;
use crate::engine::env::Env;
use crate::engine::message::Message;
use crate::engine::node::{Info, Level};
use crate::engine::value::{Failure, Handle, Object, Value};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

fn scripts() -> Rc<Scripts> {
    Scripts::new(&Engine {
        close_timeout: Duration::from_secs(15),
        script_memory: 32 << 20,
        script_timeout: Duration::from_millis(200),
        debug_length: 1000,
        http_node_root: String::new(),
    })
    .unwrap()
}

fn sandbox_of(scripts: &Rc<Scripts>, code: Code) -> Sandbox {
    let info = Info {
        id: "n1".into(),
        alias: "n1".into(),
        kind: "function".into(),
        name: "a name".into(),
        z: "t1".into(),
        path: "t1".into(),
        outputs: 2,
        env: Rc::new(Env::default()),
        flow_context: "t1".into(),
    };
    Sandbox::new(Rc::clone(scripts), code, Surroundings { info: Rc::new(info), contexts: Rc::default() })
}

fn function(source: &str) -> Sandbox {
    sandbox_of(&scripts(), Code { function: source.into(), outputs: 2, ..Code::default() })
}

fn message(payload: impl Into<Value>) -> Message {
    let mut message = Message::with_payload(payload);
    message.set("_msgid", "0123456789abcdef");
    message
}

fn run(source: &str, payload: impl Into<Value>) -> Vec<Effect> {
    function(source).call(message(payload))
}

/// The payload that a function makes, or what went wrong.
fn payload(source: &str, given: impl Into<Value>) -> String {
    match run(source, given).first() {
        Some(Effect::Pass(message)) => format!("{:?}", message.get("payload")),
        Some(Effect::Send(messages)) => format!("{:?}", messages[0].1.get("payload")),
        other => format!("{other:?}"),
    }
}

fn error(source: &str) -> String {
    match run(source, 1.0).into_iter().find(|e| matches!(e, Effect::Error(..))) {
        Some(Effect::Error(failure, _)) => failure.to_string(),
        other => format!("{other:?}"),
    }
}

#[test]
fn every_expression_gives_what_node_20_gives() {
    let mut wrong = Vec::new();
    let lines: Vec<&str> = include_str!("lib/golden.txt").lines().collect();
    let mut sandbox = function(
        "try { msg.payload = util.inspect((0, eval)('(' + msg.payload + ')')) } \
         catch (e) { msg.payload = `throws ${e.name} ${e.code} ${e.message}` } return msg",
    );
    for pair in lines.chunks(2) {
        let expected: String = serde_json::from_str(pair[1].trim_start().trim_start_matches("=> ")).unwrap();
        let got = match sandbox.call(message(pair[0])).pop() {
            Some(Effect::Pass(message)) => message.get("payload").as_str().unwrap_or("?").to_owned(),
            other => format!("{other:?}"),
        };
        if got != expected {
            wrong.push(format!("{}\n   node: {expected}\n  here: {got}", pair[0]));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn values_survive_the_way_in_and_out() {
    let handle = Handle(Arc::new(5_u8));
    let mut nested = Object::default();
    nested.insert("2".into(), Value::from("b"));
    nested.insert("a".into(), Value::array(vec![Value::Null, Value::from(true), Value::Undefined]));
    nested.insert("1".into(), Value::from("é😀"));
    nested.insert("__proto__".into(), Value::from("own"));
    nested.insert("bytes".into(), Value::Buffer(bytes::Bytes::from_static(&[0, 255, 3])));
    nested.insert("when".into(), Value::Date(86_400_000.0));
    nested.insert("zero".into(), Value::Number(-0.0));
    nested.insert("rx".into(), Value::RegExp(Arc::new(("a/b".into(), "gi".into()))));
    nested.insert(
        "error".into(),
        Value::Error(Arc::new(Failure { name: "TypeError".into(), message: "m".into(), code: "C".into(), stack: "s".into() })),
    );
    nested.insert("res".into(), Value::Handle(handle.clone()));
    let effects = run("return msg", Value::object(nested));
    let Some(Effect::Pass(message)) = effects.first() else { panic!("{effects:?}") };
    assert_eq!(
        format!("{:?}", message.get("payload")),
        r#"{"1": "é😀", "2": "b", "a": [null, true, undefined], "__proto__": "own", "bytes": Buffer(b"\0\xff\x03"), "when": Date(86400000), "zero": -0, "rx": /a\/b/gi, "error": Error(TypeError: m), "res": Handle}"#
    );
    let Some(Value::Handle(back)) = message.get("payload").as_object().and_then(|o| o.get("res")) else { panic!() };
    assert!(Arc::ptr_eq(&back.0, &handle.0));
}

#[test]
fn what_a_message_cannot_carry_becomes_the_nearest_thing() {
    let made = |source: &str| payload(&format!("msg.payload = {source}; return msg"), 1.0);
    assert_eq!(made("new Map([['a', 1]])"), r#"{"a": 1}"#);
    assert_eq!(made("new Set([1, 2])"), "[1, 2]");
    assert_eq!(made("10n"), "10");
    assert_eq!(made("Symbol('x')"), "undefined");
    assert_eq!(made("() => 1"), "undefined");
    assert_eq!(made("new Float32Array([1.5])"), "[1.5]");
    assert_eq!(made("new (class A { constructor() { this.x = 1 } })()"), r#"{"x": 1}"#);
    assert_eq!(made("new Proxy({ a: 1 }, {})"), r#"{"a": 1}"#);
    assert_eq!(made("'a\\ud800b'"), "\"a\u{fffd}b\"");
    assert_eq!(made("(() => { const a = { n: [] }; a.n.push(a); return a })()"), r#"{"n": ["[Circular]"]}"#);
    assert!(error("let a = {}; for (let i = 0; i < 1000; i++) a = { a }; msg.payload = a; return msg").contains("nested too deeply"));
}

#[test]
fn the_sandbox_has_this_and_not_that() {
    let has = "['console','util','Buffer','URL','URLSearchParams','Date','RED','context','flow','global','env','setTimeout','clearTimeout','setInterval','clearInterval','promisify'].filter(n => typeof globalThis[n] === 'undefined')";
    assert_eq!(payload(&format!("msg.payload = {has}; return msg"), 1.0), "[]");
    let has_not = "['require','process','fetch','structuredClone','TextEncoder','atob','btoa','crypto','queueMicrotask','setImmediate','performance','navigator','module'].filter(n => typeof globalThis[n] !== 'undefined')";
    assert_eq!(payload(&format!("msg.payload = {has_not}; return msg"), 1.0), "[]");
    let red = "['cloneMessage','generateId','getMessageProperty','setMessageProperty','getObjectProperty','setObjectProperty','evaluateNodeProperty','evaluateJSONataExpression','prepareJSONataExpression','normalisePropertyExpression','parseContextStore','ensureString','ensureBuffer','compareObjects','encodeObject','getSetting','normaliseNodeTypeName'].filter(n => typeof RED.util[n] !== 'function')";
    assert_eq!(payload(&format!("msg.payload = {red}; return msg"), 1.0), "[]");
    assert_eq!(
        payload("msg.payload = [node.id, node.name, node.path, node.z, node.outputCount]; return msg", 1.0),
        r#"["n1", "a name", "t1", "t1", 2]"#
    );
}

#[test]
fn red_util_works_on_messages() {
    let made = |source: &str| payload(&format!("msg.payload = {source}; return msg"), 1.0);
    assert_eq!(made("RED.util.getMessageProperty({ a: [{ b: 5 }] }, 'msg.a')"), r#"[{"b": 5}]"#);
    assert_eq!(made("/^[0-9a-f]{16}$/.test(RED.util.generateId())"), "true");
    assert_eq!(made("(() => { const a = { b: [1], res: {} }; const c = RED.util.cloneMessage(a); c.b.push(2); return [a.b.length, c.res === a.res] })()"), "[1, true]");
    assert_eq!(made("RED.util.evaluateJSONataExpression(RED.util.prepareJSONataExpression('$sum(a)'), { a: [1, 2] })"), "3");
    assert_eq!(made("RED.util.compareObjects({ a: [1] }, { a: [1] })"), "true");
    assert_eq!(made("RED.util.normaliseNodeTypeName('a-random node')"), "\"aRandomNode\"");
    assert_eq!(made("RED.util.ensureBuffer({ a: 1 }).toString()"), r#""{\"a\":1}""#);
}

#[test]
fn undeclared_variables_live_from_message_to_message_but_not_from_node_to_node() {
    let scripts = scripts();
    let code = Code { function: "count = (typeof count === 'undefined' ? 0 : count) + 1; msg.payload = count; return msg".into(), ..Code::default() };
    let (mut one, mut other) = (sandbox_of(&scripts, code.clone()), sandbox_of(&scripts, code));
    let count = |sandbox: &mut Sandbox| match sandbox.call(message(0.0)).pop() {
        Some(Effect::Pass(message)) => message.get("payload").as_number(),
        _ => None,
    };
    assert_eq!((count(&mut one), count(&mut one), count(&mut other)), (Some(1.0), Some(2.0), Some(1.0)));
}

#[test]
fn results_go_to_outputs_with_the_id_of_the_input() {
    let effects = run("return [[{ payload: 1, _msgid: 'own' }, null, { payload: 2 }], { payload: 3 }]", 0.0);
    let Some(Effect::Send(messages)) = effects.first() else { panic!("{effects:?}") };
    let shape: Vec<_> = messages.iter().map(|(output, m)| (*output, m.get("payload").as_number(), m.get("_msgid").as_str().unwrap())).collect();
    let id = "0123456789abcdef";
    assert_eq!(shape, [(0, Some(1.0), id), (0, Some(2.0), id), (1, Some(3.0), id)]);
    assert!(matches!(effects[1], Effect::Done(_)));
    for nothing in ["return null", "return", "return [null, undefined]", "return []"] {
        assert!(matches!(run(nothing, 1.0)[..], [Effect::Done(_)]), "{nothing}");
    }
}

#[test]
fn what_is_no_message_is_an_error() {
    for (source, kind) in [("'text'", "string"), ("5", "number"), ("Buffer.from('a')", "Buffer"), ("[[[1]]]", "Array"), ("true", "boolean"), ("new Date()", "Date")] {
        let expected = format!("Function tried to send a message of type {kind}");
        assert_eq!(error(&format!("return {source}")), expected);
        assert!(!run(&format!("return {source}"), 1.0).iter().any(|e| matches!(e, Effect::Send(_))));
    }
}

#[test]
fn node_send_sends_a_copy_and_keeps_the_order() {
    let effects = run("node.send(msg); msg.payload = 2; node.send([null, msg]); msg.payload = 3; return msg", 1.0);
    let sent: Vec<_> = effects
        .iter()
        .map(|e| match e {
            Effect::Send(m) => (m[0].0, m[0].1.get("payload").as_number()),
            Effect::Pass(m) => (0, m.get("payload").as_number()),
            _ => (9, None),
        })
        .collect();
    assert_eq!(sent, [(0, Some(1.0)), (1, Some(2.0)), (0, Some(3.0))]);
}

#[test]
fn done_is_said_by_the_code_if_it_contains_the_call() {
    assert!(run("if (false) node.done(); return null", 1.0).is_empty());
    assert!(matches!(run("node.done()", 1.0)[..], [Effect::Done(_)]));
    assert!(matches!(run("// node.done()\nreturn null", 1.0)[..], [Effect::Done(_)]));
}

#[test]
fn errors_tell_where_they_happened() {
    assert_eq!(error("var a = 1;\nretunr"), "ReferenceError: retunr is not defined (line 2, col 1)");
    assert_eq!(error("throw new Error('boom')"), "Error: boom");
    assert_eq!(error("throw 'text'"), "text");
    assert_eq!(error("throw { a: 1 }"), r#"{"a":1}"#);
    assert_eq!(error("\n\nmsg.nothing.x()"), "TypeError: cannot read property 'x' of undefined (line 3, col 1)");
    assert_eq!(error("await null; throw new Error('later')"), "Error: later");
    let effects = run("msg.payload = 'changed'; throw new Error('boom')", 1.0);
    let [Effect::Error(failure, Some(message))] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!((message.get("payload").as_str(), failure.stack.as_str()), (Some("changed"), "    at <anonymous> (Function node:1:36)"));
}

#[test]
fn a_syntax_error_is_told_at_start_and_messages_vanish() {
    let mut sandbox = function("var a = 1;\nreturn msg +;");
    let effects = sandbox.start();
    let [Effect::Error(failure, None)] = &effects[..] else { panic!("{effects:?}") };
    assert!(failure.to_string().starts_with("SyntaxError: ") && failure.to_string().contains("(line 2, col "), "{failure}");
    assert!(sandbox.call(message(1.0)).is_empty());
}

#[test]
fn endless_code_is_stopped_and_the_next_message_runs() {
    let mut sandbox = function("if (msg.payload === 1) { try { while (true) {} } catch (e) {} } return msg");
    let effects = sandbox.call(message(1.0));
    let [Effect::Error(failure, Some(_))] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(failure.to_string(), "Error: Script execution timed out after 200ms");
    assert!(matches!(sandbox.call(message(2.0))[..], [Effect::Pass(_)]));
    assert!(matches!(run("(async () => { for (;;) await null })(); return null", 1.0).last(), Some(Effect::Error(..))));
}

#[test]
fn a_full_memory_is_an_error_of_that_node_only() {
    let scripts = scripts();
    let code = |source: &str| Code { function: source.into(), limit: Some(Duration::from_secs(20)), ..Code::default() };
    let mut greedy = sandbox_of(&scripts, code("let a = []; for (;;) a.push(new Array(10000).fill(1));"));
    assert!(matches!(greedy.call(message(1.0))[..], [Effect::Error(..)]));
    let mut modest = sandbox_of(&scripts, code("return msg"));
    assert!(matches!(modest.call(message(1.0))[..], [Effect::Pass(_)]));
}

#[test]
fn endless_recursion_is_an_error() {
    assert!(error("function f() { return f() + 1 } f()").contains("RangeError"));
}

#[test]
fn an_array_with_billions_of_holes_is_an_error() {
    assert!(error("let a = []; a[4e9] = 1; msg.payload = a; return msg").contains("RangeError"));
}

#[test]
fn promises_and_timers_finish_later() {
    assert_eq!(payload("msg.payload = await Promise.resolve(5); return msg", 1.0), "5");
    assert_eq!(payload("return new Promise(r => r({ payload: 6 }))", 1.0), "6");
    let mut sandbox = function("setTimeout(x => { msg.payload = x; node.send(msg); node.done() }, 50, 'late'); return null");
    let effects = sandbox.call(message(1.0));
    let [Effect::SetTimer(number, delay)] = effects[..] else { panic!("{effects:?}") };
    assert_eq!(delay, Duration::from_millis(50));
    let effects = sandbox.timer(number);
    let [Effect::Send(sent), Effect::Done(_)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(sent[0].1.get("payload").as_str(), Some("late"));
    assert!(sandbox.timer(number).is_empty());
}

#[test]
fn intervals_come_again_until_cleared() {
    let mut sandbox = function("let n = 0; const t = setInterval(() => { if (++n === 2) clearInterval(t) }, 10); return null");
    let effects = sandbox.call(message(1.0));
    let [Effect::SetTimer(number, _), Effect::Done(_)] = effects[..] else { panic!("{effects:?}") };
    assert!(matches!(sandbox.timer(number)[..], [Effect::SetTimer(..)]));
    assert!(matches!(sandbox.timer(number)[..], [Effect::SetTimer(..), Effect::ClearTimer(_)]));
    assert!(sandbox.timer(number).is_empty());
}

#[test]
fn contexts_are_read_and_written_in_all_ways() {
    let made = |source: &str| payload(&format!("{source}; return msg"), 1.0);
    assert_eq!(made("flow.set('a', { b: [1, 2] }); msg.payload = flow.get('a')"), r#"{"b": [1, 2]}"#);
    assert_eq!(made("flow.set('a', { b: [1, 2] }); msg.payload = flow.get('a.b[1]')"), "2");
    assert_eq!(made("global.set(['x', 'y'], [1, 2]); msg.payload = global.get(['x', 'y', 'z'])"), "[1, 2, undefined]");
    assert_eq!(made("context.set('a', 1); context.set('b', 2); msg.payload = context.keys()"), r#"["a", "b"]"#);
    assert_eq!(made("context.flow.set('a', 7, 'default'); msg.payload = flow.get('a', 'default')"), "7");
    assert_eq!(made("flow.set('a', 1, e => { flow.get('a', (e, v) => { msg.payload = [e, v] }) })"), "[undefined, 1]");
    assert_eq!(made("flow.set('a', 1); flow.set('a', undefined); msg.payload = flow.keys()"), "[]");
    assert_eq!(made("msg.payload = env.get('NO_SUCH_VARIABLE_HERE') === undefined"), "true");
}

#[test]
fn reports_become_effects() {
    let effects = run("node.warn({ a: 1 }); console.log('%d!', 5); node.status({ fill: 'red' }); node.error('bad', msg); node.error('log'); return null", 1.0);
    assert!(matches!(&effects[0], Effect::Log(Level::Warn, Value::Object(_))));
    assert!(matches!(&effects[1], Effect::Log(Level::Info, text) if text.as_str() == Some("5!")));
    assert!(matches!(&effects[2], Effect::Status(Value::Object(_))));
    assert!(matches!(&effects[3], Effect::Error(f, Some(_)) if f.message == "bad"));
    assert!(matches!(&effects[4], Effect::Error(f, None) if f.message == "log"));
    assert_eq!(error("node.on('input', () => {})"), "Error: Cannot add listener to 'input' event within Function");
}

#[test]
fn messages_wait_for_the_setup_code() {
    let code = |initialize: &str| Code { function: "msg.payload = ready; return msg".into(), initialize: initialize.into(), ..Code::default() };
    let mut sandbox = sandbox_of(&scripts(), code("await new Promise(r => setTimeout(r, 5)); ready = 'yes'"));
    let effects = sandbox.start();
    let [Effect::SetTimer(number, _)] = effects[..] else { panic!("{effects:?}") };
    assert!(sandbox.call(message(1.0)).is_empty());
    let effects = sandbox.timer(number);
    assert!(matches!(&effects[..], [Effect::Pass(m)] if m.get("payload").as_str() == Some("yes")), "{effects:?}");
    let mut failing = sandbox_of(&scripts(), code("throw new Error('no')"));
    assert!(matches!(&failing.start()[..], [Effect::Error(f, None)] if f.to_string() == "Error: no"));
    assert!(failing.call(message(1.0)).is_empty());
}

#[test]
fn closing_runs_the_close_code_clears_timers_and_status() {
    let code = Code {
        function: "node.status({ text: 'x' }); setInterval(() => {}, 10); node.on('close', () => { flow.set('closed', 1) }); return null".into(),
        finalize: "node.warn(flow.get('closed')); node.send({ payload: 1 })".into(),
        ..Code::default()
    };
    let mut sandbox = sandbox_of(&scripts(), code);
    sandbox.call(message(1.0));
    let effects = sandbox.close();
    assert!(
        matches!(&effects[..], [Effect::ClearTimer(_), Effect::Log(Level::Warn, Value::Number(_)), Effect::Error(_, None), Effect::Status(_)]),
        "{effects:?}"
    );
}
