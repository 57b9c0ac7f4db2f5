//! `GET /gateway/openapi.json`: the description of the gateway's own API.

use super::response;
use super::response_body::Body;
use hyper::{Response, StatusCode};

/// An `OpenAPI` 3.1 document. Tests compare it with the table of endpoints and with responses.
pub(super) const DOCUMENT: &str = include_str!("../../docs/reference/openapi.json");

pub(super) fn document() -> Response<Body> {
    response::json(StatusCode::OK, DOCUMENT)
}
