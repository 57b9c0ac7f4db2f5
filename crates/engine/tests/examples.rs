//! Tests with real input: the example flows of Node-RED's nodes. All parse and deploy; those whose
//! nodes the engine has run and show the results in `data/examples.json`, which were written down
//! from their comment nodes.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "tests")]

#[allow(dead_code, reason = "the other half of the bench is for single nodes")]
#[path = "nodes/bench.rs"]
mod bench;

use bench::Bench;
use bytes::Bytes;
use engine::http::Request;
use engine::{Engine, nodes};
use events::Event;
use flows::{FlowSet, Submission};
use serde::Deserialize;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use tokio::sync::Mutex;

/// Files in all, and how many of them ran when this was written: more nodes may only make it more.
const FILES: usize = 113;
const RUNNABLE: usize = 51;

/// The examples listen on fixed ports: they are deployed by one test at a time.
static PORTS: Mutex<()> = Mutex::const_new(());

/// The expected behaviour of one example.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Example {
    /// In words.
    shows: String,
    /// Properties that the test changes, so that it need not wait: node → property → value.
    #[serde(default)]
    edit: BTreeMap<String, BTreeMap<String, Json>>,
    /// It never falls silent.
    #[serde(default)]
    goes_on: bool,
    steps: Vec<Step>,
}

/// An action, or an expected event. Nodes are named by id.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Step {
    /// Presses the button of an inject node.
    Inject(String),
    /// Calls an endpoint.
    Call(Call, Answer),
    /// A debug node shows a value; see [`fits`].
    Debug(String, Json),
    /// A node has a status; `null`: none any more.
    Status(String, Json),
    /// A node logs a warning or an error that has this text in it.
    Log(String, String),
}

#[derive(Deserialize)]
struct Call {
    method: String,
    url: String,
    #[serde(default)]
    headers: HashMap<String, String>,
    #[serde(default)]
    body: String,
}

/// An answer with this status, and these texts in its headers and body.
#[derive(Deserialize)]
struct Answer {
    status: u16,
    #[serde(default)]
    headers: HashMap<String, String>,
    #[serde(default)]
    body: String,
}

/// An observed event of a flow.
#[derive(Debug)]
enum Seen {
    Debug(String, Json),
    Status(String, Json),
    Log(String, String),
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// The examples by name, as they are.
fn files() -> BTreeMap<String, Json> {
    let entries = std::fs::read_dir(data().join("examples")).unwrap();
    entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "json"))
        .map(|path| {
            let text = std::fs::read(&path).unwrap();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, serde_json::from_slice(&text).unwrap())
        })
        .collect()
}

fn written_down() -> BTreeMap<String, Example> {
    serde_json::from_slice(&std::fs::read(data().join("examples.json")).unwrap()).unwrap()
}

/// Returns whether the engine has all the types of an example.
fn runnable(elements: &Json) -> bool {
    let mut kinds = elements.as_array().unwrap().iter().map(|e| &e["type"]);
    kinds.all(|kind| {
        let kind = kind.as_str().unwrap();
        matches!(kind, "tab" | "group") || nodes::knows(kind)
    })
}

/// The example as the editor imports it: the tabs that are not in the file exist already. An added
/// tab signals the end: its message takes more hops than any of theirs.
fn imported(elements: &Json) -> Json {
    let elements = elements.as_array().unwrap();
    let ids: HashSet<&str> = elements.iter().map(|e| e["id"].as_str().unwrap()).collect();
    let tabs: HashSet<&str> = elements.iter().filter_map(|e| e["z"].as_str()).collect();
    let missing = tabs
        .into_iter()
        .filter(|z| !z.is_empty() && !ids.contains(z));
    let mut all: Vec<Json> = missing
        .map(|id| json!({ "id": id, "type": "tab", "label": "Examples" }))
        .collect();
    all.extend(elements.iter().cloned());
    all.push(json!({ "id": "t", "type": "tab", "label": "End" }));
    all.push(bench::inject("end", &json!({}), &["hop0"]));
    for hop in 0..20 {
        let to = if hop == 19 {
            "ended".to_owned()
        } else {
            format!("hop{}", hop + 1)
        };
        all.push(
            json!({ "id": format!("hop{hop}"), "type": "junction", "z": "t", "wires": [[to]] }),
        );
    }
    all.push(bench::debug("ended"));
    Json::Array(all)
}

#[test]
fn every_example_parses_and_gives_back_equal_json() {
    let files = files();
    assert_eq!(files.len(), FILES);
    for (name, elements) in files {
        let submission =
            Submission::v1(&FlowSet::default(), elements.to_string().as_bytes()).unwrap();
        let back = serde_json::from_str::<Json>(&submission.flows.to_json()).unwrap();
        assert_eq!(back, elements, "{name}");
    }
}

#[tokio::test]
async fn every_example_deploys() {
    let _ports = PORTS.lock().await;
    for (name, elements) in files() {
        let bench = Bench::with(&imported(&elements)).await;
        let submission =
            Submission::v1(&FlowSet::default(), elements.to_string().as_bytes()).unwrap();
        let missing = Engine::missing_types(&submission.flows);
        assert_eq!(
            missing.is_empty(),
            runnable(&elements),
            "{name}: {missing:?}"
        );
        bench.engine.close().await;
    }
}

#[tokio::test]
async fn every_example_of_known_node_types_starts_without_errors() {
    let _ports = PORTS.lock().await;
    let files = files();
    let runnable = files.iter().filter(|(_, elements)| runnable(elements));
    let mut count = 0;
    for (name, elements) in runnable {
        let mut bench = Bench::with(&imported(elements)).await;
        bench.inject("end").await;
        let complaints = until_the_end(&mut bench).await;
        let complaints: Vec<_> = complaints
            .iter()
            .filter(|s| matches!(s, Seen::Log(..)) && !is_of_a_file(s))
            .collect();
        assert!(complaints.is_empty(), "{name}: {complaints:?}");
        bench.engine.close().await;
        count += 1;
    }
    assert!(count >= RUNNABLE, "{count} of {FILES}");
}

/// Says that the file is not there that the example watches.
fn is_of_a_file(seen: &Seen) -> bool {
    matches!(seen, Seen::Log(_, line) if line.contains("does not exist."))
}

#[tokio::test]
async fn the_examples_show_the_recorded_output() {
    let _ports = PORTS.lock().await;
    let files = files();
    let mut ran = 0;
    let mut wrong = Vec::new();
    for (name, example) in written_down() {
        let elements = &files[&name];
        if !runnable(elements) {
            continue;
        }
        ran += 1;
        if let Err(came) = run(&example, elements.clone()).await {
            wrong.push(format!(
                "{name} shows {}, but now came {came}",
                example.shows
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(ran >= RUNNABLE, "{ran} of {FILES}");
}

/// Takes the steps; the error is what came instead.
async fn run(example: &Example, mut elements: Json) -> Result<(), String> {
    for element in elements.as_array_mut().unwrap() {
        let id = element["id"].as_str().unwrap();
        for (property, value) in example.edit.get(id).into_iter().flatten() {
            element[property] = value.clone();
        }
    }
    let bench = &mut Bench::with(&imported(&elements)).await;
    for step in &example.steps {
        take(step, bench).await?;
    }
    if !example.goes_on {
        bench.inject("end").await;
        let more = until_the_end(bench).await;
        expect(more.is_empty(), &more)?;
    }
    bench.engine.close().await;
    Ok(())
}

fn expect(fulfilled: bool, came: &impl std::fmt::Debug) -> Result<(), String> {
    fulfilled.then_some(()).ok_or_else(|| format!("{came:?}"))
}

async fn take(step: &Step, bench: &mut Bench) -> Result<(), String> {
    match step {
        Step::Inject(id) => {
            bench.inject(id).await;
            Ok(())
        }
        Step::Call(request, answer) => call(request, answer, bench).await,
        Step::Debug(..) | Step::Status(..) | Step::Log(..) => {
            let seen = bench.next(seen).await;
            let as_expected = match (step, &seen) {
                (Step::Debug(id, value), Seen::Debug(node, shown))
                | (Step::Status(id, value), Seen::Status(node, shown)) => {
                    id == node && fits(value, shown)
                }
                (Step::Log(id, text), Seen::Log(node, line)) => id == node && line.contains(text),
                _ => false,
            };
            expect(as_expected, &seen)
        }
    }
}

async fn call(call: &Call, expected: &Answer, bench: &Bench) -> Result<(), String> {
    let method: hyper::Method = call.method.parse().unwrap();
    let endpoint = bench.engine.endpoint(&method, &call.url).unwrap();
    let request = Request {
        method,
        path: call.url.clone(),
        url: call.url.clone(),
        query: String::new(),
        params: endpoint.params.clone(),
        headers: (&call.headers).try_into().unwrap(),
        body: Bytes::from(call.body.clone()),
        address: std::net::Ipv4Addr::LOCALHOST.into(),
        secure: true,
        user: None,
    };
    let (answer, _) = bench
        .engine
        .call(endpoint, request, None)
        .await
        .unwrap()
        .unwrap();
    let in_header = |(name, text): (&String, &String)| {
        let value = answer.headers.get(name).and_then(|v| v.to_str().ok());
        value.is_some_and(|value| value.contains(text))
    };
    let as_expected = answer.status == expected.status
        && std::str::from_utf8(&answer.body)
            .unwrap()
            .contains(&expected.body)
        && expected.headers.iter().all(in_header);
    let came = (answer.status, &answer.headers, &answer.body);
    expect(as_expected, &came)
}

async fn until_the_end(bench: &mut Bench) -> Vec<Seen> {
    let mut before = Vec::new();
    loop {
        match bench.next(seen).await {
            Seen::Debug(id, _) if id == "ended" => return before,
            seen => before.push(seen),
        }
    }
}

fn seen(event: &Event) -> Option<Seen> {
    let text = |data: &Json, key: &str| data[key].as_str().unwrap().to_owned();
    match event {
        Event::Debug(data) if data.get("level").is_some() => {
            Some(Seen::Log(text(data, "id"), text(data, "msg")))
        }
        Event::Debug(data) => {
            let shown = value(
                data["format"].as_str().unwrap(),
                data["msg"].as_str().unwrap(),
            );
            Some(Seen::Debug(text(data, "id"), shown))
        }
        Event::Status { id, status } => {
            let status = status.clone().unwrap_or(Json::Null);
            Some(Seen::Status(id.to_string(), status))
        }
        Event::RuntimeState(_)
        | Event::StoppedFlows(_)
        | Event::RuntimeDeploy { .. }
        | Event::NodeSets { .. }
        | Event::Package { .. } => None,
    }
}

/// The value that a debug frame carries as text.
fn value(format: &str, text: &str) -> Json {
    match format.split('[').next().unwrap() {
        "number" | "boolean" | "Object" | "array" => serde_json::from_str(text).unwrap(),
        "null" | "undefined" => Json::Null,
        _ => text.into(),
    }
}

/// Returns whether a value matches the expected one: `<number>` and `<text>` stand for any,
/// `<$NAME>` for an environment variable; an object may have more properties.
fn fits(expected: &Json, value: &Json) -> bool {
    match expected {
        Json::String(text) if text == "<number>" => value.is_number(),
        Json::String(text) if text == "<text>" => value.is_string(),
        Json::String(text) if text.starts_with("<$") => {
            let name = text.trim_start_matches("<$").trim_end_matches('>');
            value.as_str() == Some(std::env::var(name).unwrap_or_default().as_str())
        }
        Json::Number(number) => number.as_f64() == value.as_f64(),
        Json::Object(properties) => {
            value.is_object()
                && properties
                    .iter()
                    .all(|(key, expected)| fits(expected, &value[key]))
        }
        Json::Array(elements) => value.as_array().is_some_and(|values| {
            values.len() == elements.len()
                && elements
                    .iter()
                    .zip(values)
                    .all(|(expected, value)| fits(expected, value))
        }),
        expected => expected == value,
    }
}
