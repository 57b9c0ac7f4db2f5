//! Responses with content that the client may have already: what has an entity tag, and the
//! editor's files.

use super::{Body, empty, with};
#[cfg(feature = "engine")]
use super::{EDITOR_POLICY, content, json, set};
#[cfg(feature = "engine")]
use crate::editor::{File, FilePermit};
use crate::http::entity_tag;
#[cfg(feature = "engine")]
use crate::http::file_body::Reading;
#[cfg(feature = "engine")]
use bytes::Bytes;
#[cfg(feature = "engine")]
use hyper::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, IF_MODIFIED_SINCE, LAST_MODIFIED};
use hyper::header::{ETAG, HeaderMap};
use hyper::{Response, StatusCode};
#[cfg(feature = "engine")]
use tokio::runtime::Handle;

/// A file, unless the client has it as it is (RFC 9110 §13.2.2). Browsers ask each time whether it
/// has changed.
#[cfg(feature = "engine")]
pub(in crate::http) fn file(
    asked: &HeaderMap,
    file: File,
    control: &Handle,
    place: FilePermit,
) -> Response<Body> {
    let has_it = is_known(asked, &file);
    let mut response = if has_it {
        empty(StatusCode::NOT_MODIFIED)
    } else {
        content(StatusCode::OK, file.kind, Bytes::new())
    };
    response = with(response, ETAG, &file.tag);
    response = with(response, LAST_MODIFIED, &file.modified);
    set(&mut response, CACHE_CONTROL, "public, max-age=0");
    set(&mut response, CONTENT_SECURITY_POLICY, EDITOR_POLICY);
    if !has_it {
        let reading = Reading::file(file.content, file.size, control.clone(), place.into());
        *response.body_mut() = Body::Editor(Box::new(reading));
    }
    response
}

/// The editor's words.
#[cfg(feature = "engine")]
pub(in crate::http) fn words(words: String, place: FilePermit) -> Response<Body> {
    let mut response = json(StatusCode::OK, Bytes::new());
    *response.body_mut() = Body::Editor(Box::new(Reading::text(words.into(), place.into())));
    response
}

/// Returns whether the client has the file: by its tag, else by its date, which it got from us.
#[cfg(feature = "engine")]
fn is_known(asked: &HeaderMap, file: &File) -> bool {
    entity_tag::is_known(asked, &file.tag).unwrap_or_else(|| {
        let since = asked.get(IF_MODIFIED_SINCE);
        since.is_some_and(|since| since.as_bytes() == file.modified.as_bytes())
    })
}

/// What has this entity tag, unless the client has it.
pub(in crate::http) fn tagged(
    asked: &HeaderMap,
    tag: &str,
    content: impl FnOnce() -> Response<Body>,
) -> Response<Body> {
    let response = match entity_tag::is_known(asked, tag) {
        Some(true) => empty(StatusCode::NOT_MODIFIED),
        Some(false) | None => content(),
    };
    with(response, ETAG, tag)
}
