//! The path of an http-in node's endpoint, as Express 4 reads it (`path-to-regexp` 0.1.12), and
//! whether a request's fits.
//!
//! Knows texts only. Plain paths and those with whole `:name` segments need no regular expression.

use crate::script::regexp;
use smol_str::{SmolStr, format_smolstr};
use value::Failure;
use value::regex::RegExp;

/// The paths that match an endpoint.
#[derive(Debug, Clone)]
pub(super) enum PathPattern {
    /// This one, in lower case, without the slashes around it.
    Fixed(String),
    /// One with as many segments.
    Segments(Vec<Segment>),
    /// One that a regular expression matches; the names of its groups.
    Pattern(Box<RegExp>, Vec<SmolStr>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Segment {
    /// Lower-case text.
    Text(String),
    /// `:name`, or `:name?` that may be absent.
    Param { name: SmolStr, optional: bool },
}

/// Values of parameters.
pub(super) type Params = Vec<(SmolStr, SmolStr)>;

impl PathPattern {
    /// Reads a path: `:name`, `:name?`, `:name(pattern)`, `*` and the signs of regular expressions.
    pub(super) fn parse(path: &str) -> Result<Self, Failure> {
        let bare = path.trim_matches('/');
        let segments: Option<Vec<Segment>> = bare.split('/').map(segment).collect();
        let Some(segments) = segments else {
            let (source, names) = translate(path);
            let regex = regexp::compile(&source, "i").map_err(|e| Failure::error(e.message))?;
            return Ok(Self::Pattern(Box::new(regex), names));
        };
        let plain = |s: &Segment| matches!(s, Segment::Text(_));
        Ok(if segments.iter().all(plain) {
            Self::Fixed(bare.to_lowercase())
        } else {
            Self::Segments(segments)
        })
    }

    /// The steps of its regular expression for a path of so many bytes, at worst; 0 without one.
    pub(super) fn steps(&self, length: usize) -> f64 {
        match self {
            Self::Fixed(_) | Self::Segments(_) => 0.0,
            Self::Pattern(regex, _) => regex.group_steps(length),
        }
    }

    /// The values of the parameters, if a path fits. Case and a trailing slash do not matter.
    pub(super) fn matched(&self, path: &str) -> Option<Params> {
        match self {
            Self::Fixed(own) => (*own == path.trim_matches('/').to_lowercase()).then(Vec::new),
            Self::Segments(segments) => matched(segments, path),
            Self::Pattern(regex, names) => {
                let found = regex.groups(path).unwrap_or_else(|failure| {
                    tracing::warn!(target: "flow", %failure, "the path of a request was matched to no endpoint");
                    None
                });
                let groups = names.iter().zip(found?);
                Some(
                    groups
                        .filter_map(|(name, group)| Some((name.clone(), group?)))
                        .collect(),
                )
            }
        }
    }
}

/// A whole segment without anything special; `None`: it takes a regular expression.
fn segment(part: &str) -> Option<Segment> {
    let word = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if let Some(name) = part.strip_prefix(':') {
        let bare = name.strip_suffix('?').unwrap_or(name);
        return (!bare.is_empty() && word(bare)).then(|| Segment::Param {
            name: bare.into(),
            optional: bare.len() < name.len(),
        });
    }
    let special = part.contains(|c| "()[]{}*+?:\\|^$".contains(c));
    (!special).then(|| Segment::Text(part.to_lowercase()))
}

fn matched(segments: &[Segment], path: &str) -> Option<Params> {
    let mut parts = path.split('/').filter(|p| !p.is_empty());
    let mut params = Vec::new();
    for segment in segments {
        match (segment, parts.next()) {
            (Segment::Text(text), Some(part)) if *text == part.to_lowercase() => {}
            (Segment::Param { name, .. }, Some(part)) => params.push((name.clone(), part.into())),
            (Segment::Param { optional: true, .. }, None) => {}
            _ => return None,
        }
    }
    parts.next().is_none().then_some(params)
}

/// The regular expression of a path, and the names of its groups: those of the parameters, numbers
/// for the others.
fn translate(path: &str) -> (String, Vec<SmolStr>) {
    let mut out = String::from("^");
    let mut named: Vec<(usize, SmolStr)> = Vec::new();
    // The text between two parameters of a segment; the second parameter cannot contain it.
    let mut between = String::new();
    let mut rest = path;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = parameter(rest, &mut out, &mut between, &mut named) {
            rest = after;
            continue;
        }
        let taken = match first {
            '\\' => rest.char_indices().nth(2).map_or(rest.len(), |(at, _)| at),
            '/' if rest.starts_with("/(") => 2,
            other => other.len_utf8(),
        };
        let (piece, after) = rest.split_at(taken);
        match piece {
            "." => out.push_str("\\."),
            "*" => out.push_str("(.*)"),
            "/(" => out.push_str("/(?:"),
            other => out.push_str(other),
        }
        between.push_str(if piece == "." { "\\." } else { piece });
        rest = after;
    }
    out.push_str(if path.ends_with('/') { "?$" } else { "/?$" });
    let groups = groups(&out, &named);
    (out, groups)
}

/// Takes a `:name` with what belongs to it; gives what follows.
fn parameter<'p>(
    rest: &'p str,
    out: &mut String,
    between: &mut String,
    named: &mut Vec<(usize, SmolStr)>,
) -> Option<&'p str> {
    let (slash, after) = strip(rest, "/");
    let (dot, after) = strip(after, ".");
    let after = after.strip_prefix(':')?;
    let end = after
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(after.len());
    let (name, mut after) = after.split_at(end);
    if name.is_empty() {
        return None;
    }
    let dot = if dot.is_empty() { "" } else { "\\." };
    if !slash.is_empty() || !dot.is_empty() {
        between.clear();
    }
    let mut capture = if between.is_empty() {
        format!("([^/{dot}]+?)")
    } else {
        format!("((?:(?!/|{between}).)+?)")
    };
    if after.starts_with('(')
        && let Some(end) = after.find(')')
    {
        capture = after[..=end].replace('*', "(.*)");
        after = &after[end + 1..];
    }
    let (star, after) = strip(after, "*");
    let (optional, after) = strip(after, "?");
    let star = if star.is_empty() {
        String::new()
    } else {
        format!("((?:[/{dot}].+?)?)")
    };
    out.push_str("(?:");
    out.push_str(dot);
    out.push_str(slash);
    named.push((out.len(), name.into()));
    for piece in [capture.as_str(), star.as_str(), ")", optional] {
        out.push_str(piece);
    }
    between.clear();
    Some(after)
}

fn strip<'t>(text: &'t str, sign: &'static str) -> (&'static str, &'t str) {
    match text.strip_prefix(sign) {
        Some(after) => (sign, after),
        None => ("", text),
    }
}

/// The name of each group of a regular expression: that of the parameter that begins there, or the
/// next number.
fn groups(source: &str, named: &[(usize, SmolStr)]) -> Vec<SmolStr> {
    let bytes = source.as_bytes();
    let mut number = 0;
    let mut found = Vec::new();
    for (at, _) in source.match_indices('(') {
        let escaped = at > 0 && bytes.get(at - 1) == Some(&b'\\');
        if escaped || bytes.get(at + 1) == Some(&b'?') {
            continue;
        }
        let own = named.iter().find(|(place, _)| *place == at);
        found.push(own.map_or_else(
            || {
                number += 1;
                format_smolstr!("{}", number - 1)
            },
            |(_, name)| name.clone(),
        ));
    }
    found
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn path_patterns_match_as_in_express() {
        let table: &[(&str, &str, Option<&str>)] = &[
            ("/a/b", "/A/b/", Some("")),
            ("/a/b", "/a", None),
            ("/things/:id", "/Things/AbC/", Some("id=AbC")),
            ("/o/:x?", "/o", Some("")),
            ("/r/*", "/r/a/b", Some("0=a/b")),
            ("/r/*", "/r/", Some("0=")),
            ("/r/*", "/r", None),
            ("/d/:id(\\d+)", "/d/12", Some("id=12")),
            ("/d/:id(\\d+)", "/d/x", None),
            ("/:from-:to", "/a-b-c", Some("from=a-b to=c")),
            ("/f/:name.:ext", "/f/x.txt", Some("name=x ext=txt")),
            ("/ab?c(de)?f", "/acdef", Some("0=de")),
            ("/a.b/:x-y", "/aXb/1-y", None),
            ("/(x|y)/:z", "/y/1", Some("z=1")),
            ("/p/:all*", "/p/a/b", Some("all=a 0=/b")),
        ];
        for (own, path, expected) in table {
            let found = PathPattern::parse(own)
                .unwrap()
                .matched(path)
                .map(|params| {
                    let texts: Vec<String> =
                        params.iter().map(|(k, v)| format!("{k}={v}")).collect();
                    texts.join(" ")
                });
            assert_eq!(found.as_deref(), *expected, "{own} {path}");
        }
        assert!(PathPattern::parse("/a(b").is_err());
    }
}
