//! What must hold for every path and every sign-in.

#![allow(clippy::unwrap_used, reason = "a check: it may panic")]

use super::form;
use super::path::Path;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Uri};

/// A canonical path has one spelling, and it is the same after any number of readers.
pub fn path(data: &[u8]) {
    let Ok(raw) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(path) = Path::parse(raw) else { return };
    let text = path.as_str();
    let parts: Vec<&str> = text.split('/').collect();
    assert!(text.starts_with('/') && (text == "/" || !text.ends_with('/')));
    assert!(parts.iter().skip(1).all(|s| !s.is_empty()) || text == "/");
    assert!(!parts.contains(&".") && !parts.contains(&".."));
    assert!(text.bytes().all(|b| b.is_ascii_graphic() && b != b'\\'));
    let upper = text.to_ascii_uppercase();
    for encoded in [
        "%2F", "%5C", "%00", "%0A", "%0D", "%7F", "%2E", "%41", "%7E",
    ] {
        assert!(!upper.contains(encoded), "{text}");
    }
    let again = Path::parse(text).unwrap();
    assert_eq!(again.as_str(), text);
    assert_eq!(again.lower(), text.to_ascii_lowercase());
    let segments = again.segments().unwrap();
    assert_eq!(segments.as_slice(), path.segments().unwrap().as_slice());
    // What is passed on is what was looked at.
    if let Ok(uri) = raw.parse::<Uri>()
        && uri.path() == raw
    {
        let target = path.target(&uri).unwrap();
        assert_eq!(
            target.path().trim_end_matches('/'),
            text.trim_end_matches('/')
        );
    }
}

/// Fields are strings, each once, without NUL; and what is read of a form or of JSON, the other says as well.
pub fn sign_in(data: &[u8]) {
    const NAMES: [&str; 3] = ["username", "password", "scope"];
    const KINDS: [&str; 2] = ["application/x-www-form-urlencoded", "application/json"];
    let Some((choice, content)) = data.split_first() else {
        return;
    };
    let read = |kind: &'static str, content: &[u8]| {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
        form::fields(&headers, content, NAMES)
    };
    let Ok(fields) = read(KINDS[usize::from(choice & 1)], content) else {
        return;
    };
    let found = NAMES.iter().zip(&fields);
    let found: Vec<_> = found.filter_map(|(n, v)| Some((*n, v.as_ref()?))).collect();
    assert!(found.iter().all(|(_, value)| !value.contains('\0')));
    let json: serde_json::Map<_, _> = found
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.as_str().into()))
        .collect();
    let json = serde_json::Value::Object(json).to_string();
    assert_eq!(read(KINDS[1], json.as_bytes()).unwrap(), fields);
    let mut form = form_urlencoded::Serializer::new(String::new());
    let form = form.extend_pairs(&found).finish();
    assert_eq!(read(KINDS[0], form.as_bytes()).unwrap(), fields);
}
