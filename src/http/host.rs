//! The host that a request is for: which one is named, and that it is one (RFC 9110 §7.2, RFC 9112 §3.2).

use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;

/// Whether the headers name one host.
pub(super) fn is_one(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    matches!((hosts.next(), hosts.next()), (Some(host), None) if is_host(host))
}

/// The host of a request, without its port. What stands in the target wins; with HTTP/2 it is all there is.
pub(super) fn named(head: &Parts) -> Option<&str> {
    let authority = match head.uri.authority() {
        Some(authority) => authority.as_str(),
        None => head.headers.get(HOST)?.to_str().ok()?,
    };
    let name = match authority.find(']') {
        Some(end) => authority.get(..=end)?,
        None => authority.split(':').next()?,
    };
    // A name may end in a dot: that of the root (RFC 3986 §3.2.2).
    Some(name.strip_suffix('.').unwrap_or(name))
}

/// Whether this is a host and perhaps a port (RFC 9110 §7.2); an empty one is a host (RFC 9112 §3.2).
fn is_host(value: &HeaderValue) -> bool {
    value.is_empty()
        || Authority::try_from(value.as_bytes()).is_ok_and(|host| !host.as_str().contains('@'))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use hyper::Request;

    fn of(target: &str, host: &str) -> Option<String> {
        let request = Request::get(target).header(HOST, host).body(()).unwrap();
        named(&request.into_parts().0).map(str::to_owned)
    }

    #[test]
    fn a_host_is_known_without_port_and_the_root_s_dot() {
        for (host, name) in [
            ("flows.example.org", "flows.example.org"),
            ("flows.example.org.:8443", "flows.example.org"),
            ("127.0.0.1:8443", "127.0.0.1"),
            ("[::1]:8443", "[::1]"),
            ("[::1]", "[::1]"),
            ("", ""),
        ] {
            assert_eq!(of("/", host).as_deref(), Some(name), "{host}");
        }
    }

    #[test]
    fn the_host_of_the_target_wins() {
        let found = of("http://a.example.org:80/x", "b.example.org");
        assert_eq!(found.as_deref(), Some("a.example.org"));
    }
}
