//! Maps errors of the history, and of the store that has it, to responses.

use super::{Body, coded};
use crate::http::history_error::HistoryError;
use hyper::{Response, StatusCode};

pub(super) fn storage_failed() -> Response<Body> {
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    coded(status, "storage_failed", "the storage failed")
}

pub(super) fn response(error: &HistoryError) -> Response<Body> {
    let (status, code) = match error {
        HistoryError::NoSuchRevision | HistoryError::NoSuchTag => {
            (StatusCode::NOT_FOUND, "not_found")
        }
        HistoryError::TagName => (StatusCode::BAD_REQUEST, "invalid_request"),
        HistoryError::TooManyTags => (StatusCode::CONFLICT, "too_many_tags"),
    };
    coded(status, code, &error.to_string())
}
