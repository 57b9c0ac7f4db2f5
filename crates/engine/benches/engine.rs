//! Benchmarks of the engine: a hop of a message through a node, an expression, a copy, a
//! deployment.
//!
//! `cargo bench --package engine --bench engine` prints nanoseconds of CPU time for each, all
//! threads together, so that other work on the machine does not show.
//! `cargo bench --package engine --bench engine -- NAME TIMES` does one of them that often and
//! prints nothing: `tests/instructions` counts the instructions of that.

use engine::Engine;
use engine::metrics::Uncounted;
use engine::settings::Settings;
use events::{Event, Limits};
use flows::{DeploymentType, FlowSet, Submission, diff, plan};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value as Json, json};
use std::collections::HashSet;
use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use value::{Failure, Message, Path, Value, json};

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Outcome = Result<(), Box<dyn Error>>;

/// A benchmark: its name, its unit, and the function that runs it a number of times.
type Measure = (&'static str, &'static str, fn(u32) -> Outcome);

/// Nodes in a chain.
const CHAIN: u32 = 50;

/// Reads, changes and writes an object of 10,000 entries of the flow's context.
const STORED: &str = "
    const made = () => Object.fromEntries(Array.from({ length: 10000 }, (_, n) => ['k' + n, n]));
    const big = flow.get('big') ?? made();
    big.k5 = msg.seq;
    flow.set('big', big);
    return msg;";

/// Elements of the flow set that is parsed and compared.
const ELEMENTS: u32 = 1000;

/// The number of runs of each benchmark when all are run.
const TIMES: u32 = 200_000;

const MEASURES: &[Measure] = &[
    ("change", "hop", |times| hops(times, "change")),
    ("switch", "hop", |times| hops(times, "switch")),
    ("template", "hop", |times| hops(times, "template")),
    ("json", "hop", |times| hops(times, "json")),
    ("function", "hop", |times| hops(times, "function")),
    ("send", "hop", |times| hops(times, "send")),
    ("stored", "hop", |times| hops(times, "stored")),
    ("expression", "read", expressions),
    ("clone", "message", |times| {
        clones(times);
        Ok(())
    }),
    ("parse", "element", |times| deployments(times, parse)),
    ("diff", "element", |times| deployments(times, compare)),
    ("edit-nodes", "deployment", |times| {
        subflow_edits(times, DeploymentType::Nodes)
    }),
    ("edit-full", "deployment", |times| {
        subflow_edits(times, DeploymentType::Full)
    }),
];

/// Instances of the subflow that is edited.
const INSTANCES: usize = 250;

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1).filter(|a| a != "--bench");
    if let (Some(name), Some(times)) = (arguments.next(), arguments.next()) {
        let measure = MEASURES.iter().find(|measure| measure.0 == name);
        let (.., run) = measure.ok_or("there is no measure of that name")?;
        return run(times.parse()?);
    }
    for (name, per, run) in MEASURES {
        run(1000)?;
        let started = cpu();
        run(TIMES)?;
        let each = (cpu() - started) / f64::from(TIMES);
        println!("{name:12} {each:8.1} ns per {per}");
    }
    Ok(())
}

/// Nanoseconds that this process has used.
fn cpu() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 * 1e9 + used.tv_nsec as f64
}

/// Messages through a chain of nodes of one type, in a running engine.
fn hops(times: u32, kind: &str) -> Outcome {
    let messages = (times / CHAIN).max(1);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        // All messages of the array wait at first: on a slow machine for so long that the flow
        // would be stopped.
        let settings = Settings {
            queue_messages: u32::MAX as usize,
            queue_bytes: u32::MAX as usize,
            ..Settings::default()
        };
        let engine = Engine::start(settings, Arc::new(Uncounted))?;
        let events = engine.events().listen(Limits::NONE);
        let submission = Submission::v1(
            &FlowSet::default(),
            chain(kind, messages).to_string().as_bytes(),
        )?;
        let new = Arc::new(submission.flows);
        let old = FlowSet::default();
        let difference = diff(&old, &new, &HashSet::new());
        let plan = plan(&old, &new, &difference, DeploymentType::Full);
        let credentials = Arc::new(submission.credentials);
        engine.apply(plan, new, credentials).await?;
        engine.inject("in", None).await?;
        loop {
            events.news().await;
            let heard = events.drain(100).events;
            if heard.iter().any(|event| matches!(event, Event::Debug(_))) {
                break;
            }
        }
        engine.close().await;
        Ok(())
    })
}

/// Deployments after edits inside a subflow with many instances.
fn subflow_edits(times: u32, kind: DeploymentType) -> Outcome {
    let tab = |n: usize| format!("t{}", n / 50);
    let elements = |edit: u32| {
        let mut elements: Vec<Json> = (0..INSTANCES / 50)
            .map(|n| json!({ "id": tab(50 * n), "type": "tab" }))
            .collect();
        let rule = json!({ "t": "set", "p": "payload", "pt": "msg", "to": edit.to_string(), "tot": "num" });
        elements.extend([
            json!({ "id": "s", "type": "subflow", "in": [{ "wires": [{ "id": "c" }] }], "out": [{ "wires": [{ "id": "d", "port": 0 }] }] }),
            json!({ "id": "c", "type": "change", "z": "s", "x": 1, "y": 1, "rules": [rule], "wires": [["d"]] }),
            json!({ "id": "d", "type": "change", "z": "s", "x": 1, "y": 1, "rules": [], "wires": [[]] }),
        ]);
        let instance = |n: usize| json!({ "id": format!("i{n}"), "type": "subflow:s", "z": tab(n), "x": 1, "y": 1, "wires": [[]] });
        elements.extend((0..INSTANCES).map(instance));
        Json::Array(elements).to_string()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let engine = Engine::start(Settings::default(), Arc::new(Uncounted))?;
        let mut old = Arc::new(FlowSet::default());
        for edit in 0..times {
            let submission = Submission::v1(&old, elements(edit).as_bytes())?;
            let new = Arc::new(submission.flows);
            let difference = diff(&old, &new, &HashSet::new());
            let plan = plan(&old, &new, &difference, kind);
            let credentials = Arc::new(submission.credentials);
            engine.apply(plan, Arc::clone(&new), credentials).await?;
            old = new;
        }
        engine.close().await;
        Ok(())
    })
}

/// An inject node's array, split into messages, through the chain; the last one is shown.
fn chain(kind: &str, messages: u32) -> Json {
    let numbers = (0..messages).collect::<Json>().to_string();
    let text =
        r#"{"id":7,"name":"sensor-7","t":21.5,"tags":["a","b","c"],"pos":{"x":1,"y":2,"z":3}}"#;
    let mut nodes = vec![
        json!({ "id": "t", "type": "tab" }),
        json!({ "id": "in", "type": "inject", "wires": [["split"]], "props": [
            { "p": "payload", "v": numbers, "vt": "json" }, { "p": "topic", "v": "sensors/kitchen", "vt": "str" } ] }),
        json!({ "id": "split", "type": "split", "wires": [["text"]], "arraySplt": 1, "arraySpltType": "len" }),
        json!({ "id": "text", "type": "change", "wires": [["0"]], "rules": [
            { "t": "set", "p": "seq", "pt": "msg", "to": "payload", "tot": "msg" },
            { "t": "set", "p": "payload", "pt": "msg", "to": text, "tot": "str" } ] }),
        json!({ "id": "last", "type": "switch", "property": "seq", "wires": [["out"]],
            "rules": [{ "t": "eq", "v": (messages - 1).to_string(), "vt": "num" }] }),
        json!({ "id": "out", "type": "debug", "active": true, "tosidebar": true, "complete": "seq", "wires": [] }),
    ];
    nodes.extend((0..CHAIN).map(|n| {
        let mut node = step(kind);
        let next = (n + 1).to_string();
        node["id"] = n.to_string().into();
        node["type"] = match kind {
            "send" | "stored" => "function",
            kind => kind,
        }
        .into();
        node["wires"] = json!([[if n + 1 < CHAIN { &next } else { "last" }]]);
        node
    }));
    for node in nodes.iter_mut().skip(1) {
        node["z"] = "t".into();
        node["x"] = 1.into();
        node["y"] = 1.into();
    }
    Json::Array(nodes)
}

/// The properties of one node of the chain.
fn step(kind: &str) -> Json {
    match kind {
        "change" => {
            json!({ "rules": [{ "t": "set", "p": "topic", "pt": "msg", "to": "x", "tot": "str" }] })
        }
        "switch" => json!({ "property": "seq", "rules": [{ "t": "gte", "v": "0", "vt": "num" }] }),
        "template" => {
            json!({ "field": "payload", "syntax": "mustache", "template": "n={{seq}} t={{topic}}" })
        }
        "function" => json!({ "func": "msg.k=(msg.k||0)+1;\nreturn msg;", "outputs": 1 }),
        "send" => json!({ "func": "msg.k=(msg.k||0)+1;\nnode.send(msg);", "outputs": 1 }),
        "stored" => json!({ "func": STORED, "outputs": 1 }),
        _ => json!({ "property": "payload", "action": "" }),
    }
}

fn expressions(times: u32) -> Outcome {
    let failed = |failure: Failure| failure.to_string();
    let path = Path::parse_message("payload.rooms[1][\"temperature\"]").map_err(failed)?;
    let payload = json::parse(r#"{"rooms":[{},{"temperature":21.5}]}"#).map_err(failed)?;
    let message = Message::with_payload(payload);
    for _ in 0..times {
        black_box(black_box(&path).read_message(black_box(&message)));
    }
    Ok(())
}

/// A copy of a message that writes one of its properties, as after a fan-out.
fn clones(times: u32) {
    let mut message = Message::with_payload("hello");
    message.set("_msgid", "0123456789abcdef");
    message.set("topic", "sensors/kitchen");
    for n in 0..times {
        let mut copy = black_box(&message).clone();
        copy.set("payload", Value::from(f64::from(n)));
        black_box(&copy);
    }
}

/// Deployments of a chain of change nodes, of which one has changed.
fn deployments(times: u32, act: fn(&[u8], &FlowSet) -> Outcome) -> Outcome {
    let element = |n: u32, to: &str| {
        let (id, next) = (format!("b{n:07}"), format!("b{:07}", n + 1));
        let rule = json!({ "t": "set", "p": "topic", "pt": "msg", "to": to, "tot": "str" });
        json!({ "id": id, "type": "change", "z": "t", "name": "", "rules": [rule], "x": 100, "y": 100, "wires": [[next]] })
    };
    let mut elements: Vec<Json> = (0..ELEMENTS).map(|n| element(n, "x")).collect();
    let old = FlowSet::parse(Json::from(elements.clone()).to_string().as_bytes())?;
    elements[500] = element(500, "y");
    let new = Json::from(elements).to_string();
    for _ in 0..(times / ELEMENTS).max(1) {
        act(new.as_bytes(), &old)?;
    }
    Ok(())
}

fn parse(new: &[u8], _old: &FlowSet) -> Outcome {
    black_box(Submission::v1(&FlowSet::default(), new)?);
    Ok(())
}

fn compare(new: &[u8], old: &FlowSet) -> Outcome {
    let new = Submission::v1(&FlowSet::default(), new)?.flows;
    let difference = diff(old, &new, &HashSet::new());
    black_box(plan(old, &new, &difference, DeploymentType::Nodes));
    Ok(())
}
