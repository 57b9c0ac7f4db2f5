//! Names and versions of npm packages, as clients may send them: nothing that npm takes for a flag,
//! a path, an address or a repository.

use crate::config::Installs;

/// Characters of a name (npm's `validate-npm-package-name`), and of a version. The latter is our
/// choice.
const MAX_NAME: usize = 214;
const MAX_VERSION: usize = 64;

/// The name of a package, which may have a scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageName(String);

/// A version, or the tag of one, such as `latest`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageVersion(String);

impl PackageName {
    /// Reads a name; `None`: it is none. Old packages have capital letters.
    pub fn parse(text: &str) -> Option<Self> {
        let (scope, name) = match text.strip_prefix('@') {
            Some(scoped) => scoped.split_once('/').map(|(s, n)| (Some(s), n))?,
            None => (None, text),
        };
        let is_part = |part: &str| {
            let begins = part.starts_with(|c: char| c.is_ascii_alphanumeric());
            let plain = |c: char| c.is_ascii_alphanumeric() || "._~-".contains(c);
            begins && part.chars().all(plain)
        };
        // npm takes the names of archives for files.
        let lower = name.to_ascii_lowercase();
        let is_file = [".tgz", ".tar", ".tar.gz"]
            .iter()
            .any(|end| lower.ends_with(end));
        let is_reserved = matches!(lower.as_str(), "node_modules" | "favicon.ico");
        let valid = text.len() <= MAX_NAME
            && scope.is_none_or(is_part)
            && is_part(name)
            && !is_file
            && !is_reserved;
        valid.then(|| Self(text.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether users may install it: a pattern of `allow` fits, and none of `deny` that is
    /// as specific. As in Node-RED (`@node-red/registry/lib/util.js`), a pattern is more specific
    /// the later its first star; of two that are alike, the longer one.
    pub fn is_allowed(&self, installs: &Installs) -> bool {
        let best = |patterns: &[String]| {
            let fits = patterns.iter().filter(|pattern| fits(pattern, &self.0));
            fits.map(|pattern| (pattern.find('*').unwrap_or(usize::MAX), pattern.len()))
                .max()
        };
        match (best(&installs.allow), best(&installs.deny)) {
            (Some(allowed), Some(denied)) => allowed > denied,
            (allowed, None) => allowed.is_some(),
            (None, Some(_)) => false,
        }
    }
}

impl PackageVersion {
    /// Reads a version (`1.2.3`, `1.2.3-beta.1`) or a tag; `None`: it is neither. Ranges are none:
    /// what is installed is what was chosen.
    pub fn parse(text: &str) -> Option<Self> {
        let is_tag = text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        let valid = text.len() <= MAX_VERSION && (is_tag || is_version(text));
        valid.then(|| Self(text.to_owned()))
    }

    /// The version.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Three numbers, then perhaps a pre-release and a build (semver.org §2, §9, §10).
fn is_version(text: &str) -> bool {
    let (rest, build) = text
        .split_once('+')
        .map_or((text, None), |(r, b)| (r, Some(b)));
    let (numbers, pre) = rest
        .split_once('-')
        .map_or((rest, None), |(n, p)| (n, Some(p)));
    let is_number = |n: &str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
    let parts = |text: &str| {
        let plain = |part: &str| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        };
        text.split('.').all(plain)
    };
    numbers.split('.').count() == 3
        && numbers.split('.').all(is_number)
        && pre.is_none_or(parts)
        && build.is_none_or(parts)
}

/// Returns whether a pattern fits a whole name; `*` is any text.
fn fits(pattern: &str, name: &str) -> bool {
    wildmatch::WildMatch::new(pattern).matches(name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_name_is_neither_a_flag_nor_a_path_an_address_or_a_repository() {
        for good in [
            "node-red-node-random",
            "@flowfuse/node-red-dashboard",
            "Old",
            "a.b",
        ] {
            assert_eq!(PackageName::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            "--ignore-scripts=false",
            "-g",
            "../../etc",
            "./x",
            ".x",
            "/tmp/x",
            "a/b",
            "~/x",
            "file:x",
            "https://evil.example/x.tgz",
            "git+ssh://git@evil.example/x",
            "github:evil/x",
            "evil/x",
            "npm:other",
            "x@npm:other",
            "x@1.0.0",
            "@scope",
            "@/x",
            "@scope/",
            "@scope/../x",
            "@scope/x/y",
            "x.tgz",
            "@scope/x.tar.gz",
            "node_modules",
            "a b",
            "a\n--global",
            "a\0",
            "é",
        ] {
            assert_eq!(PackageName::parse(bad), None, "{bad}");
        }
        assert_eq!(PackageName::parse(&"a".repeat(MAX_NAME + 1)), None);
    }

    #[test]
    fn a_version_is_exact_or_a_tag() {
        for good in ["1.2.3", "1.2.3-beta.1", "1.0.0+build.5", "latest", "next-5"] {
            assert_eq!(PackageVersion::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            "^1.2.3",
            "1.x",
            "1.2",
            ">=1",
            "*",
            "file:x",
            "x.tgz",
            "npm:y@1.0.0",
            "../x",
            "1.2.3 || 4",
            "git://x",
            "1.2.3-",
            "1.2.3-a..b",
            "-1.2.3",
        ] {
            assert_eq!(PackageVersion::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_more_specific_pattern_decides_and_what_none_allows_is_denied() {
        let installs = |allow: &[&str], deny: &[&str]| {
            let list = |patterns: &[&str]| patterns.iter().map(|p| (*p).to_owned()).collect();
            Installs {
                allow: list(allow),
                deny: list(deny),
                scripts: Vec::new(),
                registry: None,
                catalogues: Vec::new(),
                npm: "npm".into(),
                timeout: Duration::ZERO,
            }
        };
        for (name, allow, deny, allowed) in [
            ("a", &[][..], &[][..], false),
            ("a", &["*"], &[], true),
            ("a", &["b"], &[], false),
            ("a-b", &["*"], &["a-*"], false),
            ("a-b", &["a-b"], &["a-*"], true),
            ("a-b", &["a-*"], &["a-b"], false),
            ("a", &["a"], &["a"], false),
            ("@s/a", &["@s/*"], &["*"], true),
            ("@s/a", &["@t/*"], &[], false),
            ("xa", &["a"], &[], false),
        ] {
            let parsed = PackageName::parse(name).unwrap();
            assert_eq!(
                parsed.is_allowed(&installs(allow, deny)),
                allowed,
                "{name} {allow:?} {deny:?}"
            );
        }
    }
}
