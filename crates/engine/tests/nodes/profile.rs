//! Tests profiles and the load of flows: which node is slow, and which flow.

use crate::bench::{Bench, debug, inject};
use crate::delivery::{node, tab};
use crate::steps::merged;
use engine::Error;
use engine::load::{FlowLoad, Load};
use engine::metrics::{Metrics, NodeHostMetrics, NodeType, Uncounted};
use engine::profile::{NodeUsage, Profile};
use engine::settings::Settings;
use engine::stopped_flows::Reason;
use flows::DeploymentType;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(20);

/// On tab `busy` a function that takes a millisecond for each message, and a change node, both in a
/// circle with a delay; on tab `t` an inject node and a debug node.
fn flows() -> Json {
    let busy = |element: Json| merged(element, &json!({ "z": "busy" }));
    let work = "const end = Date.now() + 2; while (Date.now() < end) {} return msg";
    json!([
        tab(),
        { "id": "busy", "type": "tab", "label": "Busy" },
        inject("quiet", &json!({}), &["out"]),
        debug("out"),
        busy(inject("go", &json!({}), &["slow"])),
        busy(merged(node("slow", "function", &json!([["quick"]])), &json!({ "name": "Slow", "func": work }))),
        busy(node("quick", "junction", &json!([["slow"]]))),
    ])
}

/// A profile that has begun.
async fn begun(bench: &Bench, duration: Duration) -> JoinHandle<Result<Profile, Error>> {
    let engine = bench.engine.clone();
    let profile = tokio::spawn(async move { engine.profile(duration).await });
    tokio::task::yield_now().await;
    profile
}

fn of<'p>(profile: &'p Profile, id: &str) -> Option<&'p NodeUsage> {
    profile.nodes.iter().find(|node| node.id == id)
}

#[tokio::test]
async fn the_node_that_uses_most_time_is_the_first_of_a_profile() {
    let bench = Bench::with(&flows()).await;
    bench.inject("go").await;
    let profile = bench
        .engine
        .profile(Duration::from_millis(500))
        .await
        .unwrap();
    assert!(profile.seconds >= 0.5, "{profile:?}");
    let slow = &profile.nodes[0];
    assert_eq!(
        (slow.id.as_str(), slow.kind.as_str(), slow.name.as_str()),
        ("slow", "function", "Slow")
    );
    assert_eq!(
        (slow.flow.as_str(), slow.flow_label.as_str()),
        ("busy", "Busy")
    );
    assert!(
        slow.seconds > 0.5 * profile.seconds && slow.seconds <= profile.seconds,
        "{profile:?}"
    );
    // Each message takes between one and two milliseconds of `Date.now()`, or more on a busy
    // machine.
    let messages = slow.messages as f64;
    assert!(
        messages > 5.0 && messages <= slow.seconds / 0.001 + 1.0,
        "{profile:?}"
    );
    let quick = of(&profile, "quick").unwrap();
    assert!(quick.messages.abs_diff(slow.messages) <= 1 && quick.seconds < slow.seconds / 10.0);
    assert!(profile.busy_seconds >= slow.seconds && profile.busy_seconds <= profile.seconds);
    assert_eq!(of(&profile, "out"), None, "a node that was not called");
}

#[tokio::test]
async fn a_profile_of_an_idle_engine_ends_in_time_and_is_empty() {
    let bench = Bench::with(&flows()).await;
    let profile = timeout(LIMIT, bench.engine.profile(Duration::from_millis(500))).await;
    let profile = profile.unwrap().unwrap();
    assert_eq!((profile.nodes.len(), profile.waiting_messages), (0, 0));
    assert!(profile.busy_seconds < 0.4, "{profile:?}");
}

#[tokio::test]
async fn a_node_that_is_replaced_meanwhile_counts_with_its_successor() {
    let mut bench = Bench::with(&flows()).await;
    let profile = begun(&bench, Duration::from_secs(1)).await;
    bench.inject("quiet").await;
    bench.output().await;
    bench.deploy(&flows(), DeploymentType::Full).await;
    bench.inject("quiet").await;
    bench.output().await;
    let profile = profile.await.unwrap().unwrap();
    assert_eq!(of(&profile, "out").unwrap().messages, 2);
}

#[tokio::test]
async fn four_profiles_are_taken_at_a_time_and_one_that_is_abandoned_ends() {
    let bench = Bench::with(&flows()).await;
    let mut taken = Vec::new();
    for _ in 0..4 {
        taken.push(begun(&bench, Duration::from_mins(1)).await);
    }
    let more = || bench.engine.profile(Duration::from_millis(1));
    assert!(matches!(more().await, Err(Error::TooManyProfiles)));
    taken.pop().unwrap().abort();
    let again = async {
        while more().await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    timeout(LIMIT, again)
        .await
        .expect("the abandoned profile ends");
}

/// Shows the load.
#[derive(Debug)]
struct Measured(Arc<Load>);

impl Metrics for Measured {
    fn node_type(&self, kind: &str) -> NodeType {
        Uncounted.node_type(kind)
    }

    fn error_on(&self, _: &str) {}

    fn running(&self, _: usize, _: usize) {}

    fn load(&self) -> Arc<Load> {
        Arc::clone(&self.0)
    }

    fn node_host(&self) -> NodeHostMetrics {
        Uncounted.node_host()
    }

    fn stopped(&self, _: usize, _: Reason) {}
}

async fn measured(flows: &Json) -> (Bench, Arc<Load>) {
    let load = Arc::<Load>::default();
    let metrics = Arc::new(Measured(Arc::clone(&load)));
    (
        Bench::start(flows, Settings::default(), metrics).await,
        load,
    )
}

fn flow(load: &Load, id: &str) -> Option<Arc<FlowLoad>> {
    load.flows
        .load()
        .iter()
        .find(|flow| flow.flow == id)
        .cloned()
}

async fn until(what: &str, met: impl Fn() -> bool) {
    let met = async {
        while !met() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LIMIT, met).await.expect(what);
}

#[tokio::test]
async fn the_load_of_a_busy_flow_is_measured_while_it_is_busy() {
    let (bench, load) = measured(&flows()).await;
    let ids: Vec<String> = load
        .flows
        .load()
        .iter()
        .map(|flow| flow.flow.to_string())
        .collect();
    assert_eq!(ids, ["global", "t", "busy"]);
    let busy = flow(&load, "busy").unwrap();
    assert_eq!((busy.waiting_messages(), busy.busy()), (0, Duration::ZERO));
    for _ in 0..5 {
        bench.inject("go").await;
    }
    until("the messages that circle wait", || {
        (3..=5).contains(&busy.waiting_messages())
    })
    .await;
    let before = busy.busy();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let time = busy.busy().saturating_sub(before);
    assert!(time > Duration::from_millis(100), "{time:?}");
    let quiet = flow(&load, "t").unwrap();
    assert!(quiet.busy() < Duration::from_millis(10), "{quiet:?}");
}

#[tokio::test]
async fn the_load_of_flows_appears_goes_on_and_disappears_with_them() {
    let (mut bench, load) = measured(&json!([
        tab(),
        inject("in", &json!({}), &["out"]),
        debug("out")
    ]))
    .await;
    bench.inject("in").await;
    bench.output().await;
    until("it is measured", || {
        flow(&load, "t").unwrap().busy() > Duration::ZERO
    })
    .await;
    let before = flow(&load, "t").unwrap();
    bench.deploy(&flows(), DeploymentType::Full).await;
    assert!(Arc::ptr_eq(&before, &flow(&load, "t").unwrap()));
    assert!(flow(&load, "busy").is_some());
    bench.deploy(&json!([tab()]), DeploymentType::Full).await;
    assert!(flow(&load, "busy").is_none());
    bench
        .engine
        .set_state(engine::RunState::Stop)
        .await
        .unwrap();
    assert_eq!(load.flows.load().len(), 0, "no flow runs");
}

#[tokio::test]
async fn joined_flows_are_one_and_those_beyond_200_are_other() {
    let tabs = (0..250).map(|n| json!({ "id": format!("tab{n}"), "type": "tab", "label": "T" }));
    let on = |tab: &str, element: Json| merged(element, &json!({ "z": tab }));
    let link = |id, kind, to: &str| {
        merged(
            node(id, kind, &json!([])),
            &json!({ "links": [to], "mode": "link" }),
        )
    };
    let mut flows: Vec<Json> = tabs.collect();
    flows.push(on("tab3", link("from", "link out", "into")));
    flows.push(on("tab1", link("into", "link in", "from")));
    let (_bench, load) = measured(&Json::Array(flows)).await;
    assert!(flow(&load, "tab1").is_some() && flow(&load, "tab3").is_none());
    assert_eq!(load.flows.load().len(), 201);
    assert!(flow(&load, "tab199").is_some() && flow(&load, "tab200").is_none());
    assert!(flow(&load, "other").is_some());
}

#[tokio::test]
async fn timers_are_counted_by_their_lateness() {
    let delay = merged(
        node("wait", "delay", &json!([["out"]])),
        &json!({ "pauseType": "delay", "timeout": "20", "timeoutUnits": "milliseconds" }),
    );
    let (mut bench, load) = measured(&json!([
        tab(),
        inject("in", &json!({}), &["wait"]),
        delay,
        debug("out")
    ]))
    .await;
    bench.inject("in").await;
    bench.output().await;
    assert_eq!(load.lateness.buckets().iter().sum::<u64>(), 1);
    assert!(load.lateness.sum() < LIMIT);
}
