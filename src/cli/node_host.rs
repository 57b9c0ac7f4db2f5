//! What `flowgate check` finds for `[engine.node_host]`: Node.js, Node-RED's runtime, and the
//! packages with nodes.

use super::table::printable;
use crate::config::NodeHost;
use crate::editor::package_folders;
use engine::beneath;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// Bytes of a package.json that are read. Our choice: ten times the largest that is known.
const MAX_PACKAGE: u64 = 1 << 20;

#[derive(Deserialize)]
struct Package {
    #[serde(default)]
    name: String,
    #[serde(default)]
    version: String,
    #[serde(rename = "node-red")]
    node_red: Option<Box<RawValue>>,
}

/// Lines that say what was found. An error: what is missing, and how to get it.
pub(super) fn describe(host: &NodeHost) -> Result<Vec<String>, String> {
    let node = match host.socket {
        // It has a Node.js of its own.
        Some(_) => "of a service".to_owned(),
        None => version(&host.node)?,
    };
    let modules = host.directory.join("node_modules");
    let runtime = package(&modules.join("@node-red/runtime")).ok_or_else(|| {
        let directory = host.directory.display();
        format!(
            "node host: @node-red/runtime is missing: npm install --prefix {directory} --ignore-scripts @node-red/runtime"
        )
    })?;
    let mut lines = vec![format!(
        "node host: Node.js {node}, @node-red/runtime {}",
        printable(&runtime.version)
    )];
    let packages = packages(&modules);
    let found = packages
        .iter()
        .map(|(name, version)| printable(&format!("  {name} {version}")));
    lines.extend(found);
    if packages.is_empty() {
        lines.push("  no package with nodes".to_owned());
    }
    Ok(lines)
}

fn version(node: &Path) -> Result<String, String> {
    let name = node.display();
    let output = Command::new(node)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("node host: {name} cannot be run: {error}"))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() && version.starts_with('v') {
        Ok(version)
    } else {
        Err(format!("node host: {name} is not Node.js"))
    }
}

/// The packages that have nodes or plugins, by name; those of scopes too.
fn packages(modules: &Path) -> BTreeMap<String, String> {
    let folders = package_folders(modules).into_iter();
    folders
        .filter_map(|path| package(&path))
        .filter(|package| package.node_red.is_some())
        .map(|package| (package.name, package.version))
        .collect()
}

fn package(directory: &Path) -> Option<Package> {
    let directory = directory.canonicalize().ok()?;
    let text = beneath::read(&directory, Path::new("package.json"), MAX_PACKAGE).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::config::Installs;
    use std::fs;
    use std::time::Duration;

    fn host(directory: &Path, node: &str) -> NodeHost {
        NodeHost {
            directory: directory.to_owned(),
            node: node.into(),
            memory: 0,
            start_timeout: Duration::ZERO,
            sockets: directory.to_owned(),
            state: directory.to_owned(),
            socket: None,
            functions: false,
            launcher: None,
            disabled: Vec::new(),
            installs: Installs {
                allow: Vec::new(),
                deny: Vec::new(),
                scripts: Vec::new(),
                registry: None,
                catalogues: Vec::new(),
                npm: "npm".into(),
                timeout: Duration::ZERO,
            },
        }
    }

    fn write(directory: &Path, name: &str, text: &str) {
        let directory = directory.join("node_modules").join(name);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("package.json"), text).unwrap();
    }

    #[test]
    fn packages_with_nodes_are_found_and_others_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path();
        write(own, "a", r#"{"name":"a","version":"1.2.3","node-red":{}}"#);
        write(
            own,
            "@s/b",
            r#"{"name":"@s/b","version":"2.0.0","node-red":{"nodes":{}}}"#,
        );
        write(own, "plain", r#"{"name":"plain","version":"3.0.0"}"#);
        write(own, "broken", "{");
        let fifo = own.join("node_modules/fifo/package.json");
        write(own, "fifo", "");
        fs::remove_file(&fifo).unwrap();
        assert!(Command::new("mkfifo").arg(fifo).status().unwrap().success());
        let endless = own.join("node_modules/endless/package.json");
        write(own, "endless", "");
        fs::remove_file(&endless).unwrap();
        std::os::unix::fs::symlink("/dev/zero", endless).unwrap();
        let found: Vec<_> = packages(&own.join("node_modules")).into_iter().collect();
        let expected = [("@s/b", "2.0.0"), ("a", "1.2.3")];
        assert_eq!(found, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    }

    #[test]
    fn what_is_missing_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let missing = describe(&host(directory.path(), "no-such-program")).unwrap_err();
        assert!(
            missing.contains("no-such-program cannot be run"),
            "{missing}"
        );
        let other = describe(&host(directory.path(), "true")).unwrap_err();
        assert!(other.contains("true is not Node.js"), "{other}");
        let runtime = describe(&host(directory.path(), "node")).unwrap_err();
        assert!(runtime.contains("npm install --prefix"), "{runtime}");
    }
}
