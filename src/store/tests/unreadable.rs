//! Credentials that cannot be decrypted, and deployments that know nothing of them.

use super::*;

/// A deployment of two nodes, with these credentials.
fn record(label: &str, credentials: Value) -> Record {
    let set = json!([
        { "id": "t", "type": "tab", "label": label },
        { "id": "n", "type": "a", "z": "t", "wires": [] },
        { "id": "m", "type": "a", "z": "t", "wires": [] },
    ]);
    Record {
        flows: Arc::new(FlowSet::parse(set.to_string().as_bytes()).unwrap()),
        credentials: Arc::new(Credentials {
            nodes: serde_json::from_value(credentials).unwrap(),
        }),
        ..super::record(label, None)
    }
}

fn other(place: &TempDir) -> config::Storage {
    config::Storage {
        credential_secret: Some(Secret::new("other".into())),
        ..config(place)
    }
}

/// Why a deployment was refused.
async fn refused(store: &Store, record: Record) -> String {
    match store.commit(record).await {
        Err(error @ Error::UnreadableCredentials { .. }) => error.to_string(),
        done => panic!("{done:?}"),
    }
}

#[tokio::test]
async fn credentials_that_cannot_be_decrypted_are_replaced_by_new_ones_for_all_nodes_only() {
    let place = tempfile::tempdir().unwrap();
    let both = json!({ "n": { "password": "1" }, "m": { "password": "2" } });
    let store = Store::open(&config(&place)).unwrap();
    store.commit(record("a", both.clone())).await.unwrap();
    drop(store);
    let file = read(&place, "flows_cred.json");

    let store = Store::open(&other(&place)).unwrap();
    assert!(store.load().await.unwrap().locked);
    store.commit(record("b", json!({}))).await.unwrap();
    store.commit(record("c", json!({}))).await.unwrap();
    let one = json!({ "n": { "password": "3" } });
    let reason = refused(&store, record("d", one)).await;
    assert!(reason.contains("it has none for m)"), "{reason}");
    assert_eq!(read(&place, "flows_cred.json"), file);
    assert_eq!(read(&place, "flows_cred.json.undecryptable"), file);
    drop(store);

    let store = Store::open(&config(&place)).unwrap();
    let loaded = store.load().await.unwrap();
    assert_eq!(seen(&loaded), ("c".into(), Some("1".into())));
    assert_eq!(loaded.rev.as_deref(), Some("rev-c"));
    drop(store);

    let store = Store::open(&other(&place)).unwrap();
    store.load().await.unwrap();
    store.commit(record("e", both)).await.unwrap();
    assert_ne!(read(&place, "flows_cred.json"), file);
    let loaded = store.load().await.unwrap();
    assert_eq!(seen(&loaded), ("e".into(), Some("1".into())));
    assert_eq!(read(&place, "flows_cred.json.undecryptable"), file);
}

#[tokio::test]
async fn credentials_that_came_with_their_directory_are_not_replaced_by_those_of_one_node() {
    let place = tempfile::tempdir().unwrap();
    let names = ["flows.json", "flows_cred.json"];
    for name in names {
        fs::copy(Path::new(NODE_RED).join(name), place.path().join(name)).unwrap();
    }
    let file = read(&place, "flows_cred.json");
    let store = Store::open(&config(&place)).unwrap();
    assert!(store.load().await.unwrap().locked);
    let one = json!({ "n": { "password": "3" } });
    let reason = refused(&store, record("a", one.clone())).await;
    assert!(
        reason.contains("the history does not tell which"),
        "{reason}"
    );
    assert_eq!(read(&place, "flows_cred.json"), file);

    fs::remove_file(place.path().join("flows_cred.json")).unwrap();
    store.load().await.unwrap();
    store.commit(record("a", one)).await.unwrap();
    let loaded = store.load().await.unwrap();
    assert_eq!(seen(&loaded), ("a".into(), Some("3".into())));
}

#[tokio::test]
async fn credentials_that_are_torn_while_they_are_known_are_replaced_by_the_known_ones() {
    let place = tempfile::tempdir().unwrap();
    let both = json!({ "n": { "password": "1" }, "m": { "password": "2" } });
    let store = Store::open(&config(&place)).unwrap();
    store.load().await.unwrap();
    store.commit(record("a", both)).await.unwrap();
    write(&place, "flows_cred.json", "{\"$\":\"torn");
    // A user has removed those of the other node.
    let one = json!({ "n": { "password": "1" } });
    store.commit(record("b", one)).await.unwrap();
    let loaded = store.load().await.unwrap();
    assert_eq!(seen(&loaded), ("b".into(), Some("1".into())));
}
