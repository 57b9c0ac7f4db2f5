//! Users who sign in with a real provider of OpenID Connect: pages, the editor's API and its
//! channel, of the engine and in front of an upstream.

use crate::harness::{Gateway, flow_set, script, until};
use crate::jwt::is_closed;
use crate::mock_upstream::{Action, MockUpstream, ok};
use crate::oidc_provider::{DASH, OidcProvider, SsoBrowser};
use crate::reverse_proxies::{ReverseProxy, free_address};
use crate::sign_in_page::{Browser, resolved};
use serde_json::json;

async fn deploy_page(gateway: &Gateway) {
    let admin = gateway.sign_in("admin").await;
    let code = "msg.payload = { user: msg.req.user, cookies: msg.req.cookies }; return msg";
    let flows = flow_set(&[script("a", "get", "/dash", code)]);
    gateway.deploy(&admin, &flows).await;
}

#[tokio::test]
async fn a_user_signs_in_with_the_provider_and_sees_the_page_until_removed_from_the_group() {
    let (mut provider, gateway) = OidcProvider::gateway("");
    deploy_page(&gateway).await;
    provider.tell("groups ann readers");
    let mut ann = SsoBrowser::new(&gateway);
    let page = ann
        .browser
        .navigate("/gateway/sign-in?return=/dash")
        .send()
        .await
        .text();
    assert!(
        page.contains("href=\"../gateway/sign-in/corp?return=%2Fdash\">Sign in with Corp</a>"),
        "{page}"
    );
    assert!(
        page.contains("name=\"password\""),
        "local users are beside it"
    );
    ann.sign_in_to_page().await;
    let seen = ann.browser.navigate("/dash").send().await;
    assert_eq!(seen.status, 200);
    let user = json!({ "username": "oidc:corp:ann", "permissions": ["read"] });
    assert_eq!(seen.json()["user"], user);
    assert!(
        !seen.text().contains("__Host"),
        "no cookie of the gateway's leaves"
    );
    let login = gateway
        .audit()
        .into_iter()
        .find(|record| record["provider"] == "corp");
    let login = login.unwrap();
    assert_eq!(
        (&login["event"], &login["user"], &login["by"]),
        (
            &json!("auth.login"),
            &json!("oidc:corp:ann"),
            &json!("oidc")
        )
    );
    let token = ann.browser.cookie.split_once('=').unwrap().1.to_owned();
    assert_eq!(
        gateway.get("/flows").token(&token).send().await.status,
        401,
        "a cookie is no token"
    );

    provider.tell("groups ann");
    until("the session has ended", async || {
        ann.browser.navigate("/dash").send().await.status == 303
    })
    .await;
    let refused = ann.sign_in("/gateway/sign-in/corp?return=%2Fdash").await;
    assert_eq!(refused.status, 403);
    assert!(
        refused.text().contains("no permissions here"),
        "{}",
        refused.text()
    );
}

#[tokio::test]
async fn the_editor_gets_a_token_in_no_url_and_its_rights_follow_the_groups() {
    let (mut provider, gateway) = OidcProvider::gateway("");
    provider.tell("groups ann editors");
    let login = |client: &Gateway| client.get("/auth/login");
    let of_page = login(&gateway)
        .header("Sec-Fetch-Site", "same-origin")
        .send()
        .await
        .json();
    assert_eq!(
        of_page,
        json!({ "type": "strategy", "providers": true, "passkeys": false, "prompts": [{ "type": "button", "label": "Sign in", "url": "gateway/sign-in?editor=true" }] })
    );
    assert_eq!(
        login(&gateway).send().await.json()["type"],
        "credentials",
        "a program has no page"
    );
    let mut ann = SsoBrowser::new(&gateway);
    let token = ann.sign_in_as_editor().await;
    let settings = gateway.get("/settings").token(&token).send().await.json();
    assert_eq!(
        settings["user"],
        json!({ "username": "oidc:corp:ann", "permissions": "*" })
    );
    gateway.deploy(&token, &json!([])).await;
    let mut channel = gateway.editor(&token).await;

    provider.tell("groups ann readers");
    let permissions = async || {
        let settings = gateway.get("/settings").token(&token).send().await;
        settings.json()["user"]["permissions"].clone()
    };
    until("the rights have changed", async || {
        permissions().await == "read"
    })
    .await;
    assert_eq!(
        gateway
            .deployment(&token, &json!([]), None)
            .send()
            .await
            .status,
        401
    );
    provider.tell("groups ann");
    // The channel may have ended with the rights before.
    is_closed(&mut channel).await;
    until("the session has ended", async || {
        gateway.get("/settings").token(&token).send().await.status == 401
    })
    .await;
}

#[tokio::test]
async fn a_local_user_signs_in_to_the_editor_on_the_same_page() {
    let (_provider, gateway) = OidcProvider::gateway("");
    let browser = Browser::new(&gateway);
    let page = browser
        .navigate("/gateway/sign-in?editor=true")
        .send()
        .await
        .text();
    assert!(
        page.contains("../gateway/sign-in/corp?editor=true"),
        "{page}"
    );
    let fields = [
        ("username", "reader"),
        ("password", crate::client::PASSWORD),
        ("app", "editor"),
    ];
    let answer = browser.submit("/gateway/sign-in", &fields).send().await;
    assert_eq!((answer.status, answer.header("set-cookie")), (200, ""));
    assert_eq!(answer.header("cache-control"), "no-store");
    let page = answer.text();
    assert!(page.contains("href=\"../\""), "{page}");
    let (_, rest) = page.split_once("data-token=\"").unwrap();
    let token = rest.split_once('"').unwrap().0;
    assert!(gateway.accepts_token(token).await);
}

#[tokio::test]
async fn a_logout_at_the_provider_ends_the_session_and_its_channel() {
    let (mut provider, gateway) = OidcProvider::gateway("");
    provider.tell("groups ann editors");
    let mut ann = SsoBrowser::new(&gateway);
    let token = ann.sign_in_as_editor().await;
    let mut channel = gateway.editor(&token).await;
    provider.tell("logout ann");
    is_closed(&mut channel).await;
    assert_eq!(
        gateway.get("/settings").token(&token).send().await.status,
        401
    );
    let ended = gateway
        .audit()
        .into_iter()
        .find(|record| record["event"] == "session.revoke");
    assert_eq!(ended.unwrap()["of"], "oidc:corp:ann");
}

#[tokio::test]
async fn a_logout_here_leads_to_the_logout_at_the_provider() {
    let (mut provider, gateway) = OidcProvider::gateway("");
    deploy_page(&gateway).await;
    provider.tell("groups ann editors");
    let there = format!(
        "http://{}/session/end?client_id=flowgate&id_token_hint=",
        provider.address
    );
    let mut ann = SsoBrowser::new(&gateway);
    let token = ann.sign_in_as_editor().await;
    let revoked = gateway
        .post("/auth/revoke")
        .token(&token)
        .form(&[("token", &token)])
        .send()
        .await;
    let redirect = revoked.json()["redirect"].as_str().unwrap().to_owned();
    assert!(redirect.starts_with(&there), "{redirect}");
    assert_eq!(
        gateway.get("/settings").token(&token).send().await.status,
        401
    );

    ann.sign_in_to_page().await;
    let answer = ann.browser.submit("/gateway/sign-out", &[]).send().await;
    assert_eq!(answer.status, 200);
    assert!(
        answer
            .header("set-cookie")
            .starts_with("__Host-flowgate=; Path=/; Max-Age=0")
    );
    assert!(
        answer
            .text()
            .contains(&format!("url={}", there.replace('&', "&amp;"))),
        "{}",
        answer.text()
    );
    assert_eq!(ann.browser.navigate("/dash").send().await.status, 303);
}

#[tokio::test]
async fn sessions_hold_while_the_provider_is_down_for_a_bounded_time() {
    let address = free_address();
    let mut provider = OidcProvider::start(address);
    provider.tell("groups ann editors");
    let gateway = Gateway::with(&provider.config(address, "max_stale = \"4s\""));
    let token = SsoBrowser::new(&gateway).sign_in_as_editor().await;
    let mut channel = gateway.editor(&token).await;
    let since = std::time::Instant::now();
    provider.stop();
    is_closed(&mut channel).await;
    assert!(
        since.elapsed().as_secs() >= 2,
        "it holds for a time: {:?}",
        since.elapsed()
    );
    assert_eq!(
        gateway.get("/settings").token(&token).send().await.status,
        401
    );
    let page = Browser::new(&gateway)
        .navigate("/gateway/sign-in/corp")
        .send()
        .await;
    assert!(page.status == 303 || page.status == 502, "{}", page.status);
}

#[tokio::test]
async fn users_of_a_provider_reach_an_upstream_and_the_gateway_tells_it_who_they_are() {
    let upstream = MockUpstream::start(|request| {
        if request.contains("/settings") {
            return Action::Respond(ok("application/json", "{}"));
        }
        Action::Respond(ok("text/plain", "a"))
    });
    let upstream = upstream.await;
    let lines = upstream.config_with("health = \"1h\"\nidentity_headers = true");
    let (mut provider, gateway) = OidcProvider::gateway(&lines);
    provider.tell("groups ann readers");
    let mut ann = SsoBrowser::new(&gateway);
    let token = ann.sign_in_as_editor().await;
    ann.sign_in_to_page().await;
    upstream.take();
    assert_eq!(ann.browser.navigate("/dash").send().await.status, 200);
    let left = upstream.only().to_ascii_lowercase();
    assert!(
        left.contains("x-flowgate-user: oidc:corp:ann\r\n"),
        "{left}"
    );
    assert!(!left.contains("__host") && !left.contains(&token.to_ascii_lowercase()));
    assert_eq!(
        gateway.get("/settings").token(&token).send().await.status,
        200
    );
}

#[tokio::test]
async fn a_code_of_another_sign_in_is_refused_by_pkce_and_counts_once() {
    let (mut provider, gateway) = OidcProvider::gateway("");
    provider.tell("groups ann editors");
    let origin = format!("https://{}", gateway.address);
    let code_of = |callback: &str| {
        let query = callback.split_once('?').unwrap().1.to_owned();
        let pairs = form_urlencoded::parse(query.as_bytes());
        pairs
            .into_owned()
            .find(|(name, _)| name == "code")
            .unwrap()
            .1
    };
    let mut attacker = SsoBrowser::new(&gateway);
    let location = attacker.begin("/gateway/sign-in/corp?editor=true").await;
    let stolen = code_of(&attacker.at_provider(&location).await);
    let mut victim = SsoBrowser::new(&gateway);
    let location = victim.begin("/gateway/sign-in/corp?editor=true").await;
    let callback = victim.at_provider(&location).await;
    let injected = callback.replace(&code_of(&callback), &stolen);
    let injected = injected.strip_prefix(&origin).unwrap();
    let answer = victim.browser.navigate(injected).send().await;
    assert_eq!(answer.status, 403, "the code is of another sign-in");
    assert!(!answer.text().contains("data-token"));
}

#[tokio::test]
async fn behind_a_proxy_that_removes_a_path_the_sign_in_leads_there_and_back() {
    let (front, behind) = (free_address(), free_address());
    let mut provider = OidcProvider::start_for(&format!("https://{front}/plant"));
    provider.tell("groups ann readers");
    let redirect =
        format!("redirect_url = \"https://{front}/plant/gateway/sign-in/corp/callback\"");
    let trusted = "[server]\ntrusted_proxies = [\"127.0.0.1\"]\n";
    let lines = provider.config(behind, &redirect);
    let gateway = Gateway::with(&(lines.replace("[server]\n", trusted) + DASH));
    let certificates = gateway.directory.path().join("certs");
    let certificates = certificates.display();
    let config = format!(
        "server {{ listen {front} ssl;\n\
         ssl_certificate {certificates}/self-signed.crt;\nssl_certificate_key {certificates}/self-signed.key;\n\
         location /plant/ {{ proxy_pass https://{behind}/;\nproxy_set_header Host $http_host;\n\
         proxy_set_header X-Forwarded-Host $http_host;\nproxy_set_header X-Forwarded-For $remote_addr;\n\
         proxy_set_header X-Forwarded-Proto $scheme; }} }}"
    );
    let _nginx = ReverseProxy::nginx(&config, front).await;
    let mut client = (*gateway).clone();
    client.address = front;

    let mut sso = SsoBrowser::new(&client);
    let led = sso.browser.navigate("/plant/dash").send().await;
    let page = resolved("/plant/dash", led.header("location"));
    assert_eq!(page, "/plant/gateway/sign-in?return=%2Fdash");
    let html = sso.browser.navigate(&page).send().await.text();
    let (_, link) = html.split_once("class=\"provider\" href=\"").unwrap();
    let begin = resolved(&page, link.split_once('"').unwrap().0);
    assert_eq!(begin, "/plant/gateway/sign-in/corp?return=%2Fdash");
    let answer = sso.sign_in(&begin).await;
    assert_eq!(answer.status, 303, "{}", answer.text());
    let callback = "/plant/gateway/sign-in/corp/callback";
    assert_eq!(resolved(callback, answer.header("location")), "/plant/dash");
    // Signed in: there is no such flow.
    assert_eq!(sso.browser.navigate("/plant/dash").send().await.status, 404);
}

#[tokio::test]
async fn with_a_secret_a_session_outlives_a_restart_with_the_rights_that_the_grants_give_then() {
    let address = free_address();
    let mut provider = OidcProvider::start(address);
    let secret = "storage.credential_secret = \"a long random text\"\n";
    let lines = format!("{secret}{}", provider.config(address, ""));
    let gateway = Gateway::with(&lines);
    provider.tell("groups ann editors");
    let token = SsoBrowser::new(&gateway).sign_in_as_editor().await;
    let gateway = gateway.restart().await;
    let user = async |gateway: &Gateway| {
        let settings = gateway.get("/settings").token(&token).send().await;
        settings.json()["user"].clone()
    };
    let expected = json!({ "username": "oidc:corp:ann", "permissions": "*" });
    assert_eq!(user(&gateway).await, expected);

    let fewer = lines.replace("permissions = [\"*\"]", "permissions = [\"read\"]");
    let gateway = gateway.restart_with(&fewer).await;
    assert_eq!(user(&gateway).await["permissions"], "read");
    let none = fewer.replace("\"editors\"", "\"others\"");
    let gateway = gateway.restart_with(&none).await;
    assert!(!gateway.accepts_token(&token).await, "no grant fits");
    let gateway = gateway.restart_with(&lines).await;
    assert!(
        !gateway.accepts_token(&token).await,
        "it has ended for good"
    );

    let token = SsoBrowser::new(&gateway).sign_in_as_editor().await;
    let other_secret = lines.replace("a long random text", "another text");
    let gateway = gateway.restart_with(&other_secret).await;
    assert!(!gateway.accepts_token(&token).await, "it cannot be opened");
}
