//! The console: a web page for people who look after flows. Its files are part of the program, as
//! they are and compressed.
//!
//! Knows the files, their names and media types; nothing of HTTP, users or flows: the page asks the
//! API for those.

use crypto::{hex, sha256};
use std::sync::LazyLock;

include!(concat!(env!("OUT_DIR"), "/console.rs"));

/// The page; it names its files with their version.
const PAGE: &str = include_str!("web/index.html");

/// Where the page has the version.
const VERSION: &str = "{{version}}";

/// A file of the page.
#[derive(Debug, Clone, Copy)]
pub struct File {
    name: &'static str,
    /// Its content.
    pub plain: &'static [u8],
    /// The same, compressed with Brotli (RFC 7932).
    pub brotli: &'static [u8],
}

/// The page as HTML.
pub fn page() -> &'static str {
    static FILLED: LazyLock<String> = LazyLock::new(|| PAGE.replace(VERSION, version()));
    &FILLED
}

/// The version of the page and all files: another one when a byte of them differs. It is a part of
/// the files' paths, so that browsers may keep them for ever.
pub fn version() -> &'static str {
    static DIGEST: LazyLock<String> = LazyLock::new(|| {
        let mut all = PAGE.as_bytes().to_vec();
        for file in FILES {
            all.extend_from_slice(file.name.as_bytes());
            all.extend_from_slice(file.plain);
        }
        // 64 bits: they distinguish releases, nothing else.
        hex(&sha256(&all)[..8])
    });
    &DIGEST
}

/// A file of this version of the page.
pub fn file(of_version: &str, name: &str) -> Option<&'static File> {
    let found = FILES.iter().find(|file| file.name == name);
    found.filter(|_| of_version == version())
}

impl File {
    /// Its media type.
    pub fn kind(&self) -> &'static str {
        match self.name.rsplit_once('.').map(|(_, extension)| extension) {
            Some("css") => "text/css; charset=utf-8",
            // RFC 9239 §6
            Some("js") => "text/javascript; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "application/octet-stream",
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Bytes of all files compressed: what a first visit loads.
    const MAX_COMPRESSED: usize = 250 * 1024;

    #[test]
    fn the_files_are_small_and_have_media_types() {
        let all: usize = FILES.iter().map(|file| file.brotli.len()).sum();
        assert!(all < MAX_COMPRESSED, "{all} bytes");
        for file in FILES {
            assert!(file.brotli.len() < file.plain.len(), "{}", file.name);
            assert_ne!(file.kind(), "application/octet-stream", "{}", file.name);
            let lines = file.plain.split(|byte| *byte == b'\n').count();
            assert!(lines <= 400, "{} has {lines} lines", file.name);
        }
    }

    #[test]
    fn the_page_names_files_that_are_there_and_has_nothing_inline() {
        let page = page();
        assert!(!page.contains(VERSION) && !page.contains("<style") && !page.contains("style="));
        let mut named = 0;
        for (at, _) in page.match_indices("console/") {
            let path = page[at..].split('"').next().unwrap();
            let (version, name) = path["console/".len()..].split_once('/').unwrap();
            assert!(file(version, name).is_some(), "{path}");
            named += 1;
        }
        assert!(named >= 3);
        for (at, _) in page.match_indices("<script") {
            assert!(page[at..].starts_with("<script type=\"module\" src="));
        }
    }

    #[test]
    fn no_script_makes_html_of_text() {
        for file in FILES
            .iter()
            .filter(|file| file.kind().starts_with("text/javascript"))
        {
            let text = std::str::from_utf8(file.plain).unwrap();
            for sink in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "Function(",
                "srcdoc",
                "localStorage.setItem('token",
            ] {
                assert!(!text.contains(sink), "{} has {sink}", file.name);
            }
        }
    }

    /// The keys of a file of texts.
    fn keys(name: &str) -> BTreeSet<&'static str> {
        let file = FILES.iter().find(|file| file.name == name).unwrap();
        let text = std::str::from_utf8(file.plain).unwrap();
        let lines = text.lines().filter_map(|line| line.strip_prefix("    "));
        let keys = lines.filter_map(|line| line.split_once(": "));
        keys.map(|(key, _)| key.trim_matches('\'')).collect()
    }

    #[test]
    fn every_language_has_every_text_and_no_other() {
        let english = keys("text_en.js");
        assert!(english.len() > 100);
        assert_eq!(keys("text_de.js"), english);
        let scripts = FILES.iter().filter(|file| !file.name.starts_with("text_"));
        let all: Vec<&str> = scripts
            .map(|file| std::str::from_utf8(file.plain).unwrap())
            .collect();
        let all = all.concat();
        for call in all.split("t('").skip(1) {
            let key = call.split('\'').next().unwrap();
            let is_key = key.contains('.')
                && key
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || "._-".contains(c));
            assert!(!is_key || english.contains(key), "{key} has no text");
        }
        for key in english {
            // Some keys are made of a name, such as `state.open`.
            let (group, _) = key.split_once('.').unwrap_or((key, ""));
            let is_used = all.contains(&format!("'{key}'")) || all.contains(&format!("`{group}."));
            assert!(is_used, "{key} is used nowhere");
        }
    }

    #[test]
    fn another_version_of_a_file_is_not_there() {
        assert!(file(version(), "app.js").is_some());
        assert!(file("0123456789abcdef", "app.js").is_none());
        assert!(file(version(), "index.html").is_none());
        assert!(file(version(), "../mod.rs").is_none());
    }
}
