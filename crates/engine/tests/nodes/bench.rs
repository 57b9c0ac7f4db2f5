//! [`Bench`]: a real engine with the node under test between an inject node and debug nodes.
//! [`Bench::next`] and its like wait for messages, errors and statuses.

use engine::Engine;
use engine::metrics::{Metrics, Uncounted};
use engine::settings::Settings;
use events::{Event, Limits, Listener};
use flows::{DeploymentType, FlowSet, Submission, diff, plan};
use serde_json::{Value as Json, json};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// After this an expected event counts as missing; long, because machines that run tests are busy.
const EVENT_TIMEOUT: Duration = Duration::from_mins(1);

/// An engine, its flows and its events.
pub(crate) struct Bench {
    pub(crate) engine: Engine,
    flows: Arc<FlowSet>,
    events: Listener,
    /// The nodes that have a status.
    with_status: HashSet<String>,
}

impl Bench {
    /// An engine that runs these elements.
    pub(crate) async fn with(flows: &Json) -> Self {
        Self::set(flows, |_| {}).await
    }

    /// The same, with other settings of the engine.
    pub(crate) async fn set(flows: &Json, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::default();
        change(&mut settings);
        Self::start(flows, settings, Arc::new(Uncounted)).await
    }

    /// The same, with counts.
    pub(crate) async fn start(flows: &Json, settings: Settings, metrics: Arc<dyn Metrics>) -> Self {
        let engine = Engine::start(settings, metrics).unwrap();
        let events = engine.events().listen(Limits::NONE);
        let mut bench = Self {
            engine,
            flows: Arc::default(),
            events,
            with_status: HashSet::new(),
        };
        bench.deploy(flows, DeploymentType::Full).await;
        bench
    }

    /// Deploys another flow set.
    pub(crate) async fn deploy(&mut self, flows: &Json, kind: DeploymentType) {
        let submission = Submission::v1(&FlowSet::default(), flows.to_string().as_bytes()).unwrap();
        let credentials = Arc::new(submission.credentials.clone());
        let new = Arc::new(submission.flows);
        let difference = diff(&self.flows, &new, &HashSet::new());
        let plan = plan(&self.flows, &new, &difference, kind);
        let applied = self.engine.apply(plan, Arc::clone(&new), credentials);
        tokio::time::timeout(EVENT_TIMEOUT, applied)
            .await
            .expect("the engine takes a deployment while messages circle")
            .unwrap();
        self.flows = new;
    }

    /// Triggers an inject node.
    pub(crate) async fn inject(&self, id: &str) {
        self.engine.inject(id, None).await.unwrap();
    }

    /// The next event for which `pick` returns a value. The clearing of a status that was not set,
    /// as debug nodes do it at their start, is skipped.
    pub(crate) async fn next<T>(&mut self, mut pick: impl FnMut(&Event) -> Option<T>) -> T {
        let found = async {
            loop {
                self.events.news().await;
                let mut events = self.events.drain(1).events;
                events.retain(|event| match event {
                    Event::Status { id, status: None } => self.with_status.remove(id.as_str()),
                    Event::Status { id, .. } => {
                        self.with_status.insert(id.to_string());
                        true
                    }
                    _ => true,
                });
                if let Some(found) = events.iter().find_map(&mut pick) {
                    return found;
                }
            }
        };
        tokio::time::timeout(EVENT_TIMEOUT, found)
            .await
            .expect("the expected event is missing")
    }

    /// The next message at a debug node that shows whole messages: the node's id and the message.
    pub(crate) async fn output(&mut self) -> (String, Json) {
        self.next(|event| match event {
            Event::Debug(data) if data["format"] == "Object" => {
                let message = serde_json::from_str(data["msg"].as_str().unwrap()).unwrap();
                Some((data["id"].as_str().unwrap().to_owned(), message))
            }
            _ => None,
        })
        .await
    }

    /// The next warning or error in the debug sidebar: the node's id and the text, that of an Error
    /// object as `name: message`.
    pub(crate) async fn error(&mut self) -> (String, String) {
        self.next(|event| match event {
            Event::Debug(data) if data.get("level").is_some() => {
                Some((data["id"].as_str().unwrap().to_owned(), error_text(data)))
            }
            _ => None,
        })
        .await
    }

    /// The next status: the node's id and the status, `null` when cleared.
    pub(crate) async fn status(&mut self) -> (String, Json) {
        self.next(|event| match event {
            Event::Status { id, status } => {
                Some((id.to_string(), status.clone().unwrap_or(Json::Null)))
            }
            _ => None,
        })
        .await
    }
}

fn error_text(data: &Json) -> String {
    let text = data["msg"].as_str().unwrap();
    if data["format"] != "error" {
        return text.to_owned();
    }
    let error: Json = serde_json::from_str(text).unwrap();
    let part = |name: &str| error["data"][name].as_str().unwrap().to_owned();
    format!("{}: {}", part("name"), part("message"))
}

/// An inject node that sends these properties to these nodes.
pub(crate) fn inject(id: &str, message: &Json, to: &[&str]) -> Json {
    let props: Vec<Json> = message
        .as_object()
        .unwrap()
        .iter()
        .map(|(p, v)| match v {
            Json::String(text) => json!({ "p": p, "v": text, "vt": "str" }),
            other => json!({ "p": p, "v": other.to_string(), "vt": "json" }),
        })
        .collect();
    json!({ "id": id, "type": "inject", "z": "t", "x": 1, "y": 1, "props": props, "wires": [to] })
}

/// A debug node that shows whole messages.
pub(crate) fn debug(id: &str) -> Json {
    json!({ "id": id, "type": "debug", "z": "t", "x": 1, "y": 1, "active": true, "tosidebar": true,
            "complete": "true", "targetType": "full", "wires": [] })
}

/// A tab with one node under test (`node` without id, z and wires), fed by `in`, with a debug node
/// `out0`, `out1` … at each output, and what a marker needs that passes when all else has passed.
pub(crate) fn around(node: &Json, message: &Json, outputs: usize) -> Json {
    let mut node = node.clone();
    let names: Vec<String> = (0..outputs).map(|n| format!("out{n}")).collect();
    node["id"] = json!("node");
    node["z"] = json!("t");
    node["x"] = json!(1);
    node["y"] = json!(1);
    node["wires"] = names.iter().map(|n| json!([n])).collect();
    let mut flow = vec![
        json!({ "id": "t", "type": "tab", "label": "T" }),
        node,
        inject("in", message, &["node"]),
    ];
    flow.extend(names.iter().map(|n| debug(n)));
    flow.push(inject("mark", &json!({ "mark": true }), &["j0"]));
    for n in 0..8 {
        let to = if n == 7 {
            "marked".to_owned()
        } else {
            format!("j{}", n + 1)
        };
        flow.push(json!({ "id": format!("j{n}"), "type": "junction", "z": "t", "x": 1, "y": 1, "wires": [[to]] }));
    }
    flow.push(debug("marked"));
    Json::Array(flow)
}

/// Sends one message through a node and gives what came out: `(output, message without _msgid)`, in
/// order.
pub(crate) async fn through(node: &Json, message: &Json, outputs: usize) -> Vec<(usize, Json)> {
    let mut bench = Bench::with(&around(node, message, outputs)).await;
    bench.inject("in").await;
    bench.inject("mark").await;
    let mut came = Vec::new();
    loop {
        let (id, mut message) = bench.output().await;
        if id == "marked" {
            return came;
        }
        message.as_object_mut().unwrap().remove("_msgid");
        came.push((id.trim_start_matches("out").parse().unwrap(), message));
    }
}

/// The payloads that come out of output 0 of a node.
pub(crate) async fn payloads(node: &Json, message: &Json) -> Vec<Json> {
    let came = through(node, message, 1).await;
    came.into_iter()
        .map(|(_, mut message)| message["payload"].take())
        .collect()
}
