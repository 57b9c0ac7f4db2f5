//! The parts of a message that a debug node shows, and its status.

use super::*;
use crate::node_context::NodeContext;

fn text(status: &Value) -> String {
    json::stringify(status).unwrap()
}

#[test]
fn the_shown_part_follows_complete_and_target_type() {
    let shown_by = |properties: &str| shown(&serde_json::from_str(properties).unwrap()).unwrap();
    assert!(
        matches!(shown_by(r#"{"complete":"false"}"#), Shown::Property { name, .. } if name == "payload")
    );
    assert!(matches!(shown_by("{}"), Shown::Property { name, .. } if name == "payload"));
    assert!(
        matches!(shown_by(r#"{"complete":"req.url"}"#), Shown::Property { name, .. } if name == "req.url")
    );
    assert!(matches!(
        shown_by(r#"{"complete":"true","targetType":"full"}"#),
        Shown::Whole
    ));
    assert!(matches!(
        shown_by(r#"{"complete":"1+1","targetType":"jsonata"}"#),
        Shown::Expression { .. }
    ));
}

#[test]
fn frames_have_the_fields_that_the_editor_expects() {
    let properties: Properties = serde_json::from_str("{}").unwrap();
    let debug = Debug {
        shown: shown(&properties).unwrap(),
        active: true,
        sidebar: true,
        console: false,
        status: None,
        longest: 1000,
        status_state: StatusState::default(),
    };
    let frame = debug.frame(
        &"hello".into(),
        &Message::default(),
        &NodeContext::for_tests().info,
    );
    let expected =
        r#"{"id":"","z":"","path":"","property":"payload","msg":"hello","format":"string[5]"}"#;
    assert_eq!(frame.to_string(), expected);
}

#[test]
fn statuses_are_short_and_errors_red() {
    let long = Value::from("x".repeat(40));
    assert_eq!(
        text(&status_of(&long)),
        format!(
            r#"{{"fill":"grey","shape":"dot","text":"{}..."}}"#,
            "x".repeat(32)
        )
    );
    let mut message = Message::default();
    message.set("error", Value::record([("message", "boom".into())]));
    assert_eq!(
        text(&auto_status(&Value::Null, &message)),
        r#"{"fill":"red","shape":"dot","text":"boom"}"#
    );
}
