//! JWTs of machines as bearer tokens: `[[auth.jwt]]`.

use crate::client::Answer;
use crate::comms_client::{Channel, ServerMessage};
use crate::harness::{Gateway, flow_set, restart_marker, until};
use crate::jwt_issuer::{ISSUER, JwtIssuer, Keys, SigningKey, set_of};
use crate::multiple_upstreams::{in_front_of, with_settings};
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use jsonwebtoken::{Algorithm, EncodingKey};
use serde_json::{Value as Json, json};

async fn flows_of(gateway: &Gateway, token: &str) -> Answer {
    gateway.get("/flows").token(token).send().await
}

/// Waits for the end of a channel.
pub async fn is_closed(channel: &mut Channel) {
    while !matches!(channel.receive().await, ServerMessage::Closed(_)) {}
}

#[tokio::test]
async fn a_machine_deploys_with_the_token_of_its_ci_system_and_the_permissions_of_its_claims() {
    let issuer = JwtIssuer::start().await;
    let gateway = Gateway::with(&issuer.config(""));
    let token = issuer.token(&json!({}));
    gateway
        .deploy(&token, &flow_set(&[restart_marker("a", "/a")]))
        .await;
    let settings = gateway.get("/settings").token(&token).send().await.json();
    assert_eq!(
        settings["user"],
        json!({ "username": "jwt:ci:repo:acme/flows", "permissions": ["read", "flows.write"] })
    );
    let denied = gateway.post("/inject/a").token(&token).send().await;
    assert_eq!(denied.status, 401);
    assert!(
        denied
            .header("www-authenticate")
            .contains("insufficient_scope")
    );
    let audit = gateway.audit();
    let records = |event: &str| {
        audit
            .iter()
            .filter(|record| record["event"] == event)
            .count()
    };
    assert_eq!(records("auth.login"), 1, "verified once for all requests");
    let deployed = audit
        .iter()
        .find(|record| record["event"] == "flows.deploy")
        .unwrap();
    assert_eq!(
        (&deployed["user"], &deployed["by"]),
        (&json!("jwt:ci:repo:acme/flows"), &json!("jwt"))
    );
    assert_eq!(issuer.fetches(), 1);
    // Users and their tokens are beside it.
    assert!(
        gateway
            .accepts_token(&gateway.sign_in("reader").await)
            .await
    );
}

#[tokio::test]
async fn claims_give_rights_to_single_flows_and_at_single_upstreams() {
    let (one, two) = (with_settings().await, with_settings().await);
    let issuer = JwtIssuer::start().await;
    let grants = "[[auth.jwt.grant]]\nclaims = { sub = [\"repo:acme/*\"] }\npermissions = [\"flows.write:Line*\"]\n\
                  [[auth.jwt.grant]]\nclaims = { sub = [\"repo:acme/flows\"] }\nupstream = \"one\"\npermissions = [\"settings.read\"]\n";
    let places = [
        (&one, "name = \"one\"\npath = \"/one\""),
        (&two, "name = \"two\"\npath = \"/two\""),
    ];
    let gateway = Gateway::with(&(in_front_of(&places) + &issuer.config("") + grants));
    let status = async |path: &str, other: Json| {
        let token = issuer.token(&other);
        gateway.get(path).token(&token).send().await.status
    };
    let nobody = json!({ "groups": [] });
    assert_eq!(status("/one/settings", nobody.clone()).await, 200);
    assert_eq!(status("/two/settings", nobody).await, 401);
    let settings = gateway
        .get("/one/settings")
        .token(&issuer.token(&json!({ "groups": null, "n": 1 })))
        .send()
        .await
        .json();
    assert_eq!(
        settings["user"]["permissions"],
        json!(["flows.write:Line*", "settings.read", "flows.write"])
    );
}

#[tokio::test]
async fn a_revoked_jwt_ends_its_channel_and_does_not_come_back_after_a_restart() {
    let issuer = JwtIssuer::start().await;
    let gateway = Gateway::with(&issuer.config(""));
    let token = issuer.token(&json!({}));
    let mut channel = gateway.editor(&token).await;
    let listed = gateway
        .get("/gateway/sessions")
        .token(&token)
        .send()
        .await
        .json();
    assert_eq!(listed["sessions"][0]["client"], "jwt");
    let revoked = gateway
        .post("/auth/revoke")
        .token(&token)
        .form(&[("token", &token)]);
    assert_eq!(revoked.send().await.status, 200);
    is_closed(&mut channel).await;
    assert_eq!(flows_of(&gateway, &token).await.status, 401);
    let gateway = gateway.restart().await;
    assert_eq!(flows_of(&gateway, &token).await.status, 401);
    let other = issuer.token(&json!({ "jti": "2" }));
    assert_eq!(flows_of(&gateway, &other).await.status, 200);
}

#[tokio::test]
async fn a_key_rotation_in_the_middle_is_found_and_a_withdrawn_key_ends_its_sessions() {
    let issuer = JwtIssuer::start().await;
    let gateway = Gateway::with(&issuer.config(""));
    let old = issuer.token(&json!({}));
    let mut channel = gateway.editor(&old).await;
    let second = SigningKey::new("second");
    issuer.serve(Keys::Set(set_of(&[&issuer.key, &second])));
    let new = second.sign(&crate::jwt_issuer::claims(&json!({})));
    assert_eq!(
        flows_of(&gateway, &new).await.status,
        200,
        "fetched again for the new key"
    );
    assert_eq!(flows_of(&gateway, &old).await.status, 200);
    assert_eq!(issuer.fetches(), 2);
    issuer.serve(Keys::Set(set_of(&[&second])));
    let unknown = SigningKey::new("third").sign(&crate::jwt_issuer::claims(&json!({})));
    assert_eq!(flows_of(&gateway, &unknown).await.status, 401);
    is_closed(&mut channel).await;
    assert_eq!(
        flows_of(&gateway, &old).await.status,
        401,
        "its key is withdrawn"
    );
    assert_eq!(flows_of(&gateway, &new).await.status, 200);
}

#[tokio::test]
async fn known_keys_count_while_the_issuer_is_down_and_none_are_made_up() {
    let issuer = JwtIssuer::start().await;
    issuer.serve(Keys::Unwell);
    let gateway = Gateway::with(&issuer.config(""));
    let token = issuer.token(&json!({}));
    assert_eq!(flows_of(&gateway, &token).await.status, 401, "no keys yet");
    issuer.serve(Keys::Set(set_of(&[&issuer.key])));
    assert_eq!(flows_of(&gateway, &token).await.status, 200);
    for bad in [
        Keys::Unwell,
        Keys::Text("{".into()),
        Keys::Text("{\"keys\":[]}".into()),
    ] {
        issuer.serve(bad);
        let unknown = SigningKey::new("other").sign(&crate::jwt_issuer::claims(&json!({})));
        assert_eq!(flows_of(&gateway, &unknown).await.status, 401);
        let other = issuer.token(&json!({ "jti": crate::jwt_issuer::now().to_string() }));
        assert_eq!(flows_of(&gateway, &other).await.status, 200);
    }
}

#[tokio::test]
async fn keys_can_be_in_a_file_and_rsa_is_accepted() {
    let pkcs8 = KeyPair::generate(KeySize::Rsa2048).unwrap();
    let pkcs8 = pkcs8.as_der().unwrap();
    // The key without the head of PKCS #8 (RFC 5208 §5) is that of PKCS #1.
    let private = EncodingKey::from_rsa_der(&pkcs8.as_ref()[26..]);
    let key = SigningKey::of("rsa", Algorithm::RS256, private);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keys.json");
    std::fs::write(&file, serde_json::to_string(&set_of(&[&key])).unwrap()).unwrap();
    let lines = format!(
        "[[auth.jwt]]\nname = \"cluster\"\nissuer = \"{ISSUER}\"\naudience = [\"flowgate\"]\njwks_file = \"{}\"\n\
         [[auth.jwt.grant]]\nclaims = {{ sub = [\"*\"] }}\npermissions = [\"read\"]\n",
        file.display()
    );
    let gateway = Gateway::with(&lines);
    let token = key.sign(&crate::jwt_issuer::claims(&json!({})));
    assert_eq!(flows_of(&gateway, &token).await.status, 200);
}

#[tokio::test]
async fn a_reload_that_changes_the_grants_ends_sessions_and_verifies_anew() {
    let issuer = JwtIssuer::start().await;
    let gateway = Gateway::with(&issuer.config(""));
    let token = issuer.token(&json!({ "groups": ["admins"] }));
    let mut channel = gateway.editor(&token).await;
    let fewer = issuer.config("").replace("[\"*\"]", "[\"settings.read\"]");
    assert!(gateway.reload(&fewer).await);
    is_closed(&mut channel).await;
    assert_eq!(flows_of(&gateway, &token).await.status, 401);
    assert_eq!(
        gateway.get("/settings").token(&token).send().await.status,
        200
    );
    assert!(gateway.reload("").await);
    assert_eq!(
        gateway.get("/settings").token(&token).send().await.status,
        401
    );
}

#[tokio::test]
async fn networks_and_rate_limits_hold_for_callers_with_a_jwt() {
    let issuer = JwtIssuer::start().await;
    let lines = "networks = [\"127.0.0.1\"]\nrate_limit = \"3/h\"";
    let gateway = Gateway::with(&issuer.config(lines));
    let token = issuer.token(&json!({}));
    let elsewhere = gateway
        .get("/flows")
        .token(&token)
        .from("127.0.0.2")
        .send()
        .await;
    assert_eq!(elsewhere.code(), "network_not_allowed");
    for status in [200, 200, 200, 429] {
        assert_eq!(flows_of(&gateway, &token).await.status, status);
    }
    let other = issuer.token(&json!({ "sub": "repo:acme/other" }));
    assert_eq!(
        flows_of(&gateway, &other).await.status,
        200,
        "each caller has its own"
    );
}

#[tokio::test]
async fn a_token_ends_when_it_expires_with_its_channel() {
    let issuer = JwtIssuer::start().await;
    let gateway = Gateway::with(&issuer.config("clock_skew = \"0s\""));
    let token = issuer.token(&json!({ "exp": crate::jwt_issuer::now() + 6 }));
    let mut channel = gateway.editor(&token).await;
    is_closed(&mut channel).await;
    assert_eq!(flows_of(&gateway, &token).await.status, 401);
    until("the session is gone", async || {
        gateway
            .metric("flowgate_sessions")
            .await
            .unwrap_or_default()
            < 1.0
    })
    .await;
}
