//! Flow files: edited externally, broken, taken over from Node-RED.

use crate::harness::{Gateway, flow_set, page, public};
use serde_json::{Value as Json, json};
use std::fs;

fn write(gateway: &Gateway, flows: &str) {
    fs::write(gateway.data("flows.json"), flows).unwrap();
}

async fn reload(gateway: &Gateway, token: &str) -> (u16, String) {
    let request = gateway
        .post("/flows")
        .token(token)
        .header("Service-Deployment-Type", "reload");
    let answer = request.send().await;
    (answer.status, answer.code())
}

fn events(gateway: &Gateway, name: &str) -> usize {
    gateway
        .audit()
        .iter()
        .filter(|line| line["event"] == name)
        .count()
}

#[tokio::test]
async fn a_reload_applies_external_edits() {
    let gateway = Gateway::with(&public(&["/a"]));
    let token = gateway.sign_in("admin").await;
    gateway
        .deploy(&token, &flow_set(&[page("a", "/a", "before")]))
        .await;
    write(
        &gateway,
        &flow_set(&[page("a", "/a", "edited")]).to_string(),
    );
    assert_eq!(gateway.get("/a").send().await.text(), "before");
    assert_eq!(reload(&gateway, &token).await, (204, String::new()));
    assert_eq!(gateway.get("/a").send().await.text(), "edited");
    let active = gateway.get("/flows").token(&token).send().await.json();
    assert_eq!(active, flow_set(&[page("a", "/a", "edited")]));
}

#[tokio::test]
async fn a_deployment_over_an_external_edit_keeps_it_in_the_history_and_logs_it() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    let flows = flow_set(&[page("a", "/a", "deployed")]);
    gateway.deploy(&token, &flows).await;

    write(&gateway, &serde_json::to_string_pretty(&flows).unwrap());
    gateway.deploy(&token, &flows).await;
    assert_eq!(
        events(&gateway, "flows.outside_edit"),
        0,
        "another formatting is no edit"
    );

    let edit = flow_set(&[page("a", "/a", "edited")]);
    write(&gateway, &edit.to_string());
    gateway.deploy(&token, &flows).await;
    assert_eq!(events(&gateway, "flows.outside_edit"), 1);
    let history = gateway.running.gateway().store.history().await.unwrap();
    let kinds: Vec<_> = history
        .iter()
        .map(|revision| revision.kind.as_str())
        .collect();
    assert_eq!(kinds[..2], ["full", "outside-edit"]);
    assert_eq!(
        gateway.get("/flows").token(&token).send().await.json(),
        flows
    );
}

#[tokio::test]
async fn broken_flow_files_are_reported_and_the_running_flows_continue() {
    let gateway = Gateway::with(&public(&["/a"]));
    let token = gateway.sign_in("admin").await;
    let rev = gateway
        .deploy(&token, &flow_set(&[page("a", "/a", "works")]))
        .await;
    for broken in ["", "[{", "{}", r#"[{"id":"a"}]"#, "[null]"] {
        write(&gateway, broken);
        assert_eq!(
            reload(&gateway, &token).await,
            (500, "storage_invalid".into()),
            "{broken}"
        );
        assert_eq!(gateway.get("/a").send().await.text(), "works");
        assert_eq!(gateway.flows(&token).await["rev"], *rev);
        assert_eq!(
            fs::read_to_string(gateway.data("flows.json")).unwrap(),
            broken,
            "untouched"
        );
    }
}

#[tokio::test]
async fn with_broken_files_the_gateway_starts_without_flows_and_the_next_deployment_sets_them_aside()
 {
    let gateway = Gateway::with(&public(&["/a"]));
    let token = gateway.sign_in("admin").await;
    gateway
        .deploy(&token, &flow_set(&[page("a", "/a", "works")]))
        .await;
    write(&gateway, "[{ broken");
    let gateway = gateway.restart().await;
    assert_eq!(
        gateway.get("/flows").token(&token).send().await.json(),
        json!([])
    );
    assert_eq!(
        fs::read_to_string(gateway.data("flows.json")).unwrap(),
        "[{ broken"
    );
    gateway
        .deploy(&token, &flow_set(&[page("a", "/a", "again")]))
        .await;
    assert_eq!(gateway.get("/a").send().await.text(), "again");
    let names = fs::read_dir(gateway.data(""))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let aside = names.filter(|path| path.to_string_lossy().contains("flows.json.broken"));
    let texts: Vec<_> = aside
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    assert_eq!(texts, ["[{ broken"]);
}

#[tokio::test]
async fn existing_flow_files_run_at_the_first_start() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("data")).unwrap();
    let flows = flow_set(&[page("a", "/a", "was there")]);
    fs::write(directory.path().join("data/flows.json"), flows.to_string()).unwrap();
    let gateway = Gateway::open(&public(&["/a"]), directory);
    assert_eq!(gateway.get("/a").send().await.text(), "was there");
    let token = gateway.sign_in("admin").await;
    let rev = gateway.flows(&token).await["rev"].clone();
    let gateway = gateway.restart().await;
    assert_eq!(gateway.flows(&token).await["rev"], rev);
}

#[tokio::test]
async fn an_edit_while_the_gateway_is_stopped_is_a_new_revision() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    let rev = gateway
        .deploy(&token, &flow_set(&[page("a", "/a", "a")]))
        .await;
    let edit: Json = flow_set(&[page("b", "/b", "b")]);
    write(&gateway, &edit.to_string());
    let gateway = gateway.restart().await;
    let active = gateway.flows(&token).await;
    assert_eq!(active["flows"], edit);
    assert_ne!(active["rev"], *rev);
}
