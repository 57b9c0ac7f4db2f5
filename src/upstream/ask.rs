//! One request to another server than an upstream, such as an identity provider: a connection of
//! its own, a time-out, a response of limited size, and no redirects, which could lead anywhere.

use super::http1::Connection;
use super::outbound::{Outbound, OutboundTls};
use super::request_body::Outgoing;
use bytes::Bytes;
use crypto::Secret;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, USER_AGENT,
};
use hyper::{Method, Request, Response, StatusCode, Uri};
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::time::timeout;

/// The time for all of it. Our choice: a provider answers within milliseconds, and users wait.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of a response. Our choice: key sets and metadata have some KiB.
const MAX_BODY: usize = 256 * 1024;

/// A response, as far as it is used.
#[derive(Debug)]
pub struct Answer {
    /// What its status means.
    pub answered: Answered,
    /// `max-age` of `Cache-Control`.
    pub max_age: Option<Duration>,
    /// The body.
    pub body: Bytes,
}

/// What a status means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// 2xx.
    Success,
    /// 4xx, but for those that ask to try again.
    Refused,
    /// All others, redirects too.
    Failed,
}

/// Sends a `GET`, or a `POST` with a form; `authorization` is the value of that header field.
pub async fn ask(
    url: &Uri,
    ca_file: Option<&Path>,
    form: Option<Secret>,
    authorization: Option<Secret>,
) -> io::Result<Answer> {
    let sent = async {
        let request = request(url, form, authorization)?;
        let connection = connect(url, ca_file).await?;
        let response = connection.exchange(request, MAX_BODY).await;
        response.map_err(io::Error::other)
    };
    let response = timeout(TIMEOUT, sent).await;
    let response = response.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    Ok(Answer {
        answered: answered(response.status()),
        max_age: max_age(response.headers()),
        body: response.into_body(),
    })
}

/// Sends any request to its absolute URL, on a connection of its own. The time for all of it and
/// the size of the response are limited, and redirects are not followed.
pub async fn send(
    request: Request<Bytes>,
    ca_file: Option<&Path>,
    limit: Duration,
) -> io::Result<Response<Bytes>> {
    let sent = async {
        let (mut parts, body) = request.into_parts();
        let url = parts.uri;
        let path = url.path_and_query().map_or("/", |path| path.as_str());
        parts.uri = path.parse().map_err(io::Error::other)?;
        let host = url.authority().map_or("", |authority| authority.as_str());
        let host = HeaderValue::try_from(host).map_err(io::Error::other)?;
        parts.headers.insert(HOST, host);
        let body = if body.is_empty() {
            Outgoing::empty()
        } else {
            Outgoing::Whole(body)
        };
        let connection = connect(&url, ca_file).await?;
        let request = Request::from_parts(parts, body);
        let response = connection.exchange(request, MAX_BODY).await;
        response.map_err(io::Error::other)
    };
    let response = timeout(limit, sent).await;
    response.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

/// Connects to the host of a URL. The certificate of an `https` URL must be of an authority of the
/// file, or of one that the system trusts.
pub(super) async fn connect(url: &Uri, ca_file: Option<&Path>) -> io::Result<Connection> {
    let host = url.host().unwrap_or_default();
    // An IPv6 address stands in brackets in a URL only.
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let secure = url.scheme_str() == Some("https");
    let port = url.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let tls = OutboundTls {
        ca_file,
        certificate: None,
    };
    let server = Outbound::open(name, port, secure.then_some(&tls)).map_err(io::Error::other)?;
    Ok(Connection::new(server.connect().await?, None))
}

fn request(
    url: &Uri,
    form: Option<Secret>,
    authorization: Option<Secret>,
) -> io::Result<Request<Outgoing>> {
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let host = url.authority().map_or("", |authority| authority.as_str());
    let mut request = Request::get(path)
        .header(HOST, host)
        .header(USER_AGENT, HeaderValue::from_static("flowgate"))
        .header(ACCEPT, HeaderValue::from_static("application/json"));
    if let Some(value) = authorization {
        let mut value = HeaderValue::try_from(value.reveal()).map_err(io::Error::other)?;
        value.set_sensitive(true);
        request = request.header(AUTHORIZATION, value);
    }
    let body = match form {
        None => Outgoing::empty(),
        Some(form) => {
            let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
            request = request.method(Method::POST).header(CONTENT_TYPE, kind);
            Outgoing::Whole(Bytes::copy_from_slice(form.reveal().as_bytes()))
        }
    };
    request.body(body).map_err(io::Error::other)
}

fn answered(status: StatusCode) -> Answered {
    match status {
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => Answered::Failed,
        status if status.is_success() => Answered::Success,
        status if status.is_client_error() => Answered::Refused,
        _ => Answered::Failed,
    }
}

/// RFC 9111 §5.2.2.1.
fn max_age(headers: &HeaderMap) -> Option<Duration> {
    let fields = headers.get_all(CACHE_CONTROL).iter();
    let directives = fields.flat_map(|field| field.to_str().unwrap_or_default().split(','));
    let mut ages = directives.filter_map(|directive| {
        let (name, value) = directive.trim().split_once('=')?;
        let is_age = name.eq_ignore_ascii_case("max-age");
        is_age
            .then(|| value.trim_matches('"').parse().ok())
            .flatten()
    });
    ages.next().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_to_keep_a_response_is_read_among_other_directives() {
        for (field, seconds) in [
            ("max-age=60", Some(60)),
            ("public, Max-Age=\"3600\", must-revalidate", Some(3600)),
            ("no-store", None),
            ("s-maxage=5", None),
            ("max-age=soon", None),
        ] {
            let headers = HeaderMap::from_iter([(CACHE_CONTROL, HeaderValue::from_static(field))]);
            assert_eq!(
                max_age(&headers),
                seconds.map(Duration::from_secs),
                "{field}"
            );
        }
    }

    #[test]
    fn a_redirect_is_a_failure() {
        for (status, expected) in [
            (200, Answered::Success),
            (302, Answered::Failed),
            (400, Answered::Refused),
            (429, Answered::Failed),
            (503, Answered::Failed),
        ] {
            let status = StatusCode::from_u16(status).unwrap_or_default();
            assert_eq!(answered(status), expected, "{status}");
        }
    }
}
