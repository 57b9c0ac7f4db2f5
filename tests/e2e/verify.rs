//! `GET /gateway/verify`: a reverse proxy asks who sends a request, for an application beside the
//! runtime.

use crate::client::PASSWORD;
use crate::harness::{Gateway, hash, public, until};
use crate::mock_upstream::{Action, MockUpstream, ok};
use crate::reverse_proxies::{ReverseProxy, free_address};
use crate::scenario::play;
use crate::sign_in_page::{Browser, resolved};
use std::net::SocketAddr;

const PAGE: &str = "[auth]\nsign_in_page = true\n";

#[tokio::test]
async fn a_token_is_verified_with_its_user_and_permissions() {
    let gateway = Gateway::start();
    let reader = gateway.sign_in("reader").await;
    let ask = async |query: &str, token: &str| {
        let path = format!("/gateway/verify{query}");
        gateway.get(&path).token(token).send().await
    };
    let answer = ask("", &reader).await;
    assert_eq!((answer.status, answer.text().as_str()), (200, ""));
    assert_eq!(answer.header("x-flowgate-user"), "reader");
    assert_eq!(answer.header("x-flowgate-permissions"), "read");
    assert_eq!(answer.header("cache-control"), "no-store");
    for (query, token, status) in [
        ("?permission=flows.read", reader.as_str(), 200),
        ("?permission=flows.write", reader.as_str(), 403),
        ("?permission=", reader.as_str(), 400),
        ("?sign_in=password", reader.as_str(), 400),
        ("", "", 401),
        ("", "unknown", 401),
        ("?permission=flows.read", "", 401),
    ] {
        let answer = ask(query, token).await;
        assert_eq!(answer.status, status, "{query} {token}");
        assert_eq!(answer.header("x-flowgate-user").is_empty(), status != 200);
    }
    until("the refusal is recorded", async || {
        gateway.audit().iter().any(|record| {
            record["event"] == "permission.denied"
                && record["user"] == "reader"
                && record["needs"] == "flows.write"
        })
    })
    .await;
}

#[tokio::test]
async fn a_permission_for_some_flows_is_none_for_a_wider_pattern() {
    let gateway = Gateway::with("[auth]\nanonymous = [\"flows.read:?\", \"flows.write:Line?\"]");
    for (permission, status) in [
        ("flows.read:x", 200),
        ("flows.read:?", 200),
        ("flows.read:*", 403),
        ("flows.read:x*", 403),
        ("flows.read", 403),
        ("flows.write:Line3", 200),
        ("flows.write:Line*", 403),
        ("flows.read:Line*", 403),
    ] {
        let path = format!(
            "/gateway/verify?permission={}",
            permission.replace('?', "%3F")
        );
        let answer = gateway.get(&path).send().await;
        assert_eq!(answer.status, status, "{permission}");
    }
}

#[tokio::test]
async fn a_caller_without_a_name_passes_with_a_permission_that_is_asked_for_only() {
    let gateway = Gateway::with("[auth]\nanonymous = [\"plant.view\"]");
    for (query, status) in [
        ("", 401),
        ("?permission=plant.view", 200),
        ("?permission=x", 403),
    ] {
        let path = format!("/gateway/verify{query}");
        let answer = gateway
            .get(&path)
            .header("X-Flowgate-User", "root")
            .send()
            .await;
        assert_eq!(
            (answer.status, answer.header("x-flowgate-user")),
            (status, "")
        );
    }
}

#[tokio::test]
async fn the_cookie_of_a_page_counts_only_if_it_is_asked_for_and_not_for_other_pages() {
    let gateway = Gateway::with(PAGE);
    let mut browser = Browser::new(&gateway);
    browser.sign_in("reader").await;
    let ask = |query: &str| browser.with_cookie(gateway.get(&format!("/gateway/verify{query}")));
    assert_eq!(ask("").send().await.status, 401);
    let asked = || ask("?sign_in=page&permission=read");
    let own = format!("https://{}", gateway.address);
    for (request, status) in [
        (asked(), 200),
        (asked().header("Origin", "https://evil.example"), 403),
        (
            asked()
                .header("Sec-Fetch-Site", "same-site")
                .header("Sec-Fetch-Mode", "cors"),
            403,
        ),
        (asked().header("X-Forwarded-Method", "POST"), 403),
        (
            asked()
                .header("X-Forwarded-Method", "POST")
                .header("Origin", &own),
            200,
        ),
        (
            asked()
                .header("X-Forwarded-Method", "(")
                .header("Origin", "https://evil.example"),
            403,
        ),
    ] {
        assert_eq!(request.send().await.status, status);
    }
    let answer = ask("?sign_in=page&permission=flows.write").send().await;
    assert_eq!(answer.status, 403);
}

/// The usual users, and one who may send two requests in an hour.
fn users() -> String {
    let hash = hash(PASSWORD);
    let user = |name: &str, rest: &str| {
        format!("[[auth.user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\n{rest}\n")
    };
    [
        user("reader", "permissions = [\"read\"]"),
        user(
            "deployer",
            "permissions = [\"flows.read\", \"flows.write\"]",
        ),
        user("limited", "permissions = [\"read\"]\nrate_limit = \"2/h\""),
    ]
    .concat()
}

/// An application, and a gateway that trusts a reverse proxy in front of both.
async fn beside_an_application() -> (Gateway, MockUpstream) {
    let app = MockUpstream::start(|request| {
        if request.starts_with("GET /app/hostile") {
            Action::Respond(ok("text/html", "<title>An application</title>"))
        } else {
            Action::Respond(ok("text/plain", "the app"))
        }
    });
    let app = app.await;
    let lines = format!(
        "{}{PAGE}[server]\ntrusted_proxies = [\"127.0.0.1\"]\n{}",
        public(&["/x"]),
        users()
    );
    (Gateway::with(&lines), app)
}

/// A configuration of examples/forward-auth, for these two.
fn recipe(text: &str, gateway: &Gateway, app: &MockUpstream) -> String {
    text.replace("127.0.0.1:8443", &gateway.address.to_string())
        .replace("127.0.0.1:3000", &app.address.to_string())
}

/// The gateway's certificate and its key.
fn certificate(gateway: &Gateway) -> [String; 2] {
    ["crt", "key"].map(|kind| {
        let file = format!("certs/self-signed.{kind}");
        let path = gateway.directory.path().join(file);
        path.to_str().unwrap().to_owned()
    })
}

#[tokio::test]
async fn behind_nginx_an_application_shares_the_sign_in() {
    let (gateway, app) = beside_an_application().await;
    let address = free_address();
    let [certificate, key] = certificate(&gateway);
    let text = include_str!("../../examples/forward-auth/nginx.conf");
    let config = recipe(text, &gateway, &app)
        .replace("/etc/ssl/example.org.crt", &certificate)
        .replace("/etc/ssl/example.org.key", &key)
        .replace("443 ssl", &format!("{address} ssl"));
    let _nginx = ReverseProxy::nginx(&config, address).await;
    shares_the_sign_in(&gateway, &app, address).await;
    hands_out_nothing_to_a_hostile_application(&app, address).await;
    tells_who_is_over_a_limit(&gateway, address).await;
}

#[tokio::test]
async fn behind_caddy_an_application_shares_the_sign_in() {
    let (gateway, app) = beside_an_application().await;
    let address = free_address();
    let [certificate, key] = certificate(&gateway);
    let text = include_str!("../../examples/forward-auth/Caddyfile");
    let site = format!("https://{address} {{\n\ttls {certificate} {key}\n");
    let config = recipe(text, &gateway, &app).replace("example.org {\n", &site);
    let _caddy = ReverseProxy::caddy(&config, address).await;
    shares_the_sign_in(&gateway, &app, address).await;
    hands_out_nothing_to_a_hostile_application(&app, address).await;
    tells_who_is_over_a_limit(&gateway, address).await;
}

/// Pages of the application set cookies and headers that look like those of flowgate and the proxy.
async fn hands_out_nothing_to_a_hostile_application(app: &MockUpstream, address: SocketAddr) {
    let url = format!("https://{address}/");
    play("console/hostile_application.mjs", &url, |cue| {
        panic!("unknown cue: {cue}")
    })
    .await;
    let probes = app.take();
    let probes: Vec<_> = probes.iter().map(|probe| &probe.bytes).collect();
    let probes: Vec<_> = probes
        .into_iter()
        .filter(|head| head.starts_with("GET /app/probe"))
        .collect();
    assert_eq!(probes.len(), 3);
    for head in probes {
        let mut cookies = head.lines().filter_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("cookie").then_some(value)
        });
        let all = cookies.next().unwrap();
        for cookie in all.split("; ") {
            assert!(!cookie.starts_with("__Host-flowgate"), "{head}");
        }
        assert!(
            all.contains("x__Host-flowgate=1") && all.contains("own=2"),
            "{head}"
        );
        assert!(!head.contains("spoofed"), "{head}");
        let names: Vec<_> = head.lines().map(str::to_ascii_lowercase).collect();
        let users = names
            .iter()
            .filter(|line| line.replace('_', "-").starts_with("x-flowgate-user:"));
        assert_eq!(
            users.collect::<Vec<_>>(),
            ["x-flowgate-user: reader"],
            "{head}"
        );
    }
}

async fn tells_who_is_over_a_limit(gateway: &Gateway, address: SocketAddr) {
    let mut front = (**gateway).clone();
    front.address = address;
    let token = gateway.sign_in("limited").await;
    for status in [200, 200, 429] {
        assert_eq!(
            front.get("/app/data").token(&token).send().await.status,
            status
        );
    }
}

/// At this address is a reverse proxy that asks the gateway about each request to the application.
async fn shares_the_sign_in(gateway: &Gateway, app: &MockUpstream, address: SocketAddr) {
    let mut front = (**gateway).clone();
    front.address = address;

    // A program without a token, with one, and with one that does not suffice.
    let answer = front.get("/app/data").send().await;
    assert_eq!(answer.status, 401);
    assert!(app.take().is_empty());
    let reader = gateway.sign_in("reader").await;
    let request = front
        .get("/app/data")
        .token(&reader)
        .header("X-Flowgate-User", "root");
    let answer = request.send().await;
    assert_eq!((answer.status, answer.text().as_str()), (200, "the app"));
    let [left] = &app.take()[..] else {
        panic!("one request")
    };
    let head = left.bytes.to_ascii_lowercase();
    assert!(
        head.contains("x-flowgate-user: reader\r\n") && !head.contains("root"),
        "{head}"
    );
    assert!(
        !head.contains(&reader.to_ascii_lowercase()),
        "the token stays: {head}"
    );
    for upgrade in ["x", "WebSocket"] {
        let names = "Upgrade, X-Flowgate-User, X-Flowgate-Permissions";
        let request = front.get("/app/data").token(&reader);
        let request = request.header("Connection", names);
        let answer = request.header("Upgrade", upgrade).send().await;
        assert_eq!(answer.status, 200, "{upgrade}");
        let [left] = &app.take()[..] else {
            panic!("one request")
        };
        let head = left.bytes.to_ascii_lowercase();
        for name in ["x-flowgate-user: reader\r\n", "x-flowgate-permissions: "] {
            assert!(head.contains(name), "a client removes it: {head}");
        }
    }
    let twice = front.get("/app/data").token(&reader);
    let twice = twice.header("Cookie", "a=1; __Host-flowgate=x; __Host-flowgate=y");
    assert_eq!(twice.send().await.status, 200);
    let [left] = &app.take()[..] else {
        panic!("one request")
    };
    assert!(!left.bytes.contains("__Host-flowgate"), "{}", left.bytes);
    let deployer = gateway.sign_in("deployer").await;
    assert_eq!(
        front.get("/app/data").token(&deployer).send().await.status,
        403
    );

    // A browser is led to the page and back.
    let mut browser = Browser::new(&front);
    let answer = browser.navigate("/app/data?x=1").send().await;
    assert_eq!(answer.status, 302);
    let page = answer.header("location").to_owned();
    assert!(
        page.ends_with("/gateway/sign-in?return=/app/data?x=1"),
        "{page}"
    );
    let page = &page[page.find("/gateway").unwrap()..];
    let html = browser.navigate(page).send().await.text();
    assert!(html.contains("value=\"/app/data?x=1\""), "{html}");
    let answer = browser
        .sign_in_at("/gateway/sign-in", "reader", "/app/data?x=1")
        .await;
    assert_eq!(answer.status, 303, "{}", answer.text());
    assert_eq!(
        resolved("/gateway/sign-in", answer.header("location")),
        "/app/data?x=1"
    );
    let answer = browser.navigate("/app/data?x=1").send().await;
    assert_eq!((answer.status, answer.text().as_str()), (200, "the app"));
    let [left] = &app.take()[..] else {
        panic!("one request")
    };
    assert!(!left.bytes.contains("__Host-flowgate"), "{}", left.bytes);

    // Another page's form does not act as the user.
    let forged = browser
        .with_cookie(front.post("/app/data"))
        .header("Origin", "https://evil.example");
    assert_eq!(forged.send().await.status, 403);
    assert!(app.take().is_empty());
    assert_eq!(browser.submit("/app/data", &[]).send().await.status, 200);
}
