//! The console, in headless Chromium: each scenario of `tests/console/` lists a user's actions and
//! what the page then shows, on the engine and in front of a real Node-RED. And its files, over
//! HTTP.

use crate::client::{Client, PASSWORD};
use crate::harness::{Gateway, Process, hash};
use crate::multiple_upstreams::sign_in;
use crate::node_red::{NodeRed, Release};
use crate::oidc_provider::OidcProvider;
use crate::proposals::approving;
use crate::scenario::play;
use serde_json::{Value as Json, json};
use tokio::runtime::Handle;

const GREETING: &str = include_str!("../editor/greeting.json");

fn user(name: &str, permissions: &str) -> String {
    let hash = hash(PASSWORD);
    format!(
        "[[auth.user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\npermissions = {permissions}\n"
    )
}

fn users() -> String {
    [
        user("admin", r#"["*"]"#),
        user("ann", r#"["*"]"#),
        "totp_secret = \"GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ\"\n".to_owned(),
        user("bob", r#"["read", "write"]"#),
        user("reader", r#"["read"]"#),
        user("nobody", r#"["http.read"]"#),
    ]
    .concat()
}

/// The URL of a gateway's editor.
fn url(gateway: &Client, path: &str) -> String {
    format!("https://{}{path}/", gateway.address)
}

/// A scenario without cues but the last one.
fn nothing(cue: &str) {
    assert_eq!(cue, "done");
}

/// A token of a user who signs in at a site.
async fn token(gateway: &Client, path: &str, user: &str) -> String {
    let granted = sign_in(gateway, path, user, "").await.json();
    granted["access_token"].as_str().unwrap().to_owned()
}

/// Deploys the flows of a site with a message.
async fn say(gateway: &Client, path: &str, user: &str, flows: &[Vec<Json>], message: &str) {
    let token = token(gateway, path, user).await;
    let request = gateway
        .post(&format!("{path}/flows"))
        .token(&token)
        .header("Service-API-Version", "v2")
        .header("Flowgate-Message", message)
        .header("Service-Deployment-Type", "flows");
    let answer = request
        .json(&json!({ "flows": flows.concat() }))
        .send()
        .await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// A production line: a tab with five nodes and a group.
fn line(number: u32, code: &str) -> Vec<Json> {
    let tab = format!("line-{number}");
    let id = |name: &str| format!("{tab}-{name}");
    let node = |name: &str, kind: &str, (x, y): (u32, u32), wires: Json| json!({ "id": id(name), "type": kind, "z": tab, "name": format!("{name} {number}"), "x": x, "y": y, "wires": wires });
    let with = |mut node: Json, more: Json| {
        let more = more.as_object().unwrap().clone();
        node.as_object_mut().unwrap().extend(more);
        node
    };
    let nodes = ["measure", "convert", "alarm", "show"].map(id);
    vec![
        json!({ "id": tab, "type": "tab", "label": format!("Line {number}"), "disabled": false, "info": "" }),
        with(
            json!({ "id": id("group"), "type": "group", "z": tab, "name": "Cell", "x": 94, "y": 59, "w": 592, "h": 182 }),
            json!({ "nodes": nodes, "style": { "stroke": "#2e7d32", "fill": "#c8e6c9", "label": true } }),
        ),
        with(
            node("measure", "inject", (180, 120), json!([[id("convert")]])),
            json!({ "g": id("group"), "props": [{ "p": "payload" }], "payload": "20", "payloadType": "num", "repeat": "", "once": false }),
        ),
        with(
            node(
                "convert",
                "function",
                (360, 120),
                json!([[id("alarm"), id("show")]]),
            ),
            json!({ "g": id("group"), "func": code, "outputs": 1, "libs": [] }),
        ),
        with(
            node("alarm", "switch", (560, 100), json!([[], [id("show")]])),
            json!({ "g": id("group"), "property": "payload", "rules": [{ "t": "gt", "v": "5", "vt": "num" }, { "t": "else" }], "outputs": 2 }),
        ),
        with(
            node("show", "debug", (580, 200), json!([])),
            json!({ "g": id("group"), "active": true, "complete": "payload" }),
        ),
        node("note", "comment", (180, 300), json!([])),
    ]
}

const GOOD: &str = "// Tenths of degrees.\nconst unit = 10;\nnode.status({ text: 'running' });\nreturn msg.payload / 10;";

fn bad() -> String {
    GOOD.replace("payload / 10", "payload / 0")
}

/// A history of three lines: line 3 broke, and line 1 was changed since.
async fn lines(gateway: &Client, path: &str) {
    let faster = GOOD.replace("unit = 10", "unit = 5");
    let (one, two, three) = (line(1, GOOD), line(2, GOOD), line(3, GOOD));
    say(
        gateway,
        path,
        "admin",
        std::slice::from_ref(&one),
        "Start with line 1",
    )
    .await;
    say(
        gateway,
        path,
        "admin",
        &[one.clone(), two.clone()],
        "Add line 2",
    )
    .await;
    say(
        gateway,
        path,
        "bob",
        &[one.clone(), two.clone(), three],
        "Add line 3",
    )
    .await;
    say(
        gateway,
        path,
        "bob",
        &[one, two.clone(), line(3, &bad())],
        "Tune line 3",
    )
    .await;
    let flows = [line(1, &faster), two, line(3, &bad())];
    say(gateway, path, "bob", &flows, "Line 1 is faster").await;
}

#[tokio::test]
async fn users_of_a_provider_sign_in_with_it_and_out_at_both_sides() {
    let (mut provider, gateway) = OidcProvider::gateway("");
    provider.tell("groups ann editors");
    play("console/single_sign_on.mjs", &url(&gateway, ""), nothing).await;
}

#[tokio::test]
async fn users_sign_in_with_a_second_factor_and_sign_out_everywhere() {
    let gateway = Gateway::with(&users());
    lines(&gateway, "").await;
    play("console/sign_in.mjs", &url(&gateway, ""), nothing).await;
}

#[tokio::test]
async fn sessions_and_rights_in_front_of_node_red_too() {
    let red = NodeRed::start(Release::Four, "");
    let gateway = Gateway::with(&(red.config() + &users()));
    lines(&gateway, "").await;
    play("console/sign_in.mjs", &url(&gateway, ""), nothing).await;
}

async fn play_passkeys(upstream: &str) {
    let lines = "[auth]\npasskeys = true\nstep_up = [\"flows.write\"]\n";
    let route = "[[route]]\npath = \"/dash\"\npermission = \"read\"\nsign_in = \"page\"\n";
    let gateway = Gateway::with(&format!("{upstream}{}{lines}{route}", users()));
    let (client, handle) = ((*gateway).clone(), Handle::current());
    let cues = move |cue: &str| match cue {
        "the password alone does not deploy" => handle.block_on(async {
            let token = token(&client, "", "admin").await;
            let rollback = client.post("/gateway/deployments/x/rollback").token(&token);
            let refused = rollback.json(&json!({})).send().await;
            assert_eq!(refused.code(), "second_factor_required");
        }),
        other => nothing(other),
    };
    // Browsers have no passkeys for addresses.
    let url = format!("https://localhost:{}/", gateway.address.port());
    play("console/passkeys.mjs", &url, cues).await;
}

#[tokio::test]
async fn a_user_registers_a_passkey_signs_in_and_steps_up_with_it_and_removes_it() {
    play_passkeys("").await;
}

#[tokio::test]
async fn passkeys_in_front_of_node_red_too() {
    let red = NodeRed::start(Release::Four, "");
    play_passkeys(&red.config()).await;
}

/// Plays the story about line 3.
async fn play_history(gateway: &Client, path: &'static str) {
    lines(gateway, path).await;
    let (client, handle) = (gateway.clone(), Handle::current());
    let cues = move |cue: &str| {
        if cue == "done" {
            return;
        }
        assert_eq!(
            cue,
            "line 3 is as before, and line 1 as it was changed since"
        );
        handle.block_on(async {
            let token = token(&client, path, "admin").await;
            let request = client.get(&format!("{path}/flows")).token(&token);
            let flows = request.send().await.json();
            let code = |id: &str| {
                let mut nodes = flows.as_array().unwrap().iter();
                let node = nodes.find(|node| node["id"] == id).unwrap();
                node["func"].as_str().unwrap().to_owned()
            };
            assert_eq!(code("line-3-convert"), GOOD);
            assert!(code("line-1-convert").contains("unit = 5"));
        });
    };
    play("console/history.mjs", &url(gateway, path), cues).await;
}

#[tokio::test]
async fn the_deployment_that_broke_a_line_is_found_and_undone_in_three_clicks() {
    play_history(&Gateway::with(&users()), "").await;
}

#[tokio::test]
async fn the_same_in_front_of_node_red_below_a_path() {
    let red = NodeRed::start(Release::Four, "");
    let config = red.config_with("path = \"/plant\"\n");
    play_history(&Gateway::with(&(config + &users())), "/plant").await;
}

#[tokio::test]
async fn the_last_hour_and_a_freeze_are_shown() {
    let gateway = Gateway::with(&(users() + "[policy]\nread_only = true\n"));
    play("console/now.mjs", &url(&gateway, ""), nothing).await;
    let answer = gateway
        .get("/gateway/now")
        .token(&gateway.sign_in("nobody").await);
    assert_eq!(answer.send().await.status, 401);
}

async fn play_audit(gateway: &Client) {
    let (client, handle) = (gateway.clone(), Handle::current());
    let cues = move |cue: &str| {
        if cue == "bob signs in, and fails once" {
            handle.block_on(async {
                client.sign_in_request("bob", "wrong", "").send().await;
                client.sign_in("bob").await;
            });
            return;
        }
        nothing(cue);
    };
    play("console/audit.mjs", &url(gateway, ""), cues).await;
}

#[tokio::test]
async fn the_audit_log_is_followed_searched_verified_and_copied() {
    play_audit(&Gateway::with(&users())).await;
}

#[tokio::test]
async fn the_audit_log_in_front_of_node_red_is_followed_too() {
    let red = NodeRed::start(Release::Four, "");
    play_audit(&Gateway::with(&(red.config() + &users()))).await;
}

#[tokio::test]
async fn time_errors_and_messages_of_the_engine_are_measured_and_shown() {
    let gateway = Gateway::with(&(users() + &user("flows only", r#"["flows.read"]"#)));
    let admin = gateway.sign_in("admin").await;
    let flows = json!([
        { "id": "orders", "type": "tab", "label": "Orders" },
        { "id": "tick", "type": "inject", "z": "orders", "x": 150, "y": 100, "repeat": "0.05", "wires": [["parse"]] },
        { "id": "parse", "type": "function", "z": "orders", "x": 400, "y": 100, "name": "Parse", "wires": [["check"], []], "outputs": 2,
          "func": "const end = Date.now() + 5; while (Date.now() < end) {} return msg;" },
        { "id": "check", "type": "function", "z": "orders", "x": 620, "y": 180, "name": "Check", "wires": [[]], "outputs": 1,
          "func": "throw new Error('no order');" },
    ]);
    gateway.deploy(&admin, &flows).await;
    play("console/heat.mjs", &url(&gateway, ""), nothing).await;
}

async fn play_users(gateway: &Client) {
    let (client, handle) = (gateway.clone(), Handle::current());
    let cues = move |cue: &str| {
        let status = |token: &str| {
            let request = client.get("/flows").token(token);
            handle.block_on(async { request.send().await.status })
        };
        if let Some(token) = cue.strip_prefix("the token works ") {
            assert_eq!(status(token), 200);
        } else if let Some(token) = cue.strip_prefix("the token is revoked ") {
            assert_eq!(status(token), 401);
        } else {
            nothing(cue);
        }
    };
    play("console/users.mjs", &url(gateway, ""), cues).await;
}

#[tokio::test]
async fn users_are_shown_with_their_rights_and_a_service_token_is_made_and_revoked() {
    play_users(&Gateway::with(&users())).await;
}

#[tokio::test]
async fn users_and_service_tokens_in_front_of_node_red_too() {
    let red = NodeRed::start(Release::Four, "");
    play_users(&Gateway::with(&(red.config() + &users()))).await;
}

async fn play_settings(lines: &str) {
    let directory = tempfile::tempdir().unwrap();
    let lines = lines.to_owned() + "[server]\nwatch = \"off\"\n";
    let process = Process::start(&lines, directory.path());
    let file = directory.path().join("gateway.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let cues = move |cue: &str| match cue {
        "the file is changed" => {
            let changed = text.replace("permissions = [\"http.read\"]", "permissions = []");
            assert_ne!(changed, text);
            std::fs::write(&file, changed).unwrap();
        }
        "the file has a mistake" => std::fs::write(&file, "[limits]\nbody = \"5MB\"\n").unwrap(),
        other => nothing(other),
    };
    play("console/settings.mjs", &url(&process, ""), cues).await;
}

#[tokio::test]
async fn the_settings_are_shown_with_what_a_reload_would_change() {
    play_settings(&users()).await;
}

#[tokio::test]
async fn the_settings_in_front_of_node_red_too() {
    let red = NodeRed::start(Release::Four, "");
    play_settings(&(red.config() + &users())).await;
}

#[test]
fn the_tokens_of_code_are_found() {
    let mut command = std::process::Command::new("node");
    command.args(["--test", "console/highlight.test.mjs"]);
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests"));
    let tested = command.env_remove("NODE_OPTIONS").output().unwrap();
    let said = String::from_utf8_lossy(&tested.stdout);
    assert!(tested.status.success(), "{said}");
}

/// A tab with ten thousand nodes in rows, each wired to the next.
fn ten_thousand() -> Vec<Json> {
    let id = |i: usize| format!("n{i}");
    let node = |i: usize| {
        let kind = ["function", "change", "switch", "debug", "template"][i % 5];
        let wires = if i % 100 == 99 {
            json!([])
        } else {
            json!([[id(i + 1)]])
        };
        json!({ "id": id(i), "type": kind, "z": "big", "d": true, "name": format!("step {i}"), "x": 100 + i % 100 * 200,
                "y": 60 + i / 100 * 60, "wires": wires, "outputs": 1, "rules": [], "func": "" })
    };
    let tab = json!({ "id": "big", "type": "tab", "label": "Ten thousand", "disabled": true });
    std::iter::once(tab).chain((0..10_000).map(node)).collect()
}

async fn play_flows(gateway: &Client) {
    let token = gateway.sign_in("admin").await;
    let greeting: Vec<Json> = serde_json::from_str(GREETING).unwrap();
    gateway.deploy(&token, &greeting.clone().into()).await;
    let (client, handle) = (gateway.clone(), Handle::current());
    let cues = move |cue: &str| {
        handle.block_on(async {
            match cue {
                "press the button" => {
                    let pressed = client.post("/inject/ask").token(&token).send().await;
                    assert_eq!(pressed.status, 200);
                }
                "deploy ten thousand nodes" => {
                    let flows = [greeting.clone(), ten_thousand()].concat();
                    client.deploy_as("flows", &token, &flows.into()).await;
                }
                other => nothing(other),
            }
        });
    };
    play("console/flows.mjs", &url(gateway, ""), cues).await;
}

#[tokio::test]
async fn flows_are_drawn_with_their_statuses_and_ten_thousand_nodes_stay_fluent() {
    play_flows(&Gateway::with(&users())).await;
}

#[tokio::test]
async fn the_flows_of_node_red_are_drawn_too() {
    let red = NodeRed::start(Release::Four, "");
    play_flows(&Gateway::with(&(red.config() + &users()))).await;
}

async fn play_proposals(upstream: &str) {
    let gateway = Gateway::with(&(upstream.to_owned() + &approving("approve = [\"Line*\"]")));
    let admin = gateway.sign_in("admin").await;
    let all = |one: &str, two: &str| Json::from([line(1, one), line(2, two)].concat());
    gateway.deploy(&admin, &all(GOOD, GOOD)).await;
    for (user, flows) in [
        ("ann", all(&bad(), GOOD)),
        ("eve", all(GOOD, "return null;")),
    ] {
        let token = gateway.sign_in(user).await;
        let proposed = crate::proposals::deploy(&gateway, &token, &flows).await;
        assert_eq!(proposed.status, 202, "{}", proposed.text());
    }
    let (client, handle) = ((*gateway).clone(), Handle::current());
    let cues = move |cue: &str| {
        handle.block_on(async {
            if cue == "other flows are deployed" {
                client.deploy(&admin, &all("return msg;", GOOD)).await;
                return;
            }
            assert_eq!(cue, "the proposal is deployed");
            let flows = client.flows(&admin).await["flows"].to_string();
            assert!(flows.contains("return null;") && flows.contains("return msg;"));
        });
    };
    play("console/proposals.mjs", &url(&gateway, ""), cues).await;
}

#[tokio::test]
async fn proposals_are_rejected_rebased_and_approved() {
    play_proposals("").await;
}

#[tokio::test]
async fn an_approver_sees_what_a_thousand_elements_would_hide_before_the_button() {
    let gateway = Gateway::with(&approving("approve = [\"Line*\"]"));
    let admin = gateway.sign_in("admin").await;
    gateway.deploy(&admin, &line(1, GOOD).into()).await;
    let mut flows = line(1, "return msg; // \u{202e} ;llun nruter");
    flows.extend((0..1_001).map(|n| {
        json!({ "id": format!("new-{n}"), "type": "comment", "z": "line-1", "name": "new", "x": 1, "y": 1, "wires": [] })
    }));
    let token = gateway.sign_in("eve").await;
    let request = gateway.deployment(&token, &flows.into(), None);
    let request = request.header("Flowgate-Message", "for the audit on Monday");
    assert_eq!(request.send().await.status, 202);
    play("console/hidden_changes.mjs", &url(&gateway, ""), nothing).await;
}

#[tokio::test]
async fn proposals_for_node_red_too() {
    let red = NodeRed::start(Release::Four, "");
    play_proposals(&red.config()).await;
}

/// Flows whose every name is a script for a page that makes HTML of texts.
fn hostile(text: &str) -> Vec<Json> {
    let script = "<script>window.pwned=1</script>";
    let image = "<img src=x onerror=window.pwned=1>";
    vec![
        json!({ "id": "t\"><script>window.pwned=1</script>", "type": "tab", "label": format!("{image}{script}"), "info": script }),
        json!({ "id": "a<b>'\"", "type": "function", "z": "t\"><script>window.pwned=1</script>", "name": format!("{script}{text}"), "func": format!("{image}\n{text}"),
                "x": 200, "y": 100, "wires": [[]], "outputs": 1, image: [text, script] }),
        json!({ "id": "c", "type": "comment", "z": "t\"><script>window.pwned=1</script>", "name": "javascript:alert(1)", "info": format!("${{{text}}} {{{{{text}}}}}"),
                "x": 200, "y": 200, "wires": [] }),
    ]
}

#[tokio::test]
async fn names_messages_and_tags_made_of_html_and_scripts_stay_texts() {
    let eve = "<img src=x onerror=window.pwned=1>";
    let gateway = Gateway::with(&(users() + &user(eve, r#"["*"]"#)));
    for text in ["one", "<svg onload=window.pwned=1>"] {
        let message = "%3Cimg src=x onerror=window.pwned=1%3E %3Cscript%3E";
        say(&gateway, "", eve, &[hostile(text)], message).await;
    }
    let token = gateway.sign_in(eve).await;
    let rev = gateway.flows(&token).await["rev"].clone();
    let tagged = gateway.post("/gateway/tags/v1.0").token(&token);
    let tagged = tagged.json(&json!({ "rev": rev })).send().await;
    assert_eq!(tagged.status, 200, "{}", tagged.text());
    play("console/hostile.mjs", &url(&gateway, ""), nothing).await;
}

#[tokio::test]
async fn its_files_need_no_token_are_compressed_and_kept_for_ever() {
    let gateway = Gateway::start();
    let moved = gateway.get("/gateway").send().await;
    assert_eq!((moved.status, moved.header("location")), (301, "gateway/"));
    let page = gateway.get("/gateway/").send().await;
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    assert_eq!(page.header("cache-control"), "no-cache");
    assert_eq!(page.header("x-frame-options"), "DENY");
    let policy = page.header("content-security-policy");
    assert!(
        policy.starts_with("default-src 'none';") && !policy.contains("unsafe"),
        "{policy}"
    );
    let known = gateway
        .get("/gateway/")
        .header("If-None-Match", page.header("etag"));
    assert_eq!(known.send().await.status, 304);

    let text = page.text();
    let path = text
        .split("src=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let plain = gateway.get(&format!("/gateway/{path}")).send().await;
    assert_eq!(
        plain.header("content-type"),
        "text/javascript; charset=utf-8"
    );
    assert_eq!(
        plain.header("cache-control"),
        "public, max-age=31536000, immutable"
    );
    assert_eq!(
        (plain.header("content-encoding"), plain.header("vary")),
        ("", "Accept-Encoding")
    );
    let brotli = gateway
        .get(&format!("/gateway/{path}"))
        .header("Accept-Encoding", "gzip, br");
    let brotli = brotli.send().await;
    assert_eq!(brotli.header("content-encoding"), "br");
    assert!(brotli.body.len() < plain.body.len() / 2);

    let other = path.replace("console/", "console/0");
    for path in [other.as_str(), "console/x/app.js", "console/"] {
        let status = gateway.get(&format!("/gateway/{path}")).send().await.status;
        assert!([401, 404].contains(&status), "{path}: {status}");
    }
    assert_eq!(gateway.post("/gateway/").send().await.status, 405);
}

#[tokio::test]
async fn disabled_it_is_not_there() {
    let modules = format!("{}/tests/node_modules", env!("CARGO_MANIFEST_DIR"));
    let editor = format!("[editor]\nmodules = \"{modules}\"\n");
    let logo = async |lines: &str| {
        let gateway = Gateway::with(&(lines.to_owned() + &editor));
        gateway.get("/theme").send().await.json()["header"]["url"].clone()
    };
    assert_eq!(logo("").await, "gateway/");
    assert_eq!(logo("[console]\nenabled = false\n").await, Json::Null);
    let gateway = Gateway::with("[console]\nenabled = false\n");
    assert_eq!(gateway.get("/gateway/").send().await.status, 404);
    let token = gateway.sign_in("admin").await;
    let history = gateway
        .get("/gateway/deployments")
        .token(&token)
        .send()
        .await;
    assert_eq!(history.status, 200);
}
