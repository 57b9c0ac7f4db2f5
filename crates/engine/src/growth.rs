//! Work that grows with flows, messages or connections, at two sizes, the larger one four times the
//! smaller. `tests/instructions` counts the instructions between [`start_counting`] and
//! [`stop_counting`] and compares the two.

use crate::Engine;
use crate::context::Contexts;
use crate::foreign_nodes;
use crate::instance::Instance;
use crate::listeners::Listeners;
use crate::metrics::Uncounted;
use crate::node_info::{Container, NodeInfo};
use crate::settings::Settings;
use crate::state::EngineState;
use events::{Event, Limits};
use flows::{DeploymentType, FlowSet, Submission, diff, plan};
use serde_json::{Value as Json, json};
use std::collections::HashSet;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::task::LocalSet;

/// A case: its name, its smaller size, and the function that does it between `start_counting` and
/// `stop_counting`.
type Case = (&'static str, usize, fn(usize));

const CASES: &[Case] = &[
    ("endpoints", 250, |n| deployment(&endpoints(n))),
    ("websocket-listeners", 250, |n| deployment(&listeners(n))),
    ("links", 500, |n| deployment(&links(n))),
    ("subflow-outputs", 250, |n| deployment(&outputs(n))),
    ("nested-groups", 100, |n| deployment(&nested_groups(n))),
    ("mqtt-subscriptions", 250, |n| deployment(&subscriptions(n))),
    ("subflow-edit", 250, |n| {
        subflow_edit(n, DeploymentType::Nodes);
    }),
    ("subflow-edit-full", 250, |n| {
        subflow_edit(n, DeploymentType::Full);
    }),
    ("tasks", 2000, tasks),
    ("catch-nodes", 500, catch_nodes),
    ("link-call-timeouts", 1000, timeouts),
    ("debug-flood", 2000, debug_flood),
    ("flow-set-of-the-node-host", 250, host_flow_set),
];

#[test]
#[ignore = "tests/instructions runs it"]
fn work_grows_with_its_size() {
    // The cryptographic library starts, which takes more instructions than a case.
    let _: [u8; 8] = crypto::random();
    for (name, size, run) in CASES {
        for size in [*size, 4 * size] {
            println!("{name} {size}");
            run(size);
        }
    }
}

/// The counted work begins.
#[inline(never)]
fn start_counting() {
    // Another body than that of `stop_counting`: a linker may fold equal ones.
    std::hint::black_box("begin");
}

/// The counted work ends.
#[inline(never)]
fn stop_counting() {
    std::hint::black_box("end");
}

fn runtime() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

/// The first deployment of these elements.
fn deployment(elements: &Json) {
    let text = elements.to_string();
    runtime().block_on(async {
        let engine = Engine::start(Settings::default(), Arc::new(Uncounted)).unwrap();
        start_counting();
        deploy(&engine, &FlowSet::default(), &text, DeploymentType::Nodes).await;
        stop_counting();
        engine.close().await;
    });
}

async fn deploy(engine: &Engine, old: &FlowSet, text: &str, kind: DeploymentType) -> Arc<FlowSet> {
    let submission = Submission::v1(old, text.as_bytes()).unwrap();
    let (new, credentials) = (Arc::new(submission.flows), submission.credentials);
    let difference = diff(old, &new, &HashSet::new());
    let plan = plan(old, &new, &difference, kind);
    let applied = engine.apply(plan, Arc::clone(&new), Arc::new(credentials));
    applied.await.unwrap();
    new
}

/// A tab with these nodes.
fn tab(nodes: impl IntoIterator<Item = Json>) -> Json {
    let mut elements = vec![json!({ "id": "t", "type": "tab" })];
    elements.extend(nodes.into_iter().map(|mut node| {
        node["z"] = "t".into();
        node["x"] = 1.into();
        node["y"] = 1.into();
        node
    }));
    Json::Array(elements)
}

fn endpoints(n: usize) -> Json {
    let url = |n| format!("/e/{n}");
    tab((0..n).map(|n| json!({ "id": url(n), "type": "http in", "method": "get", "url": url(n), "wires": [[]] })))
}

fn listeners(n: usize) -> Json {
    let path = |n| format!("/ws/{n}");
    (0..n)
        .map(|n| json!({ "id": path(n), "type": "websocket-listener", "path": path(n) }))
        .collect()
}

/// A link out node, and the link in nodes that name it.
fn links(n: usize) -> Json {
    let out = json!({ "id": "out", "type": "link out", "mode": "link", "links": [], "wires": [] });
    let into =
        |n| json!({ "id": format!("in{n}"), "type": "link in", "links": ["out"], "wires": [[]] });
    tab(std::iter::once(out).chain((0..n).map(into)))
}

/// An instance of a subflow whose nodes have an output each.
fn outputs(n: usize) -> Json {
    let id = |n| format!("c{n}");
    let port = |n| json!({ "wires": [{ "id": id(n), "port": 0 }] });
    let ports: Vec<Json> = (0..n).map(port).collect();
    let mut elements = tab([json!({ "id": "i", "type": "subflow:s", "wires": [] })]);
    let list = elements.as_array_mut().unwrap();
    list.push(json!({ "id": "s", "type": "subflow", "in": [], "out": ports }));
    list.extend((0..n).map(
        |n| json!({ "id": id(n), "type": "junction", "z": "s", "x": 1, "y": 1, "wires": [[]] }),
    ));
    elements
}

/// Groups in groups, with a node in each.
fn nested_groups(n: usize) -> Json {
    let group = |n| format!("g{n}");
    let groups = (0..n).map(|n| json!({ "id": group(n), "type": "group", "g": group(n + 1) }));
    let nodes = (0..n).map(
        |n| json!({ "id": format!("n{n}"), "type": "junction", "g": group(n), "wires": [[]] }),
    );
    tab(groups.chain(nodes))
}

fn subscriptions(n: usize) -> Json {
    let broker = json!({ "id": "b", "type": "mqtt-broker", "broker": "localhost", "port": "1", "autoConnect": false });
    let topic = |n| format!("topic/{n}");
    let node = |n| json!({ "id": topic(n), "type": "mqtt in", "topic": topic(n), "qos": "0", "broker": "b", "wires": [[]] });
    let mut elements = tab((0..n).map(node));
    elements.as_array_mut().unwrap().push(broker);
    elements
}

/// A deployment after an edit inside a subflow with many instances.
fn subflow_edit(instances: usize, kind: DeploymentType) {
    let elements = |edit: &str| {
        let instance = |n| json!({ "id": format!("i{n}"), "type": "subflow:s", "wires": [[]] });
        let mut elements = tab((0..instances).map(instance));
        elements.as_array_mut().unwrap().extend([
            json!({ "id": "s", "type": "subflow", "in": [{ "wires": [{ "id": "c" }] }], "out": [] }),
            json!({ "id": "c", "type": "comment", "z": "s", "x": 1, "y": 1, "info": edit, "wires": [] }),
        ]);
        elements.to_string()
    };
    runtime().block_on(async {
        let engine = Engine::start(Settings::default(), Arc::new(Uncounted)).unwrap();
        let old = deploy(&engine, &FlowSet::default(), &elements("a"), kind).await;
        start_counting();
        deploy(&engine, &old, &elements("b"), kind).await;
        stop_counting();
        engine.close().await;
    });
}

fn state() -> EngineState {
    let (node_events, _) = mpsc::unbounded_channel();
    let engine = Engine::start(Settings::default(), Arc::new(Uncounted)).unwrap();
    EngineState::new(
        Settings::default(),
        &engine.0,
        0,
        Contexts::default(),
        node_events,
        Arc::new(Uncounted),
    )
}

/// Tasks of one node that wait, all at the same time.
fn tasks(n: usize) {
    let node = Instance { slot: 0, epoch: 0 };
    let mut state = state();
    LocalSet::new().block_on(&runtime(), async {
        start_counting();
        for _ in 0..n {
            state.spawn(node, std::future::pending());
        }
        state.abort_tasks(node);
        tokio::task::yield_now().await;
        stop_counting();
    });
}

/// Catch nodes of a flow, each for one node, and an error of each of those.
fn catch_nodes(n: usize) {
    let info = |id: String, kind: &str| {
        NodeInfo::of(
            &id,
            kind,
            Container {
                z: "t".into(),
                path: "t".into(),
                ..Container::default()
            },
        )
    };
    start_counting();
    let mut listeners = Listeners::default();
    for (n, slot) in (0..n).zip(0..) {
        let scope = json!({ "scope": [format!("n{n}")] }).to_string();
        listeners.add(
            &info(format!("c{n}"), "catch"),
            slot,
            &scope,
            &HashSet::default(),
        );
    }
    let flow = listeners.flow("t").unwrap();
    for n in 0..n {
        let catching = flow.catching(&info(format!("n{n}"), "change"));
        assert_eq!(catching, [u32::try_from(n).unwrap()]);
    }
    stop_counting();
}

/// Calls of a link call node that all end by their time limit.
fn timeouts(n: usize) {
    let numbers = (0..n).collect::<Json>().to_string();
    let elements = tab([
        json!({ "id": "go", "type": "inject", "wires": [["split"]], "props": [{ "p": "payload", "v": numbers, "vt": "json" }] }),
        json!({ "id": "split", "type": "split", "arraySplt": 1, "arraySpltType": "len", "wires": [["call"]] }),
        json!({ "id": "call", "type": "link call", "linkType": "static", "links": ["in"], "timeout": "0.001", "wires": [[]] }),
        json!({ "id": "in", "type": "link in", "links": [], "wires": [[]] }),
    ]);
    runtime().block_on(async {
        let engine = Engine::start(Settings::default(), Arc::new(Uncounted)).unwrap();
        let events = engine.events().listen(Limits::NONE);
        deploy(
            &engine,
            &FlowSet::default(),
            &elements.to_string(),
            DeploymentType::Nodes,
        )
        .await;
        start_counting();
        engine.inject("go", None).await.unwrap();
        let mut timeouts = 0;
        while timeouts < n {
            events.news().await;
            let batch = events.drain(usize::MAX).events.into_iter();
            timeouts += batch.filter(|e| matches!(e, Event::Debug(_))).count();
        }
        stop_counting();
        engine.close().await;
    });
}

/// Debug messages and status of many nodes for a listener that takes them slowly.
fn debug_flood(n: usize) {
    let events = events::Events::default();
    let limits = Limits {
        bytes: 1 << 20,
        events: n / 10,
    };
    let listener = events.listen(limits);
    start_counting();
    for n in 0..n {
        events.publish(Event::Debug(json!({ "msg": "x" })));
        let id = format!("{n}").into();
        events.publish(Event::Status { id, status: None });
        if n % 10 == 0 {
            listener.drain(5);
        }
    }
    while !listener.drain(50).events.is_empty() {}
    stop_counting();
}

/// What the node host gets of foreign nodes that name brokers, which name others, and of subflows
/// that have one in them.
fn host_flow_set(n: usize) {
    let foreign =
        |n| json!({ "id": format!("f{n}"), "type": "foreign", "b": format!("b{n}"), "wires": [] });
    let native = |n| json!({ "id": format!("m{n}"), "type": "mqtt in", "broker": format!("b{n}"), "wires": [] });
    let mut elements = tab((0..n).flat_map(|n| [foreign(n), native(n)]));
    let list = elements.as_array_mut().unwrap();
    for n in 0..n {
        list.extend([
            json!({ "id": format!("b{n}"), "type": "mqtt-broker", "tls": format!("b{}", n + 1) }),
            json!({ "id": format!("s{n}"), "type": "subflow" }),
            json!({ "id": format!("i{n}"), "type": "subflow:s", "z": format!("s{n}"), "wires": [] }),
        ]);
    }
    list.extend([
        json!({ "id": "s", "type": "subflow" }),
        json!({ "id": "inside", "type": "foreign", "z": "s", "wires": [] }),
    ]);
    start_counting();
    let selected = foreign_nodes::selected(&elements, &[]);
    stop_counting();
    assert_eq!(selected.len(), 4 * n + 3);
}
