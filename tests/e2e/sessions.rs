//! `/gateway/sessions`: users list and end their sessions, with `*` those of others.

use crate::client::Client;
use crate::harness::{Gateway, program, until};
use crate::mock_upstream::{Action, MockUpstream, ok};
use crate::multiple_upstreams::{in_front_of, sign_in};
use serde_json::{Value as Json, json};

async fn sessions(client: &Client, token: &str) -> Vec<Json> {
    let answer = client.get("/gateway/sessions").token(token).send().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("cache-control"), "no-store");
    answer.json()["sessions"].as_array().unwrap().clone()
}

async fn end(client: &Client, token: &str, rest: &str) -> (u16, Json) {
    let path = format!("/gateway/sessions{rest}");
    let answer = client.request("DELETE", &path).token(token).send().await;
    let body = answer.text();
    let body = serde_json::from_str(&body).unwrap_or(Json::Null);
    (answer.status, body)
}

fn names(sessions: &[Json]) -> Vec<&str> {
    let mut names: Vec<_> = sessions
        .iter()
        .map(|session| session["user"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    names
}

/// The id of the session whose token is shown.
async fn own_id(client: &Client, token: &str) -> String {
    let sessions = sessions(client, token).await;
    let current = sessions.iter().find(|session| session["current"] == true);
    current.unwrap()["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn users_see_their_own_sessions_and_with_all_permissions_those_of_everyone() {
    let gateway = Gateway::start();
    let form = gateway.sign_in_request("reader", crate::client::PASSWORD, "flows.read");
    let form = form.header("User-Agent", "Editor/1 \u{202e}<b>");
    let token = form.send().await.json()["access_token"]
        .as_str()
        .unwrap()
        .to_owned();
    let other = gateway.sign_in("reader").await;
    let admin = gateway.sign_in("admin").await;

    let own = sessions(&gateway, &token).await;
    assert_eq!(names(&own), ["reader", "reader"]);
    let mine = own
        .iter()
        .find(|session| session["current"] == true)
        .unwrap();
    assert_eq!(mine["client"], "service-admin");
    assert_eq!(mine["agent"], "Editor/1 \\xe2\\x80\\xae<b>");
    assert_eq!(mine["permissions"], json!(["flows.read"]));
    assert!(mine["last_used"].is_string(), "this request is a use");
    let unused = own
        .iter()
        .find(|session| session["current"] == false)
        .unwrap();
    assert_eq!(unused["last_used"], Json::Null);

    let all = sessions(&gateway, &admin).await;
    assert_eq!(names(&all), ["admin", "reader", "reader"]);
    let shown = json!(all).to_string();
    for token in [&token, &other, &admin] {
        let hash = crypto::hex(&crypto::sha256(token.as_bytes()));
        assert!(!shown.contains(&token[..8]) && !shown.contains(&hash[..8]));
    }
    assert_eq!(gateway.get("/gateway/sessions").send().await.status, 401);
}

#[tokio::test]
async fn a_session_is_ended_by_its_user_or_with_all_permissions_and_by_no_other() {
    let gateway = Gateway::start();
    let reader = gateway.sign_in("reader").await;
    let deployer = gateway.sign_in("deployer").await;
    let admin = gateway.sign_in("admin").await;
    let id = own_id(&gateway, &reader).await;

    assert_eq!(end(&gateway, &deployer, &format!("/{id}")).await.0, 404);
    assert_eq!(end(&gateway, &deployer, "?user=reader").await.0, 401);
    assert_eq!(end(&gateway, &deployer, "?all=true").await.0, 401);
    for rest in ["", "?all=false", "?user=deployer&all=true", "?all=yes"] {
        assert_eq!(end(&gateway, &deployer, rest).await.0, 400, "{rest}");
    }
    assert!(gateway.accepts_token(&reader).await);

    assert_eq!(
        end(&gateway, &admin, &format!("/{id}")).await,
        (200, json!({ "revoked": 1 }))
    );
    assert!(!gateway.accepts_token(&reader).await);
    assert_eq!(end(&gateway, &admin, &format!("/{id}")).await.0, 404);

    let mut channel = gateway.editor(&admin).await;
    let second = gateway.sign_in("deployer").await;
    assert_eq!(
        end(&gateway, &deployer, "?user=deployer").await,
        (200, json!({ "revoked": 2 }))
    );
    assert!(!gateway.accepts_token(&second).await);
    assert_eq!(
        end(&gateway, &admin, "?all=true").await,
        (200, json!({ "revoked": 1 }))
    );
    channel.is_rejected().await;
    assert_eq!(gateway.metric("flowgate_sessions_active").await, Some(0.0));

    until("the records are written", async || {
        let audit = gateway.audit();
        let ended = audit
            .iter()
            .filter(|record| record["event"] == "session.revoke");
        ended.count() == 3
    })
    .await;
    let audit = gateway.audit();
    let ended: Vec<_> = audit
        .iter()
        .filter(|record| record["event"] == "session.revoke")
        .map(|record| {
            (
                record["user"].clone(),
                record["of"].clone(),
                record["id"].clone(),
            )
        })
        .collect();
    let expected = [
        (json!("admin"), json!("reader"), json!(id)),
        (json!("deployer"), json!("deployer"), Json::Null),
        (json!("admin"), json!("*"), Json::Null),
    ];
    assert_eq!(ended, expected);
    assert!(
        audit
            .iter()
            .any(|record| record["event"] == "permission.denied" && record["user"] == "deployer")
    );
}

#[tokio::test]
async fn tokens_of_machines_are_neither_listed_nor_ended_and_have_no_sessions_of_their_own() {
    let gateway = Gateway::start();
    let place = gateway.directory.path();
    let mut command = program(
        place,
        &["token", "create", "--name", "ci", "--permission", "*"],
    );
    let output = command
        .stdout(std::process::Stdio::piped())
        .output()
        .unwrap();
    let machine = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    gateway.sign_in("reader").await;
    assert_eq!(names(&sessions(&gateway, &machine).await), ["reader"]);
    assert_eq!(
        end(&gateway, &machine, "?user=token:ci").await.1["revoked"],
        0
    );
    assert_eq!(end(&gateway, &machine, "?all=true").await.1["revoked"], 1);
    assert!(gateway.accepts_token(&machine).await);
}

#[tokio::test]
async fn all_permissions_at_one_upstream_do_not_end_sessions_of_others() {
    let upstream = MockUpstream::start(|_| Action::Respond(ok("text/plain", "a"))).await;
    let place = "path = \"/a\"\npermissions = { reader = [\"*\"] }";
    let gateway = Gateway::with(&in_front_of(&[(&upstream, place)]));
    let token = async |user: &str| {
        let answer = sign_in(&gateway, "/a", user, "").await;
        answer.json()["access_token"].as_str().unwrap().to_owned()
    };
    let (admin, reader) = (token("admin").await, token("reader").await);
    let path = "/a/gateway/sessions";
    let answer = gateway.get(path).token(&reader).send().await.json();
    assert_eq!(names(answer["sessions"].as_array().unwrap()), ["reader"]);
    let all = format!("{path}?all=true");
    let answer = gateway.request("DELETE", &all).token(&reader).send().await;
    assert_eq!(answer.status, 401);
    let answer = gateway.request("DELETE", &all).token(&admin).send().await;
    assert_eq!(
        (answer.status, answer.json()),
        (200, json!({ "revoked": 2 }))
    );
}
