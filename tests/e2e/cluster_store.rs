//! The store that several gateways share: how it is reached, moved to, moved back from, and
//! restored.

use crate::certificate_authority::{Authority, ClientCertificate};
use crate::client::Client;
use crate::cluster::in_front_of;
use crate::harness::{Gateway, config_text, flow_set, page, program, run_command, run_to_exit};
use serde_json::{Value as Json, json};
use std::net::IpAddr;
use std::path::Path;
use testing::postgres::Postgres;

/// An engine, to stand in front of.
fn engine() -> Gateway {
    Gateway::with("auth = \"off\"\nlog = { level = \"warn\" }")
}

/// The lines of a gateway in front of an engine whose state is in a file.
fn alone(lines: &str) -> String {
    let upstream = lines.lines().next().unwrap();
    format!("{upstream}\n")
}

/// `flowgate store migrate` in a gateway's directory; its exit code and standard error.
fn migrate(directory: &Path, lines: &str, from: &str, to: &str) -> (Option<i32>, String) {
    std::fs::write(directory.join("gateway.toml"), config_text(lines)).unwrap();
    let arguments = ["store", "migrate", "--from", from, "--to", to];
    run_command(program(directory, &arguments))
}

async fn read(gateway: &Client, token: &str, path: &str) -> Json {
    let answer = gateway.get(path).token(token).send().await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

async fn revisions(gateway: &Client, token: &str) -> Vec<Json> {
    let list = read(gateway, token, "/gateway/deployments").await;
    let list = list["deployments"].as_array().unwrap();
    list.iter().map(|entry| entry["rev"].clone()).collect()
}

/// A service token of the administrator's.
async fn service_token(gateway: &Client, admin: &str) -> String {
    let body = json!({ "name": "ci", "permissions": ["flows.read"] });
    let made = gateway.post("/gateway/tokens").token(admin).json(&body);
    let made = made.send().await;
    assert_eq!(made.status, 201, "{}", made.text());
    made.json()["token"].as_str().unwrap().to_owned()
}

async fn deploy(gateway: &Client, token: &str, text: &str) -> String {
    let flows = flow_set(&[page("a", "/a", text)]);
    gateway.deploy(token, &flows).await
}

#[tokio::test]
async fn everything_moves_from_sqlite_to_postgres_and_back() {
    let (engine, postgres) = (engine(), Postgres::start());
    let shared = in_front_of(&engine, &postgres.url());
    let lines = alone(&shared);

    let gateway = Gateway::with(&lines);
    let admin = gateway.sign_in("admin").await;
    let service = service_token(&gateway, &admin).await;
    let ended = gateway.sign_in("reader").await;
    let revoke = gateway.post("/auth/revoke").token(&ended);
    revoke.json(&json!({ "token": ended })).send().await;
    let first = deploy(&gateway, &admin, "first").await;
    deploy(&gateway, &admin, "second").await;
    let tag = gateway.post("/gateway/tags/v1").token(&admin);
    assert_eq!(tag.json(&json!({ "rev": first })).send().await.status, 200);
    let known = revisions(&gateway, &admin).await;
    assert!(known.len() >= 2, "{known:?}");

    let directory = gateway.stop().await;
    let (code, errors) = migrate(directory.path(), &shared, "sqlite", "postgres");
    assert_eq!(code, Some(0), "{errors}");
    let (code, errors) = migrate(directory.path(), &shared, "sqlite", "postgres");
    assert_eq!(code, Some(1));
    assert!(errors.contains("only an empty one"), "{errors}");

    let gateway = Gateway::open(&shared, directory);
    for token in [&admin, &service] {
        assert!(gateway.accepts_token(token).await);
    }
    assert!(!gateway.accepts_token(&ended).await);
    assert_eq!(revisions(&gateway, &admin).await, known);
    let third = deploy(&gateway, &admin, "third").await;
    let shown = read(&gateway, &admin, "/gateway/deployments/v1").await;
    assert_eq!(shown["rev"], json!(first));
    let later = gateway.sign_in("reader").await;

    let directory = gateway.stop().await;
    std::fs::remove_file(directory.path().join("data/flowgate.db")).unwrap();
    let (code, errors) = migrate(directory.path(), &shared, "postgres", "sqlite");
    assert_eq!(code, Some(0), "{errors}");
    let gateway = Gateway::open(&lines, directory);
    for token in [&admin, &service, &later] {
        assert!(gateway.accepts_token(token).await);
    }
    let newest = revisions(&gateway, &admin).await;
    assert_eq!((&newest[0], newest.len()), (&json!(third), known.len() + 1));
    deploy(&gateway, &admin, "fourth").await;
}

#[tokio::test]
async fn a_deployment_waits_until_the_history_has_the_one_before_it() {
    let (engine, postgres) = (engine(), Postgres::start());
    let gateway = Gateway::with(&in_front_of(&engine, &postgres.url()));
    let admin = gateway.sign_in("admin").await;
    let first = deploy(&gateway, &admin, "first").await;
    postgres.sql(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''no''; END';
         CREATE TRIGGER refuse BEFORE INSERT ON deployments EXECUTE FUNCTION refuse()",
    );
    // It was sent when its entry failed, so it is acknowledged.
    let second = deploy(&gateway, &admin, "second").await;
    let next = flow_set(&[page("a", "/a", "third")]);
    let refused = gateway.deployment(&admin, &next, None).send().await;
    assert_eq!(refused.status, 500, "{}", refused.text());
    assert_eq!(refused.json()["code"], "storage_failed");
    let active = gateway.flows(&admin).await;
    assert_eq!(active["rev"], json!(second), "it was not sent");

    postgres.sql("DROP TRIGGER refuse ON deployments");
    let third = deploy(&gateway, &admin, "third").await;
    let known = revisions(&gateway, &admin).await;
    assert_eq!(known[..3], [json!(third), json!(second), json!(first)]);
}

#[tokio::test]
async fn a_dump_restores_the_sessions_and_the_history() {
    let (engine, postgres) = (engine(), Postgres::start());
    let lines = in_front_of(&engine, &postgres.url());
    let gateway = Gateway::with(&lines);
    let admin = gateway.sign_in("admin").await;
    deploy(&gateway, &admin, "first").await;
    let known = revisions(&gateway, &admin).await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("flowgate.dump");
    postgres.dump(&file);

    let later = gateway.sign_in("reader").await;
    let stopped = gateway.stop().await;
    postgres.restore(&file);
    let gateway = Gateway::open(&lines, stopped);
    assert!(gateway.accepts_token(&admin).await);
    assert!(!gateway.accepts_token(&later).await);
    assert_eq!(revisions(&gateway, &admin).await, known);
    deploy(&gateway, &admin, "second").await;
}

#[tokio::test]
async fn a_server_with_tls_and_passwords_is_reached_if_its_certificate_is_of_the_given_authority() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let authority = Authority::new("PostgreSQL's");
    let certificate = ClientCertificate::named("db")
        .dns("localhost")
        .for_servers();
    authority.write(&certificate, &at("server.crt"), &at("server.key"));
    std::fs::write(at("authority.crt"), &authority.pem).unwrap();
    std::fs::write(at("other.crt"), &Authority::new("another").pem).unwrap();
    let postgres = Postgres::start_with_tls(&at("server.crt"), &at("server.key"), "secret");
    let engine = engine();
    let with = |password: &str, authority: &str| {
        let plain = in_front_of(&engine, &postgres.url());
        let url = format!(
            "postgres://flowgate:{password}@localhost:{}/flowgate?sslmode=require",
            postgres.port()
        );
        let authority = at(authority);
        let authority = authority.display();
        format!(
            "{}storage.url = \"{url}\"\nstorage.ca_file = \"{authority}\"\n",
            alone(&plain)
        )
    };
    let gateway = Gateway::with(&with("secret", "authority.crt"));
    let token = gateway.sign_in("admin").await;
    let other = Gateway::with(&with("secret", "authority.crt"));
    assert!(other.accepts_token(&token).await);

    for (password, authority, words) in [
        ("wrong", "authority.crt", "password authentication failed"),
        ("secret", "other.crt", "certificate"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let text = config_text(&with(password, authority));
        std::fs::write(directory.path().join("gateway.toml"), text).unwrap();
        let (code, log) = run_to_exit(directory.path());
        assert_ne!(code, Some(0), "{log}");
        assert!(log.contains(words), "{words}: {log}");
        assert!(
            !log.contains(":wrong@") && !log.contains(":secret@"),
            "{log}"
        );
    }
}

#[tokio::test]
async fn an_address_with_many_unknown_tokens_asks_the_database_no_more() {
    let (engine, postgres) = (engine(), Postgres::start());
    // Ten times as many are looked up.
    let limit = "[auth.throttle]\nbad_tokens_per_address = 1\n";
    let gateway = Gateway::with(&format!("{}{limit}", in_front_of(&engine, &postgres.url())));
    gateway.sign_in("reader").await;
    // Well-formed tokens, of a gateway with another store.
    let elsewhere = Gateway::start();
    let mut unknown = Vec::new();
    for _ in 0..11 {
        unknown.push(elsewhere.sign_in("reader").await);
    }
    let (new, bad) = unknown.split_last().unwrap();
    let from = |token: &str, address: [u8; 4]| {
        let request = gateway.get("/flows").token(token);
        request.from(&IpAddr::from(address).to_string())
    };
    for token in bad {
        from(token, [127, 0, 0, 2]).send().await;
    }
    // As if another gateway had just handed it out.
    postgres.sql(&format!(
        "UPDATE session SET token = sha256('{new}'::bytea)"
    ));
    let status = async |address| from(new, address).send().await.status;
    assert_eq!(status([127, 0, 0, 2]).await, 429);
    assert_eq!(status([127, 0, 0, 3]).await, 200);
}
