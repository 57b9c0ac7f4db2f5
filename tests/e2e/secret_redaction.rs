//! Readers receive no secret: neither from credentials nor from flows, also not from what is saved
//! back unchanged.

use crate::client::Answer;
use crate::harness::{Gateway, Process};
use crate::mock_upstream::{Action, MockUpstream, ok};
use serde_json::{Value as Json, json};
use std::fs;

/// What must not be shown.
const SECRET: &str = "the-secret-of-a-node";

/// One node of each type that has credentials, every field of which is secret or named.
fn nodes() -> Json {
    json!([
        { "id": "t", "type": "tab", "label": "T", "credentials": { "TAB": SECRET },
          "env": [{ "name": "TAB", "type": "cred", "value": "" }] },
        { "id": "g", "type": "group", "z": "t", "nodes": [], "credentials": { "GROUP": SECRET },
          "env": [{ "name": "GROUP", "type": "cred" }] },
        { "id": "s", "type": "subflow", "in": [], "out": [], "credentials": { "SUBFLOW": SECRET },
          "env": [{ "name": "SUBFLOW", "type": "cred" }] },
        { "id": "i", "type": "subflow:s", "z": "t", "x": 1, "y": 1, "wires": [], "credentials": { "SUBFLOW": SECRET },
          "env": [{ "name": "SUBFLOW", "type": "cred" }] },
        { "id": "all", "type": "global-config", "credentials": { "map": { "ALL": SECRET } },
          "env": [{ "name": "ALL", "type": "cred" }] },
        { "id": "tls", "type": "tls-config", "keyname": "own.key", "certname": "own.pem", "credentials": {
            "certdata": "a certificate", "cadata": "an authority", "keydata": SECRET, "passphrase": SECRET } },
        { "id": "mqtt", "type": "mqtt-broker", "broker": "127.0.0.1", "port": "1", "autoConnect": false,
          "credentials": { "user": "maria", "password": SECRET } },
        { "id": "proxy", "type": "http proxy", "url": "http://127.0.0.1:1",
          "credentials": { "username": "maria", "password": SECRET } },
        { "id": "request", "type": "http request", "z": "t", "x": 1, "y": 1, "wires": [[]],
          "credentials": { "user": "maria", "password": SECRET } },
        { "id": "unknown", "type": "unheard of", "z": "t", "x": 1, "y": 1, "wires": [[]],
          "credentials": { "user": SECRET, "apiKey": SECRET } },
    ])
}

async fn credentials(gateway: &Gateway, kind: &str, id: &str) -> Answer {
    let path = format!("/credentials/{}/{id}", kind.replace(' ', "%20"));
    gateway.get(&path).send().await
}

#[tokio::test]
async fn a_reader_sees_which_secrets_are_set_but_not_their_values() {
    let gateway = Gateway::with("[auth]\nanonymous = [\"read\"]\n");
    let token = gateway.sign_in("admin").await;
    gateway.deploy(&token, &nodes()).await;
    for node in nodes().as_array().unwrap() {
        let text = |key: &str| node[key].as_str().unwrap();
        let answer = credentials(&gateway, text("type"), text("id")).await;
        assert_eq!(answer.status, 200);
        assert!(!answer.text().contains(SECRET), "{}", answer.text());
        // A node that has a secret says so.
        let shown = answer.json().to_string();
        assert!(shown.contains("\"has_"), "{}: {shown}", text("type"));
    }
    let tls = credentials(&gateway, "tls-config", "tls").await.json();
    let expected = json!({
        "certdata": "a certificate", "cadata": "an authority",
        "keydata": "__PWRD__", "has_keydata": true, "has_passphrase": true,
    });
    assert_eq!(tls, expected);
    let mqtt = credentials(&gateway, "mqtt-broker", "mqtt").await.json();
    assert_eq!(mqtt, json!({ "user": "maria", "has_password": true }));
    for path in [
        "/flows",
        "/flow/t",
        "/flow/global",
        "/settings",
        "/diagnostics",
        "/context/global",
    ] {
        let answer = gateway.get(path).send().await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(!answer.text().contains(SECRET), "{path}");
    }
}

/// All credentials that the gateway has, as its files hold them: without a key they are plain.
fn kept(gateway: &Gateway) -> String {
    fs::read_to_string(gateway.data("flows_cred.json")).unwrap()
}

#[tokio::test]
async fn a_private_key_is_kept_when_an_editor_saves_it_unchanged() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    gateway.deploy(&token, &nodes()).await;
    let read = gateway.get("/credentials/tls-config/tls").token(&token);
    let mut shown = read.clone().send().await.json();
    let before = kept(&gateway);
    // As the stock editor does for a dialog in which only the name was changed.
    let mut flows = gateway.flows(&token).await["flows"].clone();
    let tls = flows.as_array_mut().unwrap().iter_mut();
    let tls = tls.into_iter().find(|node| node["id"] == "tls").unwrap();
    tls["name"] = "renamed".into();
    shown["passphrase"] = "__PWRD__".into();
    tls["credentials"] = shown.clone();
    gateway.deploy(&token, &flows).await;
    assert_eq!(kept(&gateway), before, "nothing was written");
    assert_eq!(
        read.clone().send().await.json(),
        json!({
            "certdata": "a certificate", "cadata": "an authority",
            "keydata": "__PWRD__", "has_keydata": true, "has_passphrase": true,
        })
    );
    // Another one replaces it, an empty one removes it.
    for (key, has) in [("another key", true), ("", false)] {
        let tls = flows.as_array_mut().unwrap().iter_mut();
        let tls = tls.into_iter().find(|node| node["id"] == "tls").unwrap();
        tls["credentials"] = json!({ "keydata": key });
        gateway.deploy(&token, &flows).await;
        let shown = read.clone().send().await.json();
        assert_eq!(shown["has_keydata"], has, "{shown}");
        assert!(!shown.to_string().contains("another key"));
    }
}

#[tokio::test]
async fn a_secret_environment_variable_is_stored_as_a_credential() {
    let gateway = Gateway::with("[auth]\nanonymous = [\"read\"]\n");
    let token = gateway.sign_in("admin").await;
    let secret = |name: &str| json!([{ "name": name, "type": "cred", "value": SECRET }, { "name": "plain", "type": "str", "value": "seen" }]);
    let flows = json!([
        { "id": "t", "type": "tab", "label": "T", "env": secret("TAB") },
        { "id": "g", "type": "group", "z": "t", "nodes": [], "env": secret("GROUP") },
        { "id": "s", "type": "subflow", "in": [], "out": [], "env": secret("SUBFLOW") },
        { "id": "i", "type": "subflow:s", "z": "t", "x": 1, "y": 1, "wires": [], "env": secret("INSTANCE") },
        { "id": "all", "type": "global-config", "env": secret("ALL") },
        { "id": "f", "type": "http in", "z": "t", "x": 1, "y": 1, "url": "/env", "method": "get", "wires": [["c"]] },
        { "id": "c", "type": "change", "z": "t", "x": 1, "y": 1, "wires": [["r"]],
          "rules": [{ "t": "set", "p": "payload", "pt": "msg", "to": "TAB", "tot": "env" }] },
        { "id": "r", "type": "http response", "z": "t", "x": 1, "y": 1, "wires": [] },
    ]);
    gateway.deploy(&token, &flows).await;
    let single = json!({ "id": "t", "label": "T", "nodes": [], "env": secret("SINGLE") });
    let shown = async |path| {
        let answer = gateway.get(path).send().await;
        assert_eq!(answer.status, 200, "{path}");
        answer.text()
    };
    for path in ["/flows", "/flow/t", "/flow/global"] {
        let text = shown(path).await;
        assert!(!text.contains(SECRET), "{path}: {text}");
        assert!(text.contains("\"seen\""), "{path}: {text}");
    }
    assert!(
        shown("/credentials/tab/t")
            .await
            .contains("\"has_TAB\":true")
    );
    assert!(
        shown("/credentials/global-config/all")
            .await
            .contains("\"has_ALL\":true")
    );
    assert!(
        !fs::read_to_string(gateway.data("flows.json"))
            .unwrap()
            .contains(SECRET)
    );
    let seen = gateway.get("/env").send().await.text();
    assert_eq!(seen, SECRET, "the flow has it");
    let added = gateway
        .post("/flow")
        .token(&token)
        .json(&single)
        .send()
        .await;
    assert_eq!(added.status, 200, "{}", added.text());
    assert!(!shown("/flows").await.contains(SECRET));
    // What is deployed again as it was read keeps it.
    let again = gateway.flows(&token).await["flows"].clone();
    gateway.deploy(&token, &again).await;
    assert_eq!(gateway.get("/env").send().await.text(), SECRET);
}

#[tokio::test]
async fn credentials_of_an_upstream_require_flows_write() {
    let behind = MockUpstream::start(|_| Action::Respond(ok("application/json", SECRET))).await;
    let gateway = Gateway::with(&(behind.config() + "[auth]\nanonymous = [\"read\"]\n"));
    let received_here = || {
        let received_here = behind.received().into_iter();
        received_here
            .filter(|h| h.bytes.contains("/credentials/"))
            .count()
    };
    for user in ["", "reader"] {
        let token = match user {
            "" => String::new(),
            user => gateway.sign_in(user).await,
        };
        let answer = gateway
            .get("/credentials/tls-config/x")
            .token(&token)
            .send()
            .await;
        assert_eq!(
            (answer.status, answer.text()),
            (401, String::new()),
            "{user}"
        );
    }
    assert_eq!(received_here(), 0);
    for user in ["deployer", "admin"] {
        let token = gateway.sign_in(user).await;
        let answer = gateway
            .get("/credentials/tls-config/x")
            .token(&token)
            .send()
            .await;
        assert_eq!(
            (answer.status, answer.text()),
            (200, SECRET.to_owned()),
            "{user}"
        );
    }
    assert_eq!(received_here(), 2);
    // Our own engine shows no secret: reading is enough.
    let own = Gateway::start();
    let token = own.sign_in("reader").await;
    let answer = own
        .get("/credentials/tls-config/x")
        .token(&token)
        .send()
        .await;
    assert_eq!((answer.status, answer.text()), (200, "{}".to_owned()));
}

/// How other sites may embed an answer.
fn policy(answer: &Answer) -> &str {
    answer.header("cross-origin-resource-policy")
}

#[tokio::test]
async fn responses_of_flows_are_not_embeddable_cross_origin_unless_public_or_allowed_by_the_flow() {
    use crate::harness::{flow_set, page, public, script};
    let routes = public(&["/public"]);
    let code = "msg.headers = { 'Cross-Origin-Resource-Policy': 'cross-origin' }; return msg";
    let flows = flow_set(&[
        page("a", "/page", "x"),
        page("b", "/public", "x"),
        script("c", "get", "/own", code),
    ]);
    for (lines, expected) in [
        ("", "same-origin"),
        ("[headers]\nresource_policy = \"same-site\"\n", "same-site"),
        ("[headers]\nresource_policy = \"off\"\n", ""),
    ] {
        let gateway = Gateway::with(&format!("{lines}{routes}"));
        let token = gateway.sign_in("admin").await;
        gateway.deploy(&token, &flows).await;
        let ask = async |path: &str| gateway.get(path).token(&token).send().await;
        assert_eq!(policy(&ask("/page").await), expected);
        assert_eq!(policy(&ask("/own").await), "cross-origin");
        assert_eq!(policy(&ask("/public").await), "");
    }
    let answer = |request: &str| {
        let own = request.contains("/own");
        let head = if own {
            "Cross-Origin-Resource-Policy: cross-origin\r\n"
        } else {
            ""
        };
        Action::Respond(format!(
            "HTTP/1.1 200 OK\r\n{head}Content-Length: 1\r\n\r\nx"
        ))
    };
    let behind = MockUpstream::start(answer).await;
    let gateway = Gateway::with(&(behind.config() + &routes));
    let token = gateway.sign_in("admin").await;
    let ask = async |path: &str| gateway.get(path).token(&token).send().await;
    assert_eq!(policy(&ask("/page").await), "same-origin");
    assert_eq!(policy(&ask("/own").await), "cross-origin");
    assert_eq!(policy(&ask("/public").await), "");
}

#[test]
fn a_write_ahead_log_that_a_killed_gateway_left_is_recovered_and_a_copy_kept() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    drop(Process::start("", directory.path()));
    // Killed, it leaves what was written last in the write-ahead log.
    let log = data.join("flowgate.db-wal");
    let left = fs::read(&log).unwrap();
    assert!(left.len() > 32, "{} bytes", left.len());
    let starts = |content: &[u8]| {
        fs::write(&log, content).unwrap();
        let process = Process::start("", directory.path());
        process.signal("TERM");
        let output = process.whole_log().join("\n");
        let kept = fs::read(data.join("flowgate.db-wal.kept")).unwrap();
        assert!(
            kept == content && output.contains("flowgate.db-wal.kept"),
            "{output}"
        );
        output
    };
    let output = starts(&left);
    assert!(output.contains("frames from WAL file"), "{output}");
    // Of a damaged one SQLite reads less, or nothing; the copy is whole.
    let mut damaged = left;
    damaged[..4].copy_from_slice(b"what");
    let output = starts(&damaged);
    assert!(!output.contains("frames from WAL file"), "{output}");
}
