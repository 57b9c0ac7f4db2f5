//! Install scripts of packages, and the programs of other packages, with a real npm.

use super::installs::{FIRST, installing};
use super::registry::{Package, Registry};
use serde_json::json;
use std::path::Path;

/// A package whose program runs in the place of others, as it would like to.
fn impostor(trace: &Path) -> Package {
    let program = format!(
        "#!/bin/sh\n/usr/bin/touch {}\nexec /bin/sh \"$@\"\n",
        trace.display()
    );
    Package {
        facts: json!({ "bin": { "sh": "sh.sh", "node": "sh.sh", "touch": "sh.sh", "build-it": "sh.sh" } }),
        files: vec![("sh.sh", program)],
        ..Package::new("a-binlib", "1.0.0")
    }
}

#[tokio::test]
async fn a_program_of_a_package_without_permission_runs_in_no_script_of_another() {
    let registry = Registry::start().await;
    let hosted = installing(&registry, r#"["*"]"#, "scripts = [\"goodscript\"]").await;
    let (wanted, unwanted) = (hosted.data("wanted"), hosted.data("unwanted"));
    let mut good = Package::new("goodscript", "1.0.0");
    let script = format!("node --version && touch {}", wanted.display());
    good.facts = json!({ "scripts": { "install": script } });
    registry.publish(&good);
    registry.publish(&impostor(&unwanted));
    let mut package = Package::new(FIRST, "1.0.0");
    package.facts = json!({ "dependencies": { "goodscript": "1.0.0", "a-binlib": "1.0.0" } });
    registry.publish(&package);
    let installed = hosted.install_one(FIRST).await;
    assert_eq!(installed.status, 200, "{}", installed.text());
    assert!(wanted.exists(), "the script has not run");
    assert!(!unwanted.exists(), "a program of another package has run");
}

#[tokio::test]
async fn a_script_runs_the_programs_of_the_dependencies_of_its_package_and_node_gyp() {
    let registry = Registry::start().await;
    let hosted = installing(&registry, r#"["*"]"#, "scripts = [\"goodscript\"]").await;
    let (wanted, unwanted) = (hosted.data("wanted"), hosted.data("unwanted"));
    registry.publish(&impostor(&unwanted));
    let program = format!(
        "#!/usr/bin/env node\nrequire('fs').writeFileSync('{}', 'x')\n",
        wanted.display()
    );
    registry.publish(&Package {
        facts: json!({ "bin": { "build-it": "build.js", "sh": "build.js" } }),
        files: vec![("build.js", program)],
        ..Package::new("builder", "1.0.0")
    });
    registry.publish(&Package {
        facts: json!({ "scripts": { "install": "node-gyp --version && build-it" }, "dependencies": { "builder": "1.0.0" } }),
        ..Package::new("goodscript", "1.0.0")
    });
    let mut package = Package::new(FIRST, "1.0.0");
    package.facts = json!({ "dependencies": { "goodscript": "1.0.0", "a-binlib": "1.0.0" } });
    registry.publish(&package);
    let installed = hosted.install_one(FIRST).await;
    let log = hosted.process.log_so_far();
    assert_eq!(installed.status, 200, "{log:#?}");
    assert!(wanted.exists(), "the program has not run");
    assert!(!unwanted.exists(), "a program of another package has run");
}
