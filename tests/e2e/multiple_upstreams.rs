//! Several upstreams behind one gateway: each with its own hosts and paths, permissions, deploy
//! lock and health check.

use crate::client::{Answer, Client, PASSWORD};
use crate::harness::{Gateway, Process, public, until};
use crate::mock_upstream::{Action, MockUpstream, ok, status};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Answers everything with its name and the request line.
pub async fn named(name: &'static str) -> MockUpstream {
    let answer = move |request: &str| format!("{name} {}", request.lines().next().unwrap());
    MockUpstream::start(move |request| Action::Respond(ok("text/plain", &answer(request)))).await
}

/// One with settings, and a revision for everything else.
pub async fn with_settings() -> MockUpstream {
    MockUpstream::start(|request| match request.split(' ').nth(1) {
        Some("/settings") => Action::Respond(ok("application/json", r#"{"httpNodeRoot":"/"}"#)),
        _ => Action::Respond(ok("application/json", r#"{"rev":"2"}"#)),
    })
    .await
}

/// The config of a gateway in front of these, each with lines of its own.
pub fn in_front_of(upstreams: &[(&MockUpstream, &str)]) -> String {
    let table = |(behind, lines): &(&MockUpstream, &str)| {
        let url = format!("url = \"http://{}\"", behind.address);
        format!("[[upstream]]\n{url}\nhealth = \"1h\"\n{lines}\n")
    };
    upstreams.iter().map(table).collect()
}

/// A token of a user who signs in at a site.
pub async fn sign_in(client: &Client, site: &str, user: &str, scope: &str) -> Answer {
    let form = [
        ("client_id", "service-editor"),
        ("grant_type", "password"),
        ("scope", scope),
        ("username", user),
        ("password", PASSWORD),
    ];
    let request = client.post(&format!("{site}/auth/token"));
    request.form(&form).send().await
}

#[tokio::test]
async fn host_and_path_select_the_upstream() {
    let (root, plant, other) = (
        named("root").await,
        named("plant").await,
        named("other").await,
    );
    let gateway = Gateway::with(&in_front_of(&[
        (&root, "host = [\"flows.example.org\"]"),
        (&plant, "host = [\"flows.example.org\"]\npath = \"/plant1\""),
        (
            &other,
            "host = [\"a.example.org\", \"127.0.0.1\"]\npath = \"/plant1\"",
        ),
    ]));
    let token = gateway
        .sign_in_request("reader", PASSWORD, "")
        .host("flows.example.org");
    let token = token.send().await.json()["access_token"]
        .as_str()
        .unwrap()
        .to_owned();
    for (host, path, answer) in [
        ("flows.example.org", "/x?q", "root GET /x?q HTTP/1.1"),
        (
            "flows.example.org",
            "/plant10/x",
            "root GET /plant10/x HTTP/1.1",
        ),
        (
            "Flows.Example.ORG:8443",
            "/plant1/x/?q=1",
            "plant GET /x/?q=1 HTTP/1.1",
        ),
        ("flows.example.org.", "/%50lant1/X", "plant GET /X HTTP/1.1"),
        (
            "flows.example.org",
            "/plant1/plant1/",
            "plant GET /plant1/ HTTP/1.1",
        ),
        ("a.example.org", "/plant1/x", "other GET /x HTTP/1.1"),
        ("127.0.0.1:1", "/plant1/x", "other GET /x HTTP/1.1"),
    ] {
        let request = gateway.get(path).token(&token).host(host);
        assert_eq!(request.clone().send().await.text(), answer, "{host} {path}");
        assert_eq!(request.http2().send().await.text(), answer, "{host} {path}");
    }
    let nowhere = gateway
        .get("/x")
        .token(&token)
        .host("a.example.org")
        .send()
        .await;
    assert_eq!(
        (nowhere.status, nowhere.code().as_str()),
        (404, "not_found")
    );
    for http2 in [false, true] {
        let request = gateway.get("/plant1/x").token(&token).host("b.example.org");
        let request = if http2 { request.http2() } else { request };
        let refused = request.send().await;
        assert_eq!(refused.status, 421);
        assert_eq!(refused.code(), "misdirected_request");
    }
}

#[tokio::test]
async fn an_upstream_receives_its_mount_as_prefix_or_keeps_it_in_the_path() {
    let (short, whole) = (named("short").await, named("whole").await);
    let lines = in_front_of(&[
        (&short, "path = \"/a\""),
        (
            &whole,
            "path = \"/B\"\nstrip = false\nadmin_root = \"/Admin\"",
        ),
    ]);
    let gateway = Gateway::with(&(lines + &public(&["/x"])));
    let request = gateway.get("/a/x").header("X-Forwarded-Prefix", "/evil");
    assert_eq!(request.send().await.text(), "short GET /x HTTP/1.1");
    assert!(
        short.only().contains("\r\nx-forwarded-prefix: /a\r\n"),
        "{}",
        short.only()
    );
    let request = gateway.get("/B/x").header("X-Forwarded-Prefix", "/evil");
    assert_eq!(request.send().await.text(), "whole GET /B/x HTTP/1.1");
    assert!(!whole.only().contains("prefix"), "{}", whole.only());
    let deployed = sign_in(&gateway, "/b/admin", "admin", "").await;
    let token = deployed.json()["access_token"].as_str().unwrap().to_owned();
    let deployment = gateway.post("/b/admin/flows").token(&token);
    let deployment = deployment.header("Node-RED-API-Version", "v2");
    let deployment = deployment
        .json(&json!({ "flows": [], "rev": "1" }))
        .send()
        .await;
    // what it answers is no flow set
    assert_eq!(deployment.status, 502);
    let asked = &whole.received()[1].bytes;
    assert!(asked.starts_with("GET /B/Admin/flows HTTP/1.1"), "{asked}");
}

#[tokio::test]
async fn the_admin_api_is_below_the_admin_root_and_all_other_paths_are_endpoints() {
    let behind = named("it").await;
    let gateway = Gateway::with(
        &(in_front_of(&[(&behind, "name = \"it\"\nadmin_root = \"/admin\"")])
            + &public(&["/hooks"])),
    );
    let admin = sign_in(&gateway, "/admin", "admin", "").await.json();
    let admin = admin["access_token"].as_str().unwrap().to_owned();
    for path in [
        "/admin/flows",
        "/admin/flows/state",
        "/admin/flow/1",
        "/admin/nodes",
        "/admin/plugins",
        "/admin/library/local/flows/",
        "/admin/context/global",
        "/admin/credentials/a/b",
        "/admin/diagnostics",
        "/ADMIN/FLOWS",
    ] {
        assert_eq!(gateway.get(path).send().await.status, 401, "{path}");
        let answer = gateway.get(path).token(&admin).send().await;
        assert_eq!(
            (answer.status, answer.text()),
            (200, format!("it GET {path} HTTP/1.1"))
        );
    }
    let deployment = gateway.post("/admin/flows").json(&json!([])).send().await;
    assert_eq!(deployment.status, 401);
    assert_eq!(
        gateway.get("/admin/auth/login").send().await.json()["type"],
        "credentials"
    );
    assert_eq!(gateway.get("/admin/red/main.js").send().await.status, 200);
    assert_eq!(
        gateway.get("/hooks").send().await.text(),
        "it GET /hooks HTTP/1.1"
    );

    // A caller who may only deploy may call no endpoint, whatever its path.
    let deployer = sign_in(&gateway, "/admin", "deployer", "").await.json();
    let deployer = deployer["access_token"].as_str().unwrap().to_owned();
    for path in [
        "/flows",
        "/auth/login",
        "/red/main.js",
        "/comms",
        "/administrator",
        "/",
    ] {
        assert_eq!(gateway.get(path).send().await.status, 401, "{path}");
        assert_eq!(
            gateway.get(path).token(&deployer).send().await.status,
            401,
            "{path}"
        );
        let answer = gateway.get(path).token(&admin).send().await;
        assert_eq!(
            (answer.status, answer.text()),
            (200, format!("it GET {path} HTTP/1.1"))
        );
    }
    let posted = gateway
        .post("/auth/token")
        .token(&admin)
        .body("x")
        .send()
        .await;
    assert_eq!(posted.text(), "it POST /auth/token HTTP/1.1");
}

#[tokio::test]
async fn a_wrong_admin_root_is_reported() {
    let up = Arc::new(AtomicBool::new(false));
    let is_up = Arc::clone(&up);
    let behind = MockUpstream::start(move |request| {
        let line = match request.split(' ').nth(1) {
            _ if !is_up.load(Ordering::Relaxed) => "503 Service Unavailable",
            Some("/auth/login") => "200 OK",
            _ => "404 Not Found",
        };
        Action::Respond(status(line, "application/json", "{}"))
    })
    .await;
    let directory = tempfile::tempdir().unwrap();
    let wrong = in_front_of(&[(&behind, "admin_root = \"/Admin\"")]).replace("1h", "10ms");
    let process = Process::start(&wrong, directory.path());
    up.store(true, Ordering::Relaxed);
    // On another thread: the upstream runs on this one.
    let received =
        tokio::task::spawn_blocking(move || process.wait_for_log("must be its httpAdminRoot"));
    let line = received.await.unwrap();
    assert!(line.contains("/Admin/auth/login is not there"), "{line}");
}

#[tokio::test]
async fn the_editor_is_redirected_to_its_trailing_slash() {
    let (one, two) = (named("one").await, named("two").await);
    let gateway = Gateway::with(&in_front_of(&[
        (&one, "path = \"/one\""),
        (&two, "path = \"/two\"\nadmin_root = \"/admin\""),
    ]));
    for (method, path, location) in [
        ("GET", "/one", "/one/"),
        ("HEAD", "/One?a=b", "/One/?a=b"),
        ("GET", "/two/admin", "/two/admin/"),
    ] {
        let answer = gateway.request(method, path).send().await;
        assert_eq!((answer.status, answer.header("location")), (301, location));
    }
    assert!(one.received().is_empty() && two.received().is_empty());
    assert_eq!(
        gateway.get("/one/").send().await.text(),
        "one GET / HTTP/1.1"
    );
    assert_eq!(
        gateway.get("/two/admin/").send().await.text(),
        "two GET /admin/ HTTP/1.1"
    );
    // What is no editor is no business of ours.
    assert_eq!(gateway.get("/two").send().await.status, 401);
    assert_eq!(gateway.post("/one").send().await.status, 405);
}

#[tokio::test]
async fn locations_and_cookies_of_an_upstream_are_mapped_below_its_mount() {
    let behind = MockUpstream::start(|request| {
        let own = request.contains("GET /own").then(|| request.split("own=").nth(1).unwrap());
        let own = own.map(|text| text.split(' ').next().unwrap());
        let location = own.map_or("/x?y".to_owned(), |own| format!("http://{own}/x?y"));
        Action::Respond(format!(
            "HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Location: /x\r\nSet-Cookie: a=b; Path=/\r\n\
             Set-Cookie: c=d; HttpOnly; path=/sub\r\nSet-Cookie: e=f\r\nContent-Length: 0\r\n\r\n"
        ))
    })
    .await;
    let gateway =
        Gateway::with(&(in_front_of(&[(&behind, "path = \"/p\"")]) + &public(&["/a", "/own"])));
    let answer = gateway.get("/p/a").send().await;
    assert_eq!((answer.status, answer.header("location")), (302, "/p/x?y"));
    assert_eq!(answer.header("content-location"), "/p/x");
    let cookies: Vec<_> = answer.headers.get_all("set-cookie").iter().collect();
    assert_eq!(
        cookies,
        ["a=b; Path=/p", "c=d; HttpOnly; path=/p/sub", "e=f"]
    );
    let own = gateway
        .get(&format!("/p/own?own={}", behind.address))
        .send()
        .await;
    assert_eq!(own.header("location"), "/p/x?y");
    let foreign = gateway.get("/p/own?own=example.org").send().await;
    assert_eq!(foreign.header("location"), "http://example.org/x?y");

    let gateway = Gateway::with(&(behind.config() + &public(&["/a", "/own"])));
    let own = gateway
        .get(&format!("/own?own={}", behind.address))
        .send()
        .await;
    assert_eq!(own.header("location"), "/x?y");
    assert_eq!(
        gateway.get("/a").send().await.header("set-cookie"),
        "a=b; Path=/"
    );
}

#[tokio::test]
async fn a_slow_deployment_at_one_upstream_does_not_delay_others() {
    let slow = MockUpstream::start(|request| {
        if request.starts_with("POST /flows") {
            Action::Hang(String::new())
        } else {
            Action::Respond(ok("application/json", "{\"rev\":\"1\"}"))
        }
    })
    .await;
    let quick =
        MockUpstream::start(|_| Action::Respond(ok("application/json", "{\"rev\":\"2\"}"))).await;
    let gateway = Gateway::with(&in_front_of(&[
        (&slow, "path = \"/slow\""),
        (&quick, "path = \"/quick\""),
    ]));
    let token = sign_in(&gateway, "/slow", "admin", "").await.json();
    let token = token["access_token"].as_str().unwrap().to_owned();
    let deploy = |site: &str| {
        let request = gateway.post(&format!("{site}/flows")).token(&token);
        request.json(&json!([]))
    };
    let waiting = tokio::spawn(deploy("/slow").try_send());
    until("the slow one has it", async || !slow.received().is_empty()).await;
    assert_eq!(deploy("/quick").send().await.status, 200);
    assert!(!waiting.is_finished());
    waiting.abort();
}

#[tokio::test]
async fn each_upstream_has_its_own_health_check() {
    let well = named("well").await;
    let sick = MockUpstream::start(|_| Action::Respond(status("500 Oh", "text/plain", "no"))).await;
    let lines = in_front_of(&[
        (&well, "name = \"well\"\npath = \"/well\""),
        (&sick, "name = \"sick\"\npath = \"/sick\""),
    ]);
    let lines = lines.replace("\"1h\"", "\"10ms\"");
    let gateway = Gateway::with(&lines);
    let ready = async || {
        let answer = gateway.operations("/readyz").await;
        (answer.status, answer.json())
    };
    let degraded =
        json!({ "status": "degraded", "upstreams": { "well": "well", "sick": "unreachable" } });
    until("one is well", async || {
        ready().await == (200, degraded.clone())
    })
    .await;
    let healthy = async |name| {
        let series = format!("flowgate_upstream_healthy{{upstream=\"{name}\"}}");
        gateway.metric(&series).await
    };
    assert_eq!(
        (healthy("well").await, healthy("sick").await),
        (Some(1.0), Some(0.0))
    );
    let address = sick.stop().await;
    let sick_again =
        MockUpstream::at(address, |_| Action::Respond(ok("text/plain", "again"))).await;
    until("both are well", async || {
        ready().await.1["status"] == "ready"
    })
    .await;
    well.stop().await;
    sick_again.stop().await;
    until("none is well", async || ready().await.0 == 503).await;
    assert_eq!(ready().await.1["upstreams"]["well"], "unreachable");
    let answer = gateway.get("/well/").send().await;
    assert_eq!(answer.code(), "upstream_unreachable");
}
