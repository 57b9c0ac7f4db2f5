//! The state of an engine that is kept elsewhere, and goes on in another directory.

use super::{NODE_RED, config, record};
use crate::store::{EngineState, Error, LibraryPath, Replica, Store, is_engine_state, take_over};
use parking_lot::Mutex;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// Keeps what it gets, unless it is down.
fn keeper() -> (Arc<Mutex<EngineState>>, Arc<Mutex<bool>>, Replica) {
    let (kept, is_down) = (
        Arc::new(Mutex::new(EngineState::new())),
        Arc::new(Mutex::new(false)),
    );
    let (into, down) = (Arc::clone(&kept), Arc::clone(&is_down));
    let replica = move |state| {
        if *down.lock() {
            return Err("not now".to_owned());
        }
        into.lock().extend(state);
        Ok(())
    };
    (kept, is_down, Arc::new(replica))
}

#[tokio::test]
async fn another_directory_goes_on_with_the_flows_under_their_revision() {
    let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (kept, _, replica) = keeper();
    let store = Store::open(&config(&here)).unwrap();
    store.commit(record("before", None)).await.unwrap();
    store.replicate(replica).await.unwrap();
    assert_eq!(kept.lock()["rev"], "rev-before");
    store.commit(record("last", Some("hidden"))).await.unwrap();
    store.save_running(false).await.unwrap();
    let place = LibraryPath::new("functions", vec!["mine.js".to_owned()]).unwrap();
    let facts = vec![("name".to_owned(), "mine".to_owned())];
    let saved = store.save_in_library(place.clone(), facts, "return msg;".to_owned());
    saved.await.unwrap();
    let library = store.library(place.clone()).await.unwrap();
    let written = store.load().await.unwrap();

    // What was there before is of no more use.
    let former = Store::open(&config(&there)).unwrap();
    former
        .commit(record("former", Some("other")))
        .await
        .unwrap();
    drop(former);
    let context = "shared-context/default/t/flow.json".to_owned();
    kept.lock().insert(context.clone(), "{}".to_owned());
    fs::create_dir_all(there.path().join("shared-context/default/old")).unwrap();
    let state = kept.lock().clone();
    assert!(state.keys().all(|name| is_engine_state(name)), "{state:?}");
    take_over(&config(&there), &state, 1_700_000_000).unwrap();

    let store = Store::open(&config(&there)).unwrap();
    let loaded = store.load().await.unwrap();
    assert_eq!(loaded.rev.as_deref(), Some("rev-last"));
    assert_eq!(loaded.flows.to_json(), written.flows.to_json());
    assert_eq!(loaded.credentials, written.credentials);
    assert!(!store.running().await.unwrap());
    assert_eq!(store.library(place).await.unwrap(), library);
    assert!(there.path().join(context).exists());
    let before = there.path().join("flows.json.before-cluster");
    let before = fs::read_to_string(before).unwrap();
    assert!(before.contains("former"), "nothing is lost: {before}");
    assert!(!there.path().join("shared-context/default/old").exists());
}

#[tokio::test]
async fn what_is_kept_nowhere_else_does_not_count() {
    let here = TempDir::new().unwrap();
    let (_, is_down, replica) = keeper();
    let store = Store::open(&config(&here)).unwrap();
    store.replicate(replica).await.unwrap();
    store.commit(record("first", None)).await.unwrap();
    *is_down.lock() = true;
    let refused = store.commit(record("second", None)).await;
    assert!(matches!(refused, Err(Error::Unreachable(_))), "{refused:?}");
    assert!(store.save_running(false).await.is_err());
    let loaded = store.load().await.unwrap();
    assert_eq!(loaded.rev.as_deref(), Some("rev-first"));
    assert!(store.running().await.unwrap());
}

#[test]
fn no_name_leads_out_of_the_engines_directory() {
    for name in [
        "flowgate.db",
        "flows.json/..",
        "../flows.json",
        "/etc/passwd",
        "lib/flows/../../x.json",
        "lib/other/x",
        "shared-context/a/../b.json",
        "shared-context/a/b",
        "shared-context/a/.b/c.json",
        "shared-context/a/b/c/d.json",
        "",
    ] {
        assert!(!is_engine_state(name), "{name}");
    }
}

#[tokio::test]
async fn credentials_of_a_secret_that_was_generated_are_kept_with_that_of_all_members() {
    let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    for name in ["flows.json", "flows_cred.json", ".config.runtime.json"] {
        fs::copy(Path::new(NODE_RED).join(name), here.path().join(name)).unwrap();
    }
    let (kept, _, replica) = keeper();
    let store = Store::open(&config(&here)).unwrap();
    let known = store.load().await.unwrap();
    assert!(!known.locked && !known.credentials.nodes.is_empty());
    store.replicate(replica).await.unwrap();
    let state = kept.lock().clone();
    take_over(&config(&there), &state, 1_700_000_000).unwrap();
    let there = Store::open(&config(&there)).unwrap();
    let loaded = there.load().await.unwrap();
    assert_eq!(
        (loaded.locked, loaded.credentials),
        (false, known.credentials)
    );
}
