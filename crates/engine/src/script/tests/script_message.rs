//! Tests that a message which stays a JavaScript object between functions is the same for each as
//! if it were copied.

use super::visible::{given, shown};
use super::*;
use crate::script::ScriptMessage;

/// Code that sees nothing, something or all of its message, and changes it.
const SOURCES: [&str; 17] = [
    "return msg",
    "msg.k++; return msg",
    "msg.k = 'x'; msg.new = { a: [1] }; return msg",
    "delete msg.topic; return msg",
    "delete msg.topic; msg.topic = 'again'; return msg",
    "delete msg.payload; delete msg.k; msg.a = 1; msg.k = 2; msg.payload = 3; return msg",
    "msg.gone = msg.absent; msg.last = msg.last; return msg",
    "if (Array.isArray(msg.payload)) { msg.payload.push(2) } return msg",
    "msg._msgid = 'other'; return msg",
    "const m = msg; m.k = 7; return m",
    "const m = msg; delete m.topic; m.topic = Object.keys(m).join(); return m",
    "for (const key in msg) { msg.payload = key } return msg",
    "return { payload: msg.k, topic: [msg.topic] }",
    "return { ...msg, k: null }",
    "const m = {}; m.payload = msg.payload; m._msgid = 'mine'; return m",
    "if (msg.k) { return msg } return msg",
    "return Promise.resolve(msg)",
];

/// What a function sends that is the only one to get the message of another.
fn fed(scripts: &Rc<Scripts>, source: &str, arrives: Message) -> ScriptMessage {
    let mut function = function_in(scripts, source);
    function.wire(false, true);
    fed_by(function.call(arrives), source)
}

fn fed_by(mut effects: Vec<Effect>, source: &str) -> ScriptMessage {
    match effects.pop() {
        Some(Effect::Feed(message)) if effects.is_empty() => message,
        other => panic!("{source}: {effects:?} {other:?}"),
    }
}

fn sent(effects: Vec<Effect>) -> Message {
    match effects.into_iter().next() {
        Some(Effect::Pass(message)) => message,
        Some(Effect::Send(messages)) => messages[0].1.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn functions_make_the_same_of_a_message_that_is_not_copied_between_them() {
    let scripts = scripts();
    for first in SOURCES {
        for second in SOURCES {
            for third in ["msg.z = 1; return msg", "const m = msg; return m"] {
                let mut copied = sent(function_in(&scripts, first).call(given()));
                copied = sent(function_in(&scripts, second).call(copied));
                let copied = function_in(&scripts, third).call(copied);

                let message = fed(&scripts, first, given());
                let mut middle = function_in(&scripts, second);
                middle.wire(false, true);
                let message = fed_by(middle.call_script(message), second);
                let object = function_in(&scripts, third).call_script(message);
                assert_eq!(
                    shown(&object),
                    shown(&copied),
                    "{first} / {second} / {third}"
                );
            }
        }
    }
}

#[test]
fn a_node_that_is_no_function_gets_the_message_as_if_it_had_been_copied() {
    let scripts = scripts();
    for source in SOURCES {
        let copied = sent(function_in(&scripts, source).call(given()));
        let object = fed(&scripts, source, given()).into_message().unwrap();
        let [object, copied] = [object, copied].map(|m| format!("{:?}", m.to_value()));
        assert_eq!(object, copied, "{source}");
    }
}

#[test]
fn what_a_message_cannot_carry_reaches_the_next_function() {
    let scripts = scripts();
    let source = "msg.twice = (n) => n * 2; msg.seen = new Map([[1, 2]]); return msg";
    let message = fed(&scripts, source, given());
    let second = "msg.payload = msg.twice(msg.seen.get(1)); return msg";
    let passed = sent(function_in(&scripts, second).call_script(message));
    assert_eq!(passed.get("payload").as_number(), Some(4.0));
    assert!(passed.get("twice").is_undefined());
}

#[test]
fn a_frozen_message_of_which_native_code_has_read_a_part_reaches_the_next_function() {
    let scripts = scripts();
    let frozen = "msg.payload = [1]; return Object.freeze(msg)";
    for next in [
        "msg.k = msg.payload[0] + 1; return msg",
        "const m = msg; m.k = m.payload[0] + 1; return m",
    ] {
        let mut message = fed(&scripts, frozen, given());
        let mut read = message
            .read(&|name| ["k", "topic"].contains(&name))
            .unwrap();
        read.set("topic", Value::from("read"));
        let passed = sent(function_in(&scripts, next).call_script(message.with(read)));
        assert_eq!(passed.get("k").as_number(), Some(2.0), "{next}");
        assert_eq!(passed.get("topic").as_str(), Some("read"), "{next}");
    }
}

#[test]
fn a_large_content_is_not_copied_between_functions() {
    let scripts = scripts();
    let large = Value::array((0..10_000).map(|n| Value::from(f64::from(n))).collect());
    let mut message = fed(
        &scripts,
        "msg.n = msg.payload.length; return msg",
        message(large),
    );
    let before = scripts.memory();
    for _ in 0..10 {
        let mut next = function_in(&scripts, "msg.n += msg.payload[1]; return msg");
        next.wire(false, true);
        message = fed_by(next.call_script(message), "the next");
    }
    let copied = 10_000 * 8;
    assert!(scripts.memory() < before + copied / 2);
    assert_eq!(
        message.into_message().unwrap().get("n").as_number(),
        Some(10_010.0)
    );
}

#[test]
fn code_in_a_realm_of_its_own_gets_and_sends_copies() {
    let scripts = scripts();
    let own = "const list = msg.payload instanceof Array; msg.own = this !== undefined && list; return msg";
    let message = fed(&scripts, "return { payload: [1] }", given());
    let mut function = function_in(&scripts, own);
    function.wire(false, true);
    let passed = sent(function.call_script(message));
    assert!(matches!(passed.get("own"), Value::Bool(true)));
}

#[test]
fn messages_are_copied_when_those_that_wait_take_all_the_room() {
    let settings = |queue_bytes, script_memory| Settings {
        script_memory,
        queue_bytes,
        ..Settings::default()
    };
    for settings in [settings(1 << 20, 1 << 30), settings(1 << 30, 8 << 20)] {
        let scripts = Scripts::new(&settings).unwrap();
        let mut function = function_in(&scripts, "return { payload: new Array(1e4).fill(0) }");
        function.wire(false, true);
        let mut fed = Vec::new();
        while let Some(Effect::Feed(message)) = function.call(given()).pop() {
            fed.push(message);
        }
        assert!((2..100).contains(&fed.len()), "{}", fed.len());
        fed.clear();
        assert!(matches!(function.call(given())[..], [Effect::Feed(_)]));
    }
}

#[test]
fn a_message_without_an_id_gets_one_before_it_goes_on() {
    let scripts = scripts();
    for source in [
        "delete msg._msgid; return msg",
        "msg._msgid = 5; return msg",
    ] {
        let mut function = function_in(&scripts, source);
        function.wire(false, true);
        let effects = function.call(given());
        assert!(matches!(effects[..], [Effect::Pass(_)]), "{source}");
    }
}

#[test]
fn an_error_has_the_message_of_the_function_before() {
    let scripts = scripts();
    let message = fed(&scripts, "msg.k = 8; return msg", given());
    let effects =
        function_in(&scripts, "msg.topic = 'new'; throw new Error('no')").call_script(message);
    let [Effect::Error(failure, Some(message))] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(failure.message, "no");
    assert_eq!(message.get("k").as_number(), Some(8.0));
    assert_eq!(message.get("topic").as_str(), Some("new"));
    assert!(matches!(message.get("payload"), Value::Array(_)));
}

#[test]
fn messages_that_wait_for_the_set_up_of_a_function_reach_it() {
    let scripts = scripts();
    let message = fed(&scripts, "msg.k = 8; return msg", given());
    let code = Code {
        function: "return msg".into(),
        initialize: "return new Promise((ready) => setTimeout(ready, 1))".into(),
        ..Code::default()
    };
    let mut function = sandbox_of(&scripts, code);
    let effects = function.start();
    let [Effect::SetTimer(timer, _)] = effects[..] else {
        panic!("{effects:?}")
    };
    assert!(function.call_script(message).is_empty());
    let passed = sent(function.timer(timer));
    assert_eq!(passed.get("k").as_number(), Some(8.0));
}

#[test]
fn a_message_that_nothing_can_read_is_an_error_with_what_is_known_of_it() {
    let scripts = scripts();
    let source = "msg.k = { get broken() { throw new Error('unreadable') } }; return msg";
    let message = fed(&scripts, source, given());
    let (failure, rest) = message.into_message().unwrap_err();
    assert_eq!(failure.message, "unreadable");
    assert_eq!(rest.get("topic").as_str(), Some("t"));
}

#[test]
fn a_message_that_changes_after_it_was_sent_is_a_copy() {
    let scripts = scripts();
    let mut function = function_in(&scripts, "msg.k = { a: 8 }; node.send(msg); msg.k.a = 9");
    function.wire(false, true);
    let message = match function.call(given()).pop() {
        Some(Effect::SendFirst(message)) => message,
        other => panic!("{other:?}"),
    };
    assert_eq!(format!("{:?}", message.get("k")), r#"{"a": 8}"#);
}
