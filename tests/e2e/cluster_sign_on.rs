//! Users of a provider of OpenID Connect at gateways that share a store: signed in at one, they are
//! at the other too, as long as the provider stands by them, whichever gateway asks it or hears of
//! it first.

use crate::cluster::{assert_refused_in_time, in_front_of, refusal};
use crate::harness::{Gateway, until};
use crate::oidc_provider::{OidcProvider, SsoBrowser};
use crate::reverse_proxies::free_address;
use serde_json::{Value as Json, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use testing::postgres::Postgres;

const EDITOR: &str = "/gateway/sign-in/corp?editor=true";

/// Two gateways on one store, with a provider that knows the address of the first one.
struct SignOnCluster {
    provider: OidcProvider,
    postgres: Postgres,
    _engine: Gateway,
    one: Gateway,
    other: Gateway,
}

fn lines(engine: &Gateway, store: &str) -> String {
    in_front_of(engine, store) + "storage.credential_secret = \"a secret of all gateways\"\n"
}

impl SignOnCluster {
    fn start() -> Self {
        let postgres = Postgres::start();
        let engine = Gateway::with("auth = \"off\"\nlog = { level = \"warn\" }");
        let first = free_address();
        let provider = OidcProvider::start(first);
        let back = format!("redirect_url = \"https://{first}/gateway/sign-in/corp/callback\"");
        let gateway = |address: SocketAddr| {
            let lines = lines(&engine, &postgres.url());
            Gateway::with(&(lines + &provider.config(address, &back)))
        };
        let (one, other) = (gateway(first), gateway(free_address()));
        Self {
            one,
            other,
            provider,
            postgres,
            _engine: engine,
        }
    }
}

async fn permissions(gateway: &Gateway, token: &str) -> Json {
    let settings = gateway.get("/settings").token(token).send().await;
    settings.json()["user"]["permissions"].clone()
}

#[tokio::test]
async fn a_session_of_a_provider_counts_at_every_gateway_and_its_rights_follow_the_groups() {
    let mut cluster = SignOnCluster::start();
    cluster.provider.tell("groups ann editors");
    let token = SsoBrowser::new(&cluster.one).sign_in_as_editor().await;
    let gateways = [&cluster.one, &cluster.other];
    for gateway in gateways {
        let settings = gateway.get("/settings").token(&token).send().await;
        let user = json!({ "username": "oidc:corp:ann", "permissions": "*" });
        assert_eq!(settings.json()["user"], user);
    }
    // Of both, one asks each time: a refresh token that is used twice ends the session at this
    // provider.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(5) {
        for gateway in gateways {
            assert!(gateway.accepts_token(&token).await);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for (groups, expected) in [("readers", json!("read")), ("editors", json!("*"))] {
        cluster.provider.tell(&format!("groups ann {groups}"));
        for gateway in gateways {
            until("the rights have changed", async || {
                permissions(gateway, &token).await == expected
            })
            .await;
        }
    }
    cluster.provider.tell("groups ann");
    for gateway in gateways {
        refusal(gateway, &token).await;
    }
}

#[tokio::test]
async fn a_session_goes_on_at_the_other_gateway_while_the_provider_stands_by_it() {
    let mut cluster = SignOnCluster::start();
    cluster.provider.tell("groups ann editors");
    let token = SsoBrowser::new(&cluster.one).sign_in_as_editor().await;
    drop(cluster.one.stop().await);
    let other = cluster.other.restart().await;
    assert!(other.accepts_token(&token).await, "after a restart");
    cluster.provider.tell("groups ann readers");
    until("the rights have changed", async || {
        permissions(&other, &token).await == "read"
    })
    .await;
    cluster.provider.tell("groups ann");
    refusal(&other, &token).await;
}

#[tokio::test]
async fn the_provider_ends_a_session_at_all_gateways_within_a_second_by_telling_one_of_them() {
    let mut cluster = SignOnCluster::start();
    cluster.provider.tell("groups ann editors");
    let mut browser = SsoBrowser::new(&cluster.one);
    let callback = browser.begin(EDITOR).await;
    let callback = browser.at_provider(&callback).await;
    // The browser comes back to the other gateway; the provider tells the first one.
    let (_, path) = callback.split_once("/gateway").unwrap();
    browser.browser.client = (*cluster.other).clone();
    let page = browser.browser.navigate(&format!("/gateway{path}"));
    let page = page.send().await;
    assert_eq!(page.status, 200, "{}", page.text());
    let page = page.text();
    let (_, rest) = page.split_once("data-token=\"").unwrap();
    let token = rest.split_once('"').unwrap().0;
    assert!(cluster.other.accepts_token(token).await);

    cluster.provider.tell("logout ann");
    assert!(!cluster.one.accepts_token(token).await, "it was asked to");
    assert_refused_in_time(&cluster.other, token).await;
    let again = browser.browser.navigate(&format!("/gateway{path}"));
    assert_eq!(again.send().await.status, 403, "its code was used");
}

#[tokio::test]
async fn a_session_of_a_provider_that_is_revoked_at_one_gateway_ends_at_the_other_within_a_second()
{
    let mut cluster = SignOnCluster::start();
    cluster.provider.tell("groups ann editors");
    let token = SsoBrowser::new(&cluster.one).sign_in_as_editor().await;
    assert!(cluster.other.accepts_token(&token).await);
    let revoke = cluster.other.post("/auth/revoke").token(&token);
    let revoked = revoke.json(&json!({ "token": token })).send().await;
    assert_eq!(revoked.status, 200, "{}", revoked.text());
    let leads = revoked.json()["redirect"].as_str().unwrap().to_owned();
    let provider = format!("http://{}/", cluster.provider.address);
    assert!(leads.starts_with(&provider), "{leads}");
    assert_refused_in_time(&cluster.one, &token).await;
}

#[tokio::test]
async fn the_store_keeps_no_token_of_a_provider_that_can_be_read() {
    let mut cluster = SignOnCluster::start();
    cluster.provider.tell("groups ann editors");
    SsoBrowser::new(&cluster.one).sign_in_as_editor().await;
    let kept = cluster
        .postgres
        .sql("SELECT provider FROM session WHERE provider IS NOT NULL");
    assert!(kept.len() > 100, "{kept}");
    // Names of fields, which sealed bytes, written in base64, contain by no chance.
    for readable in ["refresh_token", "id_token", "subject"] {
        assert!(!kept.contains(readable), "{readable}: {kept}");
    }
}
