//! Passkeys over HTTP: registration, sign-in, step-up, removal. [`Authenticator`] is one in
//! software, with a key of ES256; the console's tests have Chromium's.

use crate::client::{Answer, Client, PASSWORD, Request};
use crate::harness::{Gateway, program, run_command};
use crate::second_factor;
use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use crypto::{random, sha256};
use serde_json::{Value as Json, json};

pub const LINES: &str = "[auth]\npasskeys = true\n[auth.throttle]\nper_user_and_address = 100\nper_user = 1000\nper_address = 1000\n";

pub const HOST: &str = "localhost";

/// The user is present, and verified.
pub const VERIFIED: u8 = 1 | 1 << 2;

/// Attested credential data follow.
const ATTESTED: u8 = 1 << 6;

pub fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// An authenticator with one passkey, and the browser around it. An attack changes a field.
#[derive(Clone)]
pub struct Authenticator {
    pub pkcs8: Vec<u8>,
    pub id: Vec<u8>,
    pub handle: Option<String>,
    pub counter: u32,
    pub flags: u8,
    pub origin: String,
    pub rp: String,
    pub kind: Option<&'static str>,
}

/// A challenge in a browser: the options and the cookie.
#[derive(Clone)]
pub struct Begun {
    pub options: Json,
    pub cookie: String,
}

impl Authenticator {
    pub fn new() -> Self {
        let pkcs8 =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new());
        Self {
            pkcs8: pkcs8.unwrap().as_ref().to_vec(),
            id: random::<32>().to_vec(),
            handle: None,
            counter: 0,
            flags: VERIFIED,
            origin: format!("https://{HOST}"),
            rp: HOST.to_owned(),
            kind: None,
        }
    }

    fn key(&self) -> EcdsaKeyPair {
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &self.pkcs8).unwrap()
    }

    fn client_data(&self, kind: &str, begun: &Begun) -> Vec<u8> {
        let kind = self.kind.unwrap_or(kind);
        json!({ "type": kind, "challenge": begun.options["challenge"], "origin": self.origin, "crossOrigin": false })
            .to_string()
            .into_bytes()
    }

    fn data(&self, flags: u8) -> Vec<u8> {
        let rp = sha256(self.rp.as_bytes());
        [&rp[..], &[flags], &self.counter.to_be_bytes()].concat()
    }

    /// `navigator.credentials.create()`
    pub fn create(&mut self, begun: &Begun) -> Json {
        let handle = begun.options["user"]["id"].as_str().unwrap();
        self.handle = Some(handle.to_owned());
        let key = self.key();
        let key = key.public_key().as_der().unwrap();
        let length = u16::try_from(self.id.len()).unwrap();
        let attested = [&[0; 16][..], &length.to_be_bytes(), &self.id].concat();
        let data = [self.data(self.flags | ATTESTED), attested].concat();
        json!({ "id": encoded(&self.id), "rawId": encoded(&self.id), "type": "public-key", "response": {
            "clientDataJSON": encoded(&self.client_data("webauthn.create", begun)),
            "authenticatorData": encoded(&data),
            "publicKey": encoded(key.as_ref()),
            "publicKeyAlgorithm": -7,
        }})
    }

    /// `navigator.credentials.get()`
    pub fn get(&self, begun: &Begun) -> Json {
        let (client, data) = (
            self.client_data("webauthn.get", begun),
            self.data(self.flags),
        );
        let signed = [&data[..], &sha256(&client)].concat();
        let signature = self.key().sign(&SystemRandom::new(), &signed).unwrap();
        json!({ "id": encoded(&self.id), "rawId": encoded(&self.id), "type": "public-key", "response": {
            "clientDataJSON": encoded(&client),
            "authenticatorData": encoded(&data),
            "signature": encoded(signature.as_ref()),
            "userHandle": self.handle,
        }})
    }
}

/// Asks for a challenge, with a token or without.
pub async fn begin(client: &Client, path: &str, token: &str) -> Begun {
    let answer = client.get(path).host(HOST).token(token).send().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("cache-control"), "no-store");
    let set = answer.header("set-cookie").to_owned();
    assert!(
        set.ends_with("; Path=/; Max-Age=300; Secure; HttpOnly; SameSite=Strict"),
        "{set}"
    );
    Begun {
        options: answer.json(),
        cookie: set.split_once(';').unwrap().0.to_owned(),
    }
}

/// Sends the answer to a challenge.
pub fn finish(client: &Client, path: &str, begun: &Begun, body: &Json) -> Request {
    let request = client.post(path).host(HOST).json(body);
    request.header("Cookie", &begun.cookie)
}

pub async fn register(client: &Client, token: &str, made: &mut Authenticator) -> Answer {
    let begun = begin(client, "/gateway/passkeys/options", token).await;
    let body = json!({ "name": "A phone", "credential": made.create(&begun) });
    let request = finish(client, "/gateway/passkeys", &begun, &body);
    request.token(token).send().await
}

/// A user's registered passkey.
pub async fn registered(client: &Client, user: &str) -> Authenticator {
    let mut made = Authenticator::new();
    let token = client.sign_in(user).await;
    let answer = register(client, &token, &mut made).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    made
}

pub async fn sign_in(client: &Client, shown: &Authenticator) -> Answer {
    let begun = begin(client, "/gateway/passkeys/sign-in", "").await;
    let request = finish(
        client,
        "/gateway/passkeys/sign-in",
        &begun,
        &shown.get(&begun),
    );
    request.send().await
}

pub async fn step_up(client: &Client, token: &str, shown: &Authenticator) -> Answer {
    let begun = begin(client, "/gateway/step-up/passkey", token).await;
    let request = finish(
        client,
        "/gateway/step-up/passkey",
        &begun,
        &shown.get(&begun),
    );
    request.token(token).send().await
}

pub fn token(answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["access_token"].as_str().unwrap().to_owned()
}

async fn list(client: &Client, token: &str) -> Json {
    let answer = client.get("/gateway/passkeys").token(token).send().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["passkeys"].clone()
}

#[tokio::test]
async fn a_passkey_is_registered_signs_in_also_after_a_restart_and_is_removed() {
    let gateway = Gateway::with(LINES);
    let options = begin(&gateway, "/gateway/passkeys/sign-in", "")
        .await
        .options;
    assert_eq!(
        (&options["userVerification"], &options["allowCredentials"]),
        (&json!("required"), &json!([])),
        "no user is named before the sign-in"
    );
    let mut phone = registered(&gateway, "admin").await;
    let session = token(&sign_in(&gateway, &phone).await);
    let settings = gateway.get("/settings").token(&session).send().await.json();
    assert_eq!(settings["user"]["username"], "admin");

    let gateway = gateway.restart().await;
    phone.counter = 7;
    let session = token(&sign_in(&gateway, &phone).await);
    let listed = list(&gateway, &session).await;
    assert_eq!(
        (&listed[0]["name"], &listed[0]["host"]),
        (&json!("A phone"), &json!(HOST))
    );
    assert!(listed[0]["last_used"].is_string());
    let path = format!("/gateway/passkeys/{}", listed[0]["id"].as_str().unwrap());
    let reader = gateway.sign_in("reader").await;
    let remove = |token: &str| gateway.request("DELETE", &path).token(token).send();
    assert_eq!(remove(&reader).await.status, 404, "it is another user's");
    assert_eq!(remove(&session).await.status, 204);
    assert_eq!(list(&gateway, &session).await, json!([]));
    phone.counter = 8;
    assert_eq!(
        sign_in(&gateway, &phone).await.code(),
        "invalid_grant",
        "it is gone"
    );
    let audit = gateway.audit();
    for event in ["passkey.register", "passkey.remove"] {
        let record = audit.iter().find(|record| record["event"] == event);
        assert_eq!(record.unwrap()["user"], "admin", "{event}");
    }
    let login = audit.iter().find(|record| record["by"] == "passkey");
    assert_eq!(login.unwrap()["user"], "admin");
}

#[tokio::test]
async fn a_passkey_is_a_second_factor_for_step_up_and_alone_it_is_both() {
    let gateway = Gateway::with(&LINES.replace(
        "passkeys = true",
        "passkeys = true\nstep_up = [\"flows.write\"]",
    ));
    let phone = registered(&gateway, "admin").await;
    let deploy = async |token: &str| gateway.deployment(token, &json!([]), None).send().await;
    let session = gateway.sign_in("admin").await;
    assert_eq!(deploy(&session).await.code(), "second_factor_required");
    // The password was there: the authenticator need not verify the user again, nor say who it is.
    let key = Authenticator {
        flags: 1,
        handle: None,
        ..phone.clone()
    };
    let options = begin(&gateway, "/gateway/step-up/passkey", &session)
        .await
        .options;
    assert_eq!(options["allowCredentials"][0]["id"], encoded(&phone.id));
    let answer = step_up(&gateway, &session, &key).await;
    assert_eq!(answer.status, 204, "{}", answer.text());
    assert_eq!(deploy(&session).await.status, 200);
    let record = gateway
        .audit()
        .into_iter()
        .find(|record| record["event"] == "auth.step_up");
    assert_eq!(record.unwrap()["by"], "passkey");

    let session = token(&sign_in(&gateway, &phone).await);
    assert_eq!(deploy(&session).await.status, 200);
}

#[tokio::test]
async fn a_code_of_an_authenticator_app_steps_a_session_up_without_a_new_sign_in() {
    let lines =
        second_factor::lines() + "[auth]\nstep_up = [\"flows.write\"]\nstep_up_after = \"1s\"\n";
    let gateway = Gateway::with(&lines);
    // Said once: in the next step it would be another one.
    let used = second_factor::code(0);
    let password = format!("{PASSWORD}{used}");
    let signed_in = gateway.sign_in_request("ann", &password, "").send().await;
    let session = token(&signed_in);
    let give = async |password: &str, code: &str| {
        let body = json!({ "password": password, "code": code });
        let request = gateway.post("/gateway/step-up").token(&session).json(&body);
        request.send().await
    };
    for (password, code) in [
        ("wrong", second_factor::code(1)),
        (PASSWORD, "000000".to_owned()),
        (PASSWORD, used),
    ] {
        assert_eq!(give(password, &code).await.code(), "invalid_grant");
    }
    let answer = give(PASSWORD, &second_factor::code(1)).await;
    assert_eq!(answer.status, 204, "{}", answer.text());
    let audit = gateway.audit();
    let record = audit
        .iter()
        .find(|record| record["event"] == "auth.step_up");
    assert_eq!(record.unwrap()["user"], "ann");
}

#[tokio::test]
async fn a_user_has_ten_passkeys_at_most_and_none_twice() {
    let gateway = Gateway::with(LINES);
    let first = registered(&gateway, "admin").await;
    let session = token(&sign_in(&gateway, &first).await);
    let again = register(&gateway, &session, &mut first.clone()).await;
    assert_eq!((again.status, again.code()), (409, "passkey_taken".into()));
    for _ in 1..10 {
        let answer = register(&gateway, &session, &mut Authenticator::new()).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    let more = register(&gateway, &session, &mut Authenticator::new()).await;
    assert_eq!(
        (more.status, more.code()),
        (409, "too_many_passkeys".into())
    );
    assert_eq!(list(&gateway, &session).await.as_array().unwrap().len(), 10);
}

#[tokio::test]
async fn an_operator_lists_and_revokes_passkeys_in_the_shell() {
    let gateway = Gateway::with(LINES);
    let phone = registered(&gateway, "reader").await;
    let other = registered(&gateway, "admin").await;
    let command = async |arguments: &[&str]| {
        let command = program(gateway.directory.path(), arguments);
        tokio::task::spawn_blocking(move || output(command))
            .await
            .unwrap()
    };
    let listed = command(&["passkey", "list", "--user", "reader", "--json"]).await;
    let listed: Json = serde_json::from_str(&listed).unwrap();
    let id = listed[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(listed[0]["user"], "reader");
    assert!(command(&["passkey", "list"]).await.contains(&id));
    let revoked = command(&["passkey", "revoke", "--id", &id]).await;
    assert_eq!(revoked.trim(), "1 revoked");
    assert_eq!(sign_in(&gateway, &phone).await.code(), "invalid_grant");
    assert_eq!(sign_in(&gateway, &other).await.status, 200);
    let revoked = command(&["passkey", "revoke", "--user", "admin"]).await;
    assert_eq!(revoked.trim(), "1 revoked");
    assert_eq!(sign_in(&gateway, &other).await.code(), "invalid_grant");
    let unknown = program(
        gateway.directory.path(),
        &["passkey", "revoke", "--id", &id],
    );
    let (code, said) = tokio::task::spawn_blocking(|| run_command(unknown))
        .await
        .unwrap();
    assert_eq!(code, Some(1));
    assert!(said.contains("no such passkey"), "{said}");
}

fn output(mut command: std::process::Command) -> String {
    let command = command.stdout(std::process::Stdio::piped());
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

#[tokio::test]
async fn without_the_setting_there_are_no_passkeys() {
    let gateway = Gateway::start();
    let session = gateway.sign_in("admin").await;
    for path in [
        "/gateway/passkeys",
        "/gateway/passkeys/options",
        "/gateway/passkeys/sign-in",
        "/gateway/passkeys/sign-in.js",
        "/gateway/step-up/passkey",
    ] {
        let answer = gateway.get(path).host(HOST).token(&session).send().await;
        assert_eq!(answer.status, 404, "{path}");
    }
}

#[tokio::test]
async fn passkeys_need_https_and_a_name_of_the_gateway() {
    let gateway = Gateway::with(&format!("{LINES}[server]\nplain = \"127.0.0.1:0\"\n"));
    let path = "/gateway/passkeys/sign-in";
    let address = gateway.get(path).send().await;
    assert_eq!(
        (address.status, address.code()),
        (400, "passkey_host".into())
    );
    let plain = Client {
        address: gateway.running.addresses().plain.unwrap(),
        ..(*gateway).clone()
    };
    let insecure = plain.get(path).host(HOST).plain().send().await;
    assert_eq!(
        (insecure.status, insecure.code()),
        (400, "passkey_host".into())
    );
    let rebound = gateway.get(path).host("evil.example").send().await;
    assert_eq!(rebound.status, 421);
}
