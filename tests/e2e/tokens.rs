//! The lifetime of a token: how it is presented, what ends it, what it survives.

use crate::client::Answer;
use crate::harness::{Gateway, config_text, hash, until};
use serde_json::json;

/// Only this user, who may do everything.
fn only(name: &str) -> String {
    let hash = hash(crate::client::PASSWORD);
    format!("[[auth.user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\npermissions = [\"*\"]")
}

#[tokio::test]
async fn a_token_is_accepted_from_one_well_formed_bearer_header_only() {
    let gateway = Gateway::start();
    let t = gateway.sign_in("admin").await;
    let none = "Bearer realm=\"flowgate\"";
    let bad = "Bearer realm=\"flowgate\", error=\"invalid_token\"";
    let malformed = "Bearer realm=\"flowgate\", error=\"invalid_request\"";
    for (values, status, challenge) in [
        (vec![format!("Bearer {t}")], 200, ""),
        (vec![format!("bEARER {t}")], 200, ""),
        (vec![format!("Bearer {t} ")], 200, ""),
        (vec![], 401, none),
        (vec![String::new()], 401, none),
        (vec!["Basic YWRtaW46cHc=".into()], 401, none),
        (vec!["Bearer 0000".into()], 401, bad),
        (vec![format!("Bearer {}", &t[..t.len() - 1])], 401, bad),
        (vec![format!("Bearer {t}A")], 401, bad),
        (vec![format!("Bearer {}", t.to_lowercase())], 401, bad),
        (vec![t.clone()], 400, malformed),
        (vec!["Bearer".into()], 400, malformed),
        (vec![format!("Bearer  {t}")], 400, malformed),
        (vec![format!("Bearer\t{t}")], 400, malformed),
        (vec![format!("Bearer {t} x")], 400, malformed),
        (vec![format!("Bearer {t}, Bearer {t}")], 400, malformed),
        (
            vec![format!("Bearer {t}"), format!("Bearer {t}")],
            400,
            malformed,
        ),
        (
            vec![format!("Bearer {t}"), "Basic x".into()],
            400,
            malformed,
        ),
    ] {
        let request = values
            .iter()
            .fold(gateway.get("/flows"), |r, v| r.header("Authorization", v));
        let answer = request.send().await;
        assert_eq!(
            (answer.status, answer.header("www-authenticate")),
            (status, challenge),
            "{values:?}"
        );
        if status == 401 {
            assert_eq!(
                (answer.text(), answer.header("content-type")),
                (String::new(), "")
            );
        }
    }
}

#[tokio::test]
async fn a_token_anywhere_else_is_ignored() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    let form = &[("access_token", token.as_str())];
    for request in [
        gateway
            .get("/flows")
            .header("Cookie", &format!("access_token={token}")),
        gateway
            .get("/flows")
            .header("Proxy-Authorization", &format!("Bearer {token}")),
        gateway.get("/flows").header("X-Access-Token", &token),
        gateway.request("POST", "/auth/revoke").form(form),
        gateway
            .get("/settings")
            .json(&json!({ "access_token": token })),
    ] {
        assert_eq!(request.send().await.status, 401);
    }
    for token in [token.as_str(), "0000", ""] {
        let path = format!("/flows?access_token={token}");
        let answer = gateway.get(&path).send().await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, "invalid_request"),
            "{path}"
        );
    }
    let both = gateway
        .get("/flows?x=1&access%5Ftoken=x")
        .token(&token)
        .send()
        .await;
    assert_eq!(both.status, 400);
}

#[tokio::test]
async fn a_missing_permission_is_an_empty_401_too() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("reader").await;
    let answer = gateway
        .post("/flows")
        .token(&token)
        .json(&json!([]))
        .send()
        .await;
    let challenge = "Bearer realm=\"flowgate\", error=\"insufficient_scope\"";
    assert_eq!(
        (answer.status, answer.header("www-authenticate")),
        (401, challenge)
    );
    assert_eq!(
        (answer.text(), answer.header("content-type")),
        (String::new(), "")
    );
}

#[tokio::test]
async fn a_token_survives_a_restart_and_its_text_is_stored_nowhere() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("reader").await;
    let gateway = gateway.restart().await;
    assert!(gateway.accepts_token(&token).await);
    for entry in std::fs::read_dir(gateway.data("")).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap_or_default();
        let found = bytes
            .windows(token.len())
            .any(|window| window == token.as_bytes());
        assert!(!found, "{}", path.display());
    }
}

#[tokio::test]
async fn a_token_ends_with_its_lifetime() {
    let gateway = Gateway::with("[auth]\nlifetime = \"2s\"");
    let answer = gateway
        .sign_in_request("admin", crate::client::PASSWORD, "")
        .send()
        .await;
    assert_eq!(answer.json()["expires_in"], 2);
    let token = answer.json()["access_token"].as_str().unwrap().to_owned();
    assert!(gateway.accepts_token(&token).await);
    until("the token is over", async || {
        !gateway.accepts_token(&token).await
    })
    .await;
}

#[tokio::test]
async fn an_idle_token_expires_and_one_in_use_does_not() {
    let gateway = Gateway::with("[auth]\nidle = \"2s\"");
    let (used, resting) = (
        gateway.sign_in("admin").await,
        gateway.sign_in("reader").await,
    );
    // Every request uses its token, so none shows the resting one before the end.
    let begun = std::time::Instant::now();
    until("three seconds have passed", async || {
        assert!(gateway.accepts_token(&used).await);
        begun.elapsed().as_secs() >= 3
    })
    .await;
    assert!(!gateway.accepts_token(&resting).await);
    assert!(gateway.accepts_token(&used).await);
}

async fn revoke(gateway: &Gateway, caller: &str, token: &str) -> Answer {
    gateway
        .post("/auth/revoke")
        .token(caller)
        .form(&[("token", token)])
        .send()
        .await
}

#[tokio::test]
async fn users_revoke_their_own_tokens_and_those_of_others_with_all_permissions_only() {
    let gateway = Gateway::start();
    let reader = gateway.sign_in("reader").await;
    let other = gateway.sign_in("reader").await;
    let deployer = gateway.sign_in("deployer").await;
    let admin = gateway.sign_in("admin").await;

    let refused = revoke(&gateway, &reader, &deployer).await;
    assert_eq!((refused.status, refused.text()), (401, String::new()));
    assert!(
        refused
            .header("www-authenticate")
            .contains("insufficient_scope")
    );
    assert!(gateway.accepts_token(&deployer).await);

    for (caller, token) in [(&reader, &other), (&admin, &deployer), (&reader, &reader)] {
        let answer = revoke(&gateway, caller, token).await;
        assert_eq!((answer.status, answer.text()), (200, String::new()));
        assert_eq!(answer.header("cache-control"), "no-store");
        assert!(!gateway.accepts_token(token).await);
    }
    assert!(gateway.accepts_token(&admin).await);
}

#[tokio::test]
async fn an_invalid_revocation_request_is_explained() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("deployer").await;
    assert_eq!(revoke(&gateway, &token, "unknown").await.status, 200);
    assert_eq!(revoke(&gateway, "", &token).await.status, 401);
    assert_eq!(revoke(&gateway, "unknown", &token).await.status, 401);
    for request in [
        gateway.post("/auth/revoke").token(&token).form(&[]),
        gateway
            .post("/auth/revoke")
            .token(&token)
            .json(&json!({ "token": 1 })),
        gateway
            .post("/auth/revoke")
            .token(&token)
            .form(&[("token", "a"), ("token", "b")]),
        gateway.post("/auth/revoke").token(&token),
    ] {
        let answer = request.send().await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, "invalid_request")
        );
        assert!(
            !answer.json()["error_description"]
                .as_str()
                .unwrap()
                .is_empty()
        );
    }
    let json = gateway
        .post("/auth/revoke")
        .token(&token)
        .json(&json!({ "token": token }));
    assert_eq!(json.send().await.status, 200);
    assert!(!gateway.accepts_token(&token).await);
}

#[tokio::test]
async fn a_token_of_limited_scope_revokes_no_other_users_token() {
    let gateway = Gateway::start();
    let reader = gateway.sign_in("reader").await;
    let answer = gateway
        .sign_in_request("admin", crate::client::PASSWORD, "read write")
        .send()
        .await;
    let limited = answer.json()["access_token"].as_str().unwrap().to_owned();
    assert_eq!(revoke(&gateway, &limited, &reader).await.status, 401);
    assert!(gateway.accepts_token(&reader).await);
}

#[tokio::test]
async fn a_revoked_token_stays_revoked_after_a_restart() {
    let gateway = Gateway::start();
    let (gone, kept) = (
        gateway.sign_in("reader").await,
        gateway.sign_in("reader").await,
    );
    assert_eq!(revoke(&gateway, &kept, &gone).await.status, 200);
    let gateway = gateway.restart().await;
    assert!(!gateway.accepts_token(&gone).await);
    assert!(gateway.accepts_token(&kept).await);
}

#[tokio::test]
async fn the_tokens_of_a_removed_user_are_revoked_for_good() {
    let gateway = Gateway::start();
    let (reader, admin) = (
        gateway.sign_in("reader").await,
        gateway.sign_in("admin").await,
    );
    assert!(gateway.reload(&only("admin")).await);
    assert!(!gateway.accepts_token(&reader).await);
    assert!(gateway.accepts_token(&admin).await);
    assert!(gateway.reload("").await);
    assert!(
        !gateway.accepts_token(&reader).await,
        "he came back, his token did not"
    );
    let gateway = gateway.restart_with(&only("new")).await;
    assert!(!gateway.accepts_token(&admin).await);
    let gateway = gateway.restart_with("").await;
    assert!(!gateway.accepts_token(&admin).await);
}

#[tokio::test]
async fn a_user_who_loses_permissions_loses_them_at_once() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    let fewer = config_text("").replace("permissions = [\"*\"]", "permissions = [\"read\"]");
    assert!(gateway.reload(&fewer).await);
    assert!(gateway.accepts_token(&token).await);
    assert_eq!(
        gateway
            .post("/flows")
            .token(&token)
            .json(&json!([]))
            .send()
            .await
            .status,
        401
    );
    let user = gateway.get("/settings").token(&token).send().await.json()["user"].clone();
    assert_eq!(user, json!({ "username": "admin", "permissions": "read" }));
}
