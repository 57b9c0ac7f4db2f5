//! Who may do what at an engine that runs apart: processes of other users at its socket, which only
//! root can start, and callers at the routes of node packages.

use crate::client::{Client, PASSWORD};
use crate::engine_process::{EngineProcess, Separated};
use crate::harness::{Gateway, flow_set, hash, public, script, until};
use crate::node_host::http::with_web;
use crate::node_host::user_directory;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// The overflow user id (`user_namespaces(7)`), which owns nothing.
const NOBODY: &str = "65534";

/// The status that curl gets at the socket as a user; `000`: none.
fn status_as(user: &str, socket: &Path) -> String {
    let output = Command::new("setpriv")
        .args(["--reuid", user, "--regid", user, "--clear-groups", "curl"])
        .args([
            "-s",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            "--unix-socket",
        ])
        .arg(socket)
        .arg("http://localhost/flows")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_process_of_another_user_gets_no_answer_unless_the_user_is_listed_whatever_the_files_mode() {
    if !rustix::process::geteuid().is_root() {
        // It could not become another user.
        return;
    }
    for (users, expected) in [("[]", "000"), ("[\"65534\"]", "200")] {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        let listen = format!(
            "[engine.listen]\naddress = \"unix:engine.sock\"\nmode = \"0660\"\ngroup = \"65534\"\nusers = {users}\n"
        );
        fs::write(directory.path().join("engine.toml"), listen).unwrap();
        let command = crate::engine_process::command(directory.path(), &[]);
        let engine = EngineProcess::launch(command);
        let socket = directory.path().join("engine.sock");
        assert_eq!(status_as(NOBODY, &socket), expected, "{users}");
        assert_eq!(status_as("0", &socket), "200");
        if expected == "000" {
            engine.wait_for_log("peer uid refused");
        }
    }
}

#[tokio::test]
async fn neither_a_public_route_nor_http_permissions_open_an_admin_route_of_a_package() {
    let user = tempfile::tempdir().unwrap();
    user_directory(user.path());
    with_web(user.path());
    let host = format!(
        "[engine.node_host]\ndirectory = \"{}\"\n",
        user.path().display()
    );
    let account = |name: &str, permissions: &str| {
        let hash = hash(PASSWORD);
        format!(
            "[[auth.user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\npermissions = [{permissions}]\n"
        )
    };
    let users = account("admin", "\"*\"")
        + &account("reader", "\"read\"")
        + &account("visitor", "\"http.read\", \"http.write\"");
    let lines = users + &public(&["/web/who", "/web-admin/plain"]);
    let separated = Separated::with(&lines, &host);
    until("the package serves", async || {
        separated.get("/web/who").send().await.status == 200
    })
    .await;
    let seen = separated.get("/web/who").from("127.0.0.9");
    let seen = seen.send().await.json();
    assert_eq!(
        (&seen["address"], &seen["secure"]),
        (&"127.0.0.9".into(), &true.into())
    );
    // The path is public at the gateway, which cannot know whose it is.
    assert_eq!(separated.get("/web-admin/plain").send().await.status, 401);
    for (name, read, written) in [
        ("visitor", 401, 401),
        ("reader", 200, 401),
        ("admin", 200, 200),
    ] {
        let token = separated.sign_in(name).await;
        let tool = separated.get("/web-tool/a/b").token(&token).send().await;
        assert_eq!(tool.status, read, "{name}");
        let tool = separated
            .request("PUT", "/web-tool")
            .token(&token)
            .send()
            .await;
        assert_eq!(tool.status, written, "{name}");
    }
}

#[tokio::test]
async fn on_a_loopback_address_an_engine_believes_nobody_who_names_a_user_or_a_client() {
    let directory = tempfile::tempdir().unwrap();
    let listen = "[engine.listen]\naddress = \"127.0.0.1:0\"\n";
    fs::write(directory.path().join("engine.toml"), listen).unwrap();
    let engine = EngineProcess::launch(crate::engine_process::command(directory.path(), &[]));
    let (_, url) = engine.listening.split_once("listening on ").unwrap();
    let url = url.split(' ').next().unwrap();
    let lines = format!("[upstream]\nurl = \"{url}\"\nidentity_headers = true\n");
    let gateway = Gateway::with(&(lines + &public(&["/who"])));
    let token = gateway.sign_in("admin").await;
    let code = "msg.payload = { user: msg.req.user, ip: msg.req.ip }; return msg";
    let flows = flow_set(&[script("w", "get", "/who", code)]);
    gateway.deploy(&token, &flows).await;
    let through = gateway.get("/who").from("127.0.0.9").send().await.json();
    assert_eq!(through["ip"], "127.0.0.1");
    let client = Client {
        address: url.strip_prefix("http://").unwrap().parse().unwrap(),
        ..Client::clone(&gateway)
    };
    let forged = client.get("/who").plain().header("X-Flowgate-User", "root");
    let forged = forged.header("X-Flowgate-Permissions", "*");
    let seen = forged
        .header("X-Forwarded-For", "6.6.6.6")
        .send()
        .await
        .json();
    assert_eq!(seen["ip"], "127.0.0.1");
    assert!(seen.get("user").is_none(), "{seen}");
    let elsewhere = client.get("/who").plain().host("evil.example").send().await;
    assert_eq!(elsewhere.status, 421);
}
