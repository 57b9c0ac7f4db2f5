//! The signed identity of a caller: `X-Flowgate-Identity`, and the keys for it.

use crate::client::PASSWORD;
use crate::harness::Gateway;
use crate::mock_upstream::{Action, MockUpstream, ok};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value as Json, json};
use std::fs;
use std::path::Path;

fn make_key(directory: &Path, name: &str) {
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let der = EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new()).unwrap();
    let text = STANDARD.encode(der.as_ref());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n");
    fs::write(directory.join(name), pem).unwrap();
}

fn decoded(text: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text).unwrap()
}

/// The claims of a token, as a receiver with these keys checks it; `None`: no key has signed it.
fn verified(token: &str, jwks: &Json) -> Option<Json> {
    let (text, signature) = token.rsplit_once('.').unwrap();
    let (header, claims) = text.split_once('.').unwrap();
    let header: Json = serde_json::from_slice(&decoded(header)).unwrap();
    assert_eq!(
        (&header["alg"], &header["typ"]),
        (&json!("ES256"), &json!("JWT"))
    );
    let mut keys = jwks["keys"].as_array().unwrap().iter();
    let key = keys.find(|key| key["kid"] == header["kid"])?;
    let coordinate = |name: &str| decoded(key[name].as_str().unwrap());
    let point = [vec![4], coordinate("x"), coordinate("y")].concat();
    let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
    public.verify(text.as_bytes(), &decoded(signature)).ok()?;
    serde_json::from_slice(&decoded(claims)).ok()
}

async fn jwks(gateway: &Gateway) -> Json {
    let answer = gateway.get("/gateway/jwks.json").send().await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), "application/jwk-set+json");
    assert_eq!(answer.header("cache-control"), "public, max-age=300");
    let keys = answer.json();
    assert!(!answer.text().contains("\"d\""), "no private part");
    keys
}

fn sent(upstream: &MockUpstream) -> Vec<String> {
    let request = upstream.received().pop().unwrap().bytes;
    let field = |line: &str| {
        line.strip_prefix("x-flowgate-identity: ")
            .map(str::to_owned)
    };
    request.lines().filter_map(field).collect()
}

#[tokio::test]
async fn an_upstream_gets_a_token_that_no_client_can_forge_or_replace() {
    let directory = tempfile::tempdir().unwrap();
    make_key(directory.path(), "a.key");
    let upstream = MockUpstream::start(|_| Action::Respond(ok("text/plain", "x"))).await;
    let lines = upstream.config_with("name = \"plant\"\nidentity_headers = true\nhealth = \"1h\"");
    let lines = format!(
        "{lines}\n[identity]\nkeys = [\"a.key\"]\nissuer = \"https://gate\"\n[[route]]\npath = \"/open\"\npublic = true\n"
    );
    let gateway = Gateway::open(&lines, directory);
    let token = gateway.sign_in("reader").await;
    let keys = jwks(&gateway).await;

    let forged = |request: crate::client::Request| {
        request
            .header("X-Flowgate-Identity", "forged")
            .header("X_Flowgate_Identity", "forged")
    };
    let answer = forged(gateway.get("/page").token(&token)).send().await;
    assert_eq!(answer.status, 200);
    let tokens = sent(&upstream);
    assert_eq!(tokens.len(), 1);
    let claims = verified(&tokens[0], &keys).unwrap();
    for (name, value) in [
        ("iss", json!("https://gate")),
        ("aud", json!("plant")),
        ("sub", json!("reader")),
        ("permissions", json!(["read"])),
    ] {
        assert_eq!(claims[name], value, "{name}");
    }
    assert_eq!(
        claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(),
        60
    );
    assert!(
        !upstream
            .received()
            .pop()
            .unwrap()
            .bytes
            .to_lowercase()
            .contains("forged")
    );

    // No caller, no token.
    forged(gateway.get("/open")).send().await;
    assert_eq!(sent(&upstream), Vec::<String>::new());
}

#[tokio::test]
async fn verify_signs_for_the_applications_that_are_configured_and_keys_are_replaced_by_a_reload() {
    let directory = tempfile::tempdir().unwrap();
    make_key(directory.path(), "a.key");
    make_key(directory.path(), "b.key");
    let lines = |keys: &str| format!("[identity]\nkeys = {keys}\naudiences = [\"reports\"]");
    let gateway = Gateway::open(&lines("[\"a.key\"]"), directory);
    let token = gateway.sign_in("reader").await;
    let ask = async |query: &str| {
        let path = format!("/gateway/verify{query}");
        gateway.get(&path).token(&token).send().await
    };
    assert_eq!(ask("?audience=other").await.status, 400);
    assert_eq!(ask("").await.header("x-flowgate-identity"), "");
    let old = ask("?audience=reports")
        .await
        .header("x-flowgate-identity")
        .to_owned();
    let keys = jwks(&gateway).await;
    assert_eq!(verified(&old, &keys).unwrap()["aud"], "reports");

    assert!(gateway.reload(&lines("[\"b.key\", \"a.key\"]")).await);
    let new = ask("?audience=reports")
        .await
        .header("x-flowgate-identity")
        .to_owned();
    assert_eq!(
        verified(&new, &keys),
        None,
        "the old set does not know the new key"
    );
    let keys = jwks(&gateway).await;
    assert!(verified(&new, &keys).is_some() && verified(&old, &keys).is_some());
    assert!(gateway.reload(&lines("[\"b.key\"]")).await);
    assert_eq!(verified(&old, &jwks(&gateway).await), None);

    // A list that cannot be read leaves the keys as they are.
    gateway.reload(&lines("[\"missing.key\"]")).await;
    assert!(verified(&new, &jwks(&gateway).await).is_some());
}

#[tokio::test]
async fn a_token_is_shared_by_requests_of_one_user_audience_and_set_of_permissions() {
    let directory = tempfile::tempdir().unwrap();
    make_key(directory.path(), "a.key");
    let lines =
        "[identity]\nkeys = [\"a.key\"]\nlifetime = \"1h\"\naudiences = [\"reports\", \"charts\"]";
    let gateway = Gateway::open(lines, directory);
    let keys = jwks(&gateway).await;
    let ask = async |token: &str, audience: &str| {
        let path = format!("/gateway/verify?audience={audience}");
        let answer = gateway.get(&path).token(token).send().await;
        answer.header("x-flowgate-identity").to_owned()
    };
    let reader = gateway.sign_in("reader").await;
    let first = ask(&reader, "reports").await;
    assert_eq!(ask(&reader, "reports").await, first);
    assert_eq!(
        ask(&gateway.sign_in("reader").await, "reports").await,
        first,
        "in another session too"
    );
    let narrower = gateway.sign_in_request("reader", PASSWORD, "flows.read");
    let narrower = narrower.send().await.json();
    let narrower = narrower["access_token"].as_str().unwrap();
    for (token, audience, claim, value) in [
        (reader.as_str(), "charts", "aud", json!("charts")),
        (
            &gateway.sign_in("admin").await,
            "reports",
            "sub",
            json!("admin"),
        ),
        (narrower, "reports", "permissions", json!(["flows.read"])),
    ] {
        let other = ask(token, audience).await;
        assert_eq!(verified(&other, &keys).unwrap()[claim], value);
    }
    assert_eq!(verified(&first, &keys).unwrap()["sub"], "reader");
}
