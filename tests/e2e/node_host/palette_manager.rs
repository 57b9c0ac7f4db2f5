//! The palette manager of the editor in a browser, and installations that are interrupted.

use super::Hosted;
use super::installs::{FIRST, installing};
use super::registry::{Package, Registry};
use crate::editor::play_with;
use crate::harness::until;
use serde_json::json;
use std::path::Path;

/// A gateway whose editor has the registry's packages in its catalogue.
async fn with_catalogue(registry: &Registry, editor: &str) -> Hosted {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(editor);
    let lines = format!(
        "catalogues = [\"{}catalogue.json\"]\n[editor]\nmodules = \"{}\"",
        registry.address,
        modules.display()
    );
    installing(registry, r#"["node-red-contrib-*"]"#, &lines).await
}

#[tokio::test]
async fn the_palette_manager_installs_switches_and_removes_a_package_and_other_editors_see_it() {
    let registry = Registry::start().await;
    registry.publish(&Package::new(FIRST, "1.0.0"));
    let hosted = with_catalogue(&registry, "node_modules").await;
    let tab = json!([{ "id": "t", "type": "tab", "label": "Flow" }]);
    hosted.run(&tab).await;
    play_with("palette_manager", &hosted, |cue| {
        panic!("unknown cue: {cue}")
    })
    .await;
    hosted.audited("package.install", 1).await;
    hosted.audited("package.switch", 2).await;
    hosted.audited("package.remove", 1).await;
}

#[tokio::test]
async fn an_installation_goes_on_when_its_client_has_left() {
    let registry = Registry::start().await;
    let hosted = installing(&registry, r#"["*"]"#, "").await;
    registry.publish(&Package::new(FIRST, "1.0.0"));
    registry.hold("/-/");
    tokio::select! {
        answer = hosted.install_one(FIRST) => panic!("{}", answer.text()),
        () = until("npm asks for the archive", async || registry.held() > 0) => {}
    }
    // The connection of the request is closed here.
    registry.release();
    let path = format!("/nodes/{FIRST}");
    until("it is installed", async || {
        hosted.nodes(&path).await.status == 200
    })
    .await;
    hosted.audited("package.install", 1).await;
    let again = hosted.install_one(FIRST).await;
    assert_eq!(again.code(), "module_already_loaded");
}

#[tokio::test]
async fn an_installation_that_ends_with_the_gateway_is_undone_at_the_next_start() {
    let registry = Registry::start().await;
    let mut hosted = installing(&registry, r#"["*"]"#, "").await;
    registry.publish(&Package::new(FIRST, "1.0.0"));
    assert_eq!(hosted.install_one(FIRST).await.status, 200);
    let before = hosted.files();

    // npm has updated one of two packages when the gateway is killed.
    registry.publish(&Package::new("held", "1.0.0"));
    registry.publish(&Package {
        facts: json!({ "dependencies": { "held": "1.0.0" } }),
        ..Package::new(FIRST, "2.0.0")
    });
    registry.hold("held/-/");
    let body = json!({ "module": FIRST, "version": "2.0.0" });
    tokio::select! {
        answer = hosted.install(&body) => panic!("{}", answer.text()),
        () = until("npm asks for the archive", async || registry.held() > 0) => {}
    }
    assert!(hosted.files() != before, "npm has not changed anything yet");
    hosted.kill_and_start().await;
    registry.release();
    assert!(hosted.files() == before, "the directory is not as before");
    let module = hosted.nodes(&format!("/nodes/{FIRST}")).await;
    assert_eq!(module.json()["version"], "1.0.0", "{}", module.text());
    // A later installation is not in the way of what was left.
    let updated = hosted.install(&body).await;
    assert_eq!(updated.status, 200, "{}", updated.text());
    assert_eq!(updated.json()["version"], "2.0.0");
}
