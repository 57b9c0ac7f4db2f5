//! `networks` of users, service tokens and routes: from where they may be used.

use crate::client::PASSWORD;
use crate::harness::{Gateway, hash, program, until};
use crate::tunnel::open;
use futures_util::StreamExt;
use serde_json::{Value as Json, json};

fn user(networks: &str) -> String {
    let hash = hash(PASSWORD);
    let user = |name: &str, rest: &str| {
        format!(
            "[[auth.user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\npermissions = [\"*\"]\n{rest}\n"
        )
    };
    user("near", networks) + &user("admin", "")
}

const HERE: &str = "networks = [\"127.0.0.1\", \"::1\"]";

/// The first records of an event: users and reasons.
async fn reasons(gateway: &Gateway, event: &str, count: usize) -> Vec<Json> {
    let mut found = Vec::new();
    until("the records are written", async || {
        let audit = gateway.audit().into_iter();
        let of_event = audit.filter(|record| record["event"] == event);
        found = of_event
            .map(|record| json!([record["user"], record["reason"]]))
            .collect();
        found.len() >= count
    })
    .await;
    found
}

#[tokio::test]
async fn a_user_acts_and_signs_in_from_their_networks_only() {
    let gateway = Gateway::with(&user(HERE));
    let token = gateway.sign_in("near").await;
    let flows = || gateway.get("/flows").token(&token);
    assert_eq!(flows().send().await.status, 200);
    let answer = flows().from("127.0.0.2").send().await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (403, "network_not_allowed")
    );
    let revoked = gateway
        .post("/auth/revoke")
        .token(&token)
        .form(&[("token", "x")]);
    assert_eq!(revoked.from("127.0.0.2").send().await.status, 403);

    let right = gateway
        .sign_in_request("near", PASSWORD, "")
        .from("127.0.0.2")
        .send()
        .await;
    let wrong = gateway
        .sign_in_request("near", "wrong", "")
        .from("127.0.0.2")
        .send()
        .await;
    assert_eq!((right.status, right.text()), (wrong.status, wrong.text()));
    assert_eq!(
        (right.status, right.code().as_str()),
        (400, "invalid_grant")
    );
    let other = gateway
        .sign_in_request("admin", PASSWORD, "")
        .from("127.0.0.2")
        .send()
        .await;
    assert_eq!(other.status, 200);
    assert_eq!(
        reasons(&gateway, "permission.denied", 1).await[0],
        json!(["near", "network"])
    );
    assert_eq!(
        reasons(&gateway, "auth.login.fail.credentials", 2).await,
        [json!(["near", "network"]), json!(["near", null])]
    );
}

#[tokio::test]
async fn a_right_password_from_elsewhere_is_throttled_like_a_wrong_one() {
    let gateway = Gateway::with(&format!(
        "{}[auth.throttle]\nper_user_and_address = 2\n",
        user(HERE)
    ));
    for status in [400, 400, 429] {
        let answer = gateway
            .sign_in_request("near", PASSWORD, "")
            .from("127.0.0.2")
            .send()
            .await;
        assert_eq!(answer.status, status);
    }
    gateway.sign_in("near").await;
}

#[tokio::test]
async fn behind_a_trusted_proxy_the_address_of_the_client_counts_and_no_other_can_forge_it() {
    let lines = format!(
        "{}[server]\ntrusted_proxies = [\"127.0.0.9\"]\n",
        user("networks = [\"10.0.0.0/8\"]")
    );
    let gateway = Gateway::with(&lines);
    let sign_in = |from: &str, client: &str| {
        let form = gateway.sign_in_request("near", PASSWORD, "");
        form.from(from).header("X-Forwarded-For", client)
    };
    let answer = sign_in("127.0.0.9", "10.1.2.3").send().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let token = answer.json()["access_token"].as_str().unwrap().to_owned();
    for (from, client, status) in [
        ("127.0.0.9", "10.9.9.9", 200),
        ("127.0.0.9", "11.0.0.1", 403),
        ("127.0.0.9", "10.9.9.9, 11.0.0.1", 403),
        ("127.0.0.1", "10.9.9.9", 403),
    ] {
        let request = gateway.get("/flows").token(&token).from(from);
        let answer = request.header("X-Forwarded-For", client).send().await;
        assert_eq!(answer.status, status, "{client} by {from}");
    }
    assert_eq!(sign_in("127.0.0.1", "10.1.2.3").send().await.status, 400);
}

#[tokio::test]
async fn a_service_token_has_networks_that_outlive_a_restart() {
    let gateway = Gateway::start();
    let run = |line: &str| {
        let arguments: Vec<&str> = line.split(' ').collect();
        let mut command = program(gateway.directory.path(), &arguments);
        let output = command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        let output = output.output().unwrap();
        (
            output.status.success(),
            String::from_utf8([output.stdout, output.stderr].concat()).unwrap(),
        )
    };
    let (refused, reason) = run("token create --name x --permission read --network 127.0.0.1/8");
    assert!(!refused && reason.contains("is no network"), "{reason}");
    let (made, token) =
        run("token create --name ci --permission read --network 127.0.0.1 --network ::1");
    assert!(made, "{token}");
    let token = token.trim().to_owned();
    let gateway = gateway.restart().await;
    for (from, status) in [("127.0.0.1", 200), ("127.0.0.2", 403)] {
        let answer = gateway.get("/flows").token(&token).from(from).send().await;
        assert_eq!(answer.status, status);
    }
    assert_eq!(
        reasons(&gateway, "permission.denied", 1).await,
        [json!(["token:ci", "network"])]
    );
}

#[tokio::test]
async fn a_route_has_networks_for_public_and_other_requests() {
    let route = |path: &str, rest: &str| format!("[[route]]\npath = \"{path}\"\n{rest}\n{HERE}\n");
    let lines = route("/open", "public = true") + &route("/closed", "permission = \"read\"");
    let gateway = Gateway::with(&lines);
    let token = gateway.sign_in("admin").await;
    for path in ["/open", "/closed"] {
        for (from, status) in [("127.0.0.1", 404), ("127.0.0.2", 403)] {
            let answer = gateway.get(path).token(&token).from(from).send().await;
            assert_eq!(answer.status, status, "{path}");
        }
    }
    assert_eq!(
        gateway
            .get("/flows")
            .token(&token)
            .from("127.0.0.2")
            .send()
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn a_reload_that_takes_the_network_ends_what_is_open() {
    let gateway = Gateway::with(&user(HERE));
    let token = gateway.sign_in("near").await;
    let flows = json!([
        { "id": "t", "type": "tab", "label": "T" },
        { "id": "l", "type": "websocket-listener", "path": "/ws", "wholemsg": "false" },
        { "id": "in", "type": "websocket in", "z": "t", "x": 1, "y": 1, "server": "l", "client": "", "wires": [[]] },
    ]);
    gateway.deploy(&token, &flows).await;
    let authorization = format!("Bearer {token}");
    let headers = [("Authorization", authorization.as_str())];
    let mut socket = open(&gateway, "/ws", &headers).await.unwrap();
    let mut channel = gateway.editor(&token).await;
    assert!(gateway.reload(&user("networks = [\"10.0.0.0/8\"]")).await);
    assert!(socket.next().await.unwrap().unwrap().is_close());
    channel.is_rejected().await;
    assert_eq!(gateway.get("/flows").token(&token).send().await.status, 403);
    let mut channel = gateway.comms().await;
    channel.send(&json!({ "auth": token })).await;
    channel.is_rejected().await;
    assert!(gateway.reload(&user("")).await);
    assert_eq!(gateway.get("/flows").token(&token).send().await.status, 200);
}
