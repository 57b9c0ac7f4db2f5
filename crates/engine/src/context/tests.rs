//! Contexts in memory and on disk.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::node_info::Container;
use crate::settings::{ContextFiles, ContextStore};
use std::fs;
use std::time::Duration;
use value::json;

fn info(flow: &str, alias: &str) -> NodeInfo {
    let container = Container {
        z: flow.into(),
        path: flow.into(),
        ..Container::default()
    };
    NodeInfo::of(alias, "function", container)
}

fn on_disk(directory: &std::path::Path) -> Contexts {
    Contexts::open(&[
        ContextStore {
            name: "memory".into(),
            files: None,
        },
        ContextStore {
            name: "disk".into(),
            files: Some(ContextFiles {
                directory: directory.to_owned(),
                flush: Duration::from_secs(30),
                file_limit: 4096,
            }),
        },
    ])
}

fn path(text: &str) -> Path {
    Path::parse(text).unwrap()
}

fn shown(contexts: &mut Contexts, scope: Scope, info: &NodeInfo, key: &str) -> String {
    format!("{:?}", contexts.read(scope, info, &path(key)))
}

#[test]
fn stores_are_separate_and_unknown_names_use_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let mut contexts = on_disk(directory.path());
    let node = info("t", "n");
    contexts
        .write(Scope::Flow, &node, &path("k"), Value::Number(1.0))
        .unwrap();
    contexts
        .write(Scope::Flow, &node, &path("#:(disk)::k"), Value::Number(2.0))
        .unwrap();
    assert_eq!(shown(&mut contexts, Scope::Flow, &node, "k"), "1");
    assert_eq!(
        shown(&mut contexts, Scope::Flow, &node, "#:(memory)::k"),
        "1"
    );
    assert_eq!(shown(&mut contexts, Scope::Flow, &node, "#:(disk)::k"), "2");
    assert_eq!(shown(&mut contexts, Scope::Flow, &node, "#:(nope)::k"), "1");
    assert_eq!(contexts.keys(Scope::Flow, &node, Some("disk")), ["k"]);
}

#[test]
fn context_files_have_node_reds_paths_and_are_reloaded() {
    let directory = tempfile::tempdir().unwrap();
    let mut contexts = on_disk(directory.path());
    let node = info("t", "n");
    let value = json::parse(r#"{"b":[1]}"#).unwrap();
    contexts
        .write(Scope::Node, &node, &path("#:(disk)::a"), value)
        .unwrap();
    contexts
        .write(Scope::Flow, &node, &path("#:(disk)::f"), Value::from("x"))
        .unwrap();
    contexts
        .write(
            Scope::Global,
            &node,
            &path("#:(disk)::g"),
            Value::Number(5.0),
        )
        .unwrap();
    contexts.close();
    let text = |file: &str| fs::read_to_string(directory.path().join(file)).unwrap();
    assert_eq!(
        text("t/n.json"),
        "{\n    \"a\": {\n        \"b\": [\n            1\n        ]\n    }\n}"
    );
    assert_eq!(text("t/flow.json"), "{\n    \"f\": \"x\"\n}");
    assert_eq!(text("global/global.json"), "{\n    \"g\": 5\n}");

    let mut again = on_disk(directory.path());
    assert_eq!(
        shown(&mut again, Scope::Node, &node, "#:(disk)::a.b[0]"),
        "1"
    );
    assert_eq!(
        shown(&mut again, Scope::Flow, &node, "#:(disk)::f"),
        "\"x\""
    );
    assert_eq!(shown(&mut again, Scope::Global, &node, "#:(disk)::g"), "5");
}

#[test]
fn a_change_is_saved_when_the_flush_interval_ends() {
    let directory = tempfile::tempdir().unwrap();
    let mut contexts = on_disk(directory.path());
    let node = info("t", "n");
    let start = Instant::now();
    assert!(!contexts.unsaved() && contexts.due().is_none());
    contexts
        .write(Scope::Flow, &node, &path("#:(disk)::k"), Value::Null)
        .unwrap();
    assert!(contexts.unsaved());
    contexts.save(start);
    let due = contexts.due().unwrap();
    assert_eq!(due - start, Duration::from_secs(30));
    contexts.save(due.checked_sub(Duration::from_millis(1)).unwrap());
    assert!(contexts.unsaved());
    contexts.save(due);
    assert!(!contexts.unsaved() && contexts.due().is_none());
    contexts.close();
    assert!(directory.path().join("t/flow.json").exists());
}

#[test]
fn a_broken_file_is_set_aside_and_the_others_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let flow = directory.path().join("t");
    fs::create_dir(&flow).unwrap();
    fs::write(flow.join("flow.json"), "{\"k\": ").unwrap();
    fs::write(flow.join("n.json"), "{\"k\": 1}").unwrap();
    fs::write(
        flow.join("large.json"),
        format!("{{\"k\":\"{}\"}}", "x".repeat(5000)),
    )
    .unwrap();
    fs::write(flow.join("empty.json"), "").unwrap();
    let mut contexts = on_disk(directory.path());
    let node = info("t", "n");
    assert_eq!(shown(&mut contexts, Scope::Node, &node, "#:(disk)::k"), "1");
    assert_eq!(
        shown(&mut contexts, Scope::Flow, &node, "#:(disk)::k"),
        "undefined"
    );
    assert_eq!(
        fs::read_to_string(flow.join("flow.json.broken")).unwrap(),
        "{\"k\": "
    );
    assert!(flow.join("large.json.broken").exists());
    assert!(!flow.join("empty.json.broken").exists());
    contexts.close();
}

#[test]
fn ids_unfit_for_file_names_stay_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().join("context");
    let mut contexts = on_disk(&base);
    for id in ["../out", "a/b", "", ".hidden", "x\0y", &"x".repeat(300)] {
        let node = info("t", id);
        contexts
            .write(Scope::Node, &node, &path("#:(disk)::k"), Value::Null)
            .unwrap();
    }
    let node = info("..", "n");
    contexts
        .write(Scope::Flow, &node, &path("#:(disk)::k"), Value::Null)
        .unwrap();
    contexts.close();
    assert!(!base.join("../out.json").exists());
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    let names: Vec<_> = fs::read_dir(base.join("t")).unwrap().collect();
    assert_eq!(names.len(), 1, "only the flow's own file: {names:?}");
}

#[test]
fn context_of_removed_flows_and_nodes_is_deleted_with_its_files() {
    let directory = tempfile::tempdir().unwrap();
    let mut contexts = on_disk(directory.path());
    let flows = |text: &str| {
        flows::Submission::v1(&FlowSet::default(), text.as_bytes())
            .unwrap()
            .flows
    };
    for (flow, node) in [
        ("t", "n"),
        ("t", "m"),
        ("u", "o"),
        ("i", "in"),
        ("i-j", "in"),
    ] {
        let node = info(flow, node);
        contexts
            .write(Scope::Node, &node, &path("#:(disk)::k"), Value::Number(1.0))
            .unwrap();
        contexts
            .write(Scope::Flow, &node, &path("#:(disk)::k"), Value::Number(1.0))
            .unwrap();
    }
    contexts.save(Instant::now());
    contexts.clean(&flows(
        r#"[{"id":"t","type":"tab"},{"id":"n","type":"x","z":"t"},{"id":"i","type":"x","z":"t"},{"id":"in","type":"x","z":"s"}]"#,
    ));
    contexts.close();
    let has = |file: &str| directory.path().join(file).exists();
    assert!(has("t/n.json") && has("t/flow.json"));
    assert!(has("i/in.json") && has("i-j/in.json"));
    assert!(!has("t/m.json") && !has("u"));
    let node = info("t", "m");
    assert_eq!(
        shown(&mut contexts, Scope::Node, &node, "#:(disk)::k"),
        "undefined"
    );
    let mut again = on_disk(directory.path());
    again.clean(&FlowSet::default());
    again.close();
    assert!(has("t/n.json"), "an empty flow set removes no file");
}

#[test]
fn a_change_has_an_age_until_it_is_kept_elsewhere() {
    let (directory, apart) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (answer, answers) = std::sync::mpsc::channel();
    let (asked, asks) = std::sync::mpsc::channel();
    let answers = std::sync::Mutex::new(answers);
    let keep = move |name: &str, _: &str| {
        asked.send(name.to_owned()).unwrap();
        answers.lock().unwrap().recv().unwrap()
    };
    keep_below(directory.path().to_owned(), Box::new(keep));
    assert_eq!(unkept_age(), Duration::ZERO);
    let node = info("t", "n");
    let change = |contexts: &mut Contexts| {
        let written = contexts.write(Scope::Flow, &node, &path("#:(disk)::k"), Value::Null);
        assert!(written.unwrap());
    };
    let is_unkept = || unkept_age() > Duration::ZERO;

    let mut elsewhere = on_disk(apart.path());
    change(&mut elsewhere);
    assert!(!is_unkept());
    let mut contexts = on_disk(directory.path());
    change(&mut contexts);
    assert!(is_unkept());
    let start = Instant::now();
    contexts.save(start);
    contexts.save(start + Duration::from_secs(30));
    assert_eq!(asks.recv().unwrap(), "t/flow.json");
    assert!(is_unkept() && !contexts.unsaved());
    // What could not be kept is tried again with the next change.
    answer.send(Err("the database is away".to_owned())).unwrap();
    change(&mut contexts);
    contexts.save(start);
    contexts.save(start + Duration::from_mins(1));
    asks.recv().unwrap();
    assert!(is_unkept());
    answer.send(Ok(())).unwrap();
    contexts.close();
    assert!(!is_unkept());
}
