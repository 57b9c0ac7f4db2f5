//! The packages that npm has installed, as `package-lock.json` lists them.

use engine::beneath;
use hyper::Uri;
use serde::Deserialize;
use std::collections::BTreeMap;
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
    /// Its own name, where it is installed under another one.
    #[serde(default)]
    name: Option<String>,
    /// The address of its archive.
    #[serde(default)]
    resolved: Option<String>,
    /// True if it is in the archive of the package around it.
    #[serde(default, rename = "inBundle")]
    is_bundled: bool,
    /// True if it is a link to a directory.
    #[serde(default, rename = "link")]
    is_link: bool,
}

/// A package that npm would take from elsewhere than a registry.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ForeignPackage {
    /// Its path below the directory.
    pub(super) path: String,
    /// The place that it would come from.
    pub(super) from: String,
}

/// The scheme and authority of a registry's address, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin(String);

impl Origin {
    /// That of an address; `None`: it is none of HTTP.
    pub(super) fn of(address: &str) -> Option<Self> {
        let uri: Uri = address.parse().ok()?;
        let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
        let is_http = scheme == "http" || scheme == "https";
        let host = authority.as_str().rsplit('@').next()?;
        is_http.then(|| Self(format!("{scheme}://{host}").to_ascii_lowercase()))
    }
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
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return Self::default();
        };
        let directory = directory.canonicalize();
        let text = directory.and_then(|d| beneath::read(&d, Path::new(name), MAX_SIZE));
        text.map(|text| serde_json::from_slice(&text).unwrap_or_default())
            .unwrap_or_default()
    }

    /// A package of the directory itself.
    pub(super) fn package(&self, name: &str) -> Option<&Locked> {
        self.packages.get(&format!("node_modules/{name}"))
    }

    /// The paths of packages of these names that `before` does not have in the same version. A
    /// package that only stands under such a name, or came within the archive of another, is none.
    pub(super) fn changed(&self, names: &[String], before: &Self) -> Vec<&str> {
        let changed = self.packages.iter().filter(|(path, locked)| {
            let place = path.rsplit_once("node_modules/").map(|(_, place)| place);
            let own = locked.name.as_deref().or(place);
            let is_named = place == own && names.iter().any(|name| Some(name.as_str()) == own);
            is_named && !locked.is_bundled && before.packages.get(*path) != Some(*locked)
        });
        changed.map(|(path, _)| path.as_str()).collect()
    }

    /// The first package that none of `before` has, and whose archive, with its hash of SHA-2, no
    /// registry of these addresses has.
    pub(super) fn foreign_package(
        &self,
        before: [&Self; 2],
        registries: &[Origin],
    ) -> Option<ForeignPackage> {
        let is_known = |path: &str, locked: &Locked| {
            let mut before = before.iter();
            before.any(|lock| lock.packages.get(path) == Some(locked))
        };
        // Without an address npm asks the registry (`omit-lockfile-registry-resolved`).
        let is_of_registry = |locked: &Locked| {
            let address = locked.resolved.as_deref();
            let is_listed = |origin: Origin| registries.contains(&origin);
            let is_there = address.is_none_or(|at| Origin::of(at).is_some_and(is_listed));
            let hash = locked.integrity.as_deref();
            is_there && !locked.is_link && hash.is_some_and(is_strong)
        };
        let (path, locked) = self.packages.iter().find(|(path, locked)| {
            !path.is_empty()
                && !is_known(path, locked)
                && !(path.starts_with("node_modules/")
                    && (locked.is_bundled || is_of_registry(locked)))
        })?;
        let from = locked.resolved.clone();
        Some(ForeignPackage {
            path: path.clone(),
            from: from
                .filter(|from| !from.is_empty())
                .unwrap_or_else(|| "a directory of this machine".to_owned()),
        })
    }
}

/// Returns whether each hash of an archive is one of SHA-2: of SHA-1 there are two archives with
/// the same one, and npm takes what it can read.
fn is_strong(integrity: &str) -> bool {
    let is_digit = |c: u8| c.is_ascii_alphanumeric() || b"+/=".contains(&c);
    let is_strong = |hash: &str| {
        let digest = ["sha256-", "sha384-", "sha512-"]
            .iter()
            .find_map(|name| hash.strip_prefix(name));
        digest.is_some_and(|digest| !digest.is_empty() && digest.bytes().all(is_digit))
    };
    !integrity.trim().is_empty() && integrity.split_whitespace().all(is_strong)
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
            r#"{"packages":{"node_modules/a":{"version":"1.0.0"},
                "node_modules/x/node_modules/@s/b":{"version":"2.0.0","integrity":"sha512-x"},
                "node_modules/x/node_modules/b":{"version":"2.0.0","name":"other"},
                "node_modules/y/node_modules/b":{"version":"2.0.0","inBundle":true},
                "node_modules/ab":{"version":"1.0.0"}}}"#,
        );
        let names = ["a", "@s/b", "b"].map(str::to_owned);
        let changed = after.changed(&names, &before);
        assert_eq!(changed, ["node_modules/x/node_modules/@s/b"]);
        assert!(after.changed(&names, &after).is_empty());
        assert_eq!(after.package("ab").unwrap().version, "1.0.0");
        assert!(after.package("@s/b").is_none());
    }

    #[test]
    fn a_package_from_elsewhere_than_a_registry_is_found() {
        let registries = ["https://npm.example/", "http://127.0.0.1:4873"];
        let registries = registries.map(|address| Origin::of(address).unwrap());
        let none = LockFile::default();
        let foreign = |path: &str, facts: &str| {
            let text = format!("{{\"packages\":{{\"\":{{}},\"{path}\":{{{facts}}}}}}}");
            let after = lock(&text);
            assert_eq!(after.foreign_package([&none, &after], &registries), None);
            after
                .foreign_package([&none, &none], &registries)
                .map(|s| s.from)
        };
        let hash = "\"integrity\":\"sha512-x\"";
        for resolved in [
            "https://npm.example/a/-/a-1.0.0.tgz",
            "https://user@NPM.example/a.tgz",
            "http://127.0.0.1:4873/a.tgz",
        ] {
            let facts = format!("\"resolved\":\"{resolved}\"");
            assert_eq!(foreign("node_modules/a", &format!("{facts},{hash}")), None);
            assert_eq!(foreign("node_modules/a", &facts).as_deref(), Some(resolved));
        }
        assert_eq!(foreign("node_modules/a", hash), None);
        for weak in [
            "sha1-x",
            "md5-x",
            "sha512-x sha1-x",
            "sha512-",
            "sha512-x?y",
            "",
        ] {
            let facts = format!("\"integrity\":\"{weak}\"");
            assert!(foreign("node_modules/a", &facts).is_some(), "{weak}");
        }
        assert_eq!(foreign("node_modules/a", "\"inBundle\":true"), None);
        for resolved in [
            "git+ssh://git@github.com/a/b.git#c",
            "https://npm.example.evil/a.tgz",
            "https://npm.example:8443/a.tgz",
            "https://npm.example@evil.example/a.tgz",
            "http://npm.example/a.tgz",
            "file:../a",
            "../a",
        ] {
            let facts = format!("\"resolved\":\"{resolved}\",{hash}");
            assert_eq!(foreign("node_modules/a", &facts).as_deref(), Some(resolved));
        }
        let local = Some("a directory of this machine".to_owned());
        let link = format!("{hash},\"link\":true");
        assert_eq!(foreign("node_modules/a", &link), local);
        assert_eq!(foreign("node_modules/a", ""), local);
        assert_eq!(foreign("../a", "\"inBundle\":true"), local);
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
