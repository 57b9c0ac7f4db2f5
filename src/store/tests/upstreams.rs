//! The histories of upstreams, beside each other and beside the engine's.

use super::*;
use crate::store::{ENGINE, UpstreamRecord};
use std::collections::HashSet;

fn found_at(upstream: &str, number: usize) -> UpstreamRecord {
    let mut nodes: Vec<Value> = (0..200)
        .map(|n| json!({"id": format!("n{n}"), "type": "tab", "label": "some text"}))
        .collect();
    nodes[number % 200]["label"] = json!(number);
    let text = Value::from(nodes).to_string();
    UpstreamRecord {
        revision: Revision {
            runtime: upstream.to_owned(),
            ..record(&number.to_string(), None).revision
        },
        flows: Arc::new(FlowSet::parse(text.as_bytes()).unwrap()),
        sent: HashSet::new(),
    }
}

#[test]
fn each_upstream_has_its_differences_and_the_engine_its_deployments() {
    let place = tempfile::tempdir().unwrap();
    let config = config::Storage {
        history: 50,
        ..config(&place)
    };
    let mut disk = Disk::open(&config).unwrap();
    disk.commit(&record("engine", Some("pw"))).unwrap();
    disk.sync_written();
    for number in 0..80 {
        if number == 45 {
            // What it has added itself it knows, the rest it reads.
            drop(disk);
            disk = Disk::open(&config).unwrap();
        }
        disk.keep_upstream(found_at("left", number)).unwrap();
        disk.keep_upstream(found_at("right", number + 1)).unwrap();
    }
    for (upstream, rev) in [("left", "rev-40"), ("right", "rev-46"), ("right", "rev-47")] {
        let entry = disk.database.entry(upstream, rev).unwrap().unwrap();
        let number: usize = rev[4..].parse().unwrap();
        let flows = disk.database.files(entry.number).unwrap().flows.unwrap();
        let expected = found_at(upstream, number).flows.to_json();
        assert_eq!(String::from_utf8(flows).unwrap(), expected);
        assert_eq!(entry.parent, Some(format!("rev-{}", number - 1)));
        assert_eq!(entry.counts.unwrap().changed, 2);
    }
    assert!(disk.database.entry("left", "rev-28").unwrap().is_none());
    assert!(disk.database.entry("left", "rev-80").unwrap().is_none());
    let rows = rusqlite::Connection::open(place.path().join("flowgate.db")).unwrap();
    let count = |sql: &str| rows.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let whole = count("SELECT count(*) FROM deployments WHERE base IS NULL AND runtime = 'left'");
    assert!((2..=3).contains(&whole), "{whole} whole flow sets");
    drop(disk);
    let mut disk = Disk::open(&config).unwrap();
    let loaded = disk.load().unwrap();
    assert_eq!(loaded.rev.as_deref(), Some("rev-engine"));
    assert_eq!(seen(&loaded).1.as_deref(), Some("pw"));
    let newest = disk.database.newest(ENGINE).unwrap().unwrap();
    assert_eq!(newest.rev, "rev-engine");
}
