//! Pages of flows and the origin of console and editor: with `[server] endpoint_hosts` they have
//! hosts of their own, without it browsers get them in a sandbox as soon as a user may change some
//! flows only, or changes need approval.

use crate::client::{Answer, Client, PASSWORD, Request};
use crate::harness::{
    Gateway, config_text, flow_set, hash, page, program, public, run_command, script,
};
use crate::mock_upstream::{Action, MockUpstream, ok};
use crate::multiple_upstreams::{in_front_of, named};
use crate::scenario::play;
use crate::tunnel;
use serde_json::{Value as Json, json};
use std::fs;
use tokio_tungstenite::tungstenite::Error;

const POLICY: &str = "content-security-policy";

fn users(ann: &str) -> String {
    let hash = hash(PASSWORD);
    let user = |name: &str, permissions: &str| {
        format!(
            "[[auth.user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\npermissions = {permissions}\n"
        )
    };
    user("admin", r#"["*"]"#) + &user("ann", ann)
}

/// `ann` holds some flows.
fn limited() -> String {
    users(r#"["read", "flows.write:Line1*"]"#)
}

fn same_origin(path: &str) -> String {
    format!("[[route]]\npath = \"{path}\"\npublic = true\nsame_origin = true\n")
}

/// A function node's response with these header fields.
fn responding(tab: &str, path: &str, headers: &Json, body: &str) -> Vec<Json> {
    let body = Json::from(body);
    let code = format!("msg.headers = {headers}; msg.payload = {body}; return msg;");
    script(tab, "get", path, &code)
}

fn policies(answer: &Answer) -> Vec<&str> {
    let values = answer.headers.get_all(POLICY).iter();
    values.map(|value| value.to_str().unwrap()).collect()
}

fn is_sandboxed(answer: &Answer) -> bool {
    let sandbox =
        |policy: &&str| policy.starts_with("sandbox allow-") && !policy.contains("same-origin");
    policies(answer).iter().any(sandbox)
}

async fn deploy_pages(gateway: &Gateway) {
    let token = gateway.sign_in("admin").await;
    let own = json!({ "Content-Type": "text/html", "Content-Security-Policy": "sandbox allow-scripts allow-same-origin" });
    let flows = [
        responding("a", "/html", &json!({ "Content-Type": "text/html" }), "<p>"),
        responding("b", "/own", &own, "<p>"),
        responding(
            "c",
            "/svg",
            &json!({ "Content-Type": "image/svg+xml" }),
            "<svg/>",
        ),
        responding(
            "d",
            "/json",
            &json!({ "Content-Type": "application/json" }),
            "{}",
        ),
        responding(
            "e",
            "/trusted",
            &json!({ "Content-Type": "text/html" }),
            "<p>",
        ),
    ];
    gateway.deploy(&token, &flow_set(&flows)).await;
}

const PATHS: [&str; 4] = ["/html", "/own", "/svg", "/json"];

async fn sandboxed(gateway: &Client, path: &str) -> bool {
    let answer = gateway.get(path).send().await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    is_sandboxed(&answer)
}

#[tokio::test]
async fn pages_of_flows_are_sandboxed_while_a_user_may_change_some_flows_only() {
    let routes = public(&PATHS) + &same_origin("/trusted");
    let gateway = Gateway::with(&(limited() + &routes));
    deploy_pages(&gateway).await;
    for (path, expected) in [
        ("/html", true),
        ("/own", true),
        ("/svg", true),
        ("/json", false),
        ("/trusted", false),
    ] {
        assert_eq!(sandboxed(&gateway, path).await, expected, "{path}");
    }
    let own = gateway.get("/own").send().await;
    assert_eq!(policies(&own)[0], "sandbox allow-scripts allow-same-origin");
    assert_eq!(policies(&own).len(), 2, "a browser enforces both");
    let head = gateway.request("HEAD", "/html").send().await;
    assert!(is_sandboxed(&head));
    // Those of the gateway itself.
    let console = gateway.get("/gateway/").send().await;
    assert_eq!(policies(&console).len(), 1);
    assert!(!is_sandboxed(&console));
}

#[tokio::test]
async fn a_reload_and_a_token_begin_the_sandbox() {
    let routes = public(&PATHS);
    let gateway = Gateway::with(&(users(r#"["*"]"#) + &routes));
    deploy_pages(&gateway).await;
    assert!(!sandboxed(&gateway, "/html").await);
    assert!(gateway.reload(&(limited() + &routes)).await);
    assert!(sandboxed(&gateway, "/html").await);
    assert!(gateway.reload(&(users(r#"["*"]"#) + &routes)).await);
    assert!(!sandboxed(&gateway, "/html").await);
    let approving = "[policy]\napprove = [\"*\"]\n".to_owned() + &users(r#"["*"]"#) + &routes;
    assert!(gateway.reload(&approving).await);
    assert!(sandboxed(&gateway, "/html").await);
    assert!(gateway.reload(&(users(r#"["*"]"#) + &routes)).await);
    assert!(!sandboxed(&gateway, "/html").await);
    let token = gateway.sign_in_request("ann", PASSWORD, "flows.read flows.write:Line1");
    assert_eq!(token.send().await.status, 200);
    assert!(sandboxed(&gateway, "/html").await);
}

#[tokio::test]
async fn at_an_upstream_everything_is_sandboxed_but_the_pages_of_its_editor() {
    let upstream = MockUpstream::start(|_| Action::Respond(ok("text/html", "<p>"))).await;
    let open = "[[admin_route]]\npath = \"/tool\"\npublic = true\n[[admin_route]]\npath = \"/trusted-tool\"\npublic = true\nsame_origin = true\n";
    let lines =
        upstream.config() + &limited() + &public(&["/html"]) + &same_origin("/trusted") + open;
    let gateway = Gateway::with(&lines);
    for (path, expected) in [
        ("/", false),
        ("/debug/view/view.html", false),
        ("/html", true),
        ("/trusted", false),
        ("/trusted-tool", false),
        // Node-RED's editor has no such files, so a flow may have them.
        ("/red/page.html", true),
        ("/icons/a/b.html", true),
        ("/debug/view/page.html", true),
        ("/resources/page.html", true),
        ("/tool", true),
    ] {
        assert_eq!(sandboxed(&gateway, path).await, expected, "{path}");
    }
}

/// A page that is deployed by a user of one flow, and its data.
fn attack_flows() -> Json {
    let html = json!({ "Content-Type": "text/html" });
    let evil = include_str!("../console/page_sandbox_evil.html");
    let board = include_str!("../console/page_sandbox_board.html");
    let mut flows = [
        responding("a", "/evil", &html, evil),
        responding("b", "/trusted", &html, evil),
        responding("c", "/board", &html, board),
        responding(
            "d",
            "/closed",
            &json!({ "Content-Type": "application/json" }),
            "{}",
        ),
        responding(
            "e",
            "/open",
            &json!({ "Content-Type": "application/json", "Access-Control-Allow-Origin": "*" }),
            "{}",
        ),
        script(
            "f",
            "post",
            "/saved",
            "msg.payload = 'saved ' + msg.payload.what; return msg;",
        ),
    ]
    .concat();
    flows.extend(shouting());
    Json::from(flows)
}

/// A WebSocket listener that answers in capitals.
fn shouting() -> Vec<Json> {
    let flows = json!([
        { "id": "s", "type": "tab", "label": "S" },
        { "id": "sl", "type": "websocket-listener", "path": "/ws", "wholemsg": "false" },
        { "id": "si", "type": "websocket in", "z": "s", "x": 1, "y": 1, "server": "sl", "client": "", "wires": [["su"]] },
        { "id": "su", "type": "function", "z": "s", "x": 1, "y": 1, "outputs": 1, "wires": [["so"]],
          "func": "msg.payload = msg.payload.toUpperCase(); return msg;" },
        { "id": "so", "type": "websocket out", "z": "s", "x": 1, "y": 1, "server": "sl", "client": "", "wires": [] },
    ]);
    flows.as_array().unwrap().clone()
}

#[tokio::test]
async fn a_page_of_a_flow_takes_no_token_of_the_console_and_works_on() {
    let routes = public(&["/evil", "/board", "/closed", "/open", "/saved", "/ws"]);
    let gateway = Gateway::with(&(limited() + &routes + &same_origin("/trusted")));
    let token = gateway.sign_in("admin").await;
    gateway.deploy(&token, &attack_flows()).await;
    let url = format!("https://{}/", gateway.address);
    play("console/page_sandbox.mjs", &url, |cue| {
        panic!("unknown cue: {cue}")
    })
    .await;
}

const FLOWS: &str = "flows.example.org";

/// The status of a request under a host, with HTTP/1.1 and HTTP/2.
async fn status(client: &Client, request: &Request, name: &str) -> u16 {
    let host = format!("{name}:{}", client.address.port());
    let request = request.clone().host(&host);
    let (one, two) = (request.clone().send().await, request.http2().send().await);
    assert_eq!(one.status, two.status, "{name}");
    if one.status == 421 {
        assert_eq!(one.code(), "misdirected_request");
        assert!(one.text().contains("endpoint_hosts"), "{}", one.text());
    }
    one.status
}

fn is_421<T>(opened: &Result<T, Error>) -> bool {
    matches!(opened, Err(Error::Http(refusal)) if refusal.status() == 421)
}

async fn is_separated(gateway: &Gateway, token: &str) {
    for path in [
        "/",
        "/flows",
        "/settings",
        "/auth/login",
        "/gateway/",
        "/gateway/sign-in",
        "/gateway/verify",
        "/gateway/jwks.json",
        "/red/x.js",
        "/comms",
        "/nodes",
        "/favicon.ico",
    ] {
        let request = gateway.get(path).token(token);
        assert_eq!(status(gateway, &request, FLOWS).await, 421, "{path}");
        assert_ne!(status(gateway, &request, "127.0.0.1").await, 421, "{path}");
    }
    let sign_in = gateway.sign_in_request("admin", PASSWORD, "");
    assert_eq!(status(gateway, &sign_in, FLOWS).await, 421);
    for path in ["/page", "/PAGE/", "/no-such-endpoint"] {
        let request = gateway.get(path).token(token);
        assert_eq!(status(gateway, &request, "127.0.0.1").await, 421, "{path}");
        assert_ne!(status(gateway, &request, FLOWS).await, 421, "{path}");
    }
    let page = gateway.get("/page");
    assert_eq!(status(gateway, &page, FLOWS).await, 200);
    assert_eq!(status(gateway, &page, "FLOWS.example.org.").await, 200);
    let answer = page.host(FLOWS).send().await;
    assert!(!is_sandboxed(&answer), "they have an origin of their own");
}

#[tokio::test]
async fn endpoints_have_hosts_of_their_own_and_nothing_else_is_answered_there() {
    let routes = public(&["/page", "/ws"]);
    let separate = format!("[server]\nendpoint_hosts = [\"{FLOWS}\"]\n{}", limited());
    let gateway = Gateway::with(&(separate.clone() + &routes));
    let token = gateway.sign_in("admin").await;
    let mut flows = page("a", "/page", "hello");
    flows.extend(shouting());
    gateway.deploy(&token, &Json::from(flows)).await;
    is_separated(&gateway, &token).await;
    // WebSockets.
    assert!(is_421(&tunnel::open(&gateway, "/ws", &[]).await));
    let host = format!("{FLOWS}:{}", gateway.address.port());
    assert!(
        tunnel::open(&gateway, "/ws", &[("Host", &host)])
            .await
            .is_ok()
    );
    let channel = gateway.open_comms(&[("Host", &host)]).await;
    assert!(is_421(&channel.map(drop)));
    assert!(gateway.open_comms(&[]).await.is_ok());
    // They need not be in `hosts`, which holds for everything else.
    let listed = separate.replace("[server]", "[server]\nhosts = [\"127.0.0.1\"]");
    assert!(gateway.reload(&(listed + &routes)).await);
    is_separated(&gateway, &token).await;
    let other = gateway.get("/page").host("other.example.org");
    assert_eq!(other.send().await.status, 421);
    // A reload ends it, and begins it again.
    assert!(gateway.reload(&(limited() + &routes)).await);
    let here = gateway.get("/page");
    assert_eq!(here.clone().send().await.status, 200);
    assert!(gateway.reload(&(separate + &routes)).await);
    assert_eq!(here.send().await.status, 421);
}

#[tokio::test]
async fn endpoints_of_upstreams_have_hosts_of_their_own_too() {
    let (shared, apart) = (named("shared").await, named("apart").await);
    let upstreams = in_front_of(&[
        (&shared, "name = \"shared\""),
        (
            &apart,
            "name = \"apart\"\npath = \"/line1\"\nadmin_root = \"/admin\"",
        ),
    ]);
    let server = format!("[server]\nendpoint_hosts = [\"{FLOWS}\"]\n");
    let gateway = Gateway::with(&(server + &upstreams));
    let token = gateway.sign_in("admin").await;
    for (path, is_endpoint) in [
        ("/", false),
        ("/settings", false),
        ("/page", true),
        ("/line1/admin", false),
        ("/line1/admin/settings", false),
        ("/line1/admin/of-a-package", false),
        ("/line1/settings", true),
        ("/line1/", true),
        ("/line1/gateway/history", true),
    ] {
        let request = gateway.get(path).token(&token);
        let (there, here) = (
            status(&gateway, &request, FLOWS).await,
            status(&gateway, &request, "127.0.0.1").await,
        );
        assert_eq!(
            (there == 421, here == 421),
            (!is_endpoint, is_endpoint),
            "{path}"
        );
    }
}

#[tokio::test]
async fn behind_a_proxy_every_forwarded_host_must_be_of_one_side() {
    let server =
        format!("[server]\nendpoint_hosts = [\"{FLOWS}\"]\ntrusted_proxies = [\"127.0.0.1\"]\n");
    let gateway = Gateway::with(&(server + &public(&["/page"])));
    let token = gateway.sign_in("admin").await;
    gateway
        .deploy(&token, &flow_set(&[page("a", "/page", "hello")]))
        .await;
    for (hosts, endpoint, admin) in [
        (FLOWS, 200, 421),
        ("admin.example.org", 421, 200),
        ("flows.example.org, admin.example.org", 421, 421),
        ("admin.example.org, flows.example.org", 421, 421),
    ] {
        for (path, expected) in [("/page", endpoint), ("/flows", admin)] {
            let request = gateway.get(path).token(&token);
            let answer = request.header("X-Forwarded-Host", hosts).send().await;
            assert_eq!(answer.status, expected, "{path} {hosts}");
        }
    }
}

#[test]
fn check_says_why_pages_are_sandboxed_and_which_routes_are_not() {
    let directory = tempfile::tempdir().unwrap();
    let lines = limited() + &same_origin("/trusted");
    fs::write(directory.path().join("gateway.toml"), config_text(&lines)).unwrap();
    let (code, said) = run_command(program(directory.path(), &["check"]));
    assert_eq!(code, Some(0), "{said}");
    for words in [
        "note: pages of endpoints are sandboxed, because the user \"ann\" may change some flows only",
        "warning: the [[route]] /trusted has same_origin = true",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}
