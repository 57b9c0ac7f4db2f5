//! Flows on several threads: what one does to the others, what a deployment moves, and what is one
//! for all threads.

use crate::bench::Bench;
use engine::Error;
use engine::context::{Request, Scope};
use engine::settings::{ContextFiles, ContextStore, Settings};
use flows::DeploymentType;
use hyper::Method;
use serde_json::{Value as Json, json};
use std::time::{Duration, Instant};

fn element(tab: &str, name: &str, kind: &str, more: &Json) -> Json {
    let mut element = json!({ "id": format!("{tab}-{name}"), "type": kind, "z": tab, "x": 1, "y": 1, "wires": [] });
    for (key, value) in more.as_object().unwrap() {
        element[key] = value.clone();
    }
    element
}

/// A tab with an inject node `<tab>-in`, a function node `<tab>-work`, and a debug node
/// `<tab>-out`.
fn flow(tab: &str, code: &str) -> Vec<Json> {
    let (work, out) = (format!("{tab}-work"), format!("{tab}-out"));
    let props = json!({ "props": [], "wires": [[work]] });
    let debug =
        json!({ "active": true, "tosidebar": true, "complete": "true", "targetType": "full" });
    vec![
        json!({ "id": tab, "type": "tab", "label": tab }),
        element(tab, "in", "inject", &props),
        element(
            tab,
            "work",
            "function",
            &json!({ "func": code, "outputs": 1, "wires": [[out]] }),
        ),
        element(tab, "out", "debug", &debug),
    ]
}

fn set(flows: &[Vec<Json>]) -> Json {
    flows.concat().into()
}

fn threads(count: usize) -> impl FnOnce(&mut Settings) {
    move |settings| settings.threads = count
}

/// The payload of the next message at a debug node, and its tab.
async fn shown(bench: &mut Bench) -> (String, Json) {
    let (id, message) = bench.output().await;
    let tab = id.trim_end_matches("-out").to_owned();
    (tab, message["payload"].clone())
}

async fn payload(bench: &mut Bench, tab: &str) -> Json {
    bench.inject(&format!("{tab}-in")).await;
    let (from, payload) = shown(bench).await;
    assert_eq!(from, tab);
    payload
}

fn question(scope: Scope, id: &str, key: &str) -> Request {
    Request {
        scope,
        id: id.to_owned(),
        key: Some(key.to_owned()),
        store: None,
        keys_only: false,
        delete: false,
        longest: 1000,
    }
}

async fn context(bench: &Bench, scope: Scope, id: &str, key: &str) -> Json {
    let answer = bench.engine.context(question(scope, id, key)).await;
    answer.unwrap()["msg"].clone()
}

/// Counts in the context of the node and in that of its flow.
const COUNT: &str = "for (const c of [context, flow]) c.set('n', (c.get('n') || 0) + 1);
msg.payload = [context.get('n'), flow.get('n')]; return msg";
const BLOCK: &str = "const end = Date.now() + 500; while (Date.now() < end); return msg";

#[tokio::test]
async fn a_function_that_blocks_delays_no_flow_of_another_thread() {
    let flows = set(&[flow("a", BLOCK), flow("b", "return msg")]);
    for (count, first) in [(1, "a"), (2, "b")] {
        let mut bench = Bench::set(&flows, threads(count)).await;
        bench.inject("a-in").await;
        bench.inject("b-in").await;
        let order = [shown(&mut bench).await.0, shown(&mut bench).await.0];
        assert_eq!(order[0], first, "{count} threads: {order:?}");
    }
}

#[tokio::test]
async fn a_deployment_restarts_no_node_of_another_thread() {
    let edited = |code: &str| set(&[flow("a", COUNT), flow("b", code), flow("c", COUNT)]);
    let mut bench = Bench::set(&edited("return msg"), threads(2)).await;
    for tab in ["a", "c"] {
        assert_eq!(payload(&mut bench, tab).await, json!([1, 1]));
    }
    let mut more = edited("msg.payload = 7; return msg");
    let new = flow("d", COUNT);
    more.as_array_mut().unwrap().extend(new);
    bench.deploy(&more, DeploymentType::Nodes).await;
    for tab in ["a", "c"] {
        assert_eq!(payload(&mut bench, tab).await, json!([2, 2]), "{tab}");
    }
    assert_eq!(payload(&mut bench, "b").await, json!(7));
    assert_eq!(payload(&mut bench, "d").await, json!([1, 1]));
}

#[tokio::test]
async fn an_edit_that_joins_flows_moves_one_with_its_context() {
    let edited = |to: &str| {
        let mut flows = set(&[flow("a", COUNT), flow("b", COUNT)]);
        flows[2]["wires"][0] = json!(["a-out", to]);
        flows
    };
    let mut bench = Bench::set(&edited("none"), threads(2)).await;
    for tab in ["a", "b"] {
        assert_eq!(payload(&mut bench, tab).await, json!([1, 1]));
    }
    bench.deploy(&edited("b-work"), DeploymentType::Nodes).await;
    bench.inject("a-in").await;
    let mut payloads = [shown(&mut bench).await, shown(&mut bench).await];
    payloads.sort_by(|a, b| a.0.cmp(&b.0));
    // The node `a-work` has other wires; one of the two flows has moved, and its nodes have started
    // again.
    assert!(
        payloads.iter().all(|(_, payload)| payload[1] == 2),
        "{payloads:?}"
    );
    let again = payloads
        .iter()
        .filter(|(_, payload)| payload[0] == 1)
        .count();
    assert_eq!(again, 1, "{payloads:?}");
    bench.deploy(&edited("none"), DeploymentType::Nodes).await;
    for tab in ["a", "b"] {
        assert_eq!(payload(&mut bench, tab).await[1], 3);
    }
}

#[tokio::test]
async fn the_global_context_is_one_for_all_flows() {
    let add =
        "const n = global.get('n') || 0; global.set('n', n + 1); msg.payload = n + 1; return msg";
    let flows = set(&[flow("a", add), flow("b", add), flow("c", "return msg")]);
    let mut bench = Bench::set(&flows, threads(3)).await;
    let mut seen = Vec::new();
    for tab in ["a", "b"].repeat(50) {
        bench.inject(&format!("{tab}-in")).await;
    }
    for _ in 0..100 {
        seen.push(shown(&mut bench).await.1.as_u64().unwrap());
    }
    assert_eq!(seen, (1..=100).collect::<Vec<u64>>());
    assert_eq!(context(&bench, Scope::Global, "", "n").await, "100");
}

#[tokio::test]
async fn code_that_hides_its_use_of_the_global_context_gets_an_error_that_names_the_remedy() {
    let hidden = "msg.payload = String(context['glo' + 'bal'].get('n')); return msg";
    let mut bench = Bench::set(&set(&[flow("a", hidden)]), threads(2)).await;
    bench.inject("a-in").await;
    let (id, text) = bench.error().await;
    assert_eq!(id, "a-work");
    assert!(
        text.contains("write the word global into a property"),
        "{text}"
    );
    let told = flow("a", &format!("{hidden} // global"));
    bench.deploy(&set(&[told]), DeploymentType::Nodes).await;
    assert_eq!(payload(&mut bench, "a").await, "undefined");
}

#[tokio::test]
async fn contexts_are_read_on_the_thread_that_has_them() {
    let flows = set(&[flow("a", COUNT), flow("b", COUNT)]);
    let mut bench = Bench::set(&flows, threads(2)).await;
    for tab in ["a", "b", "b"] {
        payload(&mut bench, tab).await;
    }
    for (tab, count) in [("a", "1"), ("b", "2")] {
        assert_eq!(context(&bench, Scope::Flow, tab, "n").await, count);
        let node = format!("{tab}-work");
        assert_eq!(context(&bench, Scope::Node, &node, "n").await, count);
    }
}

#[tokio::test]
async fn debug_nodes_are_switched_on_all_threads_even_if_one_does_not_exist() {
    let flows = set(&[flow("a", "return msg"), flow("b", "return msg")]);
    let mut bench = Bench::set(&flows, threads(2)).await;
    let ids = ["a-out", "gone", "b-out"].map(String::from).to_vec();
    let engine = bench.engine.clone();
    let switched = engine.set_debug(ids.clone(), false).await;
    assert!(matches!(switched, Err(Error::NoSuchNode)));
    for tab in ["a", "b"] {
        bench.inject(&format!("{tab}-in")).await;
    }
    assert!(engine.set_debug(ids, true).await.is_err());
    bench.inject("b-in").await;
    assert_eq!(shown(&mut bench).await.0, "b");
    bench.inject("a-in").await;
    assert_eq!(shown(&mut bench).await.0, "a");
}

#[tokio::test]
async fn a_profile_has_the_nodes_of_all_threads() {
    let flows = set(&[flow("a", BLOCK), flow("b", BLOCK), flow("c", "return msg")]);
    let mut bench = Bench::set(&flows, threads(2)).await;
    let engine = bench.engine.clone();
    let profile = tokio::spawn(async move { engine.profile(Duration::from_millis(800)).await });
    tokio::task::yield_now().await;
    for tab in ["a", "b", "c"] {
        bench.inject(&format!("{tab}-in")).await;
    }
    let profile = profile.await.unwrap().unwrap();
    let nodes = profile
        .nodes
        .iter()
        .map(|node| (node.id.as_str(), node.messages));
    let mut functions: Vec<_> = nodes.filter(|(id, _)| id.ends_with("work")).collect();
    functions.sort_unstable();
    assert_eq!(functions, [("a-work", 1), ("b-work", 1), ("c-work", 1)]);
    assert!(profile.busy_seconds >= 1.0, "{profile:?}");
    for _ in 0..3 {
        shown(&mut bench).await;
    }
}

/// Returns whether the endpoint of tab `b` wins: the other one has a parameter.
fn is_of_b(bench: &Bench) -> bool {
    let found = bench.engine.endpoint(&Method::GET, "/x/1").unwrap();
    found.params.is_empty()
}

#[tokio::test]
async fn the_first_endpoint_that_matches_wins_on_any_number_of_threads() {
    let endpoint = |tab: &str, url: &str, name: &str| {
        let properties = json!({ "url": url, "method": "get", "name": name });
        let mut flow = flow(tab, "return msg");
        flow.push(element(tab, "page", "http in", &properties));
        flow
    };
    let both = |name: &str| set(&[endpoint("a", "/x/:id", name), endpoint("b", "/x/1", "")]);
    for count in [1, 2] {
        let mut bench = Bench::set(&both(""), threads(count)).await;
        assert!(!is_of_b(&bench), "{count}");
        // The endpoint of a node that starts again is the last one, as in Express.
        bench.deploy(&both("edited"), DeploymentType::Nodes).await;
        assert!(is_of_b(&bench), "{count}");
        bench.deploy(&both("edited"), DeploymentType::Full).await;
        assert!(!is_of_b(&bench), "{count}");
    }
}

#[tokio::test]
async fn contexts_on_disk_are_those_of_the_same_flows_on_any_number_of_threads() {
    let directory = tempfile::tempdir().unwrap();
    let store = ContextStore {
        name: "disk".into(),
        files: Some(ContextFiles {
            directory: directory.path().to_owned(),
            flush: Duration::from_hours(1),
            file_limit: 1 << 20,
        }),
    };
    let tabs = ["a", "b", "c"];
    let flows = set(&tabs.map(|tab| flow(tab, COUNT)));
    for (run, count) in [(1, 1), (2, 3), (3, 2)] {
        let mut bench = Bench::set(&flows, |settings| {
            settings.threads = count;
            settings.context = vec![store.clone()];
        })
        .await;
        for tab in tabs {
            assert_eq!(payload(&mut bench, tab).await, json!([run, run]), "{tab}");
        }
        bench.engine.close().await;
    }
    let mut bench = Bench::set(&flows, |settings| {
        settings.threads = 2;
        settings.context = vec![store.clone()];
    })
    .await;
    let without_c = set(&[flow("a", COUNT), flow("b", COUNT)]);
    bench.deploy(&without_c, DeploymentType::Nodes).await;
    bench.engine.close().await;
    let left = tabs.map(|tab| directory.path().join(tab).exists());
    assert_eq!(left, [true, true, false]);
}

#[tokio::test]
async fn a_deployment_starts_nothing_before_all_threads_have_closed_theirs() {
    let closing = "const end = Date.now() + 300; while (Date.now() < end); node.warn('closed')";
    let with = |tab: &str, property: &str, code: &str| {
        let mut flow = flow(tab, "return msg");
        flow[2][property] = json!(code);
        flow
    };
    for [first, second] in [["a", "b"], ["b", "a"]] {
        let before = set(&[with(first, "finalize", closing), flow(second, "return msg")]);
        let mut bench = Bench::set(&before, threads(2)).await;
        let starting = with(second, "initialize", "node.warn('started')");
        let after = set(&[flow(first, "return msg"), starting]);
        bench.deploy(&after, DeploymentType::Nodes).await;
        let order = [bench.error().await.1, bench.error().await.1];
        assert_eq!(order, ["closed", "started"]);
    }
}

#[tokio::test]
async fn stopped_flows_stop_and_start_on_all_threads() {
    let mut bench = Bench::set(&set(&[flow("a", COUNT), flow("b", COUNT)]), threads(2)).await;
    for tab in ["a", "b"] {
        payload(&mut bench, tab).await;
    }
    bench
        .engine
        .set_state(engine::RunState::Stop)
        .await
        .unwrap();
    for tab in ["a", "b"] {
        assert!(
            bench
                .engine
                .inject(&format!("{tab}-in"), None)
                .await
                .is_err()
        );
    }
    bench
        .engine
        .set_state(engine::RunState::Start)
        .await
        .unwrap();
    for tab in ["a", "b"] {
        assert_eq!(payload(&mut bench, tab).await, json!([1, 2]));
    }
    bench.engine.close().await;
    assert!(bench.engine.inject("a-in", None).await.is_err());
}

#[tokio::test]
async fn flows_of_several_threads_stop_one_after_the_other_when_memory_is_short() {
    let circle = |tab: &str, size: usize| {
        let start = format!("node.send({{ payload: 'x'.repeat({size}) }})");
        let turn = format!("{tab}-turn");
        vec![
            json!({ "id": tab, "type": "tab", "label": tab }),
            element(
                tab,
                "start",
                "function",
                &json!({ "func": "", "initialize": start, "outputs": 1, "wires": [[turn]] }),
            ),
            element(
                tab,
                "turn",
                "change",
                &json!({ "rules": [], "wires": [[turn]] }),
            ),
        ]
    };
    let flows = set(&[circle("a", 3 << 20), circle("b", 2 << 20)]);
    let bench = Bench::set(&flows, |settings| {
        settings.threads = 2;
        // This process always needs more than that.
        settings.memory = Some(128 << 10);
    })
    .await;
    let stopped = async |count: usize| {
        while bench.engine.stopped_flows().len() < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Instant::now()
    };
    let first = stopped(1).await;
    let second = stopped(2).await;
    assert!(second - first > Duration::from_millis(500));
}
