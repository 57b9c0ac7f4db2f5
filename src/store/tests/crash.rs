//! A crash, or a full disk, at every step of a deployment.

use super::*;

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
fn a_crash_at_any_step_leaves_the_complete_old_or_new_state() {
    for start in starting_points() {
        let old = seen(&reopened(&start));
        let new = ("new".to_owned(), Some("three".to_owned()));
        let mut outcomes = Vec::new();
        for steps in 0.. {
            let place = copy_of(&start);
            let mut disk = Disk::open(&config(&place)).unwrap();
            failpoint::plan(Some((steps, InjectedFault::Crash)));
            let crashed = catch_unwind(AssertUnwindSafe(|| {
                disk.commit(&record("new", Some("three")))
            }));
            failpoint::plan(None);
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
            outcomes.iter().filter(|new| **new).count() >= 3,
            "{outcomes:?}"
        );
    }
}

#[test]
fn a_crash_during_the_recovery_of_a_deployment_is_recovered_again() {
    let start = tempfile::tempdir().unwrap();
    let mut disk = Disk::open(&config(&start)).unwrap();
    disk.commit(&record("old", Some("one"))).unwrap();
    crash_after_row(&mut disk, &record("new", Some("two")));
    drop(disk);
    for steps in 0.. {
        let place = copy_of(&start);
        failpoint::plan(Some((steps, InjectedFault::Crash)));
        let opened = catch_unwind(|| Disk::open(&config(&place)).map(drop));
        failpoint::plan(None);
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

/// Crashes at the first step after which the history has the row and the files are still the old
/// ones.
fn crash_after_row(disk: &mut Disk, record: &Record) {
    for steps in 0.. {
        failpoint::plan(Some((steps, InjectedFault::Crash)));
        let _ = catch_unwind(AssertUnwindSafe(|| disk.commit(record)));
        failpoint::plan(None);
        if disk.database.newest_deployment().unwrap().unwrap().rev == record.revision.rev {
            return;
        }
    }
}

#[test]
fn a_disk_failure_at_any_step_leaves_only_the_old_state() {
    for start in starting_points() {
        let old = seen(&reopened(&start));
        let (mut refused, mut steps) = (0, 0);
        loop {
            let place = copy_of(&start);
            let mut disk = Disk::open(&config(&place)).unwrap();
            let flows = fs::read(place.path().join("flows.json")).ok();
            let revisions = disk.database.history().unwrap();
            failpoint::plan(Some((steps, InjectedFault::Full)));
            let outcome = disk.commit(&record("new", Some("three")));
            failpoint::plan(None);
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
                if steps > 60 {
                    break;
                }
            }
            steps += 1;
        }
        assert!(refused >= 6, "{refused}");
    }
}

/// Calls that change something on disk, by the names of the standard library and of `SQLite`.
const CHANGES: &[&str] = &[
    "fs::write",
    "fs::rename",
    "fs::copy",
    "fs::hard_link",
    "fs::remove",
    "fs::create",
    "set_permissions",
    "OpenOptions",
    "DirBuilder",
    "File::create",
    "write_all",
    "sync_all",
    "sync_data",
    ".commit()?",
];

#[test]
fn every_change_on_disk_is_a_step() {
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/store")).unwrap() {
        let path = entry.unwrap().path();
        let path = if path.is_dir() {
            path.join("mod.rs")
        } else {
            path
        };
        if path.ends_with("failpoint.rs") || path.ends_with("tests/mod.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("\nmod tests {").next().unwrap();
        for change in CHANGES {
            // The database's `commit` has the only one, behind its step.
            let allowed = usize::from(*change == ".commit()?" && path.ends_with("database/mod.rs"));
            assert!(
                code.matches(change).count() <= allowed,
                "{change} in {} is no step",
                path.display()
            );
        }
    }
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

#[test]
fn a_deployment_that_is_not_permitted_leaves_only_the_old_state() {
    for start in starting_points() {
        let old = seen(&reopened(&start));
        let mut disk = Disk::open(&config(&start)).unwrap();
        let flows = fs::read(start.path().join("flows.json")).ok();
        let revisions = disk.database.history().unwrap();
        let new = record("new", Some("three"));
        assert!(!disk.commit_if(&new, || false).unwrap());
        assert_eq!(fs::read(start.path().join("flows.json")).ok(), flows);
        assert_eq!(disk.database.history().unwrap(), revisions);
        assert_eq!(names(&start, ".new"), [""; 0]);
        drop(disk);
        assert_eq!(seen(&reopened(&start)), old);
    }
}

#[test]
fn a_deployment_that_a_start_has_to_finish_is_reported_once() {
    let place = tempfile::tempdir().unwrap();
    let mut disk = Disk::open(&config(&place)).unwrap();
    disk.commit(&record("old", None)).unwrap();
    disk.sync_written();
    crash_after_row(&mut disk, &record("new", None));
    drop(disk);
    let finished = || Disk::open(&config(&place)).unwrap().finished;
    assert_eq!(finished().as_deref(), Some("rev-new"));
    assert_eq!(finished(), None);
}
