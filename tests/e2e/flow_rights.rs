//! Rights to single flows, in front of flowgate's own engine and of an upstream: a user changes
//! what is on the flows that the user holds, by whatever way, and nothing else.

use crate::client::PASSWORD;
use crate::harness::hash;
use crate::policies::{Case, cases, refusal};
use serde_json::{Value as Json, json};

/// `admin`, and `ann`, who holds the flows whose label begins with `Line 3`.
fn users() -> String {
    let hash = hash(PASSWORD);
    let user = |name: &str, permissions: &str| {
        format!(
            "[[auth.user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\npermissions = {permissions}\n"
        )
    };
    user("admin", r#"["*"]"#) + &user("ann", r#"["read", "flows.write:Line?3*"]"#)
}

/// Two lines; each node uses the broker of its line, and both are instances of one subflow.
fn two_lines() -> Json {
    json!([
        { "id": "tab3", "type": "tab", "label": "Line 3" },
        { "id": "tab4", "type": "tab", "label": "Line 4" },
        { "id": "sub", "type": "subflow", "name": "both" },
        { "id": "broker3", "type": "mqtt-broker", "broker": "a" },
        { "id": "broker4", "type": "mqtt-broker", "broker": "b" },
        { "id": "node3", "type": "comment", "z": "tab3", "x": 1, "y": 1, "uses": "broker3", "wires": [] },
        { "id": "node4", "type": "comment", "z": "tab4", "x": 1, "y": 1, "uses": "broker4", "wires": [] },
        { "id": "both3", "type": "subflow:sub", "z": "tab3", "x": 1, "y": 2, "wires": [] },
        { "id": "both4", "type": "subflow:sub", "z": "tab4", "x": 1, "y": 2, "wires": [] },
    ])
}

/// The flows with a property of one element changed.
fn changed(id: &str, key: &str, value: &str) -> Json {
    let mut flows = two_lines();
    let elements = flows.as_array_mut().unwrap().iter_mut();
    let element = elements.into_iter().find(|element| element["id"] == id);
    element.unwrap()[key] = value.into();
    flows
}

async fn deployed(lines: &str) -> [Case; 2] {
    let cases = cases(&(lines.to_owned() + &users())).await;
    for case in &cases {
        let token = case.gateway.sign_in("admin").await;
        case.gateway.deploy(&token, &two_lines()).await;
    }
    cases
}

#[tokio::test]
async fn a_user_changes_what_is_on_own_flows_and_nothing_else() {
    for case in deployed("").await {
        let gateway = &case.gateway;
        let token = gateway.sign_in("ann").await;
        for (id, key, allowed) in [
            ("node3", "name", true),
            ("tab3", "info", true),
            ("broker3", "broker", true),
            ("node4", "name", false),
            ("tab4", "label", false),
            ("broker4", "broker", false),
            ("sub", "name", false),
            // The label is why the flow is held.
            ("tab3", "label", false),
        ] {
            for kind in ["nodes", "flows"] {
                let flows = changed(id, key, "another");
                let request = gateway.deployment(&token, &flows, None);
                let answer = request.header("Service-Deployment-Type", kind).send().await;
                if allowed {
                    assert_eq!(answer.status, 200, "{id} {key}: {}", answer.text());
                } else {
                    let (status, code, message) = refusal(&answer);
                    assert_eq!((status, code.as_str()), (403, "policy_refused"), "{id}");
                    assert!(
                        message.contains("flows.write:FLOW: ") && message.contains(id),
                        "{message}"
                    );
                }
                let admin = gateway.sign_in("admin").await;
                assert_eq!(gateway.flows(&admin).await["flows"] == flows, allowed);
                gateway.deploy_as("nodes", &admin, &two_lines()).await;
            }
        }
    }
}

#[tokio::test]
async fn the_ways_that_change_or_restart_flows_of_others_are_refused() {
    for case in deployed("").await {
        let gateway = &case.gateway;
        let token = gateway.sign_in("ann").await;
        let flow = json!({ "label": "Line 3 more", "nodes": [] });
        let v1 = gateway.post("/flows").token(&token).json(&json!([]));
        let reload = gateway.deployment(&token, &two_lines(), None);
        for request in [
            v1,
            gateway
                .deployment(&token, &json!([]), None)
                .header("Service-Deployment-Type", "nodes"),
            reload.header("Service-Deployment-Type", "reload"),
            gateway
                .post("/flow")
                .token(&token)
                .json(&json!({ "label": "Line 4", "nodes": [] })),
            gateway
                .request("PUT", "/flow/tab4")
                .token(&token)
                .json(&flow),
            gateway
                .request("PUT", "/flow/global")
                .token(&token)
                .json(&json!({})),
            gateway.request("DELETE", "/flow/tab4").token(&token),
        ] {
            let answer = request.send().await;
            assert_eq!(answer.status, 403, "{}", answer.text());
        }
        // All flows start and stop together.
        let stop = gateway.post("/flows/state").token(&token);
        assert_eq!(
            stop.json(&json!({ "state": "stop" })).send().await.status,
            401
        );
        assert_eq!(gateway.flows(&token).await["flows"], two_lines());

        let own = gateway.post("/flow").token(&token).json(&flow).send().await;
        assert!([200, 204].contains(&own.status), "{}", own.text());
        let own = gateway
            .request("DELETE", "/flow/tab3")
            .token(&token)
            .send()
            .await;
        assert!([200, 204].contains(&own.status), "{}", own.text());
    }
}

#[tokio::test]
async fn the_editor_of_such_a_user_gets_a_deploy_button_and_a_dry_run_a_verdict() {
    for case in deployed("").await {
        let gateway = &case.gateway;
        let token = gateway.sign_in("ann").await;
        let check = |flows: Json| {
            let request = gateway.post("/gateway/check").token(&token);
            let request = request.header("Service-Deployment-Type", "flows");
            request.json(&flows).send()
        };
        assert_eq!(
            check(changed("node3", "name", "x")).await.json()["allowed"],
            true
        );
        let refused = check(changed("node4", "name", "x")).await.json();
        assert_eq!(
            (
                &refused["violations"][0]["rule"],
                &refused["violations"][0]["nodes"]
            ),
            (&json!("flows"), &json!(["node4"]))
        );
    }
    let [case, _] = deployed("").await;
    let token = case.gateway.sign_in("ann").await;
    let settings = case.gateway.get("/settings").token(&token).send().await;
    let shown = &settings.json()["user"]["permissions"];
    assert_eq!(
        *shown,
        json!(["read", "flows.write:Line?3*", "flows.write"])
    );
}

#[tokio::test]
async fn a_reload_of_the_configuration_takes_a_right_away() {
    let [case, _] = deployed("").await;
    let gateway = &case.gateway;
    let token = gateway.sign_in("ann").await;
    assert!(gateway.reload(&users().replace("Line?3*", "Line?4*")).await);
    let deploy = |id| {
        let request = gateway.deployment(&token, &changed(id, "name", "x"), None);
        request.header("Service-Deployment-Type", "nodes").send()
    };
    assert_eq!(deploy("node3").await.status, 403);
    assert_eq!(deploy("node4").await.status, 200);
}
