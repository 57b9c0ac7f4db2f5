//! The packages that npm has installed, as `package-lock.json` lists them.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Bytes that are read of a file. Our choice: ten times the largest that is known.
const MAX_SIZE: u64 = 64 << 20;

/// A package.
#[derive(Deserialize, Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Locked {
    /// Its version.
    #[serde(default)]
    pub(super) version: String,
    /// The hash of its archive, as in Subresource Integrity.
    #[serde(default)]
    pub(super) integrity: Option<String>,
}

/// All packages, by their paths.
#[derive(Deserialize, Debug, Default)]
pub(super) struct LockFile {
    #[serde(default)]
    packages: BTreeMap<String, Locked>,
}

impl LockFile {
    /// Reads a file; one that is missing or malformed lists nothing.
    pub(super) fn read(path: &Path) -> Self {
        let Ok(file) = File::open(path) else {
            return Self::default();
        };
        let mut text = String::new();
        match file.take(MAX_SIZE).read_to_string(&mut text) {
            Ok(_) => serde_json::from_str(&text).unwrap_or_default(),
            Err(_) => Self::default(),
        }
    }

    /// A package of the directory itself.
    pub(super) fn package(&self, name: &str) -> Option<&Locked> {
        self.packages.get(&format!("node_modules/{name}"))
    }

    /// Which of these names are packages here that `before` does not have at the same path in the same version.
    pub(super) fn changed<'n>(&self, names: &'n [String], before: &Self) -> Vec<&'n str> {
        let is_new = |name: &str| {
            self.packages.iter().any(|(path, locked)| {
                let own = path.rsplit_once("node_modules/").map(|(_, own)| own);
                own == Some(name) && before.packages.get(path) != Some(locked)
            })
        };
        let names = names.iter().map(String::as_str);
        names.filter(|name| is_new(name)).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn lock(text: &str) -> LockFile {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn packages_that_are_new_or_changed_are_found_at_any_depth() {
        let before = lock(r#"{"packages":{"":{},"node_modules/a":{"version":"1.0.0"}}}"#);
        let after = lock(
            r#"{"packages":{"node_modules/a":{"version":"1.0.0","link":true},
                "node_modules/x/node_modules/@s/b":{"version":"2.0.0","integrity":"sha512-x"},
                "node_modules/ab":{"version":"1.0.0"}}}"#,
        );
        let names = ["a", "@s/b", "b"].map(str::to_owned);
        assert_eq!(after.changed(&names, &before), ["@s/b"]);
        assert!(after.changed(&names, &after).is_empty());
        assert_eq!(after.package("ab").unwrap().version, "1.0.0");
        assert!(after.package("@s/b").is_none());
    }

    #[test]
    fn a_file_that_is_missing_or_malformed_lists_nothing() {
        assert!(
            LockFile::read(Path::new("/nonexistent"))
                .package("a")
                .is_none()
        );
        assert!(
            LockFile::read(Path::new("Cargo.toml"))
                .package("a")
                .is_none()
        );
    }
}
