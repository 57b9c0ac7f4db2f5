//! What another member knows after a fail-over, beside the flows: the library, editors' settings,
//! stopped flows, shared contexts.

use crate::fail_over::{Certificates, Member, cluster, node, until_says};
use crate::harness::{flow_set, page, until};
use serde_json::{Value as Json, json};
use testing::postgres::Postgres;

#[tokio::test]
async fn the_library_the_editors_settings_and_stopped_flows_are_the_same_after_a_fail_over() {
    let (_postgres, mut one, other) = cluster().await;
    let token = other.sign_in("admin").await;
    other
        .deploy(&token, &flow_set(&[page("a", "/a", "here")]))
        .await;
    let entry = other.post("/library/local/functions/mine.js").token(&token);
    let saved = entry
        .json(&json!({ "name": "mine", "text": "return msg;" }))
        .send()
        .await;
    assert_eq!(saved.status, 204, "{}", saved.text());
    let settings = other.post("/settings/user").token(&token);
    let saved = settings
        .json(&json!({ "view": { "zoom": 2 } }))
        .send()
        .await;
    assert_eq!(saved.status, 204, "{}", saved.text());
    let stop = other.post("/flows/state").token(&token);
    let stopped = stop.json(&json!({ "state": "stop" })).send().await;
    assert_eq!(stopped.status, 200, "{}", stopped.text());

    one.kill();
    until("the other one leads", async || other.leads().await).await;
    let get = async |path: &str| other.get(path).token(&token).send().await;
    until("the engine answers", async || {
        get("/flows/state").await.status == 200
    })
    .await;
    assert_eq!(get("/flows/state").await.json()["state"], "stop");
    assert_eq!(
        get("/library/local/functions/mine.js").await.text(),
        "return msg;"
    );
    assert_eq!(get("/settings/user").await.json()["view"]["zoom"], 2);
}

/// A flow that counts its requests in a shared context.
fn counting() -> Json {
    let node = |id: &str, kind: &str, more: Json| node("t", id, kind, more);
    let count = "const n = (flow.get('n', 'cluster') || 0) + 1; flow.set('n', n, 'cluster'); msg.payload = String(n); return msg";
    json!([
        { "id": "t", "type": "tab", "label": "counts" },
        node("i", "http in", json!({ "method": "get", "url": "/a", "wires": [["f"]] })),
        node("f", "function", json!({ "func": count, "outputs": 1, "wires": [["o"]] })),
        node("o", "http response", json!({ "wires": [] })),
    ])
}

#[tokio::test]
async fn what_flows_remember_in_a_shared_context_is_known_after_a_fail_over() {
    let postgres = Postgres::start();
    let certificates = Certificates::make();
    let store = postgres.url();
    let contexts = "[[engine.context]]\nname = \"memory\"\nmodule = \"memory\"\n\
                    [[engine.context]]\nname = \"cluster\"\nmodule = \"shared\"\n";
    let mut one = Member::with_lines(&store, &certificates, contexts);
    until("the first member leads", async || one.leads().await).await;
    let other = Member::with_lines(&store, &certificates, contexts);
    let token = other.sign_in("admin").await;
    other.deploy(&token, &counting()).await;
    for n in 1..=5 {
        until_says(&other, "/a", &n.to_string()).await;
    }
    let kept = "SELECT count(*) FROM engine_state WHERE name LIKE 'shared-context/cluster/t/flow.json' AND convert_from(content, 'UTF8') LIKE '%5%'";
    until("it is kept", async || postgres.sql(kept).trim() == "1").await;
    one.kill();
    until_says(&other, "/a", "6").await;
}
