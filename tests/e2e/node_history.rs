//! The history of one node over HTTP: who changed it, when, and what it was before.

use crate::harness::Gateway;
use serde_json::{Value as Json, json};

async fn read(gateway: &Gateway, token: &str, path: &str) -> Json {
    let answer = gateway.get(path).token(token).send().await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

fn broker(host: &str, password: &str) -> Json {
    json!([
        { "id": "A", "type": "tab", "label": "Line" },
        { "id": "broker", "type": "mqtt-broker", "broker": host, "port": "1", "z": "A",
          "credentials": { "user": "u", "password": password } },
    ])
}

#[tokio::test]
async fn each_change_of_a_node_has_its_user_its_time_and_its_values() {
    let gateway = Gateway::start();
    let admin = gateway.sign_in("admin").await;
    let deployer = gateway.sign_in("deployer").await;
    let one = gateway
        .deploy(&admin, &broker("localhost", "hunter2"))
        .await;
    let two = gateway
        .deploy(&deployer, &broker("127.0.0.1", "hunter2"))
        .await;
    let three = gateway
        .deploy(&admin, &broker("127.0.0.1", "hunter3"))
        .await;
    let four = gateway.deploy(&admin, &json!([])).await;

    let shown = read(&gateway, &admin, "/gateway/nodes/broker/history").await;
    assert!(!shown.to_string().contains("hunter"), "{shown}");
    assert_eq!(
        (&shown["node"], &shown["next"]),
        (&json!("broker"), &Json::Null)
    );
    let parts = |entry: &Json| {
        let names = [
            "rev",
            "user",
            "difference",
            "flow",
            "credentials",
            "properties",
        ];
        Json::from(names.map(|name| entry[name].clone()).to_vec())
    };
    let history = shown["history"].as_array().unwrap();
    let history: Vec<Json> = history.iter().map(parts).collect();
    let changed = json!({ "broker": { "before": "localhost", "after": "127.0.0.1" } });
    let expected = [
        json!([four, "admin", "removed", "A", "changed", null]),
        json!([three, "admin", "changed", "A", "changed", {}]),
        json!([two, "deployer", "changed", "A", null, changed]),
        json!([one, "admin", "added", "A", "changed", null]),
    ];
    assert_eq!(history, expected);

    let newest = read(&gateway, &admin, "/gateway/nodes/broker/history?limit=3").await;
    let path = format!("/gateway/nodes/broker/history?before={}", newest["next"]);
    let rest = read(&gateway, &admin, &path).await;
    assert_eq!(rest["history"], json!([shown["history"][3]]));

    for (filter, expected) in [
        ("node=broker", vec![&four, &three, &two, &one]),
        ("flow=A&user=deployer", vec![&two]),
        ("node=A", vec![&four, &one]),
        ("node=broker&flow=B", vec![]),
    ] {
        let path = format!("/gateway/deployments?{filter}");
        let list = read(&gateway, &admin, &path).await;
        let found = list["deployments"].as_array().unwrap().iter();
        let found: Vec<_> = found.map(|entry| entry["rev"].as_str().unwrap()).collect();
        assert_eq!(found, expected, "{filter}");
    }
    let none = read(&gateway, &admin, "/gateway/nodes/none/history").await;
    assert_eq!(none["history"], json!([]));
    let wrong = gateway
        .get("/gateway/nodes/x/history?limit=x")
        .token(&admin);
    assert_eq!(wrong.send().await.status, 400);
}

#[tokio::test]
async fn an_edit_of_the_file_is_in_the_history_of_its_nodes() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    let tab = |label: &str| json!([{ "id": "A", "type": "tab", "label": label }]);
    gateway.deploy(&token, &tab("one")).await;
    std::fs::write(gateway.data("flows.json"), tab("edited").to_string()).unwrap();
    gateway.deploy(&token, &tab("two")).await;
    let shown = read(&gateway, &token, "/gateway/nodes/A/history").await;
    let parts = |entry: &Json| json!([entry["type"], entry["user"], entry["properties"]["label"]]);
    let history: Vec<Json> = shown["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(parts)
        .collect();
    let expected = [
        json!(["full", "admin", { "before": "one", "after": "two" }]),
        json!(["outside-edit", "", { "before": "one", "after": "edited" }]),
        json!(["full", "admin", null]),
    ];
    assert_eq!(history, expected);
}
