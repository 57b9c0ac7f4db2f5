//! What npm packages serve over HTTP: endpoints, `WebSockets`, and routes that they add to the
//! admin API.

use super::dashboards::host_of;
use super::packages::{node_red_5, with_node_red_5};
use super::{Hosted, chain, function};
use crate::harness::{public, until};
use crate::tunnel::open;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value as Json, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use tokio_tungstenite::tungstenite::{Error, Message};

/// Puts the package of `tests/data/node_host_web` into a user directory.
pub fn with_web(directory: &Path) {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let scope = directory.join("node_modules/@tests");
    let package = scope.join("node-red-web");
    copy(&tests.join("data/node_host_web"), &package);
    symlink(
        tests.join("node_modules/ws"),
        directory.join("node_modules/ws"),
    )
    .unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, to) = {
            let entry = entry.unwrap();
            (entry.path(), to.join(entry.file_name()))
        };
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap();
        }
    }
}

/// A gateway whose host has started its (empty) flow set.
async fn with(lines: &str) -> Hosted {
    let hosted = Hosted::prepared(lines, with_web).await;
    hosted.until_serving().await;
    hosted
}

/// Files of the package that need no sign-in.
const STATIC: &str =
    "[[admin_route]]\npath = \"/web-admin/static\"\nprefix = true\npublic = true\n";

impl Hosted {
    /// Waits until the host takes requests.
    async fn until_serving(&self) {
        until("the host serves", async || {
            let answer = self.get("/web/who").token(&self.token).send().await;
            answer.status == 200
        })
        .await;
    }
}

#[tokio::test]
async fn endpoints_of_packages_are_closed_until_a_route_opens_them() {
    let hosted = with(&public(&["/web/who", "/native"])).await;
    closed_until_a_route_opens_them(&hosted).await;
}

async fn closed_until_a_route_opens_them(hosted: &Hosted) {
    let reader = hosted.sign_in("reader").await;
    let deployer = hosted.sign_in("deployer").await;
    let seen = hosted.get("/web/who").send().await.json();
    assert_eq!(seen["ip"], "127.0.0.1");
    assert_eq!(seen["address"], "127.0.0.1");
    assert_eq!(seen["secure"], true);
    assert!(seen.get("user").is_none(), "{seen}");

    assert_eq!(hosted.post("/web/echo").body("x").send().await.status, 401);
    let echo = |token: &str| {
        hosted
            .post("/web/echo")
            .token(token)
            .body("some text")
            .send()
    };
    assert_eq!(echo(&reader).await.status, 401);
    assert_eq!(echo(&deployer).await.status, 401);
    assert_eq!(echo(&hosted.token).await.text(), "some text");

    // A native endpoint comes first.
    let mut flow = chain(vec![function("f", "msg.payload = 'native'; return msg")]);
    flow[1]["url"] = "/native".into();
    hosted.run(&json!(flow)).await;
    assert_eq!(hosted.get("/native").send().await.text(), "native");
}

#[tokio::test]
async fn a_package_sees_the_user_and_never_a_credential_of_the_gateway() {
    let lines = "[[route]]\npath = \"/web\"\nprefix = true\npermission = \"http.read\"\nsign_in = \"page\"\n";
    let hosted = Hosted::prepared(lines, with_web).await;
    hosted.until_serving().await;
    let reader = hosted.sign_in("reader").await;
    let seen = hosted
        .get(&format!("/web/who?a=1&x={reader}"))
        .token(&reader)
        .header("Cookie", "__Host-flowgate=secret; theirs=kept")
        .header("X-Flowgate-User", "root")
        .header("X-Flowgate-Permissions", "*")
        .header("X-Forwarded-For", "6.6.6.6")
        .send()
        .await
        .json();
    assert_eq!(
        seen["user"],
        json!({ "username": "reader", "permissions": ["read"] })
    );
    assert_eq!(seen["address"], "127.0.0.1");
    assert!(seen.get("authorization").is_none(), "{seen}");
    assert!(!seen.to_string().contains("secret"), "{seen}");
    assert!(!seen.to_string().contains(&reader), "{seen}");
}

#[tokio::test]
async fn what_no_package_answers_has_the_gateways_own_answer() {
    let lines = "[timeouts]\nendpoint = \"500ms\"\n[limits]\nbody = \"64KiB\"\n";
    let hosted = with(lines).await;
    let get = |path: &str| hosted.get(path).token(&hosted.token).send();
    let missing = get("/web/nothing").await;
    assert_eq!(
        (missing.status, missing.code()),
        (404, "not_found".to_owned())
    );
    let own = get("/web/missing").await;
    assert_eq!((own.status, own.json()), (404, json!({ "own": true })));
    let failed = get("/web/fail").await;
    assert_eq!(failed.status, 500);
    assert!(!failed.text().contains("secret"), "{}", failed.text());
    hosted.process.wait_for_log("a secret of the package");
    let late = get("/web/never").await;
    assert_eq!(
        (late.status, late.code()),
        (504, "endpoint_timeout".to_owned())
    );
    let moved = get("/web/moved").await;
    assert_eq!((moved.status, moved.header("location")), (302, "/web/who"));
    let large = hosted.post("/web/echo").token(&hosted.token);
    let large = large.body(vec![b'x'; 65 << 10]).send().await;
    assert_eq!(
        (large.status, large.code()),
        (413, "body_too_large".to_owned())
    );
    hosted.run(&json!(chain(vec![]))).await;
    assert_eq!(
        hosted.post("/do").token(&hosted.token).send().await.status,
        405
    );
}

#[tokio::test]
async fn an_admin_route_of_a_package_needs_a_caller_whatever_the_package_thinks() {
    let lines = public(&["/web-admin/plain", "/web-tool"]) + STATIC;
    let hosted = with(&lines).await;
    admin_routes_need_a_caller(&hosted).await;
}

async fn admin_routes_need_a_caller(hosted: &Hosted) {
    let reader = hosted.sign_in("reader").await;
    let deployer = hosted.sign_in("deployer").await;
    for (method, path, nobody, reads, deploys, admin) in [
        ("GET", "/web-admin/plain", 401, 200, 401, 200),
        ("HEAD", "/WEB-ADMIN/plain/", 401, 200, 401, 200),
        ("POST", "/web-admin/plain", 401, 401, 200, 200),
        ("GET", "/web-admin/asks", 401, 200, 401, 200),
        ("POST", "/web-admin/asks", 401, 401, 401, 200),
        ("GET", "/web-tool/a/b", 401, 200, 401, 200),
        ("PUT", "/web-tool", 401, 401, 200, 200),
        ("GET", "/web-admin/static/a.css", 200, 200, 200, 200),
        ("GET", "/nodes/x/y/z", 401, 404, 401, 404),
        // No route of the package: perhaps an endpoint.
        ("DELETE", "/web-admin/asks", 401, 401, 401, 404),
    ] {
        let status = async |token: Option<&str>| {
            let request = hosted.request(method, path);
            let request = match token {
                Some(token) => request.token(token),
                None => request,
            };
            request.send().await.status
        };
        let all = [
            status(None).await,
            status(Some(&reader)).await,
            status(Some(&deployer)).await,
            status(Some(&hosted.token)).await,
        ];
        assert_eq!(all, [nobody, reads, deploys, admin], "{method} {path}");
    }
    let refused = hosted.post("/web-admin/asks").token(&deployer).send().await;
    assert!(
        refused
            .header("www-authenticate")
            .contains("insufficient_scope")
    );
    let in_query = format!("/web-admin/plain?access_token={reader}");
    assert_eq!(hosted.get(&in_query).send().await.status, 400);
    let flows = hosted.get("/flows").token(&reader).send().await.json();
    assert!(flows["flows"].is_array() || flows.is_array(), "{flows}");

    let body = hosted.post("/web-admin/asks").token(&hosted.token);
    let seen = body.json(&json!({ "a": [1] })).send().await.json();
    assert_eq!(seen["body"], json!({ "a": [1] }));
    assert_eq!(seen["user"]["username"], "admin");
    assert!(seen.get("authorization").is_none(), "{seen}");
}

#[tokio::test]
async fn websockets_of_packages_need_a_permission_and_close_with_the_session() {
    let hosted = with("").await;
    websockets_need_a_permission(&hosted).await;
}

async fn websockets_need_a_permission(hosted: &Hosted) {
    let refused = open(hosted, "/web/socket", &[]).await;
    assert!(matches!(refused, Err(Error::Http(refusal)) if refusal.status() == 401));
    let token = hosted.sign_in("admin").await;
    let bearer = format!("Bearer {token}");
    let opened = open(hosted, "/web/socket", &[("Authorization", &bearer)]).await;
    let mut socket = opened.unwrap();
    let first = socket.next().await.unwrap().unwrap();
    let seen: Json = serde_json::from_str(first.to_text().unwrap()).unwrap();
    assert_eq!(seen["address"], "127.0.0.1");
    assert_eq!(seen["user"]["username"], "admin");
    assert!(seen.get("authorization").is_none(), "{seen}");
    socket.send(Message::text("hello")).await.unwrap();
    assert_eq!(
        socket.next().await.unwrap().unwrap(),
        Message::text("HELLO")
    );
    let missing = open(hosted, "/web/nothing", &[("Authorization", &bearer)]).await;
    assert!(matches!(missing, Err(Error::Http(refusal)) if refusal.status() == 404));
    let form = [("token", token.as_str())];
    hosted
        .post("/auth/revoke")
        .token(&token)
        .form(&form)
        .send()
        .await;
    let ended = socket.next().await;
    assert!(!matches!(ended, Some(Ok(Message::Text(_)))), "{ended:?}");
}

#[tokio::test]
async fn with_the_runtime_of_node_red_5_packages_serve_the_same() {
    let paths = ["/web/who", "/native", "/web-admin/plain", "/web-tool"];
    let lines = node_red_5() + &public(&paths) + STATIC;
    let hosted = Hosted::prepared(&lines, |user| {
        with_node_red_5(user);
        with_web(user);
    })
    .await;
    hosted.until_serving().await;
    closed_until_a_route_opens_them(&hosted).await;
    admin_routes_need_a_caller(&hosted).await;
    websockets_need_a_permission(&hosted).await;
}

#[tokio::test]
async fn while_the_host_does_not_run_its_paths_are_unavailable_and_come_back() {
    let plain = "/web-admin/plain";
    let hosted = with(&public(&["/web/who", "/web/exit", plain])).await;
    assert_eq!(
        hosted.get(plain).token(&hosted.token).send().await.status,
        200
    );
    let exit = hosted.get("/web/exit").send().await;
    assert_eq!(
        (exit.status, exit.code()),
        (503, "node_host_down".to_owned())
    );
    assert_eq!(exit.header("retry-after"), "1");
    // Also while it is down this is no endpoint, which would be public.
    assert_eq!(hosted.get(plain).send().await.status, 401);
    until("the host is back", async || {
        hosted.get("/web/who").send().await.status == 200
    })
    .await;
    assert_eq!(
        hosted.get(plain).token(&hosted.token).send().await.status,
        200
    );
}

#[tokio::test]
async fn the_host_listens_only_on_sockets_that_others_cannot_reach() {
    let hosted = with("").await;
    let sockets = hosted.data("node-host");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&sockets), 0o700);
    for name in ["endpoints.sock", "admin.sock"] {
        assert_eq!(mode(&sockets.join(name)), 0o600, "{name}");
    }
    let host = host_of(&hosted.process).unwrap();
    let opened: Vec<String> = fs::read_dir(format!("/proc/{host}/fd"))
        .unwrap()
        .filter_map(|fd| fs::read_link(fd.unwrap().path()).ok())
        .filter_map(|target| {
            let target = target.to_str()?.strip_prefix("socket:[")?;
            Some(target.strip_suffix(']')?.to_owned())
        })
        .collect();
    assert!(opened.len() >= 4, "{opened:?}");
    for table in ["tcp", "tcp6", "udp", "udp6"] {
        let lines = fs::read_to_string(format!("/proc/{host}/net/{table}")).unwrap();
        for line in lines.lines().skip(1) {
            let inode = line.split_whitespace().nth(9).unwrap();
            assert!(!opened.iter().any(|own| own == inode), "{table}: {line}");
        }
    }
}

#[tokio::test]
async fn a_data_directory_whose_path_is_too_long_for_sockets_is_reported() {
    let lines = format!("[storage]\ndirectory = \"{}\"\n", "long".repeat(30));
    let hosted = Hosted::without_waiting(&lines).await;
    let line = hosted.process.wait_for_log("the node host has ended");
    assert!(
        line.contains("use a data directory with a shorter one"),
        "{line}"
    );
}
