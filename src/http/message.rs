//! `Flowgate-Message`: what a client says about its change of the flows, for the history and the
//! audit log.

use super::error::Error;
use super::path::percent_decoded;
use hyper::HeaderMap;

/// The header's name.
const NAME: &str = "flowgate-message";
/// Characters of a message. Our choice: a few sentences.
const MAX_LENGTH: usize = 500;

/// The message of a request; empty: none. It is UTF-8, plain or percent-encoded (RFC 3986 §2.1).
pub(super) fn message(headers: &HeaderMap) -> Result<String, Error> {
    let mut sent = headers.get_all(NAME).iter();
    let Some(value) = sent.next() else {
        return Ok(String::new());
    };
    if sent.any(|other| other != value) {
        return Err(Error::DoubledHeader("Flowgate-Message"));
    }
    let decoded = String::from_utf8(percent_decoded(value.as_bytes()));
    let message = decoded.map_err(|_| Error::Message("must be UTF-8, plain or percent-encoded"))?;
    if message.chars().count() > MAX_LENGTH {
        return Err(Error::Message("must have at most 500 characters"));
    }
    if message.contains(char::is_control) {
        return Err(Error::Message("must have no control characters"));
    }
    Ok(message)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn of(values: &[&[u8]]) -> Result<String, String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(NAME, HeaderValue::from_bytes(value).unwrap());
        }
        message(&headers).map_err(|error| error.to_string())
    }

    #[test]
    fn a_message_is_plain_or_percent_encoded_utf8() {
        assert_eq!(of(&[]).unwrap(), "");
        assert_eq!(of(&["größer".as_bytes()]).unwrap(), "größer");
        assert_eq!(
            of(&[b"gr%C3%B6%c3%9fer, 100% sure"]).unwrap(),
            "größer, 100% sure"
        );
        assert_eq!(of(&[b"same", b"same"]).unwrap(), "same");
        assert_eq!(
            of(&["ü".repeat(500).as_bytes()]).unwrap().chars().count(),
            500
        );
    }

    #[test]
    fn a_message_that_a_log_could_misread_is_refused() {
        for (sent, reason) in [
            (
                &b"%ff"[..],
                "Flowgate-Message must be UTF-8, plain or percent-encoded",
            ),
            (b"a%0Ab", "Flowgate-Message must have no control characters"),
            (b"a\tb", "Flowgate-Message must have no control characters"),
            (
                &[b'a'; 501],
                "Flowgate-Message must have at most 500 characters",
            ),
        ] {
            assert_eq!(of(&[sent]).unwrap_err(), reason);
        }
        let doubled = of(&[b"a", b"b"]).unwrap_err();
        assert_eq!(
            doubled,
            "the header Flowgate-Message is sent twice with different values"
        );
    }
}
