//! The store over real directories: a crash at every step, a full disk, an edit from outside.
#![allow(clippy::unwrap_used, reason = "tests")]

mod crash;
mod engine_state;
mod history;
mod outside_edits;
mod persistence;
mod power_loss;
mod retention;
mod shared;
mod touched;
mod unreadable;
mod upstreams;

use super::disk::Disk;
use super::{Error, FailureRow, Loaded, Record, Revision, SessionRow, Store};
use crate::config;
use crate::store::failpoint::{self, InjectedFault};
use crypto::Secret;
use flows::{Credentials, FlowSet};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const NODE_RED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/node-red-4.1");

fn config(place: &TempDir) -> config::Storage {
    config::Storage {
        directory: place.path().to_owned(),
        history: 3,
        history_age: Duration::from_hours(24 * 365),
        history_bytes: 1 << 30,
        credential_secret: Some(Secret::new("secret".into())),
        shared: None,
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
        revision: Revision {
            rev: format!("rev-{label}"),
            user: "admin".into(),
            kind: "full".into(),
            at: 1_700_000_000,
            ..Revision::default()
        },
        flows: Arc::new(FlowSet::parse(flows(label).to_string().as_bytes()).unwrap()),
        credentials: Arc::new(Credentials {
            nodes: serde_json::from_value(nodes).unwrap(),
        }),
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
