//! Permissions under a condition: a recent second factor (`step_up`), or a network
//! (`permission_networks`).

use crate::client::PASSWORD;
use crate::harness::{Gateway, flow_set, page, until};
use crate::oidc_provider::{OidcProvider, SsoBrowser};
use crate::second_factor::{code, lines};
use serde_json::{Value as Json, json};

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

/// Two lines that share a broker, one that has its own, and a text in each.
fn plant(texts: [&str; 3], broker: &str) -> Json {
    let mut flows = vec![json!({ "id": "broker", "type": "mqtt-broker", "broker": broker })];
    for (number, text) in (1..).zip(texts) {
        let (tab, uses) = (
            format!("line{number}"),
            if number < 3 { "broker" } else { "" },
        );
        flows.push(json!({ "id": tab, "type": "tab", "label": format!("Line {number}"), "disabled": true }));
        flows.push(json!({ "id": format!("n{number}"), "type": "comment", "z": tab, "name": text, "uses": uses, "x": 1, "y": 1, "wires": [] }));
    }
    flows.into()
}

#[tokio::test]
async fn a_second_factor_is_needed_for_some_flows_and_for_what_they_share() {
    let users = lines()
        .replace("totp_secret", "#")
        .replace("recovery_codes", "#");
    let step_up =
        "[auth]\nstep_up = [\"flows.write:Line?1\"]\n[auth.throttle]\nper_address = 1000\n";
    let users = users.split("[auth.throttle]").next().unwrap().to_owned();
    let first = Gateway::with(&users);
    let token = first.sign_in("ann").await;
    let before = plant(["one", "two", "three"], "a");
    first.deploy(&token, &before).await;

    let second_factor = lines();
    let second_factor = second_factor.split("[auth.throttle]").next().unwrap();
    for with_factor in [false, true] {
        let users = if with_factor {
            second_factor
        } else {
            users.as_str()
        };
        assert!(first.reload(&format!("{users}{step_up}")).await);
        let password = if with_factor {
            format!("{PASSWORD}{}", code(0))
        } else {
            PASSWORD.to_owned()
        };
        let signed_in = first.sign_in_request("ann", &password, "").send().await;
        let token = signed_in.json()["access_token"]
            .as_str()
            .unwrap()
            .to_owned();
        for (flows, is_withheld) in [
            (plant(["ONE", "two", "three"], "a"), true),
            (plant(["one", "two", "three"], "B"), true),
            (plant(["one", "TWO", "three"], "a"), false),
            (plant(["one", "two", "THREE"], "a"), false),
        ] {
            let answer = first.deployment(&token, &flows, None).send().await;
            if is_withheld && !with_factor {
                let refused = (answer.status, answer.code());
                assert_eq!(refused, (403, "second_factor_required".into()), "{flows}");
            } else {
                assert_eq!(answer.status, 200, "{}", answer.text());
            }
        }
        let state = first.post("/flows/state").token(&token);
        let stopped = state.json(&json!({ "state": "stop" })).send().await;
        let verify = first
            .get("/gateway/verify?permission=flows.write:Line_1")
            .token(&token);
        let verified = verify.send().await.status;
        if with_factor {
            assert_eq!((stopped.status, verified), (200, 200), "{}", stopped.text());
        } else {
            assert_eq!(stopped.code(), "second_factor_required", "it is about all");
            assert_eq!(verified, 403);
        }
    }
}

#[tokio::test]
async fn a_second_factor_that_a_provider_shows_counts_and_an_old_one_does_not() {
    let table = "second_factor = [\"mfa\"]\nacr_values = [\"urn:two\"]";
    let step_up = "[auth]\nstep_up = [\"flows.write\"]\n";
    let (mut provider, gateway) = OidcProvider::gateway_with(table, step_up);
    provider.tell("groups ann editors");
    let location = SsoBrowser::new(&gateway)
        .begin("/gateway/sign-in/corp?editor=true")
        .await;
    assert!(
        location.contains("&max_age=900&acr_values=urn%3Atwo"),
        "{location}"
    );
    for (factor, refusal) in [
        ("factor sms 0", Some("has none")),
        ("factor mfa 0", None),
        ("factor mfa 3600", Some("of the last 15 min")),
    ] {
        provider.tell(factor);
        let token = SsoBrowser::new(&gateway).sign_in_as_editor().await;
        let answer = gateway.deployment(&token, &json!([]), None).send().await;
        match refusal {
            None => assert_eq!(answer.status, 200, "{}", answer.text()),
            Some(sentence) => {
                assert_eq!(answer.status, 403, "{factor}");
                assert!(answer.text().contains(sentence), "{}", answer.text());
            }
        }
        let flows = gateway.get("/flows").token(&token).send().await;
        assert_eq!(flows.status, 200);
    }
}
