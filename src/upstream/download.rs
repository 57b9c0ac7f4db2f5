//! One file from another server, for the commands that need one: a connection of its own, a
//! time-out, a limited size, and no redirects, which could lead anywhere.

use super::ask::connect;
use super::request_body::Outgoing;
use bytes::Bytes;
use hyper::header::{HOST, HeaderValue, USER_AGENT};
use hyper::{Request, StatusCode, Uri};
use std::path::Path;
use std::time::Duration;
use tokio::time::timeout;

/// Reads a file of at most `limit` bytes within `time`. An `https` server's certificate must be of
/// an authority of the file, or of one that the system trusts. The error is a sentence.
pub async fn download(
    url: &Uri,
    ca_file: Option<&Path>,
    limit: usize,
    time: Duration,
) -> Result<Bytes, String> {
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let host = url.authority().map_or("", |authority| authority.as_str());
    let request = Request::get(path)
        .header(HOST, host)
        .header(USER_AGENT, HeaderValue::from_static("flowgate"))
        .body(Outgoing::empty());
    let request = request.map_err(|error| format!("{url}: {error}"))?;
    let sent = async {
        let connection = connect(url, ca_file).await;
        let connection = connection.map_err(|error| error.to_string())?;
        let response = connection.exchange(request, limit).await;
        response.map_err(|error| error.to_string())
    };
    let response = timeout(time, sent).await;
    let response = response
        .map_err(|_| format!("{url}: no response within {} s", time.as_secs()))?
        .map_err(|error| format!("{url}: {error}"))?;
    match response.status() {
        StatusCode::OK => Ok(response.into_body()),
        status => Err(format!("{url}: status {}, expected 200", status.as_u16())),
    }
}
