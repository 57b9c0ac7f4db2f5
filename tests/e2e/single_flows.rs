//! Single flows (`/flow`), and stopping and starting all of them (`/flows/state`).

use crate::harness::{Gateway, flow_set, page, public, restart_marker};
use serde_json::{Value as Json, json};

/// A page as `/flow` takes and shows it.
fn flow(tab: &str, path: &str, text: &str) -> Json {
    let nodes = page(tab, path, text).split_off(1);
    json!({ "label": "made", "nodes": nodes })
}

#[tokio::test]
async fn a_flow_can_be_added_read_replaced_and_removed() {
    let gateway = Gateway::with(&public(&["/a", "/b", "/one", "/two", "/other"]));
    let token = gateway.sign_in("admin").await;
    gateway
        .deploy(&token, &flow_set(&[restart_marker("other", "/other")]))
        .await;
    let other = gateway.get("/other").send().await.text();

    let added = gateway
        .post("/flow")
        .token(&token)
        .json(&flow("t", "/one", "one"))
        .send()
        .await;
    let id = added.json()["id"].as_str().unwrap().to_owned();
    assert_eq!((added.status, id.len()), (200, 16));
    assert_eq!(gateway.get("/one").send().await.text(), "one");

    let path = format!("/flow/{id}");
    let shown = gateway.get(&path).token(&token).send().await.json();
    assert_eq!(
        (&shown["id"], &shown["label"]),
        (&json!(id), &json!("made"))
    );
    assert_eq!(shown["nodes"].as_array().unwrap().len(), 3);
    assert_eq!(shown["nodes"][0]["z"], *id);

    let replaced = gateway
        .request("PUT", &path)
        .token(&token)
        .json(&flow("t", "/two", "two"));
    assert_eq!(replaced.send().await.json(), json!({ "id": id }));
    assert_eq!(gateway.get("/one").send().await.status, 404);
    assert_eq!(gateway.get("/two").send().await.text(), "two");

    let removed = gateway.request("DELETE", &path).token(&token).send().await;
    assert_eq!((removed.status, removed.text()), (204, String::new()));
    assert_eq!(gateway.get("/two").send().await.status, 404);
    assert_eq!(gateway.get(&path).token(&token).send().await.status, 404);
    assert_eq!(
        gateway.get("/other").send().await.text(),
        other,
        "nothing else was touched"
    );
}

#[tokio::test]
async fn an_invalid_flow_is_refused() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    let flows = flow_set(&[page("a", "/a", "a")]);
    let rev = gateway.deploy(&token, &flows).await;
    for (method, path, body, status, code) in [
        ("POST", "/flow", json!({}), 400, "invalid_flows"),
        ("POST", "/flow", json!([]), 400, "invalid_flows"),
        (
            "POST",
            "/flow",
            json!({ "nodes": [{ "id": "a-in", "type": "x" }] }),
            400,
            "invalid_flows",
        ),
        (
            "POST",
            "/flow",
            json!({ "nodes": [{ "id": "n", "type": "tab" }] }),
            400,
            "invalid_flows",
        ),
        (
            "POST",
            "/flow",
            json!({ "nodes": [{ "type": "x" }] }),
            400,
            "invalid_flows",
        ),
        (
            "PUT",
            "/flow/unknown",
            json!({ "nodes": [] }),
            404,
            "not_found",
        ),
        (
            "PUT",
            "/flow/a-in",
            json!({ "nodes": [] }),
            404,
            "not_found",
        ),
        ("DELETE", "/flow/unknown", Json::Null, 404, "not_found"),
        ("DELETE", "/flow/global", Json::Null, 400, "invalid_flows"),
        ("GET", "/flow/a-in", Json::Null, 404, "not_found"),
    ] {
        let request = gateway.request(method, path).token(&token);
        let request = if body.is_null() {
            request
        } else {
            request.json(&body)
        };
        let answer = request.send().await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (status, code),
            "{method} {path} {body}"
        );
    }
    assert_eq!(
        gateway.flows(&token).await,
        json!({ "flows": flows, "rev": rev })
    );
}

async fn set_state(gateway: &Gateway, token: &str, state: &str) -> u16 {
    let request = gateway.post("/flows/state").token(token);
    // The stock editor sends a form, others send JSON.
    let request = match state {
        "start" => request.form(&[("state", state)]),
        _ => request.json(&json!({ "state": state })),
    };
    request.send().await.status
}

#[tokio::test]
async fn flows_can_be_stopped_and_started_and_stay_so_over_a_restart() {
    let gateway = Gateway::with(&public(&["/a", "/b", "/one", "/two", "/other"]));
    let token = gateway.sign_in("admin").await;
    gateway
        .deploy(&token, &flow_set(&[page("a", "/a", "a")]))
        .await;
    assert_eq!(
        gateway
            .get("/flows/state")
            .token(&token)
            .send()
            .await
            .json(),
        json!({ "state": "start" })
    );

    assert_eq!(set_state(&gateway, &token, "stop").await, 200);
    assert_eq!(gateway.get("/a").send().await.status, 404);
    gateway
        .deploy(&token, &flow_set(&[page("a", "/b", "b")]))
        .await;
    assert_eq!(
        gateway.get("/b").send().await.status,
        404,
        "a deployment starts nothing"
    );

    let gateway = gateway.restart().await;
    assert_eq!(
        gateway
            .get("/flows/state")
            .token(&token)
            .send()
            .await
            .json(),
        json!({ "state": "stop" })
    );
    assert_eq!(gateway.get("/b").send().await.status, 404);
    assert_eq!(set_state(&gateway, &token, "start").await, 200);
    assert_eq!(gateway.get("/b").send().await.text(), "b");
    for state in ["", "safe", "STOP"] {
        assert_eq!(set_state(&gateway, &token, state).await, 400, "{state}");
    }
    let gateway = gateway.restart().await;
    assert_eq!(gateway.get("/b").send().await.text(), "b");
}
