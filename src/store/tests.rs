//! The store over real directories: what survives a crash at every step, a full disk, an edit from outside.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::disk::Disk;
use super::fault::{self, Fault};
use super::{Error, FailureRow, Loaded, Record, SessionRow, Store};
use crate::config;
use crate::flows::{Credentials, FlowSet};
use crate::secret::Secret;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

const NODE_RED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/node-red-4.1");

fn config(place: &TempDir) -> config::Storage {
    config::Storage {
        directory: place.path().to_owned(),
        history: 3,
        credential_secret: Some(Secret::new("secret".into())),
    }
}

fn flows(label: &str) -> Value {
    json!([{"id": "t", "type": "tab", "label": label}])
}

fn record(label: &str, password: Option<&str>) -> Record {
    let nodes = password
        .map(|password| json!({"n": {"password": password}}))
        .unwrap_or(json!({}));
    Record {
        rev: format!("rev-{label}"),
        flows: Arc::new(FlowSet::parse(flows(label).to_string().as_bytes()).unwrap()),
        credentials: Arc::new(Credentials {
            nodes: serde_json::from_value(nodes).unwrap(),
        }),
        user: "admin".into(),
        kind: "full".into(),
        at: 1_700_000_000,
    }
}

/// Label and password of what is loaded: together they show which deployment it is.
fn seen(loaded: &Loaded) -> (String, Option<String>) {
    let flows: Value = serde_json::from_str(&loaded.flows.to_json()).unwrap();
    let password = loaded
        .credentials
        .nodes
        .get("n")
        .map(|fields| fields["password"].as_str().unwrap().to_owned());
    (
        flows[0]["label"].as_str().unwrap_or_default().to_owned(),
        password,
    )
}

fn reopened(place: &TempDir) -> Loaded {
    Disk::open(&config(place)).unwrap().load().unwrap()
}

fn write(place: &TempDir, name: &str, text: &str) {
    fs::write(place.path().join(name), text).unwrap();
}

fn read(place: &TempDir, name: &str) -> String {
    fs::read_to_string(place.path().join(name)).unwrap()
}

fn names(place: &TempDir, part: &str) -> Vec<String> {
    let all = fs::read_dir(place.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = all.filter(|name| name.contains(part)).collect();
    names.sort();
    names
}

fn copy_of(original: &TempDir) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(original.path()).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

/// Every directory that a deployment may start from, and what is loaded from it.
fn starting_points() -> Vec<TempDir> {
    let empty = tempfile::tempdir().unwrap();
    let node_red = tempfile::tempdir().unwrap();
    write(
        &node_red,
        "flows.json",
        &format!("{:#}", flows("from Node-RED")),
    );
    write(
        &node_red,
        "flows_cred.json",
        r#"{"n":{"password":"plain"}}"#,
    );
    let deployed = tempfile::tempdir().unwrap();
    let mut disk = Disk::open(&config(&deployed)).unwrap();
    disk.commit(&record("first", Some("one"))).unwrap();
    disk.commit(&record("second", Some("two"))).unwrap();
    drop(disk);
    let edited = copy_of(&deployed);
    write(&edited, "flows.json", &flows("edited").to_string());
    vec![empty, node_red, deployed, edited]
}

#[test]
fn a_crash_at_any_step_leaves_all_of_the_old_or_all_of_the_new_state() {
    for start in starting_points() {
        let old = seen(&reopened(&start));
        let new = ("new".to_owned(), Some("three".to_owned()));
        let mut outcomes = Vec::new();
        for steps in 0.. {
            let place = copy_of(&start);
            let mut disk = Disk::open(&config(&place)).unwrap();
            fault::plan(Some((steps, Fault::Crash)));
            let crashed = catch_unwind(AssertUnwindSafe(|| {
                disk.commit(&record("new", Some("three")))
            }));
            fault::plan(None);
            drop(disk);
            let loaded = reopened(&place);
            let outcome = seen(&loaded);
            assert!(
                outcome == old || outcome == new,
                "after {steps} steps: {outcome:?}"
            );
            assert_eq!(names(&place, ".new"), [""; 0], "after {steps} steps");
            if outcome == new {
                assert_eq!(
                    loaded.rev.as_deref(),
                    Some("rev-new"),
                    "after {steps} steps"
                );
            }
            outcomes.push(outcome == new);
            if let Ok(done) = crashed {
                done.unwrap();
                assert_eq!(outcome, new, "a deployment that was acknowledged is there");
                break;
            }
        }
        assert!(outcomes.is_sorted(), "once new, always new: {outcomes:?}");
        assert!(
            outcomes.iter().filter(|new| !**new).count() >= 3,
            "{outcomes:?}"
        );
        assert!(
            outcomes.iter().filter(|new| **new).count() >= 5,
            "{outcomes:?}"
        );
    }
}

#[test]
fn a_crash_while_a_deployment_is_brought_forward_is_brought_forward_again() {
    let start = tempfile::tempdir().unwrap();
    let mut disk = Disk::open(&config(&start)).unwrap();
    disk.commit(&record("old", Some("one"))).unwrap();
    crash_after_row(&mut disk, &record("new", Some("two")));
    drop(disk);
    for steps in 0.. {
        let place = copy_of(&start);
        fault::plan(Some((steps, Fault::Crash)));
        let opened = catch_unwind(|| Disk::open(&config(&place)).map(drop));
        fault::plan(None);
        assert_eq!(
            seen(&reopened(&place)),
            ("new".into(), Some("two".into())),
            "after {steps} steps"
        );
        if let Ok(opened) = opened {
            return opened.unwrap();
        }
    }
}

/// Crashes at the first step after which the history has the row and the files are still the old ones.
fn crash_after_row(disk: &mut Disk, record: &Record) {
    for steps in 0.. {
        fault::plan(Some((steps, Fault::Crash)));
        let _ = catch_unwind(AssertUnwindSafe(|| disk.commit(record)));
        fault::plan(None);
        if disk.database.newest_deployment().unwrap().unwrap().rev == record.rev {
            return;
        }
    }
}

#[test]
fn a_disk_that_fails_at_any_step_leaves_the_old_state_and_nothing_beside_it() {
    for start in starting_points() {
        let old = seen(&reopened(&start));
        let (mut refused, mut steps) = (0, 0);
        loop {
            let place = copy_of(&start);
            let mut disk = Disk::open(&config(&place)).unwrap();
            let flows = fs::read(place.path().join("flows.json")).ok();
            let revisions = disk.database.history().unwrap();
            fault::plan(Some((steps, Fault::Full)));
            let outcome = disk.commit(&record("new", Some("three")));
            fault::plan(None);
            assert_eq!(names(&place, ".new"), [""; 0], "after {steps} steps");
            if let Err(error) = outcome {
                assert!(matches!(error, Error::Io { .. }), "{error}");
                assert_eq!(
                    fs::read(place.path().join("flows.json")).ok(),
                    flows,
                    "after {steps} steps"
                );
                assert_eq!(disk.database.history().unwrap(), revisions);
                drop(disk);
                assert_eq!(seen(&reopened(&place)), old, "after {steps} steps");
                refused += 1;
            } else {
                drop(disk);
                assert_eq!(seen(&reopened(&place)).0, "new", "after {steps} steps");
                if steps > 30 {
                    break;
                }
            }
            steps += 1;
        }
        assert!(refused >= 6, "{refused}");
    }
}

#[tokio::test]
async fn what_was_deployed_is_loaded_with_its_revision_after_a_restart() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::open(&config(&place)).unwrap();
    let empty = store.load().await.unwrap();
    assert_eq!((empty.rev, empty.flows.nodes().len()), (None, 0));
    store.commit(record("a", Some("pw"))).await.unwrap();
    drop(store);
    let loaded = Store::open(&config(&place)).unwrap().load().await.unwrap();
    assert_eq!(seen(&loaded), ("a".into(), Some("pw".into())));
    assert_eq!(loaded.rev.as_deref(), Some("rev-a"));
    assert_eq!(read(&place, "flows.json"), flows("a").to_string());
    assert!(read(&place, "flows_cred.json").starts_with(r#"{"$":""#));
}

#[tokio::test]
async fn the_files_replaced_stay_as_backups() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::open(&config(&place)).unwrap();
    store.commit(record("a", Some("one"))).await.unwrap();
    let credentials = read(&place, "flows_cred.json");
    for label in ["b", "c"] {
        store.commit(record(label, Some("two"))).await.unwrap();
    }
    assert_eq!(read(&place, ".flows.json.backup"), flows("b").to_string());
    assert_eq!(read(&place, ".flows_cred.json.backup"), credentials);
}

#[tokio::test]
async fn the_credentials_file_is_written_only_when_the_credentials_changed() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::open(&config(&place)).unwrap();
    store.commit(record("a", None)).await.unwrap();
    assert_eq!(names(&place, "flows_cred"), [""; 0]);
    store.commit(record("b", Some("pw"))).await.unwrap();
    let written = read(&place, "flows_cred.json");
    store.commit(record("c", Some("pw"))).await.unwrap();
    assert_eq!(read(&place, "flows_cred.json"), written);
    store.commit(record("d", None)).await.unwrap();
    assert_ne!(read(&place, "flows_cred.json"), written);
    assert_eq!(seen(&store.load().await.unwrap()), ("d".into(), None));
}

#[tokio::test]
async fn a_user_directory_of_node_red_is_taken_over_as_it_is() {
    let place = tempfile::tempdir().unwrap();
    for name in ["flows.json", "flows_cred.json", ".config.runtime.json"] {
        fs::copy(Path::new(NODE_RED).join(name), place.path().join(name)).unwrap();
    }
    let config = config::Storage {
        credential_secret: None,
        ..config(&place)
    };
    let store = Store::open(&config).unwrap();
    let loaded = store.load().await.unwrap();
    assert_eq!(loaded.rev, None);
    assert_eq!(
        loaded.flows.to_json(),
        fs::read_to_string(Path::new(NODE_RED).join("flows.json")).unwrap()
    );
    assert_eq!(loaded.credentials.nodes["n1"]["user"], "jürgen");
    let cred = read(&place, "flows_cred.json");
    let taken = Record {
        credentials: Arc::new(loaded.credentials),
        flows: Arc::new(loaded.flows),
        ..record("x", None)
    };
    store.commit(taken).await.unwrap();
    assert_eq!(read(&place, "flows_cred.json"), cred);
    assert_eq!(store.load().await.unwrap().rev.as_deref(), Some("rev-x"));
}

#[tokio::test]
async fn without_a_secret_one_is_made_and_kept() {
    let place = tempfile::tempdir().unwrap();
    let config = config::Storage {
        credential_secret: None,
        ..config(&place)
    };
    let store = Store::open(&config).unwrap();
    store.commit(record("a", None)).await.unwrap();
    assert_eq!(names(&place, ".config"), [""; 0]);
    store.commit(record("b", Some("pw"))).await.unwrap();
    drop(store);
    let settings: Value = serde_json::from_str(&read(&place, ".config.runtime.json")).unwrap();
    assert_eq!(settings["_credentialSecret"].as_str().unwrap().len(), 64);
    assert_eq!(
        seen(&Store::open(&config).unwrap().load().await.unwrap())
            .1
            .as_deref(),
        Some("pw")
    );
}

#[tokio::test]
async fn an_edit_from_outside_is_seen_and_its_formatting_is_not() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::open(&config(&place)).unwrap();
    assert!(store.edited_outside().await.unwrap().is_none());
    store.commit(record("a", None)).await.unwrap();
    assert!(store.edited_outside().await.unwrap().is_none());

    write(
        &place,
        "flows.json",
        "\u{feff}[ {\"label\": \"a\", \"type\": \"tab\", \"id\": \"t\"} ]\n",
    );
    assert!(store.edited_outside().await.unwrap().is_none());
    assert_eq!(store.load().await.unwrap().rev.as_deref(), Some("rev-a"));

    write(&place, "flows.json", &flows("edited").to_string());
    let edit = store.edited_outside().await.unwrap().unwrap();
    assert_eq!((seen(&edit).0.as_str(), edit.rev), ("edited", None));
    assert_eq!(store.load().await.unwrap().rev, None);

    write(&place, "flows.json", &flows("a").to_string());
    write(&place, "flows_cred.json", r#"{"n":{"password":"edited"}}"#);
    assert_eq!(
        seen(&store.edited_outside().await.unwrap().unwrap())
            .1
            .as_deref(),
        Some("edited")
    );
}

#[tokio::test]
async fn an_edit_that_is_kept_is_a_revision_of_its_own_and_leaves_the_files_alone() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::open(&config(&place)).unwrap();
    store.commit(record("a", Some("pw"))).await.unwrap();
    write(&place, "flows.json", &flows("edited").to_string());
    store.keep(record("edited", Some("pw"))).await.unwrap();
    assert_eq!(read(&place, "flows.json"), flows("edited").to_string());
    assert!(
        store.edited_outside().await.unwrap().is_some(),
        "kept is not deployed"
    );
    store.commit(record("b", Some("pw"))).await.unwrap();
    assert!(store.edited_outside().await.unwrap().is_none());
    let revs: Vec<_> = store
        .history()
        .await
        .unwrap()
        .into_iter()
        .map(|revision| revision.rev)
        .collect();
    assert_eq!(revs, ["rev-b", "rev-edited", "rev-a"]);
}

#[tokio::test]
async fn a_backup_that_its_owner_put_back_is_an_edit_and_not_a_crash() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::open(&config(&place)).unwrap();
    store.commit(record("a", None)).await.unwrap();
    store.commit(record("b", None)).await.unwrap();
    drop(store);
    fs::copy(
        place.path().join(".flows.json.backup"),
        place.path().join("flows.json"),
    )
    .unwrap();
    let loaded = Store::open(&config(&place)).unwrap().load().await.unwrap();
    assert_eq!((seen(&loaded).0.as_str(), loaded.rev), ("a", None));
}

#[test]
fn an_edit_after_a_crash_is_not_overwritten() {
    let place = tempfile::tempdir().unwrap();
    let mut disk = Disk::open(&config(&place)).unwrap();
    disk.commit(&record("old", None)).unwrap();
    crash_after_row(&mut disk, &record("new", None));
    drop(disk);
    write(&place, "flows.json", &flows("edited").to_string());
    let loaded = reopened(&place);
    assert_eq!((seen(&loaded).0.as_str(), loaded.rev), ("edited", None));
}

#[tokio::test]
async fn deleted_flows_are_an_empty_flow_set() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::open(&config(&place)).unwrap();
    store.commit(record("a", None)).await.unwrap();
    fs::remove_file(place.path().join("flows.json")).unwrap();
    let loaded = store.load().await.unwrap();
    assert_eq!((loaded.flows.nodes().len(), loaded.rev), (0, None));
    assert!(store.edited_outside().await.unwrap().is_some());
}

#[tokio::test]
async fn broken_flows_are_refused_with_their_place_and_kept_when_they_are_replaced() {
    for (broken, place_of_error) in [
        ("", "line 1"),
        ("[{]", "line 1 column 3"),
        ("{\n}", "line 1 column 0"),
        ("[1,\n", "line 2"),
    ] {
        let place = tempfile::tempdir().unwrap();
        let store = Store::open(&config(&place)).unwrap();
        store.commit(record("a", None)).await.unwrap();
        write(&place, "flows.json", broken);
        drop(store);
        let store = Store::open(&config(&place)).unwrap();
        let error = store.load().await.unwrap_err().to_string();
        assert!(
            error.starts_with("flows.json: ") && error.contains(place_of_error),
            "{broken:?}: {error}"
        );
        assert!(store.edited_outside().await.unwrap().is_none());
        assert_eq!(read(&place, "flows.json"), broken);
        store.commit(record("b", None)).await.unwrap();
        assert_eq!(read(&place, "flows.json.broken-1700000000"), broken);
        assert_eq!(seen(&store.load().await.unwrap()).0, "b");
        write(&place, "flows.json", "other");
        store.commit(record("c", None)).await.unwrap();
        assert_eq!(
            names(&place, "broken"),
            [
                "flows.json.broken-1700000000",
                "flows.json.broken-1700000000-2"
            ]
        );
    }
}

#[tokio::test]
async fn credentials_of_another_secret_are_kept_when_they_are_replaced() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::open(&config(&place)).unwrap();
    store.commit(record("a", Some("pw"))).await.unwrap();
    drop(store);
    let file = read(&place, "flows_cred.json");
    let other = config::Storage {
        credential_secret: Some(Secret::new("other".into())),
        ..config(&place)
    };
    let store = Store::open(&other).unwrap();
    let loaded = store.load().await.unwrap();
    assert_eq!(seen(&loaded), ("a".into(), None));
    assert_eq!(
        loaded.rev.as_deref(),
        Some("rev-a"),
        "the files are what the deployment wrote"
    );
    assert_eq!(names(&place, "undecryptable"), [""; 0]);
    store.commit(record("b", None)).await.unwrap();
    assert_eq!(read(&place, "flows_cred.json.undecryptable"), file);
    assert_eq!(seen(&store.load().await.unwrap()), ("b".into(), None));
}

#[tokio::test]
async fn the_history_keeps_as_many_earlier_flow_sets_as_configured() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::open(&config(&place)).unwrap();
    for number in 0..7 {
        store
            .commit(record(&number.to_string(), None))
            .await
            .unwrap();
    }
    let revs: Vec<_> = store
        .history()
        .await
        .unwrap()
        .into_iter()
        .map(|revision| revision.rev)
        .collect();
    assert_eq!(revs, ["rev-6", "rev-5", "rev-4", "rev-3"]);
    drop(store);
    let store = Store::open(&config::Storage {
        history: 0,
        ..config(&place)
    })
    .unwrap();
    store.keep(record("kept", None)).await.unwrap();
    assert_eq!(
        store.load().await.unwrap().rev.as_deref(),
        Some("rev-6"),
        "the active one is never forgotten"
    );
}

#[tokio::test]
async fn sessions_failures_admin_and_running_survive() {
    let place = tempfile::tempdir().unwrap();
    let session = |number| SessionRow {
        token: [number; 32],
        user: "alice".into(),
        client: "service-admin".into(),
        scope: vec!["flows.read".into(), "two\nlines".into()],
        created: 1,
        expires: u64::from(number),
    };
    let failure = |user: &str, at| FailureRow {
        user: user.into(),
        address: "192.0.2.1".into(),
        at,
    };
    let store = Store::open(&config(&place)).unwrap();
    assert!(store.running().await.unwrap());
    assert!(store.generated_admin().await.unwrap().is_none());
    for number in [1, 2, 3] {
        store.save_session(session(number)).await.unwrap();
    }
    store
        .remove_sessions(vec![[1; 32], [3; 32], [9; 32]])
        .await
        .unwrap();
    for (user, at) in [("alice", 10), ("bob", 20), ("alice", 30)] {
        store.save_failure(failure(user, at)).await.unwrap();
    }
    store
        .save_generated_admin(Secret::new("$argon2id$…".into()))
        .await
        .unwrap();
    store.save_running(false).await.unwrap();
    drop(store);

    let store = Store::open(&config(&place)).unwrap();
    assert_eq!(store.sessions().await.unwrap(), [session(2)]);
    assert_eq!(
        store.failures(20).await.unwrap(),
        [failure("bob", 20), failure("alice", 30)]
    );
    assert_eq!(
        store.failures(0).await.unwrap().len(),
        2,
        "older ones are forgotten"
    );
    store.clear_failures("alice", "192.0.2.1").await.unwrap();
    assert_eq!(store.failures(0).await.unwrap(), [failure("bob", 20)]);
    assert_eq!(
        store.generated_admin().await.unwrap().unwrap().reveal(),
        "$argon2id$…"
    );
    assert!(!store.running().await.unwrap());
    store.save_running(true).await.unwrap();
    assert!(store.running().await.unwrap());
}

#[tokio::test]
async fn a_second_store_on_one_directory_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let first = Store::open(&config(&place)).unwrap();
    let error = Store::open(&config(&place)).err().unwrap().to_string();
    assert!(
        error.contains("flowgate.lock: another process uses this data directory"),
        "{error}"
    );
    drop(first);
    Store::open(&config(&place)).unwrap();
}

#[tokio::test]
async fn the_directory_and_its_files_are_for_their_owner_only() {
    let outer = tempfile::tempdir().unwrap();
    let directory = outer.path().join("made/here");
    let config = config::Storage {
        directory: directory.clone(),
        ..config(&outer)
    };
    let store = Store::open(&config).unwrap();
    store.commit(record("a", Some("one"))).await.unwrap();
    store.commit(record("b", Some("two"))).await.unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    let files: Vec<_> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(files.len() >= 8, "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[tokio::test]
async fn a_question_that_panics_fails_alone() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::open(&config(&place)).unwrap();
    let asked = store
        .owner
        .ask(|_| -> Result<(), Error> { std::panic::resume_unwind(Box::new("")) });
    assert!(asked.await.is_err());
    assert!(store.running().await.unwrap());
}

#[test]
fn a_database_of_a_newer_program_is_refused() {
    let place = tempfile::tempdir().unwrap();
    drop(Disk::open(&config(&place)).unwrap());
    let database = rusqlite::Connection::open(place.path().join("flowgate.db")).unwrap();
    database.pragma_update(None, "user_version", 99).unwrap();
    drop(database);
    let error = Disk::open(&config(&place)).err().unwrap().to_string();
    assert!(error.contains("newer flowgate"), "{error}");
}
