//! `/gateway/audit`: the audit log over HTTP, for those who may read it.

use crate::client::{Client, PASSWORD};
use crate::harness::{Gateway, flow_set, hash, page, program};
use crate::mock_upstream::{Action, MockUpstream, ok};
use crate::multiple_upstreams::{in_front_of, sign_in};
use serde_json::{Value as Json, json};
use std::fs;
use std::process::Stdio;

async fn read(client: &Client, token: &str, rest: &str) -> Json {
    let path = format!("/gateway/audit{rest}");
    let answer = client.get(&path).token(token).send().await;
    assert_eq!(answer.status, 200, "{rest}: {}", answer.text());
    assert_eq!(answer.header("cache-control"), "no-store");
    answer.json()
}

fn events(page: &Json) -> Vec<&str> {
    let records = page["records"].as_array().unwrap().iter();
    records
        .map(|record| record["event"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn records_are_searched_page_by_page_verified_and_copied() {
    let gateway = Gateway::start();
    let admin = gateway.sign_in("admin").await;
    let flows = flow_set(&[page("a", "/a", "one")]);
    gateway.deploy(&admin, &flows).await;
    gateway
        .sign_in_request("deployer", "wrong", "")
        .send()
        .await;
    let export = gateway.get("/gateway/audit/export").token(&admin);
    let export = export.send().await;
    assert_eq!(export.status, 200);
    assert_eq!(export.header("content-type"), "application/x-ndjson");
    assert_eq!(
        export.header("content-length"),
        export.body.len().to_string()
    );

    let all = read(&gateway, &admin, "").await;
    assert_eq!(
        events(&all),
        [
            "audit.export",
            "auth.login.fail.credentials",
            "flows.deploy",
            "auth.login",
            "process.start"
        ]
    );
    assert_eq!(all["next"], Json::Null);
    let first = read(&gateway, &admin, "?limit=2").await;
    let next = first["next"].as_u64().unwrap();
    let second = read(&gateway, &admin, &format!("?limit=3&before={next}")).await;
    assert_eq!([events(&first), events(&second)].concat(), events(&all));
    let newest = all["records"][0]["seq"].as_u64().unwrap();
    let none = read(&gateway, &admin, &format!("?after={newest}")).await;
    assert_eq!((events(&none).len(), &none["next"]), (0, &Json::Null));
    for (query, expected) in [
        ("?user=admin&event=flows", vec!["flows.deploy"]),
        ("?failed=true", vec!["auth.login.fail.credentials"]),
        ("?text=WRONG%20PASSWORD", vec![]),
        ("?since=2999-01-01T00:00:00Z", vec![]),
        ("?until=2000-01-01T00:00:00Z", vec![]),
    ] {
        assert_eq!(
            events(&read(&gateway, &admin, query).await),
            expected,
            "{query}"
        );
    }

    let chain = read(&gateway, &admin, "/verify").await;
    assert_eq!((&chain["from"], &chain["to"]), (&json!(1), &json!(newest)));
    assert_eq!(
        (&chain["fault"], &chain["next"]),
        (&Json::Null, &Json::Null)
    );
    let copy = export.text();
    let whole = fs::read_to_string(gateway.data("audit.log")).unwrap();
    assert!(whole.starts_with(&copy) && copy.lines().count() >= 4);
    let file = gateway.directory.path().join("copy");
    fs::write(&file, &copy).unwrap();
    let mut verify = program(gateway.directory.path(), &["audit", "verify", "copy"]);
    assert!(verify.stdout(Stdio::null()).status().unwrap().success());

    // A changed record is found.
    let changed = whole.replace("\"user\":\"admin\"", "\"user\":\"eve\"");
    fs::write(gateway.data("audit.log"), changed).unwrap();
    let chain = read(&gateway, &admin, "/verify").await;
    let fault = chain["fault"].as_str().unwrap();
    assert!(fault.ends_with("was changed"), "{fault}");
}

#[tokio::test]
async fn a_parameter_with_another_value_is_refused() {
    let gateway = Gateway::start();
    let admin = gateway.sign_in("admin").await;
    let long = format!("?text={}", "x".repeat(257));
    for rest in [
        "?limit=0",
        "?limit=201",
        "?limit=x",
        "?before=-1",
        "?before=99999999999999999999",
        "?after=x",
        "?failed=maybe",
        "?since=yesterday",
        "?until=2026",
        "/verify?from=x",
        "/export?from=x",
        long.as_str(),
    ] {
        let path = format!("/gateway/audit{rest}");
        let answer = gateway.get(&path).token(&admin).send().await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, "invalid_request"),
            "{rest}"
        );
    }
}

#[tokio::test]
async fn nothing_secret_is_in_any_page_or_copy() {
    let gateway = Gateway::start();
    let admin = gateway.sign_in("admin").await;
    let wrong = "a-password-with-a-slip";
    let credential = "the-credential-of-a-node";
    gateway.sign_in_request("admin", wrong, "").send().await;
    let mut flows = flow_set(&[page("a", "/a", "one")]);
    flows.as_array_mut().unwrap().push(
        json!({ "id": "s", "type": "unheard of", "credentials": { "password": credential } }),
    );
    gateway.deploy(&admin, &flows).await;
    let revoked = gateway.sign_in("reader").await;
    let revoke = gateway.post("/auth/revoke").token(&admin);
    revoke.form(&[("token", &revoked)]).send().await;
    let pages = read(&gateway, &admin, "").await.to_string();
    let export = gateway.get("/gateway/audit/export").token(&admin);
    let all = pages + &export.send().await.text();
    for secret in [wrong, PASSWORD, credential, &admin, &revoked] {
        assert!(!all.contains(secret), "{secret}");
    }
}

#[tokio::test]
async fn those_who_may_read_everything_else_may_not_read_the_audit_log() {
    let hash = hash(PASSWORD);
    let users: String = [
        ("reads", r#"["read"]"#),
        ("audits", r#"["gateway.audit"]"#),
        ("reads one", r#"["gateway.audit", "flows.read:a"]"#),
    ]
    .map(|(name, permissions)| {
        format!("[[auth.user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\npermissions = {permissions}\n")
    })
    .concat();
    let gateway = Gateway::with(&("[auth]\nanonymous = [\"read\"]\n".to_owned() + &users));
    for path in ["", "/verify", "/export"] {
        let path = format!("/gateway/audit{path}");
        let get = async |user: &str| {
            let token = gateway.sign_in(user).await;
            gateway.get(&path).token(&token).send().await.status
        };
        assert_eq!(gateway.get(&path).send().await.status, 401);
        assert_eq!(get("reads").await, 401);
        assert_eq!(get("reads one").await, 403);
        assert_eq!(get("audits").await, 200);
        let token = gateway.sign_in("audits").await;
        let post = gateway.post(&path).token(&token).send().await;
        assert_eq!(post.status, 405);
    }
}

#[tokio::test]
async fn all_permissions_at_one_upstream_do_not_show_the_log_of_the_gateway() {
    let upstream = MockUpstream::start(|_| Action::Respond(ok("text/plain", "a"))).await;
    let place = "path = \"/a\"\npermissions = { reader = [\"*\"] }";
    let gateway = Gateway::with(&in_front_of(&[(&upstream, place)]));
    let get = async |user: &str| {
        let answer = sign_in(&gateway, "/a", user, "").await.json();
        let token = answer["access_token"].as_str().unwrap();
        let request = gateway.get("/a/gateway/audit").token(token);
        request.send().await.status
    };
    assert_eq!((get("reader").await, get("admin").await), (401, 200));
}

#[tokio::test]
async fn a_log_that_goes_to_standard_output_has_no_file_to_read() {
    let gateway = Gateway::with("[audit]\nto = \"stdout\"\n");
    let admin = gateway.sign_in("admin").await;
    for path in ["", "/verify", "/export"] {
        let path = format!("/gateway/audit{path}");
        let answer = gateway.get(&path).token(&admin).send().await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"));
    }
}
