//! `GET /gateway/settings`: what `gateway.toml` says and what a reload would change, without its
//! secrets.

use crate::client::{Client, PASSWORD};
use crate::harness::{Process, config_text, hash};
use serde_json::{Value as Json, json};
use std::fs;

async fn settings(client: &Client, token: &str) -> Json {
    let answer = client.get("/gateway/settings").token(token).send().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("cache-control"), "no-store");
    answer.json()
}

fn find<'j>(list: &'j Json, key: &str) -> &'j Json {
    let mut all = list.as_array().unwrap().iter();
    let found = all.find(|one| one["key"] == key);
    found.unwrap_or_else(|| panic!("no {key} in {list}"))
}

#[tokio::test]
async fn what_a_reload_would_change_is_shown_before_it_and_nothing_after_it() {
    let directory = tempfile::tempdir().unwrap();
    let lines = |lifetime: &str, body: &str| {
        format!(
            "[server]\nwatch = \"off\"\n[auth]\nlifetime = \"{lifetime}\"\n[limits]\nbody = \"{body}\"\n"
        )
    };
    let process = Process::start(&lines("1h", "1MiB"), directory.path());
    let admin = process.sign_in("admin").await;
    let shown = settings(&process, &admin).await;
    assert_eq!(shown["file"], "gateway.toml");
    let body = find(&shown["settings"], "limits.body");
    assert_eq!(
        (&body["value"], &body["default"], &body["differs"]),
        (&json!("1MiB"), &json!("5MiB"), &json!(true))
    );
    let nothing = json!({ "error": null, "changes": [], "warnings": [] });
    assert_eq!(shown["reload"]["changes"], nothing["changes"]);

    let file = directory.path().join("gateway.toml");
    let before = fs::read_to_string(&file).unwrap();
    let after = before
        .replace("lifetime = \"1h\"", "lifetime = \"2h\"")
        .replace("body = \"1MiB\"", "body = \"2MiB\"");
    fs::write(&file, &after).unwrap();
    let changes = settings(&process, &admin).await["reload"]["changes"].take();
    assert_eq!(changes.as_array().unwrap().len(), 2, "{changes}");
    let lifetime = find(&changes, "auth.lifetime");
    assert_eq!(
        (&lifetime["before"], &lifetime["after"], &lifetime["takes"]),
        (&json!("1h"), &json!("2h"), &json!("reload"))
    );
    assert_eq!(find(&changes, "limits.body")["takes"], "restart");

    // After it, only what needs a restart is left.
    process.signal("HUP");
    process.wait_for_log("reloaded users");
    let shown = settings(&process, &admin).await;
    assert_eq!(find(&shown["settings"], "auth.lifetime")["value"], "2h");
    assert_eq!(find(&shown["settings"], "limits.body")["value"], "1MiB");
    let changes = &shown["reload"]["changes"];
    assert_eq!(changes.as_array().unwrap().len(), 1, "{changes}");

    // A mistake is reported as `flowgate check` does, and changes nothing.
    fs::write(&file, after.replace("\"2MiB\"", "\"2MB\"")).unwrap();
    let reload = settings(&process, &admin).await["reload"].take();
    let error = reload["error"].as_str().unwrap();
    assert!(
        error.starts_with("gateway.toml:") && error.contains("limits.body: expected a size"),
        "{error}"
    );
    assert_eq!(reload["changes"], json!([]));
    let missing = "[[tls.certificate]]\ncert = \"missing.pem\"\nkey = \"missing.key\"\n";
    fs::write(&file, after + missing).unwrap();
    let reload = settings(&process, &admin).await["reload"].take();
    let error = reload["error"].as_str().unwrap();
    assert!(error.contains("missing.pem"), "{error}");
}

/// A configuration in which every setting that can hold a secret has one, all with this in it.
fn with_secrets(marker: &str) -> String {
    let hash = hash(PASSWORD);
    let other = hash.replace("$2b$", "$2y$");
    format!(
        "[[auth.user]]
name = \"admin\"
password_hash = \"{hash}\"
permissions = [\"*\"]
[[auth.user]]
name = \"ann\"
password_hash = \"{other}\"
totp_secret = \"GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ\"
permissions = []
[storage]
credential_secret = \"{marker}-credential-secret\"
[[audit.sink]]
type = \"webhook\"
url = \"https://127.0.0.1:9/{marker}?{marker}\"
secret = \"{marker}-webhook\"
[[upstream]]
url = \"http://127.0.0.1:9\"
user = \"gateway\"
password = \"{marker}-upstream\"
"
    )
}

#[tokio::test]
async fn no_secret_is_shown_and_that_one_differs_is() {
    let directory = tempfile::tempdir().unwrap();
    let marker = "a-secret-that-nothing-shows";
    let lines = "[server]\nwatch = \"off\"\n".to_owned() + &with_secrets(marker);
    let process = Process::start(&lines, directory.path());
    let admin = process.sign_in("admin").await;
    let file = directory.path().join("gateway.toml");
    let text = config_text(&lines).replace("-upstream", "-other");
    fs::write(&file, text).unwrap();
    let shown = settings(&process, &admin).await;
    let all = shown.to_string();
    for secret in [marker, "$2b$", "$2y$", "GEZDGNBVGY3TQOJQ"] {
        assert!(!all.contains(secret), "{secret}: {all}");
    }
    let hash = find(&shown["settings"], "auth.user.ann.password_hash");
    assert_eq!(
        (&hash["value"], &hash["secret"]),
        (&Json::Null, &json!(true))
    );
    let sink = find(&shown["settings"], "audit.sink.webhook.url");
    assert_eq!(sink["value"], "https://127.0.0.1:9/…");
    let changes = shown["reload"]["changes"].as_array().unwrap();
    let [password] = changes.as_slice() else {
        panic!("{changes:?}");
    };
    assert_eq!(
        (&password["before"], &password["after"], &password["secret"]),
        (&Json::Null, &Json::Null, &json!(true))
    );
    assert!(
        password["key"].as_str().unwrap().ends_with(".password"),
        "{password}"
    );
}
