//! Permissions: every endpoint against every kind of caller.

use crate::harness::{Gateway, flow_set, page};
use serde_json::json;

/// The responses to a caller without a token, a reader, a deployer (`flows.read`, `flows.write`)
/// and an administrator.
const TABLE: &[(&str, &str, [u16; 4])] = &[
    ("GET", "/auth/login", [200, 200, 200, 200]),
    ("POST", "/auth/token", [400, 400, 400, 400]),
    ("POST", "/auth/revoke", [401, 400, 400, 400]),
    ("GET", "/flows", [401, 200, 200, 200]),
    ("HEAD", "/flows", [401, 200, 200, 200]),
    ("POST", "/flows", [401, 401, 415, 415]),
    ("GET", "/flows/state", [401, 200, 200, 200]),
    ("POST", "/flows/state", [401, 401, 400, 400]),
    ("GET", "/flow/a", [401, 200, 200, 200]),
    ("GET", "/flow/unknown", [401, 404, 404, 404]),
    ("POST", "/flow", [401, 401, 415, 415]),
    ("PUT", "/flow/a", [401, 401, 415, 415]),
    ("DELETE", "/flow/unknown", [401, 401, 404, 404]),
    ("GET", "/settings", [401, 200, 401, 200]),
    ("GET", "/settings/user", [401, 200, 401, 200]),
    ("POST", "/settings/user", [401, 401, 401, 400]),
    ("GET", "/nodes", [401, 200, 401, 200]),
    ("GET", "/nodes/node-red", [401, 200, 401, 200]),
    ("GET", "/nodes/node-red/inject", [401, 200, 401, 200]),
    ("GET", "/nodes/unknown", [401, 404, 401, 404]),
    ("POST", "/nodes", [401, 401, 401, 403]),
    ("DELETE", "/nodes/node-red", [401, 401, 401, 403]),
    ("PUT", "/nodes/node-red", [401, 401, 401, 400]),
    ("GET", "/nodes/messages", [401, 200, 401, 200]),
    ("GET", "/icons", [401, 200, 401, 200]),
    ("GET", "/credentials/x/y", [401, 200, 401, 200]),
    ("GET", "/diagnostics", [401, 200, 401, 200]),
    ("GET", "/gateway/profile?seconds=1", [401, 200, 401, 200]),
    ("GET", "/gateway/profile?seconds=0", [401, 400, 401, 400]),
    ("GET", "/gateway/deployments", [401, 200, 200, 200]),
    ("GET", "/gateway/deployments/x", [401, 404, 404, 404]),
    (
        "POST",
        "/gateway/deployments/x/rollback",
        [401, 401, 415, 415],
    ),
    ("GET", "/gateway/diff", [401, 400, 400, 400]),
    ("GET", "/gateway", [301, 301, 301, 301]),
    ("GET", "/gateway/", [200, 200, 200, 200]),
    ("GET", "/gateway/now", [401, 200, 401, 200]),
    ("GET", "/gateway/settings", [401, 401, 401, 200]),
    ("GET", "/gateway/users", [401, 401, 401, 200]),
    ("GET", "/gateway/tokens", [401, 401, 401, 200]),
    ("POST", "/gateway/tokens", [401, 401, 401, 415]),
    ("DELETE", "/gateway/tokens/x", [401, 401, 401, 404]),
    ("GET", "/gateway/audit", [401, 401, 401, 200]),
    ("GET", "/gateway/audit/verify", [401, 401, 401, 200]),
    ("GET", "/gateway/audit/export", [401, 401, 401, 200]),
    ("GET", "/gateway/x", [401, 404, 401, 404]),
    ("GET", "/context/global", [401, 200, 401, 200]),
    ("DELETE", "/context/global/x", [401, 401, 401, 204]),
    ("GET", "/library/local/flows", [401, 200, 401, 200]),
    ("GET", "/library/local/flows/mine", [401, 404, 401, 404]),
    ("POST", "/library/local/flows/mine", [401, 401, 401, 400]),
    ("GET", "/library/examples/flows", [401, 404, 401, 404]),
    ("GET", "/udp-ports/x", [401, 200, 401, 200]),
    ("GET", "/plugins", [401, 200, 401, 200]),
    ("GET", "/projects", [401, 404, 401, 404]),
    ("POST", "/inject/unknown", [401, 401, 401, 404]),
    ("POST", "/debug/unknown/enable", [401, 401, 401, 404]),
    ("POST", "/debug/disable", [401, 401, 401, 400]),
    ("GET", "/comms", [426, 426, 426, 426]),
    ("GET", "/", [200, 200, 200, 200]),
    ("GET", "/red/red.min.js", [404, 404, 404, 404]),
    ("GET", "/theme", [404, 404, 404, 404]),
    ("GET", "/icons/node-red/inject.svg", [404, 404, 404, 404]),
    ("GET", "/hidden", [401, 200, 401, 200]),
    ("HEAD", "/hidden", [401, 200, 401, 200]),
    ("OPTIONS", "/hidden", [401, 204, 401, 204]),
    ("POST", "/hidden", [401, 401, 401, 405]),
    ("GET", "/public", [200, 200, 200, 200]),
    ("POST", "/public", [405, 405, 405, 405]),
    ("GET", "/special", [401, 401, 200, 200]),
    ("GET", "/nothing", [401, 404, 401, 404]),
    ("POST", "/nothing", [401, 401, 401, 404]),
    ("DELETE", "/flows", [401, 405, 405, 405]),
    ("PUT", "/auth/login", [405, 405, 405, 405]),
    ("OPTIONS", "/flows", [401, 204, 204, 204]),
    ("OPTIONS", "/auth/login", [204, 204, 204, 204]),
];

const ROUTES: &str = r#"
[[route]]
path = "/public"
public = true
[[route]]
path = "/special"
permission = "flows.write"
"#;

#[tokio::test]
async fn every_endpoint_requires_its_permission() {
    let gateway = Gateway::with(ROUTES);
    let mut tokens = vec![String::new()];
    for user in ["reader", "deployer", "admin"] {
        tokens.push(gateway.sign_in(user).await);
    }
    let pages = [("a", "/hidden"), ("b", "/public"), ("c", "/special")];
    let flows = pages.map(|(tab, path)| page(tab, path, "text"));
    gateway.deploy(&tokens[3], &flow_set(&flows)).await;
    let mut wrong = Vec::new();
    for (method, path, expected) in TABLE {
        let mut statuses = [0; 4];
        for (status, token) in statuses.iter_mut().zip(&tokens) {
            *status = gateway
                .request(method, path)
                .token(token)
                .send()
                .await
                .status;
        }
        if statuses != *expected {
            wrong.push(format!(
                "{method} {path}: {statuses:?} instead of {expected:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn anonymous_clients_have_the_configured_permissions_and_an_invalid_token_is_not_anonymous() {
    let gateway = Gateway::with("[auth]\nanonymous = [\"read\"]");
    assert_eq!(gateway.get("/flows").send().await.status, 200);
    assert_eq!(
        gateway.post("/flows").json(&json!([])).send().await.status,
        401
    );
    assert_eq!(
        gateway.get("/flows").token("unknown").send().await.status,
        401
    );
    assert_eq!(
        gateway
            .get("/flows")
            .header("Authorization", "Bearer")
            .send()
            .await
            .status,
        400
    );
    let settings = gateway.get("/settings").send().await.json();
    assert_eq!(
        settings["user"],
        json!({ "anonymous": true, "permissions": "read" })
    );
}

#[tokio::test]
async fn settings_show_what_the_caller_effectively_has() {
    let gateway = Gateway::start();
    for (user, scope, permissions) in [
        ("admin", "", json!("*")),
        ("admin", "read", json!("read")),
        ("reader", "", json!("read")),
    ] {
        let answer = gateway
            .sign_in_request(user, crate::client::PASSWORD, scope)
            .send()
            .await;
        let token = answer.json()["access_token"].as_str().unwrap().to_owned();
        let settings = gateway.get("/settings").token(&token).send().await.json();
        assert_eq!(
            settings["user"]["permissions"], permissions,
            "{user} {scope}"
        );
    }
}
