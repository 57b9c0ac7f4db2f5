//! Function nodes that run in the node host: the engine cannot load a module that they name
//! (`libs`), and Node.js has all of them.

use crate::event_loop::Thread;
use crate::hosted_functions::has_modules;
use crate::node_context::NodeContext;
use crate::node_info::{Container, NodeInfo};
use crate::script::{Code, Effect, Import, Sandbox, is_builtin_of_node};
use flows::{FlowSet, Node};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::fs;
use std::path::Path;
use std::rc::Rc;

#[derive(Deserialize)]
struct Properties {
    #[serde(default)]
    libs: Vec<Library>,
}

#[derive(Deserialize)]
struct Library {
    #[serde(default)]
    module: SmolStr,
}

impl Thread {
    /// Finds the function nodes of a flow set that is about to start that need the node host.
    /// `anew`: modules may have been installed meanwhile.
    pub(super) fn find_hosted_functions(&mut self, flows: &FlowSet, anew: bool) {
        let mut hosted = std::mem::take(&mut self.state.hosted_functions);
        let before = std::mem::take(&mut hosted.ids);
        if anew {
            hosted.loadable.clear();
        }
        let host = self.state.config.node_host.as_ref();
        let directory = host
            .filter(|host| host.functions)
            .map(|host| host.directory.clone());
        if let Some(directory) = directory {
            for node in flows.nodes().iter().filter(|node| has_modules(node)) {
                if self.needs_host(node, &directory, &mut hosted.loadable) {
                    hosted.ids.insert(node.id.clone());
                }
            }
        }
        if !hosted.ids.is_empty() && hosted.ids != before {
            let mut nodes: Vec<&str> = hosted.ids.iter().map(SmolStr::as_str).collect();
            nodes.sort_unstable();
            let nodes = nodes.join(", ");
            tracing::warn!(target: "node_host", nodes, "function nodes run in the node host with the rights of its process, without the engine's limits: engine.node_host.functions allows that");
        }
        self.state.hosted_functions = hosted;
    }

    fn needs_host(
        &mut self,
        node: &Node,
        directory: &Path,
        loadable: &mut FxHashMap<SmolStr, bool>,
    ) -> bool {
        let Ok(Properties { libs }) = serde_json::from_str(&node.text) else {
            return false;
        };
        let modules = libs.into_iter().map(|library| library.module);
        let modules: Vec<SmolStr> = modules.filter(|module| !module.is_empty()).collect();
        // Node-RED's runtime starts no node at all if a module is missing.
        if !modules.iter().all(|module| is_in_host(directory, module)) {
            return false;
        }
        let mut all = modules.iter();
        all.any(|module| {
            let known = loadable.get(module).copied();
            let is_loadable = known.unwrap_or_else(|| self.is_loadable(module));
            loadable.insert(module.clone(), is_loadable);
            !is_loadable
        })
    }

    /// Tries to load a module in a realm of its own.
    fn is_loadable(&mut self, module: &SmolStr) -> bool {
        let Ok(scripts) = self.state.scripts() else {
            return false;
        };
        let info = NodeInfo::of("", "", Container::default());
        let context = NodeContext {
            info: Rc::new(info),
            contexts: Rc::clone(&self.state.contexts),
            now: self.state.now.get(),
        };
        let import = Import {
            var: "module".into(),
            module: module.clone(),
        };
        let code = Code {
            imports: [import].into(),
            ..Code::default()
        };
        let effects = Sandbox::new(scripts, code, context).start();
        !effects
            .iter()
            .any(|effect| matches!(effect, Effect::Error(..)))
    }
}

/// Returns whether Node-RED's runtime lets function nodes use a module: one of Node.js, or a
/// package that `package.json` of the directory lists and npm has installed.
fn is_in_host(directory: &Path, module: &str) -> bool {
    let name = package_of(module);
    let own = name.strip_prefix("node:").unwrap_or(name);
    if is_builtin_of_node(own) {
        return true;
    }
    let listed = fs::read(directory.join("package.json")).ok();
    let listed = listed.and_then(|text| serde_json::from_slice::<Json>(&text).ok());
    let is_listed = listed.is_some_and(|facts| facts["dependencies"].get(name).is_some());
    is_listed && directory.join("node_modules").join(name).is_dir()
}

/// `pkg` of `pkg/file@1`, `@scope/pkg` of `@scope/pkg@1`.
fn package_of(module: &str) -> &str {
    let scope = module.strip_prefix('@').and_then(|rest| rest.find('/'));
    let from = scope.map_or(0, |slash| slash + 2);
    let end = module
        .char_indices()
        .skip_while(|(at, _)| *at < from.max(1))
        .find(|(_, c)| matches!(c, '/' | '@'));
    end.map_or(module, |(at, _)| module.get(..at).unwrap_or(module))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_of_a_module_is_its_name_without_version_and_file() {
        for (module, package) in [
            ("lodash", "lodash"),
            ("lodash@4", "lodash"),
            ("lodash/fp", "lodash"),
            ("@scope/name", "@scope/name"),
            ("@scope/name@1.2.3", "@scope/name"),
            ("@scope/name/file@1", "@scope/name"),
            ("fs/promises", "fs"),
            ("node:fs", "node:fs"),
            ("@", "@"),
            ("", ""),
        ] {
            assert_eq!(package_of(module), package, "{module}");
        }
    }

    #[test]
    fn a_package_is_in_the_host_if_it_is_listed_and_installed() {
        let directory = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        let path = directory.path();
        let made = ["listed", "unlisted"]
            .map(|name| fs::create_dir_all(path.join("node_modules").join(name)));
        assert!(made.iter().all(Result::is_ok));
        let facts = r#"{ "dependencies": { "listed": "1", "missing": "1" } }"#;
        assert!(fs::write(path.join("package.json"), facts).is_ok());
        for (module, is_there) in [
            ("listed", true),
            ("listed@1", true),
            ("unlisted", false),
            ("missing", false),
            ("fs", true),
            ("fs/promises", true),
            ("node:child_process", true),
            ("node:nothing", false),
            ("sqlite", false),
            ("../listed", false),
        ] {
            assert_eq!(is_in_host(path, module), is_there, "{module}");
        }
    }
}
