//! The history: whole flow sets and differences, what is forgotten, and databases of earlier
//! versions.

use super::*;
use crate::store::History;

/// Rows with a whole flow set, and rows with a difference.
fn rows(place: &TempDir) -> (i64, i64) {
    let database = rusqlite::Connection::open(place.path().join("flowgate.db")).unwrap();
    let count = "SELECT count(*) FROM deployments WHERE base IS";
    let ask = |sql: String| database.query_row(&sql, [], |row| row.get(0)).unwrap();
    (
        ask(format!("{count} NULL")),
        ask(format!("{count} NOT NULL")),
    )
}

/// A flow set of many nodes, of which one has this number.
fn numbered(number: usize) -> Record {
    let mut nodes: Vec<Value> = (0..200)
        .map(|n| json!({"id": format!("n{n}"), "type": "tab", "label": "some text"}))
        .collect();
    nodes[number % 200]["label"] = json!(number);
    let flows = Value::from(nodes).to_string();
    Record {
        flows: Arc::new(FlowSet::parse(flows.as_bytes()).unwrap()),
        ..record(&number.to_string(), Some("pw"))
    }
}

fn keeping(place: &TempDir, history: usize) -> config::Storage {
    config::Storage {
        history,
        ..config(place)
    }
}

#[test]
fn every_flow_set_is_read_as_it_was_deployed_from_few_whole_ones() {
    let place = tempfile::tempdir().unwrap();
    let config = keeping(&place, 100);
    let mut disk = Disk::open(&config).unwrap();
    for number in 0..80 {
        disk.commit(&numbered(number)).unwrap();
    }
    assert_eq!(rows(&place), (3, 77));
    let history = History::open(&config).unwrap();
    for number in 0..80 {
        let exact = history.all().unwrap()[79 - number].rev.clone();
        assert_eq!(exact, format!("rev-{number}"));
        let number_of = disk.database.numbers(&exact).unwrap();
        let files = disk.database.files(number_of[0]).unwrap();
        let expected = numbered(number).flows.to_json().into_bytes();
        assert_eq!(files.flows, Some(expected));
        assert!(files.credentials.is_some());
    }
    drop(disk);
    // A process that has just been started knows no flow set to compare with.
    let mut disk = Disk::open(&config).unwrap();
    disk.commit(&numbered(80)).unwrap();
    assert_eq!(rows(&place), (4, 77));
}

#[test]
fn forgotten_flow_sets_stay_only_as_long_as_a_difference_needs_them() {
    let place = tempfile::tempdir().unwrap();
    let mut disk = Disk::open(&keeping(&place, 9)).unwrap();
    for number in 0..100 {
        disk.commit(&numbered(number)).unwrap();
        disk.sync_written();
        let history = disk.database.history().unwrap();
        assert_eq!(history.len(), 10.min(number + 1));
        let oldest = number.saturating_sub(9);
        assert_eq!(history.last().unwrap().rev, format!("rev-{oldest}"));
        let found = disk.database.numbers(&format!("rev-{oldest}")).unwrap();
        let flows = disk.database.files(found[0]).unwrap().flows;
        assert_eq!(flows, Some(numbered(oldest).flows.to_json().into_bytes()));
        let (whole, differences) = rows(&place);
        assert!(whole + differences <= 20, "{whole} {differences}");
    }
    assert_eq!(disk.database.numbers("rev-80").unwrap(), [0; 0]);
}

#[test]
fn a_deployment_that_changes_much_is_kept_whole() {
    let place = tempfile::tempdir().unwrap();
    let mut disk = Disk::open(&keeping(&place, 100)).unwrap();
    disk.commit(&numbered(0)).unwrap();
    disk.commit(&record("other", Some("pw"))).unwrap();
    assert_eq!(rows(&place), (2, 0));
}

#[test]
fn the_credentials_of_every_flow_set_are_kept() {
    let place = tempfile::tempdir().unwrap();
    let mut disk = Disk::open(&keeping(&place, 100)).unwrap();
    for number in 0..6 {
        let password = format!("password {}", number / 2);
        let credentials = record("", Some(&password)).credentials;
        disk.commit(&Record {
            credentials,
            ..numbered(number)
        })
        .unwrap();
    }
    assert_eq!(rows(&place), (1, 5));
    for number in 0..6 {
        let found = disk.database.numbers(&format!("rev-{number}")).unwrap();
        let loaded = disk
            .parse_files(&disk.database.files(found[0]).unwrap())
            .unwrap();
        let expected = format!("password {}", number / 2);
        assert_eq!(loaded.credentials.nodes["n"]["password"], expected);
    }
}

#[test]
fn flow_sets_are_compressed_and_a_damaged_one_is_named() {
    let place = tempfile::tempdir().unwrap();
    let mut disk = Disk::open(&config(&place)).unwrap();
    let same = "the same again and again, ".repeat(1000);
    disk.commit(&record(&same, None)).unwrap();
    let database = rusqlite::Connection::open(place.path().join("flowgate.db")).unwrap();
    let ask = |sql: &str| database.query_row(sql, [], |row| row.get::<_, i64>(0));
    assert!(ask("SELECT length(content) FROM deployments").unwrap() < 2000);
    let number = ask("SELECT number FROM deployments").unwrap();

    let plain = "UPDATE deployments SET content = x'5b5d', packed = 0";
    database.execute(plain, []).unwrap();
    let read = disk.database.files(number).unwrap();
    assert_eq!(read.flows, Some(b"[]".to_vec()));

    for damage in [
        "content = x'ffffffff00', packed = 1",
        "content = x'ff', packed = 0",
        "content = x'5b5d', packed = 0, base = 1000",
        "base = number",
    ] {
        let damage = format!("UPDATE deployments SET {damage}");
        database.execute(&damage, []).unwrap();
        let error = disk.database.files(number).unwrap_err().to_string();
        assert!(
            error.contains("flow set 1 of the history cannot be read"),
            "{error}"
        );
    }
}

#[test]
fn a_history_of_the_version_before_differences_is_read_and_continued() {
    let place = tempfile::tempdir().unwrap();
    let old = include_str!("../../../tests/fixtures/database-5.sql");
    let database = rusqlite::Connection::open(place.path().join("flowgate.db")).unwrap();
    database.execute_batch(old).unwrap();
    drop(database);
    write(&place, "flows.json", &flows("second").to_string());
    let mut disk = Disk::open(&config(&place)).unwrap();
    let history = disk.database.history().unwrap();
    let entries: Vec<_> = history
        .iter()
        .map(|entry| {
            (
                entry.rev.as_str(),
                entry.parent.as_deref(),
                entry.kind.as_str(),
            )
        })
        .collect();
    let expected = [
        ("rev-second", Some("rev-first"), "nodes"),
        ("rev-edited", Some("rev-first"), "outside-edit"),
        ("rev-first", None, "full"),
    ];
    assert_eq!(entries, expected);
    let loaded = disk.load().unwrap();
    assert_eq!(seen(&loaded).0, "second");
    assert_eq!(loaded.rev.as_deref(), Some("rev-second"));
    let first = disk.database.numbers("rev-first").unwrap();
    let first = disk.database.files(first[0]).unwrap().flows;
    let first: Value = serde_json::from_slice(&first.unwrap()).unwrap();
    assert_eq!(first, flows("first"));
    disk.commit(&record("third", None)).unwrap();
    assert_eq!(disk.database.history().unwrap().len(), 4);
}
