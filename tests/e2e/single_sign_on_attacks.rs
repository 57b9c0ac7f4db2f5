//! Attacks on the sign-in with a provider (RFC 9700, OpenID Connect Core 1.0 §16), each a test. The
//! provider is one that says what a test wants.

use crate::client::Answer;
use crate::cluster::in_front_of;
use crate::harness::{Gateway, until};
use crate::jwt_issuer::{SigningKey, now, set_of};
use crate::mock_upstream::{Action, MockUpstream, ok, status};
use crate::reverse_proxies::free_address;
use crate::sign_in_page::{Browser, resolved};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use testing::postgres::Postgres;

const SECRET: &str = "secret";

/// A provider whose answers a test chooses.
struct FakeProvider {
    address: SocketAddr,
    key: SigningKey,
    said: Arc<Mutex<Said>>,
    server: MockUpstream,
}

#[derive(Clone, Default)]
struct Said {
    metadata: Json,
    id_token: String,
    user_info: Json,
}

impl FakeProvider {
    async fn start() -> Self {
        let address = free_address();
        let key = SigningKey::new("k");
        let keys = serde_json::to_string(&set_of(&[&key])).unwrap();
        let url = format!("http://{address}");
        let metadata = json!({
            "issuer": url, "authorization_endpoint": format!("{url}/authorize"), "token_endpoint": format!("{url}/token"),
            "jwks_uri": format!("{url}/jwks"), "userinfo_endpoint": format!("{url}/userinfo"),
            "authorization_response_iss_parameter_supported": true,
        });
        let said = Said {
            metadata,
            id_token: String::new(),
            user_info: json!({ "sub": "ann", "groups": ["editors"] }),
        };
        let said = Arc::new(Mutex::new(said));
        let shown = Arc::clone(&said);
        let server = MockUpstream::at(address, move |request| {
            let said = shown.lock().unwrap().clone();
            let json =
                |value: &Json| Action::RespondAndClose(ok("application/json", &value.to_string()));
            match request.split(' ').nth(1).unwrap_or_default() {
                "/.well-known/openid-configuration" => json(&said.metadata),
                "/jwks" => Action::RespondAndClose(ok("application/json", &keys)),
                "/token" => json(
                    &json!({ "access_token": "a", "token_type": "Bearer", "id_token": said.id_token }),
                ),
                "/userinfo" => json(&said.user_info),
                _ => Action::RespondAndClose(status("404 Not Found", "text/plain", "")),
            }
        });
        Self {
            address,
            key,
            said,
            server: server.await,
        }
    }

    fn issuer(&self) -> String {
        format!("http://{}", self.address)
    }

    fn table(&self, name: &str) -> String {
        format!(
            "[[auth.oidc]]\nname = \"{name}\"\nissuer = \"{}\"\nclient_id = \"flowgate\"\nclient_secret = \"{SECRET}\"\n\
             [[auth.oidc.grant]]\nclaims = {{ groups = [\"editors\"] }}\npermissions = [\"*\"]\n",
            self.issuer()
        )
    }

    /// The claims of an ID token for this sign-in, with these instead or beside.
    fn claims(&self, begun: &Begun, other: &Json) -> Json {
        let mut claims = json!({
            "iss": self.issuer(), "aud": "flowgate", "sub": "ann", "iat": now(), "exp": now() + 300, "nonce": begun.nonce,
            "groups": ["editors"], "sid": "s1"
        });
        for (name, value) in other.as_object().unwrap() {
            match value {
                Json::Null => drop(claims.as_object_mut().unwrap().remove(name)),
                value => claims[name] = value.clone(),
            }
        }
        claims
    }

    fn hand_out(&self, token: String) {
        self.said.lock().unwrap().id_token = token;
    }

    /// Requests to the token endpoint so far.
    fn exchanges(&self) -> usize {
        let received = self.server.received().into_iter();
        received
            .filter(|request| request.bytes.starts_with("POST /token"))
            .count()
    }
}

/// A sign-in that a browser has begun.
struct Begun {
    browser: Browser,
    state: String,
    nonce: String,
    location: String,
}

async fn begun(gateway: &Gateway, path: &str) -> Begun {
    let mut browser = Browser::new(gateway);
    let answer = browser.navigate(path).send().await;
    assert_eq!(answer.status, 303, "{}", answer.text());
    browser.keep(&answer);
    let location = answer.header("location").to_owned();
    let query = location.split_once('?').unwrap().1;
    let fields: HashMap<String, String> = form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect();
    Begun {
        browser,
        state: fields["state"].clone(),
        nonce: fields["nonce"].clone(),
        location,
    }
}

impl Begun {
    /// The way back, with these fields.
    async fn returns(&self, name: &str, fields: &[(&str, &str)]) -> Answer {
        let mut query = form_urlencoded::Serializer::new(String::new());
        let query = query.extend_pairs(fields).finish();
        let path = format!("/gateway/sign-in/{name}/callback?{query}");
        self.browser.navigate(&path).send().await
    }

    async fn finish(&self, provider: &FakeProvider) -> Answer {
        let issuer = provider.issuer();
        self.returns(
            "corp",
            &[("code", "c"), ("state", &self.state), ("iss", &issuer)],
        )
        .await
    }
}

const EDITOR: &str = "/gateway/sign-in/corp?editor=true";

async fn started() -> (FakeProvider, Gateway) {
    let provider = FakeProvider::start().await;
    let gateway = Gateway::with(&provider.table("corp"));
    (provider, gateway)
}

/// Neither a token nor a session.
fn is_refused(answer: &Answer, why: &str) {
    let cookies = answer.headers.get_all("set-cookie").iter();
    let has_session = cookies.into_iter().any(|set| {
        let set = set.to_str().unwrap();
        set.starts_with("__Host-flowgate=") && !set.starts_with("__Host-flowgate=;")
    });
    assert!(
        !has_session && !answer.text().contains("data-token"),
        "{why}: {}",
        answer.text()
    );
    assert!(answer.status >= 400, "{why}: {}", answer.status);
}

/// A whole sign-in with an ID token of these claims.
async fn attempt(provider: &FakeProvider, gateway: &Gateway, other: &Json) -> Answer {
    let begun = begun(gateway, EDITOR).await;
    provider.hand_out(provider.key.sign(&provider.claims(&begun, other)));
    begun.finish(provider).await
}

#[tokio::test]
async fn token_substitution_is_refused() {
    let (provider, gateway) = started().await;
    assert_eq!(attempt(&provider, &gateway, &json!({})).await.status, 200);
    let now = now();
    for other in [
        json!({ "aud": "another" }),
        json!({ "aud": null }),
        json!({ "aud": ["flowgate", "another"] }),
        json!({ "aud": ["flowgate", "another"], "azp": "another" }),
        json!({ "azp": "another" }),
        json!({ "iss": "https://evil.example" }),
        json!({ "nonce": "of another sign-in" }),
        json!({ "nonce": null }),
        json!({ "sub": null }),
        json!({ "exp": now - 60 }),
        json!({ "exp": null }),
        json!({ "iat": now + 600, "exp": now + 900 }),
    ] {
        let answer = attempt(&provider, &gateway, &other).await;
        is_refused(&answer, &other.to_string());
    }
    provider.said.lock().unwrap().user_info = json!({ "sub": "bob", "groups": ["editors"] });
    is_refused(
        &attempt(&provider, &gateway, &json!({})).await,
        "user info of another user",
    );
}

#[tokio::test]
async fn id_tokens_with_alg_none_or_the_client_secret_as_key_are_refused() {
    let (provider, gateway) = started().await;
    let start = begun(&gateway, EDITOR).await;
    let claims = provider.claims(&start, &json!({}));
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    let token = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &key).unwrap();
    provider.hand_out(token);
    is_refused(&start.finish(&provider).await, "HS256");
    let start = begun(&gateway, EDITOR).await;
    let signed = provider.key.sign(&provider.claims(&start, &json!({})));
    let claims = signed.split('.').nth(1).unwrap();
    // {"alg":"none"}
    provider.hand_out(format!("eyJhbGciOiJub25lIn0.{claims}."));
    is_refused(&start.finish(&provider).await, "none");
}

#[tokio::test]
async fn a_mix_up_of_providers_is_refused_before_a_code_is_sent() {
    let (provider, evil) = (FakeProvider::start().await, FakeProvider::start().await);
    let gateway = Gateway::with(&(provider.table("corp") + &evil.table("evil")));
    let start = begun(&gateway, EDITOR).await;
    let (state, evil_issuer) = (start.state.as_str(), evil.issuer());
    let issuer = provider.issuer();
    is_refused(
        &start
            .returns("evil", &[("code", "c"), ("state", state), ("iss", &issuer)])
            .await,
        "path",
    );
    is_refused(
        &start
            .returns(
                "corp",
                &[("code", "c"), ("state", state), ("iss", &evil_issuer)],
            )
            .await,
        "iss",
    );
    let start = begun(&gateway, EDITOR).await;
    is_refused(
        &start
            .returns("corp", &[("code", "c"), ("state", &start.state)])
            .await,
        "no iss",
    );
    assert_eq!(provider.exchanges() + evil.exchanges(), 0);
    // The token endpoint of one with the ID token of the other.
    let start = begun(&gateway, EDITOR).await;
    provider.hand_out(evil.key.sign(&evil.claims(&start, &json!({}))));
    is_refused(&start.finish(&provider).await, "token of the other");
    provider.hand_out(evil.key.sign(&provider.claims(&start, &json!({}))));
    let start = begun(&gateway, EDITOR).await;
    is_refused(&start.finish(&provider).await, "key of the other");
}

#[tokio::test]
async fn a_replayed_response_is_refused() {
    let (provider, gateway) = started().await;
    let start = begun(&gateway, EDITOR).await;
    provider.hand_out(provider.key.sign(&provider.claims(&start, &json!({}))));
    assert_eq!(start.finish(&provider).await.status, 200);
    let exchanges = provider.exchanges();
    is_refused(
        &start.finish(&provider).await,
        "the same cookie, state and code",
    );
    assert_eq!(provider.exchanges(), exchanges);
}

#[tokio::test]
async fn login_csrf_with_the_attackers_code_and_state_is_refused() {
    let (provider, gateway) = started().await;
    let attacker = begun(&gateway, EDITOR).await;
    provider.hand_out(provider.key.sign(&provider.claims(&attacker, &json!({}))));
    let issuer = provider.issuer();
    let fields = [
        ("code", "c"),
        ("state", attacker.state.as_str()),
        ("iss", issuer.as_str()),
    ];
    let nothing = Begun {
        browser: Browser::new(&gateway),
        state: String::new(),
        nonce: String::new(),
        location: String::new(),
    };
    is_refused(
        &nothing.returns("corp", &fields).await,
        "a browser that has begun nothing",
    );
    let victim = begun(&gateway, EDITOR).await;
    is_refused(
        &victim.returns("corp", &fields).await,
        "a browser that has begun another",
    );
    is_refused(&victim.returns("corp", &fields[..1]).await, "no state");
    let forged = Begun {
        browser: Browser {
            cookie: "__Host-flowgate-sign-in=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".to_owned(),
            ..victim.browser.clone()
        },
        ..nothing
    };
    is_refused(&forged.returns("corp", &fields).await, "a forged cookie");
    assert_eq!(provider.exchanges(), 0);
    let doubled = [
        ("code", "c"),
        ("code", "d"),
        ("state", victim.state.as_str()),
    ];
    assert_eq!(victim.returns("corp", &doubled).await.status, 400);
}

#[tokio::test]
async fn the_redirect_uri_is_of_a_configured_or_certified_host_only() {
    let (provider, gateway) = started().await;
    for host in ["evil.example", "evil.example:8443", "192.0.2.66"] {
        let answer = gateway.get(EDITOR).host(host).send().await;
        assert_eq!(
            (answer.status, answer.header("location")),
            (421, ""),
            "{host}"
        );
    }
    let answer = gateway.get(EDITOR).host("localhost").send().await;
    assert_eq!(answer.status, 303);
    assert!(
        answer
            .header("location")
            .contains("redirect_uri=https%3A%2F%2Flocalhost%2F")
    );
    let lines = provider.table("corp") + "[server]\nhosts = [\"flows.example.org\"]\n";
    assert!(gateway.reload(&lines).await);
    let answer = gateway.get(EDITOR).host("flows.example.org").send().await;
    assert_eq!(answer.status, 303);
    assert!(
        gateway
            .reload(&(provider.table("corp") + "[server]\nhosts = [\"*\"]\n"))
            .await
    );
    let answer = gateway.get(EDITOR).host("evil.example").send().await;
    assert_eq!(answer.status, 421);
}

#[tokio::test]
async fn the_sign_in_is_no_open_redirect() {
    let (provider, gateway) = started().await;
    for back in [
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "/%2Fevil",
    ] {
        let encoded: String = form_urlencoded::byte_serialize(back.as_bytes()).collect();
        let start = begun(&gateway, &format!("/gateway/sign-in/corp?return={encoded}")).await;
        provider.hand_out(provider.key.sign(&provider.claims(&start, &json!({}))));
        let answer = start.finish(&provider).await;
        assert_eq!(answer.status, 303);
        let location = resolved("/gateway/sign-in/corp/callback", answer.header("location"));
        assert_eq!(location, "/gateway/sign-in", "{back}");
    }
    let start = begun(&gateway, EDITOR).await;
    assert!(start.location.starts_with(&provider.issuer()));
    let redirect: String = form_urlencoded::byte_serialize(
        format!("https://{}/gateway/sign-in/corp/callback", gateway.address).as_bytes(),
    )
    .collect();
    assert!(
        start
            .location
            .contains(&format!("redirect_uri={redirect}&")),
        "{}",
        start.location
    );
    for field in [
        "code_challenge_method=S256",
        "response_type=code",
        "scope=openid+",
    ] {
        assert!(start.location.contains(field), "{field}");
    }
}

#[tokio::test]
async fn a_provider_cannot_lead_requests_to_other_servers() {
    let provider = FakeProvider::start().await;
    let good = provider.said.lock().unwrap().metadata.clone();
    for (name, value) in [
        ("token_endpoint", "http://169.254.169.254/token"),
        ("jwks_uri", "http://internal.example/jwks"),
        ("userinfo_endpoint", "file:///etc/passwd"),
        ("authorization_endpoint", "http://evil.example/"),
        ("issuer", "http://127.0.0.1:1"),
    ] {
        let mut metadata = good.clone();
        metadata[name] = value.into();
        provider.said.lock().unwrap().metadata = metadata;
        let gateway = Gateway::with(&provider.table("corp"));
        let answer = Browser::new(&gateway).navigate(EDITOR).send().await;
        assert_eq!(answer.status, 502, "{name}");
    }
}

#[tokio::test]
async fn logout_tokens_are_verified_and_count_once() {
    let (provider, gateway) = started().await;
    let token = async || {
        let answer = attempt(&provider, &gateway, &json!({})).await;
        let page = answer.text();
        let (_, rest) = page.split_once("data-token=\"").unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    };
    let (first, second) = (token().await, token().await);
    let events = json!({ "http://schemas.openid.net/event/backchannel-logout": {} });
    let claims = |other: Json| {
        let mut claims = json!({
            "iss": provider.issuer(), "aud": "flowgate", "iat": now(), "exp": now() + 60, "jti": "1", "sid": "s1", "events": events
        });
        for (name, value) in other.as_object().unwrap() {
            match value {
                Json::Null => drop(claims.as_object_mut().unwrap().remove(name)),
                value => claims[name] = value.clone(),
            }
        }
        claims
    };
    let logout = async |token: &str| {
        let path = "/gateway/sign-in/corp/back-channel-logout";
        gateway
            .post(path)
            .form(&[("logout_token", token)])
            .send()
            .await
            .status
    };
    for other in [
        json!({ "nonce": "n" }),
        json!({ "events": null }),
        json!({ "events": {} }),
        json!({ "aud": "another" }),
        json!({ "iss": "https://evil.example" }),
        json!({ "exp": now() - 60 }),
        json!({ "exp": null }),
        json!({ "jti": null }),
        json!({ "sid": null }),
    ] {
        assert_eq!(
            logout(&provider.key.sign(&claims(other.clone()))).await,
            400,
            "{other}"
        );
    }
    assert_eq!(
        logout(&SigningKey::new("k").sign(&claims(json!({})))).await,
        400,
        "another key"
    );
    assert!(gateway.accepts_token(&first).await && gateway.accepts_token(&second).await);
    let good = provider.key.sign(&claims(json!({})));
    assert_eq!(logout(&good).await, 200);
    assert!(!gateway.accepts_token(&first).await && !gateway.accepts_token(&second).await);
    assert_eq!(logout(&good).await, 400, "replayed");

    let third = token().await;
    let front = async |query: &str| {
        let path = format!("/gateway/sign-in/corp/front-channel-logout?{query}");
        gateway.get(&path).send().await.status
    };
    let issuer = provider.issuer();
    for query in [
        format!("iss={issuer}"),
        "sid=s1".to_owned(),
        "iss=x&sid=s1".to_owned(),
    ] {
        assert_eq!(front(&query).await, 200);
    }
    assert!(gateway.accepts_token(&third).await);
    assert_eq!(front(&format!("iss={issuer}&sid=s1")).await, 200);
    assert!(!gateway.accepts_token(&third).await);
}

#[tokio::test]
async fn an_id_token_is_no_bearer_token_and_failures_are_recorded() {
    let (provider, gateway) = started().await;
    let start = begun(&gateway, EDITOR).await;
    let token = provider.key.sign(&provider.claims(&start, &json!({})));
    assert_eq!(gateway.get("/flows").token(&token).send().await.status, 401);
    is_refused(
        &start.returns("corp", &[("error", "access_denied")]).await,
        "error without state",
    );
    until("it is recorded", async || {
        let audit = gateway.audit().into_iter();
        audit
            .into_iter()
            .any(|record| record["event"] == "auth.login.fail.provider")
    })
    .await;
}

#[tokio::test]
async fn a_logout_token_that_one_gateway_has_used_is_refused_by_the_other() {
    let provider = FakeProvider::start().await;
    let (engine, postgres) = (Gateway::with("auth = \"off\""), Postgres::start());
    let lines = format!(
        "{}storage.credential_secret = \"of all gateways\"\n{}",
        in_front_of(&engine, &postgres.url()),
        provider.table("corp")
    );
    let (one, other) = (Gateway::with(&lines), Gateway::with(&lines));
    let events = json!({ "http://schemas.openid.net/event/backchannel-logout": {} });
    let token = provider.key.sign(&json!({
        "iss": provider.issuer(), "aud": "flowgate", "iat": now(), "exp": now() + 60, "jti": "1", "sub": "ann", "events": events
    }));
    let logout = async |gateway: &Gateway| {
        let request = gateway.post("/gateway/sign-in/corp/back-channel-logout");
        let request = request.form(&[("logout_token", &token)]);
        request.send().await.status
    };
    assert_eq!(logout(&one).await, 200);
    assert_eq!(logout(&other).await, 400);
    let answer = attempt(&provider, &other, &json!({})).await;
    let page = answer.text();
    let (_, rest) = page.split_once("data-token=\"").unwrap();
    let session = rest.split_once('"').unwrap().0;
    assert_eq!(logout(&other).await, 400);
    assert!(other.accepts_token(session).await, "a later session");
}
