//! Flows that would crash or block the process, and the variables that flows see of the gateway's
//! own secrets.

use crate::client::Client;
use crate::harness::{
    Process, TEST_TIMEOUT, config_text, flow_set, page, program, public, script, until,
};
use serde_json::{Value as Json, json};
use tempfile::tempdir;

/// A change node wired to itself that nests its message one level deeper each time round, started
/// at once.
fn ever_deeper() -> Vec<Json> {
    let rule =
        json!({ "t": "move", "p": "payload", "pt": "msg", "to": "payload.in", "tot": "msg" });
    vec![
        json!({ "id": "deep", "type": "tab", "label": "deep" }),
        json!({ "id": "go", "type": "inject", "z": "deep", "x": 1, "y": 1, "once": true, "onceDelay": 0,
                "props": [{ "p": "payload", "v": "1", "vt": "num" }], "wires": [["loop"]] }),
        json!({ "id": "loop", "type": "change", "z": "deep", "x": 1, "y": 1, "rules": [rule], "wires": [["loop"]] }),
        json!({ "id": "catch", "type": "catch", "z": "deep", "x": 1, "y": 1, "scope": null, "wires": [["note"]] }),
        json!({ "id": "note", "type": "change", "z": "deep", "x": 1, "y": 1, "wires": [[]], "rules": [
            { "t": "set", "p": "failed", "pt": "global", "to": "error.message", "tot": "msg" },
        ] }),
    ]
}

async fn text(client: &Client, token: &str, path: &str) -> String {
    client.get(path).token(token).send().await.text()
}

#[tokio::test]
async fn the_process_survives_a_message_that_nests_without_end() {
    let directory = tempdir().unwrap();
    let process = Process::start("", directory.path());
    let token = process.sign_in("admin").await;
    let code = "msg.payload = global.get('failed') || ''; return msg";
    let flows = flow_set(&[ever_deeper(), script("told", "get", "/failed", code)]);
    process.deploy(&token, &flows).await;
    // To drop a message of some hundred thousand levels once ended the process.
    tokio::time::sleep(std::time::Duration::from_millis(250)).await;
    process
        .deploy(&token, &flow_set(&[page("other", "/other", "alive")]))
        .await;
    assert_eq!(text(&process, &token, "/other").await, "alive");
    process.deploy(&token, &flows).await;
    until("the node's error is caught", async || {
        let failed = text(&process, &token, "/failed").await;
        failed.contains("value is nested too deeply: more than 500 levels")
    })
    .await;
    process.signal("TERM");
    assert!(process.end().success());
}

/// A path with several `*` is matched on the threads that serve all clients.
#[tokio::test]
async fn a_path_cannot_hold_the_gateway() {
    let directory = tempdir().unwrap();
    let process = Process::start("", directory.path());
    let token = process.sign_in("admin").await;
    let flows = flow_set(&[page("many", "/x/*/*/*/*/*/y", "found")]);
    process.deploy(&token, &flows).await;
    let path = format!("/x/{}z", "a/".repeat(1500));
    let request = || process.get(&path).token(&token).send();
    let requests = Box::pin(async { tokio::join!(request(), request(), request()) });
    let answers = tokio::time::timeout(TEST_TIMEOUT, requests).await;
    let (one, two, three) = answers.expect("the threads are held");
    assert_eq!([one.status, two.status, three.status], [404; 3]);
    assert_eq!(text(&process, &token, "/x/1/2/3/4/5/y").await, "found");
}

#[tokio::test]
async fn a_query_cannot_hold_the_engine_with_a_regular_expression() {
    let directory = tempdir().unwrap();
    let process = Process::start(&public(&["/match", "/other"]), directory.path());
    let token = process.sign_in("admin").await;
    let mut flow = script("match", "get", "/match", "");
    flow[2] = json!({
        "id": "match-node", "z": "match", "x": 1, "y": 1, "type": "switch", "property": "payload.q", "propertyType": "msg",
        "checkall": "true", "rules": [{ "t": "regex", "v": "^(a+)+$", "vt": "str" }, { "t": "else" }],
        "wires": [["match-out"], ["match-out"]],
    });
    // What fails is answered too.
    flow.push(json!({ "id": "catch", "type": "catch", "z": "match", "x": 1, "y": 1, "scope": null, "wires": [["sorry"]] }));
    flow.push(json!({ "id": "sorry", "type": "change", "z": "match", "x": 1, "y": 1, "wires": [["match-out"]], "rules": [
        { "t": "set", "p": "payload", "pt": "msg", "to": "error.message", "tot": "msg" },
    ] }));
    let flows = flow_set(&[flow, page("other", "/other", "alive")]);
    process.deploy(&token, &flows).await;
    let attack = format!("/match?q={}!", "a".repeat(40));
    let answer = tokio::time::timeout(TEST_TIMEOUT, process.get(&attack).send()).await;
    let answer = answer.expect("the engine is held");
    assert!(
        answer.text().contains("was stopped: more than"),
        "{}",
        answer.text()
    );
    assert_eq!(process.get("/other").send().await.text(), "alive");
    assert_eq!(process.get("/match?q=aaa").send().await.status, 200);
}

#[tokio::test]
async fn an_answer_is_a_script_for_other_origins_only_where_that_is_allowed() {
    let directory = tempdir().unwrap();
    let flows = flow_set(&[script(
        "list",
        "get",
        "/list",
        "msg.payload = [1]; return msg",
    )]);
    for (lines, kind, body) in [
        ("", "application/json; charset=utf-8", "[1]"),
        (
            "[engine]\njsonp = true\n",
            "text/javascript; charset=utf-8",
            "/**/ typeof steal === 'function' && steal([1]);",
        ),
    ] {
        let lines = format!("{}{lines}", public(&["/list"]));
        let process = Process::start(&lines, directory.path());
        let token = process.sign_in("admin").await;
        process.deploy(&token, &flows).await;
        let answer = process.get("/list?callback=steal").send().await;
        assert_eq!(
            (answer.header("content-type"), answer.text().as_str()),
            (kind, body)
        );
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
    }
}

/// The variable that a secret of `gateway.toml` is made of, and those named in `hide_env`; `SEEN`
/// is open to flows.
#[tokio::test]
async fn flows_do_not_see_the_variables_that_hold_the_gateways_secrets() {
    let directory = tempdir().unwrap();
    let lines = "[storage]\ncredential_secret = \"${FLOW_KEY}\"\n[log]\nlevel = \"${LEVEL}\"\n\
                 [engine]\nhide_env = [\"CLOUD_*\", \"ONE\"]\n";
    std::fs::write(directory.path().join("gateway.toml"), config_text(lines)).unwrap();
    let mut command = program(directory.path(), &["run"]);
    let variables = [
        ("FLOW_KEY", "hush-1"),
        ("CLOUD_TOKEN", "hush-2"),
        ("ONE", "hush-3"),
        ("LEVEL", "info"),
        ("SEEN", "seen"),
    ];
    command.envs(variables);
    let process = Process::launch(command, directory.path()).unwrap();
    let token = process.sign_in("admin").await;
    let names: Vec<&str> = variables.iter().map(|(name, _)| *name).collect();
    let code = format!(
        "msg.payload = {}.map(n => String(env.get(n))).join(); return msg",
        json!(names)
    );
    let template = names.iter().map(|name| format!("{{{{env.{name}}}}},"));
    let mut by_exec = script("exec", "get", "/exec", "");
    by_exec[2] = json!({ "id": "exec-node", "z": "exec", "x": 1, "y": 1, "type": "exec", "command": "env", "addpay": "",
                         "useSpawn": "false", "wires": [["exec-out"]] });
    let mut by_template = page("template", "/template", &template.collect::<String>());
    by_template[2]["syntax"] = "mustache".into();
    let mut by_property = page("property", "/property", "${FLOW_KEY}");
    by_property.extend(page("open", "/open", "${SEEN}"));
    let flows = flow_set(&[
        script("code", "get", "/code", &code),
        by_template,
        by_property,
        by_exec,
    ]);
    process.deploy(&token, &flows).await;
    assert_eq!(
        text(&process, &token, "/code").await,
        "undefined,undefined,undefined,info,seen"
    );
    assert_eq!(text(&process, &token, "/template").await, ",,,info,seen,");
    assert_eq!(text(&process, &token, "/property").await, "${FLOW_KEY}");
    assert_eq!(text(&process, &token, "/open").await, "seen");
    let seen = text(&process, &token, "/exec").await;
    assert!(
        seen.contains("SEEN=seen\n") && seen.contains("PATH="),
        "{seen}"
    );
    assert!(!seen.contains("hush"), "{seen}");
}
