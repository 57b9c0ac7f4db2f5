//! Tests the messages, reports and failures of functions.

use super::*;
use crate::log_level::Level;

#[test]
fn results_go_to_outputs_with_the_id_of_the_input() {
    let effects = run(
        "return [[{ payload: 1, _msgid: 'own' }, null, { payload: 2 }], { payload: 3 }]",
        0.0,
    );
    let Some(Effect::Send(messages)) = effects.first() else {
        panic!("{effects:?}")
    };
    let shape: Vec<_> = messages
        .iter()
        .map(|(output, m)| {
            (
                *output,
                m.get("payload").as_number(),
                m.get("_msgid").as_str().unwrap(),
            )
        })
        .collect();
    let id = "0123456789abcdef";
    assert_eq!(
        shape,
        [(0, Some(1.0), id), (0, Some(2.0), id), (1, Some(3.0), id)]
    );
    assert!(matches!(effects[1], Effect::Done(_)));
    for nothing in [
        "return null",
        "return",
        "return [null, undefined]",
        "return []",
    ] {
        assert!(
            matches!(run(nothing, 1.0)[..], [Effect::Done(_)]),
            "{nothing}"
        );
    }
}

#[test]
fn returning_a_value_that_is_no_message_is_an_error() {
    for (source, kind) in [
        ("'text'", "string"),
        ("5", "number"),
        ("Buffer.from('a')", "Buffer"),
        ("[[[1]]]", "Array"),
        ("true", "boolean"),
        ("new Date()", "Date"),
    ] {
        let expected = format!("Function tried to send a message of type {kind}");
        assert_eq!(error(&format!("return {source}")), expected);
        assert!(
            !run(&format!("return {source}"), 1.0)
                .iter()
                .any(|e| matches!(e, Effect::Send(_) | Effect::SendFirst(_)))
        );
    }
}

#[test]
fn node_send_sends_a_copy_and_keeps_the_order() {
    let effects = run(
        "node.send(msg); msg.payload = 2; node.send([null, msg]); msg.payload = 3; return msg",
        1.0,
    );
    let sent: Vec<_> = effects
        .iter()
        .map(|e| match e {
            Effect::Send(m) => (m[0].0, m[0].1.get("payload").as_number()),
            Effect::Pass(m) | Effect::SendFirst(m) => (0, m.get("payload").as_number()),
            _ => (9, None),
        })
        .collect();
    assert_eq!(sent, [(0, Some(1.0)), (1, Some(2.0)), (0, Some(3.0))]);
}

#[test]
fn node_send_looks_at_two_values_however_many_it_is_given() {
    for nothing in ["node.send()", "const m = node; m.send()"] {
        assert!(matches!(run(nothing, 1.0)[..], [Effect::Done(_)]));
    }
    for source in [
        "node.send(msg, true, 'other'); return",
        "const m = node; m.send(msg, true, 'other'); return",
    ] {
        let effects = run(source, 1.0);
        let [Effect::Send(messages), Effect::Done(_)] = &effects[..] else {
            panic!("{effects:?}")
        };
        assert_eq!(
            messages[0].1.get("_msgid").as_str(),
            Some("0123456789abcdef")
        );
    }
}

#[test]
fn done_is_automatic_unless_the_code_contains_the_call() {
    assert!(run("if (false) node.done(); return null", 1.0).is_empty());
    assert!(matches!(run("node.done()", 1.0)[..], [Effect::Done(_)]));
    assert!(matches!(
        run("// node.done()\nreturn null", 1.0)[..],
        [Effect::Done(_)]
    ));
}

#[test]
fn errors_are_reported_with_their_position() {
    assert_eq!(
        error("var a = 1;\nretunr"),
        "ReferenceError: ReferenceError: retunr is not defined (line 2, col 1)"
    );
    assert_eq!(error("throw new Error('boom')"), "Error: boom");
    assert_eq!(error("throw 'text'"), "text");
    assert_eq!(error("throw { a: 1 }"), r#"{"a":1}"#);
    assert_eq!(
        error("\n\nmsg.nothing.x()"),
        "TypeError: Cannot read properties of undefined (reading 'x')"
    );
    assert_eq!(
        error("msg.payload.foo(1)"),
        "TypeError: msg.payload.foo is not a function"
    );
    assert_eq!(
        error("await null; throw new Error('later')"),
        "Error: later"
    );
    let effects = run("msg.payload = 'changed'; throw new Error('boom')", 1.0);
    let [Effect::Error(failure, Some(message))] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(
        (message.get("payload").as_str(), failure.stack.as_str()),
        (
            Some("changed"),
            "Error: boom\n    at <anonymous> (Function node:1:36)"
        )
    );
}

#[test]
fn a_thrown_error_is_stored_in_the_message() {
    let effects = run("throw new TypeError('boom')", 1.0);
    let [Effect::Error(_, Some(message))] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert!(matches!(message.get("error"), Value::Error(e) if e.message == "boom"));
    let effects = run("throw 'boom'", 1.0);
    let [Effect::Error(_, Some(message))] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert!(message.get("error").is_undefined());
}

#[test]
fn done_with_an_error_fails_and_returning_still_completes() {
    let effects = run("node.done('no')", 1.0);
    let [Effect::Error(failure, Some(_)), Effect::Done(_)] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(failure.to_string(), "no");
}

#[test]
fn node_error_reports_any_value_as_text() {
    assert_eq!(error("node.error({ a: 1 }, msg)"), "[object Object]");
    assert_eq!(error("node.error(null, msg)"), "");
    assert_eq!(error("node.error(5, msg)"), "5");
}

#[test]
fn env_get_returns_the_nodes_id_name_and_path() {
    assert_eq!(
        payload(
            "msg.payload = [env.get('NR_NODE_ID'), env.get('NR_NODE_NAME'), env.get('NR_NODE_PATH')]; return msg",
            1.0
        ),
        r#"["n1", "a name", "t1/n1"]"#
    );
}

#[test]
fn a_syntax_error_is_reported_at_start_and_messages_are_dropped() {
    let mut sandbox = function("var a = 1;\nreturn msg +;");
    let effects = sandbox.start();
    let [Effect::Error(failure, None)] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert!(
        failure.to_string().starts_with("SyntaxError: ")
            && failure.to_string().ends_with("(body:line 2)"),
        "{failure}"
    );
    assert!(sandbox.call(message(1.0)).is_empty());
}

#[test]
fn logging_status_and_errors_become_effects() {
    let effects = run(
        "node.warn({ a: 1 }); console.log('%d!', 5); node.status({ fill: 'red' }); node.error('bad', msg); node.error('log'); return null",
        1.0,
    );
    assert!(matches!(
        &effects[0],
        Effect::Log(Level::Warn, Value::Object(_))
    ));
    assert!(matches!(&effects[1], Effect::Log(Level::Info, text) if text.as_str() == Some("5!")));
    assert!(matches!(&effects[2], Effect::Status(Value::Object(_))));
    assert!(matches!(&effects[3], Effect::Error(f, Some(_)) if f.message == "bad"));
    assert!(matches!(&effects[4], Effect::Error(f, None) if f.message == "log"));
    assert_eq!(
        error("node.on('input', () => {})"),
        "Error: Cannot add listener to 'input' event within Function"
    );
}

#[test]
fn a_context_key_that_cannot_be_named_is_an_error_of_the_message() {
    // Node-RED loses it.
    assert!(
        error("flow.get('a..b')")
            .contains("Invalid property expression: unexpected . at position 2")
    );
}
