//! The history of deployments over HTTP: who deployed what, what differs, and back to it.

use crate::client::Answer;
use crate::harness::{Gateway, flow_set, page};
use serde_json::{Value as Json, json};

async fn read(gateway: &Gateway, token: &str, path: &str) -> Json {
    let answer = gateway.get(path).token(token).send().await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

async fn roll_back(gateway: &Gateway, token: &str, path: &str, active: &str) -> Answer {
    let path = format!("/gateway/deployments/{path}");
    let request = gateway.post(&path).token(token);
    request.json(&json!({ "rev": active })).send().await
}

fn revisions(list: &Json) -> Vec<&str> {
    let entries = list["deployments"].as_array().unwrap().iter();
    entries
        .map(|entry| entry["rev"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn deployments_are_listed_page_by_page_with_who_when_and_how_much() {
    let gateway = Gateway::start();
    let admin = gateway.sign_in("admin").await;
    let deployer = gateway.sign_in("deployer").await;
    let first = flow_set(&[page("a", "/a", "1")]);
    let one = gateway.deploy(&admin, &first).await;
    let second = flow_set(&[page("a", "/a", "2"), page("b", "/b", "b")]);
    let two = gateway.deploy_as("flows", &deployer, &second).await;
    let three = gateway.deploy(&admin, &first).await;

    let list = read(&gateway, &admin, "/gateway/deployments").await;
    assert_eq!(revisions(&list), [&three, &two, &one]);
    assert_eq!(list["next"], Json::Null);
    let mut entry = list["deployments"][1].clone();
    let time = entry["time"].take();
    assert!(time.as_str().unwrap().ends_with('Z'), "{time}");
    let elements = second.as_array().unwrap().len();
    let added = elements - first.as_array().unwrap().len();
    let expected = json!({
        "number": entry["number"], "rev": two, "parent": one, "user": "deployer", "by": entry["by"], "address": "127.0.0.1", "type": "flows",
        "time": null, "message": "", "tags": [], "changes": { "elements": elements, "added": added, "changed": 1, "removed": 0 },
    });
    assert_eq!(entry, expected);
    assert!(
        entry["by"].as_str().unwrap().starts_with("token"),
        "{entry}"
    );

    let newest = read(&gateway, &admin, "/gateway/deployments?limit=2").await;
    assert_eq!(
        (revisions(&newest), &newest["next"]),
        (vec![&*three, &*two], &list["deployments"][1]["number"])
    );
    let path = format!("/gateway/deployments?limit=2&before={two}");
    let by_revision = read(&gateway, &admin, &path).await;
    let path = format!("/gateway/deployments?limit=2&before={}", newest["next"]);
    let rest = read(&gateway, &admin, &path).await;
    assert_eq!(
        (revisions(&rest), &rest["next"]),
        (vec![&*one], &Json::Null)
    );
    assert_eq!(by_revision, rest);

    let path = "/gateway/deployments?user=deployer&since=2000-01-01T00:00:00Z";
    assert_eq!(revisions(&read(&gateway, &admin, path).await), [&two]);
    let path = "/gateway/deployments?since=2999-01-01T00:00:00Z";
    assert_eq!(revisions(&read(&gateway, &admin, path).await), [""; 0]);

    let path = format!("/gateway/deployments/{one}?flows=true");
    let shown = read(&gateway, &admin, &path).await;
    assert_eq!((&shown["rev"], &shown["flows"]), (&json!(one), &first));
    let shown = read(&gateway, &admin, &format!("/gateway/deployments/{one}")).await;
    assert_eq!(shown, list["deployments"][2]);
}

#[tokio::test]
async fn a_wrong_question_about_the_history_is_explained() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("reader").await;
    for (path, status, message) in [
        (
            "deployments?limit=201",
            400,
            "limit must be a whole number from 1 to 200",
        ),
        (
            "deployments?limit=0",
            400,
            "limit must be a whole number from 1 to 200",
        ),
        (
            "deployments?since=yesterday",
            400,
            "since must be a time like 2026-11-20T20:43:02Z",
        ),
        (
            "deployments?before=x",
            404,
            "the history has no such revision",
        ),
        ("deployments/x", 404, "the history has no such revision"),
        ("deployments/x?flows=1", 400, "flows must be true or false"),
        ("diff", 400, "from must be a revision"),
        ("diff?from=x", 404, "the history has no such revision"),
    ] {
        let request = gateway.get(&format!("/gateway/{path}")).token(&token);
        let answer = request.send().await;
        let shown = answer.json()["message"].clone();
        assert_eq!((answer.status, shown), (status, json!(message)), "{path}");
    }
}

#[tokio::test]
async fn a_diff_names_each_change_and_no_secret() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    let old = json!([
        { "id": "A", "type": "tab", "label": "Line" },
        { "id": "B", "type": "tab", "label": "Other" },
        { "id": "moved", "type": "debug", "z": "A", "x": 1, "y": 1, "wires": [] },
        { "id": "placed", "type": "debug", "z": "A", "x": 1, "y": 1, "wires": [] },
        { "id": "named", "type": "debug", "z": "A", "x": 1, "y": 1, "name": "old", "wires": [] },
        { "id": "broker", "type": "mqtt-broker", "credentials": { "user": "u", "password": "hunter2" } },
        { "id": "gone", "type": "debug", "z": "B", "x": 1, "y": 1, "wires": [] },
    ]);
    let mut new = old.clone();
    new[2]["z"] = "B".into();
    new[3]["x"] = 9.into();
    new[4]["name"] = "new".into();
    new[5]["credentials"]["password"] = "hunter3".into();
    new[6]["id"] = "fresh".into();
    let (from, to) = (
        gateway.deploy(&token, &old).await,
        gateway.deploy(&token, &new).await,
    );

    let path = format!("/gateway/diff?from={from}&to={to}");
    let diff = read(&gateway, &token, &path).await;
    let expected = json!({
        "added": 1, "removed": 1, "changed": 2, "moved": 1, "repositioned": 1, "credentials_compared": true,
        "omitted": 0,
        "flows": [
            { "id": "A", "label": "Line", "elements": [
                { "id": "named", "type": "debug", "name": "new", "difference": "changed",
                  "properties": { "name": { "before": "old", "after": "new" } } },
                { "id": "placed", "type": "debug", "name": null, "difference": "repositioned",
                  "properties": { "x": { "before": 1, "after": 9 } } },
            ] },
            { "id": null, "label": null, "elements": [
                { "id": "broker", "type": "mqtt-broker", "name": null, "difference": "changed",
                  "credentials": "changed" },
            ] },
            { "id": "B", "label": "Other", "elements": [
                { "id": "moved", "type": "debug", "name": null, "difference": "moved",
                  "properties": { "z": { "before": "A", "after": "B" } } },
                { "id": "gone", "type": "debug", "name": null, "difference": "removed" },
                { "id": "fresh", "type": "debug", "name": null, "difference": "added" },
            ] },
        ],
        "from": from, "to": to,
    });
    assert_eq!(diff, expected);
    let path = format!("/gateway/diff?from={from}");
    assert_eq!(read(&gateway, &token, &path).await, expected);
}

#[tokio::test]
async fn a_rollback_deploys_an_earlier_flow_set_with_its_credentials() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    let broker = |password: &str| {
        json!({ "id": "broker", "type": "mqtt-broker", "broker": "localhost", "port": "1",
        "credentials": { "user": password, "password": password } })
    };
    let with = |text: &str| {
        let mut flows = flow_set(&[page("a", "/a", text)]);
        flows.as_array_mut().unwrap().push(broker(text));
        flows
    };
    let first = gateway.deploy(&token, &with("first")).await;
    let second = gateway.deploy(&token, &with("second")).await;
    let path = format!("{first}/rollback");

    let stale = roll_back(&gateway, &token, &path, &first).await;
    assert_eq!(
        (stale.status, stale.code().as_str()),
        (409, "version_mismatch")
    );
    let reader = gateway.sign_in("reader").await;
    assert_eq!(
        roll_back(&gateway, &reader, &path, &second).await.status,
        401
    );

    let done = roll_back(&gateway, &token, &path, &second).await;
    assert_eq!(
        (done.status, &done.json()["credentials"]),
        (200, &json!("restored"))
    );
    let third = done.rev();
    assert_eq!(gateway.get("/a").token(&token).send().await.text(), "first");
    let kept = read(&gateway, &token, "/credentials/mqtt-broker/broker").await;
    assert_eq!(kept["user"], "first");
    let list = read(&gateway, &token, "/gateway/deployments").await;
    assert_eq!(revisions(&list), [&third, &second, &first]);
    assert_eq!(list["deployments"][0]["parent"], json!(second));
    let audit = gateway.audit();
    let deployed = |entry: &&Json| entry["event"] == "flows.deploy" && entry["rev"] == json!(third);
    assert_eq!(audit.iter().filter(deployed).count(), 1);

    let path = format!("/gateway/diff?from={first}&to={third}");
    let diff = read(&gateway, &token, &path).await;
    assert_eq!(diff["flows"], json!([]), "{diff}");
}

#[tokio::test]
async fn a_rollback_of_one_flow_leaves_the_others() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    let both = |text: &str| flow_set(&[page("a", "/a", text), page("b", "/b", text)]);
    let first = gateway.deploy(&token, &both("first")).await;
    let second = gateway.deploy(&token, &both("second")).await;
    let tab = both("")[0]["id"].as_str().unwrap().to_owned();

    let path = format!("{first}/rollback?flow=none");
    assert_eq!(
        roll_back(&gateway, &token, &path, &second).await.status,
        404
    );
    let path = format!("{first}/rollback?flow={tab}");
    let done = roll_back(&gateway, &token, &path, &second).await;
    assert_eq!(done.status, 200, "{}", done.text());
    assert_eq!(gateway.get("/a").token(&token).send().await.text(), "first");
    assert_eq!(
        gateway.get("/b").token(&token).send().await.text(),
        "second"
    );
}

#[tokio::test]
async fn a_rollback_names_the_active_revision_and_one_of_the_history() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    let first = gateway
        .deploy(&token, &flow_set(&[page("a", "/a", "1")]))
        .await;
    let path = format!("/gateway/deployments/{first}/rollback");
    for body in [json!({}), json!({ "rev": 1 }), json!([])] {
        let answer = gateway.post(&path).token(&token).json(&body).send().await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, "invalid_request")
        );
    }
    let reload = gateway.post(&path).token(&token);
    let reload = reload.header("Service-Deployment-Type", "reload");
    let reload = reload.json(&json!({ "rev": first })).send().await;
    assert_eq!(reload.status, 400);
    let unknown = roll_back(&gateway, &token, "x/rollback", &first).await;
    assert_eq!(
        (unknown.status, unknown.code().as_str()),
        (404, "not_found")
    );
}

#[tokio::test]
async fn what_the_policy_forbids_now_is_not_rolled_back_to() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    let tab = json!({ "id": "A", "type": "tab" });
    let node = json!({ "id": "n", "type": "exec", "z": "A", "x": 1, "y": 1, "wires": [] });
    let first = gateway.deploy(&token, &json!([tab, node])).await;
    let second = gateway.deploy(&token, &json!([tab])).await;
    let gateway = gateway
        .restart_with("[policy]\nforbid_types = [\"exec\"]\n")
        .await;
    let token = gateway.sign_in("admin").await;
    let refused = roll_back(&gateway, &token, &format!("{first}/rollback"), &second).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (403, "policy_refused"),
        "{}",
        refused.text()
    );
}
