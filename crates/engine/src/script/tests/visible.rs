//! Tests that code which sees only some properties of its message sends the same as if it saw all.

use super::*;

/// A message with several kinds of values, in this order.
pub(super) fn given() -> Message {
    let mut message = message(Value::array(vec![1.0.into(), Value::buffer(&b"ab"[..])]));
    message.set("topic", "t");
    message.set("k", 1.0);
    message.set("gone", Value::Undefined);
    message.set("last", Value::Null);
    message
}

pub(super) fn shown(effects: &[Effect]) -> String {
    let show = |message: &Message| format!("{:?}", message.to_value());
    let shown = effects.iter().map(|effect| match effect {
        Effect::Pass(message) => format!("pass {}", show(message)),
        Effect::SendFirst(message) => format!("send 0 {}", show(message)),
        Effect::Done(message) => format!("done {}", show(message)),
        Effect::Error(failure, Some(message)) => format!("{failure} {}", show(message)),
        Effect::Send(sent) => sent
            .iter()
            .map(|(output, message)| format!("send {output} {}", show(message)))
            .collect::<Vec<_>>()
            .join("; "),
        other => format!("{other:?}"),
    });
    shown.collect::<Vec<_>>().join("\n")
}

#[test]
fn code_that_sees_some_properties_sends_the_same_as_code_that_sees_all() {
    for source in [
        "return msg",
        "msg.k++; return msg",
        "msg.k = 'x'; msg.new = { a: [1] }; return msg",
        "delete msg.topic; return msg",
        "delete msg.topic; msg.topic = 'again'; return msg",
        "delete msg.payload; delete msg.k; msg.a = 1; msg.k = 2; msg.payload = 3; return msg",
        "msg.gone = msg.absent; msg.last = msg.last; return msg",
        "msg._msgid = 'other'; return msg",
        "msg.payload.push(2); return msg",
        "msg.payload[1][0] = 120; return [msg, null, [msg, msg]]",
        "node.send(msg); msg.k = 2; node.send([null, msg]); return msg",
        "node.send([[msg, msg], msg]); return null",
        "msg._msgid = 'other'; node.send(msg); return null",
        "node.send(msg); delete msg._msgid; node.send(msg)",
        "node.send(msg, false); msg.k = 3; return",
        "msg.k = 5; throw new Error('no')",
        "msg.k = 6; return Promise.resolve({ payload: msg.topic })",
        "msg.k = 7; return new Promise((yes, no) => { setTimeout(yes, 1); no(new Error('later')) })",
        "node.warn(msg.topic); node.status({ text: msg.topic }); return { payload: msg.k }",
        "if (msg.k > 0) { return [null, msg] } return msg",
        "const late = () => { msg.k = 9; node.warn(msg.k) }; setTimeout(late, 5); return msg",
    ] {
        let some = function(source).call(given());
        // A word that could be a call of anything.
        let all = function(&format!("if (0) eval('');{source}")).call(given());
        assert_eq!(shown(&some), shown(&all), "{source}");
    }
}

#[test]
fn a_value_that_the_code_does_not_see_is_passed_on_as_it_is() {
    let message = given();
    let Some(Effect::Pass(passed)) = function("msg.k = 2; return msg")
        .call(message.clone())
        .pop()
    else {
        panic!("nothing was sent")
    };
    let (Value::Array(before), Value::Array(after)) =
        (message.get("payload"), passed.get("payload"))
    else {
        panic!("the payload is no array")
    };
    assert!(std::sync::Arc::ptr_eq(before, after));
}

#[test]
fn a_message_sent_without_a_copy_shows_later_changes() {
    let effects = run(
        "const m = { payload: { a: 1 } }; node.send(m); m.payload.a = 2; node.send(m, false); m.payload.a = 3;
         node.send([m, m], false); m.payload.a = 4; return null",
        0.0,
    );
    let payloads: Vec<String> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Send(sent) => Some(sent),
            _ => None,
        })
        .flatten()
        .map(|(output, message)| format!("{output} {:?}", message.get("payload")))
        .collect();
    assert_eq!(
        payloads,
        [
            r#"0 {"a": 1}"#,
            r#"0 {"a": 4}"#,
            r#"0 {"a": 4}"#,
            r#"1 {"a": 3}"#
        ]
    );
}

#[test]
fn a_node_that_no_complete_node_watches_converts_no_message_for_it() {
    let mut sandbox = function("return null");
    assert!(matches!(sandbox.call(given())[..], [Effect::Done(_)]));
    sandbox.wire(false, false);
    assert!(sandbox.call(given()).is_empty());
}
