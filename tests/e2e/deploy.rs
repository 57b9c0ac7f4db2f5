//! Deployments: what is accepted, what is refused and why, and what all clients see afterwards.

use crate::harness::{Gateway, flow_set, page, public};
use serde_json::{Value as Json, json};
use std::time::Duration;

pub fn one_tab(label: &str) -> Json {
    json!([{ "id": "a", "type": "tab", "label": label }])
}

#[tokio::test]
async fn v1_takes_an_array_and_v2_answers_with_the_new_revision() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("deployer").await;
    let answer = gateway
        .post("/flows")
        .token(&token)
        .json(&one_tab("one"))
        .send()
        .await;
    assert_eq!((answer.status, answer.text()), (204, String::new()));
    assert_eq!(
        gateway.get("/flows").token(&token).send().await.json(),
        one_tab("one")
    );

    let first = gateway.flows(&token).await["rev"]
        .as_str()
        .unwrap()
        .to_owned();
    let answer = gateway
        .deployment(&token, &one_tab("two"), Some(&first))
        .send()
        .await;
    let second = answer.rev();
    assert_ne!(first, second);
    let active = json!({ "flows": one_tab("two"), "rev": second });
    assert_eq!(gateway.flows(&token).await, active);
}

#[tokio::test]
async fn a_client_that_has_the_flows_of_an_entity_tag_gets_them_again_when_they_have_changed() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("deployer").await;
    let first = gateway.deploy(&token, &one_tab("one")).await;
    let ask = |tag: &str| {
        let asked = gateway.get("/flows").header("Service-API-Version", "v2");
        asked.token(&token).header("If-None-Match", tag).send()
    };
    let tag = format!("\"{first}\"");
    let known = ask(&tag).await;
    assert_eq!((known.status, known.text()), (304, String::new()));
    assert_eq!(known.header("etag"), tag);
    let second = gateway.deploy(&token, &one_tab("two")).await;
    let changed = ask(&tag).await;
    assert_eq!(changed.status, 200);
    assert_eq!(
        changed.json(),
        json!({ "flows": one_tab("two"), "rev": second })
    );
    let stranger = gateway.get("/flows").header("Service-API-Version", "v2");
    let stranger = stranger
        .header("If-None-Match", &format!("\"{second}\""))
        .send();
    assert_eq!(stranger.await.status, 401);
}

#[tokio::test]
async fn a_revision_that_is_not_the_active_one_is_a_conflict_and_none_overwrites() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("deployer").await;
    let first = gateway.deploy(&token, &one_tab("one")).await;
    let second = gateway.deploy(&token, &one_tab("two")).await;
    let upper = second.to_uppercase();
    for stale in [first.as_str(), "", "unknown", upper.as_str()] {
        let answer = gateway
            .deployment(&token, &one_tab("three"), Some(stale))
            .send()
            .await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (409, "version_mismatch"),
            "{stale}"
        );
        assert!(answer.json()["message"].as_str().unwrap().contains(&second));
    }
    assert_eq!(
        gateway.flows(&token).await,
        json!({ "flows": one_tab("two"), "rev": second })
    );
    gateway.deploy(&token, &one_tab("four")).await;
}

#[tokio::test]
async fn the_revision_changes_with_every_success_and_survives_a_restart() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    let mut revs = vec![
        gateway.flows(&token).await["rev"]
            .as_str()
            .unwrap()
            .to_owned(),
    ];
    for kind in ["full", "nodes", "flows", "reload", "full"] {
        revs.push(gateway.deploy_as(kind, &token, &one_tab("same")).await);
    }
    gateway
        .post("/flows")
        .token(&token)
        .json(&one_tab("same"))
        .send()
        .await;
    revs.push(
        gateway.flows(&token).await["rev"]
            .as_str()
            .unwrap()
            .to_owned(),
    );
    let flow = json!({ "label": "more", "nodes": [] });
    assert_eq!(
        gateway
            .post("/flow")
            .token(&token)
            .json(&flow)
            .send()
            .await
            .status,
        200
    );
    let last = gateway.flows(&token).await["rev"]
        .as_str()
        .unwrap()
        .to_owned();
    revs.push(last.clone());
    let state = gateway
        .post("/flows/state")
        .token(&token)
        .json(&json!({ "state": "stop" }));
    assert_eq!(state.send().await.status, 200);
    assert_eq!(
        gateway.flows(&token).await["rev"],
        *last,
        "stopping is no deployment"
    );

    let count = revs.len();
    revs.sort();
    revs.dedup();
    assert_eq!(revs.len(), count, "a revision came twice");
    let gateway = gateway.restart().await;
    assert_eq!(gateway.flows(&token).await["rev"], *last);
}

#[tokio::test]
async fn unknown_node_types_are_accepted_and_kept_but_nothing_starts() {
    let gateway = Gateway::with(&public(&["/hello"]));
    let token = gateway.sign_in("admin").await;
    let hello = page("a", "/hello", "hello");
    let unknown = vec![
        json!({ "id": "u", "x": 1, "y": 1, "type": "from another palette", "z": "a", "wires": [["gone"]] }),
    ];
    let flows = flow_set(&[hello.clone(), unknown]);
    gateway.deploy(&token, &flows).await;
    assert_eq!(gateway.flows(&token).await["flows"], flows);
    assert_eq!(gateway.get("/hello").send().await.status, 404);
    gateway
        .deploy_as("nodes", &token, &flow_set(&[hello]))
        .await;
    assert_eq!(gateway.get("/hello").send().await.text(), "hello");
}

#[tokio::test]
async fn credentials_are_kept_and_never_returned() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    let broker = |credentials: Json| json!([{ "id": "m", "type": "mqtt-broker", "name": "n", "credentials": credentials }]);
    gateway
        .deploy(
            &token,
            &broker(json!({ "user": "ann", "password": "hidden treasure" })),
        )
        .await;
    let shown = json!({ "user": "ann", "has_password": true });
    for round in ["sent", "kept by another deployment", "kept over a restart"] {
        let path = "/credentials/mqtt-broker/m";
        assert_eq!(
            gateway.get(path).token(&token).send().await.json(),
            shown,
            "{round}"
        );
        for path in ["/flows", "/flow/global"] {
            let text = gateway.get(path).token(&token).send().await.text();
            assert!(
                !text.contains("credentials") && !text.contains("treasure"),
                "{text}"
            );
        }
        gateway
            .deploy(
                &token,
                &broker(json!({ "password": "__PWRD__", "user": "ann" })),
            )
            .await;
    }
    for file in std::fs::read_dir(gateway.data("")).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap_or_default();
        let found = bytes.windows(8).any(|window| window == b"treasure");
        assert!(!found, "in clear in {}", path.display());
    }
    let gateway = gateway.restart().await;
    let kept = gateway
        .get("/credentials/mqtt-broker/m")
        .token(&token)
        .send()
        .await;
    assert_eq!(kept.json(), shown);
}

#[tokio::test]
async fn a_client_that_disconnects_does_not_stop_its_deployment() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    let label = async || gateway.flows(&token).await["flows"][0]["label"].clone();
    // Who leaves before all has arrived has deployed nothing; so each stays a little longer, and
    // none reads an answer.
    let mut stay = Duration::ZERO;
    while label().await == Json::Null {
        assert!(stay < Duration::from_secs(1), "no deployment was finished");
        let body = one_tab("left").to_string();
        let mut raw = gateway.raw().await;
        raw.send(&format!(
            "POST /flows HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await;
        tokio::time::sleep(stay).await;
        drop(raw);
        stay += Duration::from_millis(1);
    }
}

#[tokio::test]
async fn every_deployment_is_in_the_audit_log_with_user_and_address() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("deployer").await;
    let rev = gateway.deploy_as("flows", &token, &one_tab("x")).await;
    let audit = gateway.audit();
    let line = audit
        .iter()
        .find(|line| line["event"] == "flows.deploy")
        .unwrap();
    assert_eq!(line["user"], "deployer");
    assert_eq!(line["address"], "127.0.0.1");
    assert_eq!(
        (&line["type"], &line["rev"]),
        (&json!("flows"), &json!(rev))
    );
    assert!(
        !gateway
            .audit()
            .iter()
            .any(|line| line.to_string().contains(&token))
    );
}
