//! The elements that deployments touch, and the history of one of them.

use super::*;
use crate::store::{ENGINE, NodePage, Page};

/// A flow set of elements, each with its text.
fn deployed(rev: &str, elements: &Value, password: Option<&str>) -> Record {
    let base = record(rev, password);
    Record {
        flows: Arc::new(FlowSet::parse(elements.to_string().as_bytes()).unwrap()),
        ..base
    }
}

fn node(name: &str, z: &str) -> Value {
    json!({"id": "n", "type": "x", "z": z, "x": 1, "y": 1, "name": name})
}

/// Two tabs, the node, and others that only make the set large.
fn set(node: Option<Value>) -> Value {
    let tab = |id: &str| json!({"id": id, "type": "tab"});
    let mut set: Vec<Value> = (0..200).map(|n| tab(&format!("t{n}"))).collect();
    set.extend([tab("A"), tab("B")]);
    set.extend(node);
    Value::from(set)
}

fn page(limit: usize, before: Option<&str>) -> NodePage {
    NodePage {
        runtime: ENGINE.to_owned(),
        node: "n".to_owned(),
        before: before.map(str::to_owned),
        limit,
    }
}

/// `rev difference flow<left before>after credentials` of each change, newest first.
fn changes(disk: &Disk, page: &NodePage) -> Vec<String> {
    let name = |text: &Option<String>| {
        let text = text.as_deref().unwrap_or("{}");
        let node: Value = serde_json::from_str(text).unwrap();
        node["name"].as_str().unwrap_or("-").to_owned()
    };
    let changes = disk.node_history(page).unwrap().unwrap();
    let shown = changes.iter().map(|change| {
        let left = change.left.as_deref().unwrap_or("=");
        let (before, after) = (name(&change.before), name(&change.after));
        let (rev, difference) = (&change.revision.rev, &change.difference);
        let secret = if change.credentials { " secret" } else { "" };
        let flow = &change.flow;
        format!("{rev} {difference} {flow}<{left} {before}>{after}{secret}")
    });
    shown.collect()
}

#[test]
fn a_nodes_history_says_who_touched_it_and_how() {
    let place = tempfile::tempdir().unwrap();
    let config = config::Storage {
        history: 100,
        ..config(&place)
    };
    let mut disk = Disk::open(&config).unwrap();
    let mut moved = node("two", "B");
    let steps = [
        ("1", Some(node("one", "A")), None),
        ("2", Some(node("two", "A")), None),
        ("3", Some(moved.clone()), None),
        ("4", Some(moved.clone()), Some("pw")),
        ("5", None, None),
        ("6", Some(node("six", "A")), None),
    ];
    for (rev, node, password) in &steps {
        disk.commit(&deployed(rev, &set(node.clone()), *password))
            .unwrap();
    }
    moved["x"] = 9.into();
    // Another process compares with what the history has.
    drop(disk);
    let mut disk = Disk::open(&config).unwrap();
    disk.commit(&deployed("7", &set(Some(moved)), None))
        .unwrap();
    let expected = [
        "rev-7 moved B<A six>two",
        "rev-6 added A<= ->six",
        "rev-5 removed B<= two>- secret",
        "rev-4 changed B<= two>two secret",
        "rev-3 moved B<A two>two",
        "rev-2 changed A<= one>two",
        "rev-1 added A<= ->one",
    ];
    assert_eq!(changes(&disk, &page(100, None)), expected);
    assert_eq!(changes(&disk, &page(2, Some("rev-4"))), expected[4..6]);
    let oldest = disk.database.entry(ENGINE, "rev-1").unwrap().unwrap();
    let number = (oldest.number + 1).to_string();
    assert_eq!(changes(&disk, &page(9, Some(&number))), expected[6..]);
    assert!(disk.node_history(&page(9, Some("none"))).unwrap().is_none());

    let listed = |node: Option<&str>, flow: Option<&str>| -> Vec<String> {
        let page = Page {
            node: node.map(str::to_owned),
            flow: flow.map(str::to_owned),
            limit: 100,
            ..Page::default()
        };
        let found = disk.database.page(&page, None).unwrap();
        found.into_iter().map(|revision| revision.rev).collect()
    };
    assert_eq!(listed(Some("n"), None).len(), 7);
    assert_eq!(
        listed(Some("n"), Some("B")),
        ["rev-7", "rev-5", "rev-4", "rev-3"]
    );
    assert_eq!(
        listed(None, Some("A")),
        ["rev-7", "rev-6", "rev-3", "rev-2", "rev-1"]
    );
    assert_eq!(listed(Some("t7"), None), ["rev-1"]);
    assert_eq!(listed(Some("none"), None), [""; 0]);
}

#[test]
fn what_was_before_is_known_as_long_as_the_history_has_it() {
    let place = tempfile::tempdir().unwrap();
    let config = config::Storage {
        history: 2,
        ..config(&place)
    };
    let mut disk = Disk::open(&config).unwrap();
    for rev in 1..=5 {
        let named = node(&format!("v{rev}"), "A");
        disk.commit(&deployed(&rev.to_string(), &set(Some(named)), None))
            .unwrap();
        disk.sync_written();
    }
    // Every third one is whole: the fourth is, and the predecessor of the third stays for the
    // difference.
    let expected = [
        "rev-5 changed A<= v4>v5",
        "rev-4 changed A<= v3>v4",
        "rev-3 changed A<= v2>v3",
    ];
    assert_eq!(changes(&disk, &page(9, None)), expected);
    disk.commit(&deployed("6", &set(Some(node("v6", "A"))), None))
        .unwrap();
    disk.sync_written();
    let oldest = &changes(&disk, &page(9, None))[2];
    assert_eq!(oldest, "rev-4 changed A<= ->v4");
}

#[test]
fn deployments_of_earlier_versions_are_listed_too() {
    let place = tempfile::tempdir().unwrap();
    let old = include_str!("../../../tests/fixtures/database-5.sql");
    let database = rusqlite::Connection::open(place.path().join("flowgate.db")).unwrap();
    database.execute_batch(old).unwrap();
    drop(database);
    let disk = Disk::open(&config(&place)).unwrap();
    let page = NodePage {
        node: "t".to_owned(),
        ..page(9, None)
    };
    let changes = disk.node_history(&page).unwrap().unwrap();
    let label = |text: &Option<String>| {
        let node: Value = serde_json::from_str(text.as_deref().unwrap_or("{}")).unwrap();
        node["label"].as_str().unwrap_or("-").to_owned()
    };
    let shown: Vec<_> = changes
        .iter()
        .map(|change| {
            (
                change.revision.rev.as_str(),
                label(&change.before),
                label(&change.after),
            )
        })
        .collect();
    let expected = [
        ("rev-second", "first".to_owned(), "second".to_owned()),
        ("rev-edited", "first".to_owned(), "edited".to_owned()),
        ("rev-first", "-".to_owned(), "first".to_owned()),
    ];
    assert_eq!(shown, expected);
}
