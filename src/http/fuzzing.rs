//! Checks the invariants of every path and every sign-in.

#![allow(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a check: it may panic"
)]

use super::path::Path;
use super::request_body;
use super::{form, well_formed};
use crate::upstream::fuzzing::{upstream, written};
use crate::upstream::strict_reader::{self, Framing};
use crate::upstream::{
    Authorization, ClientBody, ForwardedRequest, Identity, Outgoing, Pace, Passing, Upstream,
};
use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, Uri};
use hyper_util::rt::TokioIo;
use std::cell::RefCell;
use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::io::{AsyncWriteExt, duplex};
use tokio::runtime::{Builder, Runtime};

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
    // The forwarded path is the checked one.
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

/// Checks that fields are strings, each once, without NUL, and that a form and JSON yield the same
/// fields.
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

const LIMIT: usize = 1 << 20;
const IDLE: Duration = Duration::from_secs(1);

thread_local! {
    static UPSTREAM: (Runtime, Upstream) = {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        let upstream = runtime.block_on(async { upstream() });
        (runtime, upstream)
    };
}

/// Checks, for any input over HTTP/1.1: each request read from it is written to the upstream as
/// exactly one well-formed request with the authorized method and path, without a header that the
/// client may not set, framed by its body; and one whose body is refused is never completed.
pub fn upstream_request(data: &[u8]) {
    let Some((choice, stream)) = data.split_first() else {
        return;
    };
    let authorization = match choice & 3 {
        0 => Authorization::None,
        1 => Authorization::Client,
        _ => Authorization::Ours,
    };
    UPSTREAM.with(|(runtime, upstream)| {
        runtime.block_on(async {
            // Reads the bodies, then passes each of them on: whole, and piece by piece.
            let contents = RefCell::new(Vec::new());
            each(stream, async |_, mut body| {
                let content = request_body::read(&mut body, LIMIT, Pace::within(IDLE), None)
                    .await
                    .ok();
                contents.borrow_mut().push(content);
            })
            .await;
            let contents = contents.into_inner();
            let number = RefCell::new(0);
            each(stream, async |head, body| {
                let content = contents[number.replace_with(|number| *number + 1)].clone();
                let received = Received {
                    head: &head,
                    authorization,
                };
                let body = Outgoing::stream(body, LIMIT, Pace::within(IDLE));
                check(upstream, received, body, content.as_ref()).await;
                // The whole body, and others in its place, as in a request that is made anew or has
                // none.
                let others = [Bytes::new(), Bytes::from_static(b"replaced")];
                for content in content.into_iter().chain(others) {
                    let body = Outgoing::Whole(content.clone());
                    check(upstream, received, body, Some(&content)).await;
                }
            })
            .await;
        });
    });
}

/// Reads requests as the gateway does, and acts on each.
async fn each(stream: &[u8], act: impl AsyncFn(Parts, ClientBody)) {
    let (mut client, server) = duplex(stream.len().max(1));
    client.write_all(stream).await.unwrap();
    client.shutdown().await.unwrap();
    let service = service_fn(async |request: Request<Incoming>| {
        let (head, body) = request.into_parts();
        let body = ClientBody::received(body, head.version, 0);
        act(head, body).await;
        Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
    });
    let connection = http1::Builder::new()
        .half_close(true)
        .serve_connection(TokioIo::new(server), service);
    // The client reads no answers: they do not fit.
    tokio::select! {
        _ = connection => {}
        () = swallow(client) => {}
    }
}

/// Reads answers for as long as there are any.
async fn swallow(mut client: tokio::io::DuplexStream) {
    let mut sink = tokio::io::sink();
    let _ = tokio::io::copy(&mut client, &mut sink).await;
}

/// A request, and the credentials that it is forwarded with.
#[derive(Clone, Copy)]
struct Received<'a> {
    head: &'a Parts,
    authorization: Authorization,
}

/// Writes a request to the upstream and looks at what was written; `content`: its body, if that is
/// not refused.
async fn check(
    upstream: &Upstream,
    Received {
        head,
        authorization,
    }: Received<'_>,
    body: Outgoing,
    content: Option<&Bytes>,
) {
    if well_formed(head).is_err() || matches!(head.method, Method::TRACE | Method::CONNECT) {
        return;
    }
    let Ok(path) = Path::parse(head.uri.path()) else {
        return;
    };
    let Ok(target) = path.target(&head.uri) else {
        return;
    };
    let front = ForwardedRequest {
        head,
        target: &target,
        prefix: "",
        address: Ipv4Addr::LOCALHOST.into(),
        secure: true,
        asked: None,
        passing: Passing {
            from_proxies: &[],
            trusted: false,
        },
        id: "1",
        authorization,
        identity: Some(Identity::new("ann", ["read"].into_iter())),
        trace: None,
    };
    let (bytes, answered) = written(upstream, upstream.head(&front), body).await;
    let shown = String::from_utf8_lossy(&bytes);
    let read = strict_reader::read(&bytes).unwrap_or_else(|flaw| panic!("{flaw}: {shown}"));
    let Some((request, length)) = read else {
        assert!(content.is_none() && !answered, "incomplete: {shown}");
        return;
    };
    assert!(answered && length == bytes.len(), "more than one: {shown}");
    assert_eq!(request.method, head.method.as_str());
    assert_eq!(request.target, target.as_str());
    assert_eq!(
        Some(request.body.as_slice()),
        content.map(|content| &content[..])
    );
    let meant = matches!(head.method, Method::POST | Method::PUT | Method::PATCH);
    assert!(request.framing != Framing::Absent || !meant, "{shown}");
    only_what_may_pass(&request, head, authorization);
}

/// Fields that never pass, or that the gateway sets itself.
fn only_what_may_pass(
    request: &strict_reader::Request,
    head: &Parts,
    authorization: Authorization,
) {
    const OURS: [(&str, &str); 5] = [
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-proto", "https"),
        ("x-request-id", "1"),
        ("x-flowgate-user", "ann"),
        ("x-flowgate-permissions", "read"),
    ];
    const NEVER: [&str; 12] = [
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "http2-settings",
        "forwarded",
        "x-http-method-override",
        "x-original-url",
    ];
    let mut own = head.headers.get_all(AUTHORIZATION).iter();
    for (name, value) in &request.fields {
        // CGI and its kin read `_` and `-` alike.
        let alike = name.replace('_', "-");
        assert!(!NEVER.contains(&alike.as_str()), "{name}");
        if let Some((ours, set)) = OURS.iter().find(|(ours, _)| *ours == alike) {
            assert_eq!((name.as_str(), value.as_slice()), (*ours, set.as_bytes()));
        }
        if alike == "authorization" {
            assert_eq!(authorization, Authorization::Client);
            let only = own.next().map(|own| own.as_bytes().trim_ascii());
            assert_eq!((only, own.next()), (Some(value.as_slice()), None));
        }
    }
    let set = |name: &str| {
        request
            .fields
            .iter()
            .filter(|(field, _)| field == name)
            .count()
    };
    assert!(OURS.iter().all(|(name, _)| set(name) == 1));
}
