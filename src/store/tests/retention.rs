//! What the history forgets: by number, by age and by size.

use super::*;

const DAY: u64 = 24 * 3600;

/// A deployment at this time whose flow set has this many nodes, all with other texts than those of
/// any other.
fn at(time: u64, nodes: usize) -> Record {
    let node = |_| json!({"id": crypto::hex(&crypto::random::<16>()), "type": "tab"});
    let nodes: Vec<Value> = (0..nodes).map(node).collect();
    let base = record(&time.to_string(), None);
    Record {
        revision: Revision {
            at: time,
            ..base.revision
        },
        flows: Arc::new(FlowSet::parse(Value::from(nodes).to_string().as_bytes()).unwrap()),
        ..base
    }
}

fn times(disk: &Disk) -> Vec<u64> {
    let history = disk.database.history().unwrap();
    history.iter().map(|revision| revision.at).collect()
}

#[test]
fn entries_beyond_an_age_are_forgotten_except_the_newest() {
    let place = tempfile::tempdir().unwrap();
    let config = config::Storage {
        history: 100,
        history_age: Duration::from_secs(10 * DAY),
        ..config(&place)
    };
    let mut disk = Disk::open(&config).unwrap();
    for day in [100, 105, 110, 116] {
        disk.commit(&at(day * DAY, 1)).unwrap();
    }
    assert_eq!(times(&disk), [116 * DAY, 110 * DAY]);
    // A clock that was set back makes no entry too old.
    disk.commit(&at(50 * DAY, 1)).unwrap();
    assert_eq!(times(&disk)[0], 50 * DAY);
    disk.commit(&at(500 * DAY, 1)).unwrap();
    assert_eq!(times(&disk), [500 * DAY]);
}

#[test]
fn entries_beyond_a_size_are_forgotten_except_the_newest() {
    let place = tempfile::tempdir().unwrap();
    let config = config::Storage {
        history: 100,
        history_bytes: 250_000,
        ..config(&place)
    };
    let mut disk = Disk::open(&config).unwrap();
    // Each takes some 17,000 bytes, and the list of what it adds and removes some 94,000.
    for time in 1..=5 {
        disk.commit(&at(time, 400)).unwrap();
        disk.sync_written();
    }
    assert_eq!(times(&disk), [5, 4]);
    disk.commit(&at(6, 4000)).unwrap();
    assert_eq!(times(&disk), [6]);
    let rows = rusqlite::Connection::open(place.path().join("flowgate.db")).unwrap();
    let count = |sql: &str| rows.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert!(count("SELECT count(*) FROM deployments") <= 2);
    let listed =
        "SELECT count(*) FROM touched WHERE number NOT IN (SELECT number FROM deployments)";
    assert_eq!(count(listed), 0);
}

#[test]
fn without_a_history_the_newest_flow_set_stays() {
    let place = tempfile::tempdir().unwrap();
    let config = config::Storage {
        history: 0,
        ..config(&place)
    };
    let mut disk = Disk::open(&config).unwrap();
    for time in 1..=5 {
        disk.commit(&at(time, 3)).unwrap();
    }
    assert_eq!(times(&disk), [5]);
    drop(disk);
    let loaded = Disk::open(&config).unwrap().load().unwrap();
    assert_eq!(loaded.rev.as_deref(), Some("rev-5"));
}
