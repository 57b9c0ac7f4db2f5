//! Maps errors of reading the audit log to responses, and makes the response that has all of it.

use super::{Body, busy, coded, content, history, set};
use crate::http::audit_error::AuditLogError;
use crate::http::error::Error;
use crate::http::file_body::Reading;
use bytes::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_DISPOSITION};
use hyper::{Response, StatusCode};

/// The log as it stands, for a file: one JSON object a line.
pub(in crate::http) fn log(reading: Reading) -> Response<Body> {
    let mut response = content(StatusCode::OK, "application/x-ndjson", Bytes::new());
    set(
        &mut response,
        CONTENT_DISPOSITION,
        "attachment; filename=\"audit.ndjson\"",
    );
    set(&mut response, CACHE_CONTROL, "no-store");
    *response.body_mut() = Body::Log(Box::new(reading));
    response
}

pub(super) fn error(whole: &Error, error: &AuditLogError) -> Response<Body> {
    match error {
        AuditLogError::Elsewhere => coded(StatusCode::NOT_FOUND, "not_found", &error.to_string()),
        AuditLogError::Busy => busy(whole, "audit_busy"),
        AuditLogError::Read(_) => history::storage_failed(),
    }
}
