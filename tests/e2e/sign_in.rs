//! Signing in: the sign-in form, tokens, and every way to be refused.

use crate::client::{Answer, Client, PASSWORD};
use crate::harness::{Gateway, hash};
use serde_json::json;

/// The fields of a good sign-in.
const GOOD: [(&str, &str); 5] = [
    ("client_id", "service-admin"),
    ("grant_type", "password"),
    ("scope", "*"),
    ("username", "admin"),
    ("password", PASSWORD),
];

/// Signs in with one field replaced; `None` leaves it out.
async fn with(client: &Client, name: &str, value: Option<&str>) -> Answer {
    let mut fields = GOOD.to_vec();
    fields.retain(|(field, _)| *field != name);
    fields.extend(value.map(|value| (name, value)));
    client.post("/auth/token").form(&fields).send().await
}

#[tokio::test]
async fn the_sign_in_form_is_described_to_clients() {
    let gateway = Gateway::start();
    let answer = gateway
        .get("/auth/login")
        .header("Authorization", "nonsense")
        .send()
        .await;
    assert_eq!(answer.status, 200);
    let expected = json!({
        "type": "credentials",
        "prompts": [
            { "id": "username", "type": "text", "label": "user.username" },
            { "id": "password", "type": "password", "label": "user.password" },
        ],
    });
    assert_eq!(answer.json(), expected);
}

#[tokio::test]
async fn a_form_or_json_of_every_client_becomes_a_token_that_opens_the_api() {
    let gateway = Gateway::start();
    for client in [
        "service-admin",
        "service-editor",
        "node-red-admin",
        "node-red-editor",
    ] {
        let by_form = with(&gateway, "client_id", Some(client)).await;
        let mut fields = json!({ "client_id": client, "unknown": [1] });
        for (name, value) in &GOOD[1..] {
            fields[*name] = (*value).into();
        }
        let by_json = gateway.post("/auth/token").json(&fields).send().await;
        for answer in [by_form, by_json] {
            assert_eq!(answer.status, 200, "{client}: {}", answer.text());
            assert_eq!(answer.header("cache-control"), "no-store");
            assert_eq!(answer.header("pragma"), "no-cache");
            let body = answer.json();
            assert_eq!(
                (&body["token_type"], &body["expires_in"]),
                (&json!("Bearer"), &json!(604_800))
            );
            assert!(
                gateway
                    .accepts_token(body["access_token"].as_str().unwrap())
                    .await
            );
        }
    }
}

#[tokio::test]
async fn invalid_fields_get_the_errors_of_rfc_6749() {
    let gateway = Gateway::start();
    for (field, value, status, error) in [
        ("client_id", None, 400, "invalid_request"),
        ("client_id", Some(""), 400, "invalid_request"),
        ("client_id", Some("stranger"), 401, "invalid_client"),
        ("client_id", Some("Service-Admin"), 401, "invalid_client"),
        ("grant_type", None, 400, "invalid_request"),
        (
            "grant_type",
            Some("client_credentials"),
            400,
            "unsupported_grant_type",
        ),
        (
            "grant_type",
            Some("Password"),
            400,
            "unsupported_grant_type",
        ),
        ("scope", None, 400, "invalid_request"),
        ("username", None, 400, "invalid_request"),
        ("username", Some(""), 400, "invalid_request"),
        ("username", Some("a\0b"), 400, "invalid_request"),
        ("username", Some("Admin"), 400, "invalid_grant"),
        ("username", Some(" admin"), 400, "invalid_grant"),
        ("username", Some("__proto__"), 400, "invalid_grant"),
        ("password", None, 400, "invalid_request"),
        ("password", Some(""), 400, "invalid_request"),
        ("password", Some("wrong"), 400, "invalid_grant"),
    ] {
        let answer = with(&gateway, field, value).await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (status, error),
            "{field} {value:?}"
        );
        assert_eq!(answer.header("cache-control"), "no-store");
        assert_eq!(answer.header("www-authenticate").is_empty(), status != 401);
    }
}

#[tokio::test]
async fn a_body_other_than_a_form_of_single_strings_is_an_invalid_request() {
    let gateway = Gateway::start();
    let good = "client_id=service-admin&grant_type=password&scope=*&username=admin&password=x";
    let json = |password: &str| {
        format!(
            r#"{{"client_id":"service-admin","grant_type":"password","scope":"*","username":"admin",{password}}}"#
        )
    };
    let form = "application/x-www-form-urlencoded";
    for (kind, body) in [
        (form, String::new()),
        (form, format!("{good}&username=admin")),
        (form, good.replace("admin&password", "%FF&password")),
        ("text/plain", good.to_owned()),
        ("multipart/form-data; boundary=x", good.to_owned()),
        ("application/json", "[]".to_owned()),
        ("application/json", "{".to_owned()),
        ("application/json", "\"x\"".to_owned()),
        ("application/json", json(r#""password":1"#)),
        ("application/json", json(r#""password":{"$ne":1}"#)),
        ("application/json", json(r#""password":["x"]"#)),
        ("application/json", json(r#""password":"x","password":"y""#)),
        ("application/json", json(r#""password":"\u0000""#)),
        (
            "application/json; charset=utf-16",
            json(r#""password":"x""#),
        ),
    ] {
        let request = gateway.post("/auth/token").header("Content-Type", kind);
        let answer = request.body(body.clone()).send().await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, "invalid_request"),
            "{kind} {body}"
        );
    }
    let fields = "?client_id=service-admin&grant_type=password&scope=*&username=admin&password=";
    let in_query = gateway.post(&format!(
        "/auth/token{fields}{}",
        PASSWORD.replace(' ', "+")
    ));
    assert_eq!(in_query.form(&[]).send().await.code(), "invalid_request");
    let large = gateway
        .post("/auth/token")
        .form(&[("password", &"x".repeat(20_000))]);
    let large = large.send().await;
    assert_eq!(
        (large.status, large.code().as_str()),
        (413, "body_too_large")
    );
}

#[tokio::test]
async fn an_unknown_user_and_a_wrong_password_are_indistinguishable() {
    let gateway = Gateway::start();
    let unknown = with(&gateway, "username", Some("nobody")).await;
    let wrong = with(&gateway, "password", Some("wrong")).await;
    let names = |answer: &Answer| answer.headers.keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        (unknown.status, unknown.text()),
        (wrong.status, wrong.text())
    );
    assert_eq!(names(&unknown), names(&wrong));
}

#[tokio::test]
async fn a_token_can_do_what_its_scope_and_its_user_both_allow() {
    let gateway = Gateway::start();
    for (user, scope, reads, writes) in [
        ("admin", "*", 200, 204),
        ("admin", "", 200, 204),
        ("admin", "read", 200, 401),
        ("admin", "flows.write", 401, 204),
        ("admin", "read  flows.write", 200, 204),
        ("admin", "read,write", 401, 401),
        ("admin", "FLOWS.READ", 401, 401),
        ("reader", "", 200, 401),
        ("reader", "read", 200, 401),
        ("reader", "flows.read", 200, 401),
        ("deployer", "", 200, 204),
        ("deployer", "flows.write", 401, 204),
    ] {
        let answer = gateway.sign_in_request(user, PASSWORD, scope).send().await;
        assert_eq!(answer.status, 200, "{user} {scope:?}: {}", answer.text());
        let token = answer.json()["access_token"].as_str().unwrap().to_owned();
        let read = gateway.get("/flows").token(&token).send().await.status;
        let write = gateway
            .post("/flows")
            .token(&token)
            .json(&json!([]))
            .send()
            .await
            .status;
        assert_eq!((read, write), (reads, writes), "{user} {scope:?}");
    }
}

#[tokio::test]
async fn an_excessive_scope_is_reported_only_after_the_right_password() {
    let gateway = Gateway::start();
    for (user, scope) in [
        ("reader", "*"),
        ("reader", "write"),
        ("reader", "read flows.write"),
        ("deployer", "read"),
    ] {
        let answer = gateway.sign_in_request(user, PASSWORD, scope).send().await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, "invalid_scope"),
            "{user} {scope}"
        );
        let guess = gateway.sign_in_request(user, "wrong", scope).send().await;
        assert_eq!(guess.code(), "invalid_grant");
    }
}

#[tokio::test]
async fn bcrypt_hashes_of_node_red_are_accepted_in_all_their_versions() {
    let hash = hash("secret");
    for prefix in ["$2a$", "$2b$", "$2y$"] {
        let hash = format!("{prefix}{}", hash.get(4..).unwrap());
        let user = format!(
            "[[auth.user]]\nname = \"u\"\npassword_hash = \"{hash}\"\npermissions = [\"*\"]"
        );
        let gateway = Gateway::with(&user);
        assert_eq!(
            gateway
                .sign_in_request("u", "secret", "")
                .send()
                .await
                .status,
            200,
            "{prefix}"
        );
        assert_eq!(
            gateway
                .sign_in_request("u", "Secret", "")
                .send()
                .await
                .status,
            400,
            "{prefix}"
        );
    }
}

#[tokio::test]
async fn without_authentication_there_is_no_sign_in() {
    let gateway = Gateway::with("auth = \"off\"");
    assert_eq!(gateway.get("/auth/login").send().await.json(), json!({}));
    for path in ["/auth/token", "/auth/revoke"] {
        let answer = gateway.post(path).form(&GOOD).send().await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (404, "not_found"),
            "{path}"
        );
    }
    assert_eq!(gateway.get("/flows").send().await.status, 200);
    assert_eq!(
        gateway.deployment("", &json!([]), None).send().await.status,
        200
    );
}
