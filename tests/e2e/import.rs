//! `flowgate import`: a Node-RED's settings.js becomes the gateway.toml in front of it, and the
//! file does nothing on the way.

use crate::client::PASSWORD;
use crate::harness::{Gateway, hash, program};
use crate::node_red::{NodeRed, Release};
use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

/// Runs the command with this variable of the environment.
fn import(directory: &Path, arguments: &[&str], name: &str, value: &str) -> Output {
    let arguments = [&["import"], arguments].concat();
    let mut command = program(directory, &arguments);
    command.env(name, value);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The settings.js that Node-RED comes with, with these lines more.
fn default_settings(lines: &str) -> String {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/node_modules/node-red");
    let settings = fs::read_to_string(installed.join("settings.js")).unwrap();
    let begin = "module.exports = {";
    assert!(settings.contains(begin));
    settings.replacen(begin, &format!("{begin}\n{lines}\n"), 1)
}

#[tokio::test]
async fn users_of_a_node_red_sign_in_with_their_old_passwords_at_the_gateway_in_front_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let lines = format!(
        r#"uiHost: "127.0.0.1",
        credentialSecret: "a secret",
        adminAuth: {{
            type: "credentials",
            sessionExpiryTime: 3600,
            users: [
                {{ username: "boss", password: "{0}", permissions: "*" }},
                {{ username: "guest", password: "{0}", permissions: ["flows.read"] }},
            ],
        }},"#,
        hash(PASSWORD)
    );
    let file = directory.path().join("settings.js");
    fs::write(&file, default_settings(&lines)).unwrap();
    let port = testing::ports::free();
    let node_red = NodeRed::start_with_file(directory, port, Release::Four, "");

    let gateway_directory = tempfile::tempdir().unwrap();
    let arguments = [
        file.to_str().unwrap(),
        "--environment",
        "--output",
        "made.toml",
    ];
    let port = port.to_string();
    let imported = import(gateway_directory.path(), &arguments, "PORT", &port);
    let notices = text(&imported.stderr);
    assert_eq!(imported.status.code(), Some(0), "{notices}");
    assert!(
        notices
            .lines()
            .all(|line| line.starts_with("flowgate: import: ")),
        "{notices}"
    );
    assert!(
        notices.contains("adminAuth asks for a sign-in in Node-RED too"),
        "{notices}"
    );
    let made = fs::read_to_string(gateway_directory.path().join("made.toml")).unwrap();
    assert!(
        made.contains(&format!("url = \"http://{}\"", node_red.address)),
        "{made}"
    );
    assert!(made.contains("lifetime = \"3600s\""), "{made}");

    // As the notice says: Node-RED asks for a sign-in too.
    let account = format!("[upstream]\nuser = \"boss\"\npassword = \"{PASSWORD}\"\n");
    let gateway = Gateway::open(&made.replace("[upstream]\n", &account), gateway_directory);
    let token = gateway.sign_in("boss").await;
    let flows = gateway.get("/flows").token(&token).send().await;
    assert_eq!(flows.status, 200, "{}", flows.text());
    let guest = gateway.sign_in("guest").await;
    let refused = gateway
        .post("/flows")
        .token(&guest)
        .json(&serde_json::json!([]));
    assert_eq!(refused.send().await.status, 401);
    assert_eq!(
        gateway
            .sign_in_request("boss", "wrong", "*")
            .send()
            .await
            .status,
        400
    );

    // A second time it would replace what may have been changed since.
    let again = import(gateway.directory.path(), &arguments, "PORT", &port);
    assert_eq!(again.status.code(), Some(1));
    assert!(
        text(&again.stderr).contains("made.toml: File exists"),
        "{}",
        text(&again.stderr)
    );
    assert_eq!(
        fs::read_to_string(gateway.directory.path().join("made.toml")).unwrap(),
        made
    );
}

#[test]
fn roots_certificates_and_variables_are_carried_over_and_the_rest_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let settings = r#"
        const fs = require("fs");
        module.exports = {
            uiHost: "0.0.0.0",
            uiPort: process.env.PORT || 1881,
            httpAdminRoot: "/admin",
            httpNodeRoot: "/api",
            httpNodeAuth: { user: "device", pass: "$2b$08$x" },
            https: { key: fs.readFileSync("privkey.pem"), cert: fs.readFileSync("/etc/ssl/cert.pem") },
            httpNodeMiddleware: (req, res, next) => next(),
            adminAuth: {
                type: "credentials",
                users: [
                    { username: "ann", password: process.env.ANN_HASH, permissions: "flows.read,flows.write" },
                    { username: "eve", password: require("bcryptjs").hashSync("secret", 8), permissions: "*" },
                ],
                default: { permissions: "read" },
                tokens: (token) => null,
            },
        };
    "#;
    fs::write(directory.path().join("settings.js"), settings).unwrap();
    let imported = import(directory.path(), &["settings.js"], "PORT", "1999");
    let (made, notices) = (text(&imported.stdout), text(&imported.stderr));
    assert_eq!(imported.status.code(), Some(0), "{notices}");
    let key = directory.path().canonicalize().unwrap().join("privkey.pem");
    for line in [
        "url = \"https://127.0.0.1:1881\"",
        "admin_root = \"/admin\"",
        "path = \"/api\"",
        "pass_authorization = true",
        "cert = \"/etc/ssl/cert.pem\"",
        &format!("key = {key:?}"),
        "name = \"ann\"",
        "password_hash = \"${ANN_HASH}\"",
        "permissions = [\"flows.read\", \"flows.write\"]",
        "anonymous = [\"read\"]",
    ] {
        assert!(made.lines().any(|found| found == line), "{line}\n{made}");
    }
    assert!(!made.contains("eve") && !made.contains("secret"), "{made}");
    for notice in [
        "uiHost: \"127.0.0.1\"",
        "the user \"eve\" is not carried over: the password is no bcrypt hash, it is made by require(\"bcryptjs\")",
        "adminAuth.tokens is not carried over",
        "httpNodeMiddleware is not carried over",
        "the environment variable PORT",
        "the environment variable ANN_HASH",
        "adminAuth.default: clients that have not signed in",
    ] {
        assert!(notices.contains(notice), "{notice}\n{notices}");
    }
}

#[test]
fn a_settings_file_that_attacks_ends_with_a_sentence() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("hidden"), "a secret of this machine").unwrap();
    for (settings, words) in [
        ("for (;;) {}", "settings.js: it takes longer than 5 s"),
        (
            "const a = []; for (;;) a.push('x'.repeat(1000) + a.length);",
            "settings.js: ",
        ),
        (
            "module.exports = { httpRoot: require('fs').readFileSync('hidden') }",
            "",
        ),
        (
            "module.exports = { adminAuth: { type: 'credentials', users: [{ username: 'a\\nb\u{1b}[2J', password: 1 }] } }",
            "",
        ),
        (
            "require('child_process').execSync('touch made-by-settings')",
            "",
        ),
        (
            "import('child_process').then((c) => c.execSync('touch made-by-settings'))",
            "",
        ),
        ("module.exports = { uiHost: 'x\"\\n[auth]\\n#' }", ""),
        ("\u{0}", "settings.js: "),
    ] {
        fs::write(directory.path().join("settings.js"), settings).unwrap();
        let imported = import(directory.path(), &["settings.js"], "A", "b");
        let (made, notices) = (text(&imported.stdout), text(&imported.stderr));
        assert!(notices.contains(words), "{settings}: {notices}");
        assert!(imported.status.code().is_some(), "it ends by itself");
        assert!(
            words.is_empty() || (imported.status.code(), made.as_str()) == (Some(1), ""),
            "{made}"
        );
        assert!(
            !made.contains("a secret of") && !notices.contains("a secret of"),
            "{made}"
        );
        assert!(
            !notices.contains('\u{1b}') && !made.contains('\u{1b}'),
            "{notices:?} {made:?}"
        );
        assert!(!directory.path().join("made-by-settings").exists());
        assert_eq!(
            made.matches("\n[auth]\n").count(),
            made.matches("[auth]\n").count().min(1)
        );
    }
    let missing = import(directory.path(), &["nowhere.js"], "A", "b");
    assert!(
        text(&missing.stderr).contains("nowhere.js: No such file"),
        "{}",
        text(&missing.stderr)
    );
}
