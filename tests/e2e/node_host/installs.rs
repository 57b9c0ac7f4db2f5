//! Packages that users install from the palette, with a real npm and a registry of the tests.

use super::registry::{Package, Registry, STUCK, apart};
use super::{Hosted, chain, function};
use crate::admin_cli::{Machine, stderr, stdout};
use crate::client::{Answer, PASSWORD};
use crate::harness::{hash, until};
use serde_json::{Value as Json, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

pub const FIRST: &str = "node-red-contrib-first";

/// A gateway whose users may install these packages from a registry.
pub async fn installing(registry: &Registry, allow: &str, lines: &str) -> Hosted {
    let lines = format!(
        "[engine.node_host.install]\nallow = {allow}\nregistry = \"{}\"\n{lines}\n",
        registry.address
    );
    Hosted::prepared(&lines, apart).await
}

impl Hosted {
    pub async fn install(&self, body: &Json) -> Answer {
        self.post("/nodes")
            .token(&self.token)
            .json(body)
            .send()
            .await
    }

    pub async fn install_one(&self, name: &str) -> Answer {
        self.install(&json!({ "module": name })).await
    }

    pub async fn uninstall(&self, name: &str) -> Answer {
        let path = format!("/nodes/{name}");
        self.request("DELETE", &path)
            .token(&self.token)
            .send()
            .await
    }

    pub async fn switch(&self, path: &str, enabled: bool) -> Answer {
        let request = self.request("PUT", path).token(&self.token);
        request.json(&json!({ "enabled": enabled })).send().await
    }

    pub async fn nodes(&self, path: &str) -> Answer {
        let request = self.get(path).token(&self.token);
        request.header("Accept", "application/json").send().await
    }

    /// The records of an event, once there are that many.
    pub async fn audited(&self, event: &str, count: usize) -> Vec<Json> {
        until(event, async || self.recorded(event).len() >= count).await;
        let records = self.recorded(event);
        assert_eq!(records.len(), count, "{records:?}");
        records
    }

    fn recorded(&self, event: &str) -> Vec<Json> {
        let text = fs::read_to_string(self.data("audit.log")).unwrap();
        let records = text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        let records = records.map(|line| serde_json::from_str::<Json>(line).unwrap());
        records.filter(|record| record["event"] == event).collect()
    }

    /// Everything that npm changes, with its content.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let mut files = Vec::new();
        let mut left = vec![self.user_directory()];
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                // The cache and the log of npm.
                if path.ends_with(".npm") || path.ends_with("nodes") {
                    continue;
                }
                if path.is_dir() {
                    left.push(path);
                } else {
                    files.push((path.display().to_string(), fs::read(path).unwrap()));
                }
            }
        }
        files.sort();
        files
    }
}

/// `GET /do` shows what the package's node sends; `GET /show` counts in a native node.
fn flows(kind: &str) -> Json {
    let node = json!({ "id": "a", "type": kind, "z": "t", "x": 5, "y": 1 });
    let mut flow = chain(vec![node]);
    flow.extend(counter());
    json!(flow)
}

fn counter() -> Vec<Json> {
    let count =
        "const n = (context.get('n') || 0) + 1; context.set('n', n); msg.payload = [n]; return msg";
    let mut counter = function("count", count);
    (counter["z"], counter["wires"]) = (json!("n"), json!([["shown"]]));
    vec![
        json!({ "id": "n", "type": "tab", "label": "n" }),
        json!({ "id": "show", "type": "http in", "z": "n", "method": "get", "url": "/show", "x": 1, "y": 1, "wires": [["count"]] }),
        counter,
        json!({ "id": "shown", "type": "http response", "z": "n", "x": 9, "y": 1, "wires": [] }),
    ]
}

/// A package whose scripts write a file.
fn with_scripts(name: &'static str, trace: &std::path::Path) -> Package {
    let script = format!(
        "node -e \"require('fs').writeFileSync('{}', 'x')\"",
        trace.display()
    );
    Package {
        facts: json!({ "scripts": { "preinstall": script, "install": script, "postinstall": script, "prepare": script } }),
        ..Package::new(name, "1.0.0")
    }
}

#[tokio::test]
async fn a_package_is_installed_updated_and_removed_while_native_flows_run() {
    let registry = Registry::start().await;
    let hosted = installing(&registry, r#"["node-red-contrib-*"]"#, "").await;
    let trace = hosted.user_directory().join("trace");
    registry.publish(&with_scripts(FIRST, &trace));
    hosted.run(&json!(counter())).await;
    assert_eq!(hosted.show("/show").await, json!([1]));

    let installed = hosted.install_one(FIRST).await;
    assert_eq!(installed.status, 200, "{}", installed.text());
    let expected = json!({
        "id": format!("{FIRST}/{FIRST}"), "name": FIRST, "types": [FIRST], "enabled": true, "local": true, "user": true,
        "module": FIRST, "version": "1.0.0",
    });
    assert_eq!(installed.json()["nodes"], json!([expected]));
    assert_eq!(installed.json()["version"], "1.0.0");
    assert!(!trace.exists(), "a script of the package has run");
    let again = hosted.install_one(FIRST).await;
    assert_eq!(
        (again.status, again.code()),
        (400, "module_already_loaded".into())
    );
    hosted.run_more(&flows(FIRST)).await;
    hosted.until_shown("/do", &json!([FIRST, "1.0.0"])).await;

    registry.publish(&Package::new(FIRST, "2.0.0"));
    let updated = hosted
        .install(&json!({ "module": FIRST, "version": "2.0.0" }))
        .await;
    assert_eq!(updated.status, 200, "{}", updated.text());
    assert_eq!(updated.json()["version"], "2.0.0");
    hosted.until_shown("/do", &json!([FIRST, "2.0.0"])).await;

    let used = hosted.uninstall(FIRST).await;
    assert_eq!((used.status, used.code()), (400, "type_in_use".into()));
    hosted.run_more(&json!(counter())).await;
    let removed = hosted.uninstall(FIRST).await;
    assert_eq!(removed.status, 204, "{}", removed.text());
    assert_eq!(hosted.nodes(&format!("/nodes/{FIRST}")).await.status, 404);
    assert_eq!(hosted.uninstall(FIRST).await.status, 404);
    // The native node was never restarted.
    assert_eq!(hosted.show("/show").await, json!([2]));
    let listed = fs::read_to_string(hosted.user_directory().join("package.json")).unwrap();
    assert!(!listed.contains(FIRST), "{listed}");

    let installs = hosted.audited("package.install", 2).await;
    let (first, second) = (&installs[0], &installs[1]);
    assert_eq!(
        (&first["module"], &first["version"]),
        (&json!(FIRST), &json!("1.0.0"))
    );
    assert_eq!(
        (&second["before"], &second["user"]),
        (&json!("1.0.0"), &json!("admin"))
    );
    let integrity = first["integrity"].as_str().unwrap();
    assert!(integrity.starts_with("sha512-"), "{integrity}");
    assert_eq!(
        hosted.audited("package.remove", 1).await[0]["version"],
        "2.0.0"
    );
}

#[tokio::test]
async fn what_npm_would_take_for_a_flag_a_path_an_address_or_a_repository_is_refused() {
    let registry = Registry::start().await;
    let user = |name: &str, permissions: &str| {
        let hash = hash(PASSWORD);
        format!(
            "[[auth.user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\npermissions = {permissions}\n"
        )
    };
    let lines = user("admin", "[\"*\"]") + &user("editor", "[\"flows.write\", \"nodes.read\"]");
    let hosted = installing(&registry, r#"["node-red-contrib-*"]"#, &lines).await;
    let before = hosted.files();
    for module in [
        "--ignore-scripts=false",
        "-g",
        "../../evil",
        "/etc",
        "./evil",
        "~/evil",
        "file:evil",
        "https://evil.example/evil.tgz",
        "git+ssh://git@evil.example/evil",
        "github:evil/evil",
        "evil/evil",
        "npm:evil",
        "node-red-contrib-a@npm:evil",
        "node-red-contrib-a --ignore-scripts=false",
        "node-red-contrib-a\n",
        "",
    ] {
        let refused = hosted.install_one(module).await;
        assert_eq!(
            (refused.status, refused.code()),
            (400, "invalid_module_name".into()),
            "{module}"
        );
    }
    for version in [
        "^1.0.0",
        "file:../evil",
        "npm:evil@1.0.0",
        "https://evil.example/",
        "x.tgz",
        "",
    ] {
        let refused = hosted
            .install(&json!({ "module": FIRST, "version": version }))
            .await;
        assert_eq!(
            (refused.status, refused.code()),
            (400, "invalid_module_version".into()),
            "{version}"
        );
    }
    let url = json!({ "module": FIRST, "url": "https://evil.example/evil.tgz" });
    assert_eq!(hosted.install(&url).await.status, 400);
    let denied = hosted.install_one("evil").await;
    assert_eq!(
        (denied.status, denied.code()),
        (403, "install_not_allowed".into())
    );

    let editor = hosted.sign_in("editor").await;
    let body = json!({ "module": FIRST });
    let refused = hosted
        .post("/nodes")
        .token(&editor)
        .json(&body)
        .send()
        .await;
    assert_eq!(refused.status, 401);
    assert_eq!(hosted.post("/nodes").json(&body).send().await.status, 401);
    assert_eq!(registry.requests(), Vec::<String>::new());
    assert_eq!(hosted.files(), before);
    // Without the setting nothing is installed at all.
    let closed = Hosted::start().await;
    let refused = closed.install_one(FIRST).await;
    assert_eq!(
        (refused.status, refused.code()),
        (403, "modules_not_allowed".into())
    );
}

#[tokio::test]
async fn a_failed_installation_leaves_the_packages_and_the_node_host_as_they_were() {
    let registry = Registry::start().await;
    let hosted = installing(&registry, r#"["*"]"#, "").await;
    registry.publish(&Package::new(FIRST, "1.0.0"));
    assert_eq!(hosted.install_one(FIRST).await.status, 200);
    hosted.run(&flows(FIRST)).await;
    hosted.until_shown("/do", &json!([FIRST, "1.0.0"])).await;
    let before = hosted.files();

    registry.publish_tampered(&Package::new("node-red-contrib-tampered", "1.0.0"));
    registry.publish(&Package {
        facts: json!({ "node-red": null }),
        ..Package::new("no-nodes", "1.0.0")
    });
    registry.publish(&Package {
        code: "process.exit(1);",
        ..Package::new("node-red-contrib-deadly", "1.0.0")
    });
    registry.publish(&Package {
        facts: json!({ "dependencies": { "not-there": "1.0.0" } }),
        ..Package::new("node-red-contrib-incomplete", "1.0.0")
    });
    for (name, status, code) in [
        ("node-red-contrib-unpublished", 404, "module_not_found"),
        ("node-red-contrib-incomplete", 404, "module_not_found"),
        ("node-red-contrib-tampered", 500, "install_failed"),
        ("no-nodes", 400, "invalid_module"),
        ("node-red-contrib-deadly", 500, "install_failed"),
    ] {
        let failed = hosted.install_one(name).await;
        assert_eq!(
            (failed.status, failed.code().as_str()),
            (status, code),
            "{name}: {}",
            failed.text()
        );
        assert_eq!(hosted.nodes(&format!("/nodes/{name}")).await.status, 404);
        let after = hosted.files();
        let names =
            |files: &[(String, Vec<u8>)]| files.iter().map(|f| f.0.clone()).collect::<Vec<_>>();
        assert_eq!(names(&after), names(&before), "{name}");
        assert!(after == before, "{name} has changed a file");
        hosted.until_shown("/do", &json!([FIRST, "1.0.0"])).await;
    }
    hosted.audited("package.fail", 5).await;
    hosted.audited("package.install", 1).await;
}

#[tokio::test]
async fn npm_that_takes_too_long_is_ended_with_all_that_it_has_started() {
    let registry = Registry::start().await;
    let hosted = installing(&registry, r#"["*"]"#, "timeout = \"8s\"").await;
    let before = hosted.files();
    let late = hosted.install_one(STUCK).await;
    assert_eq!((late.status, late.code()), (504, "install_timeout".into()));
    // Its connections close with it, if it has come that far.
    until("npm is gone", async || {
        let (opened, closed) = registry.stuck();
        opened == closed
    })
    .await;
    assert!(hosted.files() == before);
    registry.publish(&Package::new(FIRST, "1.0.0"));
    assert_eq!(hosted.nodes("/nodes").await.status, 200);
}

#[tokio::test]
async fn install_scripts_run_for_the_listed_packages_only() {
    let registry = Registry::start().await;
    let hosted = installing(&registry, r#"["*"]"#, "scripts = [\"compiled\"]").await;
    // An administrator's own settings of npm do not change that.
    fs::write(
        hosted.user_directory().join(".npmrc"),
        "ignore-scripts=false\n",
    )
    .unwrap();
    let (wanted, unwanted) = (hosted.data("wanted"), hosted.data("unwanted"));
    registry.publish(&with_scripts("compiled", &wanted));
    registry.publish(&with_scripts("harmful", &unwanted));
    let mut package = with_scripts(FIRST, &unwanted);
    package.facts["dependencies"] = json!({ "compiled": "1.0.0", "harmful": "1.0.0" });
    registry.publish(&package);
    let installed = hosted.install_one(FIRST).await;
    assert_eq!(installed.status, 200, "{}", installed.text());
    assert!(
        wanted.exists(),
        "the script of a listed package has not run"
    );
    assert!(!unwanted.exists(), "a script of another package has run");
}

#[tokio::test]
async fn nothing_is_installed_from_elsewhere_than_a_registry() {
    let registry = Registry::start().await;
    let hosted = installing(&registry, r#"["*"]"#, "").await;
    let trace = hosted.data("trace");
    let repository = hosted.data("repository");
    hostile_repository(&repository, &trace);
    let elsewhere = Registry::start().await;
    elsewhere.publish(&Package::new("far", "1.0.0"));
    let git = format!("git+file://{}", repository.display());
    let local = format!("file:{}", repository.display());
    let far = format!("{}far/-/1.0.0.tgz", elsewhere.address);
    // That would be another archive with the same hash.
    registry.publish_with_sha1(&Package::new("weak", "1.0.0"));
    let weak = "npm:weak@1.0.0".to_owned();
    let before = hosted.files();
    for (version, wanted) in [
        ("1.0.0", &git),
        ("1.0.1", &local),
        ("1.0.2", &far),
        ("1.0.3", &weak),
    ] {
        let mut package = Package::new(FIRST, version);
        package.facts = json!({ "dependencies": { "near": wanted } });
        registry.publish(&package);
        let refused = hosted.install_one(FIRST).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (403, "module_source_not_allowed"),
            "{wanted}: {}",
            refused.text()
        );
        assert!(hosted.files() == before, "{wanted} has left something");
    }
    assert!(!trace.exists(), "a repository has run a program");
}

/// A repository whose settings of npm name another git, and with a package that wants to be
/// prepared.
fn hostile_repository(at: &Path, trace: &Path) {
    fs::create_dir(at).unwrap();
    let program = at.join("evil");
    fs::write(&program, format!("#!/bin/sh\ntouch {}\n", trace.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(at.join(".npmrc"), format!("git={}\n", program.display())).unwrap();
    let script = format!("touch {}", trace.display());
    let facts = json!({ "name": "near", "version": "1.0.0", "scripts": { "prepare": script, "install": script },
        "dependencies": { "deeper": "git+file:///nowhere" } });
    fs::write(at.join("package.json"), facts.to_string()).unwrap();
    for arguments in [
        &["init", "-q"][..],
        &["add", "."],
        &[
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@example.com",
            "commit",
            "-qm",
            "a",
        ],
    ] {
        let git = Command::new("git").current_dir(at).args(arguments).status();
        assert!(git.unwrap().success());
    }
}

#[tokio::test]
async fn what_a_script_has_started_in_a_session_of_its_own_ends_with_the_installation() {
    let registry = Registry::start().await;
    let hosted = installing(&registry, r#"["*"]"#, &format!("scripts = [\"{FIRST}\"]")).await;
    let begun = hosted.data("begun");
    let script = format!(
        "setsid sh -c 'echo $$ > {}; exec sleep 600' > /dev/null 2>&1 & sleep 1; exit 1",
        begun.display()
    );
    let mut package = Package::new(FIRST, "1.0.0");
    package.facts = json!({ "scripts": { "install": script } });
    registry.publish(&package);
    let failed = hosted.install_one(FIRST).await;
    assert_eq!(failed.status, 500, "{}", failed.text());
    let number = fs::read_to_string(begun).unwrap();
    // One that has ended, and that its parent has not noticed, has no command any more.
    let command = Path::new("/proc").join(number.trim()).join("cmdline");
    let has_ended =
        || fs::read(&command).is_ok_and(|command| command.is_empty()) || !command.exists();
    until("the process has ended", async || has_ended()).await;
}

#[tokio::test]
async fn an_alias_under_the_name_of_a_package_with_scripts_runs_none() {
    let registry = Registry::start().await;
    let hosted = installing(&registry, r#"["*"]"#, "scripts = [\"compiled\"]").await;
    let trace = hosted.data("trace");
    registry.publish(&with_scripts("other", &trace));
    let mut package = Package::new(FIRST, "1.0.0");
    package.facts = json!({ "dependencies": { "compiled": "npm:other@1.0.0" } });
    registry.publish(&package);
    let installed = hosted.install_one(FIRST).await;
    assert_eq!(installed.status, 200, "{}", installed.text());
    assert!(!trace.exists(), "the script of another package has run");
}

#[tokio::test]
async fn node_sets_of_packages_are_disabled_and_enabled() {
    let registry = Registry::start().await;
    let hosted = installing(&registry, r#"["*"]"#, "").await;
    registry.publish(&Package::new("@scope/first", "1.0.0"));
    assert_eq!(hosted.install_one("@scope/first").await.status, 200);
    let set = "/nodes/@scope/first/first";
    let disabled = hosted.switch(set, false).await;
    assert_eq!(disabled.status, 200, "{}", disabled.text());
    assert_eq!(disabled.json()["enabled"], false);
    assert_eq!(hosted.nodes(set).await.json()["enabled"], false);
    // The flows wait for the type, and start with it.
    hosted.run(&flows("first")).await;
    // 503 until the host runs its first flow set: the path might be one of a package.
    until("nothing answers", async || {
        hosted.get("/do").send().await.status == 404
    })
    .await;
    let enabled = hosted.switch("/nodes/@scope/first", true).await;
    assert_eq!(
        enabled.json()["nodes"][0]["enabled"],
        true,
        "{}",
        enabled.text()
    );
    hosted.until_shown("/do", &json!(["first", "1.0.0"])).await;
    let used = hosted.switch(set, false).await;
    assert_eq!((used.status, used.code()), (400, "type_in_use".into()));
    assert_eq!(
        hosted.switch("/nodes/node-red/inject", false).await.code(),
        "built_in"
    );
    let switched = hosted.audited("package.switch", 2).await;
    assert_eq!(switched[0]["sets"], json!(["@scope/first/first"]));
    assert_eq!(switched[1]["enabled"], true);
}

#[tokio::test]
async fn the_stock_client_installs_and_removes_packages() {
    let registry = Registry::start().await;
    let hosted = installing(&registry, r#"["*"]"#, "").await;
    registry.publish(&Package::new(FIRST, "1.0.0"));
    let certificate = hosted
        .user_directory()
        .parent()
        .unwrap()
        .join("certs/self-signed.crt");
    let machine = Machine::with_certificate(certificate);
    machine.log_in(&hosted, "admin", PASSWORD).await;
    let installed = stdout(&machine.run(&["install", &format!("{FIRST}@1.0.0")]).await);
    assert!(installed.contains(FIRST), "{installed}");
    let disabled = stdout(&machine.run(&["disable", FIRST]).await);
    assert!(disabled.contains("disabled"), "{disabled}");
    let enabled = stdout(&machine.run(&["enable", FIRST]).await);
    assert!(enabled.contains("enabled"), "{enabled}");
    let removed = stdout(&machine.run(&["remove", FIRST]).await);
    assert_eq!(removed, format!("Uninstalled {FIRST}\n"));
    let missing = stderr(&machine.run(&["install", "unpublished"]).await);
    assert!(
        missing.starts_with("404: the registry has no such package"),
        "{missing}"
    );
}
