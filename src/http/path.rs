//! The canonical path (RFC 3986 §6.2.2): the one spelling that is matched, authorized and passed
//! on.
//!
//! A path that two programs could read differently is refused, never repaired. Knows no endpoint.

pub(super) use crate::config::percent_decoded;
use crate::config::{self, leading, path_key};
use crypto::hex_digit;
use hyper::Uri;
use hyper::http::uri::PathAndQuery;
use std::borrow::Cow;

/// Segments that are looked at; no pattern of the route table is longer, so deeper paths only match
/// `..`.
const DEPTH: usize = 8;

/// Why a path is refused, in words for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Refused(pub(super) &'static str);

/// A canonical path: unreserved characters decoded, everything unusual encoded with upper-case
/// digits, no slash at the end (but of the root).
#[derive(Debug)]
pub(super) struct Path<'a> {
    text: Cow<'a, str>,
    /// The same in lower case, where that differs.
    lower: Option<String>,
    /// True if it was sent with a slash at the end: that counts for nothing here, but it may
    /// elsewhere.
    slash: bool,
    /// The length of the part that leads to the backend.
    backend: usize,
    /// The length of the part removed when it is passed on.
    cut: usize,
    /// The length of the part that leads to the backend's admin API; `None`: it is elsewhere.
    admin: Option<usize>,
}

/// The first segments of a path.
#[derive(Debug)]
pub(super) struct Segments<'a> {
    all: [&'a str; DEPTH],
    count: usize,
}

impl<'a> Path<'a> {
    /// Makes a path canonical. Allocates only for one that is not canonical, or has upper-case
    /// letters.
    pub(super) fn parse(raw: &'a str) -> Result<Self, Refused> {
        if !raw.starts_with('/') {
            return Err(Refused("the path must begin with a slash"));
        }
        let text = if raw.bytes().all(is_plain) {
            Cow::Borrowed(raw)
        } else {
            Cow::Owned(normalise(raw)?)
        };
        if text.contains("//") {
            return Err(Refused("the path has an empty segment"));
        }
        if text.split('/').any(|s| s == "." || s == "..") {
            return Err(Refused("the path has a dot segment"));
        }
        let slash = text.len() > 1 && text.ends_with('/');
        let text = match text {
            Cow::Borrowed(text) => Cow::Borrowed(trimmed(text)),
            Cow::Owned(text) => Cow::Owned(trimmed(&text).to_owned()),
        };
        let lower = text
            .bytes()
            .any(|b| b.is_ascii_uppercase())
            .then(|| text.to_ascii_lowercase());
        Ok(Self {
            text,
            lower,
            slash,
            backend: 0,
            cut: 0,
            admin: Some(0),
        })
    }

    /// From here on it is a path of this site, which it leads to.
    pub(super) fn enter(&mut self, backend: &config::Mount) {
        self.backend = leading(self.lower(), &backend.path).unwrap_or_default();
        self.cut = if backend.prefix.is_empty() {
            0
        } else {
            self.backend
        };
        let admin = leading(self.below(), &backend.admin_root);
        self.admin = admin.map(|length| self.backend + length);
    }

    /// The path, letters as sent.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// The path as it is passed on, with the query of `uri`, where it came from. Copies nothing if
    /// it was canonical.
    pub(super) fn target(&self, uri: &Uri) -> Result<PathAndQuery, Refused> {
        if matches!(self.text, Cow::Borrowed(_))
            && self.cut == 0
            && let Some(target) = uri.path_and_query()
        {
            return Ok(target.clone());
        }
        let rest = self.text.get(self.cut..).unwrap_or_default();
        let slash = if self.slash || rest.is_empty() {
            "/"
        } else {
            ""
        };
        let target = match uri.query() {
            Some(query) => format!("{rest}{slash}?{query}"),
            None => format!("{rest}{slash}"),
        };
        PathAndQuery::try_from(target).map_err(|_| Refused("the path cannot be passed on"))
    }

    /// The path of an endpoint of the same admin API, for clients.
    pub(super) fn endpoint(&self, path: &str) -> String {
        let root = self.admin.and_then(|admin| self.text.get(..admin));
        format!("{}{path}", root.unwrap_or_default())
    }

    /// The location of the editor, if only the slash at the end is missing that the editor's
    /// relative paths need.
    pub(super) fn editor(&self, uri: &Uri) -> Option<String> {
        let bare = self.admin == Some(self.text.len()) && !self.slash;
        let query = uri.query().map(|query| format!("?{query}"));
        bare.then(|| format!("{}/{}", self.text, query.unwrap_or_default()))
    }

    /// The path in lower case: paths match whatever their case
    /// (docs/reference/node-red-admin-api.md §0).
    pub(super) fn lower(&self) -> &str {
        self.lower.as_deref().unwrap_or(&self.text)
    }

    /// The path below the one that leads to the site, in lower case.
    pub(super) fn below(&self) -> &str {
        match self.lower().get(self.backend..) {
            Some("") | None => "/",
            Some(rest) => rest,
        }
    }

    /// The path from the admin root on, in lower case; `None`: it is elsewhere.
    pub(super) fn admin(&self) -> Option<&str> {
        match self.lower().get(self.admin?..) {
            Some("") | None => Some("/"),
            rest => rest,
        }
    }

    /// The path below the one that leads to the site, as rules compare it.
    pub(super) fn key(&self) -> Cow<'_, str> {
        path_key(self.below())
    }

    /// The path from the admin root on, as rules compare it; `None`: it is elsewhere.
    pub(super) fn admin_key(&self) -> Option<Cow<'_, str>> {
        self.admin().map(path_key)
    }

    /// The lower-case segments of a path of the admin API, none for its root; `None`: it is
    /// elsewhere.
    pub(super) fn segments(&self) -> Option<Segments<'_>> {
        let path = self.lower().get(self.admin?..)?;
        let mut segments = Segments {
            all: [""; DEPTH],
            count: 0,
        };
        let parts = path.split('/').skip(1).filter(|s| !s.is_empty());
        for (slot, part) in segments.all.iter_mut().zip(parts) {
            *slot = part;
            segments.count += 1;
        }
        Some(segments)
    }

    /// The `n`th segment of a path of the admin API decoded, letters as sent; empty if there is
    /// none.
    pub(super) fn parameter(&self, n: usize) -> String {
        let path = self.admin.and_then(|admin| self.text.get(admin..));
        decode(
            path.unwrap_or_default()
                .split('/')
                .nth(n + 1)
                .unwrap_or_default(),
        )
    }

    /// The segments of a path of the admin API from the `n`th on, decoded, letters as sent.
    #[cfg(feature = "engine")]
    pub(super) fn rest(&self, n: usize) -> Vec<String> {
        let path = self.admin.and_then(|admin| self.text.get(admin..));
        let segments = path.unwrap_or_default().split('/').skip(n + 1);
        segments.filter(|s| !s.is_empty()).map(decode).collect()
    }

    /// The whole path decoded, as flows see it.
    #[cfg(feature = "engine")]
    pub(super) fn decoded(&self) -> String {
        decode(&self.text)
    }
}

impl<'a> Segments<'a> {
    /// As a slice to match on.
    pub(super) fn as_slice(&self) -> &[&'a str] {
        self.all.get(..self.count).unwrap_or(&self.all)
    }
}

fn trimmed(path: &str) -> &str {
    match path.strip_suffix('/') {
        Some("") | None => path,
        Some(rest) => rest,
    }
}

/// Returns whether a character needs no encoding in a path: `pchar` of RFC 3986 §3.3 without `%`,
/// and the slash.
fn is_plain(byte: u8) -> bool {
    is_unreserved(byte) || b"/!$&'()*+,;=:@".contains(&byte)
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

fn normalise(raw: &str) -> Result<String, Refused> {
    let mut text = String::with_capacity(raw.len());
    let mut decoded = Vec::with_capacity(raw.len());
    let mut bytes = raw.bytes();
    while let Some(byte) = bytes.next() {
        let (byte, encoded) = if byte == b'%' {
            let pair = (
                bytes.next().and_then(hex_digit),
                bytes.next().and_then(hex_digit),
            );
            let (Some(high), Some(low)) = pair else {
                return Err(Refused("the path has a malformed percent-encoding"));
            };
            (high << 4 | low, true)
        } else {
            (byte, false)
        };
        match byte {
            b'\\' => return Err(Refused("the path has a backslash")),
            b'/' if encoded => return Err(Refused("the path has an encoded slash")),
            0..=0x1f | 0x7f => return Err(Refused("the path has a control character")),
            _ if is_unreserved(byte) || (!encoded && is_plain(byte)) => text.push(char::from(byte)),
            _ => encode(byte, &mut text),
        }
        decoded.push(byte);
    }
    match std::str::from_utf8(&decoded) {
        Err(_) => Err(Refused("the path is not UTF-8")),
        Ok(path) if path.contains(char::is_control) => {
            Err(Refused("the path has a control character"))
        }
        Ok(_) => Ok(text),
    }
}

fn encode(byte: u8, text: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    text.push('%');
    text.push(char::from(DIGITS[usize::from(byte >> 4)]));
    text.push(char::from(DIGITS[usize::from(byte & 15)]));
}

pub(super) fn decode(text: &str) -> String {
    String::from_utf8_lossy(&percent_decoded(text.as_bytes())).into_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_path_has_the_same_canonical_form() {
        for (raw, canonical) in [
            ("/", "/"),
            ("/flows", "/flows"),
            ("/flows/", "/flows"),
            ("/%66lows", "/flows"),
            ("/%66%6C%6f%57s/%7Ex", "/floWs/~x"),
            ("/a%3ab", "/a%3Ab"),
            ("/a:b@c;x=1,(2)", "/a:b@c;x=1,(2)"),
            ("/a%2520b", "/a%2520b"),
            ("/%252e%252e/x", "/%252e%252e/x"),
            ("/\u{e9}/%c3%A9", "/%C3%A9/%C3%A9"),
            ("/a b\"<>|", "/a%20b%22%3C%3E%7C"),
            ("/...", "/..."),
            ("/.a/a.", "/.a/a."),
        ] {
            assert_eq!(Path::parse(raw).unwrap().as_str(), canonical, "{raw}");
        }
    }

    #[test]
    fn an_ambiguous_path_is_refused() {
        for raw in [
            "",
            "*",
            "flows",
            "//",
            "//flows",
            "/flows//",
            "/a//b",
            "/.",
            "/..",
            "/./flows",
            "/red/../flows",
            "/flows/.",
            "/%2e/flows",
            "/a/%2E%2e/flows",
            "/a/.%2e/flows",
            "/a%2fb",
            "/a%2Fb",
            "/a%5cb",
            "/a\\b",
            "/%",
            "/%6",
            "/%zz",
            "/%+1",
            "/%00",
            "/%0a",
            "/%1f",
            "/%7F",
            "/%C2%85",
            "/%ff",
            "/%c3",
            "/%c0%af",
            "/%ed%a0%80",
        ] {
            assert!(Path::parse(raw).is_err(), "{raw}");
        }
    }

    #[test]
    fn a_canonical_path_in_lower_case_is_not_copied() {
        let path = Path::parse("/flows/state").unwrap();
        assert!(matches!(path.text, Cow::Borrowed(_)) && path.lower.is_none());
    }

    #[test]
    fn the_canonical_path_is_forwarded_with_its_slash_and_query() {
        for (raw, target) in [
            ("/", "/"),
            ("/?a=%66", "/?a=%66"),
            ("/ui/", "/ui/"),
            ("/Ui?x", "/Ui?x"),
            ("/%66lows/?a=b", "/flows/?a=b"),
            ("/%66lows", "/flows"),
            ("/a%3ab", "/a%3Ab"),
        ] {
            let uri: Uri = raw.parse().unwrap();
            let path = Path::parse(uri.path()).unwrap();
            assert_eq!(path.target(&uri).unwrap().as_str(), target, "{raw}");
        }
    }

    #[test]
    fn segments_are_lower_case_and_parameters_as_sent() {
        let path = Path::parse("/Nodes/%40Scope/a%20B/").unwrap();
        assert_eq!(
            path.segments().unwrap().as_slice(),
            ["nodes", "%40scope", "a%20b"]
        );
        #[cfg(feature = "engine")]
        {
            assert_eq!(path.parameter(1), "@Scope");
            assert_eq!(path.parameter(2), "a B");
            assert_eq!(path.parameter(9), "");
            assert_eq!(path.decoded(), "/Nodes/@Scope/a B");
        }
    }

    #[test]
    fn the_root_has_no_segments_and_deep_paths_are_cut() {
        assert!(
            Path::parse("/")
                .unwrap()
                .segments()
                .unwrap()
                .as_slice()
                .is_empty()
        );
        let deep = "/a".repeat(20);
        assert_eq!(
            Path::parse(&deep)
                .unwrap()
                .segments()
                .unwrap()
                .as_slice()
                .len(),
            DEPTH
        );
    }
    /// A path of a site at `/p` whose admin API is at `/a` below it.
    fn entered(raw: &str, strip: bool) -> Path<'_> {
        let backend = config::Mount {
            path: "/p".to_owned(),
            admin_root: "/a".to_owned(),
            prefix: if strip {
                "/p".to_owned()
            } else {
                String::new()
            },
            ..config::Mount::default()
        };
        let mut path = Path::parse(raw).unwrap();
        path.enter(&backend);
        path
    }

    #[test]
    fn a_path_of_a_mount_is_matched_below_its_prefix() {
        for (raw, below, admin) in [
            ("/P", "/", None),
            ("/p/x", "/x", None),
            ("/p/flows", "/flows", None),
            ("/p/ab/flows", "/ab/flows", None),
            ("/p/A", "/a", Some(vec![])),
            ("/%70/a/Flows/X/", "/a/flows/x", Some(vec!["flows", "x"])),
        ] {
            let path = entered(raw, true);
            assert_eq!(path.below(), below, "{raw}");
            let segments = path.segments();
            assert_eq!(segments.as_ref().map(Segments::as_slice), admin.as_deref());
        }
    }

    #[test]
    fn a_path_is_forwarded_without_its_prefix_if_configured() {
        for (raw, stripped) in [
            ("/P?q", "/?q"),
            ("/p/", "/"),
            ("/p/A/Flows/?a=%66", "/A/Flows/?a=%66"),
            ("/%70/%61", "/a"),
        ] {
            let uri: Uri = raw.parse().unwrap();
            let cut = entered(uri.path(), true).target(&uri).unwrap();
            assert_eq!(cut.as_str(), stripped, "{raw}");
        }
        let uri: Uri = "/P/A/flows?q".parse().unwrap();
        let whole = entered(uri.path(), false).target(&uri).unwrap();
        assert_eq!(whole.as_str(), "/P/A/flows?q");
    }

    #[test]
    fn the_editor_path_gets_a_trailing_slash() {
        let editor = |raw: &str| {
            let uri: Uri = raw.parse().unwrap();
            entered(uri.path(), true).editor(&uri)
        };
        assert_eq!(editor("/P/a").as_deref(), Some("/P/a/"));
        assert_eq!(editor("/p/a?x=1").as_deref(), Some("/p/a/?x=1"));
        for raw in ["/p/a/", "/p", "/p/", "/p/a/flows"] {
            assert_eq!(editor(raw), None, "{raw}");
        }
        let root = Path::parse("/").unwrap();
        assert_eq!(root.editor(&Uri::from_static("/")), None);
    }
}
