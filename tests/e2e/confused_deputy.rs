//! No caller uses the gateway's own account at the upstream for more than the caller's permissions.
//!
//! Node packages add routes of their own to the admin API. They look like endpoints of flows, and
//! they deploy.

use crate::client::PASSWORD;
use crate::harness::{Gateway, hash, until};
use crate::mock_upstream::{Action, MockUpstream, ok};
use crate::multiple_upstreams::sign_in;
use std::fmt::Write;

/// What the upstream accepts as the gateway's token.
pub const ACCOUNT: &str = "the-gateways-own-token";

/// A runtime that answers everything with 200.
pub async fn agreeable() -> MockUpstream {
    MockUpstream::start(|_| Action::Respond(ok("application/json", "{}"))).await
}

/// Users with [`PASSWORD`] and these permissions.
pub fn users(users: &[(&str, &str)]) -> String {
    let hash = hash(PASSWORD);
    users.iter().fold(String::new(), |mut text, (name, list)| {
        let _ = write!(
            text,
            "[[auth.user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\npermissions = {list}\n"
        );
        text
    })
}

/// A gateway in front of a runtime, where it has an account.
pub fn with_account(behind: &MockUpstream, upstream: &str, lines: &str) -> Gateway {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("account"), ACCOUNT).unwrap();
    let upstream = format!("token_file = \"account\"\nhealth = \"1h\"\n{upstream}");
    Gateway::open(&(behind.config_with(&upstream) + lines), directory)
}

/// Who may use endpoints of flows, and nothing else.
fn visitor() -> String {
    users(&[
        ("visitor", r#"["http.read", "http.write"]"#),
        ("admin", r#"["*"]"#),
    ])
}

/// The token of a user who signs in below an admin root.
pub async fn signed_in(gateway: &Gateway, root: &str, user: &str) -> String {
    let answer = sign_in(gateway, root, user, "").await.json();
    answer["access_token"].as_str().unwrap().to_owned()
}

/// Nothing was sent, but for the look at the account.
fn receives_no_account(behind: &MockUpstream) {
    let mut received = behind.received();
    received.retain(|request| !request.bytes.contains("/settings "));
    assert!(received.is_empty(), "{received:?}");
}

#[tokio::test]
async fn http_permissions_reach_no_admin_path_that_a_package_adds() {
    for (root, lines) in [("", ""), ("/admin", "admin_root = \"/admin\"\n")] {
        let behind = agreeable().await;
        let gateway = with_account(&behind, lines, &visitor());
        let token = signed_in(&gateway, root, "visitor").await;
        for (method, path) in [
            ("PATCH", "/dashboard/api/v1/d1/flows"),
            ("PATCH", "/Dashboard/API/v1/d1/flows/"),
            ("PATCH", "/%64ashboard/api/v1/d1/flows"),
            ("GET", "/serialports"),
            ("HEAD", "/serialports"),
            ("OPTIONS", "/serialports"),
            ("GET", "/uisettings"),
            ("POST", "/nrchkb/x"),
            // Below a name of the admin API, but not an endpoint that it has.
            ("GET", "/debug/other"),
            ("POST", "/inject/a/b"),
            ("GET", "/flows/other"),
        ] {
            let path = format!("{root}{path}");
            let answer = gateway.request(method, &path).token(&token).send().await;
            assert_eq!(answer.status, 401, "{method} {path}");
            let challenge = answer.header("www-authenticate");
            assert!(
                challenge.contains("insufficient_scope"),
                "{path}: {challenge}"
            );
        }
        receives_no_account(&behind);
    }
}

#[tokio::test]
async fn the_account_goes_with_no_request_to_an_endpoint() {
    let behind = agreeable().await;
    let gateway = with_account(&behind, "", &visitor());
    let token = signed_in(&gateway, "", "visitor").await;
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        let request = gateway.request(method, "/hook").token(&token);
        assert_eq!(request.send().await.status, 200, "{method}");
    }
    let mut raw = gateway.raw().await;
    let host = gateway.address;
    raw.send(&format!(
        "GET /ws HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nConnection: Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ))
    .await;
    until("the handshake is heard", async || {
        behind
            .received()
            .iter()
            .any(|request| request.bytes.contains("/ws"))
    })
    .await;
    let mut received = behind.received();
    // The account is shown to the admin API, to see whether it is good.
    received.retain(|request| !request.bytes.contains("/settings "));
    assert_eq!(received.len(), 7, "{received:?}");
    for request in received {
        let bytes = request.bytes.to_ascii_lowercase();
        assert!(!bytes.contains("authorization"), "{bytes}");
        assert!(!bytes.contains(ACCOUNT), "{bytes}");
    }
}

#[tokio::test]
async fn no_route_makes_an_admin_path_public() {
    let open = "[[route]]\npath = \"/\"\nprefix = true\npublic = true\n[[route]]\npath = \"/dashboard\"\nprefix = true\n\
                permission = \"http.read\"\n";
    for (root, lines, open) in [
        ("/admin", "admin_root = \"/admin\"\n", open),
        ("", "", &open.replace("path = \"/\"", "path = \"/s\"")),
    ] {
        let behind = agreeable().await;
        let gateway = with_account(&behind, lines, &(visitor() + open));
        let visitor = signed_in(&gateway, root, "visitor").await;
        for path in ["/serialports", "/dashboard/api/v1/d/x", "/uisettings/a/b"] {
            let path = format!("{root}{path}");
            for token in ["", visitor.as_str()] {
                let answer = gateway.get(&path).token(token).send().await;
                assert_eq!(answer.status, 401, "{path}");
            }
        }
        receives_no_account(&behind);
    }
}
