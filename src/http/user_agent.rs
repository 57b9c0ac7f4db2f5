//! The program that a client says it is, as it may be shown: `User-Agent` is any client's text.

use hyper::HeaderMap;
use hyper::header::USER_AGENT;

/// Characters that are shown. Our choice: browsers send about 110, and what differs stands at the
/// end.
const MAX_LENGTH: usize = 160;

/// `User-Agent` shortened and in printable ASCII, with `\xHH` for all other bytes; empty: there is
/// none.
pub(super) fn user_agent(headers: &HeaderMap) -> String {
    let sent = headers
        .get(USER_AGENT)
        .map_or(&[][..], |sent| sent.as_bytes());
    let mut shown: String = sent.iter().take(MAX_LENGTH).map(|b| escaped(*b)).collect();
    shown.truncate(MAX_LENGTH);
    shown
}

fn escaped(byte: u8) -> String {
    match byte {
        b' '..=b'[' | b']'..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn shown(sent: &[u8]) -> String {
        user_agent(&HeaderMap::from_iter([(
            USER_AGENT,
            HeaderValue::from_bytes(sent).unwrap(),
        )]))
    }

    #[test]
    fn printable_ascii_is_shown_as_it_is_and_other_bytes_are_escaped() {
        assert_eq!(shown(b"curl/8.1 (x; y)"), "curl/8.1 (x; y)");
        assert_eq!(
            shown(b"a\xe2\x80\xaeb\tc\\x41"),
            "a\\xe2\\x80\\xaeb\\x09c\\x5cx41"
        );
        assert_eq!(user_agent(&HeaderMap::new()), "");
    }

    #[test]
    fn a_long_name_is_shortened_after_it_is_escaped() {
        assert_eq!(shown(&[b'a'; 9000]).len(), MAX_LENGTH);
        assert_eq!(shown(&[0xe2; 9000]).len(), MAX_LENGTH);
    }
}
