//! The refusal of an editor's change: the sentence alone, because the stock editor shows its user
//! the body as it is, as HTML.

use super::{Body, content, refusal};
use crate::http::error::Error;
use hyper::{Response, StatusCode};

/// The status is that of the error; a change that waits for approval is refused, because an editor
/// takes every success for a deployment.
pub(super) fn response(error: &Error) -> Response<Body> {
    let status = match refusal(error).status() {
        status if status.is_success() => StatusCode::FORBIDDEN,
        status => status,
    };
    let sentence = error.to_string();
    let sentence = sentence.replace('&', "&amp;").replace('<', "&lt;");
    content(status, "text/plain; charset=utf-8", sentence.into())
}
