//! `[[route]] basic = true`: devices that send user and password with each request.

use crate::client::{Client, PASSWORD, Request};
use crate::harness::{Gateway, flow_set, hash, script, until};
use crate::tunnel::open;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt;
use serde_json::json;

const ROUTE: &str =
    "[[route]]\npath = \"/device\"\nprefix = true\npermission = \"read\"\nbasic = true\n";

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

fn device(client: &Client, user: &str, password: &str) -> Request {
    client
        .get("/device")
        .header("Authorization", &basic(user, password))
}

async fn started(lines: &str) -> Gateway {
    let gateway = Gateway::with(&format!("{ROUTE}{lines}"));
    let token = gateway.sign_in("admin").await;
    let code = "msg.payload = { user: msg.req.user, headers: msg.req.headers }; return msg";
    let mut flows = flow_set(&[
        script("a", "get", "/device", code),
        script("b", "get", "/other", code),
    ]);
    let listener = json!([
        { "id": "t", "type": "tab", "label": "T" },
        { "id": "l", "type": "websocket-listener", "path": "/device/ws", "wholemsg": "false" },
        { "id": "in", "type": "websocket in", "z": "t", "x": 1, "y": 1, "server": "l", "client": "", "wires": [[]] },
    ]);
    flows
        .as_array_mut()
        .unwrap()
        .extend(listener.as_array().unwrap().clone());
    gateway.deploy(&token, &flows).await;
    gateway
}

#[tokio::test]
async fn a_device_signs_in_once_and_the_flow_sees_its_user_but_not_its_password() {
    let gateway = started("").await;
    for _ in 0..5 {
        let answer = device(&gateway, "reader", PASSWORD).send().await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let seen = answer.json();
        assert_eq!(seen["user"]["username"], "reader");
        assert!(seen["headers"].get("authorization").is_none(), "{seen}");
    }
    let audit = gateway.audit();
    let logins = audit
        .iter()
        .filter(|record| record["event"] == "auth.login" && record["client"] == "basic");
    assert_eq!(logins.count(), 1);
    let together = (0..8).map(|_| device(&gateway, "admin", PASSWORD).send());
    for answer in futures_util::future::join_all(together).await {
        assert_eq!(answer.status, 200);
    }
    let admin = gateway.sign_in("admin").await;
    let sessions = gateway
        .get("/gateway/sessions")
        .token(&admin)
        .send()
        .await
        .json();
    let sessions = sessions["sessions"].as_array().unwrap();
    assert_eq!(
        sessions
            .iter()
            .filter(|session| session["client"] == "basic")
            .count(),
        2
    );
}

#[tokio::test]
async fn basic_counts_for_its_routes_only_and_a_challenge_says_so() {
    let gateway = started("").await;
    let answer = gateway.get("/device").send().await;
    let schemes: Vec<_> = answer.headers.get_all("www-authenticate").iter().collect();
    assert_eq!(answer.status, 401);
    assert_eq!(
        schemes,
        [
            "Basic realm=\"flowgate\", charset=\"UTF-8\"",
            "Bearer realm=\"flowgate\""
        ]
    );
    assert_eq!(
        device(&gateway, "reader", PASSWORD).send().await.status,
        200
    );
    let authorization = basic("reader", PASSWORD);
    for path in [
        "/other",
        "/flows",
        "/settings",
        "/gateway/verify",
        "/gateway/sessions",
    ] {
        let answer = gateway
            .get(path)
            .header("Authorization", &authorization)
            .send()
            .await;
        assert_eq!(
            (answer.status, answer.header("www-authenticate")),
            (401, "Bearer realm=\"flowgate\""),
            "{path}"
        );
    }
    let bearer = gateway.sign_in("reader").await;
    assert_eq!(
        gateway.get("/device").token(&bearer).send().await.status,
        200
    );
    let malformed = gateway.get("/device").header("Authorization", "Basic ?");
    assert_eq!(malformed.send().await.status, 400);
    assert_eq!(
        device(&gateway, "deployer", PASSWORD).send().await.status,
        401,
        "the permission is missing"
    );
}

#[tokio::test]
async fn wrong_passwords_are_throttled_and_right_ones_then_too() {
    let gateway = started("[auth.throttle]\nper_user_and_address = 2").await;
    assert_eq!(device(&gateway, "admin", PASSWORD).send().await.status, 200);
    for status in [401, 401, 429] {
        assert_eq!(
            device(&gateway, "reader", "wrong").send().await.status,
            status
        );
    }
    let answer = device(&gateway, "reader", PASSWORD).send().await;
    assert_eq!(
        (answer.status, answer.header("retry-after").is_empty()),
        (429, false)
    );
    assert_eq!(
        device(&gateway, "admin", PASSWORD).send().await.status,
        200,
        "others are not affected"
    );
}

#[tokio::test]
async fn another_password_and_a_revocation_end_the_session_and_its_websocket() {
    let gateway = started("").await;
    let authorization = basic("reader", PASSWORD);
    let headers = [("Authorization", authorization.as_str())];
    let connected = || open(&gateway, "/device/ws", &headers);
    let mut socket = connected().await.unwrap();
    let admin = gateway.sign_in("admin").await;
    let ended = gateway
        .request("DELETE", "/gateway/sessions?user=reader")
        .token(&admin)
        .send()
        .await;
    assert_eq!(ended.json()["revoked"], 1);
    assert!(socket.next().await.unwrap().unwrap().is_close());

    let mut socket = connected().await.unwrap();
    let changed = format!(
        "{ROUTE}[[auth.user]]\nname = \"reader\"\npassword_hash = \"{}\"\npermissions = [\"read\"]\n",
        hash("another one")
    );
    assert!(gateway.reload(&changed).await);
    assert!(socket.next().await.unwrap().unwrap().is_close());
    assert_eq!(
        device(&gateway, "reader", PASSWORD).send().await.status,
        401
    );
    assert_eq!(
        device(&gateway, "reader", "another one")
            .send()
            .await
            .status,
        200
    );

    let mut socket = open(
        &gateway,
        "/device/ws",
        &[("Authorization", &basic("reader", "another one"))],
    )
    .await
    .unwrap();
    assert!(gateway.reload(&changed.replace("basic = true", "")).await);
    assert!(
        socket.next().await.unwrap().unwrap().is_close(),
        "the route has no Basic any more"
    );
    until("it is refused", async || {
        device(&gateway, "reader", "another one")
            .send()
            .await
            .status
            == 401
    })
    .await;
}

#[tokio::test]
async fn pages_of_other_origins_do_not_use_a_browsers_password() {
    let gateway = started("").await;
    let request = || device(&gateway, "reader", PASSWORD);
    for (request, status) in [
        (request().header("Origin", "https://evil.example"), 403),
        (
            request()
                .header("Sec-Fetch-Site", "cross-site")
                .header("Sec-Fetch-Mode", "no-cors"),
            403,
        ),
        (
            request()
                .header("Sec-Fetch-Site", "cross-site")
                .header("Sec-Fetch-Mode", "navigate"),
            200,
        ),
        (request().header("Sec-Fetch-Site", "same-origin"), 200),
    ] {
        assert_eq!(request.send().await.status, status);
    }
}
