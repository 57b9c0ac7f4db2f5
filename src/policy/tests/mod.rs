//! The rules over pairs of flow sets.
#![allow(clippy::unwrap_used, reason = "tests")]

mod rights;
mod running;
mod sight;

use super::*;
use std::iter::once;

fn set(elements: &str) -> FlowSet {
    FlowSet::parse(format!("[{elements}]").as_bytes()).unwrap()
}

fn permissions(names: &[&str]) -> Permissions {
    Permissions::of(names.iter().map(SmolStr::new).collect())
}

fn judge(policy: &Policy, permissions: &Permissions, before: &str, after: &str) -> Verdict {
    let who = Who {
        user: "ann",
        permissions,
    };
    let types = |kind: &str| ["inject", "exec", "debug"].contains(&kind);
    let deployment = Deployment {
        before: &set(before),
        after: &set(after),
        sent: &HashSet::new(),
        types: Some(&types),
    };
    verdict(policy, who, &deployment)
}

/// The rule and the ids of each violation, by a caller with these permissions.
fn refused(policy: &Policy, names: &[&str], before: &str, after: &str) -> Vec<String> {
    let verdict = judge(policy, &permissions(names), before, after);
    let ids = |violation: &Violation| {
        let ids = violation.nodes.iter().map(SmolStr::as_str);
        once(violation.rule.name())
            .chain(ids)
            .collect::<Vec<_>>()
            .join(" ")
    };
    verdict.0.iter().map(ids).collect()
}

#[test]
fn a_submission_without_a_revision_is_allowed_only_to_those_who_may_force() {
    let all = permissions(&["*"]);
    let policy = Policy {
        require_rev: true,
        forced: vec!["admin".to_owned()],
        ..Policy::default()
    };
    let without = |user: &str| {
        let who = Who {
            user,
            permissions: &all,
        };
        without_rev(&policy, who).allowed().is_ok()
    };
    assert_eq!(["admin", "ann", ""].map(without), [true, false, false]);
}

#[test]
fn only_missing_types_of_added_and_changed_nodes_are_refused() {
    let policy = Policy {
        require_types: true,
        ..Policy::default()
    };
    let before =
        r#"{"id":"old","type":"gone"},{"id":"t","type":"tab"},{"id":"S","type":"subflow"}"#;
    let added = r#",{"id":"i","type":"subflow:S","z":"t","x":1,"y":1},{"id":"n","type":"inject","z":"t","x":1,"y":1}"#;
    let after = [before, added].concat();
    assert_eq!(refused(&policy, &["*"], before, &after), [""; 0]);
    let wrong = [
        &after,
        r#",{"id":"u","type":"unheard"},{"id":"j","type":"subflow:N","z":"t","x":1,"y":1}"#,
    ]
    .concat();
    assert_eq!(
        refused(&policy, &["*"], before, &wrong),
        ["require_types u j"]
    );
    assert_eq!(
        refused(
            &policy,
            &["*"],
            &wrong.replace("unheard", "unheard-of"),
            &wrong
        ),
        ["require_types u"]
    );
}

#[test]
fn forbidden_types_are_refused_to_all_and_restricted_ones_without_their_permission() {
    let policy = Policy {
        forbid_types: vec!["exec".to_owned()],
        restrict_types: vec!["debug".to_owned()],
        ..Policy::default()
    };
    let nodes = r#"{"id":"e","type":"exec"},{"id":"d","type":"debug"}"#;
    let with = |names: &[&str]| refused(&policy, names, "", nodes);
    assert_eq!(with(&["*"]), ["forbid_types e"]);
    let unlock = &["write", "flows.unlock"];
    assert_eq!(with(unlock), ["forbid_types e", "restrict_types d"]);
    assert_eq!(
        with(&["flows.write", "node-types:debug"]),
        ["forbid_types e"]
    );
    assert_eq!(refused(&policy, &["write"], nodes, nodes), [""; 0]);
    assert_eq!(refused(&policy, &["write"], nodes, ""), [""; 0]);
}

#[test]
fn credentials_that_are_sent_change_their_node() {
    let policy = Policy {
        forbid_types: vec!["exec".to_owned()],
        ..Policy::default()
    };
    let nodes = set(r#"{"id":"e","type":"exec"}"#);
    let permissions = permissions(&["*"]);
    let who = Who {
        user: "ann",
        permissions: &permissions,
    };
    let deployment = Deployment {
        before: &nodes,
        after: &nodes,
        sent: &HashSet::from(["e".into()]),
        types: None,
    };
    assert_eq!(verdict(&policy, who, &deployment).0.len(), 1);
}

#[test]
fn a_flow_set_that_is_too_large_may_shrink_and_not_grow() {
    let policy = Policy {
        max_nodes: Some(1),
        max_bytes: Some(60),
        ..Policy::default()
    };
    let nodes = |count: usize| {
        let node = |i| format!(r#"{{"id":"{i}","type":"x"}}"#);
        (0..count).map(node).collect::<Vec<_>>().join(",")
    };
    let change = |from, to| refused(&policy, &["*"], &nodes(from), &nodes(to));
    assert_eq!(change(0, 1), [""; 0]);
    assert_eq!(change(0, 2), ["max_nodes"]);
    assert_eq!(change(1, 4), ["max_nodes", "max_bytes"]);
    assert_eq!(change(5, 4), [""; 0]);
    assert_eq!(change(4, 4), [""; 0]);
}

#[test]
fn what_is_locked_changes_only_with_the_permission_to_unlock() {
    let policy = Policy::default();
    let before = concat!(
        r#"{"id":"t","type":"tab","locked":true},{"id":"u","type":"tab"},"#,
        r#"{"id":"a","type":"x","z":"t","x":1,"y":1},{"id":"b","type":"x","z":"u","x":1,"y":1},"#,
        r#"{"id":"G","type":"group","z":"u","locked":true},{"id":"H","type":"group","z":"u","g":"G"},"#,
        r#"{"id":"c","type":"x","z":"u","g":"H","x":1,"y":1}"#
    );
    let with = |names: &[&str], from: &str, to: &str| {
        refused(&policy, names, before, &before.replace(from, to))
    };
    let writes = &["flows.read", "flows.write"];
    for (from, to, expected) in [
        (r#""id":"b","type":"x""#, r#""id":"b","type":"y""#, ""),
        (r#""z":"t","x":1"#, r#""z":"t","x":2"#, "locked a"),
        (r#""z":"t","x":1"#, r#""z":"u","x":1"#, "locked a"),
        (
            r#""id":"b","type":"x","z":"u""#,
            r#""id":"b","type":"x","z":"t""#,
            "locked b",
        ),
        (
            r#""tab","locked":true"#,
            r#""tab","locked":false"#,
            "locked t",
        ),
        (r#""g":"H","x":1"#, r#""g":"H","x":2"#, "locked c"),
        (
            r#",{"id":"c","type":"x","z":"u","g":"H","x":1,"y":1}"#,
            "",
            "locked c",
        ),
        (
            r#""id":"u","type":"tab""#,
            r#""id":"u","type":"tab","locked":true"#,
            "",
        ),
    ] {
        let found = with(writes, from, to).join("; ");
        assert_eq!(found, expected, "{from} -> {to}");
        assert_eq!(with(&["*"], from, to), [""; 0]);
        assert_eq!(with(&["flows.write", "flows.unlock"], from, to), [""; 0]);
    }
}

#[test]
fn groups_that_contain_each_other_are_not_searched_for_ever() {
    let circle = r#"{"id":"T","type":"tab","locked":true},{"id":"A","type":"group","g":"B"},{"id":"B","type":"group","g":"A"}"#;
    let after = circle.replace(r#""g":"B""#, r#""g":"B","x":1"#);
    assert_eq!(
        refused(&Policy::default(), &["write"], circle, &after),
        [""; 0]
    );
}

#[test]
fn a_message_names_the_first_nodes_and_counts_the_others() {
    let policy = Policy {
        forbid_types: vec!["exec".to_owned()],
        ..Policy::default()
    };
    let node = |i| format!(r#"{{"id":"{i}","type":"exec","name":"stop\nline"}}"#);
    let nodes = (0..7).map(node).collect::<Vec<_>>().join(",");
    let message = judge(&policy, &permissions(&["*"]), "", &nodes).to_string();
    assert!(
        message.contains(r#": exec 0 ("stop line"), exec 1"#),
        "{message}"
    );
    assert!(
        message.ends_with("exec 4 (\"stop line\") and 2 more"),
        "{message}"
    );
}
