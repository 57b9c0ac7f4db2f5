//! The node sets of the palette, in the shape that the stock CLI and editor read: those of the
//! core, and those of the packages for the node host.

use crate::editor::{CORE, Editor, PackagedSubflows, Packages};
use crate::gateway::{Gateway, Runtime};
use crate::http::error::Error;
use serde_json::{Value as Json, json};
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Why a package does not run, for the editor.
const LEFT_OUT: &str =
    "it has ended the node host several times in a row, and is left out until a full deployment";

/// The palette as it is now.
#[derive(Default)]
pub(super) struct NodeSets<'a> {
    editor: Option<&'a Editor>,
    packages: Arc<Packages>,
    /// Packages that are left out.
    left_out: Arc<BTreeSet<SmolStr>>,
    /// Why sets were not loaded, by `package/set`.
    errors: Arc<BTreeMap<String, String>>,
    /// Sets that users have disabled, as `package/set`.
    disabled: BTreeSet<String>,
    /// Sets whose types only the runtime knows.
    packaged: Arc<PackagedSubflows>,
}

/// The packaged subflows of a runtime.
pub(super) fn packaged_subflows(runtime: &Runtime) -> Arc<PackagedSubflows> {
    match runtime {
        Runtime::Own(engine) => engine.packaged_subflows(),
        Runtime::Upstream(_) => Arc::default(),
    }
}

impl<'a> NodeSets<'a> {
    /// The palette of a gateway and its runtime.
    pub(super) fn of(gateway: &'a Gateway, runtime: &Runtime) -> Self {
        let mut sets = Self {
            editor: gateway.editor.as_deref(),
            packaged: packaged_subflows(runtime),
            ..Self::default()
        };
        if let Some(palette) = &gateway.palette {
            sets.packages = palette.installed().now();
            sets.disabled = palette.disabled();
        }
        if let Runtime::Own(engine) = runtime {
            sets.left_out = engine.packages_left_out();
            sets.errors = engine.package_errors();
        }
        sets
    }

    /// All sets.
    pub(super) fn all(&self) -> Vec<Json> {
        let version = version(self.editor);
        let core = |name: &str, types: Json| self.set(CORE, version, name, &types);
        let mut all: Vec<Json> = match self.editor {
            Some(editor) => editor
                .sets()
                .map(|(name, types)| core(name, types.into()))
                .collect(),
            None => engine::nodes::sets()
                .map(|(name, types)| core(name, types.into()))
                .collect(),
        };
        all.extend(self.packages.sets().map(|(module, version, set)| {
            let made = self.packaged.get(&format!("{module}/{}", set.name));
            let types = made.map(|made| made.types.iter().map(SmolStr::as_str).collect());
            let types = types.unwrap_or_else(|| set.types.as_slice().into());
            self.set(module, version, &set.name, &types)
        }));
        all
    }

    /// A module with its sets.
    pub(super) fn module(&self, name: &str) -> Result<Json, Error> {
        let mut nodes = self.all();
        nodes.retain(|set| set["module"] == name);
        let plugins: Vec<Json> = self.packages.plugins_of(name);
        let installed = self.packages.version(name).map(Json::from);
        let version = nodes.first().map(|set| set["version"].clone());
        let version = version.or(installed).ok_or(Error::NotFound)?;
        let mut module =
            json!({ "name": name, "version": version, "nodes": nodes, "plugins": plugins });
        if name != CORE {
            module["local"] = true.into();
            module["user"] = true.into();
        }
        Ok(module)
    }

    /// One set.
    pub(super) fn one(&self, module: &str, name: &str) -> Result<Json, Error> {
        let mut sets = self.all().into_iter();
        let set = sets.find(|set| set["module"] == module && set["name"] == name);
        set.ok_or(Error::NotFound)
    }

    fn set(&self, module: &str, version: &str, name: &str, types: &Json) -> Json {
        let id = format!("{module}/{name}");
        let is_left_out = self.left_out.contains(module);
        let error = if is_left_out {
            Some(LEFT_OUT)
        } else {
            self.errors.get(&id).map(String::as_str)
        };
        let mut set = json!({
            "id": id,
            "name": name,
            "types": types,
            "enabled": !is_left_out && !self.disabled.contains(&id),
            "local": module != CORE,
            "user": module != CORE,
            "module": module,
            "version": version,
        });
        if let Some(error) = error {
            set["err"] = error.into();
        }
        set
    }
}

/// The version of the core palette, which is the editor's.
pub(super) fn version(editor: Option<&Editor>) -> &str {
    editor.map_or(env!("CARGO_PKG_VERSION"), Editor::version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_set_has_types_and_can_be_fetched() {
        let sets = NodeSets::default();
        let listed = sets.all();
        assert_eq!(listed.len(), engine::nodes::sets().count());
        for listed in listed {
            let name = listed["name"].as_str().unwrap_or_default();
            assert!(sets.one(CORE, name).is_ok(), "{name}");
        }
    }

    #[test]
    fn other_modules_and_sets_are_not_found() {
        let sets = NodeSets::default();
        assert!(sets.module(CORE).is_ok());
        assert!(matches!(
            sets.module("node-red-dashboard"),
            Err(Error::NotFound)
        ));
        for (module, set) in [(CORE, "nope"), ("other", "inject")] {
            assert!(matches!(sets.one(module, set), Err(Error::NotFound)));
        }
    }
}
