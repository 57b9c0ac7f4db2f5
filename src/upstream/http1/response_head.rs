//! Parses the head of a response, and passes over interim responses (RFC 9110 §15.2).

use super::InvalidResponse;
use super::content::Content;
use bytes::{Buf, Bytes, BytesMut};
use httparse::{ParserConfig, Status};
use hyper::ext::ReasonPhrase;
use hyper::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Response, StatusCode};
use std::mem::MaybeUninit;

/// Bytes of the heads of one response, interim ones included. Our choice: four times what clients
/// may send.
pub(super) const LIMIT: usize = 64 * 1024;
/// Fields of a head. Our choice: as many as clients may send by default.
const FIELDS: usize = 100;
/// Room for the fields that the gateway adds to a response, so that its map need not grow.
const ADDED: usize = 8;

/// The head of a response.
pub(super) struct Head {
    pub(super) response: Response<()>,
    pub(super) content: Content,
    /// True if another request may follow on the connection.
    pub(super) keeps_alive: bool,
}

/// Reads the heads of one response.
#[derive(Default)]
pub(super) struct HeadReader {
    /// True if it answers `HEAD`.
    bodiless: bool,
    /// Bytes of interim responses so far.
    passed: usize,
    /// Bytes that have been seen to hold no complete head.
    seen: usize,
}

impl HeadReader {
    /// Of the response to a request of this method.
    pub(super) fn of(method: &Method) -> Self {
        Self {
            bodiless: *method == Method::HEAD,
            ..Self::default()
        }
    }

    /// Takes the head off what has been received; `None`: it is not complete.
    pub(super) fn next(
        &mut self,
        received: &mut BytesMut,
    ) -> Result<Option<Head>, InvalidResponse> {
        while may_be_complete(received, self.seen) {
            let Some(parsed) = parse(received)? else {
                break;
            };
            received.advance(parsed.length);
            self.seen = 0;
            self.passed += parsed.length;
            self.check_size(0)?;
            let status = parsed.response.status();
            if !status.is_informational() || status == StatusCode::SWITCHING_PROTOCOLS {
                return self.head(parsed).map(Some);
            }
        }
        self.seen = received.len();
        self.check_size(received.len())?;
        Ok(None)
    }

    fn head(&self, parsed: Parsed) -> Result<Head, InvalidResponse> {
        let Parsed {
            response, http_1_0, ..
        } = parsed;
        let headers = response.headers();
        let content = Content::of(response.status(), self.bodiless, http_1_0, headers)?;
        // A server of HTTP/1.0 reads no chunks: the next request goes over another connection.
        let keeps_alive = !http_1_0 && !closes(headers) && !content.is_ambiguous(headers);
        Ok(Head {
            response,
            content,
            keeps_alive,
        })
    }

    /// The connection has ended in what has been received: an error if no head could have come of
    /// it.
    pub(super) fn end(&self, received: &[u8]) -> Result<(), InvalidResponse> {
        if self.seen > 0 {
            parse(received)?;
        }
        Ok(())
    }

    fn check_size(&self, more: usize) -> Result<(), InvalidResponse> {
        if self.passed + more > LIMIT {
            return Err(InvalidResponse::HeadTooLarge);
        }
        Ok(())
    }
}

/// Returns whether a head may end in these bytes: those before `seen` have been parsed in vain, and
/// are not parsed again before an empty line has come.
fn may_be_complete(received: &[u8], seen: usize) -> bool {
    if seen == 0 {
        return !received.is_empty();
    }
    let new = received.get(seen.saturating_sub(2)..).unwrap_or_default();
    new.windows(2).any(|two| two == b"\n\n") || new.windows(3).any(|three| three == b"\n\r\n")
}

/// One head, and the number of its bytes.
struct Parsed {
    response: Response<()>,
    http_1_0: bool,
    length: usize,
}

/// Parses the first head; `None`: it is not complete.
fn parse(received: &[u8]) -> Result<Option<Parsed>, InvalidResponse> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS];
    let mut parsed = httparse::Response::new(&mut []);
    let status = ParserConfig::default()
        .parse_response_with_uninit_headers(&mut parsed, received, &mut fields)
        .map_err(InvalidResponse::Head)?;
    let Status::Complete(length) = status else {
        return Ok(None);
    };
    let mut response = Response::new(());
    *response.headers_mut() = headers(received, length, parsed.headers)?;
    let code = parsed.code.unwrap_or_default();
    let status =
        StatusCode::from_u16(code).map_err(|_| InvalidResponse::Head(httparse::Error::Status))?;
    *response.status_mut() = status;
    // The server passes on a phrase that is not the usual one.
    let reason = parsed
        .reason
        .filter(|reason| status.canonical_reason() != Some(*reason));
    if let Some(reason) = reason.and_then(|reason| ReasonPhrase::try_from(reason.as_bytes()).ok()) {
        response.extensions_mut().insert(reason);
    }
    Ok(Some(Parsed {
        response,
        http_1_0: parsed.version == Some(0),
        length,
    }))
}

/// The fields of a head of this length. Their values share one copy of it: slices of what was
/// received would keep the room for reading from being used again.
fn headers(
    received: &[u8],
    length: usize,
    fields: &[httparse::Header<'_>],
) -> Result<HeaderMap, InvalidResponse> {
    let head = Bytes::copy_from_slice(received.get(..length).unwrap_or_default());
    let mut headers = HeaderMap::with_capacity(fields.len() + ADDED);
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes())
            .map_err(|_| InvalidResponse::Head(httparse::Error::HeaderName))?;
        let start = field.value.as_ptr().addr() - received.as_ptr().addr();
        let value = match field.value.len() {
            0 => HeaderValue::from_static(""),
            length => HeaderValue::from_maybe_shared(head.slice(start..start + length))
                .map_err(|_| InvalidResponse::Head(httparse::Error::HeaderValue))?,
        };
        headers.append(name, value);
    }
    Ok(headers)
}

/// Returns whether the upstream closes the connection after its response (RFC 9112 §9.6).
fn closes(headers: &HeaderMap) -> bool {
    headers.get_all(CONNECTION).iter().any(|value| {
        let mut options = value.as_bytes().split(|byte| *byte == b',');
        options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<Head>, InvalidResponse> {
        HeadReader::default().next(&mut BytesMut::from(text))
    }

    #[test]
    fn a_response_whose_end_is_not_certain_is_refused() {
        for (fields, flaw) in [
            (
                "Content-Length: 5\r\nContent-Length: 6",
                InvalidResponse::Length,
            ),
            ("Content-Length: 5, 6", InvalidResponse::Length),
            ("Content-Length: +5", InvalidResponse::Length),
            ("Content-Length: 5 5", InvalidResponse::Length),
            ("Content-Length:", InvalidResponse::Length),
            (
                "Content-Length: 18446744073709551616",
                InvalidResponse::Length,
            ),
            ("Transfer-Encoding: gzip, chunked", InvalidResponse::Coding),
            ("Transfer-Encoding: identity", InvalidResponse::Coding),
            (
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
                InvalidResponse::Coding,
            ),
        ] {
            let head = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n");
            assert_eq!(read(&head).err(), Some(flaw), "{fields}");
        }
        let old = "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(read(old).err(), Some(InvalidResponse::Coding));
    }

    #[test]
    fn a_malformed_or_too_large_head_is_refused() {
        let fields = "X: y\r\n".repeat(FIELDS + 1);
        for head in [
            "SSH-2.0-OpenSSH_9\r\n\r\n",
            "HTTP/2 200 OK\r\n\r\n",
            "HTTP/1.1 099 Low\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX : y\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX: y\r\n folded\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n",
            &format!("HTTP/1.1 200 OK\r\n{fields}\r\n"),
        ] {
            let flaw = read(head).err();
            assert!(
                matches!(flaw, Some(InvalidResponse::Head(_))),
                "{head:.40}: {flaw:?}"
            );
        }
        let long = format!("HTTP/1.1 200 OK\r\nX: {}", "y".repeat(LIMIT));
        let interim = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(LIMIT / 28 + 1);
        for head in [&long, &format!("{long}\r\n\r\n"), &interim] {
            assert_eq!(
                read(head).err(),
                Some(InvalidResponse::HeadTooLarge),
                "{head:.40}"
            );
        }
    }

    #[test]
    fn a_head_keeps_repeated_fields_and_an_unusual_reason() {
        let text = "HTTP/1.1 200 Fine\r\nSet-Cookie: a\r\nset-cookie:b \r\nX-Empty:\r\n\r\nrest";
        let mut received = BytesMut::from(text);
        let head = HeadReader::default().next(&mut received).unwrap().unwrap();
        assert_eq!(received, "rest");
        let headers = head.response.headers();
        let cookies: Vec<_> = headers.get_all("set-cookie").iter().collect();
        assert_eq!(cookies, ["a", "b"]);
        assert_eq!(headers["x-empty"], "");
        let reason = head.response.extensions().get::<ReasonPhrase>().unwrap();
        assert_eq!(reason.as_bytes(), b"Fine");
        assert!(head.keeps_alive && head.content.ends_with_connection());
    }
}
