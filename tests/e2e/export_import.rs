//! A flow set goes from one gateway to another as a file.

use crate::client::Answer;
use crate::harness::Gateway;
use crate::mock_upstream::{Action, MockUpstream, ok};
use serde_json::{Value as Json, json};

fn flows() -> Json {
    json!([
        { "id": "A", "type": "tab", "label": "Line" },
        { "id": "n", "type": "mqtt-broker", "broker": "localhost", "port": "1",
          "credentials": { "user": "u", "password": "hunter2" } },
    ])
}

async fn export(gateway: &Gateway, token: &str, rev: &str) -> Json {
    let path = format!("/gateway/export/{rev}");
    let answer = gateway.get(&path).token(token).send().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

async fn import(gateway: &Gateway, token: &str, rev: &str, file: &Json) -> Answer {
    let path = format!("/gateway/import?rev={rev}");
    gateway.post(&path).token(token).json(file).send().await
}

async fn active_rev(gateway: &Gateway, token: &str) -> String {
    let request = gateway.get("/flows").token(token);
    let answer = request.header("Service-API-Version", "v2").send().await;
    answer.rev()
}

#[tokio::test]
async fn an_exported_flow_set_is_deployed_elsewhere_and_its_entry_says_where_it_came_from() {
    let (from, to) = (Gateway::start(), Gateway::start());
    let (reader, token) = (from.sign_in("reader").await, to.sign_in("deployer").await);
    let admin = from.sign_in("admin").await;
    let rev = from.deploy(&admin, &flows()).await;
    let tagged = from.post("/gateway/tags/v1").token(&admin);
    assert_eq!(tagged.json(&json!({ "rev": rev })).send().await.status, 200);
    let file = export(&from, &reader, "v1").await;
    assert!(!file.to_string().contains("hunter2"), "{file}");
    let parts = [
        "flowgate_export",
        "rev",
        "runtime",
        "user",
        "without_credentials",
    ];
    let parts = parts.map(|name| file[name].clone());
    assert_eq!(
        parts,
        [
            json!(1),
            json!(rev),
            json!("engine"),
            json!("admin"),
            json!(["n"])
        ]
    );

    let active = active_rev(&to, &token).await;
    let done = import(&to, &token, &active, &file).await;
    assert_eq!(done.status, 200, "{}", done.text());
    assert_eq!(done.json()["without_credentials"], json!(["n"]));
    assert_eq!(to.flows(&token).await["flows"], file["flows"]);
    let stale = import(&to, &token, &active, &file).await;
    assert_eq!(
        (stale.status, stale.code().as_str()),
        (409, "version_mismatch")
    );

    // Credentials that are there stay, and are not missing.
    to.deploy(&token, &flows()).await;
    let path = format!("/gateway/import?rev={}", active_rev(&to, &token).await);
    let again = to
        .post(&path)
        .token(&token)
        .header("Flowgate-Message", "again");
    let again = again.json(&file).send().await;
    assert_eq!(
        again.json()["without_credentials"],
        json!([]),
        "{}",
        again.text()
    );
    let list = to
        .get("/gateway/deployments")
        .token(&token)
        .send()
        .await
        .json();
    let entries = list["deployments"].as_array().unwrap();
    assert_eq!(
        entries[0]["message"],
        format!("again (import of {rev} from engine)")
    );
    assert_eq!(
        entries[2]["message"],
        format!("import of {rev} from engine")
    );
    assert_eq!(entries[2]["user"], "deployer");
    let audit = to.audit().into_iter();
    let mut deployed = audit.filter(|line| line["event"] == "flows.deploy");
    assert!(
        deployed.next_back().unwrap()["message"]
            .as_str()
            .unwrap()
            .starts_with("again")
    );
}

#[tokio::test]
async fn a_file_that_is_no_export_changes_nothing() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    let rev = gateway.deploy(&token, &flows()).await;
    let file = export(&gateway, &token, &rev).await;
    let without = |key: &str| {
        let mut file = file.clone();
        file.as_object_mut().unwrap().remove(key);
        file
    };
    let with = |key: &str, value: Json| {
        let mut file = file.clone();
        file[key] = value;
        file
    };
    for (file, reason) in [
        (without("flows"), "\"flows\" is missing"),
        (
            without("flowgate_export"),
            "missing field `flowgate_export`",
        ),
        (
            with("flowgate_export", json!(2)),
            "flowgate_export must be 1",
        ),
        (with("runtime", json!("a\nb")), "without control characters"),
        (
            with("flows", flows()),
            "a file to import has no credentials",
        ),
    ] {
        let refused = import(&gateway, &token, &rev, &file).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (400, "invalid_request")
        );
        let message = refused.json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains(reason), "{message}");
    }
    let request = gateway.post("/gateway/import").token(&token);
    assert_eq!(request.json(&file).send().await.status, 400);
    let reader = gateway.sign_in("reader").await;
    assert_eq!(import(&gateway, &reader, &rev, &file).await.status, 401);
    let unknown = gateway.get("/gateway/export/x").token(&reader).send().await;
    assert_eq!(
        (unknown.status, unknown.code().as_str()),
        (404, "not_found")
    );
    assert_eq!(active_rev(&gateway, &token).await, rev);
}

#[tokio::test]
async fn an_import_in_front_of_an_upstream_is_a_forwarded_deployment() {
    let behind = MockUpstream::start(|request| {
        let rev = if request.starts_with("POST") {
            "2"
        } else {
            "1"
        };
        let body = json!({ "flows": [], "rev": rev }).to_string();
        Action::Respond(ok("application/json", &body))
    })
    .await;
    let (from, to) = (Gateway::start(), Gateway::with(&behind.config()));
    let (token, there) = (from.sign_in("admin").await, to.sign_in("admin").await);
    let rev = from.deploy(&token, &flows()).await;
    let file = export(&from, &token, &rev).await;
    behind.take();
    let done = import(&to, &there, "1", &file).await;
    let expected = json!({ "rev": "2", "without_credentials": ["n"] });
    assert_eq!((done.status, done.json()), (200, expected));
    let sent = behind.take().into_iter().map(|received| received.bytes);
    let posts: Vec<String> = sent.filter(|bytes| bytes.starts_with("POST")).collect();
    let body = json!({ "flows": file["flows"], "rev": "1" }).to_string();
    assert!(posts.len() == 1 && posts[0].ends_with(&body), "{posts:?}");
}
