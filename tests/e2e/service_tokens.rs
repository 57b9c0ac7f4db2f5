//! `/gateway/tokens` and `/gateway/users`: service tokens that users make, within their own rights;
//! and the attacks on them.

use crate::certificate_authority::{Authority, ClientCertificate};
use crate::client::{Answer, Client, PASSWORD};
use crate::harness::{Gateway, hash, program, until};
use crate::multiple_upstreams::{in_front_of, named};
use crate::passkeys::{LINES, registered};
use crate::policies::tab_with;
use crate::proposals::{approving, decide, deploy, propose};
use serde_json::{Value as Json, json};
use std::process::Stdio;

fn user(name: &str, rest: &str) -> String {
    let hash = hash(PASSWORD);
    format!("[[auth.user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\n{rest}\n")
}

/// An administrator, and a user with some rights who may make tokens.
fn users(rights: &str) -> String {
    user("admin", "permissions = [\"*\"]") + &user("ann", rights)
}

const ANN: &str = "permissions = [\"flows.read\", \"gateway.tokens\"]";

async fn make(client: &Client, session: &str, body: &Json) -> Answer {
    let request = client.post("/gateway/tokens").token(session);
    request.json(body).send().await
}

/// Makes a token that must be made; its text.
async fn made(client: &Client, session: &str, name: &str, permissions: &[&str]) -> String {
    let body = json!({ "name": name, "permissions": permissions });
    let answer = make(client, session, &body).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["token"].as_str().unwrap().to_owned()
}

async fn listed(client: &Client, session: &str) -> Vec<Json> {
    let answer = client.get("/gateway/tokens").token(session).send().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("cache-control"), "no-store");
    answer.json()["tokens"].as_array().unwrap().clone()
}

async fn status(client: &Client, path: &str, token: &str) -> u16 {
    client.get(path).token(token).send().await.status
}

fn refusal(answer: &Answer) -> (u16, String) {
    (answer.status, answer.code())
}

/// The record of an event about a token, once it is written.
async fn record(gateway: &Gateway, event: &str, name: &str) -> Json {
    let find = || {
        let mut audit = gateway.audit().into_iter();
        audit.find(|record| record["event"] == event && record["name"] == name)
    };
    until("the record is written", async || find().is_some()).await;
    find().unwrap()
}

#[tokio::test]
async fn a_token_is_made_shown_once_used_listed_and_revoked() {
    let gateway = Gateway::with(&users(ANN));
    let ann = gateway.sign_in("ann").await;
    let body = json!({ "name": "ci", "permissions": ["flows.read"], "networks": ["127.0.0.0/8"], "rate_limit": "100/m", "expires_in": 3600 });
    let answer = make(&gateway, &ann, &body).await;
    assert_eq!(
        (answer.status, answer.header("cache-control")),
        (201, "no-store")
    );
    let made = answer.json();
    let token = made["token"].as_str().unwrap();
    assert_eq!(
        (&made["creator"], &made["networks"], &made["permissions"]),
        (
            &json!("ann"),
            &json!(["127.0.0.0/8"]),
            &json!(["flows.read"])
        )
    );
    assert_eq!(status(&gateway, "/flows", token).await, 200);

    let [shown] = listed(&gateway, &ann).await.try_into().unwrap();
    assert!(shown["last_used"].is_string() && shown.get("token").is_none());
    let hash = crypto::hex(&crypto::sha256(token.as_bytes()));
    assert!(!shown.to_string().contains(&token[..8]) && !shown.to_string().contains(&hash[..8]));

    let revoke = |path: &'static str| gateway.request("DELETE", path).token(&ann);
    assert_eq!(revoke("/gateway/tokens/other").send().await.status, 404);
    assert_eq!(revoke("/gateway/tokens").send().await.status, 405);
    assert_eq!(revoke("/gateway/tokens/ci").send().await.status, 204);
    assert_eq!(status(&gateway, "/flows", token).await, 401);
    assert_eq!(revoke("/gateway/tokens/ci").send().await.status, 404);
    let admin = gateway.sign_in("admin").await;
    let screen = self::made(&gateway, &admin, "screen", &["status.read"]).await;
    let mut channel = gateway.editor(&screen).await;
    assert_eq!(revoke("/gateway/tokens/screen").send().await.status, 204);
    channel.is_rejected().await;
    assert_eq!(listed(&gateway, &ann).await, Vec::<Json>::new());

    let created = record(&gateway, "token.create", "ci").await;
    assert_eq!(
        (&created["user"], &created["by"], &created["permissions"]),
        (&json!("ann"), &json!("token"), &json!(["flows.read"]))
    );
    assert_eq!(record(&gateway, "token.revoke", "ci").await["user"], "ann");
    let log = std::fs::read_to_string(gateway.data("audit.log")).unwrap();
    assert!(!log.contains(token));
}

#[tokio::test]
async fn it_outlives_a_restart_and_ends_with_the_user_who_made_it() {
    let gateway = Gateway::with(&users(ANN));
    let ann = gateway.sign_in("ann").await;
    let token = made(&gateway, &ann, "ci", &["flows.read"]).await;
    let gateway = gateway.restart().await;
    assert_eq!(status(&gateway, "/flows", &token).await, 200);
    let admin = gateway.sign_in("admin").await;
    assert_eq!(listed(&gateway, &admin).await[0]["creator"], "ann");

    // Another password of the user does not stop machines, another user of the same name is not
    // made by this.
    let changed = users(ANN).replace(&hash(PASSWORD), &hash("another"));
    assert!(gateway.reload(&changed).await);
    assert_eq!(status(&gateway, "/flows", &token).await, 200);
    assert!(
        gateway
            .reload(&user("admin", "permissions = [\"*\"]"))
            .await
    );
    assert_eq!(status(&gateway, "/flows", &token).await, 401);
    assert!(gateway.reload(&users(ANN)).await);
    assert_eq!(status(&gateway, "/flows", &token).await, 401);
    let gateway = gateway.restart().await;
    assert_eq!(status(&gateway, "/flows", &token).await, 401);
}

#[tokio::test]
async fn a_user_makes_a_token_with_more_rights() {
    let gateway = Gateway::with(&users(ANN));
    let ann = gateway.sign_in("ann").await;
    for more in [
        "*",
        "read",
        "*.read",
        "write",
        "flows.write",
        "gateway.audit",
        "flows.write:*",
    ] {
        let body = json!({ "name": "ci", "permissions": ["flows.read", more] });
        let answer = make(&gateway, &ann, &body).await;
        assert_eq!(
            refusal(&answer),
            (403, "permission_not_held".into()),
            "{more}"
        );
    }
    assert_eq!(listed(&gateway, &ann).await, Vec::<Json>::new());
    until("the attempts are recorded", async || {
        let audit = gateway.audit();
        let denied =
            |record: &Json| record["event"] == "permission.denied" && record["needs"] == "*";
        audit.iter().any(denied)
    })
    .await;
    // What is withdrawn from the user is withdrawn from the token, and back.
    let token = made(&gateway, &ann, "ci", &["flows.read"]).await;
    let nothing = users("permissions = [\"gateway.tokens\"]");
    assert!(gateway.reload(&nothing).await);
    assert_eq!(status(&gateway, "/flows", &token).await, 401);
    assert!(gateway.reload(&users(ANN)).await);
    assert_eq!(status(&gateway, "/flows", &token).await, 200);
    // A wider pattern is not held; and if it was when the token was made, the user's own rights
    // count.
    let rights = |lines: &str| {
        format!("permissions = [\"flows.read\", \"gateway.tokens\", \"flows.write:{lines}\"]")
    };
    assert!(gateway.reload(&users(&rights("Line*"))).await);
    let wide = made(&gateway, &ann, "wide", &["flows.write:Line*"]).await;
    assert!(gateway.reload(&users(&rights("Line?"))).await);
    let body = json!({ "name": "wider", "permissions": ["flows.write:Line*"] });
    let refused = make(&gateway, &ann, &body).await;
    assert_eq!(refusal(&refused), (403, "permission_not_held".into()));
    let admin = gateway.sign_in("admin").await;
    let tab = json!({ "id": "t", "type": "tab", "label": "Line10", "disabled": false, "info": "" });
    gateway.deploy(&admin, &json!([tab])).await;
    let removed = gateway.request("DELETE", "/flow/t").token(&wide);
    assert_ne!(removed.send().await.status / 100, 2);
    assert_eq!(status(&gateway, "/flow/t", &admin).await, 200);
}

#[tokio::test]
async fn a_token_mints_another_one() {
    let authority = Authority::new("ours");
    let gateway = crate::client_certificates::gateway(&authority, "");
    let admin = gateway.sign_in("admin").await;
    let body = json!({ "name": "second", "permissions": ["flows.read"] });
    let everything = made(&gateway, &admin, "first", &["*"]).await;
    let narrow = gateway.sign_in_request("admin", PASSWORD, "*");
    let narrow = narrow.send().await.json()["access_token"].clone();
    let operators = operators_token(&gateway);
    for token in [&everything, narrow.as_str().unwrap(), &operators] {
        let answer = make(&gateway, token, &body).await;
        assert_eq!(refusal(&answer), (403, "local_user_required".into()));
    }
    // A certificate is none that a user has shown lately.
    let client = gateway.with_certificate(&authority.sign(&ClientCertificate::named("root")));
    let answer = client.post("/gateway/tokens").json(&body).send().await;
    assert_eq!(refusal(&answer), (403, "local_user_required".into()));
    assert_eq!(listed(&gateway, &admin).await.len(), 2);
}

/// A token that an operator makes in the shell.
fn operators_token(gateway: &Gateway) -> String {
    let place = gateway.directory.path();
    let mut command = program(
        place,
        &["token", "create", "--name", "shell", "--permission", "*"],
    );
    let output = command.stdout(Stdio::piped()).output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim_end().to_owned()
}

#[tokio::test]
async fn callers_without_the_permission_and_web_pages_of_others_neither_list_nor_make_nor_revoke() {
    let anonymous = "[auth]\nanonymous = [\"read\"]\n";
    let gateway =
        Gateway::with(&(anonymous.to_owned() + &users("permissions = [\"read\", \"write\"]")));
    let admin = gateway.sign_in("admin").await;
    made(&gateway, &admin, "ci", &["flows.read"]).await;
    let ann = gateway.sign_in("ann").await;
    let body = json!({ "name": "x", "permissions": ["flows.read"] });
    for token in ["", &ann] {
        let with = |request: crate::client::Request| match token {
            "" => request,
            token => request.token(token),
        };
        let requests = [
            gateway.get("/gateway/tokens"),
            gateway.get("/gateway/users"),
            gateway.post("/gateway/tokens").json(&body),
            gateway.request("DELETE", "/gateway/tokens/ci"),
        ];
        for request in requests {
            assert_eq!(with(request).send().await.status, 401, "{token:?}");
        }
    }
    // A form of another origin has no token, and no browser sends JSON without asking first.
    let form = gateway.post("/gateway/tokens").form(&[("name", "x")]);
    assert_eq!(form.send().await.status, 401);
    let form = gateway.post("/gateway/tokens").form(&[("name", "x")]);
    assert_eq!(form.token(&admin).send().await.status, 415);
    assert_eq!(listed(&gateway, &admin).await.len(), 1);
}

#[tokio::test]
async fn a_stolen_session_or_password_makes_a_token() {
    let gateway = Gateway::with(LINES);
    registered(&gateway, "admin").await;
    let session = gateway.sign_in("admin").await;
    let body = json!({ "name": "ci", "permissions": ["*"] });
    let answer = make(&gateway, &session, &body).await;
    assert_eq!(refusal(&answer), (403, "second_factor_required".into()));
    assert_eq!(listed(&gateway, &session).await, Vec::<Json>::new());
}

#[tokio::test]
async fn a_token_is_used_outside_of_the_users_networks_and_limits() {
    let rights = "permissions = [\"flows.read\", \"gateway.tokens\"]\nnetworks = [\"127.0.0.1\", \"::1\"]\nrate_limit = \"20/h\"";
    let gateway = Gateway::with(&users(rights));
    let ann = gateway.sign_in("ann").await;
    let body = json!({ "name": "ci", "permissions": ["flows.read"], "networks": ["127.0.0.0/8"] });
    let token = make(&gateway, &ann, &body).await.json()["token"].clone();
    let flows = || gateway.get("/flows").token(token.as_str().unwrap());
    let outside = flows().from("127.0.0.2").send().await;
    assert_eq!(refusal(&outside), (403, "network_not_allowed".into()));
    let inside = flows().send().await;
    assert_eq!(inside.status, 200);
    assert_eq!(inside.header("ratelimit-policy"), "\"user\";q=20;w=3600");
}

#[tokio::test]
async fn a_token_does_at_an_upstream_what_its_user_may_not_do_there() {
    let (one, two) = (named("one").await, named("two").await);
    let place = "path = \"/one\"\npermissions = { ann = [\"gateway.tokens\"] }";
    let lines = in_front_of(&[(&one, place), (&two, "path = \"/two\"")]);
    let gateway = Gateway::with(&(lines + &users(ANN)));
    let session = crate::multiple_upstreams::sign_in(&gateway, "/two", "ann", "").await;
    let session = session.json()["access_token"].as_str().unwrap().to_owned();
    let body = json!({ "name": "ci", "permissions": ["flows.read"] });
    let answer = gateway.post("/two/gateway/tokens").token(&session);
    let token = answer.json(&body).send().await.json()["token"].clone();
    let token = token.as_str().unwrap();
    assert_eq!(status(&gateway, "/one/flows", token).await, 401);
    assert_eq!(status(&gateway, "/two/flows", token).await, 200);
}

#[tokio::test]
async fn a_user_proposes_with_an_own_token_and_approves_it() {
    let lines = approving("approve = [\"*\"]")
        .replace("\"flows.approve\"", "\"flows.approve\", \"gateway.tokens\"");
    let gateway = Gateway::with(&lines);
    let bob = gateway.sign_in("bob").await;
    let token = made(&gateway, &bob, "ci", &["flows.read", "flows.write"]).await;
    let path = propose(&gateway, &token, &tab_with("a", "comment")).await;
    let answer = decide(&gateway, &bob, &path, "approve").await;
    assert_eq!(refusal(&answer), (403, "proposal_refused".into()));
    // Nor after the token was revoked, and another one made with its name.
    let revoked = gateway.request("DELETE", "/gateway/tokens/ci").token(&bob);
    assert_eq!(revoked.send().await.status, 204);
    let admin = gateway.sign_in("admin").await;
    made(&gateway, &admin, "ci", &["flows.read", "flows.write"]).await;
    let answer = decide(&gateway, &bob, &path, "approve").await;
    assert_eq!(refusal(&answer), (403, "proposal_refused".into()));
    assert_eq!(gateway.flows(&admin).await["flows"], json!([]));
    assert_eq!(decide(&gateway, &admin, &path, "approve").await.status, 200);
}

#[tokio::test]
async fn proposals_of_service_tokens_count_for_the_user_who_made_them() {
    let lines = approving("approve = [\"*\"]\nmax_proposals_per_user = 2")
        .replace("\"flows.approve\"", "\"flows.approve\", \"gateway.tokens\"");
    let gateway = Gateway::with(&lines);
    let (ann, admin) = (gateway.sign_in("ann").await, gateway.sign_in("admin").await);
    for (name, tab) in [("one", "a"), ("two", "b")] {
        let token = made(&gateway, &admin, name, &["flows.read", "flows.write"]).await;
        propose(&gateway, &token, &tab_with(tab, "comment")).await;
    }
    let third = made(&gateway, &admin, "ann", &["flows.read", "flows.write"]).await;
    let answer = deploy(&gateway, &third, &tab_with("c", "comment")).await;
    assert_eq!(refusal(&answer), (429, "too_many_proposals".into()));
    // A token of the name of another user takes nothing of that one's share.
    propose(&gateway, &ann, &tab_with("c", "comment")).await;
    propose(&gateway, &ann, &tab_with("d", "comment")).await;
}

#[tokio::test]
async fn what_is_no_token_is_refused_by_name() {
    let gateway = Gateway::with(&users(ANN));
    let ann = gateway.sign_in("ann").await;
    let one = || json!({ "name": "ci", "permissions": ["flows.read"] });
    let with = |key: &str, value: Json| {
        let mut body = one();
        body[key] = value;
        body
    };
    made(&gateway, &ann, "taken", &["flows.read"]).await;
    for (body, code, words) in [
        (json!([]), "invalid_request", "no new token"),
        (json!({ "name": "ci" }), "invalid_request", "permissions"),
        (with("user", json!("admin")), "invalid_request", "user"),
        (with("name", json!("a/b")), "invalid_request", "a name has"),
        (with("name", json!("")), "invalid_request", "a name has"),
        (
            with("name", json!("a".repeat(65))),
            "invalid_request",
            "a name has",
        ),
        (
            with("name", json!("<img src=x>")),
            "invalid_request",
            "a name has",
        ),
        (
            with("name", json!("taken")),
            "token_name_taken",
            "another token",
        ),
        (
            with("permissions", json!([])),
            "invalid_request",
            "at least one",
        ),
        (
            with("permissions", json!(["a b"])),
            "invalid_request",
            "no permission",
        ),
        (
            with("permissions", json!(vec!["x"; 65])),
            "invalid_request",
            "at most 64",
        ),
        (
            with("networks", json!(["10.0.0.1/8"])),
            "invalid_request",
            "no network",
        ),
        (
            with("rate_limit", json!("fast")),
            "invalid_request",
            "no limit",
        ),
        (
            with("expires_in", json!(59)),
            "invalid_request",
            "60 seconds to 366 days",
        ),
        (
            with("expires_in", json!(31_622_401)),
            "invalid_request",
            "366 days",
        ),
        (
            with("expires_in", json!(-1)),
            "invalid_request",
            "no new token",
        ),
    ] {
        let answer = make(&gateway, &ann, &body).await;
        let found = (answer.code(), answer.text());
        assert!(
            found.0 == code && found.1.contains(words),
            "{body}: {found:?}"
        );
    }
    assert_eq!(listed(&gateway, &ann).await.len(), 1);
}

#[tokio::test]
async fn a_user_has_a_hundred_tokens_at_most() {
    let gateway = Gateway::with(&users(ANN));
    let ann = gateway.sign_in("ann").await;
    for number in 0..100 {
        made(&gateway, &ann, &format!("t{number}"), &["flows.read"]).await;
    }
    let body = json!({ "name": "more", "permissions": ["flows.read"] });
    let answer = make(&gateway, &ann, &body).await;
    assert_eq!(refusal(&answer), (409, "too_many_tokens".into()));
    let admin = gateway.sign_in("admin").await;
    made(&gateway, &admin, "more", &["flows.read"]).await;
}

#[tokio::test]
async fn users_are_listed_with_their_rights_and_ways_to_sign_in_and_no_secret() {
    let second = "permissions = [\"flows.read:Line?3\"]\ntotp_secret = \"GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ\"\nnetworks = [\"10.0.0.0/8\"]";
    let place = "path = \"/one\"\npermissions = { ann = [\"*\"] }";
    let one = named("one").await;
    let lines = in_front_of(&[(&one, place)]) + &users("permissions = [\"gateway.users\"]");
    let gateway = Gateway::with(&(lines + &user("eve", second)));
    let ann = crate::multiple_upstreams::sign_in(&gateway, "/one", "ann", "").await;
    let ann = ann.json()["access_token"].as_str().unwrap().to_owned();
    let answer = gateway.get("/one/gateway/users").token(&ann).send().await;
    assert_eq!(
        (answer.status, answer.header("cache-control")),
        (200, "no-store")
    );
    let shown = answer.json();
    let expected = json!({ "name": "eve", "source": "file", "provider": null, "permissions": ["flows.read:Line?3"], "at": [],
        "password": true, "codes": true, "passkeys": 0, "sessions": 0, "networks": ["10.0.0.0/8"] });
    assert_eq!(shown["users"][2], expected);
    let ann = &shown["users"][1];
    assert_eq!((&ann["name"], &ann["sessions"]), (&json!("ann"), &json!(1)));
    assert_eq!(ann["at"][0]["permissions"], json!(["*"]));
    for secret in [
        "$2b$",
        "GEZDGNBV",
        &crypto::hex(&crypto::sha256(hash(PASSWORD).as_bytes()))[..16],
    ] {
        assert!(!answer.text().contains(secret), "{secret}");
    }
}
