//! Files that someone else wrote: edited, deleted, broken, of another secret, of Node-RED.

use super::*;

#[tokio::test]
async fn a_user_directory_of_node_red_is_adopted_unchanged() {
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
async fn an_outside_edit_is_detected_and_a_formatting_change_is_not() {
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
async fn a_kept_edit_is_a_separate_revision_and_leaves_the_files_unchanged() {
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
async fn a_restored_backup_is_an_edit_and_not_a_crash() {
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
async fn broken_flows_are_refused_with_a_position_and_kept_when_replaced() {
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
