//! Packages that many flows use do the same here as on a real Node-RED: the cases of
//! `tests/node_host/cases.json`.

use super::Hosted;
use super::dashboards::install;
use crate::golden;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Packages that other tests use, in a browser.
const DASHBOARDS: &[&str] = &["@flowfuse/node-red-dashboard", "node-red-dashboard"];
/// Packages whose main job needs a service for which there is no double: that they load is all that
/// is tried.
const LOADED: &[&str] = &["node-red-contrib-home-assistant-websocket"];

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/node_host")
}

fn read(file: &str) -> Json {
    serde_json::from_slice(&fs::read(directory().join(file)).unwrap()).unwrap()
}

/// The packages of `tests/node_host/package.json`.
fn packages() -> Vec<String> {
    let dependencies = read("package.json")["devDependencies"].clone();
    dependencies.as_object().unwrap().keys().cloned().collect()
}

#[tokio::test]
async fn packages_that_many_flows_use_do_what_they_do_on_node_red() {
    let packages = packages();
    let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
    let hosted = Hosted::prepared("", |user| install(user, &packages)).await;
    let sets = hosted.get("/nodes").token(&hosted.token);
    let sets = sets.header("Accept", "application/json").send().await;
    let sets = sets.json();
    for package in packages {
        let mut of_package = sets
            .as_array()
            .unwrap()
            .iter()
            .filter(|set| set["module"] == package)
            .peekable();
        assert!(of_package.peek().is_some(), "{package} has no node sets");
        for set in of_package {
            assert!(set["err"].is_null() && set["enabled"] == true, "{set}");
        }
    }
    let cases = directory().join("cases.json");
    golden::play(&hosted, hosted.token.clone(), &cases).await;
}

#[test]
fn every_package_is_tried() {
    let cases = read("cases.json");
    let mut tried: BTreeSet<String> = cases
        .as_object()
        .unwrap()
        .keys()
        .map(|title| title.split(':').next().unwrap().to_owned())
        .collect();
    tried.extend(DASHBOARDS.iter().chain(LOADED).map(ToString::to_string));
    assert_eq!(tried, packages().into_iter().collect());
}
