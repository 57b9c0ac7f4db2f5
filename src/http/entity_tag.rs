//! Conditional requests: whether the client has the version of an entity tag (RFC 9110 §13.1.2).

use hyper::header::{HeaderMap, IF_NONE_MATCH};

/// Compares with the tags that the client names, weakly (RFC 9110 §8.8.3.2); `None`: it names none.
/// Tags of ours have no comma.
pub(super) fn is_known(headers: &HeaderMap, tag: &str) -> Option<bool> {
    let mut fields = headers.get_all(IF_NONE_MATCH).iter().peekable();
    fields.peek()?;
    let mut tags = fields.flat_map(|field| field.to_str().unwrap_or_default().split(','));
    Some(tags.any(|known| known.trim() == "*" || opaque(known) == opaque(tag)))
}

fn opaque(tag: &str) -> &str {
    let tag = tag.trim();
    tag.strip_prefix("W/").unwrap_or(tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    #[test]
    fn a_client_has_the_version_whose_tag_it_names_strong_or_weak_or_any() {
        for (fields, expected) in [
            (&[][..], None),
            (&["\"a\""], Some(true)),
            (&["W/\"a\""], Some(true)),
            (&["\"b\", W/\"a\""], Some(true)),
            (&["\"b\"", "\"a\""], Some(true)),
            (&["*"], Some(true)),
            (&["\"b\""], Some(false)),
            (&["a"], Some(false)),
            (&["W/W/\"a\""], Some(false)),
            (&[""], Some(false)),
        ] {
            let fields = fields.iter().map(|field| HeaderValue::from_static(field));
            let headers: HeaderMap = fields.map(|field| (IF_NONE_MATCH, field)).collect();
            assert_eq!(is_known(&headers, "\"a\""), expected, "{headers:?}");
            assert_eq!(is_known(&headers, "W/\"a\""), expected, "{headers:?}");
        }
    }
}
