//! What the stock editor loads from our own engine: the same as from a real Node-RED, and nothing
//! else of the disk.

use crate::client::Answer;
use crate::harness::{Gateway, program};
use crate::node_red::NodeRed;
use serde_json::{Value as Json, json};
use std::path::Path;

/// A gateway that serves the editor from the tests' npm packages.
fn gateway(modules: &str) -> Gateway {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join(modules);
    Gateway::with(&format!("[editor]\nmodules = \"{}\"", modules.display()))
}

/// The same to look at: the content, parsed if it is JSON, and its media type. That of scripts is
/// outdated in Node-RED.
fn seen(answer: &Answer) -> (u16, Json, String) {
    let kind = answer.header("content-type").split(';').next().unwrap();
    let kind = kind.replace("application/javascript", "text/javascript");
    let text = String::from_utf8_lossy(&answer.body).replace('\u{feff}', "");
    let content = serde_json::from_slice(&answer.body).unwrap_or_else(|_| text.into());
    (answer.status, content, kind)
}

#[tokio::test]
async fn the_editors_files_are_those_that_node_red_serves() {
    let red = NodeRed::open();
    let own = gateway("tests/node_modules");
    let token = own.sign_in("admin").await;
    let languages = [
        "en-US", "en", "de", "fr-CA", "ja", "zh-CN", "pt-BR", "xx", "../x",
    ];
    let words = languages.iter().flat_map(|language| {
        ["editor", "node-red", "jsonata", "infotips", "nope"]
            .map(|part| (format!("/locales/{part}?lng={language}"), "*/*"))
    });
    let others = [
        ("/theme", "*/*"),
        ("/favicon.ico", "*/*"),
        ("/red/red.min.js", "*/*"),
        ("/red/style.min.css", "*/*"),
        ("/red/about", "*/*"),
        ("/red/keymap.json", "*/*"),
        ("/vendor/monaco/dist/editor.js", "*/*"),
        (
            "/vendor/font-awesome/fonts/fontawesome-webfont.woff2",
            "*/*",
        ),
        ("/icons/node-red/inject.svg", "*/*"),
        ("/icons/node-red/none.svg", "*/*"),
        ("/icons", "*/*"),
        ("/debug/view/debug.js", "*/*"),
        ("/debug/view/debug-utils.js", "*/*"),
        ("/plugins", "application/json"),
        ("/plugins", "text/html"),
        ("/plugins/messages?lng=de", "*/*"),
        ("/nodes/messages?lng=de", "*/*"),
        ("/nodes", "application/json"),
        ("/nodes", "text/html"),
        ("/nodes/node-red", "application/json"),
        ("/nodes/node-red/inject", "application/json"),
        ("/nodes/node-red/inject", "text/html"),
        ("/settings/user", "*/*"),
        ("/library/local/flows", "*/*"),
        ("/library/local/functions/", "*/*"),
        ("/library/examples/flows", "*/*"),
        ("/library/examples/flows/node-red", "*/*"),
        ("/library/examples/flows/node-red/common/link", "*/*"),
        (
            "/library/examples/flows/node-red/common/link/03%20-%20Link%20call",
            "*/*",
        ),
        ("/udp-ports/x", "*/*"),
    ];
    let others = others.map(|(path, accept)| (path.to_owned(), accept));
    for (path, accept) in words.chain(others) {
        let ask = |request: crate::client::Request| {
            request
                .header("Accept", accept)
                .header("Accept-Language", "de,en;q=0.5")
        };
        let theirs = ask(red.request("GET", &path)).send().await;
        let ours = ask(own.get(&path)).token(&token).send().await;
        let (theirs, mut ours) = (seen(&theirs), seen(&ours));
        // The logo leads to the console.
        if let Some(header) = ours.1.pointer_mut("/header") {
            assert_eq!(header["url"].take(), "gateway/");
            header.as_object_mut().unwrap().remove("url");
        }
        assert!(
            theirs == ours,
            "{path} {accept}: {theirs:.300?}\n{ours:.300?}"
        );
    }
}

/// The editor opens it by its address, so no token comes with it.
#[tokio::test]
async fn the_window_of_debug_messages_is_served_with_the_files_that_it_names() {
    let gateway = gateway("tests/node_modules");
    let page = gateway.get("/debug/view/view.html").send().await;
    assert_eq!(
        (page.status, page.header("content-type")),
        (200, "text/html; charset=utf-8")
    );
    let page = page.text();
    let links: Vec<&str> = ["src=\"", "href=\""]
        .iter()
        .flat_map(|kind| page.split(kind).skip(1))
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert!(links.len() >= 6, "{links:?}");
    for link in links {
        let path = match link.strip_prefix("../../") {
            Some(path) => format!("/{path}"),
            None => format!("/debug/view/{link}"),
        };
        let file = gateway.get(&path).send().await;
        assert_eq!(file.status, 200, "{link}");
    }
}

#[tokio::test]
async fn both_versions_of_the_editor_are_served_with_what_their_pages_name() {
    for (modules, version) in [
        ("tests/node_modules", "4.1.15"),
        ("tests/node_modules/node-red-5/node_modules", "5.0.7"),
    ] {
        let gateway = gateway(modules);
        let page = gateway.get("/").send().await;
        assert_eq!(
            (page.status, page.header("content-type")),
            (200, "text/html; charset=utf-8")
        );
        let page = page.text();
        assert!(!page.contains("{{"), "{page}");
        let links = page
            .split(['"'])
            .filter(|link| link.contains("?v=") || link.ends_with("favicon.ico"));
        let links: Vec<&str> = links.collect();
        assert!(links.len() >= 8, "{links:?}");
        for link in links {
            assert_eq!(
                gateway.get(&format!("/{link}")).send().await.status,
                200,
                "{link}"
            );
        }
        let theme = gateway.get("/theme").send().await.json();
        let logo = theme["header"]["image"].as_str().unwrap().to_owned();
        assert_eq!(
            gateway.get(&format!("/{logo}")).send().await.status,
            200,
            "{logo}"
        );
        let token = gateway.sign_in("admin").await;
        let settings = gateway.get("/settings").token(&token).send().await.json();
        assert_eq!(settings["version"], version);
        let palette = gateway
            .get("/nodes")
            .token(&token)
            .header("Accept", "application/json");
        let palette = palette.send().await.json();
        let types: Vec<&str> = palette
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|set| set["types"].as_array().unwrap())
            .map(|kind| kind.as_str().unwrap())
            .collect();
        let mut types = types;
        types.sort_unstable();
        let mut own: Vec<&str> = engine::nodes::types().collect();
        own.sort_unstable();
        assert_eq!(types, own, "exactly those of the engine");
    }
}

#[tokio::test]
async fn files_are_cached_until_they_change() {
    let gateway = gateway("tests/node_modules");
    let path = "/red/style.min.css";
    let answer = gateway.get(path).send().await;
    assert_eq!(answer.header("cache-control"), "public, max-age=0");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    let (tag, date) = (answer.header("etag"), answer.header("last-modified"));
    let asked = |name: &str, value: &str| gateway.get(path).header(name, value).send();
    for (name, value) in [
        ("If-None-Match", tag.to_owned()),
        (
            "If-None-Match",
            format!("\"x\", {}", tag.trim_start_matches("W/")),
        ),
        ("If-None-Match", "*".to_owned()),
        ("If-Modified-Since", date.to_owned()),
    ] {
        let same = asked(name, &value).await;
        assert_eq!(
            (same.status, same.body.len(), same.header("etag")),
            (304, 0, tag),
            "{value}"
        );
    }
    assert_eq!(asked("If-None-Match", "\"x\"").await.status, 200);
    let both = gateway
        .get(path)
        .header("If-None-Match", "\"x\"")
        .header("If-Modified-Since", date);
    assert_eq!(
        both.send().await.status,
        200,
        "a tag counts more than a date"
    );
    let head = gateway.request("HEAD", path).send().await;
    let length = answer.body.len().to_string();
    assert_eq!(
        (head.status, head.header("content-length"), head.body.len()),
        (200, length.as_str(), 0)
    );
    assert_eq!(gateway.get(path).http2().send().await.body, answer.body);
}

#[tokio::test]
async fn nothing_else_of_the_disk_is_served() {
    let gateway = gateway("tests/node_modules");
    for path in [
        "/red",
        "/red/",
        "/red/nope.js",
        "/red/images",
        "/package.json",
        "/red/package.json",
        "/vendor/package.json",
        "/debug/view/lib",
        "/icons/node-red/inject.svg/x",
        "/theme/x.css",
        "/resources/node-red/x",
    ] {
        let status = gateway.get(path).send().await.status;
        assert!([404, 401, 200].contains(&status), "{path}");
        let fell_back = path.starts_with("/icons");
        assert_eq!(status == 200, fell_back, "{path}: {status}");
    }
    for path in [
        "/red/../package.json",
        "/red/%2e%2e/package.json",
        "/red/..%2fpackage.json",
        "/red//red.js",
    ] {
        assert_eq!(gateway.get(path).send().await.status, 400, "{path}");
    }
    assert_eq!(gateway.post("/red/red.min.js").send().await.status, 405);
}

#[tokio::test]
async fn without_modules_the_page_explains_how_to_install_them() {
    let gateway = Gateway::start();
    let page = gateway.get("/").send().await;
    assert_eq!(
        (page.status, page.header("content-type")),
        (200, "text/html; charset=utf-8")
    );
    assert!(page.text().contains("<pre>flowgate editor install</pre>"));
    assert_eq!(gateway.get("/red/red.min.js").send().await.status, 404);
}

#[tokio::test]
async fn missing_modules_are_reported_at_the_start_and_by_check() {
    let directory = tempfile::tempdir().unwrap();
    let text = crate::harness::config_text("[editor]\nmodules = \"nowhere\"");
    std::fs::write(directory.path().join("gateway.toml"), text).unwrap();
    for arguments in [&["run"][..], &["check"]] {
        let (code, output) = crate::harness::run_command(program(directory.path(), arguments));
        assert_eq!(code, Some(1), "{output}");
        assert!(
            output.contains("editor.modules") && output.contains("flowgate editor install"),
            "{output}"
        );
    }
}

#[tokio::test]
async fn settings_are_each_users_own_and_survive_a_restart() {
    let gateway = gateway("tests/node_modules");
    let token = gateway.sign_in("admin").await;
    let save = |body: Json| {
        gateway
            .post("/settings/user")
            .token(&token)
            .json(&body)
            .send()
    };
    assert_eq!(
        save(json!({ "editor": { "view": { "grid": 20 } }, "menu": true }))
            .await
            .status,
        204
    );
    assert_eq!(
        save(json!({ "editor": { "view": { "grid": 40 } }, "menu": null }))
            .await
            .status,
        204
    );
    assert_eq!(save(json!([])).await.status, 400);
    assert_eq!(
        save(json!({ "x": "x".repeat(300_000) })).await.code(),
        "settings_too_large"
    );
    let gateway = gateway.restart().await;
    let read = |token: String| {
        let request = gateway.get("/settings/user").token(&token);
        async move { request.send().await.json() }
    };
    assert_eq!(
        read(token).await,
        json!({ "editor": { "view": { "grid": 40 } } })
    );
    assert_eq!(read(gateway.sign_in("reader").await).await, json!({}));
}

#[tokio::test]
async fn the_library_is_below_the_data_directory_and_nowhere_else() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    let save = |path: &str, body: Json| {
        let path = format!("/library/local/{path}");
        gateway.post(&path).token(&token).json(&body).send()
    };
    let read = |path: &str| {
        gateway
            .get(&format!("/library/local/{path}"))
            .token(&token)
            .send()
    };
    let function = json!({ "name": "f", "outputs": 1, "text": "return msg;" });
    assert_eq!(save("functions/My%20own/f.js", function).await.status, 204);
    assert_eq!(
        save("flows/My%20own/flow", json!([{ "id": "a" }]))
            .await
            .status,
        204
    );
    assert_eq!(read("functions/My%20own/f.js").await.text(), "return msg;");
    assert_eq!(read("functions").await.json(), json!(["My own"]));
    let listed = json!([{ "name": "f", "outputs": "1", "fn": "f.js" }]);
    assert_eq!(read("functions/My%20own/").await.json(), listed);
    assert_eq!(
        read("flows/My%20own").await.json(),
        json!([{ "fn": "flow.json" }])
    );
    assert_eq!(
        read("flows/My%20own/flow").await.json(),
        json!([{ "id": "a" }])
    );
    assert!(gateway.data("lib/flows/My own/flow.json").exists());
    for (path, status) in [
        ("flows/.hidden", 403),
        ("flows/a/.b", 403),
        ("flows/../x", 400),
        ("others/x", 400),
        ("flows", 403),
        ("functions/", 403),
        ("functions/My%20own", 409),
        ("functions/My%20own/f.js/deeper", 409),
    ] {
        let body = if path.starts_with("functions") {
            json!({ "text": "" })
        } else {
            json!([])
        };
        assert_eq!(save(path, body).await.status, status, "{path}");
    }
    assert_eq!(
        save("functions/x", json!({ "name": "no text" }))
            .await
            .status,
        400
    );
    let elsewhere = gateway
        .post("/library/examples/flows/x")
        .token(&token)
        .json(&json!([]));
    assert_eq!(elsewhere.send().await.code(), "unknown_library");
}
