//! Tags of the history: names for entries, which are not forgotten while they have one.

use crate::client::Answer;
use crate::harness::Gateway;
use serde_json::{Value as Json, json};

fn tab(label: &str) -> Json {
    json!([{ "id": "A", "type": "tab", "label": label }])
}

async fn tag(gateway: &Gateway, token: &str, name: &str, rev: &str) -> Answer {
    let request = gateway.post(&format!("/gateway/tags/{name}")).token(token);
    request.json(&json!({ "rev": rev })).send().await
}

async fn read(gateway: &Gateway, token: &str, path: &str) -> Json {
    let answer = gateway.get(path).token(token).send().await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

#[tokio::test]
async fn a_tagged_entry_stays_and_its_tag_is_good_wherever_a_revision_is() {
    let gateway = Gateway::with("[storage]\nhistory = 1\n");
    let token = gateway.sign_in("deployer").await;
    let one = gateway.deploy(&token, &tab("one")).await;
    let done = tag(&gateway, &token, "line-3_v1.0", &one).await;
    assert_eq!((done.status, &done.json()["rev"]), (200, &json!(one)));
    for label in ["two", "three"] {
        gateway.deploy(&token, &tab(label)).await;
    }
    let newest = gateway.deploy(&token, &tab("four")).await;
    let list = read(&gateway, &token, "/gateway/deployments").await;
    let tags = |entry: &Json| (entry["rev"].clone(), entry["tags"].clone());
    let entries: Vec<_> = list["deployments"]
        .as_array()
        .unwrap()
        .iter()
        .map(tags)
        .collect();
    assert_eq!(entries.len(), 3, "{list}");
    assert_eq!(entries[2], (json!(one), json!(["line-3_v1.0"])));

    let shown = read(
        &gateway,
        &token,
        "/gateway/deployments/line-3_v1.0?flows=true",
    )
    .await;
    assert_eq!((&shown["rev"], &shown["flows"]), (&json!(one), &tab("one")));
    let diff = read(&gateway, &token, "/gateway/diff?from=line-3_v1.0").await;
    assert_eq!(
        (&diff["from"], &diff["to"], &diff["changed"]),
        (&json!(one), &json!(newest), &json!(1))
    );
    let path = "/gateway/deployments/line-3_v1.0/rollback";
    let back = gateway
        .post(path)
        .token(&token)
        .json(&json!({ "rev": newest }))
        .send()
        .await;
    assert_eq!(back.status, 200, "{}", back.text());
    assert_eq!(gateway.flows(&token).await["flows"], tab("one"));

    // The tag goes to another entry; the one without it is forgotten with the next deployment.
    let moved = tag(&gateway, &token, "line-3_v1.0", &back.rev()).await;
    assert_eq!(moved.status, 200);
    gateway.deploy(&token, &tab("five")).await;
    let gone = gateway
        .get(&format!("/gateway/deployments/{one}"))
        .token(&token);
    assert_eq!(gone.send().await.status, 404);
    let tags = read(&gateway, &token, "/gateway/tags").await;
    assert_eq!(tags["tags"]["line-3_v1.0"]["rev"], json!(back.rev()));
    let path = "/gateway/tags/line-3_v1.0";
    for status in [204, 404] {
        let removed = gateway.request("DELETE", path).token(&token).send().await;
        assert_eq!(removed.status, status);
    }
    assert_eq!(
        read(&gateway, &token, "/gateway/tags").await,
        json!({ "tags": {} })
    );
    let audit = gateway.audit().into_iter();
    let writes = audit.filter(|line| line["event"] == "admin.write" && line["path"] == path);
    assert!(writes.count() >= 1);
}

#[tokio::test]
async fn a_tag_needs_a_plain_name_an_entry_and_the_right_to_all_flows() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    let one = gateway.deploy(&token, &tab("one")).await;
    for name in ["a%20b", &"x".repeat(65), "%C3%A4", "a+b"] {
        let refused = tag(&gateway, &token, name, &one).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (400, "invalid_request"),
            "{name}"
        );
    }
    let unknown = tag(&gateway, &token, "a", "none").await;
    assert_eq!(
        (unknown.status, unknown.code().as_str()),
        (404, "not_found")
    );
    let empty = gateway
        .post("/gateway/tags/a")
        .token(&token)
        .json(&json!({}));
    let empty = empty.send().await;
    assert_eq!(
        (empty.status, empty.code().as_str()),
        (400, "invalid_request")
    );
    let reader = gateway.sign_in("reader").await;
    assert_eq!(tag(&gateway, &reader, "a", &one).await.status, 401);
    assert_eq!(
        read(&gateway, &reader, "/gateway/tags").await,
        json!({ "tags": {} })
    );
    // A revision wins over a tag that has its name.
    let two = gateway.deploy(&token, &tab("two")).await;
    assert_eq!(tag(&gateway, &token, &one, &two).await.status, 200);
    let path = format!("/gateway/deployments/{one}");
    assert_eq!(read(&gateway, &token, &path).await["rev"], json!(one));
}
