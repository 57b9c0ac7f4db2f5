//! One GET of a health check's URL: a connection of its own, no redirects, the status only.

use super::ask::connect;
use super::request_body::Outgoing;
use hyper::header::{HOST, HeaderValue, USER_AGENT};
use hyper::{Request, StatusCode, Uri};
use std::future::poll_fn;
use std::io;

/// The status of the answer. The certificate of an `https` URL must be of an authority that the
/// system trusts.
pub async fn probe(url: &Uri) -> io::Result<StatusCode> {
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let host = url.authority().map_or("", |authority| authority.as_str());
    let request = Request::get(path)
        .header(HOST, host)
        .header(USER_AGENT, HeaderValue::from_static("flowgate"))
        .body(Outgoing::empty())
        .map_err(io::Error::other)?;
    let mut connection = connect(url, None).await?;
    connection.begin(request);
    let response = poll_fn(|cx| connection.poll_head(cx)).await;
    response
        .map(|response| response.status())
        .map_err(io::Error::other)
}
