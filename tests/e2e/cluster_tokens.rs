//! Service tokens and passkeys of gateways that share a store: made at one, they count at the
//! other, with their limits, until they are revoked at either.

use crate::client::{Answer, Client};
use crate::cluster::{Cluster, assert_refused_in_time};
use crate::harness::{Gateway, until};
use crate::passkeys::{LINES, begin, finish, registered, sign_in, step_up, token};
use serde_json::{Value as Json, json};

/// With what passkeys need of gateways that share a store.
fn with_secret(lines: &str) -> String {
    format!("storage.credential_secret = \"of all gateways\"\n{lines}")
}

/// Makes a service token that may read flows.
async fn made(client: &Client, session: &str, name: &str, limits: Json) -> Json {
    let mut body = json!({ "name": name, "permissions": ["flows.read"] });
    let fields = body.as_object_mut().unwrap();
    fields.extend(limits.as_object().unwrap().clone());
    let made = client.post("/gateway/tokens").token(session).json(&body);
    let made = made.send().await;
    assert_eq!(made.status, 201, "{}", made.text());
    made.json()
}

async fn read(client: &Client, token: &Json) -> Answer {
    let token = token["token"].as_str().unwrap();
    client.get("/flows").token(token).send().await
}

#[tokio::test]
async fn a_service_token_of_every_gateway_is_revoked_at_one_within_a_second() {
    let cluster = Cluster::with("");
    let Cluster { one, other, .. } = &cluster;
    let admin = one.sign_in("admin").await;
    let token = made(one, &admin, "ci", json!({})).await;
    for gateway in [one, other] {
        assert_eq!(read(gateway, &token).await.status, 200);
    }
    let listed = other.get("/gateway/tokens").token(&admin).send().await;
    let listed = listed.json()["tokens"].clone();
    assert_eq!(listed[0]["name"], "ci", "{listed}");

    let path = "/gateway/tokens/ci";
    let revoked = other.request("DELETE", path).token(&admin).send().await;
    assert_eq!(revoked.status, 204, "{}", revoked.text());
    assert_eq!(read(other, &token).await.status, 401);
    assert_refused_in_time(one, token["token"].as_str().unwrap()).await;
}

#[tokio::test]
async fn the_limits_of_a_service_token_hold_at_the_gateway_where_it_was_not_made() {
    let cluster = Cluster::with("");
    let Cluster { one, other, .. } = &cluster;
    let admin = one.sign_in("admin").await;
    let elsewhere = made(
        one,
        &admin,
        "elsewhere",
        json!({ "networks": ["203.0.113.0/24"] }),
    )
    .await;
    for gateway in [one, other] {
        assert_eq!(read(gateway, &elsewhere).await.status, 403);
    }
    let slow = made(one, &admin, "slow", json!({ "rate_limit": "2/h" })).await;
    for status in [200, 200, 429] {
        assert_eq!(read(other, &slow).await.status, status);
    }
}

#[tokio::test]
async fn a_passkey_of_one_gateway_signs_in_at_the_other_until_it_is_removed() {
    let cluster = Cluster::with(&with_secret(LINES));
    let Cluster { one, other, .. } = &cluster;
    let mut phone = registered(one, "admin").await;
    let session = token(&sign_in(other, &phone).await);
    assert!(one.accepts_token(&session).await);

    // The counter that the other one has seen: the same once more is a copy.
    phone.counter = 7;
    token(&sign_in(other, &phone).await);
    assert_ne!(sign_in(one, &phone).await.status, 200, "a copy");

    let listed = one.get("/gateway/passkeys").token(&session).send().await;
    let id = listed.json()["passkeys"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("/gateway/passkeys/{id}");
    let removed = other.request("DELETE", &path).token(&session).send().await;
    assert_eq!(removed.status, 204, "{}", removed.text());
    phone.counter = 8;
    assert_ne!(sign_in(one, &phone).await.status, 200, "it is gone");
}

#[tokio::test]
async fn a_second_factor_that_was_given_at_one_gateway_counts_at_the_other_after_a_restart_too() {
    let lines = LINES.replace(
        "passkeys = true",
        "passkeys = true\nstep_up = [\"flows.write\"]",
    );
    let Cluster {
        one,
        other,
        postgres: _postgres,
        _engine,
    } = Cluster::with(&with_secret(&lines));
    let phone = registered(&one, "admin").await;
    let session = other.sign_in("admin").await;
    let deploy = async |client: &Client| {
        let request = client.deployment(&session, &json!([]), None);
        request.send().await.status
    };
    assert_eq!(deploy(&one).await, 403);
    let stepped_up = step_up(&other, &session, &phone).await;
    assert_eq!(stepped_up.status, 204, "{}", stepped_up.text());
    assert_eq!(deploy(&other).await, 200);
    until("it counts at the other gateway", async || {
        deploy(&one).await == 200
    })
    .await;
    let other = other.restart().await;
    assert_eq!(deploy(&other).await, 200);
}

#[tokio::test]
async fn a_challenge_of_one_gateway_is_answered_at_the_other_and_once() {
    let Cluster { one, other, .. } = &Cluster::with(&with_secret(LINES));
    let phone = registered(one, "admin").await;
    let path = "/gateway/passkeys/sign-in";
    let begun = begin(one, path, "").await;
    let answer = async |client: &Client| {
        finish(client, path, &begun, &phone.get(&begun))
            .send()
            .await
    };
    token(&answer(other).await);
    for again in [one, other] {
        assert_eq!(answer(again).await.code(), "invalid_grant");
    }
}

#[tokio::test]
async fn a_row_that_someone_inserts_into_the_shared_table_is_no_token_where_there_is_a_secret() {
    for (lines, status) in [(String::new(), 200), (with_secret(""), 401)] {
        let cluster = Cluster::with(&lines);
        let Cluster { one, other, .. } = &cluster;
        // A token with the form of one, of a gateway that has nothing to do with these.
        let token = Gateway::start().sign_in("admin").await;
        let key = crypto::hex(&crypto::sha256(token.as_bytes()));
        let columns = "token, \"user\", client, scope, created, expires, agent";
        cluster.postgres.sql(&format!(
            "INSERT INTO session ({columns}) VALUES ('\\x{key}', 'token:ops', 'service-token', '[\"*\"]', 1, 9000000000, '')"
        ));
        for gateway in [one, other] {
            let answer = gateway.get("/flows").token(&token).send().await;
            assert_eq!(answer.status, status);
        }
        // Those that the gateways write count at both.
        let admin = one.sign_in("admin").await;
        for gateway in [one, other] {
            assert_eq!(gateway.get("/flows").token(&admin).send().await.status, 200);
        }
    }
}
