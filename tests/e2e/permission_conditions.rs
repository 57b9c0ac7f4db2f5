//! Permissions under a condition: a recent second factor (`step_up`), or a network (`permission_networks`).

use crate::client::PASSWORD;
use crate::harness::{Gateway, flow_set, page, until};
use crate::second_factor::{code, lines};
use serde_json::json;

#[tokio::test]
async fn a_permission_is_used_from_its_networks_only_and_all_others_from_everywhere() {
    for name in ["flows.write", "write"] {
        let lines = format!("[auth.permission_networks]\n\"{name}\" = [\"127.0.0.1\"]");
        let gateway = Gateway::with(&lines);
        for user in ["admin", "deployer"] {
            let token = gateway.sign_in(user).await;
            gateway
                .deploy(&token, &flow_set(&[page("a", "/a", user)]))
                .await;
            let flows = gateway.get("/flows").token(&token).from("127.0.0.2");
            assert_eq!(flows.send().await.status, 200);
            let deploy = gateway.deployment(&token, &json!([]), None);
            let answer = deploy.from("127.0.0.2").send().await;
            assert_eq!(
                (answer.status, answer.code()),
                (403, "network_not_allowed".into())
            );
            let verify = gateway
                .get("/gateway/verify?permission=flows.write")
                .token(&token);
            let answer = verify.from("127.0.0.2").send().await;
            assert_eq!(
                (answer.status, answer.code()),
                (403, "network_not_allowed".into())
            );
        }
        // Who does not have the permission is refused for that.
        let reader = gateway.sign_in("reader").await;
        let deploy = gateway.deployment(&reader, &json!([]), None);
        assert_eq!(deploy.from("127.0.0.2").send().await.status, 401);
        assert!(gateway.reload("").await);
        let token = gateway.sign_in("deployer").await;
        let deploy = gateway.deployment(&token, &json!([]), None);
        assert_eq!(deploy.from("127.0.0.2").send().await.status, 200);
    }
}

#[tokio::test]
async fn a_stolen_session_deploys_only_until_its_second_factor_is_old() {
    let step_up = "[auth]\nstep_up = [\"flows.write\"]\nstep_up_after = \"3s\"";
    let gateway = Gateway::with(&format!("{}{step_up}", lines()));
    let sign_in = async |steps: i64| {
        let password = format!("{PASSWORD}{}", code(steps));
        let answer = gateway.sign_in_request("ann", &password, "").send().await;
        answer.json()["access_token"].as_str().unwrap().to_owned()
    };
    let deploy = async |token: &str| gateway.deployment(token, &json!([]), None).send().await;
    let token = sign_in(0).await;
    assert_eq!(deploy(&token).await.status, 200);
    until("the second factor is too old", async || {
        deploy(&token).await.status == 403
    })
    .await;
    let refused = deploy(&token).await;
    assert_eq!(refused.code(), "second_factor_required");
    assert!(
        refused.text().contains("sign in again with a code"),
        "{}",
        refused.text()
    );
    assert_eq!(gateway.get("/flows").token(&token).send().await.status, 200);
    until("the refusal is recorded", async || {
        let mut records = gateway.audit().into_iter();
        records
            .any(|record| record["reason"] == "second_factor" && record["needs"] == "flows.write")
    })
    .await;
    let token = sign_in(1).await;
    assert_eq!(deploy(&token).await.status, 200);
}

#[tokio::test]
async fn without_a_second_factor_such_a_permission_cannot_be_used_and_four_eyes_hold() {
    let gateway = Gateway::with("[auth]\nstep_up = [\"flows.state.write\", \"flows.write\"]");
    for user in ["admin", "deployer"] {
        let token = gateway.sign_in(user).await;
        let refused = gateway.deployment(&token, &json!([]), None).send().await;
        assert_eq!(
            (refused.status, refused.code()),
            (403, "second_factor_required".into())
        );
        assert!(refused.text().contains("has none"), "{}", refused.text());
    }
    // The stock editor shows the body as it is.
    let form = [
        ("client_id", "node-red-editor"),
        ("grant_type", "password"),
        ("scope", ""),
        ("username", "admin"),
        ("password", PASSWORD),
    ];
    let answer = gateway.post("/auth/token").form(&form).send().await.json();
    let editor = answer["access_token"].as_str().unwrap().to_owned();
    let refused = gateway.deployment(&editor, &json!([]), None).send().await;
    assert_eq!(refused.header("content-type"), "text/plain; charset=utf-8");
    assert!(refused.text().starts_with("this needs a second factor"));

    // A withheld approval is none: the change waits for another user.
    let lines = "[auth]\nstep_up = [\"flows.approve\"]\n[policy]\napprove = [\"*\"]";
    let gateway = Gateway::with(lines);
    let token = gateway.sign_in("admin").await;
    let flows = flow_set(&[page("a", "/a", "one")]);
    let waiting = gateway.deployment(&token, &flows, None).send().await;
    assert_eq!(waiting.status, 202, "{}", waiting.text());
    let approve = gateway.post("/gateway/proposals/1/approve").token(&token);
    let refused = approve.json(&json!({})).send().await;
    assert_eq!(
        (refused.status, refused.code()),
        (403, "second_factor_required".into())
    );
}
