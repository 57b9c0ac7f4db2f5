//! Data that survives a restart, and its owners.

use super::*;
use crate::store::AddressRow;

#[tokio::test]
async fn deployed_flows_are_loaded_with_their_revision_after_a_restart() {
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
async fn without_a_secret_one_is_generated_and_kept() {
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
async fn the_newest_known_addresses_of_each_user_survive() {
    let place = tempfile::tempdir().unwrap();
    let row = |user: &str, address: &str, at| AddressRow {
        user: user.into(),
        address: address.into(),
        at,
    };
    let store = Store::open(&config(&place)).unwrap();
    for row in [
        row("alice", "192.0.2.1", 10),
        row("bob", "192.0.2.1", 11),
        row("alice", "192.0.2.2", 20),
        row("alice", "192.0.2.1", 30),
        row("alice", "192.0.2.3", 40),
    ] {
        store.save_known_address(row, 2).await.unwrap();
    }
    drop(store);

    let store = Store::open(&config(&place)).unwrap();
    assert_eq!(
        store.known_addresses(11).await.unwrap(),
        [
            row("bob", "192.0.2.1", 11),
            row("alice", "192.0.2.1", 30),
            row("alice", "192.0.2.3", 40),
        ]
    );
    assert_eq!(store.known_addresses(31).await.unwrap().len(), 1);
    assert_eq!(store.known_addresses(0).await.unwrap().len(), 1);
}

#[tokio::test]
async fn sessions_failures_admin_and_running_survive() {
    let place = tempfile::tempdir().unwrap();
    let session = |number| SessionRow {
        token: [number; 32],
        user: "alice".into(),
        client: "service-admin".into(),
        agent: "curl/8".into(),
        networks: (number == 2).then(|| vec!["10.0.0.0/8".into()]),
        rate_limit: (number == 2).then(|| "100/m".into()),
        creator: (number == 2).then(|| "bob".into()),
        scope: vec!["flows.read".into(), "two\nlines".into()],
        created: 1,
        expires: u64::from(number),
        password: (number == 2).then_some([7; 32]),
        ..SessionRow::default()
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
async fn a_panicking_job_fails_alone() {
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

#[tokio::test]
async fn a_row_that_someone_else_wrote_is_no_session() {
    let place = tempfile::tempdir().unwrap();
    let keyed = |secret: Option<&str>| config::Storage {
        credential_secret: secret.map(|secret| Secret::new(secret.to_owned())),
        ..config(&place)
    };
    let session = |number: u8| SessionRow {
        token: [number; 32],
        user: "ann".into(),
        client: "service-admin".into(),
        scope: vec!["flows.read".into()],
        created: 1,
        expires: u64::MAX,
        ..SessionRow::default()
    };
    let tokens = async |secret: Option<&str>| {
        let store = Store::open(&keyed(secret)).unwrap();
        let sessions = store.sessions().await.unwrap();
        sessions.iter().map(|row| row.token[0]).collect::<Vec<_>>()
    };
    let sql = |statement: &str| {
        let file = place.path().join("flowgate.db");
        let database = rusqlite::Connection::open(file).unwrap();
        assert_eq!(database.execute(statement, []).unwrap(), 1, "{statement}");
    };
    let store = Store::open(&keyed(None)).unwrap();
    store.save_session(session(1)).await.unwrap();
    drop(store);
    // The secret is new: what is there stays.
    let store = Store::open(&keyed(Some("one"))).unwrap();
    store.save_session(session(2)).await.unwrap();
    store.save_session(session(3)).await.unwrap();
    store.confirm_session([2; 32], 7, 8).await.unwrap();
    store.bind_sessions(vec![([2; 32], [9; 32])]).await.unwrap();
    drop(store);
    assert_eq!(tokens(Some("one")).await, [1, 2, 3]);
    let columns = "created, expires, agent, password";
    sql(&format!(
        r#"INSERT INTO session (token, user, client, scope, {columns}) VALUES (x'{}', 'token:x', 'service', '["*"]', 1, 9, '', NULL)"#,
        "04".repeat(32)
    ));
    sql(&format!(
        "INSERT INTO session (token, user, client, scope, {columns}, mac) SELECT x'{}', user, client, scope, {columns}, mac FROM session WHERE token = x'{}'",
        "05".repeat(32),
        "01".repeat(32)
    ));
    assert_eq!(tokens(Some("one")).await, [1, 2, 3]);
    sql(&format!(
        r#"UPDATE session SET scope = '["*"]' WHERE token = x'{}'"#,
        "02".repeat(32)
    ));
    let store = Store::open(&keyed(Some("one"))).unwrap();
    // Nothing makes a changed row count again.
    store.confirm_session([2; 32], 9, 9).await.unwrap();
    assert_eq!(store.session([2; 32]).await.unwrap(), None);
    assert!(store.session([3; 32]).await.unwrap().is_some());
    drop(store);
    assert_eq!(tokens(Some("one")).await, [1, 3]);
    assert!(tokens(Some("two")).await.is_empty());
}
