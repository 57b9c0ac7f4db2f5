//! Which nodes each type of deployment restarts: seen at endpoints that show when they were
//! started.

use crate::harness::{Gateway, flow_set, public, restart_marker};
use serde_json::{Value as Json, json};

/// The endpoints: two on tab `a`, one on tab `b`.
const PATHS: [&str; 3] = ["/a", "/aa", "/b"];

/// Three endpoints on two tabs, and a config node that the one on `b` refers to.
fn flows() -> Vec<Json> {
    let mut second = restart_marker("aa", "/aa");
    second.remove(0);
    for node in &mut second {
        node["z"] = "a".into();
    }
    let mut third = restart_marker("b", "/b");
    third[2]["setting"] = "c".into();
    let config = vec![json!({ "id": "c", "type": "global-config", "env": [] })];
    [restart_marker("a", "/a"), second, third, config].concat()
}

/// Changes one field of one node.
fn with(id: &str, field: &str, value: Json) -> Json {
    let mut flows = flows();
    let node = flows.iter_mut().find(|node| node["id"] == id).unwrap();
    node[field] = value;
    flow_set(&[flows])
}

async fn markers(gateway: &Gateway) -> Vec<String> {
    let mut markers = Vec::new();
    for path in PATHS {
        let answer = gateway.get(path).send().await;
        assert_eq!(answer.status, 200, "{path}");
        markers.push(answer.text());
    }
    markers
}

/// Which of the endpoints were restarted by a deployment after [`flows`].
async fn restarted(gateway: &Gateway, kind: &str, next: &Json) -> Vec<&'static str> {
    let token = gateway.sign_in("admin").await;
    gateway.deploy(&token, &flow_set(&[flows()])).await;
    let before = markers(gateway).await;
    gateway.deploy_as(kind, &token, next).await;
    let after = markers(gateway).await;
    let pairs = PATHS.into_iter().zip(before.iter().zip(&after));
    pairs
        .filter(|(_, (before, after))| before != after)
        .map(|(path, _)| path)
        .collect()
}

#[tokio::test]
async fn each_deployment_type_restarts_only_what_it_must() {
    let gateway = Gateway::with(&public(&PATHS));
    let all = &PATHS[..];
    let same = flow_set(&[flows()]);
    let changed = with("a-node", "name", "changed".into());
    let moved = with("a-node", "x", 500.into());
    let renamed = with("a", "label", "another label".into());
    let global = with(
        "c",
        "env",
        json!([{ "name": "N", "type": "str", "value": "v" }]),
    );
    for (kind, what, next, expected) in [
        ("full", "nothing", &same, all),
        ("full", "a node", &changed, all),
        ("nodes", "nothing", &same, &[]),
        ("nodes", "a node", &changed, &["/a"]),
        ("nodes", "a position", &moved, &[]),
        ("flows", "nothing", &same, &[]),
        ("flows", "a node", &changed, &["/a", "/aa"]),
        ("flows", "a position", &moved, &[]),
        ("flows", "a label", &renamed, &[]),
        ("flows", "the global config", &global, all),
        ("reload", "whatever is sent", &json!([]), all),
    ] {
        let restarted = restarted(&gateway, kind, next).await;
        assert_eq!(restarted, expected, "{kind}, {what} changed");
    }
}

#[tokio::test]
async fn removed_endpoints_are_gone_and_added_ones_are_served() {
    let gateway = Gateway::with(&public(&PATHS));
    let token = gateway.sign_in("admin").await;
    for kind in ["full", "nodes", "flows"] {
        gateway
            .deploy(&token, &flow_set(&[restart_marker("a", "/a")]))
            .await;
        let kept = gateway.get("/a").send().await.text();
        gateway
            .deploy_as(
                kind,
                &token,
                &flow_set(&[restart_marker("a", "/a"), restart_marker("b", "/b")]),
            )
            .await;
        assert_eq!(gateway.get("/b").send().await.status, 200, "{kind}");
        assert_eq!(
            gateway.get("/a").send().await.text() == kept,
            kind != "full",
            "{kind}"
        );
        gateway
            .deploy_as(kind, &token, &flow_set(&[restart_marker("b", "/b")]))
            .await;
        assert_eq!(gateway.get("/a").send().await.status, 404, "{kind}");
        assert_eq!(gateway.get("/b").send().await.status, 200, "{kind}");
    }
}
