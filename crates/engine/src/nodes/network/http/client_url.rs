//! Completes the URL of an http request node.

/// The URL with its scheme, and with `%` in its query that encode nothing encoded themselves.
/// `None`: it is no URL of the web.
pub(super) fn whole(url: &str, secure: bool) -> Option<String> {
    if url.contains("://") && !url.starts_with("http") {
        return None;
    }
    let mut whole = if url.starts_with("http://") || url.starts_with("https://") {
        url.to_owned()
    } else if secure {
        format!("https://{url}")
    } else {
        format!("http://{url}")
    };
    let Some(at) = whole.find('?') else {
        return Some(whole);
    };
    let query = whole.split_off(at);
    let mut rest = query.as_str();
    while let Some(at) = rest.find('%') {
        let hex = rest.as_bytes().get(at + 1..at + 3);
        let encoded = hex.is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit));
        whole.push_str(&rest[..at]);
        whole.push_str(if encoded { "%" } else { "%25" });
        rest = &rest[at + 1..];
    }
    whole.push_str(rest);
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_gets_a_scheme_and_a_clean_query() {
        let table = [
            ("a.b/x", false, "http://a.b/x"),
            ("a.b/x", true, "https://a.b/x"),
            (
                "https://a.b?x=20%&y=%20&z=%zz",
                false,
                "https://a.b?x=20%25&y=%20&z=%25zz",
            ),
        ];
        for (url, secure, expected) in table {
            assert_eq!(whole(url, secure).as_deref(), Some(expected), "{url}");
        }
        assert_eq!(whole("ftp://a", false), None);
    }
}
