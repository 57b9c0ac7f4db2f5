//! Paths as they are compared where a permission depends on one: percent-decoded, as the runtime
//! decodes the parameters of an endpoint, and without regard to letter case.
//!
//! `/a%40b` and `/a@b` are two paths (RFC 3986 §2.2) and one value of `:name`: a rule for one of
//! them is for both.

use crypto::hex_digit;
use std::borrow::Cow;

/// The text without percent-encoding (RFC 3986 §2.1); a `%` without two digits stays.
pub fn percent_decoded(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        let octet = match after {
            [high, low, ..] if *first == b'%' => hex_digit(*high).zip(hex_digit(*low)),
            _ => None,
        };
        decoded.push(octet.map_or(*first, |(high, low)| high << 4 | low));
        rest = after.get(octet.map_or(0, |_| 2)..).unwrap_or_default();
    }
    decoded
}

/// A canonical path, encoded and in lower case, as it is compared. Allocates only for one that has
/// encoded characters.
pub fn path_key(path: &str) -> Cow<'_, str> {
    if !path.contains('%') {
        return Cow::Borrowed(path);
    }
    let decoded = percent_decoded(path.as_bytes());
    Cow::Owned(
        String::from_utf8_lossy(&decoded)
            .chars()
            .map(folded)
            .collect(),
    )
}

/// The length of the part of a canonical path, in lower case, that is the other one; `None`: it
/// does not begin with it.
pub fn leading(path: &str, above: &str) -> Option<usize> {
    if let Some(rest) = path.strip_prefix(above) {
        return (rest.is_empty() || rest.starts_with('/')).then_some(above.len());
    }
    let depth = above.matches('/').count();
    let end = path.match_indices('/').nth(depth);
    let end = end.map_or(path.len(), |(at, _)| at);
    let begin = path.get(..end)?;
    (path_key(begin) == path_key(above)).then_some(end)
}

/// The character without its case, by simple case folding: letters whose other case has several
/// characters stay.
fn folded(letter: char) -> char {
    let mut upper = letter.to_uppercase();
    let upper = upper.next().filter(|_| upper.next().is_none());
    let upper = upper.unwrap_or(letter);
    let mut lower = upper.to_lowercase();
    let lower = lower.next().filter(|_| lower.next().is_none());
    lower.unwrap_or(upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_value_have_one_key() {
        for (one, other) in [
            ("/a%40b", "/a@b"),
            ("/r%26d", "/r&d"),
            ("/a%2cb%3b", "/a,b;"),
            ("/%c3%9cbersicht", "/%c3%bcbersicht"),
            ("/%e2%84%aaanal", "/kanal"),
            ("/%c5%bftock", "/stock"),
            ("/%ce%a3%cf%82", "/%cf%83%cf%83"),
        ] {
            assert_eq!(path_key(one), path_key(other), "{one} {other}");
        }
        for (one, other) in [
            ("/a%2540b", "/a@b"),
            ("/stra%c3%9fe", "/strasse"),
            ("/a%20b", "/a+b"),
        ] {
            assert_ne!(path_key(one), path_key(other), "{one} {other}");
        }
    }

    #[test]
    fn a_path_begins_with_whole_segments_in_any_spelling() {
        for (path, above, length) in [
            ("/", "", Some(0)),
            ("/p/q", "/p", Some(2)),
            ("/pq", "/p", None),
            ("/p", "/p/q", None),
            ("/a%40b/q", "/a@b", Some(6)),
            ("/a@b/q", "/a%40b", Some(4)),
            ("/a%40bc/q", "/a@b", None),
            ("/%c3%9c/q/r", "/%c3%bc/q", Some(9)),
        ] {
            assert_eq!(leading(path, above), length, "{path} {above}");
        }
    }
}
