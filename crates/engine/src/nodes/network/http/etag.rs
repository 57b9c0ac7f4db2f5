//! Makes the `ETag` of a response (RFC 9110 §8.8.3), as Express does.

use aws_lc_rs::digest;
use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use hyper::HeaderMap;
use hyper::header::{ETAG, HeaderValue, LAST_MODIFIED};
use value::Value;

/// Tags an answer that has no tag.
pub(super) fn put(body: &[u8], headers: &mut HeaderMap) {
    if headers.contains_key(ETAG) {
        return;
    }
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, body);
    let hash = BASE64_STANDARD_NO_PAD.encode(hash);
    if let Ok(tag) = HeaderValue::from_str(&format!("W/\"{:x}-{hash}\"", body.len())) {
        headers.insert(ETAG, tag);
    }
}

/// Returns whether the client of a request (`msg.req`) already has this response (RFC 9110
/// §13.1.2).
pub(super) fn is_known(status: u16, request: &Value, headers: &HeaderMap) -> bool {
    let part = |key: &str| request.as_object()?.get(key);
    let method = part("method").and_then(Value::as_str).unwrap_or_default();
    let asked = |name: &str| part("headers")?.as_object()?.get(name)?.as_str();
    let Some(known) = asked("if-none-match") else {
        return false;
    };
    let whole_again = asked("cache-control").is_some_and(|text| text.contains("no-cache"));
    let fits = (200..300).contains(&status) && matches!(method, "GET" | "HEAD");
    if !fits || whole_again || headers.contains_key(LAST_MODIFIED) {
        return false;
    }
    let bare = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let own = headers.get(ETAG).and_then(|tag| tag.to_str().ok());
    let own = own.map(bare).unwrap_or_default();
    known.trim() == "*" || known.split(',').any(|tag| bare(tag) == own)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use value::json;

    #[test]
    fn if_none_match_is_compared_with_the_etag() {
        let mut headers = HeaderMap::new();
        put(b"", &mut headers);
        assert_eq!(headers[ETAG], "W/\"0-2jmj7l5rSw0yVb/vlWAYkK/YBwk\"");
        let asked = |tag: &str| {
            let request =
                serde_json::json!({ "method": "GET", "headers": { "if-none-match": tag } });
            json::parse(&request.to_string()).unwrap()
        };
        let tag = headers[ETAG].to_str().unwrap().to_owned();
        assert!(is_known(200, &asked(&format!("\"x\", {tag}")), &headers));
        assert!(!is_known(404, &asked(&tag), &headers));
        assert!(!is_known(200, &asked("\"x\""), &headers));
    }
}
