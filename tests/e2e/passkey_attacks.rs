//! Attacks on passkeys. Each has the right passkey but for one thing, and gets the same answer as
//! all the others.

use crate::client::{Answer, Client, PASSWORD};
use crate::harness::{Gateway, hash, until};
use crate::passkeys::{
    Authenticator, HOST, LINES, begin, finish, register, registered, sign_in, step_up, token,
};
use crate::sign_in_page::Browser;
use serde_json::{Value as Json, json};

const SIGN_IN: &str = "/gateway/passkeys/sign-in";

/// The sign-in is refused as each that fails is, and recorded with the reason.
async fn is_refused(gateway: &Gateway, answer: &Answer, reason: &str) {
    assert_eq!(
        (answer.status, answer.json()),
        (
            400,
            json!({ "error": "invalid_grant", "error_description": "unknown user or wrong password" })
        ),
        "{reason}"
    );
    let is_it = |record: &Json| {
        record["event"] == "auth.login.fail.credentials" && record["reason"] == reason
    };
    until("the refusal is recorded", async || {
        gateway.audit().iter().any(is_it)
    })
    .await;
}

/// Signs in with a change to the right passkey.
async fn with(
    gateway: &Gateway,
    phone: &Authenticator,
    change: impl Fn(&mut Authenticator),
) -> Answer {
    let mut changed = phone.clone();
    change(&mut changed);
    sign_in(gateway, &changed).await
}

/// Signs in with a change to the right answer of the browser.
async fn with_answer(client: &Client, phone: &Authenticator, change: impl Fn(&mut Json)) -> Answer {
    let begun = begin(client, SIGN_IN, "").await;
    let mut body = phone.get(&begun);
    change(&mut body);
    finish(client, SIGN_IN, &begun, &body).send().await
}

#[tokio::test]
async fn a_page_of_another_origin_relays_the_challenge_and_the_answer() {
    let gateway = Gateway::with(LINES);
    let phone = registered(&gateway, "admin").await;
    for origin in [
        "https://evil.example",
        "https://localhost:8443",
        "http://localhost",
    ] {
        let answer = with(&gateway, &phone, |phone| phone.origin = origin.into()).await;
        is_refused(&gateway, &answer, "origin").await;
    }
    let answer = with(&gateway, &phone, |phone| phone.rp = "evil.example".into()).await;
    is_refused(&gateway, &answer, "relying_party").await;
    assert_eq!(sign_in(&gateway, &phone).await.status, 200);
}

#[tokio::test]
async fn an_answer_is_replayed() {
    let gateway = Gateway::with(LINES);
    let phone = registered(&gateway, "admin").await;
    let begun = begin(&gateway, SIGN_IN, "").await;
    let body = phone.get(&begun);
    let send = || finish(&gateway, SIGN_IN, &begun, &body).send();
    let many = futures_util::future::join_all((0..4).map(|_| send())).await;
    let signed_in = many.iter().filter(|answer| answer.status == 200);
    assert_eq!(signed_in.count(), 1, "at the same time");
    is_refused(&gateway, &send().await, "challenge").await;
}

#[tokio::test]
async fn a_registration_is_replayed_when_its_passkey_was_removed() {
    let gateway = Gateway::with(LINES);
    let session = gateway.sign_in("admin").await;
    let path = "/gateway/passkeys";
    let begun = begin(&gateway, "/gateway/passkeys/options", &session).await;
    let mut phone = Authenticator::new();
    let body = json!({ "name": "A phone", "credential": phone.create(&begun) });
    let send = || {
        let request = finish(&gateway, path, &begun, &body);
        request.token(&session).send()
    };
    let made = send().await;
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(step_up(&gateway, &session, &phone).await.status, 204);
    let one = format!("{path}/{}", made.json()["id"].as_str().unwrap());
    let removed = gateway.request("DELETE", &one).token(&session).send().await;
    assert_eq!(removed.status, 204, "{}", removed.text());
    let refused = send().await;
    assert_eq!(
        (refused.status, refused.code()),
        (400, "invalid_passkey".into())
    );
}

#[tokio::test]
async fn the_challenge_of_another_browser_is_answered() {
    let gateway = Gateway::with(LINES);
    let phone = registered(&gateway, "admin").await;
    let (mine, theirs) = (
        begin(&gateway, SIGN_IN, "").await,
        begin(&gateway, SIGN_IN, "").await,
    );
    let answer = finish(&gateway, SIGN_IN, &mine, &phone.get(&theirs));
    is_refused(&gateway, &answer.send().await, "challenge").await;
    let body = phone.get(&mine);
    let without = gateway.post(SIGN_IN).host(HOST).json(&body).send().await;
    is_refused(&gateway, &without, "challenge").await;
    // A challenge that is for something else.
    let session = gateway.sign_in("admin").await;
    let other = begin(&gateway, "/gateway/step-up/passkey", &session).await;
    let answer = finish(&gateway, SIGN_IN, &other, &phone.get(&other));
    is_refused(&gateway, &answer.send().await, "challenge").await;
    // That of another process.
    let gateway = gateway.restart().await;
    let answer = finish(&gateway, SIGN_IN, &mine, &body).send().await;
    is_refused(&gateway, &answer, "challenge").await;
}

#[tokio::test]
async fn another_users_passkey_is_shown() {
    let gateway = Gateway::with(LINES);
    let admins = registered(&gateway, "admin").await;
    let readers = registered(&gateway, "reader").await;
    // With the user handle of another user, and with none.
    for handle in [admins.handle.clone(), None] {
        let answer = with(&gateway, &readers, |key| key.handle.clone_from(&handle)).await;
        is_refused(&gateway, &answer, "user").await;
    }
    // With the id of another user's passkey.
    let answer = with(&gateway, &readers, |key| key.id.clone_from(&admins.id)).await;
    is_refused(&gateway, &answer, "user").await;
    let both = |key: &mut Authenticator| {
        key.id.clone_from(&admins.id);
        key.handle.clone_from(&admins.handle);
    };
    let answer = with(&gateway, &readers, both).await;
    is_refused(&gateway, &answer, "signature").await;
    // As the second factor of another user's session.
    let session = gateway.sign_in("admin").await;
    let answer = step_up(&gateway, &session, &readers).await;
    is_refused(&gateway, &answer, "user").await;
    let unknown = sign_in(&gateway, &Authenticator::new()).await;
    is_refused(&gateway, &unknown, "unknown").await;
}

#[tokio::test]
async fn a_copy_of_the_authenticator_is_used_whose_counter_goes_back() {
    let gateway = Gateway::with(LINES);
    let mut phone = registered(&gateway, "admin").await;
    phone.counter = 10;
    assert_eq!(sign_in(&gateway, &phone).await.status, 200);
    for counter in [10, 9, 0] {
        let answer = with(&gateway, &phone, |copy| copy.counter = counter).await;
        is_refused(&gateway, &answer, "counter").await;
    }
    until("the copy is recorded", async || {
        let audit = gateway.audit();
        let mut records = audit.iter();
        records.any(|record| record["event"] == "passkey.counter" && record["user"] == "admin")
    })
    .await;
    phone.counter = 11;
    assert_eq!(sign_in(&gateway, &phone).await.status, 200);
}

#[tokio::test]
async fn a_stolen_key_signs_in_without_verifying_or_seeing_its_user() {
    let gateway = Gateway::with(LINES);
    let phone = registered(&gateway, "admin").await;
    for (flags, reason) in [(1, "user_verification"), (1 << 2, "user_presence")] {
        let answer = with(&gateway, &phone, |key| key.flags = flags).await;
        is_refused(&gateway, &answer, reason).await;
    }
}

#[tokio::test]
async fn the_signature_or_what_it_signs_is_tampered_with() {
    let gateway = Gateway::with(LINES);
    let phone = registered(&gateway, "admin").await;
    let registration = with(&gateway, &phone, |key| key.kind = Some("webauthn.create")).await;
    is_refused(&gateway, &registration, "malformed").await;
    let other = Authenticator {
        id: phone.id.clone(),
        handle: phone.handle.clone(),
        ..Authenticator::new()
    };
    is_refused(&gateway, &sign_in(&gateway, &other).await, "signature").await;
    let answer = with_answer(&gateway, &phone, |body| {
        body["response"]["signature"] = "AAAA".into();
    });
    is_refused(&gateway, &answer.await, "signature").await;
    // The counter is signed too.
    let answer = with_answer(&gateway, &phone, |body| {
        let mut ahead = phone.clone();
        ahead.counter = 99;
        let begun = crate::passkeys::Begun {
            options: json!({ "challenge": "x" }),
            cookie: String::new(),
        };
        body["response"]["authenticatorData"] =
            ahead.get(&begun)["response"]["authenticatorData"].clone();
    });
    is_refused(&gateway, &answer.await, "signature").await;
    for body in [
        json!({}),
        json!([]),
        json!({ "rawId": "AA", "response": { "clientDataJSON": "*", "authenticatorData": "", "signature": "" } }),
    ] {
        let begun = begin(&gateway, SIGN_IN, "").await;
        let answer = finish(&gateway, SIGN_IN, &begun, &body).send().await;
        assert_eq!(
            (answer.status, answer.code()),
            (400, "invalid_request".into())
        );
    }
}

#[tokio::test]
async fn a_stolen_session_or_password_becomes_a_passkey() {
    let gateway = Gateway::with(LINES);
    // A token that may do a part only.
    let answer = gateway
        .sign_in_request("admin", PASSWORD, "read")
        .send()
        .await;
    let options = gateway
        .get("/gateway/passkeys/options")
        .host(HOST)
        .token(&token(&answer));
    let refused = options.send().await;
    assert_eq!(
        (refused.status, refused.code()),
        (403, "local_user_required".into())
    );
    // The password alone, once there is a passkey: neither to add one nor to remove it.
    registered(&gateway, "admin").await;
    let session = gateway.sign_in("admin").await;
    let options = gateway.get("/gateway/passkeys/options").host(HOST);
    let refused = options.token(&session).send().await;
    assert_eq!(
        (refused.status, refused.code()),
        (403, "second_factor_required".into())
    );
    let confirmed = gateway
        .post("/gateway/step-up")
        .token(&session)
        .json(&json!({ "password": PASSWORD }));
    assert_eq!(confirmed.send().await.status, 204);
    let listed = gateway
        .get("/gateway/passkeys")
        .token(&session)
        .send()
        .await;
    let id = listed.json()["passkeys"][0]["id"].clone();
    let path = format!("/gateway/passkeys/{}", id.as_str().unwrap());
    let refused = gateway
        .request("DELETE", &path)
        .token(&session)
        .send()
        .await;
    assert_eq!(refused.code(), "second_factor_required");
}

#[tokio::test]
async fn a_registration_of_another_session_or_of_a_sign_in_is_finished() {
    let gateway = Gateway::with(LINES);
    let (mine, theirs) = (
        gateway.sign_in("reader").await,
        gateway.sign_in("admin").await,
    );
    let begun = begin(&gateway, "/gateway/passkeys/options", &mine).await;
    let mut made = Authenticator::new();
    let body = json!({ "name": "x", "credential": made.create(&begun) });
    let finished = finish(&gateway, "/gateway/passkeys", &begun, &body).token(&theirs);
    let refused = finished.send().await;
    assert_eq!(
        (refused.status, refused.code()),
        (400, "invalid_passkey".into())
    );
    for change in [
        |made: &mut Authenticator| made.origin = "https://evil.example".into(),
        |made: &mut Authenticator| made.rp = "evil.example".into(),
        |made: &mut Authenticator| made.kind = Some("webauthn.get"),
    ] {
        let mut made = Authenticator::new();
        change(&mut made);
        let refused = register(&gateway, &theirs, &mut made).await;
        assert_eq!(
            (refused.status, refused.code()),
            (400, "invalid_passkey".into())
        );
    }
    for name in ["", "a\nb", &"x".repeat(65)] {
        let begun = begin(&gateway, "/gateway/passkeys/options", &theirs).await;
        let body = json!({ "name": name, "credential": Authenticator::new().create(&begun) });
        let named = finish(&gateway, "/gateway/passkeys", &begun, &body).token(&theirs);
        assert_eq!(named.send().await.code(), "invalid_request", "{name}");
    }
}

#[tokio::test]
async fn the_passkey_of_a_thief_outlives_the_password() {
    let user = |password: &str| {
        let hash = hash(password);
        format!(
            "[[auth.user]]\nname = \"eve\"\npassword_hash = \"{hash}\"\npermissions = [\"*\"]\n{LINES}"
        )
    };
    let gateway = Gateway::with(&user(PASSWORD));
    let thiefs = registered(&gateway, "eve").await;
    assert_eq!(sign_in(&gateway, &thiefs).await.status, 200);
    assert!(gateway.reload(&user("another password")).await);
    is_refused(&gateway, &sign_in(&gateway, &thiefs).await, "unknown").await;
}

#[tokio::test]
async fn passkeys_are_guessed() {
    let lines = LINES.replace("per_address = 1000", "per_address = 3");
    let gateway = Gateway::with(&lines);
    let phone = registered(&gateway, "admin").await;
    for _ in 0..3 {
        let answer = sign_in(&gateway, &Authenticator::new()).await;
        is_refused(&gateway, &answer, "unknown").await;
    }
    let throttled = sign_in(&gateway, &Authenticator::new()).await;
    assert_eq!(throttled.status, 429);
    assert!(!throttled.header("retry-after").is_empty());
    // Admin has signed in from here before.
    assert_eq!(
        sign_in(&gateway, &phone).await.status,
        429,
        "it is one throttle"
    );
}

#[tokio::test]
async fn a_page_of_another_site_signs_a_browser_in_with_a_passkey() {
    let gateway = Gateway::with(LINES);
    let phone = registered(&gateway, "admin").await;
    let begun = begin(&gateway, SIGN_IN, "").await;
    let answer = phone.get(&begun).to_string();
    let fields = [("passkey", answer.as_str()), ("return", "/dash")];
    let form = gateway
        .post("/gateway/sign-in")
        .host(HOST)
        .form(&fields)
        .header("Cookie", &begun.cookie);
    for origin in ["https://evil.example", "null"] {
        let refused = form.clone().header("Origin", origin).send().await;
        assert_eq!((refused.status, refused.header("set-cookie")), (403, ""));
    }
    let own = format!("https://{HOST}");
    let mut browser = Browser::new(&gateway);
    let signed_in = form.clone().header("Origin", &own).send().await;
    assert_eq!(signed_in.status, 303, "{}", signed_in.text());
    browser.keep(&signed_in);
    assert!(browser.cookie.starts_with("__Host-flowgate="));
    let again = form.header("Origin", &own).send().await;
    assert_eq!(again.status, 403);
    assert!(again.text().contains("This passkey is not accepted."));
}
