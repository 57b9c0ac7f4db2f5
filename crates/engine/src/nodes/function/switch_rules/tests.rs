//! The rules of `switch`, one table each.

use super::*;
use crate::node_context::NodeContext;

fn rules(node: &str) -> Rules {
    parse(serde_json::from_str(node).unwrap()).unwrap()
}

fn outputs(node: &str, message: &str) -> Vec<usize> {
    let mut outputs = Vec::new();
    let message = Message::from_value(json::parse(message).unwrap()).unwrap();
    rules(node)
        .matches(&message, &NodeContext::for_tests(), &mut outputs)
        .unwrap();
    outputs
}

fn meets(rule: &str, payload: &str) -> bool {
    !outputs(
        &format!(r#"{{"rules":[{rule}]}}"#),
        &format!(r#"{{"payload":{payload}}}"#),
    )
    .is_empty()
}

#[test]
fn golden_results_hold() {
    let eq_else = r#"{"rules":[{"t":"eq","v":"1","vt":"num"},{"t":"else"}]}"#;
    assert_eq!(outputs(eq_else, r#"{"payload":"1"}"#), [0]);
    assert_eq!(outputs(eq_else, r#"{"payload":"2"}"#), [1]);
    let two = r#"{"rules":[{"t":"eq","v":"1","vt":"num"},{"t":"lt","v":"5","vt":"num"}],"checkall":"CHECK"}"#;
    assert_eq!(
        outputs(&two.replace("CHECK", "true"), r#"{"payload":1}"#),
        [0, 1]
    );
    assert_eq!(
        outputs(&two.replace("CHECK", "false"), r#"{"payload":1}"#),
        [0]
    );
    assert!(meets(
        r#"{"t":"btwn","v":"9","vt":"num","v2":"1","v2t":"num"}"#,
        "5"
    ));
    assert_eq!(
        outputs(
            r#"{"rules":[{"t":"null"},{"t":"empty"}]}"#,
            r#"{"payload":""}"#
        ),
        [1]
    );
    assert!(meets(
        r#"{"t":"regex","v":"^AB","vt":"str","case":true}"#,
        "\"abc\""
    ));
    let types = r#"{"rules":[{"t":"istype","v":"json","vt":"json"},{"t":"istype","v":"number","vt":"number"}]}"#;
    assert_eq!(outputs(types, r#"{"payload":5}"#), [0, 1]);
}

#[test]
fn every_operator_matches_some_values_and_rejects_others() {
    let table = [
        (r#"{"t":"neq","v":"a"}"#, "\"b\"", "\"a\""),
        (r#"{"t":"lte","v":"5"}"#, "5", "6"),
        (r#"{"t":"gt","v":"5"}"#, "\"10\"", "\"x\""),
        (r#"{"t":"gte","v":"5"}"#, "5", "4"),
        (r#"{"t":"cont","v":"an"}"#, "\"banana\"", "\"x\""),
        (r#"{"t":"true"}"#, "true", "1"),
        (r#"{"t":"false"}"#, "false", "0"),
        (r#"{"t":"null"}"#, "null", "0"),
        (r#"{"t":"nnull"}"#, "0", "null"),
        (r#"{"t":"empty"}"#, "{}", "0"),
        (r#"{"t":"nempty"}"#, "[1]", "[]"),
        (r#"{"t":"istype","v":"object","vt":"object"}"#, "{}", "[]"),
        (r#"{"t":"istype","v":"array","vt":"array"}"#, "[]", "{}"),
        (r#"{"t":"istype","v":"string","vt":"string"}"#, "\"\"", "1"),
        (r#"{"t":"istype","v":"null","vt":"null"}"#, "null", "0"),
        (
            r#"{"t":"hask","v":"a","vt":"str"}"#,
            r#"{"a":null}"#,
            r#"{"b":1}"#,
        ),
        (
            r#"{"t":"jsonata_exp","v":"payload > 3","vt":"jsonata"}"#,
            "4",
            "3",
        ),
        (r#"{"t":"eq","v":"payload","vt":"msg"}"#, "1", "[]"),
    ];
    for (rule, yes, no) in table {
        assert!(meets(rule, yes), "{rule} on {yes}");
        // An array is the same array when it is compared with itself.
        assert_eq!(
            meets(rule, no),
            no == "[]" && rule.contains("\"msg\""),
            "{rule} on {no}"
        );
    }
}

#[test]
fn rules_can_test_the_position_in_a_sequence() {
    let at =
        |index: u32| format!(r#"{{"payload":0,"parts":{{"id":"s","index":{index},"count":5}}}}"#);
    let node = r#"{"rules":[{"t":"head","v":"2"},{"t":"tail","v":"1"},{"t":"index","v":"1","v2":"3"},{"t":"jsonata_exp","v":"$I = $N - 2"}]}"#;
    assert_eq!(outputs(node, &at(0)), [0]);
    assert_eq!(outputs(node, &at(1)), [0, 2]);
    assert_eq!(outputs(node, &at(3)), [2, 3]);
    assert_eq!(outputs(node, &at(4)), [1]);
    assert!(rules(node).need_count());
}

#[test]
fn the_previous_value_is_remembered() {
    let mut rules = rules(r#"{"rules":[{"t":"gt","vt":"prev"}]}"#);
    let mut outputs = Vec::new();
    let mut grew = |n: f64| {
        rules
            .matches(
                &Message::with_payload(n),
                &NodeContext::for_tests(),
                &mut outputs,
            )
            .unwrap();
        !outputs.is_empty()
    };
    assert_eq!([grew(1.0), grew(3.0), grew(2.0)], [true, true, false]);
}

#[test]
fn a_broken_regex_fails_on_the_message_and_a_missing_parent_is_undefined() {
    let mut broken = rules(r#"{"rules":[{"t":"regex","v":"("}]}"#);
    let failure = broken
        .matches(
            &Message::with_payload("x"),
            &NodeContext::for_tests(),
            &mut Vec::new(),
        )
        .unwrap_err();
    assert!(matches!(failure, Unroutable::Rule(f) if f.name == "SyntaxError"));
    assert_eq!(
        outputs(r#"{"property":"a.b","rules":[{"t":"null"}]}"#, "{}"),
        [0]
    );
}

#[test]
fn an_else_looks_back_to_the_previous_else_inclusive() {
    let node = r#"{"rules":[{"t":"eq","v":"1","vt":"num"},{"t":"else"},{"t":"eq","v":"abc","vt":"str"},{"t":"else"}]}"#;
    assert_eq!(outputs(node, r#"{"payload":1}"#), [0, 3]);
    assert_eq!(outputs(node, r#"{"payload":"abc"}"#), [1, 2]);
    assert_eq!(outputs(node, r#"{"payload":0}"#), [1]);
}

#[test]
fn texts_and_arrays_have_their_length_and_indices_as_keys() {
    let length = r#"{"t":"hask","v":"length","vt":"str"}"#;
    assert!(meets(length, "\"x\"") && meets(length, "[]") && !meets(length, "{}"));
    let second = r#"{"t":"hask","v":"1","vt":"num"}"#;
    assert!(meets(second, "\"ab\"") && meets(second, "[1,2]") && !meets(second, "\"a\""));
}

#[test]
fn a_pattern_is_the_text_of_its_typed_value() {
    let number = r#"{"t":"regex","v":"","vt":"num"}"#;
    assert!(meets(number, "10") && !meets(number, "1"));
    assert!(meets(r#"{"t":"regex","v":"nope","vt":"msg"}"#, "1"));
}

#[test]
fn an_invalid_property_expression_is_undefined() {
    let node = r#"{"property":"a..b","rules":[{"t":"null"}]}"#;
    assert_eq!(outputs(node, r#"{"payload":1}"#), [0]);
}
