//! A power failure: all that was not forced to disk is lost, and an acknowledged deployment is not.

use super::*;

/// A directory with two deployments, of which only the first has its files on the disk.
fn acknowledged() -> (TempDir, String, String) {
    let place = tempfile::tempdir().unwrap();
    let mut disk = Disk::open(&config(&place)).unwrap();
    disk.commit(&record("old", Some("one"))).unwrap();
    disk.sync_written();
    let files = (read(&place, "flows.json"), read(&place, "flows_cred.json"));
    disk.commit(&record("new", Some("two"))).unwrap();
    (place, files.0, files.1)
}

fn is_new(place: &TempDir) {
    let loaded = reopened(place);
    assert_eq!(seen(&loaded), ("new".into(), Some("two".into())));
    assert_eq!(loaded.rev.as_deref(), Some("rev-new"));
    assert_eq!(read(place, "flows.json"), flows("new").to_string());
    assert_eq!(names(place, ".new"), [""; 0]);
}

#[test]
fn files_that_are_the_old_ones_again_are_brought_forward() {
    for files in [
        &["flows.json"][..],
        &["flows_cred.json"],
        &["flows.json", "flows_cred.json"],
    ] {
        let (place, flows, credentials) = acknowledged();
        for file in files {
            let old = if *file == "flows.json" {
                &flows
            } else {
                &credentials
            };
            write(&place, file, old);
        }
        is_new(&place);
        is_new(&place);
    }
}

#[test]
fn the_files_before_several_deployments_are_brought_forward() {
    let place = tempfile::tempdir().unwrap();
    let mut disk = Disk::open(&config(&place)).unwrap();
    disk.commit(&record("old", Some("two"))).unwrap();
    disk.sync_written();
    let before = read(&place, "flows.json");
    // More than the history keeps.
    for label in ["one", "two", "three", "four", "five", "new"] {
        disk.commit(&record(label, Some("two"))).unwrap();
    }
    drop(disk);
    write(&place, "flows.json", &before);
    is_new(&place);
}

#[test]
fn torn_or_missing_files_are_made_again_and_what_is_left_of_them_is_kept() {
    let whole = flows("new").to_string();
    let zeros = "\0".repeat(whole.len());
    for torn in [
        &whole[..whole.len() / 2],
        &whole[..whole.len() - 1],
        &zeros,
        "",
    ] {
        for name in ["flows.json", "flows_cred.json"] {
            let (place, _, _) = acknowledged();
            write(&place, name, torn);
            is_new(&place);
            let kept = names(&place, "broken");
            assert_eq!(kept.len(), usize::from(!torn.is_empty()), "{kept:?}");
            assert_ne!(
                read(&place, ".flows.json.backup"),
                torn,
                "no backup is torn"
            );
        }
    }
    let (place, _, _) = acknowledged();
    fs::remove_file(place.path().join("flows.json")).unwrap();
    fs::remove_file(place.path().join("flows_cred.json")).unwrap();
    is_new(&place);
}

#[test]
fn the_files_of_the_first_deployment_are_made_again_too() {
    let node_red = tempfile::tempdir().unwrap();
    let old = format!("{:#}", flows("from Node-RED"));
    write(&node_red, "flows.json", &old);
    let empty = tempfile::tempdir().unwrap();
    for place in [node_red, empty] {
        let old = fs::read(place.path().join("flows.json")).ok();
        let mut disk = Disk::open(&config(&place)).unwrap();
        disk.commit(&record("new", Some("two"))).unwrap();
        drop(disk);
        match old {
            Some(old) => fs::write(place.path().join("flows.json"), old).unwrap(),
            None => fs::remove_file(place.path().join("flows.json")).unwrap(),
        }
        is_new(&place);
    }
}

#[test]
fn files_that_another_program_has_written_since_are_an_edit() {
    let (place, _, _) = acknowledged();
    write(&place, "flows.json", &flows("edited").to_string());
    let loaded = reopened(&place);
    assert_eq!((seen(&loaded).0.as_str(), loaded.rev), ("edited", None));
}

#[tokio::test]
async fn files_are_forced_to_disk_within_a_second_and_then_broken_ones_are_left_alone() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::open(&config(&place)).unwrap();
    store.commit(record("new", None)).await.unwrap();
    let is_written = async || {
        let ask = |disk: &mut Disk| Ok(!disk.database.newest_deployment()?.unwrap().pending);
        store.owner.ask(ask).await.unwrap()
    };
    assert!(!is_written().await);
    while !is_written().await {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    write(&place, "flows.json", "[{");
    drop(store);
    assert!(Disk::open(&config(&place)).unwrap().load().is_err());
    assert_eq!(read(&place, "flows.json"), "[{");
}
