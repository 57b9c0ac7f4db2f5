//! Selects the headers of requests and responses that may pass.
//!
//! Hop-by-hop fields stay with their connection; the fields that report the caller and its
//! connection are set by the gateway, never by the client, however it spells them.

use super::Upstream;
use super::withheld::Passing;
pub use crate::config::Authorization;
use crate::config::{Dialect, Upstream as Config};
use crypto::hex;
use hyper::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderName,
    HeaderValue, PROXY_AUTHENTICATE, TE, TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;
use hyper::{Request, Uri};
use std::net::IpAddr;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");
/// The caller's name, percent-encoded.
pub const USER: HeaderName = HeaderName::from_static("x-flowgate-user");
/// The caller's permissions, percent-encoded, apart by spaces.
pub const PERMISSIONS: HeaderName = HeaderName::from_static("x-flowgate-permissions");
const IDENTITY: HeaderName = HeaderName::from_static("x-flowgate-identity");
/// The trace of a request, the span of its sender, and its decision (W3C Trace Context §3.2).
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// Fields of tracing systems, passed on unread (§3.3).
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// The request's id.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// A client's request, as it was decided on.
#[derive(Clone)]
pub struct ForwardedRequest<'a> {
    /// Method and headers, as sent.
    pub head: &'a Parts,
    /// Canonical path, and query.
    pub target: &'a PathAndQuery,
    /// The prefix of the path that is removed; empty: none.
    pub prefix: &'a str,
    /// The client's address.
    pub address: IpAddr,
    /// True if it came over TLS.
    pub secure: bool,
    /// The host that it asked a trusted proxy for.
    pub asked: Option<&'a HeaderValue>,
    /// The headers that trusted proxies may set for their clients.
    pub passing: Passing<'a>,
    /// The request's id.
    pub id: &'a str,
    /// The source of the `Authorization` that is sent.
    pub authorization: Authorization,
    /// The caller, if the upstream receives its identity.
    pub identity: Option<Identity>,
    /// Its position in a trace, instead of the client's.
    pub trace: Option<TraceHeaders>,
}

/// The header fields with the position of a request in a trace (W3C Trace Context).
#[derive(Debug, Clone)]
pub struct TraceHeaders {
    /// The trace and the span that makes the request.
    pub parent: HeaderValue,
    /// Fields of tracing systems, of the same trace.
    pub state: Option<HeaderValue>,
}

impl TraceHeaders {
    /// Sets the fields.
    fn set(&self, headers: &mut HeaderMap) {
        headers.insert(TRACEPARENT, self.parent.clone());
        match &self.state {
            Some(state) => drop(headers.insert(TRACESTATE, state.clone())),
            None => drop(headers.remove(TRACESTATE)),
        }
    }
}

/// The caller's identity, as headers for the upstream.
#[derive(Clone)]
pub struct Identity {
    user: HeaderValue,
    permissions: HeaderValue,
    /// Both, signed.
    token: Option<HeaderValue>,
}

impl Identity {
    /// Both percent-encoded where they are not printable ASCII; the permissions stand apart by
    /// spaces.
    pub fn new<'p>(user: &str, permissions: impl Iterator<Item = &'p str>) -> Self {
        let permissions: Vec<String> = permissions.map(encoded).collect();
        let value = |text: String| {
            HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
        };
        Self {
            user: value(encoded(user)),
            permissions: value(permissions.join(" ")),
            token: None,
        }
    }

    /// With a token that proves it, if there is one.
    #[must_use]
    pub fn with_token(self, token: Option<HeaderValue>) -> Self {
        Self { token, ..self }
    }

    /// Sets the headers.
    pub fn set(&self, headers: &mut HeaderMap) {
        headers.insert(USER, self.user.clone());
        headers.insert(PERMISSIONS, self.permissions.clone());
        if let Some(token) = &self.token {
            headers.insert(IDENTITY, token.clone());
        }
    }
}

impl Upstream {
    /// The head of the request to be sent for a client's.
    pub fn head(&self, front: &ForwardedRequest<'_>) -> Request<()> {
        let mut request = request(front);
        *request.headers_mut() =
            passed_on(&front.head.headers, self.0.config.dialect, front.passing);
        let mut own = front.head.headers.get_all(AUTHORIZATION).iter();
        if let (Authorization::Client, Some(only), None) =
            (front.authorization, own.next(), own.next())
        {
            request.headers_mut().insert(AUTHORIZATION, only.clone());
        }
        introduce(request.headers_mut(), front, || host_of(&self.0.config));
        request
    }

    /// The head of a request about the same that carries none of the client's own headers.
    pub fn own_head(&self, front: &ForwardedRequest<'_>) -> Request<()> {
        let mut request = request(front);
        introduce(request.headers_mut(), front, || host_of(&self.0.config));
        request
    }

    /// The head of a request that the gateway makes on its own behalf.
    pub(super) fn own(&self, path: &'static str) -> Request<()> {
        let mut request = Request::new(());
        let config = &self.0.config;
        // The config has let through nothing that could not stand in a path.
        *request.uri_mut() = format!("{}{path}", config.root).parse().unwrap_or_default();
        request.headers_mut().insert(HOST, host_of(config));
        request
    }

    /// The upstream's spelling of the header that names the API version.
    pub(super) fn api_version(&self) -> HeaderName {
        api_version(self.0.config.dialect)
    }

    /// The upstream's spelling of the header that names the deployment type.
    pub(super) fn deployment_type(&self) -> HeaderName {
        deployment_type(self.0.config.dialect)
    }

    /// Returns whether the upstream receives the caller's identity: that of a user, and on a socket
    /// also what an anonymous caller may do. The node host and an engine that runs apart decide by
    /// it.
    pub fn receives_identity(&self, is_user: bool) -> bool {
        self.0.config.identity_headers && (is_user || self.is_on_socket())
    }
}

/// A client's headers as a flow of our own engine sees them: as those of an upstream do.
pub fn seen_by_flows(front: &ForwardedRequest<'_>) -> HeaderMap {
    let mut headers = passed_on(&front.head.headers, Dialect::NodeRed, front.passing);
    // The engine reads no framing: a flow sees the length as the client announced it.
    if let Some(length) = front.head.headers.get(CONTENT_LENGTH) {
        headers.insert(CONTENT_LENGTH, length.clone());
    }
    let own = front.head.headers.get(AUTHORIZATION);
    if let Some(own) = own.filter(|_| front.authorization == Authorization::Client) {
        headers.insert(AUTHORIZATION, own.clone());
    }
    introduce(&mut headers, front, || HeaderValue::from_static("flowgate"));
    headers
}

/// Says who calls, and from where. `nameless`: the host, if the client named none.
fn introduce(
    headers: &mut HeaderMap,
    front: &ForwardedRequest<'_>,
    nameless: impl FnOnce() -> HeaderValue,
) {
    let host = match front.head.uri.authority() {
        // RFC 9112 §3.2.2: the authority in the target wins; with HTTP/2 it is the only one.
        Some(authority) => HeaderValue::from_str(authority.as_str()).ok(),
        None => front.head.headers.get(HOST).cloned(),
    };
    let host = host.unwrap_or_else(nameless);
    let asked = front.asked.unwrap_or(&host).clone();
    headers.insert(FORWARDED_HOST, asked);
    headers.insert(HOST, host);
    if !front.prefix.is_empty()
        && let Ok(prefix) = HeaderValue::from_str(front.prefix)
    {
        headers.insert(FORWARDED_PREFIX, prefix);
    }
    let proto = if front.secure { "https" } else { "http" };
    headers.insert(FORWARDED_PROTO, HeaderValue::from_static(proto));
    if let Some(address) = address_value(front.address) {
        headers.insert(FORWARDED_FOR, address);
    }
    if let Ok(id) = HeaderValue::from_str(front.id) {
        headers.insert(REQUEST_ID, id);
    }
    if let Some(identity) = &front.identity {
        identity.set(headers);
    }
    if let Some(trace) = &front.trace {
        trace.set(headers);
    }
}

/// An address as a header's value. IPv4 addresses are written here: a formatter takes ten times as
/// many instructions.
fn address_value(address: IpAddr) -> Option<HeaderValue> {
    let octets = match address.to_canonical() {
        IpAddr::V4(address) => address.octets(),
        address @ IpAddr::V6(_) => return HeaderValue::try_from(address.to_string()).ok(),
    };
    let mut text = [0; "255.255.255.255".len()];
    let mut room = text.iter_mut();
    let mut put = |byte| room.next().map(|place| *place = byte);
    for (n, octet) in octets.into_iter().enumerate() {
        let digits = [octet / 100, octet / 10 % 10, octet % 10];
        let used = 1 + usize::from(octet > 9) + usize::from(octet > 99);
        if n > 0 {
            put(b'.')?;
        }
        for digit in digits.into_iter().skip(digits.len() - used) {
            put(b'0' + digit)?;
        }
    }
    let free = room.len();
    HeaderValue::from_bytes(text.get(..text.len() - free)?).ok()
}

fn request(front: &ForwardedRequest<'_>) -> Request<()> {
    let mut request = Request::new(());
    *request.method_mut() = front.head.method.clone();
    *request.uri_mut() = Uri::from(front.target.clone());
    request
}

/// Takes out of an answer's headers what belongs to its connection, and its framing, which is made
/// anew for the body that is sent; of an answer to `HEAD` (`bodiless`) the length stays. On paths
/// of the admin API (`admin`) also what lets pages of other origins read it: Node-RED 4 allows all.
pub fn returned(headers: &mut HeaderMap, admin: bool, bodiless: bool) {
    let length = bodiless.then(|| only_length(headers)).flatten();
    let named = named_by_connection(headers);
    let stays = |name: &&HeaderName| {
        OF_CONNECTION.contains(name)
            || named.contains(name)
            || (admin && name.as_str().starts_with("access-control-"))
    };
    let staying: Vec<HeaderName> = headers.keys().filter(stays).cloned().collect();
    for name in staying {
        headers.remove(name);
    }
    if let Some(length) = length {
        headers.insert(CONTENT_LENGTH, length.into());
    }
}

/// The fields of an answer that belong to its connection or its framing.
static OF_CONNECTION: [HeaderName; 8] = [
    CONNECTION,
    KEEP_ALIVE,
    PROXY_CONNECTION,
    PROXY_AUTHENTICATE,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
    CONTENT_LENGTH,
];

/// The length that an answer names, if it is one.
fn only_length(headers: &HeaderMap) -> Option<u64> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let (Some(length), None) = (lengths.next(), lengths.next()) else {
        return None;
    };
    length.to_str().ok()?.parse().ok()
}

/// Returns whether the answer is a stream of server-sent events, which may be silent for long.
pub(super) fn is_event_stream(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// A name as a header's value (RFC 3986 §2.1).
fn encoded(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_graphic() && byte != b'%' {
            text.push(char::from(byte));
        } else {
            text.extend(["%", &hex(&[byte]).to_ascii_uppercase()]);
        }
    }
    text
}

fn host_of(config: &Config) -> HeaderValue {
    let (host, port) = (&config.host, config.port);
    let host = if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    };
    // The config has let through nothing that could not stand in a header.
    HeaderValue::try_from(host).unwrap_or_else(|_| HeaderValue::from_static("upstream"))
}

fn api_version(dialect: Dialect) -> HeaderName {
    HeaderName::from_static(match dialect {
        Dialect::NodeRed => "node-red-api-version",
        Dialect::Service => "service-api-version",
    })
}

fn deployment_type(dialect: Dialect) -> HeaderName {
    HeaderName::from_static(match dialect {
        Dialect::NodeRed => "node-red-deployment-type",
        Dialect::Service => "service-deployment-type",
    })
}

/// A client's headers without those that stay behind.
fn passed_on(headers: &HeaderMap, dialect: Dialect, passing: Passing<'_>) -> HeaderMap {
    let named = named_by_connection(headers);
    // Six more are added.
    let mut passed = HeaderMap::with_capacity(headers.len() + 6);
    for (name, value) in headers {
        match name.as_str() {
            "service-api-version" | "node-red-api-version" => {
                passed.insert(api_version(dialect), value.clone());
            }
            "service-deployment-type" | "node-red-deployment-type" => {
                passed.insert(deployment_type(dialect), value.clone());
            }
            _ if passing.withholds(name) => {}
            _ if named.contains(name) => {}
            _ => drop(passed.append(name.clone(), value.clone())),
        }
    }
    one_cookie(&mut passed);
    passed
}

/// The header fields that `Connection` lists as its own. `Host` belongs to the message, even if
/// listed.
fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|name| {
            !name.eq_ignore_ascii_case("close") && !name.eq_ignore_ascii_case("keep-alive")
        })
        .filter_map(|name| name.parse().ok())
        .filter(|name| name != HOST)
        .collect()
}

/// HTTP/2 may split cookies; HTTP/1.1 wants them in one field (RFC 9113 §8.2.3).
fn one_cookie(headers: &mut HeaderMap) {
    let fields: Vec<&[u8]> = headers
        .get_all(COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    if fields.len() > 1
        && let Ok(joined) = HeaderValue::from_bytes(&fields.join(&b"; "[..]))
    {
        headers.insert(COOKIE, joined);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const UNTRUSTED: Passing<'static> = Passing {
        from_proxies: &[],
        trusted: false,
    };

    fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields
            .iter()
            .map(|&(name, value)| {
                let name: HeaderName = name.parse().unwrap();
                (name, HeaderValue::from_static(value))
            })
            .collect()
    }

    #[test]
    fn hop_by_hop_and_gateway_headers_are_not_forwarded() {
        let sent = map(&[
            ("connection", "close, X-Hop, Content-Length"),
            ("x-hop", "1"),
            ("content-length", "5"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("trailer", "x"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("http2-settings", "AAMAAABk"),
            ("expect", "100-continue"),
            ("authorization", "Bearer client"),
            ("proxy-authorization", "Basic x"),
            ("forwarded", "for=1.2.3.4"),
            ("x-forwarded-for", "1.2.3.4"),
            ("x_forwarded_for", "1.2.3.4"),
            ("x-forwarded_proto", "http"),
            ("x-remote-user", "root"),
            ("remote_user", "root"),
            ("x-real-ip", "1.2.3.4"),
            ("x-request-id", "mine"),
            ("x-flowgate-user", "root"),
            ("transfer_encoding", "chunked"),
            ("content_length", "5"),
            ("x-original-url", "/flows"),
            ("x-http-method-override", "DELETE"),
            ("x-http-method", "DELETE"),
            ("x_method_override", "DELETE"),
            ("accept", "*/*"),
            ("x_custom", "kept"),
            ("if-none-match", "\"1\""),
        ]);
        let passed = passed_on(&sent, Dialect::NodeRed, UNTRUSTED);
        let mut names: Vec<&str> = passed.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["accept", "if-none-match", "x_custom"]);
    }

    #[test]
    fn admin_api_headers_are_sent_once_in_the_upstreams_dialect() {
        let sent = map(&[
            ("service-api-version", "v2"),
            ("node-red-api-version", "v2"),
            ("service-deployment-type", "nodes"),
            ("service_api_version", "v1"),
        ]);
        let passed = passed_on(&sent, Dialect::NodeRed, UNTRUSTED);
        assert_eq!(passed.len(), 2);
        assert_eq!(passed["node-red-api-version"], "v2");
        assert_eq!(passed["node-red-deployment-type"], "nodes");
        let passed = passed_on(&sent, Dialect::Service, UNTRUSTED);
        assert_eq!(passed.len(), 2);
        assert_eq!(passed["service-api-version"], "v2");
    }

    #[test]
    fn split_cookies_become_one_field() {
        let sent = map(&[("cookie", "a=1"), ("cookie", "b=2")]);
        let passed = passed_on(&sent, Dialect::NodeRed, UNTRUSTED);
        assert_eq!(
            passed.get_all(COOKIE).iter().collect::<Vec<_>>(),
            ["a=1; b=2"]
        );
    }

    #[test]
    fn a_response_loses_its_hop_by_hop_headers_and_keeps_others() {
        let mut headers = map(&[
            ("connection", "keep-alive, X-Hop"),
            ("keep-alive", "timeout=5"),
            ("x-hop", "1"),
            ("transfer-encoding", "chunked"),
            ("content-length", "7"),
            ("etag", "\"1\""),
            ("access-control-allow-origin", "*"),
        ]);
        let mut endpoint = headers.clone();
        returned(&mut endpoint, false, false);
        assert_eq!(endpoint.len(), 2);
        let mut bodiless = headers.clone();
        returned(&mut headers, true, false);
        assert_eq!(headers.len(), 1);
        assert!(headers.contains_key("etag"));
        returned(&mut bodiless, true, true);
        assert_eq!(bodiless[CONTENT_LENGTH], "7");
    }

    #[test]
    fn any_user_name_is_encoded_as_one_header_value() {
        assert_eq!(encoded("ann@example.org"), "ann@example.org");
        assert_eq!(encoded("Änn 100%\r\nX: 1"), "%C3%84nn%20100%25%0D%0AX:%201");
    }

    #[test]
    fn an_address_is_written_as_the_standard_library_writes_it() {
        for text in [
            "0.0.0.0",
            "9.10.99.100",
            "127.0.0.1",
            "255.255.255.255",
            "::1",
            "2001:db8::7",
        ] {
            assert_eq!(address_value(text.parse().unwrap()).unwrap(), text);
        }
        let mapped = address_value("::ffff:10.0.0.1".parse().unwrap());
        assert_eq!(mapped.unwrap(), "10.0.0.1");
    }

    #[test]
    fn event_streams_are_recognized_by_content_type() {
        let kind = |kind| is_event_stream(&map(&[("content-type", kind)]));
        assert!(kind("text/event-stream; charset=utf-8"));
        assert!(!kind("text/html"));
    }
}
