//! Attacks with JWTs (RFC 8725 §2), each a test.

use crate::client::Client;
use crate::harness::{Gateway, flow_set, public, script};
use crate::jwt_issuer::{AUDIENCE, ISSUER, JwtIssuer, Keys, SigningKey, claims, now, set_of};
use crate::mock_upstream::{Action, MockUpstream, ok};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value as Json, json};

async fn started() -> (JwtIssuer, Gateway) {
    let issuer = JwtIssuer::start().await;
    let gateway = Gateway::with(&issuer.config(""));
    assert!(gateway.accepts_token(&issuer.token(&json!({}))).await);
    (issuer, gateway)
}

async fn is_refused(gateway: &Client, token: &str) {
    let answer = gateway.get("/flows").token(token).send().await;
    assert_eq!(answer.status, 401, "{token}");
    assert!(answer.header("www-authenticate").contains("invalid_token"));
    assert_eq!(answer.text(), "");
}

fn encoded(part: &Json) -> String {
    URL_SAFE_NO_PAD.encode(part.to_string())
}

#[tokio::test]
async fn alg_none_is_refused() {
    let (issuer, gateway) = started().await;
    for name in ["none", "None", "NONE", ""] {
        let header = encoded(&json!({ "alg": name, "kid": "first" }));
        let unsigned = format!("{header}.{}.", encoded(&claims(&json!({}))));
        is_refused(&gateway, &unsigned).await;
        let signature = issuer.token(&json!({}));
        let signature = signature.rsplit('.').next().unwrap().to_owned();
        is_refused(&gateway, &(unsigned + &signature)).await;
    }
}

#[tokio::test]
async fn hs256_with_the_public_key_as_its_secret_is_refused() {
    let (issuer, gateway) = started().await;
    let jwk = serde_json::to_value(&issuer.key.public).unwrap();
    let x = URL_SAFE_NO_PAD.decode(jwk["x"].as_str().unwrap()).unwrap();
    let y = URL_SAFE_NO_PAD.decode(jwk["y"].as_str().unwrap()).unwrap();
    let point = [&[4][..], &x, &y].concat();
    for secret in [jwk.to_string().into_bytes(), point, x] {
        let mut header = Header::new(Algorithm::HS256);
        header.kid = Some("first".to_owned());
        let key = EncodingKey::from_secret(&secret);
        let token = jsonwebtoken::encode(&header, &claims(&json!({})), &key).unwrap();
        is_refused(&gateway, &token).await;
    }
}

#[tokio::test]
async fn a_symmetric_key_in_the_key_set_is_never_used() {
    let (issuer, gateway) = started().await;
    let secret = EncodingKey::from_secret(b"in the set, so everybody knows it");
    let shared = SigningKey::of("shared", Algorithm::HS256, secret);
    issuer.serve(Keys::Set(set_of(&[&issuer.key, &shared])));
    is_refused(&gateway, &shared.sign(&claims(&json!({})))).await;
}

#[tokio::test]
async fn a_token_for_another_audience_or_of_another_issuer_is_refused() {
    let (issuer, gateway) = started().await;
    for other in [
        json!({ "aud": "another" }),
        json!({ "aud": ["another", "third"] }),
        json!({ "aud": null }),
        json!({ "aud": { "flowgate": true } }),
        json!({ "iss": "https://evil.example" }),
        json!({ "iss": format!("{ISSUER}/") }),
        json!({ "iss": null }),
    ] {
        is_refused(&gateway, &issuer.token(&other)).await;
    }
    let both = issuer.token(&json!({ "aud": ["another", AUDIENCE] }));
    assert!(gateway.accepts_token(&both).await);
}

#[tokio::test]
async fn expired_and_future_tokens_are_refused_and_so_are_those_that_live_too_long() {
    let (issuer, gateway) = started().await;
    let now = now();
    for other in [
        json!({ "exp": now - 31 }),
        json!({ "exp": null }),
        json!({ "exp": "soon" }),
        json!({ "exp": -1 }),
        json!({ "nbf": now + 60 }),
        json!({ "iat": now + 60, "exp": now + 120 }),
        json!({ "exp": now + 3 * 86400 }),
        json!({ "exp": now + 3 * 86400, "iat": null }),
    ] {
        is_refused(&gateway, &issuer.token(&other)).await;
    }
    let skewed = json!({ "nbf": now + 10, "iat": now + 10, "exp": now + 100 });
    assert!(gateway.accepts_token(&issuer.token(&skewed)).await);
}

#[tokio::test]
async fn a_token_of_another_key_with_a_known_key_id_is_refused() {
    let (_issuer, gateway) = started().await;
    let stranger = SigningKey::new("first");
    is_refused(&gateway, &stranger.sign(&claims(&json!({})))).await;
    // Its own key in the header.
    let mut header = stranger.header();
    header.jwk = Some(stranger.public.clone());
    is_refused(&gateway, &stranger.sign_as(&header, &claims(&json!({})))).await;
    let mut header = stranger.header();
    header.jku = Some("http://127.0.0.1:1/keys".to_owned());
    is_refused(&gateway, &stranger.sign_as(&header, &claims(&json!({})))).await;
}

#[tokio::test]
async fn claims_and_header_cannot_be_changed_after_the_signature() {
    let (issuer, gateway) = started().await;
    let token = issuer.token(&json!({}));
    let parts: Vec<&str> = token.split('.').collect();
    let admin = encoded(&claims(&json!({ "groups": ["admins"] })));
    is_refused(&gateway, &[parts[0], &admin, parts[2]].join(".")).await;
    let header = encoded(&json!({ "alg": "ES256", "kid": "first", "typ": "jwt" }));
    is_refused(&gateway, &[&header, parts[1], parts[2]].join(".")).await;
    let flipped = if parts[2].starts_with('A') { "B" } else { "A" };
    let signature = flipped.to_owned() + &parts[2][1..];
    is_refused(&gateway, &[parts[0], parts[1], &signature].join(".")).await;
}

#[tokio::test]
async fn another_kind_of_token_and_one_with_critical_extensions_are_refused() {
    let (issuer, gateway) = started().await;
    for kind in [
        "logout+jwt",
        "application/logout+jwt",
        "secevent+jwt",
        "dpop+jwt",
    ] {
        let mut header = issuer.key.header();
        header.typ = Some(kind.to_owned());
        is_refused(&gateway, &issuer.key.sign_as(&header, &claims(&json!({})))).await;
    }
    for header in [
        json!({ "alg": "ES256", "kid": "first", "crit": ["exp"] }),
        json!({ "alg": "ES256", "kid": "first", "b64": false }),
    ] {
        let signed = format!("{}.{}", encoded(&header), encoded(&claims(&json!({}))));
        let signature =
            jsonwebtoken::crypto::sign(signed.as_bytes(), &issuer.key.private, Algorithm::ES256);
        is_refused(&gateway, &format!("{signed}.{}", signature.unwrap())).await;
    }
}

#[tokio::test]
async fn random_key_ids_do_not_flood_the_issuer() {
    let (issuer, gateway) = started().await;
    let stranger = SigningKey::new("x");
    for n in 0..40 {
        let mut header = stranger.header();
        header.kid = Some(format!("random-{n}"));
        let token = stranger.sign_as(&header, &claims(&json!({})));
        is_refused(&gateway, &token).await;
    }
    assert!(
        issuer.fetches() <= 5,
        "{} requests for keys",
        issuer.fetches()
    );
    assert!(
        gateway
            .accepts_token(&issuer.token(&json!({ "jti": "1" })))
            .await
    );
}

#[tokio::test]
async fn an_oversized_token_is_refused() {
    let (issuer, gateway) = started().await;
    let groups: Vec<String> = (0..600).map(|n| format!("group-{n:06}")).collect();
    is_refused(&gateway, &issuer.token(&json!({ "groups": groups }))).await;
    let long = json!({ "sub": "x".repeat(400) });
    is_refused(&gateway, &issuer.token(&long)).await;
}

#[tokio::test]
async fn a_token_without_a_grant_or_a_name_is_refused() {
    let (issuer, gateway) = started().await;
    for other in [
        json!({ "groups": ["nobody"] }),
        json!({ "groups": null }),
        json!({ "groups": { "deployers": true } }),
        json!({ "sub": null }),
        json!({ "sub": "" }),
        json!({ "sub": 5 }),
        json!({ "sub": "a\nb" }),
    ] {
        is_refused(&gateway, &issuer.token(&other)).await;
    }
}

#[tokio::test]
async fn a_jwt_is_no_cookie_and_is_not_passed_on_to_flows_and_upstreams() {
    let issuer = JwtIssuer::start().await;
    let token = issuer.token(&json!({}));
    let gateway = Gateway::with(&(issuer.config("") + &public(&["/echo"])));
    let code = "msg.payload = msg.req.headers; return msg";
    let admin = gateway.sign_in("admin").await;
    gateway
        .deploy(&admin, &flow_set(&[script("a", "get", "/echo", code)]))
        .await;
    let seen = gateway
        .get("/echo")
        .token(&token)
        .header("X-Copy", &token)
        .send()
        .await;
    assert!(!seen.text().contains(&token), "{}", seen.text());

    let upstream = MockUpstream::start(|_| Action::Respond(ok("text/plain", "a"))).await;
    let gateway = Gateway::with(&(upstream.config() + &issuer.config("")));
    let answer = gateway
        .get("/x")
        .token(&token)
        .header("X-Copy", &token)
        .send()
        .await;
    assert_eq!(answer.status, 200);
    assert!(!upstream.only().contains(&token));
}
