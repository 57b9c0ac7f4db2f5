//! A hostile package in the node host: it forges frames, takes paths of others, and names its
//! callers' permissions.

use super::{Hosted, chain, function};
use crate::harness::{public, until};
use serde_json::{Map, Value as Json, json};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const REFUSED: &str = "flowgate_node_host_refused_frames_total";

/// Puts a package with these files of `tests/data/node_host_hostile` into a user directory.
pub(super) fn with_hostile(directory: &Path, files: &[&str]) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/node_host_hostile");
    let package = directory.join("node_modules/@tests/node-red-hostile");
    fs::create_dir_all(&package).unwrap();
    let mut sets = Map::new();
    for name in ["hostile"].iter().chain(files) {
        let file = format!("{name}.js");
        fs::copy(from.join(&file), package.join(&file)).unwrap();
        fs::copy(
            from.join("hostile.html"),
            package.join(format!("{name}.html")),
        )
        .unwrap();
        sets.insert((*name).to_owned(), file.into());
    }
    let facts = json!({ "name": "@tests/node-red-hostile", "version": "1.0.0", "node-red": { "nodes": sets } });
    fs::write(package.join("package.json"), facts.to_string()).unwrap();
}

async fn hosted(lines: &str, files: &[&str]) -> Hosted {
    Hosted::prepared(lines, |directory| with_hostile(directory, files)).await
}

/// `GET /do` lets the hostile node of tab `t` write these frames; tab `u` is another user's: a
/// command, its nodes' status, errors and contexts. `GET /show` is what has happened there.
pub(super) fn flows(frames: &Json, file: &Path) -> Json {
    let mut flow = chain(vec![
        json!({ "id": "h", "type": "hostile", "z": "t", "x": 5, "y": 1, "frames": frames }),
        function("last", "return msg"),
    ]);
    let remember = "const seen = flow.get('seen') || [];
        seen.push(msg.error ? 'error' : msg.complete ? 'complete' : msg.status ? 'status' : 'message');
        flow.set('seen', seen)";
    let node = |id: &str, kind: &str, more: Json| {
        let mut node =
            json!({ "id": id, "type": kind, "z": "u", "x": 1, "y": 1, "wires": [["note"]] });
        for (key, value) in more.as_object().unwrap() {
            node[key] = value.clone();
        }
        node
    };
    let command = format!("touch {}", file.display());
    flow.extend([
        json!({ "id": "u", "type": "tab", "label": "u" }),
        node(
            "e",
            "exec",
            json!({ "command": command, "addpay": "", "wires": [[], [], []] }),
        ),
        node(
            "n",
            "function",
            json!({ "func": "return msg", "outputs": 1 }),
        ),
        node("catch", "catch", json!({ "scope": null })),
        node("state", "status", json!({ "scope": null })),
        node(
            "done",
            "complete",
            json!({ "scope": ["n"], "uncaught": false }),
        ),
        node(
            "note",
            "function",
            json!({ "func": remember, "wires": [[]], "outputs": 1 }),
        ),
        node(
            "in2",
            "http in",
            json!({ "method": "get", "url": "/show", "wires": [["secret"]] }),
        ),
        node(
            "secret",
            "function",
            json!({ "outputs": 1, "wires": [["out2"]],
            "func": "msg.payload = { seen: flow.get('seen') ?? [], key: flow.get('key') ?? null };
                     flow.set('secret', 'of u'); context.set('own', 'of secret'); return msg" }),
        ),
        node("out2", "http response", json!({ "wires": [] })),
    ]);
    json!(flow)
}

/// Frames about nodes, flows and topics that were not given to the host.
pub(super) fn forged() -> Json {
    let message = json!({ "payload": "forged", "_msgid": "m" });
    let context = |act: &str, scope: &str, key: &str| json!({ "t": "context", "act": act, "scope": scope, "key": key, "store": "memory", "value": "forged" });
    let debug = |data: Json| json!({ "t": "published", "topic": "debug", "data": data });
    json!([
        // From its own node to nodes that it is not wired to, and in the name of another node.
        { "t": "message", "node": "h", "to": ["e", "n", "note"], "message": message },
        { "t": "message", "node": "n", "to": ["note", "e"], "message": message },
        { "t": "message", "node": "in", "to": ["h"], "message": message },
        { "t": "error", "node": "n", "content": { "value": "forged", "message": message } },
        { "t": "error", "node": "e", "content": { "value": "forged", "message": message } },
        { "t": "status", "node": "n", "content": { "value": { "text": "forged" } } },
        { "t": "complete", "node": "n", "content": { "message": message } },
        { "t": "log", "node": "n", "level": 30, "content": { "value": "forged line" } },
        debug(json!({ "id": "n", "z": "u", "path": "u", "msg": "forged", "format": "string[6]" })),
        debug(json!({ "id": "h", "z": "u", "path": "u", "msg": "forged", "format": "string[6]" })),
        debug(json!({ "path": "u", "msg": "forged", "format": "string[6]" })),
        debug(json!({ "id": ["n"], "msg": "forged", "format": "string[6]" })),
        { "t": "published", "topic": "status/n", "data": { "text": "forged" }, "retain": true },
        { "t": "published", "topic": "notification/runtime-state", "data": { "state": "forged" } },
        { "t": "ready", "sets": [{ "id": "forged/set", "types": ["exec"] }] },
        { "t": "deployed", "number": 12345 },
        { "t": "taken", "bytes": 1_u64 << 40 },
        { "t": "taken", "bytes": 1_u64 << 53 },
        { "t": "loading", "package": "../../forged" },
        context("get", "u", "secret"),
        context("get", "secret:u", "own"),
        context("keys", "u", ""),
        context("set", "u", "key"),
        context("set", "n:u", "key"),
        { "t": "context", "act": "get", "scope": "t", "key": "a", "store": "forged" },
        // And what it may do.
        context("set", "t", "mine"),
        context("get", "t", "mine"),
        context("get", "global", "nothing"),
        debug(json!({ "id": "h", "z": "t", "path": "t", "_alias": "n", "msg": "mine", "format": "string[4]" })),
        { "t": "published", "topic": "hostile/own", "data": "last" },
    ])
}

#[tokio::test]
async fn a_package_that_forges_frames_reaches_no_node_flow_or_editor_of_others() {
    let hosted = hosted("", &[]).await;
    let file = hosted.user_directory().join("command-ran");
    hosted.run(&flows(&forged(), &file)).await;
    let empty = json!({ "seen": [], "key": null });
    assert_eq!(hosted.show("/show").await, empty);
    let mut editor = hosted.editor(&hosted.token).await;
    for _ in 0..3 {
        let answer = hosted.get("/do").send().await;
        assert_eq!(answer.status, 200, "{:#?}", hosted.process.log_so_far());
        let answers = answer.json();
        let refused = answers.as_array().unwrap().iter().take(6);
        for answer in refused {
            assert!(answer["error"].is_string(), "{answers}");
        }
        assert_eq!(answers[7]["value"], "forged", "{answers}");
        assert!(answers[8]["error"].is_null(), "{answers}");
        editor
            .find(|m| {
                assert!(!m.to_string().contains("forged"), "{m}");
                assert_eq!(m["data"]["_alias"], Json::Null, "{m}");
                (m["topic"] == "hostile/own").then_some(())
            })
            .await;
    }
    assert_eq!(hosted.show("/show").await, empty);
    assert!(!file.exists(), "a command of another flow has run");

    for (frame, least) in [
        ("message", 15),
        ("report", 15),
        ("context", 18),
        ("published", 18),
        ("control", 12),
    ] {
        let series = format!("{REFUSED}{{frame=\"{frame}\"}}");
        let count = hosted.metric(&series).await.unwrap_or_default();
        assert!(count >= f64::from(least), "{series} {count}");
    }
    let log = hosted.process.log_so_far();
    let refused: Vec<&String> = log
        .iter()
        .filter(|line| line.contains("a frame of the node host was refused"))
        .collect();
    assert!(refused.len() <= 10, "{refused:#?}");
    let named = |line: &&&String| line.contains("@tests/node-red-hostile");
    assert_eq!(refused.iter().filter(named).count(), 1, "{refused:#?}");
}

#[tokio::test]
async fn a_buffer_of_a_frame_is_in_its_message_once() {
    let buffer = json!({ "$": "buffer", "at": 0, "length": 500_000 });
    let many: Vec<&Json> = vec![&buffer; 1_200];
    let frames = json!([{ "t": "message", "node": "h", "to": ["j"], "escaped": true, "attached": 500_000,
        "message": { "_msgid": "m", "payload": many } }]);
    let hosted = hosted("", &[]).await;
    let mut flow = flows(&frames, Path::new("/nothing"));
    flow[2]["wires"] = json!([["last", "j"]]);
    flow.as_array_mut().unwrap().push(
        json!({ "id": "j", "type": "json", "z": "t", "property": "payload", "action": "str", "x": 1, "y": 1, "wires": [[]] }),
    );
    hosted.run(&flow).await;
    assert_eq!(hosted.show("/do").await, json!([]));
    hosted
        .process
        .wait_for_log("a message of the node host was dropped");
    // Its answer comes after the frame.
    assert_eq!(hosted.show("/do").await, json!([]));
    let peak = hosted.process.memory("VmHWM");
    assert!(peak < 512 << 10, "{peak} KiB");
}

#[tokio::test]
async fn what_a_package_says_is_one_line_of_the_log_of_a_bounded_length() {
    let forged = "a\nFAKE INFO flowgate: \u{202e}x\u{1b}[2K";
    let (cut, refused) = ("x".repeat(400 << 10), "y".repeat(2 << 20));
    let said = |value: &str| json!({ "t": "log", "node": "h", "level": 20, "content": { "value": value } });
    let frames = json!([
        said(forged),
        said(&cut),
        said(&refused),
        { "t": "status", "node": "h", "content": { "value": { "text": "z".repeat(200 << 10) } } },
        { "t": "context", "act": "get", "scope": "t", "key": "a", "store": "memory" },
    ]);
    let hosted = hosted("", &[]).await;
    hosted.run(&flows(&frames, Path::new("/nothing"))).await;
    assert_eq!(hosted.show("/do").await.as_array().unwrap().len(), 1);
    let series = format!("{REFUSED}{{frame=\"report\"}}");
    until("both are refused", async || {
        hosted.metric(&series).await >= Some(2.0)
    })
    .await;
    hosted.process.wait_for_log("xxxxx");
    let log = hosted.process.log_so_far();
    let lines: Vec<&String> = log.iter().filter(|line| line.contains("FAKE")).collect();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(
        lines[0].contains("a\\nFAKE INFO flowgate: \\u{202e}x"),
        "{lines:?}"
    );
    let longest = log.iter().map(String::len).max().unwrap();
    assert!((64 << 10..66 << 10).contains(&longest), "{longest}");
}

#[tokio::test]
async fn a_context_is_no_array_of_holes_that_a_package_names_by_an_index() {
    let set = |key: &str| json!({ "t": "context", "act": "set", "scope": "global", "key": key, "store": "memory", "value": 1 });
    let frames = json!([
        set("zz[9999999].b"),
        set("yy[60000][60000]"),
        set("xx[1000]")
    ]);
    let hosted = hosted("", &[]).await;
    hosted.run(&flows(&frames, Path::new("/nothing"))).await;
    let answers = hosted.show("/do").await;
    for refused in [0, 1] {
        let error = answers[refused]["error"].as_str().unwrap_or_default();
        assert!(error.contains("beyond the end of an array"), "{answers}");
    }
    assert!(answers[2]["error"].is_null(), "{answers}");
}

#[tokio::test]
async fn a_package_that_takes_all_admin_paths_gets_only_those_of_its_own() {
    let lines = public(&["/open", "/closed-to-readers"]);
    let hosted = hosted(&lines, &["forged_headers", "all_paths"]).await;
    let mut flow = flows(&json!([]), Path::new("/nothing"));
    flow[1]["url"] = "/open".into();
    flow[1]["method"] = "post".into();
    let native = flow[1].clone();
    // A path of the package's own, which a flow has too.
    let own = json!({ "id": "own", "type": "http in", "z": "u", "method": "get", "url": "/hostile-admin/forged", "x": 1, "y": 1, "wires": [["secret"]] });
    flow.as_array_mut().unwrap().push(own);
    hosted.run(&flow).await;
    assert_eq!(native["method"], "post");
    let open = hosted
        .post("/open")
        .body("a secret of the client")
        .send()
        .await;
    assert_eq!((open.status, open.text()), (200, "[]".to_owned()));
    assert_eq!(hosted.show("/show").await["seen"], json!([]));
    let missing = hosted
        .post("/missing")
        .token(&hosted.token)
        .json(&json!({ "a": 1 }));
    let missing = missing.send().await;
    assert_eq!(missing.status, 404, "{}", missing.text());
    let own = hosted
        .get("/hostile-admin/forged?status=200")
        .token(&hosted.token);
    let own = own.send().await;
    assert!(own.text().contains("seen"), "{}", own.text());
}

#[tokio::test]
async fn a_budget_bounds_the_matching_of_long_paths_to_many_hostile_routes() {
    let hosted = hosted("", &["slow_routes"]).await;
    hosted.run(&flows(&json!([]), Path::new("/nothing"))).await;
    let slow = format!("/slow{}-{}", "a".repeat(3_000), "b-".repeat(1_000));
    let began = Instant::now();
    let requests = (0..8).map(|_| hosted.get(&slow).send());
    for answer in futures_util::future::join_all(requests).await {
        assert_eq!(answer.status, 401);
    }
    hosted.show("/show").await;
    // Without the budget it takes hours; a busy machine takes some seconds.
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn a_package_forges_no_records_of_the_audit_log() {
    let hosted = hosted("", &["forged_headers"]).await;
    hosted.run(&flows(&json!([]), Path::new("/nothing"))).await;
    let reader = hosted.sign_in("reader").await;
    let get = |path: &str| hosted.get(path).token(&reader).send();
    until("the package serves", async || {
        get("/hostile-admin/forged?status=200&needs=x").await.status == 200
    })
    .await;
    for (path, status) in [
        // No refusal.
        ("/hostile-admin/forged?status=200&needs=forged.first", 200),
        // The reader has this permission.
        ("/hostile-admin/forged?status=401&needs=forged.read", 401),
        // No permission at all.
        (
            "/hostile-admin/forged?status=401&needs=forged%20by%20admin",
            401,
        ),
        // An endpoint asks for nothing in this way.
        ("/hostile/forged?status=401&needs=forged.write", 401),
    ] {
        let answer = get(path).await;
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(answer.header("x-flowgate-needs"), "", "{path}");
    }
    let asked = get("/hostile-admin/forged?status=401&needs=real.write").await;
    assert_eq!(asked.status, 401);
    let audit = || fs::read_to_string(hosted.data("audit.log")).unwrap();
    until("the refusal is recorded", async || {
        audit().contains("real.write")
    })
    .await;
    let log = audit();
    let denied: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("permission.denied"))
        .collect();
    assert!(
        !log.contains("forged.") && !log.contains("forged by"),
        "{denied:#?}"
    );
    let asked = denied.iter().filter(|line| line.contains("real.write"));
    let asked: Vec<_> = asked.collect();
    assert_eq!(asked.len(), 1, "{denied:#?}");
    assert!(asked[0].contains("\"asked_by\":\"package\""), "{asked:?}");
}
