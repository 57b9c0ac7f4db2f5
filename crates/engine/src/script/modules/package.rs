//! `package.json`: finds the file that stands for a package. Pure: accesses no directory.

use serde::Deserialize;
use serde_json::Value as Json;

/// The fields that are read of a `package.json`. A field of an unexpected type counts as absent, as
/// in Node.js.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Manifest {
    main: Json,
    /// `null`: it exports everything.
    pub(super) exports: Json,
    r#type: Json,
}

impl Manifest {
    /// The main file of the package, if it names one.
    pub(super) fn main(&self) -> Option<&str> {
        self.main.as_str()
    }

    /// Returns whether its `.js` files are ES modules.
    pub(super) fn is_es(&self) -> bool {
        self.r#type == "module"
    }

    /// The file that it exports as `subpath`: `.` for itself, else `./` and more.
    pub(super) fn exported(&self, subpath: &str) -> Option<String> {
        let named = |exports: &Json| {
            exports
                .as_object()
                .is_some_and(|o| o.keys().any(|key| key.starts_with('.')))
        };
        if !named(&self.exports) {
            return target(&self.exports, "").filter(|_| subpath == ".");
        }
        let exports = self.exports.as_object()?;
        if let Some(exact) = exports.get(subpath) {
            return target(exact, "");
        }
        let (_, rest, value) = exports
            .iter()
            .filter_map(|(key, value)| {
                let (before, after) = key.split_once('*')?;
                let rest = subpath.strip_prefix(before)?.strip_suffix(after)?;
                Some((before.len(), rest, value))
            })
            .max_by_key(|(length, ..)| *length)?;
        target(value, rest)
    }
}

/// The first target that applies to `CommonJS`; `rest` replaces `*`.
fn target(value: &Json, rest: &str) -> Option<String> {
    match value {
        Json::String(path) => path.starts_with("./").then(|| path.replace('*', rest)),
        Json::Array(several) => several.iter().find_map(|one| target(one, rest)),
        Json::Object(conditions) => conditions
            .iter()
            .filter(|(condition, _)| matches!(condition.as_str(), "node" | "require" | "default"))
            .find_map(|(_, value)| target(value, rest)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn exported(exports: &str, subpath: &str) -> Option<String> {
        let manifest = format!(r#"{{"exports": {exports}}}"#);
        serde_json::from_str::<Manifest>(&manifest)
            .unwrap()
            .exported(subpath)
    }

    #[test]
    fn a_package_has_a_single_export_or_named_ones() {
        assert_eq!(exported(r#""./a.js""#, ".").unwrap(), "./a.js");
        assert_eq!(exported(r#""./a.js""#, "./a.js"), None);
        assert_eq!(exported(r#"{".": "./a.js"}"#, ".").unwrap(), "./a.js");
        assert_eq!(
            exported(r#"{"./b": ["x", "./b.js"]}"#, "./b").unwrap(),
            "./b.js"
        );
        assert_eq!(exported(r#"{"./b": null}"#, "./b"), None);
    }

    #[test]
    fn the_first_matching_commonjs_condition_is_used() {
        let exports = r#"{"import": "./a.mjs", "node": {"module": "./m.js", "require": "./a.js"}, "default": "./b.js"}"#;
        assert_eq!(exported(exports, ".").unwrap(), "./a.js");
        assert_eq!(exported(r#"{"import": "./a.mjs"}"#, "."), None);
    }

    #[test]
    fn the_longest_matching_pattern_is_used() {
        let exports = r#"{"./*": "./all/*.js", "./lib/*.js": "./lib/*.cjs"}"#;
        assert_eq!(exported(exports, "./x/y").unwrap(), "./all/x/y.js");
        assert_eq!(exported(exports, "./lib/z.js").unwrap(), "./lib/z.cjs");
    }
}
