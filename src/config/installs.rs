//! `[engine.node_host.install]`: the npm packages that users may install, and how.
//!
//! Knows how patterns of packages and addresses are spelled; nothing of npm.

use super::error::SpannedError;
use super::raw;
use super::setting::Source;
use std::path::PathBuf;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);

const PATTERN: &str =
    "the name of an npm package, in which * is any text, such as \"node-red-contrib-*\"";
const PACKAGE: &str = "the name of an npm package";
const ADDRESS: &str = "an address such as \"https://registry.npmjs.org/\"";

/// The packages that users may install.
#[derive(Debug, Clone)]
pub struct Installs {
    /// Patterns of those that may be installed; empty: none.
    pub allow: Vec<String>,
    /// Patterns of those that may not, unless a pattern of `allow` is more specific.
    pub deny: Vec<String>,
    /// The packages whose install scripts may run.
    pub scripts: Vec<String>,
    /// The registry; `None`: npm's own choice.
    pub registry: Option<String>,
    /// The catalogues of the editor's palette manager; empty: the editor's own choice.
    pub catalogues: Vec<String>,
    /// npm: a path, or a name that is found in PATH.
    pub npm: PathBuf,
    /// The time-out of an installation or removal.
    pub timeout: Duration,
}

impl Installs {
    /// Returns whether users may install anything.
    pub fn are_allowed(&self) -> bool {
        !self.allow.is_empty()
    }
}

/// The table, complete.
pub(super) fn installs(raw: raw::Install, source: &Source<'_>) -> Result<Installs, SpannedError> {
    let address = |text: &str| address(text).map(|()| text.to_owned());
    Ok(Installs {
        allow: source
            .list(raw.allow, PATTERN, pattern)?
            .unwrap_or_default(),
        deny: source.list(raw.deny, PATTERN, pattern)?.unwrap_or_default(),
        scripts: source
            .list(raw.scripts, PACKAGE, |text| {
                pattern(text).filter(|name| !name.contains('*'))
            })?
            .unwrap_or_default(),
        registry: raw
            .registry
            .map(|entry| source.parsed(&entry, ADDRESS, address))
            .transpose()?,
        catalogues: source
            .list(raw.catalogues, ADDRESS, address)?
            .unwrap_or_default(),
        npm: source.program(raw.npm.as_ref(), "npm")?,
        timeout: source.duration(raw.timeout, 300 * SECOND, SECOND..=HOUR)?,
    })
}

/// A name with stars. A version is none of its parts, so `@` is at its beginning only.
fn pattern(text: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._~/*-".contains(c);
    let name = text.strip_prefix('@').unwrap_or(text);
    (!name.is_empty() && !name.starts_with('-') && name.chars().all(plain)).then(|| text.to_owned())
}

/// An absolute address without a user, a query or a fragment.
fn address(text: &str) -> Option<()> {
    let uri: hyper::Uri = text.parse().ok()?;
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    let authority = uri.authority()?;
    let is_plain = !authority.as_str().contains('@') && uri.query().is_none();
    // It becomes a part of a content security policy.
    let is_safe = !text.contains(['#', ';', ',', '\'', '"', '*']);
    (is_http && is_plain && is_safe).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_names_with_stars_and_no_versions_flags_or_addresses() {
        for good in ["*", "node-red-contrib-*", "@flowfuse/*", "a.b_c~d"] {
            assert!(pattern(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "@",
            "--ignore-scripts=false",
            "a@1",
            "git+ssh://x",
            "a b",
        ] {
            assert!(pattern(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn addresses_are_of_http_without_credentials() {
        for good in ["https://registry.npmjs.org/", "http://127.0.0.1:4873/npm"] {
            assert!(address(good).is_some(), "{good}");
        }
        for bad in [
            "registry.npmjs.org",
            "ftp://a/",
            "https://user:password@a/",
            "https://a/?x=1",
            "https://a/;script-src",
            "",
        ] {
            assert!(address(bad).is_none(), "{bad}");
        }
    }
}
